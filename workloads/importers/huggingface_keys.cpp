#include "workloads/importers/huggingface_keys.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace rehearse {

namespace {

struct KeysOfTypes {
  std::string_view types, keys;  // between blanks; no types: all of them
};

// Sources: PretrainedConfig, GenerationConfig and the configuration classes of the model types in transformers 4.0 to
// 5.0; what old files of the same types have besides.
constexpr std::array kWithoutEffect{
    KeysOfTypes{
        "",
        "model_type architectures transformers_version torch_dtype dtype name _name_or_path name_or_path _commit_hash "
        "initializer_range initializer_factor init_std use_cache output_past output_attentions output_hidden_states "
        "return_dict use_return_dict output_scores output_logits return_dict_in_generate task_specific_params "
        "finetuning_task problem_type label2id id2label num_labels _num_labels gradient_checkpointing auto_map prefix "
        "tokenizer_class pad_token bos_token eos_token max_length min_length max_new_tokens min_new_tokens do_sample "
        "early_stopping num_beams num_beam_groups diversity_penalty temperature top_k top_p min_p typical_p "
        "repetition_penalty length_penalty encoder_repetition_penalty no_repeat_ngram_size "
        "encoder_no_repeat_ngram_size bad_words_ids num_return_sequences remove_invalid_values suppress_tokens "
        "begin_suppress_tokens exponential_decay_length_penalty forced_decoder_ids generation_config "
        "chunk_size_feed_forward use_bfloat16 tf_legacy_loss is_composition xla_device "
        "hidden_act hidden_activation activation_function dense_act_fn is_gated_act attn_implementation "
        "_attn_implementation _attn_implementation_autoset _attn_implementation_internal _flash_attn_2_enabled "
        "transformers.js_config neuron unsloth_version unsloth_fixed model_max_length max_sequence_length "
        "pretraining_tp partial_rotary_factor original_max_position_embeddings classifier_dropout "
        "classifier_dropout_prob license language description _configuration_file "
        "keys_to_ignore_at_inference output_router_logits router_aux_loss_coef router_jitter_noise"},
    KeysOfTypes{"gpt2 gpt_neox opt llama mistral mixtral qwen2 qwen3 gemma phi3 t5 mt5", "is_decoder"},
    KeysOfTypes{"bert roberta camembert xlm-roberta",
                "directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head "
                "pooler_type"},
    KeysOfTypes{"gpt2",
                "n_ctx summary_type summary_use_proj summary_activation summary_proj_to_labels summary_first_dropout "
                "scale_attn_weights scale_attn_by_inverse_layer_idx reorder_and_upcast_attn predict_special_tokens"},
    KeysOfTypes{"t5 mt5", "relative_attention_max_distance is_encoder_decoder tie_encoder_decoder"},
    KeysOfTypes{"llama mistral mixtral qwen2 qwen3 gemma phi3",
                "max_window_layers use_sliding_window use_mrope resid_pdrop embd_pdrop"},
    KeysOfTypes{"mixtral", "norm_topk_prob"}};

/// Endings and beginnings of keys of which there are many.
constexpr std::array<std::string_view, 8> kHarmlessEndings{"_token_id", "_token_ids", "_eps", "_epsilon",
                                                           "_token",    "_dropout",   "_std", "_pdrop"};
constexpr std::array<std::string_view, 3> kHarmlessBeginnings{"rope_", "rotary_", "tokenizer_"};

constexpr std::array<std::string_view, 66> kStructural{
    "layer",  "head",        "hidden", "dim",   "size",     "num_",    "_num",   "expert", "moe",      "atten",
    "attn",   "cross",       "encod",  "decod", "embed",    "vocab",   "bias",   "norm",   "proj",     "mlp",
    "ffn",    "ff_",         "inner",  "width", "depth",    "rank",    "lora",   "adapt",  "vision",   "audio",
    "image",  "text_config", "tower",  "block", "window",   "state",   "conv",   "ssm",    "mamba",    "pool",
    "kv",     "query",       "gate",   "tie_",  "tied",     "share",   "stride", "patch",  "channel",  "kernel",
    "medusa", "eagle",       "draft",  "mtp",   "nextn",    "predict", "memor",  "group",  "position", "stage",
    "module", "residual",    "skip",   "recur", "parallel", "quant"};

bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

}  // namespace

bool is_without_effect(std::string_view type, std::string_view key) {
  const auto ends = [&](std::string_view ending) { return key.ends_with(ending); };
  const auto begins = [&](std::string_view beginning) { return key.starts_with(beginning); };
  if (std::ranges::any_of(kHarmlessEndings, ends) || std::ranges::any_of(kHarmlessBeginnings, begins)) return true;
  return std::ranges::any_of(kWithoutEffect, [&](const KeysOfTypes& row) {
    return (row.types.empty() || has_word(row.types, type)) && has_word(row.keys, key);
  });
}

bool tells_of_structure(std::string_view key) {
  std::string lower{key};
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower.starts_with("n_") || lower.starts_with("d_") || lower.find("_n_") != std::string::npos) return true;
  return std::ranges::any_of(kStructural, [&](std::string_view part) { return lower.find(part) != std::string::npos; });
}

}  // namespace rehearse
