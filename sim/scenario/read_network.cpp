#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/scenario/scenario_readers.hpp"

namespace rehearse {

namespace {

[[noreturn]] void fail_link(const JsonReader& cluster, const Catalog& catalog, const Scenario& scenario,
                            const std::string& from, const std::string& to) {
  const std::vector<std::string> known = catalog.region_names();
  const auto fail_in = [&](const std::string& region, const std::string& message) {
    for (std::size_t g = 0; g < scenario.groups.size(); ++g)
      if (scenario.groups[g].region == region && scenario.groups[g].colocated_with < 0)
        cluster.children("groups")[g].fail("region",
                                           message + ", or describe it in /cluster/network/links with its latency");
  };
  for (const std::string& region : {from, to})
    if (std::find(known.begin(), known.end(), region) == known.end())
      fail_in(region, unknown_name_message("region", region, known));
  const bool is_inside = from == to;
  fail_in(to, "the catalogs have no link " +
                  (is_inside ? "inside " + in_quotes(to) : "between " + in_quotes(from) + " and " + in_quotes(to)) +
                  ": choose other regions");
  throw std::logic_error{"a region of no group"};
}

TcpParameters read_tcp(const JsonReader& json) {
  TcpParameters tcp;
  tcp.segment = json.optional<Bytes>("segment", tcp.segment);
  json.expect(tcp.segment >= Bytes{1} && tcp.segment <= Bytes{65535}, "segment", "1B to 65535B");
  tcp.minimum_timeout = json.optional<Seconds>("minimum_timeout", tcp.minimum_timeout);
  json.expect(tcp.minimum_timeout <= Seconds{60}, "minimum_timeout", "at most 60s");
  tcp.timer_granularity = json.optional<Seconds>("timer_granularity", tcp.timer_granularity);
  json.expect(tcp.timer_granularity <= Seconds{1}, "timer_granularity", "at most 1s");
  tcp.small_queue = json.optional<Seconds>("small_queue", tcp.small_queue);
  json.expect(tcp.small_queue <= Seconds{1}, "small_queue", "at most 1s");
  tcp.turn = json.optional<Bytes>("turn", tcp.turn);
  json.expect(tcp.turn == Bytes{} || (tcp.turn >= Bytes{1024} && tcp.turn <= Bytes{1 << 30}), "turn",
              "0B, or 1KiB to 1GiB");
  const auto read_count = [&](const char* key, int fallback, int most) {
    const int count = json.optional<int>(key, fallback);
    json.expect(count >= 1 && count <= most, key, "1 to " + std::to_string(most));
    return count;
  };
  tcp.duplicate_acks = read_count("duplicate_acks", tcp.duplicate_acks, 1000);
  tcp.initial_window = read_count("initial_window", tcp.initial_window, 100'000);
  tcp.connections = read_count("connections", tcp.connections, 64);
  if (json.has("recovery")) tcp.recovery = read_word(json, "recovery", kLossRecoveries);
  if (json.has("congestion")) tcp.congestion = read_word(json, "congestion", kCongestionControls);
  json.reject_unknown_keys();
  return tcp;
}

Messaging read_messaging_of(const JsonReader& json, const Catalog& catalog) {
  if (json.is_string()) return catalog.messaging(json.as<std::string>(), json);
  return read_messaging(name_of_inline(json), without_name(json));
}

void write_loss(const Scenario& scenario, Json& network) {
  const TcpParameters& tcp = scenario.tcp;
  network["packet_loss"] = scenario.packet_loss;
  network["tcp"] = {{"segment", to_text(tcp.segment)},
                    {"minimum_timeout", to_text(tcp.minimum_timeout)},
                    {"timer_granularity", to_text(tcp.timer_granularity)},
                    {"small_queue", to_text(tcp.small_queue)},
                    {"duplicate_acks", tcp.duplicate_acks},
                    {"initial_window", tcp.initial_window},
                    {"recovery", name_in(kLossRecoveries, tcp.recovery)},
                    {"congestion", name_in(kCongestionControls, tcp.congestion)},
                    {"connections", tcp.connections}};
  if (tcp.turn > Bytes{}) network["tcp"]["turn"] = to_text(tcp.turn);
}

}  // namespace

void read_network(const JsonReader& json, const Catalog& catalog, Scenario& scenario, Json& effective) {
  std::map<std::pair<std::string, std::string>, RegionLink> inline_links;
  if (json.has("network")) {
    const JsonReader network = json.child("network");
    scenario.fabric = read_fabric(network);
    if (network.has("hop_latency")) scenario.hop_latency = network.required<Seconds>("hop_latency");
    if (network.has("links"))
      for (const JsonReader& entry : network.children("links")) {
        const RegionLink link = read_region_link(entry);
        inline_links[std::minmax(link.from, link.to)] = link;
      }
    scenario.packet_loss = read_packet_loss(network);
    if (network.has("tcp")) scenario.tcp = read_tcp(network.child("tcp"));
    if (network.has("messaging")) scenario.messaging = read_messaging_of(network.child("messaging"), catalog);
    network.reject_unknown_keys();
  }
  std::set<std::string> regions;
  for (const Group& group : scenario.groups) regions.insert(group.region);
  Json effective_links = Json::array();
  for (auto from = regions.begin(); from != regions.end(); ++from) {
    for (auto to = from; to != regions.end(); ++to) {
      const auto found = inline_links.find(std::minmax(*from, *to));
      const RegionLink* link = found != inline_links.end() ? &found->second : catalog.region_link(*from, *to);
      if (link == nullptr) fail_link(json, catalog, scenario, *from, *to);
      scenario.links.push_back(*link);
      Json entry{{"from", link->from}, {"to", link->to}, {"latency", to_text(link->latency)}};
      if (link->per_flow_rate) entry["per_flow_rate"] = to_text(*link->per_flow_rate);
      if (link->packet_loss > 0) entry["packet_loss"] = link->packet_loss;
      entry["source"] = link->source;
      effective_links.push_back(std::move(entry));
    }
  }
  effective["network"] = to_json(scenario.fabric);
  if (scenario.loses_packets() || (json.has("network") && json.child("network").has("tcp")))
    write_loss(scenario, effective["network"]);
  if (!scenario.messaging.source.empty()) effective["network"]["messaging"] = to_json(scenario.messaging);
  effective["network"]["links"] = std::move(effective_links);
  if (scenario.hop_latency) effective["network"]["hop_latency"] = to_text(*scenario.hop_latency);
}

}  // namespace rehearse
