#include "workloads/graph_builder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "sim/base/errors.hpp"
#include "workloads/sizes.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMaxOperators = 400'000;
constexpr int kMaxBatch = 65536;
constexpr std::int64_t kBytesPerIdentifier = 8;

}  // namespace

int bytes_per_scalar(Precision precision) {
  return precision == Precision::kFp16 || precision == Precision::kBf16 ? 2 : 4;
}

GraphBuilder::GraphBuilder(std::string place, std::string name, Layout layout, int batch, Precision precision,
                           const Splits& splits)
    : place_{std::move(place)},
      split_{splits.tensor},
      context_{splits.context},
      experts_{splits.experts},
      scalar_bytes_{bytes_per_scalar(precision)} {
  workload_.name = std::move(name);
  workload_.layout = layout;
  workload_.batch = batch;
  if (batch < 1 || batch > kMaxBatch) fail("expected a batch of 1 to 65536 samples; found " + std::to_string(batch));
}

void GraphBuilder::fail(const std::string& message) const { throw InputError{place_ + ": " + message}; }

std::int64_t GraphBuilder::elements(const Tensor& x) const { return samples_of(x) * x.height * x.width * x.channels; }

Bytes GraphBuilder::bytes_of(const Tensor& x) const { return Bytes{elements(x) * scalar_bytes_}; }

std::vector<std::int64_t> GraphBuilder::shape_of(const Tensor& x) const {
  if (x.height == 1 && x.width == 1) return {samples_of(x), x.channels};
  return {samples_of(x), x.height, x.width, x.channels};
}

int GraphBuilder::variable(const std::string& name, std::vector<std::int64_t> shape, bool is_trainable) {
  std::int64_t scalars = 1;
  for (const std::int64_t size : shape) {
    if (size > kMostScalars / scalars) fail("variable " + name + " has more than 2^40 scalars");
    scalars *= size;
  }
  const std::size_t slash = name.rfind('/');
  if (const auto shared = shared_.find(name.substr(0, slash)); shared != shared_.end()) {
    const std::string of = shared->second + (slash == std::string::npos ? "" : name.substr(slash));
    const auto found = std::ranges::find(workload_.variables, of, &Variable::name);
    if (found == workload_.variables.end() || found->shape != shape)
      fail("layer " + shared->first + " shares variables of layer " + shared->second + ", which has others");
    return static_cast<int>(found - workload_.variables.begin());
  }
  workload_.variables.push_back(
      {.name = name,
       .shape = std::move(shape),
       .is_trainable = is_trainable && !is_frozen_,
       .is_frozen = is_trainable && is_frozen_,
       .bytes = Bytes{scalars * scalar_bytes_},
       .is_shard = is_split_ && !is_whole_ && !has_experts_,
       .has_partial_gradient = !has_experts_ && (is_split_ ? is_whole_ : split_.has_sequence_parts),
       .parts_of_experts = has_experts_ ? experts_.degree * experts_.tensor : 0});
  return static_cast<int>(workload_.variables.size()) - 1;
}

std::vector<int> GraphBuilder::trained(const std::vector<int>& variables) const {
  std::vector<int> trained;
  std::ranges::copy_if(variables, std::back_inserter(trained), [&](int v) { return variable_at(v).is_trainable; });
  return trained;
}

const Variable& GraphBuilder::variable_at(int index) const {
  return workload_.variables[static_cast<std::size_t>(index)];
}

void GraphBuilder::check_size(const std::string& layer, const Tensor& x) const {
  std::int64_t scalars = workload_.batch;
  for (const std::int64_t size : {x.height, x.width, x.channels}) {
    if (size > kMostScalars / scalars) fail(layer + " has more than 2^40 scalars");
    scalars *= size;
  }
}

GraphBuilder::Tensor GraphBuilder::slide(const std::string& layer, const Tensor& x, const Window& window,
                                         std::int64_t channels) const {
  if (window.output) return {(*window.output)[0], (*window.output)[1], channels};
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
  x.id = static_cast<int>(values_.size());
  const bool is_again = part_depth_ > 0 && !keeps_results_;
  values_.push_back({.bytes = bytes_of(x),
                     .positions = x.height * x.width,
                     .part = is_again ? static_cast<int>(parts_.size()) - 1 : -1});
}

int GraphBuilder::append(Operator op, std::span<const int> reads) {
  if (workload_.graph.size() == kMaxOperators)
    fail("the model has more than " + std::to_string(kMaxOperators) + " operators");
  if (op.backward_of < 0) op.backward_of = backward_of_;
  std::vector<int> producers{reads.begin(), reads.end()};
  if (is_backward_)
    for (int& producer : producers) producer = source_of(producer);
  const std::size_t vertex = workload_.graph.add(std::move(op));
  for (const int producer : producers) {
    if (producer >= 0) workload_.graph.connect(static_cast<std::size_t>(producer), vertex);
    if (const auto beside = beside_.find(producer); beside != beside_.end())
      workload_.graph.connect(static_cast<std::size_t>(beside->second), vertex);
  }
  if (part_depth_ > 0 && keeps_results_) parts_.back().kept_results.insert(static_cast<int>(vertex));
  return static_cast<int>(vertex);
}

void GraphBuilder::keep(Bytes bytes, std::size_t vertex) {
  if (part_depth_ > 0 && !keeps_results_) {
    parts_.back().kept_again += bytes;
    return;
  }
  workload_.activation_bytes += bytes;
  kept_.resize(std::max(kept_.size(), vertex + 1));
  kept_[vertex] += bytes;
}

void GraphBuilder::keep_for_backward(const Tensor& x, std::size_t vertex) {
  if (x.producer < 0) return;
  const int source = value_of(x).source;
  Value& value = values_[static_cast<std::size_t>(source < 0 ? x.id : source)];
  const int open = part_depth_ > 0 ? static_cast<int>(parts_.size()) - 1 : -1;
  const bool is_again =
      value.part >= 0 && (value.part == open || parts_[static_cast<std::size_t>(value.part)].drops_output);
  Bytes& kept = is_again ? value.kept_again : value.kept;
  // Of some channels of all positions the storage is kept, which is one; some positions are copied to where they are read.
  const bool is_all_of_storage = x.height * x.width == value.positions;
  const Bytes more = is_all_of_storage ? value.bytes - kept : std::min(bytes_of(x), value.bytes - kept);
  kept += more;
  if (is_again) {
    parts_[static_cast<std::size_t>(value.part)].kept_again += more;
    return;
  }
  const int depth = std::exchange(part_depth_, 0);
  keep(more, vertex);
  part_depth_ = depth;
}

void GraphBuilder::begin_part(bool is_again, bool drops_output) {
  ++open_parts_;
  if (!is_again || part_depth_ > 0) return;
  part_depth_ = open_parts_;
  parts_.push_back({.drops_output = drops_output,
                    .first_layer = layers_.size(),
                    .behind_layer = layers_.size(),
                    .first_operator = workload_.graph.size(),
                    .behind_operator = workload_.graph.size()});
}

/// What its layers read from outside is kept, whether it is of use to their backward pass or not; with kept results, of these
/// and from outside what is read by layers that the backward pass depends on.
void GraphBuilder::end_part() {
  if (open_parts_-- != part_depth_) return;
  part_depth_ = 0;
  Part& part = parts_.back();
  part.behind_layer = layers_.size();
  part.behind_operator = workload_.graph.size();
  std::set<int> needed;  // of its values
  for (std::size_t place = part.behind_layer; place-- > part.first_layer;) {
    const Layer& layer = layers_[place];
    const bool is_needed = value_of(layer.output).kept_again > Bytes{} || needed.contains(layer.output.id);
    if (!part.kept_results.empty() && (part.kept_results.contains(layer.forward) || !is_needed)) continue;
    for (const Tensor& x : layer.inputs) {
      if (x.id < 0) continue;
      if (value_of(x).part == static_cast<int>(parts_.size()) - 1)
        needed.insert(x.id);
      else
        keep_for_backward(x, std::max(part.first_operator, static_cast<std::size_t>(std::max(x.producer, 0))));
    }
  }
}

GraphBuilder::Tensor GraphBuilder::input(std::int64_t height, std::int64_t width, std::int64_t channels) {
  Tensor x{height, width, channels};
  check_size("the input", x);
  register_value(x);
  workload_.input_bytes += bytes_of(x);
  return x;
}

GraphBuilder::Tensor GraphBuilder::identifiers(std::int64_t positions) {
  Tensor x{.height = positions};
  check_size("the input", x);
  register_value(x);
  workload_.input_bytes += Bytes{elements(x) * kBytesPerIdentifier};
  return x;
}

GraphBuilder::Tensor GraphBuilder::elementwise(const std::string& name, OperatorKind kind, std::vector<Tensor> inputs,
                                               Tensor output, std::vector<int> variables) {
  check_size("layer " + name, output);
  Operator op{.name = name,
              .kind = kind,
              .bytes_written = bytes_of(output),
              .output_shape = shape_of(output),
              .reads_variables = variables};
  output.needs_gradient = !trained(variables).empty();
  for (const int read : variables) op.bytes_read += variable_at(read).bytes;
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
                     .forward = output.producer,
                     .variables = std::move(variables)});
  return output;
}

GraphBuilder::Tensor GraphBuilder::activation(const std::string& name, const Tensor& x, bool is_composite,
                                              bool keeps_input) {
  const Tensor y = elementwise(name, OperatorKind::kActivation, {x}, {x.height, x.width, x.channels});
  workload_.graph[static_cast<std::size_t>(y.producer)].is_composite = is_composite;
  layers_.back().is_composite = is_composite;
  if (y.needs_gradient) keep_for_backward(keeps_input ? x : y, static_cast<std::size_t>(y.producer));
  return y;
}

GraphBuilder::Tensor GraphBuilder::dropout(const std::string& name, const Tensor& x) {
  const Tensor y = elementwise(name, OperatorKind::kDropout, {x}, {x.height, x.width, x.channels});
  const Bytes mask{elements(x)};
  workload_.graph[static_cast<std::size_t>(y.producer)].bytes_written += mask;
  if (y.needs_gradient) keep(mask, static_cast<std::size_t>(y.producer));
  return y;
}

GraphBuilder::Tensor GraphBuilder::combine(const std::string& name, std::span<const Tensor> inputs,
                                           std::span<const Table> tables, const Tensor& output) {
  std::vector<int> variables;
  for (const Table& table : tables) variables.push_back(table.variable);
  return elementwise(name, OperatorKind::kElementwise, {inputs.begin(), inputs.end()},
                     {output.height, output.width, output.channels}, std::move(variables));
}

GraphBuilder::Tensor GraphBuilder::add(const std::string& name, std::span<const Tensor> terms) {
  for (const Tensor& term : terms)
    if (term.height != terms[0].height || term.width != terms[0].width || term.channels != terms[0].channels)
      fail("layer " + name + " adds tensors of different shapes");
  return elementwise(name, OperatorKind::kElementwise, {terms.begin(), terms.end()},
                     {terms[0].height, terms[0].width, terms[0].channels});
}

GraphBuilder::Tensor GraphBuilder::add_in_place(const std::string& name, std::span<const Tensor> terms) {
  const Tensor sum = add(name, terms);
  layers_.back().passes_gradient = true;
  return sum;
}

GraphBuilder::Tensor GraphBuilder::multiply(const std::string& name, std::span<const Tensor> factors,
                                            std::span<const Table> tables, const Tensor& output) {
  const Tensor y = combine(name, factors, tables, output);
  if (y.needs_gradient)
    for (const Tensor& factor : factors) keep_for_backward(factor, static_cast<std::size_t>(y.producer));
  layers_.back().rereads_inputs = true;
  return y;
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
  if (x.needs_gradient) keep_for_backward(x, workload_.graph.size());
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
  product.is_fp8 = true;
  const int input = is_gathered ? x.producer
                                : append_cast(layer.name + "/cast", Phase::kForward, layer.fp8, x, x.producer,
                                              {true, is_trained && keeps});
  const int cast = append_weight_cast(layer.name + "/weight_cast", Phase::kForward, layer.fp8, weights, true,
                                      x.needs_gradient && keeps);
  if (is_trained && keeps) {
    layer.cast = input;
    Tensor kept = x;  // of what is gathered again, this GPU's part
    if (is_gathered) kept.height /= split_.degree;
    if (!is_gathered || !std::exchange(value_of(x).keeps_cast, true))
      keep(cast_over_positions(layer.fp8, kept), workload_.graph.size());
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

GraphBuilder::Tensor GraphBuilder::gather(const std::string& name, const Tensor& x, const Tensor& indices,
                                          std::int64_t positions) {
  const Tensor y = elementwise(name, OperatorKind::kEmbedding, {x}, {positions, 1, x.channels});
  const auto vertex = static_cast<std::size_t>(y.producer);
  workload_.graph[vertex].bytes_read = bytes_of(y);
  if (indices.producer >= 0) workload_.graph.connect(static_cast<std::size_t>(indices.producer), vertex);
  return y;
}

int GraphBuilder::append_exchange(const std::string& name, Phase phase, CollectiveKind kind, const Tensor& whole,
                                  std::span<const int> reads, SplitGroup among) {
  Operator op{.name = name,
              .phase = phase,
              .exchange = TensorExchange{kind, bytes_of(whole), among},
              .output_shape = shape_of(whole)};
  return append(std::move(op), reads);
}

int GraphBuilder::append_exchange(const std::string& name, Phase phase, const TensorExchange& exchange,
                                  std::span<const int> reads) {
  return append({.name = name, .phase = phase, .exchange = exchange}, reads);
}

int GraphBuilder::append_exchanges(const std::string& name, Phase phase, const TensorExchange& exchange,
                                   const std::optional<TensorExchange>& beside, std::span<const int> reads) {
  const int other = beside ? append_exchange(name + "/between_machines", phase, *beside, reads) : -1;
  const int vertex = append_exchange(name, phase, exchange, reads);
  if (beside) beside_[vertex] = other;
  return vertex;
}

GraphBuilder::Tensor GraphBuilder::exchange(const std::string& name, const Tensor& x, Tensor y, CollectiveKind kind,
                                            SplitGroup among, std::optional<TensorExchange> beside) {
  check_size("layer " + name, y);
  y.needs_gradient = x.needs_gradient;
  const TensorExchange exchange{kind, std::max(bytes_of(x), bytes_of(y)), among};
  y.producer = append_exchanges(name, Phase::kForward, exchange, beside, std::array{x.producer});
  register_value(y);
  layers_.push_back({.type = Layer::Type::kExchange,
                     .name = name,
                     .inputs = {x},
                     .output = y,
                     .forward = y.producer,
                     .exchange = exchange,
                     .beside = beside});
  return y;
}

GraphBuilder::Tensor GraphBuilder::to_heads(const std::string& name, const Tensor& x, std::int64_t channels) {
  if (context_.heads == 1) return x;
  Tensor y{x.height * context_.heads, x.width, channels / context_.heads};
  return exchange(name, x, y, CollectiveKind::kAllToAll, SplitGroup::kHeads);
}

GraphBuilder::Tensor GraphBuilder::to_positions(const std::string& name, const Tensor& x) {
  if (context_.heads == 1) return x;
  Tensor y{x.height / context_.heads, x.width, x.channels * context_.heads};
  return exchange(name, x, y, CollectiveKind::kAllToAll, SplitGroup::kHeads);
}

GraphBuilder::Tensor GraphBuilder::to_experts(const std::string& name, const Tensor& tokens, std::int64_t rows,
                                              int experts, int per_token) {
  if (experts_.degree <= 1) return tokens;
  const Tensor y{rows, 1, tokens.channels};
  if (experts_.machines == 1) return exchange(name, tokens, y, CollectiveKind::kAllToAll, SplitGroup::kExperts);
  // A copy for each machine instead of one for each expert; of both the part for the own machine stays there.
  const double share = machines_of_token(experts, per_token) / per_token;
  const Bytes all = std::max(bytes_of(tokens), bytes_of(y));
  return exchange(name, tokens, y, CollectiveKind::kAllToAll, SplitGroup::kExperts,
                  TensorExchange{CollectiveKind::kAllToAll, Bytes{std::llround(as_double(all) * share)},
                                 SplitGroup::kExpertMachines});
}

double GraphBuilder::machines_of_token(int experts, int per_token) const {
  const int each = experts / experts_.machines;
  double none = 1;  // of a machine's experts, drawn without putting any back
  for (int i = 0; i < per_token; ++i) none *= std::max(0.0, 1 - static_cast<double>(each) / (experts - i));
  const double expected = experts_.machines * (1 - none);
  return experts_.machines_per_token > 0 ? std::min<double>(expected, experts_.machines_per_token) : expected;
}

GraphBuilder::Tensor GraphBuilder::gather_positions(const std::string& name, const Tensor& x) {
  Tensor y{x.height * context_.positions, x.width, x.channels};
  y = exchange(name, x, y, CollectiveKind::kAllGather, SplitGroup::kPositions);
  value_of(y).source = x.id;
  value_of(y).kept_by = x.producer;
  value_of(y).gathered_among = SplitGroup::kPositions;
  return y;
}

GraphBuilder::Tensor GraphBuilder::begin_split(const std::string& name, const Tensor& x, Fp8 recipe) {
  if (split_.degree == 1) return x;
  is_split_ = true;
  Tensor y = x;
  int sent = x.producer;
  const bool is_cast = split_.has_sequence_parts && keeps_casts(recipe) && x.channels % kFp8Multiple == 0;
  if (split_.has_sequence_parts) {
    y.height *= split_.degree;
    check_size("layer " + name, y);
    if (is_cast)
      sent = append_cast(name + "/cast", Phase::kForward, recipe, x, x.producer, {true, casts_each_way(recipe)});
    y.producer =
        is_cast ? append_exchange(name + "/gathered", Phase::kForward,
                                  {CollectiveKind::kAllGather, cast_over_channels(recipe, y)}, std::array{sent})
                : append_exchange(name + "/gathered", Phase::kForward, CollectiveKind::kAllGather, y, std::array{sent});
  }
  register_value(y);
  value_of(y).source = x.id;
  value_of(y).kept_by = sent;
  if (is_cast) value_of(y).gathered_cast = recipe;
  if (split_.has_sequence_parts) value_of(y).gathered_among = SplitGroup::kTensor;
  layers_.push_back(
      {.type = Layer::Type::kBeginSplit, .name = name, .inputs = {x}, .output = y, .forward = y.producer});
  return y;
}

GraphBuilder::Tensor GraphBuilder::end_split(const std::string& name, const Tensor& x) {
  if (split_.degree == 1) return x;
  is_split_ = false;
  Tensor y = x;
  if (split_.has_sequence_parts) {
    if (x.height % split_.degree != 0)
      fail("layer " + name + " has " + std::to_string(x.height) + " positions, which " + std::to_string(split_.degree) +
           " GPUs cannot share evenly");
    y.height /= split_.degree;
  }
  const CollectiveKind kind = split_.has_sequence_parts ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce;
  y.producer = append_exchange(name + "/added_up", Phase::kForward, kind, x, std::array{x.producer});
  register_value(y);
  layers_.push_back({.type = Layer::Type::kEndSplit, .name = name, .inputs = {x}, .output = y, .forward = y.producer});
  return y;
}

GraphBuilder::Table GraphBuilder::shard_of_table(const std::string& name, std::int64_t rows, std::int64_t features) {
  is_split_ = split_.degree > 1;
  const Table shard = table(name, rows, features);
  is_split_ = false;
  return shard;
}

GraphBuilder::Table GraphBuilder::table(const std::string& name, std::int64_t rows, std::int64_t features,
                                        bool is_sparse) {
  const Table table{variable(name, {rows, features}, true), rows, features};
  if (is_sparse) workload_.variables.back().rows_used = Bytes{};
  return table;
}

GraphBuilder::Tensor GraphBuilder::lookup(const std::string& name, const Tensor& identifiers, const Table& table) {
  Tensor y{identifiers.height, identifiers.width, table.features};
  check_size("layer " + name, y);
  Variable& rows = workload_.variables[static_cast<std::size_t>(table.variable)];
  if (rows.rows_used) rows.rows_used = std::min(rows.bytes, *rows.rows_used + bytes_of(y));
  Operator op{.name = name,
              .kind = OperatorKind::kEmbedding,
              .bytes_read = Bytes{elements(identifiers) * kBytesPerIdentifier} + bytes_of(y),
              .bytes_written = bytes_of(y),
              .output_shape = shape_of(y),
              .reads_variables = {table.variable}};
  y.producer = append(std::move(op), std::array{identifiers.producer});
  y.needs_gradient = variable_at(table.variable).is_trainable;
  register_value(y);
  layers_.push_back({.type = Layer::Type::kLookup,
                     .name = name,
                     .kind = OperatorKind::kEmbedding,
                     .inputs = {},
                     .output = y,
                     .forward = y.producer,
                     .variables = {table.variable}});
  return y;
}

GraphBuilder::Tensor GraphBuilder::rows(const std::string& name, const Table& table) {
  Tensor y{.height = table.rows, .channels = table.features};
  y.is_of_batch = true;
  return elementwise(name, OperatorKind::kElementwise, {}, y, {table.variable});
}

GraphBuilder::Tensor GraphBuilder::score(const std::string& name, const Tensor& x, const Table& table, bool has_bias) {
  if (x.channels != table.features) fail("layer " + name + " scores features that its table does not have");
  workload_.variables[static_cast<std::size_t>(table.variable)].rows_used.reset();
  return matrix_layer({.type = Layer::Type::kMatrix,
                       .name = name,
                       .kind = OperatorKind::kDense,
                       .inputs = {x},
                       .output = {x.height, x.width, table.rows},
                       .variables = {table.variable},
                       .has_bias = has_bias},
                      1);
}

GraphBuilder::Tensor GraphBuilder::view(const std::string& name, const Tensor& x, std::int64_t positions,
                                        std::int64_t channels) {
  if (positions > x.height || channels > x.channels) fail("layer " + name + " takes more than there is");
  Tensor part = x;
  part.height = positions;
  part.channels = channels;
  return part;
}

GraphBuilder::Tensor GraphBuilder::product(const std::string& name, const Tensor& a, const Tensor& b, MatrixShape shape,
                                           const Tensor& output) {
  Tensor y{output.height, output.width, output.channels};
  check_size("layer " + name, y);
  y.needs_gradient = a.needs_gradient || b.needs_gradient;
  if (y.needs_gradient) {
    keep_for_backward(a, workload_.graph.size());
    keep_for_backward(b, workload_.graph.size());
  }
  shape.products *= workload_.batch;
  const Flops flops{2 * shape.products * shape.rows * shape.columns * shape.reduction};
  Operator op{.name = name,
              .kind = OperatorKind::kProduct,
              .flops = flops,
              .bytes_read = bytes_of(a) + bytes_of(b),
              .bytes_written = bytes_of(y),
              .matrix = shape,
              .output_shape = shape_of(y)};
  y.producer = append(std::move(op), std::array{a.producer, b.producer});
  register_value(y);
  layers_.push_back({.type = Layer::Type::kProduct,
                     .name = name,
                     .kind = OperatorKind::kProduct,
                     .inputs = {a, b},
                     .output = y,
                     .forward = y.producer,
                     .flops = flops,
                     .data_gradient = {shape.rows, shape.reduction, shape.columns, shape.products},
                     .weight_gradient = {shape.reduction, shape.columns, shape.rows, shape.products}});
  return y;
}

GraphBuilder::Tensor GraphBuilder::fused_attention(const std::string& name, const Tensor& queries, const Tensor& keys,
                                                   const Tensor& values, AttentionShape shape,
                                                   std::span<const Table> tables) {
  Tensor context = queries;
  if (shape.value_features > 0) context.channels = shape.heads * shape.value_features;
  const Tensor y = multiply(name, std::array{queries, keys, values}, tables, context);
  shape.batch *= workload_.batch;
  set_attention(workload_.graph[static_cast<std::size_t>(y.producer)], shape);
  layers_.back().kind = OperatorKind::kProduct;
  layers_.back().attention = shape;
  keep_attention(y, shape);
  return y;
}

void GraphBuilder::keep_attention(const Tensor& y, const AttentionShape& shape) {
  constexpr std::int64_t kBytesOfStatistics = 8;  // largest score and sum of a query
  if (!y.needs_gradient) return;
  keep_for_backward(y, static_cast<std::size_t>(y.producer));
  keep(Bytes{shape.batch * shape.heads * shape.queries * kBytesOfStatistics}, static_cast<std::size_t>(y.producer));
}

void GraphBuilder::set_attention(Operator& op, const AttentionShape& shape) const {
  const auto number = [](std::int64_t size) { return static_cast<double>(size); };
  op.kind = OperatorKind::kProduct;
  op.attention = shape;
  // The products of scores and of values as one with the terms of both.
  op.matrix = {.rows = number(shape.queries),
               .columns = number(shape.keys) * (shape.is_causal ? 0.5 : 1),
               .reduction = number(shape.head_features + shape.features_of_values()),
               .products = number(shape.batch * shape.heads)};
  op.flops = Flops{2 * op.matrix.products * op.matrix.rows * op.matrix.columns * op.matrix.reduction};
}

GraphBuilder::Tensor GraphBuilder::context_attention(const std::string& name, const Tensor& queries, const Tensor& keys,
                                                     const Tensor& values, AttentionShape shape,
                                                     std::span<const Table> tables) {
  const std::int64_t groups = context_.positions;
  if (groups == 1) return fused_attention(name, queries, keys, values, shape, tables);
  if (!tables.empty())
    fail("layer " + name + " has learned scores besides, which are of no GPU that has other positions");
  if (context_.method == ContextSplit::Method::kRing) return ring_attention(name, queries, keys, values, shape);
  shape.keys *= groups;
  if (shape.is_causal && !context_.is_balanced) {  // the last of them see all but half of their own
    shape.is_causal = false;
    shape.keys -= shape.queries / 2;
  }
  return fused_attention(name, queries, gather_positions(name + "/gathered_keys", keys),
                         gather_positions(name + "/gathered_values", values), shape);
}

GraphBuilder::Tensor GraphBuilder::ring_attention(const std::string& name, const Tensor& queries, const Tensor& keys,
                                                  const Tensor& values, const AttentionShape& shape) {
  Layer layer{.type = Layer::Type::kRingAttention,
              .name = name,
              .kind = OperatorKind::kProduct,
              .inputs = {queries, keys, values},
              .output = {queries.height, queries.width, shape.heads * shape.features_of_values()},
              .attention = shape};
  layer.attention->batch *= workload_.batch;
  Tensor& y = layer.output;
  for (const Tensor& x : layer.inputs) y.needs_gradient = y.needs_gradient || x.needs_gradient;
  if (y.needs_gradient)
    for (const Tensor& x : layer.inputs) keep_for_backward(x, workload_.graph.size());
  std::vector<int> arrived{keys.producer, values.producer}, blocks;
  for (int step = 0; step < context_.positions; ++step) {
    const std::vector<int> read = arrived;
    if (step + 1 < context_.positions)
      arrived = {append_exchange(name + numbered("/passed_on", step), Phase::kForward, passed_on(layer, 1), read)};
    Operator block{.name = name + numbered("/block", step),
                   .bytes_read = bytes_of(queries) + bytes_of(keys) + bytes_of(values),
                   .bytes_written = bytes_of(y),
                   .output_shape = shape_of(y)};
    set_attention(block, ring_block(*layer.attention, step));
    std::vector<int> reads{queries.producer};
    reads.insert(reads.end(), read.begin(), read.end());
    blocks.push_back(append(std::move(block), reads));
  }
  y.producer = append({.name = name + "/blocks_put_together",
                       .bytes_read = bytes_of(y) * static_cast<std::int64_t>(blocks.size()),
                       .bytes_written = bytes_of(y),
                       .output_shape = shape_of(y)},
                      blocks);
  layer.forward = y.producer;
  register_value(y);
  keep_attention(y, *layer.attention);
  const Tensor output = y;
  layers_.push_back(std::move(layer));
  return output;
}

AttentionShape GraphBuilder::ring_block(AttentionShape shape, int step) const {
  // Of two parts each, one from either end, queries see half of the keys that have come, or half of the queries see all of them.
  if (step > 0 && !context_.is_balanced) shape.is_causal = false;
  return shape;
}

TensorExchange GraphBuilder::passed_on(const Layer& layer, int tensors) const {
  return {CollectiveKind::kShift, (bytes_of(layer.inputs[1]) + bytes_of(layer.inputs[2])) * tensors,
          SplitGroup::kPositions};
}

GraphBuilder::Tensor GraphBuilder::recurrent(const std::string& name, const Tensor& x, std::int64_t hidden,
                                             const RecurrentCell& cell) {
  const std::int64_t all = cell.gates * hidden;  // that a product gives at a position
  Tensor y{x.height, 1, hidden};
  Tensor gates{x.height, 1, all};
  check_size("layer " + name, gates);
  Layer layer{.type = Layer::Type::kRecurrent,
              .name = name,
              .kind = OperatorKind::kRecurrent,
              .inputs = {x},
              .output = {},
              .cell = cell};
  layer.variables = {variable(name + "/kernel", {x.channels + (cell.is_split ? 0 : hidden), all}, true)};
  if (cell.is_split) layer.variables.push_back(variable(name + "/recurrent_kernel", {hidden, all}, true));
  if (cell.has_bias) layer.variables.push_back(variable(name + "/bias", {all}, true));
  if (cell.has_bias && cell.is_split) layer.variables.push_back(variable(name + "/recurrent_bias", {all}, true));
  keep_for_backward(x, workload_.graph.size());

  const double samples = workload_.batch, positions = static_cast<double>(x.height);
  const auto in = static_cast<double>(x.channels), state = static_cast<double>(hidden);
  const auto outputs = static_cast<double>(all);
  Operator projection{.name = name + "/input",
                      .kind = OperatorKind::kDense,
                      .flops = Flops{2 * samples * positions * in * outputs},
                      .bytes_read = bytes_of(x) + Bytes{x.channels * all * scalar_bytes_},
                      .bytes_written = bytes_of(gates),
                      .matrix = {samples * positions, outputs, in},
                      .output_shape = shape_of(gates),
                      .reads_variables = layer.variables};
  const int projected = append(std::move(projection), std::array{x.producer});
  const Bytes row{workload_.batch * hidden * scalar_bytes_};  // a state
  const std::int64_t states = cell.gates == 4 ? 2 : 1;        // LSTM: state and cell
  int last = -1;
  for (std::int64_t position = 1; position <= x.height; ++position) {
    const std::string step = name + "/" + std::to_string(position);
    Operator recurrent{.name = step + "/recurrent",
                       .kind = OperatorKind::kRecurrent,
                       .flops = Flops{2 * samples * state * outputs},
                       .bytes_read = row + Bytes{hidden * all * scalar_bytes_},
                       .bytes_written = cell.gates * row,
                       .matrix = {samples, outputs, state},
                       .output_shape = {workload_.batch, all}};
    Operator next{.name = step + "/cell",
                  .kind = OperatorKind::kActivation,
                  .bytes_read = (2 * cell.gates + 1) * row,  // both products and the cell, or state
                  .bytes_written = states * row,
                  .output_shape = {workload_.batch, hidden}};
    const int product = append(std::move(recurrent), std::array{last});
    last = append(std::move(next), std::array{projected, product});
  }
  y.producer = layer.forward = last;
  y.needs_gradient = true;
  register_value(y);
  keep_for_backward(y, static_cast<std::size_t>(last));
  keep((cell.gates + states - 1) * bytes_of(y), static_cast<std::size_t>(last));  // four gates and the cell
  layer.output = y;
  layers_.push_back(std::move(layer));
  return y;
}

GraphBuilder::Tensor GraphBuilder::normalisation(const std::string& name, OperatorKind kind, const Tensor& x,
                                                 NormVariables variables) {
  const bool is_over_batch = kind == OperatorKind::kBatchNorm;
  std::vector<int> scales;
  if (variables.has_scale) scales.push_back(variable(name + "/gamma", {x.channels}, true));
  if (variables.has_bias) scales.push_back(variable(name + "/beta", {x.channels}, true));
  std::vector<int> moving;
  if (is_over_batch)
    moving = {variable(name + "/moving_mean", {x.channels}, false),
              variable(name + "/moving_variance", {x.channels}, false)};
  Tensor y{x.height, x.width, x.channels};
  y.is_of_batch = x.is_of_batch;
  y.needs_gradient = x.needs_gradient || !trained(scales).empty();
  if (y.needs_gradient || is_over_batch) keep_for_backward(x, workload_.graph.size());
  Operator op{.name = name,
              .kind = kind,
              .bytes_read = (is_over_batch ? 2 : 1) * bytes_of(x),  // over the batch: for the statistics first
              .bytes_written = bytes_of(y),
              .output_shape = shape_of(y),
              .reads_variables = scales,
              .produces_gradients = std::move(moving)};
  y.producer = append(std::move(op), std::array{x.producer});
  register_value(y);
  layers_.push_back({.type = Layer::Type::kNormalisation,
                     .name = name,
                     .kind = kind,
                     .inputs = {x},
                     .output = y,
                     .forward = y.producer,
                     .variables = scales});
  return y;
}

GraphBuilder::Tensor GraphBuilder::batch_norm(const std::string& name, const Tensor& x) {
  return normalisation(name, OperatorKind::kBatchNorm, x, {});
}

GraphBuilder::Tensor GraphBuilder::layer_norm(const std::string& name, const Tensor& x) {
  return normalisation(name, OperatorKind::kLayerNorm, x, {});
}

GraphBuilder::Tensor GraphBuilder::rms_norm(const std::string& name, const Tensor& x) {
  return normalisation(name, OperatorKind::kLayerNorm, x, {.has_bias = false});
}

}  // namespace rehearse
