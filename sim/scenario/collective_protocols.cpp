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
void add_hops(Json& entry, const Accelerator& gpu) {
  constexpr std::array kTimes{"launch", "hop", "launch_cycles", "hop_cycles"};
  if (std::ranges::none_of(kTimes, [&](const char* key) { return entry.contains(key); })) return;
  const double cycle = (gpu.dies > 1 ? entry.value("across_dies", 1.0) : 1.0) / gpu.clock();
  const double launch = seconds_of(entry, "launch") + entry.value("launch_cycles", 0.0) * cycle;
  const double hop = seconds_of(entry, "hop") + entry.value("hop_cycles", 0.0) * cycle;
  // Else they would be those of any interconnect again.
  for (const char* key : {"launch_cycles", "hop_cycles"}) entry[key] = 0;
  for (const char* key : {"launch", "hop"}) entry[key] = "0s";
  if (!entry.contains("protocols")) return;
  for (auto& [name, protocol] : entry["protocols"].items()) {
    const auto move = [&protocol = protocol, hop](const char* hops, const char* into, double more) {
      const double time = seconds_of(protocol, into) + more + protocol.value(hops, 0.0) * hop;
      protocol.erase(hops);
      protocol[into] = to_text(Seconds{time});
    };
    move("launch_hops", "launch", launch);
    move("step_hops", "nvlink_step", 0);
    if (protocol.contains("kept_hops")) move("kept_hops", "kept_step", 0);
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

Json library_on(const Json& library, const std::string& interconnect, const std::string& generation,
                const Accelerator& gpu) {
  Json entry = Json::object();
  for (const auto& [key, value] : library.items())
    if (key != "by_interconnect" && key != "by_generation") entry[key] = value;
  if (library.contains("by_interconnect") && library["by_interconnect"].contains(interconnect))
    overrule(entry, library["by_interconnect"][interconnect]);
  else if (library.contains("by_generation") && library["by_generation"].contains(generation))
    overrule(entry, library["by_generation"][generation]);
  add_hops(entry, gpu);
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
