#include "workloads/importers/tensorflow.hpp"

#include <doctest/doctest.h>

#include "tests/support/error_of.hpp"
#include "tests/support/imported.hpp"

namespace rehearse {

namespace {

std::string shape(const std::vector<int>& sizes) {
  std::string text = "attr { key: \"_output_shapes\" value { list { shape {";
  for (const int size : sizes) text += " dim { size: " + std::to_string(size) + " }";
  return text + " } } } }";
}

std::string node(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                 const std::string& more = "") {
  std::string text = "node { name: \"" + name + "\" op: \"" + op + "\"";
  for (const std::string& input : inputs) text += " input: \"" + input + "\"";
  return text + " " + more + " }\n";
}

const std::string kStride = R"(attr { key: "strides" value { list { i: 1 i: 2 i: 2 i: 1 } } }
                               attr { key: "padding" value { s: "SAME" } })";

/// A convolution with normalisation, flattened into a dense layer, with some of what training adds; out of order.
std::string training_graph() {
  return node("logits", "BiasAdd", {"product", "bias/read"}) + node("x", "Placeholder", {}, shape({-1, 8, 8, 3})) +
         node("w", "VariableV2", {}, shape({3, 3, 3, 4})) + node("w/read", "Identity", {"w"}, shape({3, 3, 3, 4})) +
         node("w/Initializer/random", "TruncatedNormal", {}, shape({3, 3, 3, 4})) +
         node("w/Assign", "Assign", {"w", "w/Initializer/random"}) + node("conv", "Conv2D", {"x", "w/read"}, kStride) +
         node("gamma", "VarHandleOp", {}) + node("gamma/read", "ReadVariableOp", {"gamma"}, shape({4})) +
         node("beta", "VariableV2", {}, shape({4})) +
         node("bn", "FusedBatchNormV3", {"conv", "gamma/read", "beta"}, shape({-1, 4, 4, 4})) +
         node("relu", "Relu", {"bn:0", "^x"}) + node("flat", "Reshape", {"relu", "to"}, shape({-1, 64})) +
         node("to", "Const", {}, shape({2})) + node("matrix", "VariableV2", {}, shape({64, 10})) +
         node("product", "MatMul", {"flat", "matrix"}, shape({-1, 10})) + node("bias", "VariableV2", {}, shape({10})) +
         node("bias/read", "Identity", {"bias"}) +
         node("loss", "SparseSoftmaxCrossEntropyWithLogits", {"logits", "labels"}) +
         node("labels", "Placeholder", {}, shape({-1})) + node("gradients/g", "Conv2DBackpropFilter", {"x", "loss"}) +
         node("step", "ApplyMomentum", {"w", "gradients/g"});
}

}  // namespace

TEST_CASE("the forward part of a GraphDef becomes a model, whose gradients are derived") {
  const ImportedModel imported = import_model(Source{"g.pbtxt", training_graph()});
  CHECK(imported.remarks.empty());
  CHECK(imported.model_file["layout"] == "NHWC");
  const Workload workload = test::workload_of(imported, 5);
  CHECK(workload.parameters() == 3 * 3 * 3 * 4 + 2 * 4 + 64 * 10 + 10);
  CHECK(workload.forward_flops().value() == 2.0 * 5 * (4 * 4 * 4 * 3 * 3 * 3 + 64 * 10));
  CHECK(workload.trainable_tensors() == 5);
}

TEST_CASE("a GraphDef without shapes is refused by its operator") {
  const std::string graph = node("x", "Placeholder", {}, shape({-1, 8})) + node("y", "Sum", {"x"});
  CHECK(test::error_of([&] {
          import_model(Source{"g", graph});
        }) ==
        "g: operator \"y\" (Sum): its shape is not known: expected attributes _output_shapes "
        "(as_graph_def(add_shapes=True))");
}

}  // namespace rehearse
