#include "tests/support/golden.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/checkpoint/safetensors.h"

namespace moelab::test {
namespace {

using Json = nlohmann::json;

GoldenTensor read_tensor(const SafetensorsReader& data, const std::string& key,
                         const Backend& backend) {
  const SafetensorsReader::Entry& entry = data.entries().at(key);
  GoldenTensor out{entry.shape, {}};
  if (entry.dtype == "F32" || entry.dtype == "F64") {  // of any number of axes
    const Tensor flat = backend.empty(DType::f64, {entry.numel()});
    data.read_elements(key, 0, flat);
    out.values.assign(flat.data<double>(), flat.data<double>() + flat.numel());
    return out;
  }
  const Tensor t = data.read(key, backend);
  const auto copy = [&](auto zero) {
    for (const auto value : t.span<decltype(zero)>())
      out.values.push_back(static_cast<double>(value));
  };
  switch (t.dtype()) {
    case DType::i32:
      copy(std::int32_t{});
      break;
    case DType::i64:
      copy(std::int64_t{});
      break;
    case DType::u8:
      copy(std::uint8_t{});
      break;
    default:
      MOELAB_CHECK(false, "golden data of ", name_of(t.dtype()));
  }
  return out;
}

std::string plain(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// Members of objects get the names "outer.inner"; the objects' own names go to `nested`.
void flatten(const Json& object, const std::string& prefix,
             std::map<std::string, std::string>& params, std::set<std::string>& nested) {
  for (const auto& [key, value] : object.items()) {
    const std::string name = prefix + key;
    params[name] = plain(value);
    if (!value.is_object()) continue;
    nested.insert(name);
    flatten(value, name + ".", params, nested);
  }
}

bool fits(const std::string& pattern, const std::string& name) {
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return pattern == name;
}

}  // namespace

void GoldenCase::Seen::insert(const std::string& tensor) {
  const std::lock_guard lock(mutex_);
  names_.insert(tensor);
}

bool GoldenCase::Seen::contains(const std::string& tensor) const {
  const std::lock_guard lock(mutex_);
  return names_.contains(tensor);
}

const std::string* GoldenCase::find(const std::string& param) const {
  seen_->insert(scope_ + param);
  const auto at = params_.find(scope_ + param);
  return at == params_.end() ? nullptr : &at->second;
}

bool GoldenCase::given(const std::string& param) const {
  const std::string* value = find(param);
  return value != nullptr && *value != "null";
}

const std::string& GoldenCase::text(const std::string& param) const {
  const std::string* value = find(param);
  if (value == nullptr) throw std::runtime_error("has no param " + scope_ + param);
  return *value;
}

bool GoldenCase::flag(const std::string& param) const {
  const std::string& value = text(param);
  if (value != "true" && value != "false")
    throw std::runtime_error("param " + scope_ + param + " is no flag: " + value);
  return value == "true";
}

double GoldenCase::number(const std::string& param) const {
  const std::string& value = text(param);
  std::size_t end = 0;
  double out = 0;
  try {
    out = std::stod(value, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  if (end == 0 || end != value.size())
    throw std::runtime_error("param " + scope_ + param + " is no number: " + value);
  return out;
}

Index GoldenCase::integer(const std::string& param) const {
  const double value = number(param);
  if (value != std::floor(value))
    throw std::runtime_error("param " + scope_ + param + " is no integer: " + text(param));
  return static_cast<Index>(value);
}

std::vector<std::string> GoldenCase::list(const std::string& param) const {
  const std::string& value = text(param);
  if (!value.starts_with('[')) return {value};
  std::vector<std::string> out;
  for (const Json& item : Json::parse(value)) out.push_back(plain(item));
  return out;
}

GoldenCase GoldenCase::object(const std::string& param) const {
  if (!nested_.contains(scope_ + param))
    throw std::runtime_error("param " + scope_ + param + " is no object");
  GoldenCase out = *this;
  out.scope_ = scope_ + param + ".";
  return out;
}

const GoldenTensor& GoldenCase::tensor(const std::string& key) const {
  const auto at = tensors_.find(key);
  if (at == tensors_.end()) throw std::runtime_error("has no tensor " + key);
  seen_->insert("tensor " + key);
  return at->second;
}

void GoldenCase::ignore(const std::vector<std::string>& names) const {
  for (const std::string& pattern : names) {
    for (const auto& [key, value] : params_)
      if (fits(scope_ + pattern, key)) seen_->insert(key);
    for (const auto& [key, value] : tensors_)
      if (fits(pattern, key)) seen_->insert("tensor " + key);
  }
}

std::vector<std::string> GoldenCase::unread() const {
  std::vector<std::string> out;
  for (const auto& [key, value] : params_)
    if (value != "null" && !nested_.contains(key) && !seen_->contains(key))
      out.push_back("param " + key);
  for (const auto& [key, value] : tensors_)
    if (!seen_->contains("tensor " + key)) out.push_back("tensor " + key);
  return out;
}

std::vector<GoldenCase> read_suite(const std::string& folder) {
  std::ifstream file(folder + "/cases.json");
  const Json json = Json::parse(file);
  const std::string data_file = folder + "/data.safetensors";
  std::unique_ptr<SafetensorsReader> data;
  if (std::filesystem::exists(data_file)) data = std::make_unique<SafetensorsReader>(data_file);
  const auto backend = Backend::cpu();
  std::vector<GoldenCase> cases;
  for (const auto& item : json.at("cases")) {
    GoldenCase& c = cases.emplace_back();
    c.suite = json.at("suite");
    c.name = item.at("name");
    c.folder = folder;
    if (item.contains("params")) flatten(item.at("params"), "", c.params_, c.nested_);
    if (!data || !item.contains("tensors")) continue;
    for (const auto& tensor : item.at("tensors")) {
      const std::string key = c.name + "/" + tensor.get<std::string>();
      c.tensors_[tensor] = read_tensor(*data, key, *backend);
    }
  }
  return cases;
}

double deviation(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return 1;
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (!std::isfinite(difference)) return 1;
    worst = std::max(worst, difference);
    largest = std::max(largest, std::abs(b[i]));
  }
  return worst == 0 ? 0 : largest == 0 ? 1 : worst / largest;
}

}  // namespace moelab::test
