#include "platforms/topology.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace rehearse {

namespace {

constexpr std::size_t kMostLinks = 2'000'000;
constexpr int kLongestTorusPath = 30;

int divided_up(int a, int b) { return (a + b - 1) / b; }

std::size_t index(int i) { return static_cast<std::size_t>(i); }

}  // namespace

Topology::Topology(std::vector<TopologyMachine> machines, const Fabric& fabric, std::vector<RegionLink> region_links,
                   std::optional<Seconds> hop_latency)
    : machines_{std::move(machines)},
      fabric_{fabric},
      region_links_{std::move(region_links)},
      hop_latency_{hop_latency} {
  for (std::size_t m = 0; m < machines_.size(); ++m) {
    add_machine(m);
    const auto [entry, is_new] = region_of_name_.emplace(machines_[m].region, static_cast<int>(regions_.size()));
    if (is_new) regions_.emplace_back();
    RegionLinks& region = regions_[static_cast<std::size_t>(entry->second)];
    region_of_.push_back(entry->second);
    number_of_.push_back(static_cast<int>(region.machines.size()));
    region.machines.push_back(static_cast<int>(m));
  }
  for (RegionLinks& region : regions_) std::visit([&](const auto& kind) { add_links(region, kind); }, fabric_);
  link_between_.assign(regions_.size(), std::vector<int>(regions_.size(), -1));
  for (std::size_t i = 0; i < region_links_.size(); ++i) {
    const auto from = region_of_name_.find(region_links_[i].from), to = region_of_name_.find(region_links_[i].to);
    if (from == region_of_name_.end() || to == region_of_name_.end()) continue;
    const auto a = static_cast<std::size_t>(from->second), b = static_cast<std::size_t>(to->second);
    link_between_[a][b] = link_between_[b][a] = static_cast<int>(i);
  }
}

int Topology::add_link(std::string name, BytesPerSecond rate) {
  if (links_.size() == kMostLinks) throw std::invalid_argument{"the network has more than two million links"};
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
  const int region = region_of_[a];
  const int between = link_between_[index(region)][index(region_of_[b])];
  if (between < 0)
    throw std::invalid_argument{"no link between " + machines_[a].region + " and " + machines_[b].region};
  const RegionLink& region_link = region_links_[index(between)];
  path.per_flow_rate = region_link.per_flow_rate;
  path.latency = region_link.latency;
  const std::size_t before = path.links.size();
  if (region == region_of_[b]) {
    std::visit(
        [&](const auto& kind) {
          append(regions_[index(region)], kind, number_of_[a], number_of_[b], from_nic, to_nic, path.links);
        },
        fabric_);
    const bool is_direct = std::holds_alternative<Torus>(fabric_);  // machines are neighbours without a switch
    const std::size_t hops = path.links.size() - before + (is_direct ? 0 : 2);
    if (hop_latency_) path.latency = *hop_latency_ * static_cast<double>(hops);
  }
  path.links.push_back(machine_links_[b].nic_down[index(to_nic)]);
  add_to_host(machine_links_[b], to.gpu, false, path);
  return path;
}

void Topology::add_links(RegionLinks&, const Star&) {}
void Topology::append(const RegionLinks&, const Star&, int, int, int, int, std::vector<int>&) const {}

void Topology::add_links(RegionLinks& region, const FatTree& tree) {
  const int machines = static_cast<int>(region.machines.size());
  for (int leaf = 0; leaf < divided_up(machines, tree.machines_per_leaf); ++leaf) {
    BytesPerSecond nics{};
    for (int i = leaf * tree.machines_per_leaf; i < std::min(machines, (leaf + 1) * tree.machines_per_leaf); ++i) {
      const TopologyMachine& machine = machines_[index(region.machines[index(i)])];
      nics = nics + machine.nic * machine.nics;
    }
    const BytesPerSecond rate = nics / (tree.oversubscription * tree.uplinks);
    region.up.emplace_back();
    region.down.emplace_back();
    for (int i = 0; i < tree.uplinks; ++i) {
      const std::string name = "uplink " + std::to_string(i) + " of leaf " + std::to_string(leaf);
      region.up.back().push_back(add_link(name + ", up", rate));
      region.down.back().push_back(add_link(name + ", down", rate));
    }
  }
}

void Topology::append(const RegionLinks& region, const FatTree& tree, int from, int to, int, int,
                      std::vector<int>& links) const {
  const int a = from / tree.machines_per_leaf, b = to / tree.machines_per_leaf;
  if (a == b) return;
  links.push_back(region.up[index(a)][index(to % tree.uplinks)]);
  links.push_back(region.down[index(b)][index(to % tree.uplinks)]);
}

void Topology::add_links(RegionLinks& region, const Dragonfly& dragonfly) {
  const int routers = divided_up(static_cast<int>(region.machines.size()), dragonfly.machines_per_router);
  const int per_group = dragonfly.routers_per_group;
  const int groups = divided_up(routers, per_group);
  const auto all = static_cast<double>(groups) * (groups + static_cast<double>(per_group) * per_group);
  if (all > static_cast<double>(kMostLinks)) throw std::invalid_argument{"the network has more than two million links"};
  for (int router = 0; router < groups * per_group; ++router) {
    region.local.emplace_back();
    for (int other = 0; other < per_group; ++other)
      region.local.back().push_back(other == router % per_group
                                        ? -1
                                        : add_link("router " + std::to_string(router) + " to " +
                                                       std::to_string(router / per_group * per_group + other),
                                                   dragonfly.local));
  }
  for (int group = 0; group < groups; ++group) {
    region.global.emplace_back();
    for (int other = 0; other < groups; ++other)
      region.global.back().push_back(
          other == group
              ? -1
              : add_link("group " + std::to_string(group) + " to " + std::to_string(other), dragonfly.global));
  }
}

void Topology::append(const RegionLinks& region, const Dragonfly& dragonfly, int from, int to, int, int,
                      std::vector<int>& links) const {
  const int per_group = dragonfly.routers_per_group;
  const auto walk = [&](int router, int other) {  // within a group
    if (router != other) links.push_back(region.local[index(router)][index(other % per_group)]);
  };
  const int first = from / dragonfly.machines_per_router, last = to / dragonfly.machines_per_router;
  const int a = first / per_group, b = last / per_group;
  if (a == b) {
    walk(first, last);
    return;
  }
  // Each group's links to the others are spread over its routers in turn.
  const auto gateway = [per_group](int group, int other) {
    return group * per_group + (other > group ? other - 1 : other) % per_group;
  };
  walk(first, gateway(a, b));
  links.push_back(region.global[index(a)][index(b)]);
  walk(gateway(b, a), last);
}

void Topology::add_links(RegionLinks& region, const Torus& torus) {
  std::int64_t points = 1;
  int longest = 0;
  for (const int size : torus.dimensions) {
    points = std::min<std::int64_t>(points * size, kMostLinks);
    longest += size / 2;
  }
  if (points != static_cast<std::int64_t>(region.machines.size()))
    throw std::invalid_argument{"a torus of " + std::to_string(points) + " points for the " +
                                std::to_string(region.machines.size()) + " machines of region " +
                                machines_[index(region.machines.front())].region};
  if (longest > kLongestTorusPath)
    throw std::invalid_argument{"a torus with paths of " + std::to_string(longest) + " links: more than " +
                                std::to_string(kLongestTorusPath)};
  for (std::size_t machine = 0; machine < region.machines.size(); ++machine) {
    region.torus.emplace_back();
    for (std::size_t d = 0; d < torus.dimensions.size(); ++d)
      for (const char* direction : {" up", " down"})
        region.torus.back().push_back(add_link(
            "torus link of machine " + std::to_string(machine) + ", dimension " + std::to_string(d) + direction,
            torus.link));
  }
}

void Topology::append(const RegionLinks& region, const Torus& torus, int from, int to, int, int,
                      std::vector<int>& links) const {
  int stride = 1;
  int at = from;
  for (std::size_t d = 0; d < torus.dimensions.size(); ++d) {
    const int size = torus.dimensions[d];
    const int here = at / stride % size, there = to / stride % size;
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
    for (int nic = 0; nic < of.nics; ++nic) rates[index(nic)] = rates[index(nic)] + of.nic;
  }
  for (std::size_t r = 0; r < rates.size(); ++r) {
    const std::string name = "rail " + std::to_string(r);
    region.up.push_back({add_link(name + " to the spine", rates[r] / rail.oversubscription)});
    region.down.push_back({add_link(name + " from the spine", rates[r] / rail.oversubscription)});
  }
}

void Topology::append(const RegionLinks& region, const Rail&, int, int, int from_nic, int to_nic,
                      std::vector<int>& links) const {
  if (from_nic == to_nic) return;
  links.push_back(region.up[index(from_nic)].front());
  links.push_back(region.down[index(to_nic)].front());
}

namespace {

/// Cycles over nodes 0 .. n-1 that start at 0, each once per direction pair; `left` [n][n] links not used yet.
class RingSearch {
 public:
  explicit RingSearch(std::vector<std::vector<int>> left) : left_{std::move(left)} {}

  std::vector<std::vector<int>> run() {
    cycle_ = {0};
    extend();
    return best_;
  }

 private:
  /// Extends the open cycle; a closed one is taken and the next begun from nothing.
  void extend() {
    if (++steps_ > kMostSteps) return;
    const int n = static_cast<int>(left_.size());
    const int at = cycle_.back();
    if (static_cast<int>(cycle_.size()) == n) {
      if (left_[index(at)][0] == 0 || (n > 2 && cycle_[1] > at)) return;  // the other direction is the same cycle
      take(at, 0, -1);
      rings_.push_back(cycle_);
      if (rings_.size() > best_.size()) best_ = rings_;
      const std::vector<int> closed = std::exchange(cycle_, {0});
      if (best_.size() < bound()) extend();
      cycle_ = closed;
      rings_.pop_back();
      take(at, 0, +1);
      return;
    }
    for (int next = 1; next < n; ++next) {
      if (left_[index(at)][index(next)] == 0 || std::find(cycle_.begin(), cycle_.end(), next) != cycle_.end()) continue;
      take(at, next, -1);
      cycle_.push_back(next);
      extend();
      cycle_.pop_back();
      take(at, next, +1);
      if (best_.size() >= bound()) return;
    }
  }

  void take(int a, int b, int change) {
    left_[index(a)][index(b)] += change;
    left_[index(b)][index(a)] += change;
  }

  /// No more cycles than half of the links of any node, counting those in use.
  std::size_t bound() const {
    int fewest = std::numeric_limits<int>::max();
    for (std::size_t a = 0; a < left_.size(); ++a) {
      int links = 0;
      for (const int count : left_[a]) links += count;
      fewest = std::min(fewest, links);
    }
    return rings_.size() + index(fewest) / 2 + (cycle_.size() > 1 ? 1 : 0);
  }

  static constexpr int kMostSteps = 200'000;
  std::vector<std::vector<int>> left_;
  std::vector<int> cycle_;
  std::vector<std::vector<int>> rings_, best_;
  int steps_ = 0;
};

}  // namespace

std::vector<std::vector<int>> find_rings(const Interconnect& interconnect, const std::vector<int>& gpus) {
  constexpr std::size_t kMostGpus = 8;
  const std::size_t n = gpus.size();
  if (n < 2 || n > kMostGpus || interconnect.nvlinks.empty()) return {};
  std::vector<std::vector<int>> links(n, std::vector<int>(n));
  for (const NvlinkPair& pair : interconnect.nvlinks) {
    const auto a = std::find(gpus.begin(), gpus.end(), pair.a), b = std::find(gpus.begin(), gpus.end(), pair.b);
    if (a == gpus.end() || b == gpus.end() || a == b) continue;
    const auto i = static_cast<std::size_t>(a - gpus.begin()), j = static_cast<std::size_t>(b - gpus.begin());
    links[i][j] += pair.count;
    links[j][i] += pair.count;
  }
  std::vector<std::vector<int>> rings;
  if (n == 2) {  // every link is a ring of two in itself
    for (int i = 0; i < links[0][1]; ++i) rings.push_back(gpus);
    return rings;
  }
  for (const std::vector<int>& cycle : RingSearch{links}.run()) {
    std::vector<int> ring;
    for (const int node : cycle) ring.push_back(gpus[index(node)]);
    rings.push_back(ring);
    std::reverse(ring.begin(), ring.end());
    rings.push_back(std::move(ring));
  }
  return rings;
}

}  // namespace rehearse
