#include "sim/scenario/refusals.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <variant>

#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

using Subject = Refusal::Subject;
using Place = RefusedPlace;

const Json* stated(const Subject& subject, const std::string& pointer) {
  return json_pointer_find(subject.root.value(), pointer);
}

const Strategy& strategy_of(const Subject& subject) { return subject.scenario->training.strategy; }
bool is_divided(const Subject& subject) { return strategy_of(subject).kind->divides_model(); }
bool is_worker(const Group& group) { return group.role == Role::kWorker; }
bool changes(const Group& group) { return group.joins_at > Seconds{} || group.leaves_at; }
bool is_revoked(const Group& group) { return group.pool || group.replay; }
bool fails(const Group& group) { return group.faults.has_value(); }

Place word_of_strategy(const Subject& subject, const std::string& key, std::initializer_list<const char*> words) {
  const Json* word = stated(subject, kStrategy + ("/" + key));
  return place_if(word != nullptr && std::find(words.begin(), words.end(), *word) != words.end(),
                  kStrategy + ("/" + key));
}

const auto kRefusals = std::to_array<Refusal>({
    // Strategy
    {"keys of another strategy",
     [](const Subject& s) {
       const std::vector<std::string>& own = strategy_entry(strategy_of(s).word).keys;
       for (const StrategyEntry& other : strategies())
         for (const std::string& key : other.keys)
           if (std::find(own.begin(), own.end(), key) == own.end())
             if (auto place = stated_of_strategy(s, {key})) return place;
       return Place{};
     },
     "none of them with this strategy", "its own program says what workers keep and exchange"},
    {"a first bucket of none",
     [](const Subject& s) {
       return strategy_of(s).exchange.bucket_size ? Place{} : stated_of_strategy(s, {"first_bucket_size"});
     },
     "\"bucket_size\" beside it", "without it there are no buckets"},

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

    {"products in fp8 on a GPU without units for it",
     [](const Subject& s) {
       const auto lacks_units = [](const Group& group) {
         return is_worker(group) && group.accelerator->peak_fp8 == FlopsPerSecond{};
       };
       return place_if(s.scenario->model.fp8 != Fp8::kNone &&
                           std::any_of(s.scenario->groups.begin(), s.scenario->groups.end(), lacks_units),
                       "/workload/fp8");
     },
     "\"none\" for GPUs without units for fp8, which NVIDIA's have from Ada and Hopper on",
     "the catalog states no \"peak_fp8\" of one of the GPUs"},
    {"products in fp4 on a GPU without units for it",
     [](const Subject& s) {
       const auto lacks_units = [](const Group& group) {
         return is_worker(group) && group.accelerator->peak_fp4 == FlopsPerSecond{};
       };
       return place_if(s.scenario->model.fp8 == Fp8::kNvfp4 &&
                           std::any_of(s.scenario->groups.begin(), s.scenario->groups.end(), lacks_units),
                       "/workload/fp8");
     },
     "another recipe for GPUs without units for fp4, which Blackwell's have",
     "the catalog states no \"peak_fp4\" of one of the GPUs"},
    {"scales of 32 numbers on a GPU whose units know none",
     [](const Subject& s) {
       const auto lacks_scales = [](const Group& group) {
         return is_worker(group) && group.accelerator->architecture != "Blackwell";
       };
       return place_if(s.scenario->model.fp8 == Fp8::kMx &&
                           std::any_of(s.scenario->groups.begin(), s.scenario->groups.end(), lacks_scales),
                       "/workload/fp8");
     },
     "another recipe for GPUs that are none of Blackwell's",
     "matrix units with a scale for each 32 numbers of a sum are Blackwell's"},
    {"samples of workers that hold a model together",
     [](const Subject& s) {
       return place_if(s.scenario->input && workers_per_model(*s.scenario) > 1, "/workload/input");
     },
     "none with a pipeline, or layers that workers compute together", "which of them load samples, and pass them on, is not modelled"},

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
    {"faults of machines that a provider takes back",
     [](const Subject& s) {
       return stated_of_group(s, {"spot_pool", "replacement", "standby"}, fails);
     },
     "none beside \"faults\"", "lifetimes of a pool have its machines' faults, and spares replace those that fail"},
    {"faults of machines that come and go on purpose",
     [](const Subject& s) {
       return stated_of_group(s, {"joins_at", "leaves_at"}, fails);
     },
     "none beside \"faults\"", "spares replace machines that are there throughout"},
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
     "machines without \"joins_at\" or \"leaves_at\"",
     "the variables of servers are there from the beginning to the end"},
    {"machines of servers that are stated twice",
     [](const Subject& s) {
       return stated_of_group(
           s, {"instance", "region", "market", "zone", "spot_pool", "faults", "disk", "standby", "replacement"},
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
       return stated_of_group(s, {"spot_pool", "faults"}, [](const Group& group) { return group.is_lost_by_chance(); });
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

    {"parts of checkpoints of workers that hold no parts",
     [](const Subject& s) {
       return strategy_of(s).kind->is_in_lockstep() ? Place{}
                                                    : stated_key(s, "/training/checkpoint", {"writers", "in_memory"});
     },
     "none but with all-reduces", "elsewhere servers, or one of the workers, have what a checkpoint holds"},
    {"parts of checkpoints on disks of machines",
     [](const Subject& s) {
       const auto& rule = s.scenario->training.checkpoint;
       return place_if(rule && rule->is_by_machines && rule->is_on_disk, "/training/checkpoint/to");
     },
     "\"bucket\" with \"writers\": \"machines\"", "with any machine its part, and so the checkpoint, would be lost"},
    {"a rate of copies that nobody makes",
     [](const Subject& s) {
       const auto& rule = s.scenario->training.checkpoint;
       return place_if(rule && rule->copy_rate && !rule->is_asynchronous && !rule->in_memory,
                       "/training/checkpoint/copy_rate");
     },
     "\"mode\": \"asynchronous\" or \"in_memory\" beside it",
     "other checkpoints are written as they are read from the GPU"},
    {"a forecast with checkpoints in memory",
     [](const Subject& s) {
       const Training& training = s.scenario->training;
       return place_if(training.target && training.checkpoint && training.checkpoint->in_memory, "/training/target");
     },
     "\"samples\" of the job instead, beside \"in_memory\"", "what is forecast counts checkpoints of one kind"},

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
    {"rules for workers that wait for one another",
     [](const Subject& s) {
       const bool goes_on = s.scenario->count(Role::kParameterServer) > 0 && !strategy_of(s).is_synchronous();
       const auto& control = s.scenario->training.control;
       return place_if(control && control->changes_machines() && !goes_on, "/training/control");
     },
     "asynchronous parameter servers with it", "others do not go on while machines come and go as rules say"},
    {"an elastic batch of workers that do not share steps",
     [](const Subject& s) {
       const auto& control = s.scenario->training.control;
       return place_if(control && control->elastic_batch && !strategy_of(s).is_synchronous(),
                       "/training/control/elastic_batch");
     },
     "a synchronous strategy with it", "the noise of gradients is averaged over a step that workers share"},
    {"an elastic batch of models that are divided, or of a global batch",
     [](const Subject& s) {
       const auto& control = s.scenario->training.control;
       const bool has_rule = control && control->elastic_batch;
       return place_if(has_rule && (workers_per_model(*s.scenario) > 1 || strategy_of(s).exchange.global_batch > 0 || s.scenario->model.expert_split.degree > 0 ||
                                    s.scenario->training.smaller_cluster != SmallerCluster::kKeepsBatchPerWorker),
                       "/training/control/elastic_batch");
     },
     "workers that hold the whole model and keep batch_per_worker", "the rule chooses what each worker has"},
    {"a plan anew without a loss to reach",
     [](const Subject& s) {
       const auto& target = s.scenario->training.target;
       const auto& control = s.scenario->training.control;
       return place_if(control && control->replan && !(target && target->loss), "/training/control/replan");
     },
     "a \"loss\" in the target beside it", "the planner counts the updates to a loss"},
    {"servers that nobody requests",
     [](const Subject& s) {
       return stated_of_group(s, {"standby"}, [&](const Group& group) {
         const auto& control = s.scenario->training.control;
         const auto index = static_cast<int>(&group - s.scenario->groups.data());
         return group.is_standby && !is_worker(group) &&
                !(control && control->add_servers && control->add_servers->group == index);
       });
     },
     "a rule beside it that adds them (/training/control/add_servers)", "nothing else requests them"},
    {"asynchronous workers that wait for a lost one",
     [](const Subject& s) {
       const Recovery::LostWorker lost = s.scenario->training.recovery.lost_worker;
       return place_if(!strategy_of(s).is_synchronous() &&
                           (lost == Recovery::LostWorker::kShrink || lost == Recovery::LostWorker::kWait),
                       "/training/recovery/lost_worker");
     },
     "\"continue\" or \"restart\" with this strategy", "its workers do not share steps that could miss one"},
    {"synchronous workers that do not miss a lost one",
     [](const Subject& s) {
       return place_if(strategy_of(s).is_synchronous() &&
                           s.scenario->training.recovery.lost_worker == Recovery::LostWorker::kContinue,
                       "/training/recovery/lost_worker");
     },
     "\"shrink\", \"wait\" or \"restart\" with this strategy", "the step of its workers misses the gradients of one"},
    {"a rendezvous of workers that do not exchange by collectives",
     [](const Subject& s) {
       return place_if(!strategy_of(s).kind->is_in_lockstep() &&
                           s.scenario->training.recovery.change == Recovery::Change::kRendezvous,
                       "/training/recovery/membership_change");
     },
     "\"at_once\" or \"restart\" with this strategy",
     "newcomers get the variables from servers, or from their partners"},
    {"a global batch of workers in different steps",
     [](const Subject& s) {
       return place_if(!strategy_of(s).is_synchronous() &&
                           s.scenario->training.smaller_cluster != SmallerCluster::kKeepsBatchPerWorker,
                       "/training/smaller_cluster");
     },
     "\"keeps_batch_per_worker\" with this strategy",
     "its steps are of one worker each, so that there is no global batch to be kept"},
    {"a loss of another strategy than that of the convergence model",
     [](const Subject& s) {
       const auto& target = s.scenario->training.target;
       const ServerRules* servers = strategy_of(s).kind->servers();
       const bool is_asynchronous = servers != nullptr && servers->synchronization == Synchronization::kAsynchronous;
       return place_if(target && target->loss && !is_asynchronous, "/training/target/loss");
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

void check(const Subject& subject, const Refusal& refusal) {
  const auto pointer = refusal.find(subject);
  if (!pointer) return;
  const std::string message = "expected " + std::string{refusal.expected} + ": " + std::string{refusal.reason};
  std::vector<std::string> keys = split_json_pointer(*pointer);
  const std::string last = keys.back();
  keys.pop_back();
  JsonReader at = subject.root;
  for (const std::string& key : keys) at = at.is_array() ? at.elements()[std::stoul(key)] : at.child(key);
  if (at.is_array()) at.elements()[std::stoul(last)].fail(message);
  at.fail(last, message);
}

std::vector<Refusal> refusals_of(const StrategyEntry& entry) {
  std::vector<Refusal> rows;
  for (const StrategyKeys& part : entry.parts)
    for (const Refusal& row : part.refusals != nullptr ? part.refusals() : std::vector<Refusal>{}) rows.push_back(row);
  return rows;
}

}  // namespace

RefusedPlace place_if(bool has, std::string pointer) { return has ? Place{std::move(pointer)} : std::nullopt; }

RefusedPlace strategy_place_if(bool has, std::string_view key) {
  return place_if(has, std::string{kStrategy} + "/" + std::string{key});
}

RefusedPlace stated_key(const Subject& subject, const std::string& pointer,
                        std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys)
    if (std::string at = pointer + "/" + std::string{key}; stated(subject, at) != nullptr) return at;
  return {};
}

RefusedPlace stated_of_strategy(const Subject& subject, std::initializer_list<std::string_view> keys) {
  return stated_key(subject, kStrategy, keys);
}

std::vector<Refusal> refusals() {
  std::vector<Refusal> all;
  for (const StrategyEntry& entry : strategies())
    for (const Refusal& row : refusals_of(entry)) all.push_back(row);
  all.insert(all.end(), kRefusals.begin(), kRefusals.end());
  return all;
}

void check_combinations(const Scenario& scenario, const JsonReader& root) {
  const std::string& word = scenario.training.strategy.word;
  for (const StrategyEntry& entry : strategies())
    for (const Refusal& row : refusals_of(entry))
      if ((row.of == Refusal::Of::kItsOwn) == (entry.word == word)) check({&scenario, root}, row);
  for (const Refusal& row : kRefusals)
    if (row.verb.empty()) check({&scenario, root}, row);
}

void check_combinations_of(std::string_view verb, const JsonReader& root) {
  for (const Refusal& row : kRefusals)
    if (row.verb == verb) check({nullptr, root}, row);
}

}  // namespace rehearse
