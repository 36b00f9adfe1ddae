#include "core/optim/gradients.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "core/base/threads.h"
#include "core/comm/gather_texts.h"

namespace moelab {
namespace {

constexpr Index kChunk = 4096;  // elements of one partial sum: fixed, whatever the threads

template <class T>
double square_sum(const T* x, Index n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < n; ++i) sum += double(x[i]) * double(x[i]);
  return sum;
}

// Σ x² of every tensor, in f64: chunks in order, so that the number of threads cannot change it.
std::vector<double> square_sums(const std::vector<Tensor>& tensors) {
  struct Chunk {
    std::size_t tensor = 0;
    Index begin = 0;
    double sum = 0;
  };
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    for (Index at = 0; at < tensors[i].numel(); at += kChunk) chunks.push_back({i, at});
  parallel_ranges(static_cast<Index>(chunks.size()), 16, [&](Index begin, Index end) {
    for (Index c = begin; c < end; ++c) {
      Chunk& chunk = chunks[static_cast<std::size_t>(c)];
      const Tensor& tensor = tensors[chunk.tensor];
      const Index n = std::min(kChunk, tensor.numel() - chunk.begin);
      chunk.sum = dispatch_real(tensor.dtype(), "gradient norm", [&](auto zero) {
        return square_sum(tensor.data<decltype(zero)>() + chunk.begin, n);
      });
    }
  });
  std::vector<double> out(tensors.size());
  for (const Chunk& chunk : chunks) out[chunk.tensor] += chunk.sum;
  return out;
}

}  // namespace

Gradients::Gradients(std::vector<Parameter*> parameters, const RankContext& ranks)
    : parameters_(std::move(parameters)),
      backend_(ranks.backend),
      dp_(ranks.dp),
      ep_(ranks.ep),
      edp_(ranks.edp) {
  std::string expert_names;  // "order name", a line each
  Index order = 0;
  for (const Parameter* parameter : parameters_) {
    for (const Piece& piece : parameter->pieces) {
      const bool expert = parameter->placement == Placement::expert;
      if (expert)
        expert_names += str(order, " ", piece.name, "\n");
      else
        slots_.push_back({piece.name, order, false, dense_pieces_});
      ++(expert ? expert_pieces_ : dense_pieces_);
    }
    ++order;
  }
  std::size_t at = 0;
  for (const std::string& names : gather_texts(*backend_, ep_.get(), expert_names)) {
    std::istringstream lines(names);
    for (std::string name; lines >> order >> name;) slots_.push_back({name, order, true, at++});
  }
  std::sort(slots_.begin(), slots_.end(),
            [](const Slot& a, const Slot& b) { return a.name < b.name; });
}

void Gradients::reduce() {
  std::vector<Pending> in_flight;
  for (Parameter* parameter : parameters_) {
    if (!parameter->grad.defined()) parameter->grad = backend_->empty_like(parameter->value);
    if (!parameter->grad_written) fill_zero(parameter->grad);
    Group* replicas = parameter->placement == Placement::expert ? edp_.get() : dp_.get();
    if (replicas && replicas->size() > 1)
      in_flight.push_back(replicas->all_reduce(parameter->grad));
  }
  for (Pending& pending : in_flight) pending.wait();
}

double Gradients::norm() {
  std::vector<Tensor> dense_gradients, expert_gradients;
  for (const Parameter* parameter : parameters_) {
    const bool expert = parameter->placement == Placement::expert;
    for (Tensor& piece : parameter->split(parameter->grad))
      (expert ? expert_gradients : dense_gradients).push_back(std::move(piece));
  }
  const std::vector<double> dense = square_sums(dense_gradients);
  const auto count = static_cast<Index>(expert_pieces_);
  const Tensor own = backend_->empty(DType::f64, {std::max<Index>(1, count)});
  std::ranges::copy(square_sums(expert_gradients), own.data<double>());
  const Index peers = ep_ ? ep_->size() : 1;
  Tensor all = own;
  if (peers > 1 && count > 0) {
    all = backend_->empty(DType::f64, {peers, count});
    ep_->all_gather(own, all).wait();
  }
  sums_.clear();
  double total = 0;
  for (const Slot& slot : slots_) {
    sums_.push_back(slot.expert ? all.data<double>()[slot.at] : dense[slot.at]);
    total += sums_.back();
  }
  return std::sqrt(total);
}

std::string Gradients::non_finite() const {
  const Slot* nearest = nullptr;
  for (std::size_t i = 0; i < sums_.size(); ++i)
    if (!std::isfinite(sums_[i]) && (!nearest || slots_[i].order > nearest->order))
      nearest = &slots_[i];
  return nearest ? nearest->name : "";
}

std::vector<std::string> Gradients::names() const {
  std::vector<std::string> out;
  for (const Slot& slot : slots_) out.push_back(slot.name);
  return out;
}

void Gradients::clear() {
  for (Parameter* parameter : parameters_) parameter->grad_written = false;
}

double clip_factor(double norm, double limit) {
  return limit > 0 ? std::min(1.0, limit / (norm + 1e-6)) : 1.0;
}

}  // namespace moelab
