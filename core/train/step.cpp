#include "core/train/step.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace moelab {
namespace {

double scalar(const Tensor& value) {
  return dispatch_real(value.dtype(), "loss",
                       [&](auto zero) { return double(value.data<decltype(zero)>()[0]); });
}

void add_to(std::vector<double>& sums, const auto& values) {
  sums.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) sums[i] += static_cast<double>(values[i]);
}

double entropy(const std::vector<double>& weights) {
  double sum = 0, out = 0;
  for (const double w : weights) sum += w;
  for (const double w : weights)
    if (w > 0) out -= w / sum * std::log(w / sum);
  return out;
}

}  // namespace

void StepStats::add(const ModelOutput& output) {
  loss_sum_ += scalar(output.loss_sum.value);
  for (const LossTerm& term : output.losses) {
    auto at = std::ranges::find_if(
        terms_, [&](const Term& t) { return t.name == term.name && t.layer == term.layer; });
    if (at == terms_.end())
      at = terms_.insert(at, {term.name, term.layer, 0, term.coefficient, term.replicated});
    at->value += scalar(term.value.value);
  }
  for (std::size_t i = 0; i < output.records.size(); ++i) {
    const RoutingRecord& record = *output.records[i];
    if (i == layers_.size()) {
      layers_.emplace_back().layer = record.layer;
      layers_[i].logit_max = -std::numeric_limits<double>::infinity();
    }
    Layer& layer = layers_[i];
    add_to(layer.routed_E, record.routed_E);
    add_to(layer.kept_E, record.kept_E);
    add_to(layer.score_sum_E, record.score_sum_E);
    layer.dropped += static_cast<double>(record.dropped_capacity);
    layer.valid += static_cast<double>(record.valid_tokens);
    layer.entropy_sum += record.token_entropy_sum;
    layer.logit_max = std::max(layer.logit_max, record.logit_max);
    layer.bias_min = record.choice_bias_min;
    layer.bias_max = record.choice_bias_max;
  }
}

template <class F>
void StepStats::each_sum(const F& visit) {
  visit(loss_sum_);
  for (Term& term : terms_)
    if (!term.replicated) visit(term.value);
  for (Layer& layer : layers_) {
    for (auto* table : {&layer.routed_E, &layer.kept_E, &layer.score_sum_E})
      for (double& sum : *table) visit(sum);
    for (double* sum : {&layer.dropped, &layer.valid, &layer.entropy_sum}) visit(*sum);
  }
}

void StepStats::reduce(const RankContext& ranks, Index& flag) {
  if (ranks.dp->size() == 1) return;
  std::vector<double> sums;
  each_sum([&](double& sum) { sums.push_back(sum); });
  const Tensor table = ranks.backend->empty(DType::f64, {static_cast<Index>(sums.size())});
  std::ranges::copy(sums, table.data<double>());
  std::vector<double> most{static_cast<double>(flag)};
  for (const Layer& layer : layers_) most.push_back(layer.logit_max);
  const Tensor maxima = ranks.backend->empty(DType::f64, {static_cast<Index>(most.size())});
  std::ranges::copy(most, maxima.data<double>());
  ranks.dp->all_reduce(table).wait();
  ranks.dp->all_reduce(maxima, Reduce::max).wait();
  const double* next = table.data<double>();
  each_sum([&](double& sum) { sum = *next++; });
  flag = static_cast<Index>(maxima.data<double>()[0]);
  for (std::size_t i = 0; i < layers_.size(); ++i)
    layers_[i].logit_max = maxima.data<double>()[i + 1];
}

double StepStats::balancing() const {
  double sum = 0;
  for (const Term& term : terms_) sum += term.coefficient * term.value;
  return sum;
}

std::map<Index, StepLoad> StepStats::loads() const {
  std::map<Index, StepLoad> out;
  for (const Layer& layer : layers_) {
    StepLoad& load = out[layer.layer];
    for (const double n : layer.routed_E) load.routed_E.push_back(static_cast<Index>(n));
    for (const double n : layer.kept_E) load.kept_E.push_back(static_cast<Index>(n));
    load.valid_tokens = static_cast<Index>(layer.valid);
  }
  return out;
}

std::vector<LayerLoad> StepStats::layer_loads() const {
  std::vector<LayerLoad> out;
  for (const Layer& layer : layers_) out.push_back({layer.layer, layer.routed_E});
  return out;
}

double StepStats::worst_balance() const {
  double worst = 0;
  for (const Layer& layer : layers_)
    worst = std::max(worst, summarize(layer.routed_E).max_over_mean);
  return worst;
}

void StepStats::write(MetricsRow& row) const {
  std::map<std::string, std::pair<double, double>> by_name;  // sum, layers
  for (const Term& term : terms_) {
    by_name[term.name].first += term.value;
    by_name[term.name].second += 1;
  }
  for (const auto& [name, sum] : by_name) row.set("loss/" + name, sum.first / sum.second);
  for (const Layer& layer : layers_) {
    const std::string prefix = str("moe/", layer.layer, "/");
    const LoadSummary load = summarize(layer.routed_E);
    double routed = 0;
    for (const double n : layer.routed_E) routed += n;
    const double drop_rate = routed > 0 ? layer.dropped / routed : 0;
    row.set(prefix + "load_cv", load.cv);
    row.set(prefix + "load_max_over_mean", load.max_over_mean);
    row.set(prefix + "max_vio", load.max_over_mean - 1);
    row.set(prefix + "route_entropy_token", layer.entropy_sum / std::max(1.0, layer.valid));
    row.set(prefix + "route_entropy_marginal", entropy(layer.score_sum_E));
    row.set(prefix + "experts_per_token", routed / std::max(1.0, layer.valid));
    row.set(prefix + "drop_rate", drop_rate);
    row.set(prefix + "drop_rate/capacity", drop_rate);
    row.set(prefix + "dead_experts", load.dead);
    row.set(prefix + "bias_min", layer.bias_min);
    row.set(prefix + "bias_max", layer.bias_max);
    row.set(prefix + "logit_max", layer.logit_max);
  }
  for (const Term& term : terms_)
    if (term.layer >= 0) row.set(str("moe/", term.layer, "/loss/", term.name), term.value);
}

std::string StepStats::non_finite(double loss) const {
  for (const Layer& layer : layers_)
    for (const double sum : layer.score_sum_E)
      if (!std::isfinite(sum)) return str("the router scores of layer ", layer.layer);
  for (const Term& term : terms_)
    if (!std::isfinite(term.value))
      return str("the balancing loss '", term.name, "'",
                 term.layer >= 0 ? str(" of layer ", term.layer) : std::string());
  return std::isfinite(loss) ? "" : "the cross-entropy (lm_head)";
}

StepStats forward_backward(const Session& session, const StepBatch& batch, Index step,
                           const StepHooks& hooks) {
  StepStats stats;
  session.model->begin_step();
  for (Index m = 0; m < batch.micro_batches(); ++m) {
    const MicroBatch micro_batch = batch.micro_batch(*session.ranks.backend, m);
    Tape tape(*session.ranks.backend);
    if (hooks.ops) tape.observe(hooks.ops);
    const Moment moment{Phase::train, step, m, batch.micro_batches(), session.model->spec().seed};
    const ForwardOptions options = hooks.forward.options
                                       ? hooks.forward.options(m, micro_batch.tokens)
                                   : hooks.playback ? hooks.playback(m)
                                                    : ForwardOptions{};
    const ModelOutput output = session.model->forward(
        tape, micro_batch.tokens, micro_batch.target_T, moment, batch.facts(), options);
    if (hooks.output) hooks.output(m, output);
    if (hooks.forward.output) hooks.forward.output(m, micro_batch.tokens, output);
    stats.add(output);
    const auto tokens = static_cast<double>(std::max<Index>(1, batch.loss_tokens()));
    tape.seed(output.loss_sum, 1.0 / tokens);
    for (const LossTerm& term : output.losses) tape.seed(term.value, term.coefficient);
    tape.backward();
  }
  return stats;
}

}  // namespace moelab
