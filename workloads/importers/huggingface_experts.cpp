// Mixtures of experts: their keys and defaults by model type.

#include <algorithm>
#include <array>

#include "workloads/importers/huggingface_decoder_types.hpp"

namespace rehearse::huggingface {

namespace {

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

}  // namespace

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

bool has_routed_experts(std::string_view type) {
  const auto* found = std::ranges::find(kExperts, type, &Experts::type);
  return found != kExperts.end() && found->count.names.starts_with("n_routed_experts");
}

bool has_experts(std::string_view type) { return std::ranges::find(kExperts, type, &Experts::type) != kExperts.end(); }

}  // namespace rehearse::huggingface
