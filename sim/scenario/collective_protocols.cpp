#include "sim/scenario/collective_protocols.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "sim/base/named.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

LinkKind kind_of(const Interconnect& inside) {
  return inside.nvswitch ? LinkKind::kSwitch : inside.nvlinks.empty() ? LinkKind::kPcie : LinkKind::kNvlinks;
}

double rate_of(const Interconnect& inside) {
  if (inside.nvswitch) return inside.nvswitch->value();
  if (inside.nvlinks.empty()) return inside.pcie.value();
  int links = 0;
  for (const NvlinkPair& pair : inside.nvlinks) links += (pair.a == 0 || pair.b == 0) ? pair.count : 0;
  return inside.nvlink_rate.value() * std::max(links, 1);
}

std::string name_of(LinkKind kind) {
  constexpr std::array kKinds{Named{"an NVSwitch", LinkKind::kSwitch}, Named{"NVLinks", LinkKind::kNvlinks},
                              Named{"PCIe", LinkKind::kPcie}};
  return name_in(kKinds, kind);
}

namespace {

double seconds_of(const Json& object, const char* key) {
  return object.contains(key) ? parse_quantity<Seconds>(object[key].get<std::string>()).value() : 0;
}

/// Adds the times of a generation to those of its protocols, as the reader of profiles does.
void add_hops(Json& entry, double clock) {
  if (!entry.contains("launch") && !entry.contains("hop") && !entry.contains("launch_cycles")) return;
  const double launch = seconds_of(entry, "launch") + entry.value("launch_cycles", 0.0) / clock;
  const double hop = seconds_of(entry, "hop");
  entry["launch_cycles"] = 0;
  for (const char* key : {"launch", "hop"}) entry[key] = "0s";  // else they would be those of any interconnect again
  if (!entry.contains("protocols")) return;
  for (auto& [name, protocol] : entry["protocols"].items()) {
    const double launch_hops = protocol.value("launch_hops", 0.0), step_hops = protocol.value("step_hops", 0.0);
    for (const char* key : {"launch_hops", "step_hops"}) protocol.erase(key);
    protocol["launch"] = to_text(Seconds{seconds_of(protocol, "launch") + launch + launch_hops * hop});
    protocol["nvlink_step"] = to_text(Seconds{seconds_of(protocol, "nvlink_step") + step_hops * hop});
  }
}

/// What `part`, of "by_interconnect" or "by_generation", states instead of what `entry` does.
void overrule(Json& entry, const Json& part) {
  for (const auto& [key, value] : part.items()) {
    if (key != "protocols") {
      entry[key] = value;
      continue;
    }
    Json protocols = Json::object();
    for (const auto& [name, protocol] : value.items()) {
      protocols[name] = entry.contains(key) && entry[key].contains(name) ? entry[key][name] : Json::object();
      protocols[name].merge_patch(protocol);
    }
    entry[key] = std::move(protocols);
  }
}

}  // namespace

Json library_on(const Json& library, const std::string& interconnect, const std::string& generation, double clock) {
  Json entry = library;
  for (const char* part : {"by_interconnect", "by_generation"}) entry.erase(part);
  if (library.contains("by_interconnect") && library["by_interconnect"].contains(interconnect))
    overrule(entry, library["by_interconnect"][interconnect]);
  else if (library.contains("by_generation") && library["by_generation"].contains(generation))
    overrule(entry, library["by_generation"][generation]);
  add_hops(entry, clock);
  return entry;
}

const Json* stated_by(const Json& protocols, const std::string& label, const std::string& key) {
  if (protocols.contains(label) && protocols[label].contains(key)) return &protocols[label][key];
  for (const auto& [other, protocol] : protocols.items())
    if (protocol.contains(key)) return &protocol[key];
  return nullptr;
}

double best_of(const Json& protocols, const std::string& key) {
  double best = 0;
  for (const auto& [label, protocol] : protocols.items()) {
    if (!protocol.contains(key)) continue;
    if (protocol[key].is_string()) {
      const double time = seconds_of(protocol, key.c_str());
      best = best == 0 ? time : std::min(best, time);
    } else {
      best = std::max(best, protocol[key].get<double>());
    }
  }
  return best;
}

bool states_pcie(const Json& library) {
  for (const auto& [name, protocol] : library["protocols"].items())
    if (protocol.contains("pcie_step")) return true;
  return false;
}

}  // namespace rehearse
