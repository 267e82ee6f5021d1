#pragma once
// What no GPU exceeds: the arithmetic of training at its peak.

#include <optional>
#include <string>

#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// FLOPs of one sample's forward and backward pass through the whole model, whatever is computed again and however it is split;
/// attention counts as its kernels compute it, half of it where a causal mask hides the rest, but without the scores that one
/// kernel computes again in its backward pass: that is twice the forward pass. 0 where layers have stated times, or where the whole
/// is larger than one GPU's graph may be.
double model_flops_of_sample(const Scenario& scenario);

/// Dense, at the data sheet's peak, of products whose factors are cast to 8 or 4 bits; 0: the GPU has no units for it, or 0 bits.
FlopsPerSecond peak_of_casts(const Accelerator& gpu, int bits);

/// Dense FLOP/s of all GPUs of workers that are not standby, at their data sheets' peak in the precision of the products.
double peak_flops_per_s(const Scenario& scenario);

/// Positions of a sample of words, those of the encoder where there are two stacks; 0: the model is none of a transformer's that
/// reads words.
int tokens_of_sample(const Scenario& scenario);

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
