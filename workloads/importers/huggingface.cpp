#include "workloads/importers/huggingface.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "sim/base/names.hpp"
#include "workloads/importers/huggingface_keys.hpp"
#include "workloads/sizes.hpp"

namespace rehearse {

namespace {

constexpr int kLongestSequence = 4096;  // longer ones are trained with sequences parted among GPUs

/// What a class of transformers, such as LlamaForCausalLM, puts on the stacks of its model type.
struct ModelClass {
  std::string_view suffix;  // after the name that all classes of the type begin with
  std::string_view head;    // of a model of family "transformer"
  int classes = 0;          // of its head; kLabels: as many as the file has labels
  bool has_class_biases = true;
  bool has_decoder = true;  // false: the encoder of T5 alone
};
constexpr int kLabels = -1;

/// One configuration on its way to a model of family "transformer".
struct Conversion {
  JsonReader config;
  std::string type{};
  ModelClass made{};
  Json structure{{"family", "transformer"}};
  std::vector<std::string> remarks{};
  mutable std::set<std::string, std::less<>> used{};  // keys that have been asked for
  mutable std::vector<std::string> defaults{};        // "vocab_size 32000": sizes that the file does not state

  /// A key that is null is not there.
  bool has(const char* key) const {
    used.insert(key);
    return config.has(key) && !config.child(key).is_null();
  }
  int size(const char* key, int usual) const {
    if (has(key)) return read_size(config, key);
    const std::string text = std::string{key} + " " + std::to_string(usual);
    if (std::ranges::find(defaults, text) == defaults.end()) defaults.push_back(text);
    return usual;
  }
  /// Of a key that follows from others where it is not there.
  int size_or(const char* key, int other) const { return has(key) ? read_size(config, key) : other; }
  bool flag(const char* key, bool fallback) const { return has(key) ? config.required<bool>(key) : fallback; }
  std::string text(const char* key, const char* fallback) const {
    return has(key) ? config.required<std::string>(key) : fallback;
  }
  bool has_dropout(std::initializer_list<const char*> keys, double fallback) const {
    double highest = 0;
    for (const char* key : keys) highest = std::max(highest, has(key) ? config.required<double>(key) : fallback);
    return highest > 0;
  }
  /// Throws InputError if a flag is set that changes the model in a way that is not built.
  void refuse_flag(const char* key, std::string_view why) const {
    if (flag(key, false)) config.fail(key, why);
  }

  void set_sequence_length(int longest) {
    structure["sequence_length"] = std::min(longest, kLongestSequence);
    if (longest > kLongestSequence)
      remarks.push_back("sequence_length is " + std::to_string(kLongestSequence) + "; the model takes up to " +
                        std::to_string(longest));
  }

  /// Classes of a head, as transformers counts them: id2label, num_labels, or 2.
  int labels() {
    if (has("id2label")) {
      const JsonReader labels = config.child("id2label");
      labels.expect(labels.is_object() && !labels.value().empty(), "an object with a key for each label");
      if (has("num_labels") && size("num_labels", 2) != static_cast<int>(labels.value().size()))
        remarks.emplace_back("num_labels is not as many as id2label has, which count");
      return static_cast<int>(labels.value().size());
    }
    return size("num_labels", 2);
  }

  /// `is_tied`: what transformers takes where the file does not say.
  void set_head(bool is_tied, bool is_causal) {
    structure["head"] = made.head;
    if (made.head == "bert_pretraining") structure["predictions"] = structure["sequence_length"];
    if (made.classes != 0) {
      structure["classes"] = made.classes == kLabels ? labels() : made.classes;
      structure["class_biases"] =
          made.has_class_biases && (made.suffix != "ForTokenClassification" || flag("token_classification_bias", true));
    }
    const bool has_logits =
        made.head == "language_model" || made.head == "masked_language_model" || made.head == "bert_pretraining";
    const bool ties = flag("tie_word_embeddings", is_tied);
    if (has_logits) structure["tied_embedding"] = ties;
    structure["causal"] = is_causal;
    if (made.head == "hidden_states") remarks.emplace_back("no head: the loss is on what the last layer gives");
  }
};

struct DecoderSizes {
  int layers, width, heads, vocabulary;
};

void convert_gpt2(Conversion& to) {
  to.structure["layers"] = to.size("n_layer", 12);
  to.structure["width"] = to.size("n_embd", 768);
  to.structure["heads"] = to.size("n_head", 12);
  to.structure["vocabulary"] = to.size("vocab_size", 50257);
  to.structure["feed_forward"] = to.size_or("n_inner", 4 * to.size("n_embd", 768));
  to.structure["positions"] = to.size("n_positions", 1024);
  to.set_sequence_length(to.size("n_positions", 1024));
  to.structure["normalisation"] = "pre";
  to.structure["joint_projection"] = true;
  to.structure["dropout"] = to.has_dropout({"resid_pdrop", "embd_pdrop", "attn_pdrop"}, 0.1);
  to.set_head(true, true);
}

void set_sizes(Conversion& to, const DecoderSizes& usual) {
  to.structure["layers"] = to.size("num_hidden_layers", usual.layers);
  to.structure["width"] = to.size("hidden_size", usual.width);
  to.structure["heads"] = to.size("num_attention_heads", usual.heads);
  to.structure["vocabulary"] = to.size("vocab_size", usual.vocabulary);
}

void convert_gpt_neox(Conversion& to) {
  set_sizes(to, {.layers = 44, .width = 6144, .heads = 64, .vocabulary = 50432});
  to.structure["feed_forward"] = to.size("intermediate_size", 24576);
  to.set_sequence_length(to.size("max_position_embeddings", 2048));
  to.structure["normalisation"] = "pre";
  to.structure["joint_projection"] = true;
  to.structure["rotary_positions"] = true;
  to.structure["parallel_sublayers"] = to.flag("use_parallel_residual", true);
  to.structure["attention_biases"] = to.flag("attention_bias", true);
  to.structure["dropout"] = to.has_dropout({"hidden_dropout", "attention_dropout"}, 0);
  to.set_head(false, true);
}

void convert_opt(Conversion& to) {
  constexpr int kOffset = 2;  // rows of the table of positions before the first
  set_sizes(to, {.layers = 12, .width = 768, .heads = 12, .vocabulary = 50272});
  const int width = to.size("hidden_size", 768);
  if (to.size_or("word_embed_proj_dim", width) != width)
    to.config.fail("word_embed_proj_dim", "an embedding narrower than the model is not supported");
  if (!to.flag("layer_norm_elementwise_affine", true))
    to.config.fail("layer_norm_elementwise_affine", "normalisations without scale and bias are not supported");
  const bool normalises_first = to.flag("do_layer_norm_before", true);
  if (normalises_first)
    to.refuse_flag("_remove_final_layer_norm", "a stack without its last normalisation is not supported");
  to.structure["feed_forward"] = to.size("ffn_dim", 3072);
  to.structure["positions"] = to.size("max_position_embeddings", 2048) + kOffset;
  to.set_sequence_length(to.size("max_position_embeddings", 2048));
  to.structure["normalisation"] = normalises_first ? "pre" : "post";
  to.structure["attention_biases"] = to.structure["feed_forward_biases"] = to.flag("enable_bias", true);
  to.structure["dropout"] = to.has_dropout({"dropout", "attention_dropout"}, 0);
  if (to.has_dropout({"layerdrop"}, 0)) to.remarks.emplace_back("layerdrop is not modelled: all layers are trained");
  to.set_head(true, true);
}

/// BERT and RoBERTa, whose table of positions has two rows before the first.
void convert_bert(Conversion& to) {
  const bool is_roberta = to.type != "bert";
  set_sizes(to, {.layers = 12, .width = 768, .heads = 12, .vocabulary = is_roberta ? 50265 : 30522});
  to.structure["feed_forward"] = to.size("intermediate_size", 3072);
  const int positions = to.size("max_position_embeddings", 512), length = positions - (is_roberta ? 2 : 0);
  to.config.expect(length >= 1, "max_position_embeddings", "more than 2 positions");
  to.structure["positions"] = positions;
  to.structure["token_types"] = to.size("type_vocab_size", 2);
  if (const std::string kind = to.text("position_embedding_type", "absolute"); kind != "absolute")
    to.config.fail("position_embedding_type", "only \"absolute\" is supported; found " + in_quotes(kind));
  to.set_sequence_length(length);
  to.structure["normalisation"] = "post";
  to.structure["normalises_embeddings"] = true;
  to.structure["dropout"] = to.has_dropout({"hidden_dropout_prob", "attention_probs_dropout_prob"}, 0.1);
  if (to.made.suffix == "ForMultipleChoice")
    to.remarks.emplace_back("a sample is one choice, not a question with all of its choices");
  to.set_head(true, to.flag("is_decoder", false));
}

/// What differs among those that followed Llama. Source: the configuration classes of transformers.
struct LlamaLike {
  std::string_view type;
  DecoderSizes sizes;
  int feed_forward, positions;
  int kv_heads = 0;           // 0: as many as heads
  int head_features = 0;      // 0: width / heads
  bool reads_biases = false;  // key "attention_bias"
  int sliding_window = 0;     // unless the file says; 0: none
};
constexpr std::array kLlamaLikes{LlamaLike{"llama", {32, 4096, 32, 32000}, 11008, 2048, 0, 0, true, 0},
                                 LlamaLike{"mistral", {32, 4096, 32, 32000}, 14336, 131072, 8, 0, false, 4096},
                                 LlamaLike{"mixtral", {32, 4096, 32, 32000}, 14336, 131072, 8, 0, false, 0},
                                 LlamaLike{"qwen2", {32, 4096, 32, 151936}, 22016, 32768, 32, 0, false, 0},
                                 LlamaLike{"qwen3", {32, 4096, 32, 151936}, 22016, 32768, 32, 128, true, 0},
                                 LlamaLike{"gemma", {28, 3072, 16, 256000}, 24576, 8192, 16, 256, true, 0},
                                 LlamaLike{"phi3", {32, 3072, 32, 32064}, 8192, 4096, 0, 0, false, 0}};

/// Attention that sees only some of the positions before: its work is taken as that of all of them.
void remark_on_windows(Conversion& to, const LlamaLike& kind) {
  bool has_window = false;
  if (to.has("layer_types"))
    for (const std::string& layer : to.config.required<std::vector<std::string>>("layer_types")) {
      if (layer != "full_attention" && layer != "sliding_attention")
        to.config.fail(
            "layer_types",
            "only layers of \"full_attention\" and \"sliding_attention\" are supported; found " + in_quotes(layer));
      has_window = has_window || layer == "sliding_attention";
    }
  const bool is_optional = kind.type == "qwen2" || kind.type == "qwen3";
  const bool is_on = !is_optional || to.flag("use_sliding_window", false);
  int window = kind.sliding_window;
  if (to.has("sliding_window"))
    window = read_size(to.config, "sliding_window");
  else if (to.config.has("sliding_window"))
    window = 0;
  has_window = has_window || (is_on && window > 0);
  if (has_window && window > 0 && window < to.structure["sequence_length"].get<int>())
    to.remarks.push_back("a sliding window of " + std::to_string(window) +
                         " positions is not modelled: attention sees all positions, which is more work");
}

/// Llama and what followed it: RMS normalisation, gates, rotary positions, heads that share keys and values.
void convert_llama(Conversion& to) {
  const LlamaLike& kind = *std::ranges::find(kLlamaLikes, to.type, &LlamaLike::type);
  set_sizes(to, kind.sizes);
  to.structure["feed_forward"] = to.size("intermediate_size", kind.feed_forward);
  // Null means as many as heads; only a key that is not there at all has the usual value.
  if (to.has("num_key_value_heads") || (kind.kv_heads > 0 && !to.config.has("num_key_value_heads")))
    to.structure["kv_heads"] = to.size("num_key_value_heads", kind.kv_heads);
  if (to.has("head_dim") || (kind.head_features > 0 && !to.config.has("head_dim")))
    to.structure["head_features"] = to.size("head_dim", kind.head_features);
  to.set_sequence_length(to.size("max_position_embeddings", kind.positions));
  to.structure["normalisation"] = "pre";
  to.structure["rms_norm"] = true;
  const bool has_biases = kind.reads_biases && to.flag("attention_bias", false), is_qwen2 = kind.type == "qwen2";
  to.structure["attention_biases"] = is_qwen2 || has_biases;
  to.structure["attention_output_bias"] = has_biases;
  to.structure["feed_forward_biases"] = kind.type == "llama" && to.flag("mlp_bias", false);
  to.structure["joint_projection"] = kind.type == "phi3";
  to.structure["query_key_norms"] = kind.type == "qwen3";
  to.structure["gated_feed_forward"] = true;
  to.structure["rotary_positions"] = true;
  to.structure["dropout"] = to.has_dropout({"attention_dropout"}, 0);
  remark_on_windows(to, kind);
  to.set_head(kind.type == "gemma", !(kind.type == "gemma" && to.flag("use_bidirectional_attention", false)));
}

void convert_mixtral(Conversion& to) {
  convert_llama(to);
  to.structure["experts"] = to.size("num_local_experts", 8);
  to.structure["experts_per_token"] = to.size("num_experts_per_tok", 2);
  to.remarks.emplace_back("tokens are taken to be spread evenly over the experts, and each worker has all of these");
}

void convert_t5(Conversion& to) {
  constexpr int kUsualLength = 512;
  const bool is_mt5 = to.type == "mt5";
  const int layers = to.size("num_layers", is_mt5 ? 8 : 6);
  to.structure["layers"] = layers;
  to.structure["width"] = to.size("d_model", 512);
  to.structure["heads"] = to.size("num_heads", is_mt5 ? 6 : 8);
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
  to.structure["dropout"] = to.has_dropout({"dropout_rate"}, 0.1);
  to.set_head(!is_mt5, false);
}

// Sources: the modelling files of transformers, which the names of the classes lead to.
constexpr std::array kOfDecoders{ModelClass{"ForCausalLM", "language_model"}, ModelClass{"Model", "hidden_states"},
                                 ModelClass{"ForSequenceClassification", "token_classes", kLabels, false},
                                 ModelClass{"ForTokenClassification", "token_classes", kLabels},
                                 ModelClass{"ForQuestionAnswering", "token_classes", 2}};
constexpr std::array kOfGpt2{ModelClass{"LMHeadModel", "language_model"}, ModelClass{"Model", "hidden_states"},
                             ModelClass{"ForSequenceClassification", "token_classes", kLabels, false},
                             ModelClass{"ForTokenClassification", "token_classes", kLabels},
                             ModelClass{"ForQuestionAnswering", "token_classes", 2}};
constexpr std::array kOfBert{ModelClass{"Model", "pooler"},
                             ModelClass{"ForPreTraining", "bert_pretraining"},
                             ModelClass{"ForMaskedLM", "masked_language_model"},
                             ModelClass{"LMHeadModel", "masked_language_model"},
                             ModelClass{"ForNextSentencePrediction", "sequence_classes", 2},
                             ModelClass{"ForSequenceClassification", "sequence_classes", kLabels},
                             ModelClass{"ForTokenClassification", "token_classes", kLabels},
                             ModelClass{"ForQuestionAnswering", "token_classes", kLabels},
                             ModelClass{"ForMultipleChoice", "sequence_classes", 1}};
constexpr std::array kOfRoberta{ModelClass{"Model", "pooler"},
                                ModelClass{"ForMaskedLM", "masked_language_model"},
                                ModelClass{"ForCausalLM", "masked_language_model"},
                                ModelClass{"ForSequenceClassification", "sequence_classes", kLabels},
                                ModelClass{"ForTokenClassification", "token_classes", kLabels},
                                ModelClass{"ForQuestionAnswering", "token_classes", kLabels},
                                ModelClass{"ForMultipleChoice", "sequence_classes", 1}};
constexpr std::array kOfT5{ModelClass{"ForConditionalGeneration", "language_model"},
                           ModelClass{"WithLMHeadModel", "language_model"},
                           ModelClass{"Model", "hidden_states"},
                           ModelClass{"EncoderModel", "hidden_states", 0, true, false},
                           ModelClass{"ForSequenceClassification", "sequence_classes", kLabels},
                           ModelClass{"ForTokenClassification", "token_classes", kLabels, true, false},
                           ModelClass{"ForQuestionAnswering", "token_classes", kLabels}};

/// A model type: the classes that are made of it, the usual one first, which stands for a file that names none.
struct ModelType {
  std::string_view name, prefix;  // "gpt_neox", "GPTNeoX"
  void (*convert)(Conversion&);
  std::span<const ModelClass> classes;
};
constexpr std::array kTypes{ModelType{"bert", "Bert", convert_bert, kOfBert},
                            ModelType{"camembert", "Camembert", convert_bert, kOfRoberta},
                            ModelType{"gemma", "Gemma", convert_llama, kOfDecoders},
                            ModelType{"gpt2", "GPT2", convert_gpt2, kOfGpt2},
                            ModelType{"gpt_neox", "GPTNeoX", convert_gpt_neox, kOfDecoders},
                            ModelType{"llama", "Llama", convert_llama, kOfDecoders},
                            ModelType{"mistral", "Mistral", convert_llama, kOfDecoders},
                            ModelType{"mixtral", "Mixtral", convert_mixtral, kOfDecoders},
                            ModelType{"mt5", "MT5", convert_t5, kOfT5},
                            ModelType{"opt", "OPT", convert_opt, kOfDecoders},
                            ModelType{"phi3", "Phi3", convert_llama, kOfDecoders},
                            ModelType{"qwen2", "Qwen2", convert_llama, kOfDecoders},
                            ModelType{"qwen3", "Qwen3", convert_llama, kOfDecoders},
                            ModelType{"roberta", "Roberta", convert_bert, kOfRoberta},
                            ModelType{"t5", "T5", convert_t5, kOfT5},
                            ModelType{"xlm-roberta", "XLMRoberta", convert_bert, kOfRoberta}};

std::string class_name(const ModelType& type, const ModelClass& made) {
  return std::string{type.prefix} + std::string{made.suffix};
}

/// Names of classes differ in their capitals among old files: "LLaMAForCausalLM".
bool is_same_class(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

/// No neighbour is suggested: it would be another network.
[[noreturn]] void refuse(const JsonReader& config, const char* key, const std::string& what,
                         const std::vector<std::string>& known) {
  config.fail(key, what + " is not supported; supported: " + joined(known));
}

/// The one class of "architectures"; empty if none is stated.
std::string stated_class(const JsonReader& config) {
  if (!config.has("architectures") || config.child("architectures").is_null()) return {};
  auto names = config.required<std::vector<std::string>>("architectures");
  config.expect(names.size() <= 1, "architectures", "one class of transformers");
  return names.empty() ? std::string{} : std::move(names[0]);
}

const ModelType& type_of(const JsonReader& config, const std::string& architecture) {
  std::vector<std::string> known;
  for (const ModelType& type : kTypes) known.emplace_back(type.name);
  if (config.has("model_type") && !config.child("model_type").is_null()) {
    const auto name = config.required<std::string>("model_type");
    const auto* type = std::ranges::find(kTypes, name, &ModelType::name);
    if (type == kTypes.end()) refuse(config, "model_type", "model type " + in_quotes(name), known);
    return *type;
  }
  if (architecture.empty())
    config.fail("no \"model_type\" and no \"architectures\": expected a model type, one of " + joined(known));
  for (const ModelType& type : kTypes)
    for (const ModelClass& made : type.classes)
      if (is_same_class(class_name(type, made), architecture)) return type;
  refuse(config, "architectures", "class " + in_quotes(architecture) + ", without a \"model_type\",", known);
}

ModelClass class_of(const JsonReader& config, const ModelType& type, const std::string& architecture,
                    std::vector<std::string>& remarks) {
  if (architecture.empty()) {
    remarks.push_back("the file names no class: it is taken as " + class_name(type, type.classes[0]));
    return type.classes[0];
  }
  std::vector<std::string> known;
  for (const ModelClass& made : type.classes) {
    known.push_back(class_name(type, made));
    if (is_same_class(known.back(), architecture)) return made;
  }
  refuse(config, "architectures",
         "class " + in_quotes(architecture) + " of model type " + in_quotes(std::string{type.name}), known);
}

/// What any configuration may ask for, and no model here has.
void refuse_what_is_not_built(const Conversion& to) {
  for (const char* key : {"num_local_experts", "num_experts", "n_routed_experts"})
    if (to.type != "mixtral" && to.has(key))
      to.config.fail(key, "mixtures of experts other than Mixtral's are not supported");
  to.refuse_flag(
      "add_cross_attention",
      "attention to an encoder that is not in this file is not supported: its layers and parameters are added");
  to.refuse_flag("torchscript", "weights that are copied instead of tied are not supported");
  if (!to.type.ends_with("t5"))
    to.refuse_flag("is_encoder_decoder", "a model of this type with an encoder and a decoder is not supported");
  if (to.has("pruned_heads"))
    to.config.expect(to.config.child("pruned_heads").value().empty(), "pruned_heads", "no heads that are pruned");
}

/// Keys that nobody has used and that are not known to be without effect: refused where their name tells of structure
/// and they are not off, remarked otherwise.
void check_other_keys(Conversion& to) {
  std::vector<std::string> unknown;
  for (const auto& [key, value] : to.config.value().items()) {
    if (value.is_null() || to.used.contains(key) || is_without_effect(to.type, key)) continue;
    const bool is_off = (value.is_boolean() && !value.get<bool>()) || (value.is_number() && value.get<double>() == 0) ||
                        (value.is_structured() && value.empty()) ||
                        (value.is_string() && value.get_ref<const std::string&>().empty());
    if (tells_of_structure(key) && !is_off)
      to.config.fail(key, "not known for model type " + in_quotes(to.type) +
                              ": it may change the model's layers, so nothing is counted; take it away if it does not");
    unknown.push_back(key);
  }
  if (!unknown.empty()) to.remarks.push_back("keys that are not understood: " + joined(unknown));
}

/// Of "dtype", or its name before version 5 of transformers, also of the text part; empty for fp32.
std::string stored_type_of(const Json& config) {
  for (const Json* part : {json_pointer_find(config, ""), json_pointer_find(config, "/text_config")})
    for (const char* key : {"dtype", "torch_dtype"}) {
      const Json* type =
          part == nullptr || !part->is_object() ? nullptr : json_pointer_find(*part, std::string{"/"} + key);
      if (type == nullptr || !type->is_string()) continue;
      auto text = type->get<std::string>();
      if (text.starts_with("torch.")) text.erase(0, 6);
      if (text != "auto") return text == "float32" || text == "float" ? std::string{} : text;
    }
  return {};
}

}  // namespace

bool is_huggingface_config(const Source& source) {
  if (!source.is_json() || !source.json().is_object()) return false;
  const Json& json = source.json();
  const auto has = [&](const char* key) { return json.contains(key); };
  return has("model_type") || has("architectures") || (has("hidden_size") && has("num_hidden_layers")) ||
         (has("n_embd") && has("n_layer")) || (has("d_model") && has("num_layers"));
}

ImportedModel read_huggingface_config(const Source& source) {
  Conversion to{.config = JsonReader{source.json(), source.name()}};
  const std::string architecture = stated_class(to.config);
  const ModelType& type = type_of(to.config, architecture);
  to.type = type.name;
  refuse_what_is_not_built(to);
  to.made = class_of(to.config, type, architecture, to.remarks);
  type.convert(to);
  bool has_kernels = false;  // "sdpa", "flash_attention_2"
  for (const char* key : {"_attn_implementation", "attn_implementation"})
    has_kernels = has_kernels || to.text(key, "eager") != "eager";
  for (const char* key : {"_flash_attn_2_enabled", "use_flash_attn", "use_flash_attention", "use_flash_attention_2"})
    has_kernels = to.flag(key, false) || has_kernels;
  if (has_kernels && !to.structure.contains("relative_positions")) to.structure["fused_attention"] = true;
  if (to.has("quantization_config") || to.has("compression_config"))
    to.remarks.emplace_back("the weights are quantized, which is not modelled: they have the workload's precision");
  if (to.has("auto_map")) to.remarks.emplace_back("the model has code of its own (auto_map), which is not read");
  check_other_keys(to);
  if (!to.defaults.empty())
    to.remarks.push_back("not in the file, so as transformers takes it: " + joined(to.defaults));
  return {.model_file = model_file(source, "HuggingFace configuration (" + to.type + ")", std::move(to.structure)),
          .remarks = std::move(to.remarks),
          .stored_type = stored_type_of(source.json())};
}

}  // namespace rehearse
