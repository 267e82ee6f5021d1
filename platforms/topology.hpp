#pragma once
// Links between GPUs, hosts, NICs and switches, and which of them a message crosses.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "platforms/fabric.hpp"
#include "platforms/interconnect.hpp"
#include "platforms/region_link.hpp"
#include "sim/base/units.hpp"

namespace rehearse {

using MachineIndex = int;

/// Where a message starts or ends: a GPU of a machine, or the machine's host memory.
struct Endpoint {
  static constexpr int kHost = -1;
  MachineIndex machine = 0;
  int gpu = kHost;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

struct TopologyMachine {
  std::string region;
  BytesPerSecond nic{};  // payload rate of one NIC, each direction
  Bytes nic_burst{};     // payload that passes a NIC at once after it has been idle
  int nics = 1;          // GPU i uses NIC i modulo nics; the host the NIC of the GPU at the other end, or NIC 0
  int gpus = 0;
  Interconnect interconnect;
  std::string name{};      // in the names of links; empty: "machine 3"
  double packet_loss = 0;  // share of the packets that leave its NICs, each by itself
  /// Machines of one number, from 0 on, have their GPUs on one NVSwitch, of whose ports `interconnect` says the rate; -1: its GPUs
  /// are by themselves.
  int nvlink_domain = -1;
};

/// A directed resource that the flows crossing it share.
struct TopologyLink {
  std::string name;
  BytesPerSecond rate{};
  Bytes burst{};             // that passes at once after the link has been idle
  int machine = -1;          // that it is a part of; -1: of the network
  bool never_binds = false;  // it carries what all NICs behind it send or receive at once
};

/// What a path crosses: the network, NVLinks inside a machine, or only its PCIe.
enum class PathKind { kPcie, kNvlink, kNetwork };

struct Path {
  std::vector<int> links;  // indices into Topology::links(), in order
  Seconds latency{};       // one way
  std::optional<BytesPerSecond> per_flow_rate;
  PathKind kind = PathKind::kPcie;
  double packet_loss = 0;  // share of packets that do not arrive
};

class Topology {
 public:
  /// `region_links` must hold every pair of regions in use, and every region of two machines or more with itself.
  /// `hop_latency`, if given, is the one-way latency of each link between NIC and switch and between switches;
  /// otherwise the region's own latency covers the whole way. Machines of one region are on one fabric and numbered in
  /// their order; regions are connected pairwise without a limit but the per-flow rate. Throws std::invalid_argument
  /// for sizes and rates out of range, a missing region link, and if a fabric cannot hold its machines: a torus of
  /// another size or with paths of more than 30 links, a network of more than two million links.
  Topology(std::vector<TopologyMachine> machines, const Fabric& fabric, std::vector<RegionLink> region_links,
           std::optional<Seconds> hop_latency = {});

  /// What passes a path at once if all its links are idle: the least burst of those that have one.
  Bytes burst(const Path& path) const;
  const std::vector<TopologyLink>& links() const { return links_; }
  /// Of all links; 0 without one.
  BytesPerSecond largest_rate() const { return largest_rate_; }
  const std::vector<TopologyMachine>& machines() const { return machines_; }
  const std::vector<RegionLink>& region_links() const { return region_links_; }
  /// The path between two different ends of this topology. Two GPUs of one machine, or of one NVLink domain, are joined by NVLink
  /// where they have one, through a third GPU where the machine relays copies, over PCIe otherwise, through the PCIe roots if they
  /// have different ones. Takes time in proportion to the links of the path, whatever the size of the network.
  Path path(Endpoint from, Endpoint to) const;
  /// Whether a message crosses NICs: not between GPUs of one machine, or of one NVLink domain.
  bool crosses_network(Endpoint from, Endpoint to) const {
    if (from.machine == to.machine) return false;
    const int domain = machines_[static_cast<std::size_t>(from.machine)].nvlink_domain;
    return domain < 0 || from.gpu == Endpoint::kHost || to.gpu == Endpoint::kHost ||
           domain != machines_[static_cast<std::size_t>(to.machine)].nvlink_domain;
  }
  /// The same between machines; or from a machine to another one like it, which it stands for, so that both ends are
  /// its own links.
  Path path_over_nics(Endpoint from, Endpoint to) const;
  /// Links of which each GPU of the machine has one of its own: [kinds][GPUs]. None if GPUs share any, or are joined in pairs.
  std::vector<std::vector<int>> links_by_gpu(int machine) const;
  /// The links of a machine's NICs, both directions.
  std::vector<int> nic_links(int machine) const;
  /// Links over which something enters a machine, or its GPUs, and leaves them.
  struct Ports {
    std::vector<int> in, out;
  };
  Ports nic_ports(int machine) const;
  Ports gpu_ports(int machine) const;

 private:
  struct MachineLinks {
    std::vector<int> gpu_up, gpu_down;    // [gpus] PCIe
    std::vector<int> root_up, root_down;  // [roots] empty: not limited
    int gpus_per_root = 1;
    std::vector<int> socket_out, socket_in;   // [sockets] empty: not limited
    std::vector<int> nic_up, nic_down;        // [nics]
    std::vector<int> switch_up, switch_down;  // [gpus] NVSwitch ports
    std::vector<std::vector<int>> nvlink;     // [gpus][gpus] link, -1: none; empty: no GPU has any
    std::vector<std::vector<int>> relay;  // [gpus][gpus] GPU between two without NVLink, -1: none; empty: none relays
  };
  /// The switches of one region. A machine has a number within its region.
  struct RegionLinks {
    std::string of;                          // for names: which region, if there are several
    std::vector<int> machines;               // by number
    std::vector<std::vector<int>> up, down;  // fat tree: [leafs][uplinks]; rail: [rails][1]
    std::vector<int> routers;                // dragonfly: [groups] routers that have machines
    std::vector<std::vector<int>> local;     // dragonfly: [routers][routers of its group]
    std::vector<std::vector<int>> global;    // dragonfly: [groups][groups]
    std::vector<std::vector<int>> torus;     // [machines][2 * dimension + (0 up, 1 down)], -1: never used
  };

  /// A way between two machines of one region, by their numbers within it, and the NICs at its ends.
  struct Way {
    int from = 0, to = 0;
    int from_nic = 0, to_nic = 0;
  };

  std::string name_of(std::size_t machine) const;
  int add_link(std::string name, BytesPerSecond rate);
  void check_room_for(double links) const;
  void check_machine(std::size_t machine) const;
  void index_region_links();
  void add_machine(std::size_t machine);
  void add_pair_links();
  void add_links(RegionLinks& region, const Star&);
  void add_links(RegionLinks& region, const FatTree& tree);
  void add_links(RegionLinks& region, const Dragonfly& dragonfly);
  void add_links(RegionLinks& region, const Torus& torus);
  void add_links(RegionLinks& region, const Rail& rail);
  /// Adds the links of a way between two NICs of a region, from switch to switch.
  void append(const RegionLinks& region, const Star&, const Way& way, std::vector<int>& links) const;
  void append(const RegionLinks& region, const FatTree& tree, const Way& way, std::vector<int>& links) const;
  void append(const RegionLinks& region, const Dragonfly& dragonfly, const Way& way, std::vector<int>& links) const;
  void append(const RegionLinks& region, const Torus& torus, const Way& way, std::vector<int>& links) const;
  void append(const RegionLinks& region, const Rail& rail, const Way& way, std::vector<int>& links) const;
  void add_to_host(const MachineLinks& links, int gpu, bool is_up, Path& path) const;
  void add_to_nic(std::size_t machine, int gpu, bool is_up, Path& path) const;
  void append_inside(const MachineLinks& links, const TopologyMachine& machine, int from, int to, Path& path) const;

  std::vector<TopologyMachine> machines_;
  Fabric fabric_;
  std::vector<RegionLink> region_links_;
  std::optional<Seconds> hop_latency_;
  std::vector<TopologyLink> links_;
  BytesPerSecond largest_rate_{};
  std::vector<MachineLinks> machine_links_;
  std::map<std::string, int> region_of_name_;
  std::vector<RegionLinks> regions_;
  std::vector<int> region_of_;                     // [machines]
  std::vector<int> number_of_;                     // [machines] within its region
  std::map<std::pair<int, int>, int> pair_links_;  // [machines, the lower first] where RegionLink::per_pair_rate limits
  std::vector<std::vector<int>> link_between_;     // [regions][regions] index into region_links_, -1: none
};

}  // namespace rehearse
