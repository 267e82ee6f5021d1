#include "predictor/merge.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "predictor/driple_export.hpp"
#include "sim/base/errors.hpp"
#include "tests/support/synthetic_dataset.hpp"

namespace rehearse {

TEST_CASE("graphs and settings that are the same become one, other settings of a name get names of their own") {
  MergedDataset merged;
  merged.add(test::synthetic_dataset(4));
  Dataset more = test::synthetic_dataset(6);  // the first four graphs are the same
  for (Sample& sample : more.samples) sample.origin = Origin::kMeasured;
  more.settings[1].provenance = R"({"name": "another"})";
  merged.add(more);
  more.settings[1].provenance = R"({"name": "a third"})";
  merged.add(more);
  const Dataset& whole = merged.dataset();
  CHECK(whole.graphs.size() == 6);
  REQUIRE(whole.settings.size() == 6);
  CHECK(whole.settings[4].name == "a asynchronous 2");
  CHECK(whole.settings[5].name == "a asynchronous 3");
  CHECK(whole.settings[5].group == whole.settings[1].group);
  CHECK(whole.samples.size() == 4U * (4 + 6 + 6));
  CHECK(whole.samples[16].setting == 0);
  CHECK(whole.samples[17].setting == 4);
  CHECK(whole.samples[16].origin == Origin::kMeasured);
}

TEST_CASE("a model stays in the split of the first dataset that has it, whatever its batch") {
  Dataset first = test::synthetic_dataset(1), second = test::synthetic_dataset(2);
  first.graphs[0].name = "net batch 32";
  for (Sample& sample : first.samples) sample.split = Split::kTest;
  second.graphs[0].name = "net batch 64";
  second.graphs[1].name = "other batch 64";
  for (Sample& sample : second.samples) sample.split = Split::kValidation;
  MergedDataset merged;
  CHECK(merged.add(first).empty());
  // Two settings with two samples each are four samples of a graph.
  CHECK(merged.add(second) ==
        std::vector<std::string>{
            R"(4 samples move from the split "validation" to "test", where earlier datasets have "net")"});
  CHECK(merged.add(first).empty());
  for (const Sample& sample : merged.dataset().samples)
    CHECK(sample.split == (sample.graph == 2 ? Split::kValidation : Split::kTest));
}

TEST_CASE(
    "a measured model stays in the split of the first dataset that has it in the study, whatever simulated ones do") {
  const auto of_study = [](const std::string& study, Origin origin, Split split) {
    Dataset data = test::synthetic_dataset(1);
    data.graphs[0].name = "net batch 32";
    for (DatasetSetting& setting : data.settings) {
      setting.name = study + ": " + setting.name;
      setting.group = study;
    }
    for (Sample& sample : data.samples) {
      sample.origin = origin;
      sample.split = split;
    }
    return data;
  };
  MergedDataset merged;
  merged.add(of_study("simulated", Origin::kSimulated, Split::kTrain));
  merged.add(of_study("a", Origin::kMeasured, Split::kTest));
  merged.add(of_study("b", Origin::kMeasured, Split::kValidation));
  merged.add(of_study("a", Origin::kMeasured, Split::kTrain));
  merged.add(of_study("other simulated", Origin::kSimulated, Split::kTest));
  const Dataset& whole = merged.dataset();
  CHECK(whole.graphs.size() == 1);
  for (const Sample& sample : whole.samples) {
    const std::string& study = study_of(whole, sample);
    CHECK(sample.split == (study == "a" ? Split::kTest : study == "b" ? Split::kValidation : Split::kTrain));
  }
}

TEST_CASE("of samples that move to another split three models are named, and how many more there are") {
  Dataset first = test::synthetic_dataset(5), second = test::synthetic_dataset(5);
  for (std::size_t g = 0; g < 5; ++g)
    first.graphs[g].name = second.graphs[g].name = "net" + std::to_string(g) + " batch 8";
  for (Sample& sample : first.samples) sample.split = Split::kTrain;
  for (Sample& sample : second.samples) sample.split = sample.graph == 4 ? Split::kValidation : Split::kTest;
  MergedDataset merged;
  merged.add(first);
  CHECK(
      merged.add(second) ==
      std::vector<std::string>{
          R"(4 samples move from the split "validation" to "train", where earlier datasets have "net4")",
          R"(16 samples move from the split "test" to "train", where earlier datasets have "net0", "net1", "net2" and 1 more)"});
}

TEST_CASE("datasets with other columns are not put together") {
  MergedDataset merged;
  merged.add(test::synthetic_dataset(2));
  Dataset other = test::synthetic_dataset(2);
  other.labels[0] = "x";
  CHECK_THROWS_WITH_AS(merged.add(other), "the datasets cannot be put together: their labels differ", InputError);
  CHECK_THROWS_AS(merged.add(with_groups(test::synthetic_dataset(2), {})), InputError);
}

TEST_CASE("splits are dealt by model, the largest first, and a lone one is for training") {
  CHECK(model_of("resnet50 batch 32") == "resnet50");
  CHECK(model_of("resnet50") == "resnet50");
  const auto dealt = [](const std::vector<int>& samples_of_models) {
    Dataset data;
    std::vector<std::string> models;
    for (std::size_t m = 0; m < samples_of_models.size(); ++m) {
      models.push_back("net" + std::to_string(m));
      for (int i = 0; i < samples_of_models[m]; ++i) data.samples.push_back({.graph = static_cast<std::int32_t>(m)});
    }
    deal_splits(data, models);
    std::string splits(models.size(), '?');
    for (const Sample& sample : data.samples) {
      char& split = splits[static_cast<std::size_t>(sample.graph)];
      const char letter = to_text(sample.split)[0] == 't' ? to_text(sample.split)[1] : 'v';  // train, test, validation
      CHECK((split == '?' || split == letter));
      split = letter;
    }
    return splits;
  };
  CHECK(dealt({3}) == "r");
  CHECK(dealt({2, 1}) == "rv");
  CHECK(dealt({1, 1, 1}) == "rvr");
  // 50 of 50; 20 of 70 (lacking -8, 14, 14); 15 of 85 (1, -3, 17); 10 of 95 (7, -1, 4); 5 of 100 (0, 0, 5)
  CHECK(dealt({50, 20, 15, 10, 5}) == "rvere");
}

TEST_CASE("measured splits are dealt by study and model, and a large study does not fill one alone") {
  // Studies a to f, rows of their models x, y, z. The weight of a is a quarter: 900 rows count as 30, where 90 are of others.
  const std::vector<std::vector<int>> rows{{500, 250, 150}, {12, 6}, {18}, {10, 8}, {18}, {18}};
  Dataset data;
  const std::vector<std::string> models{"x", "y", "z"};
  for (std::size_t study = 0; study < rows.size(); ++study) {
    const std::string name(1, static_cast<char>('a' + study));
    data.settings.push_back({.name = name + ": cluster", .group = name});
    for (std::size_t model = 0; model < rows[study].size(); ++model)
      for (int i = 0; i < rows[study][model]; ++i)
        data.samples.push_back({.graph = static_cast<std::int32_t>(model),
                                .setting = static_cast<std::int32_t>(study),
                                .origin = Origin::kMeasured});
  }
  deal_splits(data, models);
  std::map<std::string, std::set<Split>> splits;             // by study and model
  std::map<Split, std::set<std::string>> studies_of_splits;  // where it is
  for (const Sample& sample : data.samples) {
    const std::string& study = study_of(data, sample);
    splits[study + models[static_cast<std::size_t>(sample.graph)]].insert(sample.split);
    studies_of_splits[sample.split].insert(study);
  }
  CHECK(splits.size() == 10);
  for (const auto& [unit, of_unit] : splits) CHECK(of_unit.size() == 1);
  CHECK(studies_of_splits[Split::kTest].size() >= 2);
  CHECK(studies_of_splits[Split::kValidation].size() >= 2);
  CHECK(studies_of_splits[Split::kTrain].contains("a"));
}

TEST_CASE("a graph of groups goes into a dataset and back") {
  const TypeFrequencies frequencies{{"Conv2D", 0.25}, {"Relu", 0.5}};
  const Dataset data = test::synthetic_dataset(3), grouped = with_groups(data, frequencies);
  CHECK(grouped.node_features == group_feature_names());
  for (std::size_t g = 0; g < data.graphs.size(); ++g) {
    const GroupedGraph expected = group_graph(data.graphs[g], frequencies), found = to_grouped_graph(grouped.graphs[g]);
    CHECK(found.edges == expected.edges);
    REQUIRE(found.features.size() == expected.features.size());
    for (std::size_t i = 0; i < expected.features.size(); ++i)
      for (std::size_t k = 0; k < 3; ++k) CHECK(found.features[i][k] == doctest::Approx(expected.features[i][k]));
  }
}

}  // namespace rehearse
