#pragma once
// How often machines fail of themselves, and what replaces those that are broken.

#include "platforms/distribution.hpp"

namespace rehearse {

class JsonReader;

/// Faults of the machines of a group. After a fault the machine starts again, or it is broken: then it is away for `repair`,
/// and one of the group's spares takes its place. What is repaired joins the spares, so that machines and spares
/// together stay as many. Spares that wait do not fail.
struct MachineFaults {
  Distribution between;     // of one machine: from its start to its next fault
  double repair_share = 0;  // of the faults: those that break the machine
  Seconds repair{};         // from when the fault is noticed until the machine is a spare
  int spares = 0;
  Seconds spare_start{};  // from the request until a spare runs; 0: it is hot

  /// Faults per second of one machine that is always started again.
  double rate() const { return 1 / between.mean().value(); }
};

/// { "gpu_mtbf": "50000h", "machine_mtbf": "2000h", "shape": 1, "repair_share": 0.3, "repair_time": "24h", "spares": 4,
///   "spare_start_time": "5min" }: mean times between two faults of one GPU, and of what else is in a machine of `gpus`; one of
/// both is enough. The machine's mean is M = 1 / (gpus / gpu_mtbf + 1 / machine_mtbf), its law Weibull's of that mean:
///   F(t) = 1 - exp(-(t Gamma(1 + 1 / shape) / M)^shape),
/// exponential with shape 1; below 1 machines fail most often just after their start. Throws InputError.
MachineFaults read_machine_faults(const JsonReader& json, int gpus);

}  // namespace rehearse
