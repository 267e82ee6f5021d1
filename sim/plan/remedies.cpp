#include "sim/plan/remedies.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/record/cost.hpp"
#include "sim/scenario/kernel_plan.hpp"
#include "sim/scenario/step_time.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMostOtherGpus = 4;

std::string group_pointer(std::size_t group) { return "/cluster/groups/" + std::to_string(group); }

/// Everything that might help, as a change of the effective scenario. What helps is for the simulation to say.
class Remedies {
 public:
  Remedies(const Scenario& scenario, const Json& effective, const Catalog& catalog)
      : scenario_{scenario}, effective_{effective}, catalog_{catalog} {
    const Strategy& strategy = scenario.training.strategy;
    add_for_training();
    for (const StrategyRemedy& remedy : strategy.kind->remedies(scenario, effective)) {
      if (remedy.kind == RemedyKind::kHypothetical)
        add_other_machine(remedy);
      else
        add(remedy.change, remedy.settings, remedy.kind);
    }
    for (std::size_t g = 0; g < scenario.groups.size(); ++g)
      if (scenario.groups[g].role == Role::kWorker) add_for_workers(g);
    add_one_region();
    add_faster_parts();
  }

  std::vector<Variant> take() { return std::move(variants_); }

 private:
  void add(const std::string& change, const std::vector<std::string>& settings, RemedyKind kind = RemedyKind::kRented) {
    Json changed = effective_;
    for (const std::string& setting : settings) {
      const std::size_t equals = setting.find('=');
      set_json_pointer(changed, setting.substr(0, equals), setting.substr(equals + 1));
    }
    variants_.push_back(
        {{.kind = kind, .change = change, .settings = settings, .result = {}, .error = {}}, std::move(changed)});
  }

  /// Machines of groups as no catalog has them, "/cluster/groups/0/instance/vcpus=8", at an unknown price.
  void add_other_machine(const StrategyRemedy& remedy) {
    Json changed = effective_;
    for (const std::string& setting : remedy.settings) {
      const std::size_t equals = setting.find('='), key = setting.rfind('/', equals);
      set_json_pointer(changed, setting.substr(0, equals), setting.substr(equals + 1));
      Json& instance = changed[Json::json_pointer{setting.substr(0, key)}];
      for (const char* price : {"prices", "usd_per_hour_on_demand", "usd_per_hour_spot"}) instance.erase(price);
    }
    variants_.push_back(
        {{.kind = RemedyKind::kHypothetical, .change = remedy.change, .settings = {}, .result = {}, .error = {}},
         std::move(changed)});
  }

  void add_for_training() {
    const Json& workload = effective_["workload"];
    const GradientExchange& exchange = scenario_.training.strategy.exchange;
    const bool is_full = !is_half(scenario_.precision);
    if (is_full) add("half precision", {"/workload/precision=fp16"}, RemedyKind::kOtherTraining);
    if (is_full && !exchange.gradient_precision)
      add("gradients sent in half precision", {"/training/strategy/gradient_precision=fp16"},
          RemedyKind::kOtherTraining);
    const int batch = workload.value("batch_per_worker", 0);
    if (const std::int64_t samples = exchange.global_batch; samples > 0) {
      if (batch > 0 && exchange.accumulation_steps % 2 == 0)
        add("twice the batch of each worker, half as many of them in a step",
            {"/workload/batch_per_worker=" + std::to_string(2 * batch)});
      add("twice as many samples in a step", {"/training/strategy/global_batch=" + std::to_string(2 * samples)},
          RemedyKind::kOtherTraining);
    } else {
      if (batch > 0)
        add("twice the batch of each worker", {"/workload/batch_per_worker=" + std::to_string(2 * batch)},
            RemedyKind::kOtherTraining);
      add("gradients of twice as many batches added up before each exchange",
          {"/training/strategy/" + scenario_.training.strategy.kind->accumulation_key() + "=" +
           std::to_string(2 * exchange.accumulation_steps)},
          RemedyKind::kOtherTraining);
    }
    if (scenario_.copies_input.value_or(true))
      add("samples copied while the step before them computes", {"/workload/copies_input=false"});
    if (scenario_.input) add_for_input(*scenario_.input);
    add_update_at_once();
  }

  void add_for_input(const InputPipeline& input) {
    if (!input.prefetches) add("batches loaded while the step before them computes", {"/workload/input/prefetch=true"});
    if (const int loaders = input.loaders.value_or(0); loaders > 0)
      add("twice as many loaders", {"/workload/input/loaders=" + std::to_string(2 * loaders)});
    if (input.decode_time > Seconds{})
      add("samples that are decoded in half the time",
          {"/workload/input/decode_time=" + to_text(input.decode_time / 2)});
    for (const auto& [key, rate] :
         {std::pair{"read_rate", input.read_rate}, std::pair{"shared_read_rate", input.shared_read_rate}})
      if (rate) add("storage twice as fast", {std::string{"/workload/input/"} + key + "=" + to_text(*rate * 2)});
  }

  /// Whether so many workers more can have as many batches each of what samples a step was stated to have.
  bool can_share_with(int more) const {
    const std::int64_t samples = scenario_.training.strategy.exchange.global_batch;
    if (samples == 0) return true;
    const std::int64_t models = (scenario_.count(Role::kWorker) + more) / workers_per_model(scenario_);
    return samples % (models * scenario_.first_workers().batch) == 0;
  }

  void add_for_workers(std::size_t g) {
    const Group& group = scenario_.groups[g];
    const std::string of = " of group " + in_quotes(group.name);
    if (can_share_with(group.workers_per_machine()))
      add("one more machine of workers" + of, {group_pointer(g) + "/count=" + std::to_string(group.count + 1)});
    if (group.count > 1 && can_share_with(group.workers()))
      add("twice as many machines of workers" + of, {group_pointer(g) + "/count=" + std::to_string(2 * group.count)});
    if (scenario_.groups.size() > 1 || group.count > 1)
      add_other_machine({"workers" + of + " with a NIC twice as fast",
                         {group_pointer(g) + "/instance/nic=" + to_text(group.instance.nic * 2)}});
    std::vector<std::pair<double, std::string>> faster;  // peak, name
    for (const std::string& name : catalog_.instance_names()) {
      const JsonReader nobody{effective_, "diagnosis"};
      const Instance other = read_instance(name, catalog_.instance(name, nobody));
      if (other.accelerator.empty() || other.accelerator == group.accelerator->name ||
          other.accelerators != group.instance.accelerators || other.provider.empty() ||
          other.provider != group.instance.provider || !scenario_.profile.gpu.covers(other.accelerator))
        continue;
      const Accelerator gpu = read_accelerator(other.accelerator, catalog_.accelerator(other.accelerator, nobody));
      const FlopsPerSecond peak = scenario_.peak_of(gpu);
      if (peak > scenario_.peak_of(*group.accelerator)) faster.emplace_back(peak.value(), name);
    }
    std::sort(faster.begin(), faster.end());
    if (faster.size() > kMostOtherGpus) faster.resize(kMostOtherGpus);
    for (const auto& [peak, name] : faster)
      add("workers" + of + " on " + name, {group_pointer(g) + "/instance=" + name});
  }

  /// What no catalog has, but says what faster machines or other software would gain.
  void add_faster_parts() {
    const auto add_part = [&](const char* mechanism, const std::string& change) {
      variants_.push_back(
          {{.kind = RemedyKind::kHypothetical, .change = change, .settings = {}, .result = {}, .error = {}},
           effective_,
           mechanism});
    };
    add_part("gpu", "GPUs twice as fast, with the same hosts");
    add_part("host", "hosts that dispatch kernels and begin steps twice as fast");
    add_part("launch", "kernels that start in half the time, as captured ones do");
    if (scenario_.count(Role::kWorker) > 1) add_part("latency", "half the latency between machines");
  }

  void add_update_at_once() {
    if (!why_no_update_kernels(scenario_).empty()) return;
    const auto dispatch = [&](std::optional<OptimizerImplementation> implementation) {
      return update_kernels(scenario_.optimizer, scenario_.profile.framework(scenario_.framework), implementation)
          .dispatch;
    };
    if (dispatch(OptimizerImplementation::kFused) < dispatch(scenario_.optimizer_implementation))
      add("an optimizer that updates many variables at once (fused)", {"/workload/optimizer_implementation=fused"});
  }

  void add_one_region() {
    std::vector<std::string> settings;
    for (std::size_t g = 0; g < scenario_.groups.size(); ++g)
      if (scenario_.groups[g].region != scenario_.groups[0].region && scenario_.groups[g].colocated_with < 0)
        settings.push_back(group_pointer(g) + "/region=" + scenario_.groups[0].region);
    if (!settings.empty()) add("all machines in region " + scenario_.groups[0].region, settings);
  }

  const Scenario& scenario_;
  const Json& effective_;
  const Catalog& catalog_;
  std::vector<Variant> variants_;
};

}  // namespace

std::optional<double> ClusterSpeed::usd_per_million_samples() const {
  return rehearse::usd_per_million_samples(usd_per_hour, samples_per_s);
}

std::vector<Variant> list_remedies(const Scenario& scenario, const Json& effective, const Catalog& catalog) {
  return Remedies{scenario, effective, catalog}.take();
}

}  // namespace rehearse
