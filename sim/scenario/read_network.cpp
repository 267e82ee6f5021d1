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
      entry["source"] = link->source;
      effective_links.push_back(std::move(entry));
    }
  }
  effective["network"] = to_json(scenario.fabric);
  effective["network"]["links"] = std::move(effective_links);
  if (scenario.hop_latency) effective["network"]["hop_latency"] = to_text(*scenario.hop_latency);
}

}  // namespace rehearse
