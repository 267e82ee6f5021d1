#include "predictor/driple_export.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/synthetic_dataset.hpp"

namespace rehearse {

namespace {

/// A chain of `operators` activations in one graph.
DatasetGraph chain(int operators) {
  DatasetGraph graph{.family = "f", .name = "chain", .provenance = "{}", .features = {}, .edges = {}};
  for (int i = 0; i < operators; ++i) {
    graph.features.insert(graph.features.end(), {static_cast<float>(OperatorKind::kActivation), 0, 0, 1, 1, 0,
                                                 static_cast<float>(i), 0, 0, 0, 0, 0, 0, -1, 0, -1, 0, 0});
    if (i > 0) graph.edges.push_back({i - 1, i});
  }
  return graph;
}

}  // namespace

TEST_CASE("a setting's samples come in their splits, with their metrics, and are read back from the file") {
  Dataset data = test::synthetic_dataset(0);
  for (int g = 0; g < 12; ++g) {
    data.graphs.push_back(chain(g == 11 ? 99 : 100 + 10 * g));
    for (std::int32_t setting = 0; setting < 2; ++setting) {
      std::vector<double> labels(data.labels.size(), g + 100.0 * setting);
      if (g == 10) labels[3] = std::nan("");
      data.samples.push_back({.graph = g,
                              .setting = setting,
                              .split = g < 6   ? Split::kTrain
                                       : g < 8 ? Split::kValidation
                                               : Split::kTest,
                              .labels = labels});
    }
  }
  std::vector<GroupedGraph> grouped;
  for (const DatasetGraph& graph : data.graphs) grouped.push_back(group_graph(graph, {{"Relu", 0.5}}));
  CHECK(grouped[11].features.size() == 99);
  std::size_t left_out = 0;
  const DripleDataset driple = driple_dataset_of(data, 1, grouped, left_out);
  CHECK(left_out == 2);  // one metric is not known, one graph is too small
  CHECK(driple.train.size() == 6);
  CHECK(driple.val.size() == 2);
  CHECK(driple.test.size() == 2);
  CHECK(driple.val[1].labels[11] == 107.0F);
  const DripleSample& sample = driple.train[3];
  double size = 0, operators = 0, frequency = 0;
  for (const auto& row : sample.features) size += row[0], operators += row[1], frequency += row[2];
  CHECK(size == 130 * 129 / 2);
  CHECK(operators == 130);
  CHECK(frequency == doctest::Approx(65));

  const DripleDataset read = parse_driple_dataset(to_driple_file(driple, 2), "file");
  REQUIRE(read.train.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(read.train[i].features == driple.train[i].features);
    CHECK(read.train[i].labels == driple.train[i].labels);
    CHECK(read.train[i].edges.size() == driple.train[i].edges.size());
  }
  CHECK(driple_dataset_of(data, 3, grouped, left_out).train.empty());
}

}  // namespace rehearse
