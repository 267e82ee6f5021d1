#pragma once
// The machines of a run, and what on them programs use.

#include <algorithm>
#include <optional>
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
    const std::optional<int>& threads = site.scenario.profile.servers.threads;
    if (!threads) return;
    std::vector<int> lanes(site.machines.size());
    for (const MachineIndex machine : site.servers) {
      int& lane = lanes[static_cast<std::size_t>(machine)];
      serving.push_back({CorePool{std::min(*threads, site.machine(machine).cores)}, lane});
      lane += serving.back().threads.cores();
    }
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

  /// The threads of a server's process that serve messages.
  struct Serving {
    CorePool threads;
    int first_lane;  // those of other servers on the machine come before
  };
  std::vector<Serving> serving;  // [servers]; none: all of the machine's cores serve messages
};

}  // namespace rehearse
