// Transformers whose layers multiply in 8 bits: what is computed, cast, sent and kept, against closed forms. n tokens, h width, g width
// of keys, f feed-forward, V words, L layers; t GPUs that hold the layers together.

#include "workloads/fp8.hpp"

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/support/llama_structure.hpp"
#include "workloads/model_zoo.hpp"

namespace rehearse::fp8 {

namespace {

constexpr std::int64_t b = 2, s = 256, n = b * s, h = 512, g = 128, f = 1024, V = 1024, L = 3;

ModelDescription described(Fp8 recipe) {
  ModelDescription model = test::model_of(test::llama_structure({{"layers", L},
                                                                 {"width", h},
                                                                 {"heads", 8},
                                                                 {"kv_heads", 2},
                                                                 {"feed_forward", f},
                                                                 {"vocabulary", V},
                                                                 {"sequence_length", s},
                                                                 {"joint_projection", true},
                                                                 {"joint_gates", true},
                                                                 {"fused_gates", true}}));
  model.fp8 = recipe;
  return model;
}

Workload built(const ModelDescription& model) {
  return build_workload(model, static_cast<int>(b), Precision::kBf16, "m.json");
}

Workload built(Fp8 recipe, const TensorSplit& split = {}, const Recomputation& again = {}) {
  ModelDescription model = described(recipe);
  model.split = split;
  model.again = again;
  return built(model);
}

struct Casts {
  std::int64_t read = 0, written = 0, transposed = 0;
  bool operator==(const Casts&) const = default;
};

Casts casts(const Workload& workload, bool of_weights) {
  Casts sum;
  for (const Operator& op : workload.graph) {
    if (!op.is_cast || (op.name.find("/weight_cast") != std::string::npos) != of_weights) continue;
    sum.read += op.bytes_read.value();
    sum.written += op.bytes_written.value();
    sum.transposed += op.transposed.value();
  }
  return sum;
}

/// Of a layer's products: numbers of inputs, of outputs, and of weights.
constexpr std::int64_t I = n * (3 * h + f), O = n * (h + 2 * g + h + 2 * f + h),
                       W = h * (h + 2 * g) + h * h + h * 2 * f + f * h;

constexpr std::array kAll{Fp8::kDelayed, Fp8::kCurrent,    Fp8::kBlock,  Fp8::kMx,
                          Fp8::kNvfp4,   Fp8::kTensorwise, Fp8::kRowwise};

std::int64_t kept_of_layer(Fp8 recipe) {
  ModelDescription model = described(recipe);
  const std::int64_t all = built(model).activation_bytes.value();
  std::get<Transformer>(model.structure).layers = static_cast<int>(L) + 1;
  return built(model).activation_bytes.value() - all;
}

/// Bytes that GPUs which hold layers together send, by kind, in gathers and in others.
std::array<std::int64_t, 2> sent(const Workload& workload) {
  std::array<std::int64_t, 2> bytes{};
  for (const Operator& op : workload.graph)
    if (op.exchange) bytes[op.exchange->kind == CollectiveKind::kAllGather ? 0 : 1] += op.exchange->bytes.value();
  return bytes;
}

}  // namespace

TEST_CASE(
    "FLOPs are those of 16 bits: in 8 bits are products of layers with weights, in all three passes, and no others") {
  const Workload half = built(Fp8::kNone);
  for (const Fp8 recipe : kAll)
    for (const bool again : {false, true}) {
      const Workload workload = built(recipe, {}, {.layers = again});
      CHECK(workload.training_flops() == built(Fp8::kNone, {}, {.layers = again}).training_flops());
      CHECK(workload.parameters() == half.parameters());
      double in_fp8 = 0;
      for (const Operator& op : workload.graph) {
        if (op.factor_bits > 0) in_fp8 += op.flops.value();
        const bool is_of_layer = op.name.starts_with("encoder/layer") && op.matrix.reduction > 0 && !op.attention;
        CHECK((op.factor_bits > 0) == is_of_layer);
      }
      CHECK(in_fp8 == doctest::Approx(static_cast<double>((again ? 8 : 6) * n * W * L)).epsilon(1e-12));
    }
}

TEST_CASE(
    "a cast reads 2 bytes and writes 1 of each number, once of each input, weight and gradient, and a transposed one") {
  CHECK(casts(built(Fp8::kDelayed), false) == Casts{L * 2 * (I + O), L * (I + O), L * (I + O)});
  CHECK(casts(built(Fp8::kDelayed), true) == Casts{L * 2 * W, L * W, L * W});
  // Current scales: once more to find the largest number.
  CHECK(casts(built(Fp8::kCurrent), false) == Casts{L * 4 * (I + O), L * (I + O), L * (I + O)});
  CHECK(casts(built(Fp8::kCurrent), true) == Casts{L * 4 * W, L * W, L * W});
}

TEST_CASE("scales of 32 numbers are 1 / 32 beside, of 128 in 4 bytes as many; along both dimensions they are others") {
  for (const Fp8 recipe : {Fp8::kMx, Fp8::kBlock})
    CHECK(casts(built(recipe), false) == Casts{L * 2 * (I + O), L * (I + O) * 2 * 33 / 32, 0});
  CHECK(casts(built(Fp8::kMx), true) == Casts{L * 2 * W, L * W * 2 * 33 / 32, 0});
  CHECK(casts(built(Fp8::kBlock), true) == Casts{L * 2 * W, L * 2 * (W + W / 4096), 0});  // 4 B of 128 x 128
}

TEST_CASE("in 4 bits numbers take half a byte and scales of 16 a sixteenth; the last layers may stay in 16 bits") {
  // Read twice, to find the tensor's largest number first.
  CHECK(casts(built(Fp8::kNvfp4), false) == Casts{L * 4 * (I + O), L * (I + O) * 2 * 9 / 16, 0});
  CHECK(casts(built(Fp8::kNvfp4), true) == Casts{L * 4 * W, L * W * 2 * 9 / 16, 0});
  for (int wide = 0; wide <= static_cast<int>(L); ++wide) {
    ModelDescription model = described(Fp8::kNvfp4);
    model.wide_layers = wide;
    std::int64_t in_4_bits = 0;
    for (const Operator& op : built(model).graph) {
      CHECK((op.factor_bits == 0 || op.factor_bits == 4));
      if (op.factor_bits == 4 && op.phase == Phase::kForward) in_4_bits += op.flops.value() > 0 ? 1 : 0;
      if (op.factor_bits == 4)
        CHECK(std::stoi(op.name.substr(std::string_view{"encoder/layer"}.size())) <= static_cast<int>(L) - wide);
    }
    CHECK(in_4_bits % (static_cast<std::int64_t>(L) - wide == 0 ? 1 : static_cast<std::int64_t>(L) - wide) == 0);
    CHECK((in_4_bits == 0) == (wide == static_cast<int>(L)));
  }
}

TEST_CASE("torchao casts inputs and weights again in the backward pass, and keeps what it keeps in 16 bits") {
  CHECK(casts(built(Fp8::kTensorwise), false) == Casts{L * 4 * (2 * I + O), L * (2 * I + 2 * O), 0});
  CHECK(casts(built(Fp8::kTensorwise), true) == Casts{L * 8 * W, L * 2 * W, 0});
  // Of rows and columns one by one: 4 bytes of each row and each column of inputs and gradients.
  const std::int64_t in = 3 * h + f, out = 3 * h + 2 * g + 2 * f;
  CHECK(casts(built(Fp8::kRowwise), false) ==
        Casts{L * 4 * (I + O), L * (2 * (I + O) + 4 * (2 * 4 * n + in + out)), 0});
  CHECK(kept_of_layer(Fp8::kTensorwise) == kept_of_layer(Fp8::kNone));
  CHECK(kept_of_layer(Fp8::kRowwise) == kept_of_layer(Fp8::kNone));
}

TEST_CASE("of inputs 1 byte is kept instead of 2; of attention's output 1 more, which it keeps itself") {
  // Inputs of two norms, the joint projection, what is rotated, attention's output and sums, the gates' two factors.
  const std::int64_t half = kept_of_layer(Fp8::kNone);
  for (const Fp8 recipe : {Fp8::kDelayed, Fp8::kCurrent}) CHECK(half - kept_of_layer(recipe) == n * (2 * h + f - h));
  for (const Fp8 recipe : {Fp8::kMx, Fp8::kBlock})
    CHECK(half - kept_of_layer(recipe) == n * (4 * h + 2 * f) - I * 33 / 32);
}

TEST_CASE("a layer that is computed again keeps its input in 16 bits, and nothing more") {
  const Recomputation again{.layers = true};
  for (const Fp8 recipe : kAll) {
    CHECK(built(recipe, {}, again).activation_bytes == built(Fp8::kNone, {}, again).activation_bytes);
    CHECK((built(recipe, {}, again).recomputed_bytes < built(Fp8::kNone, {}, again).recomputed_bytes) ==
          keeps_casts(recipe));
  }
}

TEST_CASE(
    "GPUs that hold layers together gather positions as casts, of which each keeps its part; sums are in 16 bits") {
  const TensorSplit split{.degree = 2, .has_sequence_parts = true, .vocabulary_multiple = 1};
  const auto half = sent(built(Fp8::kNone, split));
  // Before two pairs of products, again for the weights' gradients, and behind them backward; besides for words and logits.
  const std::int64_t gathers = L * 6 * n * h;
  const auto delayed = sent(built(Fp8::kDelayed, split)), mx = sent(built(Fp8::kMx, split));
  CHECK(delayed[1] == half[1]);
  CHECK(half[0] - delayed[0] == gathers);
  // Gradients along both dimensions; along positions, as each GPU's own are a multiple of 32.
  CHECK(half[0] - mx[0] == L * (12 * n * h - 8 * n * h * 33 / 32));
  CHECK(sent(built(Fp8::kTensorwise, split)) == half);
  // Each GPU casts its positions of what is gathered; what comes is transposed, read and written, where units want that.
  const std::int64_t own = n * (2 * h) + n * (h + f) / 2, gradients = n * (h + 2 * g + 2 * f) / 2 + 2 * n * h / 2;
  CHECK(casts(built(Fp8::kDelayed, split), false).written == L * (own - n * h + gradients));
  const std::int64_t whole = 4 * n * h;  // inputs of two products, gradients of two others
  CHECK(casts(built(Fp8::kDelayed, split), false).transposed ==
        L * (2 * whole + n * (h + f) / 2 + n * (h + 2 * g + 2 * f) / 2));
}

TEST_CASE("frozen weights have no transposed inputs, adapters stay in 16 bits") {
  ModelDescription model = described(Fp8::kDelayed);
  model.adapters = {.rank = 16};
  const Workload workload = built(model);
  for (const Operator& op : workload.graph)
    if (op.name.find("adapter") != std::string::npos) CHECK(op.factor_bits == 0);
  const std::int64_t all = L * (I + O) - n * (h + 2 * g);  // nothing is trained before the first product
  CHECK(casts(workload, false) == Casts{2 * all, all, 0});
}

TEST_CASE("products whose features 16 does not divide, and routers, stay in 16 bits") {
  ModelDescription model = described(Fp8::kDelayed);
  std::get<Transformer>(model.structure).feed_forward = static_cast<int>(f) + 8;
  std::set<std::string> others;
  for (const Operator& op : built(model).graph)
    if (op.kind == OperatorKind::kDense && op.phase == Phase::kForward && op.factor_bits == 0) others.insert(op.name);
  CHECK(others == std::set<std::string>{"encoder/layer1/feed_forward/outer", "encoder/layer2/feed_forward/outer",
                                        "encoder/layer3/feed_forward/outer", "logits"});
  Transformer& net = std::get<Transformer>(model.structure);
  net.feed_forward = static_cast<int>(f);
  net.experts = {.count = 16, .per_token = 2, .feed_forward = static_cast<int>(f), .is_grouped = true};
  for (const Operator& op : built(model).graph) {
    if (op.name.find("/router") != std::string::npos && op.matrix.reduction > 0) CHECK(op.factor_bits == 0);
    if (op.name.ends_with("experts/inner") || op.name.ends_with("experts/outer")) CHECK(op.factor_bits == 8);
  }
}

}  // namespace rehearse::fp8
