// V vocabulary.
#include "core/model/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/model/kv_cache.h"
#include "registry/error.h"

namespace moelab {
namespace {

struct Candidate {
  std::int32_t token = 0;
  double weight = 0;  // logit, then unnormalised probability
};

// Likeliest first, the lower id among equals.
std::vector<Candidate> sorted_candidates(const Tensor& logits_V) {
  std::vector<Candidate> out;
  dispatch_real(logits_V.dtype(), "sampling", [&](auto tag) {
    for (const auto logit : logits_V.span<decltype(tag)>()) {
      if (!std::isfinite(logit))
        throw Error(ExitCode::numerical, "cannot generate: the model's logits are not finite");
      out.push_back({static_cast<std::int32_t>(out.size()), static_cast<double>(logit)});
    }
  });
  std::ranges::stable_sort(out, std::ranges::greater{}, &Candidate::weight);
  return out;
}

Tokens next_tokens(const Backend& backend, std::span<const std::int32_t> ids,
                   Index first_position) {
  const auto count = static_cast<Index>(ids.size());
  Tokens tokens;
  tokens.rows = tokens.rows_global = 1;
  tokens.length = count;
  tokens.id_T = backend.empty(DType::i32, {count});
  tokens.position_T = backend.empty(DType::i32, {count});
  tokens.document_T = backend.zeros(DType::i32, {count});
  tokens.valid_T = backend.empty(DType::u8, {count});
  std::ranges::copy(ids, tokens.id_T.data<std::int32_t>());
  const auto position_T = tokens.position_T.span<std::int32_t>();
  std::iota(position_T.begin(), position_T.end(), static_cast<std::int32_t>(first_position));
  std::ranges::fill(tokens.valid_T.span<std::uint8_t>(), std::uint8_t{1});
  return tokens;
}

void refuse_non_causal(const Transformer& model) {
  for (const auto& name : model.spec().layers)
    if (!model.spec().ffn.at(name).traits().causal)
      throw Error(ExitCode::usage,
                  str("cannot generate: in ffn.", name,
                      " a token's routing depends on later tokens; use a causal router, and no "
                      "dropper with drop_in_inference"));
}

}  // namespace

std::int32_t sample_token(const Tensor& logits_V, const Sampling& sampling, Index index) {
  std::vector<Candidate> candidates = sorted_candidates(logits_V);
  if (sampling.temperature <= 0) return candidates.front().token;
  if (sampling.top_k > 0 && sampling.top_k < static_cast<Index>(candidates.size()))
    candidates.resize(static_cast<std::size_t>(sampling.top_k));
  const double most = candidates.front().weight;
  double total = 0;
  for (Candidate& c : candidates)
    total += c.weight = std::exp((c.weight - most) / sampling.temperature);
  double kept = 0;
  std::size_t count = 0;
  while (count < candidates.size() && (count == 0 || kept < sampling.top_p * total))
    kept += candidates[count++].weight;
  double left = kept * Rng(sampling.seed, "generate").uniform(static_cast<std::uint64_t>(index));
  for (std::size_t i = 0; i < count; ++i) {
    left -= candidates[i].weight;
    if (left < 0) return candidates[i].token;
  }
  return candidates[count - 1].token;
}

std::vector<std::int32_t> generate(Transformer& model, const std::vector<std::int32_t>& prompt,
                                   const Sampling& sampling,
                                   const std::function<void(std::int32_t)>& each,
                                   const ForwardHooks& hooks) {
  if (prompt.empty())
    throw Error(ExitCode::usage, "cannot generate from an empty prompt; give at least one token");
  refuse_non_causal(model);
  const ModelSection& section = model.spec().section;
  const Index known = model.spec().tokens > 0 ? model.spec().tokens : model.spec().vocabulary;
  const auto prompt_length = static_cast<Index>(prompt.size());
  KvCache cache(model.backend(), model.spec().dtype, model.layers(), 1,
                prompt_length + sampling.tokens, section.kv_heads, head_width(section));
  StepFacts facts;
  facts.instances_in_step = [](ScopeSpec) { return Index{1}; };
  Moment moment;
  moment.phase = Phase::inference;

  std::vector<std::int32_t> out;
  std::vector<std::int32_t> fresh = prompt;
  while (static_cast<Index>(out.size()) < sampling.tokens) {
    const Tokens tokens = next_tokens(model.backend(), fresh, cache.length());
    facts.valid_tokens_in_step = tokens.count();
    const auto call = static_cast<Index>(out.size());
    ForwardOptions options = hooks.options ? hooks.options(call, tokens) : ForwardOptions{};
    options.cache = &cache;
    options.want_logits = true;
    Tape tape(model.backend(), Tape::Mode::forward);
    const ModelOutput output = model.forward(tape, tokens, {}, moment, facts, options);
    if (hooks.output) hooks.output(call, tokens, output);
    const Tensor logits_V = output.logits_TV.value[tokens.count() - 1].rows(0, known);
    fresh = {sample_token(logits_V, sampling, call)};
    out.push_back(fresh.front());
    if (each) each(fresh.front());
  }
  return out;
}

}  // namespace moelab
