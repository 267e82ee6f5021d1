#include "sim/plan/remaining_time.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "calibration/parameter_uncertainty.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/plan/cluster_variants.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

namespace {

/// Index of the group that loses machines.
std::size_t losing_group(const Scenario& scenario, const RemainingRequest& request) {
  std::vector<std::string> names;
  for (std::size_t g = 0; g < scenario.groups.size(); ++g) {
    const Group& group = scenario.groups[g];
    if (group.role != Role::kWorker || group.is_standby) continue;
    names.push_back(group.name);
    if (!request.group.empty() && group.name != request.group) continue;
    for (const Group& servers : scenario.groups)
      if (servers.colocated_with == static_cast<int>(g))
        throw InputError{"--group: expected a loss of workers; group " + in_quotes(group.name) +
                         " has the parameter servers " + in_quotes(servers.name) +
                         " on its machines, whose loss ends the run"};
    if (request.lost < 1 || request.lost > group.count)
      throw InputError{"--lost: expected a loss of 1 to " + std::to_string(group.count) + " machines of group " +
                       in_quotes(group.name) + "; found " + std::to_string(request.lost)};
    return g;
  }
  throw InputError{"--group: " + unknown_name_message("group of workers", request.group, names)};
}

/// steps/s with the chief's pauses for checkpoints.
double with_checkpoints(const Scenario& scenario, double speed, int workers) {
  const auto pause = scenario.training.checkpoint ? checkpoint_time(scenario) : std::nullopt;
  if (!pause || speed <= 0) return speed;
  const Checkpointing& rule = *scenario.training.checkpoint;
  const bool all_wait = scenario.training.strategy.is_synchronous() || rule.pauses_all;
  const double lost = pause->value() * (all_wait ? 1 : 1.0 / workers);  // s of all
  if (const auto interval = checkpoint_interval(scenario))              // between two at least a step
    return speed * (1 - lost / std::max(interval->value(), lost + 1 / speed));
  const auto steps = static_cast<double>(rule.every_steps);
  return steps / (steps / speed + lost);
}

Seconds time_until_replaced(const Scenario& scenario, const Group& group, const RemainingRequest& request,
                            RemainingPrediction& prediction) {
  if (prediction.fit) return prediction.fit->until_replaced;
  if (request.until_replaced) return *request.until_replaced;
  const auto startup = startup_of(scenario, group);
  if (!startup)
    throw InputError{scenario.file_name + ": /calibration: profile " + in_quotes(scenario.profile.name) +
                     " has no start-up times of a machine like those " + "of group " + in_quotes(group.name) +
                     "; --replaced-after says when its replacement works"};
  const Seconds framework = startup->framework.time(scenario.workload_of(group).trainable_tensors(), !request.is_warm);
  prediction.machine = startup->mean();
  prediction.framework = framework;
  prediction.replaced_interval = {startup->quantile(0.05) + framework, startup->quantile(0.95) + framework};
  return startup->mean() + framework;
}

}  // namespace

Seconds remaining_time(double steps_left, double degraded, double full, Seconds until_replaced) {
  if (degraded * until_replaced.value() >= steps_left && degraded > 0) return Seconds{steps_left / degraded};
  return until_replaced + Seconds{(steps_left - degraded * until_replaced.value()) / full};
}

Seconds controller_remaining_time(double steps_left, double degraded, double by_addition, Seconds until_replaced) {
  return until_replaced + Seconds{steps_left / by_addition} - until_replaced * (degraded / by_addition);
}

RemainingFit fit_remaining_time(std::span<const RemainingCase> cases, double degraded, double full) {
  // Each case: a x + b y = 1 with x = 1 / f, y = t, a = n / full / T, b = (1 - degraded / full) / T.
  double aa = 0, ab = 0, bb = 0, sum_a = 0, sum_b = 0;
  for (const RemainingCase& one : cases) {
    const double a = one.steps_left / full / one.measured.value();
    const double b = (1 - degraded / full) / one.measured.value();
    aa += a * a;
    ab += a * b;
    bb += b * b;
    sum_a += a;
    sum_b += b;
  }
  const double determinant = aa * bb - ab * ab;
  if (cases.size() < 2 || !(determinant > 1e-12 * aa * bb))
    throw InputError{
        "--history: expected at least two past revocations at different steps, of machines that the speed depends on"};
  const double inverse_factor = (sum_a * bb - sum_b * ab) / determinant;
  const double time = (sum_b * aa - sum_a * ab) / determinant;
  if (!(inverse_factor > 0) || !(time >= 0))
    throw InputError{"--history: no speed and time until replaced, both positive, fit the past revocations"};
  return {1 / inverse_factor, Seconds{time}};
}

std::vector<RemainingCase> load_remaining_cases(const std::filesystem::path& csv) {
  const CsvTable table = load_csv_file(csv);
  std::vector<RemainingCase> cases;
  for (const CsvRow& row : table.rows()) {
    const std::int64_t step = row.integer("revocation_step"), total = row.integer("total_steps");
    const double time = row.number("measured_remaining_s");
    if (step < 0 || step >= total) row.fail("revocation_step", "expected a step from 0, below total_steps");
    if (time <= 0) row.fail("measured_remaining_s", "expected a time above 0");
    cases.push_back({static_cast<double>(total - step), Seconds{time}});
  }
  return cases;
}

std::optional<RemainingPrediction> predict_remaining(const Json& json, const std::string& file_name,
                                                     const Catalog& catalog, const RemainingRequest& request,
                                                     const Pool& pool, const std::function<bool()>& is_stopped) {
  const Scenario whole = read_scenario(json, file_name, catalog);
  if (request.step < 0 || request.step >= whole.training.steps)
    throw InputError{"--step: expected a loss before the last of " + std::to_string(whole.training.steps) +
                     " steps; found step " + std::to_string(request.step)};
  const std::size_t lost = losing_group(whole, request);
  const Group& group = whole.groups[lost];
  const Json effective = parse_json(whole.effective, file_name);
  int workers = 0;
  for (const Group& any : whole.groups) workers += any.is_standby ? 0 : any.workers();
  const int left = workers - request.lost * group.workers_per_machine();

  WorkerCounts left_of_groups = full_cluster(whole);
  left_of_groups[lost] = std::int64_t{group.count - request.lost} * group.workers_per_machine();
  const double batch = samples_per_update(whole);

  std::vector<Json> clusters{without_revocations(effective), one_machine_alone(effective, whole, lost)};
  if (left > 0)
    clusters.push_back(without_revocations(
        with_machines(with_shares(effective, whole, left_of_groups), lost, group.count - request.lost)));
  std::array<double, 3> speeds{}, batches{batch, batch, batch};
  RemainingPrediction prediction{.group = group.name, .steps_left = whole.training.steps - request.step};
  prediction.samples_left = static_cast<double>(prediction.steps_left) * batch;
  std::string problem;
  for (Json& cluster : clusters)
    for (const char* key : {"checkpoint", "target"}) cluster["training"].erase(key);
  const bool is_complete = pool.run(
      clusters.size(),
      [&](std::size_t i) {
        const Scenario cluster = read_scenario(clusters[i], file_name, catalog);
        return kSimulate.job(cluster, shortening(cluster));
      },
      [&](std::size_t i, const PooledRun& run) {
        if (!run.has_succeeded) return void(problem = run.error_in(file_name));
        const Json summary = parse_json(run.text, "summary");
        speeds[i] = summary["steps_per_s"].get<double>();
        if (!whole.training.strategy.is_synchronous() && has_unequal_batches(whole))
          batches[i] = summary["samples_per_s"].get<double>() / speeds[i];
        if (i == 0 && summary["steps_per_s_low"].is_number())
          prediction.speed_interval = {summary["steps_per_s_low"].get<double>() / speeds[0],
                                       summary["steps_per_s_high"].get<double>() / speeds[0]};
      },
      {.is_stopped = is_stopped, .job_wall_s = {}});
  if (!is_complete) return std::nullopt;
  if (!problem.empty()) throw NoResultError{problem};

  // A smaller cluster's step may have fewer samples than one of the full cluster.
  if (whole.training.strategy.is_synchronous()) batches[2] = samples_per_update(whole, left_of_groups);
  prediction.full = with_checkpoints(whole, speeds[0], workers) * (batches[0] / batch);
  prediction.degraded = left > 0 ? with_checkpoints(whole, speeds[2], left) * (batches[2] / batch) : 0;
  double factor = 1;
  if (!request.history.empty()) {
    prediction.fit = fit_remaining_time(request.history, prediction.degraded, prediction.full);
    factor = prediction.fit->speed_factor;
  } else if (request.measured_speed) {
    factor = *request.measured_speed / prediction.full;
  }
  if (factor != 1) prediction.speed_interval.reset();  // the speed is a measured one
  prediction.full *= factor;
  prediction.degraded *= factor;
  // Workers that wait for one another add nothing to the speed: the whole cluster's is the lost one's.
  prediction.by_addition = whole.training.strategy.is_synchronous()
                               ? prediction.full
                               : prediction.degraded + request.lost * speeds[1] * (batches[1] / batch) * factor;
  prediction.until_replaced = time_until_replaced(whole, group, request, prediction);

  const auto n = static_cast<double>(prediction.steps_left);
  prediction.remaining = remaining_time(n, prediction.degraded, prediction.full, prediction.until_replaced);
  prediction.controller =
      controller_remaining_time(n, prediction.degraded, prediction.by_addition, prediction.until_replaced);
  if (prediction.speed_interval || prediction.replaced_interval) {
    const auto [slow, fast] = prediction.speed_interval.value_or(std::pair{1.0, 1.0});
    const auto [soon, late] =
        prediction.replaced_interval.value_or(std::pair{prediction.until_replaced, prediction.until_replaced});
    prediction.interval = {remaining_time(n, prediction.degraded * fast, prediction.full * fast, soon),
                           remaining_time(n, prediction.degraded * slow, prediction.full * slow, late)};
  }
  return prediction;
}

Json to_json(const RemainingPrediction& prediction) {
  const auto seconds = [](const std::optional<Seconds>& time) { return time ? Json(time->value()) : Json{}; };
  const auto low = [&](const auto& interval) { return interval ? Json(interval->first.value()) : Json{}; };
  const auto high = [&](const auto& interval) { return interval ? Json(interval->second.value()) : Json{}; };
  return {{"format", 1},
          {"group", prediction.group},
          {"steps_left", prediction.steps_left},
          {"samples_left", prediction.samples_left},
          {"steps_per_s", prediction.full},
          {"steps_per_s_degraded", prediction.degraded},
          {"steps_per_s_by_addition", prediction.by_addition},
          {"replaced_after_s", prediction.until_replaced.value()},
          {"replaced_after_s_low", low(prediction.replaced_interval)},
          {"replaced_after_s_high", high(prediction.replaced_interval)},
          {"machine_start_s", seconds(prediction.machine)},
          {"framework_start_s", seconds(prediction.framework)},
          {"fitted_speed_factor", prediction.fit ? Json(prediction.fit->speed_factor) : Json{}},
          {"remaining_time_s", prediction.remaining.value()},
          {"remaining_time_s_low", low(prediction.interval)},
          {"remaining_time_s_high", high(prediction.interval)},
          {"controller_remaining_time_s", prediction.controller.value()}};
}

}  // namespace rehearse
