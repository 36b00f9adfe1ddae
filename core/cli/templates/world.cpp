// What `moelab new world NAME` writes.
#include "core/cli/templates.h"

namespace moelab {
namespace {

constexpr const char* kComponent =
    R"file(// @name@: a world of one rank, the calling thread. Its collectives copy.
#include "core/comm/world.h"
#include "registry/error.h"

namespace moelab {
namespace {

class Alone final : public Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Pending all_reduce(const Tensor&, Reduce) override { return counted(); }
  Pending all_gather(const Tensor& in, const Tensor& out) override { return copied(in, out); }
  Pending reduce_scatter(const Tensor& in, const Tensor& out) override { return copied(in, out); }
  Pending all_to_all_v(const Tensor& send, std::span<const Index>, const Tensor& receive,
                       std::span<const Index>) override {
    return copied(send, receive);
  }
  Pending broadcast(const Tensor&, int) override { return counted(); }
  void barrier() override { ++traffic_.calls; }
  Traffic traffic() const override { return traffic_; }

 private:
  Pending counted() {
    ++traffic_.calls;
    return {};
  }
  Pending copied(const Tensor& in, const Tensor& out) {
    if (in.raw() != out.raw()) std::copy_n(in.raw(), in.bytes(), out.raw());
    return counted();
  }
  Traffic traffic_;
};

class OnlyRank final : public Rank {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::shared_ptr<Group> group(std::span<const int>, const std::string&) override {
    return std::make_shared<Alone>();
  }
};

class @Name@ final : public World {
 public:
  struct Params {
    void describe(ParamVisitor&) {}
  };
  @Name@(const Params&, const Context& context) {
    if (context.ranks != 1)
      throw Error(ExitCode::usage, str("parallel.world = \"@name@\" has one rank, not ",
                                       context.ranks, "; set parallel.ranks = 1"));
  }
  void run(const std::function<void(Rank&)>& body) override {
    OnlyRank rank;
    body(rank);
  }
};

const Register<World, @Name@> registered{"@name@", "one rank, the calling thread"};

}  // namespace
}  // namespace moelab
)file";

constexpr const char* kTest = R"file(// What @name@ promises beside the contracts.
#include <cmath>
#include <iostream>
#include <string>

#include "core/backend/backend.h"
#include "core/comm/world.h"

using namespace moelab;

int main() {
  int failures = 0;
  const auto expect = [&](bool kept, const std::string& promise) {
    if (kept) return;
    std::cerr << "@name@: broken: " << promise << "\n";
    ++failures;
  };
  Component<World> component;
  expect(component.choose("@name@"), "it is registered");
  const auto backend = Backend::cpu();
  int ran = 0;
  component.make({})->run([&](Rank& rank) {
    ++ran;
    const Tensor in = backend->zeros(DType::f64, {2}), out = backend->empty(DType::f64, {2});
    in.data<double>()[1] = 7;
    rank.everyone()->all_gather(in, out).wait();
    expect(out.data<double>()[1] == 7, "gathering from one rank copies");
  });
  expect(ran == 1, "the body runs once");
  return failures == 0 ? 0 : 1;
}
)file";

const RegisterTemplate registered{{"world", "core/comm/components", kComponent, kTest}};

}  // namespace
}  // namespace moelab
