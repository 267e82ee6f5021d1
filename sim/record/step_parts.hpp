#pragma once
// What the time of a worker's step consists of.

#include <vector>

#include "sim/record/run_record.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// Means over the steps that end in the steady state, of all workers. The parts are disjoint: they add up to the time
/// from one of a worker's steps to its next one.
struct StepParts {
  double steps = 0;
  Seconds kernels{};          // on the GPU, at work, but for those that end while the host still dispatches others
  Seconds launch{};           // kernels on the GPU before their work begins
  Seconds update{};           // the optimizer's, on the GPU, by a worker that does it itself
  Seconds host_update{};      // the optimizer's, on the host, where that takes longer than the GPU's beside it
  Seconds update_dispatch{};  // part of the update that lasts as long as its host's dispatch
  Seconds host{};             // step overhead, and dispatch of kernels up to the last one that the GPU waits for
  Seconds overhead{};         // part of `host`: that of the step
  Seconds host_copies{};      // of variables that lie on the host, to the GPU, and of their gradients back
  Seconds load{};             // until the samples were in the host's memory
  Seconds input{};            // copy of the samples
  /// Waits that compute does not hide, by what the last message had to wait for (StepTimes). Synchronous workers that
  /// wait for others whose messages came later wait for what those wait for.
  Seconds server{}, network{}, latency{};
  Seconds copies{};        // over PCIe, of variables and gradients on their way
  Seconds beside_fetch{};  // kernels and copies of samples while a model is fetched that comes after them: no part of
                           // what is exposed, but the network's
  Seconds bubble{};        // of a pipeline: until other stages have computed what the message brings
  /// Synchronous: until the slowest worker that counts is as far as it would be if messages took no time; bounded
  /// staleness: until it may begin.
  Seconds others{};
  Seconds checkpoint{};  // of itself, or of one that it waits for
  Seconds stopped{};     // the job stood still

  /// Communication that is not hidden: the worker waits for network, servers and other workers.
  Seconds exposed() const { return server + network + latency + copies + bubble + others; }
  Seconds total() const {
    return kernels + launch + update + host_update + update_dispatch + host + host_copies + load + input +
           beside_fetch + exposed() + checkpoint + stopped;
  }
};

StepParts mean_step(const Scenario& scenario, const RunRecord& record);

/// Whether workers run the optimizer themselves, at the end of a step.
bool updates_itself(const Scenario& scenario);

/// Workers that end their steps together do so but for rounding: a millionth of the window is no difference.
bool ends_in_window(const StepSpan& step, const RunRecord& record);

/// Its repetitions that lie in the window: a step that ends where the window starts was the last of the warm-up.
std::int64_t steps_in_window(const StepSpan& step, const RunRecord& record);

}  // namespace rehearse
