#include <nlohmann/json.hpp>

#include "platforms/topology.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

namespace {

BytesPerSecond read_rate(const JsonReader& json, std::string_view key) {
  const auto rate = json.required<BytesPerSecond>(key);
  json.expect(rate > BytesPerSecond{0}, key, "a rate above 0Bps");
  return rate;
}

int read_count(const JsonReader& json, std::string_view key, int most) {
  const int count = json.required<int>(key);
  json.expect(count >= 1 && count <= most, key, "1 to " + std::to_string(most));
  return count;
}

double read_oversubscription(const JsonReader& json) {
  const double ratio = json.optional<double>("oversubscription", 1);
  if (json.has("oversubscription")) json.expect(ratio >= 1 && ratio <= 1000, "oversubscription", "1 to 1000");
  return ratio;
}

}  // namespace

Interconnect read_interconnect(const JsonReader& json, BytesPerSecond pcie) {
  constexpr int kMostGpus = 64;
  Interconnect interconnect;
  interconnect.pcie = json.has("pcie") ? read_rate(json, "pcie") : pcie;
  if (json.has("pcie_root")) interconnect.pcie_root = read_rate(json, "pcie_root");
  interconnect.stages_copies_in_host = json.optional<bool>("stages_copies_in_host", false);
  interconnect.latency = json.optional<Seconds>("latency", Seconds{0});
  json.expect(interconnect.latency <= Seconds{1}, "latency", "at most 1s");
  if (json.has("nvswitch")) interconnect.nvswitch = read_rate(json, "nvswitch");
  if (json.has("nvlinks")) {
    interconnect.nvlink_rate = read_rate(json, "nvlink_rate");
    const std::vector<JsonReader> pairs = json.children("nvlinks");
    json.expect(pairs.size() <= kMostGpus * kMostGpus, "nvlinks", "at most 4096 pairs");
    for (const JsonReader& entry : pairs) {
      const NvlinkPair pair{entry.required<int>("a"), entry.required<int>("b"), entry.optional<int>("count", 1)};
      for (const char* end : {"a", "b"})
        entry.expect(entry.required<int>(end) >= 0 && entry.required<int>(end) < kMostGpus, end, "a GPU from 0 to 63");
      entry.expect(pair.a != pair.b, "b", "another GPU than \"a\"");
      entry.expect(pair.count >= 1 && pair.count <= 100, "count", "1 to 100 links");
      for (const NvlinkPair& other : interconnect.nvlinks)
        if (std::minmax(other.a, other.b) == std::minmax(pair.a, pair.b))
          entry.fail("b", "these two GPUs are listed already; state their links as one \"count\"");
      entry.reject_unknown_keys();
      interconnect.nvlinks.push_back(pair);
    }
  }
  (void)json.optional<std::string>("source", "");
  (void)json.optional<std::string>("name", "");
  json.reject_unknown_keys();
  return interconnect;
}

Fabric read_fabric(const JsonReader& json) {
  const auto topology = json.optional<std::string>("topology", "star");
  if (topology == "star") return Star{};
  if (topology == "fat_tree") {
    FatTree tree{.machines_per_leaf = read_count(json, "machines_per_leaf", 20'000),
                 .oversubscription = read_oversubscription(json),
                 .uplinks = json.optional<int>("uplinks", 1)};
    if (json.has("uplinks")) json.expect(tree.uplinks >= 1 && tree.uplinks <= 1024, "uplinks", "1 to 1024");
    return tree;
  }
  if (topology == "dragonfly")
    return Dragonfly{.machines_per_router = read_count(json, "machines_per_router", 20'000),
                     .routers_per_group = read_count(json, "routers_per_group", 1000),
                     .local = read_rate(json, "local_rate"),
                     .global = read_rate(json, "global_rate")};
  if (topology == "torus") {
    Torus torus{.dimensions = json.required<std::vector<int>>("dimensions"), .link = read_rate(json, "link_rate")};
    json.expect(!torus.dimensions.empty() && torus.dimensions.size() <= 6, "dimensions", "1 to 6 sizes");
    for (const int size : torus.dimensions)
      json.expect(size >= 1 && size <= 20'000, "dimensions", "sizes from 1 to 20000");
    return torus;
  }
  if (topology == "rail") return Rail{.oversubscription = read_oversubscription(json)};
  std::vector<std::string> known;
  for (const auto& [name, description] : list_fabrics()) known.push_back(name);
  json.fail("topology", unknown_name_message("topology", topology, known));
}

Json to_json(const Fabric& fabric) {
  struct Write {
    Json operator()(const Star&) const { return {{"topology", "star"}}; }
    Json operator()(const FatTree& tree) const {
      return {{"topology", "fat_tree"},
              {"machines_per_leaf", tree.machines_per_leaf},
              {"oversubscription", tree.oversubscription},
              {"uplinks", tree.uplinks}};
    }
    Json operator()(const Dragonfly& dragonfly) const {
      return {{"topology", "dragonfly"},
              {"machines_per_router", dragonfly.machines_per_router},
              {"routers_per_group", dragonfly.routers_per_group},
              {"local_rate", to_text(dragonfly.local)},
              {"global_rate", to_text(dragonfly.global)}};
    }
    Json operator()(const Torus& torus) const {
      return {{"topology", "torus"}, {"dimensions", torus.dimensions}, {"link_rate", to_text(torus.link)}};
    }
    Json operator()(const Rail& rail) const {
      return {{"topology", "rail"}, {"oversubscription", rail.oversubscription}};
    }
  };
  return std::visit(Write{}, fabric);
}

std::vector<std::pair<std::string, std::string>> list_fabrics() {
  return {{"star", "one non-blocking switch for each region"},
          {"fat_tree", "leaf switches of machines_per_leaf machines under a spine; oversubscription, uplinks"},
          {"dragonfly",
           "groups of routers, all connected: machines_per_router, routers_per_group, local_rate, global_rate"},
          {"torus", "a grid with wrap-around: dimensions, link_rate"},
          {"rail", "NIC r of every machine on switch r, a spine between the switches; oversubscription"}};
}

}  // namespace rehearse
