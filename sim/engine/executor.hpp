#pragma once
// Runs programs (program.hpp): one for each rank and step, on the clock and the network.
//
// An operation starts when all that it waits for have ended and its resource is free. Dates are known before they come
// where nothing else can change them: kernels on a stream, copies over a link of their own, delays. So a chain of them
// costs no event, and an event is scheduled only for what meets others: messages, collectives, ends of steps.

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/engine/communicator.hpp"
#include "sim/engine/connection.hpp"
#include "sim/engine/copy_engine.hpp"
#include "sim/engine/program.hpp"

namespace rehearse {

class Executor;
class CollectiveGroup;

/// What carries out programs, for itself and for those that do the same at the same time.
class Rank {
 public:
  /// Where it is, and for how many ranks it stands.
  struct Place {
    Endpoint host, gpu;
    std::int64_t ranks = 1;
    bool copies_are_alone = true;  // copy_engine.hpp
  };

  Rank(Executor& executor, const Place& place, int index);

  int index() const { return index_; }
  std::int64_t ranks() const { return place_.ranks; }
  void stand_for_another() { ++place_.ranks; }
  /// Of the step that is under way, or the latest: when its last kernel ends or ended, valid once the fence's date is
  /// known; time of its kernels; and how much earlier they would have started without what they waited for.
  Seconds compute_end() const;
  Seconds kernel_time() const { return kernel_time_; }
  Seconds stalled() const { return stalled_; }

 private:
  friend class Executor;
  friend class CollectiveGroup;

  struct StepState {
    const Program* program = nullptr;
    std::int64_t index = 0;               // of the rank's steps, from 0
    std::int64_t number = 0;              // of the training's
    OperationIndex left = 0;              // operations that have not ended
    std::vector<OperationIndex> pending;  // [operations] predecessors that have not ended
    std::vector<Seconds> ready;           // [operations] when the latest of those that have did
    const std::vector<CollectiveGroup*>* groups = nullptr;
  };
  struct Stream {
    Seconds host{}, gpu{};  // free from then on
    std::size_t stretch = 0;
    OperationIndex next = 0;
    std::int64_t repeats = 0;  // of the stretch, done
    bool is_advancing = false;
  };
  struct Waiting {
    int slot;
    OperationIndex operation;
  };
  struct Counter {
    std::int64_t count = 0;
    Seconds date{};  // of its latest advance
    std::vector<Waiting> waiting;
  };

  Executor& executor_;
  Place place_;
  int index_;
  std::array<StepState, 3> steps_;  // a step may begin while messages of the one before are on their way
  int slot_ = 0;                    // of the latest
  std::int64_t begun_ = 0;
  std::vector<Stream> streams_;
  std::vector<Counter> counters_;
  std::optional<CopyEngine> to_gpu_;
  double slowdown_ = 1;
  Seconds kernel_time_{}, stalled_{};
};

/// Ranks that take part in collectives together: one at a time, in the order in which all have come to them.
class CollectiveGroup {
 public:
  /// When what is ready is started, and together with what: as GradientExchange says.
  struct Rule {
    Order order = Order::kFifo;
    std::optional<Seconds> cycle_time;
    std::optional<Bytes> largest;  // of what a cycle fuses
  };

  /// `ranks` in all, folded ones counted.
  CollectiveGroup(Executor& executor, OwnedClock clock, std::int64_t ranks, const Rule& rule,
                  std::unique_ptr<Communicator> communicator)
      : executor_{executor}, clock_{clock}, ranks_{ranks}, rule_{rule}, communicator_{std::move(communicator)} {}

  Communicator& communicator() { return *communicator_; }
  void come(Rank& rank, int slot, OperationIndex operation);
  /// "u1 is ready at 3 of 4": the first that some wait for; empty if none.
  std::string waits_for(const std::function<std::string(int)>& name) const;

 private:
  struct Arrival {
    Rank* rank;
    int slot;
    OperationIndex operation;
  };
  struct Collective {
    std::int64_t ranks = 0;  // that have come
    std::vector<Arrival> arrivals;
  };

  void launch();
  int take_next();
  std::vector<int> take_fused();
  void start(std::vector<int> labels);
  const Operation& operation_of(int label) const;

  Executor& executor_;
  OwnedClock clock_;
  std::int64_t ranks_;
  Rule rule_;
  std::unique_ptr<Communicator> communicator_;
  std::vector<Collective> collectives_;  // [labels]
  std::deque<int> waiting_;              // labels to which all ranks have come
  bool is_busy_ = false;
  bool cycle_is_scheduled_ = false;
};

class Executor {
 public:
  /// What a training does about it.
  class Client {
   public:
    virtual ~Client() = default;
    /// The rank's kernels begin at `when`, now or later. Returns by how much longer they take.
    virtual double begin_kernels(Rank& rank, Seconds when) = 0;
    /// The rank's step ends at `end`, now or later.
    virtual void know_end(Rank& rank, Seconds end) = 0;
    /// All ranks have come to the end of the update.
    virtual void update() = 0;
  };

  Executor(Cluster& cluster, OwnedClock clock, Traffic& traffic, Client& client)
      : cluster_{cluster}, clock_{clock}, traffic_{traffic}, client_{client} {}

  Rank& add_rank(const Rank::Place& place);
  /// Ranks that take part in each update.
  void expect(std::int64_t ranks) { ranks_ = ranks; }
  /// The rank's next step, the training's `number`-th, begins now. `program` and `groups` live as long as it does.
  void begin_step(Rank& rank, const Program& program, const std::vector<CollectiveGroup*>& groups, std::int64_t number);

  OwnedClock clock() const { return clock_; }

 private:
  friend class CollectiveGroup;
  friend class Rank;

  void issue(Rank& rank, int slot, OperationIndex operation);
  void end(Rank& rank, int slot, OperationIndex operation, Seconds when);
  void advance(Rank& rank, int slot, std::size_t stream);
  void advance_counter(Rank& rank, int counter, Seconds when);
  /// Tells of an update that is complete: after all that it has brought about.
  void tell_update();

  Cluster& cluster_;
  OwnedClock clock_;
  Traffic& traffic_;
  Client& client_;
  std::deque<Rank> all_;
  std::int64_t ranks_ = 0, updated_ = 0;
  bool is_updated_ = false;
};

}  // namespace rehearse
