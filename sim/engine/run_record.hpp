#pragma once
// What a strategy hands back: raw measurements of one run, before they are turned into a summary.

#include <string>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/engine/recorder.hpp"
#include "sim/engine/scenario.hpp"

namespace rehearse {

/// One machine of the cluster.
struct Machine {
  std::string name;  // "workers-3"; just the group's name if the group has one machine
  int group = 0;     // index into Scenario::groups
  Role role = Role::kWorker;
  int cores = 0;
  BytesPerSecond nic{};  // payload rate, each direction
};

/// Work of a machine within the steady-state window, or within the whole run.
struct MachineUse {
  Seconds cpu_busy{};  // sum over cores; parameter servers only
  Bytes sent{};
  Bytes received{};
  std::int64_t steps = 0;  // workers only
};

struct RunRecord {
  std::vector<Machine> machines;
  std::vector<MachineUse> total;      // [machines]
  std::vector<MachineUse> in_window;  // [machines]
  Span window;    // steady state: after every worker's warm-up, before the first worker runs out of work
  Seconds end{};  // the last update
  std::int64_t updates = 0;
  Bytes sent{}, received{};                   // over all connections
  std::vector<Seconds> gpu_time_per_step;     // [machines], 0 for servers
  std::vector<Seconds> memory_time_per_step;  // [machines]
  std::vector<Seconds> unblocked_step;        // [machines] step time if the network and the servers took no time
  std::vector<Bytes> placed_bytes;            // [machines] bytes of trainable variables, servers only
  std::vector<int> placed_variables;          // [machines]
  Recorder recorder;
  std::uint64_t fingerprint = 0;
  std::uint64_t events = 0;
};

}  // namespace rehearse
