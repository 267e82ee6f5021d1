#pragma once
// The layers of a transformer as operators: attention, its place and kind of normalisation, feed-forward layers and experts, what is
// recomputed, adapters. transformer.cpp builds models of them.

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "workloads/expert_loads.hpp"
#include "workloads/sizes.hpp"
#include "workloads/transformer.hpp"

namespace rehearse {

/// The layers of one transformer.
class TransformerStack {
 public:
  using Tensor = GraphBuilder::Tensor;
  using Table = GraphBuilder::Table;

  /// `prefix`: of the names of all layers. The net is what one of the GPUs has that hold each layer together.
  TransformerStack(GraphBuilder& graph, const Transformer& net, std::string prefix = "",
                   const StackOptions& options = {})
      : graph_{graph}, net_{net}, prefix_{std::move(prefix)}, options_{options} {}

  std::string name_of(const std::string& layer) const { return prefix_ + layer; }

  Tensor encoder(const std::string& name, Tensor x) {
    add_relative_positions(name);
    for (int layer = 0; layer < net_.layers; ++layer) {
      if (std::ranges::any_of(options_.alike, [layer](const AlikeLayers& run) { return run.are_copies(layer); }))
        continue;
      const std::string prefix = name + numbered("/layer", layer);
      if (net_.has_shared_layers && layer > 0) share(prefix, name + "/layer1");
      begin_layer(layer, net_.layers);
      x = net_.has_parallel_sublayers ? parallel_sublayers(prefix, x)
                                      : feed_forward(prefix + "/feed_forward", self_attention(prefix, x));
      graph_.end_part();
    }
    return net_.norm == Transformer::Norm::kPost ? x : norm(name + "/norm", x);
  }

  Tensor decoder(const std::string& name, Tensor x, const Tensor& memory) {
    add_relative_positions(name);
    for (int layer = 0; layer < net_.decoder_layers; ++layer) {
      const std::string prefix = name + numbered("/layer", layer);
      begin_layer(layer, net_.decoder_layers);
      x = self_attention(prefix, x);
      x = sublayer(prefix + "/cross_attention", x,
                   [&](const std::string& at, const Tensor& from) { return attention(at, from, memory); });
      x = feed_forward(prefix + "/feed_forward", x);
      graph_.end_part();
    }
    return net_.norm == Transformer::Norm::kPost ? x : norm(name + "/norm", x);
  }

  Tensor norm(const std::string& name, const Tensor& x) {
    return part(options_.again.norms, true, [&] {
      return net_.has_rms_norms ? graph_.rms_norm(name, x)
                                : graph_.normalisation(name, OperatorKind::kLayerNorm, x, net_.norm_variables);
    });
  }
  Tensor dropout(const std::string& name, const Tensor& x) { return net_.has_dropout ? graph_.dropout(name, x) : x; }

 private:
  /// What `add` adds, computed again or not.
  template <class Add>
  Tensor part(bool is_again, bool drops_output, const Add& add) {
    graph_.begin_part(is_again, drops_output);
    const Tensor x = add();
    graph_.end_part();
    return x;
  }

  void begin_layer(int layer, int layers) {
    fp8_ = layer < layers - options_.wide_layers ? options_.fp8 : Fp8::kNone;
    graph_.begin_part(options_.again.layers || options_.again.every_second_product);
    products_ = 0;
    layer_ = layer;
  }

  /// What `add` adds, which is kept where every second product is computed again.
  template <class Add>
  Tensor kept(bool is_kept, const Add& add) {
    graph_.keep_results(is_kept && options_.again.every_second_product);
    const Tensor x = add();
    graph_.keep_results(false);
    return x;
  }

  /// What a product has on its right.
  struct Weights {
    std::int64_t features = 0;
    bool has_bias = false;
    std::int64_t experts = 0;  // that it is of in one operator; 0: of no experts
  };

  Tensor product(const std::string& name, const Tensor& x, const Weights& with) {
    return kept(++products_ % 2 == 1, [&] {
      return with.experts > 0 ? graph_.grouped_linear(name, x, with.experts, with.features, with.has_bias)
                              : graph_.linear(name, x, with.features, with.has_bias);
    });
  }

  /// What of a product's weights each of the GPUs that share it has.
  enum class Part { kColumns, kRows };

  /// In what positions are gathered before products with weights: in 16 bits if adapters read them, too.
  Fp8 gathered_in() const { return options_.adapters.rank == 0 ? fp8_ : Fp8::kNone; }

  /// A product with weights, in 8 bits or not, and perhaps what an adapter beside it adds, in 16 bits. Where GPUs share the product they share the adapter's
  /// side to it alike: its second matrix has columns, or its first one rows; the other one all have. Behind rows the sums of
  /// the product and of what is added are still to come, and are one.
  Tensor linear(const std::string& name, const Tensor& x, const Weights& with, bool is_adapted,
                Part part = Part::kColumns) {
    graph_.cast(fp8_);
    const Tensor y = product(name, x, with);
    graph_.cast(Fp8::kNone);
    if (options_.adapters.rank == 0 || !is_adapted) return y;
    graph_.freeze(false);
    graph_.keep_whole(part == Part::kColumns);
    const Tensor narrow = product(name + "/adapter_a", x, {options_.adapters.rank, false, with.experts});
    graph_.keep_whole(part == Part::kRows);
    const Tensor added = product(name + "/adapter_b", narrow, {with.features, false, with.experts});
    graph_.keep_whole(false);
    graph_.freeze(true);
    return graph_.add_in_place(name + "/adapted", std::array{y, added});
  }

  /// The layer `name` has the variables of the layer `of`.
  void share(const std::string& name, const std::string& of) {
    for (const char* part :
         {"/attention/projection", "/attention/queries", "/attention/keys", "/attention/values", "/attention/output",
          "/attention/norm", "/feed_forward/inner", "/feed_forward/gates", "/feed_forward/outer", "/feed_forward/norm"})
      graph_.share_variables(name + part, of + part);
  }

  template <class Body>
  Tensor sublayer(const std::string& name, const Tensor& x, Body body) {
    const bool normalises_input = net_.norm == Transformer::Norm::kPre || net_.norm == Transformer::Norm::kSandwich;
    Tensor y = body(name, normalises_input ? norm(name + "/norm", x) : x);
    if (net_.norm == Transformer::Norm::kSandwich) y = norm(name + "/output_norm", y);
    if (net_.norm == Transformer::Norm::kReordered) y = norm(name + "/norm", y);
    y = graph_.add(name + "/sum", std::vector{x, dropout(name + "/dropout", y)});
    return net_.norm == Transformer::Norm::kPost ? norm(name + "/norm", y) : y;
  }

  Tensor self_attention(const std::string& prefix, const Tensor& x) {
    return sublayer(prefix + "/attention", x,
                    [&](const std::string& at, const Tensor& from) { return attention(at, from, from); });
  }

  Tensor feed_forward(const std::string& name, const Tensor& x) {
    return sublayer(name, x, [&](const std::string& at, const Tensor& from) { return feed_forward_body(at, from); });
  }

  Tensor feed_forward_body(const std::string& at, const Tensor& from) {
    return part(options_.again.feed_forward, false,
                [&] { return net_.experts.are_in(layer_) ? mixture(at, from) : perceptron(at, from, dense()); });
  }

  /// Routed experts, and the part beside them that all tokens pass: its kernels come behind dispatch(), so that they can run
  /// while tokens are sent.
  Tensor mixture(const std::string& at, const Tensor& from) {
    const bool has_shared = net_.experts.shared_feed_forward > 0, is_grouped = net_.experts.is_grouped;
    Dispatched dispatched;
    if (is_grouped) dispatched = dispatch(at, from);
    Tensor shared;
    if (has_shared) shared = shared_experts(at + "/shared", from);
    const Tensor routed = is_grouped ? combine(at, grouped_experts(at + "/experts", dispatched), dispatched, from)
                                     : experts_one_by_one(at, from);
    return has_shared ? graph_.add_in_place(at + "/with_shared", std::array{routed, shared}) : routed;
  }

  Tensor router(const std::string& at, const Tensor& from) {
    return graph_.activation(at + "/softmax",
                             product(at + "/router", from, {net_.experts.count, net_.experts.has_router_bias}));
  }

  Tensor experts_one_by_one(const std::string& at, const Tensor& from) {
    const Transformer::Experts& experts = net_.experts;
    const Tensor weights = router(at, from);
    const std::int64_t rows = (from.height * experts.per_token + experts.count - 1) / experts.count;
    std::vector<Tensor> factors{weights};
    for (int expert = 0; expert < experts.count; ++expert) {
      const std::string name = at + numbered("/expert", expert);
      const Tensor share = graph_.view(name, from, rows, net_.width);
      factors.push_back(perceptron(name, graph_.combine(name + "/tokens", std::vector{share, weights}, {}, share),
                                   {.width = experts.feed_forward, .has_biases = experts.has_biases}));
    }
    return graph_.multiply(at + "/mixed", factors, {}, from);
  }

  /// Tokens as their experts read them, in the order of these, and what is needed to bring them back.
  struct Dispatched {
    Tensor tokens;
    Tensor weights;         // of each token's experts
    Tensor inner_weights;   // .. where the experts are
    std::int64_t copies{};  // of the own tokens: one for each of their experts
  };

  /// Experts of this GPU.
  std::int64_t own_experts() const { return net_.experts.count / std::max(graph_.expert_split().degree, 1); }
  /// Whether tokens of several GPUs come together, which are then to be put in the order of several experts.
  bool sorts_what_comes() const { return graph_.expert_split().degree > 1 && own_experts() > 1; }

  ExpertsOfLayer experts_of_layer() const { return {net_.experts.count, net_.experts.per_token, layer_}; }
  /// Rows of this GPU's experts by the mean.
  double load() const {
    const ExpertSplit& split = graph_.expert_split();
    if (!split.has_own_loads()) return split.load();
    const std::vector<double> loads = ExpertLoads{split, experts_of_layer()}.of_gpus;
    return split.gpu < 0 ? *std::ranges::max_element(loads) : loads[static_cast<std::size_t>(split.gpu)];
  }

  /// Everything before the experts' first product.
  Dispatched dispatch(const std::string& at, const Tensor& from) {
    const ExpertSplit& split = graph_.expert_split();
    const std::int64_t copies = from.height * net_.experts.per_token;
    const auto rows = static_cast<std::int64_t>(std::ceil(static_cast<double>(copies) * load()));
    const Tensor weights =
        graph_.combine(at + "/top_k", std::array{router(at, from)}, {}, {from.height, 1, net_.experts.per_token});
    Tensor tokens = graph_.gather(at + "/permuted", from, weights, split.pads ? rows : copies);
    if (net_.experts.is_grouped && !split.pads) graph_.await_loads();
    tokens = graph_.to_experts(at + "/to_experts", tokens, rows, experts_of_layer());
    Tensor inner = weights;
    inner.height = copies;
    inner.channels = 1;
    if (net_.experts.weighs_inner)
      inner = graph_.to_experts(at + "/weights_to_experts", inner, rows, experts_of_layer());
    return {.tokens = tokens, .weights = weights, .inner_weights = inner, .copies = copies};
  }

  Tensor grouped_experts(const std::string& at, const Dispatched& routed) {
    const Transformer::Experts& experts = net_.experts;
    Tensor tokens = routed.tokens;
    if (sorts_what_comes()) tokens = graph_.gather(at + "/sorted", tokens, routed.weights, tokens.height);
    graph_.begin_experts();
    const Tensor outputs = perceptron(at, tokens,
                                      {.width = experts.feed_forward,
                                       .has_biases = experts.has_biases,
                                       .experts = own_experts(),
                                       .is_split = graph_.expert_split().tensor > 1,
                                       .weights = experts.weighs_inner ? &routed.inner_weights : nullptr});
    graph_.end_experts();
    return outputs;
  }

  /// Everything behind their last product: the weighted sum of each token's outputs, as many as `from` has.
  Tensor combine(const std::string& at, Tensor outputs, const Dispatched& routed, const Tensor& from) {
    const std::int64_t sent = graph_.expert_split().pads ? outputs.height : routed.copies;
    if (sorts_what_comes())
      outputs = graph_.gather(at + "/in_order_of_senders", outputs, routed.weights, outputs.height);
    outputs = graph_.from_experts(at + "/from_experts", outputs, sent, experts_of_layer());
    const Tensor ordered = graph_.gather(at + "/unpermuted", outputs, routed.weights, routed.copies);
    if (net_.experts.weighs_inner) return graph_.combine(at + "/mixed", std::array{ordered}, {}, from);
    return graph_.multiply(at + "/mixed", std::array{ordered, routed.weights}, {}, from);
  }

  Tensor shared_experts(const std::string& at, const Tensor& from) {
    const Tensor y =
        perceptron(at, from, {.width = net_.experts.shared_feed_forward, .has_biases = net_.has_feed_forward_biases});
    if (!net_.experts.has_shared_gate) return y;
    const Tensor gate = graph_.activation(at + "/gate/sigmoid", product(at + "/gate", from, {1, false}));
    return graph_.multiply(at + "/gated", std::array{y, gate}, {}, from);
  }

  /// The second of two products that GPUs share, of which each has rows: its bias is added to the sum.
  Tensor outer(const std::string& name, const Tensor& x, bool has_bias, bool is_adapted, std::int64_t experts = 0,
               bool is_split = true) {
    if (graph_.split().degree == 1 || (experts > 0 && !is_split))
      return linear(name, x, {net_.width, has_bias, experts}, is_adapted);
    const Tensor partial = linear(name, x, {net_.width, false, experts}, is_adapted, Part::kRows);
    const Tensor y = kept(true, [&] { return graph_.end_split(name, partial); });
    if (!has_bias) return y;
    const Table bias = graph_.table(name + "/bias", std::max<std::int64_t>(experts, 1), net_.width);
    return graph_.combine(name + "/bias_add", std::vector{y}, std::vector{bias}, y);
  }

  /// What lies between the two sides of a feed-forward part.
  struct Inner {
    std::int64_t width = 0;
    bool has_biases = false;
    std::int64_t experts = 0;         // in one operator; 0: it is that of one
    bool is_split = true;             // over GPUs that hold layers together
    const Tensor* weights = nullptr;  // that its values are multiplied with
  };

  Inner dense() const { return {.width = net_.feed_forward, .has_biases = net_.has_feed_forward_biases}; }

  Tensor gated(const std::string& at, const Tensor& inner, Tensor gates, const Tensor* weights) {
    if (!net_.has_fused_gates) gates = graph_.activation(at + "/activation", gates, false, !net_.has_relu);
    std::vector<Tensor> factors{inner, gates};
    if (weights != nullptr) factors.push_back(*weights);
    return graph_.multiply(at + "/gated", factors, {}, inner);
  }

  Tensor perceptron(const std::string& at, const Tensor& x, const Inner& of) {
    const Tensor from = of.is_split ? graph_.begin_split(at, x, gathered_in()) : x;
    const bool is_adapted = options_.adapters.feed_forward;
    const bool has_joint = net_.has_joint_gates;
    const auto first = [&](const char* name, std::int64_t features) {
      return linear(at + name, from, {features, of.has_biases, of.experts}, is_adapted);
    };
    Tensor inner = first("/inner", of.width * (has_joint ? 2 : 1));
    Tensor gates;
    if (has_joint)
      inner = gates = graph_.view(at, inner, inner.height, of.width);
    else if (net_.has_gates)
      gates = first("/gates", of.width);
    inner = part(options_.again.activations, true, [&] {
      return net_.has_gates ? gated(at, inner, gates, of.weights)
                            : graph_.activation(at + "/activation", inner, !net_.has_relu);
    });
    return outer(at + "/outer", inner, of.has_biases, is_adapted, of.experts, of.is_split);
  }

  Tensor parallel_sublayers(const std::string& prefix, const Tensor& x) {
    const std::string attends = prefix + "/attention", feeds = prefix + "/feed_forward";
    const Tensor from = norm(attends + "/norm", x);
    const Tensor attended = dropout(attends + "/dropout", attention(attends, from, from));
    const Tensor fed =
        dropout(feeds + "/dropout", feed_forward_body(feeds, net_.has_shared_norm ? from : norm(feeds + "/norm", x)));
    return graph_.add(prefix + "/sum", std::vector{x, attended, fed});
  }

  void add_relative_positions(const std::string& name) {
    if (net_.disentangled_positions > 0)
      places_ =
          norm(name + "/places/norm",
               graph_.rows(name + "/places", graph_.table(name + "/places", net_.disentangled_positions, net_.width)));
    if (net_.relative_positions > 0)
      relative_positions_ = {graph_.shard_of_table(name + "/relative_positions", net_.relative_positions, net_.heads)};
  }

  Tensor rotated(const std::string& name, const Tensor& x) {
    return net_.has_rotary_positions ? graph_.combine(name, std::vector{x}, {}, x) : x;
  }

  /// Of [positions, heads x features], over the features, by one scale for all heads or one for each feature.
  Tensor norm_of_heads(const std::string& name, Tensor x) {
    const std::int64_t positions = x.height, width = x.channels;
    if (!net_.has_query_key_scales) {
      x.height *= width / net_.head_features;
      x.channels = net_.head_features;
    }
    graph_.keep_whole(!net_.has_query_key_scales);
    Tensor y = graph_.normalisation(name, OperatorKind::kLayerNorm, x,
                                    {.has_scale = net_.has_query_key_norm_scales, .has_bias = false});
    graph_.keep_whole(false);
    y.height = positions;
    y.channels = width;
    return y;
  }

  Tensor attention(const std::string& name, const Tensor& of, const Tensor& memory) {
    return net_.latent_attention ? latent_attention(name, of) : plain_attention(name, of, memory);
  }

  Tensor latent_attention(const std::string& name, const Tensor& of) {
    const Transformer::LatentAttention& latent = *net_.latent_attention;
    const bool has_biases = net_.has_attention_biases, is_adapted = options_.adapters.attention;
    const std::int64_t heads = net_.heads;
    Tensor to_queries = of;
    if (latent.query_latent > 0)
      to_queries = norm(name + "/query_latent/norm",
                        linear(name + "/query_latent", of, {latent.query_latent, has_biases}, is_adapted));
    const Tensor joint = linear(name + "/key_value_latent", of,
                                {latent.key_value_latent + latent.rotary_features, has_biases}, is_adapted);
    Tensor to_keys =
        norm(name + "/key_value_latent/norm", graph_.view(name, joint, joint.height, latent.key_value_latent));
    const Tensor rotary = graph_.view(name, joint, joint.height, latent.rotary_features);
    to_queries = graph_.begin_split(name + "/to_queries", to_queries, gathered_in());
    to_keys = graph_.begin_split(name + "/to_keys", to_keys, gathered_in());
    const Tensor rotary_keys = graph_.begin_split(name + "/rotary_keys", rotary);
    Tensor queries = linear(name + "/queries", to_queries, {heads * net_.head_features, false}, is_adapted);
    const std::int64_t plain_width = heads * latent.plain_features, value_width = heads * latent.value_features;
    const Tensor both = linear(name + "/keys_and_values", to_keys, {plain_width + value_width, false}, is_adapted);
    queries = graph_.combine(name + "/rotated_queries", std::array{queries}, {}, queries);
    // Plain and rotary features of each head's keys put beside one another.
    const Tensor keys =
        graph_.combine(name + "/rotated_keys",
                       std::array{graph_.view(name, both, both.height, plain_width), rotary_keys}, {}, queries);
    Tensor values = graph_.view(name, both, both.height, value_width);
    if (net_.copies_values) values = graph_.combine(name + "/values", std::array{values}, {}, values);
    return attend(name, queries, keys, values, true);
  }

  Tensor plain_attention(const std::string& name, const Tensor& of, const Tensor& memory) {
    const std::int64_t width = std::int64_t{net_.heads} * net_.head_features,
                       kv_width = std::int64_t{net_.kv_heads} * net_.head_features;
    const bool has_biases = net_.has_attention_biases, is_own = of.id == memory.id;
    const Tensor from = graph_.begin_split(name, of, gathered_in());
    const Tensor to = is_own ? from : graph_.begin_split(name + "/memory", memory, gathered_in());
    Tensor queries, keys, values;
    if (net_.has_joint_projection && is_own) {
      const Tensor joint =
          linear(name + "/projection", from, {width + 2 * kv_width, has_biases}, options_.adapters.attention);
      queries = graph_.view(name, joint, from.height, width);
      keys = values = graph_.view(name, joint, from.height, kv_width);
      if (net_.copies_values) values = graph_.combine(name + "/values", std::vector{values}, {}, values);
    } else {
      queries = linear(name + "/queries", from, {width, has_biases}, options_.adapters.attention);
      keys = linear(name + "/keys", to, {kv_width, has_biases && net_.has_key_biases}, options_.adapters.attention);
      values = linear(name + "/values", to, {kv_width, has_biases}, options_.adapters.attention);
    }
    if (net_.has_query_key_norms) {
      queries = norm_of_heads(name + "/norm_of_queries", queries);
      keys = norm_of_heads(name + "/norm_of_keys", keys);
    }
    queries = rotated(name + "/rotated_queries", queries);
    keys = rotated(name + "/rotated_keys", keys);
    return attend(name, queries, keys, values, is_own);
  }

  /// The weighted sum of values, and what the layer makes of it. `is_own`: keys are of the positions that ask.
  Tensor attend(const std::string& name, const Tensor& queries, const Tensor& keys, const Tensor& values, bool is_own) {
    const std::int64_t heads = net_.heads;
    const int value_features = net_.latent_attention ? net_.latent_attention->value_features : net_.head_features;
    std::vector<Table> added;
    if (net_.has_attention_sinks) added.push_back(graph_.table(name + "/sinks", 1, heads));
    if (net_.has_fused_attention) {
      const int sharing = graph_.context().heads;
      const std::int64_t key_heads = std::max(net_.kv_heads, sharing);
      const Tensor own_queries = graph_.to_heads(name + "/queries_of_heads", queries, queries.channels);
      const Tensor own_keys = graph_.to_heads(name + "/keys_of_heads", keys, key_heads * net_.head_features);
      const Tensor own_values = graph_.to_heads(name + "/values_of_heads", values, key_heads * value_features);
      const AttentionShape shape{.heads = heads / sharing,
                                 .key_heads = key_heads / sharing,
                                 .queries = own_queries.height,
                                 .keys = own_keys.height,
                                 .head_features = net_.head_features,
                                 .is_causal = is_own && net_.is_causal,
                                 .value_features = net_.latent_attention ? value_features : 0};
      const Tensor context = part(options_.again.core_attention, false, [&] {
        return kept(true, [&] {
          return graph_.context_attention(name + "/context", own_queries, own_keys, own_values, shape, added);
        });
      });
      return outer(name + "/output", graph_.to_positions(name + "/context_of_positions", context), net_.has_output_bias,
                   options_.adapters.attention);
    }
    const auto rows = static_cast<double>(queries.height), columns = static_cast<double>(keys.height);
    const double features = net_.head_features, products = net_.heads;
    graph_.begin_part(options_.again.core_attention);
    Tensor scores = graph_.product(name + "/scores", queries, keys, {rows, columns, features, products},
                                   {queries.height, keys.height, heads});
    std::vector<Tensor> summed{scores};
    if (net_.disentangled_positions > 0 && is_own) {
      summed.push_back(products_with_places(name + "/keys", queries, queries.height));
      summed.push_back(products_with_places(name + "/queries", keys, keys.height));
    }
    if (is_own) added.insert(added.end(), relative_positions_.begin(), relative_positions_.end());
    scores = graph_.combine(name + "/mask", summed, added, scores);
    scores = dropout(name + "/weights", graph_.activation(name + "/softmax", scores));
    const Tensor context = graph_.product(name + "/context", scores, values,
                                          {rows, static_cast<double>(value_features), columns, products},
                                          {queries.height, 1, heads * value_features});
    graph_.end_part();
    return outer(name + "/output", context, net_.has_output_bias, options_.adapters.attention);
  }

  /// Of contents, queries or keys, with what the layer `of`, of keys or queries, makes of the places.
  Tensor products_with_places(const std::string& of, const Tensor& contents, std::int64_t positions) {
    const std::string name = of + "_of_places";
    graph_.share_variables(name, of);
    const Tensor projected = product(name, places_, {contents.channels, net_.has_attention_biases});
    return graph_.product(name + "/products", contents, projected,
                          {static_cast<double>(positions), static_cast<double>(net_.disentangled_positions),
                           static_cast<double>(net_.head_features), static_cast<double>(net_.heads)},
                          {positions, net_.disentangled_positions, net_.heads});
  }

  GraphBuilder& graph_;
  const Transformer& net_;
  std::string prefix_;
  StackOptions options_;
  Fp8 fp8_ = Fp8::kNone;                   // of the layer
  int layer_ = 0;                          // that is built
  int products_ = 0;                       // with weights, of that layer
  Tensor places_;                          // of the stack that is built: disentangled positions, normalised
  std::vector<Table> relative_positions_;  // of the stack that is built: none or one
};

}  // namespace rehearse
