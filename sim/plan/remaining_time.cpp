#include "sim/plan/remaining_time.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "calibration/parameter_uncertainty.hpp"
#include "platforms/fleet_trace.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/job/memoised_session.hpp"
#include "sim/pool/experiment.hpp"
#include "sim/scenario/cluster_variants.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/site.hpp"

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

/// Where each worker has a part of the model, a loss that is not followed by a restart ends the training.
void check_recovery(const Scenario& scenario) {
  const Recovery::LostWorker lost = scenario.training.recovery.lost_worker;
  if (!scenario.training.strategy.kind->divides_model() || lost == Recovery::LostWorker::kRestart) return;
  throw InputError{
      scenario.file_name +
      ": /training/recovery/lost_worker: expected \"restart\" where workers share the model: the part of a "
      "lost worker is in checkpoints only; found " +
      in_quotes(lost == Recovery::LostWorker::kWait ? "wait" : "shrink")};
}

/// A job that loses machines once, by the rules that hold in simulations (Recovery), at speeds that are known.
class InterruptedJob {
 public:
  /// `lost` machines of the group, the last ones, when the job has done so many steps of the full cluster.
  InterruptedJob(Scenario scenario, std::string_view group, int lost, std::int64_t step)
      : scenario_{std::move(scenario)}, lost_{lost}, step_{step} {
    scenario_.profile.startup.reset();  // the time until replaced has it
    for (Group& any : scenario_.groups) {
      any.joins_at = {};
      any.leaves_at.reset();
    }
    const auto found = std::ranges::find(scenario_.groups, group, &Group::name);
    group_ = static_cast<std::size_t>(found - scenario_.groups.begin());
    for (const Group& any : scenario_.groups) full_.push_back(any.role == Role::kWorker ? any.count : 0);
    left_ = full_;
    left_[group_] -= lost;
  }

  struct Speeds {
    TrainingSpeed full, degraded;
  };
  struct Rest {
    Seconds time{};
    Interruptions interruptions;
  };

  /// From the loss to the end. Throws NoResultError if it never ends.
  Rest rest(const Speeds& speeds, Seconds until_replaced) const {
    const SpeedOf speed_of = [&](const MachineCounts& counts, double) { return speed_in(counts, speeds); };
    const Seconds date = std::max(date_of_loss(speed_of), kNotAtTheStart);
    const Trajectory all = run(interrupted(date, until_replaced), speed_of);
    if (!all.is_finished)
      throw NoResultError{scenario_.file_name + ": /training/recovery: the job waits for machines that never come" +
                          scenario_.set_by};
    return {all.job.end - date, all.job.interruptions};
  }

  /// Whether those that are left train before the replacement is there.
  bool trains_meanwhile() const {
    bool trains = false;
    const SpeedOf speed_of = [&](const MachineCounts& counts, double) {
      trains = trains || counts == left_;
      return TrainingSpeed{1, samples_per_update(scenario_)};
    };
    Scenario job = interrupted(Seconds{static_cast<double>(step_)} + kNotAtTheStart, {});
    job.training.checkpoint.reset();  // a chief that writes one does not train either
    (void)run(job, speed_of);
    return trains;
  }

 private:
  static constexpr Seconds kNotAtTheStart{1e-9};

  static Trajectory run(const Scenario& job, const SpeedOf& speed_of) {
    return run_trajectory(Site{job}, job.seed, speed_of, kNever, false);
  }

  /// Workers that do not wait for one another go on without a chief that writes a checkpoint.
  TrainingSpeed speed_in(const MachineCounts& counts, const Speeds& speeds) const {
    if (counts == full_) return speeds.full;
    if (counts == left_) return speeds.degraded;
    TrainingSpeed part = speeds.full;
    part.updates_per_s *= workers_in(counts) / workers_in(full_);
    return part;
  }
  double workers_in(const MachineCounts& counts) const {
    double workers = 0;
    for (std::size_t g = 0; g < counts.size(); ++g)
      workers += double{1} * counts[g] * scenario_.groups[g].workers_per_machine();
    return workers;
  }

  Seconds date_of_loss(const SpeedOf& speed_of) const {
    if (step_ == 0) return {};
    Scenario until = scenario_;
    set_steps(until, step_);
    return run(until, speed_of).job.end;
  }

  /// Without a time nobody is replaced.
  Scenario interrupted(Seconds date, std::optional<Seconds> until_replaced) const {
    Scenario job = scenario_;
    Group& group = job.groups[group_];
    FleetTrace trace;
    const auto add = [&](Seconds at, bool is_added, int machine) {
      trace.events.push_back({at, is_added, std::to_string(machine)});
    };
    for (int m = 0; m < group.count; ++m) add({}, true, m);
    for (int m = group.count - lost_; m < group.count; ++m) add(date, false, m);
    for (int m = 0; m < lost_ && until_replaced; ++m) add(date + *until_replaced, true, group.count + m);
    trace.end = date + until_replaced.value_or(Seconds{});
    group.replay = std::make_shared<const FleetTrace>(std::move(trace));
    return job;
  }

  Scenario scenario_;
  std::size_t group_ = 0;
  int lost_;
  std::int64_t step_;
  MachineCounts full_, left_;
};

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

namespace {

/// A cluster whose steady state is simulated.
struct SteadyCluster {
  Json scenario;
  double steps_per_s = 0, samples_per_s = 0;
  std::optional<std::pair<double, double>> interval{};  // factors on the speed

  double batch() const { return samples_per_s / steps_per_s; }
};

/// False if `is_stopped` ended it.
bool simulate_all(std::span<SteadyCluster> clusters, const std::string& file_name, const Catalog& catalog,
                  const Pool& pool, const std::function<bool()>& is_stopped) {
  for (SteadyCluster& cluster : clusters)
    for (const char* key : {"checkpoint", "target", "recovery"}) cluster.scenario["training"].erase(key);
  const Experiment experiment{clusters.size(), [&](std::size_t i) {
                                return brief_job(kSimulate, read_scenario(clusters[i].scenario, file_name, catalog));
                              }};
  const auto runs =
      experiment.run({.pool = pool, .on_done = {}, .limits = {.is_stopped = is_stopped, .job_wall_s = {}}});
  if (!runs) return false;
  for (std::size_t i = 0; i < clusters.size(); ++i) {
    if (!(*runs)[i].has_succeeded) throw NoResultError{(*runs)[i].error_in(file_name)};
    const Json summary = (*runs)[i].json();
    clusters[i].steps_per_s = summary["steps_per_s"].get<double>();
    clusters[i].samples_per_s = summary["samples_per_s"].get<double>();
    if (summary["steps_per_s_low"].is_number())
      clusters[i].interval = {summary["steps_per_s_low"].get<double>() / clusters[i].steps_per_s,
                              summary["steps_per_s_high"].get<double>() / clusters[i].steps_per_s};
  }
  return true;
}

/// Fills in the time left and its interval.
void predict_rest(const InterruptedJob& job, const InterruptedJob::Speeds& speeds, RemainingPrediction& prediction) {
  const auto n = static_cast<double>(prediction.steps_left);
  const auto rest = [&](double factor, Seconds until_replaced) -> InterruptedJob::Rest {
    if (prediction.fit)
      return {remaining_time(n, prediction.degraded * factor, prediction.full * factor, until_replaced), {}};
    InterruptedJob::Speeds scaled = speeds;
    scaled.full.updates_per_s *= factor;
    scaled.degraded.updates_per_s *= factor;
    return job.rest(scaled, until_replaced);
  };
  const InterruptedJob::Rest mean = rest(1, prediction.until_replaced);
  prediction.remaining = mean.time;
  prediction.lost_steps = mean.interruptions.lost_updates;
  prediction.stopped = mean.interruptions.stopped;
  if (!prediction.speed_interval && !prediction.replaced_interval) return;
  const auto [slow, fast] = prediction.speed_interval.value_or(std::pair{1.0, 1.0});
  const auto [soon, late] =
      prediction.replaced_interval.value_or(std::pair{prediction.until_replaced, prediction.until_replaced});
  prediction.interval = {rest(fast, soon).time, rest(slow, late).time};
}

}  // namespace

std::optional<RemainingPrediction> predict_remaining(const Json& json, const std::string& file_name,
                                                     const Catalog& catalog, const RemainingRequest& request,
                                                     const Pool& pool, const std::function<bool()>& is_stopped) {
  const Scenario whole = read_scenario(json, file_name, catalog);
  if (request.step < 0 || request.step >= whole.training.steps)
    throw InputError{"--step: expected a loss before the last of " + std::to_string(whole.training.steps) +
                     " steps; found step " + std::to_string(request.step)};
  const std::size_t lost = losing_group(whole, request);
  check_recovery(whole);
  const Group& group = whole.groups[lost];
  const Json& effective = *whole.effective;
  int workers = 0;
  for (const Group& any : whole.groups) workers += any.is_standby ? 0 : any.workers();
  const int left = workers - request.lost * group.workers_per_machine();
  const bool is_synchronous = whole.training.strategy.is_synchronous();

  WorkerCounts left_of_groups = full_cluster(whole);
  left_of_groups[lost] = std::int64_t{group.count - request.lost} * group.workers_per_machine();
  const double batch = samples_per_update(whole);
  const InterruptedJob job{read_scenario(without_revocations(effective), file_name, catalog), group.name, request.lost,
                           request.step};
  const bool trains_meanwhile = left > 0 && job.trains_meanwhile();

  std::vector<SteadyCluster> clusters{{without_revocations(effective)}};
  if (trains_meanwhile)
    clusters.push_back({without_revocations(
        with_machines(with_shares(effective, whole, left_of_groups), lost, group.count - request.lost))});
  if (!is_synchronous) clusters.push_back({one_machine_alone(effective, whole, lost)});
  if (!simulate_all(clusters, file_name, catalog, pool, is_stopped)) return std::nullopt;

  const bool has_unknown_batches = !is_synchronous && has_unequal_batches(whole);
  const auto speed_of = [&](const SteadyCluster& cluster, double samples) {
    return TrainingSpeed{cluster.steps_per_s, has_unknown_batches ? cluster.batch() : samples};
  };
  InterruptedJob::Speeds speeds{.full = speed_of(clusters.front(), batch), .degraded = {0, batch}};
  // A smaller cluster's step may have fewer samples than one of the full cluster.
  if (trains_meanwhile)
    speeds.degraded = speed_of(clusters[1], is_synchronous ? samples_per_update(whole, left_of_groups) : batch);

  RemainingPrediction prediction{.group = group.name, .steps_left = whole.training.steps - request.step};
  prediction.samples_left = static_cast<double>(prediction.steps_left) * batch;
  prediction.speed_interval = clusters.front().interval;
  const auto steps_per_s = [&](const TrainingSpeed& speed, int of) {  // of the full cluster
    return with_checkpoints(whole, speed.updates_per_s, of) * (speed.samples_per_update / batch);
  };
  prediction.full = steps_per_s(speeds.full, workers);
  prediction.degraded = trains_meanwhile ? steps_per_s(speeds.degraded, left) : 0;
  double factor = 1;
  if (!request.history.empty()) {
    prediction.fit = fit_remaining_time(request.history, prediction.degraded, prediction.full);
    factor = prediction.fit->speed_factor;
  } else if (request.measured_speed) {
    factor = *request.measured_speed / prediction.full;
  }
  if (factor != 1) prediction.speed_interval.reset();  // the speed is a measured one
  for (double* speed :
       {&prediction.full, &prediction.degraded, &speeds.full.updates_per_s, &speeds.degraded.updates_per_s})
    *speed *= factor;
  // Workers that wait for one another add nothing to the speed: the whole cluster's is the lost one's.
  prediction.by_addition = prediction.full;
  if (!is_synchronous) {
    const TrainingSpeed alone = speed_of(clusters.back(), batch);
    prediction.by_addition =
        prediction.degraded + request.lost * factor * alone.updates_per_s * (alone.samples_per_update / batch);
  }
  prediction.until_replaced = time_until_replaced(whole, group, request, prediction);
  prediction.controller = controller_remaining_time(static_cast<double>(prediction.steps_left), prediction.degraded,
                                                    prediction.by_addition, prediction.until_replaced);
  predict_rest(job, speeds, prediction);
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
          {"lost_steps", prediction.lost_steps},
          {"stopped_s", prediction.stopped.value()},
          {"remaining_time_s", prediction.remaining.value()},
          {"remaining_time_s_low", low(prediction.interval)},
          {"remaining_time_s_high", high(prediction.interval)},
          {"controller_remaining_time_s", prediction.controller.value()}};
}

}  // namespace rehearse
