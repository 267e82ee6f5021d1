#include "workloads/graph_builder.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "sim/base/errors.hpp"

namespace rehearse {

namespace {

Workload small_network(int batch) {
  GraphBuilder graph{"test", "small", Layout::kNchw, batch, Precision::kFp32};
  const auto images = graph.input(8, 8, 3);
  const auto x = graph.relu("relu", graph.batch_norm("bn", graph.convolution("conv", images, 16, 3, 2, true)));
  const auto left = graph.convolution("left", x, 16, 3, 1, false);
  const auto sum = graph.add("sum", std::vector{left, x});
  return graph.finish(graph.dense("dense", graph.global_average_pool("pool", sum), 10));
}

}  // namespace

TEST_CASE("padding \"same\" gives ceil(input / stride) outputs") {
  GraphBuilder graph{"test", "shapes", Layout::kNchw, 1, Precision::kFp32};
  const auto images = graph.input(7, 8, 3);
  const auto x = graph.convolution("conv", images, 4, 3, 2, false);
  CHECK(x.height == 4);
  CHECK(x.width == 4);
  CHECK(x.channels == 4);
  const auto y = graph.max_pool("pool", x, 2, 2);
  CHECK(y.height == 2);
  const auto z = graph.concatenate("concat", std::vector{y, y});
  CHECK(z.channels == 8);
}

TEST_CASE("a convolution's kernels have the shapes of its three matrix products") {
  const Workload workload = small_network(2);
  // 8x8x3 -> 4x4x16 with a 3x3 kernel: 2 * 4 * 4 rows, 16 columns, 27 terms; 2 FLOPs each.
  const Operator& conv = workload.graph[0];
  CHECK(conv.matrix.rows == 32);
  CHECK(conv.matrix.columns == 16);
  CHECK(conv.matrix.reduction == 27);
  CHECK(conv.flops == Flops{2.0 * 32 * 16 * 27});
  CHECK_FALSE(conv.is_3x3_stride_1);
}

TEST_CASE("every variable's gradient or moving average is produced exactly once, and every trainable one updated once") {
  const Workload workload = small_network(4);
  std::vector<int> produced(workload.variables.size()), updates(1);
  for (std::size_t v = 0; v < num_vertices(workload.graph); ++v) {
    for (const int variable : workload.graph[v].produces_gradients) ++produced[static_cast<std::size_t>(variable)];
    if (workload.graph[v].phase == Phase::kUpdate) ++updates[0];
  }
  for (const int count : produced) CHECK(count == 1);
  CHECK(updates[0] == workload.trainable_tensors());
}

TEST_CASE("creation order is a topological order") {
  const Workload workload = small_network(4);
  for (auto [edge, end] = edges(workload.graph); edge != end; ++edge)
    CHECK(source(*edge, workload.graph) < target(*edge, workload.graph));
}

TEST_CASE("doubling the batch doubles FLOPs and activations and leaves the variables") {
  const Workload one = small_network(4), two = small_network(8);
  CHECK(two.training_conv_dense_flops() == 2.0 * one.training_conv_dense_flops());
  CHECK(two.activation_bytes == 2 * one.activation_bytes);
  CHECK(two.variable_bytes() == one.variable_bytes());
}

TEST_CASE("training takes three times the forward FLOPs, less the gradient of the images") {
  const Workload workload = small_network(4);
  const Flops stem = workload.graph[0].flops;
  CHECK(workload.training_conv_dense_flops() == 3.0 * workload.forward_conv_dense_flops() - stem);
}

TEST_CASE("a tensor with two consumers gets the sum of two gradients") {
  const Workload workload = small_network(1);
  int sums = 0;
  for (std::size_t v = 0; v < num_vertices(workload.graph); ++v)
    if (workload.graph[v].name == "gradient sum") ++sums;
  CHECK(sums == 1);
}

TEST_CASE("impossible layers are refused with the place that asked for them") {
  GraphBuilder graph{"model.json: /structure", "bad", Layout::kNchw, 1, Precision::kFp32};
  const auto images = graph.input(8, 8, 3);
  CHECK_THROWS_WITH_AS((void)graph.convolution("conv", images, 4, 9, 1, false),
                       "model.json: /structure: layer conv has a kernel larger than its input", InputError);
  const auto a = graph.convolution("a", images, 4, 3, 1, false);
  CHECK_THROWS_WITH_AS((void)graph.add("sum", std::vector{a, images}),
                       "model.json: /structure: layer sum adds tensors of different shapes", InputError);
}

}  // namespace rehearse
