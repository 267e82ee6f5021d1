#include "predictor/grouping.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"
#include "sim/base/random.hpp"
#include "tests/support/paths.hpp"

namespace rehearse {
namespace {

const std::string kCases = source_folder() + "/tests/predictor/data/driple/grouping_cases.json";

OperatorNetwork path(std::uint32_t size) {
  OperatorNetwork network;
  network.operators.resize(size, {.tensor_size = 2, .type_frequency = 0.5});
  for (std::uint32_t i = 1; i < size; ++i) network.edges.emplace_back(i - 1, i);
  return network;
}

}  // namespace

TEST_CASE("the generator draws, shuffles and chooses as Python's Random(42)") {
  const Json probes = load_json_file(kCases)["python_random_seed42"];
  PythonRandom bits{42};
  for (const Json& expected : probes["first_getrandbits32"]) CHECK(bits.bits() == expected.get<std::uint32_t>());
  PythonRandom shuffling{42};
  std::vector<std::uint32_t> twenty(20);
  std::iota(twenty.begin(), twenty.end(), 0U);
  shuffling.shuffle(twenty);
  CHECK(twenty == probes["shuffle_range20"].get<std::vector<std::uint32_t>>());
  PythonRandom choosing{42};
  for (const Json& expected : probes["choice_of_range7_x12"]) CHECK(choosing.below(7) == expected.get<std::uint32_t>());
  // random.Random(2**40 + 5).getrandbits(32): a key of two words
  PythonRandom wide{(std::uint64_t{1} << 40U) + 5};
  CHECK(wide.bits() == 2166296868U);
}

TEST_CASE("groupings, pooled features and adjacency equal the published ones") {
  const Json cases = load_json_file(kCases);
  for (const Json& expected : cases["cases"]) {
    CAPTURE(expected["name"].get<std::string>());
    OperatorNetwork network;
    for (const Json& op : expected["ops"])
      network.operators.push_back({op["tensor_size"].get<std::int64_t>(), op["node_type"].get<double>()});
    for (const Json& edge : expected["edges"]) network.edges.emplace_back(edge[0], edge[1]);
    const GroupedGraph grouped = group_operators(largest_component(network), expected["k"].get<std::size_t>());

    std::vector<std::vector<std::uint32_t>> communities(grouped.features.size());
    for (std::uint32_t node = 0; node < grouped.group_of.size(); ++node)
      communities[grouped.group_of[node]].push_back(node);
    auto expected_communities = expected["communities_in_order"].get<std::vector<std::vector<std::uint32_t>>>();
    for (auto& community : expected_communities) std::sort(community.begin(), community.end());
    CHECK(communities == expected_communities);
    for (std::size_t i = 0; i < grouped.features.size(); ++i) {
      const Json& features = expected["features"][i];
      CHECK(grouped.features[i][0] == features[0].get<double>());
      CHECK(grouped.features[i][1] == features[1].get<double>());
      CHECK(grouped.features[i][2] == doctest::Approx(features[2].get<double>()).epsilon(1e-9));
    }
    CHECK(grouped.edges == expected["adjacency_edges"].get<std::vector<std::pair<std::uint32_t, std::uint32_t>>>());
  }
}

TEST_CASE("groups are never empty, sums are kept, repeated edges and self loops of a group change nothing") {
  Rng random{7, "grouping"};
  for (int run = 0; run < 50; ++run) {
    CAPTURE(run);
    OperatorNetwork network = path(static_cast<std::uint32_t>(20 + random.below(200)));
    const auto size = static_cast<std::uint32_t>(network.operators.size());
    for (int i = 0; i < 30; ++i)
      network.edges.emplace_back(static_cast<std::uint32_t>(random.below(size)),
                                 static_cast<std::uint32_t>(random.below(size)));
    const std::size_t groups = 1 + random.below(20);
    const GroupedGraph grouped = group_operators(network, groups);
    double operators = 0.0, tensors = 0.0;
    for (const auto& features : grouped.features) {
      CHECK(features[1] >= 1.0);
      operators += features[1];
      tensors += features[0];
    }
    CHECK(operators == size);
    CHECK(tensors == 2.0 * size);
    CHECK(grouped.edges.size() >= groups - 1);  // a connected network has connected groups
    OperatorNetwork doubled = network;
    doubled.edges.insert(doubled.edges.end(), network.edges.begin(), network.edges.end());
    CHECK(group_operators(doubled, groups).group_of == grouped.group_of);
  }
}

TEST_CASE("the largest component is kept, the first of equal ones, without operators that have no edge") {
  OperatorNetwork network;
  for (std::int64_t i = 0; i < 7; ++i) network.operators.push_back({.tensor_size = i});
  network.edges = {{5, 4}, {1, 2}, {1, 2}};
  const OperatorNetwork kept = largest_component(network);
  REQUIRE(kept.operators.size() == 2);
  CHECK(kept.operators[0].tensor_size == 1);
  CHECK(kept.edges == std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 1}, {0, 1}});
  CHECK(largest_component({.operators = network.operators, .edges = {}}).operators.empty());
  CHECK(largest_component({}).operators.empty());
}

TEST_CASE("networks that cannot be grouped are refused") {
  CHECK_THROWS_WITH_AS(group_operators(path(99)),
                       "the operator graph has 99 connected operators: too few for 100 groups", InputError);
  CHECK_THROWS_WITH_AS(group_operators(path(3), 0), "expected at least 1 group of operators", InputError);
  OperatorNetwork parts = path(6);
  parts.edges.erase(parts.edges.begin() + 2);
  CHECK_THROWS_WITH_AS(group_operators(parts, 2),
                       "the operator graph has 2 parts without edge between them; expected 1", InputError);
  CHECK_THROWS_WITH_AS(group_operators({.operators = {{}}, .edges = {{0, 1}}}, 1),
                       "an edge joins operators 0 and 1 of 1", InputError);
}

}  // namespace rehearse
