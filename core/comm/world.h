// Ranks and how they talk. A World holds all ranks of a run; a Group is an ordered subset with
// collectives. Every rank of a group calls the same collectives in the same order, with zero rows
// too. A group of one does nothing (and copies where input and output differ). Reductions add in
// rank order: the same bits on every rank and at every run.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/tensor/tensor.h"
#include "registry/component.h"

namespace moelab {

enum class Reduce : std::uint8_t { sum, max };

// A collective in flight. wait() returns when the outputs may be read and the inputs reused; the
// tensors must live until then. The destructor waits.
class Pending {
 public:
  class Work {
   public:
    virtual ~Work() = default;
    virtual void wait() = 0;
  };
  Pending() = default;  // complete
  explicit Pending(std::unique_ptr<Work> work) : work_(std::move(work)) {}
  Pending(Pending&&) = default;
  Pending& operator=(Pending&& other);
  ~Pending();
  void wait();

 private:
  std::unique_ptr<Work> work_;
};

// Counters by collective, for telemetry; bytes are what this rank sends to others.
struct Traffic {
  Index calls = 0, bytes = 0;
  double wait_seconds = 0;
};

class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;  // of the caller, within the group
  virtual int size() const = 0;
  // In place; f32, f64, i32, i64.
  virtual Pending all_reduce(const Tensor& t, Reduce op = Reduce::sum) = 0;
  // out [size, …in] or [size·n, …]: the ranks' tensors one after another; all of one shape.
  virtual Pending all_gather(const Tensor& in, const Tensor& out) = 0;
  // in [size·n, …], out [n, …]: the sum of block rank().
  virtual Pending reduce_scatter(const Tensor& in, const Tensor& out) = 0;
  // Rows of the first axis: send_counts[r] rows go to rank r, blocks in rank order on both sides.
  virtual Pending all_to_all_v(const Tensor& send, std::span<const Index> send_counts,
                               const Tensor& receive, std::span<const Index> receive_counts) = 0;
  // out gets `root`'s tensor.
  virtual Pending broadcast(const Tensor& t, int root) = 0;
  virtual void barrier() = 0;
  virtual Traffic traffic() const = 0;
};

// A rank's own end of the world.
class World {
 public:
  static constexpr std::string_view family = "world";
  struct Facts {};
  struct Traits {
    bool sets_ranks =
        true;  // takes its size from parallel.ranks; others get it from their launcher
  };
  struct Context {
    int ranks = 1;
    std::chrono::seconds timeout{600};  // a wait longer than this is Error(communication)
  };
  virtual ~World() = default;
  // Runs `body` as every rank that lives in this process (inproc: all of them, a thread each) and
  // returns when all are done. They share the caller's threads(). A rank that throws makes the
  // others' waits fail; the first error is rethrown.
  virtual void run(const std::function<void(class Rank&)>& body) = 0;
};

// What a rank sees of its world.
class Rank {
 public:
  virtual ~Rank() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Collective over the named ranks (ascending order not required; the order is the group's): all
  // of them call with the same list. `label` ("dp", "ep") names the group in errors.
  virtual std::shared_ptr<Group> group(std::span<const int> ranks, const std::string& label) = 0;
  std::shared_ptr<Group> everyone();
};

}  // namespace moelab
