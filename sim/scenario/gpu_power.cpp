#include "sim/scenario/gpu_power.hpp"

#include <algorithm>

#include "sim/scenario/kernel_plan.hpp"

namespace rehearse {

namespace {

kernels::Precision precision_of_products(const Scenario& scenario, const Group& group) {
  if (scenario.profile.kernels)
    return kernel_setting(scenario.profile, scenario.framework, scenario.precision, *group.accelerator, group.place)
        .products;
  return products_in(scenario.precision);
}

}  // namespace

BoardPower board_power(const Scenario& scenario, const Group& group) {
  const double own = group.accelerator->power_w;
  return {*group.accelerator, scenario.profile.power_of(*group.accelerator), group.power_limit_w.value_or(own),
          group.step_time ? group.step_time->power_limit_w : own};
}

bool has_gpu_power(const Scenario& scenario) {
  return std::ranges::all_of(scenario.groups, [](const Group& group) {
    return group.role != Role::kWorker || (group.accelerator && has_board_power(*group.accelerator));
  });
}

void note_traffic(ComputePlan& plan, const Scenario& scenario, const Group& group) {
  const double rate = group.accelerator->memory_bandwidth.value() *
                      (scenario.profile.kernels ? 1 : scenario.profile.gpu.memory_efficiency);
  const OperatorGraph& graph = scenario.workload_of(group).graph;
  for (PlannedKernel& kernel : plan.kernels) {
    const OperatorAt op = graph[static_cast<std::size_t>(kernel.vertex)];
    kernel.bytes =
        op->measured_time ? as_double(op->bytes_read + op->bytes_written) : kernel.time.memory.value() * rate;
  }
}

void draw_power(ComputePlan& plan, const Scenario& scenario, const Group& group) {
  const Accelerator& gpu = *group.accelerator;
  if (!has_board_power(gpu)) return;
  const BoardPowerValues values = scenario.profile.power_of(gpu);
  const BoardPower board = board_power(scenario, group);
  const kernels::Precision products = precision_of_products(scenario, group);
  const auto each = [&](int factor_bits) {
    return kernels::flop_energy(gpu, values, kernels::precision_of(factor_bits, products));
  };
  const OperatorGraph& graph = scenario.workload_of(group).graph;
  for (PlannedKernel& kernel : plan.kernels) {
    const OperatorAt op = graph[static_cast<std::size_t>(kernel.vertex)];
    const Draw draw = board.of({.time = kernel.time.total.value(),
                                .memory = std::min(kernel.time.memory, kernel.time.total - kernel.time.launch).value(),
                                .launch = kernel.time.launch.value(),
                                .flops = op->flops.value() * each(op->factor_bits),
                                .bytes = kernel.bytes * board.byte_energy()});
    kernel.energy = draw.energy;
    if (draw.time == kernel.time.total.value()) continue;
    plan.gpu_time += Seconds{draw.time} - kernel.time.total;
    kernel.time.total = Seconds{draw.time};
  }
  // Updates read and write memory at its rate.
  const double second = gpu.memory_bandwidth.value() * board.byte_energy();
  plan.update_power = board.of({.time = 1, .memory = 1, .bytes = second}).energy;
}

double step_energy(const ComputePlan& plan, int passes) {
  double energy = 0;
  for (const PlannedKernel& kernel : plan.kernels) energy += kernel.energy;
  return energy * passes + (plan.update - plan.update_dispatch).value() * plan.update_power;
}

}  // namespace rehearse
