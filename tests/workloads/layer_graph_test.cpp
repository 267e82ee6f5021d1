#include "workloads/layer_graph.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/support/error_of.hpp"
#include "workloads/model_zoo.hpp"

namespace rehearse {

namespace {

Json model_file(const std::string& layers, const std::string& more = "") {
  return parse_json(
      R"({"format": 1, "source": "test", "structure": {"family": "graph", "layers": [)" + layers + "]" + more + "}}",
      "m.json");
}

Workload build(const std::string& layers, int batch = 1, const std::string& more = "") {
  const Json json = model_file(layers, more);
  const ModelDescription model = read_model("m", JsonReader{json, "m.json"});
  return build_workload(model, batch, Precision::kFp32, "m.json");
}

Operator operator_named(const Workload& workload, const std::string& name) {
  const auto found =
      std::find_if(workload.graph.begin(), workload.graph.end(), [&](const Operator& op) { return op.name == name; });
  REQUIRE(found != workload.graph.end());
  return *found;
}

const std::string kImage = R"({"name": "x", "layer": "input", "shape": [3, 8, 10]},)";
const std::string kSequence = R"({"name": "x", "layer": "input", "shape": [5, 16]},)";

}  // namespace

TEST_CASE("a graph of layers is what the builder makes of the same layers") {
  const Workload graph = build(kImage + R"(
    {"name": "a", "layer": "convolution", "inputs": ["x"], "channels": 4, "kernel": 3, "padding": 1, "bias": false},
    {"name": "b", "layer": "batch_norm", "inputs": ["a"]},
    {"name": "c", "layer": "activation", "inputs": ["b"]},
    {"name": "d", "layer": "max_pool", "inputs": ["c"], "kernel": 2},
    {"name": "e", "layer": "convolution", "inputs": ["d"], "channels": 4, "kernel": [1, 3], "groups": 2},
    {"name": "f", "layer": "add", "inputs": ["e", "d"]},
    {"name": "g", "layer": "global_average_pool", "inputs": ["f"]},
    {"name": "h", "layer": "reshape", "inputs": ["g"], "shape": [4]},
    {"name": "i", "layer": "linear", "inputs": ["h"], "features": 7})",
                               6);
  GraphBuilder builder{"m.json", "m", Layout::kNchw, 6, Precision::kFp32};
  auto x = builder.convolution("a", builder.input(8, 10, 3), 4, {3, 3, 1, 1}, 1, false);
  x = builder.max_pool("d", builder.activation("c", builder.batch_norm("b", x)), {2, 2, 2, std::nullopt});
  const auto e = builder.convolution("e", x, 4, {1, 3, 1, std::nullopt}, 2, true);
  x = builder.add("f", std::vector{e, x});
  const Workload expected = builder.finish(std::vector{builder.linear("i", builder.global_average_pool("g", x), 7)});
  REQUIRE(graph.graph.size() == expected.graph.size());
  for (std::size_t v = 0; v < expected.graph.size(); ++v) {
    CAPTURE(expected.graph[v].name());
    CHECK(graph.graph[v].name() == expected.graph[v].name());
    CHECK(graph.graph[v]->flops == expected.graph[v]->flops);
    CHECK(graph.graph[v]->bytes_read == expected.graph[v]->bytes_read);
    CHECK(graph.graph[v]->bytes_written == expected.graph[v]->bytes_written);
    CHECK(graph.graph[v]->kept == expected.graph[v]->kept);
  }
  CHECK(graph.parameters() == expected.parameters());
  CHECK(graph.activation_bytes == expected.activation_bytes);
}

TEST_CASE("products, attention and normalisations have the work of their shapes") {
  const Workload workload = build(R"(
    {"name": "ids", "layer": "identifiers", "shape": [5]},
    {"name": "words", "layer": "embedding", "inputs": ["ids"], "rows": 100, "features": 16},
    {"name": "places", "layer": "parameter", "shape": [5, 16]},
    {"name": "sum", "layer": "add", "inputs": ["words", "places"]},
    {"name": "norm", "layer": "rms_norm", "inputs": ["sum"]},
    {"name": "heads", "layer": "reshape", "inputs": ["norm"], "shape": [5, 4, 4]},
    {"name": "q", "layer": "copy", "inputs": ["heads"], "shape": [4, 5, 4]},
    {"name": "k", "layer": "part", "inputs": ["q"], "shape": [2, 5, 4]},
    {"name": "attended", "layer": "attention", "inputs": ["q", "k", "k"]},
    {"name": "scores", "layer": "product", "inputs": ["attended", "q"], "shape": [4, 5, 5], "reduction": 4},
    {"name": "flat", "layer": "reshape", "inputs": ["attended"], "shape": [5, 16]},
    {"name": "logits", "layer": "linear", "inputs": ["flat"], "features": 100, "shares": "words", "bias": false})",
                                  3);
  CHECK(workload.parameters() == 100 * 16 + 5 * 16 + 16);  // the table is also that of the logits
  // 3 samples: attention has 4 heads of 5 x 5 scores over 4 features and as much for the context, the product as much
  // again, logits 5 x 100 over 16
  CHECK(workload.forward_flops().value() == doctest::Approx(2 * 3 * (3 * 4 * 5 * 5 * 4 + 5 * 100 * 16)));
  CHECK(operator_named(workload, "attended/scores").matrix.products == 12);
  CHECK(operator_named(workload, "q").bytes_read == Bytes{std::int64_t{3} * 80 * 4});
  CHECK(workload.input_bytes == Bytes{std::int64_t{3} * 5 * 8});
}

TEST_CASE("elementwise layers broadcast, and a product of them keeps its factors") {
  const Workload workload = build(kImage + R"(
    {"name": "a", "layer": "convolution", "inputs": ["x"], "channels": 4, "kernel": 1, "bias": false},
    {"name": "pool", "layer": "global_average_pool", "inputs": ["a"]},
    {"name": "gate", "layer": "activation", "inputs": ["pool"]},
    {"name": "scaled", "layer": "multiply", "inputs": ["a", "gate"]},
    {"name": "both", "layer": "concatenate", "inputs": ["scaled", "a"]})");
  const Operator& scaled = operator_named(workload, "scaled");
  CHECK(scaled.bytes_read == Bytes{std::int64_t{4} * (320 + 4)});
  CHECK(scaled.bytes_written == Bytes{std::int64_t{4} * 320});
  CHECK(operator_named(workload, "both").bytes_written == Bytes{std::int64_t{4} * 640});
  CHECK(scaled.kept == Bytes{std::int64_t{4} * 320});  // a; the gate is kept already
  CHECK(operator_named(workload, "scaled/gradient").bytes_read == Bytes{std::int64_t{4} * (320 + 324)});
}

TEST_CASE("a transposed convolution does the work of the convolution in reverse") {
  const Workload workload = build(kImage + R"(
    {"name": "a", "layer": "convolution", "inputs": ["x"], "channels": 6, "kernel": 1, "bias": false},
    {"name": "up", "layer": "transposed_convolution", "inputs": ["a"], "channels": 4, "kernel": 2, "stride": 2})");
  const Operator& up = operator_named(workload, "up");
  CHECK(up.flops.value() == 2.0 * 80 * 4 * 6 * 4);
  CHECK(up.bytes_written == Bytes{std::int64_t{4} * 4 * 16 * 20});
  CHECK(workload.parameters() == 18 + 6 * 4 * 4 + 4);
}

TEST_CASE("layers share variables, and layers that no output needs are left out") {
  const std::string layers = kSequence + R"(
    {"name": "a", "layer": "linear", "inputs": ["x"], "features": 16},
    {"name": "b", "layer": "linear", "inputs": ["a"], "features": 16, "shares": "a"},
    {"name": "aside", "layer": "linear", "inputs": ["a"], "features": 3})";
  CHECK(build(layers).parameters() == 16 * 16 + 16 + 16 * 3 + 3);
  CHECK(build(layers, 1, R"(, "outputs": ["b"])").parameters() == 16 * 16 + 16);
  CHECK(test::error_of([&] {
          build(kSequence + R"({"name": "a", "layer": "linear", "inputs": ["x"], "features": 4},
                               {"name": "b", "layer": "linear", "inputs": ["x"], "features": 5, "shares": "a"})");
        }) == "m.json: layer b shares variables of layer a, which has others");
}

TEST_CASE("what is written of a graph reads as the same graph") {
  const Json json = model_file(kImage + R"(
    {"name": "a", "layer": "convolution", "inputs": ["x"], "channels": 6, "kernel": [3, 3], "stride": 2, "padding": 1, "groups": 3, "bias": false},
    {"name": "b", "layer": "layer_norm", "inputs": ["a"], "bias": false},
    {"name": "c", "layer": "concatenate", "inputs": ["a", "b"], "axis": 2},
    {"name": "d", "layer": "product", "inputs": ["c", "c"], "shape": [6, 4, 4], "reduction": 10})",
                               R"(, "outputs": ["d"])");
  const ModelDescription model = read_model("m", JsonReader{json, "m.json"});
  const Json written = layer_graph_json(std::get<LayerGraph>(model.structure));
  CHECK(to_json_text(layer_graph_json(read_layer_graph(JsonReader{written, "w"}))) == to_json_text(written));
}

TEST_CASE("a graph with nothing but moving averages has nothing to train") {
  CHECK(test::error_of([] {
          (void)build(kImage +
                      R"({"name": "a", "layer": "batch_norm", "inputs": ["x"], "scale": false, "bias": false})");
        }) == "m.json: the model has no variable to train");
}

TEST_CASE("mistakes in a graph are named with their place") {
  const auto error = [](const std::string& layer) { return test::error_of([&] { build(kImage + layer); }); };
  CHECK(error(R"({"name": "a", "layer": "relu", "inputs": ["x"]})")
            .starts_with("m.json: /structure/layers/1/layer: unknown layer \"relu\""));
  CHECK(error(R"({"name": "a", "layer": "linear", "inputs": ["y"], "features": 2})") ==
        "m.json: /structure/layers/1/inputs: no layer \"y\" before this one");
  CHECK(error(R"({"name": "x", "layer": "activation", "inputs": ["x"]})") ==
        "m.json: /structure/layers/1/name: two layers have the name \"x\"");
  CHECK(error(R"({"name": "a", "layer": "add", "inputs": []})") ==
        "m.json: /structure/layers/1/inputs: expected 1 or more; found 0");
  CHECK(error(R"({"name": "a", "layer": "reshape", "inputs": ["x"], "shape": [5]})") ==
        "m.json: layer \"a\" makes 5 scalars of 240");
  CHECK(error(R"({"name": "a", "layer": "convolution", "inputs": ["x"], "channels": 4, "kernel": 3, "groups": 2})") ==
        "m.json: layer a has channels that its 2 groups do not divide");
  CHECK(
      error(
          R"({"name": "a", "layer": "input", "shape": [1, 8, 9]}, {"name": "b", "layer": "add", "inputs": ["x", "a"]})") ==
      "m.json: layer \"b\" reads axes of 10 and 9");
  CHECK(
      error(
          R"({"name": "p", "layer": "parameter", "shape": [3]}, {"name": "b", "layer": "activation", "inputs": ["p"]})") ==
      "m.json: layer \"b\" reads a parameter where a tensor of samples belongs");
}

}  // namespace rehearse
