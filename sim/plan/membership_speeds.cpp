#include "sim/plan/membership_speeds.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/base/errors.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/job/simulate.hpp"
#include "sim/record/energy.hpp"
#include "sim/record/summary.hpp"
#include "sim/scenario/cluster_variants.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

WorkerCounts workers_of(const Scenario& scenario, const MachineCounts& counts) {
  WorkerCounts workers;
  for (std::size_t g = 0; g < counts.size(); ++g)
    workers.push_back(std::int64_t{counts[g]} * scenario.groups[g].workers_per_machine());
  return workers;
}

/// The scenario with these machines, none of which is revoked. With what they do in their step as the full cluster it
/// is the same. `json`: Scenario::effective; `times`: of each worker's batch.
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
                         const RunRecord record = simulate(scenario);
                         const Summary summary = summarize(scenario, record);
                         Json result{summary.steps_per_s, summary.samples_per_s, 1.0, 0.0, nullptr};
                         if (summary.energy) {
                           double rest = 0;
                           for (const Machine& machine : record.machines) rest += rest_power(scenario, machine);
                           result[4] = summary.energy->all_power_w - rest;
                         }
                         if (loss) {
                           result[2] = loss_numerator_of(scenario, summary);
                           scenario.training.target = TrainingTarget{.loss = loss, .samples = {}};
                           result[3] = updates_of(scenario, summary);
                         }
                         return to_json_text(result);
                       }};

}  // namespace

MembershipSpeeds::MembershipSpeeds(Scenario scenario, std::optional<int> fixed_batch)
    : scenario_{std::move(scenario)},
      batches_{fixed_batch ? std::vector{*fixed_batch} : elastic_batches(scenario_)},
      is_known_{scenario_.training.strategy.is_synchronous() || !has_unequal_batches(scenario_)} {
  for (const Group& group : scenario_.groups)
    reference_.push_back(group.role == Role::kWorker && group.is_there_from_the_start() ? group.count : 0);
  missing_.insert({reference_, 1});
  for (const int times : batches_) missing_.insert({reference_, times});
}

Scenario MembershipSpeeds::sized_job() const {
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

TrainingSpeed MembershipSpeeds::operator()(const MachineCounts& counts, double share_done) {
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

void MembershipSpeeds::ask_between() {
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
  if (changing == least.end() || !std::equal(changing + 1, least.end(), most.begin() + (changing + 1 - least.begin())))
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

void MembershipSpeeds::measure(const MonteCarloOptions& options) {
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
        keep(list[i], result.json());
        if (options.known != nullptr) options.known->emplace(std::move(keys[i]), result.text);
        if (options.on_progress) options.on_progress(measured_.size(), measured_.size() + list.size() - i - 1);
      },
      options.limits);
  if (!is_complete) throw MonteCarloStopped{};
  if (!problem.empty()) throw NoResultError{"a part of the cluster cannot be simulated: " + problem};
}

Json MembershipSpeeds::known() const {
  Json list = Json::array();
  for (const auto& [membership, of] : measured_)
    list.push_back({membership,
                    {of.steps_per_s, of.samples_per_s, of.numerator, of.updates,
                     of.above_rest_w ? Json(*of.above_rest_w) : Json(nullptr)}});
  return list;
}

void MembershipSpeeds::keep(const Membership& membership, const Json& json) {
  measured_[membership] = {json[0].get<double>(), json[1].get<double>(), json[2].get<double>(), json[3].get<double>(),
                           json[4].is_number() ? std::optional{json[4].get<double>()} : std::nullopt};
}

std::map<MachineCounts, double> MembershipSpeeds::all() const {
  std::map<MachineCounts, double> speeds;
  const double reference = samples_per_step();
  for (const auto& [membership, measured] : measured_) {
    if (membership.second > 1) continue;
    const TrainingSpeed of = speed(membership, measured, 0);
    speeds[membership.first] = of.updates_per_s * (of.samples_per_update / reference);
  }
  return speeds;
}

/// It is never chosen.
void MembershipSpeeds::leave_out(const Membership& membership, const std::string& reason) {
  measured_[membership] = {};
  if (untried_.empty() || membership.second < untried_from_) {
    untried_from_ = membership.second;
    untried_ = "elastic_batch: batches of " + std::to_string(membership.second) +
               " times the scenario's are not tried: " + reason;
  }
}

Json MembershipSpeeds::scenario_of(const Membership& membership) const {
  return membership_scenario(scenario_, *scenario_.effective, membership.first, membership.second);
}

std::string MembershipSpeeds::key_of(const Membership& membership) const {
  Json json = scenario_of(membership);
  json.erase("name");
  const auto& target = scenario_.training.target;
  return Json{target && target->loss ? Json(*target->loss) : Json{}, std::move(json)}.dump();
}

PoolJob MembershipSpeeds::job_of(const Membership& membership) const {
  Json options = Json::object();
  if (const auto& target = scenario_.training.target; target && target->loss) options["loss"] = *target->loss;
  return kMembership.job(scenario_of(membership), scenario_.file_name, options);
}

TrainingSpeed MembershipSpeeds::speed(const Membership& membership, const Measured& measured, double share_done) const {
  TrainingSpeed of = progress(membership, measured, share_done);
  of.above_rest_w = measured.above_rest_w.value_or(0);
  return of;
}

/// Synchronous steps have the samples that they have; of others, those that the membership has done in a step.
TrainingSpeed MembershipSpeeds::progress(const Membership& membership, const Measured& measured,
                                         double share_done) const {
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

TrainingSpeed MembershipSpeeds::speed_by_noise(const ElasticBatch& rule, const Membership& membership,
                                               double steps_per_s, double share_done) const {
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

}  // namespace rehearse
