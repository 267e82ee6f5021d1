#include "sim/plan/monte_carlo.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/base/random.hpp"
#include "sim/base/statistics.hpp"
#include "sim/job/machine_events.hpp"
#include "sim/job/simulate.hpp"
#include "sim/plan/membership_speeds.hpp"
#include "sim/plan/replan.hpp"
#include "sim/record/energy.hpp"
#include "sim/record/summary.hpp"
#include "sim/scenario/cluster_variants.hpp"
#include "sim/scenario/gpu_power.hpp"
#include "sim/scenario/site.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

std::optional<double> energy_of(const Site& site, const Trajectory& trajectory) {
  if (!has_gpu_power(site.scenario)) return {};
  double joules = trajectory.above_rest_j;
  for (std::size_t m = 0; m < site.machines.size(); ++m)
    for (const Rental& rental : trajectory.job.rentals[m])
      joules += rest_power(site.scenario, site.machines[m]) * (rental.span.end - rental.span.start).value();
  return joules;
}

Seconds overlap(Span a, Span b) { return std::max(Seconds{}, std::min(a.end, b.end) - std::max(a.start, b.start)); }

/// Each rental's cost is split in proportion to time.
std::optional<CostSplit> split_cost(const Site& site, const JobResult& job) {
  CostSplit split;
  for (std::size_t m = 0; m < site.machines.size(); ++m)
    for (const Rental& rental : job.rentals[m]) {
      const auto usd = cost_of(site.scenario, site.machines[m], {rental});
      if (!usd) return {};
      const Seconds length = rental.span.end - rental.span.start;
      const Span ready{rental.span.start + rental.startup, rental.span.end};
      Seconds idle{};
      for (auto stopped = std::ranges::lower_bound(job.stopped, ready.start, {}, &Span::end);
           stopped != job.stopped.end() && stopped->start < ready.end; ++stopped)  // they are in order
        idle += overlap(ready, *stopped);
      const double idle_share = length > Seconds{} ? idle / length : 0;
      const double startup_share = length > Seconds{} ? rental.startup / length : 0;
      split.idle += *usd * idle_share;
      split.startup += *usd * startup_share;
      (site.machines[m].workers > 0 ? split.workers : split.servers) += *usd * (1 - idle_share - startup_share);
    }
  const auto spares = cost_of_spares(site.scenario, site.machines, job.end);
  if (!spares) return {};
  split.idle += *spares;
  return split;
}

/// By backup workers, of a cluster that stays as it is.
std::int64_t dropped_samples(const Scenario& scenario, const TrainingProgress& done) {
  const int late = backup_workers(scenario);
  return std::llround(static_cast<double>(done.updates) * samples_per_update(scenario) * late /
                      static_cast<double>(needed_workers(scenario.count(Role::kWorker), late)));
}

Json to_json(const RunOutcome& run) {
  const Interruptions& i = run.interruptions;
  Json json{run.is_finished, run.time_s, i.notices,      i.revocations,     i.replacements,
            i.restarts,      i.pauses,   i.lost_updates, i.stopped.value(), i.checkpoints};
  json.push_back({run.samples.done, run.samples.lost, run.samples.repeated, run.samples.dropped});
  json.push_back({i.faults, i.decisions, run.time_use.trained.value()});
  for (const LostTime& lost : kLostTimes) json.back().push_back((run.time_use.*lost.time).value());
  json.back().push_back(run.energy_j ? Json(*run.energy_j) : Json(nullptr));
  if (run.cost_usd)
    for (const double usd : {run.cost_usd->workers, run.cost_usd->servers, run.cost_usd->idle, run.cost_usd->startup})
      json.push_back(usd);
  return json;
}

RunOutcome run_outcome(const Json& json) {
  RunOutcome run{.seed = 0,
                 .is_finished = json[0].get<bool>(),
                 .time_s = json[1].get<double>(),
                 .cost_usd = {},
                 .energy_j = {},
                 .interruptions = {},
                 .time_use = {},
                 .samples = {}};
  run.interruptions = {.notices = json[2].get<int>(),
                       .revocations = json[3].get<int>(),
                       .faults = json[11][0].get<int>(),
                       .replacements = json[4].get<int>(),
                       .restarts = json[5].get<int>(),
                       .pauses = json[6].get<int>(),
                       .lost_updates = json[7].get<std::int64_t>(),
                       .stopped = Seconds{json[8].get<double>()},
                       .checkpoints = json[9].get<std::int64_t>(),
                       .decisions = json[11][1].get<int>()};
  const Json& samples = json[10];
  run.samples = {.done = samples[0].get<std::int64_t>(),
                 .lost = samples[1].get<std::int64_t>(),
                 .repeated = samples[2].get<std::int64_t>(),
                 .dropped = samples[3].get<std::int64_t>()};
  run.time_use.trained = Seconds{json[11][2].get<double>()};
  for (std::size_t i = 0; i < kLostTimes.size(); ++i)
    run.time_use.*kLostTimes[i].time = Seconds{json[11][3 + i].get<double>()};
  if (const Json& energy = json[11].back(); energy.is_number()) run.energy_j = energy.get<double>();
  if (json.size() > 12)
    run.cost_usd =
        CostSplit{json[12].get<double>(), json[13].get<double>(), json[14].get<double>(), json[15].get<double>()};
  return run;
}

Seconds gives_up_after(const Scenario& job, double samples_per_s, std::optional<Seconds> deadline) {
  if (const auto& stated = job.training.recovery.give_up_after) return *stated;
  constexpr double kTimesOfWork = 10;
  const Seconds work{static_cast<double>(job.training.samples) / samples_per_s};
  return std::max({kGivesUpAfter, work * kTimesOfWork, deadline.value_or(Seconds{})});
}

SpeedOf speed_of(MembershipSpeeds& speeds) {
  return [&](const MachineCounts& counts, double share_done) { return speeds(counts, share_done); };
}

/// The job that is run: its size, and, of the fixed plan, no rules.
Scenario job_of(const MembershipSpeeds& speeds, bool is_fixed) {
  Scenario job = speeds.sized_job();
  if (is_fixed) job.training.control.reset();
  return job;
}

/// Those of the scenario, which has a target still. Null: it does not plan anew.
ControlRules rules_of(const Scenario& scenario, const Json& replan_problem) {
  ControlRules rules;
  const auto& control = scenario.training.control;
  if (control && control->replan) rules.push_back(replan_rule(scenario, replan_problem));
  if (control && control->add_servers) rules.push_back(add_servers_rule(scenario));
  return rules;
}

/// [[key, seconds], ..]
BroadcastTimes broadcast_times(const Json& list) {
  BroadcastTimes times;
  for (const Json& one : list) times.emplace(one[0].get<std::vector<int>>(), Seconds{one[1].get<double>()});
  return times;
}

/// The "runs" of these numbers at the speeds of "memberships", given up after "gives_up_after_s", with what is known of "broadcasts":
/// their outcomes, null of those that came to other memberships, these, and broadcasts that were not known. "replan":
/// replan_problem() of a scenario that plans anew; "fixed_batch": no rules are asked.
const Verb kTrajectories{"trajectories", [](Scenario asked, const JsonReader& options) {
                           const Scenario scenario = std::move(asked);  // which rules refer to
                           const auto fixed_batch = options.maybe<int>("fixed_batch");
                           const bool is_fixed = fixed_batch.has_value();
                           MembershipSpeeds speeds{scenario, fixed_batch};
                           speeds.missing().clear();
                           for (const JsonReader& membership : options.children("memberships"))
                             speeds.keep(membership.value().at(0).get<MembershipSpeeds::Membership>(),
                                         membership.value().at(1));
                           const auto runs = options.child("runs").value().get<std::vector<std::size_t>>();
                           const Seconds limit{options.required<double>("gives_up_after_s")};
                           const Json replan = options.has("replan") ? options.child("replan").value() : Json{};
                           const BroadcastTimes broadcasts = broadcast_times(options.child("broadcasts").value());
                           options.reject_unknown_keys();
                           const ControlRules rules = is_fixed ? ControlRules{} : rules_of(scenario, replan);
                           const Scenario job = job_of(speeds, is_fixed);
                           const Site site{job};
                           const SpeedOf known = speed_of(speeds);
                           Trajectories trajectories{site, known, rules};
                           trajectories.know_broadcasts(broadcasts);
                           Json json{Json::array(), Json::array()};
                           std::set<MembershipSpeeds::Membership> missing;
                           for (const std::size_t i : runs) {
                             const Trajectory trajectory = trajectories.run(seed_of_run(job.seed, i), limit, false);
                             if (!speeds.missing().empty()) {
                               missing.merge(speeds.missing());
                               speeds.missing().clear();
                               json[0].push_back(nullptr);
                               continue;
                             }
                             RunOutcome outcome{.seed = 0,
                                                .is_finished = trajectory.is_finished,
                                                .time_s = trajectory.job.end.value(),
                                                .cost_usd = {},
                                                .energy_j = {},
                                                .interruptions = trajectory.job.interruptions,
                                                .time_use = trajectory.job.time_use,
                                                .samples = trajectory.job.samples};
                             outcome.cost_usd = split_cost(site, trajectory.job);
                             outcome.energy_j = energy_of(site, trajectory);
                             outcome.samples.dropped = dropped_samples(job, trajectory.job.done);
                             json[0].push_back(to_json(outcome));
                           }
                           for (const MembershipSpeeds::Membership& membership : missing) json[1].push_back(membership);
                           json.push_back(Json::array());
                           for (const auto& [key, time] : trajectories.known_broadcasts())
                             if (!broadcasts.contains(key)) json[2].push_back({key, time.value()});
                           return to_json_text(json);
                         }};

}  // namespace

std::uint64_t seed_of_run(std::uint64_t seed, std::size_t run) {
  constexpr std::uint64_t kExactInDouble = std::uint64_t{1} << 53U;
  return run == 0 ? seed : Rng{seed, "run " + std::to_string(run)}.below(kExactInDouble);
}

namespace {

/// What runs have in common.
struct Known {
  MembershipSpeeds speeds;
  Json broadcasts = Json::array();  // broadcast_times()
};

/// The runs of these numbers, at the speeds that are known. Gives back those that came to other memberships, which are missing now.
std::vector<std::size_t> run_at(Known& known, const std::vector<std::size_t>& runs, const Scenario& scenario,
                                const MonteCarloOptions& options, const Json& replan, MonteCarlo& result) {
  constexpr std::size_t kRunsOfJob = 25;  // at least, for their time to be more than that of reading the scenario
  const auto parallel = static_cast<std::size_t>(options.pool.parallel());
  const std::size_t chunks = std::min(
      runs.size(), std::clamp(runs.size() / kRunsOfJob, parallel, std::max(4 * parallel, options.pool.ahead())));
  std::vector<std::vector<std::size_t>> of_chunk(chunks);
  for (std::size_t i = 0; i < runs.size(); ++i) of_chunk[i % chunks].push_back(runs[i]);
  std::vector<std::size_t> again;
  std::map<std::vector<int>, Json> broadcasts;  // that were not known
  std::string problem;
  const Json memberships = known.speeds.known();
  const bool has_ended = options.pool.run(
      chunks,
      [&](std::size_t chunk) {
        Json asked{{"memberships", memberships},
                   {"broadcasts", known.broadcasts},
                   {"runs", of_chunk[chunk]},
                   {"gives_up_after_s", result.gives_up_after.value()}};
        if (options.fixed_batch) asked["fixed_batch"] = *options.fixed_batch;
        if (!replan.is_null()) asked["replan"] = replan;
        return kTrajectories.job(scenario, asked);
      },
      [&](std::size_t chunk, const PooledRun& text) {
        if (!text.has_succeeded) {
          problem = text.text;
          return;
        }
        const Json json = text.json();
        for (std::size_t k = 0; k < json[0].size(); ++k)
          if (json[0][k].is_null())
            again.push_back(of_chunk[chunk][k]);
          else
            result.runs[of_chunk[chunk][k]] = run_outcome(json[0][k]);
        for (const Json& one : json[1]) known.speeds.missing().insert(one.get<MembershipSpeeds::Membership>());
        for (const Json& one : json[2]) broadcasts.emplace(one[0].get<std::vector<int>>(), one);
      },
      options.limits);
  if (!has_ended) throw MonteCarloStopped{};
  if (!problem.empty()) throw NoResultError{problem};
  for (auto& [key, one] : broadcasts) known.broadcasts.push_back(std::move(one));
  std::ranges::sort(again);
  return again;
}

}  // namespace

MonteCarlo run_monte_carlo(const Scenario& scenario, const MonteCarloOptions& options) {
  Known known{MembershipSpeeds{scenario, options.fixed_batch}};
  MembershipSpeeds& speeds = known.speeds;
  speeds.measure(options);
  if (options.fixed_batch && !speeds.untried().empty()) throw NoResultError{speeds.untried()};
  const bool is_controlled = scenario.training.control && !options.fixed_batch;
  Json replan;
  if (is_controlled && scenario.training.control->replan) try {
      replan = replan_problem(scenario, {.pool = options.pool, .on_done = {}, .limits = options.limits});
    } catch (const ProvisionStopped&) { throw MonteCarloStopped{}; }
  const ControlRules rules = is_controlled ? rules_of(scenario, replan) : ControlRules{};
  const Scenario job = job_of(speeds, options.fixed_batch.has_value());
  MonteCarlo result;
  result.is_controlled = is_controlled;
  result.steps = job.training.steps;
  result.samples = job.training.samples;
  result.samples_per_step = speeds.samples_per_step();
  result.gives_up_after = gives_up_after(job, speeds.samples_per_s(), options.deadline);
  result.runs.assign(options.runs, {});
  // A few runs come to most memberships and broadcasts, some more to most others. Then each run is done again only if it came to a
  // membership that was not known yet.
  constexpr std::size_t kFirstRuns = 16, kTimesAsMany = 4;
  std::vector<std::size_t> pending(std::min(options.runs, kFirstRuns));
  std::iota(pending.begin(), pending.end(), std::size_t{0});
  std::size_t next = pending.size();
  while (!pending.empty()) {
    speeds.ask_between();
    speeds.measure(options);
    pending = run_at(known, pending, scenario, options, replan, result);
    if (!pending.empty() || next == options.runs) continue;
    pending.resize(std::min(options.runs - next, kTimesAsMany * next));
    std::iota(pending.begin(), pending.end(), next);
    next += pending.size();
  }
  for (std::size_t i = 0; i < result.runs.size(); ++i) result.runs[i].seed = seed_of_run(scenario.seed, i);
  std::vector<std::size_t> order(options.runs);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto time = [&](std::size_t i) {
    return result.runs[i].is_finished ? result.runs[i].time_s : std::numeric_limits<double>::infinity();
  };
  std::ranges::stable_sort(order, {}, time);
  result.sample_index = order[order.size() / 2];
  result.sample = run_trajectory(Site{job}, result.runs[result.sample_index].seed, speed_of(speeds),
                                 result.gives_up_after, true, rules);
  result.speeds = speeds.all();
  result.untried_batches = speeds.untried();
  return result;
}

}  // namespace rehearse
