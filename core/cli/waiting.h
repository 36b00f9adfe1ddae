// How the threads of a run wait for each other.
#pragma once

namespace moelab {

// A step has hundreds of places where threads wait for the slowest. OpenMP's runtime lets them spin
// for milliseconds before they sleep; where other processes want the cores too, a spinning thread
// holds up the very one it waits for (two threads on two busy cores: 6 times slower). It reads its
// environment once, before main: so this starts the program anew, under the same process id, with
// GOMP_SPINCOUNT set to a wait of microseconds. Returns if that is not needed, because
// GOMP_SPINCOUNT or OMP_WAIT_POLICY is set, or not possible. No result depends on it.
void restart_with_short_spins(char** argv);

}  // namespace moelab
