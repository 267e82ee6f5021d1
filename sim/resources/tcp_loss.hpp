#pragma once
// What lost packets do to a message that TCP carries: retransmissions, a smaller window, time-outs. No clock, no links:
// a transfer in, its delays out, so that a calibration can ask for them alone.

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "platforms/tcp.hpp"
#include "sim/base/random.hpp"
#include "sim/base/units.hpp"

namespace rehearse {

/// Between sender and receiver, while nothing else is on the way.
struct LossyPath {
  double loss = 0;       // share of packets, each by itself, in [0, 1)
  Seconds round_trip{};  // of an empty path
  BytesPerSecond rate{};
};

/// What else is under way when a message begins. ACKs wait in their sender's queue behind its own data.
struct TcpSurroundings {
  /// The connection goes on with other data at once, whose ACKs tell of losses at the end of this message.
  bool is_followed = false;
  Seconds opposing{};        // that the receiver's link needs for the data that are still to leave there
  Seconds opposing_queue{};  // the most of them that wait at a time: its windows
};

/// What became of one message on one connection.
struct TcpTransfer {
  std::int64_t segments = 0;
  std::int64_t retransmitted = 0;     // segments, which were lost
  std::int64_t fast_retransmits = 0;  // losses, at most one in a window, after which the sender made the window smaller
  std::int64_t probes = 0;            // of the tail
  std::int64_t late_probes = 0;       // of them those that wait as long as a time-out
  std::int64_t timeouts = 0;          // of the retransmission timer
  Seconds sending{};  // while segments leave: (segments + retransmitted) / rate, more where the window limits
  Seconds waiting{};  // nothing leaves: for ACKs of the tail, for timers
};

/// The same of many messages.
struct LossCounts {
  Bytes retransmitted{};
  std::int64_t fast_retransmits = 0, probes = 0, late_probes = 0, timeouts = 0;

  void add(const LossCounts& other) {
    retransmitted += other.retransmitted;
    for (const auto member :
         {&LossCounts::fast_retransmits, &LossCounts::probes, &LossCounts::late_probes, &LossCounts::timeouts})
      this->*member += other.*member;
  }
};

/// How much later a packet arrives that is alone on its connection, as of lost ones nothing else tells: a probe comes
/// after 2 RTT and `minimum_timeout` for kRack, as Linux waits while one packet is under way (tcp_schedule_loss_probe()),
/// then, or for kDuplicateAcks at once, time-outs of RTT + minimum_timeout, doubled each time. Adds to `losses`.
Seconds delay_of_lone_packet(const TcpParameters& parameters, const LossyPath& path, Rng& random, LossCounts& losses);

/// The sender of one direction of a connection that stays open. Flight by flight: a flight has a window of segments,
/// those known to be lost first; each of them is lost with probability p, and so is each ACK; the next flight follows a
/// round trip later, or at once where the window is at least rate * RTT. RTT is that of the empty path and the time for
/// which ACKs wait behind the receiver's own data. Besides the rate
/// - a loss with `duplicate_acks` later segments that arrive (one is enough for kRack) costs a smaller window, 0.7 W for
///   kCubic and W / 2 for kReno in whole segments, at most once in a window; it grows by 0.53 and 1 segment in a round
///   trip, or as the cubic function of time, while it limits: not above rate * (RTT + `small_queue`), as a sender that
///   is held back by its own queue is not limited by its window. So long transfers have C * segment / (RTT * sqrt(p)),
///   C = 1.2 (Mathis et al., ACM CCR 27(3), 1997), or, where RTT is long, the rate of RFC 8312;
/// - the flight after the loss is as large as the ACKs of the window allow that come after it is known, 0.7 of them
///   (RFC 6937). Linux' receivers send only `duplicate_acks` of these at once and the next one 0.1 ms later
///   (tcp_compressed_ack_kick(), tcp_comp_sack_delay_ns and _slack_ns), which is as long as a segment takes: where W <= duplicate_acks + 2
///   the retransmission fills the gap before, its ACK speaks for all, and if that is lost only the timer is left. If the
///   retransmission is lost the others' ACKs come and let more follow. So captures of the testbed have it: 0 of 83 lost
///   retransmissions waited for the timer, but 4 of about 90 lost ACKs of one;
/// - at the end of the message it costs what is left of a round trip, and RTT / 4 and the granularity for kRack where
///   fewer than `duplicate_acks` arrived;
/// - where nothing sent later arrives, or no ACK of a flight, the timer has to expire, after RTT + minimum_timeout,
///   doubled each time that the retransmission is lost, too; the window is 1 afterwards. For kRack, unless another
///   recovery is under way, a probe comes first, after two RTT and the granularity. It is late, as that of a time-out, if
///   all but one segment are known to have arrived, since the ACK of that might be delayed (RFC 8985, section 7.2; Linux
///   waits 200 ms). In half of the cases they are not: then the ACK of the one before is delayed, as every second one is
///   sent (RFC 5681, section 4.2).
/// Every lost segment is sent again until it arrives, and no other but by a probe: retransmitted / segments has the mean
/// p / (1 - p). Left out: slow start of a connection that was idle; reordering; delayed ACKs in the middle of a message.
class TcpSender {
 public:
  /// The window is that which fills the path, at least the initial one.
  TcpSender(const TcpParameters& parameters, const LossyPath& path, Rng random);

  TcpTransfer send(std::int64_t segments, const TcpSurroundings& surroundings = {});
  /// In segments.
  double window() const { return window_; }

 private:
  /// A lost segment, before the sender knows.
  struct Missing {
    std::int64_t sent_at = 0;         // number among all that have been sent
    std::int64_t arrived_before = 0;  // segments
    bool is_retransmission = false;
  };

  std::int64_t next_gap();
  bool is_next_lost();
  bool is_recovering() const { return sent_ < recovery_point_; }
  void send_flight(TcpTransfer& transfer);
  std::int64_t send_some(std::int64_t count, std::int64_t retransmissions);
  std::optional<Missing> find_losses(TcpTransfer& transfer);
  double round_trip(const TcpTransfer& transfer) const;
  bool are_acks_lost(std::int64_t arrived);
  void recover_tail(TcpTransfer& transfer);
  void probe(TcpTransfer& transfer);
  void time_out(TcpTransfer& transfer);
  void shrink(const Missing& missing, TcpTransfer& transfer);
  void grow(std::int64_t arrived, double time, double most);

  TcpParameters parameters_;
  double loss_;
  double round_trip_;  // seconds, of an empty path
  double per_second_;  // segments
  Rng random_;
  std::int64_t gap_;  // segments that arrive before the next one that is lost
  double window_;
  double recovery_flight_ = std::numeric_limits<double>::infinity();  // most of the next flight
  bool is_retransmission_alone_ = false;  // the next flight is nothing else, unless that is lost
  double threshold_;                      // of slow start
  double most_ = 0;                       // cubic: window before the last loss
  double since_loss_ = 0;                 // cubic: seconds in which it has grown
  double friendly_ = 0;                   // cubic: Reno's window, with the same mean
  std::int64_t sent_ = 0;                 // segments, with retransmissions
  std::int64_t arrived_ = 0;              // the same
  std::int64_t recovery_point_ = 0;       // losses before it have made the window smaller
  int backoff_ = 0;                       // time-outs in a row
  // Of the message:
  std::int64_t new_left_ = 0, known_lost_ = 0;
  TcpSurroundings surroundings_;
  bool has_acks_ = false;             // of the last flight
  std::int64_t unacknowledged_ = 0;   // segments, after the last flight
  std::int64_t arrived_in_turn_ = 0;  // since the last loss
  std::vector<Missing> missing_;
};

}  // namespace rehearse
