#include "platforms/topology.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <stdexcept>

#include "sim/base/random.hpp"

namespace rehearse {

namespace {

using Names = std::vector<std::string>;

TopologyMachine machine(int gpus = 1, int nics = 1, const std::string& region = "r") {
  return {.region = region, .nic = 1_GBps, .nics = nics, .gpus = gpus, .interconnect = {.pcie = 16_GBps}};
}

RegionLink link_between(const std::string& from, const std::string& to, Seconds latency = 5.0_us) {
  return {from, to, latency, {}, ""};
}

Topology fabric_of(int machines, const Fabric& fabric, std::optional<Seconds> hop_latency = {}, int nics = 1) {
  return Topology{std::vector<TopologyMachine>(static_cast<std::size_t>(machines), machine(nics, nics)),
                  fabric,
                  {link_between("r", "r")},
                  hop_latency};
}

const TopologyLink& link(const Topology& topology, int index) {
  return topology.links().at(static_cast<std::size_t>(index));
}

Names names(const Topology& topology, const Path& path) {
  Names list;
  for (const int index : path.links) list.push_back(link(topology, index).name);
  return list;
}

/// The links between the two NICs.
std::vector<int> between_nics(const Path& path) { return {path.links.begin() + 1, path.links.end() - 1}; }

template <class Build>
std::string impossible(Build build) {
  try {
    (void)build();
  } catch (const std::invalid_argument& error) { return error.what(); }
  return "accepted";
}

/// A number of 1 to `most`.
int pick(Rng& rng, int most) { return 1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(most))); }

struct RandomNetwork {
  std::vector<TopologyMachine> machines;
  Fabric fabric;
};

/// Any fabric, machines that differ in NICs and GPUs, one region.
RandomNetwork random_network(Rng& rng) {
  RandomNetwork network;
  const std::vector<int> dimensions{pick(rng, 4), pick(rng, 3), pick(rng, 3)};
  const int kind = pick(rng, 5);
  const int count = kind == 4 ? dimensions[0] * dimensions[1] * dimensions[2] : pick(rng, 30);
  for (int i = 0; i < count; ++i) network.machines.push_back(machine(pick(rng, 4) - 1, pick(rng, 3)));
  if (kind == 2) network.fabric = FatTree{pick(rng, 6), 1 + 3 * rng.uniform(), pick(rng, 4)};
  if (kind == 3) network.fabric = Dragonfly{pick(rng, 3), pick(rng, 4), 1_GBps, 2_GBps};
  if (kind == 4) network.fabric = Torus{dimensions, 1_GBps};
  if (kind == 5) network.fabric = Rail{1 + 3 * rng.uniform()};
  return network;
}

}  // namespace

TEST_CASE("on any fabric a path leads from the sender's NIC over distinct links to the receiver's, as far as back") {
  Rng rng{1, "fabrics"};
  for (int round = 0; round < 300; ++round) {
    const RandomNetwork network = random_network(rng);
    CAPTURE(round);
    CAPTURE(network.fabric.index());
    const Topology topology{network.machines, network.fabric, {link_between("r", "r")}, 1.0_us};
    const auto count = static_cast<int>(network.machines.size());
    const bool is_torus = std::holds_alternative<Torus>(network.fabric);
    for (int a = 0; a < count; ++a) {
      for (int b = 0; b < count; ++b) {
        if (a == b) continue;
        const Path path = topology.path({a}, {b});
        REQUIRE(path.links.size() >= 2);
        for (const int index : path.links) REQUIRE(link(topology, index).rate > BytesPerSecond{0});
        CHECK(link(topology, path.links.front()).name == "NIC 0 of machine " + std::to_string(a) + ", sending");
        CHECK(link(topology, path.links.back()).name == "NIC 0 of machine " + std::to_string(b) + ", receiving");
        CHECK(std::set<int>(path.links.begin(), path.links.end()).size() == path.links.size());
        CHECK(topology.path({b}, {a}).links.size() == path.links.size());
        const std::size_t hops = between_nics(path).size() + (is_torus ? 0 : 2);
        CHECK(path.latency == 1.0_us * static_cast<double>(hops));
        // A GPU adds its PCIe link, and starts at the NIC of its number.
        if (network.machines[static_cast<std::size_t>(a)].gpus == 0) continue;
        const int gpu = network.machines[static_cast<std::size_t>(a)].gpus - 1;
        const int nic = gpu % network.machines[static_cast<std::size_t>(a)].nics;
        const Names from_gpu = names(topology, topology.path({a, gpu}, {b}));
        CHECK(from_gpu[0] ==
              "PCIe of GPU " + std::to_string(gpu) + " of machine " + std::to_string(a) + ", to the host");
        CHECK(from_gpu[1] == "NIC " + std::to_string(nic) + " of machine " + std::to_string(a) + ", sending");
      }
    }
  }
}

TEST_CASE("fat tree: within a leaf two hops, between leaves four; destinations take the uplinks in turn") {
  const Topology topology = fabric_of(8, FatTree{4, 2, 2}, 1.0_us);
  CHECK(topology.path({0}, {3}).latency == 2.0_us);
  const Path path = topology.path({0}, {5});
  CHECK(path.latency == 4.0_us);
  CHECK(names(topology, path) == Names{"NIC 0 of machine 0, sending", "uplink 1 of leaf 0, up",
                                       "uplink 1 of leaf 1, down", "NIC 0 of machine 5, receiving"});
  CHECK(names(topology, topology.path({0}, {6}))[1] == "uplink 0 of leaf 0, up");
  // 4 NICs of 1 GB/s, 2:1, over two uplinks: 1 GB/s each
  CHECK(link(topology, path.links[1]).rate == 1_GBps);
}

TEST_CASE("the uplinks of every leaf carry its NICs' rate over the oversubscription exactly, also of the last leaf") {
  std::vector<TopologyMachine> machines(7, machine());
  machines[1].nics = 2;
  machines[5].nic = 4_GBps;
  const Topology topology{machines, FatTree{3, 4, 8}, {link_between("r", "r")}};
  std::map<std::string, double> up, down;  // by leaf
  for (const TopologyLink& each : topology.links()) {
    const auto leaf = each.name.find("leaf ");
    if (leaf == std::string::npos) continue;
    const bool is_up = each.name.ends_with(", up");
    (is_up ? up : down)[each.name.substr(leaf, 6)] += each.rate.value();
  }
  const std::map<std::string, double> expected{{"leaf 0", 4e9 / 4}, {"leaf 1", 6e9 / 4}, {"leaf 2", 1e9 / 4}};
  CHECK(up == expected);
  CHECK(down == expected);
}

TEST_CASE("dragonfly: at most local, global, local, one after the other, by the routers that share the global links") {
  const int per_router = 2, per_group = 3;
  for (const int count : {24, 21, 8, 5}) {  // 12, 11, 4 and 3 routers: the last router and group are not always full
    CAPTURE(count);
    const Topology topology = fabric_of(count, Dragonfly{per_router, per_group, 1_GBps, 2_GBps}, 1.0_us);
    std::map<std::pair<int, int>, std::set<int>> gateways;  // the routers that connect one group to another
    for (int a = 0; a < count; ++a) {
      for (int b = 0; b < count; ++b) {
        if (a == b) continue;
        const int first = a / per_router, last = b / per_router;
        const int group = first / per_group, other = last / per_group;
        const Path path = topology.path({a}, {b});
        Names expected = names(topology, {between_nics(path), {}, {}});
        if (group == other) {
          CHECK(expected ==
                (first == last ? Names{} : Names{"router " + std::to_string(first) + " to " + std::to_string(last)}));
          continue;
        }
        int out = first, in = last;  // gateways
        int from = 0, to = 0;
        REQUIRE(!expected.empty());
        if (std::sscanf(expected.front().c_str(), "router %d to %d", &from, &to) == 2) {
          CHECK(from == first);
          out = to;
          expected.erase(expected.begin());
        }
        REQUIRE(!expected.empty());
        CHECK(expected.front() == "group " + std::to_string(group) + " to " + std::to_string(other));
        expected.erase(expected.begin());
        if (!expected.empty()) {
          REQUIRE(std::sscanf(expected.front().c_str(), "router %d to %d", &in, &to) == 2);
          CHECK(to == last);
          CHECK(expected.size() == 1);
        }
        CHECK(out / per_group == group);
        CHECK(in / per_group == other);
        gateways[{group, other}].insert(out);
        gateways[{other, group}].insert(in);
      }
    }
    std::map<int, int> globals;  // of each router
    for (const auto& [groups, routers] : gateways) {
      CHECK(routers.size() == 1);
      ++globals[*routers.begin()];
    }
    if (count == 24)
      CHECK(globals ==
            std::map<int, int>{
                {0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}, {7, 1}, {8, 1}, {9, 1}, {10, 1}, {11, 1}});
  }
  const Topology topology = fabric_of(24, Dragonfly{per_router, per_group, 1_GBps, 2_GBps}, 1.0_us);
  CHECK(topology.path({0}, {1}).latency == 2.0_us);         // one router
  CHECK(topology.path({0}, {2}).latency == 3.0_us);         // one group
  CHECK(topology.path({0}, {23}).latency == 1.0_us * 5.0);  // NIC, local, global, local, NIC
}

TEST_CASE("torus: one dimension after the other, each the shorter way round, upwards if both are equal") {
  const std::array<int, 3> sizes{5, 2, 4};
  const Topology topology = fabric_of(40, Torus{{5, 2, 4}, 1_GBps}, 1.0_us);
  const auto at = [&](int number) { return std::array{number % 5, number / 5 % 2, number / 10}; };
  for (int a = 0; a < 40; ++a) {
    for (int b = 0; b < 40; ++b) {
      if (a == b) continue;
      const Path path = topology.path({a}, {b});
      Names expected;
      std::array<int, 3> here = at(a);
      const std::array<int, 3> there = at(b);
      for (std::size_t d = 0; d < 3; ++d) {
        const int up = (there[d] - here[d] + sizes[d]) % sizes[d];
        const bool goes_up = 2 * up <= sizes[d];
        for (int step = 0; step < (goes_up ? up : sizes[d] - up); ++step) {
          expected.push_back("torus link of machine " + std::to_string(here[0] + 5 * here[1] + 10 * here[2]) +
                             ", dimension " + std::to_string(d) + (goes_up ? " up" : " down"));
          here[d] = (here[d] + (goes_up ? 1 : sizes[d] - 1)) % sizes[d];
        }
      }
      CHECK(here == there);
      CHECK(names(topology, {between_nics(path), {}, {}}) == expected);
      CHECK(path.latency == 1.0_us * static_cast<double>(expected.size()));
    }
  }
  // Two NIC links and one PCIe link, each both ways; two torus links in the dimensions of 5 and 4, one in that of 2.
  CHECK(topology.links().size() == 40 * (4 + 5));
}

TEST_CASE("rail: one switch between NICs of the same number, the spine between others; a host goes with its peer") {
  const Topology topology = fabric_of(4, Rail{2}, 1.0_us, 2);
  CHECK(topology.path({0, 1}, {3, 1}).latency == 2.0_us);
  const Path cross = topology.path({0, 0}, {3, 1});
  CHECK(cross.latency == 4.0_us);
  CHECK(names(topology, cross) == Names{"PCIe of GPU 0 of machine 0, to the host", "NIC 0 of machine 0, sending",
                                        "rail 0 to the spine", "rail 1 from the spine", "NIC 1 of machine 3, receiving",
                                        "PCIe of GPU 1 of machine 3, from the host"});
  CHECK(link(topology, cross.links[2]).rate == 2_GBps);  // 4 NICs, 2:1
  CHECK(topology.path({0}, {3, 1}).latency == 2.0_us);
  CHECK(topology.path({0, 1}, {3}).latency == 2.0_us);
}

TEST_CASE("a star is two hops; without a latency of hops the region's latency is that of every path") {
  CHECK(fabric_of(2, Star{}, 1.0_us).path({0}, {1}).latency == 2.0_us);
  for (const Fabric& fabric : {Fabric{Star{}}, Fabric{FatTree{1, 1, 1}}, Fabric{Dragonfly{1, 2, 1_GBps, 1_GBps}},
                               Fabric{Torus{{6}, 1_GBps}}, Fabric{Rail{1}}})
    CHECK(fabric_of(6, fabric).path({0}, {3}).latency == 5.0_us);
}

TEST_CASE("all connections between two machines, both ways, may share one link") {
  RegionLink link = link_between("r", "r");
  link.per_pair_rate = 100_MBps;
  const Topology topology{{machine(1, 1, "r"), machine(1, 1, "r"), machine(1, 1, "r")}, Star{}, {link}};
  CHECK(names(topology, topology.path({0}, {2})) == Names{"NIC 0 of machine 0, sending",
                                                          "connections between machine 0 and machine 2",
                                                          "NIC 0 of machine 2, receiving"});
  CHECK(topology.path({2}, {0}).links[1] == topology.path({0}, {2}).links[1]);
  CHECK(topology.path({0}, {1}).links[1] != topology.path({0}, {2}).links[1]);
  CHECK(topology.links()[static_cast<std::size_t>(topology.path({0}, {2}).links[1])].rate == 100_MBps);
}

TEST_CASE("regions have a fabric each, with machines numbered of its own, and are connected with the limit of a flow") {
  std::vector<TopologyMachine> machines{machine(1, 1, "a"), machine(1, 1, "b"), machine(1, 1, "a"), machine(1, 1, "b")};
  RegionLink limited = link_between("b", "a", 9.0_ms);
  limited.per_flow_rate = 100_MBps;
  const std::vector<RegionLink> links{link_between("a", "a"), limited, link_between("b", "b")};
  const Topology topology{machines, FatTree{1, 1, 1}, links, 1.0_us};
  CHECK(names(topology, topology.path({0}, {1})) ==
        Names{"NIC 0 of machine 0, sending", "NIC 0 of machine 1, receiving"});
  for (const auto& [from, to] : {std::pair{0, 1}, std::pair{1, 0}, std::pair{3, 2}}) {
    CHECK(topology.path({from}, {to}).latency == 9.0_ms);
    CHECK(topology.path({from}, {to}).per_flow_rate == 100_MBps);
  }
  CHECK(topology.path({1}, {3}).latency == 4.0_us);
  CHECK(!topology.path({1}, {3}).per_flow_rate);
  CHECK(names(topology, topology.path({1}, {3})) == Names{"NIC 0 of machine 1, sending", "uplink 0 of leaf 0 in b, up",
                                                          "uplink 0 of leaf 1 in b, down",
                                                          "NIC 0 of machine 3, receiving"});
  // Machines 0 and 2 are the two of a torus in region a: neighbours.
  const Topology tori{machines, Torus{{2}, 1_GBps}, links, 1.0_us};
  CHECK(names(tori, tori.path({2}, {0}))[1] == "torus link of machine 2, dimension 0 up");
}

TEST_CASE("inside a machine: NVLink where there is one, PCIe elsewhere, through the host where copies are staged") {
  TopologyMachine inside{.region = "r", .nic = 1_GBps, .gpus = 4, .interconnect = {}};
  inside.interconnect = {
      .pcie = 10_GBps, .pcie_root = 15_GBps, .nvlink_rate = 25_GBps, .nvlinks = {{0, 3, 2}, {0, 7, 1}}};
  const std::vector<RegionLink> links{link_between("r", "r")};
  const Topology mesh{{inside, inside}, Star{}, links};
  const Path neighbours = mesh.path({0, 3}, {0, 0});
  REQUIRE(neighbours.links.size() == 1);
  CHECK(link(mesh, neighbours.links[0]).rate == 50_GBps);  // two links
  CHECK(neighbours.links != mesh.path({0, 0}, {0, 3}).links);
  CHECK(names(mesh, mesh.path({0, 0}, {0, 1})) ==
        Names{"PCIe of GPU 0 of machine 0, to the host", "PCIe of GPU 1 of machine 0, from the host"});
  CHECK(names(mesh, mesh.path({0, 2}, {0})) ==
        Names{"PCIe of GPU 2 of machine 0, to the host", "PCIe root of machine 0, to the host"});
  CHECK(mesh.path({0, 2}, {1, 2}).links.size() == 6);  // PCIe, root, NIC, twice
  inside.interconnect.reaches_nics_directly = true;
  const Topology direct{{inside, inside}, Star{}, links};
  CHECK(names(direct, direct.path({0, 2}, {1})) == Names{"PCIe of GPU 2 of machine 0, to the host",
                                                         "NIC 0 of machine 0, sending",
                                                         "NIC 0 of machine 1, receiving"});
  CHECK(direct.path({0, 2}, {0}).links.size() == 2);
  inside.interconnect.stages_copies_in_host = true;
  const Topology staged{{inside}, Star{}, {}};
  CHECK(staged.path({0, 0}, {0, 1}).links.size() == 4);
  inside.interconnect.nvswitch = 300_GBps;
  const Topology switched{{inside}, Star{}, {}};
  CHECK(names(switched, switched.path({0, 0}, {0, 1})) ==
        Names{"NVSwitch port of GPU 0 of machine 0, sending", "NVSwitch port of GPU 1 of machine 0, receiving"});
}

TEST_CASE("GPUs of different PCIe roots reach one another through both") {
  TopologyMachine host = machine(4);
  host.interconnect.pcie_root = 10_GBps;
  host.interconnect.gpus_per_root = 2;
  const Topology topology{{host}, Star{}, {}};
  const auto crossed = [&](int from, int to) { return names(topology, topology.path({0, from}, {0, to})); };
  CHECK(crossed(0, 1) == Names{"PCIe of GPU 0 of machine 0, to the host", "PCIe of GPU 1 of machine 0, from the host"});
  CHECK(crossed(1, 2) == Names{"PCIe of GPU 1 of machine 0, to the host", "PCIe root 0 of machine 0, to the host",
                               "PCIe root 1 of machine 0, from the host", "PCIe of GPU 2 of machine 0, from the host"});
  CHECK(crossed(Endpoint::kHost, 3) ==
        Names{"PCIe root 1 of machine 0, from the host", "PCIe of GPU 3 of machine 0, from the host"});
}

TEST_CASE("GPUs of two sockets reach one another through the link between these, those of one do not") {
  TopologyMachine host = machine(8);
  host.interconnect.pcie_root = 10_GBps;
  host.interconnect.gpus_per_root = 2;
  host.interconnect.socket_link = 9_GBps;
  host.interconnect.gpus_per_socket = 4;
  const Topology topology{{host}, Star{}, {}};
  CHECK(names(topology, topology.path({0, 3}, {0, 4})) ==
        Names{"PCIe of GPU 3 of machine 0, to the host", "PCIe root 1 of machine 0, to the host",
              "socket 0 of machine 0, sending", "socket 1 of machine 0, receiving",
              "PCIe root 2 of machine 0, from the host", "PCIe of GPU 4 of machine 0, from the host"});
  CHECK(topology.path({0, 1}, {0, 2}).links.size() == 4);
  CHECK(topology.path({0, 0}, {0, 1}).links.size() == 2);
  host.interconnect.pcie_root.reset();
  host.interconnect.gpus_per_root = 0;
  const Topology without_roots{{host}, Star{}, {}};
  CHECK(without_roots.path({0, 7}, {0, 0}).links.size() == 4);
  host.gpus = 4;  // all at one socket
  const Topology one_socket{{host}, Star{}, {}};
  CHECK(one_socket.path({0, 0}, {0, 3}).links.size() == 2);
}

TEST_CASE("what a fabric cannot hold, and sizes and rates out of range, are refused when the topology is made") {
  const auto fabric = [](int machines, const Fabric& kind) {
    return impossible([&] { return fabric_of(machines, kind); });
  };
  CHECK(fabric(5, Torus{{2, 2}, 1_GBps}) == "a torus of 2 x 2 points for the 5 machines of region r");
  CHECK(fabric(100, Torus{{100}, 1_GBps}) == "a torus with paths of 50 links: more than 30");
  CHECK(fabric(1, Torus{{}, 1_GBps}) == "torus: expected at least one dimension");
  CHECK(fabric(1, Torus{{-1, -1}, 1_GBps}) == "torus: expected sizes of at least 1");
  CHECK(fabric(1, Torus{{1}, {}}) == "torus: expected a link rate above 0Bps");
  CHECK(fabric(2000, FatTree{1, 1, 1000}) == "the network has more than two million links");
  CHECK(fabric(2, FatTree{0, 1, 1}) == "fat tree: expected at least one machine for each leaf");
  CHECK(fabric(2, FatTree{1, 0, 1}) == "fat tree: expected an oversubscription above 0");
  CHECK(fabric(2, FatTree{1, NAN, 1}) == "fat tree: expected an oversubscription above 0");
  CHECK(fabric(2, FatTree{1, 1, 0}) == "fat tree: expected at least one uplink");
  CHECK(fabric(2000, Dragonfly{1, 1, 1_GBps, 1_GBps}) == "the network has more than two million links");
  CHECK(fabric(2000, Dragonfly{1, 2000, 1_GBps, 1_GBps}) == "the network has more than two million links");
  CHECK(fabric(3, Dragonfly{1, 1'000'000, 1_GBps, 1_GBps}) == "accepted");  // as small as the machines need
  CHECK(fabric(3, Dragonfly{0, 1, 1_GBps, 1_GBps}) == "dragonfly: expected at least one machine for each router");
  CHECK(fabric(3, Dragonfly{1, 0, 1_GBps, 1_GBps}) == "dragonfly: expected at least one router for each group");
  CHECK(fabric(3, Dragonfly{1, 1, 1_GBps, {}}) == "dragonfly: expected rates above 0Bps");
  CHECK(fabric(3, Rail{-1}) == "rail: expected an oversubscription above 0");
  CHECK(fabric(0, Rail{1}) == "accepted");

  const auto one = [](auto change) {
    TopologyMachine changed = machine();
    change(changed);
    return impossible([&] { return Topology{{changed}, Star{}, {}}; });
  };
  CHECK(one([](TopologyMachine&) {}) == "accepted");
  CHECK(one([](TopologyMachine& m) { m.nics = 0; }) == "machine 0: expected at least one NIC");
  CHECK(one([](TopologyMachine& m) { m.nic = {}; }) == "machine 0: expected a NIC rate above 0Bps");
  CHECK(one([](TopologyMachine& m) { m.gpus = -1; }) == "machine 0: expected no negative number of GPUs");
  CHECK(one([](TopologyMachine& m) { m.interconnect.pcie = {}; }) == "machine 0: expected a PCIe rate above 0Bps");
  CHECK(one([](TopologyMachine& m) { m.interconnect.nvswitch = BytesPerSecond{}; }) ==
        "machine 0: expected an NVSwitch rate above 0Bps");
  CHECK(one([](TopologyMachine& m) {
          m.interconnect.nvlinks = {{0, 1}};
        }) == "machine 0: expected at least one NVLink and a rate above 0Bps");
  CHECK(one([](TopologyMachine& m) {
          m.interconnect.nvlinks = {{1, 1}};
        }) == "machine 0: expected NVLinks between two GPUs");
  CHECK(one([](TopologyMachine& m) {
          m.gpus = 2;
          m.interconnect.nvlink_rate = 1_GBps;
          m.interconnect.nvlinks = {{0, 1}, {1, 0}};
        }) == "machine 0: expected each pair of GPUs once among the NVLinks");

  CHECK(impossible([] { return Topology{{machine(), machine()}, Star{}, {}}; }) == "no link inside r");
  CHECK(impossible([] {
          return Topology{{machine(1, 1, "a"), machine(1, 1, "b")}, Star{}, {}};
        }) == "no link between a and b");
}

}  // namespace rehearse
