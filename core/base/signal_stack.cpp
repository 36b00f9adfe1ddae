#include "core/base/signal_stack.h"

#include <csignal>
#include <cstddef>
#include <memory>

namespace moelab {
namespace {

constexpr std::size_t kSize = std::size_t{64} << 10;  // the widest registers fill 11 kB a frame

class SignalStack {
 public:
  SignalStack() : memory_(std::make_unique<std::byte[]>(kSize)) {
    stack_t own{};
    own.ss_sp = memory_.get();
    own.ss_size = kSize;
    sigaltstack(&own, &before_);
  }
  ~SignalStack() { sigaltstack(&before_, nullptr); }  // a sanitizer may have set one
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::unique_ptr<std::byte[]> memory_;
  stack_t before_{};
};

}  // namespace

void use_signal_stack() { static thread_local const SignalStack stack; }

}  // namespace moelab
