// Every implementation of the expert network against the f64 one, in shapes that nobody tuned for.
// S source rows, R rows, E experts, H hidden, F width, G = F or 2F.
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/backend/backend.h"
#include "core/base/rng.h"
#include "core/base/threads.h"
#include "core/lab/tolerance.h"
#include "core/ops/grouped_mlp.h"

using namespace moelab;

namespace {

struct RowCounts {
  const char* what;
  std::vector<Index> rows_E;
  Index hidden, width;
};

const std::vector<RowCounts> shapes{
    {"three experts, odd widths", {5, 0, 29}, 96, 40},
    {"one row", {0, 1, 0}, 33, 17},
    {"one expert has all rows, more than a sum's chunk", {0, 2100, 0}, 24, 20},
    {"two parts of every sum", {3, 70, 15, 16}, 1030, 515},
    {"several blocks of rows", {300, 281, 14, 700}, 64, 48},
    {"no rows", {0, 0}, 16, 16},
};

struct Variant {
  const char* activation;
  bool permuted, weighted, bias, adds;
};
const std::vector<Variant> variants{{"swiglu", true, true, false, false},
                                    {"swiglu", false, false, false, true},
                                    {"gelu", true, true, true, true},
                                    {"clamped_swiglu", true, true, true, false},
                                    {"relu2", false, true, true, false}};

template <class T>
struct ExpertRun {
  const Backend& backend;
  const RowCounts& shape;
  const Variant& variant;
  std::shared_ptr<Activation> activation = Component<Activation>{variant.activation}.make({});
  std::vector<Index> offset_e1;
  std::vector<std::int32_t> row_R;
  Index rows = 0, sources = 0, E = 0, H = shape.hidden, F = shape.width,
        G = activation->gated() ? 2 * F : F;
  std::vector<T> x, weight, up, down, up_bias, down_bias, dy;
  std::vector<T> h, y, dx, dweight, dup, ddown, dup_bias, ddown_bias;

  ExpertRun(const Backend& b, const RowCounts& s, const Variant& v)
      : backend(b), shape(s), variant(v) {
    offset_e1.push_back(0);
    for (const Index n : s.rows_E) offset_e1.push_back(offset_e1.back() + n);
    E = static_cast<Index>(s.rows_E.size());
    rows = offset_e1.back();
    sources = v.permuted ? rows / 2 + 1 : rows;
    for (Index r = 0; r < rows; ++r)
      row_R.push_back(r % 11 == 7 ? -1 : static_cast<std::int32_t>(r * 31 % sources));
    fill(x, sources * H, "x"), fill(weight, rows, "weight"), fill(dy, rows * H, "dy");
    fill(up, E * G * H, "up"), fill(down, E * H * F, "down");
    fill(up_bias, E * G, "up bias"), fill(down_bias, E * H, "down bias");
    h.resize(size(rows * G)), y.resize(size(rows * H));
    // What is added to, or must be overwritten.
    fill(dx, sources * H, "0"), fill(dweight, rows, "1"), fill(dup, E * G * H, "2");
    fill(ddown, E * H * F, "3"), fill(dup_bias, E * G, "4"), fill(ddown_bias, E * H, "5");
  }
  static std::size_t size(Index n) { return static_cast<std::size_t>(n); }
  // The same numbers in both dtypes: f32 ones.
  static void fill(std::vector<T>& into, Index n, const char* stream) {
    const Rng rng(3, stream);
    for (Index i = 0; i < n; ++i)
      into.push_back(
          static_cast<T>(static_cast<float>(rng.normal(static_cast<std::uint64_t>(i)) * 0.3)));
  }

  void run(MlpVariant which) {
    GroupedMlpArgs<T> args;
    args.groups = E, args.rows = rows, args.hidden = H, args.width = F, args.up_width = G;
    args.sources = sources;
    args.offset_e1 = offset_e1.data();
    args.permuted = variant.permuted;
    args.row_R = variant.permuted ? row_R.data() : nullptr;
    args.source_SH = x.data();
    args.weight_R = variant.weighted ? weight.data() : nullptr;
    args.up_eGH = up.data(), args.down_eHF = down.data();
    if (variant.bias) args.up_bias_eG = up_bias.data(), args.down_bias_eH = down_bias.data();
    args.activation = activation.get();
    args.variant = which;
    grouped_mlp_forward(backend, args, h.data(), y.data());
    const T beta = variant.adds ? T(1) : T(0);
    GroupedMlpGrads<T> grads;
    grads.source_SH = {dx.data(), beta};
    if (variant.weighted) grads.weight_R = {dweight.data(), beta};
    grads.up_eGH = {dup.data(), beta}, grads.down_eHF = {ddown.data(), beta};
    if (variant.bias)
      grads.up_bias_eG = {dup_bias.data(), beta}, grads.down_bias_eH = {ddown_bias.data(), beta};
    grouped_mlp_backward(backend, args, h.data(), dy.data(), grads);
  }
  std::vector<std::pair<const char*, const std::vector<T>*>> results() const {
    return {{"y", &y},
            {"gradient of h", &h},
            {"dx", &dx},
            {"dweight", &dweight},
            {"dup", &dup},
            {"ddown", &ddown},
            {"dup_bias", &dup_bias},
            {"ddown_bias", &ddown_bias}};
  }
};

double largest_difference(const std::vector<float>& a, const std::vector<double>& b) {
  double most = 0, scale = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a[i]) - b[i]));
    scale = std::max(scale, std::abs(b[i]));
  }
  return most / scale;
}

std::vector<MlpVariant> present() {
  std::vector<MlpVariant> all{MlpVariant::library};
  if (has_packed_mlp()) all.push_back(MlpVariant::packed);
  return all;
}

}  // namespace

TEST_CASE("every variant of grouped_mlp gives the numbers of f64") {
  MESSAGE("automatic is: ", grouped_mlp_variant());
  const auto backend = Backend::cpu();
  for (const RowCounts& shape : shapes)
    for (const Variant& variant : variants) {
      ExpertRun<double> wide(*backend, shape, variant);
      wide.run(MlpVariant::automatic);
      for (const MlpVariant which : present()) {
        ExpertRun<float> got(*backend, shape, variant);
        got.run(which);
        const auto want = wide.results();
        const auto have = got.results();
        for (std::size_t i = 0; i < want.size(); ++i) {
          CAPTURE(shape.what);
          CAPTURE(variant.activation);
          CAPTURE(static_cast<int>(which));
          CAPTURE(want[i].first);
          CHECK(largest_difference(*have[i].second, *want[i].second) <=
                tolerance(DType::f32).exact);
        }
      }
    }
}

TEST_CASE("every variant of grouped_mlp is bit-equal for any number of threads") {
  const auto backend = Backend::cpu();
  const int before = threads();
  for (const MlpVariant which : present())
    for (const RowCounts& shape : shapes) {
      set_threads(1);
      ExpertRun<float> one(*backend, shape, variants[0]);
      one.run(which);
      for (const int count : {2, 5}) {
        set_threads(count);
        ExpertRun<float> many(*backend, shape, variants[0]);
        many.run(which);
        for (std::size_t i = 0; i < one.results().size(); ++i) {
          const auto &a = *one.results()[i].second, &b = *many.results()[i].second;
          CHECK((a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0));
        }
      }
    }
  set_threads(before);
}
