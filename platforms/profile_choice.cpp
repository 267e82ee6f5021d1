#include "platforms/profile_choice.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "sim/base/names.hpp"

namespace rehearse {

namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// To the nearest GPU that the profile was fitted on; infinity if the catalogs know none of them.
double distance(const Accelerator& gpu, const Profile& profile, const Catalog& catalog) {
  const std::vector<std::string> known = catalog.accelerator_names();
  const Json nobody;
  double least = std::numeric_limits<double>::infinity();
  for (const std::string& name : profile.fitted_accelerators) {
    if (!contains(known, name)) continue;
    const Accelerator other = read_accelerator(name, catalog.accelerator(name, JsonReader{nobody, name}));
    least = std::min(least, std::abs(std::log(other.peak_fp16 / gpu.peak_fp16)) +
                                std::abs(std::log(other.memory_bandwidth / gpu.memory_bandwidth)));
  }
  return least;
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

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
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
  const std::string strategy = needs.has_servers ? "parameter_server" : "all_reduce";
  for (const std::string& name : catalog.profile_names()) {
    const Profile profile = read_profile(catalog.profile(name, asked_by));
    if (!is_of_training(profile, needs.model)) continue;
    bool has_gpus = true;
    double far = 0;
    std::vector<std::string> gpus;
    for (const Accelerator& gpu : needs.gpus) {
      has_gpus = has_gpus && contains(profile.fitted_accelerators, gpu.name);
      far += distance(gpu, profile, catalog);
      if (!contains(gpus, gpu.name)) gpus.push_back(gpu.name);
    }
    const bool has_strategy = contains(fitted_strategies(profile), strategy);
    const bool has_model = contains(profile.fitted_models, needs.model);
    const double error =
        profile.spread.residual > 0 ? profile.spread.residual : std::numeric_limits<double>::infinity();
    const Rank rank{!has_gpus, !has_strategy, !has_model, has_gpus ? 0 : far, error};
    if (best && best->first <= rank) continue;
    std::vector<std::string> covered, missing;
    (has_gpus ? covered : missing).push_back("GPU " + joined(gpus));
    (has_strategy ? covered : missing).push_back(strategy);
    (has_model ? covered : missing).push_back("model " + in_quotes(needs.model));
    if (!has_gpus) covered.push_back("the nearest GPUs, " + joined(profile.fitted_accelerators));
    std::string reason = "fitted on " + joined(covered);
    if (!missing.empty()) reason += "; not on " + joined(missing);
    best = {rank, {name, reason}};
  }
  if (!best) asked_by.fail("expected a profile's name, since the catalogs have none that was fitted; found \"auto\"");
  return best->second;
}

}  // namespace rehearse
