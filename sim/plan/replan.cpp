#include "sim/plan/replan.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "platforms/catalog.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/scenario/cluster_variants.hpp"

namespace rehearse {

namespace {

class Replan final : public ControlRule {
 public:
  Replan(const Scenario& scenario, const Json& json) : scenario_{scenario}, rule_{*scenario.training.control->replan} {
    problem_.convergence = *scenario.convergence;
    problem_.workload = {
        .parameters = Bytes{json["parameters"].get<std::int64_t>()},
        .required_bandwidth = BytesPerSecond{json["required_bandwidth"].get<double>()},
        .contention = {.slope = json["slope"].get<double>(), .intercept = json["intercept"].get<double>()}};
    problem_.server = {.bandwidth = BytesPerSecond{json["server_bandwidth"].get<double>()},
                       .pcie = BytesPerSecond{json["pcie"].get<double>()}};
    problem_.objective = {.loss = *scenario.training.target->loss,
                          .deadline = rule_.deadline,
                          .loss_so_far = {},
                          .takeover = rule_.takeover,
                          .fixed_usd_per_hour = json["fixed_usd_per_hour"].get<double>()};
    std::vector<int> at_start;
    for (const Json& offer : json["offers"]) {
      const auto name = offer["name"].get<std::string>();
      const auto group = std::ranges::find(scenario.groups, name, &Group::name);
      groups_.push_back(static_cast<std::size_t>(group - scenario.groups.begin()));
      at_start.push_back(group->is_there_from_the_start() ? group->count : 0);
      problem_.offers.push_back({.name = name,
                                 .worker = {.gpus = offer["gpus"].get<int>(),
                                            .batch = offer["batch"].get<double>(),
                                            .step_alone = Seconds{offer["step_alone_s"].get<double>()}},
                                 .workers = offer["workers"].get<int>(),
                                 .usd_per_hour = offer["usd_per_hour"].get<double>(),
                                 .quota = group->count});
    }
    const MachinePlan start = evaluate_plan(problem_, at_start);
    start_ = {.workers = start.workers, .weighted_batch = start.weighted_batch, .spread = start.spread};
    updates_ = start.updates;
  }

  ControlEvent event() const override { return ControlEvent::kLoss; }

  std::optional<ControlDecision> decide(const ControlView& view) const override {
    ProvisionProblem problem = problem_;
    problem.objective.deadline = std::max(Seconds{}, (rule_.deadline - view.now) * (1 - rule_.margin));
    problem.objective.loss_so_far = loss_after(problem.convergence, start_, view.share_done * updates_);
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      MachineOffer& offer = problem.offers[i];
      offer.existing = view.machines[groups_[i]];
      if (scenario_.groups[groups_[i]].replay) offer.quota = offer.existing;
    }
    const auto plan = plan_of(problem);
    if (!plan) return {};
    ControlDecision decision{view.machines, ""};
    for (std::size_t i = 0; i < groups_.size(); ++i) decision.machines[groups_[i]] = plan->counts[i];
    const Seconds left = rule_.deadline - view.now;
    const auto rounded = [](double value) { return to_text(std::round(value * 100) / 100); };
    decision.reason = plan_text(problem, plan->counts) + ": " + rounded(plan->time.value()) + " s and " +
                      rounded(plan->cost_usd) + " USD for what is left, " +
                      (plan->time <= left ? "in time" : "late by " + rounded((plan->time - left).value()) + " s");
    return decision;
  }

 private:
  std::optional<MachinePlan> plan_of(ProvisionProblem problem) const {
    std::optional<MachinePlan> best = cheapest_of(problem);
    if (rule_.releases) {
      ProvisionProblem free = problem;
      for (MachineOffer& offer : free.offers) offer.existing = 0;
      free.objective.deadline = std::max(Seconds{}, free.objective.deadline - rule_.takeover);
      if (auto other = cheapest_of(free)) {
        const bool joins = has_newcomers(problem, *other);
        if (joins) {
          other->time += rule_.takeover;
          other->cost_usd +=
              (other->usd_per_hour + problem.objective.fixed_usd_per_hour) * rule_.takeover.value() / 3600;
        }
        if (!best || other->cost_usd < best->cost_usd) best = other;
      }
    }
    if (best) return best;
    for (const bool keeps_range : {true, false}) {
      problem.objective.keeps_range = keeps_range;
      if (const auto plans = fastest_plans(problem, 1); !plans.empty()) return plans.front();
    }
    return {};
  }

  static std::optional<MachinePlan> cheapest_of(const ProvisionProblem& problem) {
    const CheapestPlans found = cheapest_plans(problem);
    return found.plans.empty() ? std::nullopt : std::optional{found.plans.front()};
  }

  static bool has_newcomers(const ProvisionProblem& problem, const MachinePlan& plan) {
    for (std::size_t i = 0; i < plan.counts.size(); ++i)
      if (plan.counts[i] > problem.offers[i].existing) return true;
    return false;
  }

  const Scenario& scenario_;
  Replanning rule_;
  ProvisionProblem problem_;
  std::vector<std::size_t> groups_;  // [offers]
  ConvergenceCluster start_;
  double updates_ = 0;  // that it takes to the loss
};

}  // namespace

Json replan_problem(const Scenario& scenario, const SimulationMeans& means) {
  Json base = *scenario.effective;
  for (const char* key : {"control", "checkpoint", "recovery"}) base["training"].erase(key);
  Json kept = Json::array();
  ProvisionRequest request{.scenario_file = scenario.file_name,
                           .loss = *scenario.training.target->loss,
                           .deadline = scenario.training.control->replan->deadline};
  for (std::size_t g = 0; g < scenario.groups.size(); ++g) {
    Json group = base["cluster"]["groups"][g];
    const bool is_added = scenario.groups[g].role == Role::kParameterServer && scenario.groups[g].is_standby;
    keep_for_good(group);
    if (!is_added) kept.push_back(group);
    if (scenario.groups[g].role == Role::kWorker)
      request.candidates.push_back({.name = scenario.groups[g].name,
                                    .group = share(group),
                                    .quota = scenario.groups[g].count,
                                    .usd_per_hour = {},
                                    .place = {}});
  }
  base["cluster"]["groups"] = std::move(kept);
  request.scenario = share(std::move(base));
  const ProvisionProblem problem = [&] {
    try {
      return prepare_provision(request, Catalog{{}}, means).problem;
    } catch (const InputError& error) {  // it names provision's options
      throw InputError{scenario.file_name + ": /training/control/replan: the planner says: " + error.what()};
    }
  }();
  Json json{{"parameters", problem.workload.parameters.value()},
            {"required_bandwidth", problem.workload.required_bandwidth.value()},
            {"slope", problem.workload.contention.slope},
            {"intercept", problem.workload.contention.intercept},
            {"server_bandwidth", problem.server.bandwidth.value()},
            {"pcie", problem.server.pcie.value()},
            {"fixed_usd_per_hour", problem.objective.fixed_usd_per_hour},
            {"offers", Json::array()}};
  for (const MachineOffer& offer : problem.offers)
    json["offers"].push_back({{"name", offer.name},
                              {"gpus", offer.worker.gpus},
                              {"batch", offer.worker.batch},
                              {"step_alone_s", offer.worker.step_alone.value()},
                              {"workers", offer.workers},
                              {"usd_per_hour", offer.usd_per_hour}});
  return json;
}

std::shared_ptr<const ControlRule> replan_rule(const Scenario& scenario, const Json& problem) {
  return std::make_shared<Replan>(scenario, problem);
}

}  // namespace rehearse
