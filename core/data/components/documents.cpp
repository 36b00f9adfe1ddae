// documents: text as documents that know nothing of each other. Every document is predicted from
// its first token on: a newline stands before it as its only context, so that loss, attention and
// positions never cross into another document and every held-out token is scored exactly once.
//   pack: documents one after another; a row is a window over them, with document ids (0, 1, … in
//         the row) and positions that start again at each document.
//   pad:  a row holds one document, padded; one longer than L goes on in further rows.
#include <algorithm>

#include "core/data/dataset.h"
#include "core/data/files.h"
#include "core/data/rows.h"
#include "core/data/windows.h"

namespace moelab {

enum class DocumentMode : std::uint8_t { pack, pad };
template <>
struct EnumNames<DocumentMode> {
  static constexpr std::array<std::pair<std::string_view, DocumentMode>, 2> value{
      {{"pack", DocumentMode::pack}, {"pad", DocumentMode::pad}}};
};

namespace {

using Tokens = std::vector<std::int32_t>;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

// The documents of a split. Pair i of the stream is (the token before token i in its document, or
// the newline; token i).
struct Stream {
  std::string bytes;
  Tokens tokens;                    // of all documents, one after another
  std::vector<std::int64_t> start;  // first token of each document, then their number
  struct Piece {                    // what a row shows in mode pad
    std::int64_t begin, end;
  };
  std::vector<Piece> pieces;

  std::int64_t size() const { return static_cast<std::int64_t>(tokens.size()); }

  void add(std::string_view document, const Tokenizer& tokenizer, std::int64_t length) {
    const Tokens more = tokenizer.encode(document);
    if (start.empty()) start.push_back(0);
    for (std::int64_t at = 0, n = static_cast<std::int64_t>(more.size()); at < n; at += length)
      pieces.push_back({size() + at, size() + std::min(n, at + length)});
    bytes += document;
    tokens.insert(tokens.end(), more.begin(), more.end());
    start.push_back(size());
  }

  // Pairs [begin, end) as a row; the rest is padding.
  Row row(std::int64_t begin, std::int64_t end, std::int64_t length, std::int32_t newline) const {
    Row out = padding_row(length);
    auto document = std::upper_bound(start.begin(), start.end(), begin) - 1;
    const auto first = document;
    for (std::int64_t at = begin; at < end; ++at) {
      if (at == *(document + 1)) ++document;
      put(out, at - begin,
          {at == *document ? newline : tokens[index(at - 1)], tokens[index(at)],
           static_cast<std::int32_t>(at - std::max(*document, begin)),
           static_cast<std::int32_t>(document - first)});
    }
    return out;
  }
};

// Cuts after each separator, which stays with the document before it: nothing of the text is lost.
std::vector<std::string> split_documents(const std::vector<TextFile>& files,
                                         const std::string& separator) {
  std::vector<std::string> documents;
  for (const TextFile& file : files) {
    std::size_t at = 0;
    while (at < file.bytes.size()) {
      const std::size_t found =
          separator.empty() ? std::string::npos : file.bytes.find(separator, at);
      std::size_t end = found == std::string::npos ? file.bytes.size() : found + separator.size();
      while (found != std::string::npos &&
             file.bytes.compare(end, separator.size(), separator) == 0)
        end += separator.size();  // one gap, however long
      documents.push_back(file.bytes.substr(at, end - at));
      at = end;
    }
  }
  return documents;
}

class Documents final : public Dataset {
 public:
  struct Params {
    std::string path, separator;
    DocumentMode mode = DocumentMode::pack;
    double heldout_fraction = 0.05;
    Order order = Order::shuffled;

    void describe(ParamVisitor& v) {
      v("path", path,
        "text file, or folder whose files are read in the order of their paths; relative to the "
        "current folder");
      v("separator", separator,
        "what ends a document inside a file, e.g. \"\\n\\n\" for blank lines; empty: each file is "
        "one document");
      v("mode", mode, "pack: several documents a row; pad: one document a row, padded");
      v("heldout_fraction", heldout_fraction,
        "the last documents with at least this part of the bytes, never trained on",
        from_below(0, 1));
      v("order", order, "shuffled: every window or document once an epoch; sequential: in order");
    }
    Traits traits() const { return {.heldout = heldout_fraction > 0}; }
    void check(const Facts&, Checker& c) const {
      if (path.empty()) c.error("path", "is empty; name a text file or a folder of text files");
    }
  };

  Documents(const Params& params, const Context& context)
      : order_{params.order, context.seed, context.batch},
        mode_(params.mode),
        length_(context.length),
        newline_(context.tokenizer->encode("\n").back()) {
    const std::vector<TextFile> files = read_text_files(params.path);
    const std::vector<std::string> documents = split_documents(files, params.separator);
    const std::size_t cut = first_heldout(documents, params.heldout_fraction);
    for (std::size_t i = 0; i < documents.size(); ++i)
      (i < cut ? train_ : heldout_).add(documents[i], *context.tokenizer, length_);
    if (mode_ == DocumentMode::pack && train_.size() < length_ + 1)
      throw Error(ExitCode::data, str("data '", params.path, "' is too short: ", train_.size(),
                                      " training tokens, but rows of data.sequence_length = ",
                                      length_, " need ", length_ + 1,
                                      "; give more text, lower data.sequence_length, or use mode = "
                                      "\"pad\""));
    files_ = str(describe_files(files), documents.size(), " documents, ", documents.size() - cut,
                 " of them held out\n");
    fingerprint_ = fingerprint_of(files) ^ (cut * 4 + static_cast<std::uint64_t>(params.order) * 2 +
                                            static_cast<std::uint64_t>(mode_)) *
                                               0x9E3779B97F4A7C15ULL;
  }

  Row train_row(std::int64_t step, std::int64_t row) const override {
    if (mode_ == DocumentMode::pack) {
      const std::int64_t start = order_.window(step, row, length_, train_.size() + 1);
      return train_.row(start, start + length_, length_, newline_);
    }
    return padded(train_, order_.item(step, row, static_cast<std::int64_t>(train_.pieces.size())));
  }
  std::int64_t epoch_rows() const override {
    return mode_ == DocumentMode::pack ? order_.windows(length_, train_.size() + 1)
                                       : static_cast<std::int64_t>(train_.pieces.size());
  }
  std::int64_t heldout_rows() const override {
    return mode_ == DocumentMode::pack ? (heldout_.size() + length_ - 1) / length_
                                       : static_cast<std::int64_t>(heldout_.pieces.size());
  }
  Row heldout_row(std::int64_t row) const override {
    if (mode_ == DocumentMode::pad) return padded(heldout_, row);
    const std::int64_t start = row * length_;
    return heldout_.row(start, std::min(start + length_, heldout_.size()), length_, newline_);
  }
  std::int64_t tokens(Split split) const override { return stream(split).size(); }
  std::int64_t bytes(Split split) const override {
    return static_cast<std::int64_t>(stream(split).bytes.size());
  }
  std::string raw(Split split) const override { return stream(split).bytes; }
  std::string describe() const override { return files_; }
  std::uint64_t fingerprint() const override { return fingerprint_; }

 private:
  static std::size_t first_heldout(const std::vector<std::string>& documents, double fraction) {
    double total = 0, last = 0;
    for (const std::string& document : documents) total += static_cast<double>(document.size());
    std::size_t cut = documents.size();
    while (last < fraction * total) last += static_cast<double>(documents[--cut].size());
    if (cut == 0)
      throw Error(ExitCode::data,
                  str("all ", documents.size(),
                      " documents would be held out; give more documents "
                      "(data.dataset.separator), or lower data.dataset.heldout_fraction"));
    return cut;
  }
  const Stream& stream(Split split) const { return split == Split::train ? train_ : heldout_; }
  Row padded(const Stream& stream, std::int64_t item) const {
    const Stream::Piece& piece = stream.pieces[index(item)];
    return stream.row(piece.begin, piece.end, length_, newline_);
  }

  RowOrder order_;
  DocumentMode mode_;
  std::int64_t length_;
  std::int32_t newline_;
  Stream train_, heldout_;
  std::string files_;
  std::uint64_t fingerprint_ = 0;
};

const Register<Dataset, Documents> registered{
    "documents", "files or separated parts as documents that do not see each other"};

}  // namespace
}  // namespace moelab
