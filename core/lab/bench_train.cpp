#include "core/lab/bench_train.h"

#include <algorithm>
#include <iomanip>
#include <ostream>
#include <sstream>

#include "core/base/threads.h"
#include "core/checkpoint/import.h"
#include "core/lab/peer_figures.h"
#include "core/lab/samples.h"
#include "core/optim/gradients.h"
#include "core/train/step.h"

namespace moelab {
namespace {

struct OpTime {
  double forward = 0, backward = 0;
  double total() const { return forward + backward; }
};

struct StepLine {
  double loss = 0, norm = 0, seconds = 0;
};

struct TrainTimes {
  std::vector<StepLine> all;  // the warm steps too
  std::vector<double> step;   // seconds of each counted step
  std::map<std::string, OpTime> ops;
  Index tokens = 0;  // of a step, all ranks
};

// Everything a step of training does, in the order of the trainer.
class Stepper {
 public:
  Stepper(const RunConfig& config, const Corpus& corpus, const std::string& init, Rank& rank)
      : config_(config),
        corpus_(corpus),
        session_(config, corpus, rank),
        gradients_(session_.parameters, session_.ranks),
        optimizer_(config.optimizer.make(
            {*session_.ranks.backend, session_.parameters, gradients_.names()})),
        schedule_(config.schedule.make({config.total_steps()})) {
    if (!init.empty()) import_weights(*session_.model, init);
  }

  void step(Index at, bool counted, TrainTimes& times) {
    const double start = now_seconds();
    const StepBatch batch(session_, config_, *corpus_.dataset, at);
    const double read = now_seconds();
    StepHooks hooks;
    if (counted)
      hooks.ops = [&times](const char* op, bool backward, double seconds) {
        OpTime& time = times.ops[op];
        (backward ? time.backward : time.forward) += seconds;
      };
    StepStats stats = forward_backward(session_, batch, at, hooks);
    const double ran = now_seconds();
    gradients_.reduce();
    const double norm = gradients_.norm();
    Index flag = 0;
    stats.reduce(session_.ranks, flag);
    const double reduced = now_seconds();
    optimizer_->step(at + 1, schedule_->at(at), clip_factor(norm, config_.train.clip_norm));
    session_.model->after_step(stats.loads());
    gradients_.clear();
    const double end = now_seconds();
    const auto scored = static_cast<double>(std::max<Index>(1, batch.loss_tokens()));
    times.all.push_back({stats.loss_sum() / scored, norm, end - start});
    if (!counted) return;
    times.step.push_back(end - start);
    times.ops["(batch)"].forward += read - start;
    times.ops["(gradient sum and norm)"].backward += reduced - ran;
    times.ops["(optimizer)"].backward += end - reduced;
    times.tokens = batch.valid_tokens();
  }
  bool leads() const { return session_.leads(); }

 private:
  const RunConfig& config_;
  const Corpus& corpus_;
  Session session_;
  Gradients gradients_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Schedule> schedule_;
};

void print_steps(const std::vector<StepLine>& steps, std::ostream& text) {
  for (std::size_t s = 0; s < steps.size(); ++s)
    text << "{\"step\":" << s << ",\"loss\":" << exact(steps[s].loss)
         << ",\"grad_norm\":" << exact(steps[s].norm) << ",\"ms\":" << steps[s].seconds * 1e3
         << "}\n";
}

void print_rate(const BenchTrainOptions& options, const PeerFigures& peers, DType dtype,
                Index tokens, const std::vector<double>& seconds, std::ostream& text) {
  const double step = median(seconds), rate = static_cast<double>(tokens) / step;
  PeerWork work;
  work.kind = "train";
  work.dtype = name_of(dtype);
  const auto best = peers.best(work, options.threads);
  if (options.json) {
    text << R"({"bench":"train","dtype":")" << name_of(dtype) << R"(","tokens_s_median":)" << rate
         << R"(,"ms_median":)" << step * 1e3 << R"(,"steps":)" << seconds.size() << R"(,"threads":)"
         << options.threads;
    print_peer_json(text, peers, best, step * 1e3);
    text << "}\n";
    return;
  }
  text << std::setprecision(0) << rate << " tokens/s, " << std::setprecision(1) << step * 1e3
       << " ms a step (median of " << seconds.size() << ")\n";
  if (best)
    text << "the other program: " << best->ms << " ms a step (" << best->way << "), ratio "
         << std::setprecision(2) << best->ms / (step * 1e3) << '\n';
  else if (peers.given())
    text << "the other program: no figure in " << name_of(dtype) << " on " << options.threads
         << " threads\n";
}

void print_ops(bool json, const TrainTimes& times, std::ostream& text) {
  double all = 0, in_ops = 0;
  for (const double seconds : times.step) all += seconds;
  std::vector<std::pair<std::string, OpTime>> ops(times.ops.begin(), times.ops.end());
  for (const auto& [op, time] : ops) in_ops += time.total();
  ops.push_back({"(between ops)", {.forward = all - in_ops}});
  std::ranges::sort(
      ops, [](const auto& a, const auto& b) { return a.second.total() > b.second.total(); });
  const double per_step = 1e3 / static_cast<double>(times.step.size());
  if (!json) text << "op                           forward  backward   ms a step   share\n";
  for (const auto& [op, time] : ops) {
    const double share = 100 * time.total() / all;
    if (json)
      text << std::setprecision(3) << R"({"op":")" << op << R"(","ms_forward":)"
           << time.forward * per_step << R"(,"ms_backward":)" << time.backward * per_step
           << R"(,"percent":)" << share << "}\n";
    else
      text << std::left << std::setw(26) << op << std::right << std::setprecision(2)
           << std::setw(10) << time.forward * per_step << std::setw(10) << time.backward * per_step
           << std::setw(12) << time.total() * per_step << std::setprecision(1) << std::setw(7)
           << share << "%\n";
  }
}

}  // namespace

void bench_train(const RunConfig& config, const BenchTrainOptions& options, std::ostream& out) {
  const PeerFigures peers(options.against, "train");
  const Corpus corpus = make_corpus(config);
  run_ranks(config, options.threads, [&](Rank& rank) {
    Stepper stepper(config, corpus, options.init, rank);
    TrainTimes times;
    for (Index s = 0; s < options.warm + options.steps; ++s)
      stepper.step(s, stepper.leads() && s >= options.warm, times);
    if (!stepper.leads()) return;
    std::ostringstream text;
    text << std::fixed << std::setprecision(3);
    if (options.json) print_steps(times.all, text);
    print_rate(options, peers, run_dtype(config), times.tokens, times.step, text);
    print_ops(options.json, times, text);
    out << text.str();
  });
}

}  // namespace moelab
