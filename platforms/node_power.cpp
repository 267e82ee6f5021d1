#include "platforms/node_power.hpp"

#include <algorithm>

namespace rehearse {

double node_power(const Instance& instance, const Interconnect& interconnect, double gpus_w, double busy_threads,
                  const NodePowerValues& values) {
  constexpr double kBytesOf100G = 12.5e9, kGib = 1024.0 * 1024 * 1024;
  const double threads = instance.vcpus;
  const double busy = std::min(busy_threads, threads);
  double watts = gpus_w + threads * (values.thread_rest + values.board_thread) +
                 busy * (values.thread_busy - values.thread_rest) +
                 values.memory_gib * as_double(instance.memory) / kGib +
                 values.nic_100g * instance.all_nics().value() / kBytesOf100G;
  if (interconnect.nvswitch)
    watts += values.switch_100gb * instance.accelerators * interconnect.nvswitch->value() / 100e9;
  return watts * (1 + values.fans) / values.supply_efficiency;
}

}  // namespace rehearse
