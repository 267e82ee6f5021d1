#pragma once
// Builds the operator graph of a training step layer by layer: shapes are inferred, forward kernels appended as layers
// are added, and finish() derives backward and update kernels.
//
// Conventions. FLOPs: 2 per multiply-add of convolutions, dense layers, products and recurrent layers; element-wise
// kernels have none, they are bound by memory. Device memory: every input is read once and every output written once,
// except that batch normalisation reads its input twice. Activations kept for the backward pass: the inputs of
// convolutions, dense layers, products, normalisations and max pooling, the outputs of activation functions, and the
// masks of dropouts; each tensor once, and besides Workload::input_bytes and Workload::logits_bytes. No gradient is computed that no variable
// needs, such as that of the input images. The gradient of a variable used more than once is ready with its last part.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "workloads/operator_graph.hpp"

namespace rehearse {

/// In which kernels compute: fp32 without matrix units, tf32 on them (19 bits of numbers that are stored in 4 bytes, NVIDIA
/// from Ampere on), fp16 and bf16 on them with sums in fp32.
enum class Precision { kFp32, kTf32, kFp16, kBf16 };

/// Bytes of one scalar as it is stored: 4 or 2.
int bytes_per_scalar(Precision precision);
inline bool is_half(Precision precision) { return bytes_per_scalar(precision) == 2; }

class GraphBuilder {
 public:
  /// A value that flows between layers: [batch, height, width, channels]; height = width = 1 after pooling. Of
  /// sequences the height is the position and the width 1.
  struct Tensor {
    std::int64_t height = 1, width = 1, channels = 1;
    int producer = -1;            // vertex; -1: the input
    int id = -1;                  // of the value, to find its gradient
    bool needs_gradient = false;  // a variable lies before it
    bool is_of_batch = false;     // there is one for the whole batch, not one for each sample
  };

  /// How the kernel of a convolution or pooling moves over its input. Without `padding` it is "same": ceil(input /
  /// stride) outputs, and the kernel may be larger than the input, but not so large that its rim never meets it: kernel
  /// <= 2 max(height, width) + 1. With it, on every side: floor((input + 2 padding - kernel) / stride) + 1 outputs; 0
  /// is what frameworks call "valid".
  struct Window {
    std::int64_t height = 1, width = 1;
    std::int64_t stride = 1;
    std::optional<std::int64_t> padding;
    /// Height and width of the output, where stride and padding do not say all, such as of dilated kernels.
    std::optional<std::array<std::int64_t, 2>> output{};
  };

  /// The variables of a normalisation, one scalar of each for a channel.
  struct NormVariables {
    bool has_scale = true, has_bias = true;
  };

  /// How a recurrent layer goes from one position to the next.
  struct RecurrentCell {
    std::int64_t gates = 4;  // vectors of the state's size that its products give: LSTM 4, GRU 3, a plain one 1
    bool is_split = false;   // weights for input and state are two variables, and so are their biases
    bool has_bias = true;
  };

  /// A matrix of one row for each identifier, looked up, and perhaps used again to score the rows.
  struct Table {
    int variable = 0;
    std::int64_t rows = 0, features = 0;
  };

  /// `batch` from 1 to 65536. Throws InputError, starting with `place`, when a layer cannot be built: tensors of more
  /// than 2^40 scalars, more than 100000 operators, shapes that do not fit.
  GraphBuilder(std::string place, std::string name, Layout layout, int batch, Precision precision);

  Tensor input(std::int64_t height, std::int64_t width, std::int64_t channels);
  /// Integer identifiers of 8 bytes.
  Tensor identifiers(std::int64_t positions);
  /// `groups` divides the channels of input and output. With one input channel per group (a depthwise convolution)
  /// kernels are bound by memory: no library lowers them to matrix products.
  Tensor convolution(const std::string& name, const Tensor& x, std::int64_t channels, const Window& window,
                     std::int64_t groups, bool has_bias);
  /// The reverse, as the gradient of a convolution: height x width outputs for each input, of `stride` times the
  /// positions unless `window` states its output.
  Tensor transposed_convolution(const std::string& name, const Tensor& x, std::int64_t channels, const Window& window,
                                std::int64_t groups, bool has_bias);
  /// Square kernel, padding "same", one group.
  Tensor convolution(const std::string& name, const Tensor& x, std::int64_t channels, std::int64_t kernel,
                     std::int64_t stride, bool has_bias);
  /// Four variables: gamma and beta, and the moving mean and variance, which are not trainable.
  Tensor batch_norm(const std::string& name, const Tensor& x);
  /// Over the channels; variables gamma and beta.
  Tensor layer_norm(const std::string& name, const Tensor& x);
  /// By the root mean square of the channels; variable gamma. Source: Zhang and Sennrich, NeurIPS 2019.
  Tensor rms_norm(const std::string& name, const Tensor& x);
  /// Any of them: kBatchNorm, or kLayerNorm, which also stands for those over groups of channels.
  Tensor normalisation(const std::string& name, OperatorKind kind, const Tensor& x, NormVariables variables);
  /// ReLU, GELU, tanh, softmax and the like: one kernel, one tensor kept; GELU is composite.
  Tensor activation(const std::string& name, const Tensor& x, bool is_composite = false);
  Tensor dropout(const std::string& name, const Tensor& x);
  Tensor add(const std::string& name, std::span<const Tensor> terms);
  /// Element-wise product of inputs and tables, whose factors are kept.
  Tensor multiply(const std::string& name, std::span<const Tensor> factors, std::span<const Table> tables,
                  const Tensor& output);
  /// Weighted sum with random weights, as shake-shake regularisation does.
  Tensor mix(const std::string& name, std::span<const Tensor> terms);
  Tensor concatenate(const std::string& name, std::span<const Tensor> parts);
  Tensor max_pool(const std::string& name, const Tensor& x, const Window& window);
  Tensor average_pool(const std::string& name, const Tensor& x, const Window& window);
  /// Every `stride`-th position, and channels of zeros up to `channels`.
  Tensor subsample_and_pad(const std::string& name, const Tensor& x, std::int64_t channels, std::int64_t stride);
  Tensor global_average_pool(const std::string& name, const Tensor& x);
  /// Flattens its input.
  Tensor dense(const std::string& name, const Tensor& x, std::int64_t features, bool has_bias = true);
  /// The same dense layer at every position.
  Tensor linear(const std::string& name, const Tensor& x, std::int64_t features, bool has_bias = true);

  /// A variable [rows, features]. The gradient of a sparse one holds only the rows that were looked up; parameter
  /// servers exchange those alone, all-reduce the whole.
  Table table(const std::string& name, std::int64_t rows, std::int64_t features, bool is_sparse = false);
  /// The rows of `identifiers`.
  Tensor lookup(const std::string& name, const Tensor& identifiers, const Table& table);
  /// All rows of a table, once for the whole batch, as a kernel of their own.
  Tensor rows(const std::string& name, const Table& table);
  /// x times the transposed table, plus a bias for each row: logits whose weights are tied to the table.
  Tensor score(const std::string& name, const Tensor& x, const Table& table, bool has_bias);
  /// Part of a tensor, without a kernel: some of its positions or channels. Their gradients are put together by one.
  Tensor view(const std::string& name, const Tensor& x, std::int64_t positions, std::int64_t channels);
  /// Products of two values for each sample (and attention head), in one kernel. `shape.products` counts them per
  /// sample.
  Tensor product(const std::string& name, const Tensor& a, const Tensor& b, MatrixShape shape, const Tensor& output);
  /// softmax(Q K^T) V in one kernel, with mask and dropout. Kept for the backward pass: its inputs, its output and two
  /// numbers of each query; the backward pass computes the scores again, five products instead of four. Source: Dao et al.,
  /// FlashAttention, arXiv:2205.14135, algorithms 1 and 4. `shape.batch` counts per sample.
  Tensor fused_attention(const std::string& name, const Tensor& queries, const Tensor& keys, const Tensor& values,
                         AttentionShape shape);
  /// Element-wise kernel of inputs and tables that are read as they are, such as the sum with a row for each position.
  Tensor combine(const std::string& name, std::span<const Tensor> inputs, std::span<const Table> tables,
                 const Tensor& output);
  /// A recurrent layer, as libraries run it: one product for the input of all positions; then for each position a
  /// recurrent product and an element-wise kernel for gates and cell. Variables, with G gates: weights [features +
  /// hidden, G hidden] and a bias [G hidden]; or, split, weights for input and state apart and two biases. Sources:
  /// Hochreiter and Schmidhuber, Neural Computation 9(8), 1997; Cho et al., arXiv 1406.1078.
  Tensor recurrent(const std::string& name, const Tensor& x, std::int64_t hidden, const RecurrentCell& cell);
  /// Long short-term memory.
  Tensor lstm(const std::string& name, const Tensor& x, std::int64_t hidden, bool is_split) {
    return recurrent(name, x, hidden, {.is_split = is_split});
  }

  /// The layer `name`, which comes next, has no variables of its own but uses those of the layer `of`, which must have
  /// the same shapes.
  void share_variables(const std::string& name, const std::string& of) { shared_[name] = of; }
  Layout layout() const { return workload_.layout; }
  /// Throws InputError, starting with the place of the model.
  [[noreturn]] void fail(const std::string& message) const;

  /// Adds a loss on each of `outputs`, the backward pass in reverse order, and one update per trainable variable.
  Workload finish(std::span<const Tensor> outputs);

 private:
  /// A forward layer and what its backward pass needs.
  struct Layer {
    enum class Type { kMatrix, kProduct, kRecurrent, kLookup, kNormalisation, kElementwise } type = Type::kElementwise;
    std::string name;
    OperatorKind kind = OperatorKind::kElementwise;
    std::vector<Tensor> inputs;
    Tensor output;
    int forward = 0;             // vertex
    std::vector<int> variables;  // weights (and biases), or gamma and beta
    Flops flops{};
    MatrixShape data_gradient, weight_gradient;  // of a product: of its first and second factor
    bool is_3x3_stride_1 = false;
    std::optional<ConvolutionShape> convolution;
    std::optional<AttentionShape> attention;
    RecurrentCell cell{};
    bool is_composite = false;
    bool has_bias = false;
    bool rereads_inputs = false;  // in its backward pass
    bool is_transposed = false;   // of a convolution
  };

  /// What a kernel adds to the gradient of a value.
  struct GradientPart {
    int vertex = 0;
    Bytes bytes{};
  };

  struct Value {
    Bytes bytes{};
    Bytes kept{};  // of them, counted in activation_bytes
    std::vector<GradientPart> gradient;
  };

  int variable(const std::string& name, std::vector<std::int64_t> shape, bool is_trainable);
  Bytes bytes_of(const Tensor& x) const;
  std::int64_t elements(const Tensor& x) const;
  std::int64_t samples_of(const Tensor& x) const { return x.is_of_batch ? 1 : workload_.batch; }
  int append(Operator op, std::span<const int> reads);
  /// Throws InputError if the tensor is too large to count.
  void check_size(const std::string& layer, const Tensor& x) const;
  /// The output of a window; throws InputError if it does not fit.
  Tensor slide(const std::string& layer, const Tensor& x, const Window& window, std::int64_t channels) const;
  Value& value_of(const Tensor& x) { return values_[static_cast<std::size_t>(x.id)]; }
  /// Makes `x` a value of its own, whose gradient can be asked for.
  void register_value(Tensor& x);
  Tensor elementwise(const std::string& name, OperatorKind kind, std::vector<Tensor> inputs, Tensor output,
                     std::vector<int> variables = {});
  /// A convolution from `x` to `y`, transposed or not.
  Tensor convolve(const std::string& name, const Tensor& x, const Tensor& y, const Window& window, std::int64_t groups,
                  Layer layer);
  /// `layer.variables`: the weights; the bias is added here.
  Tensor matrix_layer(Layer layer, std::int64_t kernel_area, std::int64_t groups = 1);
  const Variable& variable_at(int index) const;
  /// Keeps bytes for the backward pass of the layer of `vertex`, which may be the next one.
  void keep(Bytes bytes, std::size_t vertex);
  void keep_for_backward(const Tensor& x, std::size_t vertex);
  void append_backward(const Layer& layer);
  void append_backward_of_elementwise(const Layer& layer, int gradient);
  void append_backward_of_matrix(const Layer& layer, int gradient);
  void append_backward_of_product(const Layer& layer, int gradient);
  void append_backward_of_recurrent(const Layer& layer, int gradient);
  /// `vertex` holds (a part of) the gradient of `value`.
  void give(const Tensor& value, int vertex);
  /// The vertex that holds the gradient of a value, adding up the contributions of several consumers first.
  int gradient_of(const Tensor& value);
  /// A variable is complete with the last kernel that produces a part of its gradient.
  void keep_last_gradients();
  std::vector<std::int64_t> shape_of(const Tensor& x) const;

  std::string place_;
  Workload workload_;
  std::int64_t scalar_bytes_;
  std::vector<Layer> layers_;
  std::map<std::string, std::string> shared_;  // layers and those whose variables they use
  std::vector<Value> values_;                  // by Tensor::id
  std::vector<Bytes> kept_;                    // [vertices]
  int backward_of_ = -1;                       // vertex of the layer whose backward pass is appended
};

}  // namespace rehearse
