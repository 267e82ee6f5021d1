#include "sim/scenario/gpu_memory.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/names.hpp"
#include "sim/scenario/gradient_units.hpp"
#include "sim/scenario/pipeline_stages.hpp"
#include "sim/scenario/rank_grid.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

constexpr int kMostBatch = 65536;
constexpr int kMostMachines = 20'000;

const AllReduceStrategy* all_reduce_of(const Scenario& scenario) {
  return std::get_if<AllReduceStrategy>(&scenario.training.strategy.kind);
}

Sharding sharding_of(const Scenario& scenario) {
  const AllReduceStrategy* all_reduce = all_reduce_of(scenario);
  return all_reduce != nullptr ? all_reduce->sharding : Sharding::kNone;
}

/// Slots on the GPUs: servers have them where there are servers.
int slots_of(const Scenario& scenario) {
  return scenario.count(Role::kParameterServer) > 0 ? 0 : optimizer_slots(scenario.optimizer);
}

/// Servers keep master weights, too.
States states_of(const Scenario& scenario) {
  States states = scenario.states;
  if (scenario.count(Role::kParameterServer) > 0) states.master_weights.reset();
  return states;
}

/// Bytes of the states of so many parameters, of which `gpus` share those that are sharded. The sum of what is sharded is
/// rounded up once; its parts are differences of sums that are rounded so.
void add_states(GpuMemory& memory, std::int64_t parameters, const States& states, int slots, Sharding sharding,
                std::int64_t gpus) {
  std::int64_t sharded_bytes = 0, so_far = 0;
  const auto add = [&](Bytes& part, int bytes, bool is_sharded) {
    if (!is_sharded) {
      part += Bytes{parameters * bytes};
      return;
    }
    sharded_bytes += bytes;
    // Of a share of parameters and of a rest below 1 / gpus, so that products stay below 2^63.
    const std::int64_t rest = parameters % gpus * sharded_bytes;
    const std::int64_t until = parameters / gpus * sharded_bytes + (rest + gpus - 1) / gpus;
    part += Bytes{until - so_far};
    so_far = until;
  };
  add(memory.optimizer, optimizer_bytes(states, slots), sharding != Sharding::kNone);
  add(memory.gradients, gradient_bytes(states), sharding == Sharding::kGradients || sharding == Sharding::kParameters);
  add(memory.weights, weight_bytes(states), sharding == Sharding::kParameters);
}

/// What is gathered, and what is sent from buffers of its own.
void add_units(GpuMemory& memory, const Scenario& scenario, const std::vector<GradientUnit>& units) {
  const AllReduceStrategy* all_reduce = all_reduce_of(scenario);
  const GradientExchange& exchange = scenario.training.strategy.exchange;
  const Sharding sharding = sharding_of(scenario);
  Bytes root{}, largest{}, all{}, largest_gradient{}, all_gradients{};
  for (const GradientUnit& unit : units) {
    all += unit.stored_bytes;
    all_gradients += unit.gradient_bytes;
    largest_gradient = std::max(largest_gradient, unit.gradient_bytes);
    if (unit.is_root)
      root += unit.stored_bytes;
    else
      largest = std::max(largest, unit.stored_bytes);
  }
  if (sharding == Sharding::kParameters && sharing_gpus(scenario) > 1)
    memory.gathered_units = std::min(all, root + (all_reduce->prefetched_units + 1) * largest);
  if (all_reduce == nullptr || sharing_gpus(scenario) == 1) return;
  const bool is_whole = sharding == Sharding::kNone || sharding == Sharding::kOptimizer;
  if (is_whole && exchange.bucket_size && !exchange.cycle_time && !exchange.by_blocks)
    memory.uncounted.bucket_copies = all_gradients;
  memory.uncounted.nccl_buffers = kNcclChannels * kNcclChannelBuffers;
  const bool converts = sent_gradients(scenario) != scenario.states.gradients;
  if (sharding == Sharding::kGradients || sharding == Sharding::kParameters || converts)
    memory.communication_buffers = largest_gradient;
  if (exchange.cycle_time)
    memory.communication_buffers = std::max(
        memory.communication_buffers, exchange.bucket_size ? std::min(*exchange.bucket_size, all) : largest_gradient);
}

/// Of the stage with the most among those of the group's workers.
GpuMemory stage_memory(const Scenario& scenario, const Group& group) {
  const Workload& workload = scenario.workload_of(group);
  const Pipeline& pipeline = *scenario.training.strategy.pipeline();
  const PipelineStages stages = cut_into_stages(scenario);
  const RankGrid grid = rank_grid(scenario);
  int first = 0;  // of its workers
  for (const Group* other = scenario.groups.data(); other != &group && other->place != group.place; ++other)
    first += other->workers();
  GpuMemory most;
  for (int i = 0; i < std::min(group.workers(), pipeline.stages); ++i) {
    const int stage = grid.coordinate(first + i, Axis::kPipeline);
    const auto s = static_cast<std::size_t>(stage);
    const int in_flight =
        microbatches_in_flight(pipeline, scenario.training.strategy.exchange.accumulation_steps, stage);
    GpuMemory memory{.context = group.accelerator->memory_reserved, .activations = in_flight * stages.kept[s]};
    if (stage == 0) memory.input = workload.input_bytes;
    if (stage + 1 == pipeline.stages) memory.logits = in_flight * workload.logits_bytes;
    add_states(memory, stages.parameters[s], states_of(scenario), slots_of(scenario), sharding_of(scenario),
               sharing_gpus(scenario));
    add_units(memory, scenario, plan_stage_units(scenario, stages, stage).units);
    if (i == 0 || memory.total() > most.total()) most = memory;
  }
  return most;
}

}  // namespace

Bytes GpuMemory::total() const {
  Bytes sum{};
  for (const auto& [name, part] : kGpuMemoryParts) sum += this->*part.bytes;
  return sum;
}

GpuMemory gpu_memory(const Workload& workload, const Accelerator& gpu, const States& states, int slots) {
  GpuMemory memory{.context = gpu.memory_reserved,
                   .activations = workload.activation_bytes,
                   .logits = workload.logits_bytes,
                   .input = workload.input_bytes};
  add_states(memory, workload.parameters(), states, slots, Sharding::kNone, 1);
  return memory;
}

GpuMemory gpu_memory(const Scenario& scenario, const Group& group) {
  if (scenario.training.strategy.pipeline() != nullptr) return stage_memory(scenario, group);
  const Workload& workload = scenario.workload_of(group);
  GpuMemory memory = gpu_memory(workload, *group.accelerator, states_of(scenario), slots_of(scenario));
  memory.weights = memory.gradients = memory.optimizer = {};
  add_states(memory, workload.parameters(), states_of(scenario), slots_of(scenario), sharding_of(scenario),
             sharing_gpus(scenario));
  if (all_reduce_of(scenario) != nullptr) add_units(memory, scenario, plan_gradient_units(scenario, 0).units);
  return memory;
}

Bytes gpu_memory_needed(const Scenario& scenario, const Group& group) { return gpu_memory(scenario, group).total(); }

const Group& fullest_group(const Scenario& scenario) {
  const Group* fullest = &scenario.first_workers();
  double most = 0;
  for (const Group& group : scenario.groups) {
    if (group.role != Role::kWorker) continue;
    const double share = as_double(gpu_memory_needed(scenario, group)) / as_double(group.accelerator->memory);
    if (share <= most) continue;
    most = share;
    fullest = &group;
  }
  return *fullest;
}

void add_gpu_memory(const Scenario& scenario, Json& json) {
  const Group& group = fullest_group(scenario);
  const GpuMemory memory = gpu_memory(scenario, group);
  json["gpu_memory_needed_B"] = memory.total().value();
  json["gpu_memory_available_B"] = group.accelerator->memory.value();
  json["gpu_memory_group"] = group.name;
  Json& parts = json["gpu_memory_parts_B"];
  for (const auto& [name, part] : kGpuMemoryParts) parts[name] = (memory.*part.bytes).value();
}

std::string describe_parts(const GpuMemory& memory) {
  constexpr Bytes kLeast{std::int64_t{10} << 20};  // 0.01 GiB
  std::vector<GpuMemoryPart> parts;
  for (const auto& [name, part] : kGpuMemoryParts)
    if (memory.*part.bytes >= kLeast) parts.push_back(part);
  std::stable_sort(parts.begin(), parts.end(),
                   [&](const auto& a, const auto& b) { return memory.*a.bytes > memory.*b.bytes; });
  std::string text;
  for (const GpuMemoryPart& part : parts)
    text += (text.empty() ? "" : ", ") + gibibytes(memory.*part.bytes) + " " + part.words;
  return text;
}

namespace {

/// Remedies that are tried on copies of a scenario.
class Remedies {
 public:
  Remedies(const Scenario& scenario, const Group& group) : scenario_{scenario}, group_{group} {}

  std::string text() {
    smaller_batch();
    more_sharding();
    more_machines();
    return text_;
  }

 private:
  void add(const std::string& remedy) { text_ += (text_.empty() ? "" : ", or ") + remedy; }

  static Group& like(Scenario& scenario, const Group& group) {
    return *std::find_if(scenario.groups.begin(), scenario.groups.end(),
                         [&](const Group& other) { return other.place == group.place; });
  }

  /// Whether the group fits after `change`(scenario, group) of a copy.
  template <class Change>
  bool fits(const Change& change) const {
    Scenario other = scenario_;
    Group& group = like(other, group_);
    try {
      change(other, group);
      return gpu_memory_needed(other, group) <= group.accelerator->memory;
    } catch (const std::exception&) { return false; }  // a model that cannot be built so, stages that cannot be cut
  }

  void smaller_batch() {
    const int own = group_.batch / group_.gpus_per_worker;
    const auto fits_batch = [&](int batch) {
      return fits([&](Scenario& other, Group& group) {
        auto workload = std::make_shared<const Workload>(
            build_workload(scenario_.model, batch, scenario_.precision, "a smaller batch"));
        if (scenario_.training.strategy.pipeline() != nullptr)  // whose stages have the same micro-batches
          for (Group& any : other.groups) any.workload = any.role == Role::kWorker ? workload : any.workload;
        group.batch = batch * group.gpus_per_worker;
        group.workload = std::move(workload);
      });
    };
    if (own <= 1 || own > kMostBatch || !fits_batch(1)) return;
    int low = 1, high = own;  // low fits, high does not
    while (high - low > 1) {
      const int middle = low + (high - low) / 2;
      (fits_batch(middle) ? low : high) = middle;
    }
    add("batch_per_worker " + std::to_string(low * group_.gpus_per_worker) + " instead of " +
        std::to_string(group_.batch));
  }

  void more_sharding() {
    constexpr std::array kWords{Named{"optimizer", Sharding::kOptimizer}, Named{"gradients", Sharding::kGradients},
                                Named{"parameters", Sharding::kParameters}};
    const AllReduceStrategy* all_reduce = all_reduce_of(scenario_);
    if (all_reduce == nullptr || !all_reduce->registered_as.empty() || sharing_gpus(scenario_) < 2) return;
    const bool can_shard =
        all_reduce->algorithm == CollectiveAlgorithm::kRing || all_reduce->algorithm == CollectiveAlgorithm::kFastest;
    if (!can_shard || scenario_.has_changing_membership() || scenario_.has_revocations() ||
        scenario_.training.strategy.exchange.overlap == Overlap::kForward)
      return;
    for (const auto& [word, sharding] : kWords) {
      if (sharding <= all_reduce->sharding) continue;
      const auto shard = [level = sharding](Scenario& other, Group&) {
        std::get<AllReduceStrategy>(other.training.strategy.kind).sharding = level;
        other.training.strategy.exchange.bucket_size.reset();
        other.training.strategy.exchange.by_blocks = true;
      };
      if (!fits(shard)) continue;
      add("\"sharding\": " + in_quotes(word) + " in the strategy");
      return;
    }
  }

  /// Of what is sharded each keeps less, the more share it.
  void more_machines() {
    if (sharding_of(scenario_) == Sharding::kNone) return;
    for (int count = 2 * group_.count; count <= std::min(kMostMachines, 1024 * group_.count); count *= 2) {
      if (!fits([count](Scenario&, Group& group) { group.count = count; })) continue;
      add("count " + std::to_string(count) + " instead of " + std::to_string(group_.count) + " machines of " +
          in_quotes(group_.name));
      return;
    }
  }

  const Scenario& scenario_;
  const Group& group_;
  std::string text_;
};

}  // namespace

std::string what_would_fit(const Scenario& scenario, const Group& group) { return Remedies{scenario, group}.text(); }

}  // namespace rehearse
