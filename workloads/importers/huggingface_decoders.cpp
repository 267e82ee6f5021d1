// Decoders of words: from the keys of a file and the row of its type to a model.

#include <algorithm>

#include "sim/base/names.hpp"
#include "workloads/importers/huggingface_decoder_types.hpp"

namespace rehearse::huggingface {

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

namespace {

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

void convert_decoder(Conversion& to) {
  const Decoder& kind = decoder_of(to.type);
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
