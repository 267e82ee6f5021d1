#include "sim/scenario/collective_protocols.hpp"

#include <algorithm>
#include <array>

#include "platforms/profile_fields.hpp"
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

namespace {

/// Adds the times of a generation to those of its protocols, as a profile that is read does.
void add_hops(CollectiveParameters& entry, const Accelerator& gpu) {
  constexpr std::array kTimes{"launch", "hop", "launch_cycles", "hop_cycles"};
  if (std::ranges::none_of(kTimes, [&](const char* key) { return states(entry, key); })) return;
  const double cycle = (gpu.dies > 1 ? entry.across_dies : 1.0) / gpu.clock();
  const Seconds launch = entry.launch + Seconds{entry.launch_cycles * cycle};
  const Seconds hop = entry.hop + Seconds{entry.hop_cycles * cycle};
  for (const char* key : kTimes) copy_field(entry, CollectiveParameters{}, key);  // else as those of any again
  for (auto& [name, protocol] : entry.protocols) {
    const CollectiveProtocol hops = protocol;
    for (const char* key : {"launch_hops", "step_hops", "kept_hops"}) drop_field(protocol, key);
    state(protocol, "launch", protocol.launch, hops.launch + launch + hop * hops.launch_hops);
    state(protocol, "nvlink_step", protocol.nvlink_step, hops.nvlink_step + hop * hops.step_hops);
    if (states(hops, "kept_hops"))
      state(protocol, "kept_step", protocol.kept_step, hops.kept_step + hop * hops.kept_hops);
  }
}

}  // namespace

CollectiveParameters library_on(const CollectiveLibrary& stated, const std::string& interconnect,
                                const std::string& generation, const Accelerator& gpu) {
  const CollectiveParameters* part = stated.by_interconnect.find(interconnect);
  if (part == nullptr) part = stated.by_generation.find(generation);
  CollectiveParameters entry = part != nullptr ? over(*part, stated.otherwise) : stated.otherwise;
  add_hops(entry, gpu);
  return entry;
}

const CollectiveProtocol* stated_by(const Protocols& protocols, const std::string& label, const std::string& key) {
  if (const CollectiveProtocol* own = protocols.find(label); own != nullptr && states(*own, key)) return own;
  for (const auto& [other, protocol] : protocols)
    if (states(protocol, key)) return &protocol;
  return nullptr;
}

double best_of(const Protocols& protocols, const std::string& key) {
  double best = 0;
  for (const auto& [label, protocol] : protocols) {
    const auto number = stated_number(protocol, key);
    if (number) best = key == "efficiency" || best == 0 ? std::max(best, *number) : std::min(best, *number);
  }
  return best;
}

bool states_pcie(const Protocols& protocols) {
  return std::ranges::any_of(protocols, [](const auto& entry) { return states(entry.second, "pcie_step"); });
}

}  // namespace rehearse
