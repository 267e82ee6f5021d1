#include "predictor/grouped_graphs.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/base/errors.hpp"
#include "tests/support/paths.hpp"

namespace rehearse {

namespace {

std::vector<NamedGroups> groups_of(const std::string& text) { return read_grouped_graphs(parse_json(text, "f"), "f"); }

std::string refusal_of_groups(const std::string& text) {
  try {
    groups_of(text);
  } catch (const InputError& error) { return error.what(); }
  return "";
}

/// One graph with this besides two nodes.
std::string with(const std::string& edges, const std::string& more = "") {
  return R"({"graphs": [{"features": [[8, 2, 0.5], [0, 1, 0.25]], "undirected_edges": )" + edges + more + "}]}";
}

}  // namespace

TEST_CASE("graphs of groups are read with their three features, edges once, and the outputs of another program") {
  const std::vector<NamedGroups> graphs = groups_of(R"({"description": "two", "graphs": [
    {"name": "pair", "num_nodes": 3, "features": [[8, 2, 0.5], [0, 1, 0.25], [1e6, 7, 2]], "undirected_edges": [[2, 0], [0, 1], [1, 0]],
     "output_float32": [0,0,0,0,0,0,0,0,0,0,0,0], "output_float64": [-1,2,3,4,5,6,7,8,9,10,11,12]},
    {"features": [[1, 1, 1]], "undirected_edges": []}]})");
  REQUIRE(graphs.size() == 2);
  CHECK(graphs[0].name == "pair");
  CHECK(graphs[0].groups.features == std::vector<std::array<double, 3>>{{8, 2, 0.5}, {0, 1, 0.25}, {1e6, 7, 2}});
  CHECK(graphs[0].groups.edges == std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 1}, {0, 2}});
  REQUIRE(graphs[0].outputs.size() == 12);
  CHECK(graphs[0].outputs[0] == -1);
  CHECK(graphs[1].name == "graph 2");
  CHECK(graphs[1].outputs.empty());
  const std::string fixture = source_folder() + "/tests/predictor/data/driple/pretrained_gcn_io.json";
  const Json published = load_json_file(fixture);
  CHECK(is_grouped_graphs(published));
  CHECK(read_grouped_graphs(published, fixture).size() == 6);
  CHECK(!is_grouped_graphs(load_json_file(source_folder() + "/scenarios/driple/01-v100-ps1-w2.json")));
}

TEST_CASE("graphs of groups that are none are refused where they are wrong") {
  CHECK(refusal_of_groups(with("[[0, 1]]")).empty());
  const std::string nodes = ": expected two different nodes, from 0 to 1; found ";
  CHECK(refusal_of_groups(with("[[0, 2]]")).starts_with("f: /graphs/0/undirected_edges/0" + nodes));
  CHECK(refusal_of_groups(with("[[0, 1], [1, 1]]")).starts_with("f: /graphs/0/undirected_edges/1" + nodes));
  CHECK(refusal_of_groups(with("[[0]]")).starts_with("f: /graphs/0/undirected_edges/0" + nodes));
  CHECK(refusal_of_groups(with("[[-1, 0]]")).starts_with("f: /graphs/0/undirected_edges/0" + nodes));
  CHECK(refusal_of_groups(with("[]", R"(, "num_nodes": 3)")).starts_with("f: /graphs/0/num_nodes: expected as many"));
  CHECK(refusal_of_groups(with("[]", R"(, "output_float64": [1])"))
            .starts_with("f: /graphs/0/output_float64: expected twelve"));
  CHECK(refusal_of_groups(with("[]", R"(, "labels": [1])")).find("labels") != std::string::npos);
  CHECK(refusal_of_groups(R"({"graphs": []})").starts_with("f: /graphs: expected 1 to 10000 graphs"));
  CHECK(refusal_of_groups(R"({"graphs": [{"features": [], "undirected_edges": []}]})").find("1 to 1000 nodes") !=
        std::string::npos);
  CHECK(refusal_of_groups(R"({"graphs": [{"features": [[1, 2]], "undirected_edges": []}]})").find("three numbers") !=
        std::string::npos);
  CHECK(refusal_of_groups(R"({"graphs": [{"features": [[1e39, 2, 3]], "undirected_edges": []}]})")
            .find("three numbers") != std::string::npos);
  CHECK(
      refusal_of_groups(R"({"graphs": [{"features": [[-1, 2, 3]], "undirected_edges": []}]})").find("three numbers") !=
      std::string::npos);
  std::string many = "[1, 1, 1]";
  for (int i = 0; i < 1000; ++i) many += ", [1, 1, 1]";
  CHECK(refusal_of_groups(R"({"graphs": [{"features": [)" + many + R"(], "undirected_edges": []}]})")
            .find("1 to 1000 nodes") != std::string::npos);
}

}  // namespace rehearse
