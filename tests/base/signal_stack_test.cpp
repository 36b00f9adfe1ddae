#include "core/base/signal_stack.h"

#include <doctest/doctest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "core/backend/gemm.h"
#include "core/train/signals.h"

using namespace moelab;

namespace {

std::atomic<int> on_own_stack{0}, on_interrupted_stack{0};

void note_stack(int) {
  stack_t now{};
  sigaltstack(nullptr, &now);
  ++(now.ss_flags & SS_ONSTACK ? on_own_stack : on_interrupted_stack);
}

}  // namespace

TEST_CASE("a signal during an f32 GEMM does not write over the kernel's workspace") {
  struct sigaction action {};
  struct sigaction before {};
  {
    const SignalGuard guard;
    sigaction(SIGTERM, nullptr, &action);
  }
  CHECK((action.sa_flags & SA_ONSTACK) != 0);

  action.sa_handler = note_stack;
  sigaction(SIGUSR1, &action, &before);
  std::atomic<bool> started{false}, done{false};
  std::thread worker([&] {
    const Index n = 128;
    std::vector<float> a(n * n, 1.0f), b(n * n, 1.0f), c(n * n);
    while (!done) {
      gemm_one_thread<float>({.m = n,
                              .n = n,
                              .k = n,
                              .a = a.data(),
                              .lda = n,
                              .b = b.data(),
                              .ldb = n,
                              .c = c.data(),
                              .ldc = n});
      started = true;
    }
  });
  while (!started) std::this_thread::yield();
  for (int i = 0; i < 50; ++i) {
    pthread_kill(worker.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  done = true;
  worker.join();
  sigaction(SIGUSR1, &before, nullptr);
  CHECK(on_own_stack > 0);
  CHECK(on_interrupted_stack == 0);
}
