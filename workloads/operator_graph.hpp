#pragma once
// A workload: the computational graph of one training step on one worker, per batch, before any cluster is known.
// Start here; model_zoo.hpp reads structure descriptions, graph_builder.hpp turns layers into operators.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/collective_kind.hpp"
#include "sim/base/units.hpp"

namespace rehearse {

/// What a kernel does, as far as its cost is concerned.
enum class OperatorKind {
  kConvolution,
  kDense,
  kProduct,    // of two activations, as in attention
  kRecurrent,  // one position of a recurrent layer
  kEmbedding,  // rows of a table, or positions in another order
  kBatchNorm,
  kLayerNorm,
  kActivation,
  kElementwise,  // add, scale, concatenation of two branches, shake-shake mixing
  kDropout,
  kPooling,
  kSoftmaxLoss,
  kUpdate,  // optimizer update of one variable; runs where the variable lives
};

enum class Phase { kForward, kBackwardData, kBackwardWeights, kBackward, kUpdate };

enum class Layout { kNchw, kNhwc };

/// Shape of a matrix-like kernel after lowering to a matrix product: rows x columns outputs, each a sum over
/// `reduction` terms. All zero for kernels that are not matrix-like.
struct MatrixShape {
  double rows = 0;       // batch * output height * output width for a convolution
  double columns = 0;    // output channels
  double reduction = 0;  // input channels * kernel height * kernel width
  double products = 1;  // independent products of this shape in one kernel: groups, experts, or batch * attention heads

  bool operator==(const MatrixShape&) const = default;
};

/// A convolution of images before it is lowered; of a transposed one, the convolution whose gradient it is.
struct ConvolutionShape {
  std::int64_t batch = 1;
  std::int64_t in_height = 1, in_width = 1, in_channels = 1;  // channels of all groups together
  std::int64_t out_height = 1, out_width = 1, out_channels = 1;
  std::int64_t kernel_height = 1, kernel_width = 1, stride = 1, groups = 1;
  bool is_transposed = false;

  bool operator==(const ConvolutionShape&) const = default;
};

/// Attention in one kernel, which keeps no scores.
struct AttentionShape {
  std::int64_t batch = 1, heads = 1, key_heads = 1;
  std::int64_t queries = 1, keys = 1;  // positions
  std::int64_t head_features = 1;      // of queries and keys
  bool is_causal = false;              // no position sees later ones
  std::int64_t value_features = 0;     // of values and of the output; 0: as head_features

  std::int64_t features_of_values() const { return value_features > 0 ? value_features : head_features; }
  bool operator==(const AttentionShape&) const = default;
};

/// GPUs that compute a step's layers together: with parts of products (tensor parallelism), of heads or of positions for the same
/// samples (context parallelism), or each with some of the experts (expert parallelism): of a machine and of several, where tokens
/// that go to another machine go there once.
enum class SplitGroup : std::uint8_t { kTensor, kHeads, kPositions, kExperts, kExpertMachines };
inline constexpr std::size_t kSplitGroups = 5;

/// What such GPUs send one another at a place of the graph, where no kernel runs. It is launched behind the kernel that stands
/// before it; the operators that read it wait for it, others do not.
struct TensorExchange {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Bytes bytes{};  // of the whole tensor: that is added up, that is there after an all-gather or before a reduce-scatter
  SplitGroup among = SplitGroup::kTensor;
  PayloadOf of = PayloadOf::kAll;  // where GPUs have other loads of experts each
  int layer = 0;                   // .. that has these

  bool operator==(const TensorExchange&) const = default;
};

/// One kernel launch. Sizes are for the whole batch.
struct Operator {
  std::string name;
  OperatorKind kind = OperatorKind::kElementwise;
  Phase phase = Phase::kForward;
  Flops flops{};       // 2 per multiply-add
  Bytes bytes_read{};  // from device memory
  Bytes bytes_written{};
  MatrixShape matrix{};
  bool is_3x3_stride_1 = false;  // eligible for Winograd convolution
  bool is_again = false;         // of the forward phase, but run in the backward pass, as its first result was not kept
  bool is_composite = false;     // an activation other than ReLU, which a framework may compose of elementary kernels
  int factor_bits = 0;           // of a product of casts: 8 or 4; 0: as the workload's precision
  bool is_cast = false;          // to 8 or 4 bits, by the function that launches the product behind it
  bool is_further_part = false;  // of a product or an exchange: the host has launched it with the first one
  bool awaits_loads =
      false;  // the host launches it when it knows how many rows each expert has, which the GPU computes before
  bool serves_all_passes = false;  // a cast of weights, which all micro-batches of a step may use
  Bytes
      transposed{};  // of a cast, read and written besides where fp8 units take only sums that are contiguous in memory
  std::optional<ConvolutionShape> convolution;  // of the layer, the same for all of its passes
  std::optional<AttentionShape> attention;      // the same for both passes
  std::optional<TensorExchange> exchange;       // instead of a kernel
  std::optional<Seconds> measured_time;         // overrides the kernel-time model; includes the host's dispatch
  std::vector<std::int64_t> output_shape;       // [batch, height, width, channels] or [batch, features]
  std::vector<int>
      reads_variables;  // indices into Workload::variables that must have arrived before the kernel is dispatched
  std::vector<int> produces_gradients;  // indices into Workload::variables whose gradient (or moving-average update) is
                                        // complete after this kernel
  int backward_of = -1;                 // vertex of the forward operator of the same layer
  Bytes output{};                       // forward: what later layers read of it; 0 within a layer, or if not stated
  Bytes kept{};                         // forward: for the backward pass; they add up to Workload::activation_bytes
  Bytes kept_again{};  // of a part run again, at its first operator: recomputed_bytes; that a weight's gradient reads

  bool is_of_forward_pass() const { return phase == Phase::kForward && !is_again; }
  bool operator==(const Operator&) const = default;
};

/// Operator `to` reads what operator `from` wrote.
struct OperatorEdge {
  std::size_t from = 0, to = 0;
  bool operator==(const OperatorEdge&) const = default;
};

/// How a layer differs from the one that is stored for it.
struct LayerCopy {
  std::string stored_name, name;                // with which names begin: "encoder/layer3/", "encoder/layer17/"
  int first_variable = 0, behind_variable = 0;  // of the stored layer
  int variables = 0;                            // so far behind them are its own
  int first_vertex = 0, behind_vertex = 0;      // the forward operators of the stored layer
  int vertices = 0;                             // so far behind them are its own

  std::string named(const std::string& stored) const {
    return stored.starts_with(stored_name) ? name + stored.substr(stored_name.size()) : stored;
  }
  int variable(int stored) const {
    return stored + (stored >= first_variable && stored < behind_variable ? variables : 0);
  }
};

/// An operator in its place in a graph: converts to Operator.
class OperatorAt {
 public:
  /// `copy`: nullptr if it is where it is stored. Both outlive this.
  OperatorAt(const Operator& stored, const LayerCopy* copy) : stored_{&stored}, copy_{copy} {}

  /// What it has alike with its likes in other layers: all but the following four, which are those of the stored layer.
  const Operator* operator->() const { return stored_; }
  const Operator& stored() const { return *stored_; }
  std::string name() const;
  std::vector<int> reads_variables() const { return own(stored_->reads_variables); }
  std::vector<int> produces_gradients() const { return own(stored_->produces_gradients); }
  int backward_of() const;
  Operator whole() const;
  operator Operator() const { return whole(); }  // NOLINT(google-explicit-constructor): it is one, in its place

 private:
  std::vector<int> own(std::vector<int> variables) const;

  const Operator* stored_;
  const LayerCopy* copy_;
};

/// Directed acyclic graph. Operators stand in creation order, which is a topological order. Layers that a model repeats are
/// stored once (repeated_layers.hpp). Plain vectors: every file that includes a scenario would pay 1.5 s of compilation for
/// Boost.Graph's adjacency_list.
class OperatorGraph {
 public:
  /// Which of the stored operators a vertex is, and of which copy of its layer; -1: none.
  struct Place {
    std::int32_t stored = 0, copy = -1;
  };
  class Iterator {
   public:
    using value_type = OperatorAt;           // NOLINT(readability-identifier-naming): as the library calls it
    using difference_type = std::ptrdiff_t;  // NOLINT(readability-identifier-naming): the same
    Iterator() = default;
    Iterator(const OperatorGraph& graph, std::size_t vertex) : graph_{&graph}, vertex_{vertex} {}
    OperatorAt operator*() const { return (*graph_)[vertex_]; }
    Iterator& operator++() {
      ++vertex_;
      return *this;
    }
    Iterator operator++(int) { return {*graph_, vertex_++}; }
    bool operator==(const Iterator&) const = default;

   private:
    const OperatorGraph* graph_ = nullptr;
    std::size_t vertex_ = 0;
  };

  OperatorGraph() = default;
  /// [stored operators], [vertices], [copies].
  OperatorGraph(std::vector<Operator> operators, std::vector<Place> places, std::vector<LayerCopy> copies)
      : operators_{std::move(operators)}, places_{std::move(places)}, copies_{std::move(copies)} {}

  std::size_t add(Operator op) {
    places_.push_back({.stored = static_cast<std::int32_t>(operators_.size())});
    operators_.push_back(std::move(op));
    return size() - 1;
  }
  void connect(std::size_t from, std::size_t to) { edges_.push_back({from, to}); }
  /// The operator that is stored for the vertex: a change is one of all for which it is.
  Operator& stored(std::size_t vertex) { return operators_[stored_for(vertex)]; }

  std::size_t size() const { return places_.size(); }
  OperatorAt operator[](std::size_t vertex) const {
    const Place& place = places_[vertex];
    return {operators_[stored_for(vertex)], place.copy < 0 ? nullptr : &copies_[static_cast<std::size_t>(place.copy)]};
  }
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size()}; }
  const std::vector<OperatorEdge>& edges() const { return edges_; }
  /// How many operators are stored, and which of them is that of the vertex.
  std::size_t stored_size() const { return operators_.size(); }
  std::size_t stored_for(std::size_t vertex) const { return static_cast<std::size_t>(places_[vertex].stored); }

 private:
  std::vector<Operator> operators_;
  std::vector<Place> places_;  // [vertices]
  std::vector<LayerCopy> copies_;
  std::vector<OperatorEdge> edges_;
};

/// One tensor of the model that lives on the parameter servers, in the order in which the framework creates it.
struct Variable {
  std::string name;
  std::vector<std::int64_t> shape;
  bool is_trainable = true;          // false: batch-normalisation moving mean and variance, and what is frozen
  bool is_frozen = false;            // is read, but has no gradient and does not change
  Bytes bytes{};                     // at the workload's precision
  std::optional<Bytes> rows_used{};  // of a sparse table: the rows that a batch looks up, at most
  /// Where GPUs hold layers together: each has another part of it; or all have the whole of it, but each only a part of its
  /// gradient, as they compute with different positions or heads.
  bool is_shard = false, has_partial_gradient = false;
  /// Of a mixture whose experts are spread over GPUs: so many have other parts of it each. 0: it is of no such mixture.
  int parts_of_experts = 0;
  bool has_cast = false;  // in 8 bits, which serves all micro-batches of a step

  std::int64_t scalars() const;
  bool operator==(const Variable&) const = default;
};

/// The training step of one worker for a stated batch.
struct Workload {
  std::string name;
  Layout layout = Layout::kNchw;
  int batch = 0;                    // samples per worker and step
  std::vector<Variable> variables;  // creation order
  OperatorGraph graph;              // forward, then backward, then update
  Bytes input_bytes{};              // one batch of samples copied from the host to the GPU
  Seconds optimizer_time{};         // of one update of all variables on a worker, if it was measured
  bool is_whole_step = false;       // measured times hold all that the host and the update take
  Bytes activation_bytes{};         // peak of activations kept alive for the backward pass, but for:
  Bytes recomputed_bytes{};         // what the largest part that is computed again keeps while its backward pass runs
  /// What a loss reads, as far as no layer keeps it; of 16-bit logits their copy in fp32, of which the loss is computed;
  /// and their gradient: 8 bytes for each logit in all precisions, 4 of 16-bit ones whose loss is fused. Of a composed loss 12, in
  /// the backward pass: the logarithms of the softmax, their gradient and that of the copy (PyTorch, LossNLL.cpp and SoftMax.cpp).
  Bytes logits_bytes{};

  // Totals over the graph, for tests and reports.
  std::int64_t parameters() const;  // trainable scalars
  /// Of so many GPUs that hold layers together, and of those that have experts, this one and its likes: parts of all, and what all
  /// have the whole of once.
  std::int64_t parameters_of_all(int gpus) const;
  int trainable_tensors() const;
  Bytes parameter_bytes() const;  // trainable variables
  Bytes variable_bytes() const;   // all variables
  Flops forward_flops() const;    // whole batch, of kernels that multiply: element-wise ones count none
  Flops training_flops() const;   // whole batch, forward, data gradient and weight gradient
  /// Of the gradients that the operator produces.
  std::int64_t gradient_scalars(const Operator& op) const;
};

}  // namespace rehearse
