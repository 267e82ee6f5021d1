#pragma once
// How the GPUs of one machine are connected, and the rings that their NVLinks make.

#include <optional>
#include <string>
#include <vector>

#include "sim/base/units.hpp"

namespace rehearse {

class JsonReader;

/// Direct links between two GPUs of a machine: `count` of them, each with a rate of Interconnect::nvlink_rate per
/// direction.
struct NvlinkPair {
  int a = 0, b = 0;
  int count = 1;
  friend bool operator==(const NvlinkPair&, const NvlinkPair&) = default;
};

/// How the GPUs of one machine reach one another, the host and the NICs. Every GPU has a PCIe link of its own; with
/// `pcie_root` all of them share the way to the host, and to the NICs unless `reaches_nics_directly`. With
/// `gpus_per_root` that many GPUs after one another share a root, and copies between GPUs of different roots cross
/// both. With `gpus_per_socket` that many are at one processor, and copies between those of two processors without NVLink
/// cross what connects the processors, too.
struct Interconnect {
  std::string name, source;                   // empty if the instance names none
  BytesPerSecond pcie{};                      // of one GPU, each direction
  std::optional<BytesPerSecond> pcie_root;    // shared by the GPUs of a root, each direction
  int gpus_per_root = 0;                      // 0: all GPUs of the machine
  std::optional<BytesPerSecond> socket_link;  // from one processor to the others (QPI, UPI), each direction
  int gpus_per_socket = 0;                    // at one processor; 0: without socket_link
  bool reaches_nics_directly = false;         // NICs beside the GPUs: messages to the network do not cross pcie_root
  bool stages_copies_in_host = false;      // GPU-to-GPU copies without NVLink go through host memory (over pcie_root)
  BytesPerSecond nvlink_rate{};            // one NVLink, each direction
  std::vector<NvlinkPair> nvlinks;         // point to point
  std::optional<BytesPerSecond> nvswitch;  // all GPUs on a non-blocking switch: rate of one GPU, each direction
  bool reduces_in_switch = false;          // the switch adds up what it passes on: NVLink SHARP
  /// GPUs that one NVSwitch joins, those of other machines included: machines one after another, as many as hold so many. 0: those
  /// of a machine.
  int nvlink_domain = 0;
  std::string generation;  // "NVLink 4", "PCIe 3": of the links between GPUs; empty: not known
  std::string leaves_out;  // what of its machines is not described, such as links between them; or empty
  Seconds latency{};       // between two GPUs, and between a GPU and its host
  /// Share of one NVLink's rate that a copy through the memory of a third GPU reaches, between two without an NVLink
  /// of their own; 0: such copies go over PCIe. Part of the software, not of the file: CollectiveParameters.
  double nvlink_relay_efficiency = 0;
};

/// The GPU that relays copies between two without NVLink in common: of those with NVLinks to both, the one with the
/// most (the fewer of the two counts), then the first. None if there is no such GPU or `interconnect` does not relay.
std::optional<int> nvlink_relay(const Interconnect& interconnect, const std::vector<int>& gpus, int a, int b);

/// The most GPUs of a machine and of an NVLink domain. Source: NVIDIA, NVLink and NVLink Switch (fifth generation: up to 576).
inline constexpr int kMostNvlinkGpus = 576;

/// Reads one entry of a catalog's "interconnects", or an inline object; `pcie` is what it has if it states none. Throws
/// InputError.
Interconnect read_interconnect(const JsonReader& json, BytesPerSecond pcie);

/// Rings over the given GPUs of a machine that use no NVLink twice in one direction; each is a list of all GPUs,
/// followed by the same one backwards. Where NVLinks alone make none, with relays between GPUs that have no NVLink in
/// common, which take one link of each of the two others. No more than the fewest links of a GPU to the others, rounded
/// down to an even number (two GPUs: their links); as many as there can be, also counting rings whose reverse is not
/// used, for every choice of three or more GPUs of a DGX-1, which interconnect_test.cpp counts in full. Empty without
/// NVLinks, if they make no ring, or for more than eight GPUs: one ring in any order is then as good as another.
std::vector<std::vector<int>> find_rings(const Interconnect& interconnect, const std::vector<int>& gpus);

}  // namespace rehearse
