#include "sim/plan/remedy_trial.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "calibration/parameter_uncertainty.hpp"
#include "calibration/predicted_computation.hpp"
#include "sim/base/errors.hpp"
#include "sim/plan/slowdown.hpp"
#include "sim/record/cost.hpp"
#include "sim/scenario/step_time.hpp"

namespace rehearse {

namespace {

constexpr double kWorthwhile = 0.01;
constexpr double kTwiceAsFast = 0.5;  // strength of a mechanism

std::string in_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// Whether speeds of two scenarios whose steps come from `before` and `after` may be compared as they are.
bool is_comparable(const Scenario& before, const Scenario& after) {
  const std::string source = step_sources(before);
  if (source != step_sources(after)) return false;
  return before.precision == after.precision || before.profile.kernels || source == "measured";
}

/// The scenario with its steps computed from data sheets, as far as they can be.
std::optional<Json> computed_by_kernels(Json effective, const Catalog& catalog, const std::string& file_name) {
  Json profile = effective["calibration"];
  profile.erase("substitutes");
  effective["calibration"] = with_computation_by_kernels(std::move(profile), catalog, file_name);
  if (!effective["workload"].contains("copies_input")) effective["workload"]["copies_input"] = false;
  try {
    const Scenario scenario = read_scenario(effective, file_name, catalog);
    return step_sources(scenario) == "computed" ? std::optional{std::move(effective)} : std::nullopt;
  } catch (const InputError&) {  // such as durations in the layers' place
  } catch (const NoResultError&) {}
  return {};
}

/// A remedy may be a training of which nobody knows how far it comes in so many steps.
Json without_target(Json effective) {
  effective["training"].erase("target");
  return effective;
}

}  // namespace

ClusterSpeed read_speed(const PooledRun& run) {
  const Json summary = run.json();
  return {.steps_per_s = summary["steps_per_s"].get<double>(),
          .samples_per_s = summary["samples_per_s"].get<double>(),
          .iteration_time_s = summary["iteration_time_s"].get<double>(),
          .usd_per_hour = {},
          .bottleneck = summary["bottleneck"].get<std::string>(),
          .bottleneck_resource = summary["bottleneck_resource"].get<std::string>(),
          .step_source = summary["step_source"].get<std::string>(),
          .step_parts = summary["step_parts"]};
}

RemedyTrial::RemedyTrial(const Scenario& scenario, const Catalog& catalog)
    : scenario_{scenario},
      catalog_{catalog},
      effective_(without_target(*scenario.effective)),  // braces would make an array of it
      variants_{list_remedies(scenario, effective_, catalog)},
      scenarios_(1, effective_) {
  for (const Variant& variant : variants_) scenarios_.push_back(variant.scenario);
  std::optional<std::size_t> own_by_kernels;
  for (const Variant& variant : variants_) comparisons_.push_back(comparison_of(variant.scenario, own_by_kernels));
}

/// Appends what it compares to scenarios_; `own_by_kernels` is the place there of the run itself, once it has one.
RemedyTrial::Comparison RemedyTrial::comparison_of(const Json& remedy, std::optional<std::size_t>& own_by_kernels) {
  Comparison comparison;
  try {
    const Scenario after = read_scenario(remedy, scenario_.file_name, catalog_);
    if (is_comparable(scenario_, after)) return comparison;
    comparison.is_needed = true;
    comparison.interval = after.profile.uncertainty.interval(0);
  } catch (const InputError&) {
    return comparison;  // its own job says why
  } catch (const NoResultError&) { return comparison; }
  const auto by_kernels = computed_by_kernels(remedy, catalog_, scenario_.file_name);
  if (by_kernels && !own_by_kernels)
    if (auto own = computed_by_kernels(effective_, catalog_, scenario_.file_name)) {
      own_by_kernels = scenarios_.size();
      scenarios_.push_back(std::move(*own));
    }
  if (!by_kernels || !own_by_kernels) return comparison;
  comparison.by_kernels = {*own_by_kernels, scenarios_.size()};
  comparison.interval = read_scenario(*by_kernels, scenario_.file_name, catalog_).profile.uncertainty.interval(0);
  scenarios_.push_back(*by_kernels);
  return comparison;
}

PoolJob RemedyTrial::job(std::size_t place) const {
  Scenario cluster = read_scenario(scenarios_[place], scenario_.file_name, catalog_);
  const bool is_variant = place >= 1 && place <= variants_.size();
  if (!is_variant || variants_[place - 1].mechanism.empty()) return brief_job(kSimulate, std::move(cluster));
  return brief_job(kSimulateWorse, std::move(cluster),
                   {{"mechanism", variants_[place - 1].mechanism}, {"strength", kTwiceAsFast}, {"step_s", 0}});
}

/// What a remedy came to; none if it gains too little. Where its steps come from elsewhere than those of the run
/// `before`, it gains what it does if both are computed in the same way.
std::optional<Remedy> RemedyTrial::judged(std::size_t i, const std::vector<PooledRun>& runs,
                                          const ClusterSpeed& before) const {
  const Comparison& comparison = comparisons_[i];
  const PooledRun& run = runs[1 + i];
  Remedy remedy = variants_[i].remedy;
  if (!run.has_succeeded) {
    remedy.error = in_one_line(run.text);
    return remedy;
  }
  remedy.result = read_speed(run);
  if (comparison.is_needed) {
    const auto places = comparison.by_kernels;
    const bool by_kernels = places && runs[places->first].has_succeeded && runs[places->second].has_succeeded;
    remedy.note = "steps of the run are " + before.step_source + ", those of this remedy " + remedy.result->step_source;
    if (before.step_source == remedy.result->step_source) remedy.note += " at another precision";
    if (by_kernels) {
      const ClusterSpeed from = read_speed(runs[places->first]), to = read_speed(runs[places->second]);
      remedy.result->samples_per_s = before.samples_per_s * (to.samples_per_s / from.samples_per_s);
      remedy.result->steps_per_s = before.steps_per_s * (to.steps_per_s / from.steps_per_s);
      remedy.result->iteration_time_s = before.iteration_time_s * (to.iteration_time_s / from.iteration_time_s);
      remedy.result->bottleneck = to.bottleneck;
      remedy.result->bottleneck_resource = to.bottleneck_resource;
      remedy.result->step_parts = to.step_parts;
      remedy.note += ": the gain is that of both computed from data sheets";
    } else {
      remedy.note += ": the gain compares different sources";
    }
  }
  remedy.result->usd_per_hour = rent_usd_per_hour(read_scenario(variants_[i].scenario, scenario_.file_name, catalog_));
  const double ratio = remedy.result->samples_per_s / before.samples_per_s;
  remedy.simulated_gain = ratio - 1;
  if (comparison.is_needed)
    remedy.gain_interval = {ratio * comparison.interval.first - 1, ratio * comparison.interval.second - 1};
  const auto cost = before.usd_per_million_samples(), own = remedy.result->usd_per_million_samples();
  if (own && cost && *cost > 0) remedy.cost_change = *own / *cost - 1;
  if (*remedy.simulated_gain < kWorthwhile) return {};
  return remedy;
}

std::optional<TriedRemedies> RemedyTrial::run(const RunExperiment& run_experiment) const {
  const auto all = run_experiment({scenarios_.size(), [&](std::size_t place) { return job(place); }});
  if (!all) return std::nullopt;
  const std::vector<PooledRun>& runs = *all;
  if (!runs[0].has_succeeded) throw NoResultError{runs[0].error_in(scenario_.file_name)};
  TriedRemedies tried{.run = read_speed(runs[0]), .remedies = {}};
  tried.run.usd_per_hour = rent_usd_per_hour(scenario_);
  for (std::size_t i = 0; i < variants_.size(); ++i)
    if (auto remedy = judged(i, runs, tried.run)) tried.remedies.push_back(std::move(*remedy));
  std::ranges::stable_sort(tried.remedies, std::ranges::greater{},
                           [](const Remedy& remedy) { return remedy.simulated_gain.value_or(-1); });
  return tried;
}

}  // namespace rehearse
