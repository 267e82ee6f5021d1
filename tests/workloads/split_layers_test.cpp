// Transformers of which GPUs hold each layer together, and layers that are computed again: what is sent, computed and kept,
// against closed forms. b micro-batch, s sequence, h width, f feed-forward, a heads, g key-value heads, V words, L layers, t degree.

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "workloads/model_zoo.hpp"

namespace rehearse {

namespace {

struct Sizes {
  std::int64_t b = 2, s = 128, h = 256, f = 1024, a = 8, g = 8, V = 1000, L = 3;
  bool is_llama = false;
};

ModelDescription described(const Sizes& n, const Json& more = Json::object()) {
  Json structure{{"family", "transformer"},
                 {"layers", n.L},
                 {"width", n.h},
                 {"heads", n.a},
                 {"kv_heads", n.g},
                 {"feed_forward", n.f},
                 {"vocabulary", n.V},
                 {"sequence_length", n.s},
                 {"normalisation", "pre"},
                 {"fused_attention", true},
                 {"head", "language_model"}};
  if (n.is_llama)
    structure.update({{"rms_norm", true},
                      {"rotary_positions", true},
                      {"gated_feed_forward", true},
                      {"attention_biases", false},
                      {"feed_forward_biases", false},
                      {"dropout", false},
                      {"tied_embedding", false}});
  else
    structure.update({{"positions", n.s}, {"joint_projection", true}});
  structure.update(more);
  const Json json{{"format", 1}, {"source", "test"}, {"structure", structure}};
  return read_model("m", JsonReader{json, "m.json"});
}

Workload built(const Sizes& n, const TensorSplit& split = {}, const Recomputation& again = {}) {
  ModelDescription model = described(n);
  model.split = split;
  model.again = again;
  return build_workload(model, static_cast<int>(n.b), Precision::kBf16, "m.json");
}

/// Bytes that a GPU sends in a pass, forward and backward, by rings.
std::pair<double, double> sent(const Workload& workload, int t) {
  double forward = 0, backward = 0;
  for (const Operator& op : workload.graph) {
    if (!op.exchange) continue;
    const double times = op.exchange->kind == CollectiveKind::kAllReduce ? 2 : 1;
    (op.is_of_forward_pass() ? forward : backward) += times * (t - 1) / t * as_double(op.exchange->bytes);
  }
  return {forward, backward};
}

std::int64_t whole_parameters(const Workload& workload, int t) {
  std::int64_t sum = 0;
  for (const Variable& variable : workload.variables) sum += variable.scalars() * (variable.is_shard ? t : 1);
  return sum;
}

double flops_of(const Workload& workload, bool is_again) {
  double sum = 0;
  for (const Operator& op : workload.graph)
    if (op.is_again == is_again) sum += op.flops.value();
  return sum;
}

}  // namespace

TEST_CASE("what a GPU sends of each layer, of the embedding, the logits and the loss") {
  for (const bool is_llama : {false, true})
    for (const int t : {2, 4, 8}) {
      const Sizes n{.is_llama = is_llama};
      const double S = static_cast<double>(n.b * n.s * n.h) * 2, part = (t - 1.0) / t;
      const double layers = static_cast<double>(n.L), loss = 3 * 2 * part * static_cast<double>(n.b * n.s) * 4;
      const auto [forward, backward] = sent(built(n, {.degree = t}), t);
      // An all-reduce is two halves of S: of a layer two each way; of the embedding one forward, of the logits one backward.
      CHECK(forward == doctest::Approx((4 * layers + 2) * part * S + loss).epsilon(1e-12));
      CHECK(backward == doctest::Approx((4 * layers + 2) * part * S).epsilon(1e-12));
      // In parts: 4 halves forward, 6 backward; the logits' input is gathered, and again for their weights.
      const auto [ahead, back] = sent(built(n, {.degree = t, .has_sequence_parts = true}), t);
      CHECK(ahead == doctest::Approx((4 * layers + 2) * part * S + loss).epsilon(1e-12));
      CHECK(back == doctest::Approx((6 * layers + 3) * part * S).epsilon(1e-12));
    }
}

TEST_CASE("shards have all parameters, and compute all of the model's products together") {
  for (const bool is_llama : {false, true})
    for (const int t : {2, 4, 8})
      for (const bool in_parts : {false, true}) {
        const Sizes n{.V = 1024 * 8, .is_llama = is_llama};  // nothing is padded
        const Workload whole = built(n), part = built(n, {.degree = t, .has_sequence_parts = in_parts});
        CHECK(whole_parameters(part, t) == whole.parameters());
        CHECK(part.training_flops().value() * t == doctest::Approx(whole.training_flops().value()).epsilon(1e-12));
      }
}

TEST_CASE("the table of words is padded so that each GPU has a multiple of rows") {
  CHECK(padded_vocabulary(128256, {.degree = 8}) == 129024);
  CHECK(padded_vocabulary(50257, {.degree = 8}) == 51200);
  CHECK(padded_vocabulary(50257, {.degree = 2}) == 50432);
  CHECK(padded_vocabulary(50257, {}) == 50257);
  CHECK(padded_vocabulary(50257, {.degree = 2, .vocabulary_multiple = 1}) == 50258);
}

TEST_CASE("what nobody reads in the backward pass is not kept: GELU's output where the product behind it is frozen") {
  const auto of_layer = [](const LowRankAdapters& adapters) {
    const auto kept = [&](const Sizes& n) {
      ModelDescription model = described(n);
      model.adapters = adapters;
      return build_workload(model, static_cast<int>(n.b), Precision::kBf16, "m.json").activation_bytes;
    };
    const Sizes n{};
    Sizes longer = n;
    ++longer.L;
    return (kept(longer) - kept(n)).value() / (n.b * n.s);
  };
  const Sizes n{};
  const std::int64_t all = of_layer({.rank = 4}), attention = of_layer({.rank = 4, .feed_forward = false});
  // Without those of the feed-forward layer: what its two adapters read and keep, which is the norm's output and GELU's.
  CHECK(attention == all - 2 * (n.h + n.f) - 2 * 2 * 4);
}

TEST_CASE(
    "a storage is kept as a whole: of a joint projection, unless values are copied out of it; a fused gate keeps its "
    "inputs") {
  const Sizes n{.g = 2, .is_llama = true};
  const auto of_layer = [&](const Json& more) {
    Sizes longer = n;
    ++longer.L;
    const auto kept = [&](const Sizes& sizes) {
      return build_workload(described(sizes, more), static_cast<int>(n.b), Precision::kBf16, "m.json").activation_bytes;
    };
    return (kept(longer) - kept(n)).value() / (n.b * n.s);
  };
  const Json joint{{"joint_projection", true}}, copied{{"joint_projection", true}, {"copies_values", true}},
      gates{{"joint_gates", true}}, fused{{"joint_gates", true}, {"fused_gates", true}};
  const std::int64_t kv = n.h / n.a * n.g, apart = of_layer(Json::object());
  CHECK(of_layer(joint) == apart + 2 * (n.h + kv));  // queries and keys, which are turned, and no use any more
  CHECK(of_layer(copied) == apart);
  CHECK(of_layer(gates) == apart);
  CHECK(of_layer(fused) == apart - 2 * n.f);  // what the activation gives
  // The gradient of ReLU reads what it gives, which the next product keeps anyway.
  CHECK(of_layer({{"gated_feed_forward", false}, {"activation", "relu"}}) ==
        of_layer({{"gated_feed_forward", false}}) - 2 * n.f);
  CHECK(of_layer({{"activation", "relu"}}) == apart - 2 * n.f);

  const auto workload = [&](const Json& more) {
    return build_workload(described(n, more), static_cast<int>(n.b), Precision::kBf16, "m.json");
  };
  const Workload plain = workload(Json::object()), whole = workload(fused);
  CHECK(whole.parameters() == plain.parameters());
  CHECK(whole.training_flops().value() == doctest::Approx(plain.training_flops().value()).epsilon(1e-12));
  CHECK(whole.trainable_tensors() == plain.trainable_tensors() - n.L);
  CHECK(whole.graph.size() < plain.graph.size());
}

TEST_CASE("activations of a layer: 34 h bytes of a token; split 10 h + 24 h / t, and with sequence parts all / t") {
  // Korthikanti et al., table 2, without the scores, and 4 bytes of a head and token besides for the statistics of attention
  // in one kernel, of which the scores' dropout has no mask.
  const Sizes n{};
  const auto of_layer = [&](const TensorSplit& split) {
    Sizes more = n;
    ++more.L;
    return as_double(built(more, split).activation_bytes - built(n, split).activation_bytes);
  };
  const double token = static_cast<double>(n.b * n.s), h = static_cast<double>(n.h);
  const double statistics = 8 * static_cast<double>(n.a) * token;
  CHECK(of_layer({}) == doctest::Approx(34 * h * token + statistics).epsilon(1e-12));
  for (const int t : {2, 4, 8}) {
    CHECK(of_layer({.degree = t}) == doctest::Approx((10 + 24.0 / t) * h * token + statistics / t).epsilon(1e-12));
    CHECK(of_layer({.degree = t, .has_sequence_parts = true}) ==
          doctest::Approx(34 * h * token / t + statistics / t).epsilon(1e-12));
  }
}

TEST_CASE("computed again: a whole layer keeps 2 h bytes of a token and computes its forward pass twice") {
  for (const int t : {1, 4}) {
    const Sizes n{};
    Sizes more = n;
    ++more.L;
    const TensorSplit split{.degree = t, .has_sequence_parts = t > 1};
    const Recomputation again{.layers = true};
    const Workload kept = built(n, split), dropped = built(n, split, again);
    const double h_tokens = static_cast<double>(n.h * n.b * n.s);
    CHECK(as_double(built(more, split, again).activation_bytes - dropped.activation_bytes) ==
          doctest::Approx(2 * h_tokens / t).epsilon(1e-12));
    CHECK(dropped.recomputed_bytes > Bytes{});
    CHECK(flops_of(dropped, false) == doctest::Approx(flops_of(kept, false)).epsilon(1e-12));
    const double head = 2 * static_cast<double>(n.b * n.s * n.h * padded_vocabulary(n.V, split)) / t;
    CHECK(flops_of(dropped, true) == doctest::Approx(kept.forward_flops().value() - head).epsilon(1e-12));
    // The forward collectives again: 4 halves of S.
    const double S = h_tokens * 2, part = (t - 1.0) / t;
    CHECK(sent(dropped, t).second - sent(kept, t).second ==
          doctest::Approx(4 * static_cast<double>(n.L) * part * S).epsilon(1e-12));
  }
}

TEST_CASE("computed again: the core of attention costs 4 b s^2 h a layer, half of it causal, and sends nothing") {
  const Sizes n{};
  const Recomputation again{.core_attention = true};
  const Workload kept = built(n, {.degree = 4}), dropped = built(n, {.degree = 4}, again);
  const double products = 2 * static_cast<double>(n.L * n.b * n.s * n.s * n.h) / 4;
  CHECK(flops_of(dropped, true) == doctest::Approx(products).epsilon(1e-12));
  CHECK(sent(dropped, 4) == sent(kept, 4));
}

TEST_CASE("computed again: parts that drop their output") {
  const Sizes n{.is_llama = true};
  Sizes more = n;
  ++more.L;
  const auto of_layer = [&](const Recomputation& again) {
    return as_double(built(more, {}, again).activation_bytes - built(n, {}, again).activation_bytes) /
           static_cast<double>(n.b * n.s);
  };
  const auto h = static_cast<double>(n.h), f = static_cast<double>(n.f);
  // Llama keeps of a token: two norms' inputs and outputs, queries, keys, values and their sum, the products of gates and
  // inner values, the activated gates, and what goes into the outer product.
  const double all = of_layer({});
  CHECK(all == doctest::Approx(2 * (8 * h + 4 * f) + 8.0 * static_cast<double>(n.a)).epsilon(1e-12));
  CHECK(all - of_layer({.norms = true}) == doctest::Approx(2 * 2 * h).epsilon(1e-12));
  CHECK(all - of_layer({.activations = true}) == doctest::Approx(2 * 2 * f).epsilon(1e-12));
  CHECK(of_layer({.feed_forward = true}) < all - 2 * 2 * f);
  CHECK(of_layer({.layers = true}) == doctest::Approx(2 * h).epsilon(1e-12));
}

TEST_CASE("computed again: every second product, and what it takes to give what the backward pass reads") {
  const Recomputation again{.every_second_product = true};
  for (const int t : {1, 4}) {
    const Sizes n{.a = 16, .g = 4, .is_llama = true};
    Sizes more = n;
    ++more.L;
    const TensorSplit split{.degree = t, .has_sequence_parts = t > 1};
    const Workload kept = built(n, split), dropped = built(n, split, again);
    const auto tokens = static_cast<double>(n.b * n.s), h = static_cast<double>(n.h), f = static_cast<double>(n.f),
               h_kv = h * static_cast<double>(n.g) / static_cast<double>(n.a), layers = static_cast<double>(n.L);
    // What is kept of a token: the layer's input, queries, values, their weighted sum, inner values; split also the sum of what
    // attention gives on all GPUs. Keys, output and gates are products again, the output only where it is no sum over GPUs.
    CHECK(as_double(built(more, split, again).activation_bytes - dropped.activation_bytes) ==
          doctest::Approx((2 * (3 * h + h_kv + f + (t > 1 ? h : 0)) + 8 * static_cast<double>(n.a)) * tokens / t)
              .epsilon(1e-12));
    CHECK(flops_of(dropped, true) ==
          doctest::Approx(layers * 2 * tokens * h * (h_kv + f + (t > 1 ? 0 : h)) / t).epsilon(1e-12));
    CHECK(flops_of(dropped, false) == doctest::Approx(flops_of(kept, false)).epsilon(1e-12));
    // Inputs are gathered again once, for products and for gradients of weights; nothing is added up again.
    CHECK(sent(dropped, t) == sent(kept, t));
    CHECK(dropped.recomputed_bytes > Bytes{});
    std::vector<bool> is_read(dropped.graph.size());
    for (const OperatorEdge& edge : dropped.graph.edges()) is_read[edge.from] = true;
    for (std::size_t v = 0; v < dropped.graph.size(); ++v)
      if (dropped.graph[v]->is_again) CHECK(is_read[v]);
  }
  // GPT's second and fourth: the output of attention, and the outer one, on which no gradient depends.
  const Sizes gpt{};
  CHECK(flops_of(built(gpt, {}, again), true) ==
        doctest::Approx(2 * static_cast<double>(gpt.L * gpt.b * gpt.s * gpt.h * gpt.h)).epsilon(1e-12));
}

TEST_CASE("a logit takes 8 bytes, 4 if its loss is fused, and 12 if that is composed of kernels in fp32") {
  const Sizes n{};
  const auto bytes_of_logit = [&](bool is_fused, bool is_composed, Precision precision) {
    ModelDescription model = described(n);
    model.has_fused_loss = is_fused;
    model.has_composed_loss = is_composed;
    const Workload workload = build_workload(model, static_cast<int>(n.b), precision, "m.json");
    return as_double(workload.logits_bytes) / static_cast<double>(n.b * n.s * n.V);
  };
  for (const Precision precision : {Precision::kBf16, Precision::kFp32}) {
    CHECK(bytes_of_logit(false, false, precision) == 8);
    CHECK(bytes_of_logit(false, true, precision) == 12);
  }
  CHECK(bytes_of_logit(true, false, Precision::kBf16) == 4);
}

TEST_CASE("without a split, and with nothing computed again, a graph is what it was") {
  const Sizes n{};
  for (const Operator& op : built(n).graph) {
    CHECK_FALSE(op.exchange);
    CHECK_FALSE(op.is_again);
  }
  for (const Variable& variable : built(n).variables) {
    CHECK_FALSE(variable.is_shard);
    CHECK_FALSE(variable.has_partial_gradient);
  }
}

TEST_CASE("behind an exchange of gradients the weights' gradients follow, which do not wait for it") {
  const Workload workload = built({}, {.degree = 2});
  std::map<std::string, std::size_t> place;
  for (std::size_t v = 0; v < workload.graph.size(); ++v) place[workload.graph[v].name()] = v;
  const std::string inner = "encoder/layer2/feed_forward";
  const std::size_t data = place.at(inner + "/inner/data_gradient"), sum = place.at(inner + "/added_up_gradient"),
                    weights = place.at(inner + "/inner/weight_gradient"), norm = place.at(inner + "/norm/gradient");
  CHECK(data < sum);
  CHECK(sum < weights);
  CHECK(weights < norm);
  for (const OperatorEdge& edge : workload.graph.edges())
    if (edge.from == sum) CHECK(edge.to == norm);
}

}  // namespace rehearse
