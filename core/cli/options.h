// What a verb accepts, said once: parsing, --help and "did you mean" follow from the same table.
// options.cpp is the only file that sees Boost.Program_options.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moelab {

struct Option {
  std::string name;   // "out" for --out
  std::string value;  // placeholder of its value, "DIR"; empty: a flag
  std::string doc;
  bool repeated = false;
};

struct Positional {
  std::string name;  // "RECIPE"
  std::string doc;
  bool required = true;
  std::vector<std::string> words = {};  // the only ones it may be; empty: any
};

// What the user gave. Values convert on request; one that does not convert is Error(usage) naming
// option, value and what is wanted.
class Arguments {
 public:
  bool has(std::string_view option) const;
  std::string text(std::string_view option, const std::string& fallback = {}) const;
  std::vector<std::string> texts(std::string_view option) const;
  std::int64_t integer(std::string_view option, std::int64_t fallback, std::int64_t least) const;
  double real(std::string_view option, double fallback) const;
  // "" when an optional one was not given.
  const std::string& positional(std::size_t i) const;
  std::size_t positionals() const { return positionals_.size(); }

 private:
  friend class OptionTable;
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::string> positionals_;
};

struct Streams {  // where a verb writes: results to out, progress and warnings to err
  std::ostream& out;
  std::ostream& err;
};

struct Verb {
  std::string name, summary;
  std::vector<Positional> positionals;
  std::vector<Option> options;
  std::string notes;  // printed at the end of its help: examples, units
  int (*run)(const Arguments&, const Streams&) = nullptr;  // the exit code
};

// Throws Error(usage): unknown option (with the nearest one), missing or empty value, missing or
// surplus positional, a positional that is none of its words. No value is ever "".
Arguments parse_arguments(const Verb& verb, const std::vector<std::string>& words);
bool wants_help(const std::vector<std::string>& words);  // --help or -h before any "--"
std::string help_of(const Verb& verb);

// The verbs, each registered by the last line of its own file, by name.
const std::map<std::string, Verb, std::less<>>& verbs();
struct RegisterVerb {
  explicit RegisterVerb(Verb verb);
};

// The table of exit codes as text, one line each; also in docs/exit_codes.md.
std::string exit_code_table();

}  // namespace moelab
