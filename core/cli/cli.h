// The command line: `moelab <verb> …`. Everything else of core/cli is behind this function.
#pragma once

namespace moelab {

int cli_main(int argc, char** argv);  // returns the process's exit code; throws nothing

}  // namespace moelab
