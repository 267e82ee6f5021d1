#include "sim/plan/provision_run.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/scenario/cluster_variants.hpp"
#include "sim/scenario/refusals.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/step_time.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

constexpr int kStepsAlone = 20;      // of a lone worker, after its warm-up
constexpr int kSimulatedSteps = 25;  // of the slowest worker of a plan, after its warm-up
constexpr int kMostInFit = 24;       // workers of a cluster that is simulated for the closed form's contention

std::string price_key(Market market) {
  return market == Market::kSpot ? "usd_per_hour_spot" : "usd_per_hour_on_demand";
}

/// Machines that are rented on demand are not revoked.
void set_market(Json& group, PriceSource source) {
  if (source != PriceSource::kCatalog) group["market"] = source == PriceSource::kSpot ? "spot" : "on-demand";
  if (group.value("market", Json{}) != "spot") keep_for_good(group);
}

/// Plans need not have the group that was to replace this one.
void replace_by_its_like(Json& group) {
  if (!group.contains("replacement") || !group["replacement"].is_object()) return;
  if (Json& replacement = group["replacement"]; replacement.value("with", Json{"none"}) != "none")
    replacement.erase("with");
}

/// The list price of an effective group's market.
void set_price(Json& group, const std::optional<double>& usd_per_hour) {
  if (!usd_per_hour) return;
  Json& instance = group["instance"];
  instance[price_key(group["market"] == "spot" ? Market::kSpot : Market::kOnDemand)] = *usd_per_hour;
  if (!instance.contains("prices")) return;
  Json others = Json::array();  // those of a region would go before
  for (const Json& price : instance["prices"])
    if (price["market"] != group["market"]) others.push_back(price);
  instance["prices"] = std::move(others);
}

class Preparation {
 public:
  Preparation(const ProvisionRequest& request, const Catalog& catalog, const SimulationMeans& means)
      : request_{request}, catalog_{catalog}, means_{means} {}

  ProvisionCase prepare() {
    result_.file_name = request_.scenario_file;
    split_scenario();
    std::vector<Scenario> alone = read_candidates();
    if (alone.empty()) {
      std::string reasons;
      for (const std::string& reason : result_.dropped) reasons += (reasons.empty() ? "" : "; ") + reason;
      throw NoResultError{request_.scenario_file + ": no candidate can run: " + reasons};
    }
    fill_model(alone);
    check_objective();
    profile(alone);
    fit_contention();
    return std::move(result_);
  }

 private:
  void split_scenario() {
    base_ = *request_.scenario;
    const JsonReader json{base_, request_.scenario_file, "", &request_.origins};
    const JsonReader cluster = json.child("cluster");
    check_combinations_of("provision", json);
    Json servers = Json::array();
    origins_ = request_.origins;
    for (const JsonReader& group : cluster.children("groups")) {
      if (group.optional<std::string>("role", "") != "worker") {
        origins_.add("/cluster/groups/" + std::to_string(servers.size()), group.place());
        servers.push_back(group.value());
      } else if (template_.is_null()) {
        template_ = group.value();
        template_place_ = group.place();
      }
    }
    if (template_.is_null())
      cluster.fail("groups", "expected a group of workers, the pattern of all candidates; found none");
    for (const char* key : {"count", "joins_at", "leaves_at"}) template_.erase(key);
    base_["cluster"]["groups"] = servers;
    if (base_.contains("training") && base_["training"].is_object()) {
      for (const char* key : kJobSizes) base_["training"].erase(key);
      for (const char* key : {"target", "control"}) base_["training"].erase(key);
    }
  }

  /// The base with one machine of a candidate.
  Json with_group(const Json& group) const {
    Json json = base_;
    json["cluster"]["groups"].push_back(group);
    if (Json& training = json["training"]; training.is_object()) {
      training["steps"] = 1;
      if (training.contains("recovery") && training["recovery"].is_object())
        training["recovery"].erase("minimum_workers");
    }
    return json;
  }

  /// Where the fields of with_group() come from.
  JsonOrigins origins_with(const ProvisionCandidate& candidate) const {
    JsonOrigins origins = origins_;
    const std::string group = "/cluster/groups/" + std::to_string(base_["cluster"]["groups"].size());
    origins.add(group, template_place_);
    if (candidate.place.empty()) return origins;
    const bool is_option = candidate.place.starts_with("--");
    for (const auto& [key, value] : candidate.group->items())
      origins.add(extend_json_pointer(group, key),
                  candidate.place + (is_option           ? ""
                                     : key == "instance" ? "/instance"
                                                         : extend_json_pointer("/group", key)));
    return origins;
  }

  /// One machine of each candidate that can run, with the servers.
  std::vector<Scenario> read_candidates() {
    std::vector<Scenario> scenarios;
    for (const ProvisionCandidate& candidate : request_.candidates) {
      if (candidate.quota == 0) continue;
      Json group = template_;
      group.update(*candidate.group);
      for (const char* key : {"count", "joins_at", "leaves_at", "standby"}) group.erase(key);
      group["name"] = candidate.name;
      set_market(group, request_.price);
      replace_by_its_like(group);
      const Json one = with_group(group);
      const JsonOrigins origins = origins_with(candidate);
      check_combinations_of("provision: candidate", JsonReader{one, request_.scenario_file, "", &origins});
      Scenario scenario;
      try {
        scenario = read_scenario(one, request_.scenario_file, catalog_, origins);
        if (scenarios.empty()) check_training(scenario);
      } catch (const NoResultError& error) {
        if (candidate.existing > 0) throw;
        result_.dropped.push_back(candidate.name + ": " + error.what());
        continue;
      }
      const Json& groups = scenario.effective->at("cluster").at("groups");
      if (scenarios.empty()) keep_servers(groups);
      Json effective = groups.back();
      set_price(effective, candidate.usd_per_hour);
      const bool is_spot = effective["market"] == "spot";
      const Group& workers = scenario.groups.back();
      const auto price = [&](bool of_spot) {
        return scenario.costs.usd_per_hour(workers.instance, of_spot, workers.zone, Seconds{}, request_.deadline);
      };
      const auto usd = candidate.usd_per_hour ? candidate.usd_per_hour : price(is_spot);
      if (!usd)
        throw InputError{(candidate.place.empty() ? workers.place : candidate.place) + ": the catalogs have no " +
                         (is_spot ? "spot" : "on-demand") +
                         " price of it: give \"usd_per_hour\" in a provision file, or another price source"};
      result_.problem.offers.push_back({.name = candidate.name,
                                        .worker = {.gpus = workers.gpus_per_worker,
                                                   .batch = static_cast<double>(workers.batch) *
                                                            scenario.training.strategy.exchange.accumulation_steps},
                                        .workers = workers.workers_per_machine(),
                                        .usd_per_hour = *usd,
                                        .quota = candidate.quota,
                                        .existing = candidate.existing});
      result_.on_demand_usd_per_hour.push_back(is_spot ? price(false) : usd);
      result_.groups.push_back(share(std::move(effective)));
      result_.is_revocable.push_back(workers.pool || workers.replay);
      result_.step_sources.insert(step_sources(scenario));
      if (scenario.profile.uncertainty.residual > 0) {
        const auto [low, high] = scenario.profile.uncertainty.interval(0);
        auto& [lowest, highest] = result_.speed_interval;
        lowest = std::min(lowest, low);
        highest = std::max(highest, high);
      }
      scenarios.push_back(std::move(scenario));
    }
    return scenarios;
  }

  /// Those of a scenario's effective groups, with their prices.
  void keep_servers(const Json& groups) {
    base_["cluster"]["groups"] = Json::array();
    for (std::size_t i = 0; i + 1 < groups.size(); ++i) {
      Json group = groups[i];
      set_price(group, request_.server_usd_per_hour);
      base_["cluster"]["groups"].push_back(std::move(group));
    }
  }

  void check_training(const Scenario& scenario) const {
    if (!scenario.convergence)
      throw InputError{request_.scenario_file + ": /workload: " + no_convergence_message(scenario.model)};
  }

  void fill_model(const std::vector<Scenario>& alone) {
    const Scenario& scenario = alone.front();
    ProvisionProblem& problem = result_.problem;
    problem.convergence = *scenario.convergence;
    problem.workload.parameters =
        Bytes{(scenario.workload.variable_bytes().value() + scenario.workload.parameter_bytes().value()) / 2};
    int servers = 0;
    BytesPerSecond all{}, connections{};
    for (const Group& group : scenario.groups) {
      if (group.role != Role::kParameterServer) continue;
      servers += group.count;
      const BytesPerSecond nic =
          group.instance.all_nics() * scenario.profile.network.nic_efficiency_for(group.instance.name);
      BytesPerSecond rate = nic;
      if (scenario.profile.servers.time_per_byte > Seconds{})
        rate = std::min(rate, BytesPerSecond{scenario.profile.servers.serving(1, group.instance.vcpus) /
                                             scenario.profile.servers.time_per_byte.value()});
      all += rate * group.count;
      connections += nic * group.count;
    }
    double usd = 0, on_demand_usd = 0;
    bool has_on_demand = true;
    for (const Group& group : scenario.groups) {
      if (group.role != Role::kParameterServer) continue;
      const auto price = [&](bool of_spot) {
        return scenario.costs.usd_per_hour(group.instance, of_spot, group.zone, Seconds{}, request_.deadline);
      };
      const bool is_spot = group.market == Market::kSpot;
      const auto own = request_.server_usd_per_hour ? request_.server_usd_per_hour : price(is_spot);
      const auto on_demand = is_spot ? price(false) : own;
      if (!own)
        throw InputError{group.place + ": the catalogs have no price of its market for " +
                         in_quotes(group.instance.name) + ": give \"server_usd_per_hour\" in a provision file"};
      usd += *own * group.count;
      on_demand_usd += on_demand.value_or(0) * group.count;
      has_on_demand = has_on_demand && on_demand.has_value();
    }
    if (has_on_demand) result_.fixed_on_demand_usd_per_hour = on_demand_usd;
    BytesPerSecond fastest{};  // of any candidate
    for (const Scenario& each : alone) {
      const Group& workers = each.groups.back();
      BytesPerSecond rate = std::min(
          connections, workers.instance.all_nics() * each.profile.network.nic_efficiency_for(workers.instance.name));
      for (const RegionLink& link : each.links) {
        const bool is_ours = link.from == workers.region || link.to == workers.region;
        if (is_ours && link.per_flow_rate)
          rate = std::min(rate, *link.per_flow_rate * each.profile.network.flow_efficiency * servers);
      }
      fastest = std::max(fastest, rate);
    }
    problem.workload.required_bandwidth = request_.required_bandwidth.value_or(fastest);
    problem.workload.contention = request_.contention.value_or(Contention{});
    problem.server.bandwidth = request_.server_bandwidth.value_or(all);
    problem.server.pcie = request_.pcie.value_or(problem.server.pcie);
    problem.objective = {.loss = request_.loss,
                         .deadline = request_.deadline,
                         .loss_so_far = request_.loss_so_far,
                         .updates_so_far = request_.updates_so_far,
                         .takeover = request_.takeover,
                         .fixed_usd_per_hour = usd};
  }

  /// Calls `use` with the clusters within the range that the least training takes: with the smallest A.
  template <class Use>
  void for_smallest_clusters(Use use) const {
    const Convergence& model = result_.problem.convergence;
    for (const MachineOffer& offer : result_.problem.offers) {
      const ConvergenceCluster cluster{
          .workers = model.workers.first,
          .weighted_batch = std::clamp(offer.worker.batch, model.weighted_batch.first, model.weighted_batch.second),
          .spread = 0};
      if (loss_numerator(model, cluster)) use(cluster);
    }
  }

  /// What the loss model has not been fitted for is refused here.
  void check_objective() const {
    const ProvisionProblem& problem = result_.problem;
    const Convergence& model = problem.convergence;
    double least = std::numeric_limits<double>::infinity(), largest = 0;
    for (const MachineOffer& offer : problem.offers) {
      least = std::min(least, offer.worker.batch);
      largest = std::max(largest, offer.worker.batch);
    }
    const auto& [from, to] = model.weighted_batch;
    if (least > to || largest < from)
      throw InputError{
          request_.scenario_file +
          ": /workload/convergence/weighted_batch: no mix of the candidates has a weighted batch for which "
          "the loss model was fitted: expected " +
          to_text(from) + " to " + to_text(to) + " samples; found " + to_text(least) + " to " + to_text(largest)};
    // The lowest loss that any cluster within the range starts from.
    double start = std::numeric_limits<double>::infinity();
    for_smallest_clusters(
        [&](const ConvergenceCluster& cluster) { start = std::min(start, loss_after(model, cluster, 0)); });
    const auto expect = [&](const char* what, double loss) {
      if (loss > model.floor && loss < start) return;
      throw InputError{std::string{what} + ": expected a loss above " + to_text(model.floor) +
                       ", the floor of the loss model, and below " + to_text(std::round(start * 1e4) / 1e4) +
                       ", where its training starts; found " + to_text(loss)};
    };
    expect("--target-loss", problem.objective.loss);
    if (problem.objective.updates_so_far > 0) {
      double all = std::numeric_limits<double>::infinity();
      for_smallest_clusters([&](const ConvergenceCluster& cluster) {
        all = std::min(all, std::floor(updates_to_loss(model, cluster, problem.objective.loss)));
      });
      if (!(problem.objective.updates_so_far < all))
        throw InputError{"--updates-done: expected fewer than the " + to_text(all) +
                         " that the smallest cluster takes to a loss of " + to_text(problem.objective.loss) +
                         "; found " + to_text(problem.objective.updates_so_far)};
    }
    if (!problem.objective.loss_so_far) return;
    if (!(*problem.objective.loss_so_far > problem.objective.loss))
      throw InputError{"--current-loss: expected one above the target of " + to_text(problem.objective.loss) +
                       "; found " + to_text(*problem.objective.loss_so_far)};
  }

  /// Without progress: they are few.
  std::vector<PooledRun> runs_of(const Experiment& experiment) const {
    auto runs = experiment.run({.pool = means_.pool, .on_done = {}, .limits = means_.limits});
    if (!runs) throw ProvisionStopped{};
    return std::move(*runs);
  }

  /// The step of a lone worker of each candidate.
  void profile(const std::vector<Scenario>& alone) {
    const Experiment experiment{alone.size(), [&](std::size_t i) {
                                  const std::int64_t steps = alone[i].training.warmup_steps + kStepsAlone;
                                  return kSimulate.job(alone[i], {{"has_revocations", false},
                                                                  {"steps", alone[i].groups.back().workers() * steps}});
                                }};
    const std::vector<PooledRun> runs = runs_of(experiment);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      MachineOffer& offer = result_.problem.offers[i];
      if (!runs[i].has_succeeded)
        throw NoResultError{request_.scenario_file + ": one worker alone: " + offer.name + ": " + runs[i].text};
      offer.worker.step_alone = Seconds{runs[i].json()["iteration_time_s"].get<double>()};
    }
    base_["training"].erase("steps");
    result_.base = share(base_);
  }

  /// As many machines of each candidate as of the others, as far as quotas allow, until there are `workers`.
  std::vector<int> mixed_counts(int workers) const {
    const std::vector<MachineOffer>& offers = result_.problem.offers;
    std::vector<int> counts(offers.size());
    int chosen = 0;
    for (bool has_grown = true; has_grown && chosen < workers;) {
      has_grown = false;
      for (std::size_t i = 0; i < offers.size() && chosen < workers; ++i) {
        if (counts[i] >= offers[i].quota) continue;
        ++counts[i];
        chosen += offers[i].workers;
        has_grown = true;
      }
    }
    return counts;
  }

  /// Share P of the time for which workers share the servers' bandwidth, so that the closed form does as many updates
  /// per second as were simulated.
  double contention_of(const MachinePlan& plan, double updates_per_s) const {
    const ProvisionProblem& problem = result_.problem;
    ProvisionProblem trial = problem;
    double low = 0, high = 1;
    for (int i = 0; i < 40; ++i) {
      trial.workload.contention = {.slope = 0, .intercept = (low + high) / 2};
      const bool is_slower = evaluate_plan(trial, plan.counts).updates_per_s < updates_per_s;
      (is_slower ? high : low) = trial.workload.contention.intercept;
    }
    return (low + high) / 2;
  }

  /// P = slope sqrt(n) + intercept, by least squares, from simulations of mixed clusters of three sizes n that have
  /// more workers than the servers' bandwidth serves at a time. Without such, P does not matter.
  void fit_contention() {
    ProvisionProblem& problem = result_.problem;
    if (request_.contention) return;
    int most = 0;
    for (const MachineOffer& offer : problem.offers) most += offer.quota * offer.workers;
    most = std::min(most, kMostInFit);
    const double least = std::floor(problem.server.bandwidth / problem.workload.required_bandwidth) + 1;
    if (least > most) return;
    std::vector<MachinePlan> plans;
    std::vector<Json> scenarios;
    for (const double size : {least, std::round(std::sqrt(least * most)), static_cast<double>(most)}) {
      plans.push_back(evaluate_plan(problem, mixed_counts(static_cast<int>(size))));
      Json scenario = scenario_of(result_, plans.back());
      scenario["training"].erase("target");
      for (Json& group : scenario["cluster"]["groups"]) keep_for_good(group);
      scenarios.push_back(std::move(scenario));
    }
    const std::vector<PooledRun> runs =
        runs_of({plans.size(), [&](std::size_t i) {
                   return kSimulate.job(read_scenario(scenarios[i], result_.file_name, catalog_));
                 }});
    std::vector<std::pair<double, double>> points;  // sqrt(n), P
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (!runs[i].has_succeeded) return;  // always shared: no plan is thought to be faster than it is
      const auto speed = runs[i].json()["steps_per_s"].get<double>();
      points.emplace_back(std::sqrt(plans[i].workers), contention_of(plans[i], speed));
    }
    double x = 0, y = 0, xx = 0, xy = 0;
    for (const auto& [root, share] : points) {
      x += root / 3;
      y += share / 3;
      xx += root * root / 3;
      xy += root * share / 3;
    }
    const double variance = xx - x * x;
    const double slope = variance > 1e-9 ? std::max(0.0, (xy - x * y) / variance) : 0;
    problem.workload.contention = {.slope = slope, .intercept = y - slope * x};
  }

  const ProvisionRequest& request_;
  const Catalog& catalog_;
  const SimulationMeans& means_;
  Json base_;
  JsonOrigins origins_;
  Json template_;  // the first group of workers
  std::string template_place_;
  ProvisionCase result_;
};

}  // namespace

ProvisionCase prepare_provision(const ProvisionRequest& request, const Catalog& catalog, const SimulationMeans& means) {
  return Preparation{request, catalog, means}.prepare();
}

Json scenario_of(const ProvisionCase& provision, const MachinePlan& plan) {
  const ProvisionProblem& problem = provision.problem;
  Json json = *provision.base;
  json["name"] = plan_text(problem, plan.counts);
  double slowest = 0;
  for (std::size_t i = 0; i < plan.counts.size(); ++i) {
    if (plan.counts[i] == 0) continue;
    Json group = *provision.groups[i];
    group["count"] = plan.counts[i];
    json["cluster"]["groups"].push_back(std::move(group));
    slowest = std::max(slowest, problem.offers[i].worker.step_alone.value());
  }
  const Json* warmup = json_pointer_find(json, "/training/warmup_steps");
  const double steps = (warmup != nullptr ? warmup->get<double>() : 5) + kSimulatedSteps;
  json["training"]["steps"] = static_cast<std::int64_t>(std::ceil(plan.updates_per_s * slowest * steps));
  const Objective& objective = problem.objective;
  const bool is_under_way = objective.loss_so_far || objective.updates_so_far > 0;
  json["training"]["target"] = is_under_way ? Json{{"samples", std::max(1.0, plan.updates * plan.weighted_batch)}}
                                            : Json{{"loss", objective.loss}};
  return json;
}

}  // namespace rehearse
