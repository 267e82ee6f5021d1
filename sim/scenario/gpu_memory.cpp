#include "sim/scenario/gpu_memory.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/names.hpp"
#include "sim/scenario/gradient_units.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

constexpr int kMostBatch = 65536;
constexpr int kMostMachines = 20'000;

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
void add_states(GpuMemory& memory, std::int64_t parameters, const States& states, int slots,
                const DividedStates& divided, std::int64_t gpus) {
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
  add(memory.optimizer, optimizer_bytes(states, slots), divided.optimizer);
  add(memory.gradients, gradient_bytes(states), divided.gradients);
  add(memory.weights, weight_bytes(states), divided.weights);
}

}  // namespace

Bytes GpuMemory::total() const {
  Bytes sum{};
  for (const auto& [name, part] : kGpuMemoryParts) sum += this->*part.bytes;
  return sum;
}

GpuMemory gpu_memory(const Workload& workload, const Accelerator& gpu, const States& states, int slots) {
  GpuMemory memory{.context = gpu.memory_reserved,
                   .activations = workload.activation_bytes + workload.recomputed_bytes,
                   .logits = workload.logits_bytes,
                   .input = workload.input_bytes};
  add_states(memory, workload.parameters(), states, slots, {}, 1);
  return memory;
}

GpuMemory gpu_memory(const Scenario& scenario, const Group& group) {
  return scenario.training.strategy.kind->gpu_memory(scenario, group);
}

GpuMemory StrategyKind::gpu_memory(const Scenario& scenario, const Group& group) const {
  const Workload& workload = scenario.workload_of(group);
  GpuMemory memory = rehearse::gpu_memory(workload, *group.accelerator, states_of(scenario), slots_of(scenario));
  memory.weights = memory.gradients = memory.optimizer = {};
  std::int64_t parameters = 0;
  for (std::size_t v = 0; v < workload.variables.size(); ++v)
    if (workload.variables[v].is_trainable) parameters += workload.variables[v].scalars() / parts_of(scenario, v);
  add_states(memory, scenario, parameters);
  if (collectives() != nullptr) add_units(memory, scenario, plan_gradient_units(scenario, 0).units);
  return memory;
}

void add_states(GpuMemory& memory, const Scenario& scenario, std::int64_t parameters) {
  add_states(memory, parameters, states_of(scenario), slots_of(scenario),
             scenario.training.strategy.kind->divided_states(), sharing_gpus(scenario));
}

void add_units(GpuMemory& memory, const Scenario& scenario, const std::vector<GradientUnit>& units) {
  const CollectiveRules* collectives = scenario.training.strategy.kind->collectives();
  if (collectives == nullptr || sharing_gpus(scenario) == 1) return;
  const GradientExchange& exchange = scenario.training.strategy.exchange;
  const DividedStates divided = scenario.training.strategy.kind->divided_states();
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
  if (divided.weights) memory.gathered_units = std::min(all, root + (collectives->prefetched_units + 1) * largest);
  if (!divided.gradients && exchange.bucket_size && !exchange.cycle_time && !exchange.by_blocks)
    memory.uncounted.bucket_copies = all_gradients;
  memory.uncounted.nccl_buffers = kNcclChannels * kNcclChannelBuffers;
  const bool converts = sent_gradients(scenario) != scenario.states.gradients;
  if (divided.gradients || converts) memory.communication_buffers = largest_gradient;
  if (exchange.cycle_time)
    memory.communication_buffers = std::max(
        memory.communication_buffers, exchange.bucket_size ? std::min(*exchange.bucket_size, all) : largest_gradient);
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
    smaller_strategy();
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
        if (scenario_.training.strategy.kind->workers_per_model() > 1)  // which have the same micro-batches
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

  void smaller_strategy() {
    for (const SmallerStrategy& smaller : scenario_.training.strategy.kind->smaller(scenario_)) {
      if (!fits([&](Scenario& other, Group&) { other.training.strategy = smaller.strategy; })) continue;
      add(smaller.change);
      return;
    }
  }

  /// Of what is sharded each keeps less, the more share it.
  void more_machines() {
    if (scenario_.training.strategy.kind->divided_states() == DividedStates{}) return;
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
