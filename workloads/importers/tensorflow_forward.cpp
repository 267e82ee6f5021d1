#include "workloads/importers/tensorflow_forward.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {

using Names = std::set<std::string_view>;

constexpr std::string_view kMissing =
    "it reads a node that the graph does not have: expected a whole GraphDef; OpenCV's text graphs, for instance, "
    "leave "
    "the weights out";

constexpr std::string_view kLoop =
    "it is part of a loop of the graph, whose number of turns no attribute tells: expected none (while_loop, "
    "dynamic_rnn, "
    "map_fn) between input and output";

/// What a framework adds to the forward pass for training, or beside it.
bool is_beside(const GraphDefNode& node) {
  const auto has = [&](const char* part) { return node.name.find(part) != std::string::npos; };
  const auto begins = [&](const char* part) { return node.op.starts_with(part); };
  static const std::vector<const char*> all{"Apply",      "ResourceApply", "SparseApply",     "ResourceSparseApply",
                                            "Assign",     "Save",          "Restore",         "Scatter",
                                            "QueueClose", "QueueSize",     "ResourceScatter", "QueueEnqueue"};
  return node.name.starts_with("gradients") || has("/gradients/") || has("/gradients_") || has("Initializer/") ||
         has("/initial_value") || node.name.starts_with("save/") || has("/save/") || std::ranges::any_of(all, begins) ||
         node.op.ends_with("Grad") || node.op.ends_with("Summary") || node.op.find("SummaryV2") != std::string::npos ||
         node.op == "NoOp";
}

/// Why an operator that computes is not taken over.
std::optional<std::string> reason_against(const GraphDefNode& node) {
  static const Names loops{"Enter",          "RefEnter",          "Exit",     "RefExit",
                           "NextIteration",  "RefNextIteration",  "LoopCond", "While",
                           "StatelessWhile", "TensorArrayReadV3", "_While",   "TensorArrayConcatV3"};
  static const Names choices{"If", "StatelessIf", "Case", "StatelessCase"};
  static const Names calls{"PartitionedCall", "StatefulPartitionedCall", "RemoteCall", "TPUPartitionedCall"};
  static const Names cells{"LSTMBlockCell", "LSTMBlockCellV2", "GRUBlockCell", "GRUBlockCellV2"};
  static const Names volumes{"Conv3D", "Conv3DBackpropInput", "Conv3DBackpropInputV2"};
  static const Names compiled{"TRTEngineOp", "XlaLaunch", "NeuronOp"};
  const std::string& op = node.op;
  if (loops.contains(op)) return std::string{kLoop};
  if (choices.contains(op))
    return "it chooses between functions, which is not supported: expected a graph without tf.cond, as for inference";
  if (calls.contains(op)) return "it calls the function " + in_quotes(node.function) + ", which the file does not have";
  if (op == "SymbolicGradient") return "the gradient of a function is not supported";
  if (op.starts_with("Quantized")) return "expected the graph before its operators were quantized";
  if (op.starts_with("CudnnRNN"))
    return "it has its weights in one variable of cuDNN's own order, which does not tell their sizes";
  if (cells.contains(op)) return "cells of recurrent layers as one operator are not supported";
  if (volumes.contains(op)) return "convolutions of volumes are not supported";
  if (compiled.contains(op)) return "expected the graph before parts of it were compiled";
  return std::nullopt;
}

/// Whether the last part of a name is one of these words, or one with a number behind it: "a/Const_1".
bool is_called(std::string_view name, const Names& words) {
  const std::size_t slash = name.rfind('/');
  if (slash != std::string_view::npos) name.remove_prefix(slash + 1);
  const std::size_t end = name.find_last_not_of("0123456789");
  const bool has_number = end != std::string_view::npos && end + 1 < name.size() && name[end] == '_';
  return words.contains(name) || (has_number && words.contains(name.substr(0, end)));
}

/// Moving averages of normalisations, which no optimizer updates.
bool is_moving_average(std::string_view name) {
  for (const char* end : {"/resource", "/ReadVariableOp", "/read"})
    if (name.ends_with(end)) name.remove_suffix(std::string_view{end}.size());
  static const Names words{
      "moving_mean", "moving_variance",         "moving_var", "running_mean", "running_var", "pop_mean", "pop_var",
      "EMA",         "ExponentialMovingAverage"};
  return is_called(name, words);
}

/// A name without the number of its tower: "tower_3/logits".
std::string without_tower(const std::string& name) {
  for (const std::string_view word : {"tower_", "tower", "clone_", "replica_", "v"}) {
    if (!name.starts_with(word)) continue;
    std::size_t at = word.size();
    while (at < name.size() && std::isdigit(static_cast<unsigned char>(name[at])) != 0) ++at;
    if (at > word.size() && at < name.size() && name[at] == '/') return name.substr(at);
  }
  return name;
}

}  // namespace

bool is_tensorflow_variable(std::string_view op) {
  return op == "Variable" || op == "VariableV2" || op == "VarHandleOp" || op == "AutoReloadVariable";
}

bool is_tensorflow_source(std::string_view op) {
  static const Names all{"Placeholder",
                         "PlaceholderV2",
                         "Unstage",
                         "StageGet",
                         "MapUnstage",
                         "ParseExample",
                         "ParseExampleV2",
                         "ParseSingleExample",
                         "DecodeRaw",
                         "DecodeJpeg",
                         "DecodePng",
                         "DecodeBmp",
                         "DecodeGif",
                         "DecodeImage",
                         "DecodeAndCropJpeg",
                         "DecodeCSV",
                         "DecodeWav",
                         "ReaderRead",
                         "ReaderReadV2",
                         "ReadFile",
                         "PyFunc",
                         "EagerPyFunc",
                         "FunctionBufferingResourceGetNext",
                         "BarrierTakeMany",
                         "InfeedDequeue",
                         "TensorArrayGatherV3",  // of a loop without weights
                         "InfeedDequeueTuple"};
  return all.contains(op) || op.starts_with("QueueDequeue") || op.find("IteratorGetNext") != std::string_view::npos;
}

bool is_tensorflow_lookup(std::string_view op) { return op == "Gather" || op == "GatherV2" || op == "ResourceGather"; }

bool is_tensorflow_convolution(std::string_view op) {
  return op == "Conv2D" || op == "DepthwiseConv2dNative" || op == "Conv2DBackpropInput" || op == "_FusedConv2D" ||
         op == "_FusedDepthwiseConv2dNative";
}

bool is_tensorflow_product(std::string_view op) {
  return op == "MatMul" || op == "_FusedMatMul" || op.starts_with("BatchMatMul") || op == "Einsum" || op == "XlaEinsum";
}

bool is_tensorflow_lstm(std::string_view op) { return op == "BlockLSTM" || op == "BlockLSTMV2"; }

bool is_tensorflow_loss(std::string_view op) {
  return op.find("CrossEntropyWithLogits") != std::string_view::npos || op == "CTCLoss" || op == "CTCLossV2";
}

bool is_tensorflow_random(std::string_view op) {
  static const Names all{"RandomUniform",         "RandomStandardNormal",   "TruncatedNormal",
                         "StatelessRandomNormal", "StatelessRandomUniform", "ParameterizedTruncatedNormal"};
  return all.contains(op);
}

bool is_tensorflow_reduction(std::string_view op) {
  static const Names all{"Mean", "Sum", "Max", "Min", "Prod", "All", "Any", "EuclideanNorm"};
  return all.contains(op);
}

bool has_tensorflow_weights(std::string_view op) {
  return is_tensorflow_convolution(op) || is_tensorflow_product(op) || is_tensorflow_lookup(op) ||
         is_tensorflow_lstm(op);
}

bool gives_no_floating_numbers(const GraphDefNode& node) {
  static const Names all{"Shape",        "ShapeN",     "Rank",       "Size",    "ArgMax",    "ArgMin",
                         "Equal",        "NotEqual",   "Less",       "Greater", "LessEqual", "Where",
                         "GreaterEqual", "InTopKV2",   "LogicalAnd", "InTopK",  "IsFinite",  "LogicalOr",
                         "IsInf",        "LogicalNot", "IsNan",      "All",     "Any"};
  return all.contains(node.op) || !node.is_floating;
}

TensorflowForward::TensorflowForward(std::string where, const GraphDefFile& file)
    : where_{std::move(where)}, file_{file}, nodes_{file.nodes} {
  connect();
  find_learned();
  find_loops();
  find_read();
  keep_needed_inputs();
  is_seen_.resize(nodes_.size());
  find_ends();
  state_.resize(nodes_.size());
  for (const std::size_t end : ends_) order_before(end);
  find_identifiers();
  const auto is_choice = [&](std::size_t i) { return nodes_[i].op.ends_with("Merge") && !inputs_[i].empty(); };
  if (std::ranges::any_of(order_, is_choice))
    remarks_.emplace_back("of conditions of the graph (tf.cond) the branch that is taken if they are true is read");
}

/// Whether it hands something to a loop that has no weights, such as one that chooses among boxes: the model ends there.
bool TensorflowForward::begins_loop(std::string_view op) const {
  return !loops_have_weights_ && (op == "Enter" || op == "RefEnter" || op.starts_with("TensorArrayScatter") ||
                                  op.starts_with("TensorArrayWrite"));
}

void TensorflowForward::fail(const GraphDefNode& node, const std::string& message) const {
  throw InputError{where_ + ": operator " + in_quotes(node.name) + " (" + shortened(node.op) + "): " + message};
}

/// Who reads whom, but for control edges.
void TensorflowForward::connect() {
  for (std::size_t i = 0; i < nodes_.size(); ++i) by_name_.emplace(nodes_[i].name, i);
  inputs_.resize(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    for (const std::string& input : nodes_[i].inputs) {
      if (input.starts_with('^')) continue;
      const std::string_view producer = producer_of(input);
      Tensor tensor;
      for (const char digit : std::string_view{input}.substr(producer.size()).substr(0, 7))
        if (std::isdigit(static_cast<unsigned char>(digit)) != 0)
          tensor.output = 10 * tensor.output + static_cast<std::size_t>(digit - '0');
      if (const auto found = by_name_.find(producer); found != by_name_.end()) tensor.node = found->second;
      inputs_[i].push_back(tensor);
    }
}

/// Whether what a turn of a loop computes has weights: before its NextIteration, after its Merge.
void TensorflowForward::find_loops() {
  std::vector<bool> is_seen(nodes_.size());
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].op.ends_with("NextIteration") && !is_beside(nodes_[i])) open.push_back(i);
  while (!open.empty() && !loops_have_weights_) {
    const std::size_t i = open.back();
    open.pop_back();
    if (is_seen[i]) continue;
    is_seen[i] = true;
    const std::string& op = nodes_[i].op;
    loops_have_weights_ = is_tensorflow_product(op) || is_tensorflow_convolution(op) || is_tensorflow_variable(op) ||
                          op.find("LSTM") != std::string::npos || op.find("GRU") != std::string::npos;
    if (op.ends_with("Merge")) continue;
    for (const Tensor& input : inputs_[i])
      if (input.node != kNowhere) open.push_back(input.node);
  }
}

/// What another node of the model reads.
void TensorflowForward::find_read() {
  is_read_.resize(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    for (const Tensor& input : inputs_[i])
      if (input.node != kNowhere && !is_beside(nodes_[i]) && !is_tensorflow_loss(nodes_[i].op) &&
          !begins_loop(nodes_[i].op))
        is_read_[input.node] = true;
}

/// Of sources none but those of queues: what lies before them is the input pipeline. Of a condition the branch that is
/// taken if it is true, which is the second one.
void TensorflowForward::keep_needed_inputs() {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    std::vector<Tensor>& inputs = inputs_[i];
    const std::string& op = nodes_[i].op;
    const bool is_source = is_tensorflow_source(op) && !op.starts_with("QueueDequeue");
    if (is_source || is_tensorflow_variable(op)) inputs.clear();
    const bool keeps_first = op == "Switch" || op == "RefSwitch" || op == "PlaceholderWithDefault";
    if (keeps_first && inputs.size() > 1) inputs.resize(1);
    if (op.find("FusedBatchNorm") != std::string::npos && inputs.size() > 3) inputs.resize(3);  // moving averages
    if (op == "BatchNormWithGlobalNormalization" && inputs.size() == 5) {  // [x, mean, variance, beta, gamma]
      const auto scale = nodes_[i].integers.find("scale_after_normalization");
      if (scale == nodes_[i].integers.end() || scale->second[0] == 0) inputs.resize(4);
      inputs[1] = inputs[2] = inputs[0];
    }
    if (is_tensorflow_lstm(op) && inputs.size() == 9)  // [length, x, states (2), w, w of peepholes (3), b]
      for (const std::size_t place : {0, 2, 3, 5, 6, 7}) inputs[place] = inputs[1];
    if ((op == "Merge" || op == "RefMerge") && inputs.size() > 1) { inputs = {inputs[1]}; }
  }
}

void TensorflowForward::find_learned() {
  has_variables_ =
      std::ranges::any_of(nodes_, [](const GraphDefNode& node) { return is_tensorflow_variable(node.op); });
  if (file_.trainable) trainable_.insert(file_.trainable->begin(), file_.trainable->end());
  const bool knows_trainable = !trainable_.empty();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const GraphDefNode& node = nodes_[i];
    if (!knows_trainable && node.op.find("Apply") != std::string::npos && !inputs_[i].empty() &&
        inputs_[i][0].node != kNowhere)
      trainable_.insert(nodes_[inputs_[i][0].node].name);  // what an optimizer updates
    if (is_tensorflow_convolution(node.op)) mark_weights(i, 1);
    if (is_tensorflow_product(node.op))
      for (const std::size_t place : {0, 1}) mark_weights(i, place);
    if (is_tensorflow_lookup(node.op) && node.is_floating) mark_weights(i, 0);
    if (is_tensorflow_lstm(node.op)) mark_weights(i, 4);
    if (node.op == "BiasAdd" || node.op == "BiasAddV1") mark_weights(i, 1);
    if (node.op.find("FusedBatchNorm") != std::string::npos)
      for (const std::size_t place : {1, 2})
        if (has_variables_) mark_weights(i, place);
  }
}

/// The variable or constant that a node is, perhaps in another order or type; kNowhere if it is something else.
std::size_t TensorflowForward::variable_behind(std::size_t node) const {
  static const Names passing{"Identity", "ReadVariableOp", "Transpose",    "Reshape", "Cast",
                             "Squeeze",  "ExpandDims",     "StopGradient", "Switch",  "RefSwitch"};
  constexpr int kMostPassed = 16;
  for (int passed = 0; passed < kMostPassed && node != kNowhere; ++passed) {
    if (is_tensorflow_variable(nodes_[node].op) || nodes_[node].op == "Const") return node;
    if (!passing.contains(nodes_[node].op) || inputs_[node].empty()) return kNowhere;
    node = inputs_[node][0].node;
  }
  return kNowhere;
}

/// Weights are known by their places, though no optimizer updates them.
void TensorflowForward::mark_weights(std::size_t node, std::size_t place) {
  if (place >= inputs_[node].size()) return;
  const std::size_t variable = variable_behind(inputs_[node][place].node);
  if (variable != kNowhere) weights_.insert(variable);
}

bool TensorflowForward::is_learned(std::size_t i) const {
  const GraphDefNode& node = nodes_[i];
  if (is_tensorflow_variable(node.op)) {
    const auto& stated = node.component_shapes.empty() ? node.shapes : node.component_shapes;
    if (stated.empty() || !stated[0] || stated[0]->empty() || !node.is_floating) return false;
    if (std::ranges::any_of(*stated[0], [](std::int64_t size) { return size < 1; })) return false;
    if (weights_.contains(i)) return true;
    return trainable_.empty() ? !is_moving_average(node.name) : trainable_.contains(node.name);
  }
  if (node.op != "Const" || has_variables_ || !node.tensor || !node.tensor->is_floating) return false;
  const GraphDefShape& shape = node.tensor->shape;
  if (shape.empty() || std::ranges::find(shape, 0) != shape.end()) return false;
  if (weights_.contains(i)) return true;
  static const Names words{"Const",  "x",       "y",     "mean", "std",
                           "stddev", "epsilon", "zeros", "ones"};  // names that TensorFlow gives
  return shape != GraphDefShape{1} && !is_moving_average(node.name) && !is_called(node.name, words);
}

std::vector<std::int64_t> TensorflowForward::sequence_lengths(std::size_t most) const {
  std::vector<std::int64_t> lengths;
  for (const std::size_t i : order_) {
    const auto parts = nodes_[i].integers.find("num");
    const bool has_parts = nodes_[i].op == "Unpack" && parts != nodes_[i].integers.end() && parts->second[0] > 1;
    if (has_parts && lengths.size() < most && std::ranges::find(lengths, parts->second[0]) == lengths.end())
      lengths.push_back(parts->second[0]);
  }
  return lengths;
}

/// What losses read, of several towers the first.
std::vector<std::size_t> TensorflowForward::losses_of_one_tower() {
  std::vector<std::size_t> losses;
  std::size_t count = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!is_tensorflow_loss(nodes_[i].op) || is_beside(nodes_[i]) || inputs_[i].empty()) continue;
    ++count;
    if (towers_.insert(without_tower(nodes_[i].name)).second) losses.push_back(i);
  }
  if (losses.size() < count) remarks_.emplace_back("of towers, one for each GPU, the first is taken");
  return losses;
}

void TensorflowForward::find_ends() {
  std::size_t others = 0;
  const auto try_end = [&](std::size_t end) {
    sees_products_ = false;
    if (sees_new_parameters(end))
      ends_.push_back(end);
    else if (sees_products_)
      ++others;
  };
  for (const std::size_t loss : losses_of_one_tower())
    if (const Tensor logits = inputs_[loss][0]; logits.node != kNowhere) try_end(logits.node);
  const bool has_losses = !ends_.empty();
  for (const std::string& output : file_.outputs)
    if (const auto found = by_name_.find(producer_of(output)); found != by_name_.end() && !has_losses)
      try_end(found->second);
  const bool has_signature = !has_losses && !ends_.empty();
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (!is_read_[i] && !has_signature && variable_behind(i) == kNowhere && !is_beside(nodes_[i]) &&
        !is_tensorflow_loss(nodes_[i].op) && towers_.insert(without_tower(nodes_[i].name)).second)
      try_end(i);
  if (others > 0)
    remarks_.push_back("left out are further ends of the graph, which have no trained parameters of their own: " +
                       std::to_string(others));
  if (!ends_.empty()) return;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (is_tensorflow_convolution(nodes_[i].op) || is_tensorflow_product(nodes_[i].op))
      for (const Tensor& input : inputs_[i])
        if (input.node == kNowhere) fail(nodes_[i], std::string{kMissing});
  bool has_weights = false;
  for (std::size_t i = 0; i < nodes_.size() && has_variables_ && !has_weights; ++i) has_weights = is_learned(i);
  throw InputError{where_ + ": expected a model with weights; found " +
                   (has_weights ? "variables that no operator reads"
                    : has_variables_
                        ? "only variables that are none: single numbers, integers, of unknown size or not trained"
                        : "neither a variable nor a constant of several floating-point numbers")};
}

/// Whether there are parameters before `end` that no end before it had.
bool TensorflowForward::sees_new_parameters(std::size_t end) {
  bool has_new = false;
  std::vector<std::size_t> open{end};
  while (!open.empty()) {
    const std::size_t i = open.back();
    open.pop_back();
    if (is_seen_[i] || is_tensorflow_loss(nodes_[i].op)) continue;
    is_seen_[i] = true;
    has_new = has_new || (is_learned(i) && (trainable_.empty() || trainable_.contains(nodes_[i].name)));
    sees_products_ = sees_products_ || is_tensorflow_convolution(nodes_[i].op) || is_tensorflow_product(nodes_[i].op);
    for (const Tensor& input : inputs_[i])
      if (input.node != kNowhere && !is_seen_[input.node]) open.push_back(input.node);
  }
  return has_new;
}

void TensorflowForward::order_before(std::size_t end) {
  if (state_[end] != 0) return;
  struct Step {
    std::size_t node, next = 0;
  };
  std::vector<Step> stack;
  const auto enter = [&](std::size_t node) {
    state_[node] = 1;
    const bool is_of_loop = loops_have_weights_ && nodes_[node].op == "TensorArrayGatherV3";
    if (is_of_loop) fail(nodes_[node], std::string{kLoop});
    if (const auto reason = reason_against(nodes_[node])) fail(nodes_[node], *reason);
    stack.push_back({node});
  };
  enter(end);
  while (!stack.empty()) {
    Step& step = stack.back();
    const std::vector<Tensor>& inputs = inputs_[step.node];
    if (is_tensorflow_loss(nodes_[step.node].op) || step.next == inputs.size()) {
      state_[step.node] = 2;
      order_.push_back(step.node);
      stack.pop_back();
      continue;
    }
    const Tensor input = inputs[step.next++];
    const GraphDefNode& reader = nodes_[step.node];
    if (input.node == kNowhere && is_tensorflow_source(reader.op)) continue;
    if (input.node == kNowhere) fail(reader, std::string{kMissing});
    if (state_[input.node] == 1) fail(reader, "it waits for itself");
    if (state_[input.node] == 0) enter(input.node);
  }
}

/// Integers that lead to a look-up.
void TensorflowForward::find_identifiers() {
  looked_up_.resize(nodes_.size());
  for (auto i = order_.rbegin(); i != order_.rend(); ++i) {
    const bool is_lookup = is_tensorflow_lookup(nodes_[*i].op) && inputs_[*i].size() > 1;
    if (is_lookup) looked_up_[inputs_[*i][1].node] = true;
    if (!looked_up_[*i] || is_lookup || !gives_no_floating_numbers(nodes_[*i])) continue;
    for (const Tensor& input : inputs_[*i])
      if (input.node != kNowhere) looked_up_[input.node] = true;
  }
}

}  // namespace rehearse
