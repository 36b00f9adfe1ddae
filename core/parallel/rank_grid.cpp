#include "core/parallel/rank_grid.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/check.h"
#include "registry/error.h"
#include "registry/text.h"

namespace moelab {
namespace {

constexpr std::array<std::string_view, 5> kAxes{"tp", "pp", "dp", "ep", "cp"};

std::vector<std::string> split(std::string_view names) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find('-', begin), names.size());
    parts.emplace_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool holds(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::int64_t product(const std::vector<RankGrid::Axis>& axes) {
  std::int64_t all = 1;
  for (const RankGrid::Axis& axis : axes) all *= axis.size;
  return all;
}

struct Sizes {
  std::int64_t tp, cp, ep, dp, pp;
  std::int64_t of(std::string_view axis) const {
    return axis == "tp" ? tp : axis == "cp" ? cp : axis == "ep" ? ep : axis == "dp" ? dp : pp;
  }
};
Sizes dense_sizes(const GridDegrees& d) {
  return {d.tp, d.cp, 1, d.world / (d.tp * d.cp * d.pp), d.pp};
}
Sizes expert_sizes(const GridDegrees& d) {
  return {d.etp, 1, d.ep, d.world / (d.etp * d.ep * d.pp), d.pp};
}

// The order's axes, then those that it leaves out, which have size 1.
std::vector<std::string> whole_order(const std::string& order) {
  std::vector<std::string> names = split(order);
  for (const std::string_view axis : kAxes)
    if (!holds(names, axis)) names.emplace_back(axis);
  return names;
}

RankGrid grid(const std::string& order, const Sizes& sizes) {
  std::vector<RankGrid::Axis> axes;
  for (const std::string& name : whole_order(order)) axes.push_back({name, sizes.of(name)});
  return RankGrid(std::move(axes));
}

RankGroups cut(const RankGroups& groups, std::int64_t pieces) {
  RankGroups out;
  for (const auto& group : groups) {
    const auto size = static_cast<std::ptrdiff_t>(group.size()) / pieces;
    for (auto at = group.begin(); at != group.end(); at += size) out.emplace_back(at, at + size);
  }
  return out;
}

std::string order_problem(const GridDegrees& d) {
  const std::vector<std::string> names = split(d.order);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (std::find(kAxes.begin(), kAxes.end(), names[i]) == kAxes.end())
      return str("order = \"", d.order, "\" holds '", names[i],
                 "', which is not one of: tp cp ep dp pp; join them with '-', fastest first");
    if (std::count(names.begin(), names.end(), names[i]) > 1)
      return str("order = \"", d.order, "\" holds ", names[i], " twice");
  }
  for (const std::string_view axis : kAxes)
    if (!holds(names, axis) && (dense_sizes(d).of(axis) != 1 || expert_sizes(d).of(axis) != 1))
      return str("order = \"", d.order, "\" leaves out ", axis,
                 ", which has more than one rank here; add it");
  return {};
}

}  // namespace

RankGrid::RankGrid(std::vector<Axis> axes) : axes_(std::move(axes)) {
  for (const Axis& axis : axes_) MOELAB_CHECK(axis.size >= 1, axis.name, " = ", axis.size);
}

std::string RankGrid::order() const {
  std::string text;
  for (const Axis& axis : axes_) text += (text.empty() ? "" : "-") + axis.name;
  return text;
}

std::int64_t RankGrid::ranks() const { return product(axes_); }

std::int64_t RankGrid::size(std::string_view axis) const {
  for (const Axis& known : axes_)
    if (known.name == axis) return known.size;
  MOELAB_CHECK(false, "no axis ", axis, " in ", order());
}

std::int64_t RankGrid::coordinate(std::string_view axis, std::int64_t rank) const {
  for (const Axis& known : axes_) {
    if (known.name == axis) return rank % known.size;
    rank /= known.size;
  }
  MOELAB_CHECK(false, "no axis ", axis, " in ", order());
}

RankGroups RankGrid::groups(const std::vector<std::string>& along,
                            const std::vector<std::string>& across) const {
  struct Step {
    std::int64_t size, stride;
  };
  const auto steps = [&](const std::vector<std::string>& names) {
    std::vector<Step> out;
    for (const std::string& name : names) {
      std::int64_t stride = 1;
      for (const Axis& axis : axes_) {
        if (axis.name == name) break;
        stride *= axis.size;
      }
      out.push_back({size(name), stride});
    }
    return out;
  };
  const auto rank_at = [](std::int64_t index, const std::vector<Step>& path) {
    std::int64_t rank = 0;
    for (const Step& step : path) {
      rank += index % step.size * step.stride;
      index /= step.size;
    }
    return rank;
  };
  std::vector<std::string> rest = across;
  for (const Axis& axis : axes_)
    if (!holds(along, axis.name) && !holds(rest, axis.name)) rest.push_back(axis.name);
  const std::vector<Step> inner = steps(along), outer = steps(rest);
  std::int64_t members = 1;
  for (const Step& step : inner) members *= step.size;
  RankGroups out;
  for (std::int64_t g = 0; g < ranks() / members; ++g) {
    std::vector<int>& group = out.emplace_back();
    for (std::int64_t i = 0; i < members; ++i)
      group.push_back(static_cast<int>(rank_at(g, outer) + rank_at(i, inner)));
  }
  return out;
}

RankGroups RankGrid::groups_of(std::string_view names) const {
  const std::vector<std::string> wanted = split(names);
  std::vector<std::string> along;
  for (const Axis& axis : axes_)
    if (holds(wanted, axis.name)) along.push_back(axis.name);
  MOELAB_CHECK(along.size() == wanted.size(), "axes ", names, " of ", order());
  return groups(along);
}

std::string RankLayout::problem(const GridDegrees& d) {
  constexpr std::int64_t kMost = 1 << 22;  // ranks: their listing must fit into memory
  const std::array<std::pair<const char*, std::int64_t>, 7> named{
      {{"world", d.world},
       {"tp", d.tp},
       {"cp", d.cp},
       {"pp", d.pp},
       {"ep", d.ep},
       {"etp", d.etp},
       {"optimizer-instances", d.optimizer_instances}}};
  for (const auto& [name, value] : named)
    if (value < 1 || value > kMost) return str(name, " = ", value, " must be from 1 to ", kMost);
  const auto divides = [&](const char* what, std::int64_t a, std::int64_t b, std::int64_t c) {
    // Degrees beyond the world divide it never; their product could overflow.
    if (a <= d.world && b <= d.world && c <= d.world && d.world % (a * b) == 0 &&
        d.world / (a * b) % c == 0)
      return std::string();
    return str(what, " = ", a, " · ", b, " · ", c, " does not divide the world of ", d.world,
               " ranks");
  };
  std::string found = divides("tp · cp · pp", d.tp, d.cp, d.pp);
  if (found.empty()) found = divides("etp · ep · pp", d.etp, d.ep, d.pp);
  if (found.empty()) found = order_problem(d);
  if (!found.empty()) return found;

  const RankGrid dense = grid(d.order, dense_sizes(d)), expert = grid(d.order, expert_sizes(d));
  if (dense.groups_of("pp") != expert.groups_of("pp"))
    return str("order = \"", d.order,
               "\" gives dense and expert parameters different pipelines; put pp last, or choose "
               "degrees with as many data-parallel ranks in both");
  const std::int64_t replicas = dense.size("dp") * dense.size("cp");
  if (replicas % d.optimizer_instances != 0 || expert.size("dp") % d.optimizer_instances != 0)
    return str("optimizer-instances = ", d.optimizer_instances, " must divide dp · cp = ", replicas,
               " and the experts' edp = ", expert.size("dp"));
  return {};
}

RankLayout::RankLayout(const GridDegrees& degrees)
    : instances_(degrees.optimizer_instances),
      dense_(grid(degrees.order, dense_sizes(degrees))),
      expert_(grid(degrees.order, expert_sizes(degrees))) {
  const std::string found = problem(degrees);
  MOELAB_CHECK(found.empty(), found);
}

RankGroups RankLayout::dense_instances() const {
  return instances_ == 1 ? RankGroups{} : cut(dense_.groups_of("dp-cp"), instances_);
}

RankGroups RankLayout::expert_instances() const {
  return instances_ == 1 ? RankGroups{} : cut(expert_.groups_of("dp"), instances_);
}

RankGroups RankLayout::across_instances() const {
  if (instances_ == 1) return {};
  RankGroups out;
  for (const auto& group : expert_.groups_of("dp")) {
    const std::size_t shards = group.size() / static_cast<std::size_t>(instances_);
    for (std::size_t shard = 0; shard < shards; ++shard) {
      std::vector<int>& same = out.emplace_back();
      for (std::size_t at = shard; at < group.size(); at += shards) same.push_back(group[at]);
    }
  }
  return out;
}

RankGroups RankLayout::instance_members() const {
  if (instances_ == 1) return {};
  const RankGroups replicas = expert_.groups_of("tp-ep-pp");
  const std::size_t each = replicas.size() / static_cast<std::size_t>(instances_);
  RankGroups out;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    if (i % each == 0) out.emplace_back();
    out.back().insert(out.back().end(), replicas[i].begin(), replicas[i].end());
  }
  return out;
}

}  // namespace moelab
