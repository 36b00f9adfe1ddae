#include <doctest/doctest.h>

#include "core/cli/options.h"
#include "registry/error.h"

using namespace moelab;

namespace {

const Verb kVerb{.name = "toy",
                 .summary = "a verb for this test",
                 .positionals = {{"RECIPE", "what to do"}, {"MORE", "optional", false}},
                 .options = {{"out", "DIR", "where to"},
                             {"set", "K=V", "a value", true},
                             {"threads", "N", "how many"},
                             {"rate", "X", "a number"},
                             {"quiet", "", "says less"}},
                 .notes = "",
                 .run = nullptr};

Arguments parse(const std::vector<std::string>& words) { return parse_arguments(kVerb, words); }

void check_refused(const std::vector<std::string>& words, const std::string& reason) {
  CAPTURE(reason);
  try {
    parse(words);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::usage);
    CHECK(std::string(error.what()).find(reason) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("options come before, between and after positionals, with = or a space") {
  const Arguments a =
      parse({"--out", "here", "r.toml", "--set", "a=1", "more", "--set=b=2", "--quiet"});
  CHECK(a.positional(0) == "r.toml");
  CHECK(a.positional(1) == "more");
  CHECK(a.text("out") == "here");
  CHECK(a.texts("set") == std::vector<std::string>{"a=1", "b=2"});
  CHECK(a.has("quiet"));
  CHECK_FALSE(a.has("threads"));
  CHECK(a.integer("threads", 5, 1) == 5);
}

TEST_CASE("values may begin with a minus sign or hold one") {
  CHECK(parse({"r", "--out=-"}).text("out") == "-");
  CHECK(parse({"r", "--set", "a=-1"}).texts("set").front() == "a=-1");
}

TEST_CASE("what does not fit the table is refused with a reason") {
  check_refused({"r", "--qiet"}, "did you mean '--quiet'?");
  check_refused({"r", "--verbose-mode"}, "known: --help --out");
  check_refused({"r", "-q"}, "no option is named");
  check_refused({}, "missing RECIPE");
  check_refused({"a", "b", "c"}, "one word too many: 'c'");
  check_refused({"r", "--out"}, "--out");
  check_refused({"r", "--out", "a", "--out", "b"}, "more than once");
  check_refused({"r", "--quiet=1"}, "quiet");
}

TEST_CASE("an empty value or positional is refused with what is wanted, never taken as a default") {
  check_refused({"r", "--out", ""}, "--out is empty; give DIR, or leave the option out");
  check_refused({"r", "--out="}, "--out is empty; give DIR, or leave the option out");
  check_refused({"r", "--set", "a=1", "--set", ""}, "--set is empty; give K=V");
  check_refused({""}, "RECIPE is empty (what to do)");
}

TEST_CASE("a positional with words of its own takes no other; the verb is named once") {
  Verb verb = kVerb;
  verb.positionals[0].words = {"inspect", "export"};
  CHECK(parse_arguments(verb, {"export"}).positional(0) == "export");
  CHECK_THROWS_WITH_AS(parse_arguments(verb, {"exprt", "more"}),
                       "RECIPE = 'exprt' must be one of inspect export; did you mean 'export'?\n"
                       "see moelab toy --help",
                       Error);
  CHECK_THROWS_WITH_AS(parse({}), "missing RECIPE (what to do)\nsee moelab toy --help", Error);
}

TEST_CASE("values that do not convert name option, value and rule") {
  const Arguments a = parse({"r", "--threads", "two", "--rate", "-1"});
  CHECK_THROWS_WITH_AS(a.integer("threads", 1, 1),
                       "--threads = 'two' must be a whole number, at least 1", Error);
  CHECK_THROWS_AS(a.real("rate", 0), Error);
  CHECK_THROWS_AS(parse({"r", "--threads", "0"}).integer("threads", 1, 1), Error);
  CHECK_THROWS_AS(parse({"r", "--threads", "3x"}).integer("threads", 1, 1), Error);
  CHECK(parse({"r", "--rate", "2.5e-1"}).real("rate", 0) == 0.25);
}

TEST_CASE("help tells every positional and option once") {
  const std::string help = help_of(kVerb);
  for (const char* word :
       {"moelab toy RECIPE [MORE] [options]", "a verb for this test", "--out DIR", "--set K=V …",
        "--threads N", "--quiet", "--help", "says less"})
    CHECK_MESSAGE(help.find(word) != std::string::npos, word);
}

TEST_CASE("help is asked for anywhere before --") {
  CHECK(wants_help({"r", "--help"}));
  CHECK(wants_help({"-h"}));
  CHECK_FALSE(wants_help({"r", "--", "--help"}));
}
