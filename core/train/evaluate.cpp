#include "core/train/evaluate.h"

#include <algorithm>
#include <numbers>
#include <ostream>

#include "core/base/threads.h"
#include "core/data/rows.h"
#include "core/train/batch.h"
#include "core/train/routing_pass.h"
#include "core/train/run_folder.h"

namespace moelab {
namespace {

// Losses and routing of the global rows [first, first + rows), those beyond `last` being padding.
void evaluate_rows(const Session& session, const RunConfig& config, const Dataset& dataset,
                   Index first, Index rows, Index last, const Playback& playback,
                   const ForwardHooks& hooks, StepStats& stats, Index& tokens) {
  const Index length = config.data.sequence_length;
  const Index own = rows / session.ranks.dp->size(), first_own = own * session.ranks.dp->rank();
  std::vector<Row> text;
  for (Index row = first + first_own; row < first + first_own + own; ++row)
    text.push_back(row < last ? dataset.heldout_row(row) : padding_row(length));
  const MicroBatch batch = make_micro_batch(*session.ranks.backend, text, length, first_own, rows);
  for (const Row& row : text)
    tokens += std::ranges::count_if(row.target, [](auto target) { return target >= 0; });
  Tape tape(*session.ranks.backend, Tape::Mode::forward);
  const Moment moment{Phase::eval, 0, 0, 1, session.model->spec().seed};
  StepFacts facts;
  facts.instances_in_step = [](ScopeSpec) { return Index{1}; };
  facts.valid_tokens_in_step = rows * length;
  const Index m = first / rows;
  const ForwardOptions options = hooks.options ? hooks.options(m, batch.tokens)
                                 : playback    ? playback(m)
                                               : ForwardOptions{};
  const ModelOutput output =
      session.model->forward(tape, batch.tokens, batch.target_T, moment, facts, options);
  if (hooks.output) hooks.output(m, batch.tokens, output);
  stats.add(output);
}

void refuse_non_causal(const RunConfig& config) {
  for (const std::string& name : config.layer_kinds())
    if (!config.ffn.at(name).traits().evaluable)
      throw Error(
          ExitCode::usage,
          str("cannot evaluate: in ffn.", name,
              " a token's experts depend on later tokens; if that is what you want, say --set"
              " ffn.",
              name, ".router.allow_non_causal=true"));
}

// The one pass of a saved model, on one rank.
class SavedPass {
 public:
  SavedPass(const Session& session, const SavedModel& saved, Phase phase)
      : instruments_(session, saved.config, saved.trace_folder),
        pass_(instruments_.pass(phase, saved.checkpoint.meta.step)) {}
  ForwardHooks hooks() { return pass_->hooks(); }
  void finish(std::ostream* log) {
    pass_->finish();
    instruments_.note(*pass_);
    if (const std::string text = instruments_.summary(); log && !text.empty()) *log << text << "\n";
  }

 private:
  RoutingInstruments instruments_;
  std::unique_ptr<RoutingPass> pass_;
};

}  // namespace

HeldoutResult evaluate_heldout(const Session& session, const RunConfig& config,
                               const Dataset& dataset, Index max_rows,
                               const std::function<bool()>& give_up, const Playback& playback,
                               const ForwardHooks& hooks) {
  const Index all = dataset.heldout_rows();
  const Index last = max_rows > 0 ? std::min(max_rows, all) : all;
  const Index rows = config.rows_per_evaluation();
  StepStats stats;
  const Tensor tokens = session.ranks.backend->zeros(DType::i64, {1});
  Index& count = *tokens.data<std::int64_t>();
  HeldoutResult out;
  for (Index first = 0; first < last; first += rows) {
    if (give_up && give_up()) return out;
    evaluate_rows(session, config, dataset, first, rows, last, playback, hooks, stats, count);
  }
  Index unused = 0;
  stats.reduce(session.ranks, unused);
  session.ranks.dp->all_reduce(tokens).wait();

  out.complete = true;
  out.tokens = count;
  out.rows = last;
  out.loss = stats.loss_sum() / static_cast<double>(std::max<Index>(1, count));
  const double bytes_per_token =
      static_cast<double>(dataset.bytes(Split::heldout)) /
      static_cast<double>(std::max<Index>(1, dataset.tokens(Split::heldout)));
  out.bits_per_byte = out.loss / std::numbers::ln2 / bytes_per_token;
  out.loads = stats.layer_loads();
  return out;
}

Sampling sampling_of(const SampleSection& section) {
  return {section.tokens, section.temperature, section.top_p, section.top_k,
          static_cast<std::uint64_t>(section.seed)};
}

SavedModel open_saved(const std::string& path, std::span<const std::string> sets,
                      std::ostream& warnings) {
  SavedModel saved{find_checkpoint(path, warnings), {}, ""};
  if (const std::string run = run_of(path); !run.empty()) saved.trace_folder = run + "/trace";
  Report report;
  Node root = parse_recipe(saved.checkpoint.meta.recipe, saved.checkpoint.file(kMetaFile),
                           Source::Origin::recipe, report);
  apply_sets(root, sets, report);
  saved.config = read_run_config(root, report);
  if (report.has_errors()) throw Error(ExitCode::usage, report.lines());
  saved.config.parallel.ranks = saved.config.parallel.ep = 1;
  return saved;
}

HeldoutResult evaluate_saved(const SavedModel& saved, int threads, Index max_rows,
                             std::ostream* log) {
  refuse_non_causal(saved.config);
  HeldoutResult out;
  const Corpus corpus = make_corpus(saved.config);
  if (corpus.dataset->heldout_rows() == 0)
    throw Error(ExitCode::data,
                "the text has no held-out part to measure; raise data.dataset.heldout_fraction");
  run_ranks(saved.config, threads, [&](Rank& rank) {
    const Session session(saved.config, corpus, rank);
    load_weights(session, saved.checkpoint);
    load_states(session, saved.checkpoint);
    SavedPass pass(session, saved, Phase::eval);
    out = evaluate_heldout(session, saved.config, *corpus.dataset, max_rows, {}, {}, pass.hooks());
    pass.finish(log);
  });
  return out;
}

std::string generate_saved(const SavedModel& saved, const std::string& prompt,
                           const Sampling& sampling, int threads,
                           const std::function<void(const std::string&)>& each, std::ostream* log) {
  std::string out;
  Corpus corpus;
  corpus.tokenizer = saved.config.data.tokenizer.make({});
  run_ranks(saved.config, threads, [&](Rank& rank) {
    Session session(saved.config, corpus, rank);
    load_weights(session, saved.checkpoint);
    load_states(session, saved.checkpoint);
    const auto show = [&](std::int32_t token) {
      if (each) each(corpus.tokenizer->decode({token}));
    };
    SavedPass pass(session, saved, Phase::inference);
    out = corpus.tokenizer->decode(
        generate(*session.model, corpus.tokenizer->encode(prompt), sampling, show, pass.hooks()));
    pass.finish(log);
  });
  return out;
}

}  // namespace moelab
