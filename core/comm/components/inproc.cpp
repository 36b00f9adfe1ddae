// World `inproc`: the ranks are threads of one process and read each other's tensors directly.
//
// A collective is a Meeting. Every member enters with its call; once all are there, each checks all
// calls and does its part; once all parts are done, it is over. Parts are done in wait(): a waiting
// rank also advances its other open collectives, so that ranks may wait in different orders.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "core/base/threads.h"
#include "core/comm/collective.h"
#include "registry/registry.h"

namespace moelab {
namespace {

using Clock = std::chrono::steady_clock;

// The failure of a rank that only follows from another rank's: never the error a run reports when
// there is a better one.
class Stopped : public Error {
 public:
  explicit Stopped(const std::string& text) : Error(ExitCode::communication, text) {}
};

struct Meeting {
  explicit Meeting(std::size_t size) : calls(size), here(size), done(size) {}
  std::vector<Call> calls;
  std::vector<std::atomic<bool>> here, done;  // by member, for messages
  std::atomic<std::size_t> entered{0}, finished{0};
  std::atomic<int> active{0};  // members that are reading others' tensors now
  std::atomic<bool> cancelled{false};
};

struct Room {  // what the members of a group share
  std::string label;
  std::vector<int> ranks;
  std::mutex guard;
  std::map<std::uint64_t, std::shared_ptr<Meeting>> gathering;  // not everyone has entered
};

class Hall {  // what all ranks of a run share
 public:
  Hall(int ranks, std::chrono::seconds patience)
      : timeout(patience), left(static_cast<std::size_t>(ranks)) {}

  std::shared_ptr<Room> room(const std::string& label, const std::vector<int>& ranks, int nth) {
    const std::lock_guard lock(guard_);
    auto& room = rooms_[{label, ranks, nth}];
    if (!room) {
      room = std::make_shared<Room>();
      room->label = label;
      room->ranks = ranks;
    }
    return room;
  }

  void ring() {
    bell_.fetch_add(1);
    if (sleepers_.load() == 0) return;
    { const std::lock_guard lock(guard_); }
    rung_.notify_all();
  }
  std::uint64_t bell() const { return bell_.load(); }
  void sleep(std::uint64_t heard, Clock::time_point deadline) {
    std::unique_lock lock(guard_);
    sleepers_.fetch_add(1);
    rung_.wait_until(lock, deadline, [&] { return bell_.load() != heard; });
    sleepers_.fetch_sub(1);
  }

  void fail(const std::exception_ptr& error, const std::string& text, bool consequence) {
    {
      const std::lock_guard lock(guard_);
      if (!error_) reason_ = text;
      if (!error_ || (consequence_ && !consequence)) {
        error_ = error;
        consequence_ = consequence;
      }
      failed_.store(true);
    }
    ring();
  }
  bool failed() const { return failed_.load(); }
  std::string reason() {
    const std::lock_guard lock(guard_);
    return reason_;
  }
  void rethrow() const {  // after all ranks have ended
    if (error_) std::rethrow_exception(error_);
  }

  const std::chrono::seconds timeout;
  std::vector<std::atomic<bool>> left;  // ranks whose body has returned

 private:
  std::mutex guard_;
  std::condition_variable rung_;
  std::atomic<std::uint64_t> bell_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> failed_{false};
  std::map<std::tuple<std::string, std::vector<int>, int>, std::shared_ptr<Room>> rooms_;
  std::exception_ptr error_;
  bool consequence_ = false;
  std::string reason_;
};

// Waiting that suits short and long waits, on a free core or a shared one: spin, yield, sleep.
class Patience {
 public:
  Patience(Hall& hall, int ranks) : hall_(hall), spins_(ranks <= hardware_threads() ? kSpins : 0) {}
  // Returns when something may have changed since `heard`; false once the deadline has passed.
  bool wait(std::uint64_t heard) {
    ++turns_;
    if (turns_ <= spins_) return true;
    if (turns_ <= spins_ + kYields) {
      std::this_thread::yield();
      return true;
    }
    const auto now = Clock::now();
    if (turns_ == spins_ + kYields + 1) deadline_ = now + hall_.timeout;
    if (now >= deadline_) return false;
    hall_.sleep(heard, deadline_);
    return true;
  }

 private:
  static constexpr int kSpins = 500, kYields = 100;
  Hall& hall_;
  int spins_, turns_ = 0;
  Clock::time_point deadline_;
};

class Collective;

struct Seat {  // what belongs to one rank, used by its thread only
  std::shared_ptr<Hall> hall;
  int rank = 0, size = 1;
  std::vector<Collective*> open;
  std::map<std::pair<std::string, std::vector<int>>, int> groups_made;
};

class Collective final : public Pending::Work {
 public:
  Collective(std::shared_ptr<Seat> seat, std::shared_ptr<Room> room, std::size_t me,
             std::uint64_t number, Call call, std::shared_ptr<Traffic> traffic)
      : seat_(std::move(seat)), room_(std::move(room)), me_(me), traffic_(std::move(traffic)) {
    text_ = str(call.text(), " in group '", room_->label, "' of ", room_->ranks.size(), " ranks");
    enter(number, std::move(call));
    seat_->open.push_back(this);
  }
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;
  ~Collective() override {
    if (!over()) give_up();
    meeting_->calls[me_] = Call{};
    std::erase(seat_->open, this);
  }

  void wait() override {
    const auto start = Clock::now();
    Patience patience(*seat_->hall, seat_->size);
    for (;;) {
      const auto heard = seat_->hall->bell();
      for (Collective* open : seat_->open) open->advance();
      if (over()) break;
      if (seat_->hall->failed()) throw Stopped(waits() + "; " + seat_->hall->reason());
      if (someone_left()) raise(waits() + "; a rank has ended without it");
      if (!patience.wait(heard))
        raise(str(waits(), " since ", seat_->hall->timeout.count(),
                  " s; raise parallel.timeout_seconds if the others are only slow"));
    }
    traffic_->wait_seconds += std::chrono::duration<double>(Clock::now() - start).count();
  }

 private:
  std::size_t size() const { return room_->ranks.size(); }
  bool over() const { return done_ && meeting_->finished.load() == size(); }

  void enter(std::uint64_t number, Call call) {
    std::size_t entered = 0;
    {
      const std::lock_guard lock(room_->guard);
      auto& meeting = room_->gathering[number];
      if (!meeting) meeting = std::make_shared<Meeting>(size());
      meeting_ = meeting;
      meeting_->calls[me_] = std::move(call);
      meeting_->here[me_].store(true);
      entered = meeting_->entered.fetch_add(1) + 1;
      if (entered == size()) room_->gathering.erase(number);
    }
    if (entered == size()) seat_->hall->ring();
  }

  // Does this rank's part if everyone is there.
  void advance() {
    if (done_ || meeting_->entered.load() != size()) return;
    meeting_->active.fetch_add(1);
    std::string problem;
    const bool cancelled = meeting_->cancelled.load();
    if (!cancelled) problem = mismatch(meeting_->calls);
    if (!cancelled && problem.empty()) perform(meeting_->calls, static_cast<int>(me_));
    meeting_->active.fetch_sub(1);
    if (!problem.empty()) raise(str("calls differ in ", text_, ": ", problem));
    if (cancelled) return;  // whoever cancelled has failed the run
    done_ = true;
    meeting_->done[me_].store(true);
    if (meeting_->finished.fetch_add(1) + 1 == size()) seat_->hall->ring();
  }

  // Leaves before the end: afterwards nobody reads this rank's tensors any more.
  void give_up() {
    meeting_->cancelled.store(true);
    while (meeting_->active.load() != 0) std::this_thread::yield();
    const std::string text = str("rank ", seat_->rank, " gave up ", text_);
    if (!seat_->hall->failed())
      seat_->hall->fail(std::make_exception_ptr(Stopped(text)), text, true);
  }

  [[noreturn]] void raise(const std::string& text) {
    const Error error(ExitCode::communication, str("rank ", seat_->rank, ": ", text));
    seat_->hall->fail(std::make_exception_ptr(error), error.what(), false);
    throw error;
  }

  bool missing(std::size_t member) const {
    const bool all_here = meeting_->entered.load() == size();
    return !(all_here ? meeting_->done[member] : meeting_->here[member]).load();
  }
  bool someone_left() const {
    for (std::size_t m = 0; m < size(); ++m)
      if (m != me_ && seat_->hall->left[static_cast<std::size_t>(room_->ranks[m])] && missing(m))
        return true;
    return false;
  }
  std::string waits() const {
    std::string absent;
    for (std::size_t m = 0; m < size(); ++m)
      if (missing(m)) absent += str(absent.empty() ? " " : ", ", room_->ranks[m]);
    return str("waits in ", text_, " for rank", absent);
  }

  std::shared_ptr<Seat> seat_;
  std::shared_ptr<Room> room_;
  std::shared_ptr<Meeting> meeting_;
  std::size_t me_;
  std::shared_ptr<Traffic> traffic_;
  std::string text_;
  bool done_ = false;
};

class InprocGroup final : public Group {
 public:
  InprocGroup(std::shared_ptr<Seat> seat, std::shared_ptr<Room> room)
      : seat_(std::move(seat)), room_(std::move(room)) {
    const auto at = std::find(room_->ranks.begin(), room_->ranks.end(), seat_->rank);
    me_ = static_cast<std::size_t>(at - room_->ranks.begin());
  }
  int rank() const override { return static_cast<int>(me_); }
  int size() const override { return static_cast<int>(room_->ranks.size()); }
  Pending all_reduce(const Tensor& t, Reduce op) override {
    return start({Call::Kind::all_reduce, op, 0, t, t, {}, {}});
  }
  Pending all_gather(const Tensor& in, const Tensor& out) override {
    return start({Call::Kind::all_gather, Reduce::sum, 0, in, out, {}, {}});
  }
  Pending reduce_scatter(const Tensor& in, const Tensor& out) override {
    return start({Call::Kind::reduce_scatter, Reduce::sum, 0, in, out, {}, {}});
  }
  Pending all_to_all_v(const Tensor& send, std::span<const Index> send_counts,
                       const Tensor& receive, std::span<const Index> receive_counts) override {
    return start({Call::Kind::all_to_all_v,
                  Reduce::sum,
                  0,
                  send,
                  receive,
                  {send_counts.begin(), send_counts.end()},
                  {receive_counts.begin(), receive_counts.end()}});
  }
  Pending broadcast(const Tensor& t, int root) override {
    return start({Call::Kind::broadcast, Reduce::sum, root, t, t, {}, {}});
  }
  void barrier() override { start({}).wait(); }
  Traffic traffic() const override { return *traffic_; }

 private:
  Pending start(Call call) {
    const std::string problem = fault(call, size());
    MOELAB_CHECK(problem.empty(), call.text(), " in group '", room_->label, "': ", problem);
    ++traffic_->calls;
    traffic_->bytes += bytes_sent(call, rank(), size());
    if (size() == 1) {
      perform({&call, 1}, 0);
      return {};
    }
    return Pending(
        std::make_unique<Collective>(seat_, room_, me_, number_++, std::move(call), traffic_));
  }

  std::shared_ptr<Seat> seat_;
  std::shared_ptr<Room> room_;
  std::size_t me_ = 0;
  std::uint64_t number_ = 0;  // of the next collective of this group
  std::shared_ptr<Traffic> traffic_ = std::make_shared<Traffic>();  // shared with open waits
};

class InprocRank final : public Rank {
 public:
  InprocRank(std::shared_ptr<Hall> hall, int rank, int size) : seat_(std::make_shared<Seat>()) {
    seat_->hall = std::move(hall);
    seat_->rank = rank;
    seat_->size = size;
  }
  int rank() const override { return seat_->rank; }
  int size() const override { return seat_->size; }
  std::shared_ptr<Group> group(std::span<const int> ranks, const std::string& label) override {
    const std::vector<int> list(ranks.begin(), ranks.end());
    MOELAB_CHECK(std::count(list.begin(), list.end(), rank()) == 1, "rank ", rank(),
                 " is not (once) in group '", label, "'");
    for (const int r : list) MOELAB_CHECK(r >= 0 && r < size(), "no rank ", r);
    const int nth = seat_->groups_made[{label, list}]++;
    return std::make_shared<InprocGroup>(seat_, seat_->hall->room(label, list, nth));
  }

 private:
  std::shared_ptr<Seat> seat_;
};

class Inproc final : public World {
 public:
  struct Params {
    void describe(ParamVisitor&) {}
  };
  Inproc(const Params&, const Context& context) : context_(context) {}

  void run(const std::function<void(Rank&)>& body) override {
    const auto hall = std::make_shared<Hall>(context_.ranks, context_.timeout);
    if (context_.ranks == 1) {
      InprocRank rank(hall, 0, 1);
      return body(rank);
    }
    const int share = std::max(1, threads() / context_.ranks);
    std::vector<std::thread> ranks;
    for (int r = 0; r < context_.ranks; ++r)
      ranks.emplace_back([&, r] {
        set_threads(share);
        run_rank(hall, r, body);
      });
    for (std::thread& rank : ranks) rank.join();
    hall->rethrow();
  }

 private:
  void run_rank(const std::shared_ptr<Hall>& hall, int r,
                const std::function<void(Rank&)>& body) const {
    try {
      InprocRank rank(hall, r, context_.ranks);
      body(rank);
    } catch (const Stopped& error) {
      hall->fail(std::current_exception(), error.what(), true);
    } catch (const std::exception& error) {
      hall->fail(std::current_exception(), str("rank ", r, " failed: ", error.what()), false);
    } catch (...) {
      hall->fail(std::current_exception(), str("rank ", r, " failed"), false);
    }
    hall->left[static_cast<std::size_t>(r)].store(true);
    hall->ring();
  }

  Context context_;
};

const Register<World, Inproc> registered{
    "inproc", "ranks are threads of this process: deterministic, no launcher, the default"};

}  // namespace
}  // namespace moelab
