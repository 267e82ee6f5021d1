#pragma once
// "calibration": "auto": which profile predicts a training with the least error.

#include <string>
#include <vector>

#include "platforms/catalog.hpp"
#include "platforms/prediction_kind.hpp"
#include "platforms/profile.hpp"

namespace rehearse {

struct ProfileChoice {
  std::string name;
  std::string reason;               // "data sheet; cluster: other profile: such predictions were off by 12 %"
  std::vector<std::string> others;  // profiles that are expected to do nearly as well, the best first
};

/// "parameter_server" if servers were among what the profile was fitted on; "all_reduce" if it has the values of a
/// collective library, or was fitted to several workers without servers.
std::vector<std::string> fitted_strategies(const Profile& profile);

/// Of the profiles that were fitted, the one with the least expected error: the median of those that predictions of its
/// kind (kind_of()) had, by the catalogs' "prediction_errors", to 0.05; then the nearest kind; of those by data sheets the one that has a
/// recipe for the workload's framework (fitted or not); by the nearest GPUs (platforms/gpu_distance.hpp); of a
/// collective alone, by the rows that it was fitted to; by its own residual error; by name. Profiles of processors come first where the workload's framework is theirs, and are
/// left out everywhere else; so are those by data sheets where a GPU's is not complete, and those without times of
/// checkpoints that are needed, and for a collective alone those that state nothing of collectives, if any does. `others` are expected to be off by at most a quarter more. Throws InputError, at
/// `asked_by`, if there is none.
ProfileChoice choose_profile(const TrainingFacts& facts, const Catalog& catalog, const JsonReader& asked_by);

}  // namespace rehearse
