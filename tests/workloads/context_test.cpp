// Transformers of which GPUs share the positions of a sample: what is sent, computed and kept, against closed forms. b micro-batch,
// s sequence, h width, f feed-forward, a heads, g key-value heads, V words, L layers; c GPUs, t degree of tensor parallelism.

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "workloads/model_zoo.hpp"

namespace rehearse::context_split {

namespace {

constexpr std::int64_t b = 2, s = 128, h = 256, f = 1024, a = 8, V = 1000, L = 3;

ModelDescription described(std::int64_t g, bool is_causal = true) {
  const Json structure{{"family", "transformer"},
                       {"layers", L},
                       {"width", h},
                       {"heads", a},
                       {"kv_heads", g},
                       {"feed_forward", f},
                       {"vocabulary", V},
                       {"sequence_length", s},
                       {"normalisation", "pre"},
                       {"fused_attention", true},
                       {"rotary_positions", true},
                       {"attention_biases", false},
                       {"feed_forward_biases", false},
                       {"dropout", false},
                       {"tied_embedding", false},
                       {"causal", is_causal},
                       {"head", "language_model"}};
  return read_model("m", JsonReader{Json{{"format", 1}, {"source", "test"}, {"structure", structure}}, "m.json"});
}

Workload built(const ContextSplit& context, std::int64_t g = a, const TensorSplit& split = {},
               const Recomputation& again = {}, bool is_causal = true) {
  ModelDescription model = described(g, is_causal);
  model.context = context;
  model.split = split;
  model.again = again;
  return build_workload(model, static_cast<int>(b), Precision::kBf16, "m.json");
}

/// Bytes that a GPU sends to its likes in a pass, forward and backward.
std::pair<double, double> sent(const Workload& workload, SplitGroup among, double gpus) {
  double forward = 0, backward = 0;
  for (const Operator& op : workload.graph) {
    if (!op.exchange || op.exchange->among != among) continue;
    const double share = op.exchange->kind == CollectiveKind::kShift ? 1 : (gpus - 1) / gpus;
    (op.is_of_forward_pass() ? forward : backward) += share * as_double(op.exchange->bytes);
  }
  return {forward, backward};
}

double attention_flops(const Workload& workload) {
  double sum = 0;
  for (const Operator& op : workload.graph)
    if (op.attention) sum += op.flops.value();
  return sum;
}

using Method = ContextSplit::Method;

}  // namespace

TEST_CASE("what a GPU sends of each layer: keys and values round a ring, gathered, or positions for heads") {
  for (const std::int64_t g : {8, 2})
    for (const int t : {1, 2})
      for (const int c : {2, 4}) {
        CAPTURE(g);
        CAPTURE(t);
        CAPTURE(c);
        const TensorSplit split{.degree = t, .has_sequence_parts = t > 1, .vocabulary_multiple = 1};
        const double layers = L, keys = static_cast<double>(b * s * h * g / a) * 2 / t,  // of all positions
            queries = static_cast<double>(b * s * h) * 2 / t;
        const auto [ring, ring_back] = sent(built({.positions = c}, g, split), SplitGroup::kPositions, c);
        CHECK(ring == doctest::Approx(layers * (c - 1) * 2 * keys / c).epsilon(1e-12));
        CHECK(ring_back == doctest::Approx(2 * ring).epsilon(1e-12));
        const auto [gathered, back] =
            sent(built({.positions = c, .method = Method::kAllGather}, g, split), SplitGroup::kPositions, c);
        CHECK(gathered == doctest::Approx(layers * 2 * keys * (c - 1) / c).epsilon(1e-12));
        CHECK(back == doctest::Approx(2 * gathered).epsilon(1e-12));  // again, and their gradients
        const double copied = static_cast<double>(std::max(c * t, static_cast<int>(g))) / static_cast<double>(g);
        const auto [exchanged, reverse] = sent(built({.heads = c}, g, split), SplitGroup::kHeads, c);
        CHECK(exchanged ==
              doctest::Approx(layers * (2 * queries + 2 * keys * copied) / c * (c - 1) / c).epsilon(1e-12));
        CHECK(reverse == doctest::Approx(exchanged).epsilon(1e-12));
      }
}

TEST_CASE("with both, heads go to consecutive GPUs, and their keys and values round") {
  const Workload both = built({.heads = 2, .positions = 4});
  const double layers = L, all = static_cast<double>(b * s * h) * 2;
  CHECK(sent(both, SplitGroup::kHeads, 2).first == doctest::Approx(layers * 4 * all / 8 / 2).epsilon(1e-12));
  CHECK(sent(both, SplitGroup::kPositions, 4).first == doctest::Approx(layers * 3 * 2 * all / 2 / 4).epsilon(1e-12));
}

TEST_CASE("GPUs have all parameters each, and compute all of the model's products together") {
  for (const bool is_causal : {true, false})
    for (const ContextSplit& context : std::vector<ContextSplit>{{.positions = 4},
                                                                 {.positions = 4, .method = Method::kAllGather},
                                                                 {.heads = 4},
                                                                 {.heads = 2, .positions = 4}}) {
      const Workload whole = built({}, a, {}, {}, is_causal), part = built(context, a, {}, {}, is_causal);
      CHECK(part.parameters() == whole.parameters());
      CHECK(part.training_flops().value() * context.degree() ==
            doctest::Approx(whole.training_flops().value()).epsilon(1e-12));
      CHECK(attention_flops(part) * context.degree() == doctest::Approx(attention_flops(whole)).epsilon(1e-12));
      CHECK(part.input_bytes * context.degree() == whole.input_bytes);
    }
}

TEST_CASE("of consecutive positions the last GPU computes (2 c - 1) / c of the mean") {
  for (const int c : {2, 4, 8})
    for (const Method method : {Method::kRing, Method::kAllGather}) {
      const ContextSplit balanced{.positions = c, .method = method},
          consecutive{.positions = c, .method = method, .is_balanced = false};
      CHECK(attention_flops(built(consecutive)) / attention_flops(built(balanced)) ==
            doctest::Approx((2.0 * c - 1) / c).epsilon(1e-12));
    }
}

TEST_CASE("a GPU keeps its part of all activations, and gathered keys and values not at all") {
  const Bytes whole = built({}).activation_bytes;
  for (const ContextSplit& context : std::vector<ContextSplit>{{.positions = 4},
                                                               {.positions = 4, .method = Method::kAllGather},
                                                               {.heads = 4},
                                                               {.heads = 2, .positions = 2}}) {
    const Workload part = built(context);
    // What attention gives is kept as it is, and as the product behind reads it.
    const Bytes twice = context.heads > 1 ? Bytes{L * b * s * h * 2} : Bytes{};
    CHECK(part.activation_bytes * 4 == whole + twice);
    Bytes kept{};
    for (const Operator& op : part.graph) kept += op.kept;
    CHECK(kept == part.activation_bytes);
  }
}

TEST_CASE("what is computed again exchanges again") {
  const double layers = L, all = static_cast<double>(b * s * h) * 2;
  const auto [forward, backward] = sent(built({.positions = 4}, a, {}, {.layers = true}), SplitGroup::kPositions, 4);
  CHECK(forward == doctest::Approx(layers * 3 * 2 * all / 4).epsilon(1e-12));
  CHECK(backward == doctest::Approx(3 * forward).epsilon(1e-12));
}

TEST_CASE("a ring's block waits for the keys and values of its step alone, which go beside the block before") {
  const Workload ring = built({.positions = 4});
  std::map<std::string, std::size_t> places;
  for (std::size_t v = 0; v < ring.graph.size(); ++v) places.emplace(ring.graph[v].name(), v);
  const std::string layer = "encoder/layer1/attention/context";
  for (int step = 1; step <= 3; ++step) {
    const std::size_t passed = places.at(layer + "/passed_on" + std::to_string(step)),
                      beside = places.at(layer + "/block" + std::to_string(step)),
                      reader = places.at(layer + "/block" + std::to_string(step + 1));
    CHECK(passed < beside);
    const auto reads = [&](std::size_t vertex) {
      return std::ranges::count(ring.graph.edges(), OperatorEdge{passed, vertex});
    };
    CHECK(reads(beside) == 0);
    CHECK(reads(reader) == 1);
  }
}

}  // namespace rehearse::context_split
