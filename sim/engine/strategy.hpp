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
  std::function<void(std::int64_t updates)> on_update;  // progress
  std::function<void()> run;                            // advances time until nothing is left to do
};

/// Workers that each loop over pull, compute, push against parameter servers without waiting for one another
/// (parameter_server_asynchronous.cpp says how).
RunRecord run_parameter_server_asynchronous(Cluster cluster);

}  // namespace rehearse
