// Experts by token id (Roller et al. 2021, "Hash layers"): a table that nothing trains. With a gate
// for the weights it is the hash layer of DeepSeek-V4. V vocabulary, E experts.
#include <algorithm>
#include <numeric>

#include "core/moe/fixed_choice.h"

namespace moelab {
namespace {

enum class Table : std::uint8_t { random, balanced, frequency };

}  // namespace

template <>
struct EnumNames<Table> {
  static constexpr std::array<std::pair<std::string_view, Table>, 3> value{
      {{"random", Table::random}, {"balanced", Table::balanced}, {"frequency", Table::frequency}}};
};

namespace {

class Hash final : public FixedChoiceRouter {
 public:
  struct Params : FixedChoiceParams {
    Table table = Table::random;
    std::int64_t seed = 0;
    std::int64_t vocabulary = 0;
    std::vector<double> counts;
    bool stored = false;
    void describe(ParamVisitor& v) {
      FixedChoiceParams::describe(v);
      v("table", table,
        "random: k experts drawn for each token id; balanced: as many ids for each expert; "
        "frequency: as many occurrences, by counts");
      v("seed", seed, "of the table; each layer has a table of its own", at_least(0));
      v("vocabulary", vocabulary, "token ids, for balanced and stored tables; 0: not needed",
        at_least(0));
      v("counts", counts, "for table = \"frequency\": how often each token id occurs", at_least(0));
      v("stored", stored,
        "keep the table in checkpoints, as [vocabulary, k] under gate.tid2eid, so that an imported "
        "one takes its place");
    }
    void check(const Facts& facts, Checker& checker) const {
      FixedChoiceParams::check(facts, checker);
      if (table == Table::frequency && counts.empty())
        checker.error("counts", "is empty; give the occurrences of each token id, or take table = ",
                      "\"balanced\"");
      if (table != Table::frequency && !counts.empty())
        checker.error("counts", "has no effect; set table = \"frequency\" or remove it");
      if (table == Table::frequency) {
        if (vocabulary > 0 && vocabulary != static_cast<std::int64_t>(counts.size()))
          checker.error("vocabulary", "is not the number of counts, ", counts.size());
      } else if (vocabulary == 0 && (stored || table == Table::balanced)) {
        checker.error("vocabulary", "is needed; set it to the tokenizer's");
      }
    }
    std::string formula() const {
      const char* how = table == Table::random     ? "drawn for each id"
                        : table == Table::balanced ? "as many ids for each expert"
                                                   : "as many occurrences for each expert";
      return formula_for(str(k, " by token id, from a fixed table, ", how));
    }
  };
  Hash(const Params& params, const Context& context)
      : FixedChoiceRouter(params, context),
        k_(params.k),
        rng_(static_cast<std::uint64_t>(params.seed), "router/hash",
             static_cast<std::uint64_t>(context.layer)) {
    const Index ids = params.table == Table::frequency ? static_cast<Index>(params.counts.size())
                                                       : params.vocabulary;
    if (ids == 0) return;
    table_Vk_ = params.stored
                    ? context.state.get(context.backend, "gate.tid2eid", DType::i64, {ids, k_})
                    : context.backend.empty(DType::i64, {ids, k_});
    fill(params);
  }

 private:
  // A table in the state store may be replaced by a checkpoint's.
  void fill(const Params& params) const {
    const Index ids = table_Vk_.size(0);
    const std::vector<std::int32_t> even = params.table == Table::frequency
                                               ? by_frequency(params.counts)
                                               : std::vector<std::int32_t>{};
    std::vector<std::int32_t> chosen(static_cast<std::size_t>(k_));
    for (Index id = 0; id < ids; ++id) {
      if (params.table == Table::random) draw(id, chosen);
      if (params.table == Table::balanced) spread(id, ids, chosen);
      if (params.table == Table::frequency) std::copy_n(even.begin() + id * k_, k_, chosen.begin());
      std::copy(chosen.begin(), chosen.end(), table_Vk_.data<std::int64_t>() + id * k_);
    }
  }

  void draw(Index id, std::span<std::int32_t> chosen) const {
    draw_distinct(rng_, static_cast<std::uint64_t>(id * k_), experts(), chosen);
  }

  // Ids in random order are dealt to the experts; a token's k experts lie E/k apart.
  void spread(Index id, Index ids, std::span<std::int32_t> chosen) const {
    const auto place = static_cast<Index>(
        permuted(rng_, static_cast<std::uint64_t>(id), static_cast<std::uint64_t>(ids)));
    for (Index i = 0; i < k_; ++i)
      chosen[static_cast<std::size_t>(i)] =
          static_cast<std::int32_t>((place + i * experts() / k_) % experts());
  }

  // The most frequent id first, each to the k experts with the least to do so far.
  std::vector<std::int32_t> by_frequency(const std::vector<double>& counts) const {
    std::vector<std::size_t> order(counts.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](auto a, auto b) { return counts[a] > counts[b]; });
    std::vector<double> load(static_cast<std::size_t>(experts()), 0.0);
    std::vector<std::int32_t> idle(load.size()),
        table(counts.size() * static_cast<std::size_t>(k_));
    std::iota(idle.begin(), idle.end(), 0);
    const auto load_of = [&](std::int32_t e) { return load[static_cast<std::size_t>(e)]; };
    for (const std::size_t id : order) {
      std::ranges::sort(idle, [&](std::int32_t a, std::int32_t b) {
        return load_of(a) != load_of(b) ? load_of(a) < load_of(b) : a < b;
      });
      for (std::size_t i = 0; i < static_cast<std::size_t>(k_); ++i) {
        table[id * static_cast<std::size_t>(k_) + i] = idle[i];
        load[static_cast<std::size_t>(idle[i])] += counts[id];
      }
    }
    return table;
  }

  void choose(const RouterInput& input, Index t, std::span<std::int32_t> chosen) const override {
    const Index id = input.tokens.id_T.data<std::int32_t>()[t];
    if (!table_Vk_) return draw(id, chosen);
    if (id < 0 || id >= table_Vk_.size(0))
      throw Error(ExitCode::usage, str("the hash router's table has ", table_Vk_.size(0),
                                       " token ids, but token ", id,
                                       " came; set router.vocabulary (or counts) to the "
                                       "tokenizer's vocabulary"));
    const std::int64_t* row = table_Vk_.data<std::int64_t>() + id * k_;
    for (Index i = 0; i < k_; ++i) {
      if (row[i] < 0 || row[i] >= experts() || std::find(row, row + i, row[i]) != row + i)
        throw Error(ExitCode::checkpoint,
                    str("the hash router's table names expert ", row[i], " for token ", id,
                        ": each must be in [0, ", experts(), ") and stand once in a row"));
      chosen[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(row[i]);
    }
  }

  Index k_;
  Rng rng_;
  Tensor table_Vk_;  // undefined: experts are drawn on the spot
};

const Register<Router, Hash> registered{"hash", "experts by token id, from a fixed table"};

}  // namespace
}  // namespace moelab
