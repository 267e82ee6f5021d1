#include "platforms/topology.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "platforms/catalog.hpp"

namespace rehearse {

namespace {

TopologyMachine machine(int gpus = 1, int nics = 1, const std::string& region = "r") {
  return {.region = region, .nic = 1_GBps, .nics = nics, .gpus = gpus, .interconnect = {.pcie = 16_GBps}};
}

Topology fabric_of(int machines, const Fabric& fabric, std::optional<Seconds> hop_latency = {}, int nics = 1) {
  return Topology{std::vector<TopologyMachine>(static_cast<std::size_t>(machines), machine(nics, nics)),
                  fabric,
                  {{"r", "r", 5.0_us, {}, ""}},
                  hop_latency};
}

std::vector<std::string> names(const Topology& topology, const Path& path) {
  std::vector<std::string> list;
  for (const int link : path.links) list.push_back(topology.links()[static_cast<std::size_t>(link)].name);
  return list;
}

Interconnect shipped_interconnect(const std::string& name) {
  const std::string root = REHEARSE_SOURCE_DIR;
  const Catalog catalog{{{root + "/platforms/catalog", root + "/workloads/models", root + "/calibration/profiles"}}};
  const Json nobody;
  return read_interconnect(catalog.interconnect(name, JsonReader{nobody, "test"}), 1_GBps);
}

std::string refusal(const std::string& text) {
  const Json json = parse_json(text, "n.json");
  const JsonReader reader{json, "n.json"};
  try {
    (void)read_fabric(reader);
    reader.reject_unknown_keys();
  } catch (const InputError& error) { return error.what(); }
  return "accepted";
}

template <class Build>
std::string impossible(Build build) {
  try {
    (void)build();
  } catch (const std::invalid_argument& error) { return error.what(); }
  return "accepted";
}

}  // namespace

TEST_CASE("on every fabric a path leads from the sender's NIC to the receiver's, back as long as forth") {
  for (const Fabric& fabric : {Fabric{Star{}}, Fabric{FatTree{3, 2, 2}}, Fabric{Dragonfly{2, 2, 1_GBps, 2_GBps}},
                               Fabric{Torus{{3, 2, 2}, 1_GBps}}, Fabric{Rail{2}}}) {
    CAPTURE(fabric.index());
    const Topology topology = fabric_of(12, fabric, {}, 2);
    for (int a = 0; a < 12; ++a) {
      for (int b = 0; b < 12; ++b) {
        if (a == b) continue;
        for (const int gpu : {Endpoint::kHost, 0, 1}) {
          const Path path = topology.path({a, gpu}, {b, 0}), back = topology.path({b, 0}, {a, gpu});
          CHECK(path.links.size() == back.links.size());
          CHECK(path.latency == 5.0_us);
          CHECK(std::set<int>(path.links.begin(), path.links.end()).size() == path.links.size());
          const auto own = topology.nic_links(a), other = topology.nic_links(b);
          const auto count = [&](const std::vector<int>& nics) {
            return std::count_if(path.links.begin(), path.links.end(),
                                 [&](int link) { return std::find(nics.begin(), nics.end(), link) != nics.end(); });
          };
          CHECK(count(own) == 1);
          CHECK(count(other) == 1);
        }
      }
    }
  }
}

TEST_CASE("fat tree: within a leaf two hops, between leaves four; uplinks carry the NICs over the oversubscription") {
  const Topology topology = fabric_of(8, FatTree{4, 2, 2}, 1.0_us);
  CHECK(topology.path({0}, {3}).latency == 2.0_us);
  const Path path = topology.path({0}, {5});
  CHECK(path.latency == 4.0_us);
  CHECK(names(topology, path) == std::vector<std::string>{"NIC 0 of machine 0, sending", "uplink 1 of leaf 0, up",
                                                          "uplink 1 of leaf 1, down", "NIC 0 of machine 5, receiving"});
  // 4 NICs of 1 GB/s, 2:1, over two uplinks: 1 GB/s each
  CHECK(topology.links()[static_cast<std::size_t>(path.links[1])].rate == 1_GBps);
}

TEST_CASE("dragonfly: at most local, global, local") {
  const Topology topology = fabric_of(24, Dragonfly{2, 3, 1_GBps, 2_GBps}, 1.0_us);  // 12 routers, 4 groups
  std::size_t longest = 0;
  for (int a = 0; a < 24; ++a)
    for (int b = 0; b < 24; ++b)
      if (a != b) longest = std::max(longest, topology.path({a}, {b}).links.size());
  CHECK(longest == 5);                               // two NICs and three links between routers
  CHECK(topology.path({0}, {1}).links.size() == 2);  // same router
  CHECK(topology.path({0}, {2}).links.size() == 3);  // same group
  CHECK(topology.path({0}, {2}).latency == 3.0_us);
}

TEST_CASE("torus: one dimension after the other, the shorter way round") {
  const Topology topology = fabric_of(12, Torus{{4, 3}, 1_GBps}, 1.0_us);
  CHECK(names(topology, topology.path({0}, {7})) ==  // (0, 0) to (3, 1): one down, one up
        std::vector<std::string>{"NIC 0 of machine 0, sending", "torus link of machine 0, dimension 0 down",
                                 "torus link of machine 3, dimension 1 up", "NIC 0 of machine 7, receiving"});
  CHECK(topology.path({0}, {7}).latency == 2.0_us);
  CHECK(topology.path({0}, {1}).latency == 1.0_us);
  CHECK(topology.path({0}, {2}).links.size() == 4);  // two up, though two down is as short
}

TEST_CASE("rail: one switch between NICs of the same number, the spine between others") {
  const Topology topology = fabric_of(4, Rail{2}, 1.0_us, 2);
  CHECK(topology.path({0, 1}, {3, 1}).latency == 2.0_us);
  const Path cross = topology.path({0, 0}, {3, 1});
  CHECK(cross.latency == 4.0_us);
  CHECK(topology.links()[static_cast<std::size_t>(cross.links[2])].rate == 2_GBps);  // 4 NICs, 2:1
}

TEST_CASE("regions have a fabric each and are connected with the limit of a flow") {
  std::vector<TopologyMachine> machines{machine(1, 1, "a"), machine(1, 1, "b"), machine(1, 1, "a")};
  const Topology topology{machines,
                          FatTree{1, 1, 1},
                          {{"a", "a", 1.0_us, {}, ""}, {"b", "a", 9.0_ms, 100_MBps, ""}, {"b", "b", 1.0_us, {}, ""}}};
  CHECK(topology.path({0}, {1}).links.size() == 2);
  CHECK(topology.path({0}, {1}).latency == 9.0_ms);
  CHECK(topology.path({1}, {0}).per_flow_rate == 100_MBps);
  CHECK(topology.path({0}, {2}).links.size() == 4);
}

TEST_CASE("inside a machine: NVLink where there is one, PCIe elsewhere, through the host where copies are staged") {
  TopologyMachine inside{.region = "r", .nic = 1_GBps, .gpus = 8, .interconnect = shipped_interconnect("dgx-1-v100")};
  const Topology mesh{{inside}, Star{}, {}};
  const Path neighbours = mesh.path({0, 0}, {0, 3});
  REQUIRE(neighbours.links.size() == 1);
  CHECK(mesh.links()[static_cast<std::size_t>(neighbours.links[0])].rate == 50_GBps);  // two links
  CHECK(
      names(mesh, mesh.path({0, 0}, {0, 5})) ==
      std::vector<std::string>{"PCIe of GPU 0 of machine 0, to the host", "PCIe of GPU 5 of machine 0, from the host"});
  inside.interconnect = shipped_interconnect("pcie3-shared-4");
  const Topology staged{{inside}, Star{}, {}};
  CHECK(staged.path({0, 0}, {0, 1}).links.size() == 4);
  CHECK(staged.path({0, 0}, {0}).links.size() == 2);
  inside.interconnect = shipped_interconnect("dgx-a100");
  const Topology switched{{inside}, Star{}, {}};
  CHECK(names(switched, switched.path({0, 0}, {0, 5}))[0] == "NVSwitch port of GPU 0 of machine 0, sending");
}

TEST_CASE("every V100 of a DGX-1 has six NVLinks, and rings are found as many as those allow") {
  const Interconnect mesh = shipped_interconnect("dgx-1-v100");
  std::vector<int> links(8);
  for (const NvlinkPair& pair : mesh.nvlinks) {
    links[static_cast<std::size_t>(pair.a)] += pair.count;
    links[static_cast<std::size_t>(pair.b)] += pair.count;
  }
  CHECK(links == std::vector<int>(8, 6));
  // Six links per GPU: three cycles, each in both directions. Four GPUs: four links and more within them: two cycles.
  CHECK(find_rings(mesh, {0, 1, 2, 3, 4, 5, 6, 7}).size() == 6);
  CHECK(find_rings(mesh, {0, 1, 2, 3}).size() == 4);
  CHECK(find_rings(mesh, {0, 1, 2}).size() == 2);
  CHECK(find_rings(mesh, {0, 1}).size() == 1);
  CHECK(find_rings(mesh, {0, 3}).size() == 2);
  CHECK(find_rings(mesh, {0, 1, 2, 3, 4}).empty());  // GPU 4 has a link to GPU 0 alone
  CHECK(find_rings(shipped_interconnect("dgx-a100"), {0, 1, 2, 3}).empty());
  // No link is used more often than it is there.
  std::map<std::pair<int, int>, int> used;
  for (const std::vector<int>& ring : find_rings(mesh, {0, 1, 2, 3, 4, 5, 6, 7})) {
    CHECK(std::set<int>(ring.begin(), ring.end()).size() == 8);
    for (std::size_t i = 0; i < ring.size(); ++i) ++used[{ring[i], ring[(i + 1) % ring.size()]}];
  }
  for (const auto& [ends, count] : used) {
    int there = 0;
    for (const NvlinkPair& pair : mesh.nvlinks)
      if (std::minmax(pair.a, pair.b) == std::minmax(ends.first, ends.second)) there += pair.count;
    CHECK(count <= there);
  }
}

TEST_CASE("a fabric written and read again is the same; mistakes are one line") {
  for (const Fabric& fabric : {Fabric{Star{}}, Fabric{FatTree{3, 2.5, 2}}, Fabric{Dragonfly{2, 2, 1_GBps, 2_GBps}},
                               Fabric{Torus{{3, 2, 2}, 1_GBps}}, Fabric{Rail{2}}}) {
    const Json json = to_json(fabric);
    CHECK(to_json(read_fabric(JsonReader{json, "n.json"})) == json);
  }
  CHECK(refusal(R"({"topology": "fat-tree"})") ==
        "n.json: /topology: unknown topology \"fat-tree\"; did you mean \"fat_tree\"?");
  CHECK(refusal(R"({"topology": "torus", "dimensions": [4, 0], "link_rate": "1GBps"})") ==
        "n.json: /dimensions: expected sizes from 1 to 20000; found an array of 2");
  CHECK(refusal(R"({"topology": "star", "uplinks": 2})").find("unknown key \"uplinks\"") != std::string::npos);
  CHECK(impossible([] {
          return fabric_of(5, Torus{{2, 2}, 1_GBps});
        }) == "a torus of 4 points for the 5 machines of region r");
  CHECK(impossible([] {
          return fabric_of(100, Torus{{100}, 1_GBps});
        }) == "a torus with paths of 50 links: more than 30");
}

}  // namespace rehearse
