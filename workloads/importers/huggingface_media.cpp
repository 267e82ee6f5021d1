// Transformers of images and sound, and of images with texts.

#include "sim/base/names.hpp"
#include "workloads/importers/huggingface_conversion.hpp"
#include "workloads/importers/huggingface_keys.hpp"

namespace rehearse::huggingface {

namespace {

/// Layers with a normalisation before each sublayer, of a model or of a part of one, with the names of ViT.
Json pre_norm_stack(const Conversion& to, int usual_width, int usual_heads, int usual_feed_forward) {
  return {{"layers", to.size("num_hidden_layers", 12)},
          {"width", to.size("hidden_size", usual_width)},
          {"heads", to.size("num_attention_heads", usual_heads)},
          {"feed_forward", to.size("intermediate_size", usual_feed_forward)},
          {"normalisation", "pre"}};
}

/// Patches behind class tokens, with a learned position for each.
void add_images(const Conversion& to, Json& structure, int usual_patch, int class_tokens, bool has_bias) {
  const int size = to.size("image_size", 224), patch = to.size("patch_size", usual_patch);
  to.config.expect(patch <= size, "patch_size", "at most \"image_size\"");
  structure["images"] = {{"size", size},
                         {"channels", to.size("num_channels", 3)},
                         {"patch", patch},
                         {"class_tokens", class_tokens},
                         {"biases", has_bias}};
  const std::int64_t side = size / patch;
  structure["positions"] = std::min<std::int64_t>(side * side + class_tokens, kMaxModelSize);
}

/// A part of CLIP: `config` holds its keys.
Json clip_part(Conversion& to, const JsonReader& config, bool has_images) {
  Conversion part{.config = config, .type = to.type};
  Json structure = has_images ? pre_norm_stack(part, 768, 12, 3072) : pre_norm_stack(part, 512, 8, 2048);
  structure["head"] = "hidden_states";
  structure["dropout"] = part.has_dropout("attention_dropout dropout", 0);
  if (has_images) {
    add_images(part, structure, 32, 1, false);
    structure["normalises_embeddings"] = true;
  } else {
    structure["vocabulary"] = part.size("vocab_size", 49408);
    structure["positions"] = structure["sequence_length"] = part.size("max_position_embeddings", 77);
    structure["causal"] = true;
  }
  for (const std::string& size : part.defaults)
    to.defaults.push_back(std::string{has_images ? "vision " : "text "} + size);
  if (to.type == "clip") {
    refuse_what_is_not_built(part);
    (void)part.has("tie_word_embeddings");  // there are no logits
    check_other_keys(part);
    to.remarks.insert(to.remarks.end(), part.remarks.begin(), part.remarks.end());
  }
  to.used.merge(part.used);
  return structure;
}

/// Whether a part says of a size or layer what the one that counts does not.
bool says_otherwise(const std::string& type, const Json& part, const Json& counts) {
  return std::ranges::any_of(part.items(), [&](const auto& item) {
    return !is_without_effect(type, item.key()) && (!counts.contains(item.key()) || counts[item.key()] != item.value());
  });
}

}  // namespace

/// ViT, and DeiT with its token for the teacher.
void convert_vision(Conversion& to) {
  const Json family = to.structure;
  to.structure = pre_norm_stack(to, 768, 12, 3072);
  to.structure.update(family);
  add_images(to, to.structure, 16, to.type == "deit" ? 2 : 1, true);
  if (const int width = to.structure["width"].get<int>(); to.size_or("pooler_output_size", width) != width)
    to.config.fail("pooler_output_size", "a pooler of another width than the model's is not supported");
  const bool has_biases = to.flag("qkv_bias", true);
  to.structure["attention_biases"] = has_biases;
  to.structure["attention_output_bias"] = true;
  to.structure["dropout"] = to.has_dropout("hidden_dropout_prob attention_probs_dropout_prob", 0);
  to.set_head(true, false);
}

void convert_clip(Conversion& to) {
  if (to.type != "clip") {
    const Json part = clip_part(to, to.config, to.type == "clip_vision_model");
    to.structure.update(part);
    if (to.made.head == "first_classes") to.made.classes = to.size("projection_dim", 512);
    to.set_head(true, to.type == "clip_text_model");
    return;
  }
  to.structure = {{"family", "two_towers"}, {"projection", to.size("projection_dim", 512)}};
  const auto part_of = [&](const char* key, const char* old_key, bool has_images) {
    const bool is_old = to.has(old_key), has_both = to.has(key) && is_old;
    if (!to.has(key) && !is_old) to.config.fail(std::string{"expected \""} + key + "\"");
    const JsonReader part = to.config.child(is_old ? old_key : key);
    part.expect(part.is_object(), "an object");
    if (has_both && says_otherwise(to.type, to.config.child(key).value(), part.value()))
      to.remarks.push_back(std::string{old_key} + " counts, with transformers' sizes where it states none, and " + key +
                           ", which differs, does not: so transformers reads a file with both");
    return clip_part(to, part, has_images);
  };
  to.structure["text"] = part_of("text_config", "text_config_dict", false);
  to.structure["image"] = part_of("vision_config", "vision_config_dict", true);
}

void convert_whisper(Conversion& to) {
  Json& structure = to.structure;
  structure["layers"] = to.size("encoder_layers num_hidden_layers", 4);
  structure["decoder_layers"] = to.size("decoder_layers", 4);
  structure["width"] = to.size("d_model hidden_size", 384);
  structure["heads"] = to.size("encoder_attention_heads num_attention_heads", 6);
  structure["feed_forward"] = to.size("encoder_ffn_dim", 1536);
  structure["vocabulary"] = to.size("vocab_size", 51865);
  for (const auto& [key, encoders, usual] :
       {std::tuple{"decoder_attention_heads", "heads", 6}, std::tuple{"decoder_ffn_dim", "feed_forward", 1536}})
    if (to.size(key, usual) != structure[encoders].get<int>())
      to.config.fail(key, "a decoder with another size than the encoder's is not supported");
  const int positions = to.size("max_source_positions", 1500);
  structure["sequence_length"] = positions;
  structure["spectrogram"] = {{"bins", to.size("num_mel_bins", 80)}};
  structure["decoder_positions"] = structure["decoder_sequence_length"] = to.size("max_target_positions", 448);
  to.remarks.push_back("positions of the encoder are computed and not counted: transformers keeps them in a table, " +
                       std::to_string(std::int64_t{positions} * structure["width"].get<int>()) +
                       " scalars that are not trained");
  structure["normalisation"] = "pre";
  structure["key_biases"] = false;
  structure["dropout"] = to.has_dropout("dropout attention_dropout activation_dropout", 0);
  if (to.has_dropout("encoder_layerdrop decoder_layerdrop", 0))
    to.remarks.emplace_back("layerdrop is not modelled: all layers are trained");
  to.set_head(true, false);
}

/// wav2vec 2.0 and HuBERT.
void convert_waveform(Conversion& to) {
  constexpr int kSamples =
      250'000;  // 15.6 s at 16 kHz, as the base model was trained. Source: Baevski et al., section 4.2
  const Json family = to.structure;
  to.structure = pre_norm_stack(to, 768, 12, 3072);
  to.structure.update(family);
  Json& structure = to.structure;
  const bool normalises_first = to.flag("do_stable_layer_norm", false);
  structure["normalisation"] = normalises_first ? "pre" : "post";
  structure["normalises_embeddings"] = !normalises_first;
  const auto sizes = [&](const char* key, const std::vector<int>& usual) {
    return to.has(key) ? read_sizes(to.config, key) : usual;
  };
  const bool masks_times = to.has_dropout("mask_time_prob", 0.05),
             masks_features = to.has_dropout("mask_feature_prob", 0);
  const std::string norm = to.text("feat_extract_norm", "group");
  to.config.expect(norm == "group" || norm == "layer", "feat_extract_norm", "\"group\" or \"layer\"");
  structure["waveform"] = {{"samples", kSamples},
                           {"widths", sizes("conv_dim", {512, 512, 512, 512, 512, 512, 512})},
                           {"kernels", sizes("conv_kernel", {10, 3, 3, 3, 3, 2, 2})},
                           {"strides", sizes("conv_stride", {5, 2, 2, 2, 2, 2, 2})},
                           {"biases", to.flag("conv_bias", false)},
                           {"normalises_all", norm == "layer"},
                           {"normalises_features", to.flag("feat_proj_layer_norm", true)},
                           {"mask", masks_times || masks_features},
                           {"position_kernel", to.size("num_conv_pos_embeddings", 128)},
                           {"position_groups", to.size("num_conv_pos_embedding_groups", 16)}};
  to.remarks.emplace_back("a sample is 250000 numbers, 15.6 s at 16 kHz");
  to.refuse_flag("add_adapter", "an adapter behind the layers is not supported");
  to.refuse_flag("conv_pos_batch_norm", "batch normalisation of the positions is not supported");
  if (to.has("adapter_attn_dim")) to.config.fail("adapter_attn_dim", "adapters in the layers are not supported");
  structure["dropout"] = to.has_dropout("hidden_dropout attention_dropout activation_dropout", 0.1);
  if (to.has_dropout("layerdrop", 0.1)) to.remarks.emplace_back("layerdrop is not modelled: all layers are trained");
  if (to.made.head == "token_classes")
    to.made.classes = to.size("vocab_size", 32);
  else
    (void)to.has("vocab_size");
  to.set_head(true, false);
}

}  // namespace rehearse::huggingface
