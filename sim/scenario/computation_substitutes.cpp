// Substitutes for what a profile does not say of computation: host, kernels, step times.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "platforms/gpu_distance.hpp"
#include "platforms/kernels/kernels.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/scenario/profile_completion.hpp"
#include "sim/scenario/step_time.hpp"

namespace rehearse {

namespace {

using nlohmann::literals::operator""_json_pointer;

class ComputationCompletion {
 public:
  explicit ComputationCompletion(ProfileCompletion& target)
      : target_{target}, scenario_{target.scenario()}, profile_{target.profile()}, catalog_{target.catalog()} {}

  void compute() {
    if (profile_.contains("kernels")) return compute_by_kernels();
    if (!profile_.contains("gpu") || !profile_.contains("host")) take_kernels();
    std::set<std::pair<std::string, int>> done;
    for (const Group& group : scenario_.groups)
      if (group.role == Role::kWorker && done.insert({group.accelerator->name, batch_of(group)}).second)
        compute_on(group);
  }

 private:
  /// GPUs without what kernels depend on are refused. How far steps may be off, says the spread of the profile's fit, the errors
  /// of rows that it had not seen; without any, kSpreadOfSteps.
  void compute_by_kernels() {
    constexpr double kSpreadOfSteps = 0.25;
    const auto place = "/fit/spread/residual"_json_pointer;
    const double spread = profile_.contains(place) ? profile_[place].get<double>() : 0;
    for (const Group& group : scenario_.groups)
      if (group.role == Role::kWorker) (void)kernels::gpu_of(*group.accelerator, group.place);
    target_.note(target_.own() + " computes kernels from the GPU's data sheet" +
                     target_.off_by(spread > 0 ? spread : kSpreadOfSteps),
                 spread > 0 ? 0 : kSpreadOfSteps);
  }

  static int batch_of(const Group& group) { return group.batch / group.gpus_per_worker; }

  void take_kernels() {
    const ProfileDonor* nearest = nullptr;
    std::tuple<bool, double> best;
    for (const ProfileDonor& donor : target_.donors()) {
      const Json& profile = *donor.profile;
      const bool has_step_times = profile.contains("step_times") && !profile["step_times"].empty();
      if (!profile.contains("gpu") || !profile.contains("host") ||
          (!has_step_times && profile["gpu"]["peak_efficiency"].empty()))
        continue;
      bool knows_model = false;
      if (has_step_times)
        for (const Json& step : profile["step_times"]) knows_model |= step["model"] == scenario_.model.name;
      const std::tuple<bool, double> rank{!knows_model, target_.nearest_of(donor.gpus, target_.first_gpu())};
      if (nearest != nullptr && rank >= best) continue;
      nearest = &donor;
      best = rank;
    }
    if (nearest == nullptr) return;
    const Json& profile = *nearest->profile;
    for (const char* section : {"host", "gpu"})
      if (!profile_.contains(section)) profile_[section] = profile[section];
    if (profile.contains("step_times") && !profile_.contains("step_times"))
      profile_["step_times"] = profile["step_times"];
    target_.note(target_.own() + " does not state how fast kernels are: as in profile " + in_quotes(nearest->name) +
                     " (" + joined(nearest->gpus) + "), the nearest that does" + target_.off_by(kSpreadOfOne),
                 kSpreadOfOne);
  }

  /// The scenario with the profile as it is by now.
  Scenario with_profile() const {
    Scenario scenario = scenario_;
    scenario.profile = read_profile(JsonReader{profile_, target_.asked_by().file_name()});
    return scenario;
  }

  void compute_on(const Group& group) {
    if (!profile_.contains("gpu")) return;  // nobody states it
    if (profile_["gpu"]["peak_efficiency"].contains(group.accelerator->name)) return;
    if (!profile_.contains("substitutes") && step_time_factor(scenario_, group)) return;
    const Scenario scenario = with_profile();
    if (step_time_factor(scenario, group)) return;
    if (!scenario.profile.step_times.empty() && estimate_step(scenario, group)) return;
    if (!profile_["gpu"].contains("default_peak_efficiency")) take_efficiency(*group.accelerator);
  }

  /// Of the GPUs of this profile, or else of another.
  void take_efficiency(const Accelerator& gpu) {
    const Json* from = &profile_["gpu"]["peak_efficiency"];
    std::string where;
    if (from->empty())
      for (const ProfileDonor& donor : target_.donors())
        if (donor.profile->contains("gpu") && !(*donor.profile)["gpu"]["peak_efficiency"].empty()) {
          from = &(*donor.profile)["gpu"]["peak_efficiency"];
          where = " in profile " + in_quotes(donor.name);
          break;
        }
    if (from->empty()) return;
    std::string nearest;
    double best = 0;
    std::vector<double> all;
    for (const auto& [name, efficiency] : from->items()) {
      all.push_back(efficiency.get<double>());
      const double far = target_.distance_to(name, gpu);
      if (!nearest.empty() && far >= best) continue;
      nearest = name;
      best = far;
    }
    const double spread = spread_of(all);
    const Json value = (*from)[nearest];
    profile_["gpu"]["peak_efficiency"][gpu.name] = value;
    target_.note(target_.own() + " does not state the efficiency of GPU " + gpu.name + ": that of " + nearest + where +
                     ", " + to_text(value.get<double>()) +
                     target_.off_by(spread, all.size() > 1 ? ", as efficiencies of GPUs differ there" : ""),
                 spread);
  }

  // Step times

  struct Series {
    std::string model, accelerator, precision, framework;
    friend auto operator<=>(const Series&, const Series&) = default;
  };

  /// How many times longer than modelled the measured step of the series is. None if its model or GPU is not known.
  std::optional<double> factor_of(const Scenario& scenario, const Group& group, const Series& series) {
    Scenario other = scenario;
    Group on = group;
    on.batch = batch_of(group);
    on.gpus_per_worker = 1;
    try {
      if (series.accelerator != group.accelerator->name) {
        const Accelerator* known = catalog_.known_accelerator(series.accelerator);
        if (known == nullptr) return {};
        on.accelerator = *known;
        on.interconnect.pcie = on.accelerator->host_link;
      }
      other.framework = series.framework;
      other.precision = precision_named(series.precision);
      other.model.fp8 = Fp8::kNone;
      if (series.model != scenario.model.name)
        other.model = read_model(series.model, catalog_.model(series.model, target_.asked_by()));
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
  static void keep(std::vector<Series>& series, const IsNear& is_near) {
    std::vector<Series> near;
    std::copy_if(series.begin(), series.end(), std::back_inserter(near), is_near);
    if (!near.empty()) series = std::move(near);
  }

  bool estimate_step(const Scenario& scenario, const Group& group) {
    constexpr std::size_t kMostSeries = 12;
    std::set<Series> all;
    for (const StepTime& step : scenario.profile.step_times)
      all.insert({step.model, step.accelerator, step.precision, step.framework});
    std::vector<Series> near{all.begin(), all.end()};
    keep(near, [&](const Series& s) { return s.model == scenario.model.name; });
    double nearest = 2 * kFarAway;
    for (const Series& s : near) nearest = std::min(nearest, target_.distance_to(s.accelerator, *group.accelerator));
    keep(near, [&](const Series& s) { return target_.distance_to(s.accelerator, *group.accelerator) == nearest; });
    keep(near, [&](const Series& s) { return s.precision == to_text(scenario.precision); });
    keep(near, [&](const Series& s) { return s.framework == scenario.framework; });
    if (near.size() > kMostSeries) near.resize(kMostSeries);
    std::vector<std::pair<double, Series>> factors;
    for (const Series& s : near)
      if (const auto factor = factor_of(scenario, group, s)) factors.emplace_back(*factor, s);
    if (factors.empty()) return false;
    std::sort(factors.begin(), factors.end());
    const auto& [factor, median] = factors[(factors.size() - 1) / 2];
    std::vector<double> values;
    for (const auto& [value, s] : factors) values.push_back(value);
    double spread = spread_of(values);
    if (median.model != scenario.model.name || median.accelerator != group.accelerator->name)
      spread = std::max(spread, kSpreadOfOne);
    Json step{{"model", scenario.model.name},
              {"accelerator", group.accelerator->name},
              {"precision", to_text(scenario.precision)}};
    if (!scenario.framework.empty()) step["framework"] = scenario.framework;
    step["batch"] = batch_of(group);
    step["time"] = to_text(step_time_with(scenario, group, factor));
    step["is_estimated"] = true;
    profile_["step_times"].push_back(step);
    target_.note(
        target_.own() + " has no step time of " +
            describe({scenario.model.name, group.accelerator->name, to_text(scenario.precision), scenario.framework}) +
            ": " + rounded(factor) + " times the modelled one, as that of " + describe(median) +
            (factors.size() > 1 ? ", the median of " + std::to_string(factors.size()) + " that are as near" : "") +
            target_.off_by(spread),
        spread);
    return true;
  }

  static std::string rounded(double value) { return to_text(std::round(value * 100) / 100); }

  static std::string describe(const Series& series) {
    return series.model + " on " + series.accelerator + " in " + series.precision +
           (series.framework.empty() ? "" : " by " + in_quotes(series.framework));
  }
  ProfileCompletion& target_;
  const Scenario& scenario_;
  Json& profile_;
  const Catalog& catalog_;
};

}  // namespace

void complete_computation(ProfileCompletion& target) { ComputationCompletion{target}.compute(); }

}  // namespace rehearse
