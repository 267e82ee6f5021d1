#pragma once
// How far a scenario's parameter servers lie beyond what their values were fitted on.

#include <vector>

#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// Bytes of values that the busiest of so many servers sends in a step of each worker, and about as many of gradients
/// that it receives. 0 without servers.
Bytes server_traffic(const Scenario& scenario);

/// How uncertain a prediction becomes, and why, where NICs are faster or more passes through the servers than what
/// `profile.servers` was fitted on:
/// - A NIC r times as fast as any that was seen: no row tells whether the process behind it can use it. The speed lies
///   between that with the NIC which was seen and the predicted one, at most r times as high: 90 % within a factor r,
///   so a standard deviation of ln r / 1.645.
/// - 10 % for each time that the number of workers, or that of servers, or the traffic of a server is twice what was
///   seen, by the largest of the three. Source: cscs-tf-ps-scaling-2017, fitted on 1 and 2 GPUs, is up to 49 % off at 64
///   times as many (1.49^(1/6) = 1.07 a doubling), rounded up.
std::vector<Substitute> beyond_fitted_servers(const Scenario& scenario);

}  // namespace rehearse
