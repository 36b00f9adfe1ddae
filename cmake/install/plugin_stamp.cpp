// Linked into every plugin by moelab_add_plugin().
#include <moelab_build.h>

extern "C" {
__attribute__((visibility("default"))) extern const char moelab_plugin_stamp[];
__attribute__((used)) const char moelab_plugin_stamp[] = MOELAB_PLUGIN_STAMP;
}
