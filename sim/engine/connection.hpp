#pragma once
// One direction of a connection between two machines: messages leave one after another, in the order in which they were
// sent.

#include <deque>
#include <functional>

#include "sim/engine/clock.hpp"
#include "sim/engine/network.hpp"
#include "sim/engine/recorder.hpp"

namespace rehearse {

class Connection {
 public:
  struct Message {
    int variable = 0;
    std::int64_t step = 0;
    Bytes size{};
  };
  using OnArrival = std::function<void(const Message&)>;

  Connection(Clock& clock, Network& network, Recorder& recorder, MachineIndex from, MachineIndex to,
             OnArrival on_arrival);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void send(Message message);

  MachineIndex from() const { return from_; }
  MachineIndex to() const { return to_; }
  Bytes sent() const { return sent_; }
  Bytes received() const { return received_; }
  std::size_t waiting() const { return queue_.size(); }

 private:
  void start_next();
  void finish_head();

  Clock& clock_;
  Network& network_;
  Recorder& recorder_;
  MachineIndex from_, to_;
  Seconds latency_;
  OnArrival on_arrival_;
  std::deque<Message> queue_;      // the head is on the wire
  std::deque<Message> in_flight_;  // left the sender, latency not yet over
  Seconds head_started_{};
  Bytes sent_{}, received_{};
};

}  // namespace rehearse
