// Shapes of products, convolutions and what moves windows over images.

#include <algorithm>
#include <array>
#include <string>

#include "workloads/importers/detail/tensorflow_node.hpp"
#include "workloads/importers/einsum.hpp"

namespace rehearse::tensorflow {

namespace {

using Shape = GraphDefShape;
using Numbers = Node::Numbers;

constexpr std::int64_t kMostOfWindow = 1 << 20;

void matrix_product(Node& node) {
  const Shape *a = node.shape(0), *b = node.shape(1);
  const bool has_vectors = (a != nullptr && a->size() < 2) || (b != nullptr && b->size() < 2);
  if (has_vectors) fail("a product of less than two axes");
  if (a == nullptr || b == nullptr) return;
  const std::size_t p = a->size(), q = b->size();
  const std::int64_t rows = (*a)[node.definition.transposes_first ? p - 1 : p - 2];
  const std::int64_t from = (*a)[node.definition.transposes_first ? p - 2 : p - 1];
  const std::int64_t terms = (*b)[node.definition.transposes_second ? q - 1 : q - 2];
  if (from >= 0 && terms >= 0 && from != terms)
    fail("sums over " + std::to_string(from) + " and " + std::to_string(terms) + " terms");
  Shape y = broadcast({a->begin(), a->end() - 2}, {b->begin(), b->end() - 2});
  y.push_back(rows);
  y.push_back((*b)[node.definition.transposes_second ? q - 2 : q - 1]);
  node.set(y);
}

void einsum(Node& node) {
  if (node.shape(0) != nullptr && node.shape(1) != nullptr)
    node.set(einsum_shape(node.text("equation"), *node.shape(0), *node.shape(1)));
}

/// Positions along one axis after a window of `kernel` moved over `in`.
std::int64_t slid(const Node& node, std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t dilation,
                  std::size_t axis) {
  if (in < 0 || kernel < 0) return kOpen;
  for (const std::int64_t size : {kernel, stride, dilation})
    if (size < 1 || size > kMostOfWindow) fail("a window of " + std::to_string(size));
  if (node.definition.padding == "SAME") return in == 0 ? 0 : (in - 1) / stride + 1;
  std::int64_t pads = 0;
  if (const auto stated = node.integers("explicit_paddings");
      node.definition.padding == "EXPLICIT" && stated.size() == 8) {
    for (const std::int64_t pad : {stated[2 * axis], stated[2 * axis + 1]})
      if (pad < 0 || pad > kMostOfWindow) fail("a padding of " + std::to_string(pad));
    pads = stated[2 * axis] + stated[2 * axis + 1];
  }
  const std::int64_t room = in + pads - dilation * (kernel - 1) - 1;
  if (room < 0) fail("a kernel larger than its input");
  return room / stride + 1;
}

void convolution(Node& node) {
  const Shape *x = node.shape(0), *w = node.shape(1);
  if (x == nullptr || w == nullptr || x->size() != 4 || w->size() != 4) return;
  const std::size_t height = node.is_channels_first() ? 2 : 1, channel = node.is_channels_first() ? 1 : 3;
  const auto strides = node.integers("strides"), dilations = node.integers("dilations");
  Shape y = *x;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t stride = strides.size() == 4 ? strides[height + i] : 1;
    std::int64_t dilation = dilations.size() == 4 ? dilations[height + i] : 1;
    if (node.inputs[0] != nullptr && i < node.inputs[0]->blocks.size()) dilation = node.inputs[0]->blocks[i];
    y[height + i] = slid(node, (*x)[height + i], (*w)[i], stride, dilation, height + i);
  }
  y[channel] = node.definition.op.find("Depthwise") != std::string::npos ? times((*w)[2], (*w)[3]) : (*w)[3];
  node.set(y);
  if (node.inputs[0] != nullptr) node.outputs[0].blocks = node.inputs[0]->blocks;
}

void transposed_convolution(Node& node) {
  const Numbers* sizes = node.numbers_of(0);
  if (sizes != nullptr && sizes->size() == 4) {
    Shape y;
    for (const double size : *sizes) y.push_back(size_of(size));
    node.set(y);
  }
  const Shape *w = node.shape(1), *x = node.shape(2);
  if (w == nullptr || x == nullptr || w->size() != 4 || x->size() != 4) return;
  if (!node.outputs[0].shape || node.outputs[0].shape->size() != 4) node.outputs[0].shape = Shape(4, kOpen);
  Shape& y = *node.outputs[0].shape;
  if (y[0] < 0) y[0] = (*x)[0];
  y[node.is_channels_first() ? 1 : 3] = (*w)[2];
  const auto strides = node.integers("strides");
  const std::size_t height = node.is_channels_first() ? 2 : 1;
  for (std::size_t axis = height; axis < height + 2; ++axis)
    if (y[axis] < 0 && node.definition.padding == "SAME" && strides.size() == 4)
      y[axis] = times((*x)[axis], strides[axis]);
}

void pool(Node& node) {
  const Shape* x = node.shape(0);
  if (x == nullptr || x->size() != 4) return;
  auto kernel = node.integers("ksize"), strides = node.integers("strides");
  const auto from_input = [&](std::vector<std::int64_t>& list, std::size_t i) {
    if (list.empty() && node.numbers_of(i) != nullptr)
      for (const double number : *node.numbers_of(i)) list.push_back(size_of(number));
  };
  from_input(kernel, 1);
  from_input(strides, 2);
  if (kernel.size() != 4 || strides.size() != 4) return;
  Shape y = *x;
  for (std::size_t axis = 0; axis < 4; ++axis)
    if (kernel[axis] != 1 || strides[axis] != 1) y[axis] = slid(node, (*x)[axis], kernel[axis], strides[axis], 1, axis);
  node.set(y);
  if (node.definition.op == "MaxPoolWithArgmax") {
    node.set_parts(2);
    node.outputs[1].shape = y;
  }
}

void padded(Node& node) {
  const Shape* x = node.shape(0);
  if (x == nullptr) return;
  Shape y = *x;
  const Numbers* pads = node.numbers_of(1);
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (pads == nullptr || pads->size() != 2 * y.size()) {
      y[i] = kOpen;
      continue;
    }
    const std::int64_t before = size_of((*pads)[2 * i]), after = size_of((*pads)[2 * i + 1]);
    if (before < 0 || after < 0)
      y[i] = kOpen;
    else if (y[i] >= 0)
      y[i] += before + after;
  }
  node.set(y);
}

void resized(Node& node) {
  const Shape* x = node.shape(0);
  const Numbers* size = node.numbers_of(1);
  if (x != nullptr && x->size() != 4) fail("expected images of four axes");
  const bool is_known = size != nullptr && size->size() == 2;
  node.set(Shape{x != nullptr ? (*x)[0] : kOpen, is_known ? size_of((*size)[0]) : kOpen,
                 is_known ? size_of((*size)[1]) : kOpen, x != nullptr ? (*x)[3] : kOpen});
}

void cropped(Node& node) {
  const Shape *x = node.shape(0), *boxes = node.shape(1);
  const Numbers* size = node.numbers_of(3);
  const bool is_known = size != nullptr && size->size() == 2;
  node.set(Shape{boxes != nullptr && !boxes->empty() ? (*boxes)[0] : kOpen, is_known ? size_of((*size)[0]) : kOpen,
                 is_known ? size_of((*size)[1]) : kOpen, x != nullptr && x->size() == 4 ? (*x)[3] : kOpen});
}

/// SpaceToBatchND [x, blocks, paddings] pads and BatchToSpaceND [x, blocks, crops] crops; positions stay.
void moved_to_batch(Node& node) {
  const Shape* x = node.shape(0);
  const Numbers *blocks = node.numbers_of(1), *pads = node.numbers_of(2);
  if (x == nullptr || blocks == nullptr || x->size() < blocks->size() + 1) return;
  const bool is_back = node.definition.op == "BatchToSpaceND";
  Shape y = *x;
  for (std::size_t i = 0; i < blocks->size(); ++i) {
    const bool is_known = pads != nullptr && pads->size() == 2 * blocks->size();
    const std::int64_t before = is_known ? size_of((*pads)[2 * i]) : kOpen;
    const std::int64_t after = is_known ? size_of((*pads)[2 * i + 1]) : kOpen;
    std::int64_t& size = y[i + 1];
    if (before < 0 || after < 0)
      size = kOpen;
    else if (size >= 0)
      size += is_back ? -before - after : before + after;
    if (size < kOpen) fail("crops more than there is");
    if (!is_back) node.outputs[0].blocks.push_back(size_of((*blocks)[i]));
  }
  node.set(y);
}

void moved_to_depth(Node& node) {
  const Shape* x = node.shape(0);
  const std::int64_t block = node.integer("block_size", 0);
  if (x == nullptr || x->size() != 4 || block < 1 || block > 1024) return;
  const std::size_t height = node.is_channels_first() ? 2 : 1, channel = node.is_channels_first() ? 1 : 3;
  const bool is_back = node.definition.op == "DepthToSpace";
  const auto part = [](std::int64_t size, std::int64_t of) { return size < 0 ? kOpen : size / of; };
  Shape y = *x;
  for (const std::size_t axis : {height, height + 1}) y[axis] = is_back ? times(y[axis], block) : part(y[axis], block);
  y[channel] = is_back ? part(y[channel], block * block) : times(y[channel], block * block);
  node.set(y);
}

void lstm_of_blocks(Node& node) {  // BlockLSTM [length, x, states, states, w, ...]: i, cs, f, o, ci, co, h
  const Shape *x = node.shape(1), *w = node.shape(4);
  if (x == nullptr || w == nullptr || x->size() != 3 || w->size() != 2) return;
  node.set_parts(7);
  for (TensorflowValue& output : node.outputs)
    output.shape = Shape{(*x)[0], (*x)[1], (*w)[1] < 0 ? kOpen : (*w)[1] / 4};
}

void image(Node& node) {
  node.set(Shape{kOpen, kOpen, node.integer("channels", 0) > 0 ? node.integer("channels", 0) : kOpen});
}

}  // namespace

std::span<const Rule> layer_rules() {
  static constexpr std::array all{
      Rule{matrix_product, "MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 _FusedMatMul"},
      Rule{einsum, "Einsum XlaEinsum"},
      Rule{convolution, "Conv2D DepthwiseConv2dNative _FusedConv2D _FusedDepthwiseConv2dNative"},
      Rule{transposed_convolution, "Conv2DBackpropInput"},
      Rule{pool, "MaxPool MaxPoolV2 AvgPool MaxPoolWithArgmax"},
      Rule{padded, "Pad PadV2 MirrorPad"},
      Rule{resized, "ResizeBilinear ResizeNearestNeighbor ResizeBicubic ResizeArea"},
      Rule{cropped, "CropAndResize"},
      Rule{moved_to_batch, "SpaceToBatchND BatchToSpaceND"},
      Rule{moved_to_depth, "SpaceToDepth DepthToSpace"},
      Rule{lstm_of_blocks, "BlockLSTM BlockLSTMV2"},
      Rule{image, "DecodeJpeg DecodePng DecodeBmp DecodeAndCropJpeg"}};
  return all;
}

}  // namespace rehearse::tensorflow
