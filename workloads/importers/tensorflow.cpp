#include "workloads/importers/tensorflow.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "workloads/importers/detail/tensorflow_file.hpp"
#include "workloads/importers/framework_graph.hpp"
#include "workloads/importers/graph_def.hpp"
#include "workloads/importers/tensorflow_forward.hpp"
#include "workloads/importers/tensorflow_shapes.hpp"
#include "workloads/model_zoo.hpp"

namespace rehearse {

namespace {

constexpr std::int64_t kUnknownBatch = 13;  // tells the batch from other sizes and does not stay
constexpr std::int64_t kOpenSize = 128;     // likely of another axis that the graph leaves open
constexpr std::size_t kMostTensorflowNodes = 200'000;
constexpr std::size_t kMostBatches = 4;
constexpr std::size_t kMostTensors = 400'000;

using Names = std::set<std::string_view>;
using Tensor = TensorflowForward::Tensor;

/// Of operators with weights, the input that has samples.
std::size_t place_of_samples(const std::string& op) {
  if (op == "Conv2DBackpropInput") return 2;
  return is_tensorflow_lookup(op) || is_tensorflow_lstm(op) ? 1 : 0;
}

/// Reads one graph.
class TensorflowReader {
 public:
  TensorflowReader(const Source& source, const GraphDefFile& file, const TensorflowForward& forward)
      : source_{source},
        nodes_{file.nodes},
        forward_{forward},
        layout_{layout_of(file.nodes)},
        graph_{source.name(), layout_, Layout::kNhwc},
        results_(file.nodes.size()) {
    if (file.calls > 0)
      graph_.remark("functions that the graph calls stand in their places: " + std::to_string(file.calls));
  }

  /// With an open axis of the batch taken as `batch`, or as what the first input has if it is 0, and others as `open_size`.
  ImportedModel read(std::int64_t batch, std::int64_t open_size) {
    open_size_ = open_size;
    if (batch > 0) set_batch(batch);
    for (const std::size_t i : forward_.order()) add(i);
    return finish();
  }

  /// Sizes that the batch may have, the likeliest first: an open first axis of an input, else that of the first input;
  /// then those that other inputs and the shapes in the graph have.
  std::vector<std::int64_t> batches() const {
    std::vector<std::int64_t> stated, all;
    bool has_open = false;
    for (const std::size_t i : forward_.order()) {
      has_open = has_open || (nodes_[i].op == "PlaceholderWithDefault" && has_open_batch(nodes_[i]));
      if (!has_batch_first(nodes_[i])) continue;
      for (const TensorflowValue& output : checked(i, [&] { return given_by(i); })) {
        if (!output.shape || output.shape->empty()) continue;
        has_open = has_open || output.shape->front() < 0 || has_positions_first(*output.shape);
        if (output.shape->front() > 0) stated.push_back(output.shape->front());
      }
    }
    for (const std::size_t i : forward_.order()) {
      const bool is_shape_first = nodes_[i].op == "Conv2DBackpropInput" || is_tensorflow_random(nodes_[i].op);
      const std::size_t place = is_shape_first ? 0 : nodes_[i].op == "Reshape" ? 1 : 2;
      if (place == 2 || place >= forward_.inputs(i).size()) continue;
      const std::optional<GraphDefTensor>& sizes = nodes_[forward_.inputs(i)[place].node].tensor;
      if (sizes && sizes->values.size() > 1 && sizes->values[0] >= 2 && sizes->values[0] <= 65536)
        stated.push_back(static_cast<std::int64_t>(sizes->values[0]));
    }
    if (has_open) all.push_back(kUnknownBatch);
    for (const std::int64_t size : stated)
      if (all.size() < kMostBatches && std::ranges::find(all, size) == all.end()) all.push_back(size);
    if (all.empty()) all.push_back(0);
    return all;
  }

 private:
  [[noreturn]] void fail(const GraphDefNode& node, const std::string& message) const {
    throw InputError{source_.name() + ": operator " + in_quotes(node.name) + " (" + shortened(node.op) +
                     "): " + message};
  }

  static Layout layout_of(const std::vector<GraphDefNode>& nodes) {
    const bool is_first =
        std::ranges::any_of(nodes, [](const GraphDefNode& node) { return node.data_format == "NCHW"; });
    return is_first ? Layout::kNchw : Layout::kNhwc;
  }

  std::string key_of(const Tensor& tensor) const {
    const std::string& name = nodes_[tensor.node].name;
    return tensor.output == 0 ? name : name + ":" + std::to_string(tensor.output);
  }
  const TensorflowValue* value_of(const Tensor& tensor) const {
    const std::vector<TensorflowValue>& results = results_[tensor.node];
    return tensor.output < results.size() ? &results[tensor.output] : nullptr;
  }
  bool is_open(const Tensor& tensor) const { return open_.contains(key_of(tensor)); }
  bool has_samples(const Tensor& tensor) const { return graph_.depends_on_samples({key_of(tensor)}); }

  /// What a source gives, as the file says it.
  std::vector<TensorflowValue> given_by(std::size_t i) const {
    const GraphDefNode& node = nodes_[i];
    std::vector<const TensorflowValue*> inputs;
    std::vector<TensorflowValue> outputs = infer_tensorflow(node, inputs);
    if (!node.op.starts_with("QueueDequeue")) return outputs;
    // The queue knows the shape of a sample, or of what was put in; the node says how many it takes.
    const std::vector<Tensor>& read = forward_.inputs(i);
    const std::vector<std::optional<GraphDefShape>> none;
    const auto is_there = [&](std::size_t k) { return k < read.size() && read[k].node != TensorflowForward::kNowhere; };
    const auto& shapes = is_there(0) ? nodes_[read[0].node].component_shapes : none;
    const bool takes_many = node.op.find("Many") != std::string::npos || node.op.find("UpTo") != std::string::npos;
    std::int64_t count = -1;
    if (const bool is_exact = takes_many && node.op.find("Many") != std::string::npos; is_exact && is_there(1))
      if (const auto& number = nodes_[read[1].node].tensor; number && number->values.size() == 1)
        count = number->values[0] >= 1 && number->values[0] < 1e6 ? static_cast<std::int64_t>(number->values[0]) : -1;
    outputs.resize(std::max(outputs.size(), shapes.size()));
    for (std::size_t k = 0; k < shapes.size(); ++k) {
      if (outputs[k].shape || !shapes[k]) continue;
      outputs[k].shape = shapes[k];
      if (takes_many) outputs[k].shape->insert(outputs[k].shape->begin(), count);
    }
    return outputs;
  }

  /// A sequence whose positions are fixed and whose batch, the second axis, is open.
  static bool has_positions_first(const GraphDefShape& shape) {
    return shape.size() == 3 && shape[0] > 1 && shape[1] < 0;
  }
  static bool has_batch_first(const GraphDefNode& node) {
    return is_tensorflow_source(node.op) && !node.op.starts_with("Decode") && !node.op.starts_with("Read");
  }

  void set_batch(std::int64_t batch) {
    batch_ = batch;
    graph_.set_batch(batch);
  }

  /// Runs `work` of node `i`, whose errors get its place.
  template <class Work>
  std::vector<TensorflowValue> checked(std::size_t i, Work work) const {
    try {
      return work();
    } catch (const InputError& error) {
      if (std::string_view{error.what()}.starts_with(source_.name())) throw;
      fail(nodes_[i], error.what());
    }
  }

  void add(std::size_t i) {
    const GraphDefNode& node = nodes_[i];
    if (is_tensorflow_loss(node.op)) return graph_.add_constant(node.name, {});
    if (is_tensorflow_source(node.op)) return add_source(i);
    if (has_tensorflow_weights(node.op)) find_samples(i);
    std::vector<const TensorflowValue*> inputs;
    for (const Tensor& input : forward_.inputs(i)) inputs.push_back(value_of(input));
    results_[i] = checked(i, [&] { return infer_tensorflow(node, with_scalars(i, inputs)); });
    if ((tensors_ += results_[i].size()) > kMostTensors)
      throw InputError{source_.name() + ": more than 400000 tensors"};
    if (is_tensorflow_variable(node.op) || node.op == "Const") return add_constant(i);
    if (node.op == "PlaceholderWithDefault" && add_input_with_default(i)) return;
    if (node.op == "ReadVariableOp" && add_read(i)) return;
    const auto& read = forward_.inputs(i);
    for (const Tensor& input : read)
      if (const auto end = ends_.find(key_of(input)); end != ends_.end()) return add_after_end(i, end->second);
    if (std::ranges::any_of(read, [&](const Tensor& input) { return has_samples(input); })) return add_operator(i);
    if (std::ranges::any_of(read, [&](const Tensor& input) { return is_open(input); })) {
      for (std::size_t k = 0; k < results_[i].size(); ++k) open_.insert(key_of({i, k}));
      return;
    }
    add_work_on_parameters(i);
  }

  /// A placeholder whose shape is not known and that is added or multiplied is a number, such as a rate of dropout.
  std::vector<const TensorflowValue*> with_scalars(std::size_t i, std::vector<const TensorflowValue*> inputs) const {
    static const TensorflowValue scalar{.shape = GraphDefShape{}};
    static const Names all{"Add",     "AddV2", "Sub",       "Mul",          "RealDiv",  "Div",  "Maximum", "Minimum",
                           "Greater", "Pow",   "LessEqual", "GreaterEqual", "SelectV2", "Less", "Pack"};
    if (!all.contains(nodes_[i].op)) return inputs;
    const bool has_shape =
        std::ranges::any_of(inputs, [](const TensorflowValue* value) { return value != nullptr && value->shape; });
    for (std::size_t k = 0; k < inputs.size() && has_shape; ++k) {
      const GraphDefNode& from = nodes_[forward_.inputs(i)[k].node];
      const bool is_placeholder = from.op.starts_with("Placeholder");
      if (is_placeholder && (inputs[k] == nullptr || !inputs[k]->shape)) inputs[k] = &scalar;
    }
    return inputs;
  }

  void add_source(std::size_t i) {
    const GraphDefNode& node = nodes_[i];
    results_[i] = checked(i, [&] { return given_by(i); });
    tensors_ += results_[i].size();
    for (std::size_t k = 0; k < results_[i].size(); ++k) {
      const std::string key = key_of({i, k});
      const std::optional<GraphDefShape>& shape = results_[i][k].shape;
      if (shape && shape->empty() && node.op.starts_with("Placeholder")) {
        graph_.add_constant(key, {});
      } else if (!shape || !node.op.starts_with("Placeholder")) {
        open_.insert(key);  // until something is computed of it
      } else if (shape->front() >= 0 && shape->front() != batch_ && !has_positions_first(*shape)) {
        graph_.add_constant(key, *shape);
        graph_.remark("placeholder " + in_quotes(node.name) + " is taken as a constant, as its first axis of " +
                      std::to_string(shape->front()) + " is not the batch");
      } else {
        add_input({i, k}, *shape);
      }
    }
  }

  /// Whether a placeholder whose default does not come from samples is an input: if its batch is open.
  bool add_input_with_default(std::size_t i) {
    const GraphDefNode& node = nodes_[i];
    for (const Tensor& input : forward_.inputs(i))
      if (has_samples(input) || is_open(input)) return false;
    if (!has_open_batch(node)) return false;
    add_input({i, 0}, *node.component_shapes[0]);
    return true;
  }
  static bool has_open_batch(const GraphDefNode& node) {
    const auto& shapes = node.component_shapes;
    return !shapes.empty() && shapes[0] && !shapes[0]->empty() && shapes[0]->front() < 0;
  }

  /// Axes that are open become sizes.
  void add_input(const Tensor& tensor, GraphDefShape shape) {
    const std::string key = key_of(tensor);
    if (batch_ == 0 && !shape.empty()) set_batch(shape[0] < 0 ? kUnknownBatch : shape[0]);
    const bool is_turned = has_positions_first(shape);
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis] >= 0) continue;
      const bool is_batch = axis == (is_turned ? 1U : 0U);
      shape[axis] = is_batch ? batch_ : open_size_;
      if (!is_batch) open_axes_.insert(key);
    }
    open_.erase(key);
    results_[tensor.node][tensor.output].shape = shape;
    graph_.add_input(key, shape, forward_.is_looked_up(tensor.node));
    has_input_ = true;
  }

  /// Of an operator with weights: what it reads as samples becomes an input of the model, if nothing before it is one.
  void find_samples(std::size_t i) {
    const GraphDefNode& node = nodes_[i];
    const auto& inputs = forward_.inputs(i);
    const std::size_t place = place_of_samples(node.op);
    if (place >= inputs.size() || inputs.size() < 2) fail(node, "it has too few inputs");
    const Tensor& from = inputs[place];
    const std::size_t weights = node.op == "BlockLSTM" || node.op == "BlockLSTMV2" ? 4
                                : place == 0                                       ? 1
                                : place == 2                                       ? 1
                                                                                   : 0;
    if (weights >= inputs.size()) fail(node, "it has too few inputs");
    const bool is_of_parameters = !has_samples(inputs[weights]) && !is_open(inputs[weights]);
    const std::string key = key_of(from);
    const bool is_fixed_table = is_tensorflow_convolution(node.op) && !is_open(from) && !has_samples(from);
    if (!is_fixed_table && !is_open(from) && !random_.contains(key)) return;
    if (!is_of_parameters) return;
    const TensorflowValue* value = value_of(from);
    if (value == nullptr) fail(node, "what it reads is not known");
    GraphDefShape shape = value->shape.value_or(GraphDefShape{});
    const TensorflowValue* table = value_of(inputs[weights]);
    if (!value->shape) shape = shape_for(i, table);
    if (is_tensorflow_convolution(node.op) && shape.size() == 4 && table != nullptr && table->shape &&
        table->shape->size() == 4) {
      std::int64_t& channels = shape[node.data_format == "NCHW" ? 1 : 3];
      if (channels < 0) channels = (*table->shape)[node.op == "Conv2DBackpropInput" ? 3 : 2];
    }
    if (node.op == "MatMul" && shape.size() == 2 && shape[1] < 0 && table != nullptr && table->shape &&
        table->shape->size() == 2)
      shape[1] = (*table->shape)[node.transposes_second ? 1 : 0];
    if (shape.empty()) fail(node, "its samples " + in_quotes(key) + " have no axis");
    add_input(from, shape);
  }

  /// What an operator needs to read, where nothing else tells it.
  GraphDefShape shape_for(std::size_t i, const TensorflowValue* weights) const {
    const GraphDefNode& node = nodes_[i];
    if (node.op == "MatMul" && !node.transposes_first && weights != nullptr && weights->shape &&
        weights->shape->size() == 2)
      return {-1, (*weights->shape)[node.transposes_second ? 1 : 0]};
    const std::string name = key_of(forward_.inputs(i)[place_of_samples(node.op)]);
    fail(node, "the shape of its input " + in_quotes(name) +
                   " is not known: expected a shape in the graph, such as placeholder(tf.float32, [None, 224, 224, 3]) "
                   "or as_graph_def(add_shapes=True)");
  }

  void add_constant(std::size_t i) {
    const GraphDefNode& node = nodes_[i];
    const std::optional<GraphDefShape>& shape = results_[i][0].shape;
    if (forward_.is_learned(i)) {
      graph_.add_parameter(node.name, *shape);
      learned_ += count_of(*shape);
      return;
    }
    graph_.add_constant(node.name, shape.value_or(GraphDefShape{}));
  }

  /// A resource may have its shape where it is read alone.
  bool add_read(std::size_t i) {
    const auto& inputs = forward_.inputs(i);
    const GraphDefNode& node = nodes_[i];
    if (inputs.empty() || !is_tensorflow_variable(nodes_[inputs[0].node].op) || !results_[i][0].shape) return false;
    const GraphDefNode& variable = nodes_[inputs[0].node];
    const GraphDefShape& shape = *results_[i][0].shape;
    const bool is_known = !variable.component_shapes.empty();
    const bool is_whole = !shape.empty() && std::ranges::all_of(shape, [](std::int64_t size) { return size > 0; });
    if (is_known || !is_whole || graph_.is_parameter(variable.name)) return false;
    graph_.add_parameter(variable.name, shape);
    learned_ += count_of(shape);
    graph_.add_alias(node.name, variable.name);
    return true;
  }

  static double count_of(const GraphDefShape& shape) {
    double count = 1;
    for (const std::int64_t size : shape) count *= static_cast<double>(size);
    return count;
  }

  /// Nothing that it reads depends on samples.
  void add_work_on_parameters(std::size_t i) {
    const GraphDefNode& node = nodes_[i];
    const auto& inputs = forward_.inputs(i);
    const bool is_made = is_tensorflow_random(node.op) || std::ranges::any_of(inputs, [&](const Tensor& input) {
                           return random_.contains(key_of(input));
                         });
    const auto learned =
        std::ranges::find_if(inputs, [&](const Tensor& input) { return graph_.is_parameter(key_of(input)); });
    std::vector<std::string> keys;
    for (const Tensor& input : inputs) keys.push_back(key_of(input));
    for (std::size_t k = 0; k < results_[i].size(); ++k) {
      const std::string key = key_of({i, k});
      const GraphDefShape shape = results_[i][k].shape.value_or(GraphDefShape{});
      if (is_made && learned == inputs.end()) random_.insert(key);
      const bool is_whole = std::ranges::all_of(shape, [](std::int64_t size) { return size > 0; });
      if (learned == inputs.end() || node.op == "Shape" || gives_no_floating_numbers(node))
        graph_.add_constant(key, shape);
      else if (node.op == "IdentityN" && k < inputs.size())
        graph_.add_alias(key, key_of(inputs[k]));
      else if (results_[i][k].shape && is_whole)
        graph_.add_combined(key, keys, shape);
      else
        graph_.add_alias(key, key_of(*learned));
    }
  }

  bool reads_parameters(std::size_t i) const {
    const auto& inputs = forward_.inputs(i);
    return has_tensorflow_weights(nodes_[i].op) ||
           std::ranges::any_of(inputs, [&](const Tensor& input) { return graph_.is_parameter(key_of(input)); });
  }

  /// Operators whose shapes depend on the values, such as a choice among boxes, end the model, if none after them has
  /// parameters.
  void add_after_end(std::size_t i, std::size_t end) {
    if (reads_parameters(i))
      fail(nodes_[end], "its shape is not known: expected attributes _output_shapes (as_graph_def(add_shapes=True))");
    for (std::size_t k = 0; k < results_[i].size(); ++k) ends_.emplace(key_of({i, k}), end);
  }
  bool has_known_shape(std::size_t i) const {
    return std::ranges::all_of(results_[i], [](const TensorflowValue& value) {
      return value.shape && std::all_of(value.shape->begin() + (value.shape->empty() ? 0 : 1), value.shape->end(),
                                        [](std::int64_t size) { return size >= 0; });
    });
  }

  /// The shape of an output, which has to be known.
  GraphDefShape closed_shape(std::size_t i, std::size_t k) {
    std::optional<GraphDefShape>& shape = results_[i][k].shape;
    if (shape && !shape->empty() && shape->front() < 0) shape->front() = batch_;
    if (!shape || std::ranges::any_of(*shape, [](std::int64_t size) { return size < 0; }))
      fail(nodes_[i], "its shape is not known: expected attributes _output_shapes (as_graph_def(add_shapes=True))");
    return *shape;
  }

  /// Whether the batch is among the axes that are gone: means over it are no values of samples.
  bool reduces_batch(std::size_t i) const {
    const auto& inputs = forward_.inputs(i);
    if (!is_tensorflow_reduction(nodes_[i].op) || inputs.size() < 2) return false;
    const TensorflowValue *x = value_of(inputs[0]), *axes = value_of(inputs[1]);
    if (x == nullptr || !x->shape || axes == nullptr || !axes->numbers) return false;
    const auto count = static_cast<double>(x->shape->size());
    return std::ranges::any_of(*axes->numbers, [&](double axis) { return axis == 0 || axis == -count; });
  }

  void add_operator(std::size_t i) {
    const GraphDefNode& node = nodes_[i];
    const auto& inputs = forward_.inputs(i);
    if (reduces_batch(i)) return graph_.add_constant(node.name, results_[i][0].shape.value_or(GraphDefShape{}));
    if (node.op == "IdentityN") {
      for (std::size_t k = 0; k < inputs.size(); ++k) graph_.add_alias(key_of({i, k}), key_of(inputs[k]));
      return;
    }
    static const Names passing{"Switch", "RefSwitch", "Merge", "RefMerge", "PlaceholderWithDefault"};
    if (passing.contains(node.op)) {
      for (const std::size_t k : {0, 1}) graph_.add_alias(key_of({i, k}), key_of(inputs[0]));
      return;
    }
    const bool is_norm = node.op.find("FusedBatchNorm") != std::string::npos;
    if (!is_norm && !has_known_shape(i) && (node.op == "Where" || !gives_no_floating_numbers(node))) {
      if (!ends_.contains(node.name) && !reads_parameters(i)) ++stops_[node.op];
      return add_after_end(i, i);
    }
    if (gives_no_floating_numbers(node) && !has_known_shape(i)) {
      for (std::size_t k = 0; k < results_[i].size(); ++k) graph_.add_constant(key_of({i, k}), {});
      return;
    }
    if (is_tensorflow_lstm(node.op)) return add_lstm(i);
    for (std::size_t k = 0; k < results_[i].size(); ++k) {
      if (k > 0 && (node.op.starts_with("FusedBatchNorm") || node.op == "_FusedBatchNormEx")) break;  // statistics
      FrameworkOperator op = operator_of(i, k);
      const bool is_scalar = op.shape.empty();
      if (is_scalar || std::ranges::find(op.shape, 0) != op.shape.end())
        graph_.add_constant(op.name, op.shape);  // such as a loss
      else
        graph_.add(op);
    }
  }

  FrameworkOperator operator_of(std::size_t i, std::size_t k) {
    const GraphDefNode& node = nodes_[i];
    FrameworkOperator op{
        .name = key_of({i, k}), .type = node.op, .inputs = operands_of(i), .shape = closed_shape(i, k)};
    op.has_integers = gives_no_floating_numbers(node) || (node.op.starts_with("TopK") && k == 1);
    const std::size_t height = layout_ == Layout::kNchw ? 2 : 1;
    if (node.strides.size() == 4) op.stride = {node.strides[height], node.strides[height + 1]};
    if (const auto window = node.integers.find("ksize"); window != node.integers.end() && window->second.size() == 4)
      op.kernel = {window->second[height], window->second[height + 1]};
    if (const auto equation = node.texts.find("equation"); equation != node.texts.end())
      op.equation = equation->second[0];
    if (node.op.find("Depthwise") != std::string::npos) {
      const FrameworkShape* x = graph_.shape_of(op.inputs[0]);
      if (x != nullptr && x->size() == 4) op.groups = layout_ == Layout::kNchw ? (*x)[1] : x->back();
    }
    return op;
  }

  /// What an operator reads, without axes, sizes and moving averages.
  std::vector<std::string> operands_of(std::size_t i) const {
    const GraphDefNode& node = nodes_[i];
    const auto& inputs = forward_.inputs(i);
    std::vector<std::size_t> places;
    const auto flag = [&](const char* name) {
      const auto found = node.integers.find(name);
      return found != node.integers.end() && !found->second.empty() && found->second[0] != 0;
    };
    static const Names only_first{"Reshape",
                                  "Transpose",
                                  "ExpandDims",
                                  "Squeeze",
                                  "Pad",
                                  "PadV2",
                                  "MirrorPad",
                                  "Slice",
                                  "StridedSlice",
                                  "Tile",
                                  "ArgMax",
                                  "SplitV",
                                  "TopKV2",
                                  "SpaceToBatchND",
                                  "BatchToSpaceND",
                                  "Unpack",
                                  "OneHot",
                                  "ResizeBilinear",
                                  "ResizeNearestNeighbor",
                                  "ResizeBicubic",
                                  "CropAndResize",
                                  "MaxPoolV2",
                                  "BroadcastTo",
                                  "ClipByValue",
                                  "Cumsum",
                                  "FakeQuantWithMinMaxVars",
                                  "FakeQuantWithMinMaxVarsPerChannel",
                                  "LRN",
                                  "ReverseV2",
                                  "ReverseSequence"};
    if (node.op.starts_with("FusedBatchNorm") || node.op == "_FusedBatchNormEx")
      places = {0, 1, 2};
    else if (node.op == "BatchNormWithGlobalNormalization")
      places = flag("scale_after_normalization") ? std::vector<std::size_t>{0, 4, 3} : std::vector<std::size_t>{0, 3};
    else if (node.op == "Conv2DBackpropInput")
      places = {2, 1};
    else if (node.op == "Split")
      places = {1};
    else if (is_tensorflow_lookup(node.op))
      places = {0, 1};
    else if (is_tensorflow_reduction(node.op) || only_first.contains(node.op))
      places = {0};
    else
      for (std::size_t k = 0; k < inputs.size(); ++k) places.push_back(k);
    std::vector<std::string> names;
    for (const std::size_t place : places)
      if (place < inputs.size()) names.push_back(key_of(inputs[place]));
    if (names.empty()) fail(node, "it has too few inputs");
    return names;
  }

  /// BlockLSTM [length, x, states, outputs, w [inputs and hidden, 4 hidden], w of peepholes (3), b]; h is output 6.
  void add_lstm(std::size_t i) {
    const GraphDefNode& node = nodes_[i];
    const auto& inputs = forward_.inputs(i);
    if (inputs.size() < 9 || results_[i].size() < 7) fail(node, "expected 9 inputs with known shapes");
    if (const auto peephole = node.integers.find("use_peephole");
        peephole != node.integers.end() && peephole->second[0] != 0)
      fail(node, "peepholes are not supported");
    const GraphDefShape shape = closed_shape(i, 6);
    if (shape.size() != 3) fail(node, "expected an output of three axes; found " + std::to_string(shape.size()));
    // One bias for both products.
    graph_.add({.name = node.name + "/products",
                .type = "lstm",
                .inputs = {key_of(inputs[1]), key_of(inputs[4])},
                .shape = shape,
                .hidden = shape.back(),
                .has_bias = false});
    graph_.add({.name = key_of({i, 6}),
                .type = "add",
                .inputs = {node.name + "/products", key_of(inputs[8])},
                .shape = shape});
    for (std::size_t k = 0; k < 6; ++k) graph_.add_alias(key_of({i, k}), key_of({i, 6}));
  }

  ImportedModel finish() {
    if (!has_input_)
      throw InputError{source_.name() +
                       ": expected an input (Placeholder, IteratorGetNext, QueueDequeue...) before "
                       "operators with weights; found none"};
    std::vector<std::string> outputs;
    for (const std::size_t end : forward_.ends())
      if (has_samples({end, 0})) outputs.push_back(nodes_[end].name);
    if (outputs.size() < forward_.ends().size()) outputs.clear();  // a loss is a number: the model ends before it
    for (const std::string& remark : forward_.remarks()) graph_.remark(remark);
    for (const auto& [op, count] : stops_)
      graph_.remark("the model ends before operators whose shapes are not known: " + std::to_string(count) + " " +
                    shortened(op));
    if (!open_axes_.empty())
      graph_.remark("axes that the graph leaves open, but for the batch, are taken as " + std::to_string(open_size_) +
                    ": of " + in_quotes(*open_axes_.begin()) +
                    (open_axes_.size() > 1 ? " and " + std::to_string(open_axes_.size() - 1) + " more" : ""));
    if (!forward_.has_variables())
      graph_.remark("the graph has no variables, so its constants of floating-point numbers are taken as learned");
    return graph_.finish(source_, "TensorFlow graph", outputs, learned_);
  }

  const Source& source_;
  const std::vector<GraphDefNode>& nodes_;
  const TensorflowForward& forward_;
  Layout layout_;
  FrameworkGraph graph_;
  std::vector<std::vector<TensorflowValue>> results_;
  std::set<std::string> open_;    // tensors of samples before the model, or whose shape is not known
  std::set<std::string> random_;  // constants that were drawn
  std::set<std::string> open_axes_;
  std::map<std::string, std::size_t> ends_;   // tensors behind the end of the model, by the node that ended it
  std::map<std::string, std::size_t> stops_;  // operators that ended it
  std::int64_t batch_ = 0, open_size_ = kOpenSize;
  std::size_t tensors_ = 0;
  double learned_ = 0;  // scalars of the variables that the model reads
  bool has_input_ = false;
};

}  // namespace

bool is_tensorflow_graph(const Source& source) { return tensorflow::form_of(source).has_value(); }

ImportedModel read_tensorflow_graph(const Source& source) {
  const std::optional<tensorflow::Form> form = tensorflow::form_of(source);
  if (!form) throw InputError{source.name() + ": expected a GraphDef"};
  const GraphDefFile file = parse_graph_def_file(source.content(), form->is_text, form->form, source.name());
  if (file.nodes.size() > kMostTensorflowNodes) throw InputError{source.name() + ": more than 200000 nodes"};
  const TensorflowForward forward{source.name(), file};
  const std::vector<std::int64_t> batches = TensorflowReader{source, file, forward}.batches();
  std::optional<std::string> mistake;
  std::vector<std::int64_t> open_sizes{kOpenSize};
  for (const std::int64_t length : forward.sequence_lengths(2)) open_sizes.push_back(length);
  for (const std::int64_t open_size : open_sizes)
    for (const std::int64_t batch : batches) {
      try {
        return TensorflowReader{source, file, forward}.read(batch, open_size);
      } catch (const InputError& error) {
        if (!mistake) mistake = error.what();
      }
    }
  throw InputError{*mistake};
}

}  // namespace rehearse
