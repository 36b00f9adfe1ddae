// Writes the pages of docs/ that follow from code; tests compare them with what it would write.
#include <fstream>

#include "core/telemetry/metrics.h"
#include "core/train/recipe_page.h"
#include "registry/listing.h"

int main(int, char** argv) {
  const std::string folder = argv[1];
  std::ofstream(folder + "/metrics.md") << moelab::metrics_markdown();
  std::ofstream(folder + "/components.md") << moelab::components_markdown();
  std::ofstream(folder + "/recipe_keys.md") << moelab::recipe_markdown();
  std::ofstream(folder + "/recipe.schema.json") << moelab::recipe_schema();
  return 0;
}
