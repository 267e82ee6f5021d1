#include "sim/plan/cluster_variants.hpp"

#include <nlohmann/json.hpp>
#include <numeric>

namespace rehearse {

Json with_machines(Json effective, std::size_t group, int count) {
  Json& groups = effective["cluster"]["groups"];
  if (count > 0)
    groups[group]["count"] = count;
  else
    groups.erase(group);
  return effective;
}

Json with_shares(Json effective, const Scenario& scenario, const WorkerCounts& workers) {
  effective["training"].erase("smaller_cluster");
  const std::vector<StepShare> shares = step_shares(scenario, workers);
  for (std::size_t g = 0; g < shares.size(); ++g) {
    const Group& group = scenario.groups[g];
    if (group.role != Role::kWorker || workers[g] == 0) continue;
    if (shares[g].batch != group.batch) {
      (void)with_batch(scenario, group, shares[g].batch,
                       std::accumulate(workers.begin(), workers.end(), std::int64_t{}));
      effective["cluster"]["groups"][g]["batch_per_worker"] = shares[g].batch;
    }
    if (shares[g].passes != scenario.training.strategy.exchange.accumulation_steps)
      effective["training"]["strategy"]["accumulation_steps"] = shares[g].passes;
  }
  return effective;
}

Json one_machine_alone(Json effective, std::size_t group) {
  Json& groups = effective["cluster"]["groups"];
  const Json name = groups[group]["name"];
  Json kept = Json::array();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const bool is_server = groups[g].value("role", "") == "parameter_server";
    const bool stays = is_server && (!groups[g].contains("colocated_with") || groups[g]["colocated_with"] == name);
    if (g == group) groups[g]["count"] = 1;
    if (g == group || stays) kept.push_back(groups[g]);
  }
  groups = std::move(kept);
  return effective;
}

}  // namespace rehearse
