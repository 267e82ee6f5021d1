#include "platforms/profile_choice.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "platforms/gpu_distance.hpp"
#include "platforms/kernels/gpu.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Whether the profile was fitted to steps of training, rather than to collectives, checkpoints or start-ups alone.
bool is_of_training(const Profile& profile, const std::string& model) {
  if (profile.fitted_models.empty()) return false;
  if (profile.fitted_models == std::vector<std::string>{"collective"}) return model == "collective";
  const std::vector<std::string>& values = profile.free_parameters;
  return values.empty() || std::any_of(values.begin(), values.end(), [](const std::string& pointer) {
           return !pointer.starts_with("/checkpoint") && !pointer.starts_with("/startup");
         });
}

/// Each once.
std::vector<std::string> names_of(const std::vector<Accelerator>& gpus) {
  std::vector<std::string> names;
  for (const Accelerator& gpu : gpus)
    if (!contains(names, gpu.name)) names.push_back(gpu.name);
  return names;
}

/// "GPU A100 (distance 0.93 by ln of peaks and memory bandwidth)".
std::string describe(const NearestGpu& gpu) {
  std::array<char, 80> far{};
  std::snprintf(far.data(), far.size(), " (distance %.2f by ln of peaks and memory bandwidth)", gpu.distance);
  return "GPU " + gpu.name + far.data();
}

}  // namespace

std::vector<std::string> fitted_strategies(const Profile& profile) {
  std::vector<std::string> names;
  if (profile.fitted_models.empty()) return names;
  if (profile.fitted_servers_max > 0) names.emplace_back("parameter_server");
  const bool has_library =
      !profile.collectives.otherwise.protocols.empty() || !profile.collectives.by_interconnect.empty();
  if (has_library || (profile.fitted_servers_max == 0 && profile.fitted_workers_max > 1))
    names.emplace_back("all_reduce");
  return names;
}

ProfileChoice choose_profile(const CalibrationNeeds& needs, const Catalog& catalog, const JsonReader& asked_by) {
  using Rank = std::tuple<bool, bool, bool, double, double>;  // the smallest is the best
  std::optional<std::pair<Rank, ProfileChoice>> best;
  std::string of_kernels;
  const std::vector<std::string> gpus = names_of(needs.gpus);
  const std::string strategy = needs.has_servers ? "parameter_server" : "all_reduce";
  for (const std::string& name : catalog.profile_names()) {
    const Profile profile = read_profile(catalog.profile(name, asked_by));
    if (profile.kernels) {
      of_kernels = name;
      continue;
    }
    if (!is_of_training(profile, needs.model)) continue;
    bool has_gpus = true;
    double far = 0;
    std::vector<std::string> nearest;
    for (const Accelerator& gpu : needs.gpus) {
      has_gpus = has_gpus && contains(profile.fitted_accelerators, gpu.name);
      const NearestGpu known = nearest_gpu(gpu, known_gpus(profile), catalog);
      far = std::max(far, known.distance);
      if (known.distance < kFarAway && !contains(nearest, describe(known))) nearest.push_back(describe(known));
    }
    const bool has_strategy = contains(fitted_strategies(profile), strategy);
    const bool has_model = contains(profile.fitted_models, needs.model);
    const double error =
        profile.uncertainty.residual > 0 ? profile.uncertainty.residual : std::numeric_limits<double>::infinity();
    const Rank rank{!has_gpus, !has_strategy, !has_model, has_gpus ? 0 : far, error};
    if (best && best->first <= rank) continue;
    std::vector<std::string> covered, missing;
    (has_gpus ? covered : missing).push_back("GPU " + joined(gpus));
    (has_strategy ? covered : missing).push_back(strategy);
    (has_model ? covered : missing).push_back("model " + in_quotes(needs.model));
    std::string reason = covered.empty() ? "" : "fitted on " + joined(covered);
    if (!missing.empty()) reason += (reason.empty() ? "not fitted on " : "; not on ") + joined(missing);
    if (!has_gpus && !nearest.empty()) reason += "; the nearest that it knows: " + joined(nearest);
    best = {rank, {name, reason}};
  }
  const bool is_covered = best && !std::get<0>(best->first) && !std::get<2>(best->first);
  if (needs.computes && !is_covered && !of_kernels.empty() && std::ranges::all_of(needs.gpus, kernels::has_data_sheet))
    return {of_kernels, "no profile was fitted with model " + in_quotes(needs.model) + " on GPU " + joined(gpus)};
  if (!best) asked_by.fail("expected a profile's name, since the catalogs have none that was fitted; found \"auto\"");
  return best->second;
}

}  // namespace rehearse
