#pragma once
// Measured step times of a profile in place of the kernel model's absolute scale.

#include <set>
#include <string>

#include "sim/scenario/kernel_time.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// What stretches every kernel and all host work of a step of the group's workers so that a lone one takes as long as
/// the profile's step times say:
///   f(b) = (measured(b) - copy(b)) / (step_overhead + kernel model's step with b samples + update)
/// at each measured batch b of one GPU; between two of them linear in ln b, outside of them that of the nearest. Of the
/// numbers of GPUs that were measured, the largest that a worker has counts; the smallest if all are larger. Nothing if
/// the profile has no step time of this model, GPU, precision and framework. copy(b) is 0 unless the scenario copies
/// the input: then it is input bytes / slowest link from host to GPU, at most 0.9 of the measured time, and the copy is
/// simulated, which takes longer where GPUs share that link.
std::optional<double> step_time_factor(const Scenario& scenario, const Group& group);

/// Where the time of a group's steps comes from.
enum class StepSource {
  kComputed,   // from shapes and the GPU's data sheet
  kEstimated,  // as computed, times what a measured step of another model, GPU, precision or framework takes
  kMeasured,   // a step time of the profile
  kStated,     // times of the model's layers
};
StepSource step_source(const Scenario& scenario, const Group& group);
/// Why `optimizer_implementation` changes no step; empty where some worker's update is computed of kernels.
std::string why_no_update_kernels(const Scenario& scenario);
std::string to_text(StepSource source);
/// Of all groups of workers, each once: "measured", or "computed, measured".
std::string step_sources(const Scenario& scenario);
/// What is to be said where speeds of scenarios are compared whose step_sources() are these, as far as `low` and `high`
/// times the speed of each: one sentence; empty if all are the same.
std::string source_warning(const std::set<std::string>& sources, double low, double high);

/// The measured time, of one GPU and with its batch, for which step_time_factor() is `factor`.
Seconds step_time_with(const Scenario& scenario, const Group& group, double factor);

/// The step of one GPU of the group: plan_compute(), stretched, and without a copy of the input if that is a part of
/// it.
ComputePlan plan_step(const Scenario& scenario, const Group& group);

}  // namespace rehearse
