// A recipe as plain data: tables, arrays and scalars, each with the place it came from. The TOML
// parser produces it (registry/toml_reader.cpp is the only file that sees toml++); `--set` and
// `base =` produce it too, so that every later step treats all origins alike.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace moelab {

struct Source {
  enum class Origin : std::uint8_t {
    fallback,
    base,
    recipe,
    set
  };  // printed: default base recipe --set
  Origin origin = Origin::fallback;
  std::string file;  // path as the user gave it; "--set" for command-line values
  int line = 0, column = 0;
  std::string place() const;  // "tiny.toml:4:1", "--set train.steps"
};

struct Node {
  using Array = std::vector<Node>;
  using Table = std::map<std::string, Node, std::less<>>;
  std::variant<bool, std::int64_t, double, std::string, Array, Table> value;
  Source source;      // of the value
  Source key_source;  // of the key; equals source for array elements

  const Table* table() const { return std::get_if<Table>(&value); }
  Table* table() { return std::get_if<Table>(&value); }
  const Node* find(std::string_view key) const;  // null if not a table or no such key
  std::string_view kind() const;  // "a table", "a string", "an integer", … for messages
  std::string text() const;       // the value as TOML would write it, on one line
};

std::string toml_string(std::string_view text);  // quoted and escaped
std::string toml_real(double value);             // reads back as exactly this float
bool is_bare_key(std::string_view key);          // letters, digits, '_' and '-', at least one
// Lays `over` on `under`: tables merge, everything else is replaced. A component named by a plain
// string becomes a table when a table is laid on it; its name then stands under kNameKey.
void merge(Node& under, Node over);
inline constexpr std::string_view kNameKey = "";

}  // namespace moelab
