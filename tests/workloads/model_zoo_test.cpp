#include "workloads/model_zoo.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace rehearse {

namespace {

Workload build_text(const std::string& structure, const std::string& input = "[32, 32, 3]") {
  const Json json = parse_json(
      R"({"format": 1, "source": "test", "input": )" + input + R"(, "structure": )" + structure + "}", "m.json");
  return build_workload(read_model("m", JsonReader{json, "m.json"}), 1, Precision::kFp32, "m.json");
}

}  // namespace

TEST_CASE("a model can be a list of layers with branches") {
  const Workload workload = build_text(R"({"family": "layers", "layers": [
    {"layer": "convolution", "channels": 8, "kernel": 3},
    {"layer": "branches", "branches": [[], [{"layer": "batch_norm"}, {"layer": "relu"}, {"layer": "convolution", "channels": 8, "kernel": 3}]]},
    {"layer": "global_average_pool"}, {"layer": "dense", "features": 10}]})");
  // 3*3*3*8 + (8 + 8) + 3*3*8*8 + 8*10 + 10 = 216 + 16 + 576 + 90
  CHECK(workload.parameters() == 898);
}

TEST_CASE("mistakes in model files are named with their place") {
  CHECK_THROWS_WITH_AS((void)build_text(R"({"family": "resnet", "layers": []})"),
                       "m.json: /structure/family: unknown family \"resnet\"; known: \"layers\", \"resnet_v2_basic\", "
                       "\"shake_shake_2branch\", \"timed_layers\"",
                       InputError);
  CHECK_THROWS_WITH_AS((void)build_text(R"({"family": "layers", "layers": [{"layer": "relo"}]})"),
                       "m.json: /structure/layers/0/layer: unknown layer \"relo\"; did you mean \"relu\"?", InputError);
  CHECK_THROWS_WITH_AS((void)build_text(R"({"family": "layers", "layers": [{"layer": "dense", "features": 0}]})"),
                       "m.json: /structure/layers/0/features: expected an integer from 1 to 1048576; found 0",
                       InputError);
  CHECK_THROWS_WITH_AS(
      (void)build_text(R"({"family": "resnet_v2_basic", "blocks_per_stage": [1, 2], "widths": [8]})"),
      "m.json: /structure/widths: expected as many integers as \"blocks_per_stage\" has; found an array of 1",
      InputError);
  CHECK_THROWS_WITH_AS((void)build_text(R"({"family": "layers", "layers": [{"layer": "relu"}]})"),
                       "m.json: the model has no variable to train", InputError);
}

TEST_CASE("models too large to exist are refused instead of overflowing") {
  CHECK_THROWS_AS((void)build_text(R"({"family": "resnet_v2_basic", "blocks_per_stage": [1000000], "widths": [8]})"),
                  InputError);
  CHECK_THROWS_AS((void)build_text(R"({"family": "layers", "layers": [
    {"layer": "convolution", "channels": 1048576, "kernel": 65536}, {"layer": "convolution", "channels": 1048576, "kernel": 65536}]})",
                                   "[65536, 65536, 65536]"),
                  InputError);
}

TEST_CASE("tensors too large to count are refused by name") {
  CHECK_THROWS_WITH_AS((void)build_text(R"({"family": "layers", "layers": [{"layer": "dense", "features": 1}]})",
                                        "[65536, 65536, 65536]"),
                       "m.json: the input has more than 2^40 scalars", InputError);
  std::string doublings;
  for (int i = 0; i < 64; ++i)
    doublings += R"(, {"layer": "branches", "combine": "concatenate", "branches": [[], []]})";
  // 32 * 32 = 2^10 positions, 2^30 channels after 30 doublings; the 31st, in layer 32, is too much.
  CHECK_THROWS_WITH_AS(
      (void)build_text(R"({"family": "layers", "layers": [{"layer": "convolution", "channels": 1, "kernel": 1})" +
                       doublings + "]}"),
      "m.json: layer layer32/concat has more than 2^40 scalars", InputError);
  CHECK_THROWS_WITH_AS(
      (void)build_text(R"({"family": "resnet_v2_basic", "blocks_per_stage": [1048576], "widths": [8]})"),
      "m.json: the model has more than 100000 operators", InputError);
}

TEST_CASE("a shake-shake width that cannot be halved is refused") {
  CHECK_THROWS_WITH_AS(
      (void)build_text(R"({"family": "shake_shake_2branch", "blocks_per_stage": [1], "widths": [1]})"),
      "m.json: /structure/widths: expected even integers: two halves make a skip connection; found an array of 1",
      InputError);
}

TEST_CASE("the schema of model files is valid JSON") { CHECK_NOTHROW((void)parse_json(model_schema(), "schema")); }

TEST_CASE("timed layers: a kernel per layer and direction with its own time, for the measured batch only") {
  const std::string text = R"({"family": "timed_layers", "batch": 1, "optimizer_time": "5us", "layers": [
    {"name": "a", "gradient": "400B", "forward": "1us", "backward": "2us"},
    {"name": "b", "gradient": "0B", "forward": "3us", "backward": "4us"}]})";
  const auto build_timed = [](const std::string& structure) {
    const Json json = parse_json(R"({"format": 1, "source": "test", "structure": )" + structure + "}", "m.json");
    return build_workload(read_model("m", JsonReader{json, "m.json"}), 1, Precision::kFp32, "m.json");
  };
  const Workload workload = build_timed(text);
  CHECK(workload.parameters() == 100);
  CHECK(workload.optimizer_time == 5.0_us);
  REQUIRE(num_vertices(workload.graph) == 4);
  CHECK(workload.graph[2].name == "b/backward");
  CHECK(workload.graph[3].measured_time == 2.0_us);
  CHECK(workload.graph[3].produces_gradients == std::vector{0});
  CHECK_THROWS_WITH_AS((void)build_timed(std::string{text}.replace(text.find("1,"), 1, "7")),
                       "m.json: its times were measured with a batch of 7; found batch_per_worker 1", InputError);
}

}  // namespace rehearse
