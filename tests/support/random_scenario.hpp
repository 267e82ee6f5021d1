#pragma once
// Random valid scenarios of every strategy and topology.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/random.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse::test {

class ScenarioGenerator {
 public:
  explicit ScenarioGenerator(std::uint64_t seed) : seed_{seed}, random_{seed, "random scenario"} {}

  Json generate() {
    const int kind = pick(4);
    const bool has_servers = kind >= 2;
    const int gpus = chance(3) ? 1 << pick(3) : 1;
    const int machines = 1 + pick(chance(8) ? 64 : 12);
    std::vector<TimedTensor> tensors;
    for (int i = 1 + pick(8); i > 0; --i)
      tensors.push_back({std::to_string(kSize * (1 + pick(40))) + "B", std::to_string(pick(3000)) + "us",
                         std::to_string(1 + pick(3000)) + "us"});
    scenario_ = timed_scenario(machines, tensors, strategy(kind), gpus);
    const bool is_asynchronous =
        kind == 1 || (has_servers && scenario_["training"]["strategy"]["synchronization"] != "synchronous");
    const int workers = machines * gpus;
    if (Json& chosen = scenario_["training"]["strategy"]; chosen.value("algorithm", "") == "clique" && workers > 24)
      chosen["algorithm"] = "ring";  // exact, the flows between all pairs would take minutes
    scenario_["training"]["steps"] = 1 + pick(is_asynchronous ? 4 * workers : 12);
    scenario_["training"]["warmup_steps"] = pick(4);
    if (chance(3)) scenario_["training"]["step_time_variation"] = 0.1 * pick(8);
    if (chance(5)) scenario_["training"]["start_interval"] = std::to_string(pick(5)) + "ms";
    if (chance(5))
      scenario_["training"]["checkpoint"] = {{"every_steps", 1 + pick(5)}, {"fixed_time", "3ms"}, {"rate", "1GBps"}};
    if (has_servers) add_servers(workers);
    Json& instance = scenario_["cluster"]["groups"][0]["instance"];
    instance["nics"] = 1 << pick(3);
    if (chance(2)) instance["interconnect"] = interconnect(gpus);
    network(machines);
    if (chance(3)) profile();
    if (chance(4)) change_membership();
    scenario_["seed"] = pick(1000);
    collectives(seed_);
    variable_home(seed_);
    sharding(seed_);
    several_gpus(seed_);
    pipeline(seed_);
    shard_groups(seed_);
    offload(seed_);
    forward_overlap(seed_);
    repeat_steps(seed_);
    load_samples(seed_);
    return scenario_;
  }

 private:
  int pick(int n) { return static_cast<int>(random_.below(static_cast<std::uint64_t>(n))); }
  bool chance(int one_in) { return pick(one_in) == 0; }
  std::string one_of(const std::vector<std::string>& words) {
    return words[static_cast<std::size_t>(pick(static_cast<int>(words.size())))];
  }

  Json strategy(int kind) {
    Json strategy;
    if (kind == 0) {
      strategy = {{"kind", "all_reduce"},
                  {"algorithm", one_of({"ring", "binary_tree", "flat_double_binary_tree", "hierarchical", "star",
                                        "clique", "tree", "binary_tree_star"})},
                  {"overlap", one_of({"none", "backward", "forward"})}};
      if (chance(4)) strategy["cycle_time"] = std::to_string(1 + pick(9)) + "ms";
    } else if (kind == 1) {
      return {{"kind", "pairwise_averaging"}, {"accumulation_steps", 1 + pick(3)}};
    } else {
      strategy = {{"kind", "parameter_server"},
                  {"synchronization", one_of({"synchronous", "asynchronous", "stale_synchronous"})},
                  {"placement", one_of({"round_robin", "greedy_by_bytes", "sharded"})},
                  {"overlap", one_of({"none", "backward"})}};
      if (strategy["synchronization"] == "stale_synchronous") strategy["staleness_bound"] = pick(4);
      if (strategy["synchronization"] == "synchronous" && chance(3)) strategy["pushes_back_each_variable"] = true;
      if (strategy["synchronization"] == "synchronous" && chance(2)) strategy["aggregation"] = one_of({"host", "gpu"});
    }
    if (chance(2)) strategy["bucket_size"] = std::to_string(1 + pick(20)) + "MB";
    if (strategy.contains("bucket_size") && chance(2)) strategy["first_bucket_size"] = "500kB";
    if (chance(3)) strategy["partition_size"] = std::to_string(1 + pick(5)) + "MB";
    strategy["order"] = one_of({"fifo", "priority"});
    strategy["gradient_precision"] = one_of({"fp32", "fp16"});
    strategy["accumulation_steps"] = 1 + pick(3);
    return strategy;
  }

  void add_servers(int workers) {
    const int servers = 1 + pick(5);
    Json& strategy = scenario_["training"]["strategy"];
    if (strategy["synchronization"] == "synchronous" && chance(3)) strategy["backup_workers"] = pick(workers);
    if (chance(3))
      scenario_["cluster"]["groups"].push_back(
          {{"name", "ps"}, {"role", "parameter_server"}, {"colocated_with", "workers"}, {"count", servers}});
    else
      scenario_ = with_servers(scenario_, servers);
  }

  Json interconnect(int gpus) {
    Json json{{"pcie", one_of({"8GBps", "16GBps"})}, {"latency", std::to_string(pick(5)) + "us"}};
    if (chance(2)) json["pcie_root"] = "12GBps";
    if (json.contains("pcie_root") && chance(2)) json["gpus_per_root"] = 1 + pick(4);
    if (chance(4)) {
      json["socket_link"] = "9GBps";
      json["gpus_per_socket"] = 1 + pick(4);
    }
    if (chance(3)) json["stages_copies_in_host"] = true;
    if (chance(3)) json["nvswitch"] = "100GBps";
    if (gpus > 1 && chance(2)) {
      json["nvlink_rate"] = "20GBps";
      json["nvlinks"] = Json::array();
      for (int a = 0; a < gpus; ++a)
        for (int b = a + 1; b < gpus; ++b)
          if (!chance(4)) json["nvlinks"].push_back({{"a", a}, {"b", b}, {"count", 1 + pick(2)}});
    }
    return json;
  }

  void network(int machines) {
    Json& network = scenario_["cluster"]["network"];
    const bool has_own_servers =
        scenario_["cluster"]["groups"].size() > 1 && !scenario_["cluster"]["groups"][1].contains("colocated_with");
    const int all = machines + (has_own_servers ? scenario_["cluster"]["groups"][1]["count"].get<int>() : 0);
    switch (pick(6)) {
      case 0:
        network["topology"] = "fat_tree";
        network["machines_per_leaf"] = 1 + pick(5);
        network["oversubscription"] = 1 + pick(4);
        network["uplinks"] = 1 + pick(3);
        break;
      case 1:
        network["topology"] = "dragonfly";
        network["machines_per_router"] = 1 + pick(3);
        network["routers_per_group"] = 1 + pick(3);
        network["local_rate"] = "2GBps";
        network["global_rate"] = "1GBps";
        break;
      case 2:
        network["topology"] = "torus";
        network["link_rate"] = "1GBps";
        network["dimensions"] = all % 2 == 0 ? Json{all / 2, 2} : Json{all};
        if (all > 60) network.erase("dimensions"), network.erase("link_rate"), network["topology"] = "star";
        break;
      case 3:
        network["topology"] = "rail";
        network["oversubscription"] = 2;
        break;
      case 4:  // two regions
        if (has_own_servers) {
          scenario_["cluster"]["groups"][1]["region"] = "far";
          network["links"].push_back(
              {{"from", "r"}, {"to", "far"}, {"latency", "3ms"}, {"per_flow_rate", "200MBps"}, {"source", "test"}});
          network["links"].push_back({{"from", "far"}, {"to", "far"}, {"latency", "10us"}, {"source", "test"}});
        }
        break;
      default:
        break;
    }
    if (chance(3)) network["hop_latency"] = std::to_string(pick(20)) + "us";
  }

  /// Some of the workers are in a group of their own, which joins or leaves.
  void change_membership() {
    Json& groups = scenario_["cluster"]["groups"];
    const int machines = groups[0]["count"].get<int>();
    if (machines < 2) return;
    Json late = groups[0];
    late["name"] = "late";
    late["count"] = 1 + pick(machines - 1);
    groups[0]["count"] = machines - late["count"].get<int>();
    const int joins_at = chance(3) ? 0 : 1 + pick(50);
    if (joins_at > 0) late["joins_at"] = std::to_string(joins_at) + "ms";
    if (joins_at == 0 || chance(2)) late["leaves_at"] = std::to_string(joins_at + 1 + pick(100)) + "ms";
    groups.push_back(late);
    scenario_["training"]["steps"] = scenario_["training"]["steps"].get<int>() * 4;
  }

  void profile() {
    Json profile = load_json_file(source_folder() + "/calibration/profiles/ideal.json");
    profile["host"] = {{"dispatch", "20us"}, {"step_overhead", std::to_string(pick(3)) + "ms"}};
    profile["servers"]["time_per_variable"] = std::to_string(pick(200)) + "us";
    profile["servers"]["time_per_byte"] = "0.1ns";
    profile["servers"]["time_per_update"] = std::to_string(pick(2)) + "ms";
    scenario_["calibration"] = profile;
  }

  /// Servers on the workers' machines may keep their variables in the workers' process, or on the GPUs of the only one.
  void variable_home(std::uint64_t seed) {
    Rng random{seed, "variable home"};
    const Json& groups = scenario_["cluster"]["groups"];
    const bool is_colocated =
        std::any_of(groups.begin(), groups.end(), [](const Json& group) { return group.contains("colocated_with"); });
    if (!is_colocated || random.below(2) == 0) return;
    Json& strategy = scenario_["training"]["strategy"];
    const auto worker_groups =
        std::ranges::count_if(groups, [](const Json& group) { return group.value("role", "") == "worker"; });
    const bool fits_gpus = worker_groups == 1 && groups[0]["count"] == 1 && strategy.value("aggregation", "") == "gpu";
    strategy["variables"] = fits_gpus ? "gpus" : "worker_process";
    if (Json& profile = scenario_["calibration"]; profile.is_object())
      profile["servers"]["in_process"] = {{"time_per_variable", "10us"}, {"time_per_byte", "0.2ns"}};
  }

  /// What a library adds, in half of the scenarios with all-reduce.
  void collectives(std::uint64_t seed) {
    Rng random{seed, "collectives"};
    if (scenario_["training"]["strategy"]["kind"] != "all_reduce" || random.below(2) == 0) return;
    Json& profile = scenario_["calibration"];
    if (profile.is_string()) profile = load_json_file(source_folder() + "/calibration/profiles/ideal.json");
    const auto microseconds = [&](std::uint64_t most) { return std::to_string(random.below(most)) + "us"; };
    for (const std::string name : {"LL", "Simple"})
      profile["collectives"]["protocols"][name] = {
          {"launch", microseconds(100)},          {"nvlink_step", microseconds(5)},
          {"pcie_step", microseconds(10)},        {"network_step", microseconds(20)},
          {"efficiency", name == "LL" ? 0.5 : 1}, {"copy", std::to_string(1 + random.below(9)) + "GBps"}};
    if (random.below(2) == 0) profile["collectives"]["nvlink_relay_efficiency"] = 0.5;
    Json& protocols = profile["collectives"]["protocols"];
    protocols["LL"]["needs_order"] = true;
    protocols["Simple"]["piece"] = std::to_string(random.below(512)) + "KiB";
    Json& instance = scenario_["cluster"]["groups"][0]["instance"];
    if (instance.is_object() && random.below(4) == 0) {
      instance["in_order"] = false;
      instance["plugin_latency"] = microseconds(100);
    }
  }

  /// Of half of the scenarios with all-reduce that it goes with.
  void sharding(std::uint64_t seed) {
    Rng random{seed, "sharding"};
    Json& strategy = scenario_["training"]["strategy"];
    if (strategy["kind"] != "all_reduce" || strategy["overlap"] == "forward" || random.below(2) == 0) return;
    for (const Json& group : scenario_["cluster"]["groups"])
      if (group.contains("joins_at") || group.contains("leaves_at")) return;
    strategy["algorithm"] = "ring";
    strategy["sharding"] = std::vector<std::string>{"optimizer", "gradients", "parameters"}[random.below(3)];
    if (strategy["sharding"] == "parameters")
      strategy["prefetched_units"] = random.below(4);
    else if (random.below(2) == 0)
      strategy["gather_bucket_size"] = std::vector<std::string>{"0B", "1KiB", "1MiB"}[random.below(3)];
  }

  /// Workers of several GPUs each, in a third of the scenarios that have them.
  void several_gpus(std::uint64_t seed) {
    Rng random{seed, "several GPUs"};
    if (random.below(3) > 0) return;
    for (Json& group : scenario_["cluster"]["groups"]) {
      const int gpus = group["role"] == "worker" ? group["instance"]["accelerators"].get<int>() : 1;
      if (gpus == 1) continue;
      group["workers_per_machine"] = gpus / 2;
      group["batch_per_worker"] = 2;
    }
    Json& strategy = scenario_["training"]["strategy"];
    if (strategy.contains("backup_workers")) strategy["backup_workers"] = strategy["backup_workers"].get<int>() / 2;
  }

  /// Of a third of the scenarios with servers; and cycles, of a quarter of them.
  void forward_overlap(std::uint64_t seed) {
    Rng random{seed, "forward overlap"};
    Json& strategy = scenario_["training"]["strategy"];
    if (strategy["kind"] != "parameter_server") return;
    if (random.below(3) == 0) strategy["overlap"] = "forward";
    if (random.below(4) == 0 && strategy.value("variables", "") != "gpus")
      strategy["cycle_time"] = std::to_string(1 + random.below(9)) + "ms";
  }

  /// Of half of the scenarios with all-reduce that it goes with.
  void pipeline(std::uint64_t seed) {
    Rng random{seed, "pipeline"};
    Json& strategy = scenario_["training"]["strategy"];
    if (strategy["kind"] != "all_reduce" || strategy["overlap"] == "forward" || random.below(2) == 0) return;
    std::uint64_t workers = 0;
    for (const Json& group : scenario_["cluster"]["groups"]) {
      if (group.contains("joins_at") || group.contains("leaves_at")) return;
      const auto gpus = group["instance"]["accelerators"].get<std::uint64_t>();
      workers += group["count"].get<std::uint64_t>() * group.value("workers_per_machine", gpus);
    }
    Json& layers = scenario_["workload"]["model"]["structure"]["layers"];
    std::uint64_t stages = 1 + random.below(std::min<std::uint64_t>(workers, layers.size()));
    while (workers % stages != 0) --stages;
    for (Json& layer : layers) layer["output"] = std::to_string(kSize * (1 + random.below(10))) + "B";
    if (strategy["algorithm"] == "hierarchical") strategy["algorithm"] = "ring";
    strategy.erase("accumulation_steps");
    strategy["pipeline"] = {{"stages", stages},
                            {"microbatches", 1 + random.below(8)},
                            {"schedule", random.below(2) == 0 ? "gpipe" : "1f1b"}};
    interleave(seed, layers.size());
  }

  /// A third of the pipelines with layers enough, and messages that block of another third.
  void interleave(std::uint64_t seed, std::size_t layers) {
    Rng random{seed, "interleaved pipeline"};
    Json& pipeline = scenario_["training"]["strategy"]["pipeline"];
    const auto stages = pipeline["stages"].get<std::size_t>();
    if (random.below(3) == 0) pipeline["messages"] = "blocking";
    if (stages < 2 || layers < 2 * stages || random.below(3) > 0) return;
    const std::size_t group = stages + random.below(3);
    pipeline.update({{"schedule", "interleaved"},
                     {"chunks", 2 + random.below(layers / stages - 1)},
                     {"microbatch_group", group},
                     {"microbatches", group * (1 + random.below(3))}});
  }

  /// Of half of the scenarios with sharding: gradients that are added up once in a step, and groups that share states.
  void shard_groups(std::uint64_t seed) {
    Rng random{seed, "shard groups"};
    Json& strategy = scenario_["training"]["strategy"];
    if (!strategy.contains("sharding") || random.below(2) == 0) return;
    if (strategy["sharding"] != "optimizer" && random.below(2) == 0) strategy["no_sync"] = true;
    std::uint64_t likes = 0;
    for (const Json& group : scenario_["cluster"]["groups"]) {
      const auto gpus = group["instance"]["accelerators"].get<std::uint64_t>();
      if (group.value("workers_per_machine", gpus) != gpus) return;
      likes += group["count"].get<std::uint64_t>() * gpus;
    }
    if (strategy.contains("pipeline")) likes /= strategy["pipeline"]["stages"].get<std::uint64_t>();
    std::vector<std::uint64_t> sizes;
    for (std::uint64_t size = 2; size <= likes; ++size)
      if (likes % size == 0) sizes.push_back(size);
    if (!sizes.empty()) strategy["shard_group"] = sizes[random.below(sizes.size())];
  }

  /// Of a third of those with sharding that it goes with.
  void offload(std::uint64_t seed) {
    Rng random{seed, "offload"};
    Json& strategy = scenario_["training"]["strategy"];
    if (!strategy.contains("sharding") || random.below(3) > 0) return;
    scenario_["workload"]["optimizer"] = "momentum";
    strategy["offload"] = {{"optimizer", 0.25 * static_cast<double>(1 + random.below(4))},
                           {"host_memory_bandwidth", std::to_string(1 + random.below(200)) + "GBps"}};
  }

  /// So many of synchronous servers, in half of the scenarios with few workers, that cycles of them are found.
  void repeat_steps(std::uint64_t seed) {
    Rng random{seed, "repeated steps"};
    const Json &group = scenario_["cluster"]["groups"][0], &strategy = scenario_["training"]["strategy"];
    if (strategy.value("synchronization", "") != "synchronous" || strategy.contains("backup_workers") ||
        random.below(2) == 0 || group["count"].get<int>() * group["instance"]["accelerators"].get<int>() > 8)
      return;
    scenario_["training"]["steps"] = 40 + random.below(80);
  }

  /// Of a quarter of those whose workers hold whole models.
  void load_samples(std::uint64_t seed) {
    Rng random{seed, "input"};
    if (random.below(4) > 0 || scenario_["training"]["strategy"].contains("pipeline")) return;
    Json& input = scenario_["workload"]["input"] = {{"decode_time", std::to_string(1 + random.below(40)) + "ms"},
                                                    {"loaders", 1 + random.below(8)},
                                                    {"prefetch", random.below(3) > 0}};
    if (random.below(2) == 0)
      input.update({{"sample_size", "100kB"}, {"read_rate", std::to_string(1 + random.below(99)) + "MBps"}});
  }

  /// Pieces of a multiple are equal to the byte: SimGrid takes what ends within a nanosecond as ending together, and a
  /// byte is a nanosecond here.
  static constexpr int kSize = 302'400;

  std::uint64_t seed_;
  Rng random_;
  Json scenario_;
};

}  // namespace rehearse::test
