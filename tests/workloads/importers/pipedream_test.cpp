#include "workloads/importers/pipedream.hpp"

#include <doctest/doctest.h>

#include "sim/base/errors.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/imported.hpp"
#include "tests/support/paths.hpp"

namespace rehearse {

using test::workload_of;

namespace {

// A residual block: node 3 reads what node 2 made, node 4 both.
const std::string kProfile =
    "node1 -- Input -- forward_compute_time=9.000, backward_compute_time=0.000, activation_size=32.0, "
    "parameter_size=0.000\n"
    "node2 -- Linear(in_features=4, out_features=6, bias=True) -- forward_compute_time=1.500, "
    "backward_compute_time=2.000, activation_size=48.0, parameter_size=120.000\n"
    "node3 -- Conv2d(3, 4, kernel_size=(3, 3)) -- forward_compute_time=0.250, backward_compute_time=0.500, "
    "activation_size=[40.0; 8.0], parameter_size=400.000\n"
    "node4 -- Add(2) -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=48.0, "
    "parameter_size=0.000\n"
    "\tnode1 -- node2\n\tnode2 -- node3\n\tnode3 -- node4\n\tnode2 -- node4\n";

const std::string kRemedy =
    "; give the profile of the whole model, or call a layer with a row for each sample Linear(out_features=N), of 4 N "
    "bytes for each";

std::string profile_node(const std::string& id, const std::string& layer, const std::string& bytes) {
  return id + " -- " + layer + " -- forward_compute_time=1.0, backward_compute_time=1.0, activation_size=" + bytes +
         ", parameter_size=0.0\n";
}

}  // namespace

TEST_CASE("the layers that have a row for each sample tell the batch, not those that have one for each position") {
  const auto batch = [](const std::string& text) {
    return test::error_of([&] {
      throw InputError{import_model(Source{"g", text}).model_file["structure"]["batch"].dump()};
    });
  };
  const std::string words =
      profile_node("node1", "Embedding(1000, 16, padding_idx=0)", "2560.0");  // 8 samples of 5 words
  const std::string each = profile_node("node2", "Linear(in_features=16, out_features=64, bias=True)", "10240.0");
  const std::string pooler = profile_node("node3", "Linear(in_features=16, out_features=2, bias=True)", "64.0");
  CHECK(batch(words + each + pooler) == "8");
  CHECK(batch(words + pooler + each) == "8");
  CHECK(batch(each + pooler) == "8");
  CHECK(batch(each) == "40");  // nothing tells that these are positions
  CHECK(batch(words + each) ==
        "g:2: \"node2\" has 40 rows, as many as \"node1\" has words: samples times positions, "
        "which no layer tells apart" +
            kRemedy);
  CHECK(batch(profile_node("node1", "Input0", "320.0") + each) ==
        "g:2: \"node2\" has 40 rows, as many as \"node1\" has words: samples times positions, which no layer tells "
        "apart" +
            kRemedy);
  CHECK(batch(profile_node("node1", "Input0", "320.0") +
              profile_node("node2", "Linear(in_features=2, out_features=64)", "10240.0") + "\tnode1 -- node2\n") ==
        "40");
  CHECK(batch(each + profile_node("node3", "Linear(in_features=16, out_features=2)", "56.0")) ==
        "g:1: \"node2\" has 40 rows, which is no multiple of the 7 of \"node3\": they tell no batch" + kRemedy);
}

TEST_CASE("a profile of PipeDream is measured layers with what they pass on and keep") {
  const ImportedModel imported = import_model(Source{"graph.txt", kProfile});
  const Json& layers = imported.model_file["structure"]["layers"];
  REQUIRE(layers.size() == 3);
  CHECK(layers[0] == Json{{"name", "node2 Linear"},
                          {"gradient", "120B"},
                          {"forward", "1.5ms"},
                          {"backward", "2ms"},
                          {"output", "48B"},
                          {"kept", "0B"}});
  CHECK(layers[1]["output"] == "96B");  // its own 48, and those of node 2 for the sum
  CHECK(layers[1]["kept"] == "48B");
  CHECK(layers[2]["kept"] == "48B");  // of node 3; node 2's are kept already
  CHECK(!layers[2].contains("output"));
  CHECK(imported.model_file["structure"]["batch"] == 2);  // 48 B / (4 B * 6 features)
  const Workload workload = workload_of(imported);
  CHECK(workload.parameters() == 130);
  CHECK(workload.activation_bytes == Bytes{96});
}

TEST_CASE("a profile that PipeDream partitioned has the same layers, and its stages are remarked") {
  std::string text = kProfile;
  std::size_t stage = 0;
  for (std::size_t end = text.find("\n"); stage < 4; end = text.find("\n", end + 1)) {
    const std::string words = " -- stage_id=" + std::to_string(stage++ / 2);
    text.insert(end, words);
    end += words.size();
  }
  const ImportedModel partitioned = import_model(Source{"graph.txt", text});
  CHECK(partitioned.model_file == import_model(Source{"graph.txt", kProfile}).model_file);
  REQUIRE(partitioned.remarks.size() == 2);
  CHECK(partitioned.remarks[1] ==
        "its partition into stages (stage_id, vlayer_id) is not taken over: a scenario's strategy states its own; "
        "stages: 2");
  std::string of_harmony = text;
  for (std::size_t at = 0; (at = of_harmony.find("stage_id", at)) != std::string::npos;)
    of_harmony.replace(at, 8, "vlayer_id");
  CHECK(import_model(Source{"graph.txt", of_harmony}).model_file == partitioned.model_file);
  CHECK(import_model(Source{"graph.txt", of_harmony}).remarks == partitioned.remarks);
  text.replace(text.find("stage_id=1"), 10, "stage_id=x");
  CHECK(test::error_of([&] {
          import_model(Source{"g", text});
        }) == "g:3: stage_id: expected a number from 0 to 100000.000000; found \"x\"");
  CHECK(test::error_of([&] {
          import_model(
              Source{"g",
                     "node1 -- Linear(in_features=10, out_features=10, bias=True) -- forward_compute_time=1.015, "
                     "backward_compute_time=1.155, activation_size=2048.000, parameter_size=440.000 -- stage_id=1\n"});
        }) ==
        "g: no layer tells the batch: expected a Linear, View or LSTM layer with its features; \"node1\" has 2048 "
        "bytes, which are not 4 for each of its features and of 1 to 65536 samples" +
            kRemedy);
}

TEST_CASE("profiles of ten models have their published parameters") {
  struct Published {
    const char* model;
    int batch;
    std::int64_t parameters;  // of torchvision; 0: none is published for the variant that was profiled
  };
  for (const Published& published :
       {Published{"alexnet", 256, 61'100'840}, Published{"vgg16", 128, 138'357'544},
        Published{"resnet18", 256, 11'689'512}, Published{"resnet50", 128, 25'557'032},
        Published{"resnext50", 128, 25'028'904}, Published{"resnext101", 64, 44'177'704},
        Published{"densenet121", 64, 7'978'856}, Published{"squeezenet1_0", 256, 1'248'424},
        Published{"nasnetalarge", 16, 0}, Published{"gnmt", 32, 0}}) {
    CAPTURE(published.model);
    const ImportedModel imported =
        import_model(source_folder() + "/calibration/data/pipedream-profiles/" + published.model + ".nodes.csv");
    const Workload workload = workload_of(imported);
    CHECK(workload.batch == published.batch);
    if (published.parameters > 0) CHECK(workload.parameters() == published.parameters);
    CHECK(workload.activation_bytes > Bytes{});
    CHECK(workload.activation_bytes < Bytes{40'000'000'000});
  }
}

TEST_CASE("a profile that cannot be read is refused by its line") {
  const auto error = [](const std::string& from, const std::string& to) {
    std::string text = kProfile;
    text.replace(text.find(from), from.size(), to);
    return test::error_of([&] { import_model(Source{"g", text}); });
  };
  CHECK(error("node3 -- node4", "node3 -- node9") == "g:7: no node \"node9\"");
  CHECK(error("node2 -- node4", "node4 -- node3") == "g: \"node3\" waits for a cycle of nodes");
  CHECK(error("node4 -- Add", "node3 -- Add") == "g:4: \"node3\" is there twice");
  CHECK(error("forward_compute_time=1.500", "forward_compute_time=-1") ==
        "g:2: forward_compute_time: expected a number from 0 to 1000000000.000000; found \"-1\"");
  CHECK(error("activation_size=[40.0; 8.0], ", "") == "g:3: expected activation_size=... of \"node3\"");
  CHECK(error("Linear(in", "Dense(in") ==
        "g: no layer tells the batch: expected a Linear, View or LSTM layer with its features" + kRemedy);
  CHECK(error("\tnode1 -- node2\n", "\tnode1 -- -- stage_id=1\n") ==
        "g:5: expected \"node1 -- ...\"; found \"node1 --\"");
  CHECK(error("\tnode1 -- node2\n", "\tnode1 -- -- x\n") == "g:5: expected \"node1 -- ...\"; found \"node1 -- -- x\"");
  CHECK(error("\tnode1 -- node2\n", "\tnode1\n") == "g:5: expected \"node1 -- ...\"; found \"node1\"");
}

}  // namespace rehearse
