// SIGTERM and Ctrl-C while training: noted, and acted on at the next step's end. A second one ends
// the process at once. One guard at a time.
#pragma once

namespace moelab {

class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
  static int caught();  // 0, SIGTERM or SIGINT; any thread may ask
};

}  // namespace moelab
