#pragma once
// How workers come together to collectives, and which of those that are ready go first.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/program/communicator.hpp"
#include "sim/program/counters.hpp"

namespace rehearse {

class Executor;

/// The end of the cycle in which `now` lies; cycles begin at 0. A date that is one within rounding counts as it.
Seconds end_of_cycle(Seconds now, Seconds cycle);

/// Workers that take part in collectives together: one at a time, in the order in which all have come to them.
class CollectiveGroup {
 public:
  /// When what is ready is started, and together with what: as GradientExchange says.
  struct Rule {
    Order order = Order::kFifo;
    std::optional<Seconds> cycle_time;
    std::optional<Bytes> largest;  // of what a cycle fuses
  };

  /// `workers` in all, folded ones counted.
  CollectiveGroup(Executor& executor, OwnedClock clock, std::int64_t workers, const Rule& rule,
                  std::unique_ptr<Communicator> communicator)
      : executor_{executor}, clock_{clock}, workers_{workers}, rule_{rule}, communicator_{std::move(communicator)} {}

  Communicator& communicator() { return *communicator_; }
  /// A worker has come to the collective, its operation. That lives until it ends.
  void come(const Counters::Place& place, const Collective& collective);
  /// "u1 is ready at 3 of 4": the first that some wait for; empty if none.
  std::string waits_for(const std::function<std::string(int)>& name) const;
  /// When the latest collective of the label began.
  Seconds begun(int label) const { return meetings_[at(label)].begun; }

 private:
  /// Of a label, once a step.
  struct Meeting {
    const Collective* collective = nullptr;  // of who has come first
    std::int64_t workers = 0;                // that have come
    Seconds ready{};                         // when the last of all had
    Seconds begun{};                         // the latest of its label
    std::vector<Counters::Place> arrivals;
    std::vector<Bytes> payloads;  // of these, where they differ
  };

  void launch();
  int take_next();
  std::vector<int> take_fused();
  void start(std::vector<int> labels);
  /// Of the label, for which each worker states its own.
  Payload take_payloads(int label);
  void end(const std::vector<int>& labels, Bytes payload);
  void record(const std::vector<int>& labels, Bytes payload) const;
  const Collective& collective(int label) const { return *meetings_[at(label)].collective; }

  Executor& executor_;
  OwnedClock clock_;
  std::int64_t workers_;
  Rule rule_;
  std::unique_ptr<Communicator> communicator_;
  std::vector<Meeting> meetings_;  // [labels]
  std::deque<int> waiting_;        // labels to which all workers have come
  Seconds begun_{};                // the latest
  bool is_busy_ = false;
  bool cycle_is_scheduled_ = false;
};

}  // namespace rehearse
