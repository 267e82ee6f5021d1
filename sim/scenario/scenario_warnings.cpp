#include "sim/scenario/scenario_warnings.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <variant>

#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/base/utc_time.hpp"
#include "sim/scenario/server_range.hpp"

namespace rehearse {

namespace {

/// Those of standby groups come only for others.
int workers_without_standby(const Scenario& scenario) {
  int sum = 0;
  for (const Group& group : scenario.groups)
    if (!group.is_standby) sum += group.workers();
  return sum;
}

void warn_about_spot(Scenario& scenario) {
  for (const Group& group : scenario.groups)
    if (group.market == Market::kSpot && group.colocated_with < 0 && !group.pool && !group.replay)
      scenario.warnings.push_back("group " + in_quotes(group.name) +
                                  " is on the spot market without a \"spot_pool\": its price applies, but none of "
                                  "its machines is revoked");
}

void warn_about_pools(Scenario& scenario, const PoolOrigins& pool_origins, bool has_start) {
  for (const auto& [g, origin] : pool_origins) {
    const Group& group = scenario.groups[g];
    const std::string difference = describe_difference(
        origin, group.accelerator ? group.accelerator->name : "", group.zone,
        has_start ? std::optional{utc_text(scenario.start_utc.value()).substr(0, 10)} : std::nullopt);
    if (!difference.empty())
      scenario.warnings.push_back("spot pool " + in_quotes(group.pool->name) + " of group " + in_quotes(group.name) +
                                  " was fitted elsewhere: used for " + difference +
                                  "; Kolmogorov-Smirnov distances between lifetimes of zones are 0.1 to 0.7");
  }
}

void warn_about_steady_state(Scenario& scenario) {
  if (has_steady_state(scenario)) return;
  const Training& training = scenario.training;
  scenario.warnings.push_back(std::to_string(training.steps) + " steps are too few for a steady state of " +
                              std::to_string(scenario.count(Role::kWorker)) + " workers with " +
                              std::to_string(training.warmup_steps) +
                              " warm-up steps each: speeds are means over the whole run");
}

/// Times of layers do not change with the GPU.
void warn_about_measured_gpu(Scenario& scenario) {
  const auto* timed = std::get_if<TimedLayers>(&scenario.model.structure);
  if (timed == nullptr || timed->gpu.empty()) return;
  std::set<std::string> named;
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker && group.accelerator && group.accelerator->name != timed->gpu &&
        named.insert(group.accelerator->name).second)
      scenario.warnings.push_back("the times of model " + in_quotes(scenario.model.name) + " are those of GPU " +
                                  shortened(timed->gpu) + ": they count as they are on " + group.accelerator->name);
}

void warn_about_range(Scenario& scenario) {
  const Profile& profile = scenario.profile;
  if (profile.fitted_models.empty() || profile.kernels) return;  // kernels are for what has not been fitted
  const auto warn = [&](const std::string& what) {
    scenario.warnings.push_back("outside of what profile " + in_quotes(profile.name) + " was fitted on: " + what);
  };
  const auto contains = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const bool is_modelled = !scenario.workload.is_whole_step;  // otherwise nothing of GPUs and hosts is the profile's
  std::set<std::string> named;
  for (const Group& group : scenario.groups)
    if (is_modelled && group.accelerator && !contains(profile.fitted_accelerators, group.accelerator->name) &&
        named.insert(group.accelerator->name).second)
      warn("GPU " + group.accelerator->name + " (fitted: " + joined(profile.fitted_accelerators) + ")");
  if (is_modelled && !contains(profile.fitted_models, scenario.model.name))
    warn("model " + in_quotes(scenario.model.name));
  std::set<int> batches;
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker) batches.insert(group.batch);
  for (const int batch : batches)
    if (is_modelled && (batch < profile.fitted_batch_min || batch > profile.fitted_batch_max))
      warn("batch " + std::to_string(batch) + " (fitted: " + std::to_string(profile.fitted_batch_min) + " to " +
           std::to_string(profile.fitted_batch_max) + ")");
  if (const int workers = workers_without_standby(scenario); workers > profile.fitted_workers_max)
    warn(std::to_string(workers) + " workers (fitted: up to " + std::to_string(profile.fitted_workers_max) + ")");
  if (scenario.count(Role::kParameterServer) > profile.fitted_servers_max)
    warn(std::to_string(scenario.count(Role::kParameterServer)) + " parameter servers (fitted: up to " +
         std::to_string(profile.fitted_servers_max) + ")");
}

void widen_beyond_servers(Scenario& scenario) {
  const std::vector<Substitute> beyond = beyond_fitted_servers(scenario);
  scenario.profile.uncertainty.widen(beyond);
  for (const Substitute& each : beyond) scenario.warnings.push_back(each.text);
}

/// Links between machines that the catalog does not describe: what crosses them goes over NICs here.
void warn_about_links(Scenario& scenario) {
  std::set<std::string> named;
  for (const Group& group : scenario.groups)
    if (const std::string& left_out = group.interconnect.leaves_out;
        group.role == Role::kWorker && scenario.count(Role::kWorker) > group.workers_per_machine() &&
        !left_out.empty() && named.insert(left_out).second)
      scenario.warnings.push_back("interconnect " + in_quotes(group.interconnect.name) + " leaves out " + left_out +
                                  ": what goes between machines takes their NICs");
}

/// b_w is a mean of the groups' batches.
void warn_about_convergence(Scenario& scenario) {
  if (!scenario.training.target || !scenario.training.target->loss) return;
  const Convergence& model = *scenario.convergence;
  const auto warn = [&](const std::string& what) {
    scenario.warnings.push_back("outside of what the convergence model was fitted on: " + what);
  };
  std::set<int> named;
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker &&
        (group.batch < model.weighted_batch.first || group.batch > model.weighted_batch.second) &&
        named.insert(group.batch).second)
      warn("batch " + std::to_string(group.batch) + " (fitted: " + to_text(model.weighted_batch.first) + " to " +
           to_text(model.weighted_batch.second) + ")");
  const int workers = workers_without_standby(scenario);
  if (workers < model.workers.first || workers > model.workers.second)
    warn(std::to_string(workers) + " workers (fitted: " + std::to_string(model.workers.first) + " to " +
         std::to_string(model.workers.second) + ")");
}

}  // namespace

void warn_about(Scenario& scenario, const PoolOrigins& pool_origins, bool has_start) {
  warn_about_spot(scenario);
  warn_about_pools(scenario, pool_origins, has_start);
  warn_about_steady_state(scenario);
  warn_about_measured_gpu(scenario);
  warn_about_range(scenario);
  widen_beyond_servers(scenario);
  warn_about_links(scenario);
  warn_about_convergence(scenario);
}

}  // namespace rehearse
