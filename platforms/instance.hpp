#pragma once
// A machine type that can be rented.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "platforms/price.hpp"
#include "sim/base/named.hpp"
#include "sim/base/units.hpp"

namespace rehearse {

class JsonReader;

/// A price in some regions:
///   { "market": "spot", "regions": ["us-west1"], "usd_per_hour": 0.24, "date": "2019", "source": "..." }
struct RegionalPrice {
  bool is_spot = false;
  std::vector<std::string> regions;
  double usd_per_hour = 0;
  std::string date, source;
};

/// How a collective's data leave a machine: through sockets, whose bytes processors copy, or written into memory by the adapter
/// itself (InfiniBand, RoCE, EFA, GPUDirect-TCPX).
enum class NetworkTransport { kTcp, kRdma };
inline constexpr std::array kNetworkTransports{Named{"tcp", NetworkTransport::kTcp},
                                               Named{"rdma", NetworkTransport::kRdma}};

struct Instance {
  std::string name;
  int vcpus = 0;
  Bytes memory{};
  std::string accelerator;  // name in the catalog; empty for a machine without GPU
  int accelerators = 0;
  BytesPerSecond nic{};  // of one NIC, each direction, as the provider states it
  int nics = 1;
  Bytes nic_burst{};  // that pass at once when a NIC has been idle: the depth of the token bucket that limits its rate
  std::optional<NetworkTransport> transport;  // none: not stated, simulated as kRdma
  /// The adapter writes what it receives in the order in which it was sent. Where it does not, a library whose processes span machines
  /// leaves out the protocols that rely on it (CollectiveProtocol::needs_order). EFA before p5: aws-ofi-nccl sets NCCL_PROTO=simple.
  bool is_in_order = true;
  /// Of a message between machines, as the adapter's plugin tells a collective library, which chooses by it (TunerCosts).
  Seconds plugin_latency{};
  std::optional<double> usd_per_hour_on_demand;
  std::optional<double> usd_per_hour_spot;
  std::vector<RegionalPrice> prices;   // where one fits, it goes before the two above, which hold anywhere
  std::string provider;                // "aws", "gce", "azure", another, or empty
  std::optional<BillingRule> billing;  // of a provider that is stated inline; otherwise billing_rule_of(provider)
  std::string source;

  BytesPerSecond all_nics() const { return nic * nics; }  // together, each direction
  const BillingRule& billing_rule() const { return billing ? *billing : billing_rule_of(provider); }
  /// List price in `place`, a region or a zone; none if it is unknown.
  std::optional<double> usd_per_hour(bool is_spot, const std::string& place) const;
};

/// Reads one entry of a catalog's "instances". Throws InputError. The accelerator may be a name or an inline object.
Instance read_instance(std::string name, JsonReader json);

}  // namespace rehearse
