#pragma once
// What a step draws on its GPU, and what a limit of the GPU's power makes of its kernels: platforms/board_power.hpp.

#include "platforms/board_power.hpp"
#include "sim/scenario/kernel_time.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// The board of each of the group's GPUs, under the group's limit if it states one.
BoardPower board_power(const Scenario& scenario, const Group& group);

/// Whether what GPUs draw is known: of all groups of workers.
bool has_gpu_power(const Scenario& scenario);

/// Notes what kernels read and write, before anything stretches their times: PlannedKernel::bytes.
void note_traffic(ComputePlan& plan, const Scenario& scenario, const Group& group);

/// PlannedKernel::energy and ComputePlan::update_power; under the group's limit kernels take longer than under that of their times, the
/// board's own or that of Group::step_time. Nothing if has_board_power() is false.
void draw_power(ComputePlan& plan, const Scenario& scenario, const Group& group);

/// J that a GPU draws in a step of so many passes besides what it draws at rest: of its kernels and of the update.
double step_energy(const ComputePlan& plan, int passes);

}  // namespace rehearse
