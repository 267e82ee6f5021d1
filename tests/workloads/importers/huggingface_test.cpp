#include "workloads/importers/huggingface.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/error_of.hpp"
#include "tests/support/imported.hpp"

namespace rehearse {

namespace {

ImportedModel imported(const std::string& config) { return import_model(Source{"config.json", config}); }

const std::string kGpt2 = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 12, "n_embd": 768,
  "n_head": 12, "n_positions": 1024, "n_inner": null, "vocab_size": 50257, "activation_function": "gelu_new"})";
const std::string kBert =
    R"({"model_type": "bert", "num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12,
  "intermediate_size": 3072, "max_position_embeddings": 512, "type_vocab_size": 2, "vocab_size": 30522)";
const std::string kRoberta = R"({"model_type": "roberta", "architectures": ["RobertaForMaskedLM"],
  "num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072,
  "max_position_embeddings": 514, "type_vocab_size": 1, "vocab_size": 50265})";
const std::string kLlama2 = R"({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
  "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 11008, "max_position_embeddings": 4096,
  "vocab_size": 32000, "tie_word_embeddings": false})";
const std::string kLlama3 = R"({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
  "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "max_position_embeddings": 8192,
  "vocab_size": 128256, "tie_word_embeddings": false, "attention_bias": false})";
const std::string kMistral = R"({"model_type": "mistral", "num_hidden_layers": 32, "hidden_size": 4096,
  "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "max_position_embeddings": 32768,
  "vocab_size": 32000})";
const std::string kMixtral = R"({"model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096,
  "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "max_position_embeddings": 32768,
  "vocab_size": 32000, "tie_word_embeddings": false, "num_local_experts": 8, "num_experts_per_tok": 2})";
const std::string kQwen2 = R"({"model_type": "qwen2", "num_hidden_layers": 28, "hidden_size": 3584,
  "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944, "max_position_embeddings": 131072,
  "vocab_size": 152064, "tie_word_embeddings": false})";
const std::string kPythia = R"({"model_type": "gpt_neox", "num_hidden_layers": 24, "hidden_size": 2048,
  "num_attention_heads": 16, "intermediate_size": 8192, "max_position_embeddings": 2048, "vocab_size": 50304,
  "tie_word_embeddings": false, "use_parallel_residual": true})";
const std::string kOpt = R"({"model_type": "opt", "num_hidden_layers": 24, "hidden_size": 2048,
  "num_attention_heads": 32, "ffn_dim": 8192, "max_position_embeddings": 2048, "vocab_size": 50272,
  "word_embed_proj_dim": 2048, "do_layer_norm_before": true, "dropout": 0.1})";
const std::string kGemma = R"({"model_type": "gemma", "num_hidden_layers": 18, "hidden_size": 2048,
  "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256, "intermediate_size": 16384,
  "max_position_embeddings": 8192, "vocab_size": 256000})";
const std::string kPhi3 = R"({"model_type": "phi3", "num_hidden_layers": 32, "hidden_size": 3072,
  "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 8192, "max_position_embeddings": 4096,
  "vocab_size": 32064, "tie_word_embeddings": false})";
const std::string kT5 = R"({"model_type": "t5", "num_layers": 6, "d_model": 512, "num_heads": 8, "d_kv": 64,
  "d_ff": 2048, "relative_attention_num_buckets": 32, "n_positions": 512, "vocab_size": 32128,
  "feed_forward_proj": "relu"})";
const std::string kQwen3 = R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 28,
  "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072,
  "max_position_embeddings": 40960, "vocab_size": 151936, "tie_word_embeddings": true, "attention_bias": false})";

/// The configuration with keys besides, such as R"("a": 1, "b": 2)".
std::string with(std::string config, const std::string& keys) { return config.insert(1, keys + ", "); }
std::string replaced(std::string config, const std::string& from, const std::string& to) {
  const std::size_t at = config.find(from);
  return at == std::string::npos ? "no " + from : config.replace(at, from.size(), to);
}
std::string made_as(const std::string& config, const std::string& name) {
  return with(config, R"("architectures": [")" + name + "\"]");
}
std::string without_class(std::string config) {
  const std::size_t at = config.find("\"architectures\"");
  return at == std::string::npos ? config : config.erase(at, config.find(',', at) + 1 - at);
}

std::int64_t parameters_of(const std::string& config) { return test::workload_of(imported(config)).parameters(); }
std::string error_of(const std::string& config) {
  return test::error_of([&] { (void)test::workload_of(imported(config)); });
}
bool remarks_on(const std::string& config, const std::string& words) {
  const auto remarks = imported(config).remarks;
  return std::ranges::any_of(remarks,
                             [&](const std::string& remark) { return remark.find(words) != std::string::npos; });
}

// Closed forms of the parameters, of sizes as the papers name them: a second way to the same numbers.

struct Sizes {
  std::int64_t layers, width, heads, kv_heads, head, inner, vocabulary;
};

/// Without logits: table, layers of four matrices of attention and three of a gated perceptron, norms.
std::int64_t llama_body(const Sizes& s) {
  const std::int64_t attention = s.width * s.head * (2 * s.heads + 2 * s.kv_heads);
  return s.vocabulary * s.width + s.layers * (attention + 3 * s.width * s.inner + 2 * s.width) + s.width;
}

/// Embeddings of words, positions and two types with their norm; layers with biases and two norms. No pooler.
std::int64_t bert_body(std::int64_t layers, std::int64_t w, std::int64_t inner, std::int64_t vocabulary,
                       std::int64_t positions = 512, std::int64_t types = 2) {
  const std::int64_t layer = 4 * (w * w + w) + w * inner + inner + inner * w + w + 4 * w;
  return (vocabulary + positions + types) * w + 2 * w + layers * layer;
}
std::int64_t gpt2_body(std::int64_t layers, std::int64_t w) {
  return (50257 + 1024) * w + layers * (12 * w * w + 13 * w) + 2 * w;
}
/// Of T5: tables of words and of relative positions, and a stack of layers with or without attention to the encoder.
std::int64_t t5_stack(std::int64_t layers, std::int64_t w, std::int64_t attention, std::int64_t inner, bool is_gated,
                      bool is_decoder, std::int64_t heads) {
  const std::int64_t layer = (is_decoder ? 2 : 1) * (4 * w * attention + w) + (is_gated ? 3 : 2) * w * inner + w;
  return layers * layer + w + 32 * heads;
}

}  // namespace

TEST_CASE("configurations of HuggingFace give the published parameters") {
  CHECK(test::workload_of(imported(kGpt2)).parameters() == 124'439'808);
  CHECK(test::workload_of(imported(kBert + R"(, "architectures": ["BertModel"]})")).parameters() == 109'482'240);
  CHECK(test::workload_of(imported(kBert + R"(, "architectures": ["BertForMaskedLM"]})")).parameters() == 109'514'298);
  CHECK(test::workload_of(imported(kRoberta)).parameters() == 124'697'433);
  CHECK(test::workload_of(imported(kLlama2)).parameters() == 6'738'415'616);
  CHECK(test::workload_of(imported(kLlama3)).parameters() == 8'030'261'248);
  CHECK(test::workload_of(imported(kMistral)).parameters() == 7'241'732'096);
  CHECK(test::workload_of(imported(kMixtral)).parameters() == 46'702'792'704);
  CHECK(test::workload_of(imported(kQwen2)).parameters() == 7'615'616'512);
  CHECK(test::workload_of(imported(kPythia)).parameters() == 1'414'647'808);
  CHECK(test::workload_of(imported(kOpt)).parameters() == 1'315'758'080);
  CHECK(test::workload_of(imported(kGemma)).parameters() == 2'506'172'416);
  CHECK(test::workload_of(imported(kPhi3)).parameters() == 3'821'079'552);
  CHECK(test::workload_of(imported(kT5)).parameters() == 60'506'624);
}

TEST_CASE("the class decides which head there is, and with it the parameters") {
  // BERT: published 109,482,240 with the pooler, 110,106,428 for pre-training (transformers' BertForPreTraining).
  constexpr std::int64_t w = 768, pooler = w * w + w, masked = pooler + 2 * w + 30522;
  const std::int64_t body = bert_body(12, w, 3072, 30522);
  const auto bert = [](const std::string& name) { return parameters_of(made_as(kBert + "}", name)); };
  CHECK(body + pooler == 109'482'240);
  CHECK(bert("BertModel") == body + pooler);
  CHECK(bert("BertForMaskedLM") == body + masked);
  CHECK(bert("BertLMHeadModel") == 109'514'298);
  CHECK(bert("BertForPreTraining") == 110'106'428);
  CHECK(bert("BertForNextSentencePrediction") == body + pooler + 2 * w + 2);
  CHECK(bert("BertForSequenceClassification") == body + pooler + 2 * w + 2);
  CHECK(bert("BertForTokenClassification") == body + 2 * w + 2);
  CHECK(bert("BertForQuestionAnswering") == body + 2 * w + 2);
  CHECK(bert("BertForMultipleChoice") == body + pooler + w + 1);
  CHECK(parameters_of(made_as(with(kBert + "}", R"("id2label": {"0": "a", "1": "b", "2": "c"})"),
                              "BertForSequenceClassification")) == body + pooler + 3 * (w + 1));
  CHECK(parameters_of(made_as(with(kBert + "}", R"("num_labels": 9)"), "BertForTokenClassification")) ==
        body + 9 * (w + 1));
  CHECK(parameters_of(made_as(with(kBert + "}", R"("tie_word_embeddings": false)"), "BertForMaskedLM")) ==
        body + masked + 30522 * w);
  CHECK(std::get<Transformer>(
            test::model_of(imported(made_as(with(kBert + "}", R"("is_decoder": true)"), "BertLMHeadModel"))).structure)
            .is_causal);

  // RoBERTa's classification has a dense layer of its own, and no pooler besides.
  const std::int64_t roberta = bert_body(12, w, 3072, 50265, 514, 1);
  const auto of_roberta = [](const std::string& name) { return parameters_of(made_as(without_class(kRoberta), name)); };
  CHECK(of_roberta("RobertaModel") == 124'645'632);
  CHECK(of_roberta("RobertaModel") == roberta + pooler);
  CHECK(of_roberta("RobertaForSequenceClassification") == roberta + pooler + 2 * w + 2);
  CHECK(of_roberta("RobertaForTokenClassification") == roberta + 2 * w + 2);

  // Llama 3 8B: 8,030,261,248 with logits; a reward model has one score instead, 7,504,928,768.
  const std::int64_t llama = llama_body({32, 4096, 32, 8, 128, 14336, 128256});
  const auto of_llama = [](const std::string& name) { return parameters_of(made_as(kLlama3, name)); };
  CHECK(llama + 128256 * std::int64_t{4096} == 8'030'261'248);
  CHECK(of_llama("LlamaModel") == llama);
  CHECK(of_llama("LlamaForSequenceClassification") == llama + 2 * 4096);
  CHECK(parameters_of(made_as(with(kLlama3, R"("id2label": {"0": "LABEL_0"})"), "LlamaForSequenceClassification")) ==
        7'504'928'768);
  CHECK(of_llama("LlamaForTokenClassification") == llama + 2 * 4097);
  CHECK(of_llama("LlamaForQuestionAnswering") == llama + 2 * 4097);
  CHECK(parameters_of(made_as(kMistral, "MistralModel")) == 7'110'660'096);  // such as embedding models

  CHECK(parameters_of(made_as(without_class(kGpt2), "GPT2Model")) == gpt2_body(12, w));
  CHECK(parameters_of(made_as(without_class(kGpt2), "GPT2ForSequenceClassification")) == gpt2_body(12, w) + 2 * w);
  CHECK(parameters_of(made_as(without_class(kGpt2), "GPT2ForTokenClassification")) == gpt2_body(12, w) + 2 * w + 2);
  CHECK(parameters_of(made_as(kOpt, "OPTModel")) == parameters_of(kOpt));  // tied
  CHECK(parameters_of(made_as(kPythia, "GPTNeoXModel")) == 1'414'647'808 - 50304 * 2048);
}

TEST_CASE("queries, keys and values of GLM have biases unless the file says that they have none") {
  // THUDM/glm-4-9b-chat-hf, and the sizes of GLM-4-9B-0414, whose layers have two norms more.
  CHECK(parameters_of(R"({"model_type": "glm"})") == 9'399'951'360);
  CHECK(parameters_of(R"({"model_type": "glm4"})") == 9'399'951'360 + 40 * 2 * 4096);
  CHECK(parameters_of(R"({"model_type": "glm", "attention_bias": false})") == 9'399'951'360 - 40 * 36 * 128);
}

TEST_CASE("T5 as transformers 5 writes it says by another key whether its logits are tied") {
  const auto written = [](const std::string& config, const std::string& scales) {
    return with(config, R"("tie_word_embeddings": true, "dtype": "float32", "scale_decoder_outputs": )" + scales);
  };
  CHECK(parameters_of(written(kT5, "true")) == 60'506'624);
  CHECK(error_of(written(kT5, "false")).starts_with("config.json: /tie_word_embeddings: as transformers 5 writes it"));
  CHECK(error_of(with(kT5, R"("scale_decoder_outputs": false)")).find("lm_head.weight") != std::string::npos);
  CHECK(parameters_of(with(kT5, R"("tie_word_embeddings": false, "scale_decoder_outputs": false)")) ==
        60'506'624 + 32128 * 512);
  CHECK(parameters_of(made_as(written(kT5, "false"), "T5EncoderModel")) ==
        parameters_of(made_as(kT5, "T5EncoderModel")));
}

TEST_CASE("T5 has an encoder alone, two stacks without logits, and logits that are tied or not") {
  const std::string xxl = R"({"model_type": "t5", "d_ff": 10240, "d_kv": 64, "d_model": 4096, "num_heads": 64,
    "num_layers": 24, "num_decoder_layers": 24, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false,
    "relative_attention_num_buckets": 32, "vocab_size": 32128})";
  const std::int64_t words = 32128 * std::int64_t{4096};
  const std::int64_t encoder = t5_stack(24, 4096, 4096, 10240, true, false, 64);
  const std::int64_t decoder = t5_stack(24, 4096, 4096, 10240, true, true, 64);
  CHECK(words + encoder == 4'762'310'656);  // of FLUX and Stable Diffusion 3
  CHECK(parameters_of(made_as(xxl, "T5EncoderModel")) == words + encoder);
  CHECK(parameters_of(made_as(xxl, "T5Model")) == words + encoder + decoder);
  CHECK(parameters_of(made_as(xxl, "T5ForConditionalGeneration")) == 11'135'332'352);
  CHECK(parameters_of(made_as(xxl, "T5ForConditionalGeneration")) == 2 * words + encoder + decoder);
  CHECK(parameters_of(made_as(xxl, "T5ForTokenClassification")) == words + encoder + 2 * 4097);
  CHECK(parameters_of(made_as(xxl, "T5ForSequenceClassification")) ==
        words + encoder + decoder + 4096 * 4097 + 2 * 4097);
  CHECK(parameters_of(made_as(kT5, "T5EncoderModel")) == 35'330'816);
  const auto mt5 = [](const std::string& name) {  // mT5-small, published with 300 M parameters
    return parameters_of(R"({"model_type": "mt5", "architectures": [")" + name + R"("], "vocab_size": 250112,
      "d_model": 512, "d_kv": 64, "d_ff": 1024, "num_layers": 8, "num_decoder_layers": 8, "num_heads": 6,
      "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false})");
  };
  CHECK(mt5("MT5ForConditionalGeneration") == 300'176'768);
  CHECK(mt5("MT5EncoderModel") == 146'940'608);
}

TEST_CASE("sizes of published families") {
  // GPT-2, medium, large and XL (Radford et al. 2019, as transformers counts them).
  const auto gpt2 = [](int layers, int width, int heads) {
    return parameters_of(R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": )" +
                         std::to_string(layers) + ", \"n_embd\": " + std::to_string(width) + ", \"n_head\": " +
                         std::to_string(heads) + R"(, "n_positions": 1024, "n_ctx": 1024, "vocab_size": 50257})");
  };
  CHECK(gpt2(24, 1024, 16) == 354'823'168);
  CHECK(gpt2(36, 1280, 20) == 774'030'080);
  CHECK(gpt2(48, 1600, 25) == 1'557'611'200);
  CHECK(gpt2(48, 1600, 25) == gpt2_body(48, 1600));
  CHECK(parameters_of(made_as(R"({"model_type": "bert", "num_hidden_layers": 24, "hidden_size": 1024,
    "num_attention_heads": 16, "intermediate_size": 4096, "max_position_embeddings": 512, "type_vocab_size": 2,
    "vocab_size": 30522})",
                              "BertForMaskedLM")) == 335'174'458);
  // Qwen3 0.6B: norms of 128 features for queries and keys of each layer (Qwen3 technical report, arXiv 2505.09388).
  CHECK(parameters_of(kQwen3) == 596'049'920);
  CHECK(parameters_of(kQwen3) == llama_body({28, 1024, 16, 8, 128, 3072, 151936}) + 28 * 2 * 128);
  // Llama 1 7B has no max_position_embeddings in old files: transformers takes 2048.
  const std::string llama1 = R"({"architectures": ["LLaMAForCausalLM"], "model_type": "llama", "hidden_size": 4096,
    "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32, "max_sequence_length": 2048,
    "vocab_size": 32000})";
  CHECK(parameters_of(llama1) == 6'738'415'616);
  CHECK(remarks_on(llama1, "max_position_embeddings 2048"));
  // Llama 3.2 1B is tied (meta-llama/Llama-3.2-1B: 1,235,814,400).
  CHECK(parameters_of(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048,
    "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 64, "max_position_embeddings": 131072, "vocab_size": 128256, "tie_word_embeddings": true,
    "rope_scaling": {"factor": 32.0, "rope_type": "llama3"}, "attention_bias": false, "mlp_bias": false})") ==
        1'235'814'400);
  // XLM-RoBERTa base: 278,043,648 (transformers' XLMRobertaModel).
  CHECK(parameters_of(R"({"architectures": ["XLMRobertaModel"], "model_type": "xlm-roberta", "hidden_size": 768,
    "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "max_position_embeddings": 514,
    "type_vocab_size": 1, "vocab_size": 250002})") == 278'043'648);
}

TEST_CASE("biases are counted where the model type reads their keys") {
  const std::int64_t body = parameters_of(kLlama2);
  CHECK(parameters_of(with(kLlama2, R"("attention_bias": true)")) == body + 32 * 4 * 4096);
  CHECK(parameters_of(with(kLlama2, R"("mlp_bias": true)")) == body + 32 * (2 * 11008 + 4096));
  CHECK(error_of(with(kMistral, R"("mlp_bias": true)")).find("/mlp_bias: not known for model type \"mistral\"") !=
        std::string::npos);
  CHECK(remarks_on(with(kMistral, R"("mlp_bias": false)"), "mlp_bias"));
}

TEST_CASE("a key that is not known is never silently ignored, whatever the model type") {
  const std::vector<std::string> all{kGpt2,  kBert + "}", kRoberta, kLlama2, kMistral, kMixtral, kQwen2,
                                     kQwen3, kPythia,     kOpt,     kGemma,  kPhi3,    kT5};
  for (const std::string& config : all) {
    INFO(config);
    for (const char* key : {"num_shared_experts", "moe_intermediate_size", "cross_attention_layers", "qk_norm",
                            "draft_vocab_size", "adapter_rank", "vision_config", "num_nextn_predict_layers", "n_extra",
                            "d_extra", "mlp_gate", "attn_logit_bias"})
      for (const char* value : {"7", "true", R"({"a": 1})", R"(["x"])", R"("on")"}) {
        INFO(key << ": " << value);
        const std::string error = error_of(with(config, "\"" + std::string{key} + "\": " + value));
        CHECK(error.find("/" + std::string{key} + ": not known for model type") != std::string::npos);
      }
    CHECK(remarks_on(with(config, R"("extra_rate": 0.5)"), "keys that are not understood: extra_rate"));
    CHECK(remarks_on(with(config, R"("num_shared_experts": 0)"), "num_shared_experts"));
    CHECK_FALSE(remarks_on(with(config, R"("num_shared_experts": null)"), "num_shared_experts"));
    for (const char* key : {"add_cross_attention", "torchscript"})
      CHECK(error_of(with(config, "\"" + std::string{key} + "\": true")).find("/" + std::string{key} + ": ") !=
            std::string::npos);
    CHECK(error_of(with(config, R"("pruned_heads": {"1": [0]})")) ==
          "config.json: /pruned_heads: expected no heads that are pruned; found an object");
    CHECK(parameters_of(with(config, R"("pruned_heads": {}, "use_cache": true, "bos_token_id": 1,
      "transformers_version": "4.40.0", "torch_dtype": "bfloat16", "_name_or_path": "x")")) == parameters_of(config));
    CHECK(remarks_on(with(config, R"("quantization_config": {"bits": 4})"), "quantized"));
    CHECK(remarks_on(with(config, R"("auto_map": {"AutoModel": "a.B"})"), "auto_map"));
  }
}

TEST_CASE("a draft model is refused as one, whatever the type of the model that it guesses for") {
  for (const char* type : {"llama", "kimi_k2", "deepseek_v3", "qwen3_moe", "qwen3", "not_known"})
    for (const char* name :
         {"LlamaForCausalLMEagle3", "LlamaForCausalLMEagle", "DFlashDraftModel", "DeepseekDFlashDraftModel",
          "Qwen3MoeForCausalLMMTP", "DeepSeekMTPModel", "MedusaModel", "MLPSpeculatorPreTrainedModel"})
      CHECK(error_of(R"({"model_type": ")" + std::string{type} + R"(", "architectures": [")" + name + R"("]})") ==
            "config.json: /architectures: class \"" + std::string{name} +
                "\" is not supported: draft models, which guess tokens ahead of another model, are not built");
}

TEST_CASE("a size of the model under another program's name is no other size, unless it is another") {
  for (const std::string& config : {kBert + "}", kLlama3, kQwen3, kRoberta}) {
    const Json json = Json::parse(config);
    for (const auto& [repeated, names] :
         {std::pair{"hidden_size", std::vector{"emb_size", "embedding_size", "embed_dim", "d_model", "n_embd"}},
          std::pair{"num_hidden_layers", std::vector{"num_layers", "n_layers", "n_layer"}},
          std::pair{"num_attention_heads", std::vector{"num_heads", "n_heads", "n_head"}}})
      for (const char* name : names) {
        const int size = json[repeated];
        const auto stated = [&](int value) {
          return with(config, "\"" + std::string{name} + "\": " + std::to_string(value));
        };
        CHECK(parameters_of(stated(size)) == parameters_of(config));
        CHECK_FALSE(remarks_on(stated(size), name));
        CHECK(error_of(stated(2 * size)).find("/" + std::string{name} + ": not known") != std::string::npos);
      }
  }
}

TEST_CASE("heads that do not divide the width are refused by the names of the file") {
  CHECK(error_of(replaced(kBert + "}", "\"num_attention_heads\": 12", "\"num_attention_heads\": 7")) ==
        "config.json: expected \"hidden_size\", 768, to be a multiple of \"num_attention_heads\"; found 7");
  CHECK(error_of(R"({"model_type": "gpt2", "n_head": 7})") ==
        "config.json: expected \"hidden_size\", 768, to be a multiple of \"n_head\"; found 7");
  CHECK(error_of(R"({"model_type": "distilbert", "dim": 256, "n_heads": 7})") ==
        "config.json: expected \"dim\", 256, to be a multiple of \"n_heads\"; found 7");
}

TEST_CASE("what is not supported is refused by its name, and no neighbour is suggested") {
  const auto of_type = [](const char* type) { return error_of(R"({"model_type": ")" + std::string{type} + "\"}"); };
  for (const char* type :
       {"gpt3", "umt5", "lama", "qwen4", "bertt", "RefinedWeb", "stablelm_epoch", "esm", "chatglm"}) {
    CHECK(of_type(type).starts_with("config.json: /model_type: model type \"" + std::string{type} +
                                    "\" is not supported; supported: albert, "));
    CHECK(of_type(type).find("did you mean") == std::string::npos);
  }
  const std::string experts =
      "\" is not supported: of mixtures of experts only deepseek_v2, deepseek_v3, gpt_oss, granitemoe, grok-1, "
      "kimi_k2, "
      "llama4_text, mixtral, olmoe, phimoe, qwen2_moe and qwen3_moe are built";
  for (const char* type :
       {"deepseek", "dbrx", "glm4_moe", "granitemoehybrid", "jamba", "switch_transformers", "nllb-moe"})
    CHECK(of_type(type) == "config.json: /model_type: model type \"" + std::string{type} + experts);
  for (const char* name : {"Qwen3NextForCausalLM", "Glm4MoeForCausalLM", "DbrxForCausalLM"})
    CHECK(error_of(R"({"architectures": [")" + std::string{name} + "\"]}") ==
          "config.json: /architectures: class \"" + std::string{name} + experts);
  for (const char* type : {"mamba", "mamba2", "falcon_mamba", "rwkv"})
    CHECK(of_type(type).ends_with(": recurrences and state space layers are not built"));
  CHECK(of_type("deberta").ends_with(
      ": attention with projections of positions of their own is not built; deberta-v2 is"));
  for (const char* type : {"gemma3", "llava", "llama4", "qwen2_vl", "mllama"})
    CHECK(of_type(type).ends_with(": models that join images or sound with text are not built, CLIP apart"));
  CHECK(error_of(R"({"model_type": "llava", "text_config": {"model_type": "llama"}})")
            .ends_with(", CLIP apart; its \"text_config\" by itself is read, as model type \"llama\""));
  CHECK(error_of(R"({"model_type": "blip", "text_config": {"model_type": "blip_text_model"}})")
            .ends_with("are not built, CLIP apart"));
  CHECK(of_type("swin").ends_with(": attention within shifted windows is not built"));
  CHECK(of_type("convnext").find("export the model to ONNX") != std::string::npos);
  CHECK(error_of(made_as(kLlama3, "LlamaSwiftKVForCausalLM")) ==
        "config.json: /architectures: class \"LlamaSwiftKVForCausalLM\" of model type \"llama\" is not supported; "
        "supported: LlamaForCausalLM, LlamaModel, LlamaForSequenceClassification, LlamaForTokenClassification, "
        "LlamaForQuestionAnswering");
  for (const char* name : {"MistralForCausalLM", "GPT2Model"})
    CHECK(error_of(made_as(kLlama3, name)).find("is not supported; supported: LlamaForCausalLM") != std::string::npos);
  CHECK(error_of(with(without_class(kGpt2), R"("architectures": ["GPT2DoubleHeadsModel"])")).find("GPT2DoubleHeads") !=
        std::string::npos);
  CHECK(error_of(with(kLlama3, R"("architectures": ["LlamaForCausalLM", "LlamaModel"])")) ==
        "config.json: /architectures: expected one class of transformers; found an array of 2");
  CHECK(error_of(made_as(with(kBert + "}", R"("position_embedding_type": "relative_key")"), "BertModel")) ==
        "config.json: /position_embedding_type: only \"absolute\" is supported; found \"relative_key\"");
  CHECK(error_of(with(kQwen3, R"("layer_types": ["full_attention", "linear_attention"])"))
            .find("/layer_types: only layers of") != std::string::npos);
}

TEST_CASE("experts are built as wide as their type says, in the layers that the file says") {
  const std::string qwen = R"({"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 64,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "intermediate_size": 96,
      "moe_intermediate_size": 24, "num_experts": 8, "num_experts_per_tok": 2, "norm_topk_prob": true,
      "decoder_sparse_step": 1, "mlp_only_layers": [], "vocab_size": 100})";
  // Table and logits; of a layer queries and outputs, keys and values, router, experts, two norms, norms of a head; last norm.
  const int layer = 2 * 64 * 128 + 2 * 64 * 64 + 64 * 8 + 8 * 3 * 64 * 24 + 2 * 64 + 2 * 32;
  CHECK(parameters_of(qwen) == 2 * 100 * 64 + 2 * layer + 64);
  // One of the two layers has a feed-forward part of its own width instead of router and experts.
  const int fewer = 64 * 8 + 8 * 3 * 64 * 24 - 3 * 64 * 96;
  CHECK(parameters_of(replaced(qwen, R"("mlp_only_layers": [])", R"("mlp_only_layers": [0])")) ==
        parameters_of(qwen) - fewer);
  CHECK(parameters_of(replaced(qwen, R"("decoder_sparse_step": 1)", R"("decoder_sparse_step": 2)")) ==
        parameters_of(qwen) - fewer);
  for (const char* layers : {"[1]", "[0, 2]"})
    CHECK(error_of(replaced(qwen, R"("mlp_only_layers": [])", R"("mlp_only_layers": )" + std::string{layers})) ==
          "config.json: /mlp_only_layers: layers without experts between those that have some are supported only in "
          "turns (\"decoder_sparse_step\"), or as the first ones");
  CHECK(error_of(with(qwen, R"("num_local_experts": 4)")) ==
        "config.json: /num_local_experts: another size than num_experts, which is the same of this model type");
  CHECK(parameters_of(replaced(qwen, "num_experts\"", "num_local_experts\"")) ==
        parameters_of(qwen));  // transformers 5
  CHECK(
      error_of(with(qwen, R"("n_routed_experts": 8)")).starts_with("config.json: /n_routed_experts: experts of this"));
  CHECK(error_of(with(qwen, R"("shared_expert_intermediate_size": 48)")).find("not known for model type") !=
        std::string::npos);
}

TEST_CASE("DeepSeek's latents, shared experts and dense layers are those of the file, and what is not built is said") {
  const std::string deepseek = R"({"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"],
      "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 100,
      "intermediate_size": 96, "moe_intermediate_size": 24, "n_routed_experts": 8, "n_shared_experts": 2,
      "num_experts_per_tok": 2, "first_k_dense_replace": 1, "q_lora_rank": 20, "kv_lora_rank": 12,
      "qk_rope_head_dim": 4, "qk_nope_head_dim": 6, "v_head_dim": 5, "topk_method": "noaux_tc"})";
  // Queries down and up with a norm, keys and values down and up with a norm, output, two norms; router with biases.
  const int queries = 64 * 20 + 20 + 20 * 4 * 10, keys = 64 * 16 + 12 + 12 * 4 * 11;
  const int attention = queries + keys + 4 * 5 * 64 + 2 * 64, experts = 64 * 8 + 8 + (8 + 2) * 3 * 64 * 24;
  const int all = 2 * 100 * 64 + 3 * attention + 3 * 64 * 96 + 2 * experts + 64;
  CHECK(parameters_of(deepseek) == all);
  CHECK(parameters_of(replaced(deepseek, R"("q_lora_rank": 20)", R"("q_lora_rank": null)")) ==
        all - 3 * (queries - 64 * 4 * 10));
  for (const char* none : {"null", "0"})
    CHECK(parameters_of(replaced(deepseek, R"("n_shared_experts": 2)",
                                 R"("n_shared_experts": )" + std::string{none})) == all - 2 * 2 * 3 * 64 * 24);
  CHECK(parameters_of(replaced(deepseek, R"("noaux_tc")", R"("greedy")")) == all - 2 * 8);
  // Biases of both ways down and of the output, none of the ways up.
  CHECK(parameters_of(with(deepseek, R"("attention_bias": true)")) == all + 3 * (20 + 16 + 64));
  CHECK(parameters_of(with(deepseek, R"("head_dim": 4, "qk_head_dim": 10)")) == all);
  CHECK(parameters_of(replaced(deepseek, "n_routed_experts", "num_local_experts")) == all);
  const auto net = std::get<Transformer>(test::model_of(imported(deepseek)).structure);
  CHECK(net.experts.is_grouped);
  CHECK(net.experts.dense_layers == 1);
  CHECK(net.head_features == 10);
  CHECK(remarks_on(deepseek, "tokens are taken to be spread evenly"));
  CHECK(remarks_on(with(deepseek, R"("num_nextn_predict_layers": 1)"), "modules that predict further tokens"));
  CHECK_FALSE(remarks_on(with(deepseek, R"("num_nextn_predict_layers": 0)"), "modules that predict"));
  CHECK(error_of(replaced(deepseek, R"("num_key_value_heads": 4)", R"("num_key_value_heads": 2)")) ==
        "config.json: /num_key_value_heads: another number than that of heads is not supported beside latents");
  CHECK(error_of(with(deepseek, R"("moe_layer_freq": 2)")) ==
        "config.json: /moe_layer_freq: layers without experts between those that have some are not supported");
  CHECK(error_of(with(deepseek, R"("head_dim": 5)")) ==
        "config.json: /head_dim: neither the rotary features of a head nor all of its features");
  CHECK(error_of(with(deepseek, R"("qk_head_dim": 5)")) ==
        "config.json: /qk_head_dim: not the features of a head's queries");
  CHECK(error_of(with(deepseek, R"("index_n_heads": 4)")).find("/index_n_heads: not known") != std::string::npos);
}

TEST_CASE("Llama 4's text part is read by itself, with experts in the layers of its period") {
  const std::string text = R"({"model_type": "llama4_text", "hidden_size": 64, "num_hidden_layers": 4,
      "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 100, "intermediate_size": 24,
      "intermediate_size_mlp": 96, "num_local_experts": 8, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2,
      "layer_types": ["chunked_attention", "full_attention"], "use_qk_norm": true})";
  const int attention = 2 * 64 * 64 + 2 * 64 * 32 + 2 * 64, experts = 64 * 8 + 9 * 3 * 64 * 24;
  CHECK(parameters_of(text) == 2 * 100 * 64 + 4 * attention + 2 * experts + 2 * 3 * 64 * 96 + 64);
  const auto net = std::get<Transformer>(test::model_of(imported(text)).structure);
  CHECK(net.has_query_key_norms);
  CHECK_FALSE(net.has_query_key_norm_scales);
  CHECK(parameters_of(with(text, R"("moe_layers": [1, 3])")) == parameters_of(text));
  CHECK(error_of(with(text, R"("moe_layers": [0, 1])")) ==
        "config.json: /moe_layers: other layers than those of \"interleave_moe_layer_step\" are not supported");
  CHECK(error_of(R"({"model_type": "llama4", "text_config": {"model_type": "llama4_text"}})")
            .ends_with("; its \"text_config\" by itself is read, as model type \"llama4_text\""));
}

TEST_CASE("gpt-oss has biases of experts, of the router and of attention, and sinks") {
  const std::string config = R"({"model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "hidden_size": 64,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 100,
      "intermediate_size": 24, "num_local_experts": 8, "experts_per_token": 2, "attention_bias": true})";
  const int attention = 2 * 64 * 128 + 128 + 64 + 2 * (64 * 64 + 64) + 4 + 2 * 64;
  const int experts = 64 * 8 + 8 + 8 * (64 * 48 + 48 + 24 * 64 + 64);
  CHECK(parameters_of(config) == 2 * 100 * 64 + 2 * (attention + experts) + 64);
  CHECK(remarks_on(config, "a sliding window of 128 positions is not modelled"));
}

TEST_CASE("keys of other programs and of generated test models change nothing") {
  // MLX quantizes under a key of its own; random models of tests have sizes of BERT in every type.
  CHECK(remarks_on(with(kQwen3, R"("quantization": {"group_size": 64, "bits": 4, "mode": "affine"})"), "quantized"));
  CHECK(remarks_on(with(kQwen3, R"("quantization": "int4")"), "quantized"));
  CHECK_FALSE(remarks_on(with(kQwen3, R"("quantization": false)"), "quantized"));
  for (const std::string& config : {kLlama2, kMistral, kGemma, kPhi3, kPythia})
    CHECK(parameters_of(with(config, R"("attention_probs_dropout_prob": 0.1, "type_vocab_size": 16,
        "type_sequence_label_size": 2, "num_choices": 4)")) == parameters_of(config));
  for (const char* key : {"use_glu", "feed_forward_type", "rotary", "use_alibi", "rel_pos_bins", "prompt_length",
                          "prefix_projection", "num_rnn_layer", "use_crf"})
    CHECK(error_of(with(kBert + "}", "\"" + std::string{key} + "\": true")).find("not known for model type") !=
          std::string::npos);
  const auto is_causal = [](const std::string& config) {
    return imported(config).model_file["structure"]["causal"].get<bool>();
  };
  CHECK(is_causal(kQwen2));
  CHECK_FALSE(is_causal(with(kQwen2, R"("is_causal": false)")));
}

TEST_CASE("stacks that transformers 3 read from the file and later versions do not are refused") {
  const std::string bart = R"({"model_type": "bart", "architectures": ["BartForConditionalGeneration"], "d_model": 64,
      "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
      "encoder_ffn_dim": 96, "decoder_ffn_dim": 96, "vocab_size": 100, "max_position_embeddings": 32})";
  const std::string mbart = replaced(replaced(bart, R"("bart")", R"("mbart")"), "BartFor", "MBartFor");
  const std::string usual =
      R"("normalize_embedding": true, "static_position_embeddings": false, "extra_pos_embeddings": 2)";
  CHECK(parameters_of(with(bart, usual + R"(, "normalize_before": false)")) == parameters_of(bart));
  CHECK(parameters_of(with(mbart, usual + R"(, "normalize_before": true)")) == parameters_of(mbart));
  CHECK(error_of(with(bart, R"("normalize_before": true)")) ==
        "config.json: /normalize_before: only false is supported: transformers builds model type \"bart\" so since "
        "version 4, whatever the file says");
  CHECK(error_of(with(mbart, R"("add_final_layer_norm": false)")).starts_with("config.json: /add_final_layer_norm: "));
  CHECK(error_of(with(bart, R"("static_position_embeddings": true)")).find("only false") != std::string::npos);
  CHECK(error_of(with(bart, R"("normalize_embedding": false)")).find("only true") != std::string::npos);
  CHECK(error_of(with(bart, R"("extra_pos_embeddings": 4)")) ==
        "config.json: /extra_pos_embeddings: only 2 are supported");
}

TEST_CASE("a file without a model type is known by its class, or refused") {
  std::string config = kBert + R"(, "architectures": ["BertForMaskedLM"]})";
  config.erase(config.find("\"model_type\""), std::string_view{"\"model_type\": \"bert\","}.size());
  CHECK(parameters_of(config) == 109'514'298);
  std::string neither = kBert + "}";
  neither.erase(neither.find("\"model_type\""), std::string_view{"\"model_type\": \"bert\","}.size());
  CHECK(error_of(neither).starts_with(
      "config.json: no \"model_type\" and no \"architectures\": expected a model type, one of albert, "));
  CHECK(remarks_on(kBert + "}", "the file names no class: it is taken as BertModel"));
}

TEST_CASE("NaN and Infinity, which transformers writes, are read where they do not matter") {
  CHECK(parameters_of(with(kLlama2, R"("time_step_limit": [0.0, Infinity], "a": NaN, "b": -Infinity, "c": "\"NaN")")) ==
        6'738'415'616);
  std::string config = kLlama2;
  config.replace(config.find("11008"), 5, "Infinity");
  CHECK(error_of(config) ==
        "config.json: /intermediate_size: expected a whole number between -2147483648 and 2147483647; found "
        "\"Infinity\"");
}

TEST_CASE("sizes that the file does not state are those of transformers, and said") {
  CHECK(parameters_of(R"({"model_type": "bert", "architectures": ["BertModel"]})") == 109'482'240);
  CHECK(parameters_of(R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]})") == 124'439'808);
  CHECK(parameters_of(R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"]})") == 6'738'415'616);
  CHECK(parameters_of(R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]})") == 60'506'624);
  CHECK(parameters_of(R"({"model_type": "gemma", "architectures": ["GemmaForCausalLM"]})") == 8'537'680'896);
  CHECK(remarks_on(R"({"model_type": "mistral"})", "num_key_value_heads 8"));
  CHECK(parameters_of(R"({"model_type": "mistral"})") == 7'241'732'096);
}

TEST_CASE("attention that sees a window is remarked where that is less work") {
  CHECK(remarks_on(with(kMistral, R"("sliding_window": 1024)"), "a sliding window of 1024 positions is not modelled"));
  CHECK_FALSE(remarks_on(with(kMistral, R"("sliding_window": null)"), "sliding window"));
  CHECK_FALSE(remarks_on(kMistral, "sliding window"));  // 4096 positions of as many
  CHECK_FALSE(remarks_on(with(kQwen2, R"("sliding_window": 1024)"), "sliding window"));
  CHECK(remarks_on(with(kQwen2, R"("use_sliding_window": true, "sliding_window": 1024)"), "sliding window"));
}

TEST_CASE("matrix products of a decoder with shared keys and gates are those of its sizes") {
  // 32 layers of 4096 positions: queries and output 2 w^2, keys and values 2 w w/4, three matrices w f of the
  // feed-forward layer, scores and context 2 s w; then logits. 2 FLOPs per multiply-add.
  const double w = 4096, f = 14336, s = 4096, vocabulary = 128256;
  const double layer = s * (2 * w * w + 2 * w * w / 4 + 3 * w * f + 2 * s * w);
  CHECK(test::workload_of(imported(kLlama3)).forward_flops().value() ==
        doctest::Approx(2 * (32 * layer + s * w * vocabulary)));
  const Workload workload = test::workload_of(imported(kLlama3), 2);
  CHECK(workload.training_flops().value() == doctest::Approx(3 * workload.forward_flops().value()));
  // No dropout, no biases: queries, keys, values, two rotations, scores, mask, softmax, context, output, sum and norm;
  // two inner layers, activation, product, outer layer, sum and norm; embedding, last norm, logits, loss.
  CHECK(std::ranges::count_if(workload.graph, [](const Operator& op) { return op.phase == Phase::kForward; }) ==
        32 * 19 + 4);
}

TEST_CASE("a mixture of experts does the work of the experts that a token passes, and reads the parameters of all") {
  // As above, with two of eight feed-forward layers for each position, and the router's w x 8.
  const double w = 4096, f = 14336, s = 4096, vocabulary = 32000;
  const double layer = s * (2 * w * w + 2 * w * w / 4 + 2 * 3 * w * f + 8 * w + 2 * s * w);
  const Workload workload = test::workload_of(imported(kMixtral));
  CHECK(workload.forward_flops().value() == doctest::Approx(2 * (32 * layer + s * w * vocabulary)).epsilon(1e-12));
  CHECK(workload.training_flops().value() == doctest::Approx(3 * workload.forward_flops().value()));
  // An expert's matrices have 2/8 of the positions as rows.
  int products = 0;
  for (const Operator& op : workload.graph)
    if (op.phase == Phase::kForward && op.name.find("layer1/feed_forward/expert3/inner") != std::string::npos) {
      CHECK(op.matrix.rows == 1024);
      ++products;
    }
  CHECK(products == 1);
  // Each layer has, besides those of a dense one with five kernels: router, softmax, mix, and six kernels of an expert.
  CHECK(std::ranges::count_if(workload.graph, [](const Operator& op) { return op.phase == Phase::kForward; }) ==
        32 * (19 - 5 + 3 + 8 * 6) + 4);
}

TEST_CASE("a mixture of many experts in many layers is counted") {
  const std::string qwen = R"({"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"],
    "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
    "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": true,
    "vocab_size": 151936, "max_position_embeddings": 40960, "tie_word_embeddings": false})";
  CHECK(parameters_of(qwen) == 30'532'122'624);  // of Qwen/Qwen3-30B-A3B
}

TEST_CASE("a token passes at most all experts, of which there are not too many") {
  const auto error = [](const char* from, const char* to) {
    std::string config = kMixtral;
    config.replace(config.find(from), std::string_view{from}.size(), to);
    return test::error_of([&] { (void)test::workload_of(imported(config)); });
  };
  CHECK(error(R"(_per_tok": 2)", R"(_per_tok": 9)")
            .ends_with("/experts_per_token: expected at most \"experts\"; found 9"));
  CHECK(error(R"(_experts": 8)", R"(_experts": 513)")
            .ends_with(
                "/num_local_experts: at most 16384 experts in all layers together are built, kernel by kernel; 513 in "
                "each of 32 layers are more: take away layers, which are alike"));
}

TEST_CASE("what a configuration says of its kind is kept") {
  const auto qwen = std::get<Transformer>(test::model_of(imported(kQwen2)).structure);
  CHECK(qwen.has_attention_biases);
  CHECK(!qwen.has_output_bias);
  CHECK(qwen.kv_heads == 4);
  CHECK(qwen.sequence_length == 4096);
  CHECK(imported(made_as(kQwen2, "Qwen2ForCausalLM")).remarks ==
        std::vector<std::string>{"sequence_length is 4096; the model takes up to 131072"});
  const auto pythia = std::get<Transformer>(test::model_of(imported(kPythia)).structure);
  CHECK(pythia.has_parallel_sublayers);
  const auto opt = std::get<Transformer>(test::model_of(imported(kOpt)).structure);
  CHECK(opt.has_dropout);
  CHECK(opt.has_relu);
  const auto with_kernels = [](std::string config, const std::string& kernels) {
    config.insert(1, R"("_attn_implementation": ")" + kernels + "\", ");
    return std::get<Transformer>(test::model_of(imported(config)).structure).has_fused_attention;
  };
  CHECK_FALSE(opt.has_fused_attention);
  CHECK(with_kernels(kOpt, "sdpa"));
  CHECK_FALSE(with_kernels(kOpt, "eager"));
  CHECK_FALSE(with_kernels(kT5, "sdpa"));
}

TEST_CASE("configurations that are not supported are refused by their key") {
  const auto error = [](const std::string& config) {
    return test::error_of([&] { (void)test::workload_of(imported(config)); });
  };
  CHECK(error(R"({"model_type": "llama", "num_local_experts": 8})") ==
        "config.json: /num_local_experts: a mixture of experts is not supported in this model type");
  CHECK(error(R"({"model_type": "gpt2", "n_layer": 0})") ==
        "config.json: /n_layer: expected an integer from 1 to 1048576; found 0");
}

TEST_CASE("in what the weights are stored is told, as a workload states its precision") {
  for (const auto& [key, type] :
       {std::pair{R"("torch_dtype": "bfloat16")", "bfloat16"}, std::pair{R"("dtype": "float16")", "float16"},
        std::pair{R"("dtype": "torch.bfloat16")", "bfloat16"},
        std::pair{R"("dtype": "float8_e4m3fn")", "float8_e4m3fn"},
        std::pair{R"("dtype": "bfloat16", "torch_dtype": "float32")", "bfloat16"},
        std::pair{R"("torch_dtype": "float32")", ""}, std::pair{R"("torch_dtype": "auto")", ""},
        std::pair{R"("torch_dtype": null)", ""}, std::pair{R"("use_cache": true)", ""}}) {
    const char* const stated = key;
    CAPTURE(stated);
    CHECK(imported(with(kMistral, key)).stored_type == type);
  }
  CHECK(precision_remark("bfloat16") ==
        "its weights are stored in bfloat16, which is not taken over: a workload states its precision, \"precision\": "
        "\"bf16\", and without that has fp32");
  CHECK(precision_remark("float16").find("\"precision\": \"fp16\"") != std::string::npos);
  CHECK(
      precision_remark("float8_e4m3fn") ==
      "its weights are stored in float8_e4m3fn, which is not taken over: a workload states its precision, and without "
      "that has fp32");
}

}  // namespace rehearse
