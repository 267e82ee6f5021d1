#include "predictor/driple/measured_dataset.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "predictor/described_step.hpp"
#include "predictor/driple/driple_jobs.hpp"
#include "predictor/driple_export.hpp"
#include "predictor/labels.hpp"
#include "predictor/merge.hpp"
#include "sim/base/errors.hpp"
#include "tests/support/simulated.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse::measured_dataset_test {
namespace {

const std::string kScenario = source_folder() + "/scenarios/driple/01-v100-ps1-w2.json";
const std::string kFrequencies = source_folder() + "/calibration/data/driple/op_type_frequency.csv";

MeasuredDataset load(const test::TemporaryFolder& folder, const std::string& entries, bool is_grouped = false) {
  const auto file = folder.write("list.json", R"({ "format": 1, "source": "us", )" + entries + " }");
  std::optional<TypeFrequencies> frequencies;
  if (is_grouped) frequencies = load_type_frequencies(kFrequencies);
  return measured_dataset_of(load_measurement_list(file), test::shipped_catalog(), frequencies);
}

/// A chain of `size` operators on the GPU.
std::string chain(int size) {
  std::string text;
  for (int i = 0; i < size; ++i) {
    text += "node { name: \"n" + std::to_string(i) + "\" op: \"Relu\" device: \"/device:GPU:0\"";
    if (i > 0) text += " input: \"n" + std::to_string(i - 1) + "\"";
    text += " attr { key: \"_output_shapes\" value { list { shape { dim { size: -1 } dim { size: 4 } } } } } }\n";
  }
  return text;
}

std::string results_of(const std::string& key, int start) {
  std::string rows;
  for (const char* resource : {"GPU MEM util", "GPU util", "Network_rx", "Network_tx"}) {
    rows += key + "," + resource;
    for (int k = 0; k < 3; ++k) rows += "," + std::to_string(start++);
    rows += "\n";
  }
  return rows;
}

}  // namespace

TEST_CASE("a measured profile becomes a sample of the scenario's workload, at the period of its series") {
  const test::TemporaryFolder folder;
  folder.write("series.csv", "time_s,gpu_utilization\n0,0\n0.2,1\n0.4,0\n0.6,1\n0.8,0\n");
  const MeasuredDataset made = load(folder, R"("profiles": [ { "scenario": ")" + kScenario +
                                                R"(", "model": "resnet18", "batch_per_worker": 8, "family": "resnet",
                                                "series": "series.csv", "weight": 3 } ])");
  const Dataset& data = made.dataset;
  REQUIRE(data.samples.size() == 1);
  CHECK(data.graphs[0].name == "resnet18 batch 8");
  CHECK(data.graphs[0].family == "resnet");
  CHECK(parse_json(data.graphs[0].provenance, "p")["batch_per_worker"] == 8);
  CHECK(data.nodes(data.graphs[0]) > 100);
  CHECK(parse_json(data.settings[0].provenance, "p")["output"]["sampling_period"] == "0.2s");
  const DescribedStep step = described_step(data.samples[0].step, "sample");
  for (std::size_t t = 0; t < step.totals.size(); ++t)
    if (step_totals()[t].name == std::string{"sampling_period_s"}) CHECK(step.totals[t] == doctest::Approx(0.2));
  CHECK(data.samples[0].origin == Origin::kMeasured);
  CHECK(data.samples[0].weight == 3);
  CHECK(data.samples[0].split == Split::kTrain);  // the only job
  CHECK(data.samples[0].labels[4] == doctest::Approx(0.2));
  CHECK(std::isnan(data.samples[0].labels[0]));
  const auto file = folder.path / "measured.db";
  write_dataset(file, data);
  CHECK(load_dataset(file).samples.size() == 1);
}

TEST_CASE("a model is in the split that it is told to be in, its setting in the study") {
  const test::TemporaryFolder folder;
  const auto job = [](const std::string& model, const std::string& more) {
    return R"({ "scenario": ")" + kScenario + R"(", "step_time": "20ms", "model": ")" + model + "\"" + more + " }";
  };
  const std::string told = R"(, "split": "test", "study": "ours")";
  const Dataset data =
      load(folder, "\"profiles\": [" + job("resnet18", told) + ", " + job("alexnet", "") + "]").dataset;
  REQUIRE(data.samples.size() == 2);
  CHECK(data.samples[0].split == Split::kTest);
  CHECK(data.samples[1].split != Split::kTest);
  CHECK(std::ranges::any_of(data.settings, [](const DatasetSetting& setting) { return setting.group == "ours"; }));
  CHECK_THROWS_WITH_AS(
      load(folder, "\"profiles\": [" + job("resnet18", told) + ", " + job("resnet18", R"(, "split": "train")") + "]"),
      doctest::Contains(R"(the model "resnet18" is told to be in two splits, "test" and "train")"), InputError);
}

TEST_CASE("Driple's jobs become samples with the twelve labels, from text and binary GraphDefs") {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path / "graphs");
  folder.write("graphs/V100_cifar_net_sync_b32_j1.pbtxt", chain(120));
  // node { name: "a" op: "Relu" device: "GPU" }
  folder.write("graphs/V100_cifar_net_sync_b32_j2.pb", "\x0a\x10\x0a\x01\x61\x12\x04Relu\x22\x05GPU:0");
  folder.write("graphs/V100_cifar_net_sync_b32_j3.pbtxt", chain(3));  // without results
  folder.write("results.csv",
               "GPU,Data Set,Model,Sync/Async,Hyper-Parameter,Job Name,Resource,avg Idle time,avg Active time,avg Peak "
               "consumption\n" +
                   results_of("V100,cifar,net,sync,b32,j1", 1) + results_of("V100,cifar,net,sync,b32,j2", 21));
  const std::string jobs =
      R"("jobs": [ { "scenario": ")" + kScenario + R"(", "graphs": "graphs", "results": "results.csv" } ])";
  CHECK_THROWS_WITH_AS(load(folder, jobs), doctest::Contains("a GraphDef does not say what the kernels of a step cost"),
                       InputError);
  // The second graph is too small.
  CHECK_THROWS_WITH_AS(load(folder, jobs, true),
                       doctest::Contains("b32_j2.pb: the operator graph has 0 connected operators"), InputError);
  std::filesystem::remove(folder.path / "graphs/V100_cifar_net_sync_b32_j2.pb");
  const Dataset grouped = load(folder, jobs, true).dataset;
  REQUIRE(grouped.samples.size() == 1);
  CHECK(grouped.graphs[0].name == "V100_cifar_net_sync_b32_j1");
  CHECK(grouped.graphs[0].family == "net");
  for (std::size_t l = 0; l < kBurstLabels; ++l) CHECK(grouped.samples[0].labels[l] == 1.0 + static_cast<double>(l));
  CHECK(std::isnan(grouped.samples[0].labels[12]));
  CHECK(grouped.node_features == group_feature_names());
  const GroupedGraph expected =
      group_gpu_operators(load_graph_def(folder.path / "graphs/V100_cifar_net_sync_b32_j1.pbtxt"),
                          load_type_frequencies(kFrequencies), "j1");
  const GroupedGraph found = to_grouped_graph(grouped.graphs[0]);
  CHECK(found.edges == expected.edges);
  for (std::size_t i = 0; i < found.features.size(); ++i)
    for (std::size_t k = 0; k < 3; ++k)
      CHECK(static_cast<float>(found.features[i][k]) == static_cast<float>(expected.features[i][k]));
}

TEST_CASE("lists of measurements that cannot be used are refused with one line") {
  const test::TemporaryFolder folder;
  const std::string profile = R"("profiles": [ { "scenario": ")" + kScenario + R"(", "step_time": "1s", )";
  CHECK_THROWS_WITH_AS(load(folder, profile + R"("model": "resnet1" } ])"), doctest::Contains("resnet1"), InputError);
  CHECK_THROWS_WITH_AS(load(folder, profile + R"("graph": "none.pbtxt" } ])"), doctest::Contains("none.pbtxt"),
                       InputError);
  CHECK_THROWS_WITH_AS(load(folder, profile + R"("series": "none.csv" } ])"), doctest::Contains("none.csv"),
                       InputError);
  CHECK_THROWS_WITH_AS(load(folder, profile + R"("set": { "/a/b": 1 } } ])"),
                       doctest::Contains("list.json: /profiles/0/set/~1a~1b: unknown key \"a\""), InputError);
}

}  // namespace rehearse::measured_dataset_test
