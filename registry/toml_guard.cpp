// Looks at recipe text before toml++ does: version 3.3.0 overflows the stack on deep dotted keys.
// The scan knows strings and comments, so that dots and brackets inside them count for nothing.
#include <algorithm>

#include "registry/toml_reader.h"

namespace moelab {
namespace {

unsigned char byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

// Length of the well-formed UTF-8 character at `at`, 0 if there is none (RFC 3629: no overlong
// forms, no surrogates, nothing above U+10FFFF).
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const unsigned char lead = byte_at(text, at);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || at + length > text.size()) return 0;
  unsigned code = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    const unsigned char next = byte_at(text, at + i);
    if ((next & 0xC0) != 0x80) return 0;
    code = code << 6 | (next & 0x3FU);
  }
  const unsigned least = length == 4 ? 0x10000 : length == 3 ? 0x800 : 0x80;
  return code < least || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000) ? 0 : length;
}

std::size_t first_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

// The offset just behind the string that opens at `at`.
std::size_t skip_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string three(3, quote);
  const bool multiline = text.substr(at).starts_with(three);
  at += multiline ? 3 : 1;
  while (at < text.size()) {
    if (quote == '"' && text[at] == '\\') {
      at += 2;
    } else if (multiline && text.substr(at).starts_with(three)) {
      at += 3;  // up to two more quotes belong to the text: """a"""""
      for (int more = 0; more < 2 && at < text.size() && text[at] == quote; ++more) ++at;
      return at;
    } else if (!multiline && (text[at] == quote || text[at] == '\n')) {
      return at + 1;
    } else {
      ++at;
    }
  }
  return text.size();
}

std::optional<GuardFinding> too_deep(std::string_view text) {
  int depth = 0, dots = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size()) - 1;
    } else if (c == '"' || c == '\'') {
      at = skip_string(text, at) - 1;
    } else if (c == '[' || c == '{') {
      dots = 0;
      if (++depth > kMaxRecipeDepth)
        return GuardFinding{at, str("brackets are nested more than ", kMaxRecipeDepth,
                                    " deep; recipes need 3 at most")};
    } else if (c == ']' || c == '}') {
      dots = 0;
      depth = std::max(0, depth - 1);
    } else if (c == '=' || c == ',' || c == '\n') {
      dots = 0;
    } else if (c == '.' && ++dots > kMaxRecipeDepth) {
      return GuardFinding{
          at, str("a key has more than ", kMaxRecipeDepth, " dots; recipes need 4 at most")};
    }
  }
  return {};
}

}  // namespace

bool valid_utf8(std::string_view text) {
  return first_invalid_utf8(text) == std::string_view::npos;
}

std::optional<GuardFinding> guard_toml(std::string_view text) {
  if (text.size() > kMaxRecipeBytes)
    return GuardFinding{0, str("a recipe may have ", kMaxRecipeBytes, " bytes at most")};
  if (const std::size_t at = text.find('\0'); at != std::string_view::npos)
    return GuardFinding{at, "a NUL byte; is this a text file?"};
  if (const std::size_t at = first_invalid_utf8(text); at != std::string_view::npos)
    return GuardFinding{at, "not valid UTF-8; save the recipe as UTF-8"};
  return too_deep(text);
}

}  // namespace moelab
