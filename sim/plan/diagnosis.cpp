#include "sim/plan/diagnosis.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <variant>

#include "calibration/parameter_spread.hpp"
#include "platforms/price.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/engine/scenario.hpp"
#include "sim/plan/cluster_variants.hpp"
#include "sim/pool/pool.hpp"

namespace rehearse {

namespace {

constexpr double kWorthwhile = 0.01;
constexpr std::size_t kMostOtherGpus = 4;

struct Variant {
  Remedy remedy;
  Json scenario;
};

std::string group_pointer(std::size_t group) { return "/cluster/groups/" + std::to_string(group); }

std::string percent(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", share * 100);
  return text.data();
}

/// Everything that might help, as a change of the effective scenario. What helps is for the simulation to say.
class Remedies {
 public:
  Remedies(const Scenario& scenario, const Json& effective, const Catalog& catalog)
      : scenario_{scenario}, effective_{effective}, catalog_{catalog} {
    const Strategy& strategy = scenario.training.strategy;
    if (const auto* servers = std::get_if<ParameterServerStrategy>(&strategy.kind)) add_for_servers(*servers);
    if (std::holds_alternative<AllReduceStrategy>(strategy.kind)) add_for_all_reduce();
    for (std::size_t g = 0; g < scenario.groups.size(); ++g)
      if (scenario.groups[g].role == Role::kWorker) add_for_workers(g);
    add_one_region();
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
  }

  void add_for_all_reduce() {
    const GradientExchange& exchange = scenario_.training.strategy.exchange;
    if (exchange.overlap == Overlap::kNone)
      add("gradients exchanged during the backward pass", {"/training/strategy/overlap=backward"});
    if (!exchange.bucket_size) add("gradients in buckets of 25 MiB", {"/training/strategy/bucket_size=25MiB"});
    if (scenario_.precision == Precision::kFp32 && !exchange.gradient_precision)
      add("gradients sent in half precision", {"/training/strategy/gradient_precision=fp16"});
    for (const char* algorithm : {"ring", "double_binary_tree", "hierarchical"})
      if (effective_["training"]["strategy"].value("algorithm", "ring") != algorithm)
        add(std::string{"all-reduce as "} + algorithm, {std::string{"/training/strategy/algorithm="} + algorithm});
  }

  void add_for_workers(std::size_t g) {
    const Group& group = scenario_.groups[g];
    const std::string of = " of group " + in_quotes(group.name);
    add("one more machine of workers" + of, {group_pointer(g) + "/count=" + std::to_string(group.count + 1)});
    if (scenario_.groups.size() > 1 || group.count > 1)
      add_other_machine(g, "workers" + of + " with a NIC twice as fast", "nic", to_text(group.instance.nic * 2));
    std::size_t others = 0;
    for (const std::string& name : catalog_.instance_names()) {
      const JsonReader nobody{effective_, "diagnosis"};
      const Instance other = read_instance(name, catalog_.instance(name, nobody));
      if (other.accelerator.empty() || other.accelerator == group.accelerator->name ||
          other.accelerators != group.instance.accelerators || other.provider.empty() ||
          other.provider != group.instance.provider || !scenario_.profile.gpu.covers(other.accelerator))
        continue;
      const Accelerator gpu = read_accelerator(other.accelerator, catalog_.accelerator(other.accelerator, nobody));
      if (!(scenario_.peak_of(gpu) > scenario_.peak_of(*group.accelerator)) || ++others > kMostOtherGpus) continue;
      add("workers" + of + " on " + name, {group_pointer(g) + "/instance=" + name});
    }
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

std::optional<double> usd_per_hour(const Scenario& scenario) {
  double sum = 0;
  for (const Group& group : scenario.groups) {
    if (group.colocated_with >= 0) continue;  // on machines that are paid for already
    const auto price = CostModel{}.usd_per_hour(group.instance, group.market == Market::kSpot, group.region, {}, {});
    if (!price) return {};
    sum += *price * group.count;
  }
  return sum;
}

ClusterSpeed read_speed(const PooledRun& run) {
  const Json summary = parse_json(run.summary, "summary");
  return {.steps_per_s = summary["steps_per_s"].get<double>(),
          .samples_per_s = summary["samples_per_s"].get<double>(),
          .usd_per_hour = {},
          .bottleneck = summary["bottleneck"].get<std::string>(),
          .bottleneck_resource = summary["bottleneck_resource"].get<std::string>()};
}

/// Smaller is better.
auto rank(const Remedy& remedy) {
  const double infinity = std::numeric_limits<double>::infinity();
  return std::tuple{!remedy.result, remedy.kind, remedy.cost_change.value_or(infinity),
                    -remedy.simulated_gain.value_or(0)};
}

std::string verdict_of(const Diagnosis& diagnosis) {
  const double ratio = diagnosis.measured / diagnosis.simulated.steps_per_s;
  std::string text;
  if (diagnosis.is_explained)
    text = "the run is as fast as the model says it should be";
  else if (ratio < 1)
    text = "something that is not in the model slows the run: " + percent(1 - ratio) +
           " of its speed is missing, as by a straggler, other work on its machines, or slow input";
  else
    text = "the run is " + percent(ratio - 1) + " faster than the model says: its profile does not fit this software";
  if (!diagnosis.is_flagged) return text + "; it reaches the workers' own speeds: no bottleneck between them";
  text += "; it lacks " + percent(1 - diagnosis.measured / diagnosis.by_addition) + " of the workers' own speeds, ";
  const bool is_simulated = diagnosis.simulated.steps_per_s < (1 - kFlaggedShortfall) * diagnosis.by_addition;
  text += is_simulated ? "a bottleneck between them that the simulated run has, too"
                       : "which looks like a bottleneck between them, but the simulated run has none";
  return text;
}

}  // namespace

std::optional<double> ClusterSpeed::usd_per_million_samples() const {
  if (!usd_per_hour || samples_per_s <= 0) return {};
  return *usd_per_hour / 3600 / samples_per_s * 1e6;
}

std::optional<Diagnosis> diagnose(const Json& json, const std::string& file_name, const Catalog& catalog,
                                  double measured, int parallel,
                                  const std::function<void(std::size_t, std::size_t)>& on_done,
                                  const std::function<bool()>& is_stopped) {
  if (!(measured > 0) || !std::isfinite(measured)) throw InputError{"expected a measured speed above 0 steps/s"};
  const Scenario scenario = read_scenario(json, file_name, catalog);
  const Json effective = parse_json(scenario.effective, file_name);
  std::vector<Json> clusters{effective};
  std::vector<std::size_t> alone;  // groups of workers, clusters[1] onwards
  for (std::size_t g = 0; g < scenario.groups.size(); ++g) {
    if (scenario.groups[g].role != Role::kWorker) continue;
    alone.push_back(g);
    clusters.push_back(one_machine_alone(effective, g));
  }
  std::vector<Variant> variants = Remedies{scenario, effective, catalog}.take();
  for (const Variant& variant : variants) clusters.push_back(variant.scenario);

  const auto cluster = [&](std::size_t i) {
    Scenario one = shortened(read_scenario(clusters[i], file_name, catalog));
    one.training.target.reset();
    return one;
  };
  std::vector<PooledRun> runs(clusters.size());
  std::size_t done = 0;
  const bool is_complete = simulate_each(clusters.size(), parallel, cluster,
                                         [&](std::size_t i, const PooledRun& run) {
                                           runs[i] = run;
                                           if (on_done) on_done(++done, runs.size());
                                         },
                                         {.is_stopped = is_stopped, .job_wall_s = {}});
  if (!is_complete) return std::nullopt;
  for (std::size_t i = 0; i <= alone.size(); ++i)
    if (!runs[i].error.empty()) throw NoResultError{file_name + ": " + runs[i].error};

  Diagnosis diagnosis;
  diagnosis.measured = measured;
  diagnosis.simulated = read_speed(runs[0]);
  diagnosis.simulated.usd_per_hour = usd_per_hour(scenario);
  const bool is_synchronous = scenario.training.strategy.is_synchronous();
  for (std::size_t i = 0; i < alone.size(); ++i) {
    const double speed = read_speed(runs[1 + i]).steps_per_s;
    diagnosis.by_addition = !is_synchronous ? diagnosis.by_addition + speed * scenario.groups[alone[i]].count
                            : i == 0        ? speed
                                            : std::min(diagnosis.by_addition, speed);
  }
  diagnosis.is_flagged = measured < (1 - kFlaggedShortfall) * diagnosis.by_addition;
  const double speed = diagnosis.simulated.steps_per_s;
  std::pair<double, double> explained{1 - kFlaggedShortfall, 1 + kFlaggedShortfall};
  if (const PredictionSpread& spread = scenario.profile.spread; spread.residual > 0) {
    explained = spread.interval(spread.components.empty() ? 0 : speed_spread(scenario, parallel, {}, Budget{{}, is_stopped}));
    diagnosis.interval = {speed * explained.first, speed * explained.second};
  }
  diagnosis.is_explained = measured >= speed * explained.first && measured <= speed * explained.second;
  diagnosis.verdict = verdict_of(diagnosis);

  const auto cost = diagnosis.simulated.usd_per_million_samples();
  for (std::size_t i = 0; i < variants.size(); ++i) {
    Remedy remedy = std::move(variants[i].remedy);
    const PooledRun& run = runs[1 + alone.size() + i];
    remedy.error = run.error;
    if (run.error.empty()) {
      remedy.result = read_speed(run);
      remedy.result->usd_per_hour = usd_per_hour(read_scenario(variants[i].scenario, file_name, catalog));
      remedy.simulated_gain = remedy.result->samples_per_s / diagnosis.simulated.samples_per_s - 1;
      if (const auto own = remedy.result->usd_per_million_samples(); own && cost && *cost > 0)
        remedy.cost_change = *own / *cost - 1;
      if (*remedy.simulated_gain < kWorthwhile) continue;
    }
    diagnosis.remedies.push_back(std::move(remedy));
  }
  std::stable_sort(diagnosis.remedies.begin(), diagnosis.remedies.end(),
                   [](const Remedy& a, const Remedy& b) { return rank(a) < rank(b); });
  return diagnosis;
}

Json to_json(const Diagnosis& diagnosis) {
  const auto or_null = [](const std::optional<double>& value) { return value ? Json(*value) : Json{}; };
  const auto speed = [&](const ClusterSpeed& cluster) {
    return Json{{"steps_per_s", cluster.steps_per_s},
                {"samples_per_s", cluster.samples_per_s},
                {"usd_per_hour", or_null(cluster.usd_per_hour)},
                {"usd_per_million_samples", or_null(cluster.usd_per_million_samples())},
                {"bottleneck", cluster.bottleneck},
                {"bottleneck_resource", cluster.bottleneck_resource}};
  };
  Json remedies = Json::array();
  for (const Remedy& remedy : diagnosis.remedies)
    remedies.push_back({{"change", remedy.change},
                        {"set", remedy.settings},
                        {"result", remedy.result ? speed(*remedy.result) : Json{}},
                        {"gain", or_null(remedy.simulated_gain)},
                        {"cost_change", or_null(remedy.cost_change)},
                        {"error", remedy.error.empty() ? Json{} : Json(remedy.error)}});
  return {{"format", 1},
          {"measured_steps_per_s", diagnosis.measured},
          {"simulated", speed(diagnosis.simulated)},
          {"steps_per_s_low", diagnosis.interval ? Json(diagnosis.interval->first) : Json{}},
          {"steps_per_s_high", diagnosis.interval ? Json(diagnosis.interval->second) : Json{}},
          {"steps_per_s_by_addition", diagnosis.by_addition},
          {"is_flagged", diagnosis.is_flagged},
          {"is_explained", diagnosis.is_explained},
          {"verdict", diagnosis.verdict},
          {"remedies", std::move(remedies)}};
}

}  // namespace rehearse
