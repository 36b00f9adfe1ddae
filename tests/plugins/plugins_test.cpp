// What a researcher does with a plugin: builds it from an installed moelab, names it in a recipe,
// trains, and is told what is wrong with it.
#include <doctest/doctest.h>

#include <iterator>

#include "tests/plugins/installed.h"

using namespace moelab::testing;

namespace {

namespace fs = std::filesystem;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// examples/plugins, copied and built; the folder with the .so files.
const std::string& examples() {
  static const std::string folder = [] {
    const std::string source = plugin_tree("examples"), build = plugin_tree("examples_build");
    fs::remove_all(source);
    fs::remove_all(build);
    fs::copy(MOELAB_SOURCE_DIR "/examples/plugins", source, fs::copy_options::recursive);
    const std::string failure = build_project(source, build);
    REQUIRE_MESSAGE(failure.empty(), failure);
    return build;
  }();
  return folder;
}

// The plugin with the given lines, built by hand from the installed headers.
std::string by_hand(const TemporaryFolder& folder, const std::string& name,
                    const std::string& lines) {
  const std::string stamp =
      "#include <moelab_build.h>\nextern \"C\" const char stamp[];\n"
      "const char stamp[] = MOELAB_PLUGIN_STAMP;\n";
  const std::string source = folder.write(name + ".cpp", stamp + lines);
  const std::string out = folder.path(name + ".so");
  const CommandResult built =
      run_command(MOELAB_CXX " -std=c++20 -shared -fPIC -I" + installed_prefix() +
                  "/include/moelab -o " + out + " " + source);
  REQUIRE_MESSAGE(built.code == 0, built.text);
  return out;
}

// normed.so with one part of its stamp changed.
std::string altered(const TemporaryFolder& folder, int part) {
  std::string bytes = bytes_of(examples() + "/normed.so");
  std::size_t at = bytes.find("moelab-plugin:");
  REQUIRE(at != std::string::npos);
  at = bytes.find(':', at) + 1;
  for (int i = 0; i < part; ++i) at = bytes.find('\n', at) + 1;
  bytes[at] = bytes[at] == '7' ? '8' : '7';
  return folder.write("altered.so", bytes);
}

std::string recipe(const std::string& plugins, const std::string& moe) {
  return "plugins = [" + plugins +
         "]\n[model]\nhidden = 16\nlayers = [\"moe\"]\nheads = 2\nkv_heads = 2\n"
         "[ffn.moe]\nkind = \"moe\"\nnum_experts = 4\n" +
         moe +
         "[data]\nsequence_length = 16\ndataset = { type = \"text\", path = \"" MOELAB_SOURCE_DIR
         "/LICENSE\" }\n[train]\nsteps = 3\nbatch = 4\n[sample]\ntokens = 4\n"
         "[schedule]\nwarmup_steps = 0\n";
}

}  // namespace

TEST_CASE("the example plugins build from an installed tree and keep the contracts") {
  const CommandResult tests =
      run_command(MOELAB_CTEST " --output-on-failure --test-dir " + examples());
  CHECK_MESSAGE(tests.code == 0, tests.text);
  CHECK(contains(tests.text, "normed_contracts"));
  const CommandResult list = run_command(installed_prefix() + "/bin/moelab components experts " +
                                         "--plugin " + examples() + "/normed.so");
  CHECK(list.code == 0);
  CHECK(contains(list.text, "networks that normalise their own input"));
}

TEST_CASE("a recipe names its plugins relative to itself, and so does the run that it leaves") {
  const TemporaryFolder folder;
  fs::create_directories(folder.path("sub"));
  fs::copy(examples() + "/normed.so", folder.path("sub/normed.so"));
  const std::string moe = "experts = { type = \"normed\", width = 8, epsilon = 1e-5 }\n";
  const std::string path = folder.write("r.toml", recipe("\"sub/normed.so\"", moe));
  const CommandResult check = run_moelab("check " + path);
  CHECK_MESSAGE(check.code == 0, check.text);
  const CommandResult train = run_moelab("train " + path + " --out " + folder.path("run"));
  REQUIRE_MESSAGE(train.code == 0, train.text);
  CHECK(contains(bytes_of(folder.path("run/recipe.toml")),
                 "plugins = [\"" + folder.path("sub/normed.so") + "\"]"));
  CHECK(run_moelab("eval " + folder.path("run")).code == 0);
  CHECK(run_moelab("generate " + folder.path("run") + " --tokens 3").code == 0);
  const std::string derived = folder.write("deep/d.toml", "base = \"../r.toml\"\n");
  CHECK(run_moelab("check " + derived).code == 0);
}

TEST_CASE("without its plugin a recipe's component is unknown, and --set can bring it") {
  const TemporaryFolder folder;
  const std::string moe = "experts = { type = \"normed\", width = 8 }\n";
  const std::string path = folder.write("r.toml", recipe("", moe));
  const CommandResult without = run_moelab("check " + path);
  CHECK(without.code == 2);
  CHECK(contains(without.text, "'normed' names no experts") +
            contains(without.text, "\"normed\" names no experts") >
        0);
  CHECK(run_moelab("check " + path + " --set 'plugins=[\"" + examples() + "/normed.so\"]'").code ==
        0);
}

TEST_CASE("a plugin that cannot be used is refused with place and reason") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& plugin, const std::string& reason) {
    const std::string path = folder.write("r.toml", recipe("\"" + plugin + "\"", ""));
    const CommandResult check = run_moelab("check " + path);
    CAPTURE(check.text);
    CHECK(check.code == 2);
    CHECK(contains(check.text, "r.toml:1:12: error: cannot load the plugin "));
    CHECK(contains(check.text, reason));
  };
  refused("missing.so", "missing.so: there is no such file");
  refused(folder.path(), "it is not a regular file");
  refused(folder.write("text.so", "words"), "it is no plugin of moelab");
  refused(altered(folder, 0), "it was built for another version (");
  refused(altered(folder, 1), "it was built for another compiler (");
  refused(altered(folder, 3), "it was built for other headers (");
  refused(by_hand(folder, "empty", ""), "it registers no component");
  refused(by_hand(folder, "lacking",
                  "namespace moelab { int absent(int); }\nint value = moelab::absent(1);\n"),
          "it uses moelab::absent(int), which this program does not have");
}

TEST_CASE("a name that is taken is refused with both places") {
  const TemporaryFolder folder;
  const std::string first = examples() + "/normed.so", second = folder.path("copy.so");
  fs::copy(first, second);
  const CommandResult both = run_moelab("components --plugin " + first + " --plugin " + second);
  CHECK(both.code == 2);
  CHECK(contains(both.text, "two members of family experts are named 'normed'"));
  CHECK(contains(both.text, "normed.cpp:"));
  CHECK(run_moelab("components --plugin " + first + " --plugin " + first).code == 0);
}

TEST_CASE("check --contracts names what a component breaks, and takes a family or a member") {
  const CommandResult softmax = run_moelab("check --contracts --only router/softmax");
  CHECK(softmax.code == 0);
  CHECK(contains(softmax.text, "router softmax: keeps docs gradients padding"));
  CHECK_FALSE(contains(softmax.text, "sigmoid"));
  CHECK(run_moelab("check --contracts --only norm").code == 0);
  CHECK(run_moelab("check --contracts --only rooter").code == 2);
  CHECK(run_moelab("check").code == 2);
  CHECK(run_moelab("check r.toml --contracts").code == 2);
}
