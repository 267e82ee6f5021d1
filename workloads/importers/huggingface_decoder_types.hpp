#pragma once
// What a model type of transformers that decodes words has, as a row of a table.

#include <string_view>

#include "workloads/importers/huggingface_conversion.hpp"

namespace rehearse::huggingface {

enum class Positions { kRotary, kLearned, kAlibi };
constexpr Flag kAsAttention{"-"};  // of the output: as attention_biases

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

/// The row of a type that is in the tables of huggingface.cpp.
const Decoder& decoder_of(std::string_view type);

// What the keys of some types say besides.
void adjust_biogpt(Conversion& to);
void adjust_opt(Conversion& to);
void adjust_bloom(Conversion& to);
void adjust_falcon(Conversion& to);
void adjust_bigcode(Conversion& to);
void adjust_mpt(Conversion& to);
void adjust_gemma2(Conversion& to);
void adjust_gpt_neo(Conversion& to);
void adjust_qwen(Conversion& to);
void adjust_baichuan(Conversion& to);
void adjust_starcoder2(Conversion& to);
void adjust_gptj(Conversion& to);
void adjust_phi(Conversion& to);
void remark_on_positions(Conversion& to);

// .. whose layers are mixtures of experts.
void adjust_experts(Conversion& to);
void adjust_qwen_experts(Conversion& to);
void adjust_deepseek(Conversion& to);
void adjust_gpt_oss(Conversion& to);
void adjust_llama4(Conversion& to);
void adjust_grok(Conversion& to);

}  // namespace rehearse::huggingface
