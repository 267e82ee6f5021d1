#pragma once
// A collective whose messages wait for an answer of their receiver, and whose ranks go on one by one.

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "sim/base/pinned.hpp"
#include "sim/base/random.hpp"
#include "sim/program/cluster.hpp"
#include "sim/program/collective_methods.hpp"
#include "sim/resources/clock.hpp"

namespace rehearse {

/// Carries out the phases of a plan. A rank begins its next round when all that it sends and receives in a round is
/// done. It then asks the receivers of its messages, and answers those that have asked for this round. A message of n
/// bytes from one machine to another, one-way latency a, bandwidth b, both ranks being ready, takes 3 a + n / b instead of
/// a + n / b; longer if the answer waits behind what the receiver sends. Requests and answers are flows and count as
/// traffic; within a machine there are none.
/// Sizes and order as captured of OpenMPI 4.1.4 on the testbed: headers RNDV and PUT of ob1 with those of
/// btl_tcp. Its 32 B behind the data (FIN) are left out.
class Rendezvous : private Pinned {
 public:
  static constexpr Bytes kRequest{40}, kAnswer{64};

  /// What is the same of all messages. `rng` tells when the ranks begin.
  Rendezvous(Cluster& cluster, OwnedClock clock, Rng rng);
  /// Counts as lost what has left and not arrived, and cancels what has not left.
  ~Rendezvous();

  /// Starts a collective; each rank begins at a random moment between `earliest` and `latest`.
  /// `method` must outlive it. `unit` and `step` are what is recorded.
  struct Start {
    int unit = 0;
    std::int64_t step = 0;
    std::function<Bytes(const CollectivePhase& phase, std::size_t edge)> size_of;  // of each of the edge's messages
    Seconds earliest{}, latest{};
  };
  void start(const CollectiveMethod& method, const Start& start, std::function<void()> on_done);

 private:
  /// An edge of a phase: how many of its messages have been asked for, may be answered, have been answered.
  struct Edge {
    PathIndex path = 0;
    PathIndex back = -1;                                  // none within a machine
    std::size_t phase = 0, number = 0, from = 0, to = 0;  // of the phase's edges
    std::int64_t asked = 0, awaited = 0, answered = 0;
  };
  struct Rank {
    std::size_t phase = 0;
    std::int64_t round = 0;  // that has begun, from 1; 0: none of the phase
    std::size_t left = 0;    // messages of the round, sent and received
  };
  struct UnderWay {
    PathIndex path = 0;
    Bytes size{};
    FlowId flow = 0;
    bool has_left = false;
  };

  void plan_edges();
  void go_on(std::size_t rank);
  void end_message(std::size_t rank);
  void answer(std::size_t edge);
  void send_data(std::size_t edge);
  /// `on_left` and `on_arrival` may be empty.
  void send(PathIndex path, Bytes size, Seconds latency, std::function<void()> on_left,
            std::function<void()> on_arrival);

  Cluster& cluster_;
  OwnedClock clock_;
  Rng rng_;
  const CollectiveMethod* method_ = nullptr;
  Start start_;
  std::function<void()> on_done_;
  std::vector<Edge> edges_;
  std::vector<std::vector<std::vector<std::size_t>>> outgoing_, incoming_;  // [phases][ranks] edges
  std::vector<Rank> ranks_;
  std::size_t ranks_left_ = 0;
  std::map<std::uint64_t, UnderWay> under_way_;
  std::uint64_t sent_ = 0;
};

}  // namespace rehearse
