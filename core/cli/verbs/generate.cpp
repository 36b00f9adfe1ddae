// moelab generate: text from a saved model.
#include <ostream>

#include "core/cli/recipe_arguments.h"
#include "core/train/evaluate.h"
#include "registry/error.h"
#include "registry/text.h"

namespace moelab {
namespace {

// The recipe's [sample], changed by the options that were given.
Sampling sampling_argument(const Arguments& arguments, const SampleSection& section) {
  Sampling sampling = sampling_of(section);
  sampling.tokens = arguments.integer("tokens", sampling.tokens, 1);
  sampling.temperature = arguments.real("temperature", sampling.temperature);
  sampling.top_k = arguments.integer("top-k", sampling.top_k, 0);
  sampling.top_p = arguments.real("top-p", sampling.top_p);
  sampling.seed = static_cast<std::uint64_t>(
      arguments.integer("seed", static_cast<std::int64_t>(sampling.seed), 0));
  if (sampling.top_p <= 0 || sampling.top_p > 1)
    throw Error(ExitCode::usage, str("--top-p = ", exact(sampling.top_p), " must be in (0, 1]"));
  return sampling;
}

int run(const Arguments& arguments, const Streams& streams) {
  const SavedModel saved = open_saved_argument(arguments, streams);
  const std::string prompt = arguments.text("prompt", saved.config.sample.prompt);
  if (prompt.empty())
    throw Error(ExitCode::usage,
                "sample.prompt of the model's recipe is empty; give --prompt with at least one "
                "character");
  const Sampling sampling = sampling_argument(arguments, saved.config.sample);
  const int threads = threads_argument(arguments);
  streams.out << prompt << std::flush;
  generate_saved(
      saved, prompt, sampling, threads,
      [&](const std::string& piece) { streams.out << piece << std::flush; }, &streams.err);
  streams.out << "\n";
  return 0;
}

const RegisterVerb registered{
    {.name = "generate",
     .summary = "write text with a saved model",
     .positionals = {{"RUN", "a run's folder (its newest checkpoint) or a checkpoint's folder"}},
     .options = {{"prompt", "TEXT", "what to go on from; default: sample.prompt of the recipe"},
                 {"tokens", "N", "how many to write"},
                 {"temperature", "X", "0: always the likeliest token"},
                 {"top-k", "N", "only the N likeliest tokens; 0: all"},
                 {"top-p", "X", "only the likeliest tokens that make up this probability"},
                 {"seed", "N", "the same seed gives the same text"},
                 set_option(),
                 trace_option(),
                 replay_option(),
                 threads_option()},
     .notes = "What is not given comes from the recipe's [sample].",
     .run = run}};

}  // namespace
}  // namespace moelab
