#include "workloads/importers/huggingface.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "sim/base/names.hpp"
#include "workloads/importers/huggingface_conversion.hpp"
#include "workloads/importers/huggingface_keys.hpp"

namespace rehearse {

namespace {

using namespace huggingface;

// Sources: the modelling files of transformers, which the names of the classes lead to.
constexpr std::array kOfDecoders{ModelClass{"ForCausalLM", "language_model"}, ModelClass{"Model", "hidden_states"},
                                 ModelClass{"ForSequenceClassification", "token_classes", kLabels, false},
                                 ModelClass{"ForTokenClassification", "token_classes", kLabels},
                                 ModelClass{"ForQuestionAnswering", "token_classes", 2}};
constexpr std::array kOfGemma3Text{ModelClass{"ForCausalLM", "language_model"}, ModelClass{"Model", "hidden_states"},
                                   ModelClass{"TextModel", "hidden_states"},
                                   ModelClass{"ForSequenceClassification", "token_classes", kLabels, false},
                                   ModelClass{"TextForSequenceClassification", "token_classes", kLabels, false}};
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
constexpr std::array kOfT5{
    ModelClass{"ForConditionalGeneration", "language_model"},
    ModelClass{"WithLMHeadModel", "language_model"},
    ModelClass{"Model", "hidden_states"},
    ModelClass{.suffix = "EncoderModel", .head = "hidden_states", .has_decoder = false},
    ModelClass{"ForSequenceClassification", "sequence_classes", kLabels},
    ModelClass{.suffix = "ForTokenClassification", .head = "token_classes", .classes = kLabels, .has_decoder = false},
    ModelClass{"ForQuestionAnswering", "token_classes", kLabels}};

constexpr std::array kOfElectra{
    ModelClass{"Model", "hidden_states"},
    ModelClass{.suffix = "ForPreTraining", .head = "token_classes", .classes = 1, .has_class_layer = true},
    ModelClass{"ForMaskedLM", "masked_language_model"},
    ModelClass{"ForSequenceClassification", "sequence_classes", kLabels},
    ModelClass{"ForTokenClassification", "token_classes", kLabels},
    ModelClass{"ForQuestionAnswering", "token_classes", kLabels}};
constexpr std::array kOfAlbert{ModelClass{"Model", "pooler"},
                               ModelClass{"ForPreTraining", "bert_pretraining"},
                               ModelClass{"ForMaskedLM", "masked_language_model"},
                               ModelClass{"ForSequenceClassification", "sequence_classes", kLabels},
                               ModelClass{"ForTokenClassification", "token_classes", kLabels},
                               ModelClass{"ForQuestionAnswering", "token_classes", kLabels},
                               ModelClass{"ForMultipleChoice", "sequence_classes", 1}};
constexpr std::array kOfDistilBert{ModelClass{"Model", "hidden_states"},
                                   ModelClass{"ForMaskedLM", "masked_language_model"},
                                   ModelClass{"ForSequenceClassification", "sequence_classes", kLabels},
                                   ModelClass{"ForTokenClassification", "token_classes", kLabels},
                                   ModelClass{"ForQuestionAnswering", "token_classes", 2},
                                   ModelClass{"ForMultipleChoice", "sequence_classes", 1}};
constexpr std::array kOfDeberta{ModelClass{"Model", "hidden_states"},
                                ModelClass{"ForMaskedLM", "masked_language_model"},
                                ModelClass{"ForSequenceClassification", "sequence_classes", kLabels},
                                ModelClass{"ForTokenClassification", "token_classes", kLabels},
                                ModelClass{"ForQuestionAnswering", "token_classes", kLabels},
                                ModelClass{"ForMultipleChoice", "sequence_classes", 1}};
constexpr std::array kOfBart{ModelClass{"ForConditionalGeneration", "language_model"},
                             ModelClass{"Model", "hidden_states"},
                             ModelClass{"ForSequenceClassification", "sequence_classes", kLabels},
                             ModelClass{"ForQuestionAnswering", "token_classes", 2}};
constexpr std::array kOfMarian{ModelClass{"MTModel", "language_model"}, ModelClass{"Model", "hidden_states"}};
constexpr std::array kOfWriters{ModelClass{"ForConditionalGeneration", "language_model"},
                                ModelClass{"Model", "hidden_states"}};
constexpr std::array kOfVision{ModelClass{"ForImageClassification", "first_classes", kLabels},
                               ModelClass{"Model", "pooler"}};
constexpr std::array kOfDeit{ModelClass{"ForImageClassification", "first_classes", kLabels},
                             ModelClass{"Model", "pooler"},
                             ModelClass{.suffix = "ForImageClassificationWithTeacher",
                                        .head = "first_classes",
                                        .classes = kLabels,
                                        .classified_tokens = 2}};
constexpr std::array kOfGrok{ModelClass{"ForCausalLM", "language_model"}};
constexpr std::array kOfLlama4{ModelClass{"ForCausalLM", "language_model"}, ModelClass{"TextModel", "hidden_states"}};
constexpr std::array kOfClip{ModelClass{"Model", "hidden_states"}};
constexpr std::array kOfClipPart{
    ModelClass{"Model", "hidden_states"},
    ModelClass{
        .suffix = "ModelWithProjection", .head = "first_classes", .classes = kLabels, .has_class_biases = false}};
constexpr std::array kOfWaveform{ModelClass{"Model", "hidden_states"}, ModelClass{"ForCTC", "token_classes", kLabels}};

/// A model type: the classes that are made of it, the usual one first, which stands for a file that names none.
struct ModelType {
  std::string_view name, prefix;  // "gpt_neox", "GPTNeoX"
  void (*convert)(Conversion&);
  std::span<const ModelClass> classes;
};
constexpr std::array kTypes{ModelType{"albert", "Albert", convert_encoder, kOfAlbert},
                            ModelType{"baichuan", "Baichuan", convert_decoder, kOfDecoders},
                            ModelType{"bart", "Bart", convert_encoder_and_decoder, kOfBart},
                            ModelType{"bert", "Bert", convert_encoder, kOfBert},
                            ModelType{"biogpt", "BioGpt", convert_decoder, kOfDecoders},
                            ModelType{"bloom", "Bloom", convert_decoder, kOfDecoders},
                            ModelType{"camembert", "Camembert", convert_encoder, kOfRoberta},
                            ModelType{"clip", "CLIP", convert_clip, kOfClip},
                            ModelType{"clip_text_model", "CLIPText", convert_clip, kOfClipPart},
                            ModelType{"clip_vision_model", "CLIPVision", convert_clip, kOfClipPart},
                            ModelType{"codegen", "CodeGen", convert_decoder, kOfDecoders},
                            ModelType{"cohere", "Cohere", convert_decoder, kOfDecoders},
                            ModelType{"cohere2", "Cohere2", convert_decoder, kOfDecoders},
                            ModelType{"deberta-v2", "DebertaV2", convert_encoder, kOfDeberta},
                            ModelType{"deepseek_v2", "DeepseekV2", convert_decoder, kOfDecoders},
                            ModelType{"deepseek_v3", "DeepseekV3", convert_decoder, kOfDecoders},
                            ModelType{"deit", "DeiT", convert_vision, kOfDeit},
                            ModelType{"distilbert", "DistilBert", convert_encoder, kOfDistilBert},
                            ModelType{"electra", "Electra", convert_encoder, kOfElectra},
                            ModelType{"ernie4_5", "Ernie4_5", convert_decoder, kOfDecoders},
                            ModelType{"exaone4", "Exaone4", convert_decoder, kOfDecoders},
                            ModelType{"falcon", "Falcon", convert_decoder, kOfDecoders},
                            ModelType{"gemma", "Gemma", convert_decoder, kOfDecoders},
                            ModelType{"gemma2", "Gemma2", convert_decoder, kOfDecoders},
                            ModelType{"gemma3_text", "Gemma3", convert_decoder, kOfGemma3Text},
                            ModelType{"glm", "Glm", convert_decoder, kOfDecoders},
                            ModelType{"glm4", "Glm4", convert_decoder, kOfDecoders},
                            ModelType{"gpt2", "GPT2", convert_decoder, kOfGpt2},
                            ModelType{"gpt_bigcode", "GPTBigCode", convert_decoder, kOfDecoders},
                            ModelType{"gpt_neo", "GPTNeo", convert_decoder, kOfDecoders},
                            ModelType{"gpt_neox", "GPTNeoX", convert_decoder, kOfDecoders},
                            ModelType{"gpt_oss", "GptOss", convert_decoder, kOfDecoders},
                            ModelType{"gptj", "GPTJ", convert_decoder, kOfDecoders},
                            ModelType{"granite", "Granite", convert_decoder, kOfDecoders},
                            ModelType{"granitemoe", "GraniteMoe", convert_decoder, kOfDecoders},
                            ModelType{"grok-1", "Grok1Model", convert_decoder, kOfGrok},
                            ModelType{"hubert", "Hubert", convert_waveform, kOfWaveform},
                            ModelType{"internlm2", "InternLM2", convert_decoder, kOfDecoders},
                            ModelType{"kimi_k2", "DeepseekV3", convert_decoder, kOfDecoders},
                            ModelType{"llama", "Llama", convert_decoder, kOfDecoders},
                            ModelType{"llama4_text", "Llama4", convert_decoder, kOfLlama4},
                            ModelType{"m2m_100", "M2M100", convert_encoder_and_decoder, kOfWriters},
                            ModelType{"marian", "Marian", convert_encoder_and_decoder, kOfMarian},
                            ModelType{"mbart", "MBart", convert_encoder_and_decoder, kOfBart},
                            ModelType{"mistral", "Mistral", convert_decoder, kOfDecoders},
                            ModelType{"mixtral", "Mixtral", convert_decoder, kOfDecoders},
                            ModelType{"mpt", "Mpt", convert_decoder, kOfDecoders},
                            ModelType{"mt5", "MT5", convert_t5, kOfT5},
                            ModelType{"nemotron", "Nemotron", convert_decoder, kOfDecoders},
                            ModelType{"olmo", "Olmo", convert_decoder, kOfDecoders},
                            ModelType{"olmo2", "Olmo2", convert_decoder, kOfDecoders},
                            ModelType{"olmo3", "Olmo3", convert_decoder, kOfDecoders},
                            ModelType{"olmoe", "Olmoe", convert_decoder, kOfDecoders},
                            ModelType{"opt", "OPT", convert_decoder, kOfDecoders},
                            ModelType{"pegasus", "Pegasus", convert_encoder_and_decoder, kOfWriters},
                            ModelType{"phi", "Phi", convert_decoder, kOfDecoders},
                            ModelType{"phi3", "Phi3", convert_decoder, kOfDecoders},
                            ModelType{"phimoe", "Phimoe", convert_decoder, kOfDecoders},
                            ModelType{"qwen", "QWen", convert_decoder, kOfGpt2},
                            ModelType{"qwen2", "Qwen2", convert_decoder, kOfDecoders},
                            ModelType{"qwen2_moe", "Qwen2Moe", convert_decoder, kOfDecoders},
                            ModelType{"qwen3", "Qwen3", convert_decoder, kOfDecoders},
                            ModelType{"qwen3_moe", "Qwen3Moe", convert_decoder, kOfDecoders},
                            ModelType{"roberta", "Roberta", convert_encoder, kOfRoberta},
                            ModelType{"seed_oss", "SeedOss", convert_decoder, kOfDecoders},
                            ModelType{"smollm3", "SmolLM3", convert_decoder, kOfDecoders},
                            ModelType{"stablelm", "StableLm", convert_decoder, kOfDecoders},
                            ModelType{"starcoder2", "Starcoder2", convert_decoder, kOfDecoders},
                            ModelType{"t5", "T5", convert_t5, kOfT5},
                            ModelType{"vit", "ViT", convert_vision, kOfVision},
                            ModelType{"wav2vec2", "Wav2Vec2", convert_waveform, kOfWaveform},
                            ModelType{"whisper", "Whisper", convert_whisper, kOfWriters},
                            ModelType{"xlm-roberta", "XLMRoberta", convert_encoder, kOfRoberta}};

/// Model types that are known and not built, and why. No other type stands for one of these.
struct Refused {
  std::string_view types, why;  // between blanks
};
constexpr std::array kRefused{
    Refused{"afmoe arctic bailing_moe dbrx deepseek deepseek_v32 dots1 ernie4_5_moe flex_olmo "
            "glm4_moe granitemoehybrid granitemoeshared hunyuan hunyuan_v1_moe jamba "
            "jetmoe lfm2_moe longcat_flash minimax minimax_m2 moonshot nllb-moe openmoe "
            "qwen3_next skywork_moe switch_transformers xverse_moe",
            "of mixtures of experts only deepseek_v2, deepseek_v3, gpt_oss, granitemoe, grok-1, kimi_k2, llama4_text, "
            "mixtral, olmoe, phimoe, qwen2_moe and qwen3_moe are built"},
    Refused{"bamba falcon_h1 falcon_mamba mamba mamba2 nemotron_h recurrent_gemma rwkv xlstm zamba zamba2 hgrn retnet",
            "recurrences and state space layers are not built"},
    Refused{"deberta sew-d", "attention with projections of positions of their own is not built; deberta-v2 is"},
    Refused{"swin swinv2 swin2sr donut-swin", "attention within shifted windows is not built"},
    Refused{
        "convnext convnextv2 resnet regnet efficientnet mobilenet_v1 mobilenet_v2 mobilevit bit levit cvt poolformer "
        "segformer pvt dpt",
        "this is no plain transformer; export the model to ONNX or torch.fx instead"},
    Refused{"gemma3 gemma3n llava llava_next llava_onevision idefics idefics2 idefics3 blip blip-2 instructblip "
            "llama4 mllama paligemma pixtral mistral3 qwen2_vl qwen2_5_vl qwen3_vl qwen3_vl_moe internvl internvl_chat "
            "kosmos-2 smolvlm "
            "phi3_v phi4mm minicpmv chameleon flava siglip siglip2 qwen2_audio qwen2_5_omni aya_vision cogvlm2",
            "models that join images or sound with text are not built, CLIP apart"},
    Refused{"encoder-decoder vision-encoder-decoder speech-encoder-decoder rag musicgen",
            "models that are put together from others are not built"}};

std::string class_name(const ModelType& type, const ModelClass& made) {
  return std::string{type.prefix} + std::string{made.suffix};
}

/// Names of classes differ in their capitals and underscores among files: "LLaMAForCausalLM", "Ernie4_5_ForCausalLM".
bool is_same_class(std::string_view a, std::string_view b) {
  const auto letters = [](std::string_view name) {
    std::string result;
    for (const char c : name)
      if (c != '_') result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return result;
  };
  return letters(a) == letters(b);
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

/// Why the type for which `is_it` is true is refused; empty if none is.
std::string_view why_refused(const std::function<bool(std::string_view)>& is_it) {
  std::string_view why;
  for (const Refused& refused : kRefused)
    for_each_word(refused.types, [&](std::string_view type) {
      if (is_it(type)) why = refused.why;
    });
  return why;
}

/// "Qwen3MoeForCausalLM" is a class of type "qwen3_moe".
bool is_of_type(std::string_view architecture, std::string_view type) {
  std::string prefix{type};
  std::erase_if(prefix, [](char c) { return c == '_' || c == '-'; });
  const std::string_view suffix = architecture.substr(std::min(prefix.size(), architecture.size()));
  return is_same_class(architecture.substr(0, prefix.size()), prefix) &&
         (suffix.starts_with("For") || suffix.starts_with("Model") || suffix.starts_with("LMHead"));
}

/// What of a file that joins several models is read by itself: ""; or "; its \"text_config\" by itself is read, as ...".
std::string readable_part(const JsonReader& config) {
  if (!config.has("text_config") || !config.child("text_config").is_object()) return {};
  const Json* type = json_pointer_find(config.child("text_config").value(), "/model_type");
  if (type == nullptr || !type->is_string()) return {};
  const auto* known = std::ranges::find(kTypes, type->get_ref<const std::string&>(), &ModelType::name);
  if (known == kTypes.end()) return {};
  return "; its \"text_config\" by itself is read, as model type " + in_quotes(std::string{known->name});
}

/// Classes of models that guess tokens ahead of another one, whatever the type of that is.
void refuse_draft(const JsonReader& config, const std::string& architecture) {
  std::string lower = architecture;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* mark : {"eagle", "dflash", "draft", "medusa", "speculator", "forcausallmmtp", "mtpmodel"})
    if (lower.find(mark) != std::string::npos)
      config.fail("architectures",
                  "class " + in_quotes(architecture) +
                      " is not supported: draft models, which guess tokens ahead of another model, are not built");
}

const ModelType& type_of(const JsonReader& config, const std::string& architecture) {
  refuse_draft(config, architecture);
  std::vector<std::string> known;
  for (const ModelType& type : kTypes) known.emplace_back(type.name);
  if (config.has("model_type") && !config.child("model_type").is_null()) {
    const auto name = config.required<std::string>("model_type");
    const auto* type = std::ranges::find(kTypes, name, &ModelType::name);
    if (const std::string_view why = why_refused([&](std::string_view refused) { return name == refused; });
        !why.empty())
      config.fail("model_type",
                  "model type " + in_quotes(name) + " is not supported: " + std::string{why} + readable_part(config));
    if (type == kTypes.end()) refuse(config, "model_type", "model type " + in_quotes(name), known);
    return *type;
  }
  if (architecture.empty())
    config.fail("no \"model_type\" and no \"architectures\": expected a model type, one of " + joined(known));
  for (const ModelType& type : kTypes)
    for (const ModelClass& made : type.classes)
      if (is_same_class(class_name(type, made), architecture)) return type;
  if (const std::string_view why = why_refused([&](std::string_view type) { return is_of_type(architecture, type); });
      !why.empty())
    config.fail("architectures",
                "class " + in_quotes(architecture) + " is not supported: " + std::string{why} + readable_part(config));
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

namespace huggingface {

void refuse_what_is_not_built(const Conversion& to) {
  for (const char* key : {"num_local_experts", "num_experts"})
    if (!has_experts(to.type) && to.has(key))
      to.config.fail(key, "a mixture of experts is not supported in this model type");
  if (!has_routed_experts(to.type) && to.has("n_routed_experts"))
    to.config.fail("n_routed_experts", "experts of this name are not supported in this model type");
  to.refuse_flag(
      "add_cross_attention",
      "attention to an encoder that is not in this file is not supported: its layers and parameters are added");
  to.refuse_flag("torchscript", "weights that are copied instead of tied are not supported");
  const bool has_both = to.type.ends_with("t5") || to.type == "bart" || to.type == "mbart" || to.type == "marian" ||
                        to.type == "pegasus" || to.type == "m2m_100" || to.type == "whisper";
  const bool has_encoder = to.flag("is_encoder_decoder", has_both);
  if (!has_both && has_encoder)
    to.config.fail("is_encoder_decoder", "a model of this type with an encoder and a decoder is not supported");
  if (has_both && !to.type.ends_with("t5") && !has_encoder)
    to.config.fail("is_encoder_decoder", "a decoder without the encoder of its file is not supported");
  if (to.has("pruned_heads"))
    to.config.expect(to.config.child("pruned_heads").value().empty(), "pruned_heads", "no heads that are pruned");
}

namespace {

/// Whether a key that transformers does not read repeats a size of the model under a name of other programs.
bool repeats_size(const Conversion& to, const std::string& key, const Json& value) {
  constexpr std::array kRepeated{
      std::pair{std::string_view{"width"},
                std::string_view{"hidden_size emb_size embedding_size embed_dim d_model n_embd"}},
      std::pair{std::string_view{"layers"}, std::string_view{"num_hidden_layers num_layers n_layers n_layer"}},
      std::pair{std::string_view{"heads"}, std::string_view{"num_attention_heads num_heads n_heads n_head"}}};
  return std::ranges::any_of(kRepeated, [&](const auto& size) {
    bool is_named = false;
    for_each_word(size.second, [&](std::string_view name) { is_named = is_named || name == key; });
    return is_named && to.structure.contains(size.first) && to.structure.at(std::string{size.first}) == value;
  });
}

/// The first of `names` that the file has, or just the first.
std::string stated_name(const JsonReader& config, std::string_view names) {
  std::string found;
  for_each_word(names, [&](std::string_view name) {
    if (found.empty() && config.has(name)) found = name;
  });
  return found.empty() ? std::string{names.substr(0, names.find(' '))} : found;
}

}  // namespace

void check_sizes(const Conversion& to) {
  const int experts = to.structure.value("experts", 0), layers = to.structure.value("layers", 0);
  if (!to.structure.value("grouped_experts", false) && std::int64_t{experts} * layers > kMostExperts)
    to.config.fail(stated_name(to.config, "num_experts num_local_experts"),
                   "at most " + std::to_string(kMostExperts) +
                       " experts in all layers together are built, kernel by kernel; " + std::to_string(experts) +
                       " in each of " + std::to_string(layers) + " layers are more: take away layers, which are alike");
  const int width = to.structure.value("width", 0), heads = to.structure.value("heads", 0);
  if (heads == 0 || width % heads == 0 || to.structure.contains("head_features") ||
      to.structure.contains("latent_attention"))
    return;
  to.config.fail(
      "expected " + in_quotes(stated_name(to.config, "hidden_size n_embd d_model dim")) + ", " + std::to_string(width) +
      ", to be a multiple of " +
      in_quotes(stated_name(to.config, "num_attention_heads n_head n_heads num_heads encoder_attention_heads")) +
      "; found " + std::to_string(heads));
}

void check_other_keys(Conversion& to) {
  std::vector<std::string> unknown;
  for (const auto& [key, value] : to.config.value().items()) {
    if (repeats_size(to, key, value)) continue;
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

}  // namespace huggingface

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
  to.set_activation();
  check_sizes(to);
  bool has_kernels = false;  // "sdpa", "flash_attention_2"
  for (const char* key : {"_attn_implementation", "attn_implementation"})
    has_kernels = has_kernels || to.text(key, "eager") != "eager";
  for (const char* key : {"_flash_attn_2_enabled", "use_flash_attn", "use_flash_attention", "use_flash_attention_2"})
    if (to.has(key) && (!to.config.child(key).is_string() || to.config.required<std::string>(key) != "auto"))
      has_kernels = to.config.required<bool>(key) || has_kernels;
  const bool has_other_scores =
      to.structure.contains("relative_positions") || to.structure.contains("disentangled_positions");
  if (has_kernels && to.structure["family"] == "two_towers")
    to.structure["text"]["fused_attention"] = to.structure["image"]["fused_attention"] = true;
  else if (has_kernels && !has_other_scores)
    to.structure["fused_attention"] = true;
  // Apple's MLX writes a "quantization" beside, or in the place of, the usual key.
  const bool has_mlx_key = to.has("quantization") && to.config.child("quantization").value() != Json(false);
  if (to.has("quantization_config") || to.has("compression_config") || has_mlx_key)
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
