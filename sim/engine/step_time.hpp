#pragma once
// Measured step times of a profile in place of the kernel model's absolute scale.

#include "platforms/accelerator.hpp"
#include "sim/engine/kernel_time.hpp"
#include "sim/engine/scenario.hpp"

namespace rehearse {

/// What stretches every kernel and all host work of a step on this GPU so that a lone worker takes as long as the
/// profile's step times say:
///   f(b) = measured(b) / (step_overhead + kernel model's step with b samples + update)
/// at each measured batch b; between two of them linear in ln b, outside of them that of the nearest. Nothing if the
/// profile has no step time of this model, GPU, precision and framework.
std::optional<double> step_time_factor(const Scenario& scenario, const Accelerator& gpu);

/// The scenario's step on this GPU: plan_compute(), stretched. A measured step includes the copy of its input.
ComputePlan plan_step(const Scenario& scenario, const Accelerator& gpu);

}  // namespace rehearse
