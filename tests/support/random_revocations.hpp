#pragma once
// Random jobs on spot machines, of every strategy and topology.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/random_scenario.hpp"

namespace rehearse::test {

/// A random scenario whose machines may be taken away.
inline Json random_job(std::uint64_t seed) {
  Json scenario = ScenarioGenerator{seed}.generate();
  for (Json& group : scenario["cluster"]["groups"]) group.erase("joins_at"), group.erase("leaves_at");
  Json& strategy = scenario["training"]["strategy"];
  if (seed % 2 == 0)
    for (const char* key :
         {"sharding", "prefetched_units", "gather_bucket_size", "shard_group", "no_sync", "offload", "pipeline"})
      strategy.erase(key);
  scenario["training"]["steps"] = scenario["training"]["steps"].get<int>() * 3;
  return scenario;
}

/// Revocations of workers and servers at random dates, in a run that takes `length` without them.
inline Json with_random_revocations(Json scenario, double length, std::uint64_t seed) {
  Rng random{seed, "revocations"};
  const auto pick = [&](int n) { return static_cast<int>(random.below(static_cast<std::uint64_t>(n))); };
  const auto seconds = [&](double most) { return std::to_string(random.uniform() * most) + "s"; };
  const bool is_synchronous = scenario["training"]["strategy"]["kind"] == "all_reduce" ||
                              scenario["training"]["strategy"].value("synchronization", "") == "synchronous";
  for (Json& group : scenario["cluster"]["groups"]) {
    if (group.contains("colocated_with") || (group["role"] == "parameter_server" && pick(2) == 0)) continue;
    group["market"] = "spot";
    const int machines = group.value("count", 1);
    if (pick(2) == 0) {
      group["spot_pool"] = {
          {"source", "test"},
          {"lifetime",
           {{"law", {{"law", "exponential"}, {"mean", std::to_string(length * (0.2 + 2 * random.uniform())) + "s"}}}}},
          {"notice", pick(2) == 0 ? "0s" : seconds(length / 10)}};
      if (pick(4) == 0) group["replacement"] = {{"with", "none"}};
      continue;
    }
    Json trace = Json::array();
    std::vector<std::string> alive;
    for (int i = 0; i < machines; ++i) trace.push_back({0, "add", alive.emplace_back("n" + std::to_string(i))});
    double at = 0;
    int next = machines;
    for (int i = pick(12); i > 0; --i) {
      at += pick(4) == 0 ? 0 : random.uniform() * length / 4;  // often at the same date
      if (!alive.empty() && pick(2) == 0) {
        const int most = pick(5) == 0 ? static_cast<int>(alive.size()) : 1;  // everybody at once
        for (int k = 0; k < most; ++k) {
          const auto which = alive.begin() + pick(static_cast<int>(alive.size()));
          trace.push_back({at, "remove", *which});
          alive.erase(which);
        }
      } else {
        trace.push_back({at, "add", alive.emplace_back("n" + std::to_string(next++))});
      }
    }
    for (; static_cast<int>(alive.size()) < machines && pick(3) > 0;)
      trace.push_back({at + length / 2, "add", alive.emplace_back("n" + std::to_string(next++))});
    group["spot_pool"] = {{"replay", trace}, {"notice", pick(2) == 0 ? "0s" : seconds(length / 10)}};
  }
  int fewest_workers = 0;  // one on each machine
  for (const Json& group : scenario["cluster"]["groups"])
    if (group["role"] == "worker") fewest_workers += group.value("count", 1);
  Json& recovery = scenario["training"]["recovery"];
  recovery = {{"timeout", seconds(length / 5)},
              {"restart_time", seconds(length / 5)},
              {"uses_notice", pick(2) == 0},
              {"give_up_after", std::to_string(length * 20 + 1) + "s"},
              {"lost_chief", pick(2) == 0 ? "restart" : "hand_over"}};
  Rng changes{seed, "membership changes"};
  if (const auto which = changes.below(4);
      which > 0 && (which < 3 || scenario["training"]["strategy"]["kind"] == "all_reduce"))
    recovery["membership_change"] = std::vector<std::string>{"", "at_once", "restart", "rendezvous"}[which];
  if (is_synchronous)
    recovery["lost_worker"] = std::vector<std::string>{"shrink", "wait", "restart"}[static_cast<std::size_t>(pick(3))];
  else
    recovery["lost_worker"] = pick(3) == 0 ? "restart" : "continue";
  if (pick(3) == 0) recovery["minimum_workers"] = std::min(1 + pick(3), fewest_workers);
  const Json& strategy = scenario["training"]["strategy"];
  if (strategy.value("sharding", "none") != "none" || strategy.contains("pipeline")) {
    recovery["lost_worker"] = "restart";
    recovery.erase("minimum_workers");
  }
  switch (pick(4)) {
    case 0:
      scenario["training"]["checkpoint"] = {
          {"every_steps", 1 + pick(5)}, {"fixed_time", seconds(length / 10)}, {"rate", "1GBps"}};
      break;
    case 1:
      scenario["training"]["checkpoint"] = {{"every", std::to_string(length / 8 + 0.001) + "s"},
                                            {"fixed_time", seconds(length / 20)},
                                            {"rate", "1GBps"},
                                            {"pauses", "all"},
                                            {"to", "disk"}};
      break;
    case 2:
      scenario["training"]["checkpoint"] = {
          {"interval", "young_daly"}, {"fixed_time", seconds(length / 20)}, {"rate", "1GBps"}};
      break;
    default:
      scenario["training"].erase("checkpoint");
  }
  return scenario;
}

}  // namespace rehearse::test
