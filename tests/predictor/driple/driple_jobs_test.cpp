#include "predictor/driple/driple_jobs.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {
namespace {

const std::string kFrequencies = source_folder() + "/calibration/data/driple/op_type_frequency.csv";

/// A chain of `size` operators on the GPU.
std::string chain(int size) {
  std::string text;
  for (int i = 0; i < size; ++i) {
    text += "node { name: \"n" + std::to_string(i) + "\" op: \"Add\" device: \"/job:worker/device:GPU:0\"";
    if (i > 0) text += " input: \"n" + std::to_string(i - 1) + "\"";
    text += " attr { key: \"_output_shapes\" value { list { shape { dim { size: 4 } } } } } }\n";
  }
  return text;
}

std::string label_rows(const std::string& job, double start) {
  std::string rows;
  for (const char* resource : {"Network_tx", "GPU util", "GPU MEM util", "Network_rx"}) {
    rows += "V100,cifar,net,sync,b32," + job + "," + resource;
    for (int k = 0; k < 3; ++k) rows += "," + std::to_string(start++);
    rows += "\n";
  }
  return rows;
}

const std::string kHeader =
    "GPU,Data Set,Model,Sync/Async,Hyper-Parameter,Job Name,Resource,avg Idle time,avg Active time,avg Peak "
    "consumption\n";

}  // namespace

TEST_CASE("operators on the GPU are kept, with their inputs, sizes and frequencies") {
  const std::string gpu = "/device:GPU:0";
  const std::vector<GraphDefNode> nodes{
      {"a", "Add", gpu, {}, {2, 3}},          {"host", "Add", "/device:CPU:0", {"a"}, {7}},
      {"b", "Add", gpu, {"a:1", "host"}, {}}, {"c", "AddN", gpu, {"^a", "b", "later:0"}, {4, -1, 3, 5}},
      {"later", "Add", gpu, {}, {5, -1}},     {"d", "Add", gpu, {}, {0, 9}}};
  const OperatorNetwork network = gpu_operators(nodes, {{"Add", 0.25}, {"AddN", 0.5}}, "g");
  std::vector<std::int64_t> sizes;
  for (const auto& op : network.operators) sizes.push_back(op.tensor_size);
  CHECK(sizes == std::vector<std::int64_t>{6, 0, 15, 0, 9});  // 0 counts as 1 before the next dimension
  CHECK(network.operators[2].type_frequency == 0.5);
  CHECK(network.edges == std::vector<std::pair<std::uint32_t, std::uint32_t>>{{1, 0}, {2, 0}, {2, 1}, {2, 3}});
  CHECK_THROWS_WITH_AS(gpu_operators(nodes, {{"Add", 0.25}}, "g"),
                       "g: node \"c\": no frequency is known of the operator type \"AddN\"; nearest: \"Add\"",
                       InputError);
}

TEST_CASE("jobs with a graph and four rows become samples, in a shuffled order that the seed fixes") {
  const test::TemporaryFolder folder;
  std::string table = kHeader;
  for (int i = 0; i < 5; ++i) {
    const std::string job = "j" + std::to_string(i);
    table += label_rows(job, 10.0 * i);
    folder.write("V100_cifar_net_sync_b32_" + job + ".pbtxt", chain(12 + i));
  }
  folder.write("V100_cifar_net_sync_b32_unmeasured.pbtxt", chain(12));
  table += "V100,cifar,net,sync,b32,short,GPU util,1,2,3\n";  // one row of four
  folder.write("V100_cifar_net_sync_b32_short.pbtxt", chain(12));
  const DripleJobs jobs{.graph_folder = folder.path,
                        .labels = folder.write("labels.csv", table),
                        .frequencies = load_type_frequencies(kFrequencies),
                        .groups = 10,
                        .largest_count = 4};
  std::vector<std::string> names;
  const std::vector<DripleSample> samples = load_driple_jobs(jobs, &names);
  // random.seed(42); x = [0, 1, 2, 3, 4]; random.shuffle(x)  ->  [3, 1, 2, 4, 0]
  CHECK(names == std::vector<std::string>{"V100_cifar_net_sync_b32_j3", "V100_cifar_net_sync_b32_j1",
                                          "V100_cifar_net_sync_b32_j2", "V100_cifar_net_sync_b32_j4"});
  REQUIRE(samples.size() == 4);
  CHECK(samples[0].features.size() == 10);
  float operators = 0, sizes = 0;
  for (const auto& row : samples[0].features) {
    operators += row[1];
    sizes += row[0];
  }
  CHECK(operators == 15);
  CHECK(sizes == 60);
  CHECK(samples[0].edges.size() >= 9);
  // rows of job 3: tx 30.., gpu 33.., mem 36.., rx 39..; labels: mem, gpu, rx, tx
  CHECK(samples[0].labels == std::array<float, 12>{36, 37, 38, 33, 34, 35, 39, 40, 41, 30, 31, 32});
}

TEST_CASE("jobs that cannot be used are refused with one line") {
  const test::TemporaryFolder folder;
  DripleJobs jobs{.graph_folder = folder.path, .labels = folder.write("labels.csv", kHeader + label_rows("j", 1))};
  CHECK_THROWS_WITH_AS(
      load_driple_jobs(jobs),
      (folder.path.string() + ": has no graph (NAME.pbtxt) of a job in " + jobs.labels.string()).c_str(), InputError);
  const auto graph = folder.write("V100_cifar_net_sync_b32_j.pbtxt", chain(12));
  jobs.frequencies = load_type_frequencies(kFrequencies);
  CHECK_THROWS_WITH_AS(
      load_driple_jobs(jobs),
      (graph.string() + ": the operator graph has 12 connected operators: too few for 100 groups").c_str(), InputError);
  const auto wrong = folder.write("wrong.csv", kHeader + "V100,c,n,sync,b,j,Disk,1,2,3\n");
  CHECK_THROWS_AS(load_job_labels(wrong), InputError);
}

}  // namespace rehearse
