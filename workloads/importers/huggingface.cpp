#include "workloads/importers/huggingface.hpp"

#include <algorithm>
#include <map>

#include "sim/base/names.hpp"
#include "workloads/sizes.hpp"

namespace rehearse {

namespace {

constexpr int kLongestSequence = 4096;  // longer ones are trained with sequences parted among GPUs

/// One configuration on its way to a model of family "transformer".
struct Conversion {
  JsonReader config;
  Json structure{{"family", "transformer"}};
  std::vector<std::string> remarks{};

  bool has(const char* key) const { return config.has(key) && !config.child(key).is_null(); }
  int size(const char* key) const { return read_size(config, key); }
  int size_or(const char* key, int fallback) const { return has(key) ? size(key) : fallback; }
  bool flag(const char* key, bool fallback) const { return has(key) ? config.required<bool>(key) : fallback; }
  std::string text(const char* key, const char* fallback) const {
    return has(key) ? config.required<std::string>(key) : fallback;
  }
  /// Whether one of the "architectures" has `part` in its name.
  bool is_for(std::string_view part) const {
    if (!has("architectures")) return false;
    const auto names = config.required<std::vector<std::string>>("architectures");
    return std::ranges::any_of(names, [&](const std::string& name) { return name.find(part) != std::string::npos; });
  }
  bool has_dropout(std::initializer_list<const char*> keys, double fallback) const {
    return std::ranges::any_of(
        keys, [&](const char* key) { return (has(key) ? config.required<double>(key) : fallback) > 0; });
  }

  void set_sizes(const char* layers, const char* width, const char* heads) {
    structure["layers"] = size(layers);
    structure["width"] = size(width);
    structure["heads"] = size(heads);
    structure["vocabulary"] = size("vocab_size");
  }
  void set_sequence_length(int longest) {
    structure["sequence_length"] = std::min(longest, kLongestSequence);
    if (longest > kLongestSequence)
      remarks.push_back("sequence_length is " + std::to_string(kLongestSequence) + "; the model takes up to " +
                        std::to_string(longest));
  }
  void set_language_model(bool is_tied) {
    structure["head"] = "language_model";
    structure["tied_embedding"] = flag("tie_word_embeddings", is_tied);
  }
};

void convert_gpt2(Conversion& to) {
  to.set_sizes("n_layer", "n_embd", "n_head");
  to.structure["feed_forward"] = to.size_or("n_inner", 4 * to.size("n_embd"));
  to.structure["positions"] = to.size("n_positions");
  to.set_sequence_length(to.size("n_positions"));
  to.structure["normalisation"] = "pre";
  to.structure["joint_projection"] = true;
  to.structure["dropout"] = to.has_dropout({"resid_pdrop", "embd_pdrop", "attn_pdrop"}, 0.1);
  to.set_language_model(true);
}

void convert_gpt_neox(Conversion& to) {
  to.set_sizes("num_hidden_layers", "hidden_size", "num_attention_heads");
  to.structure["feed_forward"] = to.size("intermediate_size");
  to.set_sequence_length(to.size("max_position_embeddings"));
  to.structure["normalisation"] = "pre";
  to.structure["joint_projection"] = true;
  to.structure["rotary_positions"] = true;
  to.structure["parallel_sublayers"] = to.flag("use_parallel_residual", true);
  to.structure["attention_biases"] = to.flag("attention_bias", true);
  to.structure["dropout"] = to.has_dropout({"hidden_dropout", "attention_dropout"}, 0);
  to.set_language_model(false);
}

void convert_opt(Conversion& to) {
  constexpr int kOffset = 2;  // rows of the table of positions before the first
  to.set_sizes("num_hidden_layers", "hidden_size", "num_attention_heads");
  const int width = to.size("hidden_size");
  if (to.size_or("word_embed_proj_dim", width) != width)
    to.config.fail("word_embed_proj_dim", "an embedding narrower than the model is not supported");
  to.structure["feed_forward"] = to.size("ffn_dim");
  to.structure["positions"] = to.size("max_position_embeddings") + kOffset;
  to.set_sequence_length(to.size("max_position_embeddings"));
  to.structure["normalisation"] = to.flag("do_layer_norm_before", true) ? "pre" : "post";
  to.structure["attention_biases"] = to.structure["feed_forward_biases"] = to.flag("enable_bias", true);
  to.structure["dropout"] = to.has_dropout({"dropout", "attention_dropout"}, 0);
  to.set_language_model(true);
}

/// BERT and RoBERTa, whose table of positions has two rows before the first.
void convert_bert(Conversion& to) {
  const bool is_roberta = to.config.required<std::string>("model_type") == "roberta";
  to.set_sizes("num_hidden_layers", "hidden_size", "num_attention_heads");
  to.structure["feed_forward"] = to.size("intermediate_size");
  const int positions = to.size("max_position_embeddings"), length = positions - (is_roberta ? 2 : 0);
  to.config.expect(length >= 1, "max_position_embeddings", "more than 2 positions");
  to.structure["positions"] = positions;
  to.structure["token_types"] = to.size_or("type_vocab_size", 2);
  to.set_sequence_length(length);
  to.structure["normalisation"] = "post";
  to.structure["normalises_embeddings"] = true;
  to.structure["dropout"] = to.has_dropout({"hidden_dropout_prob", "attention_probs_dropout_prob"}, 0.1);
  to.structure["head"] = "pooler";
  if (to.is_for("MaskedLM")) {
    to.structure["head"] = "masked_language_model";
  } else if (to.is_for("ForPreTraining")) {
    to.structure["head"] = "bert_pretraining";
    to.structure["predictions"] = to.structure["sequence_length"];
  } else if (to.is_for("For")) {
    to.remarks.emplace_back("the head of its task is left out: a pooler stands for it");
  }
}

/// Llama and what followed it: RMS normalisation, gates, rotary positions, heads that share keys and values.
void convert_llama(Conversion& to) {
  const auto type = to.config.required<std::string>("model_type");
  const bool is_qwen = type == "qwen2", is_gemma = type == "gemma";
  to.set_sizes("num_hidden_layers", "hidden_size", "num_attention_heads");
  to.structure["feed_forward"] = to.size("intermediate_size");
  if (to.has("num_key_value_heads")) to.structure["kv_heads"] = to.size("num_key_value_heads");
  if (to.has("head_dim")) to.structure["head_features"] = to.size("head_dim");
  to.set_sequence_length(to.size("max_position_embeddings"));
  to.structure["normalisation"] = "pre";
  to.structure["rms_norm"] = true;
  to.structure["attention_biases"] = is_qwen || to.flag("attention_bias", false);
  to.structure["attention_output_bias"] = !is_qwen && to.flag("attention_bias", false);
  to.structure["feed_forward_biases"] = to.flag("mlp_bias", false);
  to.structure["joint_projection"] = type == "phi3";
  to.structure["gated_feed_forward"] = true;
  to.structure["rotary_positions"] = true;
  to.structure["dropout"] = to.has_dropout({"attention_dropout"}, 0);
  to.set_language_model(is_gemma);
}

void convert_mixtral(Conversion& to) {
  convert_llama(to);
  to.structure["experts"] = to.size_or("num_local_experts", 8);
  to.structure["experts_per_token"] = to.size_or("num_experts_per_tok", 2);
  to.remarks.emplace_back("tokens are taken to be spread evenly over the experts, and each worker has all of these");
}

void convert_t5(Conversion& to) {
  constexpr int kUsualLength = 512;
  to.set_sizes("num_layers", "d_model", "num_heads");
  to.structure["decoder_layers"] = to.size_or("num_decoder_layers", to.size("num_layers"));
  to.structure["head_features"] = to.size("d_kv");
  to.structure["feed_forward"] = to.size("d_ff");
  to.structure["relative_positions"] = to.size_or("relative_attention_num_buckets", 32);
  to.structure["sequence_length"] = to.size_or("n_positions", kUsualLength);
  to.structure["normalisation"] = "pre";
  to.structure["rms_norm"] = true;
  to.structure["attention_biases"] = to.structure["feed_forward_biases"] = false;
  to.structure["gated_feed_forward"] = to.text("feed_forward_proj", "relu").starts_with("gated-");
  to.structure["dropout"] = to.has_dropout({"dropout_rate"}, 0.1);
  to.set_language_model(true);
}

const std::map<std::string, void (*)(Conversion&)>& conversions() {
  static const std::map<std::string, void (*)(Conversion&)> all{
      {"bert", convert_bert},       {"gemma", convert_llama},
      {"gpt2", convert_gpt2},       {"gpt_neox", convert_gpt_neox},
      {"llama", convert_llama},     {"mistral", convert_llama},
      {"mixtral", convert_mixtral}, {"opt", convert_opt},
      {"phi3", convert_llama},      {"qwen2", convert_llama},
      {"roberta", convert_bert},    {"t5", convert_t5},
      {"mt5", convert_t5}};
  return all;
}

}  // namespace

bool is_huggingface_config(const Source& source) {
  return source.is_json() && source.json().is_object() && source.json().contains("model_type");
}

ImportedModel read_huggingface_config(const Source& source) {
  Conversion to{.config = JsonReader{source.json(), source.name()}};
  const auto type = to.config.required<std::string>("model_type");
  for (const char* key : {"num_local_experts", "num_experts", "n_routed_experts"})
    if (type != "mixtral" && to.has(key))
      to.config.fail(key, "mixtures of experts other than Mixtral's are not supported");
  const auto conversion = conversions().find(type);
  if (conversion == conversions().end()) {
    std::vector<std::string> known;
    for (const auto& [name, convert] : conversions()) known.push_back(name);
    to.config.fail("model_type", unknown_name_message("model type", type, known));
  }
  conversion->second(to);
  for (const char* key : {"_attn_implementation", "attn_implementation"})
    if (const std::string kernels = to.text(key, "eager");
        kernels != "eager" && !to.structure.contains("relative_positions"))
      to.structure["fused_attention"] = true;  // "sdpa", "flash_attention_2"
  return {.model_file = model_file(source, "HuggingFace configuration (" + type + ")", std::move(to.structure)),
          .remarks = std::move(to.remarks)};
}

}  // namespace rehearse
