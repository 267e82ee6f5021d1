#pragma once
// How unlike GPUs are, for whoever takes what is not known of one from the nearest.

#include <set>
#include <string>

#include "platforms/catalog.hpp"
#include "platforms/profile.hpp"

namespace rehearse {

/// sqrt(ln(a/b of fp32 peaks)^2 + ln(a/b of fp16 peaks)^2 + ln(a/b of memory bandwidths)^2).
double distance(const Accelerator& a, const Accelerator& b);

/// Distance of a GPU that the catalogs do not know, or of none: beyond all others.
inline constexpr double kFarAway = 1e9;

struct NearestGpu {
  std::string name;  // empty: none
  double distance = 2 * kFarAway;
};

/// Which of `names` is nearest to `gpu`, itself at 0; of equals the first by name.
NearestGpu nearest_gpu(const Accelerator& gpu, const std::set<std::string>& names, const Catalog& catalog);

/// The GPUs that the profile was fitted on, or has step times or an efficiency of.
std::set<std::string> known_gpus(const Profile& profile);

}  // namespace rehearse
