#include "platforms/read_collectives.hpp"

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "platforms/read_rate.hpp"

namespace rehearse {

namespace {

constexpr std::array kProtocolTimes{"launch", "nvlink_step", "pcie_step", "network_step"};

void expect_short(const JsonReader& json, std::string_view key) {
  if (json.has(key)) json.expect(json.required<Seconds>(key) <= Seconds{1}, key, "at most 1s");
}

double read_hops(const JsonReader& json, std::string_view key, double otherwise) {
  const auto hops = json.optional<double>(key, otherwise);
  json.expect(hops >= 0 && hops <= 1000, key, "0 to 1000 hops");
  return hops;
}

/// What of a protocol's bytes is data: a payload by it stays a number of bytes.
double read_protocol_efficiency(const JsonReader& json) {
  const double value = json.required<double>("efficiency");
  json.expect(value >= 0.001 && value <= 1, "efficiency", "a share from 0.001 to 1");
  return value;
}

TunerCosts read_tuner(const JsonReader& json, const TunerCosts& otherwise) {
  TunerCosts costs{.launch = json.optional<Seconds>("launch", otherwise.launch),
                   .nvlink_step = json.optional<Seconds>("nvlink_step", otherwise.nvlink_step),
                   .pcie_step = json.optional<Seconds>("pcie_step", otherwise.pcie_step),
                   .network_step = json.optional<Seconds>("network_step", otherwise.network_step),
                   .efficiency = otherwise.efficiency};
  if (json.has("efficiency")) costs.efficiency = read_protocol_efficiency(json);
  for (const char* key : kProtocolTimes) expect_short(json, key);
  json.reject_unknown_keys();
  return costs;
}

/// What it does not state is as in `otherwise`.
CollectiveProtocol read_protocol(const JsonReader& json, const CollectiveProtocol& otherwise) {
  CollectiveProtocol protocol = otherwise;
  protocol.launch = json.optional<Seconds>("launch", otherwise.launch);
  protocol.nvlink_step = json.optional<Seconds>("nvlink_step", otherwise.nvlink_step);
  protocol.pcie_step = json.optional<Seconds>("pcie_step", otherwise.pcie_step);
  protocol.network_step = json.optional<Seconds>("network_step", otherwise.network_step);
  protocol.kept_step = json.optional<Seconds>("kept_step", otherwise.kept_step);
  if (json.has("efficiency")) protocol.efficiency = read_protocol_efficiency(json);
  if (json.has("algorithm")) protocol.algorithm = read_collective_algorithm(json, "algorithm", false);
  for (const char* key : kProtocolTimes) expect_short(json, key);
  expect_short(json, "kept_step");
  protocol.launch_hops = read_hops(json, "launch_hops", otherwise.launch_hops);
  protocol.step_hops = read_hops(json, "step_hops", otherwise.step_hops);
  protocol.kept_hops = read_hops(json, "kept_hops", otherwise.kept_hops);
  protocol.overlap = json.optional<double>("overlap", otherwise.overlap);
  json.expect(protocol.overlap >= 0 && protocol.overlap <= 1, "overlap", "a share from 0 to 1");
  if (json.has("operation")) protocol.operation = read_collective_kind(json, "operation");
  if (json.has("tuner")) protocol.tuner = read_tuner(json.child("tuner"), otherwise.tuner.value_or(TunerCosts{}));
  protocol.is_in_gpu_order = json.optional<bool>("in_gpu_order", otherwise.is_in_gpu_order);
  protocol.piece = json.optional<Bytes>("piece", otherwise.piece);
  json.expect(protocol.piece <= Bytes{std::int64_t{1} << 40}, "piece", "at most 1TiB");
  if (json.has("fetched_above")) protocol.fetched_above = json.required<Bytes>("fetched_above");
  protocol.needs_order = json.optional<bool>("needs_order", otherwise.needs_order);
  protocol.receivers_announce = json.optional<bool>("receivers_announce", otherwise.receivers_announce);
  if (json.has("eager_limit")) protocol.eager_limit = json.required<Bytes>("eager_limit");
  protocol.launches_ahead = json.optional<bool>("launches_ahead", otherwise.launches_ahead);
  if (json.has("copy")) protocol.copy = read_rate(json, "copy");
  json.reject_unknown_keys();
  return protocol;
}

CollectiveParameters read_collective_parameters(const JsonReader& json, const CollectiveParameters& otherwise) {
  CollectiveParameters parameters = otherwise;
  if (json.has("pcie_efficiency")) parameters.pcie_efficiency = read_share(json, "pcie_efficiency");
  if (json.has("socket_efficiency")) parameters.socket_efficiency = read_share(json, "socket_efficiency");
  if (json.has("nvlink_efficiency")) parameters.nvlink_efficiency = read_share(json, "nvlink_efficiency");
  parameters.nvlink_relay_efficiency =
      json.optional<double>("nvlink_relay_efficiency", otherwise.nvlink_relay_efficiency);
  json.expect(parameters.nvlink_relay_efficiency >= 0 && parameters.nvlink_relay_efficiency <= 1,
              "nvlink_relay_efficiency", "a share from 0 to 1");
  parameters.launch = json.optional<Seconds>("launch", otherwise.launch);
  parameters.hop = json.optional<Seconds>("hop", otherwise.hop);
  for (const char* key : {"launch", "hop"}) expect_short(json, key);
  parameters.launch_cycles = json.optional<double>("launch_cycles", otherwise.launch_cycles);
  parameters.hop_cycles = json.optional<double>("hop_cycles", otherwise.hop_cycles);
  for (const auto& [key, cycles] :
       {std::pair{"launch_cycles", parameters.launch_cycles}, std::pair{"hop_cycles", parameters.hop_cycles}})
    json.expect(cycles >= 0 && cycles <= 1e6, key, "0 to 1000000 cycles");
  parameters.across_dies = json.optional<double>("across_dies", otherwise.across_dies);
  json.expect(parameters.across_dies >= 0.1 && parameters.across_dies <= 10, "across_dies", "a factor from 0.1 to 10");
  if (!json.has("protocols")) return parameters;
  parameters.protocols.clear();
  for (const auto& [name, protocol] : json.child("protocols").items()) {
    const auto known = otherwise.protocols.find(name);
    parameters.protocols[name] =
        read_protocol(protocol, known != otherwise.protocols.end() ? known->second : CollectiveProtocol{});
  }
  return parameters;
}

/// Puts what the links' generation costs into the protocols.
void add_hops(CollectiveParameters& parameters) {
  for (auto& [name, protocol] : parameters.protocols) {
    protocol.launch += parameters.launch + parameters.hop * protocol.launch_hops;
    protocol.nvlink_step += parameters.hop * protocol.step_hops;
    protocol.kept_step += parameters.hop * protocol.kept_hops;
  }
}

}  // namespace

CollectiveLibrary read_collectives(const JsonReader& json) {
  CollectiveLibrary library{
      .otherwise = read_collective_parameters(json, {}), .by_generation = {}, .by_interconnect = {}};
  for (const auto& [key, entries] :
       {std::pair{"by_generation", &library.by_generation}, std::pair{"by_interconnect", &library.by_interconnect}}) {
    if (!json.has(key)) continue;
    for (const auto& [name, parameters] : json.child(key).items()) {
      (*entries)[name] = read_collective_parameters(parameters, library.otherwise);
      parameters.reject_unknown_keys();
    }
    for (auto& [name, parameters] : *entries) add_hops(parameters);
  }
  add_hops(library.otherwise);  // last: entries begin with what it states
  json.reject_unknown_keys();
  return library;
}

}  // namespace rehearse
