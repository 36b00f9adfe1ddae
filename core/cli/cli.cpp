// Verb first, then what the verb's option table says. Everything a run can throw ends here, as text
// on stderr and an exit code.
#include "core/cli/cli.h"

#include <algorithm>
#include <csignal>
#include <iostream>
#include <new>
#include <vector>

#include "core/cli/options.h"
#include "core/cli/version.h"
#include "core/cli/waiting.h"
#include "registry/error.h"
#include "registry/registry.h"
#include "registry/text.h"

namespace moelab {
namespace {

std::string overview() {
  std::string text = "moelab: a laboratory for mixture-of-experts training\n\nmoelab VERB …\n\n";
  for (const auto& [name, verb] : verbs())
    text += str("  ", name, std::string(name.size() < 12 ? 12 - name.size() : 1, ' '), verb.summary,
                "\n");
  return text +
         "\nmoelab VERB --help tells a verb's options; moelab --version what was built.\n\n"
         "Exit codes:\n" +
         exit_code_table();
}

int unknown_verb(const std::string& given) {
  std::vector<std::string> known;
  for (const auto& [name, verb] : verbs()) known.push_back(name);
  const std::string near = suggest(given, known);
  std::cerr << "moelab: no verb is named '" << given << "'";
  if (!near.empty()) std::cerr << "; did you mean '" << near << "'?";
  std::cerr << "\nsee moelab --help\n";
  return static_cast<int>(ExitCode::usage);
}

// Two components of one name: which of them a recipe means would depend on the link order.
bool report_conflicts() {
  for (const Conflict& conflict : registration_conflicts())
    std::cerr << "moelab: " << conflict.family << " '" << conflict.name
              << "' is registered twice: " << conflict.first.file_name() << ":"
              << conflict.first.line() << " and " << conflict.second.file_name() << ":"
              << conflict.second.line() << "; rename one of them\n";
  return !registration_conflicts().empty();
}

int run(const std::vector<std::string>& words, char** argv) {
  if (report_conflicts()) return static_cast<int>(ExitCode::internal);
  if (words.empty()) {
    std::cerr << overview();
    return static_cast<int>(ExitCode::usage);
  }
  const std::string& first = words.front();
  if (first == "--help" || first == "-h" || first == "help") {
    std::cout << overview();
    return 0;
  }
  if (first == "--version") {
    std::cout << version_text();
    return 0;
  }
  const auto verb = verbs().find(first);
  if (verb == verbs().end()) return unknown_verb(first);
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (wants_help(rest)) {
    std::cout << help_of(verb->second);
    return 0;
  }
  const Arguments arguments = parse_arguments(verb->second, rest);
  if (std::ranges::count(verb->second.options, "threads", &Option::name) > 0)
    restart_with_short_spins(argv);
  return verb->second.run(arguments, {std::cout, std::cerr});
}

// Lists of problems begin with their own places (file:line:column) and stay as they are.
int fail(ExitCode code, const std::string& text) {
  const bool list = text.find(": error: ") != std::string::npos;
  std::cerr << (list ? "" : "moelab: ") << text << (text.ends_with('\n') ? "" : "\n");
  return static_cast<int>(code);
}

}  // namespace

int cli_main(int argc, char** argv) {
  // A reader that went away (`moelab … | head`) is an error of writing, not the death of a run.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    const int code = run(std::vector<std::string>(argv + 1, argv + argc), argv);
    std::cout.flush();
    if (!std::cout && code == 0) return fail(ExitCode::resources, "standard output was closed");
    return code;
  } catch (const Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(ExitCode::resources,
                "out of memory; lower train.batch or data.sequence_length, raise train.accumulate, "
                "or recompute (model.recompute)");
  } catch (const std::exception& error) {
    return fail(ExitCode::internal,
                str("internal error: ", error.what(),
                    "\nThis is a bug of moelab; please report it with the recipe."));
  }
}

}  // namespace moelab
