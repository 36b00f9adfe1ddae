// Figures of another program beside our own, from a file of JSON lines. One line is one
// measurement:
//   a layer   {"shape": "C2", "routing": "uniform", "dtype": "f32", "way": "grouped_mm",
//              "pass": "fwd+bwd", "ms_median": 230.2, "threads": 2}
//   an op     {"op": "linear", "pass": "forward", "dtype": "f32", "way": "mm", "ms_median": 1.2}
//   training  {"summary": "plain_loop", "dtype": "f32", "ms_median": 812.0, "threads": 2}
// "shape" beside "op" names the shape of `bench ops`. Further keys are ignored, and so are lines of
// another kind, lines with "failed", "skipped" or "wrong", and ways called roof_… (a limit is no
// rival). Several lines of one way are several rounds: their median counts.
#pragma once
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace moelab {

struct PeerWork {    // what is compared; empty parts are compared as well
  std::string kind;  // "layer", "op" or "train"
  std::string name;  // shape or op
  std::string routing, shape, dtype, pass;
  bool operator==(const PeerWork&) const = default;
};

struct PeerFigure {
  std::string way;
  double ms = 0;
};

class PeerFigures {
 public:
  // Of the file at `path`; "": none. Throws Error(data) for a file that cannot be read, is not JSON
  // lines, or has no figure of `kind`.
  PeerFigures(const std::string& path, const std::string& kind);

  bool given() const { return given_; }
  // The fastest way measured on `threads` threads, or on a number that the file does not tell.
  std::optional<PeerFigure> best(const PeerWork& work, int threads) const;

 private:
  struct Line {
    PeerWork work;
    PeerFigure figure;
    int threads = 0;  // 0: not told
  };
  bool given_ = false;
  std::vector<Line> lines_;
};

// The end of a JSON line and of a table's line about `best`; ms is ours. Nothing where no file was
// given.
void print_peer_json(std::ostream& out, const PeerFigures& peers,
                     const std::optional<PeerFigure>& best, double ms);
void print_peer_columns(std::ostream& out, const PeerFigures& peers,
                        const std::optional<PeerFigure>& best, double ms);
constexpr const char* kPeerColumns = "  other ms  ratio  way";

}  // namespace moelab
