#pragma once
// The calendar and the max-min fair network without SimGrid underneath: many runs in one process, one after another.

#include <memory>

#include "platforms/topology.hpp"
#include "sim/base/pinned.hpp"
#include "sim/resources/clock.hpp"
#include "sim/resources/network.hpp"

namespace rehearse {

/// Does what SimgridBackend does with FlowSolver::kMaxMinFlows, event by event at the same dates: SimGrid adds the time
/// until the next event to its clock, and so does this. Checked in plain_loop_test.cpp, fingerprint by fingerprint.
class PlainLoop : private Pinned {
 public:
  explicit PlainLoop(const Topology& topology);
  ~PlainLoop();

  Clock& clock();
  Network& network();
  /// Runs until the calendar and the network are empty.
  void run();

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace rehearse
