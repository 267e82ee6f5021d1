#pragma once
// The machines of a run, and what on them programs use.

#include <algorithm>
#include <vector>

#include "sim/record/recorder.hpp"
#include "sim/record/traffic.hpp"
#include "sim/resources/clock.hpp"
#include "sim/resources/core_pool.hpp"
#include "sim/resources/network.hpp"
#include "sim/resources/tcp_loss.hpp"
#include "sim/scenario/site.hpp"

namespace rehearse {

/// A simulated cluster, ready to be used by one strategy.
struct Cluster {
  Cluster(const Site& site_, Clock& clock_, Network& network_, Recorder& recorder_, bool is_exact_ = false)
      : site{site_}, clock{clock_}, network{network_}, recorder{recorder_}, is_exact{is_exact_} {
    for (const Machine& machine : site.machines) cores.emplace_back(std::max(machine.cores, 1));
  }

  const Site& site;
  Clock& clock;
  Network& network;
  Recorder& recorder;
  /// No reduction but those that any run of the scenario may use: see simulate.hpp.
  bool is_exact;
  Traffic traffic{site.topology};
  LossCounts losses;
  int lossy_connections = 0;                                                          // that there have been
  int asking_communicators = 0;                                                       // the same
  std::vector<std::vector<const class LossyChannel*>> sending{site.machines.size()};  // [machines] those that are busy
  std::vector<CorePool> cores;  // [machines] of its parameter servers
};

}  // namespace rehearse
