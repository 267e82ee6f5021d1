#pragma once
// How TCP sends again what is lost: what of it differs between systems.

#include <array>

#include "sim/base/named.hpp"
#include "sim/base/units.hpp"

namespace rehearse {

/// How a sender finds out that a segment is lost before its timer does.
enum class LossRecovery {
  kRack,           // RFC 8985, RACK-TLP: any later segment that arrives, and a probe at the tail. Linux since 4.18
  kDuplicateAcks,  // RFC 5681, 6582, 6675: so many later segments that arrive; a lost retransmission waits for the timer
};
enum class CongestionControl { kCubic, kReno };  // RFC 8312, RFC 5681

inline constexpr std::array kLossRecoveries{Named{"rack", LossRecovery::kRack},
                                            Named{"duplicate_acks", LossRecovery::kDuplicateAcks}};
inline constexpr std::array kCongestionControls{Named{"cubic", CongestionControl::kCubic},
                                                Named{"reno", CongestionControl::kReno}};

/// Defaults are those of Linux.
struct TcpParameters {
  Bytes segment{1448};              // payload: 1500 B less headers of IPv4 and of TCP with time stamps (RFC 7323)
  Seconds minimum_timeout{0.2};     // Linux: TCP_RTO_MIN; RFC 6298 says 1 s
  Seconds timer_granularity{8e-3};  // added to the timers of RACK-TLP. Linux: two jiffies of 250 in a second
  int duplicate_acks = 3;           // RFC 5681
  int initial_window = 10;          // segments: RFC 6928
  Seconds small_queue{0.7365e-3};  // of its rate: as much payload as a connection lets wait in its own machine; 0: all.
                                   // Linux: 1.2 / 1024 s (tcp_pacing_ca_ratio, sk_pacing_shift) in memory, which is
                                   // 2304 B for a segment of 1448
  Bytes
      turn{};  // the most of a connection that waits at its NIC: connections are served in turns of so much; 0: evenly
               // at any moment. Linux on a LAN: two packets of 64 KiB (sim/resources/queue_network.hpp)
  LossRecovery recovery = LossRecovery::kRack;
  CongestionControl congestion = CongestionControl::kCubic;
  int connections = 1;  // that share each message
};

}  // namespace rehearse
