#pragma once
// From the operators of a framework's graph, with the shapes of what they give, to a model of family "graph": what
// importers of such graphs share.

#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workloads/importers/importer.hpp"
#include "workloads/importers/operator_actions.hpp"
#include "workloads/layer_graph.hpp"

namespace rehearse {

using FrameworkShape = std::vector<std::int64_t>;

/// Scalars of a shape that is known to be small enough.
inline std::int64_t count_of(const FrameworkShape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>{});
}

/// An operator as the framework has it. Parameters are inputs too, in the order that PyTorch's functions, ONNX and
/// TensorFlow agree on: x, weight, bias.
struct FrameworkOperator {
  std::string name;                 // of what it gives
  std::string type;                 // "Conv2d", "aten.linear.default", "BatchNormalization"
  std::vector<std::string> inputs;  // values; those that are not known are scalars, which nobody counts
  FrameworkShape shape{};           // of what it gives, with the batch
  FrameworkShape kernel{}, stride{};
  std::int64_t groups = 0;         // 0: those of the weights
  std::int64_t hidden = 0;         // of recurrent layers
  std::int64_t layers = 1;         // the same
  std::int64_t heads = 1;          // of a layer of attention
  bool is_bidirectional = false;   // the same
  std::optional<bool> has_bias{};  // the same; none: as its parameters say, those of each layer and direction
  bool has_integers = false;       // gives integers or truth values
  std::string equation{};          // of a sum of products, such as "abc,cd->abd"
};

/// Collects operators in their order.
class FrameworkGraph {
 public:
  /// `where` precedes errors. Weights of convolutions are [outputs, inputs, height, width] if their layout is NCHW and
  /// [height, width, inputs, outputs] if it is NHWC.
  FrameworkGraph(std::string where, Layout layout, Layout weights)
      : where_{std::move(where)}, layout_{layout}, weights_{weights} {}
  FrameworkGraph(std::string where, Layout layout) : FrameworkGraph{std::move(where), layout, layout} {}

  /// The size of the batch, before inputs are added; without it the first axis of the first input is the batch.
  void set_batch(std::int64_t batch) { batch_ = batch; }
  void add_input(const std::string& name, const FrameworkShape& shape, bool has_integers);
  void add_parameter(const std::string& name, const FrameworkShape& shape);
  /// What does not depend on samples and is not learned.
  void add_constant(const std::string& name, const FrameworkShape& shape);
  /// Throws InputError if its type needs what is not there. A type that is not known is an element-wise one.
  void add(const FrameworkOperator& op);
  /// The value `name` is `of`.
  void add_alias(const std::string& name, const std::string& of);
  /// What is worked out of parameters alone, such as their sum: it has those of all.
  void add_combined(const std::string& name, const std::vector<std::string>& of, const FrameworkShape& shape);
  /// The same scalars in another shape.
  void add_shaped_alias(const std::string& name, const std::string& of, const FrameworkShape& shape);
  bool has(const std::string& name) const { return values_.contains(name); }
  /// The shape of a value; none if there is no such value.
  const FrameworkShape* shape_of(const std::string& name) const;
  bool is_parameter(const std::string& name) const;
  /// Whether one of the values is not the same for all samples.
  bool depends_on_samples(const std::vector<std::string>& names) const;

  /// The model, from `source`, which is a `kind`. Without outputs it ends in all that nobody reads. Throws InputError if
  /// its layers do not have `parameters` scalars, those of all weights that it reads; none: that is not known.
  ImportedModel finish(const Source& source, const std::string& kind, const std::vector<std::string>& outputs,
                       std::optional<double> parameters = std::nullopt);

  void remark(const std::string& text) { remarks_.push_back(text); }

 private:
  struct Value {
    enum class Kind { kTensor, kParameter, kConstant } kind = Kind::kConstant;
    FrameworkShape shape{};
    std::string layer{};                // of a tensor, or the parameter
    std::vector<std::string> others{};  // further parameters that went into it
  };
  /// Of one operator, by what they are: names of values.
  struct Operands {
    std::vector<std::string> tensors, parameters;
  };

  [[noreturn]] void fail(const FrameworkOperator& op, const std::string& message) const;
  FrameworkShape sample_shape(const std::string& name, const FrameworkShape& shape) const;
  std::string unique_name(const std::string& name);
  Operands operands_of(const FrameworkOperator& op) const;
  /// "; "w" is a constant, which is not learned": of the inputs that are.
  std::string words_on_constants(const FrameworkOperator& op) const;
  const std::string& tensor(const FrameworkOperator& op, const Operands& operands, std::size_t i) const;
  const std::string& parameter(const FrameworkOperator& op, const Operands& operands, std::size_t i) const;
  /// Writes a layer whose output is a value of the operator's shape.
  void write(const FrameworkOperator& op, GraphLayer layer);
  std::string write_part(GraphLayer layer);
  /// Says whose variables a layer with these weights, or this part of them, uses.
  void own(GraphLayer& layer, const std::string& weights, const std::string& part = "");
  std::string parameter_layer(const std::string& name);

  /// Whether the action is that of one kind of layer, which is added.
  bool add_of_one_kind(const FrameworkOperator& op, OperatorAction action, const Operands& operands);
  void add_elementwise(const FrameworkOperator& op, GraphLayer::Kind kind, const Operands& operands);
  void add_convolution(const FrameworkOperator& op, const Operands& operands, bool is_transposed);
  void add_linear(const FrameworkOperator& op, const Operands& operands);
  void add_product(const FrameworkOperator& op, const Operands& operands);
  void add_einsum(const FrameworkOperator& op, const Operands& operands);
  void add_norm(const FrameworkOperator& op, GraphLayer::Kind kind, const Operands& operands);
  void add_pool(const FrameworkOperator& op, GraphLayer::Kind kind, const Operands& operands);
  void add_rearranged(const FrameworkOperator& op, GraphLayer::Kind kind, const Operands& operands);
  void add_embedding(const FrameworkOperator& op, const Operands& operands);
  void add_attention_layer(const FrameworkOperator& op, const Operands& operands);
  void add_recurrent(const FrameworkOperator& op, GraphLayer::Kind kind, const Operands& operands);

  std::string where_;
  Layout layout_, weights_;
  std::int64_t batch_ = 0;
  LayerGraph net_;
  std::map<std::string, Value, std::less<>> values_;
  std::map<std::string, std::string, std::less<>> owners_;  // of weights
  std::map<std::string, int, std::less<>> names_;           // of layers
  std::set<std::string, std::less<>> tables_;               // layers that are parameters alone
  std::map<std::pair<std::string, bool>, int> unknown_;     // types; whether they have matrices of parameters
  std::vector<std::string> remarks_;
};

}  // namespace rehearse
