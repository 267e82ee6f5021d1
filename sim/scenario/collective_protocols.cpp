#include "sim/scenario/collective_protocols.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "sim/base/named.hpp"

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

Json library_on(const Json& library, const std::string& interconnect) {
  Json entry = library;
  entry.erase("by_interconnect");
  if (!library.contains("by_interconnect") || !library["by_interconnect"].contains(interconnect)) return entry;
  for (const auto& [key, value] : library["by_interconnect"][interconnect].items()) {
    if (key != "protocols") {
      entry[key] = value;
      continue;
    }
    Json protocols = Json::object();
    for (const auto& [name, protocol] : value.items()) {
      protocols[name] = entry.contains(key) && entry[key].contains(name) ? entry[key][name] : Json::object();
      protocols[name].update(protocol);
    }
    entry[key] = std::move(protocols);
  }
  return entry;
}

bool states_pcie(const Json& library) {
  for (const auto& [name, protocol] : library["protocols"].items())
    if (protocol.contains("pcie_step")) return true;
  return false;
}

}  // namespace rehearse
