#pragma once
// From a scenario to what happened. Start here to read what a run does.

#include <cstdint>
#include <functional>

#include "sim/record/run_record.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// How far a run is.
struct RunProgress {
  bool is_set_up = false;    // machines, plans and their paths are there: simulated time passes
  std::uint64_t events = 0;  // before that, paths found
  Seconds simulated{};
  std::int64_t updates = 0;    // of the full cluster (work.hpp), with as many samples
  std::uint64_t messages = 0;  // that have been started, those under way included; none by collectives that are timed
};

struct SimulateOptions {
  bool keeps_activity = false;     // record kernels, messages, server work and the rates over NICs
  bool records_gpu_links = false;  // besides, the rates over PCIe links, NVLinks and NVSwitch ports of GPUs
  RecordingScope scope{};          // of them
  /// Every kernel, message and step is simulated, messages as SimGrid's own communications: slower, to check the
  /// reductions against. Without, lockstep_training.cpp says which apply when, and max_min_flows.hpp shares bandwidth.
  bool is_exact = false;
  /// SimGrid's loop runs ours (plain_loop.hpp), at most once per process: simgrid_backend.hpp. Without, ours runs by itself: the same
  /// events at the same dates, any number of runs in one process.
  bool is_on_simgrid = false;
  /// Called after each update with the progress so far, of Training::steps. May throw to end the run.
  std::function<void(std::int64_t steps)> on_update;
  /// Called every 256 events, as an update may take millions, and while the run is set up every 256 paths. May throw to
  /// end the run.
  std::function<void(const RunProgress&)> on_progress;
};

/// Runs the scenario. On SimGrid at most once per process, as it cannot be reset (isolated.hpp runs more).
/// Throws NoResultError on a deadlock, std::logic_error if an invariant is broken.
RunRecord simulate(const Scenario& scenario, const SimulateOptions& options = {});

}  // namespace rehearse
