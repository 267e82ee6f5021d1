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
#include "sim/plan/replan.hpp"
#include "sim/record/summary.hpp"
#include "sim/scenario/cluster_variants.hpp"
#include "sim/scenario/site.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

/// What one membership's simulation says.
struct Measured {
  double steps_per_s = 0, samples_per_s = 0;
  double numerator = 1;  // of the convergence model
  double updates = 0;    // to the target's loss
};

WorkerCounts workers_of(const Scenario& scenario, const MachineCounts& counts) {
  WorkerCounts workers;
  for (std::size_t g = 0; g < counts.size(); ++g)
    workers.push_back(std::int64_t{counts[g]} * scenario.groups[g].workers_per_machine());
  return workers;
}

/// The scenario with these machines, none of which is revoked. With what they do in their step as the full cluster it
/// is the same. `json`: Scenario::effective.
/// `times`: of each worker's batch.
Json membership_scenario(const Scenario& scenario, Json json, const MachineCounts& counts, int times) {
  for (Json& group : json["cluster"]["groups"]) keep_for_good(group);
  json = with_shares(std::move(json), scenario, workers_of(scenario, counts));
  for (std::size_t g = counts.size(); g-- > 0;)
    if (scenario.groups[g].role == Role::kWorker || scenario.groups[g].is_standby)
      json = with_machines(std::move(json), g, counts[g]);
  const auto multiply = [times](Json& of) {
    if (of.contains("batch_per_worker")) of["batch_per_worker"] = of["batch_per_worker"].get<int>() * times;
  };
  multiply(json["workload"]);
  for (Json& group : json["cluster"]["groups"]) multiply(group);
  Json& training = json["training"];
  for (const char* key : {"checkpoint", "recovery", "target", "start_interval", "control"}) training.erase(key);
  for (const char* key : kJobSizes) training.erase(key);
  training["warmup_steps"] = 5;
  training["steps_per_worker"] = scenario.training.step_time_variation > 0 ? 100 : 25;
  return json;
}

double loss_numerator_of(const Scenario& scenario, const Summary& summary) {
  ConvergenceCluster cluster{.workers = 0, .weighted_batch = summary.samples_per_s / summary.steps_per_s, .spread = 0};
  std::vector<double> speeds;
  for (const MachineSummary& machine : summary.machines) {
    cluster.workers += machine.workers;
    for (int i = 0; i < machine.workers; ++i) speeds.push_back(machine.samples_per_s / machine.workers);
  }
  cluster.spread = speed_spread(speeds);
  if (const auto numerator = loss_numerator(*scenario.convergence, cluster)) return *numerator;
  throw NoResultError{"the convergence model does not hold for " + std::to_string(cluster.workers) + " workers"};
}

/// To the target's loss; throws NoResultError if they have more than 1e18 samples, as many as a target may state.
double updates_of(const Scenario& scenario, const Summary& summary) {
  constexpr double kMostSamples = 1e18;
  const double updates = forecast_updates(scenario, summary);
  if (updates * std::max(1.0, summary.samples_per_s / summary.steps_per_s) <= kMostSamples) return updates;
  throw scenario.no_result(
      RunError{"/training/target/loss", "takes " + to_text(updates) + " updates: expected at most 1e18 samples"});
}

/// One membership's speed. Options: "loss" of the target.
const Verb kMembership{"membership", [](Scenario scenario, const JsonReader& options) {
                         const auto loss = options.maybe<double>("loss");
                         options.reject_unknown_keys();
                         const Summary summary = summarize(scenario, simulate(scenario));
                         Json result{summary.steps_per_s, summary.samples_per_s, 1.0, 0.0};
                         if (loss) {
                           result[2] = loss_numerator_of(scenario, summary);
                           scenario.training.target = TrainingTarget{.loss = loss, .samples = {}};
                           result[3] = updates_of(scenario, summary);
                         }
                         return to_json_text(result);
                       }};

/// Memberships that have been simulated, each with a multiple of the scenario's batches. Those that are asked for besides are missing.
class Speeds {
 public:
  using Membership = std::pair<MachineCounts, int>;

  /// `fixed_batch`: MonteCarloOptions; none: that of ElasticBatch, if the scenario has it.
  Speeds(Scenario scenario, std::optional<int> fixed_batch)
      : scenario_{std::move(scenario)}, batches_{fixed_batch ? std::vector{*fixed_batch} : elastic_batches(scenario_)} {
    for (const Group& group : scenario_.groups)
      reference_.push_back(group.role == Role::kWorker && group.is_there_from_the_start() ? group.count : 0);
    missing_.insert({reference_, 1});
    for (const int times : batches_) missing_.insert({reference_, times});
  }

  /// The scenario with the samples and steps that its target takes, in place of that.
  Scenario sized_job() const {
    Scenario job = scenario_;
    const auto& target = scenario_.training.target;
    if (!target) return job;
    const double batch = samples_per_step();
    const double updates = std::max(1.0, std::ceil(target->samples ? *target->samples / batch : reference().updates));
    job.training.steps = static_cast<std::int64_t>(updates);
    job.training.samples = static_cast<std::int64_t>(std::ceil(target->samples ? *target->samples : updates * batch));
    job.training.target.reset();
    return job;
  }

  /// Of the full cluster.
  double samples_per_s() const { return speed({reference_, 1}, reference(), 0).samples_per_s(); }
  double samples_per_step() const { return speed({reference_, 1}, reference(), 0).samples_per_update; }

  /// A membership that has not been simulated yet is remembered as missing, and goes at the reference's speed per
  /// machine meanwhile.
  TrainingSpeed operator()(const MachineCounts& counts, double share_done) {
    bool is_known = true;
    TrainingSpeed best;
    for (const int times : batches_)
      if (const auto found = measured_.find({counts, times}); found == measured_.end()) {
        missing_.insert({counts, times});
        is_known = false;
      } else if (const TrainingSpeed of = speed(found->first, found->second, share_done);
                 of.samples_per_s() > best.samples_per_s()) {
        best = of;
      }
    if (is_known) return best;
    const auto machines = [](const MachineCounts& some) { return std::accumulate(some.begin(), some.end(), 0.0); };
    TrainingSpeed guess = speed({reference_, 1}, reference(), share_done);
    const double share = machines(counts) / machines(reference_);
    const bool keeps_updates = scenario_.training.strategy.is_synchronous() &&
                               scenario_.training.smaller_cluster == SmallerCluster::kKeepsBatchPerWorker;
    (keeps_updates ? guess.samples_per_update : guess.updates_per_s) *= share;
    return guess;
  }

  std::set<Membership>& missing() { return missing_; }
  /// Why larger batches are not tried; empty: all could be simulated.
  const std::string& untried() const { return untried_; }

  /// Asks for what lies between those that are known, where the machines of one group change and these are many: nearly every run
  /// would come to one of the few that are not known, and be done again. One that cannot be simulated matters only to a run that
  /// comes to it.
  void ask_between() {
    constexpr std::size_t kMany = 100;
    std::set<MachineCounts> all;
    for (const auto& [counts, times] : missing_) all.insert(counts);
    for (const auto& [membership, measured] : measured_) all.insert(membership.first);
    if (all.size() < kMany) return;
    MachineCounts least = *all.begin(), most = least;
    for (const MachineCounts& counts : all)
      for (std::size_t g = 0; g < counts.size(); ++g) {
        least[g] = std::min(least[g], counts[g]);
        most[g] = std::max(most[g], counts[g]);
      }
    const auto changing = std::ranges::mismatch(least, most).in1;
    if (changing == least.end() ||
        !std::equal(changing + 1, least.end(), most.begin() + (changing + 1 - least.begin())))
      return;
    const int last = most[static_cast<std::size_t>(changing - least.begin())];
    if (static_cast<std::size_t>(last - *changing) > 2 * all.size()) return;
    for (MachineCounts& counts = least; *changing < last; ++*changing)
      for (const int times : batches_) {
        const Membership between{counts, times};
        if (measured_.contains(between) || missing_.contains(between) || !guessed_.insert(between).second) continue;
        missing_.insert(between);
        guesses_.insert(between);
      }
  }

  /// Simulates those that are missing.
  void measure(const MonteCarloOptions& options) {
    std::vector<Membership> list;
    std::vector<std::string> keys;  // of options.known
    const std::set<Membership> guesses = std::exchange(guesses_, {});
    for (const Membership& membership : std::exchange(missing_, {})) {
      if (options.known != nullptr) {
        std::string key = key_of(membership);
        if (const auto found = options.known->find(key); found != options.known->end()) {
          keep(membership, parse_json(found->second, "membership"));
          continue;
        }
        keys.push_back(std::move(key));
      }
      list.push_back(membership);
    }
    std::string problem;
    const bool is_complete = options.pool.run(
        list.size(), [&](std::size_t i) { return job_of(list[i]); },
        [&](std::size_t i, const PooledRun& result) {
          if (!result.has_succeeded) {
            if (list[i].second > 1)
              leave_out(list[i], result.text);
            else if (!guesses.contains(list[i]))
              problem = result.text;
            return;
          }
          keep(list[i], parse_json(result.text, "membership"));
          if (options.known != nullptr) options.known->emplace(std::move(keys[i]), result.text);
          if (options.on_progress) options.on_progress(measured_.size(), measured_.size() + list.size() - i - 1);
        },
        options.limits);
    if (!is_complete) throw MonteCarloStopped{};
    if (!problem.empty()) throw NoResultError{"a part of the cluster cannot be simulated: " + problem};
  }

  /// What keep() took, for another process: [[membership, measured], ..].
  Json known() const {
    Json list = Json::array();
    for (const auto& [membership, of] : measured_)
      list.push_back({membership, {of.steps_per_s, of.samples_per_s, of.numerator, of.updates}});
    return list;
  }
  void keep(const Membership& membership, const Json& json) {
    measured_[membership] = {json[0].get<double>(), json[1].get<double>(), json[2].get<double>(),
                             json[3].get<double>()};
  }

  /// With the scenario's batches, at the start.
  std::map<MachineCounts, double> all() const {
    std::map<MachineCounts, double> speeds;
    const double reference = samples_per_step();
    for (const auto& [membership, measured] : measured_) {
      if (membership.second > 1) continue;
      const TrainingSpeed of = speed(membership, measured, 0);
      speeds[membership.first] = of.updates_per_s * (of.samples_per_update / reference);
    }
    return speeds;
  }

 private:
  const Measured& reference() const { return measured_.at({reference_, 1}); }

  /// It is never chosen.
  void leave_out(const Membership& membership, const std::string& reason) {
    measured_[membership] = {};
    if (untried_.empty() || membership.second < untried_from_) {
      untried_from_ = membership.second;
      untried_ = "elastic_batch: batches of " + std::to_string(membership.second) +
                 " times the scenario's are not tried: " + reason;
    }
  }

  std::string key_of(const Membership& membership) const {
    Json json = membership_scenario(scenario_, effective_, membership.first, membership.second);
    json.erase("name");
    const auto& target = scenario_.training.target;
    return Json{target && target->loss ? Json(*target->loss) : Json{}, std::move(json)}.dump();
  }

  std::string job_of(const Membership& membership) const {
    Json options = Json::object();
    if (const auto& target = scenario_.training.target; target && target->loss) options["loss"] = *target->loss;
    return kMembership.job(membership_scenario(scenario_, effective_, membership.first, membership.second),
                           scenario_.file_name, options);
  }

  /// Synchronous steps have the samples that they have; of others, those that the membership has done in a step.
  TrainingSpeed speed(const Membership& membership, const Measured& measured, double share_done) const {
    const auto& target = scenario_.training.target;
    const auto batch = [this](const MachineCounts& some, const Measured& of) {
      return is_known_ ? samples_per_update(scenario_, workers_of(scenario_, some)) : of.samples_per_s / of.steps_per_s;
    };
    const MachineCounts& counts = membership.first;
    if (const auto& control = scenario_.training.control; control && control->elastic_batch)
      return speed_by_noise(*control->elastic_batch, membership, measured.steps_per_s, share_done);
    if (!target || !target->loss) return {measured.steps_per_s, batch(counts, measured)};
    return {measured.steps_per_s, batch(reference_, reference()) * reference().numerator / measured.numerator};
  }

  TrainingSpeed speed_by_noise(const ElasticBatch& rule, const Membership& membership, double steps_per_s,
                               double share_done) const {
    constexpr double kRounding = 1e-9;  // of shares at which a phase begins
    const auto after = std::ranges::find_if(
        rule.phases, [&](const ElasticBatch::Phase& phase) { return phase.from > share_done + kRounding; });
    const double noise = std::prev(after)->noise_scale;
    const double full = samples_per_update(scenario_, workers_of(scenario_, reference_));
    const double samples = samples_per_update(scenario_, workers_of(scenario_, membership.first)) * membership.second;
    return {.updates_per_s = steps_per_s,
            .samples_per_update = samples * ((noise + full) / (noise + samples)),
            .batch = membership.second,
            .until = after == rule.phases.end() ? 1 : after->from};
  }

  Scenario scenario_;
  std::vector<int> batches_;  // that are tried
  Json effective_ = parse_json(scenario_.effective, scenario_.name);
  /// Samples of an update follow from who trains, not from how fast each is.
  bool is_known_ = scenario_.training.strategy.is_synchronous() || !has_unequal_batches(scenario_);
  MachineCounts reference_;
  std::map<Membership, Measured> measured_;
  std::set<Membership> missing_;
  std::set<Membership> guesses_;  // of them, those that no run has asked for
  std::set<Membership> guessed_;  // those that ever were
  std::string untried_;
  int untried_from_ = 0;
};

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

SpeedOf speed_of(Speeds& speeds) {
  return [&](const MachineCounts& counts, double share_done) { return speeds(counts, share_done); };
}

/// The job that is run: its size, and, of the fixed plan, no rules.
Scenario job_of(const Speeds& speeds, bool is_fixed) {
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
                           Speeds speeds{scenario, fixed_batch};
                           speeds.missing().clear();
                           for (const JsonReader& membership : options.children("memberships"))
                             speeds.keep(membership.value().at(0).get<Speeds::Membership>(), membership.value().at(1));
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
                           std::set<Speeds::Membership> missing;
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
                                                .interruptions = trajectory.job.interruptions,
                                                .time_use = trajectory.job.time_use,
                                                .samples = trajectory.job.samples};
                             outcome.cost_usd = split_cost(site, trajectory.job);
                             outcome.samples.dropped = dropped_samples(job, trajectory.job.done);
                             json[0].push_back(to_json(outcome));
                           }
                           for (const Speeds::Membership& membership : missing) json[1].push_back(membership);
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
  Speeds speeds;
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
        const Json json = parse_json(text.text, "runs");
        for (std::size_t k = 0; k < json[0].size(); ++k)
          if (json[0][k].is_null())
            again.push_back(of_chunk[chunk][k]);
          else
            result.runs[of_chunk[chunk][k]] = run_outcome(json[0][k]);
        for (const Json& one : json[1]) known.speeds.missing().insert(one.get<Speeds::Membership>());
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
  Known known{Speeds{scenario, options.fixed_batch}};
  Speeds& speeds = known.speeds;
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
