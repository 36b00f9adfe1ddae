#include "core/lab/bench_train.h"

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <ostream>
#include <sstream>

#include "core/base/threads.h"
#include "core/optim/gradients.h"
#include "core/train/step.h"

namespace moelab {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct OpTime {
  double forward = 0, backward = 0;
  double total() const { return forward + backward; }
};

struct TrainTimes {
  std::vector<double> step;  // seconds of each counted step
  std::map<std::string, OpTime> ops;
  Index tokens = 0;  // of a step, all ranks
};

// Everything a step of training does, in the order of the trainer.
class Stepper {
 public:
  Stepper(const RunConfig& config, const Corpus& corpus, Rank& rank)
      : config_(config),
        corpus_(corpus),
        session_(config, corpus, rank),
        gradients_(session_.parameters, session_.ranks),
        optimizer_(config.optimizer.make(
            {*session_.ranks.backend, session_.parameters, gradients_.names()})),
        schedule_(config.schedule.make({config.total_steps()})) {}

  void step(Index at, TrainTimes* times) {
    const double start = now();
    const StepBatch batch(session_, config_, *corpus_.dataset, at);
    const double read = now();
    StepHooks hooks;
    if (times)
      hooks.ops = [times](const char* op, bool backward, double seconds) {
        OpTime& time = times->ops[op];
        (backward ? time.backward : time.forward) += seconds;
      };
    const StepStats stats = forward_backward(session_, batch, at, hooks);
    const double ran = now();
    gradients_.reduce();
    const double norm = gradients_.norm();
    const double reduced = now();
    optimizer_->step(at + 1, schedule_->at(at), clip_factor(norm, config_.train.clip_norm));
    session_.model->after_step(stats.loads());
    gradients_.clear();
    const double end = now();
    if (!times) return;
    times->step.push_back(end - start);
    times->ops["(batch)"].forward += read - start;
    times->ops["(gradient sum and norm)"].backward += reduced - ran;
    times->ops["(optimizer)"].backward += end - reduced;
    times->tokens = batch.valid_tokens();
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

void print(const BenchTrainOptions& options, TrainTimes times, std::ostream& out) {
  double all = 0, in_ops = 0;
  for (const double seconds : times.step) all += seconds;
  for (const auto& [op, time] : times.ops) in_ops += time.total();
  times.ops["(between ops)"].forward = all - in_ops;
  std::vector<std::pair<std::string, OpTime>> ops(times.ops.begin(), times.ops.end());
  std::ranges::sort(
      ops, [](const auto& a, const auto& b) { return a.second.total() > b.second.total(); });
  const auto middle = times.step.begin() + static_cast<std::ptrdiff_t>(times.step.size() / 2);
  std::ranges::nth_element(times.step, middle);
  const double rate = static_cast<double>(times.tokens) / *middle;
  const double per_step = 1e3 / static_cast<double>(times.step.size());
  std::ostringstream text;
  text << std::fixed << std::setprecision(3);
  if (options.json)
    text << "{\"bench\":\"train\",\"tokens_s_median\":" << rate
         << ",\"ms_median\":" << *middle * 1e3 << ",\"steps\":" << times.step.size()
         << ",\"threads\":" << options.threads << "}\n";
  else
    text << std::setprecision(0) << rate << " tokens/s, " << std::setprecision(1) << *middle * 1e3
         << " ms a step (median of " << times.step.size() << ")\n"
         << "op                           forward  backward   ms a step   share\n";
  for (const auto& [op, time] : ops) {
    const double share = 100 * time.total() / all;
    if (options.json)
      text << "{\"op\":\"" << op << "\",\"ms_forward\":" << time.forward * per_step
           << ",\"ms_backward\":" << time.backward * per_step << ",\"percent\":" << share << "}\n";
    else
      text << std::left << std::setw(26) << op << std::right << std::setprecision(2)
           << std::setw(10) << time.forward * per_step << std::setw(10) << time.backward * per_step
           << std::setw(12) << time.total() * per_step << std::setprecision(1) << std::setw(7)
           << share << "%\n";
  }
  out << text.str();
}

}  // namespace

void bench_train(const RunConfig& config, const BenchTrainOptions& options, std::ostream& out) {
  const Corpus corpus = make_corpus(config);
  run_ranks(config, options.threads, [&](Rank& rank) {
    Stepper stepper(config, corpus, rank);
    TrainTimes times;
    for (Index s = 0; s < options.warm + options.steps; ++s)
      stepper.step(s, stepper.leads() && s >= options.warm ? &times : nullptr);
    if (stepper.leads()) print(options, std::move(times), out);
  });
}

}  // namespace moelab
