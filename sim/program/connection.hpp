#pragma once
// One direction of a connection between two endpoints: one message on the wire at a time.

#include <functional>
#include <memory>
#include <optional>

#include "sim/base/fifo.hpp"
#include "sim/base/pinned.hpp"
#include "sim/base/random.hpp"
#include "sim/program/cluster.hpp"
#include "sim/program/lossy_channel.hpp"

namespace rehearse {

class Connection : private Pinned {
 public:
  struct Message {
    int unit = 0;
    std::int64_t step = 0;
    Bytes size{};
    int priority = 0;  // among those that wait the lowest is sent next; of equals, the first
    int tag = 0;       // the sender's own
  };
  using OnArrival = std::function<void(const Message&)>;

  Connection(OwnedClock clock, Cluster& cluster, PathIndex path, OnArrival on_arrival);
  /// Cuts what is under way: a message that has not arrived is lost, and one that has not left counts for nothing.
  ~Connection();

  /// The message, as Scenario::messaging makes it, waits for its turn; on_arrival runs when it has arrived, the latency after its last byte has left.
  void send(Message message);
  Seconds latency() const { return latency_; }
  /// The clock for what is to happen only while the connection is there.
  OwnedClock clock() const { return clock_; }

 private:
  void start_next();
  double weight();
  void finish_head();
  void arrive();

  OwnedClock clock_;
  Cluster& cluster_;
  PathIndex path_;
  Seconds latency_;
  OnArrival on_arrival_;
  Fifo<Message> queue_;      // the head is on the wire
  Fifo<Message> in_flight_;  // left the sender, latency not yet over
  Seconds head_started_{};
  FlowId flow_ = 0;                        // of the head
  std::unique_ptr<LossyChannel> channel_;  // instead of flows, where packets are lost
  /// Weight against other connections that wait for the same link, of all messages of a step: Training::share_variation.
  struct Share {
    Rng rng;
    std::int64_t step = -1;
    double weight = 1;
  };
  std::optional<Share> share_;  // none: always equal
};

}  // namespace rehearse
