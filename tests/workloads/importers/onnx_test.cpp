// Models that PyTorch 1.13 exported, as text and without weights: protoc --decode=rehearse.onnx_model.Model.

#include "workloads/importers/onnx.hpp"

#include <doctest/doctest.h>
#include <google/protobuf/text_format.h>

#include "sim/base/files.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/imported.hpp"
#include "tests/support/paths.hpp"
#include "workloads/importers/onnx.pb.h"
#include "workloads/importers/onnx_shapes.hpp"

namespace rehearse {

using test::workload_of;

namespace {

onnx_model::Model model_of_text(const std::string& text) {
  onnx_model::Model model;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(text, &model));
  return model;
}

onnx_model::Model model_named(const std::string& name) {
  return model_of_text(read_file(source_folder() + "/tests/workloads/importers/data/" + name + ".onnx.txt", kMiB));
}

ImportedModel imported(const onnx_model::Model& model) {
  return import_model(Source{"m.onnx", model.SerializeAsString()});
}

/// What an operator gives for inputs of these shapes.
OnnxShape shape_of(OnnxNode node, const std::vector<OnnxShape>& inputs, const std::vector<std::int64_t>& last = {}) {
  OnnxValues values;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    node.inputs.push_back("x" + std::to_string(i));
    values.shapes[node.inputs.back()] = inputs[i];
  }
  if (!last.empty()) {
    node.inputs.emplace_back("integers");
    values.integers["integers"] = last;
    values.shapes["integers"] = {static_cast<std::int64_t>(last.size())};
  }
  node.outputs = {"y"};
  infer(node, values);
  const auto found = values.shapes.find("y");
  return found == values.shapes.end() ? OnnxShape{-1} : found->second;
}

}  // namespace

TEST_CASE("an ONNX model has the published parameters and multiply-adds, whatever its batch") {
  const ImportedModel resnet = imported(model_named("resnet18"));
  CHECK(resnet.remarks.empty());
  CHECK(workload_of(resnet).parameters() == 11'689'512);
  CHECK(workload_of(resnet, 4).forward_flops().value() == 2.0 * 4 * 1'814'073'344);
}

TEST_CASE("shapes are inferred through attention and recurrent layers, tables are tied") {
  const ImportedModel small = imported(model_named("small_gpt"));
  CHECK(small.remarks.empty());
  CHECK(workload_of(small).parameters() == 215'040);  // as PyTorch counts them
  const double length = 16, width = 64;
  const double block = length * (width * 3 * width + width * width + 2 * width * 256) + 2 * length * length * width;
  const double recurrent = 2 * 2 * length * (width * 4 * 32 + 32 * 4 * 32);
  CHECK(workload_of(small, 3).forward_flops().value() == 2 * 3 * (2 * block + recurrent + length * width * 1000));
}

TEST_CASE("an ONNX operator gives the shape of its definition") {
  CHECK(shape_of({.type = "Conv", .integers = {{"strides", {2, 1}}, {"pads", {1, 0, 1, 0}}, {"dilations", {2, 1}}}},
                 {{5, 3, 20, 9}, {8, 3, 3, 2}}) == OnnxShape{5, 8, 9, 8});
  CHECK(shape_of({.type = "ConvTranspose",
                  .integers = {{"strides", {2, 2}}, {"output_padding", {1, 1}}, {"pads", {1, 1, 1, 1}}}},
                 {{5, 3, 7, 7}, {3, 8, 3, 3}}) == OnnxShape{5, 8, 14, 14});
  CHECK(shape_of({.type = "MaxPool", .integers = {{"kernel_shape", {3, 3}}, {"strides", {2, 2}}, {"ceil_mode", {1}}}},
                 {{5, 3, 8, 8}}) == OnnxShape{5, 3, 4, 4});
  CHECK(shape_of({.type = "MatMul"}, {{5, 1, 4, 6}, {3, 6, 7}}) == OnnxShape{5, 3, 4, 7});
  CHECK(shape_of({.type = "Gemm", .integers = {{"transB", {1}}}}, {{5, 6}, {7, 6}}) == OnnxShape{5, 7});
  CHECK(shape_of({.type = "Reshape"}, {{5, 6, 2}}, {0, -1, 3}) == OnnxShape{5, 4, 3});
  CHECK(shape_of({.type = "Transpose", .integers = {{"perm", {0, 2, 1}}}}, {{5, 6, 2}}) == OnnxShape{5, 2, 6});
  CHECK(shape_of({.type = "Concat", .integers = {{"axis", {-1}}}}, {{5, 6}, {5, 2}}) == OnnxShape{5, 8});
  CHECK(shape_of({.type = "Unsqueeze"}, {{5, 6}}, {1, -1}) == OnnxShape{5, 1, 6, 1});
  CHECK(shape_of({.type = "Squeeze"}, {{5, 1, 6, 1}}, {1}) == OnnxShape{5, 6, 1});
  CHECK(shape_of({.type = "ReduceMean", .integers = {{"axes", {2, 3}}, {"keepdims", {0}}}}, {{5, 3, 7, 7}}) ==
        OnnxShape{5, 3});
  CHECK(shape_of({.type = "Slice", .integers = {{"starts", {1}}, {"ends", {-1}}, {"axes", {1}}}}, {{5, 9}}) ==
        OnnxShape{5, 7});
  CHECK(shape_of({.type = "Gather", .integers = {{"axis", {1}}}}, {{5, 9, 4}, {2}}) == OnnxShape{5, 2, 4});
  CHECK(shape_of({.type = "Flatten"}, {{5, 9, 4}}) == OnnxShape{5, 36});
  CHECK(shape_of({.type = "Where"}, {{5, 1}, {1, 4}, {5, 4}}) == OnnxShape{5, 4});
  CHECK(shape_of({.type = "Pad", .integers = {{"pads", {0, 1, 0, 2}}}}, {{5, 9}}) == OnnxShape{5, 12});
  CHECK(shape_of({.type = "Einsum"}, {{5, 9}}) == OnnxShape{-1});
}

TEST_CASE("ONNX models that cannot be read are refused by operator") {
  const auto error = [](auto change) {
    onnx_model::Model model = model_named("resnet18");
    change(model);
    return test::error_of([&] { imported(model); });
  };
  CHECK(error([](auto& model) { model.mutable_graph()->clear_node(); }) ==
        "m.onnx: expected operators in an ONNX model; found none");
  CHECK(error([](auto& model) {
          model.mutable_graph()->mutable_initializer(0)->set_dims(1, 4);
        }).ends_with("(Conv): its weights do not fit its input of 3 channels"));
  CHECK(error([](auto& model) {
          model.mutable_graph()->mutable_node(2)->set_op_type("Einsum");
        }).ends_with("(Einsum): its shape is not known: expected a model after onnx.shape_inference.infer_shapes"));
  CHECK(error([](auto& model) { model.mutable_graph()->mutable_input(0)->clear_type(); }) ==
        "m.onnx: input \"input\" has no shape");
  CHECK(error([](auto& model) {
          for (int i = 0; i < 10'000; ++i) model.mutable_graph()->mutable_node(2)->add_input("input");
        }).ends_with("): more than 10000 inputs"));
  const std::string whole = model_named("resnet18").SerializeAsString();
  CHECK(test::error_of([&] {
          import_model(Source{"m.onnx", whole.substr(0, whole.size() - 10)});
        }) == "m.onnx: expected an ONNX model; its messages are damaged or cut short");
}

namespace {

/// A model in the text form of protobuf.
ImportedModel imported_text(const std::string& graph, int opset = 11) {
  return imported(
      model_of_text("ir_version: 7 graph { " + graph + " } opset_import { version: " + std::to_string(opset) + " }"));
}
/// A value of floats, such as an input; an axis of 0 is open.
std::string value(const std::string& name, const std::vector<int>& shape) {
  std::string text = "name: \"" + name + "\" type { tensor_type { elem_type: 1 shape {";
  for (const int size : shape) text += size > 0 ? " dim { dim_value: " + std::to_string(size) + " }" : " dim { }";
  return text + " } } }";
}
std::string weights(const std::string& name, const std::vector<int>& shape) {
  std::string text = "initializer { name: \"" + name + "\" data_type: 1";
  for (const int size : shape) text += " dims: " + std::to_string(size);
  return text + " } ";
}
std::string node(const std::string& type, const std::vector<std::string>& inputs,
                 const std::vector<std::string>& outputs, const std::string& attributes = "") {
  std::string text = "node { op_type: \"" + type + "\"";
  for (const std::string& input : inputs) text += " input: \"" + input + "\"";
  for (const std::string& output : outputs) text += " output: \"" + output + "\"";
  return text + " " + attributes + " } ";
}
std::string integer(const std::string& name, int i) {
  return "attribute { name: \"" + name + "\" i: " + std::to_string(i) + " } ";
}
std::string integers_of(const std::string& name, const std::vector<int>& list) {
  std::string text = "attribute { name: \"" + name + "\"";
  for (const int i : list) text += " ints: " + std::to_string(i);
  return text + " } ";
}
std::string word(const std::string& name, const std::string& s) {
  return "attribute { name: \"" + name + "\" s: \"" + s + "\" } ";
}
std::string input(const std::string& value) { return "input { " + value + " } "; }
std::string output(const std::string& name) { return "output { name: \"" + name + "\" } "; }

/// A recurrent layer of 4 features and 8 states over `shape`, with these inputs after the weights.
std::string recurrent(const std::string& type, const std::vector<int>& shape, const std::string& attributes = "",
                      std::vector<std::string> more = {}, int directions = 1) {
  const int gates = type == "LSTM" ? 4 : type == "GRU" ? 3 : 1;
  std::vector<std::string> inputs{"x", "w", "r"};
  inputs.insert(inputs.end(), more.begin(), more.end());
  return node(type, inputs, {"y", "last"}, attributes) + weights("w", {directions, 8 * gates, 4}) +
         weights("r", {directions, 8 * gates, 8}) + weights("b", {directions, 16 * gates}) + input(value("x", shape)) +
         output("y");
}

}  // namespace

TEST_CASE("a bias of one element is a parameter; scalars without an axis and settings are none") {
  const std::string linear = input(value("x", {2, 16})) + weights("w", {1, 16}) + weights("b", {1}) + output("y");
  const ImportedModel model = imported_text(node("Gemm", {"x", "w", "b"}, {"y"}, integer("transB", 1)) + linear);
  CHECK(workload_of(model).parameters() == 17);
  CHECK(model.remarks.empty());
  const std::string product = input(value("x", {2, 16})) + weights("w", {16, 1}) + output("y");
  CHECK(workload_of(imported_text(node("MatMul", {"x", "w"}, {"a"}) + node("Add", {"a", "b"}, {"y"}) + product +
                                  weights("b", {1})))
            .parameters() == 17);
  const ImportedModel scalar =
      imported_text(node("MatMul", {"x", "w"}, {"a"}) + node("Mul", {"a", "b"}, {"y"}) + product + weights("b", {}));
  CHECK(workload_of(scalar).parameters() == 16);
  CHECK(scalar.remarks ==
        std::vector<std::string>{"1 scalar without an axis is taken as a constant, not as a parameter"});
  CHECK(workload_of(imported_text(node("MatMul", {"x", "w"}, {"a"}) + node("Clip", {"a", "b", "b"}, {"y"}) + product +
                                  weights("b", {1})))
            .parameters() == 16);
}

TEST_CASE("recurrent layers have the parameters and the work of their layout, direction and biases") {
  // W [G h, in], R [G h, h], B [2 G h] with G = 4 gates of an LSTM, 3 of a GRU, 1 of a plain one; h = 8, in = 4.
  const auto workload = [](const std::string& graph) { return workload_of(imported_text(graph)); };
  for (const auto& [type, gates] : {std::pair{"LSTM", 4}, {"GRU", 3}, {"RNN", 1}}) {
    const char* const layer = type;
    CAPTURE(layer);
    const int of_matrices = gates * 8 * (4 + 8);
    // Positions first, as the operator's default is: 20 positions, 2 samples.
    const Workload plain = workload(recurrent(type, {20, 2, 4}));
    CHECK(plain.parameters() == of_matrices);
    CHECK(plain.forward_flops().value() == 2.0 * 20 * of_matrices);
    CHECK(plain.training_flops().value() == 2.0 * 20 * of_matrices * 3 - 2.0 * 20 * gates * 8 * 4);  // none of x
    CHECK(workload(recurrent(type, {20, 2, 4}, "", {"b"})).parameters() == of_matrices + 2 * gates * 8);
    const Workload first = workload(recurrent(type, {2, 20, 4}, integer("layout", 1)));
    CHECK(first.parameters() == of_matrices);
    CHECK(first.forward_flops().value() == 2.0 * 20 * of_matrices);
    const Workload both = workload(recurrent(type, {20, 2, 4}, word("direction", "bidirectional"), {"b"}, 2));
    CHECK(both.parameters() == 2 * (of_matrices + 2 * gates * 8));
    CHECK(both.forward_flops().value() == 2 * 2.0 * 20 * of_matrices);
    CHECK(workload(recurrent(type, {20, 2, 4}, word("direction", "reverse"))).parameters() == of_matrices);
  }
  // 384 parameters and 15.36 kFLOP for each sample, however large the batch.
  CHECK(workload(recurrent("LSTM", {20, 2, 4})).parameters() == 384);
  CHECK(workload(recurrent("LSTM", {20, 2, 4})).forward_flops().value() == 15'360);
  CHECK(workload_of(imported_text(recurrent("LSTM", {20, 2, 4})), 8).forward_flops().value() == 8 * 15'360);
}

TEST_CASE("states of a recurrent layer may be inputs, and the last ones its only output") {
  const auto layer = recurrent("LSTM", {0, 0, 4}, "", {"", "", "state"}) + input(value("state", {1, 0, 8}));
  const ImportedModel with_state = imported_text(layer);  // 128 positions, taken for the open axis
  CHECK(workload_of(with_state).parameters() == 384);
  CHECK(workload_of(with_state).forward_flops().value() == 2.0 * 128 * 384);
  CHECK(with_state.remarks ==
        std::vector<std::string>{"axes that the model leaves open, but for the batch, are taken as 128"});
  // A classifier behind the last state.
  const std::string head = node("Squeeze", {"last"}, {"s"}, integers_of("axes", {0})) +
                           node("Gemm", {"s", "v", "c"}, {"z"}) + weights("v", {8, 3}) + weights("c", {3});
  std::string graph = recurrent("LSTM", {20, 2, 4});
  graph.replace(graph.find(output("y")), output("y").size(), output("z"));
  CHECK(workload_of(imported_text(graph + head)).parameters() == 384 + 27);
  std::string without_all = graph;
  without_all.replace(without_all.find("output: \"y\""), std::string_view{"output: \"y\""}.size(), "output: \"\"");
  CHECK(workload_of(imported_text(without_all + head)).parameters() == 384 + 27);
  // Of a batch that comes first, turned before the layer.
  std::string turned = recurrent("GRU", {2, 20, 4});
  turned.replace(turned.find("input: \"x\""), std::string_view{"input: \"x\""}.size(), "input: \"t\"");
  const Workload swapped =
      workload_of(imported_text(node("Transpose", {"x"}, {"t"}, integers_of("perm", {1, 0, 2})) + turned));
  CHECK(swapped.parameters() == 288);
  CHECK(swapped.forward_flops().value() == 2.0 * 20 * 288);
  CHECK(test::error_of([&] {
          (void)imported_text(recurrent("LSTM", {20, 2, 4}, "", {"b", "", "", "", "p"}) + weights("p", {1, 24}));
        }) == "m.onnx: operator \"\" (LSTM): peepholes are not supported");
}

TEST_CASE("weights that Constant and ConstantOfShape give are parameters, and said") {
  const auto constant = [](const std::string& name, const std::string& dims) {
    return node("Constant", {}, {name}, "attribute { name: \"value\" t { data_type: 1 " + dims + " } } ");
  };
  const std::string x = input(value("x", {2, 16})) + output("y");
  const ImportedModel model = imported_text(constant("w", "dims: 16 dims: 48") + node("MatMul", {"x", "w"}, {"y"}) + x);
  CHECK(workload_of(model).parameters() == 768);
  CHECK(model.remarks ==
        std::vector<std::string>{"weights that operators Constant or ConstantOfShape give are taken as parameters: 1"});
  CHECK(workload_of(imported_text(constant("w", "dims: 16 dims: 48") + constant("b", "dims: 48") +
                                  node("MatMul", {"x", "w"}, {"a"}) + node("Add", {"a", "b"}, {"y"}) + x))
            .parameters() == 768 + 48);
  CHECK(workload_of(imported_text(constant("w", "dims: 48 dims: 16") +
                                  node("Transpose", {"w"}, {"t"}, integers_of("perm", {1, 0})) +
                                  node("MatMul", {"x", "t"}, {"y"}) + x))
            .parameters() == 768);
  // Added to samples a constant stays one.
  CHECK(workload_of(imported_text(constant("c", "dims: 48") + node("MatMul", {"x", "w"}, {"a"}) +
                                  node("Add", {"a", "c"}, {"y"}) + weights("w", {16, 48}) + x))
            .parameters() == 768);
  const ImportedModel light =
      imported_text(node("ConstantOfShape", {"sizes"}, {"w"}) + node("Conv", {"x", "w"}, {"y"}) +
                    "initializer { name: \"sizes\" data_type: 7 dims: 4 int64_data: [8, 7, 2, 2] } " +
                    input(value("x", {2, 7, 9, 9})) + output("y"));
  CHECK(workload_of(light).parameters() == 224);
  CHECK(light.remarks.size() == 1);
}

TEST_CASE("the ONNX project's light models have their weights from ConstantOfShape") {
  // A convolution, a normalisation, a scale and a bias of channels, as Caffe2 exported DenseNet; sizes are initializers.
  const auto made = [](const std::string& name, const std::vector<int>& sizes) {
    std::string list;
    for (const int size : sizes) list += " int64_data: " + std::to_string(size);
    return "initializer { name: \"" + name + "__SHAPE\" data_type: 7 dims: " + std::to_string(sizes.size()) + list +
           " } " +
           node("ConstantOfShape", {name + "__SHAPE"}, {name},
                "attribute { name: \"value\" t { data_type: 1 dims: 1 float_data: 0.5 } } ");
  };
  const std::string graph =
      made("w", {8, 3, 3, 3}) + made("scale", {8}) + made("bias", {8}) + weights("mean", {8}) + made("variance", {8}) +
      made("factor", {8}) + weights("offset", {8}) + made("dense", {10, 200}) + made("c", {10}) +
      node("Conv", {"x", "w"}, {"a"}) + node("BatchNormalization", {"a", "scale", "bias", "mean", "variance"}, {"n"}) +
      node("Unsqueeze", {"factor"}, {"f"}, integers_of("axes", {1, 2})) + node("Mul", {"n", "f"}, {"m"}) +
      node("Unsqueeze", {"offset"}, {"o"}, integers_of("axes", {1, 2})) + node("Add", {"m", "o"}, {"s"}) +
      node("Relu", {"s"}, {"r"}) + node("Reshape", {"r", "flat"}, {"v"}) +
      "initializer { name: \"flat\" data_type: 7 dims: 2 int64_data: [1, -1] } " +
      node("Gemm", {"v", "dense", "c"}, {"y"}, integer("transB", 1)) + input(value("x", {1, 3, 7, 7})) + output("y");
  const ImportedModel light = imported_text(graph, 9);
  CHECK(workload_of(light).parameters() == 216 + 16 + 16 + 2010);
  CHECK(workload_of(light).forward_flops().value() == 2.0 * (25 * 216 + 2000));
  CHECK(light.remarks ==
        std::vector<std::string>{"weights that operators Constant or ConstantOfShape give are taken as parameters: 6"});
}

TEST_CASE("layers have the parameters that operators before the outputs read") {
  const std::string x = input(value("x", {2, 16})) + output("y");
  const std::string words =
      ": expected variables that are weights as a whole; parts of them and products of two are not supported";
  CHECK(test::error_of([&] {
          (void)imported_text(node("MatMul", {"a", "b"}, {"w"}) + node("MatMul", {"x", "w"}, {"y"}) +
                              weights("a", {16, 4}) + weights("b", {4, 64}) + x);
        }) == "m.onnx: its layers have 1024 parameters, the variables that they read 320" + words);
  CHECK(test::error_of([&] {
          (void)imported_text(node("Split", {"w"}, {"a", "b"}, integer("axis", 1)) + node("MatMul", {"x", "a"}, {"p"}) +
                              node("MatMul", {"x", "b"}, {"q"}) + node("Add", {"p", "q"}, {"y"}) +
                              weights("w", {16, 64}) + x);
        }) == "m.onnx: its layers have 512 parameters, the variables that they read 1024" + words);
  // Tables that are added to each other before samples are.
  CHECK(workload_of(imported_text(node("Add", {"p", "t"}, {"s"}) + node("Add", {"x", "s"}, {"z"}) +
                                  node("MatMul", {"z", "w"}, {"y"}) + weights("p", {16}) + weights("t", {1, 16}) +
                                  weights("w", {16, 4}) + x))
            .parameters() == 16 + 16 + 64);
  // What no output depends on does not count.
  CHECK(workload_of(imported_text(node("MatMul", {"x", "a"}, {"y"}) + node("MatMul", {"x", "b"}, {"z"}) +
                                  weights("a", {16, 4}) + weights("b", {16, 64}) + x))
            .parameters() == 64);
}

TEST_CASE("scales of sizes may be numbers of their own or bytes") {
  const std::string resize = node("Upsample", {"x", "scales"}, {"u"}) + node("Conv", {"u", "w"}, {"y"}) +
                             weights("w", {8, 3, 1, 1}) + input(value("x", {2, 3, 4, 4})) + output("y");
  for (const char* data :
       {"float_data: [1, 1, 2, 2]", "raw_data: \"\\000\\000\\200?\\000\\000\\200?\\000\\000\\000@\\000\\000\\000@\""})
    CHECK(workload_of(imported_text(resize + "initializer { name: \"scales\" data_type: 1 dims: 4 " + data + " } ", 9))
              .forward_flops()
              .value() == 2.0 * 64 * 24);
}

TEST_CASE("Einsum has the work of its equation") {
  const auto equation = [](const std::string& text) { return "attribute { name: \"equation\" s: \"" + text + "\" } "; };
  const std::string x = input(value("x", {2, 5, 12})) + output("y");
  const Workload heads = workload_of(imported_text(node("Einsum", {"x", "w"}, {"h"}, equation("bsd,dnh->bsnh")) +
                                                       node("Einsum", {"h", "h"}, {"s"}, equation("btnh,bfnh->bnft")) +
                                                       node("Einsum", {"s", "h"}, {"c"}, equation("bnft,btnh->bfnh")) +
                                                       node("Einsum", {"c", "o"}, {"y"}, equation("bfnh,nhd->bfd")) +
                                                       weights("w", {12, 3, 4}) + weights("o", {3, 4, 12}) + x,
                                                   12));
  CHECK(heads.parameters() == 2 * 144);
  CHECK(heads.forward_flops().value() == 2.0 * (2 * 5 * 144 + 2 * 5 * 5 * 12));
  CHECK(
      test::error_of([&] {
        (void)imported_text(node("Einsum", {"x", "w"}, {"y"}, equation("bsd,dh->bsq")) + weights("w", {12, 4}) + x, 12);
      }) == "m.onnx: operator \"y\" (Einsum): its equation gives an axis that no input has");
  CHECK(shape_of({.type = "Einsum", .texts = {{"equation", "...ij,...jk->...ik"}}}, {{5, 2, 3}, {5, 3, 4}}) ==
        OnnxShape{5, 2, 4});
}

TEST_CASE("initial states in the file are remarked, and graphs inside operators that compute are refused") {
  const ImportedModel model = imported_text(recurrent("GRU", {20, 2, 4}, "", {"", "", "h"}) + weights("h", {1, 2, 8}));
  CHECK(workload_of(model).parameters() == 288);
  CHECK(model.remarks == std::vector<std::string>{"initial states of recurrent layers are taken as constants"});
  CHECK(test::error_of([&] {
          (void)imported_text(
              node("If", {"c"}, {"y"},
                   "attribute { name: \"then_branch\" g { " + node("MatMul", {"x", "w"}, {"z"}) + " } }") +
              input(value("x", {2, 16})) + output("y"));
        }) == "m.onnx: operator \"y\" (If): its own graph computes (MatMul), which is not supported");
}

TEST_CASE("old operator sets and sparse weights are refused by what they are") {
  const std::string graph =
      node("MatMul", {"x", "w"}, {"y"}) + input(value("x", {2, 16})) + weights("w", {16, 4}) + output("y");
  CHECK(test::error_of([&] { (void)imported_text(graph, 6); }) ==
        "m.onnx: opset 6 is too old: expected 7 or later, as onnx.version_converter makes it");
  CHECK(workload_of(imported_text(graph, 7)).parameters() == 64);
  CHECK(test::error_of([&] { (void)imported_text(graph + "sparse_initializer { } "); }) ==
        "m.onnx: sparse weights are not supported");
}

}  // namespace rehearse
