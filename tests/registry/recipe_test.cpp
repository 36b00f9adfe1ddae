#include <doctest/doctest.h>
#include <sys/stat.h>

#include "tests/registry/toy.h"

using namespace moelab;
using namespace moelab::toy;

namespace {

std::string load(const std::string& path, const std::vector<std::string>& sets, Report& report) {
  const Node root = load_recipe(path, sets, report);
  read_zoo(root, report);
  return lines(report);
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::string repeat(std::string_view piece, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += piece;
  return out;
}

}  // namespace

TEST_CASE("base files merge tables and replace arrays; origins are kept") {
  const Folder folder;
  folder.write("base/root.toml", "[zoo]\nsize = 1\nratio = 0.25\nguests = ['a', 'b']\n");
  folder.write("base/middle.toml", "base = 'root.toml'\n[zoo]\nsize = 2\npet = 'bird'\n");
  const std::string top =
      folder.write("top.toml", "base = 'base/middle.toml'\n[zoo]\nguests = ['c']\n");
  Report report;
  CHECK(load(top, {"zoo.name=plain words", "zoo.inner.depth=5"}, report) == "");
  CHECK(report.value_of("zoo.size") == "2");
  CHECK(report.source_of("zoo.size").place() == folder.path("base/middle.toml") + ":3:8");
  CHECK(report.source_of("zoo.size").origin == Source::Origin::base);
  CHECK(report.value_of("zoo.ratio") == "0.25");
  CHECK(report.value_of("zoo.guests") == R"(["c"])");
  CHECK(report.source_of("zoo.guests").origin == Source::Origin::recipe);
  CHECK(report.value_of("zoo.name") == R"("plain words")");
  CHECK(report.source_of("zoo.name").place() == "--set zoo.name");
  CHECK(report.value_of("zoo.pet.type") == R"("bird")");
  CHECK(report.value_of("zoo.inner.depth") == "5");
}

TEST_CASE("a component named by a string keeps its name when a table is laid on it") {
  Report report;
  const Folder folder;
  const std::string top = folder.write("top.toml", "zoo.pet = 'bird'\n");
  CHECK(load(top, {"zoo.pet.prey.barks=3"}, report) == "");
  CHECK(report.value_of("zoo.pet.type") == R"("bird")");
  CHECK(report.value_of("zoo.pet.prey.barks") == "3");
}

TEST_CASE("cycles and missing bases are errors where base is said") {
  const Folder folder;
  const std::string a = folder.write("a.toml", "\nbase = 'b.toml'\n");
  folder.write("b.toml", "base = './a.toml'\n");
  const std::string alone = folder.write("c.toml", "base = 'none.toml'\nzoo.size = 1\n");
  const std::string wrong = folder.write("d.toml", "base = 3\n");
  Report cycle, missing, type;
  CHECK(has(load(a, {}, cycle), "b.toml:1:8: error: base = \"./a.toml\" inherits from itself: "));
  CHECK(has(load(alone, {}, missing), "c.toml:1:8: error: cannot read recipe"));
  CHECK(has(load(wrong, {}, type), "base = 3 must be a string, not an integer"));
}

TEST_CASE("--set takes TOML values, bare words, and nothing malformed") {
  const Folder folder;
  const std::string path = folder.write("z.toml", "[zoo]\nsize = 1\n");
  const auto with = [&](const std::string& set) {
    Report report;
    return load(path, {set}, report);
  };
  CHECK(with("zoo.prices=[1, 2.5]") == "");
  CHECK(with("zoo.colour=red") == "");
  CHECK(with("zoo.colour='red'") == "");
  CHECK(with("zoo.pet={type='dog',barks=3}") == "");
  CHECK(with("zoo.name=") == "");
  CHECK(with("zoo.name=007") == "");
  CHECK(with("zoo.size=999") == "--set zoo.size: error: zoo.size = 999 must be in [1, 100]\n");
  CHECK(has(with("zoo.sizes=1"), "--set zoo.sizes: error: unknown key 'zoo.sizes'; did you mean"));
  CHECK(has(with("zoo.size.deep=1"), "zoo.size = {deep = 1} must be an integer, not a table"));
  CHECK(has(with("zoo.size"), "is not of the form section.key=value"));
  CHECK(has(with("=1"), "is not of the form section.key=value"));
  CHECK(has(with("zoo..size=1"), "is not of the form section.key=value"));
  CHECK(has(with(repeat("a.", 100000) + "b=1"), "is not of the form section.key=value"));
  CHECK(has(with("zoo.prices=[1"), "the value is not TOML"));
  CHECK(has(with("zoo.name=" + repeat("[", 1000000)), "not TOML"));
  CHECK(has(with("zoo.name=\xff"), "UTF-8"));
  CHECK(has(with("zoo.size=1\nzoo.ratio=0.5"), "must be an integer, not a string"));
}

TEST_CASE("an integer beyond 64 bits is told to be one, with the range, and is no string") {
  const Folder folder;
  const std::string range =
      "'99999999999999999999' is not representable in 64 bits; integers lie in "
      "[-9223372036854775808, 9223372036854775807], and a real number has a point or an exponent\n";
  const std::string good = folder.write("good.toml", "[zoo]\nsize = 1\n");
  Report in_file, set;
  load(folder.write("z.toml", "[zoo]\nsize = 99999999999999999999\n"), {}, in_file);
  load(good, {"zoo.size=99999999999999999999"}, set);
  CHECK(has(lines(in_file), "z.toml:2:"));
  CHECK(lines(in_file).ends_with(range));
  CHECK(lines(set).starts_with("--set zoo.size: error: "));
  CHECK(lines(set).ends_with(range));
  CHECK(set.problems().size() == 1);
}

TEST_CASE("several mistakes of syntax are found in one go") {
  Report report;
  read_zoo("[zoo]\nsize = = 3\nratio = 0.5\nname = \"open\ncolour = 'blue'\n", report);
  const std::string text = lines(report);
  CHECK(has(text, "zoo.toml:2:"));
  CHECK(has(text, "zoo.toml:4:"));
  CHECK(has(text, "zoo.toml:5:10: error: zoo.colour"));
  CHECK(report.problems().size() == 3);
}

TEST_CASE("hostile recipes are errors, never crashes") {
  const Folder folder;
  const auto says = [&](const std::string& text) {
    Report report;
    return load(folder.write("h.toml", text), {}, report);
  };
  CHECK(has(says(repeat("a.", 100000) + "a = 1\n"), "h.toml:1:34: error: a key has more than 16"));
  CHECK(has(says("[" + repeat("a.", 100000) + "a]\n"), "a key has more than 16 dots"));
  CHECK(has(says("[" + repeat("'a' . \"b\" . ", 20000) + "a]\n"), "a key has more than 16 dots"));
  CHECK(has(says("\nx = " + repeat("[", 1000000)), "h.toml:2:21: error: brackets are nested"));
  CHECK(has(says("x = " + repeat("{a=", 300000)), "brackets are nested"));
  CHECK(has(says("x = \"\"\"a\"\"\"\"\"\n" + repeat("a.", 100000) + "a = 1\n"), "16 dots"));
  CHECK(has(says("x = '''a'''''\n" + repeat("a.", 100000) + "a = 1\n"), "16 dots"));
  CHECK(has(says("x = \"\\\\\"\n# \"\n" + repeat("a.", 100000) + "a = 1\n"), "16 dots"));
  CHECK(has(says(std::string("x = 1\ny\0 = 2\n", 13)), "h.toml:2:2: error: a NUL byte"));
  CHECK(has(says("x = 1\ny = \"\xc3\x28\"\n"), "h.toml:2:6: error: not valid UTF-8"));
  CHECK(has(says("x = \"\xed\xa0\x80\"\n"), "not valid UTF-8"));
  CHECK(has(says("x = \"\xc0\xaf\"\n"), "not valid UTF-8"));
  CHECK(has(says(repeat("# long\n", 200000)), "larger than 1048576 bytes"));
  CHECK(has(says("x = 1979-05-27\n"), "dates and times have no use"));
  CHECK(has(says("x = 99999999999999999999\n"), "h.toml:1:"));
  CHECK(says("") == "");
  CHECK(says("# \"\"\" [[[ " + repeat("a.", 50000) + "\n") == "");
  CHECK(says("\xef\xbb\xbfzoo.size = 1\n") == "");
  CHECK(says("zoo.size = 1\r\nzoo.open = true\r\n") == "");
}

TEST_CASE("what is no regular file is refused at once") {
  const Folder folder;
  const std::string fifo = folder.path("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  Report a, b, c, d;
  CHECK(has(load(fifo, {}, a), "a FIFO, not a regular file"));
  CHECK(has(load(folder.path(""), {}, b), "a directory, not a regular file"));
  CHECK(has(load("/dev/zero", {}, c), "a device, not a regular file"));
  CHECK(has(load(folder.path("missing.toml"), {}, d), "No such file"));
}
