// The two kinds of JSON that checkpoints contain, as plain data; json.cpp is the only file here
// that sees the JSON library. Text that is not such JSON throws Error(checkpoint) naming the
// reason.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace moelab {

struct SafetensorsHeader {
  struct Entry {
    std::string name, dtype;
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0, end = 0;  // bytes within the data
  };
  std::vector<Entry> entries;  // in the header's order
  std::map<std::string, std::string> metadata;
};
SafetensorsHeader parse_safetensors_header(std::string_view text);
std::string safetensors_header_text(const SafetensorsHeader& header);

using StringTable = std::map<std::string, std::string>;
StringTable parse_string_table(std::string_view text);  // {"key": "value", …}
// The "weight_map" of a Hugging Face index: tensor name → file name.
StringTable parse_weight_map(std::string_view text);
std::string string_table_text(const StringTable& table);

}  // namespace moelab
