#include "tests/support/golden.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/checkpoint/safetensors.h"
#include "test_paths.h"

namespace moelab::test {
namespace {

GoldenTensor widened(const Tensor& t, std::vector<Index> shape) {
  GoldenTensor out{std::move(shape), {}};
  const auto copy = [&](auto zero) {
    for (const auto value : t.span<decltype(zero)>())
      out.values.push_back(static_cast<double>(value));
  };
  switch (t.dtype()) {
    case DType::f32:
      copy(float{});
      break;
    case DType::f64:
      copy(double{});
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

}  // namespace

bool GoldenCase::given(const std::string& param) const {
  const auto at = params.find(param);
  return at != params.end() && at->second != "null";
}

std::vector<GoldenCase> read_golden(const std::string& suite) {
  const std::string folder = std::string(MOELAB_SOURCE_DIR) + "/tests/golden/" + suite;
  std::ifstream file(folder + "/cases.json");
  const nlohmann::json json = nlohmann::json::parse(file);
  const SafetensorsReader data(folder + "/data.safetensors");
  const auto backend = Backend::cpu();
  std::vector<GoldenCase> cases;
  for (const auto& item : json.at("cases")) {
    GoldenCase& c = cases.emplace_back();
    c.name = item.at("name");
    for (const auto& [key, value] : item.at("params").items())
      c.params[key] = value.is_string() ? value.get<std::string>() : value.dump();
    for (const auto& tensor : item.at("tensors")) {
      const std::string key = c.name + "/" + tensor.get<std::string>();
      c.tensors[tensor] = widened(data.read(key, *backend), data.entries().at(key).shape);
    }
  }
  return cases;
}

double deviation(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return 1;
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (std::isnan(difference)) return 1;
    worst = std::max(worst, difference);
    largest = std::max(largest, std::abs(b[i]));
  }
  return worst == 0 ? 0 : largest == 0 ? 1 : worst / largest;
}

}  // namespace moelab::test
