#include "registry/node.h"

#include <array>
#include <cstdio>
#include <utility>

#include "registry/text.h"

namespace moelab {

std::string Source::place() const { return line > 0 ? str(file, ":", line, ":", column) : file; }

const Node* Node::find(std::string_view key) const {
  const Table* entries = table();
  if (!entries) return nullptr;
  const auto at = entries->find(key);
  return at == entries->end() ? nullptr : &at->second;
}

std::string_view Node::kind() const {
  static constexpr std::array<std::string_view, 6> kKinds{
      "a boolean", "an integer", "a real number", "a string", "an array", "a table"};
  return kKinds[value.index()];
}

bool is_bare_key(std::string_view key) {
  if (key.empty()) return false;
  for (const char c : key) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter && !(c >= '0' && c <= '9') && c != '_' && c != '-') return false;
  }
  return true;
}

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(c));
      out += code.data();
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string toml_real(double value) {
  std::string text = exact(value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

namespace {

struct Writer {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return toml_real(value); }
  std::string operator()(const std::string& value) const { return toml_string(value); }
  std::string operator()(const Node::Array& value) const {
    std::string out = "[";
    for (const Node& item : value) out += (out.size() > 1 ? ", " : "") + item.text();
    return out + "]";
  }
  std::string operator()(const Node::Table& value) const {
    std::string out = "{";
    for (const auto& [key, item] : value)
      out += (out.size() > 1 ? ", " : "") + (is_bare_key(key) ? key : toml_string(key)) + " = " +
             item.text();
    return out + "}";
  }
};

}  // namespace

std::string Node::text() const { return std::visit(Writer{}, value); }

void merge(Node& under, Node over) {
  Node::Table* added = over.table();
  if (added && std::holds_alternative<std::string>(under.value)) {
    Node named = under;
    under.value = Node::Table{};
    under.table()->emplace(kNameKey, std::move(named));
  }
  Node::Table* kept = under.table();
  if (!added || !kept) {
    under = std::move(over);
    return;
  }
  if (over.source.line > 0) {  // --set has no place in a file; a table keeps the one it has
    under.source = over.source;
    under.key_source = over.key_source;
  }
  for (auto& [key, value] : *added) {
    const auto at = kept->find(key);
    if (at == kept->end())
      kept->emplace(key, std::move(value));
    else
      merge(at->second, std::move(value));
  }
}

}  // namespace moelab
