// The structure of a transformer in a model file.

#include <algorithm>
#include <map>

#include "workloads/sizes.hpp"
#include "workloads/transformer.hpp"

namespace rehearse {

namespace {

/// `fallback` without the key.
int read_size_or(const JsonReader& json, std::string_view key, int fallback) {
  return json.has(key) ? read_size(json, key) : fallback;
}

void read_head(const JsonReader& json, Transformer& net) {
  using Head = Transformer::Head;
  static const std::map<std::string, Head> heads{{"language_model", Head::kLanguageModel},
                                                 {"masked_language_model", Head::kMaskedLanguageModel},
                                                 {"pooler", Head::kPooler},
                                                 {"bert_pretraining", Head::kBertPretraining},
                                                 {"hidden_states", Head::kHiddenStates},
                                                 {"token_classes", Head::kTokenClasses},
                                                 {"sequence_classes", Head::kSequenceClasses},
                                                 {"first_classes", Head::kFirstClasses}};
  const auto head = heads.find(json.required<std::string>("head"));
  json.expect(head != heads.end(), "head",
              "\"language_model\", \"masked_language_model\", \"pooler\", \"bert_pretraining\", "
              "\"hidden_states\", \"token_classes\", \"sequence_classes\" or \"first_classes\"");
  net.head = head->second;
  net.is_causal = json.optional<bool>("causal", net.head == Head::kLanguageModel && net.decoder_layers == 0);
  if (net.head == Head::kTokenClasses || net.head == Head::kSequenceClasses || net.head == Head::kFirstClasses) {
    net.classes = read_size(json, "classes");
    net.has_class_biases = json.optional<bool>("class_biases", true);
  }
  if (net.head == Head::kTokenClasses) net.has_class_layer = json.optional<bool>("class_layer", false);
  if (net.head == Head::kFirstClasses) {
    net.classified_tokens = read_size_or(json, "classified_tokens", 1);
    json.expect(net.classified_tokens <= net.sequence_length, "classified_tokens", "at most \"sequence_length\"");
  }
  if (net.head == Head::kBertPretraining) {
    net.predictions = read_size(json, "predictions");
    json.expect(net.predictions <= net.sequence_length, "predictions", "at most \"sequence_length\"");
  }
  const bool has_logits =
      net.head == Head::kLanguageModel || net.head == Head::kMaskedLanguageModel || net.head == Head::kBertPretraining;
  json.expect(!has_logits || net.vocabulary > 0, "head", "one without logits over words, of which there are none");
  net.is_tied = json.optional<bool>("tied_embedding", true);
  json.expect(net.is_tied || has_logits, "tied_embedding", "false with logits over the vocabulary alone");
  if (net.head == Head::kLanguageModel) net.has_logits_bias = json.optional<bool>("logits_bias", false);
}

void read_latent_attention(const JsonReader& json, Transformer& net) {
  const JsonReader latent = json.child("latent_attention");
  net.latent_attention = Transformer::LatentAttention{.query_latent = read_size_or(latent, "query_latent", 0),
                                                      .key_value_latent = read_size(latent, "key_value_latent"),
                                                      .rotary_features = read_size(latent, "rotary_features"),
                                                      .plain_features = read_size(latent, "plain_features"),
                                                      .value_features = read_size(latent, "value_features")};
  latent.reject_unknown_keys();
  net.head_features = net.latent_attention->rotary_features + net.latent_attention->plain_features;
  for (const char* key : {"head_features", "kv_heads", "relative_positions", "disentangled_positions"})
    json.expect(!json.has(key), key, "none with \"latent_attention\", which says what queries, keys and values are");
  for (const char* key : {"joint_projection", "rotary_positions", "alibi", "query_key_norms"})
    json.expect(!json.optional<bool>(key, false), key,
                "false with \"latent_attention\", which says what queries, keys and values are");
  json.expect(net.decoder_layers == 0, "latent_attention", "none in a model with decoder layers");
}

void read_attention(const JsonReader& json, Transformer& net) {
  net.heads = read_size(json, "heads");
  if (json.has("latent_attention"))
    read_latent_attention(json, net);
  else if (!json.has("head_features"))
    json.expect(net.width % net.heads == 0, "heads", "a divisor of \"width\"");
  if (!net.latent_attention)
    net.head_features = json.has("head_features") ? read_size(json, "head_features") : net.width / net.heads;
  net.kv_heads = json.has("kv_heads") ? read_size(json, "kv_heads") : net.heads;
  json.expect(net.heads % net.kv_heads == 0, "kv_heads", "a divisor of \"heads\"");
  net.has_attention_biases = json.optional<bool>("attention_biases", true);
  net.has_key_biases = json.optional<bool>("key_biases", true);
  net.has_output_bias = json.optional<bool>("attention_output_bias", net.has_attention_biases);
  net.has_joint_projection = json.optional<bool>("joint_projection", false);
  json.expect(net.has_key_biases || !net.has_joint_projection, "key_biases", "true with \"joint_projection\"");
  net.copies_values = json.optional<bool>("copies_values", false);
  json.expect(net.has_joint_projection || net.latent_attention || !net.copies_values, "copies_values",
              "true with \"joint_projection\" or \"latent_attention\" alone");
  net.has_rotary_positions = json.optional<bool>("rotary_positions", false);
  net.has_alibi = json.optional<bool>("alibi", false);
  net.relative_positions = read_size_or(json, "relative_positions", 0);
  net.disentangled_positions = read_size_or(json, "disentangled_positions", 0);
  json.expect(net.disentangled_positions == 0 || (!net.has_joint_projection && net.kv_heads == net.heads),
              "disentangled_positions", "none with shared keys or \"joint_projection\"");
  net.has_query_key_norms = json.optional<bool>("query_key_norms", false);
  net.has_query_key_scales = json.optional<bool>("query_key_scales", false);
  net.has_query_key_norm_scales = json.optional<bool>("query_key_norm_scales", true);
  json.expect(net.has_query_key_norm_scales || net.has_query_key_norms, "query_key_norm_scales",
              "false with \"query_key_norms\" alone");
  json.expect(!net.has_query_key_scales || net.has_query_key_norms, "query_key_scales",
              "true with \"query_key_norms\" alone");
  json.expect(!net.has_query_key_scales || net.has_query_key_norm_scales, "query_key_norm_scales",
              "true with \"query_key_scales\"");
  net.has_attention_sinks = json.optional<bool>("attention_sinks", false);
  net.has_fused_attention = json.optional<bool>("fused_attention", false);
  json.expect(!net.has_fused_attention || (net.relative_positions == 0 && net.disentangled_positions == 0),
              "fused_attention", "false with relative or disentangled positions, which are added to the scores");
}

void read_experts(const JsonReader& json, Transformer& net) {
  Transformer::Experts& experts = net.experts;
  experts.count = read_size_or(json, "experts", 0);
  experts.per_token =
      experts.count > 0 ? read_size(json, "experts_per_token") : read_size_or(json, "experts_per_token", 0);
  json.expect(experts.per_token <= experts.count, "experts_per_token", "at most \"experts\"");
  for (const char* key : {"expert_feed_forward", "expert_biases", "shared_feed_forward", "shared_gate", "dense_layers",
                          "expert_period", "router_bias", "grouped_experts", "weighted_inner"})
    json.expect(experts.count > 0 || !json.has(key), key, "none without \"experts\"");
  experts.feed_forward = read_size_or(json, "expert_feed_forward", net.feed_forward);
  experts.has_biases = json.optional<bool>("expert_biases", net.has_feed_forward_biases);
  experts.shared_feed_forward = read_size_or(json, "shared_feed_forward", 0);
  experts.has_shared_gate = json.optional<bool>("shared_gate", false);
  json.expect(!experts.has_shared_gate || experts.shared_feed_forward > 0, "shared_gate",
              "true with \"shared_feed_forward\" alone");
  const int layers = std::max(net.layers, net.decoder_layers);
  experts.dense_layers = json.optional<int>("dense_layers", 0);
  json.expect(experts.dense_layers >= 0 && experts.dense_layers < layers, "dense_layers",
              "an integer from 0, below the number of layers");
  experts.period = read_size_or(json, "expert_period", 1);
  json.expect(experts.count == 0 || experts.are_in(layers / experts.period * experts.period - 1), "expert_period",
              "a period that leaves a layer with experts");
  experts.has_router_bias = json.optional<bool>("router_bias", false);
  experts.is_grouped = json.optional<bool>("grouped_experts", false);
  experts.weighs_inner = json.optional<bool>("weighted_inner", false);
  json.expect(!experts.weighs_inner || (experts.is_grouped && net.has_gates), "weighted_inner",
              "true with \"grouped_experts\" and \"gated_feed_forward\" alone");
  json.expect(experts.is_grouped || std::int64_t{experts.count} * (net.layers + net.decoder_layers) <= kMostExperts,
              "experts", "at most 16384 in all layers together, or \"grouped_experts\"");
}

void read_norms(const JsonReader& json, Transformer& net) {
  using Norm = Transformer::Norm;
  static const std::map<std::string, Norm> norms{
      {"pre", Norm::kPre}, {"post", Norm::kPost}, {"sandwich", Norm::kSandwich}, {"reordered", Norm::kReordered}};
  const auto norm = norms.find(json.required<std::string>("normalisation"));
  json.expect(norm != norms.end(), "normalisation", "\"pre\", \"post\", \"sandwich\" or \"reordered\"");
  net.norm = norm->second;
  net.normalises_embeddings = json.optional<bool>("normalises_embeddings", false);
  net.has_rms_norms = json.optional<bool>("rms_norm", false);
  net.norm_variables = {.has_scale = json.optional<bool>("norm_scales", true),
                        .has_bias = json.optional<bool>("norm_biases", true)};
  net.has_parallel_sublayers = json.optional<bool>("parallel_sublayers", false);
  json.expect(!net.has_parallel_sublayers || (net.norm == Norm::kPre && net.decoder_layers == 0), "parallel_sublayers",
              "true with \"pre\" normalisation and without decoder layers alone");
  net.has_shared_norm = json.optional<bool>("shared_norm", false);
  json.expect(!net.has_shared_norm || net.has_parallel_sublayers, "shared_norm",
              "true with \"parallel_sublayers\" alone");
  net.has_shared_layers = json.optional<bool>("shared_layers", false);
  json.expect(!net.has_shared_layers ||
                  (net.experts.count == 0 && net.norm != Norm::kSandwich && net.disentangled_positions == 0),
              "shared_layers", "true without experts, disentangled positions and outer normalisations alone");
}

void read_images(const JsonReader& json, Transformer& net) {
  net.images = Transformer::Images{.size = read_size(json, "size"),
                                   .channels = read_size(json, "channels", 3),
                                   .patch = read_size(json, "patch"),
                                   .class_tokens = json.optional<int>("class_tokens", 1),
                                   .has_bias = json.optional<bool>("biases", true)};
  json.expect(net.images->size <= 65536, "size", "at most 65536");
  json.expect(net.images->patch <= net.images->size, "patch", "at most \"size\"");
  json.expect(net.images->class_tokens >= 0 && net.images->class_tokens <= 2, "class_tokens", "0, 1 or 2");
  const int side = net.images->size / net.images->patch;
  json.expect(side <= 1024, "patch", "at most 1024 patches in a row");
  net.sequence_length = side * side + net.images->class_tokens;
  json.reject_unknown_keys();
}

void read_waveform(const JsonReader& json, Transformer& net) {
  Transformer::Waveform wave{.samples = read_size(json, "samples"),
                             .widths = read_sizes(json, "widths"),
                             .kernels = read_sizes(json, "kernels"),
                             .strides = read_sizes(json, "strides"),
                             .has_biases = json.optional<bool>("biases", false),
                             .normalises_all = json.optional<bool>("normalises_all", false),
                             .normalises_features = json.optional<bool>("normalises_features", true),
                             .has_mask = json.optional<bool>("mask", true),
                             .position_kernel = read_size(json, "position_kernel"),
                             .position_groups = read_size(json, "position_groups")};
  json.expect(wave.kernels.size() == wave.widths.size(), "kernels", "as many as \"widths\" has");
  json.expect(wave.strides.size() == wave.widths.size(), "strides", "as many as \"widths\" has");
  net.sequence_length = wave.samples;
  for (std::size_t layer = 0; layer < wave.widths.size(); ++layer) {
    json.expect(wave.kernels[layer] <= net.sequence_length, "samples", "more, for the convolutions");
    net.sequence_length = (net.sequence_length - wave.kernels[layer]) / wave.strides[layer] + 1;
  }
  net.waveform = std::move(wave);
  json.reject_unknown_keys();
}

/// What the encoder reads, and how long it is.
void read_input(const JsonReader& json, Transformer& net) {
  const bool has_sound = json.has("waveform"), has_bins = json.has("spectrogram"), has_images = json.has("images");
  json.expect(int{has_sound} + int{has_bins} + int{has_images} <= 1,
              "one of \"images\", \"spectrogram\" and \"waveform\"");
  if (has_images) read_images(json.child("images"), net);
  if (has_sound) read_waveform(json.child("waveform"), net);
  if (has_bins) {
    const JsonReader spectrogram = json.child("spectrogram");
    net.spectrogram = Transformer::Spectrogram{read_size(spectrogram, "bins")};
    spectrogram.reject_unknown_keys();
  }
  if (!has_images && !has_sound) net.sequence_length = read_size(json, "sequence_length");
  const bool reads_words = !has_sound && !has_bins && !has_images;
  if (reads_words || net.decoder_layers > 0) net.vocabulary = read_size(json, "vocabulary");
  net.embedding_width = net.width;
  if (reads_words) net.embedding_width = read_size_or(json, "embedding_width", net.width);
  if (reads_words && json.has("embedding_width")) {
    const auto from = net.embedding_width == net.width ? json.optional<std::string>("embedding_projection", "words")
                                                       : json.required<std::string>("embedding_projection");
    json.expect(from == "words" || from == "sum", "embedding_projection", "\"words\" or \"sum\"");
    net.projects_sum = from == "sum" && net.embedding_width != net.width;
  }
  net.positions = read_size_or(json, "positions", 0);
  if (reads_words) net.token_types = read_size_or(json, "token_types", 0);
  json.expect(net.positions == 0 || net.sequence_length <= net.positions,
              has_images || has_sound ? "positions" : "sequence_length",
              has_images || has_sound ? "at least as many as the encoder has" : "at most \"positions\"");
  if (net.decoder_layers > 0) {
    net.decoder_positions = read_size_or(json, "decoder_positions", net.positions);
    net.decoder_sequence_length = read_size_or(json, "decoder_sequence_length", net.sequence_length);
    json.expect(net.decoder_positions == 0 || net.decoder_sequence_length <= net.decoder_positions,
                "decoder_sequence_length", "at most \"decoder_positions\"");
  }
}

std::string read_activation(const JsonReader& json) {
  auto activation = json.optional<std::string>("activation", "gelu");
  json.expect(activation == "gelu" || activation == "relu", "activation", "\"gelu\" or \"relu\"");
  return activation;
}

}  // namespace

Transformer read_transformer(const JsonReader& json) {
  Transformer net{.layers = read_layers(json, "layers", 1),
                  .decoder_layers = read_layers(json, "decoder_layers", 0),
                  .width = read_size(json, "width"),
                  .feed_forward = read_size(json, "feed_forward"),
                  .has_feed_forward_biases = json.optional<bool>("feed_forward_biases", true),
                  .has_gates = json.optional<bool>("gated_feed_forward", false),
                  .has_joint_gates = json.optional<bool>("joint_gates", false),
                  .has_fused_gates = json.optional<bool>("fused_gates", false),
                  .has_relu = read_activation(json) == "relu",
                  .has_dropout = json.optional<bool>("dropout", true)};
  for (const char* key : {"joint_gates", "fused_gates"})
    json.expect(net.has_gates || !json.optional<bool>(key, false), key, "true with \"gated_feed_forward\" alone");
  read_input(json, net);
  read_attention(json, net);
  read_experts(json, net);
  read_norms(json, net);
  read_head(json, net);
  return net;
}

TwoTowers read_two_towers(const JsonReader& json) {
  const JsonReader text = json.child("text"), image = json.child("image");
  TwoTowers net{
      .text = read_transformer(text), .image = read_transformer(image), .projection = read_size(json, "projection")};
  text.reject_unknown_keys();
  image.reject_unknown_keys();
  for (const auto& [key, tower] : {std::pair{"text", &net.text}, std::pair{"image", &net.image}}) {
    json.expect(tower->decoder_layers == 0 && tower->head == Transformer::Head::kHiddenStates, key,
                "one stack with \"hidden_states\"");
    json.expect(tower->embedding_width == tower->width, key, "an embedding as wide as the model");
  }
  return net;
}

}  // namespace rehearse
