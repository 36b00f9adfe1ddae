// A place in a Params struct where a component goes:
//   Component<Router> router{"softmax"};                  v("router", router, "who goes where");
//   Components<Balancer> balancers;                        v("balancers", balancers, "…");
// In a recipe a Component is a table with `type = "name"` and the member's parameters, or just the
// name as a string. Components is a table of such tables; each key is the label used in metrics,
// and the type if the table gives none.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "registry/error.h"
#include "registry/registry.h"

namespace moelab {

class Slot {
 public:
  virtual ~Slot() = default;
  virtual std::string_view family() const = 0;
  virtual std::string_view selector()
      const = 0;  // the key that names the member: "type" ("kind" for ffn)
  virtual std::vector<const EntryBase*> known() const = 0;
  // Takes the member called `name` with default parameters; false if there is none.
  virtual bool choose(std::string_view name) = 0;
  const std::string& name() const { return name_; }
  bool chosen() const { return params_ != nullptr; }
  void describe(ParamVisitor& visitor);  // the chosen member's parameters
  std::string formula() const;
  // The table in the recipe, e.g. "ffn.moe.router"; set by the reader, "" for defaults built in
  // code.
  const std::string& path() const { return path_; }
  void set_path(std::string path) { path_ = std::move(path); }

 protected:
  Slot() = default;
  explicit Slot(std::string_view name) : name_(name) {}
  Slot(const Slot&) = default;
  Slot& operator=(const Slot&) = default;
  std::string name_, path_;
  std::shared_ptr<void> params_;  // shared by copies; written only while a recipe is read
  const EntryBase* base_ = nullptr;
};

template <class Family>
class Component final : public Slot {
 public:
  using Entry = typename Registry<Family>::Entry;
  Component() = default;
  // The default member. It is looked up when first needed, since members register in any order.
  explicit Component(std::string_view name) : Slot(name) {}

  std::string_view family() const override { return Family::family; }
  std::string_view selector() const override {
    if constexpr (requires { Family::selector; }) return Family::selector;
    return "type";
  }
  std::vector<const EntryBase*> known() const override { return Registry<Family>::get().members(); }
  bool choose(std::string_view name) override {
    const auto& entries = Registry<Family>::get().entries();
    const auto at = entries.find(name);
    if (at == entries.end()) return false;
    name_ = name;
    base_ = entry_ = &at->second;
    params_ = at->second.default_params();
    return true;
  }
  typename Family::Traits traits() const { return entry().traits(params()); }
  void check(const typename Family::Facts& facts, Report& report) const {
    Checker checker(report, path_);
    entry().check(params(), facts, checker);
  }
  std::unique_ptr<Family> make(const typename Family::Context& context) const {
    return entry().make(params(), context);
  }
  // The parameters, when the caller knows the member's type. Ours to get right.
  template <class Params>
  const Params& as() const {
    return *static_cast<const Params*>(params());
  }

 private:
  const Entry& entry() const {
    ensure();
    return *entry_;
  }
  const void* params() const {
    ensure();
    return params_.get();
  }
  void ensure() const {  // takes the default member lazily
    if (!params_ && !const_cast<Component*>(this)->choose(std::string(name_)))
      throw Error(ExitCode::usage, str("no ", Family::family, " is named '", name_, "'"));
  }
  const Entry* entry_ = nullptr;
};

// Any number of components of one family, by label, in label order.
class NamedSlots {
 public:
  virtual ~NamedSlots() = default;
  virtual Slot& add(std::string_view label) = 0;
  virtual std::vector<std::pair<std::string, Slot*>> all() = 0;
  virtual std::string_view family() const = 0;
};

template <class Family>
class Components final : public NamedSlots {
 public:
  Slot& add(std::string_view label) override { return items_[std::string(label)]; }
  std::vector<std::pair<std::string, Slot*>> all() override {
    std::vector<std::pair<std::string, Slot*>> out;
    for (auto& [label, item] : items_) out.emplace_back(label, &item);
    return out;
  }
  std::string_view family() const override { return Family::family; }
  const std::map<std::string, Component<Family>>& items() const { return items_; }

 private:
  std::map<std::string, Component<Family>> items_;
};

}  // namespace moelab
