#pragma once
// A profile from a few runs of one's own: what one GPU takes for a step and what the exchange costs are fitted together. Each
// value has what the profile said before as its prior, so that what the runs do not tell stays as it was.

#include <functional>
#include <string>
#include <vector>

#include "calibration/fit.hpp"
#include "calibration/own_runs.hpp"
#include "calibration/study.hpp"
#include "platforms/catalog.hpp"
#include "sim/base/budget.hpp"
#include "sim/base/json.hpp"
#include "sim/pool/pool.hpp"

namespace rehearse {

/// A value of the profile that was fitted.
struct OwnValue {
  std::string what;            // "step of one V100 with 32 samples", or the pointer into the profile
  std::string before, fitted;  // with their units
  std::string low, high;       // of 95 %
  bool is_told = true;         // the runs say more of it than the profile did
};

struct OwnFit {
  Study study;                 // a row for each run
  std::vector<double> before;  // [rows] by the profile as it was
  Fit fit;
  std::vector<OwnValue> values;
  double variation = 0;  // of steps, as training.step_time_variation
  std::string profile;   // JSON text of its file; unlike Fit's its spread has what rows and priors tell together
};

struct OwnFitOptions {
  std::string name = "own";  // of the profile
  int most_steps = 20;       // of the fit
  Pool pool = 2;
  std::string command;  // provenance
  std::function<void(const std::string& stage, std::size_t done, std::size_t total)> on_simulated = {};
  Budget budget = {};
};

/// Fits the profile of the scenario, JSON as its file has it, to runs of it. Free are the time that one GPU takes for each batch,
/// where the model is on one GPU, how much steps vary from worker to worker, and of what the scenario uses of the profile those
/// values on which the runs depend most. With three sizes or more each is predicted by the others. Throws InputError, NoResultError.
OwnFit fit_own_runs(const Json& scenario, const std::string& file_name, const OwnRuns& runs, const Catalog& catalog,
                    const OwnFitOptions& options);

/// The scenario, on so many GPUs if they are stated, with what was fitted: JSON as a file has it. Throws InputError.
Json own_scenario(const Json& scenario, const std::string& file_name, std::optional<int> gpus, const OwnFit& fit,
                  const Catalog& catalog);

}  // namespace rehearse
