#pragma once
// What no GPU exceeds: the arithmetic of training at its peak.

#include <optional>
#include <string>

#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// Samples per second of one GPU of the group, if all of its time were arithmetic at its peak in the precision of the products:
///   peak / operations of a sample,
/// with nothing computed again, no matter whether the model fits or how it is split. Products of convolutions count 1 / 2.25 of their
/// operations, as Winograd's algorithm does 3 x 3 ones (Lavin and Gray, CVPR 2016). Infinite where layers have stated times.
double peak_samples_per_s(const Scenario& scenario, const Group& group);

/// The sum over all GPUs of all workers that are not standby.
double peak_samples_per_s(const Scenario& scenario);

/// GPUs of all workers that are not standby.
int training_gpus(const Scenario& scenario);

/// Why `gpus` of the scenario's GPUs, or all of them, cannot have been measured to be so fast; empty: no faster than their peak.
/// "1e+05 samples/s are 12 times the 8333 that the arithmetic of this model allows at the peak of its GPUs in fp16: ..."
std::string impossible_speed(const Scenario& scenario, double samples_per_s, std::optional<int> gpus = {});

}  // namespace rehearse
