#include "workloads/graph_builder.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "sim/base/errors.hpp"

namespace rehearse {

namespace {

constexpr std::int64_t kMaxScalars = std::int64_t{1} << 40;  // of one tensor: far beyond any GPU, far below overflow
constexpr std::size_t kMaxOperators = 100'000;
constexpr int kMaxBatch = 65536;

}  // namespace

int bytes_per_scalar(Precision precision) { return precision == Precision::kFp16 ? 2 : 4; }

GraphBuilder::GraphBuilder(std::string place, std::string name, Layout layout, int batch, Precision precision)
    : place_{std::move(place)}, scalar_bytes_{bytes_per_scalar(precision)} {
  workload_.name = std::move(name);
  workload_.layout = layout;
  workload_.batch = batch;
  if (batch < 1 || batch > kMaxBatch) fail("expected a batch of 1 to 65536 samples; found " + std::to_string(batch));
}

void GraphBuilder::fail(const std::string& message) const { throw InputError{place_ + ": " + message}; }

std::int64_t GraphBuilder::elements(const Tensor& x) const { return workload_.batch * x.height * x.width * x.channels; }

Bytes GraphBuilder::bytes_of(const Tensor& x) const { return Bytes{elements(x) * scalar_bytes_}; }

std::vector<std::int64_t> GraphBuilder::shape_of(const Tensor& x) const {
  if (x.height == 1 && x.width == 1) return {workload_.batch, x.channels};
  return {workload_.batch, x.height, x.width, x.channels};
}

int GraphBuilder::variable(const std::string& name, std::vector<std::int64_t> shape, bool is_trainable) {
  std::int64_t scalars = 1;
  for (const std::int64_t size : shape) {
    if (size > kMaxScalars / scalars) fail("variable " + name + " has more than 2^40 scalars");
    scalars *= size;
  }
  workload_.variables.push_back({name, std::move(shape), is_trainable, Bytes{scalars * scalar_bytes_}});
  return static_cast<int>(workload_.variables.size()) - 1;
}

void GraphBuilder::check_size(const std::string& layer, const Tensor& x) const {
  std::int64_t scalars = workload_.batch;
  for (const std::int64_t size : {x.height, x.width, x.channels}) {
    if (size > kMaxScalars / scalars) fail(layer + " has more than 2^40 scalars");
    scalars *= size;
  }
}

GraphBuilder::Tensor GraphBuilder::slide(const std::string& layer, const Tensor& x, const Window& window,
                                         std::int64_t channels) const {
  if (!window.padding) {
    if (std::max(window.height, window.width) > 2 * std::max(x.height, x.width) + 1)
      fail("layer " + layer + " has a kernel larger than its padded input");
    return {(x.height - 1) / window.stride + 1, (x.width - 1) / window.stride + 1, channels};
  }
  const std::int64_t height = x.height + 2 * *window.padding - window.height;
  const std::int64_t width = x.width + 2 * *window.padding - window.width;
  if (height < 0 || width < 0) fail("layer " + layer + " has a kernel larger than its padded input");
  if (*window.padding >= std::max(window.height, window.width))
    fail("layer " + layer + " has a padding that its kernel does not reach over");
  return {height / window.stride + 1, width / window.stride + 1, channels};
}

void GraphBuilder::register_value(Tensor& x) {
  x.id = next_id_++;
  gradients_.emplace_back();
  is_kept_.push_back(false);
}

int GraphBuilder::append(Operator op, std::span<const int> reads) {
  if (num_vertices(workload_.graph) == kMaxOperators) fail("the model has more than 100000 operators");
  const auto vertex = add_vertex(std::move(op), workload_.graph);
  for (const int producer : reads)
    if (producer >= 0) add_edge(static_cast<std::size_t>(producer), vertex, workload_.graph);
  return static_cast<int>(vertex);
}

void GraphBuilder::keep_for_backward(const Tensor& x) {
  if (x.producer < 0 || is_kept_[static_cast<std::size_t>(x.id)]) return;
  is_kept_[static_cast<std::size_t>(x.id)] = true;
  workload_.activation_bytes += bytes_of(x);
}

GraphBuilder::Tensor GraphBuilder::input(std::int64_t height, std::int64_t width, std::int64_t channels) {
  Tensor x{height, width, channels};
  check_size("the input", x);
  register_value(x);
  workload_.input_bytes = bytes_of(x);
  return x;
}

GraphBuilder::Tensor GraphBuilder::elementwise(const std::string& name, OperatorKind kind, std::vector<Tensor> inputs,
                                               Tensor output) {
  check_size("layer " + name, output);
  Operator op{.name = name, .kind = kind, .bytes_written = bytes_of(output), .output_shape = shape_of(output)};
  std::vector<int> reads;
  for (const Tensor& x : inputs) {
    op.bytes_read += bytes_of(x);
    reads.push_back(x.producer);
    output.needs_gradient = output.needs_gradient || x.needs_gradient;
  }
  register_value(output);
  output.producer = append(std::move(op), reads);
  layers_.push_back({.type = Layer::Type::kElementwise,
                     .name = name,
                     .kind = kind,
                     .inputs = std::move(inputs),
                     .output = output,
                     .forward = output.producer});
  return output;
}

GraphBuilder::Tensor GraphBuilder::relu(const std::string& name, const Tensor& x) {
  const Tensor y = elementwise(name, OperatorKind::kActivation, {x}, {x.height, x.width, x.channels});
  if (y.needs_gradient) keep_for_backward(y);
  return y;
}

GraphBuilder::Tensor GraphBuilder::add(const std::string& name, std::span<const Tensor> terms) {
  for (const Tensor& term : terms)
    if (term.height != terms[0].height || term.width != terms[0].width || term.channels != terms[0].channels)
      fail("layer " + name + " adds tensors of different shapes");
  return elementwise(name, OperatorKind::kElementwise, {terms.begin(), terms.end()},
                     {terms[0].height, terms[0].width, terms[0].channels});
}

GraphBuilder::Tensor GraphBuilder::mix(const std::string& name, std::span<const Tensor> terms) {
  return add(name, terms);
}

GraphBuilder::Tensor GraphBuilder::concatenate(const std::string& name, std::span<const Tensor> parts) {
  Tensor output{parts[0].height, parts[0].width, 0};
  for (const Tensor& part : parts) {
    if (part.height != output.height || part.width != output.width)
      fail("layer " + name + " concatenates tensors of different heights or widths");
    output.channels += part.channels;
  }
  return elementwise(name, OperatorKind::kElementwise, {parts.begin(), parts.end()}, output);
}

GraphBuilder::Tensor GraphBuilder::max_pool(const std::string& name, const Tensor& x, const Window& window) {
  const Tensor y = slide(name, x, window, x.channels);
  if (x.needs_gradient) keep_for_backward(x);
  return elementwise(name, OperatorKind::kPooling, {x}, y);
}

GraphBuilder::Tensor GraphBuilder::average_pool(const std::string& name, const Tensor& x, const Window& window) {
  return elementwise(name, OperatorKind::kPooling, {x}, slide(name, x, window, x.channels));
}

GraphBuilder::Tensor GraphBuilder::subsample_and_pad(const std::string& name, const Tensor& x, std::int64_t channels,
                                                     std::int64_t stride) {
  return elementwise(name, OperatorKind::kElementwise, {x},
                     {(x.height - 1) / stride + 1, (x.width - 1) / stride + 1, channels});
}

GraphBuilder::Tensor GraphBuilder::global_average_pool(const std::string& name, const Tensor& x) {
  return elementwise(name, OperatorKind::kPooling, {x}, {1, 1, x.channels});
}

GraphBuilder::Tensor GraphBuilder::matrix_layer(Layer layer, std::vector<std::int64_t> weights,
                                                std::int64_t kernel_area, std::int64_t groups) {
  const Tensor x = layer.inputs[0];
  Tensor& y = layer.output;
  check_size("layer " + layer.name, y);
  keep_for_backward(x);
  layer.variables.push_back(variable(layer.name + "/kernel", std::move(weights), true));
  const double in_positions = static_cast<double>(workload_.batch) * static_cast<double>(x.height * x.width);
  const double out_positions = static_cast<double>(workload_.batch) * static_cast<double>(y.height * y.width);
  const auto area = static_cast<double>(kernel_area), products = static_cast<double>(groups);
  const double in = static_cast<double>(x.channels) / products, out = static_cast<double>(y.channels) / products;
  layer.flops = Flops{2 * out_positions * out * products * in * area};
  MatrixShape forward;
  if (groups == 1 || groups < x.channels) {
    forward = {out_positions, out, in * area, products};
    layer.data_gradient = {in_positions, in, out * area, products};
    layer.weight_gradient = {in * area, out, out_positions, products};
  }
  if (layer.has_bias) layer.variables.push_back(variable(layer.name + "/bias", {y.channels}, true));

  Operator op{.name = layer.name,
              .kind = layer.kind,
              .flops = layer.flops,
              .bytes_read = bytes_of(x) + workload_.variables[static_cast<std::size_t>(layer.variables[0])].bytes,
              .bytes_written = bytes_of(y),
              .matrix = forward,
              .is_3x3_stride_1 = layer.is_3x3_stride_1,
              .output_shape = shape_of(y),
              .reads_variables = {layer.variables[0]}};
  layer.forward = append(std::move(op), std::array{x.producer});
  y.producer = layer.forward;
  if (layer.has_bias) {
    Operator bias{.name = layer.name + "/bias_add",
                  .bytes_read = bytes_of(y),
                  .bytes_written = bytes_of(y),
                  .output_shape = shape_of(y),
                  .reads_variables = {layer.variables[1]}};
    y.producer = append(std::move(bias), std::array{layer.forward});
  }
  y.needs_gradient = true;
  register_value(y);
  const Tensor output = y;
  layers_.push_back(std::move(layer));
  return output;
}

GraphBuilder::Tensor GraphBuilder::convolution(const std::string& name, const Tensor& x, std::int64_t channels,
                                               const Window& window, std::int64_t groups, bool has_bias) {
  const Tensor y = slide(name, x, window, channels);
  if (x.channels % groups != 0 || channels % groups != 0)
    fail("layer " + name + " has channels that its " + std::to_string(groups) + " groups do not divide");
  return matrix_layer({.type = Layer::Type::kConvolution,
                       .name = name,
                       .kind = OperatorKind::kConvolution,
                       .inputs = {x},
                       .output = y,
                       .is_3x3_stride_1 = groups == 1 && window.height == 3 && window.width == 3 && window.stride == 1,
                       .has_bias = has_bias},
                      {window.height, window.width, x.channels / groups, channels}, window.height * window.width,
                      groups);
}

GraphBuilder::Tensor GraphBuilder::convolution(const std::string& name, const Tensor& x, std::int64_t channels,
                                               std::int64_t kernel, std::int64_t stride, bool has_bias) {
  return convolution(name, x, channels, {kernel, kernel, stride, std::nullopt}, 1, has_bias);
}

GraphBuilder::Tensor GraphBuilder::dense(const std::string& name, const Tensor& x, std::int64_t features,
                                         bool has_bias) {
  Tensor flat = x;
  flat.channels = x.channels * x.height * x.width;
  flat.height = flat.width = 1;
  return matrix_layer({.type = Layer::Type::kDense,
                       .name = name,
                       .kind = OperatorKind::kDense,
                       .inputs = {flat},
                       .output = {1, 1, features},
                       .has_bias = has_bias},
                      {flat.channels, features}, 1);
}

GraphBuilder::Tensor GraphBuilder::batch_norm(const std::string& name, const Tensor& x) {
  keep_for_backward(x);
  const int gamma = variable(name + "/gamma", {x.channels}, true);
  const int beta = variable(name + "/beta", {x.channels}, true);
  const int mean = variable(name + "/moving_mean", {x.channels}, false);
  const int variance = variable(name + "/moving_variance", {x.channels}, false);
  Tensor y{x.height, x.width, x.channels};
  Operator op{.name = name,
              .kind = OperatorKind::kBatchNorm,
              .bytes_read = 2 * bytes_of(x),  // once for the statistics, once to normalise
              .bytes_written = bytes_of(y),
              .output_shape = shape_of(y),
              .reads_variables = {gamma, beta},
              .produces_gradients = {mean, variance}};
  y.producer = append(std::move(op), std::array{x.producer});
  y.needs_gradient = true;
  register_value(y);
  layers_.push_back({.type = Layer::Type::kBatchNorm,
                     .name = name,
                     .kind = OperatorKind::kBatchNorm,
                     .inputs = {x},
                     .output = y,
                     .forward = y.producer,
                     .variables = {gamma, beta}});
  return y;
}

int GraphBuilder::gradient_of(const Tensor& value) {
  std::vector<int>& parts = gradients_[static_cast<std::size_t>(value.id)];
  if (parts.size() > 1) {
    Operator sum{.name = "gradient sum",
                 .kind = OperatorKind::kElementwise,
                 .phase = Phase::kBackward,
                 .bytes_read = bytes_of(value) * static_cast<std::int64_t>(parts.size()),
                 .bytes_written = bytes_of(value),
                 .output_shape = shape_of(value)};
    parts = {append(std::move(sum), parts)};
  }
  return parts.empty() ? -1 : parts.front();
}

void GraphBuilder::append_backward(const Layer& layer) {
  const int gradient = gradient_of(layer.output);
  if (gradient < 0) return;  // nothing depends on this layer
  const Bytes output_bytes = bytes_of(layer.output);
  const auto give = [this](const Tensor& input, int vertex) {
    std::vector<int>& parts = gradients_[static_cast<std::size_t>(input.id)];
    const bool is_given = !parts.empty() && parts.back() == vertex;  // a kernel adds up what it gives to one tensor
    if (input.needs_gradient && !is_given) parts.push_back(vertex);
  };

  switch (layer.type) {
    case Layer::Type::kElementwise: {
      // One kernel gives the gradients of all inputs. Pooling reads its input again, ReLU its output, of the same size;
      // sums neither.
      const bool rereads = layer.kind == OperatorKind::kActivation || layer.kind == OperatorKind::kPooling;
      Operator op{
          .name = layer.name + "/gradient", .kind = layer.kind, .phase = Phase::kBackward, .bytes_read = output_bytes};
      for (const Tensor& x : layer.inputs) {
        if (rereads) op.bytes_read += bytes_of(x);
        op.bytes_written += bytes_of(x);
      }
      op.output_shape = shape_of(layer.inputs[0]);
      std::vector<int> reads{gradient};
      if (layer.kind == OperatorKind::kActivation)
        reads.push_back(layer.forward);  // its output tells where its input was positive
      if (layer.kind == OperatorKind::kPooling) reads.push_back(layer.inputs[0].producer);
      const int vertex = append(std::move(op), reads);
      for (const Tensor& x : layer.inputs) give(x, vertex);
      break;
    }
    case Layer::Type::kBatchNorm: {
      const Tensor& x = layer.inputs[0];
      Operator op{.name = layer.name + "/gradient",
                  .kind = OperatorKind::kBatchNorm,
                  .phase = Phase::kBackward,
                  .bytes_read = 2 * (bytes_of(x) + output_bytes),  // once for the sums, once for the result
                  .bytes_written = bytes_of(x),
                  .output_shape = shape_of(x),
                  .produces_gradients = layer.variables};
      give(x, append(std::move(op),
                     std::array{gradient, layer.forward, x.producer}));  // forward: the batch's mean and variance
      break;
    }
    case Layer::Type::kConvolution:
    case Layer::Type::kDense: {
      const Tensor& x = layer.inputs[0];
      const Bytes weights = workload_.variables[static_cast<std::size_t>(layer.variables[0])].bytes;
      if (layer.has_bias) {
        Operator bias{.name = layer.name + "/bias_gradient",
                      .phase = Phase::kBackwardWeights,
                      .bytes_read = output_bytes,
                      .bytes_written = workload_.variables[static_cast<std::size_t>(layer.variables[1])].bytes,
                      .output_shape = {layer.output.channels},
                      .produces_gradients = {layer.variables[1]}};
        append(std::move(bias), std::array{gradient});
      }
      Operator weight{.name = layer.name + "/weight_gradient",
                      .kind = layer.kind,
                      .phase = Phase::kBackwardWeights,
                      .flops = layer.flops,
                      .bytes_read = bytes_of(x) + output_bytes,
                      .bytes_written = weights,
                      .matrix = layer.weight_gradient,
                      .is_3x3_stride_1 = layer.is_3x3_stride_1,
                      .output_shape = workload_.variables[static_cast<std::size_t>(layer.variables[0])].shape,
                      .produces_gradients = {layer.variables[0]}};
      append(std::move(weight), std::array{gradient, x.producer});
      if (!x.needs_gradient) break;
      Operator data{.name = layer.name + "/data_gradient",
                    .kind = layer.kind,
                    .phase = Phase::kBackwardData,
                    .flops = layer.flops,
                    .bytes_read = output_bytes + weights,
                    .bytes_written = bytes_of(x),
                    .matrix = layer.data_gradient,
                    .is_3x3_stride_1 = layer.is_3x3_stride_1,
                    .output_shape = shape_of(x)};
      give(x, append(std::move(data), std::array{gradient}));
      break;
    }
  }
}

Workload GraphBuilder::finish(const Tensor& logits) {
  Operator loss{.name = "loss",
                .kind = OperatorKind::kSoftmaxLoss,
                .bytes_read = bytes_of(logits),
                .bytes_written = bytes_of(logits),
                .output_shape = shape_of(logits)};
  gradients_[static_cast<std::size_t>(logits.id)].push_back(append(std::move(loss), std::array{logits.producer}));
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) append_backward(*layer);

  // Where each gradient comes from, then the updates in creation order.
  std::vector<int> produced_by(workload_.variables.size(), -1);
  for (std::size_t vertex = 0; vertex < num_vertices(workload_.graph); ++vertex)
    for (const int index : workload_.graph[vertex].produces_gradients)
      produced_by[static_cast<std::size_t>(index)] = static_cast<int>(vertex);
  for (std::size_t index = 0; index < workload_.variables.size(); ++index) {
    const Variable& updated = workload_.variables[index];
    if (!updated.is_trainable) continue;
    if (produced_by[index] < 0) fail("variable " + updated.name + " has no influence on the output");
    append({.name = updated.name + "/update",
            .kind = OperatorKind::kUpdate,
            .phase = Phase::kUpdate,
            .bytes_read = 3 * updated.bytes,  // parameter, gradient, momentum
            .bytes_written = 2 * updated.bytes,
            .output_shape = updated.shape},
           std::array{produced_by[index]});
  }
  return std::move(workload_);
}

}  // namespace rehearse
