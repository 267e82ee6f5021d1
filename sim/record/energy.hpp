#pragma once
// What a run draws: GPUs, machines, and what that costs and emits where the scenario says so.

#include <optional>

#include "sim/record/run_record.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// Of a run whose GPUs' power is known (has_gpu_power()).
///   GPU      rest * (time in which its machine is rented) + sum over steps of step_energy()
///            + polling * (time in which it waits for collectives)
///   machine  node_power() of the means over the time in which it is rented
/// Steps that were cut draw what they would at rest. A pipeline's bubble is at rest; a machine that is gone draws nothing.
struct RunEnergy {
  double gpu_j = 0;         // of all GPUs, until the last update
  double node_j = 0;        // of all machines, from the wall
  double gpu_power_w = 0;   // mean over GPUs of workers in the steady state
  double node_power_w = 0;  // mean over workers' machines in the steady state
  double all_power_w = 0;   // of all machines in the steady state
  double all_gpu_power_w = 0;
};

/// W from the wall of a machine that is rented and does not train.
double rest_power(const Scenario& scenario, const Machine& machine);

/// `rates`: [machines] steps/s of all workers of each in the steady state. None if it is not known.
std::optional<RunEnergy> energy_of(const Scenario& scenario, const RunRecord& record, const std::vector<double>& rates);

}  // namespace rehearse
