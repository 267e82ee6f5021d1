#include "platforms/topology.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace rehearse {

namespace {

constexpr std::size_t kMostLinks = 2'000'000;
constexpr int kLongestTorusPath = 30;

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

template <class Integer>
std::size_t index(Integer i) {
  return static_cast<std::size_t>(i);
}

void require(bool condition, const std::string& where, const char* expectation) {
  if (!condition) throw std::invalid_argument{where + ": expected " + expectation};
}

bool is_rate(BytesPerSecond rate) { return rate > BytesPerSecond{0} && std::isfinite(rate.value()); }

bool is_ratio(double ratio) { return ratio > 0 && std::isfinite(ratio); }

void check(const Star&) {}
void check(const FatTree& tree) {
  require(tree.machines_per_leaf >= 1, "fat tree", "at least one machine for each leaf");
  require(tree.uplinks >= 1, "fat tree", "at least one uplink");
  require(is_ratio(tree.oversubscription), "fat tree", "an oversubscription above 0");
}
void check(const Dragonfly& dragonfly) {
  require(dragonfly.machines_per_router >= 1, "dragonfly", "at least one machine for each router");
  require(dragonfly.routers_per_group >= 1, "dragonfly", "at least one router for each group");
  require(is_rate(dragonfly.local) && is_rate(dragonfly.global), "dragonfly", "rates above 0Bps");
}
void check(const Torus& torus) {
  require(!torus.dimensions.empty(), "torus", "at least one dimension");
  for (const int size : torus.dimensions) require(size >= 1, "torus", "sizes of at least 1");
  require(is_rate(torus.link), "torus", "a link rate above 0Bps");
}
void check(const Rail& rail) { require(is_ratio(rail.oversubscription), "rail", "an oversubscription above 0"); }

}  // namespace

Topology::Topology(std::vector<TopologyMachine> machines, const Fabric& fabric, std::vector<RegionLink> region_links,
                   std::optional<Seconds> hop_latency)
    : machines_{std::move(machines)},
      fabric_{fabric},
      region_links_{std::move(region_links)},
      hop_latency_{hop_latency} {
  std::visit([](const auto& kind) { check(kind); }, fabric_);
  for (std::size_t m = 0; m < machines_.size(); ++m) {
    check_machine(m);
    add_machine(m);
    const auto [entry, is_new] = region_of_name_.emplace(machines_[m].region, static_cast<int>(regions_.size()));
    if (is_new) regions_.emplace_back();
    RegionLinks& region = regions_[index(entry->second)];
    region_of_.push_back(entry->second);
    number_of_.push_back(static_cast<int>(region.machines.size()));
    region.machines.push_back(static_cast<int>(m));
  }
  index_region_links();
  for (RegionLinks& region : regions_) {
    if (regions_.size() > 1) region.of = " in " + machines_[index(region.machines.front())].region;
    std::visit([&](const auto& kind) { add_links(region, kind); }, fabric_);
  }
  add_pair_links();
}

void Topology::add_pair_links() {
  if (std::none_of(region_links_.begin(), region_links_.end(), [](const RegionLink& l) { return l.per_pair_rate; }))
    return;
  const auto machines = static_cast<double>(machines_.size());
  check_room_for(machines * (machines - 1) / 2);
  for (std::size_t a = 0; a < machines_.size(); ++a)
    for (std::size_t b = a + 1; b < machines_.size(); ++b) {
      const int link = link_between_[index(region_of_[a])][index(region_of_[b])];
      const std::optional<BytesPerSecond> rate = region_links_[index(link)].per_pair_rate;
      if (rate)
        pair_links_[{static_cast<int>(a), static_cast<int>(b)}] =
            add_link("connections between " + name_of(a) + " and " + name_of(b), *rate);
    }
}

void Topology::check_machine(std::size_t m) const {
  const TopologyMachine& machine = machines_[m];
  const Interconnect& inside = machine.interconnect;
  const std::string where = "machine " + std::to_string(m);
  require(machine.nics >= 1, where, "at least one NIC");
  require(is_rate(machine.nic), where, "a NIC rate above 0Bps");
  require(machine.gpus >= 0, where, "no negative number of GPUs");
  if (machine.gpus == 0) return;
  require(is_rate(inside.pcie), where, "a PCIe rate above 0Bps");
  require(!inside.pcie_root || is_rate(*inside.pcie_root), where, "a rate of the PCIe root above 0Bps");
  require(!inside.socket_link || (is_rate(*inside.socket_link) && inside.gpus_per_socket >= 1), where,
          "a rate of the link between sockets above 0Bps, and at least one GPU at each");
  require(!inside.nvswitch || is_rate(*inside.nvswitch), where, "an NVSwitch rate above 0Bps");
  require(machine.nvlink_domain < 0 || inside.nvswitch, where, "an NVSwitch in an NVLink domain");
  for (const NvlinkPair& pair : inside.nvlinks) {
    require(pair.a >= 0 && pair.b >= 0 && pair.a != pair.b, where, "NVLinks between two GPUs");
    require(pair.count >= 1 && is_rate(inside.nvlink_rate), where, "at least one NVLink and a rate above 0Bps");
  }
}

void Topology::index_region_links() {
  link_between_.assign(regions_.size(), std::vector<int>(regions_.size(), -1));
  for (std::size_t i = 0; i < region_links_.size(); ++i) {
    const auto from = region_of_name_.find(region_links_[i].from), to = region_of_name_.find(region_links_[i].to);
    if (from == region_of_name_.end() || to == region_of_name_.end()) continue;
    const auto a = index(from->second), b = index(to->second);
    link_between_[a][b] = link_between_[b][a] = static_cast<int>(i);
  }
  for (const auto& [from, a] : region_of_name_)
    for (const auto& [to, b] : region_of_name_)
      if (link_between_[index(a)][index(b)] < 0 && (a != b || regions_[index(a)].machines.size() > 1))
        throw std::invalid_argument{a == b ? "no link inside " + from : "no link between " + from + " and " + to};
}

void Topology::check_room_for(double links) const {
  if (static_cast<double>(links_.size()) + links > static_cast<double>(kMostLinks))
    throw std::invalid_argument{"the network has more than two million links"};
}

std::string Topology::name_of(std::size_t machine) const {
  const std::string& name = machines_[machine].name;
  return name.empty() ? "machine " + std::to_string(machine) : name;
}

int Topology::add_link(std::string name, BytesPerSecond rate) {
  check_room_for(1);
  largest_rate_ = std::max(largest_rate_, rate);
  links_.push_back({.name = std::move(name), .rate = rate});
  return static_cast<int>(links_.size()) - 1;
}

Bytes Topology::burst(const Path& path) const {
  Bytes least{};
  for (const int link : path.links)
    if (const Bytes burst = links_[index(link)].burst; burst > Bytes{})
      least = least == Bytes{} ? burst : std::min(least, burst);
  return least;
}

void Topology::add_machine(std::size_t m) {
  const TopologyMachine& machine = machines_[m];
  const Interconnect& inside = machine.interconnect;
  const auto gpus = static_cast<std::size_t>(machine.gpus);
  MachineLinks links;
  const std::string of = " of " + name_of(m);
  const std::size_t first = links_.size();
  for (int n = 0; n < machine.nics; ++n) {
    const std::string nic = "NIC " + std::to_string(n) + of;
    links.nic_up.push_back(add_link(nic + ", sending", machine.nic));
    links.nic_down.push_back(add_link(nic + ", receiving", machine.nic));
    for (const int link : {links.nic_up.back(), links.nic_down.back()}) links_[index(link)].burst = machine.nic_burst;
  }
  for (std::size_t g = 0; g < gpus; ++g) {
    const std::string gpu = " of GPU " + std::to_string(g) + of;
    links.gpu_up.push_back(add_link("PCIe" + gpu + ", to the host", inside.pcie));
    links.gpu_down.push_back(add_link("PCIe" + gpu + ", from the host", inside.pcie));
    if (!inside.nvswitch) continue;
    links.switch_up.push_back(add_link("NVSwitch port" + gpu + ", sending", *inside.nvswitch));
    links.switch_down.push_back(add_link("NVSwitch port" + gpu + ", receiving", *inside.nvswitch));
  }
  links.gpus_per_root = inside.gpus_per_root > 0 ? inside.gpus_per_root : std::max(1, machine.gpus);
  if (inside.pcie_root && gpus > 0) {
    const std::int64_t roots = divided_up(machine.gpus, links.gpus_per_root);
    for (std::int64_t r = 0; r < roots; ++r) {
      const std::string root = "PCIe root" + (roots > 1 ? " " + std::to_string(r) : std::string{}) + of;
      links.root_up.push_back(add_link(root + ", to the host", *inside.pcie_root));
      links.root_down.push_back(add_link(root + ", from the host", *inside.pcie_root));
    }
  }
  if (inside.socket_link && machine.gpus > inside.gpus_per_socket)
    for (std::int64_t s = 0; s < divided_up(machine.gpus, inside.gpus_per_socket); ++s) {
      const std::string socket = "socket " + std::to_string(s) + of;
      links.socket_out.push_back(add_link(socket + ", sending", *inside.socket_link));
      links.socket_in.push_back(add_link(socket + ", receiving", *inside.socket_link));
    }
  if (!inside.nvlinks.empty()) links.nvlink.assign(gpus, std::vector<int>(gpus, -1));
  for (const NvlinkPair& pair : inside.nvlinks) {
    const auto a = static_cast<std::size_t>(pair.a), b = static_cast<std::size_t>(pair.b);
    if (a >= gpus || b >= gpus) continue;  // a machine may be rented with fewer GPUs than the board has
    require(links.nvlink[a][b] < 0, "machine " + std::to_string(m), "each pair of GPUs once among the NVLinks");
    const BytesPerSecond rate = inside.nvlink_rate * pair.count;
    const std::string ends = std::to_string(pair.a) + "-" + std::to_string(pair.b);
    links.nvlink[a][b] = add_link("NVLink " + ends + of, rate);
    links.nvlink[b][a] = add_link("NVLink " + ends + of + ", back", rate);
  }
  for (std::size_t i = first; i < links_.size(); ++i) links_[i].machine = static_cast<int>(m);
  if (inside.nvlink_relay_efficiency > 0 && !inside.nvlinks.empty()) {
    links.relay.assign(gpus, std::vector<int>(gpus, -1));
    std::vector<int> all(gpus);
    std::iota(all.begin(), all.end(), 0);
    for (const int a : all)
      for (const int b : all)
        if (a != b) links.relay[index(a)][index(b)] = nvlink_relay(inside, all, a, b).value_or(-1);
  }
  machine_links_.push_back(std::move(links));
}

std::vector<std::vector<int>> Topology::links_by_gpu(int machine) const {
  const MachineLinks& links = machine_links_[index(machine)];
  const std::size_t gpus = links.gpu_up.size();
  const bool has_bursts =
      std::ranges::any_of(links.nic_up, [&](int link) { return links_[index(link)].burst > Bytes{}; });
  if (!links.root_up.empty() || !links.socket_out.empty() || !links.nvlink.empty() || links.nic_up.size() < gpus ||
      has_bursts)
    return {};
  std::vector<std::vector<int>> kinds{links.gpu_up,      links.gpu_down, links.switch_up,
                                      links.switch_down, links.nic_up,   links.nic_down};
  std::erase_if(kinds, [](const std::vector<int>& kind) { return kind.empty(); });
  for (std::vector<int>& kind : kinds) kind.resize(gpus);  // NIC i is GPU i's
  return kinds;
}

std::vector<int> Topology::nic_links(int machine) const {
  const MachineLinks& links = machine_links_[static_cast<std::size_t>(machine)];
  std::vector<int> both = links.nic_up;
  both.insert(both.end(), links.nic_down.begin(), links.nic_down.end());
  return both;
}

Topology::Ports Topology::nic_ports(int machine) const {
  const MachineLinks& links = machine_links_[static_cast<std::size_t>(machine)];
  return {links.nic_down, links.nic_up};
}

Topology::Ports Topology::gpu_ports(int machine) const {
  const MachineLinks& links = machine_links_[static_cast<std::size_t>(machine)];
  Ports ports{links.gpu_down, links.gpu_up};
  ports.in.insert(ports.in.end(), links.switch_down.begin(), links.switch_down.end());
  ports.out.insert(ports.out.end(), links.switch_up.begin(), links.switch_up.end());
  for (const std::vector<int>& from : links.nvlink)
    for (const int link : from) {  // from one GPU into another
      if (link < 0) continue;
      ports.in.push_back(link);
      ports.out.push_back(link);
    }
  return ports;
}

void Topology::add_to_host(const MachineLinks& links, int gpu, bool is_up, Path& path) const {
  if (gpu == Endpoint::kHost) return;
  const auto g = static_cast<std::size_t>(gpu), root = index(gpu / links.gpus_per_root);
  if (is_up) {
    path.links.push_back(links.gpu_up[g]);
    if (!links.root_up.empty()) path.links.push_back(links.root_up[root]);
  } else {
    if (!links.root_down.empty()) path.links.push_back(links.root_down[root]);
    path.links.push_back(links.gpu_down[g]);
  }
}

void Topology::add_to_nic(std::size_t machine, int gpu, bool is_up, Path& path) const {
  const MachineLinks& links = machine_links_[machine];
  if (gpu == Endpoint::kHost || !machines_[machine].interconnect.reaches_nics_directly)
    add_to_host(links, gpu, is_up, path);
  else
    path.links.push_back(is_up ? links.gpu_up[index(gpu)] : links.gpu_down[index(gpu)]);
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
  if (!links.nvlink.empty() && links.nvlink[a][b] >= 0) {
    path.links = {links.nvlink[a][b]};
    path.kind = PathKind::kNvlink;
  } else if (!links.relay.empty() && links.relay[a][b] >= 0) {
    const std::size_t relay = index(links.relay[a][b]);
    path.links = {links.nvlink[a][relay], links.nvlink[relay][b]};
    path.per_flow_rate = machine.interconnect.nvlink_rate * machine.interconnect.nvlink_relay_efficiency;
    path.kind = PathKind::kNvlink;
  } else if (!links.switch_up.empty()) {
    path.links = {links.switch_up[a], links.switch_down[b]};
    path.kind = PathKind::kNvlink;
  } else {
    const auto are_apart = [&](int gpus) { return from / gpus != to / gpus; };
    const bool crosses_sockets = !links.socket_out.empty() && are_apart(machine.interconnect.gpus_per_socket);
    const bool crosses_roots =
        machine.interconnect.stages_copies_in_host || crosses_sockets || are_apart(links.gpus_per_root);
    const auto socket_of = [&](int gpu) { return index(gpu / machine.interconnect.gpus_per_socket); };
    if (crosses_roots)
      add_to_host(links, from, true, path);
    else
      path.links.push_back(links.gpu_up[a]);
    if (crosses_sockets)
      path.links.insert(path.links.end(), {links.socket_out[socket_of(from)], links.socket_in[socket_of(to)]});
    if (crosses_roots)
      add_to_host(links, to, false, path);
    else
      path.links.push_back(links.gpu_down[b]);
  }
}

Path Topology::path(Endpoint from, Endpoint to) const {
  if (crosses_network(from, to)) return path_over_nics(from, to);
  Path path;
  const auto machine = static_cast<std::size_t>(from.machine);
  if (from.machine != to.machine) {
    path.latency = machines_[machine].interconnect.latency;
    path.kind = PathKind::kNvlink;
    path.links = {machine_links_[machine].switch_up[index(from.gpu)],
                  machine_links_[index(to.machine)].switch_down[index(to.gpu)]};
    return path;
  }
  append_inside(machine_links_[machine], machines_[machine], from.gpu, to.gpu, path);
  return path;
}

Path Topology::path_over_nics(Endpoint from, Endpoint to) const {
  Path path;
  const auto a = static_cast<std::size_t>(from.machine), b = static_cast<std::size_t>(to.machine);
  // A GPU uses the NIC of its number; a host follows the other end, so that both ends are on one rail if they can be.
  const int from_rail = from.gpu != Endpoint::kHost ? from.gpu : std::max(to.gpu, 0);
  const int to_rail = to.gpu != Endpoint::kHost ? to.gpu : from_rail;
  const int from_nic = from_rail % machines_[a].nics, to_nic = to_rail % machines_[b].nics;
  add_to_nic(a, from.gpu, true, path);
  path.links.push_back(machine_links_[a].nic_up[index(from_nic)]);
  const int region = region_of_[a];
  const RegionLink& region_link = region_links_[index(link_between_[index(region)][index(region_of_[b])])];
  path.kind = PathKind::kNetwork;
  path.per_flow_rate = region_link.per_flow_rate;
  path.latency = region_link.latency;
  path.packet_loss = 1 - (1 - machines_[a].packet_loss) * (1 - region_link.packet_loss);
  const std::size_t before = path.links.size();
  if (region == region_of_[b]) {
    std::visit(
        [&](const auto& kind) {
          append(regions_[index(region)], kind,
                 {.from = number_of_[a], .to = number_of_[b], .from_nic = from_nic, .to_nic = to_nic}, path.links);
        },
        fabric_);
    const bool is_direct = std::holds_alternative<Torus>(fabric_);  // machines are neighbours without a switch
    const std::size_t hops = path.links.size() - before + (is_direct ? 0 : 2);
    if (hop_latency_) path.latency = *hop_latency_ * static_cast<double>(hops);
  }
  if (region_link.per_pair_rate) path.links.push_back(pair_links_.at(std::minmax(from.machine, to.machine)));
  path.links.push_back(machine_links_[b].nic_down[index(to_nic)]);
  add_to_nic(b, to.gpu, false, path);
  return path;
}

void Topology::add_links(RegionLinks&, const Star&) {}
void Topology::append(const RegionLinks&, const Star&, const Way&, std::vector<int>&) const {}

void Topology::add_links(RegionLinks& region, const FatTree& tree) {
  const auto machines = static_cast<std::int64_t>(region.machines.size());
  const std::int64_t leafs = divided_up(machines, tree.machines_per_leaf);
  check_room_for(2.0 * static_cast<double>(leafs) * tree.uplinks);
  for (std::int64_t leaf = 0; leaf < leafs; ++leaf) {
    BytesPerSecond nics{};
    const std::int64_t first = leaf * tree.machines_per_leaf;
    for (std::int64_t i = first; i < std::min(machines, first + tree.machines_per_leaf); ++i) {
      const TopologyMachine& machine = machines_[index(region.machines[index(i)])];
      nics += machine.nic * machine.nics;
    }
    const BytesPerSecond rate = nics / (tree.oversubscription * tree.uplinks);
    region.up.emplace_back();
    region.down.emplace_back();
    for (int i = 0; i < tree.uplinks; ++i) {
      const std::string name = "uplink " + std::to_string(i) + " of leaf " + std::to_string(leaf) + region.of;
      for (auto& [ways, direction] : {std::pair{&region.up, ", up"}, std::pair{&region.down, ", down"}}) {
        ways->back().push_back(add_link(name + direction, rate));
        links_.back().never_binds = is_nonblocking(tree);
      }
    }
  }
}

void Topology::append(const RegionLinks& region, const FatTree& tree, const Way& way, std::vector<int>& links) const {
  const int a = way.from / tree.machines_per_leaf, b = way.to / tree.machines_per_leaf;
  if (a == b) return;
  links.push_back(region.up[index(a)][index(way.to % tree.uplinks)]);
  links.push_back(region.down[index(b)][index(way.to % tree.uplinks)]);
}

void Topology::add_links(RegionLinks& region, const Dragonfly& dragonfly) {
  const std::int64_t routers =
      divided_up(static_cast<std::int64_t>(region.machines.size()), dragonfly.machines_per_router);
  const std::int64_t groups = divided_up(routers, dragonfly.routers_per_group);
  const auto within = static_cast<double>(std::min<std::int64_t>(routers, dragonfly.routers_per_group));
  check_room_for(static_cast<double>(groups) * static_cast<double>(groups - 1) +
                 static_cast<double>(routers) * (within - 1));
  for (std::int64_t group = 0; group < groups; ++group) {
    const std::int64_t first = group * dragonfly.routers_per_group;
    const std::int64_t last = std::min(routers, first + dragonfly.routers_per_group);
    region.routers.push_back(static_cast<int>(last - first));
    for (std::int64_t router = first; router < last; ++router) {
      region.local.emplace_back();
      for (std::int64_t other = first; other < last; ++other)
        region.local.back().push_back(
            other == router ? -1
                            : add_link("router " + std::to_string(router) + " to " + std::to_string(other) + region.of,
                                       dragonfly.local));
    }
  }
  for (std::int64_t group = 0; group < groups; ++group) {
    region.global.emplace_back();
    for (std::int64_t other = 0; other < groups; ++other)
      region.global.back().push_back(
          other == group ? -1
                         : add_link("group " + std::to_string(group) + " to " + std::to_string(other) + region.of,
                                    dragonfly.global));
  }
}

void Topology::append(const RegionLinks& region, const Dragonfly& dragonfly, const Way& way,
                      std::vector<int>& links) const {
  const int per_group = dragonfly.routers_per_group;
  const auto walk = [&](int router, int other) {  // within a group
    if (router != other) links.push_back(region.local[index(router)][index(other % per_group)]);
  };
  const int first = way.from / dragonfly.machines_per_router, last = way.to / dragonfly.machines_per_router;
  const int a = first / per_group, b = last / per_group;
  if (a == b) {
    walk(first, last);
    return;
  }
  // Each group's links to the others are spread over its routers in turn.
  const auto gateway = [&](int group, int other) {
    return group * per_group + (other > group ? other - 1 : other) % region.routers[index(group)];
  };
  walk(first, gateway(a, b));
  links.push_back(region.global[index(a)][index(b)]);
  walk(gateway(b, a), last);
}

void Topology::add_links(RegionLinks& region, const Torus& torus) {
  double points = 1;
  std::int64_t longest = 0;
  for (const int size : torus.dimensions) {
    points *= size;
    longest += size / 2;
  }
  if (points != static_cast<double>(region.machines.size())) {
    std::string sizes;
    for (const int size : torus.dimensions) sizes += (sizes.empty() ? "" : " x ") + std::to_string(size);
    throw std::invalid_argument{"a torus of " + sizes + " points for the " + std::to_string(region.machines.size()) +
                                " machines of region " + machines_[index(region.machines.front())].region};
  }
  if (longest > kLongestTorusPath)
    throw std::invalid_argument{"a torus with paths of " + std::to_string(longest) + " links: more than " +
                                std::to_string(kLongestTorusPath)};
  for (const int machine : region.machines) {
    const std::string of = "torus link of " + name_of(index(machine)) + ", dimension ";
    region.torus.emplace_back();
    for (std::size_t d = 0; d < torus.dimensions.size(); ++d) {
      const std::string name = of + std::to_string(d);
      const int size = torus.dimensions[d];  // of two, both directions lead to the same machine
      region.torus.back().push_back(size >= 2 ? add_link(name + " up", torus.link) : -1);
      region.torus.back().push_back(size >= 3 ? add_link(name + " down", torus.link) : -1);
    }
  }
}

void Topology::append(const RegionLinks& region, const Torus& torus, const Way& way, std::vector<int>& links) const {
  int stride = 1;
  int at = way.from;
  for (std::size_t d = 0; d < torus.dimensions.size(); ++d) {
    const int size = torus.dimensions[d];
    const int here = at / stride % size, there = way.to / stride % size;
    const int up = (there - here + size) % size, down = (here - there + size) % size;
    const bool goes_up = up <= down;
    for (int step = 0; step < std::min(up, down); ++step) {
      links.push_back(region.torus[index(at)][2 * d + (goes_up ? 0 : 1)]);
      const int position = at / stride % size;
      const int next = (position + (goes_up ? 1 : size - 1)) % size;
      at += (next - position) * stride;
    }
    stride *= size;
  }
}

void Topology::add_links(RegionLinks& region, const Rail& rail) {
  std::vector<BytesPerSecond> rates;
  for (const int machine : region.machines) {
    const TopologyMachine& of = machines_[index(machine)];
    rates.resize(std::max(rates.size(), index(of.nics)));
    for (int nic = 0; nic < of.nics; ++nic) rates[index(nic)] += of.nic;
  }
  for (std::size_t r = 0; r < rates.size(); ++r) {
    const std::string name = "rail " + std::to_string(r) + region.of;
    for (auto& [ways, direction] :
         {std::pair{&region.up, " to the spine"}, std::pair{&region.down, " from the spine"}}) {
      ways->push_back({add_link(name + direction, rates[r] / rail.oversubscription)});
      links_.back().never_binds = is_nonblocking(rail);
    }
  }
}

void Topology::append(const RegionLinks& region, const Rail&, const Way& way, std::vector<int>& links) const {
  if (way.from_nic == way.to_nic) return;
  links.push_back(region.up[index(way.from_nic)].front());
  links.push_back(region.down[index(way.to_nic)].front());
}

}  // namespace rehearse
