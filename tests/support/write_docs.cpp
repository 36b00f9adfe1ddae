// Writes the pages of docs/ that follow from code; tests compare them with what it would write.
#include <fstream>
#include <iterator>

#include "core/telemetry/metrics.h"
#include "core/train/recipe_page.h"
#include "registry/listing.h"
#include "tests/support/family_pages.h"

int main(int, char** argv) {
  const std::string folder = argv[1];
  std::ofstream(folder + "/metrics.md") << moelab::metrics_markdown();
  std::ofstream(folder + "/components.md") << moelab::components_markdown();
  std::ofstream(folder + "/recipe_keys.md") << moelab::recipe_markdown();
  std::ofstream(folder + "/recipe.schema.json") << moelab::recipe_schema();
  std::map<std::string, std::string> pages;
  for (const auto& [name, family] : moelab::families()) {
    const std::string path = folder + "/families/" + name + ".md";
    std::ifstream old(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(old), {}};
    pages[name] = moelab::testing::family_page(*family, text);
    std::ofstream(path, std::ios::binary) << pages[name];
  }
  std::ofstream(folder + "/families/README.md") << moelab::testing::family_index(pages);
  return 0;
}
