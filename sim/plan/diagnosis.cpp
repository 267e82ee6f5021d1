#include "sim/plan/diagnosis.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "calibration/parameter_uncertainty.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"
#include "sim/base/named.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/base/statistics.hpp"
#include "sim/plan/remedy_trial.hpp"
#include "sim/plan/slowdown.hpp"
#include "sim/scenario/cluster_variants.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

namespace {

std::string rounded(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

/// The one place that says what a measured speed means; `ratio` is that to the simulated one. `asks_for_one_gpu`: its speed
/// would tell more.
std::string verdict_of(const Diagnosis& diagnosis, double ratio, const std::string& profile, bool asks_for_one_gpu) {
  std::string cause;
  for (const Explanation& explanation : diagnosis.explanations)
    if (explanation.strength) {
      cause = explanation.text;
      break;
    }
  switch (diagnosis.finding) {
    case Finding::kExplained:
      return "the run is as fast as simulated, so what limits it is what limits the simulated run: " +
             diagnosis.simulated.bottleneck;
    case Finding::kUndecided: {
      const auto [low, high] = *diagnosis.interval;
      std::string text = "the run is " + against_simulated(ratio) + ". That lies within the interval of 90 % (" +
                         rounded(low) + " to " + rounded(high) +
                         " steps/s), so the simulation alone cannot tell whether " +
                         (ratio < 1 ? "something slows it" : "profile " + in_quotes(profile) + " is too pessimistic");
      if (!cause.empty()) text += "; if something does, the most plausible single cause is " + cause;
      if (!asks_for_one_gpu) return text;
      return text + ". Measure one GPU alone (--measured 1=SAMPLES_PER_S) to tell computation from exchange";
    }
    case Finding::kSlower: {
      const std::string text =
          "the run is " + against_simulated(ratio) + ": something that is not in the simulation slows it";
      if (!cause.empty()) return text + "; the most plausible single cause is " + cause;
      return text + ", more than any single cause that was tried explains";
    }
    case Finding::kFaster:
      return "the run is " + against_simulated(ratio) + ": profile " + in_quotes(profile) +
             " is too pessimistic for this software or hardware, and so are the parts of the step and the remedies "
             "below; calibrate it with measurements of your own, if the measurement is of this model, batch, precision "
             "and "
             "number of GPUs";
    case Finding::kImplausible:
      return "the run is " + against_simulated(ratio) + ", which is implausible: " +
             (diagnosis.interval ? rounded(ratio / (diagnosis.interval->second / diagnosis.simulated.steps_per_s)) +
                                       " times what the interval of 90 % allows. "
                                 : "") +
             "Measurement and scenario are hardly of the same training: check unit, model, size of a sample, batch, "
             "precision and number of GPUs of both. Parts of the step and remedies below are the scenario's";
  }
  return {};
}

/// For each mechanism the strength at which the simulated speed falls to the measured one. Strengths are most^t, t from
/// 0 to 1; a round of simulations divides the interval of t in which the speed passes the measured one.
class Explanations {
 public:
  Explanations(const Scenario& scenario, const ClusterSpeed& simulated, double ratio, bool knows_computation)
      : scenario_{scenario}, simulated_{simulated}, ratio_{ratio} {
    for (Mechanism& mechanism : list_mechanisms(scenario))
      if (!knows_computation || (mechanism.name != "gpu" && mechanism.name != "host"))
        searches_.push_back({std::move(mechanism), {}});
  }

  static constexpr std::size_t kRounds = 3, kPoints = 4;
  std::size_t most_simulations() const { return kRounds * kPoints * searches_.size(); }

  /// None if it was stopped.
  std::optional<std::vector<Explanation>> find(const RunExperiment& simulate) {
    for (std::size_t round = 0; round < kRounds; ++round) {
      std::vector<std::pair<Search*, double>> points;
      for (Search& search : searches_) {
        if (round > 0 && search.high.ratio > ratio_) continue;  // never slow enough
        for (std::size_t i = 1; i <= kPoints; ++i) {
          const double parts = round == 0 ? kPoints : kPoints + 1;
          points.emplace_back(&search, search.low.t + (search.high.t - search.low.t) * static_cast<double>(i) / parts);
        }
      }
      const auto runs = simulate({points.size(), [&](std::size_t i) {
                                    const auto& [search, t] = points[i];
                                    return brief_job(kSimulateWorse, scenario_,
                                                     {{"mechanism", search->mechanism.name},
                                                      {"strength", search->strength(t)},
                                                      {"step_s", simulated_.iteration_time_s}});
                                  }});
      if (!runs) return {};
      for (Search& search : searches_) {
        std::vector<Point> known;
        for (std::size_t i = 0; i < points.size(); ++i)
          if (points[i].first == &search && (*runs)[i].has_succeeded)
            known.push_back({points[i].second, read_speed((*runs)[i]).samples_per_s / simulated_.samples_per_s});
        search.narrow(known, ratio_);
      }
    }
    return explanations();
  }

 private:
  struct Point {
    double t = 0, ratio = 1;  // of the speed without it
  };
  struct Search {
    Mechanism mechanism;
    Point low{}, high{1, 1};

    double strength(double t) const { return std::pow(mechanism.most, t); }
    /// To the first interval at whose end the run is slow enough.
    void narrow(const std::vector<Point>& known, double ratio) {
      for (const Point& point : known) {
        if (point.ratio <= ratio) {
          high = point;
          return;
        }
        low = point;
      }
      if (high.ratio > ratio && !known.empty()) high = known.back();
    }
  };

  std::vector<Explanation> explanations() const {
    std::vector<std::pair<double, Explanation>> ranked;
    const Seconds step{simulated_.iteration_time_s};
    for (const Search& search : searches_) {
      if (search.high.ratio > ratio_) {
        ranked.emplace_back(std::numeric_limits<double>::infinity(),
                            Explanation{search.mechanism.name,
                                        describe(search.mechanism, search.mechanism.most, step),
                                        {},
                                        search.high.ratio / ratio_});
        continue;
      }
      const double share = (search.low.ratio - ratio_) / (search.low.ratio - search.high.ratio);
      const double strength = search.strength(search.low.t + share * (search.high.t - search.low.t));
      ranked.emplace_back(std::log(strength) / std::log(search.mechanism.usual),
                          Explanation{search.mechanism.name, describe(search.mechanism, strength, step), strength, 1});
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Explanation> list;
    for (auto& [distance, explanation] : ranked) list.push_back(std::move(explanation));
    return list;
  }

  const Scenario& scenario_;
  const ClusterSpeed& simulated_;
  double ratio_;
  std::vector<Search> searches_;
};

/// A speed predicted for another precision is that of a run if it is off by no more than this: nine of ten steps from data
/// sheets are off by less than 22 %, half of them by less than 9 % (calibration/README.md).
constexpr double kNearSpeed = 0.15;

/// The training in fp32 in place of 16 bits. None if it is refused, does not fit into memory, or is slower than what
/// was measured.
std::optional<Explanation> in_full_precision(const DiagnosisCase& diagnosis_case, const Scenario& scenario,
                                             const Catalog& catalog, const Diagnosis& diagnosis,
                                             const RunExperiment& simulate) {
  Json changed = diagnosis_case.scenario;
  changed["workload"]["precision"] = "fp32";
  std::optional<std::vector<PooledRun>> runs;
  try {
    const Scenario full = read_scenario(changed, diagnosis_case.file_name, catalog);
    runs = simulate({1, [&](std::size_t) { return brief_job(kSimulate, full); }});
  } catch (const InputError&) { return {}; } catch (const NoResultError&) {  // it does not fit into memory
    return {};
  }
  if (!runs || !runs->front().has_succeeded) return {};
  const double samples_per_s = read_speed(runs->front()).samples_per_s;
  const double speed = samples_per_s / diagnosis.measured_samples_per_s;
  if (speed < 1 - kNearSpeed) return {};
  Explanation explanation{"precision",
                          "computing in fp32 instead of " + std::string{to_text(scenario.precision)} + " (" +
                              rounded(samples_per_s) + " samples/s; --set /workload/precision=fp32)",
                          {},
                          speed};
  if (speed <= 1 + kNearSpeed) explanation.strength = diagnosis.simulated.samples_per_s / samples_per_s;
  return explanation;
}

}  // namespace

bool can_run_on_one_gpu(const Scenario& scenario, const Catalog& catalog) {
  try {
    const Json& effective = *scenario.effective;
    (void)read_scenario(without_exchange(with_gpus(effective, scenario, 1), scenario), scenario.file_name, catalog, {},
                        {.seeks_remedies = false});
    return true;
  } catch (const InputError&) {  // of several groups, or of a model that one GPU cannot have
  } catch (const NoResultError&) {}
  return false;
}

std::string against_simulated(double ratio) {
  return percent_text(std::abs(1 - ratio)) + (ratio < 1 ? " slower" : " faster") + " than simulated";
}

double Measured::ratio_to(const ClusterSpeed& simulated) const {
  switch (unit) {
    case Unit::kStepsPerSecond:
      return value / simulated.steps_per_s;
    case Unit::kSamplesPerSecond:
      return value / simulated.samples_per_s;
    case Unit::kStepTime:
      return simulated.iteration_time_s / value;
  }
  return 0;
}

namespace {

constexpr std::array kMeasuredOptions{Named{"--measured-speed", Measured::Unit::kStepsPerSecond},
                                      Named{"--measured-samples-per-s", Measured::Unit::kSamplesPerSecond},
                                      Named{"--measured-step-time", Measured::Unit::kStepTime}};

/// One machine of a group of workers, with the servers.
struct MachineAlone {
  std::size_t group = 0;
  Json scenario;
};

/// Of each group of workers; none where the model, or what shares its states, is not on one machine.
std::vector<MachineAlone> machines_alone(const Scenario& scenario, const Json& effective, const Catalog& catalog) {
  std::vector<MachineAlone> machines;
  for (std::size_t g = 0; g < scenario.groups.size(); ++g) {
    if (scenario.groups[g].role != Role::kWorker) continue;
    Json machine = one_machine_alone(effective, scenario, g);
    machine["training"].erase("target");
    try {
      (void)read_scenario(machine, scenario.file_name, catalog);
    } catch (const InputError&) { return {}; }
    machines.push_back({g, std::move(machine)});
  }
  return machines;
}

/// Diagnosis::by_addition, `runs` being those of the machines.
std::optional<double> speed_by_addition(const Scenario& scenario, const std::vector<MachineAlone>& machines,
                                        const std::vector<PooledRun>& runs) {
  if (machines.empty()) return {};
  const bool is_synchronous = scenario.training.strategy.is_synchronous();
  double sum = 0;
  for (std::size_t i = 0; i < machines.size(); ++i) {
    if (!runs[i].has_succeeded) throw NoResultError{runs[i].error_in(scenario.file_name)};
    const double speed = read_speed(runs[i]).steps_per_s;
    sum = !is_synchronous ? sum + speed * scenario.groups[machines[i].group].count
          : i == 0        ? speed
                          : std::min(sum, speed);
  }
  return sum;
}

/// Measured over simulated speed that the profile's uncertainty explains; none if it states none.
std::optional<std::pair<double, double>> explained_ratios(const Scenario& scenario, const Pool& pool,
                                                          const std::function<bool()>& is_stopped) {
  const PredictionUncertainty& uncertainty = scenario.profile.uncertainty;
  if (!(uncertainty.residual > 0)) return {};
  return uncertainty.interval(
      uncertainty.components.empty() ? 0 : speed_uncertainty(scenario, pool, {}, Budget{{}, is_stopped}));
}

}  // namespace

std::optional<Diagnosis> diagnose(const DiagnosisCase& diagnosis_case, const Catalog& catalog, const Pool& pool,
                                  const std::function<void(std::size_t, std::size_t)>& on_done,
                                  const std::function<bool()>& is_stopped) {
  const auto& [json, file_name, measured, knows_computation] = diagnosis_case;
  constexpr double kMost = 1e12;
  if (!(measured.value >= 1 / kMost && measured.value <= kMost))
    throw InputError{name_in(kMeasuredOptions, measured.unit) + ": expected 1e-12 to 1e12; found " +
                     to_text(measured.value)};
  const Scenario scenario = read_scenario(json, file_name, catalog);
  const RemedyTrial trial{scenario, catalog};
  const std::vector<MachineAlone> machines = machines_alone(scenario, *scenario.effective, catalog);

  std::size_t done = 0, total = trial.simulations() + machines.size();
  const SimulationMeans means{.pool = pool,
                              .on_done =
                                  [&](std::size_t, std::size_t) {
                                    if (on_done) on_done(++done, total);
                                  },
                              .limits = {.is_stopped = is_stopped, .job_wall_s = {}}};
  const RunExperiment simulate_all = [&](const Experiment& experiment) { return experiment.run(means); };
  auto tried = trial.run(simulate_all);
  if (!tried) return std::nullopt;
  const auto alone = [&, &file = file_name](std::size_t i) {
    return brief_job(kSimulate, read_scenario(machines[i].scenario, file, catalog));
  };
  const auto of_machines = simulate_all({machines.size(), alone});
  if (!of_machines) return std::nullopt;

  Diagnosis diagnosis;
  diagnosis.simulated = std::move(tried->run);
  diagnosis.remedies = std::move(tried->remedies);
  const double ratio = measured.ratio_to(diagnosis.simulated);
  diagnosis.measured = diagnosis.simulated.steps_per_s * ratio;
  diagnosis.measured_samples_per_s = diagnosis.simulated.samples_per_s * ratio;
  diagnosis.by_addition = speed_by_addition(scenario, machines, *of_machines);
  diagnosis.is_flagged = diagnosis.by_addition && diagnosis.measured < (1 - kFlaggedShortfall) * *diagnosis.by_addition;
  const auto known = explained_ratios(scenario, pool, is_stopped);
  const auto [low, high] = known.value_or(std::pair{1 - kFlaggedShortfall, 1 + kFlaggedShortfall});
  if (known) diagnosis.interval = {diagnosis.simulated.steps_per_s * low, diagnosis.simulated.steps_per_s * high};
  const bool is_near = std::abs(ratio - 1) <= kFlaggedShortfall;
  diagnosis.finding = ratio < low                         ? Finding::kSlower
                      : ratio > kImplausiblyFaster * high ? Finding::kImplausible
                      : ratio > high                      ? Finding::kFaster
                      : is_near                           ? Finding::kExplained
                                                          : Finding::kUndecided;
  if (ratio < 1 && (diagnosis.finding == Finding::kSlower || diagnosis.finding == Finding::kUndecided)) {
    Explanations search{scenario, diagnosis.simulated, ratio, knows_computation};
    total += search.most_simulations();
    auto explanations = search.find(simulate_all);
    if (!explanations) return std::nullopt;
    diagnosis.explanations = std::move(*explanations);
    if (!knows_computation && is_half(scenario.precision)) {
      ++total;
      auto precision = in_full_precision(diagnosis_case, scenario, catalog, diagnosis, simulate_all);
      if (is_stopped && is_stopped()) return std::nullopt;
      if (precision) {
        const auto place = precision->strength ? diagnosis.explanations.begin() : diagnosis.explanations.end();
        diagnosis.explanations.insert(place, std::move(*precision));
      }
    }
  }
  diagnosis.verdict =
      verdict_of(diagnosis, ratio, scenario.profile.name, !knows_computation && can_run_on_one_gpu(scenario, catalog));
  return diagnosis;
}

Json to_json(const Diagnosis& diagnosis) {
  const auto speed = [&](const ClusterSpeed& cluster) {
    return Json{{"steps_per_s", cluster.steps_per_s},
                {"samples_per_s", cluster.samples_per_s},
                {"iteration_time_s", cluster.iteration_time_s},
                {"usd_per_hour", or_null(cluster.usd_per_hour)},
                {"usd_per_million_samples", or_null(cluster.usd_per_million_samples())},
                {"bottleneck", cluster.bottleneck},
                {"bottleneck_resource", cluster.bottleneck_resource},
                {"step_source", cluster.step_source},
                {"step_parts", cluster.step_parts}};
  };
  Json remedies = Json::array(), explanations = Json::array();
  for (const Remedy& remedy : diagnosis.remedies)
    remedies.push_back({{"change", remedy.change},
                        {"set", remedy.settings},
                        {"result", remedy.result ? speed(*remedy.result) : Json{}},
                        {"gain", or_null(remedy.simulated_gain)},
                        {"gain_low", remedy.gain_interval ? Json(remedy.gain_interval->first) : Json{}},
                        {"gain_high", remedy.gain_interval ? Json(remedy.gain_interval->second) : Json{}},
                        {"note", remedy.note.empty() ? Json{} : Json(remedy.note)},
                        {"time_change", remedy.simulated_gain ? Json(1 / (1 + *remedy.simulated_gain) - 1) : Json{}},
                        {"cost_change", or_null(remedy.cost_change)},
                        {"is_another_training", remedy.kind == RemedyKind::kOtherTraining},
                        {"is_hypothetical", remedy.kind == RemedyKind::kHypothetical},
                        {"error", remedy.error.empty() ? Json{} : Json(remedy.error)}});
  for (const Explanation& explanation : diagnosis.explanations)
    explanations.push_back({{"mechanism", explanation.mechanism},
                            {"text", explanation.text},
                            {"strength", or_null(explanation.strength)},
                            {"explains", explanation.strength.has_value()}});
  constexpr const char* kFindings[] = {"slower", "explained", "undecided", "faster", "implausible"};
  return {{"format", 1},
          {"measured_steps_per_s", diagnosis.measured},
          {"measured_samples_per_s", diagnosis.measured_samples_per_s},
          {"simulated", speed(diagnosis.simulated)},
          {"steps_per_s_low", diagnosis.interval ? Json(diagnosis.interval->first) : Json{}},
          {"steps_per_s_high", diagnosis.interval ? Json(diagnosis.interval->second) : Json{}},
          {"steps_per_s_by_addition", or_null(diagnosis.by_addition)},
          {"is_flagged", diagnosis.is_flagged},
          {"finding", kFindings[static_cast<int>(diagnosis.finding)]},
          {"is_explained", diagnosis.finding == Finding::kExplained},
          {"verdict", diagnosis.verdict},
          {"explanations", std::move(explanations)},
          {"remedies", std::move(remedies)}};
}

}  // namespace rehearse
