#include "workloads/importers/tensorflow_shapes.hpp"

#include <doctest/doctest.h>

#include "tests/support/error_of.hpp"

namespace rehearse {

namespace {

using Shape = GraphDefShape;
using Numbers = std::vector<double>;

TensorflowValue tensor(const Shape& shape) { return {.shape = shape}; }
TensorflowValue numbers(const Numbers& list) {
  return {.shape = Shape{static_cast<std::int64_t>(list.size())}, .numbers = list};
}
TensorflowValue number(double value) { return {.shape = Shape{}, .numbers = Numbers{value}}; }

std::vector<TensorflowValue> inferred(const GraphDefNode& node, const std::vector<TensorflowValue>& inputs) {
  std::vector<const TensorflowValue*> pointers;
  for (const TensorflowValue& input : inputs) pointers.push_back(&input);
  return infer_tensorflow(node, pointers);
}
GraphDefNode node(const std::string& op, const std::map<std::string, std::vector<std::int64_t>>& integers = {}) {
  GraphDefNode made{.op = op};
  made.integers = integers;
  return made;
}
Shape shape_of(const GraphDefNode& made, const std::vector<TensorflowValue>& inputs, std::size_t output = 0) {
  const auto outputs = inferred(made, inputs);
  return output < outputs.size() && outputs[output].shape ? *outputs[output].shape : Shape{-7};
}
Numbers numbers_of(const GraphDefNode& made, const std::vector<TensorflowValue>& inputs) {
  const auto outputs = inferred(made, inputs);
  return outputs[0].numbers.value_or(Numbers{-7});
}

}  // namespace

TEST_CASE("a TensorFlow operator gives the shape of its definition") {
  GraphDefNode convolution = node("Conv2D", {{"strides", {1, 2, 2, 1}}, {"dilations", {1, 2, 2, 1}}});
  convolution.padding = "VALID";
  CHECK(shape_of(convolution, {tensor({5, 20, 9, 3}), tensor({3, 2, 3, 8})}) == Shape{5, 8, 4, 8});
  convolution.padding = "SAME";
  CHECK(shape_of(convolution, {tensor({5, 20, 9, 3}), tensor({3, 2, 3, 8})}) == Shape{5, 10, 5, 8});
  convolution.padding = "EXPLICIT";
  convolution.integers["explicit_paddings"] = {0, 0, 1, 0, 2, 2, 0, 0};
  CHECK(shape_of(convolution, {tensor({5, 20, 9, 3}), tensor({3, 2, 3, 8})}) == Shape{5, 9, 6, 8});
  GraphDefNode first = node("DepthwiseConv2dNative", {{"strides", {1, 1, 2, 2}}});
  first.data_format = "NCHW";
  first.padding = "SAME";
  CHECK(shape_of(first, {tensor({5, 4, 9, 9}), tensor({3, 3, 4, 2})}) == Shape{5, 8, 5, 5});
  GraphDefNode pool = node("MaxPool", {{"ksize", {1, 3, 3, 1}}, {"strides", {1, 2, 2, 1}}});
  pool.padding = "VALID";
  CHECK(shape_of(pool, {tensor({5, 9, 8, 4})}) == Shape{5, 4, 3, 4});
  GraphDefNode product = node("MatMul");
  product.transposes_second = true;
  CHECK(shape_of(product, {tensor({5, 6}), tensor({7, 6})}) == Shape{5, 7});
  CHECK(shape_of(node("BatchMatMulV2"), {tensor({5, 1, 4, 6}), tensor({3, 6, 7})}) == Shape{5, 3, 4, 7});
  CHECK(shape_of(node("Reshape"), {tensor({5, 6, 2}), numbers({-1, 4})}) == Shape{15, 4});
  CHECK(shape_of(node("ExpandDims"), {tensor({5, 6}), number(-1)}) == Shape{5, 6, 1});
  CHECK(shape_of(node("Squeeze", {{"squeeze_dims", {1, 2}}}), {tensor({5, 1, 1, 6})}) == Shape{5, 6});
  CHECK(shape_of(node("Transpose"), {tensor({5, 6, 2}), numbers({0, 2, 1})}) == Shape{5, 2, 6});
  CHECK(shape_of(node("ConcatV2"), {tensor({5, 6}), tensor({5, 2}), number(-1)}) == Shape{5, 8});
  CHECK(shape_of(node("Concat"), {number(0), tensor({5, 6}), tensor({2, 6})}) == Shape{7, 6});
  CHECK(shape_of(node("Pack", {{"axis", {1}}}), {tensor({5, 6}), tensor({5, 6})}) == Shape{5, 2, 6});
  CHECK(shape_of(node("Unpack", {{"axis", {1}}, {"num", {6}}}), {tensor({5, 6, 4})}, 5) == Shape{5, 4});
  CHECK(shape_of(node("Split", {{"num_split", {3}}}), {number(1), tensor({5, 6})}, 2) == Shape{5, 2});
  CHECK(shape_of(node("SplitV", {{"num_split", {2}}}), {tensor({5, 6}), numbers({-1, 2}), number(1)}) == Shape{5, 4});
  CHECK(shape_of(node("Slice"), {tensor({5, 6}), numbers({0, 2}), numbers({3, -1})}) == Shape{3, 4});
  CHECK(shape_of(node("Mean", {{"keep_dims", {1}}}), {tensor({5, 6, 7, 2}), numbers({1, 2})}) == Shape{5, 1, 1, 2});
  CHECK(shape_of(node("ArgMax"), {tensor({5, 6}), number(1)}) == Shape{5});
  CHECK(shape_of(node("TopKV2"), {tensor({5, 6}), number(2)}, 1) == Shape{5, 2});
  CHECK(shape_of(node("GatherV2"), {tensor({9, 4}), tensor({5, 3}), number(0)}) == Shape{5, 3, 4});
  CHECK(shape_of(node("GatherNd"), {tensor({9, 4, 2}), tensor({5, 2})}) == Shape{5, 2});
  CHECK(shape_of(node("OneHot", {{"axis", {-1}}}), {tensor({5, 6}), number(3)}) == Shape{5, 6, 3});
  CHECK(shape_of(node("Tile"), {tensor({5, 6}), numbers({1, 3})}) == Shape{5, 18});
  CHECK(shape_of(node("Pad"), {tensor({5, 6}), numbers({0, 0, 1, 2})}) == Shape{5, 9});
  CHECK(shape_of(node("ResizeBilinear"), {tensor({5, 9, 9, 3}), numbers({20, 30})}) == Shape{5, 20, 30, 3});
  CHECK(shape_of(node("DepthToSpace", {{"block_size", {2}}}), {tensor({5, 9, 9, 8})}) == Shape{5, 18, 18, 2});
  CHECK(shape_of(node("RandomUniform"), {numbers({5, 6})}) == Shape{5, 6});
  CHECK(shape_of(node("Add"), {tensor({5, 1, 4}), tensor({3, 4})}) == Shape{5, 3, 4});
  CHECK(shape_of(node("Select"), {tensor({5}), tensor({5, 4}), tensor({5, 4})}) == Shape{5, 4});
  CHECK(shape_of(node("OperatorOfOurs"), {tensor({5, 9})}) == Shape{-7});
}

TEST_CASE("ranges have Python's meaning, with their masks") {
  const auto cut = [](const Numbers& begin, const Numbers& end, const Numbers& strides,
                      const std::map<std::string, std::vector<std::int64_t>>& masks = {}) {
    return shape_of(node("StridedSlice", masks), {tensor({5, 9, 4}), numbers(begin), numbers(end), numbers(strides)});
  };
  CHECK(cut({1, 0}, {-1, 9}, {1, 2}) == Shape{3, 5, 4});
  CHECK(cut({0, 3}, {0, 4}, {1, 1}, {{"begin_mask", {1}}, {"end_mask", {1}}, {"shrink_axis_mask", {2}}}) ==
        Shape{5, 4});
  CHECK(cut({0, 0, 0}, {0, 0, 0}, {1, 1, 1},
            {{"ellipsis_mask", {1}}, {"new_axis_mask", {2}}, {"shrink_axis_mask", {4}}}) == Shape{5, 9, 1});
  CHECK(cut({8, 8}, {-100, 2}, {-2, -3}) == Shape{3, 2, 4});
}

TEST_CASE("sizes are worked out of other sizes, as far as they are known") {
  const TensorflowValue size = inferred(node("Shape"), {tensor({13, 7, 7, 64})})[0];
  CHECK(size.numbers == Numbers{13, 7, 7, 64});
  CHECK(numbers_of(node("StridedSlice", {{"shrink_axis_mask", {1}}}),
                   {size, numbers({0}), numbers({1}), numbers({1})}) == Numbers{13});
  CHECK(numbers_of(node("StridedSlice"), {size, numbers({1}), numbers({4}), numbers({1})}) == Numbers{7, 7, 64});
  CHECK(numbers_of(node("Prod"), {numbers({7, 7, 64}), numbers({0})}) == Numbers{3136});
  CHECK(numbers_of(node("Pack"), {number(13), number(-1)}) == Numbers{13, -1});
  CHECK(numbers_of(node("ConcatV2"), {numbers({13}), numbers({3, 4}), number(0)}) == Numbers{13, 3, 4});
  CHECK(numbers_of(node("Mul"), {numbers({7, 7}), number(2)}) == Numbers{14, 14});
  CHECK(numbers_of(node("FloorDiv"), {number(-7), number(2)}) == Numbers{-4});
  CHECK(numbers_of(node("GatherV2"), {size, numbers({3, 0}), number(0)}) == Numbers{64, 13});
  CHECK(numbers_of(node("Range"), {number(1), number(8), number(3)}) == Numbers{1, 4, 7});
  CHECK(numbers_of(node("Fill"), {numbers({2}), number(9)}) == Numbers{9, 9});
  // An open axis stays open through a reshape.
  const TensorflowValue open = inferred(node("Shape"), {tensor({-1, 4, 4})})[0];
  const TensorflowValue batch =
      inferred(node("StridedSlice", {{"shrink_axis_mask", {1}}}), {open, numbers({0}), numbers({1}), numbers({1})})[0];
  const TensorflowValue to = inferred(node("Pack"), {batch, number(16)})[0];
  CHECK(shape_of(node("Reshape"), {tensor({-1, 4, 4}), to}) == Shape{-1, 16});
}

TEST_CASE("what a GraphDef states of a shape completes what follows") {
  GraphDefNode stated = node("Relu");
  stated.shapes = {Shape{-1, 6}};
  CHECK(shape_of(stated, {tensor({13, -1})}) == Shape{13, 6});
  CHECK(shape_of(stated, {TensorflowValue{}}) == Shape{-1, 6});
}

TEST_CASE("sizes that do not fit are refused") {
  const auto error = [](const GraphDefNode& made, const std::vector<TensorflowValue>& inputs) {
    return test::error_of([&] { inferred(made, inputs); });
  };
  CHECK(error(node("MatMul"), {tensor({5, 6}), tensor({7, 6})}) == "sums over 6 and 7 terms");
  CHECK(error(node("Add"), {tensor({5, 6}), tensor({5, 7})}) == "axes of 6 and 7 do not fit");
  CHECK(error(node("Reshape"), {tensor({5, 6}), numbers({4, -1})}) == "makes axes of 4 from 30 scalars");
  CHECK(error(node("Transpose"), {tensor({5, 6}), numbers({0, 2})}) == "axis 2 of 2");
  CHECK(error(node("Tile"), {tensor({1 << 30}), numbers({1 << 30})}) == "more than 2^40 scalars");
  CHECK(error(node("Split", {{"num_split", {4}}}), {number(1), tensor({5, 6})}) == "6 in 4 parts");
}

}  // namespace rehearse
