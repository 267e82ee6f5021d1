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
  const std::string graph = node("x", "Placeholder", {}, shape({-1, 8})) + node("w", "VariableV2", {}, shape({8, 4})) +
                            node("y", "UnknownOfOurs", {"x"}) + node("z", "MatMul", {"y", "w"});
  CHECK(test::error_of([&] {
          import_model(Source{"g", graph});
        }) ==
        "g: operator \"y\" (UnknownOfOurs): its shape is not known: expected attributes _output_shapes "
        "(as_graph_def(add_shapes=True))");
}

namespace {

std::string dims(const std::vector<int>& sizes) {
  std::string text;
  for (const int size : sizes) text += " dim { size: " + std::to_string(size) + " }";
  return text;
}
std::string attribute(const std::string& key, const std::string& value) {
  return " attr { key: \"" + key + "\" value { " + value + " } }";
}
std::string type(const std::string& name) { return attribute("dtype", "type: DT_" + name); }
/// The attribute shape.
std::string states(const std::vector<int>& sizes) { return attribute("shape", "shape { " + dims(sizes) + " }"); }
std::string integers(const std::string& key, const std::vector<int>& list) {
  std::string text = "list {";
  for (const int i : list) text += " i: " + std::to_string(i);
  return attribute(key, text + " }");
}
std::string flag(const std::string& key) { return attribute(key, "b: true"); }
std::string input(const std::string& name, const std::vector<int>& sizes) {
  return node(name, "Placeholder", {}, type("FLOAT") + states(sizes));
}
/// A constant of floats, of which one stands for all.
std::string constant(const std::string& name, const std::vector<int>& sizes) {
  return node(name, "Const", {},
              type("FLOAT") +
                  attribute("value", "tensor { dtype: DT_FLOAT tensor_shape {" + dims(sizes) + " } float_val: 0.5 }"));
}
std::string numbers(const std::string& name, const std::vector<int>& list, bool is_scalar = false) {
  std::string text =
      "tensor { dtype: DT_INT32 tensor_shape {" + (is_scalar ? "" : dims({static_cast<int>(list.size())})) + " }";
  for (const int i : list) text += " int_val: " + std::to_string(i);
  return node(name, "Const", {}, type("INT32") + attribute("value", text + " }"));
}
std::string number(const std::string& name, int i) { return numbers(name, {i}, true); }
std::string variable(const std::string& name, const std::vector<int>& sizes) {
  return node(name, "VariableV2", {}, type("FLOAT") + states(sizes)) + node(name + "/read", "Identity", {name});
}
std::string window(const std::vector<int>& strides, const std::string& padding) {
  return integers("strides", strides) + attribute("padding", "s: \"" + padding + "\"");
}

ImportedModel imported_graph(const std::string& graph) { return import_model(Source{"g.pbtxt", graph}); }
std::int64_t parameters(const std::string& graph) { return test::workload_of(imported_graph(graph)).parameters(); }
/// Multiply-adds of a sample.
double work(const std::string& graph) { return test::workload_of(imported_graph(graph)).forward_flops().value() / 2; }
std::string refusal(const std::string& graph) {
  return test::error_of([&] { (void)imported_graph(graph); });
}

const std::string kFrozen =
    "the graph has no variables, so its constants of floating-point numbers are taken as learned";

}  // namespace

TEST_CASE("a frozen graph has its constants as weights, by their places and names") {
  const std::string dense = input("x", {-1, 784}) + constant("w", {784, 10}) + node("w/read", "Identity", {"w"}) +
                            node("y", "MatMul", {"x", "w/read"});
  CHECK(parameters(dense) == 7840);
  CHECK(work(dense) == 7840);
  CHECK(imported_graph(dense).remarks == std::vector<std::string>{kFrozen});
  // A bias of one element; means and factors of the input, as TensorFlow names them, are not learned.
  CHECK(parameters(input("x", {-1, 16}) + constant("sub/y", {16}) + node("sub", "Sub", {"x", "sub/y"}) +
                   constant("w", {16, 1}) + constant("b", {1}) + node("p", "MatMul", {"sub", "w"}) +
                   node("y", "BiasAdd", {"p", "b"})) == 17);
  // A normalisation: scale and bias, or a bias alone; moving averages are not learned.
  const auto normalised = [](const std::string& scale) {
    return input("x", {-1, 9, 9, 3}) + constant("w", {3, 3, 3, 8}) +
           node("c", "Conv2D", {"x", "w"}, window({1, 2, 2, 1}, "VALID")) + constant(scale, {8}) +
           constant("b/beta", {8}) + constant("b/m", {8}) + constant("b/v", {8}) +
           node("n", "FusedBatchNorm", {"c", scale, "b/beta", "b/m", "b/v"});
  };
  CHECK(parameters(normalised("b/gamma")) == 216 + 16);
  CHECK(parameters(normalised("b/Const")) == 216 + 8);
  CHECK(work(normalised("b/gamma")) == 4 * 4 * 216);
  // The same of elementary operators.
  CHECK(parameters(input("x", {-1, 8}) + constant("w", {8, 4}) + node("p", "MatMul", {"x", "w"}) +
                   constant("b/moving_variance", {4}) + constant("e/y", {}) +
                   node("e", "Add", {"b/moving_variance", "e/y"}) + node("r", "Rsqrt", {"e"}) +
                   constant("b/gamma", {4}) + node("s", "Mul", {"r", "b/gamma"}) + node("m", "Mul", {"p", "s"}) +
                   constant("b/moving_mean", {4}) + node("o", "Mul", {"b/moving_mean", "s"}) + constant("b/beta", {4}) +
                   node("t", "Sub", {"b/beta", "o"}) + node("y", "Add", {"m", "t"})) == 32 + 8);
}

TEST_CASE("queues and iterators give the batch and the shape of the input") {
  const std::string dense = variable("w", {784, 10}) + node("y", "MatMul", {"batch", "w/read"});
  const std::string stated = node("batch", "QueueDequeueManyV2", {"queue", "n"}, shape({32, 784}));
  CHECK(parameters(stated + dense) == 7840);  // neither the queue nor the number is in the graph
  CHECK(work(stated + dense) == 7840);
  const std::string shapes = attribute("shapes", "list { shape {" + dims({784}) + " } shape { } }");
  for (const char* queue : {"FIFOQueueV2", "RandomShuffleQueueV2", "PaddingFIFOQueueV2"})
    for (const char* dequeue : {"QueueDequeueManyV2", "QueueDequeueUpToV2"})
      CHECK(work(node("queue", queue, {}, shapes) + number("n", 64) + node("batch", dequeue, {"queue", "n"}) + dense) ==
            7840);
  // Batches that were put in as a whole; the second component feeds the loss.
  CHECK(work(node("queue", "FIFOQueueV2", {},
                  attribute("shapes", "list { shape {" + dims({64}) + " } shape {" + dims({64, 784}) + " } }")) +
             node("queue_Dequeue", "QueueDequeueV2", {"queue"}) + node("batch", "Identity", {"queue_Dequeue:1"}) +
             dense + node("loss", "SparseSoftmaxCrossEntropyWithLogits", {"y", "queue_Dequeue"})) == 7840);
  CHECK(work(node("batch", "IteratorGetNext", {},
                  attribute("output_shapes", "list { shape {" + dims({-1, 784}) + " } shape {" + dims({-1}) + " } }")) +
             dense) == 7840);
  CHECK(
      refusal(node("batch", "IteratorGetNext", {}) + variable("w", {3, 3, 3, 8}) +
              node("y", "Conv2D", {"batch", "w/read"}, window({1, 1, 1, 1}, "SAME"))) ==
      "g.pbtxt: operator \"y\" (Conv2D): the shape of its input \"batch\" is not known: expected a shape in the graph, "
      "such as placeholder(tf.float32, [None, 224, 224, 3]) or as_graph_def(add_shapes=True)");
}

TEST_CASE("placeholders without a shape get it from what reads them, or are asked for it") {
  const std::string open =
      node("x", "Placeholder", {}, type("FLOAT") + attribute("shape", "shape { unknown_rank: true }"));
  const std::string oldest = node("x", "Placeholder", {}, type("FLOAT") + attribute("shape", "shape { }"));
  const std::string dense = constant("w", {784, 10}) + node("y", "MatMul", {"x", "w"});
  for (const std::string& x : {open, oldest, node("x", "Placeholder", {})}) {
    CHECK(parameters(x + dense) == 7840);
    CHECK(work(x + dense) == 7840);
    // Rows become images; what is kept of a dropout is a number.
    const std::string images =
        numbers("s", {-1, 28, 28, 1}) + node("i", "Reshape", {"x", "s"}) + node("keep", "Placeholder", {}) +
        constant("w", {5, 5, 1, 32}) + node("c", "Conv2D", {"i", "w"}, window({1, 1, 1, 1}, "SAME")) +
        node("shape", "Shape", {"c"}) + node("r", "RandomUniform", {"shape"}) + node("k", "Add", {"keep", "r"}) +
        node("floor", "Floor", {"k"}) + node("d", "RealDiv", {"c", "keep"}) + node("m", "Mul", {"d", "floor"});
    CHECK(work(x + images) == 28 * 28 * 25 * 32);
    CHECK(refusal(x + constant("w", {3, 3, 3, 8}) + node("y", "Conv2D", {"x", "w"}, window({1, 1, 1, 1}, "SAME")))
              .starts_with("g.pbtxt: operator \"y\" (Conv2D): the shape of its input \"x\" is not known"));
  }
  // Open axes besides the batch are taken as 128, which is said.
  const ImportedModel sized = imported_graph(input("x", {-1, -1, -1, 3}) + constant("w", {1, 1, 3, 8}) +
                                             node("y", "Conv2D", {"x", "w"}, window({1, 1, 1, 1}, "SAME")));
  CHECK(test::workload_of(sized).forward_flops().value() == 2.0 * 128 * 128 * 24);
  CHECK(sized.remarks[0] == "axes that the graph leaves open, but for the batch, are taken as 128: of \"x\"");
  // A placeholder with a default is an input, unless it stands for what was computed.
  for (const std::string& from : {constant("d", {1, 256}), input("d", {-1, 256})})
    CHECK(work(from + node("x", "PlaceholderWithDefault", {"d"}, type("FLOAT") + states({-1, 256})) +
               variable("w", {256, 128}) + node("y", "MatMul", {"x", "w/read"})) == 256 * 128);
  // A mask is no batch; a batch that only a shape in the graph knows.
  const ImportedModel masked =
      imported_graph(input("x", {-1, 256}) + input("mask", {256, 128}) + variable("w", {256, 128}) +
                     node("m", "Mul", {"w/read", "mask"}) + node("y", "MatMul", {"x", "m"}));
  CHECK(test::workload_of(masked).parameters() == 256 * 128);
  CHECK(masked.remarks[0] == "placeholder \"mask\" is taken as a constant, as its first axis of 256 is not the batch");
  CHECK(work(input("z", {-1, 100}) + variable("w", {100, 512}) + node("h", "MatMul", {"z", "w/read"}) +
             numbers("s", {-1, 4, 4, 32}) + node("i", "Reshape", {"h", "s"}) + variable("k", {5, 5, 16, 32}) +
             numbers("o", {64, 8, 8, 16}) +
             node("y", "Conv2DBackpropInput", {"o", "k/read", "i"}, window({1, 2, 2, 1}, "SAME"))) ==
        100 * 512 + 4 * 4 * 25 * 16 * 32);
}

TEST_CASE("pictures are decoded before the model, with their batch of one") {
  CHECK(work(node("contents", "Placeholder", {}, type("STRING") + states({})) +
             node("d", "DecodeJpeg", {"contents"}, attribute("channels", "i: 3")) + node("f", "Cast", {"d"}) +
             number("dim", 0) + node("e", "ExpandDims", {"f", "dim"}) + numbers("size", {15, 15}) +
             node("r", "ResizeBilinear", {"e", "size"}) + constant("w", {3, 3, 3, 8}) +
             node("c", "Conv2D", {"r", "w"}, window({1, 2, 2, 1}, "VALID")) + constant("m", {8}) + constant("v", {8}) +
             constant("beta", {8}) + constant("gamma", {8}) +
             node("y", "BatchNormWithGlobalNormalization", {"c", "m", "v", "beta", "gamma"})) == 7 * 7 * 216);
}

TEST_CASE("of a training graph each weight counts once, without gradients, updates and other towers") {
  const auto tower = [](const std::string& prefix) {
    return input(prefix + "x", {-1, 6, 6, 3}) + variable(prefix + "w", {3, 3, 3, 8}) +
           node(prefix + "c", "Conv2D", {prefix + "x", prefix + "w/read"}, window({1, 1, 1, 1}, "SAME")) +
           // Normalised by means over the batch, whose moving averages are assigned.
           numbers(prefix + "axes", {0, 1, 2}) +
           node(prefix + "mean", "Mean", {prefix + "c", prefix + "axes"}, flag("keep_dims")) +
           node(prefix + "d", "SquaredDifference", {prefix + "c", prefix + "mean"}) +
           node(prefix + "variance", "Mean", {prefix + "d", prefix + "axes"}, flag("keep_dims")) +
           node(prefix + "r", "Rsqrt", {prefix + "variance"}) + variable(prefix + "gamma", {8}) +
           node(prefix + "s", "Mul", {prefix + "r", prefix + "gamma/read"}) +
           node(prefix + "n", "Mul", {prefix + "c", prefix + "s"}) + variable(prefix + "moving_mean", {8}) +
           node(prefix + "moving", "AssignSub", {prefix + "moving_mean", prefix + "mean"}) +
           numbers(prefix + "flat", {-1, 288}) + node(prefix + "f", "Reshape", {prefix + "n", prefix + "flat"}) +
           variable(prefix + "m", {288, 10}) + node(prefix + "y", "MatMul", {prefix + "f", prefix + "m/read"}) +
           node(prefix + "loss", "SparseSoftmaxCrossEntropyWithLogits", {prefix + "y", prefix + "labels"}) +
           input(prefix + "labels", {-1}) + node(prefix + "probabilities", "Softmax", {prefix + "y"}) +
           node("gradients/" + prefix + "c", "Conv2DBackpropFilter", {prefix + "x", prefix + "c"}) +
           variable(prefix + "w/Momentum", {3, 3, 3, 8}) +
           node("train/" + prefix + "w", "ApplyMomentum",
                {prefix + "w", prefix + "w/Momentum", "gradients/" + prefix + "c"}) +
           node("train/" + prefix + "gamma", "ApplyMomentum", {prefix + "gamma", prefix + "gamma", prefix + "gamma"}) +
           node("train/" + prefix + "m", "ApplyMomentum", {prefix + "m", prefix + "m", prefix + "m"});
  };
  constexpr std::int64_t kParameters = 216 + 8 + 2880;
  CHECK(parameters(tower("")) == kParameters);
  CHECK(imported_graph(tower("")).remarks.empty());
  CHECK(work(tower("")) == 6 * 6 * 216 + 2880);
  CHECK(parameters(tower("tower_0/") + tower("tower_1/")) == kParameters);
  CHECK(work(tower("v0/") + tower("v1/")) == 6 * 6 * 216 + 2880);
  CHECK(imported_graph(tower("tower_0/") + tower("tower_1/")).remarks ==
        std::vector<std::string>{"of towers, one for each GPU, the first is taken"});
  // A second head has parameters of its own, a second use of the first has none.
  const std::string head = variable("q", {288, 4}) + node("boxes", "MatMul", {"f", "q/read"}) +
                           node("train/q", "ApplyMomentum", {"q", "q", "q"});
  CHECK(parameters(tower("") + head) == kParameters + std::int64_t{288} * 4);
  const ImportedModel twice = imported_graph(tower("") + node("again", "MatMul", {"f", "m/read"}));
  CHECK(test::workload_of(twice).parameters() == kParameters);
  CHECK(twice.remarks ==
        std::vector<std::string>{
            "left out are further ends of the graph, which have no trained parameters of their own: 1"});
}

TEST_CASE("layouts, depthwise, dilated and transposed convolutions have the work of their definition") {
  const std::string nchw = attribute("data_format", "s: \"NCHW\"");
  // Weights are [height, width, inputs, outputs] in both layouts.
  const std::string first = input("x", {-1, 4, 9, 9}) + constant("w", {3, 3, 4, 6}) +
                            node("y", "Conv2D", {"x", "w"}, window({1, 1, 2, 2}, "SAME") + nchw);
  CHECK(work(first) == 5 * 5 * 9 * 4 * 6);
  CHECK(parameters(first) == 9 * 4 * 6);
  CHECK(!imported_graph(first).model_file.contains("layout"));
  const std::string depthwise = input("x", {-1, 9, 9, 4}) + constant("w", {3, 3, 4, 2}) +
                                node("y", "DepthwiseConv2dNative", {"x", "w"}, window({1, 2, 2, 1}, "VALID"));
  CHECK(work(depthwise) == 4 * 4 * 9 * 8);
  CHECK(parameters(depthwise) == 72);
  const std::string blocks =
      numbers("b", {2, 2}) + node("p", "Const", {},
                                  type("INT32") + attribute("value", "tensor { dtype: DT_INT32 tensor_shape {" +
                                                                         dims({2, 2}) + " } int_val: 2 }"));
  const std::string dilated =
      input("x", {-1, 8, 8, 4}) + constant("w", {3, 3, 4, 6}) + blocks + node("to", "SpaceToBatchND", {"x", "b", "p"}) +
      node("c", "Conv2D", {"to", "w"}, window({1, 1, 1, 1}, "VALID")) +
      node("zero", "Const", {},
           type("INT32") +
               attribute("value", "tensor { dtype: DT_INT32 tensor_shape {" + dims({2, 2}) + " } int_val: 0 }")) +
      node("y", "BatchToSpaceND", {"c", "b", "zero"});
  CHECK(work(dilated) == 8 * 8 * 9 * 4 * 6);
}

TEST_CASE("attention of TensorFlow: identifiers, tables, products and equations") {
  const std::string tables =
      node("ids", "Placeholder", {}, type("INT32") + states({-1, 6})) + numbers("flat", {-1}) +
      node("i", "Reshape", {"ids", "flat"}, attribute("T", "type: DT_INT32")) + variable("table", {50, 8}) +
      number("axis", 0) + node("g", "GatherV2", {"table/read", "i", "axis"}, attribute("Tparams", "type: DT_FLOAT")) +
      numbers("back", {-1, 6, 8}) + node("x", "Reshape", {"g", "back"}) + variable("positions", {16, 8}) +
      numbers("begin", {0, 0}) + numbers("size", {6, -1}) + node("p", "Slice", {"positions/read", "begin", "size"}) +
      node("sum", "Add", {"x", "p"});
  const auto einsum = [](const std::string& name, const std::string& a, const std::string& b,
                         const std::string& equation) {
    return node(name, "Einsum", {a, b}, attribute("equation", "s: \"" + equation + "\""));
  };
  const std::string attention = tables + variable("q", {8, 2, 4}) + einsum("qx", "sum", "q/read", "abc,cde->abde") +
                                einsum("s", "qx", "qx", "aecd,abcd->acbe") + node("soft", "Softmax", {"s"}) +
                                einsum("c", "soft", "qx", "acbe,aecd->abcd") + variable("o", {2, 4, 8}) +
                                einsum("y", "c", "o/read", "abcd,cde->abe");
  CHECK(parameters(attention) == 400 + 16 * 8 + 64 + 64);
  CHECK(work(attention) == 2 * 6 * 64 + 2 * 6 * 6 * 8);
  const std::string products = tables + variable("w", {8, 8}) + node("f", "Reshape", {"sum", "rows"}) +
                               numbers("rows", {-1, 8}) + node("v", "MatMul", {"f", "w/read"}) +
                               node("h", "Reshape", {"v", "heads"}) + numbers("heads", {-1, 6, 2, 4}) +
                               node("t", "Transpose", {"h", "order"}) + numbers("order", {0, 2, 1, 3}) +
                               node("s", "BatchMatMulV2", {"t", "t"}, flag("adj_y")) + node("soft", "Softmax", {"s"}) +
                               node("y", "BatchMatMulV2", {"soft", "t"});
  CHECK(work(products) == 6 * 64 + 2 * 6 * 6 * 8);
}

TEST_CASE("recurrent layers: unrolled cells and blocks; loops are refused by name") {
  const std::string x =
      input("x", {-1, 3, 8}) + node("u", "Unpack", {"x"}, attribute("axis", "i: 1") + attribute("num", "i: 3"));
  std::string cells = x + variable("k", {8, 8}) + number("one", 1);
  for (const char* step : {"u", "u:1", "u:2"})
    cells += node(std::string{"m"} + std::string{step}.back(), "MatMul", {step, "k/read"});
  cells += node("y", "AddN", {"mu", "m1", "m2"});
  CHECK(parameters(cells) == 64);
  CHECK(work(cells) == 3 * 64);
  // Positions that a queue counts; how many they are, the cells say.
  const std::string corpus =
      node("data", "Const", {},
           type("INT32") + attribute("value", "tensor { dtype: DT_INT32 tensor_shape {" + dims({2, 100}) + " } }")) +
      node("queue", "FIFOQueueV2", {}, attribute("shapes", "list { shape { } }")) +
      node("i", "QueueDequeueV2", {"queue"}, attribute("component_types", "list { type: DT_INT32 }")) +
      number("zero", 0) + number("two", 2) + number("three", 3) + node("from", "Mul", {"i", "three"}) +
      node("to", "Add", {"from", "three"}) + node("begin", "Pack", {"zero", "from"}) +
      node("end", "Pack", {"two", "to"}) + numbers("steps", {1, 1}) +
      node("ids", "StridedSlice", {"data", "begin", "end", "steps"}, attribute("T", "type: DT_INT32")) +
      variable("table", {50, 8}) + node("x", "Gather", {"table/read", "ids"}, attribute("Tparams", "type: DT_FLOAT"));
  std::string counted = cells;
  counted.replace(0, input("x", {-1, 3, 8}).size(), corpus);
  CHECK(parameters(counted) == 400 + 64);
  CHECK(work(counted) == 3 * 64);
  CHECK(imported_graph(counted).remarks[0] ==
        "axes that the graph leaves open, but for the batch, are taken as 3: of \"ids\"");
  const std::string block =
      input("x", {20, -1, 8}) + number("n", 20) + constant("zero", {}) + variable("w", {8 + 16, 64}) +
      variable("b", {64}) +
      node("lstm", "BlockLSTM", {"n", "x", "zero", "zero", "w/read", "zero", "zero", "zero", "b/read"}) +
      variable("v", {16, 5}) + numbers("rows", {-1, 16}) + node("f", "Reshape", {"lstm:6", "rows"}) +
      node("y", "MatMul", {"f", "v/read"});
  CHECK(parameters(block) == 24 * 64 + 64 + 80);
  CHECK(work(block) == 20 * (24 * 64 + 80));  // 20 positions first, then the batch
  for (const char* op :
       {"While", "If", "StatefulPartitionedCall", "CudnnRNN", "QuantizedConv2D", "Conv3D", "TRTEngineOp"})
    CHECK(refusal(input("x", {-1, 8}) + node("op", op, {"x"}) + variable("w", {8, 2}) +
                  node("y", "MatMul", {"op", "w/read"}))
              .starts_with("g.pbtxt: operator \"op\" (" + std::string{op} + "): "));
}

TEST_CASE("a loop with weights is refused; one that prepares pictures or chooses among boxes is left out") {
  const auto loop = [](const std::string& name, const std::string& x, const std::string& body) {
    return node(name + "/Enter", "Enter", {x}) +
           node(name + "/Merge", "Merge", {name + "/Enter", name + "/NextIteration"}) +
           node(name + "/cond", "LoopCond", {}) + node(name + "/Switch", "Switch", {name + "/Merge", name + "/cond"}) +
           node(name + "/body", body, {name + "/Switch:1", body == "BiasAdd" ? "w/read" : "indices"}) +
           node(name + "/NextIteration", "NextIteration", {name + "/body"}) +
           node(name + "/Exit", "Exit", {name + "/Switch"}) +
           node(name + "/all", "TensorArrayGatherV3", {"array", "indices", name + "/Exit"},
                attribute("element_shape", "shape {" + dims({9, 9, 3}) + " }"));
  };
  const std::string rest =
      variable("w", {3, 3, 3, 8}) + node("array", "TensorArrayV3", {}) + numbers("indices", {0, 1});
  const std::string convolved =
      node("c", "Conv2D", {"before/all", "w/read"}, window({1, 1, 1, 1}, "SAME")) + node("y", "Sigmoid", {"c"});
  const std::string detector = input("image", {-1, -1, -1, 3}) + loop("before", "image", "ResizeBilinear") + rest +
                               convolved + loop("after", "y", "NonMaxSuppressionV2") +
                               node("boxes", "Identity", {"after/all"});
  CHECK(parameters(detector) == 216);
  CHECK(work(detector) == 9 * 9 * 216);
  CHECK(refusal(input("image", {-1, -1, -1, 3}) + loop("before", "image", "MatMul") + rest + convolved) ==
        "g.pbtxt: operator \"before/all\" (TensorArrayGatherV3): it is part of a loop of the graph, whose number of "
        "turns no "
        "attribute tells: expected none (while_loop, dynamic_rnn, map_fn) between input and output");
  CHECK(refusal(input("x", {-1, 8}) + loop("rnn", "x", "BiasAdd") + rest + variable("v", {8, 2}) +
                node("y", "MatMul", {"rnn/Exit", "v/read"}))
            .starts_with("g.pbtxt: operator \"rnn/Exit\" (Exit): it is part of a loop"));
  // What chooses by value gives an unknown number of boxes.
  const ImportedModel choosing = imported_graph(
      input("x", {-1, 9, 9, 3}) + rest + node("c", "Conv2D", {"x", "w/read"}, window({1, 1, 1, 1}, "SAME")) +
      node("chosen", "Where", {"c"}) + node("y", "GatherNd", {"c", "chosen"}));
  CHECK(test::workload_of(choosing).parameters() == 216);
  CHECK(choosing.remarks ==
        std::vector<std::string>{"the model ends before operators whose shapes are not known: 1 Where"});
}

TEST_CASE("conditions give the branch that is taken if they are true") {
  const std::string graph = input("x", {-1, 8}) + node("is_training", "Placeholder", {}, type("BOOL")) +
                            variable("w", {8, 4}) + node("p", "MatMul", {"x", "w/read"}) +
                            node("a", "Switch", {"p", "is_training"}) + node("t", "Relu", {"a:1"}) +
                            node("f", "Identity", {"a"}) + node("m", "Merge", {"f", "t"}) + variable("v", {4, 2}) +
                            node("y", "MatMul", {"m", "v/read"});
  CHECK(parameters(graph) == 40);
  CHECK(imported_graph(graph).remarks ==
        std::vector<std::string>{
            "of conditions of the graph (tf.cond) the branch that is taken if they are true is read"});
}

TEST_CASE("layers that do not have the weights that the graph reads are refused, and graphs that are none") {
  const std::string x = input("x", {-1, 16});
  const std::string parts = x + constant("w", {16, 64}) + number("axis", 1) +
                            node("s", "Split", {"axis", "w"}, attribute("num_split", "i: 2")) +
                            node("a", "MatMul", {"x", "s"}) + node("b", "MatMul", {"x", "s:1"}) +
                            node("y", "Add", {"a", "b"});
  const std::string words =
      ": expected variables that are weights as a whole; parts of them and products of two are not supported";
  CHECK(refusal(parts) == "g.pbtxt: its layers have 512 parameters, the variables that they read 1024" + words);
  CHECK(refusal(x + constant("a", {16, 4}) + constant("b", {4, 64}) + node("w", "MatMul", {"a", "b"}) +
                node("y", "MatMul", {"x", "w"})) ==
        "g.pbtxt: its layers have 1024 parameters, the variables that they read 320" + words);
  CHECK(refusal(x + node("y", "MatMul", {"x", "weights"})) ==
        "g.pbtxt: operator \"y\" (MatMul): it reads a node that the graph does not have: expected a whole GraphDef; "
        "OpenCV's "
        "text graphs, for instance, leave the weights out");
  CHECK(refusal(x + node("y", "Relu", {"x"})) ==
        "g.pbtxt: expected a model with weights; found neither a variable nor a constant of several floating-point "
        "numbers");
  CHECK(refusal(x + variable("w", {16, 4}) + node("y", "Relu", {"x"})) ==
        "g.pbtxt: expected a model with weights; found variables that no operator reads");
  CHECK(refusal(variable("a", {}) + variable("b", {}) + node("y", "Mul", {"a/read", "b/read"})) ==
        "g.pbtxt: expected a model with weights; found only variables that are none: single numbers, integers, of "
        "unknown size or not trained");
  CHECK(refusal(variable("w", {4, 4}) + node("y", "L2Loss", {"w/read"})) ==
        "g.pbtxt: expected an input (Placeholder, IteratorGetNext, QueueDequeue...) before operators with weights; "
        "found none");
  CHECK(refusal(x + variable("w", {16, 4}) + node("a", "Add", {"x", "b"}) + node("b", "Relu", {"a"}) +
                node("y", "MatMul", {"b", "w/read"})) == "g.pbtxt: operator \"a\" (Add): it waits for itself");
}

TEST_CASE("parameters that are added before samples are count all") {
  const std::string graph = input("x", {-1, 6, 8}) + variable("p", {6, 8}) + variable("t", {1, 8}) +
                            node("s", "Add", {"p/read", "t/read"}) + node("y", "Add", {"x", "s"}) +
                            variable("w", {8, 4}) + numbers("rows", {-1, 8}) + node("r", "Reshape", {"y", "rows"}) +
                            node("z", "MatMul", {"r", "w/read"});
  CHECK(parameters(graph) == 48 + 8 + 32);
}

TEST_CASE("a checkpoint's .meta and a SavedModel have a graph, whose functions stand in the place of their calls") {
  const std::string w = variable("w", {8, 4}), x = input("x", {-1, 8});
  const ImportedModel meta =
      imported_graph("meta_info_def { tags: \"train\" } graph_def { " + x + w + variable("s", {4}) +
                     node("p", "MatMul", {"x", "w/read"}) + node("y", "Mul", {"p", "s/read"}) +
                     "} collection_def { key: \"trainable_variables\" value { bytes_list { "
                     "value: \"\\n\\003w:0\" } } }");
  CHECK(test::workload_of(meta).parameters() == 32);  // s is no variable that is trained
  const std::string handle = node("w", "VarHandleOp", {}, type("FLOAT") + states({8, 4}) + shape({}));
  const std::string function =
      "library { function { signature { name: \"f\" input_arg { name: \"a\" } input_arg { name: \"r\" } output_arg { "
      "name: "
      "\"o\" } } node_def { name: \"read\" op: \"ReadVariableOp\" input: \"r\" } node_def { name: \"mul\" op: "
      "\"MatMul\" "
      "input: \"a\" input: \"read:value:0\" } ret { key: \"o\" value: \"mul:product:0\" } } }";
  const std::string saved =
      "saved_model_schema_version: 1 meta_graphs { graph_def { " + handle + x +
      node("call", "StatefulPartitionedCall", {"x", "w"}, attribute("f", "func { name: \"f\" }")) +
      node("other", "VarHandleOp", {}, type("FLOAT") + states({8, 4})) +
      node("other/Read", "ReadVariableOp", {"other"}) + function +
      " } signature_def { key: \"serving_default\" value { outputs { key: \"o\" value { name: "
      "\"call:0\" } } } } }";
  CHECK(parameters(saved) == 32);
  CHECK(work(saved) == 32);
  CHECK(imported_graph(saved).remarks ==
        std::vector<std::string>{"functions that the graph calls stand in their places: 1"});
  CHECK(
      refusal(handle + x + node("y", "StatefulPartitionedCall", {"x", "w"}, attribute("f", "func { name: \"g\" }"))) ==
      "g.pbtxt: operator \"y\" (StatefulPartitionedCall): it calls the function \"g\", which the file does not have");
}

}  // namespace rehearse
