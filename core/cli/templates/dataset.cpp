// What `moelab new dataset NAME` writes.
#include "core/cli/templates.h"

namespace moelab {
namespace {

constexpr const char* kComponent =
    R"file(// @name@: rows that count upward from a random byte: a task that a model learns in a few steps.
// L tokens a row.
#include "core/base/rng.h"
#include "core/data/dataset.h"
#include "core/data/rows.h"

namespace moelab {
namespace {

class @Name@ final : public Dataset {
 public:
  struct Params {
    std::int64_t modulus = 100, heldout = 4;
    void describe(ParamVisitor& v) {
      v("modulus", modulus, "counting begins again at 0 before this", between(2, 256));
      v("heldout", heldout, "held-out rows", at_least(1));
    }
    std::string formula() const { return str("token i + 1 = (token i + 1) mod ", modulus); }
  };
  @Name@(const Params& params, const Context& context)
      : params_(params), context_(context), train_(context.seed, "@name@/train") {}

  Row train_row(std::int64_t step, std::int64_t row) const override {
    const auto index = static_cast<std::uint64_t>(step * context_.batch + row);
    return counting(static_cast<std::int64_t>(
        train_.below(index, static_cast<std::uint64_t>(params_.modulus))));
  }
  std::int64_t heldout_rows() const override { return params_.heldout; }
  Row heldout_row(std::int64_t row) const override { return counting(row % params_.modulus); }
  std::int64_t tokens(Split split) const override {
    return split == Split::train ? params_.modulus : params_.heldout * context_.length;
  }
  std::int64_t bytes(Split split) const override { return tokens(split); }
  std::string raw(Split split) const override {
    std::string text;
    for (std::int64_t i = 0; i < tokens(split); ++i)
      text += static_cast<char>(
          (split == Split::train ? i : i / context_.length + i % context_.length) %
          params_.modulus);
    return text;
  }
  std::string describe() const override {
    return str("counts upward modulo ", params_.modulus, "\n");
  }
  std::uint64_t fingerprint() const override {
    return hash64(str("@name@ ", params_.modulus, " ", params_.heldout, " ", context_.length));
  }

 private:
  Row counting(std::int64_t start) const {
    const auto token = [&](std::int64_t i) {
      return static_cast<std::int32_t>((start + i) % params_.modulus);
    };
    Row row = padding_row(context_.length);
    for (std::int64_t i = 0; i < context_.length; ++i)
      put(row, i, {token(i), token(i + 1), static_cast<std::int32_t>(i), 0});
    return row;
  }

  Params params_;
  Context context_;
  Rng train_;
};

const Register<Dataset, @Name@> registered{"@name@", "rows that count upward"};

}  // namespace
}  // namespace moelab
)file";

constexpr const char* kTest = R"file(// What @name@ promises beside the contracts.
#include <cmath>
#include <iostream>
#include <string>

#include "core/data/dataset.h"

using namespace moelab;

int main() {
  int failures = 0;
  const auto expect = [&](bool kept, const std::string& promise) {
    if (kept) return;
    std::cerr << "@name@: broken: " << promise << "\n";
    ++failures;
  };
  Component<Dataset> component;
  expect(component.choose("@name@"), "it is registered");
  Dataset::Context context;
  context.length = 8;
  context.batch = 4;
  context.seed = 1;
  const auto dataset = component.make(context);
  const Row row = dataset->train_row(3, 2);
  for (std::size_t i = 0; i + 1 < row.input.size(); ++i)
    expect(row.target[i] == row.input[i + 1], "a position's target is the next one's input");
  expect(row.input == dataset->train_row(3, 2).input, "a row depends on step and row alone");
  expect(row.input != dataset->train_row(4, 2).input, "steps show other rows");
  expect(static_cast<std::int64_t>(dataset->raw(Split::heldout).size()) ==
             dataset->bytes(Split::heldout),
         "bytes() counts raw()");
  return failures == 0 ? 0 : 1;
}
)file";

const RegisterTemplate registered{{"dataset", "core/data/components", kComponent, kTest}};

}  // namespace
}  // namespace moelab
