#pragma once
// From a scenario to what happened. Start here to read sim/engine/.

#include <cstdint>
#include <functional>

#include "sim/engine/run_record.hpp"
#include "sim/engine/scenario.hpp"

namespace rehearse {

struct SimulateOptions {
  bool keeps_activity = false;  // record kernels, messages and server work
  bool keeps_copies = false;    // besides, copies over PCIe links that GPUs have for themselves
  RecordingScope scope{};       // of them
  /// Every kernel, message and step is simulated, messages as SimGrid's own communications: slower, to check the
  /// reductions against. Without, all_reduce.cpp says which apply when, and max_min_flows.hpp shares bandwidth.
  bool is_exact = false;
  /// Events are handed on by a loop of ours instead of SimGrid's (plain_loop.hpp): the same events at the same dates,
  /// any number of runs in one process. Not with is_exact.
  bool is_plain = false;
  /// Called after each update with the number of updates so far. May throw to end the run.
  std::function<void(std::int64_t updates)> on_update;
  /// Called every few hundred events; an update may take millions. May throw to end the run.
  std::function<void()> on_progress;
};

/// Runs the scenario. At most once per process, unless it is plain: SimGrid cannot be reset (isolated.hpp runs more).
/// Throws NoResultError on a deadlock, std::logic_error if an invariant is broken.
RunRecord simulate(const Scenario& scenario, const SimulateOptions& options = {});

}  // namespace rehearse
