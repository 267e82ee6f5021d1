#include "platforms/fabric.hpp"

#include <nlohmann/json.hpp>

#include "platforms/read_rate.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

namespace {

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
    for (const JsonReader& size : json.children("dimensions"))
      size.expect(size.as<int>() >= 1 && size.as<int>() <= 20'000, "1 to 20000 machines");
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

std::string_view fabric_schema() {
  return R"json({
  "properties": {
    "topology": { "enum": ["star", "fat_tree", "dragonfly", "torus", "rail"], "default": "star",
                  "description": "what connects the machines of a region; rehearse list topologies" },
    "machines_per_leaf": { "type": "integer", "minimum": 1, "maximum": 20000, "description": "fat tree" },
    "oversubscription": { "type": "number", "minimum": 1, "maximum": 1000, "default": 1,
                          "description": "fat tree, rail: the NICs' rate below a switch over that of its links to the spine" },
    "uplinks": { "type": "integer", "minimum": 1, "maximum": 1024, "default": 1,
                 "description": "fat tree: links of a leaf to the spine; messages to machine d use number d modulo uplinks" },
    "machines_per_router": { "type": "integer", "minimum": 1, "maximum": 20000, "description": "dragonfly" },
    "routers_per_group": { "type": "integer", "minimum": 1, "maximum": 1000, "description": "dragonfly" },
    "local_rate": { "$ref": "#/$defs/rate", "description": "dragonfly: of a link within a group, each way" },
    "global_rate": { "$ref": "#/$defs/rate", "description": "dragonfly: of a link between groups, each way" },
    "dimensions": { "type": "array", "minItems": 1, "maxItems": 6, "items": { "type": "integer", "minimum": 1, "maximum": 20000 },
                    "description": "torus: machines in each dimension; their product is the number of machines of each region" },
    "link_rate": { "$ref": "#/$defs/rate", "description": "torus: of a link between neighbours, each way" }
  },
  "allOf": [
    { "if": { "properties": { "topology": { "const": "fat_tree" } }, "required": ["topology"] },
      "then": { "required": ["machines_per_leaf"] },
      "else": { "properties": { "machines_per_leaf": false, "uplinks": false } } },
    { "if": { "properties": { "topology": { "enum": ["fat_tree", "rail"] } }, "required": ["topology"] },
      "else": { "properties": { "oversubscription": false } } },
    { "if": { "properties": { "topology": { "const": "dragonfly" } }, "required": ["topology"] },
      "then": { "required": ["machines_per_router", "routers_per_group", "local_rate", "global_rate"] },
      "else": { "properties": { "machines_per_router": false, "routers_per_group": false,
                                "local_rate": false, "global_rate": false } } },
    { "if": { "properties": { "topology": { "const": "torus" } }, "required": ["topology"] },
      "then": { "required": ["dimensions", "link_rate"] },
      "else": { "properties": { "dimensions": false, "link_rate": false } } }
  ]
}
)json";
}

std::vector<std::pair<std::string, std::string>> list_fabrics() {
  return {{"star", "one non-blocking switch for each region"},
          {"fat_tree", "leaf switches of machines_per_leaf machines under a spine; oversubscription, uplinks"},
          {"dragonfly",
           "groups of routers, all connected: machines_per_router, routers_per_group, local_rate, global_rate"},
          {"torus", "a grid with wrap-around: dimensions, link_rate"},
          {"rail", "NIC r of every machine on switch r, a spine between the switches; oversubscription"}};
}

bool is_nonblocking(const Fabric& fabric) {
  if (const auto* tree = std::get_if<FatTree>(&fabric)) return tree->uplinks == 1 && tree->oversubscription <= 1;
  if (const auto* rail = std::get_if<Rail>(&fabric)) return rail->oversubscription <= 1;
  return std::holds_alternative<Star>(fabric);
}

}  // namespace rehearse
