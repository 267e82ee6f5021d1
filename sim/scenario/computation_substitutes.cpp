// Substitutes for what a profile does not say of computation: host, kernels, step times.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "platforms/gpu_distance.hpp"
#include "platforms/kernels/kernels.hpp"
#include "platforms/profile_fields.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/scenario/profile_completion.hpp"
#include "sim/scenario/step_time.hpp"

namespace rehearse {

namespace {

/// GPUs without what kernels depend on are refused. How far steps may be off, says the spread of the profile's fit, the errors
/// of rows that it had not seen; without any, kSpreadOfSteps.
void compute_by_kernels(ProfileCompletion& target) {
  constexpr double kSpreadOfSteps = 0.25;
  const double spread = target.profile().fit_spread.residual;
  for (const Group& group : target.scenario().groups)
    if (group.role == Role::kWorker) (void)kernels::gpu_of(*group.accelerator, group.place);
  target.note(target.own() + " computes kernels from the GPU's data sheet" +
                  target.off_by(spread > 0 ? spread : kSpreadOfSteps),
              spread > 0 ? 0 : kSpreadOfSteps);
}

int batch_of(const Group& group) { return group.batch / group.gpus_per_worker; }

void take_kernels(ProfileCompletion& target) {
  const std::string& model = target.scenario().model.name;
  const ProfileDonor* nearest = nullptr;
  std::tuple<bool, double> best;
  for (const ProfileDonor& donor : target.donors()) {
    const Profile& profile = *donor.profile;
    if (profile.gpu.stated == 0 || profile.host.stated == 0 ||
        (profile.step_times.empty() && profile.gpu.peak_efficiency.empty()))
      continue;
    const bool knows_model = std::ranges::count(profile.step_times, model, &StepTime::model) > 0;
    const std::tuple<bool, double> rank{!knows_model, target.nearest_of(donor.gpus, target.first_gpu())};
    if (nearest != nullptr && rank >= best) continue;
    nearest = &donor;
    best = rank;
  }
  if (nearest == nullptr) return;
  Profile& own = target.profile();
  if (own.host.stated == 0) own.host = nearest->profile->host;
  if (own.gpu.stated == 0) own.gpu = nearest->profile->gpu;
  if (own.step_times.empty()) own.step_times = nearest->profile->step_times;
  target.note(target.own() + " does not state how fast kernels are: as in profile " + in_quotes(nearest->name) + " (" +
                  joined(nearest->gpus) + "), the nearest that does" + target.off_by(kSpreadOfOne),
              kSpreadOfOne);
}

/// Of the GPUs of this profile, or else of another.
void take_efficiency(ProfileCompletion& target, const Accelerator& gpu) {
  GpuParameters& own = target.profile().gpu;
  const std::map<std::string, double>* from = &own.peak_efficiency;
  std::string where;
  if (from->empty())
    for (const ProfileDonor& donor : target.donors())
      if (!donor.profile->gpu.peak_efficiency.empty()) {
        from = &donor.profile->gpu.peak_efficiency;
        where = " in profile " + in_quotes(donor.name);
        break;
      }
  if (from->empty()) return;
  std::string nearest;
  double best = 0;
  std::vector<double> all;
  for (const auto& [name, efficiency] : *from) {
    all.push_back(efficiency);
    const double far = target.distance_to(name, gpu);
    if (!nearest.empty() && far >= best) continue;
    nearest = name;
    best = far;
  }
  const double spread = spread_of(all), value = from->at(nearest);
  own.peak_efficiency[gpu.name] = value;
  target.note(target.own() + " does not state the efficiency of GPU " + gpu.name + ": that of " + nearest + where +
                  ", " + to_text(value) +
                  target.off_by(spread, all.size() > 1 ? ", as efficiencies of GPUs differ there" : ""),
              spread);
}

// Step times

struct Series {
  std::string model, accelerator, precision, framework;
  friend auto operator<=>(const Series&, const Series&) = default;
};

/// How many times longer than modelled the measured step of the series is. None if its model or GPU is not known.
std::optional<double> factor_of(const ProfileCompletion& target, const Group& group, const Series& series) {
  const Scenario& scenario = target.scenario();
  Scenario other = scenario;
  Group on = group;
  on.batch = batch_of(group);
  on.gpus_per_worker = 1;
  try {
    if (series.accelerator != group.accelerator->name) {
      const Accelerator* known = target.catalog().known_accelerator(series.accelerator);
      if (known == nullptr) return {};
      on.accelerator = *known;
      on.interconnect.pcie = on.accelerator->host_link;
    }
    other.framework = series.framework;
    other.precision = precision_named(series.precision);
    other.model.fp8 = Fp8::kNone;
    if (series.model != scenario.model.name)
      other.model = read_model(series.model, target.catalog().model(series.model, target.asked_by()));
    if (series.model != scenario.model.name || other.precision != scenario.precision ||
        scenario.model.fp8 != Fp8::kNone || on.batch != scenario.workload_of(group).batch)
      on.workload = std::make_shared<const Workload>(
          build_workload(other.model, on.batch, other.precision, "step time of " + series.model));
    const auto factor = step_time_factor(other, on);
    if (!factor || *factor >= 1 || on.accelerator->name == group.accelerator->name) return factor;
    // Faster than its peak: by units or algorithms that the peak does not count. From one GPU to another such a step
    // scales with whichever of peak and memory bandwidth differs to its disadvantage.
    const double ratio = std::max(other.peak_of(*on.accelerator) / other.peak_of(*group.accelerator),
                                  on.accelerator->memory_bandwidth / group.accelerator->memory_bandwidth);
    const Seconds there = step_time_with(other, on, *factor);
    on.accelerator = group.accelerator;
    on.interconnect = group.interconnect;
    return std::max(*factor, there * ratio / step_time_with(other, on, 1));
  } catch (const InputError&) { return {}; }
}

/// Keeps those that `is_near`, if there are any.
template <class IsNear>
void keep(std::vector<Series>& series, const IsNear& is_near) {
  std::vector<Series> near;
  std::copy_if(series.begin(), series.end(), std::back_inserter(near), is_near);
  if (!near.empty()) series = std::move(near);
}

std::string rounded(double value) { return to_text(std::round(value * 100) / 100); }

std::string describe(const Series& series) {
  return series.model + " on " + series.accelerator + " in " + series.precision +
         (series.framework.empty() ? "" : " by " + in_quotes(series.framework));
}

bool estimate_step(ProfileCompletion& target, const Group& group) {
  constexpr std::size_t kMostSeries = 12;
  const Scenario& scenario = target.scenario();
  std::set<Series> all;
  for (const StepTime& step : scenario.profile.step_times)
    all.insert({step.model, step.accelerator, step.precision, step.framework});
  std::vector<Series> near{all.begin(), all.end()};
  keep(near, [&](const Series& s) { return s.model == scenario.model.name; });
  double nearest = 2 * kFarAway;
  for (const Series& s : near) nearest = std::min(nearest, target.distance_to(s.accelerator, *group.accelerator));
  keep(near, [&](const Series& s) { return target.distance_to(s.accelerator, *group.accelerator) == nearest; });
  keep(near, [&](const Series& s) { return s.precision == to_text(scenario.precision); });
  keep(near, [&](const Series& s) { return s.framework == scenario.framework; });
  if (near.size() > kMostSeries) near.resize(kMostSeries);
  std::vector<std::pair<double, Series>> factors;
  for (const Series& s : near)
    if (const auto factor = factor_of(target, group, s)) factors.emplace_back(*factor, s);
  if (factors.empty()) return false;
  std::sort(factors.begin(), factors.end());
  const auto& [factor, median] = factors[(factors.size() - 1) / 2];
  std::vector<double> values;
  for (const auto& [value, s] : factors) values.push_back(value);
  double spread = spread_of(values);
  if (median.model != scenario.model.name || median.accelerator != group.accelerator->name)
    spread = std::max(spread, kSpreadOfOne);
  target.profile().step_times.push_back({.model = scenario.model.name,
                                         .accelerator = group.accelerator->name,
                                         .precision = to_text(scenario.precision),
                                         .framework = scenario.framework,
                                         .batch = batch_of(group),
                                         .time = step_time_with(scenario, group, factor),
                                         .is_estimated = true});
  target.note(
      target.own() + " has no step time of " +
          describe({scenario.model.name, group.accelerator->name, to_text(scenario.precision), scenario.framework}) +
          ": " + rounded(factor) + " times the modelled one, as that of " + describe(median) +
          (factors.size() > 1 ? ", the median of " + std::to_string(factors.size()) + " that are as near" : "") +
          target.off_by(spread),
      spread);
  return true;
}

void compute_on(ProfileCompletion& target, const Group& group) {
  const Profile& profile = target.profile();
  if (profile.gpu.stated == 0) return;  // nobody states it
  if (profile.gpu.covers(group.accelerator->name) || step_time_factor(target.scenario(), group)) return;
  if (!profile.step_times.empty() && estimate_step(target, group)) return;
  if (!states(profile.gpu, "default_peak_efficiency")) take_efficiency(target, *group.accelerator);
}

}  // namespace

void complete_computation(ProfileCompletion& target) {
  const Profile& profile = target.profile();
  if (profile.kernels) return compute_by_kernels(target);
  if (profile.gpu.stated == 0 || profile.host.stated == 0) take_kernels(target);
  std::set<std::pair<std::string, int>> done;
  for (const Group& group : target.scenario().groups)
    if (group.role == Role::kWorker && done.insert({group.accelerator->name, batch_of(group)}).second)
      compute_on(target, group);
}

}  // namespace rehearse
