#include "core/train/trainer.h"

#include <csignal>

#include <optional>
#include <ostream>

#include "core/train/report.h"
#include "core/train/resume.h"
#include "core/train/signals.h"

namespace moelab {
namespace {

constexpr const char* kFresh = "none";
constexpr const char* kAuto = "auto";

// The checkpoint to go on from; none: start anew.
std::optional<Checkpoint> checkpoint_to_resume(const TrainOptions& options, const RunFolder& folder,
                                               Index keep, std::ostream& log) {
  if (options.resume == kAuto) {
    auto found = CheckpointStore(folder.checkpoints(), keep).newest_whole(log);
    if (!found && folder.holds_run())
      log << "no whole checkpoint in " << folder.path() << ": starting anew\n";
    return found;
  }
  if (options.resume != kFresh) return find_checkpoint(options.resume, log);
  if (folder.holds_run())
    throw Error(ExitCode::usage,
                str("the folder ", folder.path(),
                    " already holds a run; go on with it (--resume auto) or choose another --out"));
  return {};
}

// --out; else the run that --resume names; else the recipe's default.
std::string folder_of(const RunConfig& config, const TrainOptions& options) {
  if (!options.out.empty()) return options.out;
  const bool named = options.resume != kFresh && options.resume != kAuto;
  if (named && !run_of(options.resume).empty()) return run_of(options.resume);
  return default_run_folder(options.recipe, config.run.folder, options.resume == kAuto);
}

void announce(const RunConfig& config, const RunFolder& folder,
              const std::optional<Checkpoint>& from, const std::string& init, std::ostream& log) {
  log << "run folder " << folder.path() << "\n";
  if (!init.empty()) log << "starting from the weights of " << init << "\n";
  if (from)
    log << "resuming from " << from->path << ": step " << from->meta.step << " of "
        << config.total_steps() << "\n";
}

}  // namespace

ExitCode train(const RunConfig& config, const Report& report, const TrainOptions& options,
               std::ostream& out, std::ostream& log) {
  const SignalGuard signals;
  const RunFolder folder(folder_of(config, options));
  const auto from = checkpoint_to_resume(options, folder, config.train.keep_checkpoints, log);
  const std::string init = from || options.init.empty() ? "" : find_weights(options.init, log);
  const Corpus corpus = make_corpus(config);
  const std::string recipe = resolved_toml(report);
  if (from) check_resume(*from, recipe, corpus.dataset->fingerprint(), log);
  folder.write("recipe.toml", recipe);
  folder.write("environment.json", environment_json(options.threads, config.parallel.ranks));
  if (const std::string problem = folder.link_latest(); !problem.empty())
    log << "warning: " << problem << "\n";
  if (!options.quiet) announce(config, folder, from, init, log);

  ProgressStyle style = style_of_stderr();
  style.quiet = options.quiet;
  style.every = config.train.log_every;
  const TrainJob job{config, corpus, from ? &*from : nullptr, init, recipe, folder, log, style};
  TrainOutcome outcome;
  run_ranks(config, options.threads, [&](Rank& rank) {
    TrainLoop loop(job, rank);
    TrainOutcome own = loop.run();
    if (rank.rank() == 0) outcome = std::move(own);
  });
  if (outcome.signal != 0) {
    log << "saved step " << outcome.state.step << " in " << folder.path()
        << "; go on with --resume auto --out " << folder.path() << "\n";
    return outcome.signal == SIGTERM ? ExitCode::saved_on_term : ExitCode::interrupted;
  }
  const std::string text = final_report(outcome, folder.path());
  folder.write("summary.json", summary_json(outcome));
  folder.write("report.txt", text);
  out << text;
  return ExitCode::ok;
}

}  // namespace moelab
