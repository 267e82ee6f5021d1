// The models of the zoo against the counts that their authors, or the libraries named in their "source", state.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "workloads/model_zoo.hpp"

namespace rehearse {

namespace {

Workload shipped(const std::string& name, int batch = 1) {
  const Json file = load_json_file(std::string{REHEARSE_SOURCE_DIR} + "/workloads/models/" + name + ".json");
  return build_workload(read_model(name, JsonReader{file, name}), batch, Precision::kFp32, name);
}

/// Of one sample.
double forward_multiply_adds(const Workload& workload) { return workload.forward_conv_dense_flops().value() / 2; }

}  // namespace

TEST_CASE("image models have exactly the published numbers of parameters") {
  const auto check = [](const char* name, std::int64_t parameters) {
    CAPTURE(name);
    CHECK(shipped(name).parameters() == parameters);
  };
  check("alexnet", 61'100'840);
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
  // n = 18, the first stage: 432 + 32 + 36 (2304 + 32); the others: 4608 + 35 * 9216 + 36 * 64 and 18432 + 35 * 36864
  // + 36 * 128; logits: 650. The paper says 1.7 million.
  check("resnet110", 1'727'962);
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
}

TEST_CASE("a depthwise convolution has no matrix product, and nine multiply-adds per output") {
  const Workload workload = shipped("mobilenet_v2");
  bool found = false;
  for (std::size_t v = 0; v < num_vertices(workload.graph); ++v) {
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
