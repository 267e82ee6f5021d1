#pragma once
// SimGrid underneath: its clock and event loop, and two networks on it. SimGrid allows one engine per process and never
// resets its clock, so a process that simulates more than once does so in children: see isolated.hpp.

#include <memory>

#include "platforms/topology.hpp"
#include "sim/base/pinned.hpp"
#include "sim/resources/clock.hpp"
#include "sim/resources/network.hpp"

namespace rehearse {

/// Who computes the rates of flows. Both give the max-min fair ones.
enum class FlowSolver {
  kMaxMinFlows,  // max_min_flows.hpp, registered with SimGrid as a model
  kSimgrid,      // SimGrid's own communications on a SimGrid platform: slower, to check the first against
};

class SimgridBackend : private Pinned {
 public:
  explicit SimgridBackend(const Topology& topology, FlowSolver solver = FlowSolver::kMaxMinFlows);
  ~SimgridBackend();

  Clock& clock();
  Network& network();
  /// Runs until the calendar and the network are empty.
  void run();

  struct Implementation;

 private:
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace rehearse
