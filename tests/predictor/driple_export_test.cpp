#include "predictor/driple_export.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <cmath>

#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"
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

namespace {

/// Two graphs for training and one for each other split, in the second of two settings.
Dataset dataset_of_groups() {
  Dataset data = test::synthetic_dataset(0);
  for (int g = 0; g < 4; ++g) {
    data.graphs.push_back(chain(100 + g));
    data.graphs.back().name = "chain " + std::to_string(g);
    data.samples.push_back({.graph = g,
                            .setting = 2,
                            .split = g < 2    ? Split::kTrain
                                     : g == 2 ? Split::kValidation
                                              : Split::kTest,
                            .labels = std::vector<double>(data.labels.size(), g + 0.5)});
  }
  return data;
}

DripleDataset driple_of(const Dataset& data) {
  std::vector<GroupedGraph> grouped;
  for (const DatasetGraph& graph : data.graphs) grouped.push_back(group_graph(graph, {{"Relu", 0.5}}));
  std::size_t left_out = 0;
  return driple_dataset_of(data, 2, grouped, left_out);
}

}  // namespace

TEST_CASE("what generate writes for Driple is read as the setting, the splits and the graphs that it was") {
  const Dataset data = dataset_of_groups();
  const DripleDataset written = driple_of(data);
  const Dataset read = dataset_of(parse_driple_dataset(to_driple_file(written, 1), "f"), {"f", "file"});
  REQUIRE(read.settings.size() == 1);
  CHECK(read.settings[0].name == data.settings[2].name);
  CHECK(read.settings[0].group == data.settings[2].group);
  CHECK(Json::parse(read.settings[0].provenance) == Json::parse(data.settings[2].provenance));
  CHECK(read.node_features == group_feature_names());
  REQUIRE(read.samples.size() == 4);
  for (std::size_t g = 0; g < 4; ++g) {
    CHECK(read.graphs[g].name == data.graphs[g].name);
    CHECK(read.graphs[g].family == "f");
    CHECK(read.samples[g].split == data.samples[g].split);
    CHECK(read.samples[g].origin == Origin::kSimulated);
    CHECK(read.samples[g].labels[0] == data.samples[g].labels[0]);
    CHECK(std::isnan(read.samples[g].labels[kBurstLabels]));
  }
  CHECK(to_grouped_graph(read.graphs[1]).edges == written.train[1].edges);
}

TEST_CASE("a file that says nothing of itself is measured, in a setting of its name, of no known cluster") {
  DripleDataset file = driple_of(dataset_of_groups());
  file.note.clear();
  const Dataset read = dataset_of(file, {"f", "v100"});
  CHECK(read.settings[0].name == "v100");
  CHECK(read.settings[0].provenance == "{}");
  CHECK(read.graphs[0].name == "v100 train 1");
  CHECK(read.graphs[3].name == "v100 test 1");
  for (const Sample& sample : read.samples) CHECK(sample.origin == Origin::kMeasured);
  CHECK(study_of(read, read.samples[0]).empty());
  CHECK(repeated_graphs(read) == 0);
  file.test[0].features = file.train[0].features;
  CHECK(repeated_graphs(dataset_of(file, {"f", "v100"})) == 0);  // its edges differ
  file.test[0].edges = file.train[0].edges;
  CHECK(repeated_graphs(dataset_of(file, {"f", "v100"})) == 1);
}

TEST_CASE("a note that is none of ours is refused with its place") {
  DripleDataset file = driple_of(dataset_of_groups());
  const std::string note = file.note;
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& message) {
    CAPTURE(message);
    file.note = note;
    const std::size_t at = file.note.find(from);
    REQUIRE(at != std::string::npos);
    file.note.replace(at, from.size(), to);
    std::string found;
    try {
      dataset_of(file, {"f", "v100"});
    } catch (const InputError& error) { found = error.what(); }
    CHECK(found.find(message) != std::string::npos);
  };
  refused("\"simulated\"", "\"guessed\"", "f: rehearse.json: /origin: expected simulated or measured");
  refused("\"format\": 1", "\"format\": 2", "f: rehearse.json: /format: expected 1");
  refused("\"scenario\": {", "\"cluster\": {", "scenario");
  refused("\"chain 0\"", "\"chain 0\", \"more\"", "/graphs/train/0: expected the family and the name of a graph");
  refused("\"val\"", "\"other\"", "val");
  file.note = note;
  file.train.push_back(file.train[0]);
  CHECK_THROWS_WITH_AS(dataset_of(file, {"f", "v100"}),
                       "f: rehearse.json: /graphs/train: expected the names of 3 graphs; found 2", InputError);
}

}  // namespace rehearse
