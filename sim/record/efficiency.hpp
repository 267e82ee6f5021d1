#pragma once
// How well a run uses its GPUs: figures by which runs of any size are compared.

#include <optional>

#include "sim/record/summary.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// All of the steady state, at its samples per second.
struct Efficiency {
  int gpus = 0;  // of workers that are not standby
  /// Samples/s by tokens of a sample; none if the model reads no words (tokens_of_sample()).
  std::optional<double> tokens_per_s;
  /// Model FLOPs utilization (Chowdhery et al., PaLM, 2022): samples/s * model_flops_of_sample() / peak_flops_per_s(), so with
  /// causal attention counted half; others count it in full. None if layers have stated times.
  std::optional<double> mfu;
  /// usd_per_million_samples() at rent_usd_per_hour(), by the moment: what providers bill at least and round up is left out, which a
  /// training of hours does not notice. None if a price is unknown.
  std::optional<double> usd_per_million_samples;
};

Efficiency efficiency_of(const Scenario& scenario, const Summary& summary);

}  // namespace rehearse
