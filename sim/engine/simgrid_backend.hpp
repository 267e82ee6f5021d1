#pragma once
// SimGrid underneath: its clock, platform, routing and flow solver. SimGrid allows one engine per process and never
// resets its clock, so a process that simulates more than once does so in children: see isolated.hpp.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/engine/clock.hpp"
#include "sim/engine/network.hpp"

namespace rehearse {

/// A machine on the simulated network. `nic` is payload rate, each direction.
struct NetworkMachine {
  std::string name;
  std::string region;
  BytesPerSecond nic{};
};

/// One-way latency and rate of a single flow between two regions (or inside one when from == to).
struct NetworkPath {
  std::string from;
  std::string to;
  Seconds latency{};
  std::optional<BytesPerSecond> per_flow_rate;
};

struct NetworkDescription {
  std::vector<NetworkMachine> machines;
  std::vector<NetworkPath> paths;  // every pair of regions in use must be present, in either order
};

class SimgridBackend {
 public:
  /// Builds the platform: one star of full-duplex NICs per region, regions connected pairwise.
  explicit SimgridBackend(const NetworkDescription& description);
  ~SimgridBackend();
  SimgridBackend(const SimgridBackend&) = delete;
  SimgridBackend& operator=(const SimgridBackend&) = delete;

  Clock& clock();
  Network& network();
  /// Runs until the calendar and the network are empty.
  void run();

  struct Implementation;

 private:
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace rehearse
