// text: all bytes of a file or a folder as one stream, cut into windows of L tokens. The last part
// is held out. Held-out rows lie end to end, or overlap so that every row after the first has
// L − heldout_stride tokens of context before the ones it scores; every held-out token is scored
// exactly once. The first held-out token has the last training token as its context.
#include <algorithm>

#include "core/data/dataset.h"
#include "core/data/files.h"
#include "core/data/rows.h"
#include "core/data/windows.h"

namespace moelab {
namespace {

class Text final : public Dataset {
 public:
  struct Params {
    std::string path;
    double heldout_fraction = 0.05;
    Order order = Order::shuffled;
    std::int64_t heldout_stride = 0;

    void describe(ParamVisitor& v) {
      v("path", path,
        "text file, or folder whose files are read in the order of their paths; relative to the "
        "current folder");
      v("heldout_fraction", heldout_fraction, "the last part of the bytes, never trained on",
        from_below(0, 1));
      v("order", order,
        "shuffled: every window once an epoch, in a random order; sequential: row b of step s "
        "starts at ((s*batch + b)*length) mod (size - length - 1)");
      v("heldout_stride", heldout_stride,
        "tokens a held-out row scores, after length - stride tokens of context; 0: all of them",
        at_least(0));
    }
    Traits traits() const { return {.heldout = heldout_fraction > 0}; }
    void check(const Facts& facts, Checker& c) const {
      if (path.empty()) c.error("path", "is empty; name a text file or a folder of text files");
      if (heldout_stride > facts.length)
        c.error("heldout_stride", "is more than data.sequence_length = ", facts.length,
                "; lower it, or leave it 0");
    }
  };

  Text(const Params& params, const Context& context)
      : order_{params.order, context.seed, context.batch},
        length_(context.length),
        stride_(params.heldout_stride > 0 ? params.heldout_stride : context.length) {
    const std::vector<TextFile> files = read_text_files(params.path);
    files_ = describe_files(files);
    for (const TextFile& file : files) text_ += file.bytes;
    cut_ = text_.size() -
           static_cast<std::size_t>(static_cast<double>(text_.size()) * params.heldout_fraction);
    train_ = context.tokenizer->encode(view(Split::train));
    heldout_ = context.tokenizer->encode(view(Split::heldout));
    if (tokens(Split::train) < length_ + 2)
      throw Error(ExitCode::data, str("data '", params.path, "' is too short: ", train_.size(),
                                      " training tokens, but rows of data.sequence_length = ",
                                      length_, " need ", length_ + 2,
                                      "; give more text, lower data.sequence_length or "
                                      "data.dataset.heldout_fraction"));
    fingerprint_ = fingerprint_of(files) ^ cut_ * 0x9E3779B97F4A7C15ULL ^
                   static_cast<std::uint64_t>(params.order);
  }

  Row train_row(std::int64_t step, std::int64_t row) const override {
    const std::int64_t start = order_.window(step, row, length_, tokens(Split::train));
    Row out = padding_row(length_);
    for (std::int64_t i = 0; i < length_; ++i)
      put(out, i,
          {train_[index(start + i)], train_[index(start + i + 1)], static_cast<std::int32_t>(i)});
    return out;
  }

  std::int64_t epoch_rows() const override { return order_.windows(length_, tokens(Split::train)); }

  std::int64_t heldout_rows() const override {
    const std::int64_t n = tokens(Split::heldout);
    if (n <= length_) return n > 0 ? 1 : 0;
    return 1 + (n - length_ + stride_ - 1) / stride_;
  }

  Row heldout_row(std::int64_t row) const override {
    const std::int64_t start = row * stride_;
    const std::int64_t n = std::min(length_, tokens(Split::heldout) - start);
    const std::int64_t scored_from = row == 0 ? 0 : length_ - stride_;
    Row out = padding_row(length_);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t at = start + i;
      put(out, i,
          {at == 0 ? train_.back() : heldout_[index(at - 1)],
           i < scored_from ? -1 : heldout_[index(at)], static_cast<std::int32_t>(i)});
    }
    return out;
  }

  std::int64_t tokens(Split split) const override {
    return static_cast<std::int64_t>((split == Split::train ? train_ : heldout_).size());
  }
  std::int64_t bytes(Split split) const override {
    return static_cast<std::int64_t>(view(split).size());
  }
  std::string raw(Split split) const override { return std::string(view(split)); }
  std::string describe() const override { return files_; }
  std::uint64_t fingerprint() const override { return fingerprint_; }

 private:
  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

  std::string_view view(Split split) const {
    const std::string_view all = text_;
    return split == Split::train ? all.substr(0, cut_) : all.substr(cut_);
  }

  RowOrder order_;
  std::int64_t length_, stride_;
  std::string files_, text_;
  std::size_t cut_ = 0;  // first held-out byte
  std::vector<std::int32_t> train_, heldout_;
  std::uint64_t fingerprint_ = 0;
};

const Register<Dataset, Text> registered{
    "text", "a file or a folder as one stream of tokens, cut into windows"};

}  // namespace
}  // namespace moelab
