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

TEST_CASE("windows: rectangular kernels, padding by name or number, groups; repetitions share no variables") {
  const Workload workload = build_text(R"({"family": "layers", "layers": [
    {"layer": "convolution", "channels": 8, "kernel": [1, 7], "padding": "valid", "bias": true},
    {"layer": "max_pool", "kernel": 3, "stride": 2, "padding": 1},
    {"layer": "repeat", "times": 2, "layers": [{"layer": "convolution_unit", "channels": 8, "kernel": 3, "groups": 4}]},
    {"layer": "dense", "features": 2, "bias": false}]})");
  // 32 x 32 -> 32 x 26 -> 16 x 13; 1*7*3*8 + 8 + 2 (3*3*2*8 + 16) + 16*13*8*2 = 168 + 8 + 320 + 3328
  CHECK(workload.parameters() == 3824);
  std::optional<Operator> grouped;
  for (std::size_t v = 0; v < workload.graph.size(); ++v)
    if (workload.graph[v].name() == "layer3/2/1/conv") grouped = workload.graph[v];
  REQUIRE(grouped);
  // Four groups of two channels: 16 * 13 positions, 2 outputs of 2 * 9 terms each, four times.
  CHECK(grouped->matrix.rows == 208);
  CHECK(grouped->matrix.columns == 2);
  CHECK(grouped->matrix.reduction == 18);
  CHECK(grouped->matrix.products == 4);
  CHECK(grouped->flops == Flops{2.0 * 208 * 2 * 18 * 4});
}

TEST_CASE("mistakes in model files are named with their place") {
  CHECK_THROWS_WITH_AS(
      (void)build_text(R"({"family": "vgg", "layers": []})"),
      "m.json: /structure/family: unknown family \"vgg\"; known: \"collective\", \"densenet\", \"dlrm\", "
      "\"gnmt\", \"graph\", \"layers\", \"lstm_language_model\", \"mobilenet_v2\", \"resnet\", "
      "\"resnet_v2_basic\", \"shake_shake_2branch\", \"timed_layers\", \"transformer\", \"two_towers\", \"yolo_v3\"",
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
  CHECK_THROWS_WITH_AS(
      (void)build_text(R"({"family": "layers", "layers": [{"layer": "max_pool", "kernel": 33, "padding": "valid"}]})"),
      "m.json: layer layer1/max_pool has a kernel larger than its padded input", InputError);
  CHECK_THROWS_WITH_AS(
      (void)build_text(
          R"({"family": "layers", "layers": [{"layer": "convolution", "channels": 4, "kernel": 3, "groups": 2}]})"),
      "m.json: layer layer1/conv has channels that its 2 groups do not divide", InputError);
  CHECK_THROWS_WITH_AS(
      (void)build_text(
          R"({"family": "layers", "layers": [{"layer": "convolution", "channels": 4, "kernel": 3, "padding": "full"}]})"),
      "m.json: /structure/layers/0/padding: expected \"same\", \"valid\" or a number of positions; found \"full\"",
      InputError);
  CHECK_THROWS_WITH_AS(
      (void)build_text(R"({"family": "layers", "layers": [{"layer": "repeat", "times": 2, "layers": []}]})"),
      "m.json: /structure/layers/0/layers: expected at least one layer; found an empty array", InputError);
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
      "m.json: the model has more than 400000 operators", InputError);
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
  REQUIRE(workload.graph.size() == 4);
  CHECK(workload.graph[2].name() == "b/backward");
  CHECK(workload.graph[3]->measured_time == 2.0_us);
  CHECK(workload.graph[3].produces_gradients() == std::vector{0});
  CHECK_THROWS_WITH_AS((void)build_timed(std::string{text}.replace(text.find("1,"), 1, "7")),
                       "m.json: its times were measured with a batch of 7; found batch_per_worker 1", InputError);
}

TEST_CASE("timed layers of any batch: what 200 of them keep can be counted") {
  const auto kept_by = [](int batch) {
    Json structure{{"family", "timed_layers"}, {"batch", 1}, {"scales_with_batch", true}};
    for (int i = 0; i < 200; ++i)
      structure["layers"].push_back(
          {{"name", "a"}, {"gradient", "4B"}, {"forward", "1us"}, {"backward", "2us"}, {"kept", "1TiB"}});
    const Json json{{"format", 1}, {"source", "test"}, {"structure", structure}};
    return build_workload(read_model("m", JsonReader{json, "m.json"}), batch, Precision::kFp32, "m.json")
        .activation_bytes;
  };
  CHECK(kept_by(4) == Bytes{800LL << 40U});
  CHECK_THROWS_WITH_AS((void)kept_by(65536), "m.json: layer \"a\" has more than 4TiB with a batch of 65536",
                       InputError);
}

TEST_CASE("mistakes in sequence models are named with their place") {
  const auto refuse = [](const std::string& structure, const std::string& message) {
    const Json json = parse_json(R"({"format": 1, "source": "test", "structure": )" + structure + "}", "m.json");
    CHECK_THROWS_WITH_AS((void)read_model("m", JsonReader{json, "m.json"}), ("m.json: " + message).c_str(), InputError);
  };
  const std::string sizes = R"({"family": "transformer", "layers": 2, "width": 8, "feed_forward": 16, "vocabulary": 10,
    "sequence_length": 4, "normalisation": "pre", )";
  refuse(sizes + R"("heads": 3, "head": "pooler"})", "/structure/heads: expected a divisor of \"width\"; found 3");
  refuse(sizes + R"("heads": 2, "head": "bert"})",
         "/structure/head: expected \"language_model\", \"masked_language_model\", \"pooler\", \"bert_pretraining\", "
         "\"hidden_states\", \"token_classes\", \"sequence_classes\" or \"first_classes\"; found \"bert\"");
  refuse(sizes + R"("heads": 2, "head": "token_classes"})", "/structure: expected the key \"classes\"; found none");
  refuse(sizes + R"("heads": 2, "head": "pooler", "tied_embedding": false})",
         "/structure/tied_embedding: expected false with logits over the vocabulary alone; found false");
  refuse(sizes + R"("heads": 2, "head": "pooler", "positions": 3})",
         "/structure/sequence_length: expected at most \"positions\"; found 4");
  refuse(sizes + R"("heads": 2, "head": "bert_pretraining", "predictions": 5})",
         "/structure/predictions: expected at most \"sequence_length\"; found 5");
  refuse(sizes + R"("heads": 2, "head": "bert_pretraining"})",
         "/structure: expected the key \"predictions\"; found none");
  const std::string decoder = sizes + R"("heads": 2, "head": "language_model", )";
  refuse(decoder + R"("shared_norm": true})",
         "/structure/shared_norm: expected true with \"parallel_sublayers\" alone; found true");
  refuse(decoder + R"("query_key_scales": true})",
         "/structure/query_key_scales: expected true with \"query_key_norms\" alone; found true");
  refuse(decoder + R"("joint_projection": true, "key_biases": false})",
         "/structure/key_biases: expected true with \"joint_projection\"; found false");
  refuse(decoder + R"("disentangled_positions": 8, "kv_heads": 1})",
         "/structure/disentangled_positions: expected none with shared keys or \"joint_projection\"; found 8");
  refuse(decoder + R"("embedding_width": 4, "embedding_projection": "all"})",
         "/structure/embedding_projection: expected \"words\" or \"sum\"; found \"all\"");
  const std::string encoder = R"({"family": "transformer", "layers": 2, "width": 8, "heads": 2, "feed_forward": 16,
    "normalisation": "pre", )";
  refuse(encoder + R"("images": {"size": 8, "patch": 4}, "head": "language_model"})",
         "/structure/head: expected one without logits over words, of which there are none; found \"language_model\"");
  refuse(encoder + R"("images": {"size": 8, "patch": 9}, "head": "pooler"})",
         "/structure/images/patch: expected at most \"size\"; found 9");
  refuse(encoder + R"("images": {"size": 8, "patch": 4}, "positions": 4, "head": "pooler"})",
         "/structure/positions: expected at least as many as the encoder has; found 4");
  refuse(encoder + R"("images": {"size": 8, "patch": 4, "path": 1}, "head": "pooler"})",
         "/structure/images: unknown key \"path\"; did you mean \"patch\"?");
  refuse(encoder + R"("waveform": {"samples": 8, "widths": [4], "kernels": [10], "strides": [5], "position_kernel": 3,
    "position_groups": 2}, "head": "hidden_states"})",
         "/structure/waveform/samples: expected more, for the convolutions; found 8");
  refuse(
      encoder +
          R"("images": {"size": 8, "patch": 4}, "spectrogram": {"bins": 4}, "sequence_length": 4, "head": "pooler"})",
      "/structure: expected one of \"images\", \"spectrogram\" and \"waveform\"; found an object");
  refuse(
      R"({"family": "gnmt", "vocabulary": 10, "hidden": 4, "encoder_layers": 1, "decoder_layers": 2, "sequence_length": 3})",
      "/structure/encoder_layers: expected an integer from 2 to 1000; found 1");
  refuse(R"({"family": "dlrm", "dense_features": 2, "tables": [5, 0], "embedding": 4, "bottom": [4], "top": [4]})",
         "/structure/tables: expected integers from 1 to 2^36; found an array of 2");
}

}  // namespace rehearse
