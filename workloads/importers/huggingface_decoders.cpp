// Decoders of words: what each model type has, as data.

#include <array>

#include "sim/base/names.hpp"
#include "workloads/importers/huggingface_conversion.hpp"

namespace rehearse::huggingface {

namespace {

enum class Positions { kRotary, kLearned, kAlibi };
constexpr Flag kYes{nullptr, true};
constexpr Flag kAsAttention{"-"};  // of the output: as attention_biases
constexpr Size kNotStated{"", 0};  // by no key of the type

/// One model type. Sizes and switches are as its configuration class in transformers names and defaults them; for types
/// that are no part of it, such as "qwen", as the code beside the published weights does.
struct Decoder {
  std::string_view type;
  Size layers{"num_hidden_layers", 32}, width{"hidden_size", 4096}, heads{"num_attention_heads", 32};
  Size vocabulary{"vocab_size", 32000};
  Size feed_forward{"intermediate_size", 0};  // 0: four times the width
  Size longest{"max_position_embeddings", 2048};
  Size kv_heads{"num_key_value_heads", 0};  // 0: as many as heads, as is null
  Size head_features{"head_dim", 0};        // 0: width / heads
  Positions positions = Positions::kRotary;
  int position_offset = 0;  // rows of the table of positions before the first
  const char* normalisation = "pre";
  bool has_rms_norms = true, has_norm_scales = true, has_norm_biases = true, normalises_embeddings = false;
  bool has_gates = true, has_joint_projection = false;
  Flag attention_biases{}, output_bias = kAsAttention, feed_forward_biases{}, logits_bias{};
  Flag parallel{};
  bool has_shared_norm = false;  // where sublayers are parallel
  Flag query_key_norms{};
  bool has_query_key_scales = false;
  Flag tied{"tie_word_embeddings", false};
  std::string_view dropouts = "attention_dropout";
  double dropout = 0;
  int window = 0;                    // positions that attention sees, unless the file says; 0: all
  bool has_optional_window = false;  // "use_sliding_window"
  void (*adjust)(Conversion&) = nullptr;
};

constexpr Size kGptLayers{"n_layer num_hidden_layers", 12}, kGptWidth{"n_embd hidden_size", 768};
constexpr Size kGptHeads{"n_head num_attention_heads", 12}, kGptLongest{"n_positions max_position_embeddings", 1024};
constexpr std::string_view kGptDropouts = "resid_pdrop embd_pdrop attn_pdrop";

/// Mixtures of equal experts, which are as wide as "width" says, by default as the row of the type does. transformers 5 takes
/// either name of their count for the other, and writes that of Qwen as "num_local_experts". Those of which a layer has many,
/// or one variable for all, are grouped.
struct Experts {
  std::string_view type;
  Size count, per_token;
  Size width = {};
  bool is_grouped = false;
};
constexpr Size kRouted{"n_routed_experts num_local_experts", 256};
constexpr std::array kExperts{
    Experts{"deepseek_v2",
            {"n_routed_experts num_local_experts", 64},
            {"num_experts_per_tok", 2},
            {"moe_intermediate_size", 1407},
            true},
    Experts{"deepseek_v3", kRouted, {"num_experts_per_tok", 8}, {"moe_intermediate_size", 2048}, true},
    Experts{"kimi_k2", kRouted, {"num_experts_per_tok", 8}, {"moe_intermediate_size", 2048}, true},
    Experts{"gpt_oss", {"num_local_experts num_experts", 128}, {"num_experts_per_tok experts_per_token", 4}, {}, true},
    Experts{"granitemoe", {"num_local_experts num_experts", 8}, {"num_experts_per_tok", 2}},
    Experts{"grok-1", {"num_experts num_local_experts", 8}, {"num_experts_per_tok", 2}, {}, true},
    Experts{"llama4_text",
            {"num_local_experts num_experts", 16},
            {"num_experts_per_tok", 1},
            {"intermediate_size", 8192},
            true},
    Experts{"mixtral", {"num_local_experts num_experts", 8}, {"num_experts_per_tok", 2}},
    Experts{"olmoe", {"num_experts num_local_experts", 64}, {"num_experts_per_tok", 8}},
    Experts{"phimoe", {"num_local_experts num_experts", 16}, {"num_experts_per_tok", 2}},
    Experts{"qwen2_moe",
            {"num_experts num_local_experts", 60},
            {"num_experts_per_tok", 4},
            {"moe_intermediate_size", 1408},
            true},
    Experts{"qwen3_moe",
            {"num_experts num_local_experts", 128},
            {"num_experts_per_tok", 8},
            {"moe_intermediate_size", 768}}};

void adjust_experts(Conversion& to) {
  const Experts& experts = *std::ranges::find(kExperts, to.type, &Experts::type);
  to.structure["experts"] = to.size(experts.count);
  to.structure["experts_per_token"] = to.size(experts.per_token);
  if (!experts.width.names.empty())
    to.structure[experts.is_grouped ? "expert_feed_forward" : "feed_forward"] = to.size(experts.width);
  if (experts.is_grouped) to.structure["grouped_experts"] = true;
  to.remarks.emplace_back("tokens are taken to be spread evenly over the experts, and each worker has all of these");
}

/// Of Qwen: layers whose number "decoder_sparse_step" does not divide, and listed ones, have no experts.
void adjust_qwen_experts(Conversion& to) {
  const Json dense_width = to.structure["feed_forward"];
  adjust_experts(to);
  const int period = to.size_or("decoder_sparse_step", 1);
  int dense = 0;
  if (to.has("mlp_only_layers"))
    for (const int layer : to.config.required<std::vector<int>>("mlp_only_layers"))
      if (layer != dense++)
        to.config.fail("mlp_only_layers",
                       "layers without experts between those that have some are supported only in turns "
                       "(\"decoder_sparse_step\"), or as the first ones");
  if (period > 1) to.structure["expert_period"] = period;
  if (dense > 0) to.structure["dense_layers"] = dense;
  if (period > 1 || dense > 0) {
    if (!to.structure.contains("expert_feed_forward"))
      to.structure["expert_feed_forward"] = to.structure["feed_forward"];
    to.structure["feed_forward"] = dense_width;
  }
  if (to.type != "qwen2_moe") return;
  to.structure["shared_feed_forward"] = to.size("shared_expert_intermediate_size", 5632);
  to.structure["shared_gate"] = true;
}

void adjust_deepseek(Conversion& to) {
  const bool is_second = to.type == "deepseek_v2";
  adjust_experts(to);
  Json& structure = to.structure;
  const char* key = "first_k_dense_replace";
  const int dense = to.has(key) ? to.config.required<int>(key) : is_second ? 0 : 3;
  if (dense > 0) structure["dense_layers"] = dense;
  if (to.size_or("moe_layer_freq", 1) != 1)
    to.config.fail("moe_layer_freq", "layers without experts between those that have some are not supported");
  const std::int64_t width = structure["expert_feed_forward"].get<int>();
  const bool is_null = to.config.has("n_shared_experts") && !to.has("n_shared_experts");
  const bool has_none = is_null || (to.has("n_shared_experts") && to.config.required<int>("n_shared_experts") == 0);
  if (!has_none) structure["shared_feed_forward"] = width * to.size("n_shared_experts", is_second ? 2 : 1);
  if (to.text("topk_method", is_second ? "greedy" : "noaux_tc") == "noaux_tc") structure["router_bias"] = true;

  const int keys = to.size_or("num_key_value_heads", structure["heads"].get<int>());
  if (keys != structure["heads"].get<int>())
    to.config.fail("num_key_value_heads", "another number than that of heads is not supported beside latents");
  structure.erase("kv_heads");
  structure.erase("rotary_positions");
  structure["latent_attention"] = {{"key_value_latent", to.size("kv_lora_rank", 512)},
                                   {"rotary_features", to.size("qk_rope_head_dim", 64)},
                                   {"plain_features", to.size("qk_nope_head_dim", 128)},
                                   {"value_features", to.size("v_head_dim", 128)}};
  const bool makes_queries_of_input = to.config.has("q_lora_rank") && !to.has("q_lora_rank");
  if (!makes_queries_of_input) structure["latent_attention"]["query_latent"] = to.size("q_lora_rank", 1536);
  const int rotary = structure["latent_attention"]["rotary_features"].get<int>();
  const int both = rotary + structure["latent_attention"]["plain_features"].get<int>();
  if (const int stated = to.size_or("head_dim", rotary); stated != rotary && stated != both)
    to.config.fail("head_dim", "neither the rotary features of a head nor all of its features");
  if (to.size_or("qk_head_dim", both) != both) to.config.fail("qk_head_dim", "not the features of a head's queries");
  if (to.has("num_nextn_predict_layers") && to.config.required<int>("num_nextn_predict_layers") > 0)
    to.remarks.emplace_back(
        "modules that predict further tokens (num_nextn_predict_layers) are not modelled, and their parameters not "
        "counted");
}

void adjust_gpt_oss(Conversion& to) {
  adjust_experts(to);
  to.structure["expert_biases"] = to.structure["router_bias"] = to.structure["joint_gates"] = true;
  to.structure["attention_sinks"] = true;
}

void adjust_biogpt(Conversion& to) {
  if (to.has_dropout("layerdrop", 0)) to.remarks.emplace_back("layerdrop is not modelled: all layers are trained");
}

void adjust_opt(Conversion& to) {
  const int width = to.structure["width"].get<int>(), words = to.size_or("word_embed_proj_dim", width);
  if (words != width) {
    to.structure["embedding_width"] = words;
    to.structure["embedding_projection"] = "words";
  }
  if (!to.flag("layer_norm_elementwise_affine", true))
    to.structure["norm_scales"] = to.structure["norm_biases"] = false;
  const bool normalises_first = to.flag("do_layer_norm_before", true);
  to.structure["normalisation"] = normalises_first ? "pre" : "post";
  if (normalises_first)
    to.refuse_flag("_remove_final_layer_norm", "a stack without its last normalisation is not supported");
  else
    (void)to.has("_remove_final_layer_norm");
  if (to.has_dropout("layerdrop", 0)) to.remarks.emplace_back("layerdrop is not modelled: all layers are trained");
}

/// Also of Falcon.
void adjust_bloom(Conversion& to) {
  to.refuse_flag("apply_residual_connection_post_layernorm",
                 "residual sums behind the normalisation are not supported");
}

void adjust_falcon(Conversion& to) {
  const bool is_new = to.flag("new_decoder_architecture", false), is_parallel = to.flag("parallel_attn", true);
  const int heads = to.structure["heads"].get<int>();
  const bool has_one_pair = to.flag("multi_query", true) && !is_new;
  const int of_new = to.size_or("num_kv_heads n_head_kv", heads);
  to.structure["kv_heads"] = is_new ? of_new : has_one_pair ? 1 : heads;
  const int norms = to.size_or("num_ln_in_parallel_attn", is_new ? 2 : 1);
  to.structure["parallel_sublayers"] = is_new || is_parallel;
  to.structure["shared_norm"] = (is_new || is_parallel) && norms != 2;
  const bool has_alibi = to.flag("alibi", false);
  to.structure["alibi"] = has_alibi;
  to.structure["rotary_positions"] = !has_alibi;
  adjust_bloom(to);
  if (to.made.head == "language_model" && to.flag("tie_word_embeddings", true))
    to.remarks.push_back(
        "logits and embedding share one matrix, which files of weights may have twice: " +
        std::to_string(to.structure["width"].get<std::int64_t>() * to.structure["vocabulary"].get<std::int64_t>()) +
        " scalars more");
}

void adjust_bigcode(Conversion& to) {
  if (to.flag("multi_query", true)) to.structure["kv_heads"] = 1;
}

void adjust_mpt(Conversion& to) {
  to.structure["feed_forward"] = std::int64_t{to.size("expansion_ratio", 4)} * to.structure["width"].get<int>();
  const bool has_biases = !to.flag("no_bias", true);
  if (has_biases) to.config.fail("no_bias", "only true is supported: transformers and llm-foundry differ without it");
  if (to.has("attn_config")) {
    Conversion attention{.config = to.config.child("attn_config"), .type = to.type};
    attention.config.expect(attention.config.is_object(), "an object");
    if (!attention.flag("alibi", true))
      attention.config.fail("alibi", "only true is supported: transformers has no other positions here");
    attention.refuse_flag("qk_ln", "normalised queries and keys are not supported in this model type");
    const std::string kind = attention.text("attn_type", "multihead_attention");
    if (kind == "multiquery_attention")
      to.structure["kv_heads"] = 1;
    else if (kind == "grouped_query_attention")
      to.structure["kv_heads"] = read_size(attention.config, "kv_n_heads");
    else
      attention.config.expect(kind == "multihead_attention", "attn_type", "an attention that is known");
    (void)attention.has("kv_n_heads");
    if (attention.text("attn_impl", "torch") != "torch") to.structure["fused_attention"] = true;
    check_other_keys(attention);
    to.remarks.insert(to.remarks.end(), attention.remarks.begin(), attention.remarks.end());
  }
  if (to.has("ffn_config")) {
    const auto kind = to.config.child("ffn_config").optional<std::string>("ffn_type", "mptmlp");
    if (kind != "mptmlp") to.config.fail("ffn_config", "only \"mptmlp\" is supported; found " + in_quotes(kind));
  }
  if (const auto norm = to.text("norm_type", "low_precision_layernorm"); norm.find("layernorm") == std::string::npos)
    to.config.fail("norm_type", "only layer normalisations are supported; found " + in_quotes(norm));
}

void adjust_gemma2(Conversion& to) {
  const char* key = "attn_logit_softcapping";
  if (to.has(key) || !to.config.has(key))
    to.remarks.emplace_back("soft caps of attention's scores are not modelled: three element-wise kernels of a layer");
}

/// SmolLM3, Cohere 2 and EXAONE 4.
void remark_on_positions(Conversion& to) {
  to.remarks.emplace_back("all layers are taken to turn positions into queries and keys; some of this model's do not");
}

void adjust_gpt_neo(Conversion& to) {
  const int window = to.size_or("window_size", 256);
  if (window < to.structure["sequence_length"].get<int>())
    to.remarks.push_back("local attention of " + std::to_string(window) +
                         " positions is not modelled: attention sees all positions, which is more work");
}

void adjust_qwen(Conversion& to) {
  // Half of it is the gates'. Source: modeling_qwen.py beside the weights: ff_dim_in = intermediate_size // 2.
  const int both = to.size("intermediate_size", 22016);
  to.config.expect(both % 2 == 0, "intermediate_size", "an even number");
  to.structure["feed_forward"] = both / 2;
  if (!to.flag("no_bias", true)) to.structure["attention_output_bias"] = to.structure["feed_forward_biases"] = true;
  if (to.has("kv_channels")) to.structure["head_features"] = to.size("kv_channels", 128);
}

/// The code beside the weights of 13 B has the longest sequence under another name, and alibi.
void adjust_baichuan(Conversion& to) {
  const bool is_longest = !to.has("max_position_embeddings") && to.has("model_max_length");
  if (!is_longest) return;
  to.set_sequence_length(to.size("model_max_length", 4096));
  std::erase(to.defaults, "max_position_embeddings 4096");
  to.structure["alibi"] = true;
  to.structure["rotary_positions"] = false;
}

void adjust_starcoder2(Conversion& to) {
  for (const auto& [key, usual] : {std::pair{"mlp_type", "default"}, std::pair{"norm_type", "layer_norm"}})
    if (const std::string found = to.text(key, usual); found != usual)
      to.config.fail(key, "only " + in_quotes(usual) + " is supported; found " + in_quotes(found));
}

void adjust_gptj(Conversion& to) {
  if (!to.flag("rotary", true)) to.config.fail("rotary", "only true is supported");
}

void adjust_phi(Conversion& to) {
  to.refuse_flag("qk_layernorm", "normalised queries and keys are not supported in this model type");
}

/// Each expert is as wide as the shared one, layers without them have another width.
void adjust_llama4(Conversion& to) {
  adjust_experts(to);
  Json& structure = to.structure;
  structure["shared_feed_forward"] = structure["expert_feed_forward"];
  structure["feed_forward"] = to.size("intermediate_size_mlp", 16384);
  const int period = to.size_or("interleave_moe_layer_step", 1), layers = structure["layers"].get<int>();
  if (period > 1) structure["expert_period"] = period;
  if (to.has("moe_layers")) {
    std::vector<int> those;
    for (int layer = period - 1; layer < layers; layer += period) those.push_back(layer);
    if (to.config.required<std::vector<int>>("moe_layers") != those)
      to.config.fail("moe_layers", "other layers than those of \"interleave_moe_layer_step\" are not supported");
  }
  if (structure.contains("query_key_norms")) structure["query_key_norm_scales"] = false;
  remark_on_positions(to);
}

void adjust_grok(Conversion& to) {
  adjust_experts(to);
  to.remarks.emplace_back("soft caps of attention's scores are not modelled: three element-wise kernels of a layer");
}

/// A row as another but for its type and what `change` does.
template <class Change>
constexpr Decoder like(Decoder row, std::string_view type, Change change) {
  row.type = type;
  change(row);
  return row;
}
constexpr Decoder like(const Decoder& row, std::string_view type) {
  return like(row, type, [](Decoder&) {});
}

// Sources: configuration_*.py and modeling_*.py of transformers, and of the weights for baichuan, internlm2 and qwen.
constexpr Decoder kLlama{.type = "llama",
                         .feed_forward = {"intermediate_size", 11008},
                         .attention_biases = {"attention_bias", false},
                         .feed_forward_biases = {"mlp_bias", false}};
constexpr Decoder kMistral{.type = "mistral",
                           .feed_forward = {"intermediate_size", 14336},
                           .longest = {"max_position_embeddings", 131072},
                           .kv_heads = {"num_key_value_heads", 8},
                           .window = 4096};
constexpr Decoder kQwen2{.type = "qwen2",
                         .vocabulary = {"vocab_size", 151936},
                         .feed_forward = {"intermediate_size", 22016},
                         .longest = {"max_position_embeddings", 32768},
                         .kv_heads = {"num_key_value_heads", 32},
                         .attention_biases = kYes,
                         .output_bias = {},
                         .has_optional_window = true};
constexpr Decoder kGemma2{.type = "gemma2",
                          .layers = {"num_hidden_layers", 26},
                          .width = {"hidden_size", 2304},
                          .heads = {"num_attention_heads", 8},
                          .vocabulary = {"vocab_size", 256000},
                          .feed_forward = {"intermediate_size", 9216},
                          .longest = {"max_position_embeddings", 8192},
                          .kv_heads = {"num_key_value_heads", 4},
                          .head_features = {"head_dim", 256},
                          .normalisation = "sandwich",
                          .attention_biases = {"attention_bias", false},
                          .tied = {"tie_word_embeddings", true},
                          .window = 4096,
                          .adjust = adjust_gemma2};
constexpr Decoder kGpt2{.type = "gpt2",
                        .layers = kGptLayers,
                        .width = kGptWidth,
                        .heads = kGptHeads,
                        .vocabulary = {"vocab_size", 50257},
                        .feed_forward = {"n_inner", 0},
                        .longest = kGptLongest,
                        .kv_heads = kNotStated,
                        .head_features = kNotStated,
                        .positions = Positions::kLearned,
                        .has_rms_norms = false,
                        .has_gates = false,
                        .has_joint_projection = true,
                        .attention_biases = kYes,
                        .feed_forward_biases = kYes,
                        .tied = {"tie_word_embeddings", true},
                        .dropouts = kGptDropouts,
                        .dropout = 0.1};
constexpr Decoder kGptJ{.type = "gptj",
                        .layers = {"n_layer num_hidden_layers", 28},
                        .width = {"n_embd hidden_size", 4096},
                        .heads = {"n_head num_attention_heads", 16},
                        .vocabulary = {"vocab_size", 50400},
                        .feed_forward = {"n_inner", 0},
                        .longest = {"n_positions max_position_embeddings", 2048},
                        .kv_heads = kNotStated,
                        .head_features = kNotStated,
                        .has_rms_norms = false,
                        .has_gates = false,
                        .feed_forward_biases = kYes,
                        .logits_bias = kYes,
                        .parallel = kYes,
                        .has_shared_norm = true,
                        .dropouts = kGptDropouts,
                        .adjust = adjust_gptj};
constexpr Decoder kOlmo2{.type = "olmo2",
                         .vocabulary = {"vocab_size", 50304},
                         .feed_forward = {"intermediate_size", 11008},
                         .normalisation = "reordered",
                         .attention_biases = {"attention_bias", false},
                         .query_key_norms = kYes,
                         .has_query_key_scales = true};
constexpr Decoder kGlm{.type = "glm",
                       .layers = {"num_hidden_layers", 40},
                       .vocabulary = {"vocab_size", 151552},
                       .feed_forward = {"intermediate_size", 13696},
                       .longest = {"max_position_embeddings", 131072},
                       .kv_heads = {"num_key_value_heads", 2},
                       .head_features = {"head_dim", 128},
                       .attention_biases = {"attention_bias", true},
                       .output_bias = {}};
constexpr Decoder kCohere{.type = "cohere",
                          .layers = {"num_hidden_layers", 40},
                          .width = {"hidden_size", 8192},
                          .heads = {"num_attention_heads", 64},
                          .vocabulary = {"vocab_size", 256000},
                          .feed_forward = {"intermediate_size", 22528},
                          .longest = {"max_position_embeddings", 8192},
                          .has_rms_norms = false,
                          .has_norm_biases = false,
                          .attention_biases = {"attention_bias", false},
                          .parallel = kYes,
                          .has_shared_norm = true,
                          .query_key_norms = {"use_qk_norm", false},
                          .has_query_key_scales = true,
                          .tied = {"tie_word_embeddings", true}};
constexpr Decoder kDeepseek{.type = "deepseek_v3",
                            .layers = {"num_hidden_layers", 61},
                            .width = {"hidden_size", 7168},
                            .heads = {"num_attention_heads", 128},
                            .vocabulary = {"vocab_size", 129280},
                            .feed_forward = {"intermediate_size", 18432},
                            .longest = {"max_position_embeddings", 4096},
                            .kv_heads = kNotStated,
                            .head_features = kNotStated,
                            .attention_biases = {"attention_bias", false},
                            .adjust = adjust_deepseek};
constexpr std::array kDecoders{kLlama,
                               like(kLlama, "granite"),
                               like(kLlama, "granitemoe",
                                    [](Decoder& row) {
                                      row.feed_forward_biases = {};
                                      row.adjust = adjust_experts;
                                    }),
                               kMistral,
                               like(kMistral, "mixtral",
                                    [](Decoder& row) {
                                      row.window = 0;
                                      row.adjust = adjust_experts;
                                    }),
                               kQwen2,
                               like(kQwen2, "qwen3",
                                    [](Decoder& row) {
                                      row.head_features = {"head_dim", 128};
                                      row.attention_biases = {"attention_bias", false};
                                      row.output_bias = kAsAttention;
                                      row.query_key_norms = kYes;
                                    }),
                               like(kQwen2, "qwen3_moe",
                                    [](Decoder& row) {
                                      row.layers = {"num_hidden_layers", 24};
                                      row.width = {"hidden_size", 2048};
                                      row.feed_forward = {"intermediate_size", 6144};
                                      row.kv_heads = {"num_key_value_heads", 4};
                                      row.attention_biases = {"attention_bias", false};
                                      row.output_bias = kAsAttention;
                                      row.query_key_norms = kYes;
                                      row.adjust = adjust_qwen_experts;
                                    }),
                               like(kQwen2, "qwen2_moe",
                                    [](Decoder& row) {
                                      row.layers = {"num_hidden_layers", 24};
                                      row.width = {"hidden_size", 2048};
                                      row.heads = {"num_attention_heads", 16};
                                      row.feed_forward = {"intermediate_size", 5632};
                                      row.kv_heads = {"num_key_value_heads", 16};
                                      row.attention_biases = {"qkv_bias", true};
                                      row.adjust = adjust_qwen_experts;
                                    }),
                               kDeepseek,
                               like(kDeepseek, "kimi_k2",
                                    [](Decoder& row) {
                                      row.vocabulary = {"vocab_size", 163840};
                                    }),
                               like(kDeepseek, "deepseek_v2",
                                    [](Decoder& row) {
                                      row.layers = {"num_hidden_layers", 32};
                                      row.width = {"hidden_size", 4096};
                                      row.heads = {"num_attention_heads", 32};
                                      row.vocabulary = {"vocab_size", 32000};
                                      row.feed_forward = {"intermediate_size", 11008};
                                      row.longest = {"max_position_embeddings", 2048};
                                    }),
                               Decoder{.type = "gpt_oss",
                                       .layers = {"num_hidden_layers", 36},
                                       .width = {"hidden_size", 2880},
                                       .heads = {"num_attention_heads", 64},
                                       .vocabulary = {"vocab_size", 201088},
                                       .feed_forward = {"intermediate_size", 2880},
                                       .longest = {"max_position_embeddings", 131072},
                                       .kv_heads = {"num_key_value_heads", 8},
                                       .head_features = {"head_dim", 64},
                                       .attention_biases = {"attention_bias", true},
                                       .window = 128,
                                       .adjust = adjust_gpt_oss},
                               Decoder{.type = "llama4_text",
                                       .layers = {"num_hidden_layers", 48},
                                       .width = {"hidden_size", 5120},
                                       .heads = {"num_attention_heads", 40},
                                       .vocabulary = {"vocab_size", 202048},
                                       .feed_forward = {"intermediate_size", 8192},
                                       .longest = {"max_position_embeddings", 131072},
                                       .kv_heads = {"num_key_value_heads", 8},
                                       .head_features = {"head_dim", 128},
                                       .attention_biases = {"attention_bias", false},
                                       .query_key_norms = {"use_qk_norm", true},
                                       .adjust = adjust_llama4},
                               Decoder{.type = "grok-1",
                                       .layers = {"num_hidden_layers", 64},
                                       .width = {"hidden_size", 6144},
                                       .heads = {"num_attention_heads", 48},
                                       .vocabulary = {"vocab_size", 131072},
                                       .feed_forward = {"intermediate_size", 32768},
                                       .longest = {"max_position_embeddings", 8192},
                                       .kv_heads = {"num_key_value_heads", 8},
                                       .normalisation = "sandwich",
                                       .tied = {"tie_word_embeddings", true},
                                       .adjust = adjust_grok},
                               Decoder{.type = "gemma",
                                       .layers = {"num_hidden_layers", 28},
                                       .width = {"hidden_size", 3072},
                                       .heads = {"num_attention_heads", 16},
                                       .vocabulary = {"vocab_size", 256000},
                                       .feed_forward = {"intermediate_size", 24576},
                                       .longest = {"max_position_embeddings", 8192},
                                       .kv_heads = {"num_key_value_heads", 16},
                                       .head_features = {"head_dim", 256},
                                       .attention_biases = {"attention_bias", false},
                                       .tied = {"tie_word_embeddings", true}},
                               kGemma2,
                               like(kGemma2, "gemma3_text",
                                    [](Decoder& row) {
                                      row.vocabulary = {"vocab_size", 262208};
                                      row.longest = {"max_position_embeddings", 131072};
                                      row.query_key_norms = kYes;
                                      row.adjust = nullptr;
                                    }),
                               Decoder{.type = "phi",
                                       .layers = {"num_hidden_layers", 24},
                                       .width = {"hidden_size", 2048},
                                       .vocabulary = {"vocab_size", 51200},
                                       .feed_forward = {"intermediate_size", 8192},
                                       .has_rms_norms = false,
                                       .has_gates = false,
                                       .attention_biases = kYes,
                                       .feed_forward_biases = kYes,
                                       .logits_bias = kYes,
                                       .parallel = kYes,
                                       .has_shared_norm = true,
                                       .dropouts = "resid_pdrop embd_pdrop attention_dropout",
                                       .adjust = adjust_phi},
                               Decoder{.type = "phi3",
                                       .width = {"hidden_size", 3072},
                                       .vocabulary = {"vocab_size", 32064},
                                       .feed_forward = {"intermediate_size", 8192},
                                       .longest = {"max_position_embeddings", 4096},
                                       .has_joint_projection = true},
                               kGpt2,
                               like(kGpt2, "gpt_bigcode", [](Decoder& row) { row.adjust = adjust_bigcode; }),
                               Decoder{.type = "gpt_neo",
                                       .layers = {"num_layers num_hidden_layers", 24},
                                       .width = {"hidden_size", 2048},
                                       .heads = {"num_heads num_attention_heads", 16},
                                       .vocabulary = {"vocab_size", 50257},
                                       .feed_forward = {"intermediate_size", 0},
                                       .kv_heads = kNotStated,
                                       .head_features = kNotStated,
                                       .positions = Positions::kLearned,
                                       .has_rms_norms = false,
                                       .has_gates = false,
                                       .output_bias = kYes,
                                       .feed_forward_biases = kYes,
                                       .tied = {"tie_word_embeddings", true},
                                       .dropouts = "resid_dropout embed_dropout attention_dropout",
                                       .adjust = adjust_gpt_neo},
                               kGptJ,
                               like(kGptJ, "codegen",
                                    [](Decoder& row) {
                                      row.has_joint_projection = true;
                                      row.adjust = nullptr;
                                    }),
                               Decoder{.type = "gpt_neox",
                                       .layers = {"num_hidden_layers", 44},
                                       .width = {"hidden_size", 6144},
                                       .heads = {"num_attention_heads", 64},
                                       .vocabulary = {"vocab_size", 50432},
                                       .feed_forward = {"intermediate_size", 24576},
                                       .kv_heads = kNotStated,
                                       .head_features = kNotStated,
                                       .has_rms_norms = false,
                                       .has_gates = false,
                                       .has_joint_projection = true,
                                       .attention_biases = {"attention_bias", true},
                                       .feed_forward_biases = kYes,
                                       .parallel = {"use_parallel_residual", true},
                                       .dropouts = "hidden_dropout attention_dropout"},
                               Decoder{.type = "opt",
                                       .layers = {"num_hidden_layers", 12},
                                       .width = {"hidden_size", 768},
                                       .heads = {"num_attention_heads", 12},
                                       .vocabulary = {"vocab_size", 50272},
                                       .feed_forward = {"ffn_dim", 3072},
                                       .kv_heads = kNotStated,
                                       .head_features = kNotStated,
                                       .positions = Positions::kLearned,
                                       .position_offset = 2,
                                       .has_rms_norms = false,
                                       .has_gates = false,
                                       .attention_biases = {"enable_bias", true},
                                       .feed_forward_biases = {"enable_bias", true},
                                       .tied = {"tie_word_embeddings", true},
                                       .dropouts = "dropout attention_dropout",
                                       .adjust = adjust_opt},
                               Decoder{.type = "bloom",
                                       .layers = {"n_layer num_hidden_layers", 2},
                                       .width = {"hidden_size n_embed", 64},
                                       .heads = {"n_head num_attention_heads", 8},
                                       .vocabulary = {"vocab_size", 250880},
                                       .feed_forward = {"n_inner", 0},
                                       .longest = {"seq_length", 2048},
                                       .kv_heads = kNotStated,
                                       .head_features = kNotStated,
                                       .positions = Positions::kAlibi,
                                       .has_rms_norms = false,
                                       .normalises_embeddings = true,
                                       .has_gates = false,
                                       .has_joint_projection = true,
                                       .attention_biases = kYes,
                                       .feed_forward_biases = kYes,
                                       .tied = {"tie_word_embeddings", true},
                                       .dropouts = "hidden_dropout attention_dropout",
                                       .adjust = adjust_bloom},
                               Decoder{.type = "falcon",
                                       .layers = {"num_hidden_layers n_layer", 32},
                                       .width = {"hidden_size n_embed", 4544},
                                       .heads = {"num_attention_heads n_head", 71},
                                       .vocabulary = {"vocab_size", 65024},
                                       .feed_forward = {"ffn_hidden_size", 0},
                                       .kv_heads = kNotStated,
                                       .head_features = kNotStated,
                                       .has_rms_norms = false,
                                       .has_gates = false,
                                       .has_joint_projection = true,
                                       .attention_biases = {"bias", false},
                                       .feed_forward_biases = {"bias", false},
                                       .tied = {"tie_word_embeddings", true},
                                       .dropouts = "hidden_dropout attention_dropout",
                                       .adjust = adjust_falcon},
                               Decoder{.type = "mpt",
                                       .layers = {"n_layers num_hidden_layers", 24},
                                       .width = {"d_model hidden_size", 2048},
                                       .heads = {"n_heads num_attention_heads", 16},
                                       .vocabulary = {"vocab_size", 50368},
                                       .feed_forward = kNotStated,
                                       .longest = {"max_seq_len", 2048},
                                       .kv_heads = kNotStated,
                                       .head_features = kNotStated,
                                       .positions = Positions::kAlibi,
                                       .has_rms_norms = false,
                                       .has_norm_biases = false,
                                       .has_gates = false,
                                       .has_joint_projection = true,
                                       .tied = {"tie_word_embeddings", true},
                                       .dropouts = "resid_pdrop emb_pdrop",
                                       .adjust = adjust_mpt},
                               Decoder{.type = "stablelm",
                                       .width = {"hidden_size", 2560},
                                       .vocabulary = {"vocab_size", 50304},
                                       .feed_forward = {"intermediate_size", 6912},
                                       .longest = {"max_position_embeddings", 4096},
                                       .kv_heads = {"num_key_value_heads", 32},
                                       .head_features = kNotStated,
                                       .has_rms_norms = false,
                                       .attention_biases = {"use_qkv_bias", false},
                                       .output_bias = {},
                                       .parallel = {"use_parallel_residual", false},
                                       .has_shared_norm = true,
                                       .query_key_norms = {"qk_layernorm", false},
                                       .has_query_key_scales = true,
                                       .dropouts = "hidden_dropout attention_dropout"},
                               Decoder{.type = "starcoder2",
                                       .layers = {"num_hidden_layers", 30},
                                       .width = {"hidden_size", 3072},
                                       .heads = {"num_attention_heads", 24},
                                       .vocabulary = {"vocab_size", 49152},
                                       .feed_forward = {"intermediate_size", 12288},
                                       .longest = {"max_position_embeddings", 4096},
                                       .kv_heads = {"num_key_value_heads", 2},
                                       .has_rms_norms = false,
                                       .has_gates = false,
                                       .attention_biases = {"use_bias", true},
                                       .feed_forward_biases = {"use_bias", true},
                                       .tied = {"tie_word_embeddings", true},
                                       .dropouts = "residual_dropout embedding_dropout attention_dropout",
                                       .adjust = adjust_starcoder2},
                               Decoder{.type = "olmo",
                                       .vocabulary = {"vocab_size", 50304},
                                       .feed_forward = {"intermediate_size", 11008},
                                       .has_rms_norms = false,
                                       .has_norm_scales = false,
                                       .has_norm_biases = false,
                                       .attention_biases = {"attention_bias", false}},
                               kOlmo2,
                               like(kOlmo2, "olmo3", [](Decoder& row) { row.window = 4096; }),
                               like(kOlmo2, "olmoe",
                                    [](Decoder& row) {
                                      row.layers = {"num_hidden_layers", 16};
                                      row.width = {"hidden_size", 2048};
                                      row.heads = {"num_attention_heads", 16};
                                      row.feed_forward = {"intermediate_size", 2048};
                                      row.longest = {"max_position_embeddings", 4096};
                                      row.normalisation = "pre";
                                      row.adjust = adjust_experts;
                                    }),
                               like(kOlmo2, "exaone4",
                                    [](Decoder& row) {
                                      row.vocabulary = {"vocab_size", 102400};
                                      row.feed_forward = {"intermediate_size", 16384};
                                      row.kv_heads = {"num_key_value_heads", 32};
                                      row.attention_biases = {};
                                      row.has_query_key_scales = false;
                                      row.window = 4096;
                                      row.adjust = remark_on_positions;
                                    }),
                               kGlm,
                               like(kGlm, "glm4", [](Decoder& row) { row.normalisation = "sandwich"; }),
                               Decoder{.type = "seed_oss",
                                       .layers = {"num_hidden_layers", 64},
                                       .heads = {"num_attention_heads", 80},
                                       .vocabulary = {"vocab_size", 155136},
                                       .feed_forward = {"intermediate_size", 27648},
                                       .longest = {"max_position_embeddings", 524288},
                                       .kv_heads = {"num_key_value_heads", 8},
                                       .head_features = {"head_dim", 128},
                                       .attention_biases = {"attention_bias", true},
                                       .output_bias = {"attention_out_bias", false},
                                       .feed_forward_biases = {"mlp_bias", false},
                                       .dropouts = "residual_dropout attention_dropout",
                                       .dropout = 0.1},
                               Decoder{.type = "ernie4_5",
                                       .layers = {"num_hidden_layers", 18},
                                       .width = {"hidden_size", 1024},
                                       .heads = {"num_attention_heads", 16},
                                       .vocabulary = {"vocab_size", 103424},
                                       .feed_forward = {"intermediate_size", 3072},
                                       .longest = {"max_position_embeddings", 131072},
                                       .kv_heads = {"num_key_value_heads", 2},
                                       .head_features = {"head_dim", 128},
                                       .attention_biases = {"use_bias", false},
                                       .feed_forward_biases = {"use_bias", false},
                                       .tied = {"tie_word_embeddings", true}},
                               Decoder{.type = "biogpt",
                                       .layers = {"num_hidden_layers", 24},
                                       .width = {"hidden_size", 1024},
                                       .heads = {"num_attention_heads", 16},
                                       .vocabulary = {"vocab_size", 42384},
                                       .feed_forward = {"intermediate_size", 4096},
                                       .longest = {"max_position_embeddings", 1024},
                                       .kv_heads = kNotStated,
                                       .head_features = kNotStated,
                                       .positions = Positions::kLearned,
                                       .position_offset = 2,
                                       .has_rms_norms = false,
                                       .has_gates = false,
                                       .attention_biases = kYes,
                                       .feed_forward_biases = kYes,
                                       .tied = {"tie_word_embeddings", true},
                                       .dropouts = "hidden_dropout_prob attention_probs_dropout_prob",
                                       .dropout = 0.1,
                                       .adjust = adjust_biogpt},
                               Decoder{.type = "phimoe",
                                       .vocabulary = {"vocab_size", 32064},
                                       .feed_forward = {"intermediate_size", 6400},
                                       .longest = {"max_position_embeddings", 131072},
                                       .kv_heads = {"num_key_value_heads", 8},
                                       .has_rms_norms = false,
                                       .attention_biases = {"attention_bias", false},
                                       .logits_bias = {"lm_head_bias", false},
                                       .dropouts = "hidden_dropout attention_dropout",
                                       .adjust = adjust_experts},
                               kCohere,
                               like(kCohere, "cohere2",
                                    [](Decoder& row) {
                                      row.query_key_norms = {};
                                      row.window = 4096;
                                      row.adjust = remark_on_positions;
                                    }),
                               Decoder{.type = "nemotron",
                                       .width = {"hidden_size", 6144},
                                       .heads = {"num_attention_heads", 48},
                                       .vocabulary = {"vocab_size", 256000},
                                       .feed_forward = {"intermediate_size", 24576},
                                       .longest = {"max_position_embeddings", 4096},
                                       .has_rms_norms = false,
                                       .has_gates = false,
                                       .attention_biases = {"attention_bias", false},
                                       .feed_forward_biases = {"mlp_bias", false},
                                       .dropouts = "hidden_dropout attention_dropout"},
                               Decoder{.type = "smollm3",
                                       .layers = {"num_hidden_layers", 36},
                                       .width = {"hidden_size", 2048},
                                       .heads = {"num_attention_heads", 16},
                                       .vocabulary = {"vocab_size", 128256},
                                       .feed_forward = {"intermediate_size", 11008},
                                       .longest = {"max_position_embeddings", 32768},
                                       .kv_heads = {"num_key_value_heads", 4},
                                       .attention_biases = {"attention_bias", false},
                                       .feed_forward_biases = {"mlp_bias", false},
                                       .tied = {"tie_word_embeddings", true},
                                       .has_optional_window = true,
                                       .adjust = remark_on_positions},
                               Decoder{.type = "qwen",
                                       .vocabulary = {"vocab_size", 151936},
                                       .feed_forward = kNotStated,
                                       .longest = {"seq_length", 8192},
                                       .kv_heads = kNotStated,
                                       .head_features = kNotStated,
                                       .has_joint_projection = true,
                                       .attention_biases = kYes,
                                       .output_bias = {},
                                       .dropouts = "attn_dropout_prob emb_dropout_prob",
                                       .adjust = adjust_qwen},
                               Decoder{.type = "internlm2",
                                       .vocabulary = {"vocab_size", 103168},
                                       .feed_forward = {"intermediate_size", 11008},
                                       .head_features = kNotStated,
                                       .has_joint_projection = true,
                                       .attention_biases = {"bias", true},
                                       .dropouts = ""},
                               Decoder{.type = "baichuan",
                                       .vocabulary = {"vocab_size", 125696},
                                       .feed_forward = {"intermediate_size", 11008},
                                       .longest = {"max_position_embeddings", 4096},
                                       .kv_heads = kNotStated,
                                       .head_features = kNotStated,
                                       .has_joint_projection = true,
                                       .dropouts = "",
                                       .adjust = adjust_baichuan}};

/// Attention that sees only some of the positions before: its work is taken as that of all of them.
void remark_on_windows(Conversion& to, const Decoder& kind) {
  bool has_window = false;
  if (to.has("layer_types"))
    for (const std::string& layer : to.config.required<std::vector<std::string>>("layer_types")) {
      const bool is_chunked = to.type == "llama4_text" && layer == "chunked_attention";  // of more than is built
      if (layer != "full_attention" && layer != "sliding_attention" && !is_chunked)
        to.config.fail(
            "layer_types",
            "only layers of \"full_attention\" and \"sliding_attention\" are supported; found " + in_quotes(layer));
      has_window = has_window || layer == "sliding_attention";
    }
  const bool is_on = !kind.has_optional_window || to.flag("use_sliding_window", false);
  int window = kind.window;
  if (to.has("sliding_window"))
    window = std::max(0, to.config.required<int>("sliding_window"));
  else if (to.config.has("sliding_window"))
    window = 0;
  has_window = has_window || (is_on && window > 0);
  if (has_window && window > 0 && window < to.structure["sequence_length"].get<int>())
    to.remarks.push_back("a sliding window of " + std::to_string(window) +
                         " positions is not modelled: attention sees all positions, which is more work");
}

void set_sizes(Conversion& to, const Decoder& kind) {
  Json& structure = to.structure;
  structure["layers"] = to.size(kind.layers);
  structure["width"] = to.size(kind.width);
  structure["heads"] = to.size(kind.heads);
  structure["vocabulary"] = to.size(kind.vocabulary);
  const int four_times = 4 * structure["width"].get<int>();
  structure["feed_forward"] =
      kind.feed_forward.usual > 0 ? to.size(kind.feed_forward) : to.size_or(kind.feed_forward.names, four_times);
  // Null means as many as heads; only a key that is not there at all has the usual value.
  const std::string_view kv_key = kind.kv_heads.names;
  if (!kv_key.empty() && (to.has(kv_key) || (kind.kv_heads.usual > 0 && !to.config.has(kv_key))))
    structure["kv_heads"] = to.size(kind.kv_heads);
  const std::string_view head_key = kind.head_features.names;
  if (!head_key.empty() && (to.has(head_key) || (kind.head_features.usual > 0 && !to.config.has(head_key))))
    structure["head_features"] = to.size(kind.head_features);
  const int longest = to.size(kind.longest);
  if (kind.positions == Positions::kLearned) structure["positions"] = longest + kind.position_offset;
  to.set_sequence_length(longest);
}

}  // namespace

bool has_routed_experts(std::string_view type) {
  const auto* found = std::ranges::find(kExperts, type, &Experts::type);
  return found != kExperts.end() && found->count.names.starts_with("n_routed_experts");
}

bool has_experts(std::string_view type) { return std::ranges::find(kExperts, type, &Experts::type) != kExperts.end(); }

void convert_decoder(Conversion& to) {
  const Decoder& kind = *std::ranges::find(kDecoders, to.type, &Decoder::type);
  set_sizes(to, kind);
  Json& structure = to.structure;
  structure["normalisation"] = kind.normalisation;
  structure["rms_norm"] = kind.has_rms_norms;
  if (!kind.has_norm_scales) structure["norm_scales"] = false;
  if (!kind.has_norm_biases) structure["norm_biases"] = false;
  if (kind.normalises_embeddings) structure["normalises_embeddings"] = true;
  const bool has_biases = to.flag(kind.attention_biases);
  structure["attention_biases"] = has_biases;
  const bool is_as_attention = kind.output_bias.name != nullptr && std::string_view{kind.output_bias.name} == "-";
  structure["attention_output_bias"] = is_as_attention ? has_biases : to.flag(kind.output_bias);
  structure["feed_forward_biases"] = to.flag(kind.feed_forward_biases);
  structure["joint_projection"] = kind.has_joint_projection;
  structure["gated_feed_forward"] = kind.has_gates;
  structure["rotary_positions"] = kind.positions == Positions::kRotary;
  if (kind.positions == Positions::kAlibi) structure["alibi"] = true;
  if (to.flag(kind.parallel)) {
    structure["parallel_sublayers"] = true;
    structure["shared_norm"] = kind.has_shared_norm;
  }
  if (to.flag(kind.query_key_norms)) {
    structure["query_key_norms"] = true;
    structure["query_key_scales"] = kind.has_query_key_scales;
  }
  structure["dropout"] = to.has_dropout(kind.dropouts, kind.dropout);
  remark_on_windows(to, kind);
  if (kind.adjust != nullptr) kind.adjust(to);
  // "is_causal" is of the code beside the weights of models for embeddings.
  const bool sees_all =
      (to.type.starts_with("gemma") && to.flag("use_bidirectional_attention", false)) || !to.flag("is_causal", true);
  to.set_head(kind.tied.usual, !sees_all);
  if (to.made.head == "language_model" && to.flag(kind.logits_bias)) structure["logits_bias"] = true;
}

}  // namespace rehearse::huggingface
