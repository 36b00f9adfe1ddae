#include "core/cli/cli.h"

int main(int argc, char** argv) { return moelab::cli_main(argc, argv); }
