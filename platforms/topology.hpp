#pragma once
// Links between GPUs, hosts, NICs and switches, and which of them a message crosses.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "platforms/region_link.hpp"
#include "sim/base/json.hpp"
#include "sim/base/units.hpp"

namespace rehearse {

/// Where a message starts or ends: a GPU of a machine, or the machine's host memory.
struct Endpoint {
  static constexpr int kHost = -1;
  int machine = 0;
  int gpu = kHost;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// Direct links between two GPUs of a machine: `count` of them, each with a rate of Interconnect::nvlink_rate per
/// direction.
struct NvlinkPair {
  int a = 0, b = 0;
  int count = 1;
  friend bool operator==(const NvlinkPair&, const NvlinkPair&) = default;
};

/// How the GPUs of one machine reach one another and the host. Every GPU has a PCIe link of its own; with `pcie_root`
/// all of them share the way to the host and the NICs.
struct Interconnect {
  BytesPerSecond pcie{};                    // of one GPU, each direction
  std::optional<BytesPerSecond> pcie_root;  // shared by all GPUs of the machine, each direction
  bool stages_copies_in_host = false;       // GPU-to-GPU copies without NVLink go through host memory (over pcie_root)
  BytesPerSecond nvlink_rate{};             // one NVLink, each direction
  std::vector<NvlinkPair> nvlinks;          // point to point
  std::optional<BytesPerSecond> nvswitch;   // all GPUs on a non-blocking switch: rate of one GPU, each direction
  Seconds latency{};                        // between two GPUs, and between a GPU and its host
};

/// Reads one entry of a catalog's "interconnects", or an inline object; `pcie` is what it has if it states none. Throws
/// InputError.
Interconnect read_interconnect(const JsonReader& json, BytesPerSecond pcie);

struct TopologyMachine {
  std::string region;
  BytesPerSecond nic{};  // payload rate of one NIC, each direction
  int nics = 1;          // GPU i uses NIC i modulo nics; the host uses NIC 0
  int gpus = 0;
  Interconnect interconnect;
};

/// One non-blocking switch.
struct Star {};

/// Leaf switches of `machines_per_leaf` machines. Each leaf has `uplinks` links to the spine, destination d using
/// number d modulo uplinks; together they carry the leaf's NICs' rate divided by `oversubscription`.
struct FatTree {
  int machines_per_leaf = 1;
  double oversubscription = 1;
  int uplinks = 1;
};

/// Groups of routers; routers of a group are all connected by `local` links and every pair of groups by one `global`
/// link. Minimal routing: at most local, global, local.
struct Dragonfly {
  int machines_per_router = 1;
  int routers_per_group = 1;
  BytesPerSecond local{};
  BytesPerSecond global{};
};

/// Machines at the points of a grid with wrap-around, the first dimension counting fastest; dimension-ordered routing,
/// the shorter way round, upwards if both are equal.
struct Torus {
  std::vector<int> dimensions;
  BytesPerSecond link{};
};

/// NIC r of every machine is on switch r; messages between different rails cross a spine whose link to each switch
/// carries that switch's NICs' rate divided by `oversubscription`.
struct Rail {
  double oversubscription = 1;
};

/// What connects the machines of a region.
using Fabric = std::variant<Star, FatTree, Dragonfly, Torus, Rail>;

/// Reads "topology" and its sizes from a scenario's network object. Throws InputError.
Fabric read_fabric(const JsonReader& json);
/// The same keys and values.
Json to_json(const Fabric& fabric);
/// Name and one line of what it is, for each fabric.
std::vector<std::pair<std::string, std::string>> list_fabrics();

/// A directed resource that the flows crossing it share.
struct TopologyLink {
  std::string name;
  BytesPerSecond rate{};
};

struct Path {
  std::vector<int> links;  // indices into Topology::links(), in order
  Seconds latency{};       // one way
  std::optional<BytesPerSecond> per_flow_rate;
};

class Topology {
 public:
  /// `region_links` must hold every pair of regions in use. `hop_latency`, if given, is the one-way latency of each
  /// link between NIC and switch and between switches; otherwise the region's own latency covers the whole way.
  /// Machines of one region are on one fabric, regions are connected pairwise without a limit but the per-flow rate.
  /// Throws std::invalid_argument if a fabric cannot hold its machines: a torus of another size or with paths of more
  /// than 30 links, a fabric with more than two million links.
  Topology(std::vector<TopologyMachine> machines, const Fabric& fabric, std::vector<RegionLink> region_links,
           std::optional<Seconds> hop_latency = {});

  const std::vector<TopologyLink>& links() const { return links_; }
  const std::vector<TopologyMachine>& machines() const { return machines_; }
  const std::vector<RegionLink>& region_links() const { return region_links_; }
  /// `from != to`. A pair of GPUs of one machine goes over NVLink where both ends have it, over PCIe otherwise.
  Path path(Endpoint from, Endpoint to) const;
  /// The links of a machine's NICs, both directions.
  std::vector<int> nic_links(int machine) const;

 private:
  struct MachineLinks {
    std::vector<int> gpu_up, gpu_down;        // [gpus] PCIe
    int root_up = -1, root_down = -1;         // -1: not limited
    std::vector<int> nic_up, nic_down;        // [nics]
    std::vector<int> switch_up, switch_down;  // [gpus] NVSwitch ports
    std::vector<std::vector<int>> nvlink;     // [gpus][gpus] link, -1: none
  };
  /// The switches of one region. A machine has a number within its region.
  struct RegionLinks {
    std::vector<int> machines;               // by number
    std::vector<std::vector<int>> up, down;  // fat tree: [leafs][uplinks]; rail: [rails][1]
    std::vector<std::vector<int>> local;     // dragonfly: [routers][routers of its group]
    std::vector<std::vector<int>> global;    // dragonfly: [groups][groups]
    std::vector<std::vector<int>> torus;     // [machines][2 * dimension + (0 up, 1 down)]
  };

  int add_link(std::string name, BytesPerSecond rate);
  void add_machine(std::size_t machine);
  void add_links(RegionLinks& region, const Star&);
  void add_links(RegionLinks& region, const FatTree& tree);
  void add_links(RegionLinks& region, const Dragonfly& dragonfly);
  void add_links(RegionLinks& region, const Torus& torus);
  void add_links(RegionLinks& region, const Rail& rail);
  void append(const RegionLinks& region, const Star&, int from, int to, int rail, int to_rail, std::vector<int>&) const;
  void append(const RegionLinks& region, const FatTree& tree, int from, int to, int, int,
              std::vector<int>& links) const;
  void append(const RegionLinks& region, const Dragonfly& dragonfly, int from, int to, int, int,
              std::vector<int>& links) const;
  void append(const RegionLinks& region, const Torus& torus, int from, int to, int, int, std::vector<int>& links) const;
  void append(const RegionLinks& region, const Rail& rail, int, int, int from_nic, int to_nic,
              std::vector<int>& links) const;
  void add_to_host(const MachineLinks& links, int gpu, bool is_up, Path& path) const;
  void append_inside(const MachineLinks& links, const TopologyMachine& machine, int from, int to, Path& path) const;

  std::vector<TopologyMachine> machines_;
  Fabric fabric_;
  std::vector<RegionLink> region_links_;
  std::optional<Seconds> hop_latency_;
  std::vector<TopologyLink> links_;
  std::vector<MachineLinks> machine_links_;
  std::map<std::string, int> region_of_name_;
  std::vector<RegionLinks> regions_;
  std::vector<int> region_of_;                  // [machines]
  std::vector<int> number_of_;                  // [machines] within its region
  std::vector<std::vector<int>> link_between_;  // [regions][regions] index into region_links_, -1: none
};

/// Rings over the given GPUs of a machine that use no NVLink twice in one direction, as many as can be found: each one
/// is a list of all GPUs. Both directions of a cycle count. Empty if the GPUs' links make no ring, or there are more
/// than eight.
std::vector<std::vector<int>> find_rings(const Interconnect& interconnect, const std::vector<int>& gpus);

}  // namespace rehearse
