// What the built binary says about itself.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "core/cli/options.h"
#include "tests/support/run_command.h"

using namespace moelab;
using namespace moelab::testing;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string file_text(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("the verbs are those that users and scripts rely on") {
  std::string names;
  for (const auto& [name, verb] : verbs()) names += name + " ";
  CHECK(
      names ==
      "bench check components data doctor eval explain generate new report topology trace train ");
}

TEST_CASE("--help lists every verb and every exit code") {
  const CommandResult help = run_moelab("--help");
  CHECK(help.code == 0);
  for (const auto& [name, verb] : verbs()) CHECK(contains(help.text, "\n  " + name + " "));
  CHECK(contains(help.text, exit_code_table()));
  CHECK(run_moelab("help").text == help.text);
  CHECK(run_moelab("").code == 2);
}

TEST_CASE("every verb has help that names each of its options, with a doc") {
  for (const auto& [name, verb] : verbs()) {
    CAPTURE(name);
    const CommandResult help = run_moelab(name + " --help");
    CHECK(help.code == 0);
    CHECK(contains(help.text, verb.summary));
    for (const Option& option : verb.options) {
      CHECK(contains(help.text, "--" + option.name));
      CHECK_MESSAGE(!option.doc.empty(), option.name);
    }
    for (const Positional& positional : verb.positionals) CHECK(!positional.doc.empty());
  }
}

TEST_CASE("--version tells version, compiler, libraries and CPU features") {
  const CommandResult version = run_moelab("--version");
  CHECK(version.code == 0);
  for (const char* word :
       {"moelab 0.", "compiler: ", "oneDNN", "Boost", "toml++", "present:", "built for:"})
    CHECK_MESSAGE(contains(version.text, word), word);
}

TEST_CASE("docs/exit_codes.md holds the table of --help") {
  CHECK(contains(file_text(MOELAB_SOURCE_DIR "/docs/exit_codes.md"), exit_code_table()));
}

TEST_CASE("unknown verbs and options get the nearest name and exit code 2") {
  const CommandResult verb = run_moelab("trian x.toml");
  CHECK(verb.code == 2);
  CHECK(contains(verb.text, "did you mean 'train'?"));
  const CommandResult option = run_moelab("check x.toml --sett a=1");
  CHECK(option.code == 2);
  CHECK(contains(option.text, "did you mean '--set'?"));
}

TEST_CASE("a reader that goes away ends in an error, not in a signal") {
  std::FILE* pipe = ::popen("exec " MOELAB_BINARY_DIR "/moelab components --json 2>&1", "r");
  REQUIRE(pipe != nullptr);
  CHECK(WIFEXITED(::pclose(pipe)));  // closed before anything was read
  CHECK(run_moelab("--help > /dev/full").code == 7);
}
