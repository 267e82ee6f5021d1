// Layers with weights: products, convolutions, and the casts before them.

#include "workloads/graph_builder.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "sim/base/errors.hpp"
#include "workloads/sizes.hpp"

namespace rehearse {

GraphBuilder::Tensor GraphBuilder::matrix_layer(Layer layer, std::int64_t kernel_area, std::int64_t groups) {
  const Tensor x = layer.inputs[0];
  Tensor& y = layer.output;
  y.is_of_batch = x.is_of_batch;
  check_size("layer " + layer.name, y);
  layer.fp8 = x.id >= 0 && value_of(x).gathered_cast != Fp8::kNone ? value_of(x).gathered_cast : layer.fp8;
  const bool is_trained = variable_at(layer.variables[0]).is_trainable;
  if (is_trained && !keeps_casts(layer.fp8)) keep_for_backward(x, workload_.graph.size());
  const double in_positions = static_cast<double>(samples_of(x)) * static_cast<double>(x.height * x.width);
  const double out_positions = static_cast<double>(samples_of(x)) * static_cast<double>(y.height * y.width);
  const auto area = static_cast<double>(kernel_area), parts = static_cast<double>(groups);
  const double in = static_cast<double>(x.channels) / parts, out = static_cast<double>(y.channels) / parts;
  layer.flops = Flops{2 * (layer.is_transposed ? in_positions : out_positions) * out * parts * in * area};
  const auto experts = static_cast<double>(std::max<std::int64_t>(layer.experts, 1));
  const double in_rows = in_positions / experts, out_rows = out_positions / experts, products = parts * experts;
  MatrixShape forward;
  if (layer.is_transposed && (groups == 1 || groups < x.channels)) {
    forward = {in_rows, out * area, in, products};
    layer.data_gradient = {in_rows, in, out * area, products};
    layer.weight_gradient = {in, out * area, in_rows, products};
  } else if (groups == 1 || groups < x.channels) {
    forward = {out_rows, out, in * area, products};
    layer.data_gradient = {in_rows, in, out * area, products};
    layer.weight_gradient = {in * area, out, out_rows, products};
  }
  if (layer.has_bias) {
    std::vector<std::int64_t> shape{y.channels};
    if (layer.experts > 0) shape.insert(shape.begin(), layer.experts);
    layer.variables.push_back(variable(layer.name + "/bias", std::move(shape), true));
  }

  Operator op{.name = layer.name,
              .kind = layer.kind,
              .flops = layer.flops,
              .bytes_read = bytes_of(x) + variable_at(layer.variables[0]).bytes,
              .bytes_written = bytes_of(y),
              .matrix = forward,
              .is_3x3_stride_1 = layer.is_3x3_stride_1,
              .convolution = layer.convolution,
              .output_shape = shape_of(y),
              .reads_variables = {layer.variables[0]}};
  std::vector<int> reads{x.producer};
  if (layer.fp8 != Fp8::kNone) reads = cast_factors(layer, op);
  layer.forward = append(std::move(op), reads);
  y.producer = layer.forward;
  if (layer.has_bias) {
    Operator bias{.name = layer.name + "/bias_add",
                  .bytes_read = bytes_of(y),
                  .bytes_written = bytes_of(y),
                  .output_shape = shape_of(y),
                  .reads_variables = {layer.variables[1]}};
    y.producer = append(std::move(bias), std::array{layer.forward});
  }
  y.needs_gradient = x.needs_gradient || !trained(layer.variables).empty();
  register_value(y);
  if (keeps_casts(layer.fp8)) value_of(y).read_by_cast = layer.fp8;
  const Tensor output = y;
  layers_.push_back(std::move(layer));
  return output;
}

Fp8 GraphBuilder::recipe_for(const Tensor& x, std::int64_t features) const {
  return x.channels % kFp8Multiple == 0 && features % kFp8Multiple == 0 ? fp8_ : Fp8::kNone;
}

Bytes GraphBuilder::cast_over_channels(Fp8 recipe, const Tensor& x) const {
  return cast_bytes(recipe, elements(x) / x.channels, x.channels);
}

Bytes GraphBuilder::cast_over_positions(Fp8 recipe, const Tensor& x) const {
  return cast_bytes(recipe, x.channels, elements(x) / x.channels);
}

Operator GraphBuilder::cast_of(const std::string& name, Phase phase, Fp8 recipe, const Tensor& x, CastWays ways) const {
  const bool is_both = ways.over_channels && ways.over_positions;
  const int reads = recipe == Fp8::kRowwise && is_both ? 2 : reads_of_cast(recipe);  // rows and columns one by one
  Operator op{.name = name,
              .kind = OperatorKind::kElementwise,
              .phase = phase,
              .bytes_read = reads * bytes_of(x),
              .is_cast = true,
              .output_shape = shape_of(x)};
  if (is_both && !casts_each_way(recipe) && keeps_casts(recipe)) {
    op.bytes_written = op.transposed = cast_over_channels(recipe, x);
    return op;
  }
  if (ways.over_channels) op.bytes_written += cast_over_channels(recipe, x);
  if (ways.over_positions) op.bytes_written += cast_over_positions(recipe, x);
  return op;
}

int GraphBuilder::append_cast(const std::string& name, Phase phase, Fp8 recipe, const Tensor& x, int read,
                              CastWays ways) {
  return append(cast_of(name, phase, recipe, x, ways), std::array{read});
}

Bytes GraphBuilder::weight_cast_bytes(Fp8 recipe, const Variable& weights, bool is_forward) const {
  const std::int64_t features = weights.shape.back(), channels = weights.shape[weights.shape.size() - 2];
  const std::int64_t experts = weights.scalars() / (features * channels);
  return is_forward ? experts * cast_bytes(recipe, features, channels, true)
                    : experts * cast_bytes(recipe, channels, features, true);
}

int GraphBuilder::append_weight_cast(const std::string& name, Phase phase, Fp8 recipe, int variable, bool forward,
                                     bool backward) {
  Variable& weights = workload_.variables[static_cast<std::size_t>(variable)];
  const bool is_kept = keeps_casts(recipe), is_one = forward && backward && !casts_each_way(recipe);
  Operator op{.name = name,
              .kind = OperatorKind::kElementwise,
              .phase = phase,
              .bytes_read = reads_of_cast(recipe) * weights.bytes,
              .is_cast = true,
              .serves_all_passes = is_kept,
              .output_shape = weights.shape};
  if (phase == Phase::kForward) op.reads_variables = {variable};
  if (forward) op.bytes_written += weight_cast_bytes(recipe, weights, true);
  if (backward) (is_one ? op.transposed : op.bytes_written) += weight_cast_bytes(recipe, weights, false);
  weights.has_cast = weights.has_cast || is_kept;
  return append(std::move(op), {});
}

Operator GraphBuilder::transposed_of(const std::string& name, const Tensor& x) const {
  return {.name = name,
          .kind = OperatorKind::kElementwise,
          .phase = Phase::kBackward,
          .is_cast = true,
          .transposed = Bytes{2 * elements(x)},
          .output_shape = shape_of(x)};
}

std::vector<int> GraphBuilder::cast_factors(Layer& layer, Operator& product) {
  const Tensor& x = layer.inputs[0];
  const int weights = layer.variables[0];
  const bool is_trained = variable_at(weights).is_trainable, keeps = keeps_casts(layer.fp8);
  const bool is_gathered = value_of(x).gathered_cast != Fp8::kNone;
  product.factor_bits = bits_of(layer.fp8);
  const int input = is_gathered ? x.producer
                                : append_cast(layer.name + "/cast", Phase::kForward, layer.fp8, x, x.producer,
                                              {true, is_trained && keeps});
  const int cast = append_weight_cast(layer.name + "/weight_cast", Phase::kForward, layer.fp8, weights, true,
                                      x.needs_gradient && keeps);
  if (is_trained && keeps) {
    layer.cast = input;
    Tensor kept = x;  // of what is gathered again, this GPU's part
    if (is_gathered) kept.height /= split_.degree;
    if (!is_gathered || !std::exchange(value_of(x).keeps_cast, true)) {
      const Bytes bytes = cast_over_positions(layer.fp8, kept);
      keep(bytes, workload_.graph.size());
      if (part_depth_ > 0 && !keeps_results_) again_for_weights_[static_cast<int>(workload_.graph.size())] += bytes;
    }
  }
  product.bytes_read = cast_over_channels(layer.fp8, x) + weight_cast_bytes(layer.fp8, variable_at(weights), true);
  return {input, cast};
}

GraphBuilder::Tensor GraphBuilder::convolve(const std::string& name, const Tensor& x, const Tensor& y,
                                            const Window& window, std::int64_t groups, Layer layer) {
  if (x.channels % groups != 0 || y.channels % groups != 0)
    fail("layer " + name + " has channels that its " + std::to_string(groups) + " groups do not divide");
  layer.type = Layer::Type::kMatrix;
  layer.name = name;
  layer.kind = OperatorKind::kConvolution;
  const Tensor &in = layer.is_transposed ? y : x, &out = layer.is_transposed ? x : y;
  layer.convolution = ConvolutionShape{.batch = workload_.batch,
                                       .in_height = in.height,
                                       .in_width = in.width,
                                       .in_channels = in.channels,
                                       .out_height = out.height,
                                       .out_width = out.width,
                                       .out_channels = out.channels,
                                       .kernel_height = window.height,
                                       .kernel_width = window.width,
                                       .stride = window.stride,
                                       .groups = groups,
                                       .is_transposed = layer.is_transposed};
  layer.inputs = {x};
  layer.output = y;
  layer.variables = {variable(name + "/kernel", {window.height, window.width, x.channels / groups, y.channels}, true)};
  return matrix_layer(std::move(layer), window.height * window.width, groups);
}

GraphBuilder::Tensor GraphBuilder::convolution(const std::string& name, const Tensor& x, std::int64_t channels,
                                               const Window& window, std::int64_t groups, bool has_bias) {
  const bool is_3x3_stride_1 = groups == 1 && window.height == 3 && window.width == 3 && window.stride == 1;
  return convolve(name, x, slide(name, x, window, channels), window, groups,
                  {.is_3x3_stride_1 = is_3x3_stride_1, .has_bias = has_bias});
}

GraphBuilder::Tensor GraphBuilder::transposed_convolution(const std::string& name, const Tensor& x,
                                                          std::int64_t channels, const Window& window,
                                                          std::int64_t groups, bool has_bias) {
  const Tensor y{window.output ? (*window.output)[0] : x.height * window.stride,
                 window.output ? (*window.output)[1] : x.width * window.stride, channels};
  return convolve(name, x, y, window, groups, {.has_bias = has_bias, .is_transposed = true});
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
  return linear(name, flat, features, has_bias);
}

GraphBuilder::Tensor GraphBuilder::linear(const std::string& name, const Tensor& x, std::int64_t features,
                                          bool has_bias) {
  return matrix_layer({.type = Layer::Type::kMatrix,
                       .name = name,
                       .kind = OperatorKind::kDense,
                       .inputs = {x},
                       .output = {x.height, x.width, features},
                       .variables = {variable(name + "/kernel", {x.channels, features}, true)},
                       .has_bias = has_bias,
                       .fp8 = recipe_for(x, features)},
                      1);
}

GraphBuilder::Tensor GraphBuilder::grouped_linear(const std::string& name, const Tensor& x, std::int64_t experts,
                                                  std::int64_t features, bool has_bias) {
  return matrix_layer({.type = Layer::Type::kMatrix,
                       .name = name,
                       .kind = OperatorKind::kDense,
                       .inputs = {x},
                       .output = {x.height, x.width, features},
                       .variables = {variable(name + "/kernel", {experts, x.channels, features}, true)},
                       .experts = experts,
                       .has_bias = has_bias,
                       .fp8 = recipe_for(x, features)},
                      1);
}

}  // namespace rehearse
