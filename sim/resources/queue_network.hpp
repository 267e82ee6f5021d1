#pragma once
// A network whose connections take turns at a NIC, instead of sharing it evenly at every moment.

#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>
#include <vector>

#include "platforms/tcp.hpp"
#include "sim/resources/clock.hpp"
#include "sim/resources/network.hpp"

namespace rehearse {

/// What a machine sends waits in one queue, first in, first out, as in Linux. Each path is a connection. Its messages
/// follow one another and enter the queue in parts of at most q = turn / 2; the next part of n bytes enters as soon as
/// less than 2 n of the connection wait there. So a NIC serves each of its busy connections with `turn` bytes at a time.
/// A NIC sends at its rate whatever the receiver can take: what is too much waits before the receiver's link, again
/// first in, first out, without a limit. A message has been sent when its last byte has left that second queue.
///
/// A part is at most S sqrt(1/2) of a message of S bytes, but at least half the initial window: Linux makes no packet
/// larger than half the window W, and W is S to 2 S where messages are what limits it, as it grows until they do and by
/// doubling (its geometric mean is taken). q is the largest packet that Linux hands to a NIC.
/// Sources: Linux 6.18, tcp_small_queue_check() (2 packets), tcp_cwnd_test() (W / 2), tcp_tso_autosize() and
/// tcp_tso_rtt_log (64 KiB where the round trip is below 0.5 ms). Seen in captures of the testbed's servers.
///
/// A path's own limit spaces its parts. Paths within a machine go over `others`. What lies between NICs is not looked
/// at: for one switch.
class QueueNetwork final : public Network {
 public:
  /// `clock` runs on behalf of both networks.
  QueueNetwork(const Topology& topology, Clock& clock, Network& others, const TcpParameters& tcp);

  void cancel(FlowId flow) override;
  Seconds now() const override { return clock_.now(); }
  void watch(const std::vector<int>& links, OnRate on_rate) override;

 private:
  struct Message {
    PathIndex path = 0;
    double left = 0;     // bytes that have not entered the queue
    double missing = 0;  // bytes that have not left the receiver's link
    double part = 0;     // the most that enters at a time
    double started = 0;  // date
    double size = 0;     // bytes
    double spacing = 0;  // seconds of a byte, at least
    std::function<void()> on_sent;
  };
  struct Part {
    FlowId message = 0;
    PathIndex path = 0;
    double bytes = 0;
  };
  /// The sending side of a link.
  struct Nic {
    double rate = 0;
    std::deque<Part> waiting;  // the first of them is being sent if is_busy
    bool is_busy = false;
    double left = 0;            // bytes of the first, at `since`
    double since = 0;           // date
    std::uint64_t version = 0;  // of the date at which the first ends
  };
  /// Before a receiving link.
  struct Port {
    double rate = 0;
    double inflow = 0;   // bytes per second
    double backlog = 0;  // bytes, at `since`
    double since = 0;    // date
    std::uint64_t version = 0;
  };
  struct Connection {
    int nic = -1, port = -1;  // links
    std::deque<FlowId> messages;
    double queued = 0;  // bytes, with all of the part that is being sent
    std::uint64_t version = 0;
  };

  FlowId start(PathIndex path, Bytes size, std::optional<BytesPerSecond> most, double weight,
               std::function<void()> on_sent) override;
  Connection& connection(PathIndex path);
  /// Enters what may enter the queue now, and sees to it that this is tried again when more may.
  void enter_parts(PathIndex path);
  bool may_enter(PathIndex path, const Message& message);
  void try_again_at(double date, PathIndex path);
  void send_first(int nic);
  void await_end_of_first(int nic);
  void end_first(int nic);
  void change_port(int port, double inflow_by);
  void deliver(const Part& part);
  void report(int link, double rate);
  double now_s() const { return clock_.now().value(); }

  Clock& clock_;
  Network& others_;
  double turn_, segment_, least_part_;            // bytes
  std::vector<Nic> nics_;                         // [links]
  std::vector<Port> ports_;                       // [links]
  std::vector<Connection> connections_;           // [paths]
  std::unordered_map<FlowId, Message> messages_;  // looked up only, never iterated
  std::vector<bool> is_watched_;                  // [links]
  OnRate on_rate_;
  FlowId started_ = 0;
};

}  // namespace rehearse
