#include "calibration/own_fit.hpp"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numbers>
#include <numeric>
#include <set>

#include "calibration/detail/free_values.hpp"
#include "calibration/detail/least_squares.hpp"
#include "calibration/detail/row_simulator.hpp"
#include "calibration/job_log.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/json_origins.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/base/statistics.hpp"
#include "sim/scenario/cluster_variants.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/step_time.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

/// The scenario of a run, with what decides about the step of one of its GPUs.
struct OwnCluster {
  Json json;
  Scenario scenario;

  const Group& workers() const { return scenario.groups[only_workers(scenario)]; }
};

/// `effective` with the run's batch.
void set_batch(Json& effective, const Scenario& scenario, const OwnRun& run) {
  if (!run.batch && !run.batch_per_gpu) return;
  const Group& group = scenario.groups[only_workers(scenario)];
  double batch = run.batch_per_gpu ? *run.batch_per_gpu * group.gpus_per_worker : 0;
  if (run.batch) {
    if (!scenario.training.strategy.kind->is_in_lockstep())
      throw InputError{run.place +
                       ": workers that do not wait for one another have no global_batch: batch_per_gpu says "
                       "what each of them takes"};
    if (scenario.training.strategy.exchange.global_batch > 0) {
      effective["training"]["strategy"]["global_batch"] = static_cast<std::int64_t>(*run.batch);
      return;
    }
    batch = group.batch * *run.batch / samples_per_update(scenario);
  }
  if (batch < 1 || std::abs(batch - std::round(batch)) > 1e-6)
    throw InputError{run.place + ": expected as many samples for each of the " + std::to_string(run.gpus) +
                     " GPUs; found a batch of " + to_text(run.batch ? *run.batch : *run.batch_per_gpu)};
  effective["workload"]["batch_per_worker"] = std::llround(batch);
}

OwnCluster cluster_of(const Json& scenario, const std::string& file_name, const OwnRun& run, const Catalog& catalog) {
  Json json = scenario;
  JsonOrigins origins;
  for (const auto& [pointer, value] : run.settings) origins.set(json, pointer, value, run.place);
  try {
    const Scenario stated = read_scenario(json, file_name, catalog, origins);
    Json effective = with_gpus(*stated.effective, stated, run.gpus);
    if (run.gpus == 1 && stated.count(Role::kParameterServer) == 0)
      effective = without_exchange(std::move(effective), stated);
    set_batch(effective, read_scenario(effective, file_name, catalog), run);
    Scenario read = read_scenario(effective, file_name, catalog);
    if (read.training.starts == Starts::kInAStep) {
      effective["training"]["start_interval"] = "even";
      read = read_scenario(effective, file_name, catalog);
    }
    return {std::move(effective), std::move(read)};
  } catch (const InputError& error) {
    const std::string text = error.what();
    throw InputError{text.starts_with(run.place) ? text : run.place + ": " + text};
  }
}

/// A value that may be fitted: as FreeValue, with what it is called.
struct FreeCandidate {
  std::string pointer, what;
  double prior_factor = 2;
};

/// The step times of the runs' batches, as the profile has them, in place of all that it states.
std::vector<FreeCandidate> state_steps(Json& profile, const std::vector<OwnCluster>& clusters) {
  constexpr double kMeasured = 1.2, kComputed = 1.5;  // by which one GPU may well be slower or faster
  std::vector<FreeCandidate> candidates;
  Json steps = Json::array();
  for (const OwnCluster& cluster : clusters) {
    const Scenario& scenario = cluster.scenario;
    const Group& group = cluster.workers();
    if (!group.accelerator) continue;
    const StepSource source = step_source(scenario, group);
    if (source == StepSource::kStated) continue;
    Json step{{"model", scenario.model.name},
              {"accelerator", group.accelerator->name},
              {"precision", to_text(scenario.precision)},
              {"batch", group.batch / group.gpus_per_worker}};
    if (!scenario.framework.empty()) step["framework"] = scenario.framework;
    const auto is_same = [&](Json other) {
      other.erase("time");
      return other == step;
    };
    if (std::ranges::any_of(steps, is_same)) continue;
    const Seconds time = step_time_with(scenario, group, step_time_factor(scenario, group).value_or(1));
    const std::string samples = std::to_string(group.batch / group.gpus_per_worker);
    candidates.push_back({.pointer = "/step_times/" + std::to_string(steps.size()) + "/time",
                          .what = "step of one " + group.accelerator->name + " with " + samples +
                                  (samples == "1" ? " sample" : " samples"),
                          .prior_factor = source == StepSource::kMeasured ? kMeasured : kComputed});
    step["time"] = to_text(time);
    steps.push_back(std::move(step));
  }
  profile["step_times"] = std::move(steps);
  return candidates;
}

/// What a fit may look for: rates, which are slower if they are less, and times.
constexpr std::array<std::string_view, 6> kFittedRates{"efficiency",      "nic_efficiency", "nvlink_efficiency",
                                                       "pcie_efficiency", "rate",           "copy"};
constexpr std::array<std::string_view, 15> kFittedTimes{"launch",
                                                        "nvlink_step",
                                                        "pcie_step",
                                                        "network_step",
                                                        "time_per_byte",
                                                        "time_per_variable",
                                                        "time_per_split_update",
                                                        "dispatch",
                                                        "step_overhead",
                                                        "kernel_overhead",
                                                        "update_dispatch",
                                                        "composition",
                                                        "mixed_scalars",
                                                        "arithmetic",
                                                        "collective_dispatch"};

std::string_view last_key(std::string_view pointer) { return pointer.substr(pointer.rfind('/') + 1); }

bool is_slower_if_less(std::string_view pointer) {
  return std::ranges::find(kFittedRates, last_key(pointer)) != kFittedRates.end();
}

/// Places of such values below `value`. What a library only takes something to cost (tuner) stays.
void add_values_of(const Json& value, const std::string& pointer, std::vector<FreeCandidate>& candidates) {
  if (value.is_object()) {
    for (const auto& [key, child] : value.items())
      if (key != "tuner") add_values_of(child, extend_json_pointer(pointer, key), candidates);
  } else if (is_slower_if_less(pointer) || std::ranges::find(kFittedTimes, last_key(pointer)) != kFittedTimes.end()) {
    candidates.push_back({.pointer = pointer, .what = pointer});
  }
}

bool is_of_computation(const std::string& pointer) {
  return pointer.starts_with("/host") || pointer.starts_with("/gpu") || pointer.starts_with("/frameworks") ||
         pointer.starts_with("/kernels");
}

/// Steps of each worker vary by so much, and are enough that their mean does not.
void set_variation(Json& scenario, double variation) {
  constexpr std::int64_t kSteps = 60;
  if (variation == 0) return;
  Json& training = scenario["training"];
  training["step_time_variation"] = variation;
  if (training.value("steps", kSteps) < kSteps) training["steps"] = kSteps;
}

/// Whether how much steps vary is looked for: where they do not yet and workers wait for one another, but not where layers or
/// batches are split, as simulating each GPU of these by itself takes long.
bool may_vary(const Scenario& scenario) {
  constexpr std::int64_t kMost = 1024;  // passes of all workers
  std::int64_t passes = 0;
  const WorkerCounts workers = full_cluster(scenario);
  const std::vector<StepShare> shares = step_shares(scenario, workers);
  for (std::size_t g = 0; g < workers.size(); ++g) passes += workers[g] * shares[g].passes;
  return scenario.training.strategy.kind->is_in_lockstep() && scenario.training.step_time_variation == 0 &&
         scenario.count(Role::kWorker) > 1 && workers_of_layer(scenario.model) == 1 && passes <= kMost;
}

class OwnFitter {
 public:
  OwnFitter(const Json& scenario, const std::string& file_name, const OwnRuns& runs, const Catalog& catalog,
            const OwnFitOptions& options)
      : runs_{runs}, catalog_{catalog}, options_{options} {
    if (runs.runs.empty()) throw InputError{"fit: expected a run; found none"};
    std::map<OwnRun::Configuration, std::size_t> known;
    for (const OwnRun& run : runs.runs) {
      options_.budget.check();
      const auto [found, is_new] = known.try_emplace(run.configuration(), clusters_.size());
      if (is_new) clusters_.push_back(cluster_of(scenario, file_name, run, catalog));
      cluster_of_run_.push_back(found->second);
    }
    largest_ = static_cast<std::size_t>(std::ranges::max_element(runs.runs, {}, &OwnRun::gpus) - runs.runs.begin());
    profile_ = cluster(largest_).scenario.effective->at("calibration");
    profile_["name"] = options.name;
    profile_.erase("prediction");
    steps_ = state_steps(profile_, clusters_);
    may_vary_ = may_vary(cluster(largest_).scenario);
    study_ = study_of(file_name);
  }

  OwnFit run() {
    const std::vector<FreeCandidate> chosen = choose();
    for (const FreeCandidate& one : chosen)
      study_.free.push_back({.pointer = one.pointer,
                             .min = {},
                             .max = {},
                             .prior = text_at(one.pointer),
                             .prior_factor = one.prior_factor,
                             .place = "fit: " + one.pointer});
    OwnFit result;
    result.before = simulate("as the profile was", {profile_}, all_rows(), 0).front();
    const Json start = start_of(chosen);
    result.fit = fit_profile(studies_with(variation_), start, "profile " + in_quotes(options_.name), catalog_,
                             {.pool = options_.pool,
                              .most_steps = options_.most_steps,
                              .bootstrap_draws = 0,
                              .command = options_.command,
                              .on_progress = {},
                              .on_simulated = options_.on_simulated,
                              .budget = options_.budget});
    Json fitted = parse_json(result.fit.profile, "the fitted profile");
    const Posterior posterior = posterior_at(fitted, chosen);
    result.values = values_of(fitted, chosen, posterior);
    record(fitted, chosen, posterior, result);
    result.profile = to_json_text(fitted);
    result.variation = variation_;
    result.study = std::move(study_);
    return result;
  }

 private:
  static constexpr double kStep = 0.1;  // of a value's logarithm, for derivatives
  static constexpr double kNormal975 = 1.96;
  static constexpr double kUsualVariation = 0.1;  // a judgement, as the factors of priors
  static constexpr double kFar =
      std::numbers::ln2;  // to see what depends on it at all: exchange may be hidden as it is

  const OwnCluster& cluster(std::size_t run) const { return clusters_[cluster_of_run_[run]]; }

  std::string text_at(const std::string& pointer) const {
    const Json& value = *json_pointer_find(profile_, pointer);
    return value.is_string() ? value.get<std::string>() : value.dump();
  }

  Study study_of(const std::string& file_name) const {
    CsvWriter csv{{"gpus", "samples_per_step", runs_.metric}};
    for (std::size_t i = 0; i < runs_.runs.size(); ++i)
      csv.row({runs_.runs[i].gpus, samples_per_update(cluster(i).scenario), runs_.runs[i].value});
    Study study;
    study.name = options_.name;
    study.file_name = study.scenario_file = file_name;
    study.measurements_file = runs_.file;
    study.profile_name = study.own_profile = options_.name;
    study.table = std::make_shared<const CsvTable>(parse_csv(csv.text(), runs_.file));
    study.target_column = study.metric = runs_.metric;
    study.group_by = {"gpus"};
    study.curve_x = "gpus";
    std::set<int> sizes;
    std::vector<std::string> scenarios;
    for (const OwnCluster& one : clusters_) {
      Json scenario = one.json;
      scenario["calibration"] = profile_;
      scenarios.push_back(to_json_text(scenario));
    }
    for (std::size_t i = 0; i < runs_.runs.size(); ++i) {
      sizes.insert(runs_.runs[i].gpus);
      study.rows.push_back({.row = study.table->row(i),
                            .scenario = scenarios[cluster_of_run_[i]],
                            .use = RowUse::kFitted,
                            .measured = runs_.runs[i].value});
    }
    if (sizes.size() >= 3) study.cross_validate = {"gpus"};
    return study;
  }

  std::vector<std::size_t> all_rows() const {
    std::vector<std::size_t> rows(runs_.runs.size());
    std::iota(rows.begin(), rows.end(), std::size_t{});
    return rows;
  }

  /// The study with steps that vary.
  std::vector<Study> studies_with(double variation) const {
    Study study = study_;
    std::map<std::size_t, std::string> varied;  // by cluster
    for (std::size_t i = 0; variation > 0 && i < study.rows.size(); ++i) {
      std::string& text = varied[cluster_of_run_[i]];
      if (text.empty()) {
        Json scenario = parse_json(study.rows[i].scenario, study.scenario_file);
        set_variation(scenario, variation);
        text = to_json_text(scenario);
      }
      study.rows[i].scenario = text;
    }
    return {std::move(study)};
  }

  std::vector<std::vector<double>> simulate(const std::string& stage, const std::vector<Json>& profiles,
                                            const std::vector<std::size_t>& rows, double variation) {
    const std::vector<Study> studies = studies_with(variation);
    RowSimulator simulator{studies, catalog_, options_.pool,
                           [&](std::size_t done, std::size_t total) {
                             if (options_.on_simulated) options_.on_simulated(stage, done, total);
                           },
                           options_.budget};
    return simulator.simulate(profiles, std::vector(profiles.size(), rows));
  }

  /// `profile` with the value multiplied by e^change; none if it may not hold that.
  static std::optional<Json> moved(const Json& profile, const std::string& pointer, double change) try {
    const FreeValues values{
        profile, "profile", {{.pointer = pointer, .min = {}, .max = {}, .prior = {}, .place = {}}}, [](const Json&) {
          return true;
        }};
    Json moved_profile = values.profile_with(values.start().array() + change);
    (void)read_profile(JsonReader{moved_profile, "profile"});
    return moved_profile;
  } catch (const InputError&) { return std::nullopt; }

  /// What the scenario of the largest run uses of the profile besides step times.
  std::vector<FreeCandidate> other_values() const {
    std::vector<FreeCandidate> values;
    const OwnCluster& largest = cluster(largest_);
    const Json used = parse_json(used_profile(largest.scenario, profile_), "profile");
    for (const char* part : {"network", "servers", "collectives", "host", "gpu", "frameworks"})
      if (used.contains(part)) add_values_of(used[part], std::string{"/"} + part, values);
    if (const auto& gpu = largest.workers().accelerator; gpu && used.contains("kernels"))
      for (const auto& [kind, parameters] : used["kernels"].items()) {
        const std::string pointer = "/kernels/" + kind + "/by_architecture/" + gpu->architecture + "/arithmetic";
        if (json_pointer_find(used, pointer) != nullptr) values.push_back({.pointer = pointer, .what = pointer});
      }
    return values;
  }

  /// Step times, and of the other values those on which the speeds of the largest and the smallest run depend most. A value counts
  /// by what twice the time, or half the rate, changes: what is hidden as it is may be what the runs have shown.
  std::vector<FreeCandidate> choose() {
    constexpr double kLeast = 0.02;        // of a speed's change by that of the value
    constexpr std::size_t kMostOfRow = 2;  // values
    const auto smallest =
        static_cast<std::size_t>(std::ranges::min_element(runs_.runs, {}, &OwnRun::gpus) - runs_.runs.begin());
    std::vector<std::size_t> rows{largest_};
    if (smallest != largest_) rows.push_back(smallest);
    std::vector<FreeCandidate> candidates = steps_;
    const std::vector<FreeCandidate> others = other_values();
    candidates.insert(candidates.end(), others.begin(), others.end());
    std::vector<Json> profiles{profile_};
    std::vector<FreeCandidate> tried;
    for (const FreeCandidate& one : candidates)
      if (auto slower = moved(profile_, one.pointer, is_slower_if_less(one.pointer) ? -kFar : kFar)) {
        tried.push_back(one);
        profiles.push_back(std::move(*slower));
      }
    const auto speeds = simulate("looking for what the runs depend on", profiles, rows, 0);
    const auto sensitivity = [&](std::size_t i, std::size_t r) {
      return std::abs(std::log(speeds[i + 1][r] / speeds[0][r])) / kFar;
    };
    bool has_steps = false;  // all are free then, those of other batches, too
    for (std::size_t i = 0; i < tried.size(); ++i)
      for (std::size_t r = 0; r < rows.size(); ++r)
        has_steps = has_steps || (tried[i].pointer.starts_with("/step_times") && sensitivity(i, r) > kLeast);
    std::vector<FreeCandidate> chosen;
    if (has_steps) chosen = steps_;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::vector<std::pair<double, std::size_t>> order;
      for (std::size_t i = 0; i < tried.size(); ++i)
        if (!tried[i].pointer.starts_with("/step_times") && !(has_steps && is_of_computation(tried[i].pointer)) &&
            sensitivity(i, r) > kLeast)
          order.emplace_back(sensitivity(i, r), i);
      std::ranges::stable_sort(order, std::greater{}, &std::pair<double, std::size_t>::first);
      for (std::size_t k = 0; k < std::min(kMostOfRow, order.size()); ++k)
        if (const FreeCandidate& one = tried[order[k].second];
            std::ranges::find(chosen, one.pointer, &FreeCandidate::pointer) == chosen.end())
          chosen.push_back(one);
    }
    if (chosen.empty())
      throw NoResultError{"the runs depend on no value of the profile that could be fitted: their steps are stated"};
    return chosen;
  }

  /// A profile and a variation of steps that may explain the runs.
  struct Guess {
    Json profile;
    std::map<std::string, double> moved;  // by pointer, the change of the value's logarithm
    double variation = 0;
  };

  /// As Huber's loss over the runs, with priors; what all runs are off alike is left to the fit.
  double loss_of(const Guess& guess, const std::vector<double>& speeds,
                 const std::vector<FreeCandidate>& chosen) const {
    double loss = std::pow(guess.variation / kUsualVariation, 2);
    std::vector<double> off;
    for (std::size_t i = 0; i < speeds.size(); ++i) off.push_back(std::log(speeds[i] / runs_.runs[i].value));
    const double alike = median(off);
    for (const double one : off) {
      const double size = std::abs(one - alike) / kHuber;
      loss += size < 1 ? size * size : 2 * size - 1;
    }
    for (const FreeCandidate& one : chosen)
      if (const auto found = guess.moved.find(one.pointer); found != guess.moved.end())
        loss += std::pow(found->second / std::log(one.prior_factor), 2);
    return loss;
  }

  /// The guess and those that differ from it in a value of the exchange, or in the variation.
  std::vector<Guess> around(const Guess& guess, const std::vector<FreeCandidate>& chosen) const {
    std::vector<Guess> all{guess};
    for (const FreeCandidate& one : chosen) {
      if (one.pointer.starts_with("/step_times") || is_of_computation(one.pointer)) continue;
      for (const double change : {-2 * kFar, -kFar, kFar, 2 * kFar})
        if (auto changed = moved(guess.profile, one.pointer, change)) {
          all.push_back({std::move(*changed), guess.moved, guess.variation});
          all.back().moved[one.pointer] += change;
        }
    }
    if (!may_vary_) return all;
    std::vector<double> variations{0.03, 0.06, 0.12, 0.2};
    if (const double v = guess.variation; v > 0) variations = {0, v / 1.5, v / 1.2, v * 1.2, v * 1.5};
    for (const double variation : variations) all.push_back({guess.profile, guess.moved, variation});
    return all;
  }

  /// Where the fit starts, as it follows derivatives, which an exchange that is hidden does not have: the best of what is found by
  /// moving one value after the other. The variation stays as it is found here.
  Json start_of(const std::vector<FreeCandidate>& chosen) {
    constexpr int kRounds = 4;
    Guess best{.profile = profile_, .moved = {}, .variation = 0};
    for (int round = 0; round < kRounds; ++round) {
      std::vector<Guess> guesses = around(best, chosen);
      std::vector<std::vector<double>> speeds(guesses.size());
      std::map<double, std::vector<std::size_t>> by_variation;
      for (std::size_t g = 0; g < guesses.size(); ++g) by_variation[guesses[g].variation].push_back(g);
      for (const auto& [variation, members] : by_variation) {
        std::vector<Json> profiles;
        for (const std::size_t g : members) profiles.push_back(guesses[g].profile);
        const auto simulated = simulate("looking for a start", profiles, all_rows(), variation);
        for (std::size_t k = 0; k < members.size(); ++k) speeds[members[k]] = simulated[k];
      }
      std::size_t least = 0;
      for (std::size_t g = 1; g < guesses.size(); ++g)
        if (loss_of(guesses[g], speeds[g], chosen) < loss_of(guesses[least], speeds[least], chosen)) least = g;
      if (least == 0) break;
      best = std::move(guesses[least]);
    }
    variation_ = best.variation;
    return best.profile;
  }

  /// What runs and priors say together.
  struct Posterior {
    Eigen::MatrixXd covariance;  // of the logarithms of what was chosen and, last, of the variation
    double noise = 0;            // deviation of the runs from the fit, no less than kNoise
  };

  /// C = (J^T J / noise^2 + diag(1 / ln^2 factor))^-1
  Posterior posterior_at(const Json& profile, const std::vector<FreeCandidate>& chosen) {
    constexpr double kNoise = 0.02, kMoreVariation = 0.02;
    std::vector<Json> profiles{profile};
    for (const FreeCandidate& one : chosen) profiles.push_back(moved(profile, one.pointer, kStep).value_or(profile));
    const auto speeds = simulate("what the runs tell", profiles, all_rows(), variation_);
    const auto rows = static_cast<Eigen::Index>(runs_.runs.size()), count = static_cast<Eigen::Index>(chosen.size());
    const auto change = [&](const std::vector<double>& to, Eigen::Index i) {
      return std::log(to[static_cast<std::size_t>(i)] / speeds[0][static_cast<std::size_t>(i)]);
    };
    Eigen::MatrixXd jacobian = Eigen::MatrixXd::Zero(rows, count + 1);
    double squares = 0;
    for (Eigen::Index i = 0; i < rows; ++i) {
      squares += std::pow(
          std::log(speeds[0][static_cast<std::size_t>(i)] / study_.rows[static_cast<std::size_t>(i)].measured), 2);
      for (Eigen::Index k = 0; k < count; ++k)
        jacobian(i, k) = change(speeds[static_cast<std::size_t>(k) + 1], i) / kStep;
    }
    if (may_vary_) {
      const auto more = simulate("what the runs tell", {profile}, all_rows(), variation_ + kMoreVariation).front();
      for (Eigen::Index i = 0; i < rows; ++i) jacobian(i, count) = change(more, i) / kMoreVariation;
    }
    const double noise = std::max(kNoise, std::sqrt(squares / static_cast<double>(rows)));
    Eigen::MatrixXd precision = jacobian.transpose() * jacobian / (noise * noise);
    for (Eigen::Index k = 0; k < count; ++k)
      precision(k, k) += 1 / std::pow(std::log(chosen[static_cast<std::size_t>(k)].prior_factor), 2);
    precision(count, count) += 1 / (kUsualVariation * kUsualVariation);
    return {precision.llt().solve(Eigen::MatrixXd::Identity(count + 1, count + 1)), noise};
  }

  std::vector<OwnValue> values_of(const Json& profile, const std::vector<FreeCandidate>& chosen,
                                  const Posterior& posterior) const {
    constexpr double kTold = 0.7;  // of what was known before
    const auto accepts = [](const Json&) { return true; };
    const FreeValues before{profile_, "profile", study_.free, accepts},
        fitted{profile, "profile", study_.free, accepts};
    const auto deviation = [&](Eigen::Index k) { return std::sqrt(posterior.covariance(k, k)); };
    std::vector<OwnValue> values;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const auto k = static_cast<Eigen::Index>(i);
      const double at = fitted.start()[k];
      values.push_back({.what = chosen[i].what,
                        .before = before.text(i, before.start()[k]),
                        .fitted = fitted.text(i, at),
                        .low = fitted.text(i, at - kNormal975 * deviation(k)),
                        .high = fitted.text(i, at + kNormal975 * deviation(k)),
                        .is_told = deviation(k) < kTold * std::log(chosen[i].prior_factor)});
    }
    if (!may_vary_) return values;
    const double last = deviation(static_cast<Eigen::Index>(chosen.size()));
    const auto rounded = [](double value) { return to_text(std::max(0.0, std::round(value * 1e3) / 1e3)); };
    values.push_back({.what = "variation of a step's compute time (/training/step_time_variation)",
                      .before = "0",
                      .fitted = rounded(variation_),
                      .low = rounded(variation_ - kNormal975 * last),
                      .high = rounded(variation_ + kNormal975 * last),
                      .is_told = last < kTold * kUsualVariation});
    return values;
  }

  /// The posterior takes the place of what the fit says of its rows alone: intervals, and in the profile the spread, whose
  /// components are the columns of C's Cholesky factor.
  void record(Json& profile, const std::vector<FreeCandidate>& chosen, const Posterior& posterior,
              OwnFit& result) const {
    constexpr double kNormal95 = 1.645;
    const auto count = static_cast<Eigen::Index>(chosen.size());
    const Eigen::MatrixXd root = Eigen::MatrixXd{posterior.covariance.topLeftCorner(count, count)}.llt().matrixL();
    Json components = Json::array();
    for (Eigen::Index k = 0; k < count; ++k) {
      components.push_back(Json::object());
      for (Eigen::Index i = 0; i < count; ++i)
        components.back()[chosen[static_cast<std::size_t>(i)].pointer] = root(i, k);
    }
    Json& fit = profile["fit"];
    if (!fit.contains("spread")) fit["spread"] = Json{{"low", -kNormal95}, {"high", kNormal95}};
    fit["spread"]["residual"] = std::max(posterior.noise, fit["spread"].value("residual", 0.0));
    fit["spread"]["components"] = std::move(components);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const OwnValue& value = result.values[i];
      for (FittedValue& told : result.fit.values)
        if (told.pointer == chosen[i].pointer) told.interval = {.low = value.low, .high = value.high};
      for (Json& told : fit["values"])
        if (told["pointer"] == chosen[i].pointer) told.update({{"low_95", value.low}, {"high_95", value.high}});
    }
  }

  const OwnRuns& runs_;
  const Catalog& catalog_;
  const OwnFitOptions& options_;
  std::vector<OwnCluster> clusters_;         // that differ
  std::vector<std::size_t> cluster_of_run_;  // [runs]
  std::size_t largest_ = 0;
  Json profile_;
  std::vector<FreeCandidate> steps_;
  Study study_;
  bool may_vary_ = false;  // steps, as far as the scenario does not say
  double variation_ = 0;
};

}  // namespace

OwnFit fit_own_runs(const Json& scenario, const std::string& file_name, const OwnRuns& runs, const Catalog& catalog,
                    const OwnFitOptions& options) {
  return OwnFitter{scenario, file_name, runs, catalog, options}.run();
}

Json own_scenario(const Json& scenario, const std::string& file_name, std::optional<int> gpus, const OwnFit& fit,
                  const Catalog& catalog) {
  Json own = scenario;
  if (gpus) {
    const Scenario stated = read_scenario(scenario, file_name, catalog);
    own = with_gpus(*stated.effective, stated, *gpus);
  }
  own["calibration"] = parse_json(fit.profile, "the fitted profile");
  set_variation(own, fit.variation);
  return own;
}

}  // namespace rehearse
