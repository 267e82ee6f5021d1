#include "sim/scenario/substitutes.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "platforms/kernels/kernels.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/scenario/collective_protocols.hpp"
#include "sim/scenario/profile_completion.hpp"
#include "sim/scenario/training_facts.hpp"

namespace rehearse {

namespace {

/// Over NICs of 100 Gbit/s NCCL's all-reduces reach 4 to 6 GB/s by sockets, several a machine: listings in NCCL's issues.
constexpr BytesPerSecond kTcpRate{5e9};

class Substitution {
 public:
  Substitution(const Scenario& scenario, Json& profile, const Catalog& catalog)
      : target_{scenario, profile, catalog}, scenario_{scenario}, profile_{profile} {}

  void run() {
    if (has_kernels(scenario_.workload)) complete_computation(target_);
    architectures();
    servers();
    if (!profile_.contains("network") && spans_machines()) target_.take_section("network", "the NICs' efficiency");
    sockets();
    const std::vector<const Group*> unknown = groups_of_unknown_copies();
    complete_collectives(target_);
    for (const Group* group : unknown) widen_for_copies(*group);
  }

 private:
  /// Kernels on GPUs of another architecture, or another maker, than any that the profile's values were fitted to.
  void architectures() {
    if (scenario_.profile.kernels == nullptr) return;
    std::set<std::string> named;
    for (const Group& group : scenario_.groups) {
      if (group.role != Role::kWorker || !group.accelerator) continue;
      const std::string& architecture = group.accelerator->architecture;
      if (scenario_.profile.kernels->by_architecture.contains(architecture) || !named.insert(architecture).second)
        continue;
      target_.note(target_.own() + " has no kernels of GPU " + group.accelerator->name + "'s architecture" +
                       (architecture.empty() ? "" : " " + in_quotes(architecture)) +
                       ": as those of all architectures that it was fitted to; predictions may be off by " +
                       percent_of_spread(kSpreadOfOne),
                   kSpreadOfOne, Json::object(), false);
    }
  }

  bool spans_machines() const {
    int machines = 0;
    for (const Group& group : scenario_.groups) machines += group.colocated_with < 0 ? group.count : 0;
    return machines > 1;
  }

  /// Of collectives over TCP, where NICs are faster than what sockets have been measured to carry.
  void sockets() {
    const Group& workers = scenario_.first_workers();
    const BytesPerSecond nics = workers.instance.all_nics();
    const bool is_limited = scenario_.prediction_kind.place == ExchangePlace::kSockets && nics > kTcpRate &&
                            scenario_.prediction_kind.exchange > ExchangeFrom::kFitted;
    if (!is_limited || profile_["network"].contains("tcp_rate")) return;
    profile_["network"]["tcp_rate"] = to_text(kTcpRate);
    target_.note(target_.own() + " does not state what sockets carry of a collective: " + to_text(kTcpRate) +
                     " of NICs of " + to_text(nics) +
                     ", as public tests of NCCL over 100 Gbit/s; 2.3GBps have been measured, too",
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
      target_.forget_fit_of("/servers/" + key);
    }
  }

  void servers() {
    const ServerRules* strategy = scenario_.training.strategy.kind->servers();
    if (strategy == nullptr) return;
    if (!profile_.contains("servers")) target_.take_section("servers", "what parameter servers cost");
    if (profile_.contains("servers")) servers_of_framework();
    if (strategy->variables == VariableHome::kWorkerProcess && profile_.contains("servers") &&
        !profile_["servers"].contains("in_process"))
      target_.take_section("servers", "what arithmetic on variables in the workers' process costs", "in_process");
  }

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
    if (target_.is_noted(text)) return;
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
    target_.note(text, 0, {{pointer + "/pcie_efficiency", -std::log(kSlowest) / kNormal95}}, false);
  }

  ProfileCompletion target_;
  const Scenario& scenario_;
  Json& profile_;
};

}  // namespace

void set_profile(Scenario& scenario, Profile stated, const JsonReader& place, Json& profile, const Catalog& catalog) {
  scenario.profile = std::move(stated);
  if (profile.value("unstated", "") != "ideal") Substitution{scenario, profile, catalog}.run();
  if (profile != place.value())
    scenario.profile = read_profile(JsonReader{profile, place.file_name(), place.pointer()});
}

}  // namespace rehearse
