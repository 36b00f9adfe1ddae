#include "tests/support/models.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "core/lab/layer_bench.h"
#include "core/train/run_config.h"

namespace moelab::testing {

ModelSpec spec_of(const std::string& model_recipe, Index vocabulary, DType dtype) {
  Report report;
  const std::string rest =
      "train = { steps = 1, batch = 4 }\ndata = { dataset = { type = \"text\", path = \"x\" } "
      "}\n"
      "sample = { final = false }\n";
  const RunConfig config = read_run_config(
      parse_recipe(rest + model_recipe, "test.toml", Source::Origin::recipe, report), report);
  for (const Problem& problem : report.problems())
    if (problem.severity != Problem::Severity::warning) throw std::runtime_error(problem.line());
  ModelSpec spec;
  spec.section = config.model;
  spec.layers = config.layer_kinds();
  spec.ffn = config.ffn;
  spec.vocabulary = vocabulary;
  spec.dtype = dtype;
  spec.seed = config.model_seed();
  return spec;
}

Batch batch_of(const Backend& backend, const std::vector<std::vector<std::int32_t>>& rows) {
  Batch batch;
  Tokens& tokens = batch.tokens;
  tokens.rows = tokens.rows_global = static_cast<Index>(rows.size());
  tokens.length = static_cast<Index>(rows.front().size());
  const Index count = tokens.count();
  tokens.id_T = backend.empty(DType::i32, {count});
  tokens.position_T = backend.empty(DType::i32, {count});
  tokens.document_T = backend.zeros(DType::i32, {count});
  tokens.valid_T = backend.empty(DType::u8, {count});
  batch.target_T = backend.empty(DType::i32, {count});
  for (Index t = 0; t < count; ++t) {
    const auto& row = rows[static_cast<std::size_t>(t / tokens.length)];
    const auto column = static_cast<std::size_t>(t % tokens.length);
    tokens.id_T.data<std::int32_t>()[t] = row[column];
    tokens.position_T.data<std::int32_t>()[t] = static_cast<std::int32_t>(column);
    tokens.valid_T.data<std::uint8_t>()[t] = 1;
    batch.target_T.data<std::int32_t>()[t] = column + 1 < row.size() ? row[column + 1] : -1;
  }
  return batch;
}

StepFacts facts_of(const Tokens& tokens) {
  std::vector<Index> valid_of_row;
  const auto valid_T = tokens.valid_T.span<std::uint8_t>();
  for (Index row = 0; row < tokens.rows; ++row) {
    const auto first = valid_T.begin() + row * tokens.length;
    valid_of_row.push_back(std::count(first, first + tokens.length, 1));
  }
  StepFacts facts;
  facts.valid_tokens_in_step = std::accumulate(valid_of_row.begin(), valid_of_row.end(), Index{0});
  facts.instances_in_step = [valid_of_row, rows = tokens.rows_global](ScopeSpec spec) {
    return count_instances(spec, rows, valid_of_row);
  };
  return facts;
}

void on_ranks(int ranks, int ep, const std::function<void(RankContext&)>& body) {
  with_ranks(ranks, ep, body);
}
void on_one_rank(const std::function<void(RankContext&)>& body) { with_ranks(1, 1, body); }

std::vector<std::int32_t> integers(const Tensor& t) {
  std::vector<std::int32_t> out;
  if (t.dtype() == DType::i64)
    for (const std::int64_t value : t.span<std::int64_t>())
      out.push_back(static_cast<std::int32_t>(value));
  else
    for (const std::int32_t value : t.span<std::int32_t>()) out.push_back(value);
  return out;
}

double number(const Tensor& scalar) {
  return dispatch_real(scalar.dtype(), "number", [&](auto tag) {
    return static_cast<double>(scalar.data<decltype(tag)>()[0]);
  });
}

}  // namespace moelab::testing
