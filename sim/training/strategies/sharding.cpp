#include "sim/training/strategies/sharding.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "sim/scenario/pipeline_schedule.hpp"
#include "sim/scenario/rank_grid.hpp"
#include "sim/scenario/refusals.hpp"
#include "sim/scenario/scenario_readers.hpp"
#include "sim/scenario/work.hpp"
#include "sim/training/strategies/strategies.hpp"

namespace rehearse {

namespace {

/// Their words in scenarios, each with less on a worker than the one before.
constexpr std::array kShardings{Named{"none", Sharding::kNone}, Named{"optimizer", Sharding::kOptimizer},
                                Named{"gradients", Sharding::kGradients}, Named{"parameters", Sharding::kParameters}};

constexpr std::array kGatherings{Named{"ring", false}, Named{"pat", true}};

bool is_sharded(const Refusal::Subject& subject) { return collective_rules_of(subject).sharding != Sharding::kNone; }

/// That of `key` if it is stated beside another sharding than those it belongs to.
RefusedPlace stated_without(const Refusal::Subject& subject, std::initializer_list<Sharding> levels,
                            std::string_view key) {
  const bool belongs = std::ranges::find(levels, collective_rules_of(subject).sharding) != levels.end();
  return belongs ? RefusedPlace{} : stated_of_strategy(subject, {key});
}

RefusedPlace stated_without_sharding(const Refusal::Subject& subject, std::string_view key) {
  return is_sharded(subject) ? RefusedPlace{} : stated_of_strategy(subject, {key});
}

std::vector<Refusal> refusals_of_sharding() {
  return {
      {"parts that trees and stars exchange",
       [](const Refusal::Subject& s) {
         return strategy_place_if(is_sharded(s) && collective_rules_of(s).algorithm != CollectiveAlgorithm::kRing &&
                                      !is_choice(collective_rules_of(s).algorithm),
                                  "algorithm");
       },
       "\"ring\", \"library\" or \"fastest\" with sharding", "trees and stars handle a tensor as a whole"},
      {"units that are gathered ahead though they are there",
       [](const Refusal::Subject& s) { return stated_without(s, {Sharding::kParameters}, "prefetched_units"); },
       "\"sharding\": \"parameters\" beside it", "a worker that keeps all variables gathers none ahead of its kernels"},
      {"trees of gatherings that there are not",
       [](const Refusal::Subject& s) { return stated_without_sharding(s, "gather_algorithm"); },
       "\"sharding\" beside it", "without it nothing is gathered among machines"},
      {"trees among GPUs that share machines",
       [](const Refusal::Subject& s) {
         return strategy_place_if(collective_rules_of(s).gathers_by_trees && shares_machines(*s.scenario),
                                  "gather_algorithm");
       },
       "\"ring\" where GPUs of one machine share states", "NCCL has PAT among GPUs of as many machines alone"},
      {"buckets of what is not gathered after the update",
       [](const Refusal::Subject& s) {
         return stated_without(s, {Sharding::kOptimizer, Sharding::kGradients}, "gather_bucket_size");
       },
       "\"sharding\": \"optimizer\" or \"gradients\" beside it",
       "they gather what each worker has updated; sharded parameters are gathered in units before they are used"},
      {"forward overlap of parts",
       [](const Refusal::Subject& s) {
         return collective_rules_of(s).sharding >= Sharding::kGradients ? forward_overlap(s) : RefusedPlace{};
       },
       "\"none\" or \"backward\" with sharded gradients or parameters", "each part is updated before any is gathered"},
      {"groups that share nothing", [](const Refusal::Subject& s) { return stated_without_sharding(s, "shard_group"); },
       "\"sharding\" beside it", "a group of workers shares the states that are sharded"},
      {"groups of workers of several GPUs that share states",
       [](const Refusal::Subject& s) {
         return s.scenario->first_workers().gpus_per_worker > 1 ? stated_of_strategy(s, {"shard_group"})
                                                                : RefusedPlace{};
       },
       "a worker for each GPU (\"workers_per_machine\" as many as it has)",
       "each GPU of a group has a part of its own"},
      {"sums of all gradients where each worker keeps its part of them",
       [](const Refusal::Subject& s) { return stated_without(s, {Sharding::kOptimizer}, "reduce_scatter"); },
       "\"sharding\": \"optimizer\" beside it", "with it alone workers may hold all gradients, and add up all of them"},
      {"sums of all gradients in groups that share states",
       [](const Refusal::Subject& s) {
         return collective_rules_of(s).scatters_gradients ? RefusedPlace{} : stated_of_strategy(s, {"shard_group"});
       },
       "\"reduce_scatter\": true beside it", "a group's parts are added up among the groups"},
      {"gradients that are kept whole though they are not sharded",
       [](const Refusal::Subject& s) {
         return stated_without(s, {Sharding::kGradients, Sharding::kParameters}, "no_sync");
       },
       "\"sharding\": \"gradients\" or \"parameters\" beside it", "others are added up once in a step, anyway"},
  };
}

std::string schema_of_sharding() {
  return R"json({ "properties": {
    "sharding": { "enum": ["none", "optimizer", "gradients", "parameters"], "default": "none", "description": "all_reduce: what a worker keeps only its part of; each stage includes the one before (ZeRO 1, 2, 3)" },
    "prefetched_units": { "type": "integer", "minimum": 0, "maximum": 1000, "description": "sharding of parameters: units of gradients' variables that are gathered ahead of the one in use; default: 1, or 0 with overlap none" },
    "gather_bucket_size": { "$ref": "#/$defs/size", "description": "sharding of optimizer or gradients: values that are gathered together after the update (allgather_bucket_size of DeepSpeed); 0B: each variable by itself; default: as gradients are added up" },
    "shard_group": { "type": "integer", "minimum": 2, "description": "with sharding: so many consecutive data-parallel workers share what is sharded, and add up their parts with their likes in the other groups (hybrid sharding of FSDP, MiCS); a divisor of them; default: all" },
    "gather_algorithm": { "enum": ["ring", "pat"], "default": "ring", "description": "with sharding: all-gathers and reduce-scatters as rings, or among GPUs of as many machines as NCCL's parallel aggregated trees, which take the logarithm of them in rounds (NCCL_ALGO=PAT, from 2.23 on)" },
    "reduce_scatter": { "type": "boolean", "default": true, "description": "sharding of the optimizer: a worker gets the sums of its part of the gradients; false: of all of them, by all-reduces, as nanotron, and DeepSpeed with reduce_scatter false" },
    "no_sync": { "type": "boolean", "default": false, "description": "sharding of gradients or parameters: gradients are kept whole while batches are accumulated, and added up after the last one (no_sync() of FSDP), instead of each time" }
  } })json";
}

}  // namespace

StrategyKeys sharding_keys() { return {schema_of_sharding, refusals_of_sharding}; }

void read_sharding(const JsonReader& json, CollectiveRules& rules) {
  if (!json.has("sharding")) return;
  rules.sharding = read_word(json, "sharding", kShardings);
  const bool overlaps = !json.has("overlap") || json.required<std::string>("overlap") != "none";
  if (rules.sharding == Sharding::kParameters && !overlaps) rules.prefetched_units = 0;
  rules.prefetched_units = json.optional<int>("prefetched_units", rules.prefetched_units);
  rules.scatters_gradients = json.optional<bool>("reduce_scatter", true);
  rules.reduces_once = json.optional<bool>("no_sync", false);
  if (json.has("gather_algorithm")) rules.gathers_by_trees = read_word(json, "gather_algorithm", kGatherings);
  if (json.has("gather_bucket_size")) {
    rules.gather_bucket_size = json.required<Bytes>("gather_bucket_size");
    json.expect(*rules.gather_bucket_size == Bytes{} || *rules.gather_bucket_size >= Bytes{1024}, "gather_bucket_size",
                "0B or at least 1KiB");
  }
  if (json.has("prefetched_units"))
    json.expect(rules.prefetched_units >= 0 && rules.prefetched_units <= 1000, "prefetched_units", "0 to 1000");
}

int read_shard_group(const JsonReader& json, int likes, int of_samples) {
  if (!json.has("shard_group")) return 0;
  const auto group = json.required<int>("shard_group");
  if (likes < 2)
    json.fail("shard_group",
              "expected no such key with one data-parallel worker, which has nobody to share with; found " +
                  std::to_string(group));
  const auto divides = [&](int size) { return likes % size == 0 && size % of_samples == 0; };
  const int nearest = group < 1 ? likes : nearest_by_ratio(group, 2, likes, divides);
  json.expect(group >= 2 && divides(group), "shard_group",
              "2 or more workers that divide the " + std::to_string(likes) + " data-parallel ones" +
                  (of_samples > 1 ? ", in groups of " + std::to_string(of_samples) + " that share samples" : "") +
                  ", such as " + std::to_string(nearest));
  return group < likes ? group : 0;
}

std::string title_of(Sharding sharding) {
  constexpr std::array kTitles{Named{"a sharded optimizer", Sharding::kOptimizer},
                               Named{"sharded gradients", Sharding::kGradients},
                               Named{"sharded parameters", Sharding::kParameters}};
  return name_in(kTitles, sharding);
}

std::string shard_group_text(const CollectiveRules& rules) {
  return rules.shard_group == 0 ? "" : ", shared by groups of " + std::to_string(rules.shard_group);
}

DividedStates divided_by(const CollectiveRules& rules) {
  return {.optimizer = rules.sharding >= Sharding::kOptimizer,
          .gradients = rules.sharding >= Sharding::kGradients && !rules.reduces_once,
          .weights = rules.sharding >= Sharding::kParameters};
}

bool shares_machines(const Scenario& scenario) {
  if (!has_whole_grid(scenario)) return false;
  const int on_machine = scenario.first_workers().workers_per_machine();
  std::set<int> machines;
  const std::vector<int> group = rank_grid(scenario).along(kSharingAxes, 0);
  for (const int worker : group) machines.insert(worker / on_machine);
  return machines.size() < group.size();
}

std::vector<Named<Sharding>> more_sharding(const Scenario& scenario, const CollectiveRules& rules) {
  const bool can_shard =
      rules.algorithm == CollectiveAlgorithm::kRing || rules.algorithm == CollectiveAlgorithm::kFastest;
  if (!can_shard || sharing_gpus(scenario) < 2 || scenario.has_changing_membership() || scenario.has_revocations() ||
      scenario.training.strategy.exchange.overlap == Overlap::kForward)
    return {};
  const Pipeline* pipeline = scenario.training.strategy.kind->pipeline();
  const Sharding most =
      pipeline != nullptr && splits_backward(*pipeline) ? Sharding::kOptimizer : Sharding::kParameters;
  std::vector<Named<Sharding>> more;
  for (const Named<Sharding>& level : kShardings)
    if (level.value > rules.sharding && level.value <= most) more.push_back(level);
  return more;
}

}  // namespace rehearse
