#pragma once
// Builds the operator graph of a training step layer by layer: shapes are inferred, forward kernels appended as layers
// are added, and finish() derives backward and update kernels.
//
// Conventions. FLOPs: 2 per multiply-add of convolutions and dense layers; element-wise kernels have none, they are
// bound by memory. Device memory: every input is read once and every output written once, except that batch
// normalisation reads its input twice. Activations kept for the backward pass: the inputs of convolutions, dense
// layers, batch normalisations and max pooling, and the outputs of ReLUs; each tensor once, and besides
// Workload::input_bytes. No gradient is computed that no variable needs, such as that of the input images.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "workloads/operator_graph.hpp"

namespace rehearse {

enum class Precision { kFp32, kFp16 };

/// Bytes of one scalar: 4 or 2.
int bytes_per_scalar(Precision precision);

class GraphBuilder {
 public:
  /// A value that flows between layers: [batch, height, width, channels]; height = width = 1 after pooling.
  struct Tensor {
    std::int64_t height = 1, width = 1, channels = 1;
    int producer = -1;            // vertex; -1: the input images
    int id = -1;                  // of the value, to find its gradient
    bool needs_gradient = false;  // a variable lies before it
  };

  /// How the kernel of a convolution or pooling moves over its input. Without `padding` it is "same": ceil(input /
  /// stride) outputs, and the kernel may be larger than the input, but not so large that its rim never meets it: kernel
  /// <= 2 max(height, width) + 1. With it, on every side: floor((input + 2 padding - kernel) / stride) + 1 outputs; 0
  /// is what frameworks call "valid".
  struct Window {
    std::int64_t height = 1, width = 1;
    std::int64_t stride = 1;
    std::optional<std::int64_t> padding;
  };

  /// `batch` from 1 to 65536. Throws InputError, starting with `place`, when a layer cannot be built: tensors of more
  /// than 2^40 scalars, more than 100000 operators, shapes that do not fit.
  GraphBuilder(std::string place, std::string name, Layout layout, int batch, Precision precision);

  Tensor input(std::int64_t height, std::int64_t width, std::int64_t channels);
  /// `groups` divides the channels of input and output. With one input channel per group (a depthwise convolution)
  /// kernels are bound by memory: no library lowers them to matrix products.
  Tensor convolution(const std::string& name, const Tensor& x, std::int64_t channels, const Window& window,
                     std::int64_t groups, bool has_bias);
  /// Square kernel, padding "same", one group.
  Tensor convolution(const std::string& name, const Tensor& x, std::int64_t channels, std::int64_t kernel,
                     std::int64_t stride, bool has_bias);
  /// Four variables: gamma and beta, and the moving mean and variance, which are not trainable.
  Tensor batch_norm(const std::string& name, const Tensor& x);
  Tensor relu(const std::string& name, const Tensor& x);
  Tensor add(const std::string& name, std::span<const Tensor> terms);
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

  /// Adds the loss on `logits`, the backward pass in reverse order, and one update per trainable variable.
  Workload finish(const Tensor& logits);

 private:
  /// A forward layer and what its backward pass needs.
  struct Layer {
    enum class Type { kConvolution, kDense, kBatchNorm, kElementwise } type = Type::kElementwise;
    std::string name;
    OperatorKind kind = OperatorKind::kElementwise;
    std::vector<Tensor> inputs;
    Tensor output;
    int forward = 0;             // vertex
    std::vector<int> variables;  // weights (and bias), or gamma and beta
    Flops flops{};
    MatrixShape data_gradient, weight_gradient;
    bool is_3x3_stride_1 = false;
    bool has_bias = false;
  };

  int variable(const std::string& name, std::vector<std::int64_t> shape, bool is_trainable);
  Bytes bytes_of(const Tensor& x) const;
  std::int64_t elements(const Tensor& x) const;
  int append(Operator op, std::span<const int> reads);
  /// Throws InputError if the tensor is too large to count.
  void check_size(const std::string& layer, const Tensor& x) const;
  /// The output of a window; throws InputError if it does not fit.
  Tensor slide(const std::string& layer, const Tensor& x, const Window& window, std::int64_t channels) const;
  /// Makes `x` a value of its own, whose gradient can be asked for.
  void register_value(Tensor& x);
  Tensor elementwise(const std::string& name, OperatorKind kind, std::vector<Tensor> inputs, Tensor output);
  Tensor matrix_layer(Layer layer, std::vector<std::int64_t> weights, std::int64_t kernel_area,
                      std::int64_t groups = 1);
  void keep_for_backward(const Tensor& x);
  void append_backward(const Layer& layer);
  /// The vertex that holds the gradient of a value, adding up the contributions of several consumers first.
  int gradient_of(const Tensor& value);
  std::vector<std::int64_t> shape_of(const Tensor& x) const;
  [[noreturn]] void fail(const std::string& message) const;

  std::string place_;
  Workload workload_;
  std::int64_t scalar_bytes_;
  std::vector<Layer> layers_;
  int next_id_ = 0;
  std::vector<std::vector<int>> gradients_;  // [values] vertices that produce a part of the gradient
  std::vector<bool> is_kept_;                // [values] counted in activation_bytes
};

}  // namespace rehearse
