#include "platforms/topology.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace rehearse {

Topology::Topology(std::vector<TopologyMachine> machines, const Fabric& fabric, std::vector<RegionLink> region_links,
                   std::optional<Seconds> hop_latency)
    : machines_{std::move(machines)},
      fabric_{fabric},
      region_links_{std::move(region_links)},
      hop_latency_{hop_latency} {
  for (std::size_t m = 0; m < machines_.size(); ++m) add_machine(m);
}

int Topology::add_link(std::string name, BytesPerSecond rate) {
  links_.push_back({std::move(name), rate});
  return static_cast<int>(links_.size()) - 1;
}

void Topology::add_machine(std::size_t m) {
  const TopologyMachine& machine = machines_[m];
  const Interconnect& inside = machine.interconnect;
  const auto gpus = static_cast<std::size_t>(machine.gpus);
  MachineLinks links;
  const std::string of = " of machine " + std::to_string(m);
  for (int n = 0; n < machine.nics; ++n) {
    const std::string nic = "NIC " + std::to_string(n) + of;
    links.nic_up.push_back(add_link(nic + ", sending", machine.nic));
    links.nic_down.push_back(add_link(nic + ", receiving", machine.nic));
  }
  for (std::size_t g = 0; g < gpus; ++g) {
    const std::string gpu = " of GPU " + std::to_string(g) + of;
    links.gpu_up.push_back(add_link("PCIe" + gpu + ", to the host", inside.pcie));
    links.gpu_down.push_back(add_link("PCIe" + gpu + ", from the host", inside.pcie));
    if (!inside.nvswitch) continue;
    links.switch_up.push_back(add_link("NVSwitch port" + gpu + ", sending", *inside.nvswitch));
    links.switch_down.push_back(add_link("NVSwitch port" + gpu + ", receiving", *inside.nvswitch));
  }
  if (inside.pcie_root && gpus > 0) {
    links.root_up = add_link("PCIe root" + of + ", to the host", *inside.pcie_root);
    links.root_down = add_link("PCIe root" + of + ", from the host", *inside.pcie_root);
  }
  links.nvlink.assign(gpus, std::vector<int>(gpus, -1));
  for (const NvlinkPair& pair : inside.nvlinks) {
    const auto a = static_cast<std::size_t>(pair.a), b = static_cast<std::size_t>(pair.b);
    if (a >= gpus || b >= gpus || a == b) continue;  // a machine may be rented with fewer GPUs than the board has
    const BytesPerSecond rate = inside.nvlink_rate * pair.count;
    const std::string ends = std::to_string(pair.a) + "-" + std::to_string(pair.b);
    links.nvlink[a][b] = add_link("NVLink " + ends + of, rate);
    links.nvlink[b][a] = add_link("NVLink " + ends + of + ", back", rate);
  }
  machine_links_.push_back(std::move(links));
}

std::vector<int> Topology::nic_links(int machine) const {
  const MachineLinks& links = machine_links_[static_cast<std::size_t>(machine)];
  std::vector<int> both = links.nic_up;
  both.insert(both.end(), links.nic_down.begin(), links.nic_down.end());
  return both;
}

void Topology::add_to_host(const MachineLinks& links, int gpu, bool is_up, Path& path) const {
  if (gpu == Endpoint::kHost) return;
  const auto g = static_cast<std::size_t>(gpu);
  if (is_up) {
    path.links.push_back(links.gpu_up[g]);
    if (links.root_up >= 0) path.links.push_back(links.root_up);
  } else {
    if (links.root_down >= 0) path.links.push_back(links.root_down);
    path.links.push_back(links.gpu_down[g]);
  }
}

void Topology::append_inside(const MachineLinks& links, const TopologyMachine& machine, int from, int to,
                             Path& path) const {
  path.latency = machine.interconnect.latency;
  if (from == Endpoint::kHost || to == Endpoint::kHost) {
    add_to_host(links, from, true, path);
    add_to_host(links, to, false, path);
    return;
  }
  const auto a = static_cast<std::size_t>(from), b = static_cast<std::size_t>(to);
  if (links.nvlink[a][b] >= 0) {
    path.links = {links.nvlink[a][b]};
  } else if (!links.switch_up.empty()) {
    path.links = {links.switch_up[a], links.switch_down[b]};
  } else if (machine.interconnect.stages_copies_in_host) {
    add_to_host(links, from, true, path);
    add_to_host(links, to, false, path);
  } else {
    path.links = {links.gpu_up[a], links.gpu_down[b]};
  }
}

Path Topology::path(Endpoint from, Endpoint to) const {
  Path path;
  const auto a = static_cast<std::size_t>(from.machine), b = static_cast<std::size_t>(to.machine);
  if (a == b) {
    append_inside(machine_links_[a], machines_[a], from.gpu, to.gpu, path);
    return path;
  }
  // A GPU uses the NIC of its number; a host follows the other end, so that both ends are on one rail if they can be.
  const int from_rail = from.gpu != Endpoint::kHost ? from.gpu : std::max(to.gpu, 0);
  const int to_rail = to.gpu != Endpoint::kHost ? to.gpu : from_rail;
  const int from_nic = from_rail % machines_[a].nics, to_nic = to_rail % machines_[b].nics;
  add_to_host(machine_links_[a], from.gpu, true, path);
  path.links.push_back(machine_links_[a].nic_up[static_cast<std::size_t>(from_nic)]);
  const RegionLink* region_link = nullptr;
  for (const RegionLink& link : region_links_)
    if ((link.from == machines_[a].region && link.to == machines_[b].region) ||
        (link.to == machines_[a].region && link.from == machines_[b].region))
      region_link = &link;
  if (region_link == nullptr)
    throw std::invalid_argument{"no link between " + machines_[a].region + " and " + machines_[b].region};
  path.per_flow_rate = region_link->per_flow_rate;
  path.latency = region_link->latency;
  if (hop_latency_ && machines_[a].region == machines_[b].region) path.latency = *hop_latency_ * 2;
  path.links.push_back(machine_links_[b].nic_down[static_cast<std::size_t>(to_nic)]);
  add_to_host(machine_links_[b], to.gpu, false, path);
  return path;
}

}  // namespace rehearse
