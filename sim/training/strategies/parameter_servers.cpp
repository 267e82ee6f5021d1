// Workers pull variables from servers and push gradients to them, as in TensorFlow. The program of a step:
// compile_parameter_server.cpp.

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/scenario/gradient_units.hpp"
#include "sim/scenario/refusals.hpp"
#include "sim/scenario/scenario_readers.hpp"
#include "sim/training/strategies/strategies.hpp"
#include "sim/training/strategy_compiler.hpp"

namespace rehearse {

namespace {

class ParameterServers final : public StrategyKind {
 public:
  explicit ParameterServers(const ServerRules& does) : rules{does} {}

  std::string title() const override {
    switch (rules.synchronization) {
      case Synchronization::kAsynchronous:
        return "asynchronous parameter servers";
      case Synchronization::kSynchronous:
        return "synchronous parameter servers" +
               (rules.backup_workers > 0 ? " with " + std::to_string(rules.backup_workers) + " backup workers"
                                         : std::string{});
      case Synchronization::kStaleSynchronous:
        return "parameter servers with staleness up to " + std::to_string(*rules.staleness_bound);
    }
    return {};
  }

  bool is_synchronous() const override { return rules.synchronization == Synchronization::kSynchronous; }
  bool is_in_lockstep() const override { return false; }
  bool sends_between_gpus() const override {
    return rules.aggregation == Aggregation::kGpu || rules.variables == VariableHome::kGpus;
  }
  bool updates_on_workers() const override { return false; }
  const ServerRules* servers() const override { return &rules; }
  const CollectiveRules* collectives() const override { return nullptr; }

  std::string explain(const Scenario& scenario) const override {
    const int servers = scenario.count(Role::kParameterServer);
    const std::vector<GradientUnit> units = plan_gradient_units(scenario, servers).units;
    return "in each step a worker receives " + units_text(units, &GradientUnit::value_bytes) + ", and sends " +
           units_text(units, &GradientUnit::gradient_bytes) + ", with " + std::to_string(servers) +
           (servers == 1 ? " server" : " servers");
  }

  std::vector<StrategyRemedy> remedies(const Scenario& scenario, const Json& effective) const override;

  std::unique_ptr<StrategyCompiler> compiler(const Site& site) const override {
    return parameter_server_compiler(site);
  }

  ServerRules rules;
};

std::string group_pointer(std::size_t group) { return "/cluster/groups/" + std::to_string(group); }

StrategyRemedy all_reduce_without_servers(const Json& effective) {
  Json workers = Json::array();
  for (const Json& group : effective["cluster"]["groups"])
    if (group.value("role", "") == "worker") workers.push_back(group);
  std::vector<std::string> settings{R"(/training/strategy={"kind":"all_reduce","bucket_size":"25MiB"})",
                                    "/cluster/groups=" + workers.dump()};
  // Workers that wait for one another begin together, and no connections have shares that vary.
  for (const auto& [key, none] : {std::pair{"start_interval", "0s"}, std::pair{"share_variation", "0"}})
    if (effective["training"].contains(key)) settings.push_back(std::string{"/training/"} + key + "=" + none);
  return {"all-reduce without servers", std::move(settings), RemedyKind::kOtherTraining};
}

std::vector<StrategyRemedy> ParameterServers::remedies(const Scenario& scenario, const Json& effective) const {
  std::vector<StrategyRemedy> all;
  const int servers = scenario.count(Role::kParameterServer);
  const std::string placement = "/training/strategy/placement=";
  for (std::size_t g = 0; g < scenario.groups.size(); ++g) {
    const Group& group = scenario.groups[g];
    if (group.role != Role::kParameterServer) continue;
    const std::string count = group_pointer(g) + "/count=", instance = group_pointer(g) + "/instance/";
    const std::string one_more = count + std::to_string(group.count + 1);
    const std::string of = " of group " + in_quotes(group.name);
    all.push_back({"one more parameter server" + of, {one_more}});
    if (rules.placement != Placement::kSharded)
      all.push_back(
          {"one more parameter server" + of + ", variables cut into shards", {one_more, placement + "sharded"}});
    if (rules.placement == Placement::kRoundRobin)
      all.push_back(
          {"one more parameter server" + of + ", variables placed by size", {one_more, placement + "greedy_by_bytes"}});
    if (group.count > 1)
      all.push_back({"twice as many parameter servers" + of, {count + std::to_string(2 * group.count)}});
    if (group.colocated_with >= 0) continue;
    const Group& host = scenario.first_workers();
    const Json shared{
        {"name", group.name}, {"role", "parameter_server"}, {"colocated_with", host.name}, {"count", host.count}};
    all.push_back({"parameter servers on the machines of group " + in_quotes(host.name) + " in place of group " +
                       in_quotes(group.name),
                   {group_pointer(g) + "=" + shared.dump()},
                   RemedyKind::kShared});
    all.push_back({"servers" + of + " with twice the cores",
                   {instance + "vcpus=" + std::to_string(2 * group.instance.vcpus)},
                   RemedyKind::kHypothetical});
    all.push_back({"servers" + of + " with a NIC twice as fast",
                   {instance + "nic=" + to_text(group.instance.nic * 2)},
                   RemedyKind::kHypothetical});
  }
  if (servers > 1 && rules.placement != Placement::kSharded)
    all.push_back({"variables cut into shards", {placement + "sharded"}});
  if (servers > 1 && rules.placement == Placement::kRoundRobin)
    all.push_back({"variables placed by size", {placement + "greedy_by_bytes"}});
  if (scenario.count(Role::kWorker) > 1) all.push_back(all_reduce_without_servers(effective));
  return all;
}

std::shared_ptr<const StrategyKind> read_servers(const JsonReader& json, Scenario& scenario, Json& effective) {
  ServerRules strategy;
  strategy.synchronization = read_word<Synchronization>(json, "synchronization",
                                                        {{"asynchronous", Synchronization::kAsynchronous},
                                                         {"synchronous", Synchronization::kSynchronous},
                                                         {"stale_synchronous", Synchronization::kStaleSynchronous}});
  if (json.has("placement"))
    strategy.placement = read_word<Placement>(json, "placement",
                                              {{"round_robin", Placement::kRoundRobin},
                                               {"greedy_by_bytes", Placement::kGreedyByBytes},
                                               {"sharded", Placement::kSharded}});
  else
    effective["placement"] = "round_robin";
  if (json.has("variables"))
    strategy.variables = read_word<VariableHome>(json, "variables",
                                                 {{"server_process", VariableHome::kServerProcess},
                                                  {"worker_process", VariableHome::kWorkerProcess},
                                                  {"gpus", VariableHome::kGpus}});
  const int workers = scenario.count(Role::kWorker);
  strategy.backup_workers = json.optional<int>("backup_workers", 0);
  if (json.has("backup_workers"))
    json.expect(strategy.backup_workers >= 0 && strategy.backup_workers < workers, "backup_workers",
                "0 or more, and fewer than the " + std::to_string(workers) + " workers");
  strategy.pushes_back_each_variable = json.optional<bool>("pushes_back_each_variable", false);
  if (json.has("aggregation"))
    strategy.aggregation = read_word<Aggregation>(
        json, "aggregation", {{"none", Aggregation::kNone}, {"host", Aggregation::kHost}, {"gpu", Aggregation::kGpu}});
  switch (strategy.synchronization) {
    case Synchronization::kAsynchronous:
      break;
    case Synchronization::kSynchronous:
      strategy.staleness_bound = 0;
      effective["backup_workers"] = strategy.backup_workers;
      effective["pushes_back_each_variable"] = strategy.pushes_back_each_variable;
      if (!json.has("aggregation")) effective["aggregation"] = "none";
      break;
    case Synchronization::kStaleSynchronous:
      strategy.staleness_bound = json.required<std::int64_t>("staleness_bound");
      json.expect(*strategy.staleness_bound >= 0, "staleness_bound", "0 steps or more");
      break;
  }
  return std::make_shared<ParameterServers>(strategy);
}

const ServerRules& server_rules_of(const Refusal::Subject& subject) { return own<ParameterServers>(subject).rules; }
/// Of any strategy.
bool has_servers(const Refusal::Subject& subject) {
  return subject.scenario->training.strategy.kind->servers() != nullptr;
}
/// Servers of workers that may be in different steps.
bool has_unordered_servers(const Refusal::Subject& subject) { return !own<ParameterServers>(subject).is_synchronous(); }

const auto kRefusals = std::to_array<Refusal>({
    {"parameter servers without machines",
     [](const Refusal::Subject& s) { return place_if(s.scenario->count(Role::kParameterServer) == 0, kGroups); },
     "at least one group with role \"parameter_server\"", "the variables are with the servers"},
    {"servers that nobody asks",
     [](const Refusal::Subject& s) {
       return place_if(!has_servers(s) && s.scenario->count(Role::kParameterServer) > 0, kGroups);
     },
     "no group with role \"parameter_server\"",
     "with this strategy workers exchange among themselves",
     {},
     Refusal::Of::kOthers},
    {"collectives of workers that exchange with servers",
     [](const Refusal::Subject& s) {
       return stated_of_strategy(
           s, {"algorithm", "sharding", "prefetched_units", "gather_bucket_size", "reduce_scatter", "pipeline"});
     },
     "none with parameter servers", "workers exchange with servers, and hold the whole model"},
    {"rules of servers where there are none",
     [](const Refusal::Subject& s) {
       if (has_servers(s)) return RefusedPlace{};
       return stated_of_strategy(s, {"synchronization", "staleness_bound", "backup_workers",
                                     "pushes_back_each_variable", "placement", "aggregation", "variables"});
     },
     "none without parameter servers",
     "it says what servers do",
     {},
     Refusal::Of::kOthers},
    {"staleness that is not bounded, or is none",
     [](const Refusal::Subject& s) {
       return server_rules_of(s).synchronization == Synchronization::kStaleSynchronous
                  ? RefusedPlace{}
                  : stated_of_strategy(s, {"staleness_bound"});
     },
     "\"synchronization\": \"stale_synchronous\" beside it",
     "asynchronous workers may be any number of steps ahead, synchronous ones none"},
    {"backup workers that nobody waits for",
     [](const Refusal::Subject& s) {
       return strategy_place_if(has_unordered_servers(s) && server_rules_of(s).backup_workers > 0, "backup_workers");
     },
     "0 with workers that are not synchronous", "they do not drop late gradients, which are applied when they come"},
    {"variables that are pushed back to workers in different steps",
     [](const Refusal::Subject& s) {
       return strategy_place_if(has_unordered_servers(s) && server_rules_of(s).pushes_back_each_variable,
                                "pushes_back_each_variable");
     },
     "false with workers that are not synchronous",
     "a variable goes back once the gradients of all workers for the same step are in"},
    {"gradients of different steps that are added up",
     [](const Refusal::Subject& s) {
       return strategy_place_if(has_unordered_servers(s) && server_rules_of(s).aggregation != Aggregation::kNone,
                                "aggregation");
     },
     "\"none\" with workers that are not synchronous",
     "gradients of a machine's workers are added up where they are of the same step"},
    {"variables in a process on another machine",
     [](const Refusal::Subject& s) {
       const bool are_apart = std::any_of(s.scenario->groups.begin(), s.scenario->groups.end(), [](const Group& group) {
         return group.role != Role::kWorker && group.colocated_with < 0;
       });
       return strategy_place_if(server_rules_of(s).variables != VariableHome::kServerProcess && are_apart, "variables");
     },
     "\"server_process\" where servers have machines of their own",
     "workers cannot reach into the memory of another machine"},
    {"variables on GPUs of several machines",
     [](const Refusal::Subject& s) {
       return strategy_place_if(
           server_rules_of(s).variables == VariableHome::kGpus && s.scenario->worker_machines() > 1, "variables");
     },
     "one machine with workers for variables that live on its GPUs", "GPUs of another machine cannot reach them"},
    {"variables on GPUs to which no gradients come",
     [](const Refusal::Subject& s) {
       return strategy_place_if(
           server_rules_of(s).variables == VariableHome::kGpus && server_rules_of(s).aggregation != Aggregation::kGpu,
           "variables");
     },
     "\"aggregation\": \"gpu\" for variables that live on the GPUs",
     "each is updated on the GPU on which the gradients for it are added up"},
    {"cycles of what no server gets",
     [](const Refusal::Subject& s) {
       return strategy_place_if(
           server_rules_of(s).variables == VariableHome::kGpus && s.scenario->training.strategy.exchange.cycle_time,
           "cycle_time");
     },
     "none for variables that live on the GPUs", "no process collects what goes from GPU to GPU"},
});

std::vector<Refusal> refusals_of_servers() { return {kRefusals.begin(), kRefusals.end()}; }

std::string schema_of_servers() {
  return R"json({ "properties": {
    "synchronization": { "enum": ["asynchronous", "synchronous", "stale_synchronous"], "description": "parameter_server" },
    "staleness_bound": { "type": "integer", "minimum": 0, "description": "stale_synchronous: steps that a worker may be ahead of the slowest" },
    "backup_workers": { "type": "integer", "minimum": 0, "default": 0, "description": "synchronous: gradients of this many slowest workers are dropped, and their samples count nowhere: a step has those of the others" },
    "pushes_back_each_variable": { "type": "boolean", "default": false, "description": "synchronous: a variable goes to all workers as soon as all gradients for it are in" },
    "placement": { "enum": ["round_robin", "greedy_by_bytes", "sharded"], "default": "round_robin", "description": "parameter_server" },
    "aggregation": { "enum": ["none", "host", "gpu"], "default": "none", "description": "synchronous parameter_server: the GPUs of a machine exchange with the servers as one, their gradients being added up in host memory or, each variable on another one, on the GPUs" },
    "variables": { "enum": ["server_process", "worker_process", "gpus"], "default": "server_process", "description": "parameter_server, colocated: in processes of their own, which exchange messages with the workers; in the workers' process on the servers' machines; on the GPUs of the only machine, with the aggregation gpu, each updated where it lives" }
  },
  "allOf": [
    { "if": { "properties": { "kind": { "const": "parameter_server" } }, "required": ["kind"] }, "then": { "required": ["synchronization"] } },
    { "if": { "properties": { "synchronization": { "const": "stale_synchronous" } }, "required": ["synchronization"] }, "then": { "required": ["staleness_bound"] } }
  ] })json";
}

}  // namespace

StrategyEntry parameter_servers() {
  return {"parameter_server", read_servers, {{schema_of_servers, refusals_of_servers}}};
}

std::shared_ptr<const StrategyKind> default_strategy() {
  static const auto kind = std::make_shared<const ParameterServers>(ServerRules{});
  return kind;
}

}  // namespace rehearse
