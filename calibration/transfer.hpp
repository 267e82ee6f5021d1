#pragma once
// One message between the first two machines of a scenario, alone on the network.

#include <optional>

#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// Payload per second of one connection: of the slowest link on the way, or as its window goes round. B/s.
double transfer_rate(const Scenario& scenario);

/// From the first byte that leaves to the last that arrives, in s, of a message as large as the workload's parameters:
/// latency + (size - burst) / rate, the NICs having been idle; where packets are lost, the mean, or the quantile at `probability`, over many messages on
/// connections that stay open (sim/resources/tcp_loss.hpp).
double transfer_time(const Scenario& scenario, std::optional<double> probability);

/// Of those messages, the share in which a retransmission timer expires.
double transfer_timeout_share(const Scenario& scenario);

// All throw InputError if there is only one machine.

}  // namespace rehearse
