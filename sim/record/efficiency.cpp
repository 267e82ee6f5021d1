#include "sim/record/efficiency.hpp"

#include "sim/record/cost.hpp"
#include "sim/scenario/peak_speed.hpp"

namespace rehearse {

Efficiency efficiency_of(const Scenario& scenario, const Summary& summary) {
  Efficiency efficiency{.gpus = training_gpus(scenario), .tokens_per_s = {}, .mfu = {}, .usd_per_million_samples = {}};
  if (const int tokens = tokens_of_sample(scenario); tokens > 0)
    efficiency.tokens_per_s = summary.samples_per_s * tokens;
  const double peak = peak_flops_per_s(scenario), flops = model_flops_of_sample(scenario);
  if (peak > 0 && flops > 0) efficiency.mfu = summary.samples_per_s * flops / peak;
  efficiency.usd_per_million_samples = usd_per_million_samples(rent_usd_per_hour(scenario), summary.samples_per_s);
  return efficiency;
}

}  // namespace rehearse
