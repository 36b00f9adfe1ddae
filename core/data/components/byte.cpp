// byte: one token a byte, 256 of them. Decoding gives back exactly the bytes that were encoded.
#include "core/data/dataset.h"

namespace moelab {
namespace {

class Byte final : public Tokenizer {
 public:
  struct Params {
    void describe(ParamVisitor&) {}
  };
  Byte(const Params&, const Context&) {}

  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) tokens[i] = static_cast<unsigned char>(text[i]);
    return tokens;
  }
  std::string decode(const std::vector<std::int32_t>& tokens) const override {
    std::string text;
    text.reserve(tokens.size());
    for (const std::int32_t token : tokens) text += static_cast<char>(token);
    return text;
  }
  std::int64_t vocabulary() const override { return 256; }
};

const Register<Tokenizer, Byte> registered{"byte", "one token a byte; vocabulary 256"};

}  // namespace
}  // namespace moelab
