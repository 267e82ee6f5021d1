#include "platforms/fabric.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>

namespace rehearse::fabric_test {

namespace {

const std::vector<Fabric> kFabrics{Star{}, FatTree{3, 2.5, 2}, Dragonfly{2, 2, 1_GBps, 2_GBps},
                                   Torus{{3, 2, 2}, 1_GBps}, Rail{2}};

std::string refusal(const Json& json) {
  const JsonReader reader{json, "n.json", "/network"};
  try {
    (void)read_fabric(reader);
    reader.reject_unknown_keys();
  } catch (const InputError& error) { return error.what(); }
  return "accepted";
}

std::string refusal(const char* text) { return refusal(parse_json(text, "n.json")); }

}  // namespace

TEST_CASE("a fabric written and read again is the same, each under a name of its own that is listed") {
  std::set<std::string> written, listed;
  for (const Fabric& fabric : kFabrics) {
    const Json json = to_json(fabric);
    CHECK(read_fabric(JsonReader{json, "n.json"}) == fabric);
    CHECK(refusal(json) == "accepted");
    written.insert(json["topology"].get<std::string>());
  }
  for (const auto& [name, description] : list_fabrics()) {
    CHECK(description.size() > 20);
    listed.insert(name);
  }
  CHECK(written.size() == std::variant_size_v<Fabric>);
  CHECK(written == listed);
  CHECK(std::holds_alternative<Star>(read_fabric(JsonReader{Json::object(), "n.json"})));
}

TEST_CASE("a fabric's defaults: no oversubscription, one uplink") {
  const Json json{{"topology", "fat_tree"}, {"machines_per_leaf", 8}};
  CHECK(read_fabric(JsonReader{json, "n.json"}) == Fabric{FatTree{8, 1, 1}});
}

TEST_CASE("mistakes in a fabric are one line with their place") {
  CHECK(refusal(R"({"topology": "fat-tree"})") ==
        "n.json: /network/topology: unknown topology \"fat-tree\"; did you mean \"fat_tree\"?");
  CHECK(refusal(R"({"topology": null})") == "n.json: /network/topology: expected a string; found null");
  CHECK(refusal(R"([])") == "n.json: /network: expected an object; found an empty array");
  CHECK(refusal(R"({"topology": "star", "uplinks": 2})") ==
        "n.json: /network: unknown key \"uplinks\"; known: \"topology\"");
  CHECK(refusal(R"({"topology": "rail", "uplinks": 2})") ==
        "n.json: /network: unknown key \"uplinks\"; known: \"topology\", \"oversubscription\"");
  CHECK(refusal(R"({"topology": "fat_tree"})") ==
        "n.json: /network: expected the key \"machines_per_leaf\"; found none");
  CHECK(refusal(R"({"topology": "fat_tree", "machines_per_leaf": 0})") ==
        "n.json: /network/machines_per_leaf: expected 1 to 20000; found 0");
  CHECK(refusal(R"({"topology": "fat_tree", "machines_per_leaf": 4, "uplinks": 1025})") ==
        "n.json: /network/uplinks: expected 1 to 1024; found 1025");
  CHECK(refusal(R"({"topology": "rail", "oversubscription": 0.5})") ==
        "n.json: /network/oversubscription: expected 1 to 1000; found 0.5");
  CHECK(refusal(R"({"topology": "torus", "dimensions": [4, 0], "link_rate": "1GBps"})") ==
        "n.json: /network/dimensions/1: expected 1 to 20000 machines; found 0");
  CHECK(refusal(R"({"topology": "torus", "dimensions": [], "link_rate": "1GBps"})") ==
        "n.json: /network/dimensions: expected 1 to 6 sizes; found an empty array");
  CHECK(refusal(R"({"topology": "torus", "dimensions": [4], "link_rate": "0GBps"})") ==
        "n.json: /network/link_rate: expected a rate above 0Bps; found \"0GBps\"");
  CHECK(
      refusal(R"({"topology": "torus", "dimensions": [4], "link_rate": 5})") ==
      "n.json: /network/link_rate: expected a rate with a unit, such as \"5Bps\" (bytes) or \"5bps\" (bits); found 5");
  CHECK(refusal(R"({"topology": "dragonfly", "machines_per_router": 1, "routers_per_group": 1001})") ==
        "n.json: /network/routers_per_group: expected 1 to 1000; found 1001");
}

TEST_CASE("the schema and the reader agree on the keys of each fabric, and on which of them are required") {
  const Json schema = parse_json(fabric_schema(), "schema");
  const Json& properties = schema["properties"];
  std::set<std::string> names;
  for (const auto& [name, description] : list_fabrics()) names.insert(name);
  CHECK(properties["topology"]["enum"].get<std::set<std::string>>() == names);
  for (const Fabric& fabric : kFabrics) {
    const Json complete = to_json(fabric);
    const auto topology = complete["topology"].get<std::string>();
    std::set<std::string> required, refused;
    for (const Json& rule : schema["allOf"]) {
      const Json& condition = rule["if"]["properties"]["topology"];
      const bool holds = condition.contains("const")
                             ? condition["const"] == topology
                             : condition["enum"].get<std::set<std::string>>().contains(topology);
      if (holds && rule.contains("then"))
        for (const Json& key : rule["then"]["required"]) required.insert(key.get<std::string>());
      if (!holds)
        for (const auto& [key, allowed] : rule["else"]["properties"].items()) refused.insert(key);
    }
    for (const auto& property : properties.items()) {  // no structured binding: clang 14 cannot capture those
      const std::string& key = property.key();
      const Json& rule = property.value();
      if (key == "topology") continue;
      CAPTURE(topology);
      CAPTURE(key);
      CHECK(complete.contains(key) == !refused.contains(key));
      if (!complete.contains(key)) continue;
      Json without = complete;
      without.erase(key);
      CHECK((refusal(without) == "accepted") == !required.contains(key));
      for (const char* bound : {"minimum", "maximum"}) {
        if (!rule.contains(bound)) continue;
        Json changed = complete;
        changed[key] = rule[bound];
        CHECK(refusal(changed) == "accepted");
        changed[key] = rule[bound].get<int>() + (bound == std::string{"minimum"} ? -1 : 1);
        CHECK(refusal(changed) != "accepted");
      }
    }
  }
}

}  // namespace rehearse::fabric_test
