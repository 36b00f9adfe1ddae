// A stack of its own for the signal handlers of a thread. oneDNN's f32 kernels use the stack
// pointer as a pointer into their workspace: a handler that runs on the interrupted stack writes
// over the heap below it. Handlers are installed with SA_ONSTACK for it to be taken.
#pragma once

namespace moelab {

void use_signal_stack();  // for the calling thread, until it ends; cheap when called again

}  // namespace moelab
