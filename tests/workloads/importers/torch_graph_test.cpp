// Graphs that torch_graph.py wrote with PyTorch 1.13 and torchvision 0.14.

#include "workloads/importers/torch_graph.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/base/files.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/imported.hpp"
#include "tests/support/paths.hpp"
#include "workloads/model_zoo.hpp"

namespace rehearse {

using test::workload_of;

namespace {

ImportedModel torch_graph(const std::string& name) {
  return import_model(source_folder() + "/tests/workloads/importers/data/" + name + ".torch.json");
}

}  // namespace

TEST_CASE("graphs of torchvision's models have the published parameters and multiply-adds") {
  const Workload resnet = workload_of(torch_graph("resnet50"));
  CHECK(resnet.parameters() == 25'557'032);
  CHECK(resnet.forward_flops().value() == 2.0 * 4'089'184'256);
  const Workload efficient = workload_of(torch_graph("efficientnet_b0"), 3);
  CHECK(efficient.parameters() == 5'288'548);
  CHECK(efficient.forward_flops().value() == doctest::Approx(2.0 * 3 * 385.8e6).epsilon(1e-3));
}

TEST_CASE("a graph of a residual network is the network of the family resnet") {
  const Json file = load_json_file(source_folder() + "/workloads/models/resnet50.json");
  const Workload family = build_workload(read_model("resnet50", JsonReader{file, "f"}), 8, Precision::kFp16, "f");
  const Workload graph = workload_of(torch_graph("resnet50"), 8);
  CHECK(graph.parameters() == family.parameters());
  CHECK(graph.trainable_tensors() == family.trainable_tensors());
  CHECK(graph.training_flops() == family.training_flops());
  CHECK(graph.graph.size() == family.graph.size());
  const Bytes places{std::int64_t{8} * 64 * 56 * 56 * 8};  // of the max pooling, whatever the scalars
  CHECK(graph.activation_bytes - places == 2 * (family.activation_bytes - places));  // of scalars of 4 bytes
}

TEST_CASE("attention, recurrent layers, tied tables and parameters by themselves are understood") {
  const ImportedModel imported = torch_graph("small_gpt");
  CHECK(imported.remarks ==
        std::vector<std::string>{
            "the file does not say whether sequences come first: the batch is taken as the first axis"});
  const Workload workload = workload_of(imported, 2);
  CHECK(workload.parameters() == 232'704);  // as PyTorch counts them
  const double length = 16, width = 64;
  const double block = length * (width * 3 * width + width * width + 2 * width * 256) + 2 * length * length * width;
  const double recurrent = 2 * 2 * length * (width * 4 * 32 + 32 * 4 * 32);
  const double attention = length * 4 * width * width + 2 * length * length * width;
  CHECK(workload.forward_flops().value() == 2 * 2 * (2 * block + recurrent + attention + length * width * 1000));
}

TEST_CASE("sequences come first in recurrent modules unless the batch does; each has the parameters of its kind") {
  const auto graph = [](const std::string& type, int gates, const std::string& order, const std::string& shape,
                        bool has_bias) {
    const auto sizes = [](int rows, int columns) {
      return "[" + std::to_string(rows) + (columns > 0 ? ", " + std::to_string(columns) : "") + "]";
    };
    std::string parameters = R"({"name": "w", "shape": )" + sizes(8 * gates, 4) + R"(}, {"name": "r", "shape": )" +
                             sizes(8 * gates, 8) + "}";
    for (const char* bias : {"b", "c"})
      if (has_bias) parameters += R"(, {"name": ")" + std::string{bias} + R"(", "shape": )" + sizes(8 * gates, 0) + "}";
    return R"({"torch_graph": 1, "nodes": [{"name": "x", "op": "placeholder", "shape": )" + shape +
           R"(, "dtype": "float32"}, {"name": "y", "op": "call_module", "inputs": ["x"], "hidden": 8, "type": ")" +
           type + "\", " + order + R"("parameters": [)" + parameters + R"(], "shape": )" +
           shape.substr(0, shape.size() - 2) + R"(8]}, {"name": "output", "op": "output", "inputs": ["y"]}]})";
  };
  for (const auto& [type, gates] : {std::pair{"LSTM", 4}, {"GRU", 3}, {"RNN", 1}}) {
    const int matrices = gates * 8 * 12;
    const auto work = [&, layer = type, count = gates](const std::string& order, const std::string& shape,
                                                       bool has_bias) {
      return test::workload_of(import_model(Source{"g.json", graph(layer, count, order, shape, has_bias)}));
    };
    CHECK(work(R"("batch_first": false, )", "[20, 2, 4]", true).parameters() == matrices + 16 * gates);
    CHECK(work(R"("batch_first": false, )", "[20, 2, 4]", false).parameters() == matrices);
    CHECK(work(R"("batch_first": false, )", "[20, 2, 4]", true).forward_flops().value() == 2.0 * 20 * matrices);
    CHECK(work(R"("batch_first": true, )", "[2, 20, 4]", true).forward_flops().value() == 2.0 * 20 * matrices);
  }
  CHECK(import_model(Source{"g.json", graph("LSTM", 4, "", "[2, 20, 4]", true)}).remarks ==
        std::vector<std::string>{
            "the file does not say whether sequences come first: the batch is taken as the first axis"});
}

TEST_CASE("what is not understood is kept and told") {
  const ImportedModel imported = torch_graph("swin_t");
  CHECK(workload_of(imported).parameters() == 28'288'354);  // also those of functions that are not looked into
  REQUIRE(imported.remarks.size() == 2);
  CHECK(imported.remarks[1] ==
        "12 shifted_window_attention are taken as element-wise kernels, without the products with their parameters");
}

TEST_CASE("a graph that is damaged is refused by its place") {
  const std::string text = read_file(source_folder() + "/tests/workloads/importers/data/small_gpt.torch.json", kMiB);
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    REQUIRE(changed.find(from) != std::string::npos);
    changed.replace(changed.find(from), from.size(), to);
    return test::error_of([&] { import_model(Source{"g.json", changed}); });
  };
  CHECK(error("\"torch_graph\": 1", "\"torch_graph\": 2") == "g.json: /torch_graph: expected 1; found 2");
  CHECK(error("\"shape\": [2, 16]", "\"shape\": [2, 0]") ==
        "g.json: \"ids\" has a size of 0: expected sizes above 0, of at most 2^40 scalars");
  CHECK(error("[1000, 64]", "[1000, 64, 2]") == "g.json: operator \"words\" (Embedding): expected a table of rows");
  CHECK(error("[192, 64]", "[191, 64]") ==
        "g.json: operator \"blocks_0_qkv\" (Linear): its weights do not fit its output");
}

}  // namespace rehearse
