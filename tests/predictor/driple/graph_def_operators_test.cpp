#include "predictor/driple/graph_def_operators.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "predictor/features.hpp"
#include "predictor/labels.hpp"
#include "sim/base/errors.hpp"
#include "tests/support/synthetic_dataset.hpp"

namespace rehearse {
namespace {

const std::string kGpu = "/job:worker/device:GPU:0", kServer = "/job:ps/device:CPU:0";

GraphDefNode node(const std::string& name, const std::string& op, std::vector<std::string> inputs,
                  std::vector<std::optional<GraphDefShape>> shapes = {}, const std::string& device = kGpu) {
  GraphDefNode made{.name = name, .op = op, .device = device, .inputs = std::move(inputs), .shape = {}};
  made.shapes = std::move(shapes);
  return made;
}

/// conv 3x3, stride 2 -> ReLU -> dense -> loss of two images of 8 x 8 x 3, with its gradients and two updates.
std::vector<GraphDefNode> small_training() {
  std::vector<GraphDefNode> nodes{
      node("x", "Placeholder", {}, {{{-1, 8, 8, 3}}}),
      node("w", "VariableV2", {}, {{{3, 3, 3, 4}}}, kServer),
      node("w/initial", "TruncatedNormal", {}, {{{3, 3, 3, 4}}}),
      node("w/Assign", "Assign", {"w", "w/initial"}, {}, kServer),
      node("w/read", "Identity", {"w"}, {{{3, 3, 3, 4}}}, kServer),
      node("v", "VarHandleOp", {}, {{{64, 10}}}, kServer),
      node("v/read", "ReadVariableOp", {"v"}),
      node("conv", "Conv2D", {"x", "w/read"}),
      node("relu", "Relu", {"conv"}, {{{-1, 4, 4, 4}}}),
      node("flat", "Reshape", {"relu", "shape"}, {{{2, 64}}}),
      node("fc", "MatMul", {"flat", "v/read"}, {{{2, 10}}}),
      node("loss", "SparseSoftmaxCrossEntropyWithLogits", {"fc", "labels"}, {{{2}}, {{2, 10}}}),
      node("gradients/fc_grad/MatMul", "MatMul", {"loss:1", "v/read"}, {{{2, 64}}}),
      node("gradients/fc_grad/MatMul_1", "MatMul", {"flat", "loss:1"}, {{{64, 10}}}),
      node("gradients/flat_grad", "Reshape", {"gradients/fc_grad/MatMul"}, {{{2, 4, 4, 4}}}),
      node("gradients/relu_grad", "ReluGrad", {"gradients/flat_grad", "relu"}, {{{2, 4, 4, 4}}}),
      node("gradients/conv_grad", "Conv2DBackpropFilter", {"x", "sizes", "gradients/relu_grad"}, {{{3, 3, 3, 4}}}),
      node("w/Momentum", "VariableV2", {}, {{{3, 3, 3, 4}}}, kServer),
      node("train/w", "ApplyMomentum", {"w", "w/Momentum", "rate", "gradients/conv_grad", "momentum"}, {}, kServer),
      node("train/v", "ResourceApplyGradientDescent", {"v", "rate", "gradients/fc_grad/MatMul_1"}, {}, kServer),
      node("labels", "Const", {}, {{{2}}}),
      node("sizes", "Const", {}, {{{4}}})};
  for (GraphDefNode& each : nodes) {
    if (each.op.starts_with("Conv2D")) {
      each.strides = {1, 2, 2, 1};
      each.padding = "SAME";
    }
    each.transposes_second = each.name == "gradients/fc_grad/MatMul";
    each.transposes_first = each.name == "gradients/fc_grad/MatMul_1";
  }
  return nodes;
}

/// Column of a row of node features, by name.
double at(const DatasetGraph& graph, std::size_t row, const std::string& name) {
  const auto& names = node_feature_names();
  const auto column = static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  return static_cast<double>(graph.features.at(row * names.size() + column));
}

std::vector<double> shape_at(const DatasetGraph& graph, std::size_t row) {
  return {at(graph, row, "rows"), at(graph, row, "columns"), at(graph, row, "reduction"), at(graph, row, "products")};
}

using Doubles = std::vector<double>;

}  // namespace

TEST_CASE("the kernels of a GraphDef have the kinds, sizes and edges of a training step") {
  GraphDefGaps gaps;
  const DatasetGraph graph = operators_of(small_training(), 2, "g", gaps);
  // conv relu fc loss, MatMul MatMul_1 relu_grad conv_grad, updates of w and v
  REQUIRE(graph.nodes(node_feature_names().size()) == 10);
  const std::vector<std::pair<OperatorKind, Phase>> expected{
      {OperatorKind::kConvolution, Phase::kForward}, {OperatorKind::kActivation, Phase::kForward},
      {OperatorKind::kDense, Phase::kForward},       {OperatorKind::kSoftmaxLoss, Phase::kForward},
      {OperatorKind::kDense, Phase::kBackwardData},  {OperatorKind::kDense, Phase::kBackwardWeights},
      {OperatorKind::kActivation, Phase::kBackward}, {OperatorKind::kConvolution, Phase::kBackwardWeights},
      {OperatorKind::kUpdate, Phase::kUpdate},       {OperatorKind::kUpdate, Phase::kUpdate}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(at(graph, i, "kind") == static_cast<double>(expected[i].first));
    CHECK(at(graph, i, "phase") == static_cast<double>(expected[i].second));
  }
  // 8 x 8 in steps of 2, "same": 4 x 4 outputs of 4 channels, 2 * (2 * 16 * 4) * 27 FLOPs
  CHECK(at(graph, 0, "flops") == 6912);
  CHECK(shape_at(graph, 0) == Doubles{32, 4, 27, 1});
  CHECK(at(graph, 0, "output_elements") == 128);
  CHECK(at(graph, 0, "bytes_read") == 4 * (2 * 8 * 8 * 3 + 108));
  CHECK(at(graph, 0, "bytes_written") == 4 * 128);
  CHECK(at(graph, 0, "parameter_bytes") == 432);
  CHECK(at(graph, 0, "variables") == 1);
  CHECK(at(graph, 0, "variable") == 0);
  CHECK(at(graph, 0, "is_3x3_stride_1") == 0);
  CHECK(at(graph, 0, "input_bytes") == 4 * 2 * 8 * 8 * 3);
  CHECK(at(graph, 1, "input_bytes") == 0);
  CHECK(at(graph, 2, "flops") == 2 * 2 * 64 * 10);
  CHECK(at(graph, 2, "variable") == 1);
  CHECK(shape_at(graph, 4) == Doubles{2, 64, 10, 1});
  CHECK(shape_at(graph, 5) == Doubles{64, 10, 2, 1});
  CHECK(at(graph, 4, "variables") == 0);  // waits for nothing that the forward kernel has not waited for
  CHECK(at(graph, 7, "flops") == 6912);
  CHECK(shape_at(graph, 7) == Doubles{27, 4, 32, 1});
  CHECK(at(graph, 8, "parameter_bytes") == 432);
  CHECK(at(graph, 8, "bytes_read") == 3 * 432);  // variable, gradient, one slot
  CHECK(at(graph, 8, "bytes_written") == 2 * 432);
  CHECK(at(graph, 9, "bytes_read") == 2 * 2560);
  const std::vector<GraphEdge> edges{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {1, 5}, {3, 5},
                                     {1, 6}, {4, 6}, {6, 7}, {7, 8}, {5, 9}};
  CHECK(graph.edges == edges);
  CHECK(gaps.kernels == 8);
  CHECK(gaps.variables == 2);
  CHECK(gaps.updates == 2);
  CHECK(gaps.without_shape == 0);
  CHECK(gaps.without_flops == 0);
  CHECK(to_text(gaps).empty());
  CHECK(gaps.other_types == 0);
  CHECK(gaps.without_size == 0);
}

TEST_CASE("moving averages belong to the normalisation that they follow, and counters to none") {
  std::vector<GraphDefNode> nodes{node("x", "Placeholder", {}, {{{2, 8, 8, 4}}})};
  for (const char* name : {"gamma", "beta", "mean", "variance", "step"}) {
    nodes.push_back(node(name, "VariableV2", {}, {{{4}}}, kServer));
    nodes.push_back(node(std::string{name} + "/read", "Identity", {name}, {{{4}}}, kServer));
  }
  nodes.push_back(node("bn", "FusedBatchNorm", {"x", "gamma/read", "beta/read", "mean/read", "variance/read"},
                       {{{2, 8, 8, 4}}, {{4}}, {{4}}}));
  int output = 1;
  for (const std::string name : {"mean", "variance"}) {
    nodes.push_back(node(name + "/Sub", "Sub", {name + "/read", "bn:" + std::to_string(output++)}, {{{4}}}, kServer));
    nodes.push_back(node(name + "/Mul", "Mul", {name + "/Sub", "decay"}, {{{4}}}, kServer));
    nodes.push_back(node(name + "/AssignMovingAvg", "AssignSub", {name, name + "/Mul"}, {{{4}}}));
  }
  nodes.push_back(node("step/add", "AssignAdd", {"step", "one"}));
  nodes.push_back(node("step/back", "AssignSub", {"step", "one"}));
  nodes.push_back(node("gradients/bn", "FusedBatchNormGrad", {"bn", "x", "gamma/read"}, {{{2, 8, 8, 4}}, {{4}}}));
  nodes.push_back(node("train/gamma", "ApplyGradientDescent", {"gamma", "rate", "gradients/bn:1"}, {}, kServer));
  GraphDefGaps gaps;
  const DatasetGraph graph = operators_of(nodes, 2, "here", gaps);
  CHECK(gaps.kernels == 2);  // none for the averages
  CHECK(gaps.variables == 4);
  CHECK(at(graph, 0, "variables") == 2);
  CHECK(at(graph, 0, "statistics") == 2);
  CHECK(at(graph, 0, "statistic") == 2);  // after gamma and beta
  CHECK(at(graph, 0, "statistic_bytes") == 2 * 4 * 4);
  CHECK(at(graph, 1, "statistics") == 0);
  CHECK(at(graph, 1, "statistic") == -1);
}

TEST_CASE("what a GraphDef does not tell is 0 and counted") {
  GraphDefGaps gaps;
  {  // without the batch
    const DatasetGraph graph = operators_of(small_training(), 0, "g", gaps);
    CHECK(at(graph, 0, "flops") == 0);
    CHECK(at(graph, 1, "output_elements") == 0);
    CHECK(gaps.without_flops == 2);  // the convolution and its gradient
    CHECK(to_text(gaps).starts_with("4 of 8 kernels have no known shape, 2 of 8 no known FLOPs"));
  }
  const DatasetGraph other =
      operators_of({node("a", "Foo", {}, {{{5}}}), node("b", "Foo", {"a"}, {{{5}}})}, 0, "g", gaps);
  CHECK(at(other, 1, "kind") == static_cast<double>(OperatorKind::kElementwise));
  CHECK(to_text(gaps) == "2 of 2 are of other types and taken as element-wise, no optimizer updates a variable");
  GraphDefNode half = node("a", "Relu", {}, {{{5}}});
  half.scalar_bytes = 2;
  CHECK(at(operators_of({half}, 0, "g", gaps), 0, "bytes_written") == 10);
}

TEST_CASE("gradients reach updates through accumulators, and graphs without devices count whole") {
  GraphDefGaps gaps;
  const DatasetGraph graph =
      operators_of({node("w", "VariableV2", {}, {{{7}}}, ""), node("k", "Mul", {"w"}, {{{7}}}, ""),
                    node("sum", "ConditionalAccumulator", {}, {}, ""),
                    node("add", "AccumulatorApplyGradient", {"sum", "step", "k"}, {}, ""),
                    node("take", "AccumulatorTakeGradient", {"sum", "one"}, {{{7}}}, ""),
                    node("train", "ApplyGradientDescent", {"w", "rate", "take"}, {}, "")},
                   0, "g", gaps);
  CHECK(graph.edges == std::vector<GraphEdge>{{0, 1}});
  CHECK_THROWS_WITH_AS(operators_of({node("a", "Relu", {}, {}, "/device:CPU:0")}, 0, "g", gaps),
                       "g: expected operators on a GPU: none has a device such as /device:GPU:0", InputError);
}

TEST_CASE("loops and sizes beyond all bounds give a graph that can be read") {
  GraphDefGaps gaps;
  const std::int64_t huge = std::int64_t{1} << 62U;
  std::vector<GraphDefNode> nodes = small_training();
  for (GraphDefNode& each : nodes)
    for (auto& shape : each.shapes)
      if (shape && shape->size() > 1) (*shape)[1] = huge;
  nodes.push_back(node("loop", "Identity", {"next"}));
  nodes.push_back(node("next", "NextIteration", {"loop", "self"}));
  nodes.push_back(node("self", "Relu", {"self", "next", "loop:77777777777777777777", "loop:x"}));
  Dataset data = test::synthetic_dataset(5);
  data.graphs[0] = operators_of(nodes, 2, "g", gaps);
  CHECK(gaps.without_shape > 3);
  const FeatureReader reader{data};
  CHECK(reader.read(data, data.samples[0]).bases.size() == label_names().size());
}

}  // namespace rehearse
