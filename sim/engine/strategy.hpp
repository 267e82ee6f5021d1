#pragma once
// What a strategy is given, and the strategies there are: one file each.

#include <functional>
#include <vector>

#include "sim/engine/clock.hpp"
#include "sim/engine/network.hpp"
#include "sim/engine/run_record.hpp"
#include "sim/engine/scenario.hpp"

namespace rehearse {

/// A simulated cluster, ready to be used by one strategy.
struct Cluster {
  const Scenario& scenario;
  const std::vector<Machine>& machines;
  Clock& clock;
  Network& network;
  Recorder& recorder;
  /// No reduction but those that any run of the scenario may use: see simulate.hpp.
  bool is_exact = false;
  std::function<void(std::int64_t updates)> on_update;  // progress
  std::function<void()> run;                            // advances time until nothing is left to do
};

/// Workers that loop over pull, compute, push against parameter servers: asynchronous, synchronous with backup workers,
/// or with bounded staleness (parameter_server.cpp says how).
RunRecord run_parameter_server(Cluster cluster);

/// Workers that add up their gradients by collectives in every step (all_reduce.cpp).
RunRecord run_all_reduce(Cluster cluster);

/// Workers that average their models in pairs, without waiting (pairwise_averaging.cpp).
RunRecord run_pairwise_averaging(Cluster cluster);

}  // namespace rehearse
