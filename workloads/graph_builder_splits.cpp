// What is split between ranks: exchanges, parts of layers, tables of words and scores.

#include "workloads/graph_builder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "sim/base/errors.hpp"
#include "workloads/expert_loads.hpp"
#include "workloads/sizes.hpp"

namespace rehearse {

GraphBuilder::Tensor GraphBuilder::gather(const std::string& name, const Tensor& x, const Tensor& indices,
                                          std::int64_t positions) {
  const Tensor y = elementwise(name, OperatorKind::kEmbedding, {x}, {positions, 1, x.channels});
  const auto vertex = static_cast<std::size_t>(y.producer);
  workload_.graph.stored(vertex).bytes_read = bytes_of(y);
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

GraphBuilder::Tensor GraphBuilder::exchange(const std::string& name, const Tensor& x, Tensor y,
                                            const TensorExchange& exchange, std::optional<TensorExchange> beside) {
  check_size("layer " + name, y);
  y.needs_gradient = x.needs_gradient;
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
                                              const ExpertsOfLayer& mixture) {
  return exchange_tokens(name, tokens, rows, mixture, PayloadOf::kReceiver);
}

GraphBuilder::Tensor GraphBuilder::from_experts(const std::string& name, const Tensor& outputs, std::int64_t rows,
                                                const ExpertsOfLayer& mixture) {
  return exchange_tokens(name, outputs, rows, mixture, PayloadOf::kSender);
}

GraphBuilder::Tensor GraphBuilder::exchange_tokens(const std::string& name, const Tensor& tokens, std::int64_t rows,
                                                   const ExpertsOfLayer& mixture, PayloadOf of) {
  if (experts_.degree <= 1) return tokens;
  const Tensor y{rows, 1, tokens.channels};
  const bool has_own = experts_.has_own_loads(), is_back = of == PayloadOf::kSender;
  const Bytes there = bytes_of(is_back ? tokens : y), senders = bytes_of(is_back ? y : tokens);
  TensorExchange each{CollectiveKind::kAllToAll, has_own ? there : std::max(there, senders), SplitGroup::kExperts,
                      has_own ? of : PayloadOf::kAll, has_own ? mixture.layer : 0};
  if (experts_.machines == 1) return exchange(name, tokens, y, each);
  // A copy for each machine instead of one for each expert; of both the part for the own machine stays there.
  double copies = machines_of_token(experts_, mixture);
  if (has_own) {
    const std::vector<double> shares = ExpertLoads{experts_, mixture}.of_machines;
    const auto on_machine = static_cast<std::size_t>(experts_.degree / experts_.machines);
    copies = experts_.machines * (experts_.gpu < 0 ? *std::ranges::max_element(shares)
                                                   : shares[static_cast<std::size_t>(experts_.gpu) / on_machine]);
  }
  const double all = as_double(has_own ? senders : each.bytes);
  TensorExchange once = each;
  once.bytes = Bytes{std::llround(all * (copies / mixture.per_token))};
  once.among = SplitGroup::kExpertMachines;
  return exchange(name, tokens, y, each, once);
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

}  // namespace rehearse
