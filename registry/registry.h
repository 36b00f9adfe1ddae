// Families and their members. A family is an interface class with
//   static constexpr std::string_view family = "router";
//   struct Facts   { … };   what validation may know: plain data, no run exists yet
//   struct Traits  { … };   what a member declares about itself (default constructible)
//   struct Context { … };   what the run knows when a member is built
// A member is a class with
//   struct Params { …; void describe(ParamVisitor&); };                   required
//     void check(const Family::Facts&, Checker&) const;                   optional: cross-checks
//     Family::Traits traits() const;                                      optional
//     std::string formula() const;                                        optional: for `explain`
//   Member(const Params&, const Family::Context&);
// and registers with the last line of its file:
//   const Register<Router, Softmax> registered{"softmax", "one line about it"};
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "registry/params.h"
#include "registry/problem.h"

namespace moelab {

// What is known of a member without knowing its family's type.
struct EntryBase {
  std::string name, summary;
  std::source_location where;
  std::function<std::shared_ptr<void>()> default_params;
  std::function<void(void* params, ParamVisitor&)> describe;
  std::function<std::string(const void* params)> formula;
};

struct Conflict {  // two members of one name; main() prints both places and refuses to start
  std::string family, name;
  std::source_location first, second;
  std::string text() const;  // one line with both places
};

// The type-erased half of a registry; `families()` lists them all by name.
class FamilyRegistry {
 public:
  explicit FamilyRegistry(std::string_view family);  // enters itself into families()
  virtual ~FamilyRegistry() = default;
  const std::string& family() const { return family_; }
  virtual std::vector<const EntryBase*> members() const = 0;  // by name

 private:
  std::string family_;
};
const std::map<std::string, FamilyRegistry*, std::less<>>& families();
const std::vector<Conflict>& registration_conflicts();
void report_registration_conflict(Conflict conflict);

template <class Family>
class Registry final : public FamilyRegistry {
 public:
  struct Entry : EntryBase {
    std::function<void(const void* params, const typename Family::Facts&, Checker&)> check;
    std::function<typename Family::Traits(const void* params)> traits;
    std::function<std::unique_ptr<Family>(const void* params, const typename Family::Context&)>
        make;
  };
  // Never destroyed: components register before main and may be used at exit.
  static Registry& get() {
    static Registry* registry = new Registry;
    return *registry;
  }
  // Runs before main: records conflicts, never throws.
  void add(Entry entry) {
    auto [at, fresh] = entries_.try_emplace(entry.name, entry);
    if (!fresh) report_registration_conflict({family(), entry.name, at->second.where, entry.where});
  }
  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
  std::vector<const EntryBase*> members() const override {
    std::vector<const EntryBase*> out;
    for (const auto& [name, entry] : entries_) out.push_back(&entry);
    return out;
  }

 private:
  Registry() : FamilyRegistry(Family::family) {}
  std::map<std::string, Entry, std::less<>> entries_;
};

template <class Family, class Member>
struct Register {
  using Params = typename Member::Params;
  Register(std::string_view name, std::string_view summary,
           std::source_location where = std::source_location::current()) {
    typename Registry<Family>::Entry entry;
    entry.name = name;
    entry.summary = summary;
    entry.where = where;
    entry.default_params = [] { return std::make_shared<Params>(); };
    entry.describe = [](void* p, ParamVisitor& v) { static_cast<Params*>(p)->describe(v); };
    entry.formula = [](const void* p) -> std::string {
      if constexpr (requires(const Params& q) { q.formula(); })
        return static_cast<const Params*>(p)->formula();
      return {};
    };
    entry.check = [](const void* p, const typename Family::Facts& facts, Checker& c) {
      if constexpr (requires(const Params& q) { q.check(facts, c); })
        static_cast<const Params*>(p)->check(facts, c);
    };
    entry.traits = [](const void* p) -> typename Family::Traits {
      if constexpr (requires(const Params& q) { q.traits(); })
        return static_cast<const Params*>(p)->traits();
      return {};
    };
    entry.make = [](const void* p,
                    const typename Family::Context& context) -> std::unique_ptr<Family> {
      return std::make_unique<Member>(*static_cast<const Params*>(p), context);
    };
    Registry<Family>::get().add(std::move(entry));
  }
};

}  // namespace moelab
