#include "predictor/undescribed.hpp"

#include <algorithm>
#include <tuple>
#include <variant>

#include "sim/base/errors.hpp"

namespace rehearse {

namespace {

/// What the descriptor takes from a group of workers or servers, as if all were like the first, but how many they are.
auto kind_of(const Group& group) {
  const Instance& instance = group.instance;
  const Accelerator gpu = group.accelerator.value_or(Accelerator{});
  const Interconnect& inside = group.interconnect;
  return std::tuple{instance.vcpus, instance.nic,         instance.nics,         gpu.name,
                    gpu.memory,     gpu.memory_bandwidth, gpu.multiprocessors,   inside.pcie,
                    inside.name,    inside.nvlink_rate,   group.gpus_per_worker, group.colocated_with};
}

/// Whether workers of the group have another value than the first ones, and than others that have another one, too.
template <class Value>
bool is_third(const Scenario& scenario, const Group& group, const Value& value) {
  const auto plain = value(scenario.first_workers());
  const auto second = std::find_if(scenario.groups.begin(), scenario.groups.end(), [&](const Group& other) {
    return other.role == Role::kWorker && value(other) != plain;
  });
  return second != scenario.groups.end() && value(group) != plain && value(group) != value(*second);
}

/// Whether workers of the group are like those of the second kind, if not as many on a machine.
bool is_second_kind(const Scenario& scenario, const Group& group) {
  const auto second = std::find_if(scenario.groups.begin(), scenario.groups.end(), [&](const Group& other) {
    return other.role == Role::kWorker && !are_alike(other, scenario.first_workers());
  });
  return second != scenario.groups.end() && kind_of(group) == kind_of(*second);
}

/// Whether workers with another batch and those on other machines are neither the same nor only one of both.
bool mixes_kinds_and_batches(const Scenario& scenario) {
  const Group& first = scenario.first_workers();
  bool has_other_batch = false, has_other_kind = false, are_same = true;
  for (const Group& group : scenario.groups) {
    if (group.role != Role::kWorker) continue;
    const bool other_batch = group.batch != first.batch, other_kind = !are_alike(group, first);
    has_other_batch = has_other_batch || other_batch;
    has_other_kind = has_other_kind || other_kind;
    are_same = are_same && other_batch == other_kind;
  }
  return has_other_batch && has_other_kind && !are_same;
}

std::optional<Undescribed> undescribed_group(const Scenario& scenario, std::size_t index) {
  const Group& group = scenario.groups[index];
  const auto at = [&](const char* key) { return "/cluster/groups/" + std::to_string(index) + "/" + key; };
  if (group.pool || group.replay) return Undescribed{at("spot_pool"), "machines that come and go by chance"};
  if (group.faults) return Undescribed{at("faults"), "machines that fail by chance"};
  if (group.is_standby) return Undescribed{at("standby"), "machines that come and go by chance"};
  if (group.power_limit_w) return Undescribed{at("power_limit"), "GPUs below their boards' limit"};
  if (group.step_time) return Undescribed{at("step_time"), "stated times of steps"};
  if (group.role == Role::kWorker) {
    const bool is_first = &group == &scenario.first_workers();
    if (is_first && group.batch != scenario.batch)
      return Undescribed{at("batch_per_worker"), "first workers with a batch of their own"};
    if (is_first && group.joins_at != Seconds{})
      return Undescribed{at("joins_at"), "a first machine that is not there from the start"};
    if (is_first && group.leaves_at) return Undescribed{at("leaves_at"), "a first machine that leaves"};
    if (!are_alike(group, scenario.first_workers()) && !is_second_kind(scenario, group))
      return Undescribed{at("instance"), "workers of more than two kinds"};
    if (!are_alike(group, scenario.first_workers()) && group.colocated_with >= 0)
      return Undescribed{at("colocated_with"), "workers that share machines of others"};
    if (mixes_kinds_and_batches(scenario))
      return Undescribed{at("batch_per_worker"), "other batches of some of the workers of another kind"};
    if (is_third(scenario, group, [](const Group& g) { return g.batch; }))
      return Undescribed{at("batch_per_worker"), "workers of more than two batches"};
    if (is_third(scenario, group, [](const Group& g) { return g.joins_at; }))
      return Undescribed{at("joins_at"), "machines that join at several times"};
    if (is_third(scenario, group, [](const Group& g) { return g.leaves_at; }))
      return Undescribed{at("leaves_at"), "machines that leave at several times"};
  }
  const Group& first = *std::find_if(scenario.groups.begin(), scenario.groups.end(),
                                     [&](const Group& other) { return other.role == group.role; });
  if (group.role == Role::kParameterServer && !are_alike(group, first))
    return Undescribed{at(group.colocated_with != first.colocated_with ? "colocated_with" : "instance"),
                       "servers of several kinds"};
  if (group.colocated_with >= 0) {
    const Group& shared = scenario.groups[static_cast<std::size_t>(group.colocated_with)];
    if (&shared != &scenario.first_workers())
      return Undescribed{at("colocated_with"), "servers that are not beside the first workers"};
  } else if (group.region != scenario.first_workers().region) {
    return Undescribed{at("region"), "machines in several regions"};
  }
  return {};
}

std::optional<Undescribed> undescribed_strategy(const Strategy& strategy) {
  const std::string at = "/training/strategy/";
  if (const ServerRules* servers = strategy.kind->servers()) {
    if (servers->pushes_back_each_variable)
      return Undescribed{at + "pushes_back_each_variable", "variables that come before they are asked for"};
    if (strategy.exchange.cycle_time) return Undescribed{at + "cycle_time", "messages that collect gradients"};
    if (servers->aggregation != Aggregation::kNone)
      return Undescribed{at + "aggregation", "gradients that are added up inside of a machine"};
  } else if (const CollectiveRules* rules = strategy.kind->collectives()) {
    if (rules->sharding != Sharding::kNone) return Undescribed{at + "sharding", "workers that keep parts"};
    if (strategy.kind->pipeline() != nullptr) return Undescribed{at + "pipeline", "stages of the model"};
    if (!rules->only_reduces || strategy.kind->divides_model())
      return Undescribed{at + "kind", "other programs of the workers"};
  }
  return {};
}

}  // namespace

bool are_alike(const Group& a, const Group& b) {
  return kind_of(a) == kind_of(b) && a.instance.accelerators == b.instance.accelerators;
}

std::optional<Undescribed> undescribed(const Scenario& scenario) {
  for (std::size_t i = 0; i < scenario.groups.size(); ++i)
    if (auto found = undescribed_group(scenario, i)) return found;
  if (scenario.model.split.degree > 1)
    return Undescribed{"/training/strategy/tensor", "layers that workers hold together"};
  if (scenario.model.context.degree() > 1)
    return Undescribed{"/training/strategy/context", "positions that workers share"};
  if (scenario.training.strategy.kind->offload() != Offload{})
    return Undescribed{"/training/strategy/offload", "what hosts keep of GPUs' memory"};
  if (scenario.model.expert_split.degree > 0)
    return Undescribed{"/training/strategy/experts", "experts that workers share"};
  if (scenario.model.adapters.rank > 0) return Undescribed{"/workload/lora", "weights that are frozen"};
  if (scenario.model.again != Recomputation{}) return Undescribed{"/workload/recompute", "kernels that run again"};
  if (scenario.model.fp8 != Fp8::kNone) return Undescribed{"/workload/fp8", "products in 8 bits"};
  if (auto found = undescribed_strategy(scenario.training.strategy)) return found;
  const Training& training = scenario.training;
  if (training.control) return Undescribed{"/training/control", "machines that come and go as rules say"};
  if (training.checkpoint) return Undescribed{"/training/checkpoint", "pauses for checkpoints"};
  if (training.step_time_variation > 0) return Undescribed{"/training/step_time_variation", "steps of random length"};
  if (scenario.loses_packets()) return Undescribed{"/cluster/network", "packets that are lost"};
  if (scenario.tcp.turn > Bytes{}) return Undescribed{"/cluster/network/tcp/turn", "connections that take turns"};
  if (scenario.output.reading_interval > Seconds{})
    return Undescribed{"/output/reading_interval", "counters that are read from time to time"};
  if (training.start_interval > Seconds{})
    return Undescribed{"/training/start_interval", "workers that start one after another"};
  const OperatorGraph& graph = scenario.workload.graph;
  if (std::any_of(graph.begin(), graph.end(), [](const Operator& op) { return op.measured_time.has_value(); }))
    return Undescribed{"/workload/model", "a model of measured times, without operators"};
  return {};
}

void require_described(const Scenario& scenario, const std::string& file) {
  if (const auto found = undescribed(scenario))
    throw InputError{file + ": " + found->pointer + ": " + found->what +
                     ", of which datasets and predictors know nothing: simulate it instead"};
}

}  // namespace rehearse
