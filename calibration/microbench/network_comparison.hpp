#pragma once
// Steps of networks whose kernels were not measured, predicted from those that were.

#include <vector>

#include "calibration/microbench/network_steps.hpp"
#include "platforms/catalog.hpp"
#include "platforms/kernels/kernels.hpp"
#include "sim/base/json.hpp"

namespace rehearse::microbench {

/// One step of the scenario, which has one worker: its iteration, simulated, what its operators take, and what is kept for its
/// backward pass. Throws InputError.
struct PredictedStep {
  double time = 0;      // s
  double kept = 0;      // bytes
  std::string kernels;  // a table: operator, kernel, time_s
};
PredictedStep predicted_step(const Json& scenario, const std::string& name, const Catalog& catalog);

/// Every kernel of a step of the model, on a processor. `place` names the model in errors.
std::vector<kernels::Kernel> kernels_of_step(const Json& model, const std::string& name, int batch);

/// Median of |predicted / measured - 1| in percent.
double median_error(const std::vector<double>& predicted, const std::vector<double>& measured);

}  // namespace rehearse::microbench
