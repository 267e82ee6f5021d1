// Configurations of published models: their parameters are the published ones.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "sim/base/json.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/imported.hpp"
#include "tests/support/paths.hpp"
#include "workloads/importers/importer.hpp"

namespace rehearse {

namespace {

Json table() { return load_json_file(source_folder() + "/tests/workloads/importers/huggingface_models.json"); }

std::string config_of(const std::string& name) {
  const Json all = table();
  for (const Json& row : all["models"])
    if (row["model"] == name) return row["config"].dump();
  return "{}";
}
ImportedModel imported_config(const std::string& config) { return import_model(Source{"config.json", config}); }
Workload workload_named(const std::string& name, int batch = 1) {
  return test::workload_of(imported_config(config_of(name)), batch);
}
/// Multiply-adds of a sample's forward pass.
double products_of(const std::string& name) { return workload_named(name).forward_flops().value() / 2; }

/// Of a layer of attention and two matrices behind it: queries and output, keys and values, scores and sums, inner values.
double layer_products(double s, double w, double attention, double kv, double inner, double matrices) {
  return s * (2 * w * attention + 2 * w * kv + matrices * w * inner) + 2 * s * s * attention;
}

}  // namespace

TEST_CASE("published models have the published parameters") {
  const Json file = table();
  int exact = 0;
  for (const Json& row : file["models"]) {
    const auto name = row["model"].get<std::string>();
    CAPTURE(name);
    std::int64_t parameters = 0;
    const std::string error = test::error_of([&] {
      parameters = test::workload_of(import_model(Source{"config.json", row["config"].dump()})).parameters();
    });
    CHECK(error == "no error");
    if (row.contains("rounding")) {
      CHECK(std::abs(static_cast<double>(parameters) - row["parameters"].get<double>()) <=
            row["rounding"].get<double>());
      continue;
    }
    const std::int64_t missing = row.value("missing", std::int64_t{0});
    CHECK((missing == 0 || row.contains("missing_is")));
    CHECK(parameters == row["parameters"].get<std::int64_t>() + missing);
    ++exact;
  }
  CHECK(exact >= 100);
}

TEST_CASE("decoders do the products of their sizes: shared keys and values, gates, heads wider than the model") {
  const double s = 2048;
  CHECK(products_of("tiiuae/falcon-7b, with logits of their own") ==
        doctest::Approx(32 * layer_products(s, 4544, 4544, 64, 4 * 4544, 2) + s * 4544 * 65024).epsilon(1e-12));
  CHECK(products_of("gemma2_2b_en") ==
        doctest::Approx(26 * layer_products(4096, 2304, 8 * 256, 4 * 256, 9216, 3) + 4096.0 * 2304 * 256000)
            .epsilon(1e-12));
  CHECK(products_of("bloom_560m_multi") ==
        doctest::Approx(24 * layer_products(s, 1024, 1024, 1024, 4096, 2) + s * 1024 * 250880).epsilon(1e-12));
  // OPT 350M: words of 512 features are made 1024 wide, and the last states 512 again.
  CHECK(products_of("facebook/opt-350m") ==
        doctest::Approx(24 * layer_products(s, 1024, 1024, 1024, 4096, 2) + 2 * s * 512 * 1024 + s * 512 * 50272)
            .epsilon(1e-12));
}

TEST_CASE("shared layers are computed as often as there are layers, and have their variables once") {
  const double s = 512, w = 768;
  CHECK(products_of("albert_base_en_uncased") ==
        doctest::Approx(12 * layer_products(s, w, w, w, 4 * w, 2) + s * 128 * w + w * w).epsilon(1e-12));
  const Workload albert = workload_named("albert_base_en_uncased");
  // Table, positions, types, norm, projection, four matrices of attention with norm, two of the rest with norm, pooler.
  CHECK(albert.trainable_tensors() == 3 + 2 + 2 + 8 + 2 + 4 + 2 + 2);
  CHECK(albert.training_flops().value() == doctest::Approx(3 * albert.forward_flops().value()));
}

TEST_CASE("DeBERTa multiplies contents with places, whose keys and queries are computed once for a batch") {
  const double s = 512, w = 768, places = 512;
  const double of_sample = 12 * (layer_products(s, w, w, w, 4 * w, 2) + 2 * s * places * w);
  const double of_batch = 12 * 2 * places * w * w;
  for (const int batch : {1, 8}) {
    const Workload workload = workload_named("deberta_v3_base_en", batch);
    CHECK(workload.forward_flops().value() == doctest::Approx(2 * (batch * of_sample + of_batch)).epsilon(1e-12));
    CHECK(workload.training_flops().value() == doctest::Approx(3 * workload.forward_flops().value()));
  }
}

TEST_CASE("a decoder attends to itself and to the encoder, whose states it turns into keys and values") {
  const double s = 1024, w = 768, f = 3072;
  const double own = layer_products(s, w, w, w, f, 2), cross = 4 * s * w * w + 2 * s * s * w;
  CHECK(products_of("facebook/bart-base") ==
        doctest::Approx(6 * own + 6 * (own + cross) + s * w * 50265).epsilon(1e-12));

  // Whisper tiny: 3000 frames of 80 bins through two convolutions of 3 frames; 448 positions ask 1500.
  const double d = 384, n = 1500, m = 448;
  const double stem = 3000 * 3 * 80 * d + n * 3 * d * d;
  const double asked = 2 * m * d * d + 2 * n * d * d + 2 * m * n * d;
  CHECK(products_of("whisper_tiny_multi") ==
        doctest::Approx(stem + 4 * layer_products(n, d, d, d, 4 * d, 2) +
                        4 * (layer_products(m, d, d, d, 4 * d, 2) + asked) + m * d * 51865)
            .epsilon(1e-12));
}

TEST_CASE("images are read by patches, sound through convolutions") {
  const double s = 197, w = 768;
  CHECK(products_of("google/vit-base-patch16-224") ==
        doctest::Approx(196 * w * 3 * 16 * 16 + 12 * layer_products(s, w, w, w, 4 * w, 2) + w * 1000).epsilon(1e-12));
  const double text = 12 * layer_products(77, 512, 512, 512, 2048, 2) + 512 * 512;
  const double image = 49 * w * 3 * 32 * 32 + 12 * layer_products(50, w, w, w, 4 * w, 2) + w * 512;
  CHECK(products_of("openai/clip-vit-base-patch32") == doctest::Approx(text + image).epsilon(1e-12));

  // 250,000 samples become 49,999, 24,999, 12,499, 6,249, 3,124, 1,562 and 781 positions; 128 of them with 16 groups of
  // 48 features give each position its place.
  const double convolutions =
      512 * (10 * 49'999.0 + 512 * (3 * (24'999.0 + 12'499 + 6'249 + 3'124) + 2 * (1'562.0 + 781)));
  CHECK(products_of("facebook/wav2vec2-base") ==
        doctest::Approx(convolutions + 781 * 512 * w + 781 * 128 * 48 * w + 12 * layer_products(781, w, w, w, 4 * w, 2))
            .epsilon(1e-12));
}

TEST_CASE("one normalisation of parallel sublayers keeps one tensor of a layer less than two") {
  const std::string seven = config_of("tiiuae/falcon-7b, with logits of their own");
  std::string two = seven;
  two.insert(1, R"("num_ln_in_parallel_attn": 2, )");
  const Workload shared = test::workload_of(imported_config(seven), 2),
                 apart = test::workload_of(imported_config(two), 2);
  CHECK(apart.activation_bytes - shared.activation_bytes == Bytes{32 * std::int64_t{2} * 2048 * 4544 * 4});
  CHECK(apart.parameters() - shared.parameters() == 32 * 2 * 4544);
  CHECK(apart.forward_flops() == shared.forward_flops());
}

TEST_CASE("what changes a built model's structure is built or refused, whatever its type") {
  const auto with = [](const std::string& name, const std::string& keys) {
    return config_of(name).insert(1, keys + ", ");
  };
  const auto error = [](const std::string& config) {
    return test::error_of([&] { (void)test::workload_of(imported_config(config)); });
  };
  const auto without = [](std::string config, const std::string& key) {
    Json json = Json::parse(config);
    json.erase(key);
    return json.dump();
  };
  const std::string falcon = "tiiuae/falcon-7b, with logits of their own";
  CHECK(error(with(falcon, R"("num_experts": 4)")).find("/num_experts: a mixture of experts is not") !=
        std::string::npos);
  CHECK(error(with("bigcode/starcoder2-3b", R"("num_kv_groups": 4)")).find("not known for model type") !=
        std::string::npos);
  CHECK(error(without(config_of("bigcode/starcoder2-3b"), "mlp_type").insert(1, R"("mlp_type": "gated", )")) ==
        "config.json: /mlp_type: only \"default\" is supported; found \"gated\"");
  CHECK(error(without(config_of("mosaicml/mpt-7b"), "attn_config").insert(1, R"("attn_config": {"alibi": false}, )"))
            .starts_with("config.json: /attn_config/alibi: only true is supported"));
  CHECK(error(without(config_of("mosaicml/mpt-7b"), "attn_config").insert(1, R"("attn_config": {"qk_gn": true}, )"))
            .find("/attn_config/qk_gn: not known") != std::string::npos);
  CHECK(error(with("mosaicml/mpt-7b", R"("ffn_config": {"ffn_type": "mptglu"})")) ==
        "config.json: /ffn_config: only \"mptmlp\" is supported; found \"mptglu\"");
  CHECK(error(without(config_of("facebook/bart-base"), "is_encoder_decoder")
                  .insert(1, R"("is_encoder_decoder": false, )")) ==
        "config.json: /is_encoder_decoder: a decoder without the encoder of its file is not supported");
  CHECK(error(without(config_of("facebook/bart-base"), "decoder_ffn_dim").insert(1, R"("decoder_ffn_dim": 2048, )"))
            .find("/decoder_ffn_dim: a decoder with another size") != std::string::npos);
  CHECK(
      error(without(config_of("albert_base_en_uncased"), "num_hidden_groups").insert(1, R"("num_hidden_groups": 2, )"))
          .find("/num_hidden_groups: only 1 is supported") != std::string::npos);
  CHECK(error(without(config_of("deberta_v3_base_en"), "pos_att_type").insert(1, R"("pos_att_type": ["c2p"], )"))
            .find("\"pos_att_type\" of both") != std::string::npos);
  for (const char* size : {"1", "3", "5"})
    CHECK(
        error(with("deberta_v3_base_en", R"("conv_kernel_size": )" + std::string{size})) ==
        "config.json: /conv_kernel_size: a convolution beside the first layer, which any size above 0 asks for, is not "
        "supported");
  for (const char* none : {"0", "-1", "null"})
    CHECK(error(with("deberta_v3_base_en", R"("conv_kernel_size": )" + std::string{none})) == "no error");
  CHECK(error(with("bloom_560m_multi", R"("hidden_size": 2048)")) ==
        "config.json: /n_embed: another size than hidden_size, which is the same of this model type");
  CHECK(error(with("gpt2", R"("num_key_value_heads": 4)")).find("/num_key_value_heads: not known") !=
        std::string::npos);
  CHECK(error(with("facebook/wav2vec2-base", R"("add_adapter": true)")).find("/add_adapter: ") != std::string::npos);
  const auto clip = std::get<TwoTowers>(
      test::model_of(imported_config(with("openai/clip-vit-base-patch32", R"("_attn_implementation": "sdpa")")))
          .structure);
  CHECK((clip.text.has_fused_attention && clip.image.has_fused_attention));
  CHECK(error(with("deberta_v3_base_en", R"("_attn_implementation": "sdpa")")) == "no error");
  const auto parameters = [](const std::string& config) {
    return test::workload_of(imported_config(config)).parameters();
  };
  // Qwen: biases of the output projection and of three matrices; nulls of keys that have a default stand for it.
  CHECK(parameters(without(config_of("Qwen/Qwen-7B-Chat"), "no_bias").insert(1, R"("no_bias": false, )")) ==
        7'721'324'544 + 32 * (4096 + 2 * 11008 + 4096));
  CHECK(parameters(without(config_of(falcon), "tie_word_embeddings")) == 7'217'189'760 - 65024 * std::int64_t{4544});
  const auto remarks = imported_config(without(config_of(falcon), "tie_word_embeddings")).remarks;
  CHECK(std::ranges::count(remarks,
                           "logits and embedding share one matrix, which files of weights may have twice: "
                           "295469056 scalars more") == 1);
}

TEST_CASE("of a CLIP file with both forms of a part the older one counts, as transformers reads it") {
  const Json whole = Json::parse(config_of("openai/clip-vit-base-patch32"));
  const auto read = [&](const Json& changes) {
    Json config = whole;
    config.update(changes);
    return imported_config(config.dump());
  };
  const auto parameters = [&](const Json& changes) { return test::workload_of(read(changes)).parameters(); };
  const std::int64_t usual = parameters(Json::object());
  const Json wide{{"hidden_size", 1024}, {"num_attention_heads", 16}};
  for (const auto& [key, old_key] :
       {std::pair{"text_config", "text_config_dict"}, std::pair{"vision_config", "vision_config_dict"}}) {
    CAPTURE(old_key);
    CHECK(parameters({{old_key, whole[key]}}) == usual);
    CHECK(parameters({{old_key, nullptr}}) == usual);
    const std::int64_t widened = parameters({{old_key, wide}});
    CHECK(widened > usual);
    CHECK(parameters({{key, wide}}) == widened);
    CHECK(parameters({{key, wide}, {old_key, Json::object()}}) ==
          usual);  // transformers' sizes are those of this model
    const auto is_remarked = [&, old = std::string{old_key}](const Json& changes) {
      return std::ranges::any_of(read(changes).remarks,
                                 [&](const std::string& remark) { return remark.starts_with(old + " counts"); });
    };
    CHECK(is_remarked({{old_key, wide}}));
    Json same = whole[key];
    same["model_type"] = "clip_part";
    CHECK_FALSE(is_remarked({{key, same}, {old_key, whole[key]}}));
  }
}

TEST_CASE(
    "positions are turned into queries and keys, added to words, or added to scores without a kernel of their own") {
  const auto kernels = [](const std::string& config, const std::string& part) {
    const Workload workload = test::workload_of(imported_config(config));
    return std::ranges::count_if(workload.graph, [&](const Operator& op) {
      return op.phase == Phase::kForward && op.name.find(part) != std::string::npos;
    });
  };
  const auto rotations = [&](const std::string& name) { return kernels(config_of(name), "/rotated_"); };
  const auto sums = [&](const std::string& name) { return kernels(config_of(name), "embedding/sum"); };
  CHECK(rotations("qwen3_0.6b_en") == 28 * 2);
  CHECK(sums("qwen3_0.6b_en") == 0);
  for (const char* alibi : {"bloom_560m_multi", "falcon_refinedweb_1b_en", "mosaicml/mpt-7b"}) {
    CHECK(rotations(alibi) == 0);
    CHECK(sums(alibi) == 0);
  }
  CHECK(sums("facebook/opt-350m") == 1);
  CHECK(sums("facebook/nllb-200-distilled-600M") == 2);  // computed, added in both stacks
  // Baichuan 2: 13 B names its longest sequence otherwise than 7 B, and has alibi.
  const std::string baichuan =
      R"({"model_type": "baichuan", "architectures": ["BaichuanForCausalLM"], "hidden_size": 512,
    "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 1024, "vocab_size": 1000, )";
  CHECK(kernels(baichuan + R"("max_position_embeddings": 4096, "model_max_length": 4096})", "/rotated_") == 4);
  CHECK(kernels(baichuan + R"("model_max_length": 4096})", "/rotated_") == 0);
}

}  // namespace rehearse
