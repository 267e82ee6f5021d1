#pragma once
// The calendar and the max-min fair network, and the loop over both: many runs in one process, one after another. SimGrid can run
// it, too (simgrid_backend.cpp).

#include "platforms/topology.hpp"
#include "sim/base/pinned.hpp"
#include "sim/resources/clock.hpp"
#include "sim/resources/max_min_network.hpp"

namespace rehearse {

class PlainLoop : private Pinned {
 public:
  explicit PlainLoop(const Topology& topology) : network_{topology} {}

  Clock& clock() { return clock_; }
  Network& network() { return network_; }
  /// Does what is due, and goes on to the next date at which something is: a flow that ends, or an event. False if there is none.
  bool turn();
  /// Runs until the calendar and the network are empty.
  void run() {
    while (turn()) {}
  }

 private:
  Clock clock_;
  MaxMinNetwork network_;
};

}  // namespace rehearse
