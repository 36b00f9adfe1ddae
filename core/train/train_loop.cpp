#include "core/train/train_loop.h"

#include <cmath>
#include <csignal>

#include <algorithm>

#include "core/base/build_info.h"
#include "core/checkpoint/import.h"
#include "core/train/signals.h"
#include "registry/error.h"

namespace moelab {
namespace {

constexpr Index kOutOfTime = 1;  // beside the numbers of signals

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TrainLoop::TrainLoop(const TrainJob& job, Rank& rank)
    : job_(job),
      config_(job.config),
      session_(job.config, job.corpus, rank),
      gradients_(session_.parameters, session_.ranks),
      optimizer_(config_.optimizer.make(
          {*session_.ranks.backend, session_.parameters, gradients_.names()})),
      schedule_(config_.schedule.make({config_.total_steps()})),
      store_(job.folder.checkpoints(), config_.train.keep_checkpoints),
      instruments_(session_, config_, job.folder.file("trace")),
      steps_(config_.total_steps()),
      has_heldout_(job.corpus.dataset->heldout_rows() > 0) {
  if (job_.from) {
    restore();
  } else if (!job_.init.empty()) {
    import_weights(*session_.model, job_.init);
    adopt_states(session_, job_.init, job_.log);
  }
  state_.model_seed = config_.model_seed();
  state_.data_seed = config_.data_seed();
  state_.data_fingerprint = job_.corpus.dataset->fingerprint();
  state_.recipe = job_.recipe;
  state_.version = build_info().version;
  if (!session_.leads()) return;
  store_.discard_after(state_.step);
  discard_traces_after(job_.folder.file("trace"), state_.step);
  metrics_ = std::make_unique<MetricsLog>(job_.folder.file("metrics.jsonl"), state_.step);
  progress_ = std::make_unique<Progress>(job_.log, job_.style);
}

TrainOutcome TrainLoop::run() {
  while (state_.step < steps_ && stop_ == 0) {
    MetricsRow row = step();
    if (due(config_.eval.every) && state_.step < steps_ && has_heldout_) measure(row);
    if (metrics_) metrics_->write(row);
    if (due(config_.sample.every) && state_.step < steps_) sample();
    if (due(config_.train.checkpoint_every)) save();
  }
  if (progress_) progress_->finish();
  if (saved_step_ != state_.step) save();

  TrainOutcome outcome{
      state_, {}, "", "", stop_ > kOutOfTime ? static_cast<int>(stop_) : 0, stop_ == kOutOfTime};
  if (outcome.signal == 0 && config_.eval.final && has_heldout_) {
    const auto give_up = [this] {
      const Tensor signal = session_.ranks.backend->zeros(DType::i64, {1});
      *signal.data<std::int64_t>() = SignalGuard::caught();
      session_.everyone->all_reduce(signal, Reduce::max).wait();
      stop_ = *signal.data<std::int64_t>();
      return stop_ != 0;
    };
    outcome.heldout = measure_heldout(0, give_up);
    if (!outcome.heldout.complete) outcome.signal = static_cast<int>(stop_);
  }
  if (outcome.signal == 0 && config_.sample.final) outcome.sample = sample();
  outcome.replay = instruments_.summary();
  return outcome;
}

MetricsRow TrainLoop::step() {
  const auto start = std::chrono::steady_clock::now();
  const StepBatch batch(session_, config_, *job_.corpus.dataset, state_.step);
  const auto pass = instruments_.pass(Phase::train, state_.step + 1);
  StepHooks hooks;
  hooks.forward = pass->hooks();
  StepStats stats = forward_backward(session_, batch, state_.step, hooks);
  pass->finish();
  instruments_.note(*pass);
  gradients_.reduce();
  const double norm = gradients_.norm();
  stop_ = stop_request(seconds_since(start));
  stats.reduce(session_.ranks, stop_);
  const double rate = schedule_->at(state_.step);
  const auto loss_tokens = static_cast<double>(std::max<Index>(1, batch.loss_tokens()));
  const double loss = stats.loss_sum() / loss_tokens, objective = loss + stats.balancing();
  const bool finite = std::isfinite(norm) && std::isfinite(objective);
  if (finite)
    update(rate, norm, stats);
  else
    refuse_or_skip(stats, loss, norm);
  gradients_.clear();

  const double seconds = seconds_since(start);
  ++state_.step;
  state_.tokens += batch.valid_tokens();
  state_.loss = loss;
  state_.seconds += seconds;
  MetricsRow row(state_.step);
  row.set("tokens", state_.tokens);
  row.set("loss", loss);
  row.set("objective", objective);
  row.set("grad_norm", norm);
  row.set("lr", rate);
  row.set("tokens_per_second", static_cast<double>(batch.valid_tokens()) / seconds);
  row.set("seconds", seconds);
  row.set("skipped", Index{finite ? 0 : 1});
  row.set("memory_peak_bytes",
          static_cast<Index>(session_.ranks.backend->arena().counters().peak_bytes));
  stats.write(row);
  for (const auto& [layer, difference] : pass->differences())
    row.set(str("moe/", layer, "/replay_differs"),
            static_cast<double>(difference.others) / static_cast<double>(difference.pairs));
  show(stats, static_cast<double>(batch.valid_tokens()) / seconds);
  return row;
}

void TrainLoop::update(double rate, double norm, const StepStats& stats) {
  optimizer_->step(++state_.updates, rate, clip_factor(norm, config_.train.clip_norm));
  if (!config_.train.freeze_controllers) session_.model->after_step(stats.loads());
}

void TrainLoop::refuse_or_skip(const StepStats& stats, double loss, double norm) {
  const std::string forward = stats.non_finite(loss), backward = gradients_.non_finite();
  std::string what = str("step ", state_.step + 1, ": ");
  what += forward.empty() ? str("the gradient of ", backward, " is not finite")
                          : str(forward, " are not finite in the forward pass");
  if (!forward.empty() && !backward.empty())
    what += str("; the gradient of ", backward, " is not finite");
  what += str(" (loss ", loss, ", gradient norm ", norm, ")");
  if (config_.train.non_finite == NonFinitePolicy::raise)
    throw Error(ExitCode::numerical,
                what +
                    "; lower schedule.learning_rate or train.clip_norm and resume from the last "
                    "checkpoint, or set train.non_finite = \"skip\"");
  if (progress_) progress_->note("warning: " + what + "; the step is skipped");
}

void TrainLoop::measure(MetricsRow& row) {
  const HeldoutResult heldout = measure_heldout(config_.eval.max_rows);
  row.set("heldout_loss", heldout.loss);
  row.set("heldout_bits_per_byte", heldout.bits_per_byte);
  if (progress_)
    progress_->note(str("step ", state_.step, ": held-out loss ", heldout.loss, ", ",
                        heldout.bits_per_byte, " bits per byte"));
}

HeldoutResult TrainLoop::measure_heldout(Index max_rows, const std::function<bool()>& give_up) {
  const auto pass = instruments_.pass(Phase::eval, state_.step);
  HeldoutResult out = evaluate_heldout(session_, config_, *job_.corpus.dataset, max_rows, give_up,
                                       {}, pass->hooks());
  if (!out.complete) return out;
  pass->finish();
  instruments_.note(*pass);
  return out;
}

std::string TrainLoop::sample() {
  const Tokenizer& tokenizer = *job_.corpus.tokenizer;
  const auto pass = instruments_.pass(Phase::inference, state_.step);
  const auto tokens = generate(*session_.model, tokenizer.encode(config_.sample.prompt),
                               sampling_of(config_.sample), {}, pass->hooks());
  pass->finish();
  instruments_.note(*pass);
  const std::string text = config_.sample.prompt + tokenizer.decode(tokens);
  if (progress_ && state_.step < steps_)
    progress_->note(str("step ", state_.step, ": sample\n", text));
  return text;
}

Shares TrainLoop::optimizer_shares() const {
  Shares shares;
  for (const Parameter* parameter : session_.parameters) {
    auto& to = parameter->placement == Placement::expert ? shares.sharded : shares.whole;
    for (const auto& [name, tensor] : optimizer_->state(*parameter)) {
      const std::vector<Tensor> parts = parameter->split(tensor);
      for (std::size_t i = 0; i < parts.size(); ++i)
        to.push_back({parameter->pieces[i].name + "." + name, parts[i]});
    }
  }
  return shares;
}

void TrainLoop::save() {
  store_.save(state_,
              {{kModelFile, weight_shares(session_)},
               {kOptimizerFile, optimizer_shares()},
               {kStateFile, state_shares(session_)}},
              *session_.ranks.backend, *session_.everyone, session_.ranks.ep.get());
  saved_step_ = state_.step;
}

void TrainLoop::restore() {
  load_weights(session_, *job_.from);
  load_states(session_, *job_.from);
  const Shares shares = optimizer_shares();
  load_pieces(job_.from->file(kOptimizerFile), shares.whole);
  load_pieces(job_.from->file(kOptimizerFile), shares.sharded);
  state_ = job_.from->meta;
  seconds_before_ = state_.seconds;
  steps_before_ = saved_step_ = state_.step;
}

void TrainLoop::show(const StepStats& stats, double tokens_per_second) {
  if (!progress_) return;
  const double own_steps = static_cast<double>(state_.step - steps_before_);
  const double per_step = (state_.seconds - seconds_before_) / own_steps;
  progress_->update({state_.step, steps_, state_.loss, tokens_per_second,
                     per_step * static_cast<double>(steps_ - state_.step), stats.worst_balance()});
}

Index TrainLoop::stop_request(double seconds) const {
  if (const int signal = SignalGuard::caught()) return signal;
  const bool late = config_.train.max_seconds > 0 &&
                    state_.seconds + seconds - seconds_before_ >= config_.train.max_seconds;
  return late ? kOutOfTime : 0;
}

}  // namespace moelab
