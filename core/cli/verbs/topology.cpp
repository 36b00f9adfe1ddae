// moelab topology: which ranks form which group, for any number of ranks.
#include <ostream>

#include "core/cli/options.h"
#include "core/parallel/rank_grid.h"
#include "registry/error.h"
#include "registry/text.h"

namespace moelab {
namespace {

GridDegrees degrees_of(const Arguments& arguments) {
  GridDegrees d;
  d.world = arguments.integer("world", 1, 1);
  d.tp = arguments.integer("tp", 1, 1);
  d.cp = arguments.integer("cp", 1, 1);
  d.pp = arguments.integer("pp", 1, 1);
  d.ep = arguments.integer("ep", 1, 1);
  d.etp = arguments.integer("etp", 1, 1);
  d.optimizer_instances = arguments.integer("optimizer-instances", 1, 1);
  d.order = arguments.text("order", d.order);
  const std::string problem = RankLayout::problem(d);
  if (!problem.empty()) throw Error(ExitCode::usage, problem);
  return d;
}

void print_sizes(const char* what, const RankGrid& grid, std::ostream& out) {
  out << what << ", fastest axis first:";
  for (const RankGrid::Axis& axis : grid.axes()) out << ' ' << axis.name << '=' << axis.size;
  out << '\n';
}

// "[0 1 2 3]", runs of equal steps in short: "[0..62 by 2]".
std::string group_text(const std::vector<int>& group) {
  const std::size_t n = group.size();
  const int step = n > 1 ? group[1] - group[0] : 1;
  bool even = n > 4;
  for (std::size_t i = 1; i < n; ++i) even = even && group[i] - group[i - 1] == step;
  if (even)
    return str("[", group.front(), "..", group.back(), step == 1 ? "" : str(" by ", step), "]");
  std::string text = "[";
  for (std::size_t i = 0; i < n; ++i) text += str(i == 0 ? "" : " ", group[i]);
  return text + "]";
}

void print_groups(const std::string& name, const char* purpose, const RankGroups& groups,
                  std::ostream& out) {
  if (groups.empty()) return;
  if (groups[0].size() == 1) {
    out << name << " (" << purpose << "): every rank alone\n";
    return;
  }
  out << name << " (" << purpose << "): " << groups.size() << " of " << groups[0].size() << "\n ";
  for (const auto& group : groups) out << ' ' << group_text(group);
  out << '\n';
}

struct Named {
  const char* axes;
  const char* purpose;
};
constexpr Named kDense[] = {{"tp", "cut matrices"},
                            {"cp", "cut sequences"},
                            {"dp", "other rows of the batch"},
                            {"pp", "stages"},
                            {"dp-cp", "gradients are summed over"},
                            {"tp-cp", "one sequence"},
                            {"tp-dp", "one stage and part of the sequence"},
                            {"tp-pp", "one copy of the model"},
                            {"tp-dp-cp", "one stage"}};
constexpr Named kExpert[] = {{"tp", "cut experts"},
                             {"ep", "other experts"},
                             {"dp", "gradients of experts are summed over"},
                             {"pp", "stages"},
                             {"tp-ep", "all experts of a layer"},
                             {"tp-dp", "copies of the same experts"},
                             {"tp-ep-pp", "one copy of all experts"}};

void print_tensor(const RankLayout& layout, const Arguments& arguments, std::ostream& out) {
  const std::string name = arguments.text("tensor");
  const TensorPlacement place =
      place_tensor(layout, name, arguments.integer("layers", layout.dense().size("pp"), 1),
                   arguments.integer("experts", layout.expert().size("ep"), 1));
  out << name << ": stage " << place.stage;
  if (place.expert) out << ", ep " << place.expert_owner;
  if (!place.cut.empty()) out << ", cut over " << place.cut;
  out << "; " << place.ranks.size() << " ranks " << group_text(place.ranks) << '\n';
}

int run(const Arguments& arguments, const Streams& streams) {
  const RankLayout layout(degrees_of(arguments));
  std::ostream& out = streams.out;
  if (arguments.has("tensor")) {
    print_tensor(layout, arguments, out);
    return 0;
  }
  print_sizes("dense parameters", layout.dense(), out);
  print_sizes("experts", layout.expert(), out);
  out << "\ngroups of dense parameters\n";
  for (const Named& group : kDense)
    print_groups(group.axes, group.purpose, layout.dense().groups_of(group.axes), out);
  out << "\ngroups of experts\n";
  for (const Named& group : kExpert)
    print_groups(group.axes, group.purpose, layout.expert().groups_of(group.axes), out);
  print_groups("\noptimizer instances", "dense state", layout.dense_instances(), out);
  print_groups("optimizer instances", "experts' state", layout.expert_instances(), out);
  print_groups("optimizer instances", "the same shard in all", layout.across_instances(), out);
  print_groups("optimizer instances", "all ranks of one", layout.instance_members(), out);
  return 0;
}

const RegisterVerb registered{
    {.name = "topology",
     .summary = "print the groups of ranks of a layout of any size, and where a parameter lives",
     .positionals = {},
     .options = {{"world", "N", "ranks (default 1)"},
                 {"tp", "N", "tensor parallelism of dense parameters"},
                 {"cp", "N", "context parallelism (arithmetic only: no run has it)"},
                 {"pp", "N", "pipeline stages"},
                 {"ep", "N", "ranks that experts are spread over"},
                 {"etp", "N", "tensor parallelism of experts (default 1; Megatron's is tp)"},
                 {"order", "AXES",
                  "fastest first, default tp-cp-ep-dp-pp; DeepSpeed's E+D is tp-ep-dp-pp, its D+E "
                  "tp-dp-ep-pp"},
                 {"optimizer-instances", "N", "copies of the sharded optimizer state (default 1)"},
                 {"tensor", "NAME", "only where this parameter lives, by its name in checkpoints"},
                 {"layers", "N", "with --tensor: blocks of the model (default: the stages)"},
                 {"experts", "N", "with --tensor: experts of a layer (default: ep)"}},
     .notes = "Starts no rank. dp = world / (tp cp pp) and, of experts, world / (etp ep pp).\n"
              "Example: moelab topology --world 64 --tp 2 --ep 8",
     .run = run}};

}  // namespace
}  // namespace moelab
