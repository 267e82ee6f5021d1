#pragma once
// Collective operations of one group of ranks, one at a time.

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "sim/base/pinned.hpp"
#include "sim/program/cluster.hpp"
#include "sim/program/collective_methods.hpp"
#include "sim/program/collective_run.hpp"
#include "sim/record/traffic.hpp"
#include "sim/resources/clock.hpp"

namespace rehearse {

/// Of a collective: the same of all ranks, or what each rank of an all-to-all receives, or sends, in all.
struct Payload {
  Payload(Bytes each = {}) : each{each} {}  // NOLINT(google-explicit-constructor): most have one size
  Payload(PayloadOf of, std::size_t ranks) : of{of}, of_ranks(ranks) {}

  bool is_equal() const { return of == PayloadOf::kAll; }

  Bytes each{};
  PayloadOf of = PayloadOf::kAll;  // kAll: the same of all
  std::vector<Bytes> of_ranks{};
};

/// What of a collective is one event.
enum class CollectiveEvents {
  kAll,      // without flows: no other flow may cross the links of the plans while one is under way
  kRounds,   // the rounds of a phase, as long as nothing else uses the links of their messages
  kMessages  // each message
};

class Communicator : private Pinned {
 public:
  Communicator(Cluster& cluster, OwnedClock clock, std::vector<Endpoint> gpus, CollectiveEvents events);
  /// Cuts what is under way.
  ~Communicator();

  /// Starts one; `unit` and `step` are what is recorded. It could be launched ahead since `prepared_since`, if its protocol does so.
  void start(CollectiveKind kind, int unit, std::int64_t step, Payload payload, Seconds prepared_since,
             std::function<void()> on_done);
  const std::vector<Endpoint>& gpus() const { return gpus_; }

  /// Part of the time since the last call, in which nothing else used the network, that does not depend on how many
  /// bytes there were.
  double take_latency_share();

  /// Counts the traffic of what has gone without flows so far; to be called before it is asked for.
  void settle();

 private:
  /// Collectives of one kind.
  struct Kind {
    Kind(std::vector<CollectiveMethod> methods, const Cluster& cluster, bool is_timed);
    FastestCollective collective;
    std::vector<std::vector<Bytes>> unsettled;  // [methods][phases] over each edge, not counted yet
    /// [methods] the same of unequal ones, which have one phase: over each edge to, or from, each of the ranks
    std::vector<std::array<std::vector<Bytes>, 2>> unsettled_unequal;
    std::vector<Seconds> latency;  // [methods] of a collective of nothing
  };
  Kind& of(CollectiveKind kind);
  const CollectiveMethod& method() const { return kind_->collective.methods()[method_]; }
  const CollectivePlan& plan() const { return method().plan; }
  void record(Seconds start);
  /// Notes what a timed collective has sent, for settle().
  void count_timed();
  /// Of which equal payloads load the busiest link of the collective as these do. Where senders, and receivers, are alike, max-min
  /// sharing keeps that link busy to the end, and both take as long.
  Bytes as_equal(const CollectivePlan& plan, const Payload& unequal) const;
  /// The rank at the end of the edge that its bytes depend on.
  std::size_t rank_of(PathIndex edge, PayloadOf of) const;
  /// `copy`: what follows the last message.
  void end(Seconds copy);
  /// Whether its messages wait for answers. Not where packets are lost, or a machine stands for others.
  bool asks(Bytes on_wire) const;

  Cluster& cluster_;
  OwnedClock clock_;
  std::vector<Endpoint> gpus_;
  CollectiveEvents events_;
  std::map<CollectiveKind, Kind> kinds_;
  CollectiveRun run_;                       // of those that are not timed
  Kind* kind_ = nullptr;                    // of the current one
  Seconds time_alone_{}, latency_alone_{};  // of those of this step, by the formula
  int unit_ = 0;
  std::int64_t step_ = 0;
  std::size_t method_ = 0;
  Bytes on_wire_{};
  Payload payload_;
  std::function<void()> on_done_;
};

}  // namespace rehearse
