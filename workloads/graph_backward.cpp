// The second half of GraphBuilder: from the forward layers to backward kernels, gradients and updates.

#include <algorithm>
#include <array>
#include <utility>

#include "workloads/graph_builder.hpp"
#include "workloads/sizes.hpp"

namespace rehearse {

void GraphBuilder::give(const Tensor& value, int vertex) {
  if (!value.needs_gradient) return;
  std::vector<GradientPart>& parts = value_of(value).gradient;
  const bool is_given = !parts.empty() && parts.back().vertex == vertex;  // a kernel adds up what it gives to one value
  if (!is_given) parts.push_back({vertex, bytes_of(value)});
}

int GraphBuilder::gradient_of(const Tensor& value) {
  std::vector<GradientPart>& parts = value_of(value).gradient;
  if (parts.empty()) return -1;
  if (parts.size() > 1 || parts[0].bytes < bytes_of(value)) {
    Operator sum{.name = "gradient sum",
                 .kind = OperatorKind::kElementwise,
                 .phase = Phase::kBackward,
                 .bytes_written = bytes_of(value),
                 .output_shape = shape_of(value)};
    std::vector<int> reads;
    for (const GradientPart& part : parts) {
      sum.bytes_read += part.bytes;
      reads.push_back(part.vertex);
    }
    parts = {{append(std::move(sum), reads), bytes_of(value)}};
  }
  return parts.front().vertex;
}

int GraphBuilder::source_of(int vertex) {
  if (vertex < 0 || parts_.empty() || static_cast<std::size_t>(vertex) >= parts_.back().behind_operator) return vertex;
  const auto behind = std::ranges::upper_bound(parts_, static_cast<std::size_t>(vertex), {}, &Part::first_operator);
  if (behind == parts_.begin()) return vertex;
  Part& part = *std::prev(behind);
  if (static_cast<std::size_t>(vertex) >= part.behind_operator) return vertex;
  if (!part.drops_output && (layer_ < part.first_layer || layer_ >= part.behind_layer)) return vertex;
  if (part.kept_results.contains(vertex)) return vertex;
  if (!part.again.contains(vertex)) append_again(part, vertex);
  return part.again.at(vertex);
}

std::vector<int> GraphBuilder::reads_of(std::size_t vertex) const {
  const std::vector<OperatorEdge>& edges = workload_.graph.edges();  // in the order of the operators that read
  std::vector<int> reads;
  for (auto edge = std::ranges::lower_bound(edges, vertex, {}, &OperatorEdge::to);
       edge != edges.end() && edge->to == vertex; ++edge)
    reads.push_back(static_cast<int>(edge->from));
  return reads;
}

std::set<int> GraphBuilder::to_run_again(const Part& part, int wanted) const {
  const int first = static_cast<int>(part.first_operator), behind = static_cast<int>(part.behind_operator);
  std::set<int> chosen{wanted};
  if (part.kept_results.empty()) {
    for (int vertex = first; vertex < behind; ++vertex) chosen.insert(vertex);
    return chosen;
  }
  for (int vertex = wanted; vertex >= first; --vertex) {
    if (!chosen.contains(vertex)) continue;
    for (const int read : reads_of(static_cast<std::size_t>(vertex)))
      if (read >= first && !part.kept_results.contains(read) && !part.again.contains(read)) chosen.insert(read);
  }
  return chosen;
}

void GraphBuilder::append_again(Part& part, int wanted) {
  for (const int vertex : to_run_again(part, wanted)) {
    Operator op = workload_.graph.stored(static_cast<std::size_t>(vertex));
    op.name += "/again";
    op.is_again = true;
    op.backward_of = vertex;
    op.output = op.kept = op.kept_again = {};
    op.reads_variables.clear();  // which its forward pass has waited for
    op.produces_gradients.clear();
    std::vector<int> reads = reads_of(static_cast<std::size_t>(vertex));
    for (int& read : reads)
      if (const auto own = part.again.find(read); own != part.again.end()) read = own->second;
    const int again = append(std::move(op), reads);
    part.again.emplace(vertex, again);
  }
}

void GraphBuilder::append(Deferred kernel) {
  std::vector<int> reads = kernel.reads;
  for (Operator& cast : kernel.casts) reads.push_back(append(std::move(cast), kernel.reads));
  append(std::move(kernel.op), reads);
}

void GraphBuilder::append_backward(const Layer& layer) {
  const int gradient = gradient_of(layer.output);
  if (gradient < 0) return;  // nothing depends on this layer
  switch (layer.type) {
    case Layer::Type::kElementwise:
      return append_backward_of_elementwise(layer, gradient);
    case Layer::Type::kMatrix:
      return append_backward_of_matrix(layer, gradient);
    case Layer::Type::kProduct:
      return append_backward_of_product(layer, gradient);
    case Layer::Type::kRecurrent:
      return append_backward_of_recurrent(layer, gradient);
    case Layer::Type::kNormalisation: {
      const Tensor& x = layer.inputs[0];
      Operator op{.name = layer.name + "/gradient",
                  .kind = layer.kind,
                  .phase = Phase::kBackward,
                  .bytes_read = 2 * (bytes_of(x) + bytes_of(layer.output)),  // once for the sums, once for the result
                  .bytes_written = bytes_of(x),
                  .output_shape = shape_of(x),
                  .produces_gradients = trained(layer.variables)};
      give(x, append(std::move(op), std::array{gradient, layer.forward, x.producer}));  // forward: its statistics
      return;
    }
    case Layer::Type::kBeginSplit:
    case Layer::Type::kEndSplit:
      return append_backward_of_split(layer, gradient);
    case Layer::Type::kExchange:
      return append_backward_of_exchange(layer, gradient);
    case Layer::Type::kRingAttention:
      return append_backward_of_ring_attention(layer, gradient);
    case Layer::Type::kLookup: {
      const Variable& table = variable_at(layer.variables[0]);
      const Bytes rows = bytes_of(layer.output);
      Operator op{.name = layer.name + "/gradient",
                  .kind = layer.kind,
                  .phase = Phase::kBackwardWeights,
                  .bytes_read = rows,
                  .bytes_written = rows + (table.rows_used ? Bytes{} : table.bytes),  // a dense one is cleared first
                  .output_shape = table.shape,
                  .produces_gradients = layer.variables};
      append(std::move(op), std::array{gradient});
      return;
    }
  }
}

void GraphBuilder::append_backward_of_elementwise(const Layer& layer, int gradient) {
  if (layer.passes_gradient) {
    for (const Tensor& x : layer.inputs) give(x, gradient);
    return;
  }
  // One kernel gives the gradients of all inputs. Pooling reads its input again, an activation its output, of the same
  // size, a product its factors, dropout its mask; sums nothing.
  const bool rereads =
      layer.rereads_inputs || layer.kind == OperatorKind::kActivation || layer.kind == OperatorKind::kPooling;
  Operator op{.name = layer.name + "/gradient",
              .kind = layer.kind,
              .phase = Phase::kBackward,
              .bytes_read = bytes_of(layer.output),
              .is_composite = layer.is_composite,
              .output_shape = shape_of(layer.inputs.empty() ? layer.output : layer.inputs[0]),
              .produces_gradients = trained(layer.variables)};
  if (layer.attention)
    set_attention_gradient(op, workload_.graph.stored(static_cast<std::size_t>(layer.forward)), layer.output);
  for (const Tensor& x : layer.inputs) {
    if (rereads) op.bytes_read += bytes_of(x);
    op.bytes_written += bytes_of(x);
  }
  for (const int variable : op.produces_gradients) op.bytes_written += variable_at(variable).bytes;
  if (layer.kind == OperatorKind::kDropout) op.bytes_read += Bytes{elements(layer.output)};
  std::vector<int> reads{gradient};
  if (layer.kind == OperatorKind::kActivation)
    reads.push_back(layer.forward);  // its output tells where its input was positive
  if (layer.kind == OperatorKind::kPooling) reads.push_back(layer.inputs[0].producer);
  if (layer.rereads_inputs)
    for (const Tensor& x : layer.inputs) reads.push_back(reread(layer.name, x));
  if (layer.attention && source_of(layer.forward) != layer.forward) reads.push_back(layer.forward);  // its statistics
  const int vertex = append(std::move(op), reads);
  for (const Tensor& x : layer.inputs) give(x, vertex);
}

void GraphBuilder::append_backward_of_split(const Layer& layer, int gradient) {
  const Tensor& x = layer.inputs[0];
  const bool has_parts = split_.has_sequence_parts;
  if (layer.type == Layer::Type::kEndSplit) {
    if (const Fp8 recipe = value_of(x).read_by_cast; has_parts && recipe != Fp8::kNone) {
      const bool each_way = casts_each_way(recipe);
      const int cast = append_cast(layer.name + "/gradient_cast", Phase::kBackward, recipe, layer.output, gradient,
                                   {true, each_way});
      const Bytes bytes = cast_over_channels(recipe, x) + (each_way ? cast_over_positions(recipe, x) : Bytes{});
      gradient = append_exchange(layer.name + "/gathered_gradient", Phase::kBackward,
                                 {CollectiveKind::kAllGather, bytes}, std::array{cast});
      value_of(x).has_gathered_gradient = true;
    } else if (has_parts)
      gradient = append_exchange(layer.name + "/gathered_gradient", Phase::kBackward, CollectiveKind::kAllGather, x,
                                 std::array{gradient});
    return give(x, gradient);
  }
  if (x.needs_gradient)
    give(x, append_exchange(layer.name + "/added_up_gradient", Phase::kBackward,
                            has_parts ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce, layer.output,
                            std::array{gradient}));
  for (Deferred& kernel : std::exchange(deferred_, {})) append(std::move(kernel));
}

void GraphBuilder::set_attention_gradient(Operator& backward, const Operator& forward, const Tensor& output) const {
  // Scores again, gradients of queries and of keys; of the scores and of values: 2.5 times the forward pass's if all are as wide.
  const auto scores = static_cast<double>(forward.attention->head_features);
  const auto values = static_cast<double>(forward.attention->features_of_values());
  const double products = (3 * scores + 2 * values) / (scores + values);
  backward.attention = forward.attention;
  backward.matrix = forward.matrix;
  backward.matrix.reduction *= products;
  backward.flops = products * forward.flops;
  backward.bytes_read += bytes_of(output);  // and its gradient
}

void GraphBuilder::append_backward_of_exchange(const Layer& layer, int gradient) {
  const Tensor& x = layer.inputs[0];
  if (!x.needs_gradient) return;
  TensorExchange reverse = *layer.exchange;
  if (reverse.kind == CollectiveKind::kAllGather) reverse.kind = CollectiveKind::kReduceScatter;
  std::optional<TensorExchange> beside = layer.beside;
  for (TensorExchange* other : {&reverse, beside ? &*beside : nullptr})
    if (other != nullptr && other->of != PayloadOf::kAll)
      other->of = other->of == PayloadOf::kSender ? PayloadOf::kReceiver : PayloadOf::kSender;
  give(x, append_exchanges(layer.name + "/gradient", Phase::kBackward, reverse, beside, std::array{gradient}));
}

/// Keys and values go round again, and their gradients with them, which the GPUs add to. What a block adds goes with what the next
/// but one reads.
void GraphBuilder::append_backward_of_ring_attention(const Layer& layer, int gradient) {
  const Tensor &queries = layer.inputs[0], &keys = layer.inputs[1], &values = layer.inputs[2];
  std::vector<int> arrived{keys.producer, values.producer};
  int block_before = -1;
  for (int step = 0; step < context_.positions; ++step) {
    std::vector<int> reads{gradient, queries.producer, layer.output.producer};
    reads.insert(reads.end(), arrived.begin(), arrived.end());
    if (step + 1 < context_.positions) {
      std::vector<int> sent = arrived;
      if (block_before >= 0) sent.push_back(block_before);
      arrived = {append_exchange(layer.name + numbered("/gradient_passed_on", step), Phase::kBackward,
                                 passed_on(layer, 2), sent)};
    }
    Operator forward;
    set_attention(forward, ring_block(*layer.attention, step));
    const Bytes all = bytes_of(queries) + bytes_of(keys) + bytes_of(values);
    Operator op{.name = layer.name + numbered("/gradient", step),
                .kind = layer.kind,
                .phase = Phase::kBackward,
                .bytes_read = bytes_of(layer.output) + all,
                .bytes_written = all,
                .output_shape = shape_of(queries)};
    set_attention_gradient(op, forward, layer.output);
    block_before = append(std::move(op), reads);
  }
  for (const Tensor& x : layer.inputs) give(x, block_before);
}

int GraphBuilder::reread(const std::string& layer, const Tensor& x) {
  if (x.id < 0) return x.producer;
  Value& value = value_of(x);
  if (!value.gathered_among) return x.producer;
  const bool is_partly_again = value.part >= 0 && !parts_[static_cast<std::size_t>(value.part)].kept_results.empty();
  if (is_partly_again) return x.producer;  // which is gathered again for all that read it
  if (value.gathered < 0 && value.gathered_cast != Fp8::kNone)
    value.gathered = append_exchange(
        layer + "/gathered_again", Phase::kBackward,
        {CollectiveKind::kAllGather, cast_over_positions(value.gathered_cast, x), *value.gathered_among},
        std::array{value.kept_by});
  if (value.gathered < 0)
    value.gathered = append_exchange(layer + "/gathered_again", Phase::kBackward, CollectiveKind::kAllGather, x,
                                     std::array{value.kept_by}, *value.gathered_among);
  return value.gathered;
}

void GraphBuilder::append_backward_of_matrix(const Layer& layer, int gradient) {
  const Tensor& x = layer.inputs[0];
  const Bytes output_bytes = bytes_of(layer.output);
  const Variable& weights = variable_at(layer.variables[0]);
  const bool is_deferred = value_of(x).source >= 0 && x.needs_gradient;  // whose sum is launched first
  const int given = gradient;
  if (layer.fp8 != Fp8::kNone && !value_of(layer.output).has_gathered_gradient &&
      (x.needs_gradient || weights.is_trainable))
    gradient = append_cast(layer.name + "/gradient_cast", Phase::kBackward, layer.fp8, layer.output, gradient,
                           {x.needs_gradient, weights.is_trainable});
  const bool has_cast = layer.cast >= 0 && value_of(x).gathered_cast == Fp8::kNone;
  const int input = !weights.is_trainable ? -1 : has_cast ? layer.cast : reread(layer.name, x);
  const auto append_or_defer = [&](Operator op, std::vector<int> reads, std::vector<Operator> casts = {}) {
    op.backward_of = backward_of_;
    for (Operator& cast : casts) cast.backward_of = backward_of_;
    Deferred kernel{std::move(casts), std::move(op), std::move(reads)};
    if (is_deferred)
      deferred_.push_back(std::move(kernel));
    else
      append(std::move(kernel));
  };
  if (layer.has_bias && variable_at(layer.variables[1]).is_trainable) {
    Operator bias{.name = layer.name + "/bias_gradient",
                  .phase = Phase::kBackwardWeights,
                  .bytes_read = output_bytes,
                  .bytes_written = variable_at(layer.variables[1]).bytes,
                  .output_shape = variable_at(layer.variables[1]).shape,
                  .produces_gradients = {layer.variables[1]}};
    append_or_defer(std::move(bias), {given});
  }
  if (weights.is_trainable) {
    Operator weight{.name = layer.name + "/weight_gradient",
                    .kind = layer.kind,
                    .phase = Phase::kBackwardWeights,
                    .flops = layer.flops,
                    .bytes_read = bytes_of(x) + output_bytes,
                    .bytes_written = weights.bytes,
                    .matrix = layer.weight_gradient,
                    .is_3x3_stride_1 = layer.is_3x3_stride_1,
                    .convolution = layer.convolution,
                    .output_shape = weights.shape,
                    .produces_gradients = {layer.variables[0]}};
    if (layer.fp8 != Fp8::kNone) {
      weight.factor_bits = bits_of(layer.fp8);
      weight.bytes_read = cast_over_positions(layer.fp8, x) + cast_over_positions(layer.fp8, layer.output);
    }
    append_or_defer(std::move(weight), {gradient, input}, casts_for_weight_gradient(layer));
  }
  if (!x.needs_gradient) return;
  Operator data{.name = layer.name + "/data_gradient",
                .kind = layer.kind,
                .phase = Phase::kBackwardData,
                .flops = layer.flops,
                .bytes_read = output_bytes + weights.bytes,
                .bytes_written = bytes_of(x),
                .matrix = layer.data_gradient,
                .is_3x3_stride_1 = layer.is_3x3_stride_1,
                .convolution = layer.convolution,
                .output_shape = shape_of(x)};
  std::vector<int> reads{gradient};
  if (layer.fp8 != Fp8::kNone) {
    data.factor_bits = bits_of(layer.fp8);
    data.bytes_read = cast_over_channels(layer.fp8, layer.output) + weight_cast_bytes(layer.fp8, weights, false);
    if (!keeps_casts(layer.fp8))
      reads.push_back(append_weight_cast(layer.name + "/weight_cast_again", Phase::kBackward, layer.fp8,
                                         layer.variables[0], false, true));
  }
  give(x, append(std::move(data), reads));
}

std::vector<Operator> GraphBuilder::casts_for_weight_gradient(const Layer& layer) {
  const Tensor& x = layer.inputs[0];
  std::vector<Operator> casts;
  if (layer.fp8 == Fp8::kNone) return casts;
  if (!keeps_casts(layer.fp8)) {
    casts.push_back(cast_of(layer.name + "/cast_again", Phase::kBackward, layer.fp8, x, {false, true}));
    return casts;
  }
  if (casts_each_way(layer.fp8)) return casts;  // which is what was gathered
  if (value_of(x).gathered_cast != Fp8::kNone) casts.push_back(transposed_of(layer.name + "/input_transposed", x));
  if (value_of(layer.output).has_gathered_gradient)
    casts.push_back(transposed_of(layer.name + "/gradient_transposed", layer.output));
  return casts;
}

void GraphBuilder::append_backward_of_product(const Layer& layer, int gradient) {
  for (const std::size_t factor : {0U, 1U}) {
    const Tensor &of = layer.inputs[factor], &other = layer.inputs[1 - factor];
    if (!of.needs_gradient) continue;
    Operator op{.name = layer.name + (factor == 0 ? "/first_gradient" : "/second_gradient"),
                .kind = layer.kind,
                .phase = Phase::kBackwardData,
                .flops = layer.flops,
                .bytes_read = bytes_of(layer.output) + bytes_of(other),
                .bytes_written = bytes_of(of),
                .matrix = factor == 0 ? layer.data_gradient : layer.weight_gradient,
                .output_shape = shape_of(of)};
    give(of, append(std::move(op), std::array{gradient, other.producer}));
  }
}

void GraphBuilder::append_backward_of_recurrent(const Layer& layer, int gradient) {
  const Tensor &x = layer.inputs[0], &y = layer.output;
  const std::int64_t hidden = y.channels, all = layer.cell.gates * hidden;
  const std::int64_t states = layer.cell.gates == 4 ? 2 : 1;  // LSTM: state and cell
  const double samples = workload_.batch, positions = static_cast<double>(x.height);
  const auto in = static_cast<double>(x.channels), state = static_cast<double>(hidden);
  const auto outputs = static_cast<double>(all);
  const Bytes row{workload_.batch * hidden * scalar_bytes_}, gates = layer.cell.gates * bytes_of(y);
  int last = gradient;
  for (std::int64_t position = x.height; position >= 1; --position) {
    const std::string step = layer.name + "/" + std::to_string(position);
    Operator cell{.name = step + "/cell_gradient",
                  .kind = OperatorKind::kActivation,
                  .phase = Phase::kBackward,
                  .bytes_read = (layer.cell.gates + 2 * states) * row,  // gates, two cells, gradients of state and cell
                  .bytes_written = (layer.cell.gates + 1) * row,
                  .output_shape = {workload_.batch, all}};
    Operator recurrent{.name = step + "/recurrent_gradient",
                       .kind = OperatorKind::kRecurrent,
                       .phase = Phase::kBackwardData,
                       .flops = Flops{2 * samples * state * outputs},
                       .bytes_read = layer.cell.gates * row + Bytes{hidden * all * scalar_bytes_},
                       .bytes_written = row,
                       .matrix = {samples, state, outputs},
                       .output_shape = {workload_.batch, hidden}};
    last = append(std::move(cell), std::array{gradient, last});
    last = append(std::move(recurrent), std::array{last});
  }
  const bool is_split = layer.cell.is_split;
  const auto weights = [&](const std::string& name, int index, double rows, Bytes read) {
    const Variable& of = variable_at(index);
    Operator op{.name = layer.name + name,
                .kind = OperatorKind::kDense,
                .phase = Phase::kBackwardWeights,
                .flops = Flops{2 * samples * positions * rows * outputs},
                .bytes_read = read + gates,
                .bytes_written = of.bytes,
                .matrix = {rows, outputs, samples * positions},
                .output_shape = of.shape,
                .produces_gradients = {index}};
    append(std::move(op), std::array{last, x.producer});
  };
  if (is_split) {
    weights("/weight_gradient", layer.variables[0], in, bytes_of(x));
    weights("/recurrent_weight_gradient", layer.variables[1], state, bytes_of(y));
  } else {
    weights("/weight_gradient", layer.variables[0], in + state, bytes_of(x) + bytes_of(y));
  }
  const std::vector<int> biases{layer.variables.begin() + (is_split ? 2 : 1), layer.variables.end()};
  if (!biases.empty()) {
    Operator bias{.name = layer.name + "/bias_gradient",
                  .phase = Phase::kBackwardWeights,
                  .bytes_read = gates,
                  .output_shape = {all},
                  .produces_gradients = biases};
    for (const int index : biases) bias.bytes_written += variable_at(index).bytes;
    append(std::move(bias), std::array{last});
  }
  if (!x.needs_gradient) return;
  Operator data{.name = layer.name + "/data_gradient",
                .kind = OperatorKind::kDense,
                .phase = Phase::kBackwardData,
                .flops = Flops{2 * samples * positions * in * outputs},
                .bytes_read = gates + Bytes{x.channels * all * scalar_bytes_},
                .bytes_written = bytes_of(x),
                .matrix = {samples * positions, in, outputs},
                .output_shape = shape_of(x)};
  give(x, append(std::move(data), std::array{last}));
}

void GraphBuilder::keep_last_gradients() {
  std::vector<bool> is_complete(workload_.variables.size());
  for (std::size_t vertex = workload_.graph.size(); vertex-- > 0;) {
    std::erase_if(workload_.graph.stored(vertex).produces_gradients, [&](int variable) {
      const auto index = static_cast<std::size_t>(variable);
      const bool has_later_part = is_complete[index];
      is_complete[index] = true;
      return has_later_part;
    });
  }
}

void GraphBuilder::count_again_for_weights() {
  std::set<int> counted;
  for (const Layer& layer : layers_) {
    const bool reads_value = layer.type == Layer::Type::kMatrix && layer.cast < 0 && layer.inputs[0].id >= 0;
    if (!reads_value || trained({layer.variables[0]}).empty()) continue;
    const int source = value_of(layer.inputs[0]).source, id = source < 0 ? layer.inputs[0].id : source;
    if (const Value& value = values_[static_cast<std::size_t>(id)]; value.part >= 0 && counted.insert(id).second)
      again_for_weights_[layer.forward] += value.kept_again;
  }
}

Workload GraphBuilder::finish(std::span<const Tensor> outputs, bool has_fused_loss, bool has_composed_loss) {
  constexpr std::int64_t kComposedNumbers = 3, kBytesOfNumber = 4;  // logarithms, their gradient, the copy's
  for (const Tensor& output : outputs) {
    const Bytes bytes = bytes_of(output);
    const Bytes unkept = output.producer < 0 ? Bytes{} : bytes - std::min(bytes, value_of(output).kept);
    workload_.logits_bytes += has_composed_loss
                                  ? Bytes{kComposedNumbers * kBytesOfNumber * elements(output)}
                                  : unkept + bytes + (scalar_bytes_ == 2 && !has_fused_loss ? 2 * bytes : Bytes{});
    Operator loss{.name = "loss",
                  .kind = OperatorKind::kSoftmaxLoss,
                  .bytes_read = bytes_of(output),
                  .bytes_written = bytes_of(output),
                  .output_shape = shape_of(output)};
    std::vector<int> reads{output.producer};
    // Of each position the largest logit, the sum of their exponentials, and the target's logit.
    if (output.is_shard)
      for (const char* part : {"loss/maximum", "loss/sum", "loss/target"}) {
        Operator exchange{.name = part,
                          .exchange = TensorExchange{CollectiveKind::kAllReduce,
                                                     Bytes{samples_of(output) * output.height * output.width * 4}}};
        reads.push_back(append(std::move(exchange), std::array{reads.back()}));
      }
    give(output, append(std::move(loss), reads));
  }
  for (const Layer& layer : layers_)
    if (layer.output.producer >= 0)
      workload_.graph.stored(static_cast<std::size_t>(layer.output.producer)).output = bytes_of(layer.output);
  for (std::size_t vertex = 0; vertex < kept_.size(); ++vertex) workload_.graph.stored(vertex).kept = kept_[vertex];
  for (const Part& part : parts_) {
    workload_.graph.stored(part.first_operator).kept_again = part.kept_again;
    workload_.recomputed_bytes = std::max(workload_.recomputed_bytes, part.kept_again);
  }
  is_backward_ = true;
  for (layer_ = layers_.size(); layer_-- > 0;) {
    backward_of_ = layers_[layer_].forward;
    append_backward(layers_[layer_]);
  }
  backward_of_ = -1;
  keep_last_gradients();
  count_again_for_weights();
  for (std::size_t vertex = 0; vertex < workload_.graph.size(); ++vertex)
    if (Operator& op = workload_.graph.stored(vertex); op.phase == Phase::kBackwardWeights && op.matrix.reduction > 0)
      if (const auto again = again_for_weights_.find(op.backward_of); again != again_for_weights_.end())
        op.kept_again = std::exchange(again->second, Bytes{});

  // Where each gradient comes from, then the updates in creation order.
  std::vector<int> produced_by(workload_.variables.size(), -1);
  for (std::size_t vertex = 0; vertex < workload_.graph.size(); ++vertex)
    for (const int index : workload_.graph.stored(vertex).produces_gradients)
      produced_by[static_cast<std::size_t>(index)] = static_cast<int>(vertex);
  for (std::size_t index = 0; index < workload_.variables.size(); ++index) {
    const Variable& updated = workload_.variables[index];
    if (!updated.is_trainable) continue;
    if (produced_by[index] < 0) fail("variable " + updated.name + " has no influence on the output");
    append({.name = updated.name + "/update",
            .kind = OperatorKind::kUpdate,
            .phase = Phase::kUpdate,
            .bytes_read = 3 * updated.rows_used.value_or(updated.bytes),  // parameter, gradient, momentum
            .bytes_written = 2 * updated.rows_used.value_or(updated.bytes),
            .output_shape = updated.shape},
           std::array{produced_by[index]});
  }
  return std::move(workload_);
}

}  // namespace rehearse
