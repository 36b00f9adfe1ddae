// Process groups of other frameworks, in the order in which they make them.
#include <array>
#include <charconv>

#include "core/parallel/rank_grid.h"
#include "tests/golden_tests/suite.h"

namespace moelab::test {
namespace {

// Groups as one row of numbers, each group behind its size.
Values flat(const RankGroups& groups) {
  Values out;
  for (const auto& group : groups) {
    out.push_back(static_cast<double>(group.size()));
    out.insert(out.end(), group.begin(), group.end());
  }
  return out;
}

// The same of a JSON array of arrays.
Values flat(const GoldenCase& c, const std::string& param) {
  Values out;
  for (const std::string& text : c.list(param)) {
    const std::size_t at = out.size();
    out.push_back(0);
    const char *p = text.data(), *end = p + text.size();
    for (int rank = 0; p != end; ++p)
      if (const auto [after, error] = std::from_chars(p, end, rank); error == std::errc()) {
        out.push_back(rank);
        ++out[at];
        p = after - 1;
      }
  }
  return out;
}

GridDegrees megatron_degrees(const GoldenCase& c) {
  GridDegrees d;
  d.world = c.integer("world"), d.tp = c.integer("tp"), d.cp = c.integer("cp");
  d.pp = c.integer("pp"), d.ep = c.integer("ep");
  d.etp = c.given("etp") ? c.integer("etp") : d.tp;  // Megatron's default; ours is 1
  d.order = c.text("order");
  d.optimizer_instances = c.integer("optimizer_instances");
  return d;
}

void compare_grid(const GoldenCase& c, const std::string& which, const RankGrid& grid,
                  const std::vector<const char*>& groups, Comparison& comparison) {
  const GoldenCase sizes = c.object(which + "_sizes"), members = c.object(which);
  for (const char* axis : {"tp", "pp", "dp", "ep", "cp"})
    comparison.exact(which + "_sizes." + axis, static_cast<double>(grid.size(axis)),
                     sizes.number(axis));
  comparison.exact(which + "_order", grid.order() == c.text(which + "_order") ? 1 : 0, 1);
  for (const char* names : groups)
    comparison.exact(which + "." + names, flat(grid.groups_of(names)), flat(members, names));
}

Outcome megatron(const GoldenCase& c) {
  const GridDegrees degrees = megatron_degrees(c);
  Comparison comparison;
  const bool refused = !RankLayout::problem(degrees).empty();
  comparison.exact("refused", refused ? 1 : 0, c.flag("refused") ? 1 : 0);
  c.ignore({"error"});  // the name of their exception
  if (refused || c.flag("refused")) return comparison.outcome();
  const RankLayout layout(degrees);
  compare_grid(c, "dense", layout.dense(),
               {"tp", "cp", "dp", "pp", "tp-pp", "tp-cp", "tp-dp", "dp-cp", "tp-dp-cp"},
               comparison);
  compare_grid(c, "expert", layout.expert(), {"tp", "ep", "dp", "pp", "tp-ep", "tp-dp", "tp-ep-pp"},
               comparison);
  if (c.given("partial")) {
    const GoldenCase partial = c.object("partial");
    const auto same = [&](const std::string& name, const RankGroups& groups) {
      comparison.exact(name, flat(groups), flat(partial, name));
    };
    same("intra_partial_data_parallel_group_with_cp", layout.dense_instances());
    same("hierarchical_expert_data_parallel_group_l0", layout.expert_instances());
    same("hierarchical_expert_data_parallel_group_l1", layout.across_instances());
    same("intra_distributed_optimizer_instance_group", layout.instance_members());
  }
  return comparison.outcome();
}

// DeepSpeed's functions as grids: experts keep the tensor-parallel axis of dense parameters
// (rank_table, expert_data_and_model, and expert_and_data with mp_mode tp), or do without one.
Outcome deepspeed(const GoldenCase& c) {
  const bool alone = c.text("function") == "expert_and_data";
  const bool with_tp = !alone || (c.given("mp_mode") && c.text("mp_mode") == "tp");
  GridDegrees degrees;
  degrees.world = c.integer("world"), degrees.pp = c.integer("pp"), degrees.ep = c.integer("ep");
  degrees.tp = c.integer("mp");
  degrees.etp = with_tp ? degrees.tp : 1;
  degrees.order = c.flag("data_before_expert") ? "tp-dp-ep-pp" : "tp-ep-dp-pp";
  Comparison comparison;
  const bool refused = !RankLayout::problem(degrees).empty();
  comparison.exact("refused", refused ? 1 : 0, c.flag("refused") ? 1 : 0);
  c.ignore({"error"});
  if (refused || c.flag("refused")) return comparison.outcome();
  const RankLayout layout(degrees);
  const RankGrid& grid = layout.expert();
  const bool copies_hold_tp = alone && with_tp;  // one group of all that have the same experts
  comparison.exact("ep_groups", flat(grid.groups({"ep"}, {"dp", "tp"})), flat(c, "ep_groups"));
  comparison.exact("edp_groups",
                   flat(copies_hold_tp ? grid.groups({"dp", "tp"}) : grid.groups({"dp"}, {"ep"})),
                   flat(c, "edp_groups"));
  return comparison.outcome();
}

const RegisterSuite registered_megatron{"topology_megatron", megatron};
const RegisterSuite registered_deepspeed{"topology_deepspeed", deepspeed};

}  // namespace
}  // namespace moelab::test
