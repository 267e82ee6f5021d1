#pragma once
// "calibration": "auto": which profile covers a training best.

#include <string>
#include <vector>

#include "platforms/catalog.hpp"
#include "platforms/profile.hpp"

namespace rehearse {

/// What a training needs of a profile.
struct CalibrationNeeds {
  std::vector<Accelerator> gpus;  // of the workers
  std::string model;              // name
  bool has_servers = false;       // otherwise all-reduce
  bool computes = true;           // steps are computed from operators, not stated by the model or recorded
};

struct ProfileChoice {
  std::string name;
  std::string reason;  // "fitted on GPU V100, model "resnet50" and all_reduce"
};

/// "parameter_server" if servers were among what the profile was fitted on; "all_reduce" if it has the values of a
/// collective library, or was fitted to several workers without servers.
std::vector<std::string> fitted_strategies(const Profile& profile);

/// The profile that computes steps from data sheets (Profile::kernels), if there is one, the data sheets of all GPUs are
/// complete, and no profile was fitted on these GPUs with this model. Otherwise the profile, of those that were fitted
/// to training, that covers most of: every GPU, the strategy, the model, in this order; then the one that knows the nearest GPUs (platforms/gpu_distance.hpp); then the one with the least
/// residual error, then by name. What the choice does not cover is in the reason. Throws InputError, at `asked_by`, if
/// the catalogs have no fitted profile.
ProfileChoice choose_profile(const CalibrationNeeds& needs, const Catalog& catalog, const JsonReader& asked_by);

}  // namespace rehearse
