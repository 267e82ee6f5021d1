#include "predictor/operator_types.hpp"

#include "predictor/node_features.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {
constexpr float kMostElements = 1e18F;
}  // namespace

TypeFrequencies load_type_frequencies(const std::filesystem::path& path) {
  TypeFrequencies frequencies;
  const CsvTable table = load_csv_file(path);
  for (const CsvRow& row : table.rows())
    if (!frequencies.emplace(row.text("op_type"), row.number("relative_frequency")).second)
      row.fail("op_type", "is there twice");
  return frequencies;
}

std::string_view tensorflow_type(OperatorKind kind, Phase phase) {
  const bool is_forward = phase == Phase::kForward;
  switch (kind) {
    case OperatorKind::kConvolution:
      return is_forward ? "Conv2D" : phase == Phase::kBackwardWeights ? "Conv2DBackpropFilter" : "Conv2DBackpropInput";
    case OperatorKind::kDense:
    case OperatorKind::kRecurrent:  // the product of a position; its gates are element-wise
      return "MatMul";
    case OperatorKind::kProduct:
      return "BatchMatMul";
    case OperatorKind::kEmbedding:
      return is_forward ? "Gather" : "UnsortedSegmentSum";
    case OperatorKind::kBatchNorm:
      return is_forward ? "FusedBatchNorm" : "FusedBatchNormGrad";
    case OperatorKind::kLayerNorm:
      return is_forward ? "SquaredDifference" : "RsqrtGrad";
    case OperatorKind::kActivation:
      return is_forward ? "Relu" : "ReluGrad";
    case OperatorKind::kElementwise:
      return is_forward ? "Add" : "AddN";
    case OperatorKind::kDropout:
      return "Mul";
    case OperatorKind::kPooling:
      return is_forward ? "MaxPool" : "MaxPoolGrad";
    case OperatorKind::kSoftmaxLoss:
      return "SparseSoftmaxCrossEntropyWithLogits";
    case OperatorKind::kUpdate:
      return "ApplyMomentum";
  }
  return "NoOp";
}

OperatorNetwork operator_network(const DatasetGraph& graph, const TypeFrequencies& frequencies) {
  const std::size_t columns = node_feature_names().size();
  OperatorNetwork network;
  for (std::size_t i = 0; i < graph.nodes(columns); ++i) {
    const NodeFeatures x = read_node(graph.features.data() + i * columns);
    const bool is_operator = x.kind >= 0 && x.kind <= static_cast<float>(OperatorKind::kUpdate) && x.phase >= 0 &&
                             x.phase <= static_cast<float>(Phase::kUpdate) && x.elements >= 0 &&
                             x.elements <= kMostElements;
    if (!is_operator) throw InputError{"the graph " + in_quotes(graph.name) + " has a node that is no operator"};
    const auto found = frequencies.find(tensorflow_type(static_cast<OperatorKind>(static_cast<int>(x.kind)),
                                                        static_cast<Phase>(static_cast<int>(x.phase))));
    network.operators.push_back({.tensor_size = static_cast<std::int64_t>(x.elements),
                                 .type_frequency = found == frequencies.end() ? 0 : found->second});
  }
  for (const GraphEdge& edge : graph.edges)
    network.edges.emplace_back(static_cast<std::uint32_t>(edge.from), static_cast<std::uint32_t>(edge.to));
  return network;
}

}  // namespace rehearse
