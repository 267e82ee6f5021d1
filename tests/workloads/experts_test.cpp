// Mixtures of experts in one operator a product, and latent attention: what is computed, moved and kept, against closed forms.
// b samples of s positions, T = b s tokens, h width, a heads, g key-value heads, E experts of f inner features, k of them a
// token, d inner features of the shared part, V words.

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/llama_structure.hpp"
#include "tests/support/paths.hpp"
#include "workloads/model_zoo.hpp"

namespace rehearse::mixtures {

namespace {

constexpr double b = 2, s = 128, T = b * s, h = 256, a = 8, g = 4, E = 16, k = 4, f = 96, d = 160, V = 1000;
constexpr std::int64_t kScalar = 2;

Json structure(int layers, const Json& more = Json::object()) {
  Json all = test::llama_structure({{"layers", layers},
                                    {"width", h},
                                    {"heads", a},
                                    {"kv_heads", g},
                                    {"feed_forward", 512},
                                    {"vocabulary", V},
                                    {"sequence_length", s}});
  for (const char* size : {"width", "heads", "kv_heads", "vocabulary", "sequence_length"})
    all[size] = static_cast<int>(all[size].get<double>());
  for (const auto& [key, value] : more.items())
    if (value.is_null())
      all.erase(key);
    else
      all[key] = value;
  return all;
}

const Json kGrouped{{"experts", 16}, {"experts_per_token", 4}, {"expert_feed_forward", 96}, {"grouped_experts", true}};

Json with(Json keys, const Json& more) {
  keys.update(more);
  return keys;
}

ModelDescription described(const Json& structure) {
  const Json json{{"format", 1}, {"source", "test"}, {"structure", structure}};
  return read_model("m", JsonReader{json, "m.json"});
}

Workload built(int layers, const Json& more, const Recomputation& again = {}, const TensorSplit& split = {},
               const LowRankAdapters& adapters = {}) {
  ModelDescription model = described(structure(layers, more));
  model.again = again;
  model.split = split;
  model.adapters = adapters;
  return build_workload(model, static_cast<int>(b), Precision::kBf16, "m.json");
}

/// `of` two layers less that of one.
template <class Of>
double of_layer(const Json& more, const Of& of) {
  return of(built(2, more)) - of(built(1, more));
}
double forward(const Workload& workload) { return workload.forward_flops().value(); }
double training(const Workload& workload) { return workload.training_flops().value(); }
double kept(const Workload& workload) { return as_double(workload.activation_bytes); }

Operator find(const Workload& workload, const std::string& name) {
  const auto found = std::ranges::find(workload.graph, name, &OperatorAt::name);
  REQUIRE_MESSAGE(found != workload.graph.end(), name);
  return *found;
}
std::size_t place_of(const Workload& workload, const std::string& name) {
  const auto found = std::ranges::find(workload.graph, name, &OperatorAt::name);
  REQUIRE_MESSAGE(found != workload.graph.end(), name);
  return static_cast<std::size_t>(std::ranges::distance(workload.graph.begin(), found));
}
bool has_operator(const Workload& workload, const std::string& name) {
  return std::ranges::find(workload.graph, name, &OperatorAt::name) != workload.graph.end();
}
Bytes scalars(double count) { return Bytes{static_cast<std::int64_t>(count) * kScalar}; }

constexpr double kAttention = 2 * h * h + 2 * h * (h * g / a);  // weights of its products
constexpr double kCore = 4 * b * s * s * h / 2;                 // FLOPs of its fused kernel, forward

}  // namespace

TEST_CASE("a layer of experts does 6 FLOPs for each active parameter and token, and those of attention") {
  const double active = kAttention + h * E + k * 3 * h * f;
  CHECK(of_layer(kGrouped, forward) == doctest::Approx(2 * active * T + kCore).epsilon(1e-12));
  CHECK(of_layer(kGrouped, training) == doctest::Approx(6 * active * T + 3.5 * kCore).epsilon(1e-12));
  // With a shared part beside them, and its gate of a number for each token.
  const Json shared = with(kGrouped, {{"shared_feed_forward", 160}, {"shared_gate", true}});
  CHECK(of_layer(shared, training) == doctest::Approx(6 * (active + 3 * h * d + h) * T + 3.5 * kCore).epsilon(1e-12));
}

TEST_CASE("a product of all experts is one operator in each pass, with one variable and a share of the rows for each") {
  const Workload workload = built(1, with(kGrouped, {{"expert_biases", true}}));
  const std::string at = "encoder/layer1/feed_forward/experts/inner";
  const Operator& product = find(workload, at);
  CHECK(product.matrix.products == E);
  CHECK(product.matrix.rows == T * k / E);
  CHECK(product.matrix.columns == f);
  CHECK(product.matrix.reduction == h);
  CHECK(product.flops == Flops{2 * T * k * h * f});
  CHECK(product.bytes_read == scalars(T * k * h + E * h * f));
  CHECK(product.bytes_written == scalars(T * k * f));
  const auto& weights = workload.variables[static_cast<std::size_t>(product.reads_variables.at(0))];
  CHECK(weights.shape == std::vector<std::int64_t>{16, 256, 96});
  const Operator &data = find(workload, at + "/data_gradient"), &weight = find(workload, at + "/weight_gradient");
  CHECK(data.flops == product.flops);
  CHECK(data.matrix.columns == h);
  CHECK(data.matrix.products == E);
  CHECK(weight.flops == product.flops);
  CHECK(weight.matrix.rows == h);
  CHECK(weight.matrix.reduction == T * k / E);
  CHECK(weight.bytes_written == scalars(E * h * f));
  CHECK(find(workload, at + "/bias_gradient").output_shape == std::vector<std::int64_t>{16, 96});
}

TEST_CASE("tokens are put in the order of their experts and back: as many bytes read as written, each way") {
  const Workload workload = built(1, kGrouped);
  const std::string at = "encoder/layer1/feed_forward/";
  const auto moves = [&](const std::string& name, double read, double written) {
    CAPTURE(name);
    CHECK(find(workload, at + name).bytes_read == scalars(read));
    CHECK(find(workload, at + name).bytes_written == scalars(written));
  };
  moves("top_k", T * E, T * k);
  moves("permuted", T * k * h, T * k * h);
  moves("unpermuted", T * k * h, T * k * h);
  moves("mixed", T * k * h + T * k, T * h);
  moves("mixed/gradient", T * h + T * k * h + T * k, T * k * h + T * k);
  moves("unpermuted/gradient", T * k * h, T * k * h);
  moves("permuted/gradient", T * k * h, T * h);  // of a token's copies the sum
  // The order is known with the weights.
  const auto place = [&](const std::string& name) { return place_of(workload, at + name); };
  for (const char* mover : {"permuted", "unpermuted"})
    CHECK(std::ranges::count(workload.graph.edges(), OperatorEdge{place("top_k"), place(mover)}) == 1);
}

TEST_CASE("one expert that every token passes is a dense layer between a router and the kernels that move tokens") {
  const Json one{{"experts", 1}, {"experts_per_token", 1}, {"grouped_experts", true}};
  const Workload dense = built(2, Json::object()), mixture = built(2, one);
  CHECK(mixture.parameters() == dense.parameters() + 2 * static_cast<std::int64_t>(h));
  CHECK(training(mixture) == doctest::Approx(training(dense) + 2 * 6 * T * h).epsilon(1e-12));
  std::size_t same = 0;
  for (const Operator& op : dense.graph) {
    std::string name = op.name;
    for (const char* part : {"inner", "gates", "activation", "gated", "outer"})
      if (const std::size_t place = name.find("/feed_forward/" + std::string{part}); place != std::string::npos)
        name.insert(place + std::string{"/feed_forward"}.size(), "/experts");
    if (name == "gradient sum") continue;
    const Operator& other = find(mixture, name);
    CAPTURE(name);
    CHECK(other.flops == op.flops);
    CHECK(other.bytes_read == op.bytes_read);
    CHECK(other.bytes_written == op.bytes_written);
    CHECK(other.matrix.rows == op.matrix.rows);
    CHECK(other.matrix.products == op.matrix.products);
    ++same;
  }
  // Of each layer: product, softmax, choice, both orders and the sum, with a gradient each; the product has two, and an update.
  CHECK(std::ranges::count_if(mixture.graph, [](const Operator& op) { return op.name != "gradient sum"; }) ==
        static_cast<std::ptrdiff_t>(same) + 2 * (6 + 7 + 1));
}

TEST_CASE("grouped or one by one, experts have the same parameters and do the same products") {
  for (const Json& more : {Json::object(), Json{{"shared_feed_forward", 160}}, Json{{"expert_biases", true}},
                           Json{{"router_bias", true}}, Json{{"joint_gates", true}}}) {
    const Json grouped = with(kGrouped, more);
    const Workload together = built(2, grouped), apart = built(2, with(grouped, {{"grouped_experts", false}}));
    CHECK(together.parameters() == apart.parameters());
    CHECK(forward(together) == doctest::Approx(forward(apart)).epsilon(1e-12));
    CHECK(training(together) == doctest::Approx(training(apart)).epsilon(1e-12));
    CHECK(together.graph.size() * 4 < apart.graph.size());
  }
}

TEST_CASE("what a layer of experts keeps for its backward pass") {
  // Attention: its input, that normalised, queries, keys, values, output, and two numbers of each query. Then the input and that
  // normalised; weights of all experts and those of the chosen; tokens in order; inner values, gates, these activated, their
  // product; outputs in the order of tokens.
  const double attention = 4 * h + 2 * h * g / a, statistics = 8 * b * a * s, rest = 2 * h + E + k;
  const auto expected = [&](double numbers) { return kScalar * T * (attention + rest + numbers) + statistics; };
  CHECK(of_layer(kGrouped, kept) == expected(2 * k * h + 4 * k * f));
  // One variable for both sides of the gates, and a kernel that reads them: its inputs and its output.
  const Json fused = with(kGrouped, {{"joint_gates", true}, {"fused_gates", true}});
  CHECK(of_layer(fused, kept) == expected(2 * k * h + 3 * k * f));
  // The weights are multiplied with the inner values: outputs are not kept.
  CHECK(of_layer(with(fused, {{"weighted_inner", true}}), kept) == expected(k * h + 3 * k * f));
  // The shared part keeps what a dense one does; its gate the output that it is multiplied with, and itself.
  CHECK(of_layer(with(kGrouped, {{"shared_feed_forward", 160}}), kept) == expected(2 * k * h + 4 * k * f + 4 * d));
  CHECK(of_layer(with(kGrouped, {{"shared_feed_forward", 160}, {"shared_gate", true}}), kept) ==
        expected(2 * k * h + 4 * k * f + 4 * d + h + 1));
}

TEST_CASE("the shared part comes behind what tokens need to be sent, and before the routed experts") {
  const Workload workload = built(1, with(kGrouped, {{"shared_feed_forward", 160}}));
  const auto place = [&](const std::string& name) { return place_of(workload, "encoder/layer1/feed_forward/" + name); };
  CHECK(place("permuted") < place("shared/inner"));
  CHECK(place("shared/outer") < place("experts/inner"));
  CHECK(place("unpermuted") < place("mixed"));
  CHECK(place("experts/outer/data_gradient") < place("shared/outer/data_gradient"));
  CHECK(place("shared/inner/data_gradient") < place("permuted/gradient"));
}

TEST_CASE("the first layers may be dense, and of the others those have experts whose number a period divides") {
  const auto layers = [](const Json& more) {
    const Workload workload = built(6, with(kGrouped, more));
    std::vector<int> found;
    for (int layer = 1; layer <= 6; ++layer) {
      const std::string at = "encoder/layer" + std::to_string(layer) + "/feed_forward";
      CHECK(has_operator(workload, at + "/inner") != has_operator(workload, at + "/experts/inner"));
      if (has_operator(workload, at + "/experts/inner")) found.push_back(layer);
    }
    return found;
  };
  CHECK(layers(Json::object()) == std::vector{1, 2, 3, 4, 5, 6});
  CHECK(layers({{"dense_layers", 2}}) == std::vector{3, 4, 5, 6});
  CHECK(layers({{"expert_period", 2}}) == std::vector{2, 4, 6});
  CHECK(layers({{"expert_period", 2}, {"dense_layers", 3}}) == std::vector{4, 6});
  // A dense layer is as wide as "feed_forward", whatever the experts are.
  CHECK(built(6, with(kGrouped, {{"dense_layers", 5}})).parameters() ==
        built(5, Json::object()).parameters() + static_cast<std::int64_t>(kAttention + 2 * h + h * E + E * 3 * h * f));
}

TEST_CASE("layers of experts that are computed again run their forward pass twice, and keep their input alone") {
  const Recomputation all{.layers = true};
  const Workload plain = built(2, kGrouped), again = built(2, kGrouped, all);
  const double layers = forward(plain) - 2 * T * h * V;
  CHECK(training(again) == doctest::Approx(training(plain) + layers).epsilon(1e-12));
  CHECK(kept(again) - kept(built(1, kGrouped, all)) == kScalar * T * h);
  const Workload part = built(2, kGrouped, {.feed_forward = true});
  CHECK(training(part) == doctest::Approx(training(plain) + 2 * 2 * T * (h * E + k * 3 * h * f)).epsilon(1e-12));
}

TEST_CASE("of GPUs that hold the rest of a layer together each sends its part of the positions through whole experts") {
  const TensorSplit split{.degree = 2, .has_sequence_parts = true, .vocabulary_multiple = 1};
  const Json shared = with(kGrouped, {{"shared_feed_forward", 160}});
  const Workload whole = built(2, shared), part = built(2, shared, {}, split);
  CHECK(training(part) * 2 == doctest::Approx(training(whole)).epsilon(1e-12));
  CHECK(part.parameters_of_all(2) == whole.parameters());
  const auto is_experts = [](const Variable& variable) {
    return variable.name.find("/experts/") != std::string::npos || variable.name.find("/router/") != std::string::npos;
  };
  for (const Variable& variable : part.variables)
    if (is_experts(variable)) {
      CHECK_FALSE(variable.is_shard);
      CHECK(variable.has_partial_gradient);
    }
}

TEST_CASE("adapters beside grouped products are grouped") {
  const Workload workload = built(2, kGrouped, {}, {}, {.rank = 4, .attention = false});
  CHECK(workload.parameters() == 2 * static_cast<std::int64_t>(E * 3 * 4 * (h + f)));
  const Operator& narrow = find(workload, "encoder/layer2/feed_forward/experts/outer/adapter_a");
  CHECK(narrow.matrix.products == E);
  CHECK(narrow.flops == Flops{2 * T * k * f * 4});
}

TEST_CASE("latent attention: products by way of the latents, heads of 48 features for scores and of 32 for values") {
  constexpr double q = 64, c = 40, r = 16, p = 32, v = 24;
  const Json keys{{"query_latent", 64},
                  {"key_value_latent", 40},
                  {"rotary_features", 16},
                  {"plain_features", 32},
                  {"value_features", 24}};
  const Json latent{{"kv_heads", nullptr}, {"rotary_positions", nullptr}, {"latent_attention", keys}};
  const double dense = 3 * h * 512;
  const double up = c * a * (p + v), output = a * v * h;
  const double weights = h * q + q * a * (p + r) + h * (c + r) + up + output;
  const double core = 2 * b * s * s * a * (p + r + v) / 2;
  CHECK(of_layer(latent, forward) == doctest::Approx(2 * T * (weights + dense) + core).epsilon(1e-12));
  // Scores, and backward scores again, gradients of queries and keys; values, and gradients of weights and values.
  const double backward = 2 * b * s * s * a * (3 * (p + r) + 2 * v) / 2;
  CHECK(of_layer(latent, training) == doctest::Approx(6 * T * (weights + dense) + core + backward).epsilon(1e-12));
  CHECK(of_layer(latent, [](const Workload& w) { return static_cast<double>(w.parameters()); }) ==
        weights + q + c + dense + 2 * h);
  const Workload workload = built(1, latent);
  const Operator& attention = find(workload, "encoder/layer1/attention/context");
  CHECK(attention.bytes_read == scalars(T * a * (2 * (p + r) + v)));
  CHECK(attention.bytes_written == scalars(T * a * v));
  CHECK(attention.output_shape.back() == static_cast<std::int64_t>(a * v));

  // Kept: the input, that normalised; the latents, with the rotary key, and these normalised; queries, keys, keys with values as
  // they are made, output; and of the rest two inputs and four inner values.
  const double rest = 2 * h + 4 * 512, statistics = 8 * b * a * s;
  const double latents = 2 * q + (c + r) + c, heads = a * (2 * (p + r) + (p + v) + v);
  CHECK(of_layer(latent, kept) == kScalar * T * (2 * h + latents + heads + rest) + statistics);
  // Values are copied: of what they are part of nothing is kept.
  CHECK(of_layer(with(latent, {{"copies_values", true}}), kept) ==
        kScalar * T * (2 * h + latents + heads - a * p + rest) + statistics);

  // Queries of the input; in separate kernels scores are kept, and each product has two gradients.
  Json straight = keys;
  straight.erase("query_latent");
  Json apart = with(latent, {{"latent_attention", straight}, {"fused_attention", false}});
  const double without = h * a * (p + r) + h * (c + r) + up + output;
  CHECK(of_layer(apart, training) ==
        doctest::Approx(6 * T * (without + dense) + 3 * 2 * core).epsilon(1e-12));  // nothing is left out

  // Two GPUs have four heads each, and all of the latents.
  for (const bool in_parts : {false, true}) {
    const TensorSplit split{.degree = 2, .has_sequence_parts = in_parts, .vocabulary_multiple = 1};
    const Workload half = built(2, latent, {}, split);
    CHECK(half.parameters_of_all(2) == built(2, latent).parameters());
    const double down = (in_parts ? 0 : 1) * 2 * 6 * T * (h * q + h * (c + r));  // which both compute otherwise
    CHECK(training(half) * 2 == doctest::Approx(training(built(2, latent)) + down).epsilon(1e-12));
  }
}

TEST_CASE("sinks are a number for each head, read by the kernel of the scores") {
  for (const bool is_fused : {false, true}) {
    const Json sinks{{"attention_sinks", true}, {"fused_attention", is_fused}};
    const Workload with_sinks = built(2, sinks), without = built(2, {{"fused_attention", is_fused}});
    CHECK(with_sinks.parameters() == without.parameters() + 2 * static_cast<std::int64_t>(a));
    CHECK(with_sinks.training_flops() == without.training_flops());
    const std::string kernel = std::string{"encoder/layer2/attention/"} + (is_fused ? "context" : "mask");
    CHECK(find(with_sinks, kernel).bytes_read == find(without, kernel).bytes_read + scalars(a));
    CHECK(find(with_sinks, kernel + "/gradient").produces_gradients.size() == 1);
  }
}

TEST_CASE("queries and keys may be normalised without scales") {
  const Json norms{{"query_key_norms", true}}, bare = with(norms, {{"query_key_norm_scales", false}});
  CHECK(built(2, norms).parameters() - built(2, bare).parameters() == 2 * 2 * 256 / 8);
  CHECK(built(2, bare).parameters() == built(2, Json::object()).parameters());
  CHECK(has_operator(built(1, bare), "encoder/layer1/attention/norm_of_keys"));
}

TEST_CASE("DeepSeek-V3 has few operators, each product of 256 experts one of them") {
  const Json file = load_json_file(source_folder() + "/workloads/models/deepseek_v3.json");
  const Workload workload =
      build_workload(read_model("v3", JsonReader{file, "v3"}), 1, Precision::kBf16, "deepseek_v3.json");
  CHECK(workload.graph.size() < 6000);
  CHECK(std::ranges::count_if(workload.graph, [](const Operator& op) { return op.matrix.products == 256; }) ==
        58 * 3 * 3);
  // Per layer q down and up 7168 x 1536 and 1536 x 128 (128 + 64), their norm, kv down 7168 x (512 + 64) and up 512 x 128 (128 +
  // 128), its norm, output 128 x 128 x 7168, two norms; 3 dense layers of 3 x 7168 x 18432; 58 of 257 x 3 x 7168 x 2048, 7168 x
  // 256 and 256; twice 129280 x 7168; a norm.
  const std::int64_t attention = 11'010'048 + 37'748'736 + 1536 + 4'128'768 + 16'777'216 + 512 + 117'440'512 + 2 * 7168;
  CHECK(workload.parameters() ==
        61 * attention + 3 * 396'361'728LL + 58 * (257 * 44'040'192LL + 1'835'008 + 256) + 2 * 926'679'040LL + 7168);
  CHECK(workload.parameters() == 671'026'419'200);
}

TEST_CASE("mistakes in keys of experts and latent attention are named with their place") {
  const auto refuse = [](const Json& more, const std::string& message) {
    CHECK_THROWS_WITH_AS((void)described(structure(4, more)), ("m.json: /structure" + message).c_str(), InputError);
  };
  for (const auto& [key, value] :
       {std::pair{"expert_feed_forward", Json(8)}, std::pair{"expert_biases", Json(true)},
        std::pair{"shared_feed_forward", Json(8)}, std::pair{"shared_gate", Json(true)},
        std::pair{"dense_layers", Json(1)}, std::pair{"expert_period", Json(2)}, std::pair{"router_bias", Json(true)},
        std::pair{"grouped_experts", Json(true)}, std::pair{"weighted_inner", Json(true)}})
    refuse({{key, value}}, "/" + std::string{key} + ": expected none without \"experts\"; found " + value.dump());
  refuse(with(kGrouped, {{"experts_per_token", 17}}), "/experts_per_token: expected at most \"experts\"; found 17");
  refuse(with(kGrouped, {{"expert_feed_forward", 0}}),
         "/expert_feed_forward: expected an integer from 1 to 1048576; found 0");
  refuse(with(kGrouped, {{"expert_biases", 1}}), "/expert_biases: expected true or false; found 1");
  refuse(with(kGrouped, {{"router_bias", 1}}), "/router_bias: expected true or false; found 1");
  refuse(with(kGrouped, {{"shared_feed_forward", 0}}),
         "/shared_feed_forward: expected an integer from 1 to 1048576; found 0");
  refuse(with(kGrouped, {{"shared_gate", true}}),
         "/shared_gate: expected true with \"shared_feed_forward\" alone; found true");
  for (const int layers : {-1, 4})
    refuse(with(kGrouped, {{"dense_layers", layers}}),
           "/dense_layers: expected an integer from 0, below the number of layers; found " + std::to_string(layers));
  const std::string no_layer = "/expert_period: expected a period that leaves a layer with experts; found ";
  refuse(with(kGrouped, {{"expert_period", 5}}), no_layer + "5");
  refuse(with(kGrouped, {{"expert_period", 3}, {"dense_layers", 3}}), no_layer + "3");
  const std::string inner =
      "/weighted_inner: expected true with \"grouped_experts\" and \"gated_feed_forward\" alone; ";
  refuse(with(kGrouped, {{"weighted_inner", true}, {"grouped_experts", false}}), inner + "found true");
  refuse(with(kGrouped, {{"weighted_inner", true}, {"gated_feed_forward", false}}), inner + "found true");
  refuse(with(kGrouped, {{"experts", 8192}, {"grouped_experts", false}}),
         "/experts: expected at most 16384 in all layers together, or \"grouped_experts\"; found 8192");
  CHECK_NOTHROW((void)described(structure(4, with(kGrouped, {{"experts", 8192}}))));
  refuse({{"query_key_norm_scales", false}},
         "/query_key_norm_scales: expected false with \"query_key_norms\" alone; found false");
  refuse({{"query_key_norms", true}, {"query_key_scales", true}, {"query_key_norm_scales", false}},
         "/query_key_norm_scales: expected true with \"query_key_scales\"; found false");
  refuse({{"attention_sinks", 1}}, "/attention_sinks: expected true or false; found 1");
  refuse({{"copies_values", true}},
         "/copies_values: expected true with \"joint_projection\" or \"latent_attention\" alone; found true");

  const Json sizes{{"key_value_latent", 40}, {"rotary_features", 16}, {"plain_features", 32}, {"value_features", 24}};
  const auto latent = [&](const Json& more, const Json& keys) {
    return with({{"kv_heads", nullptr}, {"rotary_positions", nullptr}, {"latent_attention", with(sizes, keys)}}, more);
  };
  const std::string none = "with \"latent_attention\", which says what queries, keys and values are; found ";
  for (const char* key : {"kv_heads", "head_features", "relative_positions", "disentangled_positions"})
    refuse(latent({{key, 4}}, Json::object()), "/" + std::string{key} + ": expected none " + none + "4");
  for (const char* key : {"joint_projection", "rotary_positions", "alibi", "query_key_norms"})
    refuse(latent({{key, true}}, Json::object()), "/" + std::string{key} + ": expected false " + none + "true");
  refuse(latent({{"decoder_layers", 1}}, Json::object()),
         "/latent_attention: expected none in a model with decoder layers; found an object");
  for (const char* key : {"query_latent", "key_value_latent", "rotary_features", "plain_features", "value_features"})
    refuse(latent(Json::object(), {{key, 0}}),
           "/latent_attention/" + std::string{key} + ": expected an integer from 1 to 1048576; found 0");
  refuse(latent(Json::object(), {{"value_feature", 8}}),
         "/latent_attention: unknown key \"value_feature\"; did you mean \"value_features\"?");
}

}  // namespace rehearse::mixtures
