// Attention, recurrent layers and normalisations.

#include "workloads/graph_builder.hpp"

#include <array>
#include <utility>

#include "sim/base/errors.hpp"
#include "workloads/sizes.hpp"

namespace rehearse {

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
  set_attention(workload_.graph.stored(static_cast<std::size_t>(y.producer)), shape);
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
