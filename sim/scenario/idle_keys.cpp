#include "sim/scenario/idle_keys.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "platforms/board_power.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/scenario/gpu_memory.hpp"
#include "sim/scenario/site.hpp"
#include "sim/scenario/step_time.hpp"
#include "sim/scenario/training_facts.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

/// Whether machines or workers ever come or go.
bool has_constant_machines(const Scenario& scenario) {
  return !scenario.has_revocations() && !scenario.has_changing_membership() &&
         !(scenario.training.control && scenario.training.control->changes_machines()) &&
         std::ranges::all_of(scenario.groups, [](const Group& group) { return group.is_there_from_the_start(); });
}

/// The keys of the recovery that matter only where machines come and go: all but the time after which a run is given up.
std::vector<std::string> rules_of_recovery(const JsonReader& training) {
  std::vector<std::string> rules;
  if (!training.has("recovery")) return rules;
  for (const auto& [key, value] : training.child("recovery").value().items())
    if (key != "give_up_after") rules.push_back(key);
  return rules;
}

std::string idle_framework(const Scenario& scenario) {
  const Profile& profile = scenario.profile;
  if (scenario.framework.empty() || !profile.kernels || !has_kernels(scenario.workload)) return {};
  std::vector<std::string> known;
  for (const auto& [name, framework] : profile.frameworks)
    if (name != "otherwise") known.push_back(name);
  if (framework_name(known, scenario.framework) != "otherwise") return {};
  return "profile " + in_quotes(profile.name) + " has no values of framework " + in_quotes(scenario.framework) +
         ", which changes nothing: as of all frameworks that it does not name" +
         (known.empty() ? "" : "; it names " + list_in_quotes(known));
}

std::string idle_implementation(const Scenario& scenario) {
  if (!scenario.optimizer_implementation) return {};
  const std::string reason = why_no_update_kernels(scenario);
  return reason.empty() ? "" : "\"optimizer_implementation\" in the workload changes nothing: " + reason;
}

std::vector<std::string> idle_rules(const JsonReader& root, const Scenario& scenario) {
  std::vector<std::string> said;
  const JsonReader training = root.child("training");
  if (has_constant_machines(scenario)) {
    std::vector<std::string> rules = rules_of_recovery(training);
    if (scenario.training.smaller_cluster != SmallerCluster::kKeepsBatchPerWorker)
      rules.emplace_back("smaller_cluster");
    if (!rules.empty())
      said.push_back(
          list_in_quotes(rules) +
          " in the training changes nothing of a run: no machine of this scenario fails, is revoked, joins or "
          "leaves (\"faults\", \"spot_pool\", \"joins_at\", \"leaves_at\")");
  } else if (scenario.training.recovery.uses_notice &&
             std::ranges::none_of(scenario.groups, [](const Group& group) { return group.pool || group.replay; })) {
    said.emplace_back("\"uses_notice\" in the recovery changes nothing: faults come without notice");
  }
  if (const auto& rule = scenario.training.checkpoint;
      rule && rule->is_young_daly && std::isinf(mean_time_to_loss(scenario).value()))
    said.emplace_back(
        "no checkpoint is written: no loss of a machine of this scenario costs work, so that the interval of Young and "
        "Daly is infinite");
  return said;
}

/// Prices by date, and revocations by date, are all that depend on it.
std::string idle_start(const JsonReader& root, const Scenario& scenario) {
  const JsonReader cluster = root.child("cluster");
  if (!cluster.has("start") || cluster.has("prices") ||
      std::ranges::any_of(scenario.groups, [](const Group& group) { return group.is_lost_by_chance(); }))
    return {};
  return "\"start\" of the cluster changes nothing: prices are those of the catalog's date, without \"prices\", and no "
         "machine is revoked";
}

/// A price that holds anywhere, where one of the instance's regions goes before it.
std::vector<std::string> idle_prices(const Scenario& scenario) {
  std::vector<std::string> said;
  for (const Group& group : scenario.groups) {
    if (group.colocated_with >= 0) continue;
    const bool is_spot = group.market == Market::kSpot;
    const auto& anywhere = is_spot ? group.instance.usd_per_hour_spot : group.instance.usd_per_hour_on_demand;
    const auto here = group.instance.usd_per_hour(is_spot, group.zone);
    if (anywhere && here && *here != *anywhere)
      said.push_back(std::string{is_spot ? "\"usd_per_hour_spot\"" : "\"usd_per_hour_on_demand\""} + " of instance " +
                     in_quotes(group.instance.name) + ", " + to_text(*anywhere) +
                     ", changes nothing: \"prices\" of it has " + to_text(*here) + " in " + in_quotes(group.zone) +
                     ", which goes before it unless \"prices\" is null");
  }
  return said;
}

/// A zone tells prices, and which machines are revoked together.
std::vector<std::string> idle_zones(const Scenario& scenario) {
  std::vector<std::string> said;
  for (const Group& group : scenario.groups) {
    if (group.zone == group.region || group.pool || group.replay || group.colocated_with >= 0) continue;
    const bool is_spot = group.market == Market::kSpot;
    const auto price = [&](const std::string& place) {
      return scenario.costs.usd_per_hour(group.instance, is_spot, place, Seconds{}, Seconds{30 * 86400.0});
    };
    if (price(group.zone) != price(group.region)) continue;
    said.push_back("\"zone\" of group " + in_quotes(group.name) + ", " + in_quotes(group.zone) +
                   ", changes nothing: no price of " + in_quotes(group.instance.name) + " is that zone's own, and no " +
                   "\"spot_pool\" takes its machines");
  }
  return said;
}

/// The size of the training set is for lengths in epochs.
std::string idle_epoch(const JsonReader& root) {
  if (!root.child("workload").has("samples_per_epoch") || root.child("training").has("epochs")) return {};
  return "\"samples_per_epoch\" in the workload changes nothing: the length of the training is not stated in "
         "\"epochs\"";
}

/// Energy is known where the power of every worker's GPU is.
std::string idle_electricity(const JsonReader& root, const Scenario& scenario) {
  if (!root.child("cluster").has("electricity")) return {};
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker && !has_board_power(*group.accelerator))
      return "\"electricity\" of the cluster changes nothing: what " + group.accelerator->name +
             " draws is not known (\"power\", \"process_nm\" and \"memory_kind\" of the accelerator)";
  return {};
}

/// Bytes of all variables and of what the optimizer keeps, as servers hold them.
double bytes_of_servers(const Scenario& scenario) {
  const States& states = scenario.states;
  return static_cast<double>(scenario.workload.parameters()) *
         (weight_bytes(states) + optimizer_bytes(states, optimizer_slots(scenario.optimizer)));
}

}  // namespace

std::vector<std::string> idle_keys(const JsonReader& root, const Scenario& scenario) {
  std::vector<std::string> said = idle_rules(root, scenario);
  for (std::string& sentence : idle_prices(scenario)) said.push_back(std::move(sentence));
  for (std::string& sentence : idle_zones(scenario)) said.push_back(std::move(sentence));
  for (const std::string& sentence : {idle_framework(scenario), idle_implementation(scenario),
                                      idle_start(root, scenario), idle_epoch(root), idle_electricity(root, scenario)})
    if (!sentence.empty()) said.push_back(sentence);
  return said;
}

std::vector<std::string> exceeded_host_memory(const Scenario& scenario) {
  std::vector<std::string> said;
  const auto check = [&](const Group& group, double bytes, const std::string& what) {
    const Bytes least{std::llround(bytes)};
    if (least > group.instance.memory)
      said.push_back("host memory exceeded: a machine of group " + in_quotes(group.name) + " holds " + what + ", " +
                     gibibytes(least) + " at least, and has " + gibibytes(group.instance.memory) +
                     ": it is simulated as if it had enough");
  };
  const ServerRules* rules = scenario.training.strategy.kind->servers();
  const int servers = scenario.count(Role::kParameterServer);
  const auto& checkpoint = scenario.training.checkpoint;
  const double all = checkpoint ? static_cast<double>(checkpoint_bytes(scenario).value()) : 0;
  const int machines = std::max(1, scenario.worker_machines());
  for (const Group& group : scenario.groups) {
    if (group.role == Role::kParameterServer) {
      if (rules != nullptr && servers > 0 && rules->variables != VariableHome::kGpus && group.colocated_with < 0)
        check(group, bytes_of_servers(scenario) / servers, "variables and the optimizer's states");
      continue;
    }
    if (scenario.training.strategy.kind->offload() != Offload{})
      check(group, as_double(gpu_memory(scenario, group).on_host) * group.workers_per_machine() * group.gpus_per_worker,
            "states that its GPUs do not keep");
    if (!checkpoint) continue;
    double held = 0;
    if (checkpoint->is_asynchronous) held += checkpoint->is_by_machines ? all / machines : all;
    if (checkpoint->in_memory) held += 2 * all / machines;
    if (held > 0) check(group, held, "copies of checkpoints");
  }
  return said;
}

}  // namespace rehearse
