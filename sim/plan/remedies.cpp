#include "sim/plan/remedies.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"

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
    if (const auto* servers = std::get_if<ParameterServerStrategy>(&strategy.kind)) add_for_servers(*servers);
    if (std::holds_alternative<AllReduceStrategy>(strategy.kind)) add_for_all_reduce();
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

  /// A machine of a group as no catalog has it, at an unknown price.
  void add_other_machine(std::size_t group, const std::string& change, const std::string& key, const Json& value) {
    Json changed = effective_;
    Json& instance = changed["cluster"]["groups"][group]["instance"];
    instance[key] = value;
    for (const char* price : {"prices", "usd_per_hour_on_demand", "usd_per_hour_spot"}) instance.erase(price);
    variants_.push_back(
        {{.kind = RemedyKind::kHypothetical, .change = change, .settings = {}, .result = {}, .error = {}},
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
    if (const int batch = workload.value("batch_per_worker", 0); batch > 0)
      add("twice the batch of each worker", {"/workload/batch_per_worker=" + std::to_string(2 * batch)},
          RemedyKind::kOtherTraining);
    const bool has_pipeline = scenario_.training.strategy.pipeline() != nullptr;
    add("gradients of twice as many batches added up before each exchange",
        {std::string{"/training/strategy/"} + (has_pipeline ? "pipeline/microbatches=" : "accumulation_steps=") +
         std::to_string(2 * exchange.accumulation_steps)},
        RemedyKind::kOtherTraining);
    if (scenario_.copies_input.value_or(true))
      add("samples copied while the step before them computes", {"/workload/copies_input=false"});
  }

  void add_for_servers(const ParameterServerStrategy& strategy) {
    const int servers = scenario_.count(Role::kParameterServer);
    const std::string placement = "/training/strategy/placement=";
    for (std::size_t g = 0; g < scenario_.groups.size(); ++g) {
      const Group& group = scenario_.groups[g];
      if (group.role != Role::kParameterServer) continue;
      const std::string count = group_pointer(g) + "/count=";
      const std::string one_more = count + std::to_string(group.count + 1);
      const std::string of = " of group " + in_quotes(group.name);
      add("one more parameter server" + of, {one_more});
      if (strategy.placement != Placement::kSharded)
        add("one more parameter server" + of + ", variables cut into shards", {one_more, placement + "sharded"});
      if (strategy.placement == Placement::kRoundRobin)
        add("one more parameter server" + of + ", variables placed by size", {one_more, placement + "greedy_by_bytes"});
      if (group.count > 1) add("twice as many parameter servers" + of, {count + std::to_string(2 * group.count)});
      if (group.colocated_with >= 0) continue;
      const Group& host = scenario_.first_workers();
      add("parameter servers on the machines of group " + in_quotes(host.name) + " in place of" + " group " +
              in_quotes(group.name),
          {group_pointer(g) + "=" +
           Json{
               {"name", group.name}, {"role", "parameter_server"}, {"colocated_with", host.name}, {"count", host.count}}
               .dump()},
          RemedyKind::kShared);
      add_other_machine(g, "servers" + of + " with twice the cores", "vcpus", 2 * group.instance.vcpus);
      add_other_machine(g, "servers" + of + " with a NIC twice as fast", "nic", to_text(group.instance.nic * 2));
    }
    if (servers > 1 && strategy.placement != Placement::kSharded)
      add("variables cut into shards", {placement + "sharded"});
    if (servers > 1 && strategy.placement == Placement::kRoundRobin)
      add("variables placed by size", {placement + "greedy_by_bytes"});
    if (scenario_.count(Role::kWorker) > 1) add_all_reduce_without_servers();
  }

  void add_all_reduce_without_servers() {
    std::vector<std::string> settings{R"(/training/strategy={"kind":"all_reduce","bucket_size":"25MiB"})"};
    Json workers = Json::array();
    for (const Json& group : effective_["cluster"]["groups"])
      if (group.value("role", "") == "worker") workers.push_back(group);
    settings.push_back("/cluster/groups=" + workers.dump());
    add("all-reduce without servers", settings, RemedyKind::kOtherTraining);
  }

  void add_for_all_reduce() {
    const GradientExchange& exchange = scenario_.training.strategy.exchange;
    if (exchange.overlap == Overlap::kNone)
      add("gradients exchanged during the backward pass", {"/training/strategy/overlap=backward"});
    const std::string bucket = "/training/strategy/bucket_size=";
    if (!exchange.bucket_size) {
      add("gradients in buckets of 25 MiB", {bucket + "25MiB"});
    } else {
      add("gradients in buckets four times as large", {bucket + to_text(*exchange.bucket_size * 4)});
      add("gradients in buckets a quarter as large", {bucket + to_text(Bytes{exchange.bucket_size->value() / 4 + 1})});
    }
    for (const char* algorithm : {"ring", "tree", "hierarchical", "library"})
      if (find_collective_algorithm(effective_["training"]["strategy"].value("algorithm", "ring")) !=
          find_collective_algorithm(algorithm))
        add(std::string{"all-reduce as "} + algorithm, {std::string{"/training/strategy/algorithm="} + algorithm});
  }

  void add_for_workers(std::size_t g) {
    const Group& group = scenario_.groups[g];
    const std::string of = " of group " + in_quotes(group.name);
    add("one more machine of workers" + of, {group_pointer(g) + "/count=" + std::to_string(group.count + 1)});
    if (group.count > 1)
      add("twice as many machines of workers" + of, {group_pointer(g) + "/count=" + std::to_string(2 * group.count)});
    if (scenario_.groups.size() > 1 || group.count > 1)
      add_other_machine(g, "workers" + of + " with a NIC twice as fast", "nic", to_text(group.instance.nic * 2));
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
    add_update_at_once();
  }

  /// A dispatch for each variable becomes the one of a fused optimizer: profile "kernels", framework "Megatron".
  void add_update_at_once() {
    constexpr const char* kFused = "6us";
    Json changed = effective_;
    Json& profile = changed["calibration"];
    if (!scenario_.profile.kernels || !profile.is_object() || !profile.contains("frameworks") ||
        scenario_.profile.framework(scenario_.framework).update_dispatch <= parse_quantity<Seconds>(kFused))
      return;
    for (auto& [name, framework] : profile["frameworks"].items()) framework["update_dispatch"] = kFused;
    variants_.push_back({{.kind = RemedyKind::kHypothetical,
                          .change = "an optimizer that updates many variables at once (fused, multi-tensor)",
                          .settings = {},
                          .result = {},
                          .error = {}},
                         std::move(changed)});
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
  if (!usd_per_hour || samples_per_s <= 0) return {};
  return *usd_per_hour / 3600 / samples_per_s * 1e6;
}

std::vector<Variant> list_remedies(const Scenario& scenario, const Json& effective, const Catalog& catalog) {
  return Remedies{scenario, effective, catalog}.take();
}

}  // namespace rehearse
