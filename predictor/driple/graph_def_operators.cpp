#include "predictor/driple/graph_def_operators.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "predictor/node_features.hpp"
#include "predictor/operator_types.hpp"
#include "sim/base/errors.hpp"

namespace rehearse {
namespace {

constexpr std::size_t kMostNodes = 1'000'000;
constexpr std::size_t kMostPassed = 1000;  // nodes between two kernels
constexpr std::size_t kMostVisits = 10 * kMostPassed;
constexpr int kMostReads = 20;     // nodes between a kernel and a variable
constexpr double kLargest = 1e18;  // of any feature

using Names = std::set<std::string_view>;

const Names kVariableTypes{"Variable", "VariableV2", "VarHandleOp"};
/// They hand on their first input, perhaps in another shape.
const Names kIdentities{"Identity", "ReadVariableOp", "Enter", "RefEnter", "Switch", "RefSwitch"};
/// What moves an average: TensorFlow's AssignMovingAvg is one of them.
const Names kSubtractions{"AssignSub", "AssignSubVariableOp"};
/// They launch no kernel that counts.
const Names kSilent{"Assign",
                    "AssignAdd",
                    "AssignAddVariableOp",
                    "AssignSub",
                    "AssignSubVariableOp",
                    "AssignVariableOp",
                    "BroadcastGradientArgs",
                    "ConcatOffset",
                    "Const",
                    "ControlTrigger",
                    "Exit",
                    "ExpandDims",
                    "IdentityN",
                    "InvertPermutation",
                    "LoopCond",
                    "Merge",
                    "NextIteration",
                    "NoOp",
                    "Placeholder",
                    "PlaceholderWithDefault",
                    "PreventGradient",
                    "Range",
                    "Rank",
                    "RefExit",
                    "RefMerge",
                    "RefNextIteration",
                    "Reshape",
                    "Shape",
                    "ShapeN",
                    "Size",
                    "Squeeze",
                    "StopGradient",
                    "VarIsInitializedOp"};

struct Meaning {
  OperatorKind kind = OperatorKind::kElementwise;
  Phase phase = Phase::kForward;
};

/// What a type of TensorFlow is among our kinds: the reverse of tensorflow_type(), where a product of a recurrent layer
/// is a dense one and "Mul" is element-wise, and the variants of those types.
const std::map<std::string_view, Meaning>& meanings() {
  static const std::map<std::string_view, Meaning> all = [] {
    using enum OperatorKind;
    using Phase::kBackward, Phase::kBackwardData, Phase::kBackwardWeights, Phase::kForward;
    std::map<std::string_view, Meaning> made{{"Mul", {kElementwise, kForward}},
                                             {"BiasAdd", {kElementwise, kForward}},
                                             {"BiasAddGrad", {kElementwise, kBackwardWeights}},
                                             {"AddV2", {kElementwise, kForward}},
                                             {"Sub", {kElementwise, kForward}},
                                             {"RealDiv", {kElementwise, kForward}},
                                             {"Concat", {kElementwise, kForward}},
                                             {"ConcatV2", {kElementwise, kForward}},
                                             {"Conv2DBackpropInput", {kConvolution, kBackwardData}},
                                             {"UnsortedSegmentSum", {kEmbedding, kBackwardWeights}},
                                             {"DepthwiseConv2dNative", {kConvolution, kForward}},
                                             {"DepthwiseConv2dNativeBackpropInput", {kConvolution, kBackwardData}},
                                             {"DepthwiseConv2dNativeBackpropFilter", {kConvolution, kBackwardWeights}},
                                             {"BatchMatMulV2", {kProduct, kForward}},
                                             {"GatherV2", {kEmbedding, kForward}},
                                             {"ResourceGather", {kEmbedding, kForward}},
                                             {"FusedBatchNormV2", {kBatchNorm, kForward}},
                                             {"FusedBatchNormV3", {kBatchNorm, kForward}},
                                             {"FusedBatchNormGradV2", {kBatchNorm, kBackward}},
                                             {"FusedBatchNormGradV3", {kBatchNorm, kBackward}},
                                             {"SoftmaxCrossEntropyWithLogits", {kSoftmaxLoss, kForward}},
                                             {"AvgPool", {kPooling, kForward}},
                                             {"AvgPoolGrad", {kPooling, kBackward}},
                                             {"Softmax", {kActivation, kForward}}};
    for (const char* name : {"Relu6", "Elu", "Tanh", "Sigmoid", "Softplus", "Selu", "LeakyRelu"})
      made[name] = {kActivation, kForward};
    for (const char* name : {"Relu6Grad", "EluGrad", "TanhGrad", "SigmoidGrad", "SoftplusGrad", "LeakyReluGrad"})
      made[name] = {kActivation, kBackward};
    for (int kind = 0; kind <= static_cast<int>(kSoftmaxLoss); ++kind)
      for (const Phase phase : {kForward, kBackward, kBackwardWeights})
        made.emplace(tensorflow_type(static_cast<OperatorKind>(kind), phase),
                     Meaning{static_cast<OperatorKind>(kind), phase});
    return made;
  }();
  return all;
}

bool is_update(const GraphDefNode& node) {
  return std::ranges::any_of(std::array{"Apply", "ResourceApply", "SparseApply", "ResourceSparseApply"},
                             [&](const char* start) { return node.op.starts_with(start); });
}

bool is_of_gradient(const GraphDefNode& node) {
  return node.name.starts_with("gradients") || node.name.find("/gradients") != std::string::npos;
}

/// Product of the dimensions; none if one of them is not known.
std::optional<double> elements_of(const std::optional<GraphDefShape>& shape) {
  if (!shape) return std::nullopt;
  double product = 1;
  for (const std::int64_t size : *shape) {
    if (size < 0) return std::nullopt;
    product *= static_cast<double>(size);
  }
  return product <= kLargest ? std::optional{product} : std::nullopt;
}

/// A row of node features, by name.
struct Row {
  Meaning meaning;
  double flops = 0, read = 0, written = 0, parameters = 0, elements = 0;
  MatrixShape matrix;
  bool is_3x3_stride_1 = false;
  int variables = 0, first_variable = -1;
  int averages = 0, first_average = -1;
  double average_bytes = 0;
};

class Converter {
 public:
  Converter(const std::vector<GraphDefNode>& nodes, std::int64_t batch, GraphDefGaps& gaps)
      : nodes_{nodes},
        batch_{batch},
        gaps_{gaps},
        kernel_of_(nodes.size(), -1),
        variable_of_(nodes.size(), -1),
        inferred_(nodes.size()) {
    for (std::size_t i = 0; i < nodes.size(); ++i) numbers_.emplace(nodes[i].name, i);
    for (const GraphDefNode& node : nodes)
      if (node.op == "AccumulatorApplyGradient" && node.inputs.size() > 2)
        if (const auto handle = source(node, 0)) gradients_of_[*handle].push_back(number_of(node));
    find_kernels();
    find_averages();
    find_variables();
  }

  DatasetGraph convert() {
    DatasetGraph graph;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (kernel_of_[i] < 0) continue;
      add(graph, kernel_row(nodes_[i]));
      for (const int from : kernels_before(nodes_[i], 0)) graph.edges.push_back({from, kernel_of_[i]});
    }
    auto row = static_cast<std::int32_t>(gaps_.kernels);
    for (const auto& [variable, update] : updates_) {
      add(graph, update_row(nodes_[variable], nodes_[update]));
      for (const int from : kernels_before(nodes_[update], 1)) graph.edges.push_back({from, row});
      ++row;
    }
    return graph;
  }

 private:
  std::size_t number_of(const GraphDefNode& node) const { return static_cast<std::size_t>(&node - nodes_.data()); }

  /// The node behind a data input; none if the file lacks it.
  std::optional<std::size_t> source(const GraphDefNode& node, std::size_t input) const {
    if (input >= node.inputs.size() || node.inputs[input].starts_with('^')) return std::nullopt;
    const auto found = numbers_.find(producer_of(node.inputs[input]));
    return found == numbers_.end() ? std::nullopt : std::optional{found->second};
  }

  /// Nodes that nodes of this kind depend on, by data or control.
  template <class IsAsked>
  std::vector<bool> needed_by(IsAsked is_asked) const {
    std::vector<bool> is_needed(nodes_.size());
    std::vector<std::size_t> open;
    const auto visit = [&](std::size_t at) {
      if (is_needed[at]) return;
      is_needed[at] = true;
      open.push_back(at);
    };
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (is_asked(nodes_[i])) visit(i);
    while (!open.empty()) {
      const std::size_t at = open.back();
      open.pop_back();
      for (const std::string& input : nodes_[at].inputs)
        if (const auto found = numbers_.find(producer_of(input)); found != numbers_.end()) visit(found->second);
      if (const auto gradients = gradients_of_.find(at); gradients != gradients_of_.end())
        for (const std::size_t gradient : gradients->second) visit(gradient);
    }
    return is_needed;
  }

  void find_kernels() {
    const std::vector<bool> trains = needed_by(is_update);
    const std::vector<bool> initialises =
        needed_by([](const GraphDefNode& n) { return n.op == "Assign" || n.op == "AssignVariableOp"; });
    const bool has_devices = std::ranges::any_of(nodes_, [](const GraphDefNode& n) { return !n.device.empty(); });
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const GraphDefNode& node = nodes_[i];
      const bool is_on_gpu = !has_devices || node.device.find("GPU") != std::string::npos;
      const bool launches = !kVariableTypes.contains(node.op) && !kIdentities.contains(node.op) &&
                            !kSilent.contains(node.op) && !is_update(node) && !node.op.starts_with("Accumulator") &&
                            !node.op.starts_with("ConditionalAccumulator");
      const bool is_of_step = trains[i] || !initialises[i];
      if (is_on_gpu && launches && is_of_step) kernel_of_[i] = static_cast<int>(gaps_.kernels++);
    }
  }

  /// The variable that an input is, or is read from.
  std::optional<std::size_t> variable_behind(const GraphDefNode& node, std::size_t input) const {
    auto at = source(node, input);
    for (int passed = 0; at && passed < kMostReads; ++passed) {
      if (kVariableTypes.contains(nodes_[*at].op)) return at;
      if (!kIdentities.contains(nodes_[*at].op)) return std::nullopt;
      at = source(nodes_[*at], 0);
    }
    return std::nullopt;
  }

  /// Variables from which something is subtracted that depends on what a batch normalisation gives.
  void find_averages() {
    for (const GraphDefNode& node : nodes_) {
      if (!kSubtractions.contains(node.op)) continue;
      const auto variable = variable_behind(node, 0);
      const auto normalisation = variable ? normalisation_before(node) : std::nullopt;
      if (normalisation && is_average_.insert(*variable).second) averages_of_[*normalisation].insert(*variable);
    }
  }

  /// The nearest one that the second input depends on, at most a thousand nodes away.
  std::optional<std::size_t> normalisation_before(const GraphDefNode& node) const {
    std::set<std::size_t> seen;
    std::vector<std::size_t> open;
    if (const auto at = source(node, 1)) open.push_back(*at);
    for (std::size_t i = 0; i < open.size(); ++i) {
      const GraphDefNode& before = nodes_[open[i]];
      const auto meaning = meanings().find(before.op);
      if (meaning != meanings().end() && kernel_of_[open[i]] >= 0 && !is_of_gradient(before) &&
          meaning->second.kind == OperatorKind::kBatchNorm && meaning->second.phase == Phase::kForward)
        return open[i];
      for (std::size_t input = 0; input < before.inputs.size() && open.size() < kMostPassed; ++input)
        if (const auto at = source(before, input); at && seen.insert(*at).second) open.push_back(*at);
    }
    return std::nullopt;
  }

  void find_variables() {
    std::vector<bool> is_used(nodes_.size());
    for (const std::size_t average : is_average_) is_used[average] = true;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (is_update(nodes_[i])) {
        if (const auto variable = variable_behind(nodes_[i], 0)) {
          updates_.emplace(*variable, i);
          is_used[*variable] = true;
        }
      } else if (kernel_of_[i] >= 0) {
        for (std::size_t input = 0; input < nodes_[i].inputs.size(); ++input)
          if (const auto variable = variable_behind(nodes_[i], input)) is_used[*variable] = true;
      }
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (!is_used[i]) continue;
      variable_of_[i] = static_cast<int>(gaps_.variables++);
      if (!elements_of(output_shape(i, 0))) ++gaps_.without_size;
    }
    gaps_.updates = updates_.size();
  }

  std::optional<GraphDefShape> output_shape(std::size_t node, std::size_t output) const {
    if (output == 0 && inferred_[node]) return inferred_[node];
    if (output >= nodes_[node].shapes.size()) return std::nullopt;
    std::optional<GraphDefShape> shape = nodes_[node].shapes[output];
    if (shape && !shape->empty() && shape->front() < 0 && batch_ > 0) shape->front() = batch_;
    return shape;
  }

  std::optional<GraphDefShape> input_shape(const GraphDefNode& node, std::size_t input) const {
    const auto at = source(node, input);
    if (!at) return std::nullopt;
    if (const auto variable = variable_behind(node, input)) return output_shape(*variable, 0);
    const std::string_view name = node.inputs[input];
    const auto colon = name.find(':');
    // Outputs beyond the ninth are those of no kernel whose inputs matter.
    const bool is_first = colon == std::string_view::npos || colon + 2 != name.size();
    const int output = is_first ? 0 : name[colon + 1] - '0';
    return output < 0 || output > 9 ? std::nullopt : output_shape(*at, static_cast<std::size_t>(output));
  }

  /// Kernels that `node` reads from, at most a thousand other nodes away, in rising order.
  std::set<int> kernels_before(const GraphDefNode& node, std::size_t first_input) const {
    std::set<int> found;
    std::set<std::size_t> seen;
    std::vector<std::size_t> open;
    std::size_t visits = 0;
    const auto visit = [&](std::size_t at) {
      if (++visits > kMostVisits) return;
      if (kernel_of_[at] >= 0)
        found.insert(kernel_of_[at]);
      else if (!kVariableTypes.contains(nodes_[at].op) && seen.size() < kMostPassed && seen.insert(at).second)
        open.push_back(at);
    };
    for (std::size_t input = first_input; input < node.inputs.size(); ++input)
      if (const auto at = source(node, input)) visit(*at);
    while (!open.empty()) {
      const std::size_t at = open.back();
      open.pop_back();
      for (std::size_t input = 0; input < nodes_[at].inputs.size(); ++input)
        if (const auto before = source(nodes_[at], input)) visit(*before);
      if (const auto gradients = gradients_of_.find(at); gradients != gradients_of_.end())
        for (const std::size_t gradient : gradients->second) visit(gradient);
    }
    found.erase(kernel_of_[number_of(node)]);
    return found;
  }

  Row kernel_row(const GraphDefNode& node) {
    Row row{.meaning = meaning_of(node)};
    const std::optional<GraphDefShape> output = shape_of_result(node);
    inferred_[number_of(node)] = output;
    const std::optional<double> elements = elements_of(output);
    bool is_known = elements.has_value();
    row.elements = elements.value_or(0);
    row.written = row.elements * node.scalar_bytes;
    const bool looks_up = row.meaning.kind == OperatorKind::kEmbedding && row.meaning.phase == Phase::kForward;
    std::set<std::size_t> variables;
    for (std::size_t input = 0; input < node.inputs.size(); ++input) {
      if (node.inputs[input].starts_with('^')) continue;
      const auto variable = variable_behind(node, input);
      if (variable) variables.insert(*variable);
      const std::optional<double> size = elements_of(input_shape(node, input));
      is_known = is_known && (size || variable);
      row.read += variable && looks_up ? row.written : size.value_or(0) * node.scalar_bytes;
    }
    if (row.meaning.kind == OperatorKind::kBatchNorm) row.read *= 2;  // for the statistics, then for the result
    std::erase_if(variables, [&](std::size_t variable) { return is_average_.contains(variable); });
    if (row.meaning.phase == Phase::kForward) set_variables(row, variables);
    if (const auto averages = averages_of_.find(number_of(node)); averages != averages_of_.end())
      set_averages(row, averages->second);
    if (!is_known) ++gaps_.without_shape;
    set_work(row, node, output);
    return row;
  }

  Meaning meaning_of(const GraphDefNode& node) {
    const auto found = meanings().find(node.op);
    if (found == meanings().end()) ++gaps_.other_types;
    Meaning meaning = found == meanings().end() ? Meaning{} : found->second;
    if (meaning.phase != Phase::kForward || !is_of_gradient(node)) return meaning;
    meaning.phase = Phase::kBackward;
    if (meaning.kind == OperatorKind::kDense)  // x^T dy is the weights' gradient, dy w^T that of the data
      meaning.phase = node.transposes_first ? Phase::kBackwardWeights : Phase::kBackwardData;
    if (meaning.kind == OperatorKind::kProduct) meaning.phase = Phase::kBackwardData;
    return meaning;
  }

  void set_variables(Row& row, const std::set<std::size_t>& variables) const {
    for (const std::size_t variable : variables)
      row.parameters += elements_of(output_shape(variable, 0)).value_or(0) * nodes_[variable].scalar_bytes;
    row.variables = static_cast<int>(variables.size());
    if (!variables.empty()) row.first_variable = variable_of_[*variables.begin()];
  }

  void set_averages(Row& row, const std::set<std::size_t>& averages) const {
    for (const std::size_t average : averages)
      row.average_bytes += elements_of(output_shape(average, 0)).value_or(0) * nodes_[average].scalar_bytes;
    row.averages = static_cast<int>(averages.size());
    row.first_average = variable_of_[*averages.begin()];
  }

  /// Of the first output: what the file says, else what a convolution makes of its input.
  std::optional<GraphDefShape> shape_of_result(const GraphDefNode& node) const {
    std::optional<GraphDefShape> stated = output_shape(number_of(node), 0);
    if (stated || (node.op != "Conv2D" && node.op != "DepthwiseConv2dNative")) return stated;
    std::optional<GraphDefShape> x = input_shape(node, 0);
    const std::optional<GraphDefShape> filter = input_shape(node, 1);
    const bool is_same = node.padding == "SAME";
    if (!x || !filter || x->size() != 4 || filter->size() != 4 || node.strides.size() != 4 ||
        (!is_same && node.padding != "VALID"))
      return std::nullopt;
    for (std::size_t axis = 0; axis < 2; ++axis) {
      const std::size_t at = axis + (is_channels_first(node) ? 2 : 1);
      const std::int64_t size = (*x)[at], kernel = (*filter)[axis], stride = node.strides[at];
      if (size < 1 || kernel < 1 || stride < 1 || (!is_same && kernel > size)) return std::nullopt;
      (*x)[at] = (is_same ? size - 1 : size - kernel) / stride + 1;
    }
    const bool is_depthwise = node.op != "Conv2D";
    if (is_depthwise && ((*filter)[2] < 1 || (*filter)[3] < 1)) return std::nullopt;
    std::int64_t& channels = (*x)[is_channels_first(node) ? 1 : 3];
    if (is_depthwise && __builtin_mul_overflow((*filter)[2], (*filter)[3], &channels)) return std::nullopt;
    if (!is_depthwise) channels = (*filter)[3];
    return x;
  }

  static bool is_channels_first(const GraphDefNode& node) { return node.data_format == "NCHW"; }

  void set_work(Row& row, const GraphDefNode& node, const std::optional<GraphDefShape>& output) {
    const OperatorKind kind = row.meaning.kind;
    if (kind == OperatorKind::kConvolution)
      set_convolution(row, node, output);
    else if (kind == OperatorKind::kDense || kind == OperatorKind::kProduct)
      set_product(row, node);
    else
      return;
    if (row.flops > kLargest) {
      row.flops = 0;
      row.matrix = {};
    }
    if (row.flops <= 0) ++gaps_.without_flops;
  }

  /// Forward: y = conv(x, w); data: dx = f(sizes, w, dy); weights: dw = f(x, sizes, dy).
  void set_convolution(Row& row, const GraphDefNode& node, const std::optional<GraphDefShape>& output) const {
    const Phase phase = row.meaning.phase;
    const auto x = phase == Phase::kBackwardData ? output : input_shape(node, 0);
    const auto w = phase == Phase::kBackwardWeights ? output : input_shape(node, 1);
    const auto y = phase == Phase::kForward ? output : input_shape(node, 2);
    if (!elements_of(x) || !elements_of(w) || !elements_of(y) || x->size() != 4 || w->size() != 4 || y->size() != 4)
      return;
    const auto side = [](const GraphDefShape& shape, std::size_t axis) { return static_cast<double>(shape[axis]); };
    const std::size_t channels = is_channels_first(node) ? 1 : 3;
    const double area = side(*w, 0) * side(*w, 1), in = side(*w, 2), out = side(*y, channels);
    if (in < 1 || out < 1 || area < 1 || side(*x, channels) < 1) return;
    const bool is_depthwise = node.op.starts_with("Depthwise");
    row.flops = 2 * *elements_of(y) * area * (is_depthwise ? 1 : in);
    if (is_depthwise) return;  // bound by memory: no library lowers it to matrix products
    const double in_positions = *elements_of(x) / side(*x, channels), out_positions = *elements_of(y) / out;
    if (phase == Phase::kForward) row.matrix = {out_positions, out, in * area};
    if (phase == Phase::kBackwardData) row.matrix = {in_positions, in, out * area};
    if (phase == Phase::kBackwardWeights) row.matrix = {in * area, out, out_positions};
    row.is_3x3_stride_1 = side(*w, 0) == 3 && side(*w, 1) == 3 &&
                          std::ranges::all_of(node.strides, [](std::int64_t stride) { return stride == 1; });
  }

  void set_product(Row& row, const GraphDefNode& node) const {
    const auto a = input_shape(node, 0), b = input_shape(node, 1);
    const auto size = elements_of(a);
    if (!size || !elements_of(b) || *size < 1 || a->size() < 2 || b->size() < 2) return;
    const auto last = [](const GraphDefShape& shape, std::size_t from_end) {
      return static_cast<double>(shape[shape.size() - from_end]);
    };
    MatrixShape matrix{.rows = last(*a, node.transposes_first ? 1 : 2),
                       .columns = last(*b, node.transposes_second ? 2 : 1),
                       .reduction = last(*a, node.transposes_first ? 2 : 1)};
    matrix.products = *size / (matrix.rows * matrix.reduction);
    row.flops = 2 * matrix.products * matrix.rows * matrix.columns * matrix.reduction;
    row.matrix = matrix;
  }

  /// The optimizer reads the variable, its gradient and its slots, and writes all but the gradient.
  Row update_row(const GraphDefNode& variable, const GraphDefNode& update) const {
    Row row{.meaning = {OperatorKind::kUpdate, Phase::kUpdate}};
    row.elements = elements_of(output_shape(number_of(variable), 0)).value_or(0);
    row.parameters = row.elements * variable.scalar_bytes;
    int slots = 0;
    for (std::size_t input = 1; input < update.inputs.size(); ++input) {
      const auto at = source(update, input);
      if (!at || !kVariableTypes.contains(nodes_[*at].op)) break;
      ++slots;
    }
    row.read = (2 + slots) * row.parameters;
    row.written = (1 + slots) * row.parameters;
    row.variables = 1;
    row.first_variable = variable_of_[number_of(variable)];
    return row;
  }

  /// Of the samples that placeholders hand in.
  double input_bytes() const {
    double bytes = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (nodes_[i].op.starts_with("Placeholder"))
        bytes += elements_of(output_shape(i, 0)).value_or(0) * nodes_[i].scalar_bytes;
    return bytes;
  }

  void add(DatasetGraph& graph, const Row& row) const {
    const auto number = [](auto value) { return static_cast<float>(std::min(static_cast<double>(value), kLargest)); };
    append({.kind = number(row.meaning.kind),
            .phase = number(row.meaning.phase),
            .flops = number(row.flops),
            .read = number(row.read),
            .written = number(row.written),
            .parameters = number(row.parameters),
            .elements = number(row.elements),
            .rows = number(row.matrix.rows),
            .columns = number(row.matrix.columns),
            .reduction = number(row.matrix.reduction),
            .products = number(row.matrix.products),
            .is_3x3_stride_1 = number(row.is_3x3_stride_1),
            .variables = number(row.variables),
            .variable = number(row.first_variable),
            .statistics = number(row.averages),
            .statistic = number(row.first_average),
            .statistic_bytes = number(row.average_bytes),
            .input_bytes = graph.features.empty() ? number(input_bytes()) : 0},
           graph.features);
  }

  const std::vector<GraphDefNode>& nodes_;
  std::int64_t batch_;
  GraphDefGaps& gaps_;
  std::unordered_map<std::string_view, std::size_t> numbers_;
  std::vector<int> kernel_of_, variable_of_;                      // [nodes]; -1: none
  std::vector<std::optional<GraphDefShape>> inferred_;            // [nodes] of the first output, of kernels seen so far
  std::map<std::size_t, std::size_t> updates_;                    // node of the update by node of its variable
  std::map<std::size_t, std::vector<std::size_t>> gradients_of_;  // nodes that add to an accumulator, by its node
  std::map<std::size_t, std::set<std::size_t>> averages_of_;      // variables by node of their normalisation
  std::set<std::size_t> is_average_;                              // variables
};

}  // namespace

std::string to_text(const GraphDefGaps& gaps) {
  std::string text;
  const auto say = [&](std::size_t count, std::size_t of, const char* what) {
    if (count == 0) return;
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " of " + std::to_string(of) + " " + what;
  };
  say(gaps.without_shape, gaps.kernels, "kernels have no known shape");
  say(gaps.without_flops, gaps.kernels, "no known FLOPs");
  say(gaps.other_types, gaps.kernels, "are of other types and taken as element-wise");
  say(gaps.without_size, gaps.variables, "variables have no known size");
  if (gaps.updates == 0) text += std::string{text.empty() ? "" : ", "} + "no optimizer updates a variable";
  return text;
}

DatasetGraph operators_of(const std::vector<GraphDefNode>& nodes, std::int64_t batch, const std::string& where,
                          GraphDefGaps& gaps) {
  if (nodes.size() > kMostNodes) throw InputError{where + ": expected at most a million nodes"};
  gaps = {};
  DatasetGraph graph = Converter{nodes, batch, gaps}.convert();
  if (gaps.kernels == 0)
    throw InputError{where + ": expected operators on a GPU: none has a device such as /device:GPU:0"};
  return graph;
}

}  // namespace rehearse
