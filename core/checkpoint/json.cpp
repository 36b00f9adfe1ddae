#include "core/checkpoint/json.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "registry/error.h"
#include "registry/text.h"

namespace moelab {
namespace {

using Json = nlohmann::json;
constexpr int kDeepest = 4;  // header → entry → list → number

[[noreturn]] void fail(const std::string& reason) { throw Error(ExitCode::checkpoint, reason); }

// Parses an object, refusing depth and duplicate names that the library would accept.
Json parse_object(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  const auto watch = [&keys](int depth, Json::parse_event_t event, Json& value) {
    if (depth > kDeepest) fail("nested too deeply");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key &&
        !keys.back().insert(value.get_ref<const std::string&>()).second)
      fail(str("the name '", value.get_ref<const std::string&>(), "' stands twice"));
    return true;
  };
  try {
    Json parsed = Json::parse(text, watch);
    if (!parsed.is_object()) fail("not a JSON object");
    return parsed;
  } catch (const Json::exception& problem) {
    fail(str("not JSON: ", problem.what()));
  }
}

StringTable strings_of(const Json& object, const char* what) {
  if (!object.is_object()) fail(str(what, " is not an object of strings"));
  StringTable table;
  for (const auto& [key, value] : object.items()) {
    if (!value.is_string()) fail(str(what, " '", key, "' is not a string"));
    table[key] = value.get<std::string>();
  }
  return table;
}

std::uint64_t whole_number(const Json& value, const std::string& where) {
  if (!value.is_number_unsigned() ||
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
    fail(str(where, " has a size or offset that is not a whole number"));
  return value.get<std::uint64_t>();
}

SafetensorsHeader::Entry entry_of(const std::string& name, const Json& value) {
  const std::string where = str("tensor '", name, "'");
  const auto part = [&](const char* key, bool fits) -> const Json& {
    if (!fits || !value.contains(key)) fail(str(where, " has no ", key));
    return value[key];
  };
  const Json& dtype = part("dtype", value.is_object());
  const Json& shape = part("shape", true);
  const Json& offsets = part("data_offsets", true);
  if (!dtype.is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2)
    fail(str(where, " has a dtype, shape or data_offsets of the wrong kind"));
  SafetensorsHeader::Entry entry;
  entry.name = name;
  entry.dtype = dtype.get<std::string>();
  for (const Json& size : shape)
    entry.shape.push_back(static_cast<std::int64_t>(whole_number(size, where)));
  entry.begin = whole_number(offsets[0], where);
  entry.end = whole_number(offsets[1], where);
  return entry;
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text) {
  const Json parsed = parse_object(text);
  SafetensorsHeader header;
  for (const auto& [name, value] : parsed.items()) {
    if (name == "__metadata__")
      header.metadata = strings_of(value, "__metadata__");
    else
      header.entries.push_back(entry_of(name, value));
  }
  return header;
}

std::string safetensors_header_text(const SafetensorsHeader& header) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) out["__metadata__"] = header.metadata;
  for (const auto& entry : header.entries)
    out[entry.name] = {
        {"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
  return out.dump();
}

StringTable parse_string_table(std::string_view text) {
  return strings_of(parse_object(text), "entry");
}

StringTable parse_weight_map(std::string_view text) {
  const Json index = parse_object(text);
  if (!index.contains("weight_map")) fail("no weight_map");
  return strings_of(index["weight_map"], "weight_map");
}

std::string string_table_text(const StringTable& table) { return Json(table).dump(2) + "\n"; }

}  // namespace moelab
