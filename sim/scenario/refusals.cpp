#include "sim/scenario/refusals.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <variant>

#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

using Subject = Refusal::Subject;
using Place = std::optional<std::string>;

constexpr const char* kGroups = "/cluster/groups";
constexpr const char* kStrategy = "/training/strategy";

Place place_if(bool has, std::string pointer) { return has ? Place{std::move(pointer)} : std::nullopt; }

const Json* stated(const Subject& subject, const std::string& pointer) {
  return json_pointer_find(subject.root.value(), pointer);
}

/// The first of `keys` that the object at `pointer` has.
Place stated_key(const Subject& subject, const std::string& pointer, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (stated(subject, pointer + "/" + key) != nullptr) return pointer + "/" + key;
  return {};
}

/// Of the strategy.
Place stated_of_strategy(const Subject& subject, bool is_wrong, std::initializer_list<const char*> keys) {
  return is_wrong ? stated_key(subject, kStrategy, keys) : Place{};
}

/// The first of `keys` of the first group of which `is_wrong(group)` holds and that has one of them.
template <class IsWrong>
Place stated_of_group(const Subject& subject, std::initializer_list<const char*> keys, const IsWrong& is_wrong) {
  const std::vector<Group>& groups = subject.scenario->groups;
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (is_wrong(groups[g]))
      if (auto place = stated_key(subject, kGroups + ("/" + std::to_string(g)), keys)) return place;
  return {};
}

const ParameterServerStrategy* servers_of(const Subject& subject) {
  return std::get_if<ParameterServerStrategy>(&subject.scenario->training.strategy.kind);
}
bool has_servers_that_are(const Subject& subject, Synchronization how) {
  return servers_of(subject) != nullptr && servers_of(subject)->synchronization == how;
}
/// Servers of workers that may be in different steps.
bool has_unordered_servers(const Subject& subject) {
  return servers_of(subject) != nullptr && !has_servers_that_are(subject, Synchronization::kSynchronous);
}
const AllReduceStrategy* all_reduce_of(const Subject& subject) {
  return std::get_if<AllReduceStrategy>(&subject.scenario->training.strategy.kind);
}
bool is_in_pairs(const Subject& subject) {
  return std::holds_alternative<PairwiseAveragingStrategy>(subject.scenario->training.strategy.kind);
}
const GradientExchange& exchange_of(const Subject& subject) { return subject.scenario->training.strategy.exchange; }
bool is_sharded(const Subject& subject) {
  return all_reduce_of(subject) != nullptr && all_reduce_of(subject)->sharding != Sharding::kNone;
}
const Pipeline* pipeline_of(const Subject& subject) { return subject.scenario->training.strategy.pipeline(); }
bool is_divided(const Subject& subject) { return divides_model(subject.scenario->training.strategy); }
CollectiveAlgorithm algorithm_of(const Subject& subject) {
  return all_reduce_of(subject) != nullptr ? all_reduce_of(subject)->algorithm : CollectiveAlgorithm::kRing;
}

bool is_worker(const Group& group) { return group.role == Role::kWorker; }
bool changes(const Group& group) { return group.joins_at > Seconds{} || group.leaves_at; }
bool is_revoked(const Group& group) { return group.pool || group.replay; }

Place word_of_strategy(const Subject& subject, const std::string& key, std::initializer_list<const char*> words) {
  const Json* word = stated(subject, kStrategy + ("/" + key));
  return place_if(word != nullptr && std::find(words.begin(), words.end(), *word) != words.end(),
                  kStrategy + ("/" + key));
}

constexpr const char* kAll = "";

const auto kRefusals = std::to_array<Refusal>({
    // Servers
    {"parameter servers without machines",
     [](const Subject& s) {
       return place_if(servers_of(s) != nullptr && s.scenario->count(Role::kParameterServer) == 0, kGroups);
     },
     "at least one group with role \"parameter_server\"", "the variables are with the servers"},
    {"servers that nobody asks",
     [](const Subject& s) {
       return place_if(servers_of(s) == nullptr && s.scenario->count(Role::kParameterServer) > 0, kGroups);
     },
     "no group with role \"parameter_server\"", "with this strategy workers exchange among themselves"},
    {"collectives of workers that exchange with servers",
     [](const Subject& s) {
       return stated_of_strategy(s, servers_of(s) != nullptr,
                                 {"algorithm", "sharding", "prefetched_units", "pipeline"});
     },
     "none with parameter servers", "workers exchange with servers, and hold the whole model"},
    {"rules of servers where there are none",
     [](const Subject& s) {
       return stated_of_strategy(s, servers_of(s) == nullptr,
                                 {"synchronization", "staleness_bound", "backup_workers", "pushes_back_each_variable",
                                  "placement", "aggregation", "variables"});
     },
     "none without parameter servers", "it says what servers do"},
    {"staleness that is not bounded, or is none",
     [](const Subject& s) {
       return stated_of_strategy(
           s, servers_of(s) != nullptr && !has_servers_that_are(s, Synchronization::kStaleSynchronous),
           {"staleness_bound"});
     },
     "\"synchronization\": \"stale_synchronous\" beside it",
     "asynchronous workers may be any number of steps ahead, synchronous ones none"},
    {"backup workers that nobody waits for",
     [](const Subject& s) {
       return place_if(has_unordered_servers(s) && servers_of(s)->backup_workers > 0, "/training/strategy/backup_workers");
     },
     "0 with workers that are not synchronous", "they do not drop late gradients, which are applied when they come"},
    {"variables that are pushed back to workers in different steps",
     [](const Subject& s) {
       return place_if(has_unordered_servers(s) && servers_of(s)->pushes_back_each_variable, "/training/strategy/pushes_back_each_variable");
     },
     "false with workers that are not synchronous",
     "a variable goes back once the gradients of all workers for the same step are in"},
    {"gradients of different steps that are added up",
     [](const Subject& s) {
       return place_if(has_unordered_servers(s) && servers_of(s)->aggregation != Aggregation::kNone, "/training/strategy/aggregation");
     },
     "\"none\" with workers that are not synchronous",
     "gradients of a machine's workers are added up where they are of the same step"},
    {"variables in a process on another machine",
     [](const Subject& s) {
       const bool are_apart =
           std::any_of(s.scenario->groups.begin(), s.scenario->groups.end(),
                       [](const Group& group) { return !is_worker(group) && group.colocated_with < 0; });
       return place_if(
           servers_of(s) != nullptr && servers_of(s)->variables != VariableHome::kServerProcess && are_apart,
           "/training/strategy/variables");
     },
     "\"server_process\" where servers have machines of their own",
     "workers cannot reach into the memory of another machine"},
    {"variables on GPUs of several machines",
     [](const Subject& s) {
       int machines = 0;
       for (const Group& group : s.scenario->groups) machines += is_worker(group) ? group.count : 0;
       return place_if(
           servers_of(s) != nullptr && servers_of(s)->variables == VariableHome::kGpus && machines > 1,
           "/training/strategy/variables");
     },
     "one machine with workers for variables that live on its GPUs", "GPUs of another machine cannot reach them"},
    {"variables on GPUs to which no gradients come",
     [](const Subject& s) {
       return place_if(servers_of(s) != nullptr && servers_of(s)->variables == VariableHome::kGpus &&
                           servers_of(s)->aggregation != Aggregation::kGpu,
                       "/training/strategy/variables");
     },
     "\"aggregation\": \"gpu\" for variables that live on the GPUs",
     "each is updated on the GPU on which the gradients for it are added up"},

    // Collectives
    {"NVLink SHARP without its switch",
     [](const Subject& s) {
       return place_if(algorithm_of(s) == CollectiveAlgorithm::kNvls &&
                           (s.scenario->islands().size() > 1 ||
                            !s.scenario->first_workers().interconnect.reduces_in_switch),
                       "/training/strategy/algorithm");
     },
     "all workers on one machine with an NVSwitch that \"reduces_in_switch\" for \"nvls\", or in one such \"nvlink_domain\"", "the switch adds up what its own GPUs send"},
    {"a hierarchy of unequal machines",
     [](const Subject& s) {
       const std::vector<int> gpus = s.scenario->islands();
       return place_if(algorithm_of(s) == CollectiveAlgorithm::kHierarchical &&
                           std::any_of(gpus.begin(), gpus.end(), [&](int count) { return count != gpus.front(); }),
                       "/training/strategy/algorithm");
     },
     "the same number of GPUs on every machine, or in every NVLink domain, for \"hierarchical\"",
     "each of its rings between machines has one GPU of every machine"},
    {"parts that trees and stars exchange",
     [](const Subject& s) {
       return place_if(is_sharded(s) && algorithm_of(s) != CollectiveAlgorithm::kRing && !is_choice(algorithm_of(s)),
                       "/training/strategy/algorithm");
     },
     "\"ring\", \"library\" or \"fastest\" with sharding", "trees and stars handle a tensor as a whole"},
    {"units that are gathered ahead though they are there",
     [](const Subject& s) {
       return stated_of_strategy(
           s, all_reduce_of(s) != nullptr && all_reduce_of(s)->sharding != Sharding::kParameters,
           {"prefetched_units"});
     },
     "\"sharding\": \"parameters\" beside it", "a worker that keeps all variables gathers none ahead of its kernels"},
    {"parts and stages of a registered strategy",
     [](const Subject& s) {
       return stated_of_strategy(s, all_reduce_of(s) != nullptr && !all_reduce_of(s)->registered_as.empty(),
                                 {"sharding", "prefetched_units", "pipeline"});
     },
     "none of them with this strategy", "its own program says what workers keep and exchange"},
    {"a pipeline whose stages are parts of machines",
     [](const Subject& s) {
       return place_if(pipeline_of(s) != nullptr && (algorithm_of(s) == CollectiveAlgorithm::kHierarchical ||
                                                     algorithm_of(s) == CollectiveAlgorithm::kNvls),
                       "/training/strategy/algorithm");
     },
     "an all-reduce among any GPUs with a pipeline, not \"hierarchical\" or \"nvls\"",
     "a stage may have some of a machine's GPUs"},
    {"a pipeline of stages with different numbers of GPUs",
     [](const Subject& s) {
       const auto differ = [&](const Group& group) {
         return std::any_of(s.scenario->groups.begin(), s.scenario->groups.end(), [&](const Group& other) {
           return other.gpus_per_worker != group.gpus_per_worker;
         });
       };
       if (pipeline_of(s) == nullptr) return Place{};
       return stated_of_group(s, {"workers_per_machine"}, differ);
     },
     "as many GPUs of every worker with a pipeline", "each GPU passes its part of a micro-batch on to its like"},
    {"a pipeline of unequal micro-batches",
     [](const Subject& s) {
       if (pipeline_of(s) == nullptr) return Place{};
       return stated_of_group(s, {"batch_per_worker"}, [&](const Group& group) {
         return is_worker(group) && group.batch != s.scenario->first_workers().batch;
       });
     },
     "the same batch in all groups with a pipeline", "it is that of a micro-batch in each of its stages"},
    {"a pipeline that accumulates twice",
     [](const Subject& s) {
       const bool has_microbatches = stated_of_strategy(s, true, {"pipeline"}).has_value();
       return stated_of_strategy(s, has_microbatches, {"accumulation_steps"});
     },
     "none with a pipeline", "its \"microbatches\" are what a step accumulates"},

    // Exchange of gradients
    {"gradients of workers that exchange models",
     [](const Subject& s) {
       return stated_of_strategy(s, is_in_pairs(s),
                                 {"algorithm", "sharding", "prefetched_units", "pipeline", "bucket_size",
                                  "first_bucket_size", "partition_size", "cycle_time", "order", "overlap",
                                  "gradient_precision"});
     },
     "none with \"pairwise_averaging\"", "workers exchange whole models, each at once, and no gradients"},
    {"a first bucket of none",
     [](const Subject& s) { return stated_of_strategy(s, !exchange_of(s).bucket_size, {"first_bucket_size"}); },
     "\"bucket_size\" beside it", "without it there are no buckets"},
    {"cycles of what no server gets",
     [](const Subject& s) {
       return place_if(servers_of(s) != nullptr && servers_of(s)->variables == VariableHome::kGpus &&
                           exchange_of(s).cycle_time,
                       "/training/strategy/cycle_time");
     },
     "none for variables that live on the GPUs", "no process collects what goes from GPU to GPU"},
    {"forward overlap of parts",
     [](const Subject& s) {
       return place_if(is_sharded(s) && exchange_of(s).overlap == Overlap::kForward, "/training/strategy/overlap");
     },
     "\"none\" or \"backward\" with sharding", "each part is updated before any is gathered"},
    {"forward overlap of pipelines",
     [](const Subject& s) {
       return place_if(pipeline_of(s) != nullptr && exchange_of(s).overlap == Overlap::kForward,
                       "/training/strategy/overlap");
     },
     "\"none\" or \"backward\" with a pipeline", "its stages end a step together"},

    // Precision
    {"products of a precision that a GPU has no units for",
     [](const Subject& s) {
       const auto lacks_units = [&](const Group& group) {
         if (!is_worker(group)) return false;
         const Accelerator& gpu = *group.accelerator;
         return (s.scenario->precision == Precision::kTf32 && gpu.peak_tf32 == FlopsPerSecond{}) ||
                (s.scenario->precision == Precision::kBf16 && gpu.peak_bf16 == FlopsPerSecond{});
       };
       return place_if(std::any_of(s.scenario->groups.begin(), s.scenario->groups.end(), lacks_units),
                       "/workload/precision");
     },
     "\"fp32\" or \"fp16\" for GPUs without units for tf32 and bf16, which NVIDIA's have from Ampere on",
     "the catalog states no \"peak_tf32\" or \"peak_bf16\" of one of the GPUs"},

    // Machines that come and go
    {"prices of no date",
     [](const Subject& s) {
       return place_if(stated(s, "/cluster/prices") != nullptr && stated(s, "/cluster/start") == nullptr,
                       "/cluster/prices");
     },
     "\"start\", the time at which the cluster starts, beside it", "prices are those of dates"},
    {"machines of a pool that are not revoked",
     [](const Subject& s) {
       return stated_of_group(s, {"spot_pool"}, [](const Group& group) { return group.market != Market::kSpot; });
     },
     "\"market\": \"spot\" beside it", "a provider takes back machines of the spot market only"},
    {"machines whose provider and user both say when they go",
     [](const Subject& s) {
       return stated_of_group(s, {"spot_pool"}, [](const Group& group) { return changes(group); });
     },
     "no \"joins_at\" or \"leaves_at\" beside it", "its law or replay says when these machines come and go"},
    {"replacements of machines that stay",
     [](const Subject& s) {
       return stated_of_group(s, {"replacement"}, [](const Group& group) { return !is_revoked(group); });
     },
     "a \"spot_pool\" beside it", "other machines are never revoked"},
    {"servers that join or leave",
     [](const Subject& s) {
       return stated_of_group(s, {"joins_at", "leaves_at"}, [](const Group& group) { return !is_worker(group); });
     },
     "none with role \"parameter_server\"", "its variables are there from the beginning to the end"},
    {"machines of servers that join or leave",
     [](const Subject& s) {
       return stated_of_group(s, {"colocated_with"}, [&](const Group& group) {
         return group.colocated_with >= 0 &&
                changes(s.scenario->groups[static_cast<std::size_t>(group.colocated_with)]);
       });
     },
     "machines without \"joins_at\" or \"leaves_at\"", "the variables of servers are there from the beginning to the end"},
    {"machines of servers that are stated twice",
     [](const Subject& s) {
       return stated_of_group(s,
                              {"instance", "region", "market", "zone", "spot_pool", "disk", "standby", "replacement"},
                              [](const Group& group) { return group.colocated_with >= 0; });
     },
     "none beside \"colocated_with\"", "the servers are on the machines of that group"},
    {"workers on machines of servers",
     [](const Subject& s) {
       return stated_of_group(s, {"workers_per_machine", "batch_per_worker"},
                              [](const Group& group) { return !is_worker(group); });
     },
     "none with role \"parameter_server\"", "no workers run on these machines"},
    {"nobody to begin with",
     [](const Subject& s) {
       const bool changes_members = s.scenario->has_changing_membership() || s.scenario->has_revocations();
       return place_if(changes_members && std::none_of(s.scenario->groups.begin(), s.scenario->groups.end(),
                                                       [](const Group& group) {
                                                         return is_worker(group) && group.is_there_from_the_start();
                                                       }),
                       kGroups);
     },
     "a group of workers that is there from the start", "the others get the model from those that have it"},
    {"parts of another number of workers",
     [](const Subject& s) {
       if (!is_divided(s)) return Place{};
       return stated_of_group(s, {"joins_at", "leaves_at", "standby"},
                              [](const Group& group) { return changes(group) || group.is_standby; });
     },
     "none with sharding or a pipeline", "what each worker keeps of the model was cut for as many as there are"},
    {"parts that are lost",
     [](const Subject& s) {
       if (!is_divided(s) || s.scenario->training.recovery.lost_worker == Recovery::LostWorker::kRestart)
         return Place{};
       return stated_of_group(s, {"spot_pool"}, is_revoked);
     },
     "\"lost_worker\": \"restart\" in the recovery with sharding or a pipeline",
     "the part of a lost worker is in checkpoints only"},
    {"a checkpoint of parts for fewer workers",
     [](const Subject& s) {
       return place_if(is_divided(s) && s.scenario->training.recovery.minimum_workers.has_value(),
                       "/training/recovery/minimum_workers");
     },
     "none with sharding or a pipeline", "as many workers read the parts of a checkpoint as wrote them"},
    {"parts on machines of another group",
     [](const Subject& s) {
       if (!is_divided(s)) return Place{};
       return stated_of_group(s, {"replacement"}, [&](const Group& group) {
         return group.replaced_by && &s.scenario->groups[static_cast<std::size_t>(*group.replaced_by)] != &group;
       });
     },
     "machines of the same group with sharding or a pipeline", "the part of a lost worker fits its like"},

    // Network
    {"turns of connections that lose packets",
     [](const Subject& s) {
       return place_if(s.scenario->tcp.turn > Bytes{} && s.scenario->loses_packets(), "/cluster/network/tcp/turn");
     },
     "0B where packets are lost", "windows are then smaller than turns"},
    {"turns on a way of several switches",
     [](const Subject& s) {
       return place_if(s.scenario->tcp.turn > Bytes{} && !std::holds_alternative<Star>(s.scenario->fabric),
                       "/cluster/network/tcp/turn");
     },
     "0B but on a star", "what waits between switches is not modelled"},

    // Training
    {"asynchronous workers that wait for a lost one",
     [](const Subject& s) {
       const Recovery::LostWorker lost = s.scenario->training.recovery.lost_worker;
       return place_if(!s.scenario->training.strategy.is_synchronous() &&
                           (lost == Recovery::LostWorker::kShrink || lost == Recovery::LostWorker::kWait),
                       "/training/recovery/lost_worker");
     },
     "\"continue\" or \"restart\" with this strategy", "its workers do not share steps that could miss one"},
    {"synchronous workers that do not miss a lost one",
     [](const Subject& s) {
       return place_if(s.scenario->training.strategy.is_synchronous() &&
                           s.scenario->training.recovery.lost_worker == Recovery::LostWorker::kContinue,
                       "/training/recovery/lost_worker");
     },
     "\"shrink\", \"wait\" or \"restart\" with this strategy", "the step of its workers misses the gradients of one"},
    {"a rendezvous of workers that do not exchange by collectives",
     [](const Subject& s) {
       return place_if(all_reduce_of(s) == nullptr &&
                           s.scenario->training.recovery.change == Recovery::Change::kRendezvous,
                       "/training/recovery/membership_change");
     },
     "\"at_once\" or \"restart\" with this strategy", "newcomers get the variables from servers, or from their partners"},
    {"a global batch of workers in different steps",
     [](const Subject& s) {
       return place_if(!s.scenario->training.strategy.is_synchronous() &&
                           s.scenario->training.smaller_cluster != SmallerCluster::kKeepsBatchPerWorker,
                       "/training/smaller_cluster");
     },
     "\"keeps_batch_per_worker\" with this strategy",
     "its steps are of one worker each, so that there is no global batch to be kept"},
    {"a loss of another strategy than that of the convergence model",
     [](const Subject& s) {
       const auto& target = s.scenario->training.target;
       return place_if(target && target->loss && !has_servers_that_are(s, Synchronization::kAsynchronous),
                       "/training/target/loss");
     },
     "asynchronous parameter servers for a loss", "the convergence model was fitted to their updates"},

    // Verbs
    {"candidates with servers on their machines",
     [](const Subject& s) {
       const Json* groups = stated(s, kGroups);
       for (std::size_t g = 0; groups != nullptr && groups->is_array() && g < groups->size(); ++g)
         if (auto place = stated_key(s, kGroups + ("/" + std::to_string(g)), {"colocated_with"})) return place;
       return Place{};
     },
     "servers on machines of their own", "workers are what is looked for", "provision"},
    {"plans for a loss of another strategy than that of the convergence model",
     [](const Subject& s) {
       auto place = word_of_strategy(s, "kind", {"all_reduce", "pairwise_averaging"});
       return place ? place : word_of_strategy(s, "synchronization", {"synchronous", "stale_synchronous"});
     },
     "asynchronous parameter servers", "the convergence model was fitted to their updates", "provision"},
    {"candidates whose machines are those of a replay",
     [](const Subject& s) {
       const Json* groups = stated(s, kGroups);
       const std::size_t last = groups != nullptr && groups->is_array() ? groups->size() : 0;
       if (last == 0) return Place{};
       return stated_key(s, kGroups + ("/" + std::to_string(last - 1)) + "/spot_pool", {"replay"});
     },
     "a law of lifetimes", "plans have other numbers of machines than a replay", "provision: candidate"},
});

void check(const Subject& subject, std::string_view verb) {
  for (const Refusal& refusal : kRefusals) {
    if (refusal.verb != verb) continue;
    const auto pointer = refusal.find(subject);
    if (!pointer) continue;
    const std::string message = "expected " + std::string{refusal.expected} + ": " + std::string{refusal.reason};
    std::vector<std::string> keys = split_json_pointer(*pointer);
    const std::string last = keys.back();
    keys.pop_back();
    JsonReader at = subject.root;
    for (const std::string& key : keys) at = at.is_array() ? at.elements()[std::stoul(key)] : at.child(key);
    if (at.is_array()) at.elements()[std::stoul(last)].fail(message);
    at.fail(last, message);
  }
}

}  // namespace

std::span<const Refusal> refusals() { return kRefusals; }

void check_combinations(const Scenario& scenario, const JsonReader& root) { check({&scenario, root}, kAll); }

void check_combinations_of(std::string_view verb, const JsonReader& root) { check({nullptr, root}, verb); }

}  // namespace rehearse
