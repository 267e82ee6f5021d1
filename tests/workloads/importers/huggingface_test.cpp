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
  CHECK(std::ranges::count(workload.graph, Phase::kForward, &Operator::phase) == 32 * 19 + 4);
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
  CHECK(std::ranges::count(workload.graph, Phase::kForward, &Operator::phase) == 32 * (19 - 5 + 3 + 8 * 6) + 4);
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
            .ends_with("/experts: expected at most 16384 in all layers together; found 513"));
}

TEST_CASE("what a configuration says of its kind is kept") {
  const auto qwen = std::get<Transformer>(test::model_of(imported(kQwen2)).structure);
  CHECK(qwen.has_attention_biases);
  CHECK(!qwen.has_output_bias);
  CHECK(qwen.kv_heads == 4);
  CHECK(qwen.sequence_length == 4096);
  CHECK(imported(kQwen2).remarks == std::vector<std::string>{"sequence_length is 4096; the model takes up to 131072"});
  const auto pythia = std::get<Transformer>(test::model_of(imported(kPythia)).structure);
  CHECK(pythia.has_parallel_sublayers);
  const auto opt = std::get<Transformer>(test::model_of(imported(kOpt)).structure);
  CHECK(opt.has_dropout);
  CHECK(imported(kBert + R"(, "architectures": ["BertForQuestionAnswering"]})").remarks.size() == 1);
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
        "config.json: /num_local_experts: mixtures of experts other than Mixtral's are not supported");
  CHECK(error(R"({"model_type": "lama"})") ==
        "config.json: /model_type: unknown model type \"lama\"; did you mean "
        "\"llama\"?");
  CHECK(error(R"({"model_type": "llama"})") == "config.json: expected the key \"num_hidden_layers\"; found none");
  CHECK(error(R"({"model_type": "gpt2", "n_layer": 0})") ==
        "config.json: /n_layer: expected an integer from 1 to 1048576; found 0");
  std::string narrow = kOpt;
  narrow.replace(narrow.find("\"word_embed_proj_dim\": 2048"), 27, "\"word_embed_proj_dim\": 512");
  CHECK(error(narrow) == "config.json: /word_embed_proj_dim: an embedding narrower than the model is not supported");
}

}  // namespace rehearse
