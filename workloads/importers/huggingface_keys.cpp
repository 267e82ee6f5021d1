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
        "_from_model_config is_llama_config keys_to_ignore_at_inference output_router_logits router_aux_loss_coef "
        "router_jitter_noise"},
    KeysOfTypes{
        "gpt2 gpt_neox gpt_neo gpt_bigcode gptj codegen opt llama granite granitemoe mistral mixtral qwen2 qwen3 "
        "qwen2_moe qwen3_moe deepseek_v2 deepseek_v3 gpt_oss llama4_text gemma gemma2 gemma3_text phi phi3 phimoe "
        "bloom falcon mpt stablelm starcoder2 olmo olmo2 olmo3 "
        "olmoe "
        "cohere cohere2 nemotron smollm3 qwen internlm2 baichuan glm glm4 exaone4 seed_oss ernie4_5 biogpt t5 mt5",
        "is_decoder"},
    KeysOfTypes{"bert roberta camembert xlm-roberta electra",
                "directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head "
                "pooler_type"},
    KeysOfTypes{"gpt2 gpt_bigcode gptj codegen gpt_neo electra distilbert",
                "n_ctx summary_type summary_use_proj summary_activation summary_proj_to_labels summary_first_dropout "
                "summary_last_dropout scale_attn_weights scale_attn_by_inverse_layer_idx reorder_and_upcast_attn "
                "predict_special_tokens"},
    KeysOfTypes{
        "gpt_bigcode starcoder2",
        "attention_softmax_in_fp32 scale_attention_softmax_in_fp32 inference_runner max_batch_size pad_key_length "
        "pre_allocate_kv_cache validate_runner_input"},
    KeysOfTypes{"phi3", "full_attn_mod interpolate_factor"},
    KeysOfTypes{"gpt_neox wav2vec2 hubert", "attention_probs_dropout_prob hidden_dropout_prob"},
    KeysOfTypes{"electra", "generator_size generator_layerdrop"},
    KeysOfTypes{"gpt_neo", "attention_types attention_layers"},
    KeysOfTypes{"bloom falcon",
                "attention_softmax_in_fp32 bias_dropout_fusion masked_softmax_fusion offset_alibi skip_bias_add "
                "skip_bias_add_qkv slow_but_exact unk_token_id seq_length ff_factor activation"},
    KeysOfTypes{
        "mpt",
        "embedding_fraction init_config init_device learned_pos_emb logit_scale no_bias verbose tokenizer_name "
        "use_pad_tok_in_ffn fc_type alibi_bias_max attn_uses_sequence_id clip_qkv prefix_lm softmax_scale attn_pdrop"},
    KeysOfTypes{"cohere cohere2",
                "logit_scale order_of_interleaved_layers rotary_pct sliding_window_pattern "
                "layer_switch cache_implementation use_embedding_sharing use_gated_activation use_parallel_block "
                "use_parallel_embedding "
                "position_embedding_type"},
    KeysOfTypes{"granite granitemoe", "attention_multiplier embedding_multiplier logits_scaling residual_multiplier"},
    KeysOfTypes{"olmo olmo2 olmo3 olmoe", "clip_qkv"}, KeysOfTypes{"exaone4", "sliding_window_pattern"},
    KeysOfTypes{"biogpt", "scale_embedding activation_dropout"},
    KeysOfTypes{"gemma2 gemma3_text",
                "query_pre_attn_scalar attn_logit_softcapping final_logit_softcapping cache_implementation "
                "sliding_window_pattern _sliding_window_pattern sliding_window_size"},
    KeysOfTypes{"smollm3", "no_rope_layers no_rope_layer_interval"},
    KeysOfTypes{"qwen",
                "use_dynamic_ntk use_logn_attn use_cache_quantization use_cache_kernel onnx_safe bf16 fp16 fp32 "
                "softmax_in_fp32 max_position_embeddings scale_attn_weights"},
    KeysOfTypes{"baichuan", "z_loss_weight"},
    KeysOfTypes{"t5 mt5", "relative_attention_max_distance is_encoder_decoder tie_encoder_decoder"},
    KeysOfTypes{"bart mbart marian pegasus m2m_100 whisper",
                "is_encoder_decoder num_hidden_layers scale_embedding add_bias_logits add_final_layer_norm "
                "normalize_before normalize_embedding static_position_embeddings extra_pos_embeddings classif_dropout "
                "save_step do_blenderbot_90_layernorm force_bos_token_to_be_generated begin_suppress_tokens"},
    KeysOfTypes{"whisper",
                "apply_spec_augment mask_time_prob mask_time_length mask_time_min_masks mask_feature_prob "
                "mask_feature_length mask_feature_min_masks median_filter_width alignment_heads lang_to_id task_to_id "
                "use_weighted_layer_sum classifier_proj_size"},
    KeysOfTypes{"wav2vec2 hubert",
                "apply_spec_augment mask_time_length mask_time_min_masks mask_feature_length mask_feature_min_masks "
                "num_feat_extract_layers feat_extract_activation feat_extract_dropout feat_proj_dropout "
                "feat_quantizer_dropout final_dropout num_codevectors_per_group num_codevector_groups "
                "contrastive_logits_temperature num_negatives codevector_dim proj_codevector_dim diversity_loss_weight "
                "ctc_loss_reduction ctc_zero_infinity use_weighted_layer_sum classifier_proj_size tdnn_dim tdnn_kernel "
                "tdnn_dilation xvector_output_dim adapter_kernel_size adapter_stride num_adapter_layers "
                "output_hidden_size do_normalize gradient_checkpointing mask_channel_length mask_channel_min_space "
                "mask_channel_other mask_channel_prob mask_channel_selection mask_time_min_space mask_time_other "
                "mask_time_selection tokenizer_class"},
    KeysOfTypes{"distilbert", "activation tie_weights_ seq_classif_dropout qa_dropout"},
    KeysOfTypes{"deberta-v2", "legacy pooler_hidden_act conv_act"},
    KeysOfTypes{"albert", "net_structure_type gap_size num_memory_blocks down_scale_factor"},
    KeysOfTypes{"vit deit", "encoder_stride pooler_act"},
    KeysOfTypes{"clip clip_text_model clip_vision_model",
                "logit_scale_init_value projection_dim is_decoder tie_encoder_decoder"},
    KeysOfTypes{
        "llama granite granitemoe mistral mixtral qwen2 qwen2_moe qwen3 qwen3_moe gemma gemma2 gemma3_text phi3 phimoe "
        "smollm3 olmo olmo2 olmo3 olmoe glm glm4 exaone4 seed_oss ernie4_5",
        "max_window_layers use_sliding_window use_mrope resid_pdrop embd_pdrop"},
    KeysOfTypes{"mixtral qwen2_moe qwen3_moe olmoe deepseek_v2 deepseek_v3 kimi_k2", "norm_topk_prob"},
    KeysOfTypes{"deepseek_v2 deepseek_v3 kimi_k2",
                "n_group topk_group scoring_func routed_scaling_factor seq_aux aux_loss_alpha ep_size"},
    KeysOfTypes{"gpt_oss", "initial_context_length swiglu_limit"},
    KeysOfTypes{"grok-1", "attn_output_multiplier max_attn_value embedding_multiplier_scale output_multiplier_scale"},
    KeysOfTypes{"llama4_text",
                "no_rope_layers no_rope_layer_interval attention_chunk_size attn_temperature_tuning floor_scale "
                "attn_scale for_llm_compressor router_jitter_noise"},
    // What the generator of tiny random models writes into configurations of all types.
    KeysOfTypes{
        "llama mistral mixtral qwen2 qwen2_moe qwen3 qwen3_moe deepseek_v2 deepseek_v3 gpt_oss llama4_text gemma "
        "gemma2 gemma3_text phi phi3 phimoe granite granitemoe "
        "gpt_neox stablelm starcoder2 olmo olmo2 olmo3 olmoe cohere cohere2 nemotron smollm3 falcon bloom codegen gptj",
        "type_vocab_size type_sequence_label_size num_choices"}};

/// Endings and beginnings of keys of which there are many.
constexpr std::array<std::string_view, 9> kHarmlessEndings{
    "_token_id", "_token_ids", "_eps", "_epsilon", "_token", "_dropout", "_std", "_pdrop", "_dropout_prob"};
constexpr std::array<std::string_view, 3> kHarmlessBeginnings{"rope_", "rotary_", "tokenizer_"};

constexpr std::array<std::string_view, 77> kStructural{
    "layer",  "head",        "hidden", "dim",     "size",     "num_",    "_num",   "expert", "moe",      "atten",
    "attn",   "cross",       "encod",  "decod",   "embed",    "vocab",   "bias",   "norm",   "proj",     "mlp",
    "ffn",    "ff_",         "inner",  "width",   "depth",    "rank",    "lora",   "adapt",  "vision",   "audio",
    "image",  "text_config", "tower",  "block",   "window",   "state",   "conv",   "ssm",    "mamba",    "pool",
    "kv",     "query",       "gate",   "tie_",    "tied",     "share",   "stride", "patch",  "channel",  "kernel",
    "medusa", "eagle",       "draft",  "mtp",     "nextn",    "predict", "memor",  "group",  "position", "stage",
    "module", "residual",    "skip",   "recur",   "parallel", "quant",   "qk",     "glu",    "feed",     "rotary",
    "alibi",  "rel_",        "prompt", "prefix_", "rnn",      "lstm",    "crf"};

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
