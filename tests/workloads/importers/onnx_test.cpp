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
  const std::string whole = model_named("resnet18").SerializeAsString();
  CHECK(test::error_of([&] {
          import_model(Source{"m.onnx", whole.substr(0, whole.size() - 10)});
        }) == "m.onnx: expected an ONNX model; its messages are damaged or cut short");
}

}  // namespace rehearse
