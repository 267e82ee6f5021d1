#pragma once
// SimGrid underneath: its clock and event loop, and two networks on it. SimGrid allows one engine per process and never
// resets its clock, so whoever simulates more than once does so without it (plain_loop.hpp) or in children (isolated.hpp).

#include <functional>
#include <memory>

#include "platforms/topology.hpp"
#include "sim/base/pinned.hpp"
#include "sim/resources/clock.hpp"
#include "sim/resources/network.hpp"

namespace rehearse {

/// Who computes the rates of flows. Both give the max-min fair ones.
enum class FlowSolver {
  kMaxMinFlows,  // max_min_flows.hpp: SimGrid's loop asks plain_loop.hpp for the next date
  kSimgrid,      // SimGrid's own communications on a SimGrid platform: slower, to check the first against
};

class SimgridBackend : private Pinned {
 public:
  /// What happens next, from SimGrid's date on: by how much that goes on; negative if there is nothing any more.
  using GoOn = std::function<double(double now)>;

  class Engine {
   public:
    virtual ~Engine() = default;
    virtual Clock& clock() = 0;
    virtual Network& network() = 0;
    virtual void run() = 0;
  };

  /// Loads that library, and SimGrid with it. Throws std::runtime_error where it is not found: loaded_library.hpp.
  explicit SimgridBackend(const Topology& topology, FlowSolver solver = FlowSolver::kMaxMinFlows);
  ~SimgridBackend();

  Clock& clock() { return engine_->clock(); }
  Network& network() { return engine_->network(); }
  /// Runs until the calendar and the network are empty.
  void run() { engine_->run(); }

 private:
  std::unique_ptr<Engine> engine_;
};

}  // namespace rehearse
