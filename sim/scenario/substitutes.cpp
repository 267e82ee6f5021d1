#include "sim/scenario/substitutes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "platforms/gpu_distance.hpp"
#include "platforms/kernels/kernels.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/scenario/collective_protocols.hpp"
#include "sim/scenario/step_time.hpp"
#include "sim/scenario/training_facts.hpp"

namespace rehearse {

namespace {

using nlohmann::literals::operator""_json_pointer;

/// Over NICs of 100 Gbit/s NCCL's all-reduces reach 4 to 6 GB/s by sockets, several a machine: listings in NCCL's issues.
constexpr BytesPerSecond kTcpRate{5e9};

constexpr double kLeastSpread = 0.1, kSpreadOfOne = 0.3;
constexpr std::array kLinkEfficiencies{"nvlink_efficiency", "pcie_efficiency", "socket_efficiency",
                                       "nvlink_relay_efficiency"};

/// Standard deviation of logarithms.
double spread_of(const std::vector<double>& values) {
  if (values.size() < 2) return kSpreadOfOne;
  double mean = 0, variance = 0;
  for (const double value : values) mean += std::log(value) / static_cast<double>(values.size());
  for (const double value : values)
    variance += (std::log(value) - mean) * (std::log(value) - mean) / static_cast<double>(values.size() - 1);
  return std::max(kLeastSpread, std::sqrt(variance));
}

/// "22 %": one standard error as a factor.
std::string percent(double spread) {
  return std::to_string(static_cast<int>(std::lround(100 * std::expm1(spread)))) + " %";
}

class Substitution {
 public:
  Substitution(const Scenario& scenario, Json& profile, const Catalog& catalog)
      : scenario_{scenario},
        profile_{profile},
        catalog_{catalog},
        name_{profile.value("name", std::string{})},
        asked_by_{profile, "profile " + in_quotes(name_)} {}

  void run() {
    if (has_kernels(scenario_.workload)) compute();
    architectures();
    servers();
    if (!profile_.contains("network") && spans_machines()) take_section("network", "the NICs' efficiency");
    sockets();
    const std::vector<const Group*> unknown = groups_of_unknown_copies();
    collectives();
    for (const Group* group : unknown) widen_for_copies(*group);
  }

 private:
  struct Donor {
    std::string name;
    const Json* profile;
    std::set<std::string> gpus;  // that it knows
  };

  // Donors

  const std::vector<Donor>& donors() {
    if (!donors_.empty()) return donors_;
    for (const std::string& name : catalog_.profile_names()) {
      const Profile* profile = name == name_ ? nullptr : catalog_.readable_profile(name);
      if (profile == nullptr) continue;  // who asks for a wrong one is told
      const Json& json = catalog_.profile(name, asked_by_).value();
      if (json.value("unstated", "") != "ideal") donors_.push_back({name, &json, known_gpus(*profile)});
    }
    return donors_;
  }

  double nearest_of(const std::set<std::string>& gpus, const Accelerator& from) const {
    return nearest_gpu(from, gpus, catalog_).distance;
  }
  double distance_to(const std::string& gpu, const Accelerator& from) const { return nearest_of({gpu}, from); }

  const Accelerator& first_gpu() const { return *scenario_.first_workers().accelerator; }

  std::string own() const { return "profile " + in_quotes(name_); }

  /// Also by an earlier run, whose completed scenario is run again.
  bool is_noted(const std::string& text) const {
    return profile_.contains("substitutes") &&
           std::ranges::any_of(profile_["substitutes"], [&](const Json& known) { return known["text"] == text; });
  }

  /// `is_of_kind`: whether the errors of predictions of this kind include it.
  void note(const std::string& text, double spread, Json components = Json::object(), bool is_of_kind = true) {
    if (is_noted(text)) return;
    Json entry{{"text", text}, {"spread", std::round(spread * 1e4) / 1e4}};
    if (is_of_kind) entry["of_kind"] = true;
    if (!components.empty()) entry["components"] = std::move(components);
    profile_["substitutes"].push_back(std::move(entry));
  }

  /// Whether it is known how far predictions of this kind have been off, all that they take from elsewhere included.
  bool knows_errors() const { return profile_.contains("prediction"); }
  std::string off_by(double spread, const std::string& why = "") const {
    return knows_errors() ? "; the interval includes how far that may be off"
                          : "; predictions may be off by " + percent(spread) + why;
  }

  /// What is replaced is no longer what was fitted: how uncertain it is says the substitute.
  void forget_fit_of(const std::string& pointer) {
    if (!profile_.contains("/fit/spread/components"_json_pointer)) return;
    Json& components = profile_["fit"]["spread"]["components"];
    Json kept = Json::array();
    for (const Json& component : components) {
      Json others = Json::object();
      for (const auto& [place, change] : component.items())
        if (place != pointer && !place.starts_with(pointer + "/")) others[place] = change;
      if (!others.empty()) kept.push_back(std::move(others));
    }
    components = std::move(kept);
  }

  /// Kernels on GPUs of another architecture, or another maker, than any that the profile's values were fitted to.
  void architectures() {
    if (scenario_.profile.kernels == nullptr) return;
    std::set<std::string> named;
    for (const Group& group : scenario_.groups) {
      if (group.role != Role::kWorker || !group.accelerator) continue;
      const std::string& architecture = group.accelerator->architecture;
      if (scenario_.profile.kernels->by_architecture.contains(architecture) || !named.insert(architecture).second)
        continue;
      note(own() + " has no kernels of GPU " + group.accelerator->name + "'s architecture" +
               (architecture.empty() ? "" : " " + in_quotes(architecture)) +
               ": as those of all architectures that it was fitted to; predictions may be off by " +
               percent(kSpreadOfOne),
           kSpreadOfOne, Json::object(), false);
    }
  }

  // Sections

  bool spans_machines() const {
    int machines = 0;
    for (const Group& group : scenario_.groups) machines += group.colocated_with < 0 ? group.count : 0;
    return machines > 1;
  }

  /// The section of the donor whose GPUs are nearest, if any has it; of equals, one that knows the kind of strategy.
  bool take_section(const std::string& section, const std::string& what, const std::string& key = "") {
    const bool has_collectives = scenario_.training.strategy.kind->collectives() != nullptr;
    const Donor* nearest = nullptr;
    std::tuple<bool, double, bool> best;
    for (const Donor& donor : donors()) {
      if (!donor.profile->contains(section) || (!key.empty() && !(*donor.profile)[section].contains(key))) continue;
      const std::string software = (*donor.profile)[section].value("software", "");
      const bool is_named = !software.empty() && scenario_.framework.find(software) != std::string::npos;
      const std::tuple rank{!is_named, nearest_of(donor.gpus, first_gpu()),
                            donor.profile->contains("collectives") != has_collectives};
      if (nearest != nullptr && rank >= best) continue;
      nearest = &donor;
      best = rank;
    }
    if (nearest == nullptr) return false;
    if (key.empty())
      profile_[section] = section_of(*nearest->profile, nearest->name, section);
    else
      profile_[section][key] = (*nearest->profile)[section][key];
    note(own() + " does not state " + what + ": as in profile " + in_quotes(nearest->name) + " (" +
             joined(nearest->gpus) + "), the nearest that does" + off_by(kSpreadOfOne),
         kSpreadOfOne);
    return true;
  }

  /// That of servers with what its fit has seen of them.
  static Json section_of(const Json& profile, const std::string& name, const std::string& section) {
    Json taken = profile[section];
    if (section == "network") taken.erase("tcp_rate");  // of another library's sockets, on other processors
    const auto seen = "/fit/seen"_json_pointer;
    if (section != "servers" || !profile.contains(seen) || !profile[seen].contains("server_traffic_max")) return taken;
    taken["fitted"] = {{"profile", name}};
    for (const char* key : {"exchanges", "server_traffic_max", "workers_max", "servers_max"})
      if (profile[seen].contains(key)) taken["fitted"][key] = profile[seen][key];
    return taken;
  }

  /// Of collectives over TCP, where NICs are faster than what sockets have been measured to carry.
  void sockets() {
    const Group& workers = scenario_.first_workers();
    const BytesPerSecond nics = workers.instance.all_nics();
    const bool is_limited = scenario_.prediction_kind.place == ExchangePlace::kSockets && nics > kTcpRate &&
                            scenario_.prediction_kind.exchange > ExchangeFrom::kFitted;
    if (!is_limited || profile_["network"].contains("tcp_rate")) return;
    profile_["network"]["tcp_rate"] = to_text(kTcpRate);
    note(own() + " does not state what sockets carry of a collective: " + to_text(kTcpRate) + " of NICs of " +
             to_text(nics) + ", as public tests of NCCL over 100 Gbit/s; 2.3GBps have been measured, too",
         kSpreadOfOne);
  }

  /// Those of the workload's framework, where they are others.
  void servers_of_framework() {
    Json& section = profile_["servers"];
    if (!section.contains("by_framework")) return;
    const Json entries = section["by_framework"];
    section.erase("by_framework");
    std::vector<std::string> names;
    for (const auto& [name, entry] : entries.items()) names.push_back(name);
    const auto chosen = entries.find(framework_name(names, scenario_.framework));
    if (chosen == entries.end()) return;
    for (const auto& [key, value] : chosen->items()) {
      if (key == "source") continue;
      section[key] = value;
      forget_fit_of("/servers/" + key);
    }
  }

  void servers() {
    const ServerRules* strategy = scenario_.training.strategy.kind->servers();
    if (strategy == nullptr) return;
    if (!profile_.contains("servers")) take_section("servers", "what parameter servers cost");
    if (profile_.contains("servers")) servers_of_framework();
    if (strategy->variables == VariableHome::kWorkerProcess && profile_.contains("servers") &&
        !profile_["servers"].contains("in_process"))
      take_section("servers", "what arithmetic on variables in the workers' process costs", "in_process");
  }

  // Copies between GPUs over PCIe

  /// Groups whose GPUs exchange over PCIe alone where nobody has measured it: of machines that are not said to stage copies in host
  /// memory, and of another GPU than those that the profile's protocols were fitted to.
  std::vector<const Group*> groups_of_unknown_copies() const {
    if (!scenario_.training.strategy.kind->sends_between_gpus()) return {};
    std::vector<const Group*> unknown;
    std::set<std::string> named;
    for (const Group& group : scenario_.groups) {
      const Interconnect& inside = group.interconnect;
      if (group.role != Role::kWorker || group.instance.accelerators < 2 || kind_of(inside) != LinkKind::kPcie ||
          inside.stages_copies_in_host || !named.insert(inside.name).second)
        continue;
      const std::vector<std::string>& fitted = scenario_.profile.fitted_accelerators;
      const Json library = profile_.contains("collectives") ? profile_["collectives"] : Json::object();
      const Json entry = library_on(library, inside.name, inside.generation, *group.accelerator);
      const bool has_measured = std::ranges::find(fitted, group.accelerator->name) != fitted.end() &&
                                entry.contains("protocols") && !entry["protocols"].empty();
      if (!has_measured) unknown.push_back(&group);
    }
    return unknown;
  }

  /// NCCL copies through host memory where GPUs have no peer access: boards of consumers, GPUs at two processors, many virtual
  /// machines. A fifth of the rate is the 5th percentile then.
  void widen_for_copies(const Group& group) {
    constexpr double kSlowest = 5;
    const std::string& name = group.interconnect.name;
    const std::string text =
        "the GPUs of " + in_quotes(group.instance.name) +
        " are joined by PCIe alone: whether they copy to one another directly is not known; through host "
        "memory an exchange among them takes up to five times as long";
    if (is_noted(text)) return;
    std::string pointer = "/collectives";
    Json* entry = &profile_["collectives"];
    if (entry->is_null()) *entry = Json::object();
    if (!name.empty()) {
      pointer = extend_json_pointer(pointer + "/by_interconnect", name);
      if (!entry->contains("by_interconnect") || !(*entry)["by_interconnect"].contains(name))
        (*entry)["by_interconnect"][name] = library_on(*entry, name, group.interconnect.generation, *group.accelerator);
      entry = &(*entry)["by_interconnect"][name];
    }
    if (!entry->contains("pcie_efficiency")) (*entry)["pcie_efficiency"] = 1;
    note(text, 0, {{pointer + "/pcie_efficiency", -std::log(kSlowest) / kNormal95}}, false);
  }

  // Compute

  void compute() {
    if (profile_.contains("kernels")) return compute_by_kernels();
    if (!profile_.contains("gpu") || !profile_.contains("host")) take_kernels();
    std::set<std::pair<std::string, int>> done;
    for (const Group& group : scenario_.groups)
      if (group.role == Role::kWorker && done.insert({group.accelerator->name, batch_of(group)}).second)
        compute_on(group);
  }

  /// GPUs without what kernels depend on are refused. How far steps may be off, says the spread of the profile's fit, the errors
  /// of rows that it had not seen; without any, kSpreadOfSteps.
  void compute_by_kernels() {
    constexpr double kSpreadOfSteps = 0.25;
    const auto place = "/fit/spread/residual"_json_pointer;
    const double spread = profile_.contains(place) ? profile_[place].get<double>() : 0;
    for (const Group& group : scenario_.groups)
      if (group.role == Role::kWorker) (void)kernels::gpu_of(*group.accelerator, group.place);
    note(own() + " computes kernels from the GPU's data sheet" + off_by(spread > 0 ? spread : kSpreadOfSteps),
         spread > 0 ? 0 : kSpreadOfSteps);
  }

  static int batch_of(const Group& group) { return group.batch / group.gpus_per_worker; }

  void take_kernels() {
    const Donor* nearest = nullptr;
    std::tuple<bool, double> best;
    for (const Donor& donor : donors()) {
      const Json& profile = *donor.profile;
      const bool has_step_times = profile.contains("step_times") && !profile["step_times"].empty();
      if (!profile.contains("gpu") || !profile.contains("host") ||
          (!has_step_times && profile["gpu"]["peak_efficiency"].empty()))
        continue;
      bool knows_model = false;
      if (has_step_times)
        for (const Json& step : profile["step_times"]) knows_model |= step["model"] == scenario_.model.name;
      const std::tuple<bool, double> rank{!knows_model, nearest_of(donor.gpus, first_gpu())};
      if (nearest != nullptr && rank >= best) continue;
      nearest = &donor;
      best = rank;
    }
    if (nearest == nullptr) return;
    const Json& profile = *nearest->profile;
    for (const char* section : {"host", "gpu"})
      if (!profile_.contains(section)) profile_[section] = profile[section];
    if (profile.contains("step_times") && !profile_.contains("step_times"))
      profile_["step_times"] = profile["step_times"];
    note(own() + " does not state how fast kernels are: as in profile " + in_quotes(nearest->name) + " (" +
             joined(nearest->gpus) + "), the nearest that does" + off_by(kSpreadOfOne),
         kSpreadOfOne);
  }

  /// The scenario with the profile as it is by now.
  Scenario with_profile() const {
    Scenario scenario = scenario_;
    scenario.profile = read_profile(JsonReader{profile_, asked_by_.file_name()});
    return scenario;
  }

  void compute_on(const Group& group) {
    if (!profile_.contains("gpu")) return;  // nobody states it
    if (profile_["gpu"]["peak_efficiency"].contains(group.accelerator->name)) return;
    if (!profile_.contains("substitutes") && step_time_factor(scenario_, group)) return;
    const Scenario scenario = with_profile();
    if (step_time_factor(scenario, group)) return;
    if (!scenario.profile.step_times.empty() && estimate_step(scenario, group)) return;
    if (!profile_["gpu"].contains("default_peak_efficiency")) take_efficiency(*group.accelerator);
  }

  /// Of the GPUs of this profile, or else of another.
  void take_efficiency(const Accelerator& gpu) {
    const Json* from = &profile_["gpu"]["peak_efficiency"];
    std::string where;
    if (from->empty())
      for (const Donor& donor : donors())
        if (donor.profile->contains("gpu") && !(*donor.profile)["gpu"]["peak_efficiency"].empty()) {
          from = &(*donor.profile)["gpu"]["peak_efficiency"];
          where = " in profile " + in_quotes(donor.name);
          break;
        }
    if (from->empty()) return;
    std::string nearest;
    double best = 0;
    std::vector<double> all;
    for (const auto& [name, efficiency] : from->items()) {
      all.push_back(efficiency.get<double>());
      const double far = distance_to(name, gpu);
      if (!nearest.empty() && far >= best) continue;
      nearest = name;
      best = far;
    }
    const double spread = spread_of(all);
    const Json value = (*from)[nearest];
    profile_["gpu"]["peak_efficiency"][gpu.name] = value;
    note(own() + " does not state the efficiency of GPU " + gpu.name + ": that of " + nearest + where + ", " +
             to_text(value.get<double>()) +
             off_by(spread, all.size() > 1 ? ", as efficiencies of GPUs differ there" : ""),
         spread);
  }

  // Step times

  struct Series {
    std::string model, accelerator, precision, framework;
    friend auto operator<=>(const Series&, const Series&) = default;
  };

  /// How many times longer than modelled the measured step of the series is. None if its model or GPU is not known.
  std::optional<double> factor_of(const Scenario& scenario, const Group& group, const Series& series) {
    Scenario other = scenario;
    Group on = group;
    on.batch = batch_of(group);
    on.gpus_per_worker = 1;
    try {
      if (series.accelerator != group.accelerator->name) {
        on.accelerator = read_accelerator(series.accelerator, catalog_.accelerator(series.accelerator, asked_by_));
        on.interconnect.pcie = on.accelerator->host_link;
      }
      other.framework = series.framework;
      other.precision = precision_named(series.precision);
      other.model.fp8 = Fp8::kNone;
      if (series.model != scenario.model.name)
        other.model = read_model(series.model, catalog_.model(series.model, asked_by_));
      if (series.model != scenario.model.name || other.precision != scenario.precision ||
          scenario.model.fp8 != Fp8::kNone || on.batch != scenario.workload_of(group).batch)
        on.workload = std::make_shared<const Workload>(
            build_workload(other.model, on.batch, other.precision, "step time of " + series.model));
      const auto factor = step_time_factor(other, on);
      if (!factor || *factor >= 1 || on.accelerator->name == group.accelerator->name) return factor;
      // Faster than its peak: by units or algorithms that the peak does not count. From one GPU to another such a step
      // scales with whichever of peak and memory bandwidth differs to its disadvantage.
      const double ratio = std::max(other.peak_of(*on.accelerator) / other.peak_of(*group.accelerator),
                                    on.accelerator->memory_bandwidth / group.accelerator->memory_bandwidth);
      const Seconds there = step_time_with(other, on, *factor);
      on.accelerator = group.accelerator;
      on.interconnect = group.interconnect;
      return std::max(*factor, there * ratio / step_time_with(other, on, 1));
    } catch (const InputError&) { return {}; }
  }

  /// Keeps those that `is_near`, if there are any.
  template <class IsNear>
  static void keep(std::vector<Series>& series, const IsNear& is_near) {
    std::vector<Series> near;
    std::copy_if(series.begin(), series.end(), std::back_inserter(near), is_near);
    if (!near.empty()) series = std::move(near);
  }

  bool estimate_step(const Scenario& scenario, const Group& group) {
    constexpr std::size_t kMostSeries = 12;
    std::set<Series> all;
    for (const StepTime& step : scenario.profile.step_times)
      all.insert({step.model, step.accelerator, step.precision, step.framework});
    std::vector<Series> near{all.begin(), all.end()};
    keep(near, [&](const Series& s) { return s.model == scenario.model.name; });
    double nearest = 2 * kFarAway;
    for (const Series& s : near) nearest = std::min(nearest, distance_to(s.accelerator, *group.accelerator));
    keep(near, [&](const Series& s) { return distance_to(s.accelerator, *group.accelerator) == nearest; });
    keep(near, [&](const Series& s) { return s.precision == to_text(scenario.precision); });
    keep(near, [&](const Series& s) { return s.framework == scenario.framework; });
    if (near.size() > kMostSeries) near.resize(kMostSeries);
    std::vector<std::pair<double, Series>> factors;
    for (const Series& s : near)
      if (const auto factor = factor_of(scenario, group, s)) factors.emplace_back(*factor, s);
    if (factors.empty()) return false;
    std::sort(factors.begin(), factors.end());
    const auto& [factor, median] = factors[(factors.size() - 1) / 2];
    std::vector<double> values;
    for (const auto& [value, s] : factors) values.push_back(value);
    double spread = spread_of(values);
    if (median.model != scenario.model.name || median.accelerator != group.accelerator->name)
      spread = std::max(spread, kSpreadOfOne);
    Json step{{"model", scenario.model.name},
              {"accelerator", group.accelerator->name},
              {"precision", to_text(scenario.precision)}};
    if (!scenario.framework.empty()) step["framework"] = scenario.framework;
    step["batch"] = batch_of(group);
    step["time"] = to_text(step_time_with(scenario, group, factor));
    step["is_estimated"] = true;
    profile_["step_times"].push_back(step);
    note(own() + " has no step time of " +
             describe({scenario.model.name, group.accelerator->name, to_text(scenario.precision), scenario.framework}) +
             ": " + rounded(factor) + " times the modelled one, as that of " + describe(median) +
             (factors.size() > 1 ? ", the median of " + std::to_string(factors.size()) + " that are as near" : "") +
             off_by(spread),
         spread);
    return true;
  }

  static std::string rounded(double value) { return to_text(std::round(value * 100) / 100); }

  static std::string describe(const Series& series) {
    return series.model + " on " + series.accelerator + " in " + series.precision +
           (series.framework.empty() ? "" : " by " + in_quotes(series.framework));
  }

  // Collectives

  /// Protocols on one kind of machine.
  struct Candidate {
    std::string profile, interconnect;  // empty interconnect: of any
    LinkKind kind = LinkKind::kPcie;
    double rate = 0;
    double gpu_distance = 0;
    Json entry;                     // with its protocols, complete
    bool is_of_generation = false;  // of the very links
    int most_gpus = 0;              // that were measured, of a machine, if is_of_generation
  };

  /// What the workers of a group need of a library.
  struct Need {
    const Group* group = nullptr;
    CollectiveAlgorithm algorithm{};  // or the library's choice: any will do
    LinkKind kind{};
    bool spans = false, reduces = false;  // several islands; in the switch
    std::vector<std::string> keys{};      // that a protocol has to state
  };

  static bool works(const Json& protocol, const Need& need) {
    if (protocol.contains("operation") && protocol["operation"] != "all_reduce") return false;
    if (!protocol.contains("algorithm")) return true;
    const auto algorithm = find_collective_algorithm(protocol["algorithm"].get<std::string>());
    if (algorithm == CollectiveAlgorithm::kTree && !need.spans) return false;
    if (algorithm == CollectiveAlgorithm::kNvls && (need.spans || !need.reduces)) return false;
    return is_choice(need.algorithm) || algorithm == need.algorithm;
  }
  static bool any_works(const Json& protocols, const Need& need) {
    return std::any_of(protocols.begin(), protocols.end(), [&](const Json& protocol) { return works(protocol, need); });
  }

  /// Of the donors, and of the profile itself on other interconnects.
  std::vector<Candidate> candidates(const Accelerator& gpu, const Interconnect& links) {
    std::vector<Candidate> list;
    const auto add = [&](const std::string& profile, const Json& json, double far) {
      if (!json.contains("collectives")) return;
      const Json& library = json["collectives"];
      if (library.contains("by_interconnect"))
        for (const auto& [name, entry] : library["by_interconnect"].items()) {
          const auto known = catalog_.interconnect_names();
          if (std::find(known.begin(), known.end(), name) == known.end()) continue;
          const Interconnect inside = read_interconnect(catalog_.interconnect(name, asked_by_), gpu.host_link);
          list.push_back({profile, name, kind_of(inside), rate_of(inside), far,
                          library_on(library, name, inside.generation, gpu)});
        }
      if (library.contains("by_generation") && library["by_generation"].contains(links.generation))
        list.push_back({profile, links.generation, kind_of(links), rate_of(links), far,
                        library_on(library, "", links.generation, gpu), true,
                        json.value("/fit/seen/workers_max"_json_pointer, 0)});
      if (library.contains("protocols") && !library["protocols"].empty())
        list.push_back({profile, "", states_pcie(library) ? LinkKind::kPcie : LinkKind::kNvlinks,
                        states_pcie(library) ? gpu.host_link.value() : 0, far, library_on(library, "", "", gpu)});
    };
    add(name_, profile_, 0);
    for (const Donor& donor : donors()) add(donor.name, *donor.profile, nearest_of(donor.gpus, gpu));
    return list;
  }

  void collectives() {
    const CollectiveRules* rules = scenario_.training.strategy.kind->collectives();
    if (rules == nullptr || scenario_.count(Role::kWorker) < 2) return;
    std::set<std::string> done;
    for (const Group& group : scenario_.groups)
      if (group.role == Role::kWorker && done.insert(group.interconnect.name).second) collectives_of(group);
  }

  /// The algorithms whose costs are needed: all if the scenario asks for the fastest; else its own, after rings, whose costs other
  /// collectives have, where there are such.
  std::vector<CollectiveAlgorithm> wanted_algorithms() const {
    const CollectiveRules& strategy = *scenario_.training.strategy.kind->collectives();
    if (strategy.algorithm == CollectiveAlgorithm::kFastest) {
      std::vector<CollectiveAlgorithm> all;
      for (const auto& [word, algorithm] : collective_algorithms())
        if (!is_choice(algorithm)) all.push_back(algorithm);
      return all;
    }
    std::vector<CollectiveAlgorithm> wanted;
    const auto* timed = std::get_if<TimedLayers>(&scenario_.model.structure);
    if (strategy.algorithm != CollectiveAlgorithm::kRing &&
        (!strategy.only_reduces || (timed != nullptr && timed->operation != CollectiveKind::kAllReduce)))
      wanted.push_back(CollectiveAlgorithm::kRing);
    wanted.push_back(strategy.algorithm);
    return wanted;
  }

  Need need_of(const Group& group) const {
    Need need{.group = &group,
              .algorithm = CollectiveAlgorithm::kLibrary,
              .kind = kind_of(group.interconnect),
              .spans = scenario_.islands().size() > 1,
              .reduces = group.interconnect.reduces_in_switch};
    need.keys.emplace_back("launch");
    if (group.workers_per_machine() * std::min(group.machines_per_domain, group.count) > 1) {
      if (need.kind != LinkKind::kPcie) need.keys.emplace_back("nvlink_step");
      if (need.kind != LinkKind::kSwitch) need.keys.emplace_back("pcie_step");
    }
    if (need.spans) need.keys.emplace_back("network_step");
    return need;
  }

  /// The interconnects that have protocols, the nearest first: those of which one works, of the same kind, with the fewest
  /// of the needed keys not stated, of the nearest rate, of the nearest GPU.
  static std::vector<Candidate> nearest_first(std::vector<Candidate> list, const Need& need) {
    const auto lacks = [&](const Candidate& candidate) {
      int most = 0;
      for (const auto& [label, protocol] : candidate.entry["protocols"].items()) {
        int stated = 0;
        for (const std::string& key : need.keys) stated += protocol.contains(key) ? 1 : 0;
        most = std::max(most, stated);
      }
      return static_cast<int>(need.keys.size()) - most;
    };
    const auto rank = [&](const Candidate& candidate) {
      const int other_kind = candidate.kind == need.kind                                             ? 0
                             : (candidate.kind == LinkKind::kPcie) == (need.kind == LinkKind::kPcie) ? 1
                                                                                                     : 2;
      const double rates =
          candidate.rate > 0 ? std::abs(std::log(candidate.rate / rate_of(need.group->interconnect))) : 10;
      return std::tuple{!any_works(candidate.entry["protocols"], need),
                        other_kind,
                        !candidate.is_of_generation,
                        lacks(candidate),
                        rates,
                        candidate.gpu_distance};
    };
    std::erase_if(list,
                  [](const Candidate& c) { return !c.entry.contains("protocols") || c.entry["protocols"].empty(); });
    std::stable_sort(list.begin(), list.end(),
                     [&](const Candidate& a, const Candidate& b) { return rank(a) < rank(b); });
    return list;
  }

  /// What the profile says of an interconnect, and what is added to it.
  struct Completion {
    Json entry;
    std::string pointer;
    Json components = Json::object();
    bool has_own = false;  // protocols, before
    std::string text{};
    std::map<std::string, std::vector<std::string>> taken{};  // from where -> algorithms
    std::map<std::string, std::set<std::string>> filled{};    // donor -> keys
    std::set<std::string> whatever{};                         // labels of protocols that stated no algorithm
  };

  /// What trees cost is of those between machines.
  static void drop_trees(Json& protocols) {
    for (auto protocol = protocols.begin(); protocol != protocols.end();)
      if (protocol->contains("algorithm") &&
          find_collective_algorithm((*protocol)["algorithm"].get<std::string>()) == CollectiveAlgorithm::kTree)
        protocol = protocols.erase(protocol);
      else
        ++protocol;
  }

  void collectives_of(const Group& group) {
    const std::string& name = group.interconnect.name;
    const std::vector<CollectiveAlgorithm> wanted = wanted_algorithms();
    Need need = need_of(group);
    Completion completion;
    completion.entry = library_on(profile_.contains("collectives") ? profile_["collectives"] : Json::object(), name,
                                  group.interconnect.generation, *group.accelerator);
    Json& entry = completion.entry;
    completion.pointer = "/collectives";
    if (!name.empty()) completion.pointer = extend_json_pointer(completion.pointer + "/by_interconnect", name);
    const std::vector<Candidate> all = candidates(*group.accelerator, group.interconnect);
    if (!need.spans && entry.contains("protocols")) drop_trees(entry["protocols"]);
    completion.has_own = entry.contains("protocols") && any_works(entry["protocols"], need);
    if (!completion.has_own) take_link_efficiencies(entry, nearest_first(all, need));
    if (wanted.size() > 1) tell_algorithms_apart(completion, wanted, need);
    for (const CollectiveAlgorithm algorithm : wanted) {
      need.algorithm = algorithm;
      complete(completion, nearest_first(all, need), need, wanted.size() > 1);
    }
    note_completion(completion, need);
  }

  /// Shares of the links' rates belong to the links: they are those of the nearest, whatever the algorithm.
  static void take_link_efficiencies(Json& entry, const std::vector<Candidate>& nearest) {
    if (nearest.empty()) return;
    for (const char* key : kLinkEfficiencies)
      if (!entry.contains(key) && nearest.front().entry.contains(key)) entry[key] = nearest.front().entry[key];
  }

  /// Where several algorithms are wanted, a protocol that states none and not all that it costs becomes one for each: what it
  /// lacks may come from elsewhere for each.
  static void tell_algorithms_apart(Completion& completion, const std::vector<CollectiveAlgorithm>& wanted,
                                    const Need& need) {
    if (!completion.entry.contains("protocols")) return;
    Json& protocols = completion.entry["protocols"];
    const Json before = protocols;
    for (const auto& [label, protocol] : before.items()) {
      if (protocol.contains("algorithm") || protocol.contains("operation") ||
          std::ranges::all_of(need.keys, [&stated = protocol](const std::string& key) { return stated.contains(key); }))
        continue;
      for (const CollectiveAlgorithm algorithm : wanted) {
        if (algorithm == CollectiveAlgorithm::kLibrary) continue;
        const std::string of = algorithm == CollectiveAlgorithm::kRing ? label : label_for(label, algorithm);
        protocols[of] = protocol;
        protocols[of]["algorithm"] = word_of(algorithm);
        completion.whatever.insert(of);
      }
    }
  }

  static std::string word_of(CollectiveAlgorithm algorithm) {
    return collective_algorithms().at(static_cast<std::size_t>(algorithm)).first;
  }
  static std::string label_for(const std::string& label, CollectiveAlgorithm algorithm) {
    return label + " as " + word_of(algorithm);
  }

  static bool is_whatever(const Completion& completion, const std::string& label, const Json& protocol,
                          CollectiveAlgorithm algorithm) {
    return completion.whatever.contains(label) && protocol["algorithm"] == word_of(algorithm);
  }

  /// The nearest that states it for a protocol of that label; of those that have none, of any.
  static std::pair<const Candidate*, const Json*> first_that_states(const std::vector<Candidate>& list,
                                                                    const std::string& label, const std::string& key) {
    for (const Candidate& candidate : list) {
      const Json& protocols = candidate.entry["protocols"];
      if (protocols.contains(label) && protocols[label].contains(key)) return {&candidate, &protocols[label][key]};
    }
    for (const Candidate& candidate : list)
      if (const Json* value = stated_by(candidate.entry["protocols"], label, key)) return {&candidate, value};
    return {};
  }

  /// The algorithm's protocols, from the nearest where there are none, and what they do not state.
  void complete(Completion& completion, const std::vector<Candidate>& list, const Need& need, bool has_others) {
    Json& entry = completion.entry;
    if (!entry.contains("protocols")) entry["protocols"] = Json::object();
    Json& protocols = entry["protocols"];
    const auto is_meant = [&](const std::string& label, const Json& protocol) {
      return works(protocol, need) || is_whatever(completion, label, protocol, need.algorithm);
    };
    bool is_known = false;
    for (const auto& [label, protocol] : protocols.items()) is_known = is_known || is_meant(label, protocol);
    if (!is_known) {
      if (list.empty()) return;
      take_protocols(completion, list, need, has_others);
    }
    for (const std::string& key : need.keys)
      for (auto& [label, protocol] : protocols.items()) {
        if (protocol.contains(key) || !is_meant(label, protocol)) continue;
        const auto [candidate, value] = first_that_states(list, label, key);
        if (candidate == nullptr) continue;
        protocol[key] = *value;
        completion.components[extend_json_pointer(extend_json_pointer(completion.pointer + "/protocols", label), key)] =
            spread_over(list, key);
        completion.filled[in_quotes(candidate->profile) + describe_interconnect(*candidate)].insert(key);
      }
  }

  void take_protocols(Completion& completion, const std::vector<Candidate>& list, const Need& need, bool has_others) {
    const Candidate& nearest = list.front();
    Json& entry = completion.entry;
    const Json protocols = with_full_rate(usable(nearest.entry["protocols"], need), nearest.entry["protocols"], need);
    for (const auto& [label_there, protocol] : protocols.items()) {
      const bool has_label = entry["protocols"].contains(label_there), is_of_another = protocol.contains("operation");
      if (is_of_another && has_label) continue;
      const bool is_tagged = has_others && need.algorithm != CollectiveAlgorithm::kLibrary && !is_of_another;
      const bool keeps_label = !is_tagged || (protocol.contains("algorithm") && !has_label);
      const std::string label = keeps_label ? label_there : label_for(label_there, need.algorithm);
      Json taken = protocol;
      if (is_tagged) taken["algorithm"] = word_of(need.algorithm);
      if (!need.spans) keep_rate(taken, nearest.entry, entry, need.kind);
      forget_fit_of(extend_json_pointer(completion.pointer + "/protocols", label));
      for (const auto& [key, value] : taken.items())
        if (key == "launch" || key == "efficiency" || key.ends_with("_step"))
          completion
              .components[extend_json_pointer(extend_json_pointer(completion.pointer + "/protocols", label), key)] =
              nearest.is_of_generation ? kLeastSpread : spread_over(list, key);
      entry["protocols"][label] = std::move(taken);
    }
    std::string from =
        "as in profile " + in_quotes(nearest.profile) + describe_interconnect(nearest) + ", the nearest that has";
    const int gpus = std::min(need.group->count, need.group->machines_per_domain) * need.group->instance.accelerators;
    if (nearest.is_of_generation && gpus > nearest.most_gpus)
      from += ", continued to " + std::to_string(gpus) + " GPUs from at most " + std::to_string(nearest.most_gpus);
    completion.taken[from].push_back(word_of(need.algorithm));
  }

  /// A library has its protocols for all algorithms: where a machine's measurements of trees show none with the rate that its rings
  /// reach, that of the rings costs what it does for them.
  static Json with_full_rate(Json taken, const Json& all, const Need& need) {
    if (need.algorithm != CollectiveAlgorithm::kTree) return taken;
    const auto rate_of = [](const Json& protocol) { return protocol.value("efficiency", 1.0); };
    double best = 0;
    for (const Json& protocol : taken) best = std::max(best, rate_of(protocol));
    Need ring = need;
    ring.algorithm = CollectiveAlgorithm::kRing;
    for (const auto& [label, protocol] : all.items()) {
      if (!works(protocol, ring) || !protocol.contains("algorithm") || rate_of(protocol) <= best) continue;
      best = rate_of(protocol);
      Json as_tree = protocol;
      as_tree["algorithm"] = word_of(need.algorithm);
      taken[label_for(label, need.algorithm)] = std::move(as_tree);
    }
    return taken;
  }

  /// What a protocol reaches of the links inside a machine is a share of what the link efficiency beside it leaves of them.
  static void keep_rate(Json& protocol, const Json& there, const Json& here, LinkKind kind) {
    const char* key = kind == LinkKind::kPcie ? "pcie_efficiency" : "nvlink_efficiency";
    const double ratio = there.value(key, 1.0) / here.value(key, 1.0);
    if (ratio != 1 && !protocol.contains("operation"))
      protocol["efficiency"] = std::min(1.0, protocol.value("efficiency", 1.0) * ratio);
  }

  /// Protocols that the profile had there and that others have taken the place of.
  void forget_lost_protocols(const Completion& completion) {
    const std::string place = completion.pointer + "/protocols";
    const Json* before = json_pointer_find(profile_, place);
    if (before == nullptr) return;
    for (const auto& [label, protocol] : before->items())
      if (!completion.entry["protocols"].contains(label)) forget_fit_of(extend_json_pointer(place, label));
  }

  void note_completion(Completion& completion, const Need& need) {
    const std::string& name = need.group->interconnect.name;
    std::string& text = completion.text;
    const bool has_several = wanted_algorithms().size() > 1;
    for (const auto& [from, algorithms] : completion.taken)
      text += (text.empty() ? own() + " has no " : "; no ") +
              (has_several && (completion.has_own || completion.taken.size() > 1) ? joined(algorithms) + " of its own"
                                                                                  : std::string{"all-reduce"}) +
              " over " + name_of(need.kind) + place(name) + ": " + from;
    for (const auto& [donor, keys] : completion.filled)
      text += (text.empty() ? own() + " does not state all that an all-reduce over " + name_of(need.kind) +
                                  place(name) + " costs"
                            : std::string{}) +
              "; " + joined(keys) + " as in profile " + donor;
    if (text.empty()) return;
    Json& components = completion.components;
    for (auto& [label, change] : components.items()) change = std::round(change.get<double>() * 1e4) / 1e4;
    double most = 0;
    for (const Json& change : components) most = std::max(most, change.get<double>());
    forget_lost_protocols(completion);
    if (name.empty()) {
      for (const auto& [key, value] : completion.entry.items()) profile_["collectives"][key] = value;
      profile_["collectives"].erase("by_generation");  // would come before
      forget_fit_of("/collectives/by_generation");
    } else {
      profile_["collectives"]["by_interconnect"][name] = completion.entry;
    }
    // What the profile has of its own is as certain as before.
    const bool has_own_of_several = has_several && completion.has_own && completion.filled.empty();
    note(text + (knows_errors() ? off_by(most)
                                : "; these times and shares may be off by up to " + percent(most) +
                                      ", as they differ between machines"),
         has_own_of_several ? 0 : kLeastSpread, std::move(components));
  }

  /// Those that carry out what is needed; otherwise rings, or all, whose costs stand for it.
  static Json usable(const Json& protocols, const Need& need) {
    Json taken = Json::object(), rings = Json::object();
    for (const auto& [label, protocol] : protocols.items()) {
      if (works(protocol, need)) taken[label] = protocol;
      Json any = protocol;
      any.erase("algorithm");
      any.erase("in_gpu_order");
      rings[label] = std::move(any);
    }
    if (taken.empty()) return rings;
    for (const auto& [label, protocol] : protocols.items())
      if (protocol.contains("operation")) taken[label] = protocol;
    return taken;
  }

  /// Of the best that each candidate states.
  static double spread_over(const std::vector<Candidate>& list, const std::string& key) {
    std::vector<double> values;
    for (const Candidate& candidate : list) {
      const double best = best_of(candidate.entry["protocols"], key);
      if (best > 0) values.push_back(best);
    }
    return spread_of(values);
  }

  static std::string place(const std::string& interconnect) {
    return interconnect.empty() ? "" : " of " + in_quotes(interconnect);
  }
  static std::string describe_interconnect(const Candidate& candidate) {
    return candidate.interconnect.empty() ? "" : " on " + in_quotes(candidate.interconnect);
  }

  const Scenario& scenario_;
  Json& profile_;
  const Catalog& catalog_;
  std::string name_;
  JsonReader asked_by_;
  std::vector<Donor> donors_;
};

}  // namespace

void set_profile(Scenario& scenario, const JsonReader& stated, Json& profile, const Catalog& catalog) {
  scenario.profile = read_profile(stated);
  if (profile.value("unstated", "") != "ideal") Substitution{scenario, profile, catalog}.run();
  scenario.profile = read_profile(JsonReader{profile, stated.file_name(), stated.pointer()});
}

}  // namespace rehearse
