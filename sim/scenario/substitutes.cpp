#include "sim/scenario/substitutes.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "platforms/kernels/kernels.hpp"
#include "platforms/profile_fields.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/scenario/collective_protocols.hpp"
#include "sim/scenario/profile_completion.hpp"
#include "sim/scenario/training_facts.hpp"

namespace rehearse {

namespace {

/// Over NICs of 100 Gbit/s NCCL's all-reduces reach 4 to 6 GB/s by sockets, several a machine: listings in NCCL's issues.
constexpr BytesPerSecond kTcpRate{5e9};

constexpr ProfilePart kNetwork{.what = "the NICs' efficiency",
                               .is_stated = [](const Profile& profile) { return profile.network.stated != 0; },
                               .take =
                                   [](Profile& own, const Profile& from) {
                                     own.network = from.network;
                                     own.network.tcp_rate.reset();  // of another library's sockets, on other processors
                                   },
                               .has_software = false};
constexpr ProfilePart kServers{.what = "what parameter servers cost",
                               .is_stated = [](const Profile& profile) { return profile.servers.stated != 0; },
                               .take =
                                   [](Profile& own, const Profile& from) {
                                     own.servers = from.servers;
                                     own.servers_of_frameworks = from.servers_of_frameworks;
                                   }};
constexpr ProfilePart kInProcess{
    .what = "what arithmetic on variables in the workers' process costs",
    .is_stated = [](const Profile& profile) { return profile.servers.in_process.has_value(); },
    .take = [](Profile& own, const Profile& from) { own.servers.in_process = from.servers.in_process; }};

/// Kernels on GPUs of another architecture, or another maker, than any that the profile's values were fitted to.
void note_architectures(ProfileCompletion& target) {
  const Profile& profile = target.profile();
  if (profile.kernels == nullptr) return;
  std::set<std::string> named;
  for (const Group& group : target.scenario().groups) {
    if (group.role != Role::kWorker || !group.accelerator) continue;
    const std::string& architecture = group.accelerator->architecture;
    if (profile.kernels->by_architecture.contains(architecture) || !named.insert(architecture).second) continue;
    target.note(target.own() + " has no kernels of GPU " + group.accelerator->name + "'s architecture" +
                    (architecture.empty() ? "" : " " + in_quotes(architecture)) +
                    ": as those of all architectures that it was fitted to; predictions may be off by " +
                    percent_of_spread(kSpreadOfOne),
                kSpreadOfOne, {}, false);
  }
}

bool spans_machines(const Scenario& scenario) {
  int machines = 0;
  for (const Group& group : scenario.groups) machines += group.colocated_with < 0 ? group.count : 0;
  return machines > 1;
}

/// Of collectives over TCP, where NICs are faster than what sockets have been measured to carry.
void limit_sockets(ProfileCompletion& target) {
  const Scenario& scenario = target.scenario();
  const BytesPerSecond nics = scenario.first_workers().instance.all_nics();
  const bool is_limited = scenario.prediction_kind.place == ExchangePlace::kSockets && nics > kTcpRate &&
                          scenario.prediction_kind.exchange > ExchangeFrom::kFitted;
  NetworkParameters& network = target.profile().network;
  if (!is_limited || network.tcp_rate) return;
  network.tcp_rate = kTcpRate;
  target.note(target.own() + " does not state what sockets carry of a collective: " + to_text(kTcpRate) +
                  " of NICs of " + to_text(nics) +
                  ", as public tests of NCCL over 100 Gbit/s; 2.3GBps have been measured, too",
              kSpreadOfOne);
}

/// Those of the workload's framework, where they are others.
void take_servers_of_framework(ProfileCompletion& target) {
  Profile& profile = target.profile();
  if (profile.servers_of_frameworks.empty()) return;
  target.set_changed();
  const auto chosen =
      profile.servers_of_frameworks.find(framework_name(profile.servers_of_frameworks, target.scenario().framework));
  if (chosen != profile.servers_of_frameworks.end()) {
    ServerParameters servers = chosen->second.servers;
    servers.fitted = profile.servers.fitted;
    servers.software = profile.servers.software;
    for (const std::string& key : chosen->second.keys) target.forget_fit_of("/servers/" + key);
    profile.servers = std::move(servers);
  }
  profile.servers_of_frameworks.clear();
}

void complete_servers(ProfileCompletion& target) {
  const ServerRules* strategy = target.scenario().training.strategy.kind->servers();
  if (strategy == nullptr) return;
  if (!kServers.is_stated(target.profile())) target.take(kServers);
  take_servers_of_framework(target);
  if (strategy->variables == VariableHome::kWorkerProcess && kServers.is_stated(target.profile()) &&
      !kInProcess.is_stated(target.profile()))
    target.take(kInProcess);
}

/// Groups whose GPUs exchange over PCIe alone where nobody has measured it: of machines that are not said to stage copies in host
/// memory, and of another GPU than those that the profile's protocols were fitted to.
std::vector<const Group*> groups_of_unknown_copies(const Scenario& scenario) {
  if (!scenario.training.strategy.kind->sends_between_gpus()) return {};
  std::vector<const Group*> unknown;
  std::set<std::string> named;
  for (const Group& group : scenario.groups) {
    const Interconnect& inside = group.interconnect;
    if (group.role != Role::kWorker || group.instance.accelerators < 2 || kind_of(inside) != LinkKind::kPcie ||
        inside.stages_copies_in_host || !named.insert(inside.name).second)
      continue;
    const std::vector<std::string>& fitted = scenario.profile.fitted_accelerators;
    const bool has_measured =
        std::ranges::find(fitted, group.accelerator->name) != fitted.end() &&
        !library_on(scenario.profile.stated_collectives, inside.name, inside.generation, *group.accelerator)
             .protocols.empty();
    if (!has_measured) unknown.push_back(&group);
  }
  return unknown;
}

/// NCCL copies through host memory where GPUs have no peer access: boards of consumers, GPUs at two processors, many virtual
/// machines. A fifth of the rate is the 5th percentile then.
void widen_for_copies(ProfileCompletion& target, const Group& group) {
  constexpr double kSlowest = 5;
  const std::string& name = group.interconnect.name;
  const std::string text =
      "the GPUs of " + in_quotes(group.instance.name) +
      " are joined by PCIe alone: whether they copy to one another directly is not known; through host "
      "memory an exchange among them takes up to five times as long";
  if (target.is_noted(text)) return;
  CollectiveLibrary& library = target.profile().stated_collectives;
  std::string pointer = "/collectives";
  CollectiveParameters* entry = &library.otherwise;
  if (!name.empty()) {
    pointer = extend_json_pointer(pointer + "/by_interconnect", name);
    if (!library.by_interconnect.contains(name)) {
      CollectiveParameters whole = library_on(library, name, group.interconnect.generation, *group.accelerator);
      library.by_interconnect[name] = std::move(whole);
    }
    entry = &library.by_interconnect[name];
  }
  if (!states(*entry, "pcie_efficiency")) state(*entry, "pcie_efficiency", entry->pcie_efficiency, 1);
  target.note(text, 0, {{pointer + "/pcie_efficiency", -std::log(kSlowest) / kNormal95}}, false);
}

}  // namespace

bool complete_profile(Scenario& scenario, const Catalog& catalog) {
  if (scenario.profile.is_ideal) return false;
  ProfileCompletion target{scenario, catalog};
  if (has_kernels(scenario.workload)) complete_computation(target);
  note_architectures(target);
  complete_servers(target);
  if (!kNetwork.is_stated(scenario.profile) && spans_machines(scenario)) target.take(kNetwork);
  limit_sockets(target);
  const std::vector<const Group*> unknown = groups_of_unknown_copies(scenario);
  complete_collectives(target);
  for (const Group* group : unknown) widen_for_copies(target, *group);
  if (target.has_changed()) set_consequences(scenario.profile);
  return target.has_changed();
}

}  // namespace rehearse
