#include "predictor/driple/driple_jobs.hpp"

#include <doctest/doctest.h>

#include "sim/base/errors.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {
namespace {

/// A chain of `size` operators on the GPU.
std::vector<GraphDefNode> chain(int size) {
  std::vector<GraphDefNode> nodes;
  for (int i = 0; i < size; ++i) {
    nodes.push_back({"n" + std::to_string(i), "Add", "/job:worker/device:GPU:0", {}, {4}});
    if (i > 0) nodes.back().inputs = {"n" + std::to_string(i - 1)};
  }
  return nodes;
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

TEST_CASE("jobs of which there are four rows have labels, in the order of the resources") {
  const test::TemporaryFolder folder;
  const std::string table =
      kHeader + label_rows("j1", 10) + label_rows("j3", 30) + "V100,cifar,net,sync,b32,short,GPU util,1,2,3\n";
  const auto labels = load_job_labels(folder.write("labels.csv", table));
  REQUIRE(labels.size() == 2);
  // rows of job 3: tx 30.., gpu 33.., mem 36.., rx 39..; labels: mem, gpu, rx, tx
  CHECK(labels.at("V100_cifar_net_sync_b32_j3") ==
        std::array<float, 12>{36, 37, 38, 33, 34, 35, 39, 40, 41, 30, 31, 32});
  const auto wrong = folder.write("wrong.csv", kHeader + "V100,c,n,sync,b,j,Disk,1,2,3\n");
  CHECK_THROWS_AS(load_job_labels(wrong), InputError);
}

TEST_CASE("groups have the operators and the sizes of a graph, and a graph of fewer operators is refused") {
  const GroupedGraph grouped = group_gpu_operators(chain(115), {{"Add", 0.25}}, "g");
  CHECK(grouped.features.size() == 100);
  double operators = 0, sizes = 0;
  for (const auto& row : grouped.features) {
    sizes += row[0];
    operators += row[1];
  }
  CHECK(operators == 115);
  CHECK(sizes == 460);
  CHECK(grouped.edges.size() >= 99);
  CHECK_THROWS_WITH_AS(group_gpu_operators(chain(12), {{"Add", 0.25}}, "g"),
                       "g: the operator graph has 12 connected operators: too few for 100 groups", InputError);
}

}  // namespace rehearse
