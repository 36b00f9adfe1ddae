#include "core/train/signals.h"

#include <csignal>

#include <atomic>

namespace moelab {
namespace {

std::atomic<int> caught_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

struct sigaction old_term, old_int, old_size;

void note(int signal) {
  if (caught_signal.exchange(signal) == 0) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void install(int signal, void (*handler)(int), struct sigaction& old) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART | SA_ONSTACK;  // see core/base/signal_stack.h
  ::sigaction(signal, &action, &old);
}

}  // namespace

SignalGuard::SignalGuard() {
  caught_signal = 0;
  install(SIGTERM, note, old_term);
  install(SIGINT, note, old_int);
  install(SIGXFSZ, SIG_IGN, old_size);  // a file over the limit is an error of write()
}

SignalGuard::~SignalGuard() {
  ::sigaction(SIGTERM, &old_term, nullptr);
  ::sigaction(SIGINT, &old_int, nullptr);
  ::sigaction(SIGXFSZ, &old_size, nullptr);
}

int SignalGuard::caught() { return caught_signal.load(); }

}  // namespace moelab
