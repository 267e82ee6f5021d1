#include "sim/scenario/cluster_variants.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

namespace {

/// A step of `workers` workers, which waits for at least one of them: needed_workers().
void fit_backup_workers(Json& effective, const Scenario& scenario, std::int64_t workers) {
  const std::int64_t late = backup_workers(scenario);
  if (workers > 0 && late >= workers) effective["training"]["strategy"]["backup_workers"] = workers - 1;
}

/// So many batches of each worker, whatever samples a step of all was to have.
void state_passes(Json& effective, const Scenario& scenario, int passes) {
  Json& strategy = effective["training"]["strategy"];
  strategy.erase("global_batch");
  strategy[Json::json_pointer{"/" + scenario.training.strategy.kind->accumulation_key()}] = passes;
}

}  // namespace

void keep_for_good(Json& group) {
  for (const char* key : {"spot_pool", "faults", "replacement", "standby"}) group.erase(key);
}

Json without_revocations(Json effective) {
  Json& groups = effective["cluster"]["groups"];
  Json kept = Json::array();
  for (Json& group : groups) {
    if (group.value("standby", false)) continue;
    keep_for_good(group);
    kept.push_back(group);
  }
  groups = std::move(kept);
  return effective;
}

Json with_machines(Json effective, std::size_t group, int count) {
  Json& groups = effective["cluster"]["groups"];
  if (count > 0) {
    groups[group]["count"] = count;
    return effective;
  }
  const Json name = groups[group]["name"];
  groups.erase(group);
  for (Json& other : groups)
    if (other.contains("replacement") && other["replacement"].value("with", Json{}) == name)
      other["replacement"]["with"] = "none";
  return effective;
}

std::size_t only_workers(const Scenario& scenario) {
  std::optional<std::size_t> found;
  for (std::size_t g = 0; g < scenario.groups.size(); ++g) {
    const Group& group = scenario.groups[g];
    if (group.role != Role::kWorker || group.is_standby) continue;
    if (found)
      throw InputError{
          "/cluster/groups: expected one group of workers, whose machines are as many as a size needs; found " +
          in_quotes(scenario.groups[*found].name) + " and " + in_quotes(group.name)};
    found = g;
  }
  return *found;
}

void keep_servers_of_each(Json& groups, int before, int after) {
  for (Json& group : groups)
    if (group.contains("colocated_with") && group.value("count", 1) % before == 0)
      group["count"] = group.value("count", 1) / before * after;
}

Json with_gpus(Json effective, const Scenario& scenario, int gpus) {
  const std::size_t workers = only_workers(scenario);
  const Group& group = scenario.groups[workers];
  const int each = std::max(1, group.instance.accelerators);
  if (gpus > each && gpus % each != 0)
    throw InputError{"expected sizes of whole machines of " + std::to_string(each) + " GPUs; found " +
                     std::to_string(gpus)};
  const int machines = std::max(1, gpus / each);
  Json& groups = effective["cluster"]["groups"];
  for (Json& each : groups) keep_for_good(each);
  keep_servers_of_each(groups, group.count, machines);
  groups[workers]["count"] = machines;
  if (gpus < each) groups[workers]["instance"]["accelerators"] = gpus;
  return effective;
}

Json without_exchange(Json effective, const Scenario& scenario) {
  Json& groups = effective["cluster"]["groups"];
  Json kept = Json::array();
  for (const Json& one : groups)
    if (one.value("role", "") == "worker") kept.push_back(one);
  groups = std::move(kept);
  Json strategy{{"kind", "all_reduce"}};
  if (const std::int64_t samples = scenario.training.strategy.exchange.global_batch; samples > 0)
    strategy["global_batch"] = samples;
  else if (const int passes = scenario.training.strategy.exchange.accumulation_steps; passes > 1)
    strategy["accumulation_steps"] = passes;
  effective["training"]["strategy"] = std::move(strategy);
  for (const char* key : {"recovery", "smaller_cluster", "start_interval"}) effective["training"].erase(key);
  return effective;
}

Json with_shares(Json effective, const Scenario& scenario, const WorkerCounts& workers) {
  effective["training"].erase("smaller_cluster");
  const std::int64_t all = std::accumulate(workers.begin(), workers.end(), std::int64_t{});
  fit_backup_workers(effective, scenario, all);
  const std::vector<StepShare> shares = step_shares(scenario, workers);
  for (std::size_t g = 0; g < shares.size(); ++g) {
    const Group& group = scenario.groups[g];
    if (group.role != Role::kWorker || workers[g] == 0) continue;
    if (shares[g].batch != group.batch) {
      (void)with_batch(scenario, group, shares[g].batch, all);
      effective["cluster"]["groups"][g]["batch_per_worker"] = shares[g].batch;
    }
    if (shares[g].passes != scenario.training.strategy.exchange.accumulation_steps ||
        scenario.training.strategy.exchange.global_batch > 0)
      state_passes(effective, scenario, shares[g].passes);
  }
  return effective;
}

Json one_machine_alone(Json effective, const Scenario& scenario, std::size_t group) {
  if (scenario.training.strategy.exchange.global_batch > 0)
    state_passes(effective, scenario, scenario.training.strategy.exchange.accumulation_steps);
  fit_backup_workers(effective, scenario, scenario.groups[group].workers_per_machine());
  Json& groups = effective["cluster"]["groups"];
  const Json name = groups[group]["name"];
  Json kept = Json::array();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const bool is_server = groups[g].value("role", "") == "parameter_server";
    const bool stays = is_server && (!groups[g].contains("colocated_with") || groups[g]["colocated_with"] == name);
    if (g != group && !stays) continue;
    keep_for_good(groups[g]);
    if (g == group) groups[g]["count"] = 1;
    kept.push_back(groups[g]);
  }
  groups = std::move(kept);
  effective["training"].erase("recovery");  // of workers that it has not
  return effective;
}

}  // namespace rehearse
