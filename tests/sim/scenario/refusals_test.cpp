// Every row of the table of refused combinations, by a scenario that has the combination and nothing else that is
// wrong.

#include "sim/scenario/refusals.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "sim/base/json_origins.hpp"
#include "sim/training/strategy_compiler.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

using test::timed_scenario;
using test::with_servers;

Json with(Json scenario, const std::vector<std::pair<std::string, Json>>& changes) {
  for (const auto& [pointer, value] : changes) set_json_pointer(scenario, pointer, value.dump());
  return scenario;
}

/// Four machines of two workers each, in two groups, whose models may have any batch.
Json all_reduce(const std::vector<std::pair<std::string, Json>>& changes) {
  Json scenario = timed_scenario(2, {{"4000B"}, {"8000B"}}, {{"kind", "all_reduce"}}, 2);
  Json& structure = scenario["workload"]["model"]["structure"];
  structure["scales_with_batch"] = true;
  for (Json& layer : structure["layers"]) layer["output"] = "4B";
  Json& groups = scenario["cluster"]["groups"];
  groups.push_back(groups[0]);
  groups[1]["name"] = "others";
  return with(scenario, changes);
}

/// A transformer on GPUs that differ from others as stated.
Json in_fp8(const char* recipe, const Json& gpu) {
  Json scenario = all_reduce({{"/workload/precision", "fp16"}, {"/workload/fp8", recipe}});
  scenario["workload"]["model"] = test::small_transformer();
  for (Json& group : scenario["cluster"]["groups"])
    for (const auto& [key, value] : gpu.items()) group["instance"]["accelerator"][key] = value;
  return scenario;
}

Json servers(const std::vector<std::pair<std::string, Json>>& changes,
             const std::string& synchronization = "asynchronous") {
  Json scenario = timed_scenario(2, {{"4000B"}, {"8000B"}},
                                 {{"kind", "parameter_server"}, {"synchronization", synchronization}}, 2);
  if (synchronization == "stale_synchronous") scenario["training"]["strategy"]["staleness_bound"] = 1;
  return with(with_servers(scenario, 1), changes);
}

Json colocated(const std::vector<std::pair<std::string, Json>>& changes,
               const std::string& synchronization = "asynchronous") {
  Json scenario = servers({}, synchronization);
  scenario["cluster"]["groups"][1] = {{"name", "ps"}, {"role", "parameter_server"}, {"colocated_with", "workers"}};
  return with(scenario, changes);
}

Json pipeline(std::vector<std::pair<std::string, Json>> changes) {
  changes.emplace_back("/training/strategy/pipeline", Json{{"stages", 2}, {"microbatches", 2}});
  return all_reduce(changes);
}

Json pipeline_with(const Json& keys) {
  Json scenario = pipeline({});
  scenario["training"]["strategy"]["pipeline"].update(keys);
  return scenario;
}

/// The same workers, pairs of which have the experts of a mixture.
Json with_experts(const std::vector<std::pair<std::string, Json>>& changes) {
  Json scenario = all_reduce({});
  scenario["workload"]["model"] = test::small_transformer();
  scenario["workload"]["model"]["structure"].update(
      {{"experts", 4}, {"experts_per_token", 2}, {"grouped_experts", true}});
  scenario["training"]["strategy"]["experts"] = {{"degree", 2}};
  return with(scenario, changes);
}

/// Four machines of two workers each, in two groups, pairs of which hold each layer of a transformer together.
Json split(const std::vector<std::pair<std::string, Json>>& changes) {
  Json scenario = all_reduce({});
  scenario["workload"]["model"] = test::small_transformer();
  scenario["training"]["strategy"]["tensor"] = {{"degree", 2}};
  return with(scenario, changes);
}

const Json kPool{
    {"source", "test"}, {"lifetime", {{"law", {{"law", "exponential"}, {"mean", "3600s"}}}}}, {"notice", "0s"}};

/// A scenario for each row, by its name.
std::map<std::string, Json> examples() {
  const std::string strategy = "/training/strategy/", first = "/cluster/groups/0/", second = "/cluster/groups/1/";
  const Json pairs{{"kind", "pairwise_averaging"}};
  Json without_servers = servers({});
  without_servers["cluster"]["groups"].erase(1);
  Json all_late = all_reduce({});
  for (Json& group : all_late["cluster"]["groups"]) group["joins_at"] = "1s";
  Json stated_twice = colocated({});
  stated_twice["cluster"]["groups"][1]["region"] = "r";
  return {
      {"parameter servers without machines", without_servers},
      {"servers that nobody asks", with_servers(all_reduce({}), 1)},
      {"collectives of workers that exchange with servers", servers({{strategy + "algorithm", "ring"}})},
      {"rules of servers where there are none", all_reduce({{strategy + "placement", "sharded"}})},
      {"staleness that is not bounded, or is none", servers({{strategy + "staleness_bound", 2}})},
      {"backup workers that nobody waits for", servers({{strategy + "backup_workers", 1}}, "stale_synchronous")},
      {"variables that are pushed back to workers in different steps",
       servers({{strategy + "pushes_back_each_variable", true}})},
      {"gradients of different steps that are added up", servers({{strategy + "aggregation", "host"}})},
      {"variables in a process on another machine", servers({{strategy + "variables", "worker_process"}})},
      {"variables on GPUs of several machines",
       colocated({{strategy + "variables", "gpus"}, {strategy + "aggregation", "gpu"}}, "synchronous")},
      {"variables on GPUs to which no gradients come",
       colocated({{strategy + "variables", "gpus"}, {first + "count", 1}}, "synchronous")},
      {"NVLink SHARP without its switch", all_reduce({{strategy + "algorithm", "nvls"}})},
      {"a hierarchy of unequal machines",
       all_reduce({{strategy + "algorithm", "hierarchical"}, {second + "instance/accelerators", 1}})},
      {"parts that trees and stars exchange",
       all_reduce({{strategy + "algorithm", "tree"}, {strategy + "sharding", "gradients"}})},
      {"units that are gathered ahead though they are there", all_reduce({{strategy + "prefetched_units", 2}})},
      {"trees of gatherings that there are not", all_reduce({{strategy + "gather_algorithm", "pat"}})},
      {"trees among GPUs that share machines",
       all_reduce({{strategy + "sharding", "gradients"}, {strategy + "gather_algorithm", "pat"}})},
      {"buckets of what is not gathered after the update",
       all_reduce({{strategy + "sharding", "parameters"}, {strategy + "gather_bucket_size", "0B"}})},
      {"groups that share nothing", all_reduce({{strategy + "shard_group", 2}})},
      {"groups of workers of several GPUs that share states", all_reduce({{strategy + "sharding", "gradients"},
                                                                          {strategy + "shard_group", 2},
                                                                          {first + "workers_per_machine", 1},
                                                                          {first + "batch_per_worker", 2},
                                                                          {second + "workers_per_machine", 1},
                                                                          {second + "batch_per_worker", 2}})},
      {"sums of all gradients where each worker keeps its part of them",
       all_reduce({{strategy + "sharding", "gradients"}, {strategy + "reduce_scatter", false}})},
      {"sums of all gradients in groups that share states", all_reduce({{strategy + "sharding", "optimizer"},
                                                                        {strategy + "reduce_scatter", false},
                                                                        {strategy + "shard_group", 2}})},
      {"gradients that are kept whole though they are not sharded", all_reduce({{strategy + "no_sync", true}})},
      {"hosts of which each updates everything",
       all_reduce({{strategy + "offload", Json{{"optimizer", 1}}}, {"/workload/optimizer", "adam"}})},
      {"forward overlap of updates on hosts", all_reduce({{strategy + "offload", Json{{"optimizer", 1}}},
                                                          {strategy + "sharding", "optimizer"},
                                                          {strategy + "overlap", "forward"},
                                                          {"/workload/optimizer", "adam"}})},
      {"activations on hosts in a pipeline", pipeline({{strategy + "offload", Json{{"activations", 1}}}})},
      {"activations on hosts of what has no layers", all_reduce({{strategy + "offload", Json{{"activations", 1}}}})},
      {"states of the optimizer that no host can keep", all_reduce({{strategy + "offload", Json{{"optimizer", 1}}},
                                                                    {strategy + "sharding", "optimizer"},
                                                                    {"/workload/optimizer", "sgd"}})},
      {"a norm of gradients that go on into the next step",
       all_reduce({{strategy + "overlap", "forward"}, {strategy + "clip_norm", true}})},
      {"keys of another strategy", all_reduce({{strategy + "kind", "ours"}, {strategy + "sharding", "gradients"}})},
      {"a pipeline whose stages are parts of machines", pipeline({{strategy + "algorithm", "hierarchical"}})},
      {"a pipeline of stages with different numbers of GPUs",
       pipeline({{first + "workers_per_machine", 1}, {first + "batch_per_worker", 2}})},
      {"a pipeline of unequal micro-batches", pipeline({{second + "batch_per_worker", 2}})},
      {"a pipeline that accumulates twice", pipeline({{strategy + "accumulation_steps", 2}})},
      {"gradients of workers that exchange models",
       all_reduce({{"/training/strategy", pairs}, {strategy + "overlap", "backward"}})},
      {"a first bucket of none", all_reduce({{strategy + "first_bucket_size", "1MB"}})},
      {"cycles of what no server gets", colocated({{strategy + "variables", "gpus"},
                                                   {strategy + "aggregation", "gpu"},
                                                   {first + "count", 1},
                                                   {strategy + "cycle_time", "1ms"}},
                                                  "synchronous")},
      {"forward overlap of parts",
       all_reduce({{strategy + "overlap", "forward"}, {strategy + "sharding", "gradients"}})},
      {"forward overlap of pipelines", pipeline({{strategy + "overlap", "forward"}})},
      {"chunks of a pipeline that is not interleaved", pipeline_with({{"chunks", 2}})},
      {"groups of micro-batches of a pipeline that is not interleaved",
       pipeline_with({{"schedule", "gpipe"}, {"microbatch_group", 2}})},
      {"merged passes of a pipeline that is not interleaved", pipeline_with({{"merged_passes", true}})},
      {"an interleaved pipeline without chunks", pipeline_with({{"schedule", "interleaved"}})},
      {"chunks of a model that is on one worker",
       pipeline_with({{"stages", 1}, {"schedule", "interleaved"}, {"chunks", 2}})},
      {"layers of a pipeline that is cut by time", pipeline_with({{"counts_loss", true}})},
      {"sharded parameters where the backward pass is split",
       with(pipeline_with({{"schedule", "zb1p"}}), {{strategy + "sharding", "parameters"}})},
      {"groups of workers that share the states of experts",
       with_experts({{strategy + "sharding", "gradients"}, {strategy + "shard_group", 4}})},
      {"experts whose workers stand apart",
       with_experts({{strategy + "context", Json{{"degree", 2}}},
                     {strategy + "rank_order", "tensor_pipeline_data"},
                     {strategy + "pipeline", Json{{"stages", 2}, {"microbatches", 2}}}})},
      {"layers that are split over unlike GPUs", split({{second + "instance/accelerator/memory_bandwidth", "2TBps"},
                                                        {first + "workers_per_machine", 1},
                                                        {second + "workers_per_machine", 1},
                                                        {first + "instance/accelerators", 1},
                                                        {second + "instance/accelerators", 1},
                                                        {first + "count", 1},
                                                        {second + "count", 3}})},
      {"layers that are split over workers of several GPUs", split({{first + "workers_per_machine", 1},
                                                                    {first + "batch_per_worker", 2},
                                                                    {second + "workers_per_machine", 1},
                                                                    {second + "batch_per_worker", 2}})},
      {"split layers of unequal micro-batches", split({{second + "batch_per_worker", 2}})},
      {"all-reduces of machines among the parts of layers", split({{strategy + "algorithm", "hierarchical"}})},
      {"fused cycles of the sums of split layers", split({{strategy + "cycle_time", "1ms"}})},
      {"forward overlap of split layers", split({{strategy + "overlap", "forward"}})},
      {"a global batch that is stated twice",
       all_reduce({{strategy + "global_batch", 8}, {strategy + "accumulation_steps", 1}})},
      {"products of a precision that a GPU has no units for", all_reduce({{"/workload/precision", "bf16"}})},
      {"products in fp8 on a GPU without units for it", in_fp8("delayed", Json::object())},
      {"products in fp4 on a GPU without units for it",
       in_fp8("nvfp4", Json::object({{"peak_fp8", "4Tflops"}, {"architecture", "Blackwell"}}))},
      {"scales of 32 numbers on a GPU whose units know none", in_fp8("mxfp8", Json::object({{"peak_fp8", "4Tflops"}}))},
      {"samples of workers that hold a model together", pipeline({{"/workload/input", Json{{"decode_time", "1ms"}}}})},
      {"prices of no date", all_reduce({{"/cluster/prices", "aws-2019-12"}})},
      {"machines of a pool that are not revoked", all_reduce({{first + "spot_pool", kPool}})},
      {"machines whose provider and user both say when they go",
       all_reduce({{first + "market", "spot"}, {first + "spot_pool", kPool}, {first + "leaves_at", "2s"}})},
      {"faults of machines that a provider takes back",
       all_reduce({{first + "faults", Json{{"machine_mtbf", "1h"}}}, {first + "standby", false}})},
      {"faults of machines that come and go on purpose",
       all_reduce({{first + "faults", Json{{"machine_mtbf", "1h"}}}, {first + "leaves_at", "1s"}})},
      {"parts of checkpoints of workers that hold no parts",
       servers({{"/training/checkpoint", Json{{"every_steps", 2}, {"writers", "machines"}}}})},
      {"parts of checkpoints on disks of machines",
       all_reduce({{"/training/checkpoint", Json{{"every_steps", 2}, {"writers", "machines"}, {"to", "disk"}}}})},
      {"a rate of copies that nobody makes",
       all_reduce({{"/training/checkpoint", Json{{"every_steps", 2}, {"copy_rate", "1GBps"}}}})},
      {"a forecast with checkpoints in memory",
       all_reduce({{"/training/checkpoint", Json{{"every_steps", 2}, {"in_memory", Json{{"every_steps", 1}}}}},
                   {"/training/target", Json{{"samples", 100}}}})},
      {"replacements of machines that stay", all_reduce({{first + "replacement", Json{{"delay", "1s"}}}})},
      {"a rendezvous of workers that do not exchange by collectives",
       servers({{"/training/recovery/membership_change", "rendezvous"}})},
      {"servers that join or leave", servers({{second + "joins_at", "1s"}})},
      {"machines of servers that join or leave", colocated({{first + "leaves_at", "1s"}})},
      {"machines of servers that are stated twice", stated_twice},
      {"workers on machines of servers", servers({{second + "batch_per_worker", 1}})},
      {"nobody to begin with", all_late},
      {"parts of another number of workers",
       all_reduce({{second + "leaves_at", "1s"}, {strategy + "sharding", "gradients"}})},
      {"parts that are lost", pipeline({{second + "market", "spot"}, {second + "spot_pool", kPool}})},
      {"a checkpoint of parts for fewer workers",
       all_reduce({{strategy + "sharding", "gradients"}, {"/training/recovery/minimum_workers", 2}})},
      {"parts on machines of another group", pipeline({{second + "market", "spot"},
                                                       {second + "spot_pool", kPool},
                                                       {second + "replacement", Json{{"with", "workers"}}},
                                                       {"/training/recovery/lost_worker", "restart"}})},
      {"turns of connections that lose packets",
       all_reduce({{"/cluster/network/tcp", Json{{"turn", "128KiB"}}}, {"/cluster/network/packet_loss", 0.01}})},
      {"turns on a way of several switches", all_reduce({{"/cluster/network/tcp", Json{{"turn", "128KiB"}}},
                                                         {"/cluster/network/topology", "fat_tree"},
                                                         {"/cluster/network/machines_per_leaf", 2}})},
      {"rules for workers that wait for one another",
       all_reduce({{"/training/control", Json{{"replan", Json{{"deadline", "1h"}}}}}})},
      {"an elastic batch of workers that do not share steps",
       servers({{"/training/control",
                 Json{{"elastic_batch", Json{{"largest_batch_per_worker", 65536}, {"noise_scale", 1000}}}}}})},
      {"an elastic batch of models that are divided, or of a global batch",
       all_reduce({{"/training/control",
                    Json{{"elastic_batch", Json{{"largest_batch_per_worker", 65536}, {"noise_scale", 1000}}}}},
                   {"/training/smaller_cluster", "accumulates"}})},
      {"a plan anew without a loss to reach",
       servers({{"/training/control", Json{{"replan", Json{{"deadline", "1h"}}}}}})},
      {"servers that nobody requests", servers({{second + "standby", true}})},
      {"asynchronous workers that wait for a lost one", servers({{"/training/recovery/lost_worker", "wait"}})},
      {"synchronous workers that do not miss a lost one", all_reduce({{"/training/recovery/lost_worker", "continue"}})},
      {"a global batch of workers in different steps", servers({{"/training/smaller_cluster", "accumulates"}})},
      {"a loss of another strategy than that of the convergence model",
       with(test::shipped_scenario(), {{"/training/strategy/synchronization", "synchronous"},
                                       {"/training/target", Json{{"loss", 0.5}}},
                                       {"/workload/convergence", Json{{"offset", 1},
                                                                      {"batch_slope", 0},
                                                                      {"batch_intercept", 100},
                                                                      {"floor", 0.1},
                                                                      {"weighted_batch", {1, 65536}},
                                                                      {"workers", {1, 1000}},
                                                                      {"source", "test"}}}})},
      {"candidates with servers on their machines", colocated({})},
      {"plans for a loss of another strategy than that of the convergence model", servers({}, "synchronous")},
      {"candidates whose machines are those of a replay",
       all_reduce({{second + "market", "spot"},
                   {second + "spot_pool", Json{{"replay", Json::array({Json::array({0, "add", "a"})})}}}})},
  };
}

std::string refusal_of(const Json& scenario, std::string_view verb) {
  const JsonReader root{scenario, "s.json"};
  try {
    if (verb.empty())
      (void)read_scenario(scenario, "s.json", test::shipped_catalog());
    else
      check_combinations_of(verb, root);
  } catch (const InputError& error) { return error.what(); }
  return "accepted";
}

}  // namespace

/// Of workers that do nothing.
class Ours final : public StrategyKind {
 public:
  std::string title() const override { return "our own"; }
  std::unique_ptr<StrategyCompiler> compiler(const Site&) const override { return {}; }
};

TEST_CASE("every combination that is refused has a scenario, a reason, and a place that the scenario states") {
  register_strategy({"ours",
                     [](const JsonReader&, Scenario&, Json&) -> std::shared_ptr<const StrategyKind> {
                       return std::make_shared<Ours>();
                     },
                     {}});
  const std::map<std::string, Json> all = examples();
  std::set<std::string> names;
  for (const Refusal& refusal : refusals()) {
    const std::string name{refusal.name};
    CAPTURE(name);
    CHECK(names.insert(name).second);
    CHECK_FALSE(refusal.expected.empty());
    CHECK_FALSE(refusal.reason.empty());
    REQUIRE(all.contains(name));
    const Json& scenario = all.at(name);
    const std::string line = refusal_of(scenario, refusal.verb);
    const std::string text = ": expected " + std::string{refusal.expected} + ": " + std::string{refusal.reason};
    CHECK_MESSAGE(line.ends_with(text), line);
    if (!line.ends_with(text)) continue;
    REQUIRE(line.starts_with("s.json: /"));
    const std::string pointer = line.substr(8, line.size() - text.size() - 8);
    CHECK_MESSAGE(json_pointer_find(scenario, pointer) != nullptr, pointer);
  }
  for (const auto& example : all) CHECK_MESSAGE(names.contains(example.first), example.first);
}

TEST_CASE("the scenarios that combinations are added to are accepted") {
  for (const Json& scenario : {all_reduce({}), servers({}), servers({}, "stale_synchronous"),
                               servers({}, "synchronous"), colocated({}), pipeline({})})
    CHECK(refusal_of(scenario, "") == "accepted");
}

TEST_CASE("a place that others have set is told of them") {
  const Json scenario = servers({{"/training/strategy/aggregation", "gpu"}});
  JsonOrigins origins;
  origins.add("/training/strategy/aggregation", "--set /training/strategy/aggregation");
  CHECK_THROWS_WITH_AS((void)read_scenario(scenario, "s.json", test::shipped_catalog(), origins),
                       doctest::Contains("--set /training/strategy/aggregation: expected \"none\" with workers that"),
                       InputError);
}

TEST_CASE("90 000 unknown keys of a model's file take no time that is quadratic") {
  Json scenario = all_reduce({});
  std::string model = scenario["workload"]["model"].dump();
  model.pop_back();
  for (int i = 0; i < 90'000; ++i) model += ",\"key" + std::to_string(i) + "\":1";
  const test::TemporaryFolder folder;
  const std::string file = folder.write("model.json", model + "}").string();
  scenario["workload"]["model"] = file;
  CHECK(refusal_of(scenario, "")
            .starts_with(file + ": unknown key \"key0\""));  // 25 s at -O2 if each looks at all others
}

}  // namespace rehearse
