// Ranks as points of a grid whose axes may come in any order: pure arithmetic, for any number of
// ranks, without starting one. What `moelab topology` prints, and the process groups of Megatron
// Core and DeepSpeed, whose orders these are.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moelab {

using RankGroups = std::vector<std::vector<int>>;

class RankGrid {
 public:
  struct Axis {
    std::string name;
    std::int64_t size = 1;
  };
  // Fastest axis first: rank = Σ coordinate · (product of the sizes before it).
  explicit RankGrid(std::vector<Axis> axes);

  const std::vector<Axis>& axes() const { return axes_; }
  std::string order() const;  // "tp-cp-ep-dp-pp"
  std::int64_t ranks() const;
  std::int64_t size(std::string_view axis) const;  // REQUIRES: there is one
  std::int64_t coordinate(std::string_view axis, std::int64_t rank) const;

  // All groups of ranks that differ only along the axes `along`. In a group the first of them is
  // fastest; among groups, the first of the remaining axes, in the grid's order or that of
  // `across`.
  RankGroups groups(const std::vector<std::string>& along,
                    const std::vector<std::string>& across = {}) const;
  // "tp-dp": the same, both in the grid's order, as Megatron Core names and makes them.
  RankGroups groups_of(std::string_view names) const;

 private:
  std::vector<Axis> axes_;
};

// The layout of a run over two grids of the same ranks: dense parameters over (tp, cp, dp, pp),
// experts over (etp, ep, edp, pp). In both, axes stand under the names tp, cp, ep, dp, pp.
struct GridDegrees {
  std::int64_t world = 1, tp = 1, cp = 1, pp = 1, ep = 1, etp = 1;
  std::int64_t optimizer_instances = 1;  // copies of a sharded optimizer's state
  std::string order = "tp-cp-ep-dp-pp";  // fastest first; DeepSpeed: tp-ep-dp-pp (E+D), tp-dp-ep-pp
};

class RankLayout {
 public:
  // "", or why the degrees do not fit, with the remedy.
  static std::string problem(const GridDegrees& degrees);
  explicit RankLayout(const GridDegrees& degrees);  // REQUIRES: problem(degrees).empty()

  const RankGrid& dense() const { return dense_; }
  const RankGrid& expert() const { return expert_; }

  // With several optimizer instances: the ranks that share one's state. Empty for one instance.
  RankGroups dense_instances() const;   // dp and cp, cut
  RankGroups expert_instances() const;  // edp, cut …
  RankGroups across_instances() const;  // … and the same shard's ranks of all instances
  RankGroups instance_members() const;  // every rank of an instance

 private:
  std::int64_t instances_;
  RankGrid dense_, expert_;
};

// Where a parameter of that name lives.
struct TensorPlacement {
  bool expert = false;            // on the expert grid
  std::int64_t stage = 0;         // of the pipeline
  std::int64_t expert_owner = 0;  // coordinate along ep, of an expert's
  std::string cut;                // "tp", "etp" or "": the axis that it is cut along
  std::vector<int> ranks;         // that hold it, or a piece of it
};
// Names are those of checkpoints (model.layers.3.mlp.experts.5.up_proj.weight). Throws Error(usage)
// for other names, a layer or an expert beyond `layers`, `experts`, and numbers that do not divide.
TensorPlacement place_tensor(const RankLayout& layout, const std::string& name, std::int64_t layers,
                             std::int64_t experts);

}  // namespace moelab
