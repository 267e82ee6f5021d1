#include "workloads/graph_builder.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "sim/base/errors.hpp"
#include "workloads/sizes.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMaxOperators = 400'000;
constexpr int kMaxBatch = 65536;

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
  if (std::exchange(awaits_loads_, false)) op.awaits_loads = true;
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
  workload_.graph.stored(static_cast<std::size_t>(y.producer)).is_composite = is_composite;
  layers_.back().is_composite = is_composite;
  if (y.needs_gradient) keep_for_backward(keeps_input ? x : y, static_cast<std::size_t>(y.producer));
  return y;
}

GraphBuilder::Tensor GraphBuilder::dropout(const std::string& name, const Tensor& x) {
  const Tensor y = elementwise(name, OperatorKind::kDropout, {x}, {x.height, x.width, x.channels});
  const Bytes mask{elements(x)};
  workload_.graph.stored(static_cast<std::size_t>(y.producer)).bytes_written += mask;
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
  if (x.needs_gradient) {
    keep_for_backward(x, workload_.graph.size());
    keep(Bytes{elements(y) * kBytesPerIndex}, workload_.graph.size());
  }
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

}  // namespace rehearse
