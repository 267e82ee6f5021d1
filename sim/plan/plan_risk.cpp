#include "sim/plan/plan_risk.hpp"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"
#include "sim/plan/monte_carlo.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

namespace {

constexpr const char* kNoPrice = "the price of a machine is unknown";

PlanRisk risk_of_one(const Json& summary, Seconds deadline) {
  if (!summary["training_cost_usd"].is_number()) return {.time_s = {}, .cost_usd = {}, .error = kNoPrice};
  const auto time = summary["training_time_s"].get<double>();
  const auto cost = summary["training_cost_usd"].get<double>();
  return {.probability = time <= deadline.value() ? 1.0 : 0.0,
          .time_s = {time, time, time},
          .cost_usd = {cost, cost, cost},
          .runs = 1,
          .times_s = {time},
          .error = {}};
}

PlanRisk risk_of_many(const MonteCarlo& result, Seconds deadline) {
  const auto cost = cost_percentiles(result);
  if (!cost) return {.time_s = {}, .cost_usd = {}, .error = kNoPrice};
  const RunPercentiles time = time_percentiles(result);
  std::vector<double> times;
  for (const RunOutcome& run : result.runs)
    times.push_back(run.is_finished ? run.time_s : std::numeric_limits<double>::infinity());
  const auto energy = energy_percentiles(result);
  return {.probability = probability_by(result, deadline),
          .time_s = {time.p5, time.p50, time.p95},
          .cost_usd = {cost->p5, cost->p50, cost->p95},
          .energy_j = energy ? std::optional{energy->p50} : std::nullopt,
          .runs = result.runs.size(),
          .times_s = std::move(times),
          .error = {}};
}

}  // namespace

PlanEvaluator evaluate_without_revocations(const Catalog& catalog, std::string file_name, SimulationMeans means) {
  return [&catalog, file_name = std::move(file_name), means = std::move(means)](
             const std::vector<SharedJson>& scenarios, const std::vector<Seconds>& deadlines) {
    const Experiment experiment{scenarios.size(), [&](std::size_t i) {
                                  return kSimulate.job(read_scenario(*scenarios[i], file_name, catalog));
                                }};
    const auto runs = experiment.run(means);
    if (!runs) throw ProvisionStopped{};
    std::vector<PlanRisk> risks(scenarios.size());
    for (std::size_t i = 0; i < risks.size(); ++i)
      if ((*runs)[i].has_succeeded)
        risks[i] = risk_of_one((*runs)[i].json(), deadlines[i]);
      else
        risks[i].error = (*runs)[i].text;
    return risks;
  };
}

PlanEvaluator evaluate_by_monte_carlo(const Catalog& catalog, std::string file_name, SimulationMeans means,
                                      std::size_t runs) {
  return [&catalog, file_name = std::move(file_name), means = std::move(means), runs](
             const std::vector<SharedJson>& scenarios, const std::vector<Seconds>& deadlines) {
    std::vector<std::size_t> stable;
    std::vector<std::pair<std::size_t, Scenario>> revocable;
    for (std::size_t i = 0; i < scenarios.size(); ++i) {
      Scenario scenario = read_scenario(*scenarios[i], file_name, catalog);
      if (scenario.has_revocations())
        revocable.emplace_back(i, std::move(scenario));
      else
        stable.push_back(i);
    }
    std::vector<SharedJson> stable_scenarios;
    std::vector<Seconds> stable_deadlines;
    for (const std::size_t i : stable) {
      stable_scenarios.push_back(scenarios[i]);
      stable_deadlines.push_back(deadlines[i]);
    }
    SimulationMeans of_stable = means;
    if (means.on_done)
      of_stable.on_done = [&](std::size_t done, std::size_t) { means.on_done(done, scenarios.size()); };
    const std::vector<PlanRisk> stable_risks =
        evaluate_without_revocations(catalog, file_name, of_stable)(stable_scenarios, stable_deadlines);

    std::vector<PlanRisk> risks(scenarios.size());
    for (std::size_t k = 0; k < stable.size(); ++k) risks[stable[k]] = stable_risks[k];
    SimulatedMemberships known;
    std::size_t done = stable.size();
    for (const auto& [i, scenario] : revocable) {
      try {
        risks[i] = risk_of_many(
            run_monte_carlo(
                scenario,
                {.runs = runs, .deadline = deadlines[i], .pool = means.pool, .known = &known, .limits = means.limits}),
            deadlines[i]);
      } catch (const NoResultError& error) { risks[i].error = error.what(); } catch (const MonteCarloStopped&) {
        throw ProvisionStopped{};
      }
      if (means.on_done) means.on_done(++done, scenarios.size());
    }
    return risks;
  };
}

}  // namespace rehearse
