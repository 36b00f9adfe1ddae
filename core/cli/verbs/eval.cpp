// moelab eval: a saved model on its held-out text.
#include <ostream>

#include "core/cli/recipe_arguments.h"
#include "core/train/evaluate.h"
#include "registry/text.h"

namespace moelab {
namespace {

int run(const Arguments& arguments, const Streams& streams) {
  const SavedModel saved = open_saved_argument(arguments, streams);
  const HeldoutResult result = evaluate_saved(saved, threads_argument(arguments),
                                              arguments.integer("rows", 0, 0), &streams.err);
  streams.out << "held-out loss " << exact(result.loss) << " nats a token, "
              << exact(result.bits_per_byte) << " bits a byte, over " << result.tokens
              << " tokens in " << result.rows << " rows\n";
  if (!result.loads.empty()) streams.out << load_picture(result.loads);
  return 0;
}

const RegisterVerb registered{
    {.name = "eval",
     .summary = "measure a saved model on its held-out text",
     .positionals = {{"RUN", "a run's folder (its newest checkpoint) or a checkpoint's folder"}},
     .options = {{"rows", "N", "only the first N rows; 0 (default): all of the text"},
                 set_option(),
                 trace_option(),
                 replay_option(),
                 threads_option()},
     .notes = "",
     .run = run}};

}  // namespace
}  // namespace moelab
