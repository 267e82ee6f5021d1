// What many runs say together: percentiles, means, the gain of rules, as JSON and CSV.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/base/statistics.hpp"
#include "sim/plan/monte_carlo.hpp"
#include "sim/record/cost.hpp"
#include "sim/record/summary.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

/// Of runs; infinite of those that have not finished.
std::vector<double> finished_times(const MonteCarlo& result) {
  std::vector<double> times;
  for (const RunOutcome& run : result.runs) times.push_back(run.is_finished ? run.time_s : kForever);
  return times;
}

/// The same of costs; none if a price is unknown.
std::optional<std::vector<double>> finished_costs(const MonteCarlo& result) {
  std::vector<double> costs;
  for (const RunOutcome& run : result.runs) {
    if (!run.cost_usd) return {};
    costs.push_back(run.is_finished ? run.cost_usd->total() : kForever);
  }
  return costs;
}

/// percentile() that does not interpolate towards infinity.
double percentile_of(std::vector<double> values, double percent) {
  std::sort(values.begin(), values.end());
  const auto above = static_cast<std::size_t>(std::ceil(static_cast<double>(values.size() - 1) * percent / 100));
  return values[above] == kForever ? kForever : percentile(values, percent);
}

RunPercentiles percentiles(const std::vector<double>& values) {
  return {percentile_of(values, 5), percentile_of(values, 50), percentile_of(values, 95)};
}

/// Of b less a, or of b alone where there is no a.
template <class Value>
PairedMean paired_mean(const std::vector<RunOutcome>* a, const std::vector<RunOutcome>& b, Value value) {
  double sum = 0, squares = 0;
  const auto count = static_cast<double>(b.size());
  const auto each = [&](std::size_t i) { return value(b[i]) - (a != nullptr ? value((*a)[i]) : 0); };
  for (std::size_t i = 0; i < b.size(); ++i) sum += each(i);
  const double mean = sum / count;
  for (std::size_t i = 0; i < b.size(); ++i) squares += (each(i) - mean) * (each(i) - mean);
  const double error = b.size() > 1 ? 1.96 * std::sqrt(squares / (count - 1) / count) : kForever;
  return {mean, mean - error, mean + error};
}

}  // namespace

ControlGain control_gain(const MonteCarlo& fixed, const MonteCarlo& controlled, std::optional<Seconds> deadline) {
  ControlGain gain;
  const auto compare = [&](auto value) {
    return std::pair{paired_mean(nullptr, fixed.runs, value), paired_mean(&fixed.runs, controlled.runs, value)};
  };
  std::tie(gain.fixed_time_s, gain.time_s) = compare([](const RunOutcome& run) { return run.time_s; });
  if (finished_costs(fixed) && finished_costs(controlled))
    std::tie(gain.fixed_cost_usd, gain.cost_usd) = compare([](const RunOutcome& run) { return run.cost_usd->total(); });
  if (deadline)
    std::tie(gain.fixed_deadline_share, gain.deadline_share) =
        compare([&](const RunOutcome& run) { return run.is_finished && run.time_s <= deadline->value() ? 1.0 : 0.0; });
  for (const RunOutcome& run : controlled.runs) {
    gain.decisions += run.interruptions.decisions / static_cast<double>(controlled.runs.size());
    gain.decided += (run.interruptions.decisions > 0 ? 1.0 : 0.0) / static_cast<double>(controlled.runs.size());
  }
  return gain;
}

std::vector<int> elastic_batches(const Scenario& scenario) {
  std::vector<int> batches{1};
  const auto& control = scenario.training.control;
  if (!control || !control->elastic_batch) return batches;
  int largest = control->elastic_batch->largest;
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker) largest = std::min(largest, control->elastic_batch->largest / group.batch);
  for (int times = 2; times <= largest; times *= 2) {
    batches.push_back(times);
    if (times + times / 2 <= largest) batches.push_back(times + times / 2);
  }
  return batches;
}

std::optional<BatchGain> gain_over_batches(const Scenario& scenario, MonteCarloOptions options,
                                           const MonteCarlo& controlled) {
  std::optional<BatchGain> best;
  for (const int times : elastic_batches(scenario)) {
    if (times == 1) continue;
    options.fixed_batch = times;
    try {
      const ControlGain gain = control_gain(run_monte_carlo(scenario, options), controlled, options.deadline);
      if (!best || gain.fixed_time_s.mean < best->gain.fixed_time_s.mean) best = {times, gain};
    } catch (const NoResultError&) { break; }
  }
  return best;
}

Json to_json(const ControlGain& gain) {
  Json json{{"decisions", gain.decisions}, {"runs_with_decisions", gain.decided}};
  const auto add = [&](const char* name, const PairedMean& fixed, const PairedMean& difference) {
    const auto finite = [](double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); };
    json[std::string{name} + "_fixed"] = fixed.mean;
    json[std::string{name} + "_difference"] = difference.mean;
    json[std::string{name} + "_difference_low"] = finite(difference.low);
    json[std::string{name} + "_difference_high"] = finite(difference.high);
  };
  add("time_s", gain.fixed_time_s, gain.time_s);
  if (gain.cost_usd) add("cost_usd", *gain.fixed_cost_usd, *gain.cost_usd);
  if (gain.deadline_share) add("deadline_share", *gain.fixed_deadline_share, *gain.deadline_share);
  return json;
}

RunPercentiles time_percentiles(const MonteCarlo& result) { return percentiles(finished_times(result)); }

RunPercentiles goodput_percentiles(const MonteCarlo& result) {
  std::vector<double> shares;
  for (const RunOutcome& run : result.runs) shares.push_back(run.time_use.trained / run.time_use.total());
  return percentiles(shares);
}

TimeUse time_use_of(const MonteCarlo& result) {
  TimeUse sum;
  for (const RunOutcome& run : result.runs) {
    sum.trained += run.time_use.trained;
    for (const LostTime& lost : kLostTimes) sum.*lost.time += run.time_use.*lost.time;
  }
  return sum;
}

std::optional<RunPercentiles> cost_percentiles(const MonteCarlo& result) {
  const auto costs = finished_costs(result);
  return costs ? std::optional{percentiles(*costs)} : std::nullopt;
}

std::optional<RunPercentiles> energy_percentiles(const MonteCarlo& result) {
  std::vector<double> joules;
  for (const RunOutcome& run : result.runs) {
    if (!run.energy_j) return {};
    joules.push_back(run.is_finished ? *run.energy_j : kForever);
  }
  return percentiles(joules);
}

std::size_t unfinished_runs(const MonteCarlo& result) {
  return static_cast<std::size_t>(
      std::count_if(result.runs.begin(), result.runs.end(), [](const RunOutcome& run) { return !run.is_finished; }));
}

std::optional<std::string> remark_on_unfinished(const MonteCarlo& result) {
  const std::size_t unfinished = unfinished_runs(result);
  if (unfinished == 0) return {};
  std::array<char, 32> days{};
  std::snprintf(days.data(), days.size(), "%.4g days", result.gives_up_after.value() / 86400);
  double time = 0, stopped = 0, computed = 0, lost = 0;
  for (const RunOutcome& run : result.runs) {
    if (run.is_finished) continue;
    time += run.time_s;
    stopped += run.interruptions.stopped.value();
    computed += static_cast<double>(run.samples.done + run.samples.lost + run.samples.dropped);
    lost += static_cast<double>(run.samples.lost);
  }
  return std::to_string(unfinished) + " of " + std::to_string(result.runs.size()) + " runs had not finished after " +
         days.data() + " and were given up (/training/recovery/give_up_after sets another time): nobody trained in " +
         percent_text(stopped / time) + " of their time, and " + percent_text(computed > 0 ? lost / computed : 0) +
         " of the samples that they computed were lost; means over all runs are lower bounds, and "
         "percentiles among these runs have no value";
}

std::optional<std::string> remark_on_speeds(const Scenario& scenario) {
  if (!(scenario.profile.uncertainty.residual > 0)) return {};
  const auto [low, high] = scenario.profile.uncertainty.interval(0);
  std::array<char, 64> factors{};
  std::snprintf(factors.data(), factors.size(), "%.2g to %.2g", low, high);
  return "percentiles of many runs, and the share that ends by a deadline, are of what happens to machines alone: the "
         "speed of "
         "each set of machines may besides be " +
         std::string{factors.data()} + " times what is simulated (90 %)";
}

std::optional<std::string> remark_on_billing(const Scenario& scenario, const MonteCarlo& result) {
  Seconds least{};
  for (const Group& group : scenario.groups) {
    const BillingRule& rule = group.instance.billing_rule();
    least = std::max({least, rule.minimum, rule.granularity});
  }
  if (!cost_percentiles(result) || time_percentiles(result).p50 >= least.value()) return {};
  return "costs are mostly for time that is billed beyond the runs: " + billing_text(scenario);
}

double probability_by(const MonteCarlo& result, Seconds deadline) {
  const auto in_time = std::count_if(result.runs.begin(), result.runs.end(), [&](const RunOutcome& run) {
    return run.is_finished && run.time_s <= deadline.value();
  });
  return static_cast<double>(in_time) / static_cast<double>(result.runs.size());
}

namespace {

/// Percentiles of the energy, and means of it and of what it costs.
void add_energy(Json& json, const Electricity& site, const MonteCarlo& result) {
  const auto energy = energy_percentiles(result);
  for (const auto& [key, percentile] : {std::pair{"energy_kwh", &RunPercentiles::p50},
                                        {"energy_kwh_p5", &RunPercentiles::p5},
                                        {"energy_kwh_p95", &RunPercentiles::p95}})
    json[key] = energy && std::isfinite((*energy).*percentile) ? Json(site.kwh((*energy).*percentile)) : Json(nullptr);
  if (!energy) return;
  double joules = 0;
  for (const RunOutcome& run : result.runs) joules += *run.energy_j;
  const double kwh = site.kwh(joules / static_cast<double>(result.runs.size()));
  json["mean"]["energy_kwh"] = kwh;
  json["mean"]["usd_energy"] = or_null(site.usd(kwh));
  json["mean"]["co2_kg"] = or_null(site.co2_kg(kwh));
}

}  // namespace

Json to_json(const Scenario& scenario, const MonteCarlo& result, std::optional<Seconds> deadline) {
  const auto finite = [](double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); };
  const auto count = static_cast<double>(result.runs.size());
  const auto mean_of = [&](auto value) {
    double sum = 0;
    for (const RunOutcome& run : result.runs) sum += static_cast<double>(value(run));
    return sum / count;
  };
  const RunPercentiles time = time_percentiles(result);
  const auto cost = cost_percentiles(result);
  const std::size_t unfinished = unfinished_runs(result);
  Json json{{"format", 1},
            {"name", scenario.name},
            {"seed", scenario.seed},
            {"runs", result.runs.size()},
            {"finished", result.runs.size() - unfinished},
            {"unfinished", unfinished},
            {"given_up_after_s", result.gives_up_after.value()},
            {"means_are_lower_bounds", unfinished > 0},
            {"steps", result.steps},
            {"samples", result.samples},
            {"time_s", finite(time.p50)},
            {"time_s_p5", finite(time.p5)},
            {"time_s_p95", finite(time.p95)},
            {"cost_usd", cost ? finite(cost->p50) : Json(nullptr)},
            {"cost_usd_p5", cost ? finite(cost->p5) : Json(nullptr)},
            {"cost_usd_p95", cost ? finite(cost->p95) : Json(nullptr)}};
  add_time_use(time_use_of(result), json);
  const RunPercentiles goodput = goodput_percentiles(result);
  json["goodput_p5"] = finite(goodput.p5);
  json["goodput_p95"] = finite(goodput.p95);
  if (scenario.training.checkpoint) {
    const auto interval = checkpoint_interval(scenario);
    json["checkpoint_interval_s"] = interval ? finite(interval->value()) : Json(nullptr);
    json["young_daly_interval_s"] =
        finite(young_daly_interval(checkpoint_times(scenario)->stall, mean_time_to_loss(scenario)).value());
  }
  if (deadline) {
    json["deadline_s"] = deadline->value();
    json["deadline_probability"] = probability_by(result, *deadline);
  }
  Json means{{"time_s", mean_of([](const RunOutcome& run) { return run.time_s; })},
             {"revocations", mean_of([](const RunOutcome& run) { return run.interruptions.revocations; })},
             {"faults", mean_of([](const RunOutcome& run) { return run.interruptions.faults; })},
             {"replacements", mean_of([](const RunOutcome& run) { return run.interruptions.replacements; })},
             {"restarts", mean_of([](const RunOutcome& run) { return run.interruptions.restarts; })},
             {"pauses", mean_of([](const RunOutcome& run) { return run.interruptions.pauses; })},
             {"checkpoints", mean_of([](const RunOutcome& run) { return run.interruptions.checkpoints; })},
             {"lost_steps", mean_of([](const RunOutcome& run) { return run.interruptions.lost_updates; })},
             {"samples_done", mean_of([](const RunOutcome& run) { return run.samples.done; })},
             {"samples_lost", mean_of([](const RunOutcome& run) { return run.samples.lost; })},
             {"samples_repeated", mean_of([](const RunOutcome& run) { return run.samples.repeated; })},
             {"samples_dropped", mean_of([](const RunOutcome& run) { return run.samples.dropped; })},
             {"stopped_s", mean_of([](const RunOutcome& run) { return run.interruptions.stopped.value(); })}};
  if (cost) {
    means["cost_usd"] = mean_of([](const RunOutcome& run) { return run.cost_usd->total(); });
    means["workers_usd"] = mean_of([](const RunOutcome& run) { return run.cost_usd->workers; });
    means["servers_usd"] = mean_of([](const RunOutcome& run) { return run.cost_usd->servers; });
    means["idle_usd"] = mean_of([](const RunOutcome& run) { return run.cost_usd->idle; });
    means["startup_usd"] = mean_of([](const RunOutcome& run) { return run.cost_usd->startup; });
  }
  json["mean"] = std::move(means);
  add_energy(json, scenario.electricity, result);
  json["memberships"] = Json::array();
  for (const auto& [counts, speed] : result.speeds) {
    Json machines = Json::object();
    for (std::size_t g = 0; g < counts.size(); ++g)
      if (scenario.groups[g].role == Role::kWorker || scenario.groups[g].is_standby)
        machines[scenario.groups[g].name] = counts[g];
    json["memberships"].push_back({{"machines", std::move(machines)},
                                   {"steps_per_s", speed},
                                   {"samples_per_s", speed * result.samples_per_step}});
  }
  json["warnings"] = scenario.warnings;
  if (const auto remark = remark_on_speeds(scenario)) json["warnings"].push_back(*remark);
  if (const auto remark = remark_on_unfinished(result)) json["warnings"].push_back(*remark);
  if (!result.untried_batches.empty()) json["warnings"].push_back(result.untried_batches);
  return json;
}

std::string runs_csv(const MonteCarlo& result) {
  std::vector<std::string> header{"run",          "seed",         "finished",         "time_s",          "cost_usd",
                                  "workers_usd",  "servers_usd",  "idle_usd",         "startup_usd",     "revocations",
                                  "replacements", "restarts",     "pauses",           "checkpoints",     "lost_steps",
                                  "samples_done", "samples_lost", "samples_repeated", "samples_dropped", "stopped_s",
                                  "faults",       "trained_s",    "checkpoints_s",    "redone_s",        "detection_s",
                                  "waiting_s",    "restarting_s", "energy_j"};
  if (result.is_controlled) header.emplace_back("decisions");
  CsvWriter csv{header};
  for (std::size_t i = 0; i < result.runs.size(); ++i) {
    const RunOutcome& run = result.runs[i];
    const Interruptions& what = run.interruptions;
    const auto usd = [&](double CostSplit::*part) {
      return run.cost_usd ? CsvField{(*run.cost_usd).*part} : CsvField{""};
    };
    std::vector<CsvField> row{static_cast<std::int64_t>(i),
                              run.seed,
                              run.is_finished ? "yes" : "no",
                              run.time_s,
                              run.cost_usd ? CsvField{run.cost_usd->total()} : CsvField{""},
                              usd(&CostSplit::workers),
                              usd(&CostSplit::servers),
                              usd(&CostSplit::idle),
                              usd(&CostSplit::startup),
                              what.revocations,
                              what.replacements,
                              what.restarts,
                              what.pauses,
                              what.checkpoints,
                              what.lost_updates,
                              run.samples.done,
                              run.samples.lost,
                              run.samples.repeated,
                              run.samples.dropped,
                              what.stopped.value(),
                              what.faults,
                              run.time_use.trained.value(),
                              run.time_use.checkpoints.value(),
                              run.time_use.redone.value(),
                              run.time_use.detection.value(),
                              run.time_use.waiting.value(),
                              run.time_use.restarting.value(),
                              run.energy_j ? CsvField{*run.energy_j} : CsvField{""}};
    if (result.is_controlled) row.emplace_back(what.decisions);
    csv.row(row);
  }
  return csv.text();
}

}  // namespace rehearse
