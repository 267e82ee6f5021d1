// The models of the zoo against the counts that their authors, or the libraries named in their "source", state.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/paths.hpp"
#include "workloads/model_zoo.hpp"

namespace rehearse {

namespace {

Workload shipped(const std::string& name, int batch = 1) {
  const Json file = load_json_file(source_folder() + "/workloads/models/" + name + ".json");
  return build_workload(read_model(name, JsonReader{file, name}), batch, Precision::kFp32, name);
}

/// Of one sample.
double forward_multiply_adds(const Workload& workload) { return workload.forward_flops().value() / 2; }

}  // namespace

TEST_CASE("image models have exactly the published numbers of parameters") {
  const auto check = [](const char* name, std::int64_t parameters) {
    CAPTURE(name);
    CHECK(shipped(name).parameters() == parameters);
  };
  check("alexnet", 61'100'840);
  check("mxnet/alexnet", 50'844'008);  // 203 MB, calibration/data/mxnet-perf
  check("densenet121", 7'978'856);
  check("densenet201", 20'013'928);
  check("googlenet", 6'624'904);
  check("inception_v3", 23'834'568);
  check("inception_v4", 42'679'816);
  check("mobilenet_v2", 3'504'872);
  check("resnet18", 11'689'512);
  check("resnet34", 21'797'672);
  check("resnet50", 25'557'032);
  check("resnet101", 44'549'160);
  check("resnet152", 60'192'808);
  check("vgg11", 132'863'336);
  check("vgg16", 138'357'544);
  check("vgg19", 143'667'240);
  check("yolov3", 61'949'149);
  check("pollux/yolov3", 61'626'049);  // 20 classes: 3 * 60 outputs less, of 1024, 512 and 256 channels and a bias
  check("pollux/resnet18", 11'173'962);
  // Keras, trained parameters of 1000 classes: 3 504 872, 20 013 928, 25 583 592, 44 601 832. Of 10 classes there are 990
  // times as many less as the last layer has inputs, and a bias.
  check("tum/mobilenet_v2", 3'504'872 - 990 * 1281);
  check("tum/densenet201", 20'013'928 - 990 * 1921);
  check("tum/resnet50", 25'583'592 - 990 * 2049);
  check("tum/resnet101", 44'601'832 - 990 * 2049);
  // n = 18, the first stage: 432 + 32 + 36 (2304 + 32); the others: 4608 + 35 * 9216 + 36 * 64 and 18432 + 35 * 36864
  // + 36 * 128; logits: 650. The paper says 1.7 million.
  check("resnet110", 1'727'962);
}

TEST_CASE("large language models have exactly the numbers of parameters of the released weights") {
  const auto check = [](const char* name, std::int64_t parameters) {
    CAPTURE(name);
    CHECK(shipped(name).parameters() == parameters);
  };
  check("llama2_7b", 6'738'415'616);
  check("llama2_13b", 13'015'864'320);
  check("llama2_70b", 68'976'648'192);
  check("llama3_8b", 8'030'261'248);
  check("llama3_70b", 70'553'706'496);
  check("llama3_405b", 405'853'388'800);
  check("mpt_7b", 6'649'286'656);
  check("opt_1_3b", 1'315'758'080);
  check("opt_6_7b", 6'658'473'984);
  check("gpt_neox_20b", 20'554'567'680);
  check("gpt_neo_1_3b", 1'315'575'808);
  check("gpt_neo_2_7b", 2'651'307'520);
  check("bloom_7b", 7'069'016'064);
  check("bloom_176b", 176'247'271'424);
  check("deepseek_v3", 671'026'419'200);  // with the biases of its routers, 58 x 256
  check("mixtral_8x7b", 46'702'792'704);
  check("qwen3_30b_a3b", 30'532'122'624);
  check("gpt_oss_20b", 20'914'757'184);
}

TEST_CASE("GPT-3's and Megatron-LM's sizes: 12 L h^2 (1 + 13 / (12 h)) + (V + s) h, and the last normalisation") {
  const auto check = [](const char* name, std::int64_t layers, std::int64_t h, std::int64_t words) {
    CAPTURE(name);
    CHECK(shipped(name).parameters() == layers * (12 * h * h + 13 * h) + (words + 2048) * h + 2 * h);
  };
  check("gpt3_1_3b", 24, 2048, 50257);
  check("gpt3_6_7b", 32, 4096, 50257);
  check("gpt3_13b", 40, 5120, 50257);
  check("gpt3_175b", 96, 12288, 50257);
  check("megatron_22b", 48, 6144, 51200);
  check("megatron_530b", 105, 20480, 51200);
  check("megatron_1t", 128, 25600, 51200);
}

TEST_CASE("a ResNet-50 has 161 trainable tensors: 53 convolutions, 53 normalisations of two, a dense layer of two") {
  const Workload workload = shipped("resnet50");
  CHECK(workload.trainable_tensors() == 161);
  CHECK(workload.variables.size() == 161 + 2 * 53);
}

TEST_CASE("image models have the published multiply-adds of a forward pass") {
  const auto check = [](const char* name, double published) {
    CAPTURE(name);
    CHECK(forward_multiply_adds(shipped(name)) == doctest::Approx(published).epsilon(0.03));
  };
  check("alexnet", 0.714e9);
  check("densenet121", 2.87e9);
  check("googlenet", 1.50e9);
  check("inception_v3", 5.71e9);
  check("inception_v4", 12.27e9);
  check("mobilenet_v2", 0.30e9);
  check("resnet18", 1.82e9);
  check("resnet34", 3.67e9);
  check("resnet50", 4.09e9);
  check("resnet101", 7.80e9);
  check("resnet152", 11.51e9);
  check("vgg11", 7.61e9);
  check("vgg16", 15.47e9);
  check("vgg19", 19.63e9);
  check("yolov3", 65.86e9 / 2);  // the authors: 65.86 billion operations for an image of 416 x 416
}

TEST_CASE("sequence models have the published numbers of parameters and tensors") {
  const auto check = [](const char* name, std::int64_t parameters, int tensors) {
    CAPTURE(name);
    const Workload workload = shipped(name);
    CHECK(workload.parameters() == parameters);
    CHECK(workload.trainable_tensors() == tensors);
    CHECK(workload.variables.size() == static_cast<std::size_t>(tensors));
  };
  check("bert_base", 109'482'240, 199);
  check("bert_large", 335'141'888, 391);
  check("bert_base_pretraining", 110'106'428, 206);
  check("bert_large_pretraining", 336'226'108, 398);
  check("gpt2", 124'439'808, 148);
  check("gpt2_medium", 354'823'168, 292);
  check("gpt2_large", 774'030'080, 436);
  check("gpt2_xl", 1'557'611'200, 580);
  check("gnmt", 160'671'297, 44);
  // 10000 * 1500 twice, 10000 biases, and two layers of 4 * 1500 * (3000 + 1). The paper says 66 million.
  check("lstm_language_model", 66'022'000, 7);
  // 33762577 rows of 16, 13-512-256-64-16 and 367-512-256-1. The paper says 540 million.
  check("dlrm", 540'677'217, 40);

  // The paper says 65 and 213 million.
  CHECK(static_cast<double>(shipped("transformer_base").parameters()) == doctest::Approx(65e6).epsilon(0.031));
  CHECK(static_cast<double>(shipped("transformer_big").parameters()) == doctest::Approx(213e6).epsilon(0.01));
}

TEST_CASE("sequence models have the published FLOPs of a forward pass") {
  // Sequences of 128 (Jiao et al., TinyBERT, EMNLP 2020, table 1).
  CHECK(shipped("bert_base").forward_flops().value() == doctest::Approx(22.5e9).epsilon(0.03));
  // Kaplan et al., Scaling Laws for Neural Language Models, 2020, table 1: of one token, 2 N + 2 layers positions
  // width, N without embeddings; attention scores are counted for half of the positions there, since a language model
  // looks back only; kernels compute all of them. The logits are 2 vocabulary width more.
  struct Gpt {
    const char* name;
    double layers, width;
  };
  for (const Gpt& gpt :
       {Gpt{"gpt2", 12, 768}, Gpt{"gpt2_medium", 24, 1024}, Gpt{"gpt2_large", 36, 1280}, Gpt{"gpt2_xl", 48, 1600}}) {
    CAPTURE(gpt.name);
    const double positions = 1024;
    const double per_token =
        2 * 12 * gpt.layers * gpt.width * gpt.width + 4 * gpt.layers * positions * gpt.width + 2 * 50257 * gpt.width;
    CHECK(shipped(gpt.name).forward_flops().value() == doctest::Approx(positions * per_token).epsilon(1e-12));
  }
  // Training takes three times as much: each product has two gradients.
  const Workload gpt2 = shipped("gpt2");
  CHECK(gpt2.training_flops().value() == doctest::Approx(3 * gpt2.forward_flops().value()).epsilon(1e-12));
  // Per position 2 * 4 * 1500 * 3000 for each of two layers, and 2 * 1500 * 10000.
  CHECK(shipped("lstm_language_model").forward_flops() ==
        Flops{35.0 * (2 * 2.0 * 4 * 1500 * 3000 + 2.0 * 1500 * 10000)});
}

TEST_CASE("FLOPs and activations grow with the batch, parameters do not") {
  for (const char* name : {"bert_base", "transformer_base", "lstm_language_model", "gnmt", "dlrm", "resnet50"}) {
    CAPTURE(name);
    const Workload one = shipped(name, 1), four = shipped(name, 4);
    CHECK(four.parameters() == one.parameters());
    CHECK(four.training_flops().value() == doctest::Approx(4 * one.training_flops().value()));
    CHECK(four.activation_bytes == 4 * one.activation_bytes);
    CHECK(four.input_bytes == 4 * one.input_bytes);
    CHECK(four.graph.size() == one.graph.size());
  }
}

TEST_CASE("a depthwise convolution has no matrix product, and nine multiply-adds per output") {
  const Workload workload = shipped("mobilenet_v2");
  bool found = false;
  for (std::size_t v = 0; v < workload.graph.size(); ++v) {
    const Operator& op = workload.graph[v];
    if (op.name != "stage1/block1/depthwise") continue;
    found = true;
    CHECK(op.matrix.reduction == 0);
    CHECK(op.flops == Flops{2.0 * 9 * 112 * 112 * 32});
    CHECK(workload.variables[static_cast<std::size_t>(op.reads_variables[0])].shape ==
          std::vector<std::int64_t>{3, 3, 1, 32});
  }
  CHECK(found);
}

}  // namespace rehearse
