#pragma once
// Messages from one endpoint to another over connections whose packets may be lost.

#include <functional>
#include <memory>
#include <vector>

#include "sim/base/pinned.hpp"
#include "sim/program/cluster.hpp"
#include "sim/resources/tcp_loss.hpp"

namespace rehearse {

/// One message at a time, in equal parts on TcpParameters::connections connections, which stay open. Each part is a flow
/// of what is sent, retransmissions included, at no more than the rate that its window allows, and waits for its timers
/// when that has ended; the message has left when all parts have. Retransmitted bytes cross the links, and count as sent
/// and lost.
class LossyChannel : private Pinned {
 public:
  /// `clock` ends with the channel.
  LossyChannel(OwnedClock clock, Cluster& cluster, PathIndex path);
  /// Cuts what is under way: it counts for nothing.
  ~LossyChannel();

  /// `on_sent` runs when the last byte has left for the last time. TcpSurroundings says what `is_followed` is. What
  /// other channels are told to send at the same date counts as under way. With `is_announced` it waits for a packet of
  /// the receiver that nothing follows.
  void send(Bytes size, bool is_followed, std::function<void()> on_sent, bool is_announced = false);
  bool is_busy() const { return on_sent_ != nullptr; }
  /// Of the latest message.
  Bytes retransmitted() const { return losses_.retransmitted; }

 private:
  struct Part {
    TcpSender sender;
    FlowId flow = 0;
  };
  void begin(bool is_followed);
  void start(Part& part, Bytes size, const TcpSurroundings& surroundings);
  void end_part();
  /// Adds what waits at the sender's link.
  void add_to(TcpSurroundings& surroundings) const;

  OwnedClock clock_;
  Cluster& cluster_;
  PathIndex path_;
  std::size_t machine_;  // the sender's
  Bytes segment_;
  LossyPath lossy_;  // of each connection
  Rng announcements_;
  BytesPerSecond rate_{};  // of each connection, while nothing else is on the way
  std::vector<Part> parts_;
  Bytes size_{};
  Seconds started_{};
  bool has_begun_ = false;
  LossCounts losses_;  // of the message
  std::size_t parts_left_ = 0;
  std::function<void()> on_sent_;
};

/// A channel over the path if packets are lost there, else none.
std::unique_ptr<LossyChannel> lossy_channel(OwnedClock clock, Cluster& cluster, PathIndex path);

}  // namespace rehearse
