// Models and tokens for tests, made from recipe text.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/model/transformer.h"

namespace moelab::testing {

// Only [model] and [ffn.…] are given; the rest of the recipe is filled in. Throws on any
// problem.
ModelSpec spec_of(const std::string& model_recipe, Index vocabulary, DType dtype);

// One rank's whole batch: row r of `ids` is a row; documents, positions and validity by row.
struct Batch {
  Tokens tokens;
  Tensor target_T;  // the following id, −1 at the row's end and at padding
};
Batch batch_of(const Backend& backend, const std::vector<std::vector<std::int32_t>>& rows);

// What trainers know of a step that has only this batch.
StepFacts facts_of(const Tokens& tokens);

// Runs `body` as the only rank of a world.
void on_one_rank(const std::function<void(RankContext&)>& body);
// As every rank of a world of `ranks`, `ep` of them sharing the experts.
void on_ranks(int ranks, int ep, const std::function<void(RankContext&)>& body);

std::vector<std::int32_t> integers(const Tensor& t);
double number(const Tensor& scalar);

}  // namespace moelab::testing
