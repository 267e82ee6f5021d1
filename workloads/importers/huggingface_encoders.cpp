// Encoders of words, and encoders with decoders: what each model type has, as data.

#include <array>

#include "sim/base/names.hpp"
#include "workloads/importers/huggingface_conversion.hpp"

namespace rehearse::huggingface {

namespace {

/// One type of encoder. Sizes are as its configuration class in transformers names and defaults them.
struct Encoder {
  std::string_view type;
  Size layers{"num_hidden_layers", 12}, width{"hidden_size", 768}, heads{"num_attention_heads", 12};
  Size feed_forward{"intermediate_size", 3072}, vocabulary{"vocab_size", 30522};
  int position_offset = 0;                 // rows of the table of positions before the first
  Size token_types{"type_vocab_size", 2};  // no names: none
  Size embedding_width{};                  // no names: as wide as the model
  bool has_shared_layers = false;
  std::string_view dropouts = "hidden_dropout_prob attention_probs_dropout_prob";
  double dropout = 0.1;
};
// Sources: configuration_*.py and modeling_*.py of transformers.
constexpr std::array kEncoders{
    Encoder{.type = "bert"},
    Encoder{.type = "roberta", .vocabulary = {"vocab_size", 50265}, .position_offset = 2},
    Encoder{.type = "camembert", .vocabulary = {"vocab_size", 30522}, .position_offset = 2},
    Encoder{.type = "xlm-roberta", .vocabulary = {"vocab_size", 30522}, .position_offset = 2},
    Encoder{.type = "electra",
            .width = {"hidden_size", 256},
            .heads = {"num_attention_heads", 4},
            .feed_forward = {"intermediate_size", 1024},
            .embedding_width = {"embedding_size", 128}},
    Encoder{.type = "albert",
            .width = {"hidden_size", 4096},
            .heads = {"num_attention_heads", 64},
            .feed_forward = {"intermediate_size", 16384},
            .vocabulary = {"vocab_size", 30000},
            .embedding_width = {"embedding_size", 128},
            .has_shared_layers = true,
            .dropout = 0},
    Encoder{.type = "distilbert",
            .layers = {"n_layers num_hidden_layers", 6},
            .width = {"dim hidden_size", 768},
            .heads = {"n_heads num_attention_heads", 12},
            .feed_forward = {"hidden_dim", 3072},
            .token_types = {},
            .dropouts = "dropout attention_dropout"},
    Encoder{.type = "deberta-v2",
            .layers = {"num_hidden_layers", 24},
            .width = {"hidden_size", 1536},
            .heads = {"num_attention_heads", 24},
            .feed_forward = {"intermediate_size", 6144},
            .vocabulary = {"vocab_size", 128100},
            .token_types = {"type_vocab_size", 0}}};

/// DeBERTa's second and third version: no positions in the embedding, and the same projections for contents and positions.
void add_disentangled_positions(Conversion& to) {
  if (!to.flag("relative_attention", false) || !to.flag("share_att_key", false))
    to.config.fail("only relative attention with \"share_att_key\" is supported");
  std::string kinds;
  if (to.has("pos_att_type") && to.config.child("pos_att_type").is_array()) {
    for (const std::string& kind : to.config.required<std::vector<std::string>>("pos_att_type")) kinds += kind + "|";
  } else {
    kinds = to.text("pos_att_type", "");
  }
  if (kinds.find("p2c") == std::string::npos || kinds.find("c2p") == std::string::npos)
    to.config.fail("only \"pos_att_type\" of both \"p2c\" and \"c2p\" is supported");
  if (to.flag("position_biased_input", true))
    to.structure["positions"] = to.size("max_position_embeddings", 512);
  else
    to.structure.erase("positions");
  // -1, or 0, stands for what is asked for otherwise.
  const auto positive = [&](const char* key) {
    return to.has(key) && to.config.required<int>(key) > 0 ? read_size(to.config, key) : 0;
  };
  const int longest = to.size("max_position_embeddings", 512), most = positive("max_relative_positions");
  const int buckets = positive("position_buckets");
  to.structure["disentangled_positions"] = 2 * (buckets > 0 ? buckets : most > 0 ? most : longest);
  if (to.text("norm_rel_ebd", "none") != "layer_norm")
    to.config.fail("norm_rel_ebd", "only \"layer_norm\" is supported");
  if (positive("conv_kernel_size") > 0)
    to.config.fail("conv_kernel_size",
                   "a convolution beside the first layer, which any size above 0 asks for, is not "
                   "supported");
  if (const int width = to.structure["width"].get<int>(); to.size_or("pooler_hidden_size", width) != width)
    to.config.fail("pooler_hidden_size", "a pooler of another width than the model's is not supported");
}

/// One type of encoder with decoder, both of the same width, heads and feed-forward layers.
struct EncoderAndDecoder {
  std::string_view type;
  Size vocabulary{"vocab_size", 50265};
  int position_offset = 0;                // of learned positions
  bool has_learned_positions = true;      // or computed ones
  bool keeps_computed_positions = false;  // .. in a table that is not trained
  bool normalises_first = false, normalises_embeddings = true;
  std::string_view dropouts = "dropout attention_dropout activation_dropout";
};
constexpr std::array kBoth{EncoderAndDecoder{.type = "bart", .position_offset = 2},
                           EncoderAndDecoder{.type = "mbart", .position_offset = 2, .normalises_first = true},
                           EncoderAndDecoder{.type = "marian",
                                             .vocabulary = {"vocab_size", 58101},
                                             .has_learned_positions = false,
                                             .keeps_computed_positions = true,
                                             .normalises_embeddings = false},
                           EncoderAndDecoder{.type = "pegasus",
                                             .has_learned_positions = false,
                                             .keeps_computed_positions = true,
                                             .normalises_first = true,
                                             .normalises_embeddings = false},
                           EncoderAndDecoder{.type = "m2m_100",
                                             .vocabulary = {"vocab_size", 128112},
                                             .has_learned_positions = false,
                                             .normalises_first = true,
                                             .normalises_embeddings = false}};

/// What of the stacks transformers 3 read from the file; since then each type has its own, whatever the file says.
void refuse_other_stacks(const Conversion& to, const EncoderAndDecoder& kind) {
  if (to.type == "m2m_100") return;  // never read
  const auto check = [&](const char* key, bool own) {
    if (to.flag(key, own) != own)
      to.config.fail(key, std::string{"only "} + (own ? "true" : "false") +
                              " is supported: transformers builds model type " + in_quotes(to.type) +
                              " so since version 4, whatever the file says");
  };
  check("normalize_before", kind.normalises_first);
  check("add_final_layer_norm", kind.normalises_first);
  check("static_position_embeddings", !kind.has_learned_positions);
  check("normalize_embedding", kind.normalises_embeddings);
  check("do_blenderbot_90_layernorm", false);
  if (kind.has_learned_positions && to.size_or("extra_pos_embeddings", kind.position_offset) != kind.position_offset)
    to.config.fail("extra_pos_embeddings", "only " + std::to_string(kind.position_offset) + " are supported");
}

}  // namespace

void convert_encoder(Conversion& to) {
  const Encoder& kind = *std::ranges::find(kEncoders, to.type, &Encoder::type);
  Json& structure = to.structure;
  structure["layers"] = to.size(kind.layers);
  structure["width"] = to.size(kind.width);
  structure["heads"] = to.size(kind.heads);
  structure["feed_forward"] = to.size(kind.feed_forward);
  structure["vocabulary"] = to.size(kind.vocabulary);
  const int positions = to.size("max_position_embeddings", 512), length = positions - kind.position_offset;
  to.config.expect(length >= 1, "max_position_embeddings", "more than 2 positions");
  structure["positions"] = positions;
  const std::string_view types = kind.token_types.names;
  if (!types.empty() && (to.has(types) ? to.config.required<int>(types) != 0 : kind.token_types.usual > 0))
    structure["token_types"] = to.size(kind.token_types);
  const int words = kind.embedding_width.names.empty() ? structure["width"].get<int>() : to.size(kind.embedding_width);
  if (words != structure["width"].get<int>()) {
    structure["embedding_width"] = words;
    structure["embedding_projection"] = "sum";
  }
  if (kind.has_shared_layers) {
    structure["shared_layers"] = true;
    for (const char* key : {"num_hidden_groups", "inner_group_num"})
      if (to.size_or(key, 1) != 1) to.config.fail(key, "only 1 is supported: all layers share their weights");
    if (words == structure["width"].get<int>())
      to.config.fail("embedding_size", "a width of the embedding that is the model's is not supported");
  }
  if (const std::string form = to.text("position_embedding_type", "absolute"); form != "absolute")
    to.config.fail("position_embedding_type", "only \"absolute\" is supported; found " + in_quotes(form));
  to.refuse_flag("sinusoidal_pos_embds", "positions that are not learned are not supported in this model type");
  to.set_sequence_length(length);
  if (to.type == "deberta-v2") add_disentangled_positions(to);
  structure["normalisation"] = "post";
  structure["normalises_embeddings"] = true;
  structure["dropout"] = to.has_dropout(kind.dropouts, kind.dropout);
  if (to.made.suffix == "ForMultipleChoice")
    to.remarks.emplace_back("a sample is one choice, not a question with all of its choices");
  to.set_head(true, to.flag("is_decoder", false));
}

void convert_encoder_and_decoder(Conversion& to) {
  const EncoderAndDecoder& kind = *std::ranges::find(kBoth, to.type, &EncoderAndDecoder::type);
  Json& structure = to.structure;
  refuse_other_stacks(to, kind);
  structure["layers"] = to.size("encoder_layers num_hidden_layers", 12);
  structure["decoder_layers"] = to.size("decoder_layers", 12);
  structure["width"] = to.size("d_model hidden_size", 1024);
  structure["heads"] = to.size("encoder_attention_heads num_attention_heads", 16);
  structure["feed_forward"] = to.size("encoder_ffn_dim", 4096);
  structure["vocabulary"] = to.size(kind.vocabulary);
  for (const auto& [key, encoders] :
       {std::pair{"decoder_attention_heads", "heads"}, std::pair{"decoder_ffn_dim", "feed_forward"},
        std::pair{"decoder_vocab_size", "vocabulary"}}) {
    const int of_encoder = structure[encoders].get<int>();
    if (to.size_or(key, of_encoder) != of_encoder)
      to.config.fail(key, "a decoder with another size than the encoder's is not supported");
  }
  if (!to.flag("share_encoder_decoder_embeddings", true))
    to.config.fail("share_encoder_decoder_embeddings", "only true is supported");
  const int longest = to.size("max_position_embeddings", 1024);
  to.set_sequence_length(longest);
  if (kind.has_learned_positions) structure["positions"] = longest + kind.position_offset;
  if (kind.keeps_computed_positions)
    to.remarks.push_back("computed positions are not counted: transformers keeps two tables of them, " +
                         std::to_string(std::int64_t{2} * longest * structure["width"].get<int>()) +
                         " scalars that are not trained");
  structure["normalisation"] = kind.normalises_first ? "pre" : "post";
  structure["normalises_embeddings"] = kind.normalises_embeddings;
  structure["dropout"] = to.has_dropout(kind.dropouts, 0.1);
  if (to.has_dropout("encoder_layerdrop decoder_layerdrop", 0))
    to.remarks.emplace_back("layerdrop is not modelled: all layers are trained");
  to.set_head(true, false);
}

void convert_t5(Conversion& to) {
  constexpr int kUsualLength = 512;
  const bool is_mt5 = to.type == "mt5";
  const int layers = to.size("num_layers num_hidden_layers", is_mt5 ? 8 : 6);
  to.structure["layers"] = layers;
  to.structure["width"] = to.size("d_model hidden_size", 512);
  to.structure["heads"] = to.size("num_heads num_attention_heads", is_mt5 ? 6 : 8);
  to.structure["vocabulary"] = to.size("vocab_size", is_mt5 ? 250112 : 32128);
  const int decoder_layers = to.size_or("num_decoder_layers", layers);
  if (to.made.has_decoder) {
    to.structure["decoder_layers"] = decoder_layers;
    to.refuse_flag("tie_encoder_decoder", "an encoder and a decoder that share their weights are not supported");
  }
  to.structure["head_features"] = to.size("d_kv", 64);
  to.structure["feed_forward"] = to.size("d_ff", is_mt5 ? 1024 : 2048);
  to.structure["relative_positions"] = to.size("relative_attention_num_buckets", 32);
  to.structure["sequence_length"] = to.size_or("n_positions", kUsualLength);
  if (!to.has("n_positions")) to.remarks.emplace_back("sequence_length is 512, with which T5 was trained");
  to.structure["normalisation"] = "pre";
  to.structure["rms_norm"] = true;
  to.structure["attention_biases"] = to.structure["feed_forward_biases"] = false;
  to.structure["gated_feed_forward"] =
      to.text("feed_forward_proj", is_mt5 ? "gated-gelu" : "relu").starts_with("gated-");
  to.structure["dropout"] = to.has_dropout("dropout_rate", 0.1);
  to.set_head(!is_mt5, false);
  // transformers 5 writes that logits are tied, of T5 1.1 too, whose logits are not; what is so in the file it read is here.
  if (to.has("scale_decoder_outputs") && !to.config.required<bool>("scale_decoder_outputs") &&
      to.structure.value("tied_embedding", false))
    to.config.fail("tie_word_embeddings",
                   "as transformers 5 writes it, this does not say whether the weights have lm_head.weight: T5 1.1 and "
                   "what is made of it have, whose \"scale_decoder_outputs\" is false; take out that key, and state "
                   "\"tie_word_embeddings\": false if they have");
}

}  // namespace rehearse::huggingface
