#pragma once
// Collectives message by message, each rank for itself.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "sim/base/pinned.hpp"
#include "sim/base/random.hpp"
#include "sim/program/cluster.hpp"
#include "sim/program/collective_methods.hpp"
#include "sim/program/lossy_channel.hpp"
#include "sim/resources/clock.hpp"

namespace rehearse {

/// Carries out the phases of a plan, one collective at a time. All ranks begin a phase together, as nothing comes down a tree
/// before its root has everything. Within it a rank begins its next round when all that it sends and receives in a round has
/// arrived, whatever others do. On links that nothing else uses, a phase takes what CollectiveTimer says: the slowest edge
/// sends one message after another, and no rank waits for anything slower.
///
/// Where receivers announce themselves (CollectiveProtocol::receivers_announce) a message leaves when its receiver is in that
/// round, too. A message that asks waits for an answer of its receiver, which gives it in that round. Of n bytes from one machine
/// to another, one-way latency a, bandwidth b, both ranks being ready, it takes 3 a + n / b instead of a + n / b; longer if the
/// answer waits behind what the receiver sends. Requests and answers are flows and count as traffic; within a machine there are
/// none. Its sender goes on when it has left, as MPI_Send() returns then. Sizes and order as captured of OpenMPI 4.1.4 on the
/// testbed: headers RNDV and PUT of ob1 with those of btl_tcp. Its 32 B behind the data (FIN) are left out.
class CollectiveRun : private Pinned {
 public:
  static constexpr Bytes kRequest{40}, kAnswer{64};

  CollectiveRun(Cluster& cluster, OwnedClock clock) : cluster_{cluster}, clock_{clock} {}
  /// Counts as lost what has left and not arrived, and cancels what has not left.
  ~CollectiveRun();

  /// A collective. `method` and `timer` outlive the runner.
  struct Task {
    const CollectiveMethod* method = nullptr;
    const CollectiveTimer* timer = nullptr;
    Bytes on_wire{};                                                               // of all
    std::function<Bytes(const CollectivePhase& phase, std::size_t edge)> size_of;  // of a message; empty: all are equal
    int unit = 0;                                                                  // what is recorded
    std::int64_t step = 0;
    Seconds launch{};           // before the first round
    bool asks = false;          // each message; ranks then begin at random moments of `launch`
    bool joins_rounds = false;  // into one event, as long as nothing else uses the links of their messages
  };
  void start(Task task, std::function<void()> on_done);

  /// Counts the traffic of joined rounds so far, and goes on message by message.
  void settle() {
    if (held_.hold != 0) let_go();
  }

 private:
  /// Who sends and receives in a phase.
  struct RanksOfPhase {
    std::vector<std::size_t> from, to;                         // [edges]
    std::vector<PathIndex> back;                               // [edges] the way of an answer; -1 within a machine
    std::vector<std::vector<std::size_t>> outgoing, incoming;  // [ranks] edges
  };
  struct KnownPhase {
    std::optional<RanksOfPhase> ranks;
    /// That its messages may wait for; none where its rounds are no one event.
    std::optional<std::vector<int>> joined_links;
  };
  enum class Leg : std::uint8_t { kNone, kRequest, kAnswer, kData };
  /// An edge of the phase under way.
  struct Edge {
    std::int64_t arrived = 0;  // messages
    bool is_asked = false;     // whether there is a request that has not been answered
    Bytes on_way{};            // of messages, that have left
    Leg leg = Leg::kNone;      // what is leaving, or a request or an answer on its way
    bool has_left = false;
    PathIndex path = 0;
    Bytes size{};
    FlowId flow = 0;
    LossyChannel* channel = nullptr;  // instead
  };
  struct Rank {
    std::int64_t round = 0;  // that has begun, from 1
    std::size_t left = 0;    // messages of the round, sent and received
  };
  /// Rounds that are one event.
  struct HeldRounds {
    HoldId hold = 0;  // 0: none
    Seconds since{}, each{};
    std::int64_t done = 0, rounds = 0, number = 0;  // before them; of them; so that an event knows whether it is theirs
  };

  const CollectivePlan& plan() const { return task_.method->plan; }
  const CollectivePhase& phase() const { return plan()[phase_]; }
  KnownPhase& known() { return known_.at(task_.method)[phase_]; }
  const RanksOfPhase& ranks_of_phase();
  const std::vector<int>& joined_links();
  std::vector<bool> slow_ranks();
  bool keeps_step();
  bool senders_are_apart();
  Bytes size_of(std::size_t edge) const;
  Seconds latency(std::size_t edge, Seconds transfer) const {
    return task_.timer->latency(phase_, phase().edges[edge], transfer, task_.on_wire, cluster_.network);
  }

  /// Of a message among equal ones that has its links for itself.
  Seconds transfer_time(std::size_t edge) const {
    return Seconds{task_.timer->seconds_per_byte(phase_)[edge] * as_double(message_size(phase(), task_.on_wire))};
  }

  void begin_phase();
  void begin_messages();
  void begin_round(std::size_t rank);
  void end_message(std::size_t rank);
  void come_to_round(std::size_t rank);
  void begin_together();
  void offer(std::size_t edge);
  void answer(std::size_t edge);
  void send_data(std::size_t edge);
  void transfer(std::size_t edge, Leg leg, PathIndex path, Bytes size);
  void leave(std::size_t edge, Seconds start);
  void send_on(std::size_t edge, Seconds arrival);
  void arrive(std::size_t edge, Bytes size);
  void arrive_unladen(std::size_t edge);
  LossyChannel* free_channel(PathIndex path);

  void lose(PathIndex path, Bytes size);

  bool hold_rounds(std::int64_t done);
  void end_hold();
  void let_go();
  void count_rounds();
  void count(std::size_t edge, std::int64_t messages);
  std::vector<Seconds> advance(std::int64_t done, Seconds elapsed);
  void resume(std::size_t edge, Seconds before);

  Cluster& cluster_;
  OwnedClock clock_;
  std::optional<Rng> launches_;  // of ranks, once one has asked
  std::map<const CollectiveMethod*, std::vector<KnownPhase>> known_;
  std::map<PathIndex, std::vector<std::unique_ptr<LossyChannel>>> channels_;  // as many as are busy at a time
  Task task_;
  std::function<void()> on_done_;
  std::size_t phase_ = 0;
  const RanksOfPhase* its_ = nullptr;  // of the phase
  std::vector<Edge> edges_;            // of the phase; none while its rounds are one event
  std::vector<Rank> ranks_;
  std::size_t ranks_left_ = 0;
  std::vector<std::size_t> ready_;  // ranks whose next rounds begin at this date
  HeldRounds held_;
};

}  // namespace rehearse
