// Shapes of operators that keep, move, cut and join axes, and of sources.

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>

#include "workloads/importers/detail/tensorflow_node.hpp"
#include "workloads/sizes.hpp"

namespace rehearse::tensorflow {

namespace {

using Shape = GraphDefShape;
using Numbers = Node::Numbers;

void same(Node& node) {
  if (node.shape(0) != nullptr) node.set(*node.shape(0));
  if (!node.inputs.empty() && node.inputs[0] != nullptr) node.outputs[0].blocks = node.inputs[0]->blocks;
}

void scalar(Node& node) { node.set(Shape{}); }

void second(Node& node) {
  if (node.shape(1) != nullptr) node.set(*node.shape(1));
}

void constant(Node& node) {
  if (!node.definition.tensor) return;
  node.set(node.definition.tensor->shape);
  const bool is_empty = std::ranges::find(node.definition.tensor->shape, 0) != node.definition.tensor->shape.end();
  if (is_empty || !node.definition.tensor->values.empty()) node.outputs[0].numbers = node.definition.tensor->values;
}

void variable(Node& node) {
  if (!node.definition.component_shapes.empty()) node.set(node.definition.component_shapes[0]);
  // A placeholder without a shape has one without an axis. Source: the operator's definition in array_ops.cc.
  if (node.definition.op == "Placeholder" && node.outputs[0].shape && node.outputs[0].shape->empty())
    node.set(std::nullopt);
}

void all_inputs(Node& node) {
  node.set_parts(node.inputs.size());
  for (std::size_t i = 0; i < std::min(node.inputs.size(), kMostParts); ++i)
    if (node.inputs[i] != nullptr) node.outputs[i] = *node.inputs[i];
}

void switched(Node& node) {
  node.set_parts(2);
  if (!node.inputs.empty() && node.inputs[0] != nullptr) node.outputs[0] = node.outputs[1] = *node.inputs[0];
}

void broadcasting(Node& node) {
  if (node.shape(0) == nullptr) return;
  Shape y = *node.shape(0);
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.shape(i) == nullptr) return;
    y = broadcast(y, *node.shape(i));
  }
  node.set(y);
}

void reshaped(Node& node) {
  const Shape* x = node.shape(0);
  const Numbers* to = node.numbers_of(1);
  if (to == nullptr) {
    if (node.shape(1) != nullptr && node.shape(1)->size() == 1 && (*node.shape(1))[0] >= 0 &&
        (*node.shape(1))[0] <= static_cast<std::int64_t>(kMostAxesOfTensor))
      node.set(Shape(static_cast<std::size_t>((*node.shape(1))[0]), kOpen));
    return;
  }
  if (to->size() > kMostAxesOfTensor) fail("more than 8 axes");
  Shape y;
  std::int64_t known = 1;
  std::size_t open = 0;
  for (const double size : *to) {
    if (size < -1 || (size != -1 && std::isfinite(size) && size_of(size) < 0)) fail("an axis of another sign");
    y.push_back(size_of(size));
    if (y.back() < 0)
      ++open;
    else
      known = times(known, y.back());
  }
  const std::int64_t all = x == nullptr ? kOpen : count_of_axes(*x);
  if (all >= 0 && open == 0 && known != all)
    fail("makes " + std::to_string(known) + " scalars of " + std::to_string(all));
  if (all >= 0 && open == 1) {
    if (known == 0 || all % known != 0)
      fail("makes axes of " + std::to_string(known) + " from " + std::to_string(all) + " scalars");
    *std::ranges::find(y, kOpen) = all / known;
  }
  node.set(y);
}

void expanded(Node& node) {
  const Shape* x = node.shape(0);
  const auto axis = node.number_of(1);
  if (x == nullptr || !axis) return;
  Shape y = *x;
  y.insert(y.begin() + static_cast<std::ptrdiff_t>(axis_of(*axis, x->size() + 1)), 1);
  node.set(y);
}

void squeezed(Node& node) {
  const Shape* x = node.shape(0);
  if (x == nullptr) return;
  auto axes = node.integers("squeeze_dims");
  if (axes.empty()) axes = node.integers("axis");
  std::set<std::size_t> removed;
  for (const std::int64_t axis : axes) removed.insert(axis_of(axis, x->size()));
  if (axes.empty()) {
    if (!is_closed(*x)) return;
    for (std::size_t i = 0; i < x->size(); ++i)
      if ((*x)[i] == 1) removed.insert(i);
  }
  Shape y;
  for (std::size_t i = 0; i < x->size(); ++i)
    if (!removed.contains(i)) y.push_back((*x)[i]);
  node.set(y);
}

void permuted(Node& node) {
  const Shape* x = node.shape(0);
  const Numbers* order = node.numbers_of(1);
  if (x == nullptr) return;
  if (order == nullptr) return node.set(Shape(x->size(), kOpen));
  if (order->size() != x->size()) fail("an order of other axes");
  Shape y;
  const auto whole = [](double axis) { return static_cast<std::int64_t>(std::clamp(axis, -1e6, 1e6)); };
  for (const double axis : *order) y.push_back(std::isfinite(axis) ? (*x)[axis_of(whole(axis), x->size())] : kOpen);
  node.set(y);
}

void concatenated(Node& node) {
  const bool is_axis_first = node.definition.op == "Concat";
  if (node.inputs.size() < 2) return;
  const auto axis = node.number_of(is_axis_first ? 0 : node.inputs.size() - 1);
  const std::size_t begin = is_axis_first ? 1 : 0, end = is_axis_first ? node.inputs.size() : node.inputs.size() - 1;
  if (!axis) return;
  std::optional<Shape> y;
  for (std::size_t i = begin; i < end; ++i) {
    const Shape* x = node.shape(i);
    if (x == nullptr) return;
    if (!y) {
      y = *x;
      continue;
    }
    if (x->size() != y->size()) fail("tensors of different axes");
    const std::size_t along = axis_of(*axis, y->size());
    for (std::size_t k = 0; k < y->size(); ++k)
      if (k == along)
        (*y)[k] = (*y)[k] < 0 || (*x)[k] < 0 ? kOpen : std::min((*y)[k] + (*x)[k], kMostScalars + 1);
      else if ((*y)[k] < 0)
        (*y)[k] = (*x)[k];
  }
  node.set(y);
}

void packed(Node& node) {
  if (node.shape(0) == nullptr) return;
  Shape y = *node.shape(0);
  const std::size_t axis = axis_of(node.integer("axis", 0), y.size() + 1);
  y.insert(y.begin() + static_cast<std::ptrdiff_t>(axis), static_cast<std::int64_t>(node.inputs.size()));
  node.set(y);
}

void unpacked(Node& node) {
  const Shape* x = node.shape(0);
  if (x == nullptr || x->empty()) return;
  const std::size_t axis = axis_of(node.integer("axis", 0), x->size());
  const std::int64_t parts = node.integer("num", (*x)[axis]);
  Shape y = *x;
  y.erase(y.begin() + static_cast<std::ptrdiff_t>(axis));
  if (parts < 1 || parts > static_cast<std::int64_t>(kMostParts)) fail(std::to_string(parts) + " parts");
  if ((*x)[axis] >= 0 && (*x)[axis] != parts)
    fail("makes " + std::to_string(parts) + " parts of an axis of " + std::to_string((*x)[axis]));
  node.set_parts(static_cast<std::size_t>(parts));
  const Numbers* all = node.numbers_of(0);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    node.outputs[i].shape = y;
    if (all != nullptr && y.empty() && i < all->size()) node.outputs[i].numbers = Numbers{(*all)[i]};
  }
}

void split(Node& node) {
  const bool has_sizes = node.definition.op == "SplitV";
  const Shape* x = node.shape(has_sizes ? 0 : 1);
  const auto axis = node.number_of(has_sizes ? 2 : 0);
  const Numbers* sizes = has_sizes ? node.numbers_of(1) : nullptr;
  const std::int64_t parts = node.integer("num_split", sizes != nullptr ? static_cast<std::int64_t>(sizes->size()) : 1);
  if (parts < 1 || parts > static_cast<std::int64_t>(kMostParts)) fail(std::to_string(parts) + " parts");
  if (x == nullptr || !axis) return;
  const std::size_t along = axis_of(*axis, x->size());
  node.set_parts(static_cast<std::size_t>(parts));
  std::int64_t stated = 0;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    Shape y = *x;
    y[along] = kOpen;
    if (sizes != nullptr && i < sizes->size()) y[along] = size_of((*sizes)[i]);
    if (y[along] >= 0) stated += y[along];
    if (!has_sizes && (*x)[along] >= 0) {
      if ((*x)[along] % parts != 0) fail(std::to_string((*x)[along]) + " in " + std::to_string(parts) + " parts");
      y[along] = (*x)[along] / parts;
    }
    node.outputs[i].shape = y;
  }
  for (TensorflowValue& output : node.outputs)  // a size of -1 is what is left
    if (has_sizes && (*output.shape)[along] < 0 && (*x)[along] >= stated) (*output.shape)[along] = (*x)[along] - stated;
}

void sliced(Node& node) {
  const Shape* x = node.shape(0);
  const Numbers *begin = node.numbers_of(1), *sizes = node.numbers_of(2);
  if (x == nullptr) return;
  Shape y(x->size(), kOpen);
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (sizes == nullptr || i >= sizes->size()) continue;
    y[i] = size_of((*sizes)[i]);
    if ((*sizes)[i] == -1 && begin != nullptr && i < begin->size() && (*x)[i] >= 0 && size_of((*begin)[i]) >= 0)
      y[i] = std::max<std::int64_t>(0, (*x)[i] - size_of((*begin)[i]));
  }
  node.set(y);
}

/// Scalars from `begin` to `end`, of `size` in all; none: the first or last one.
std::int64_t range(std::int64_t size, std::optional<double> begin, std::optional<double> end, double step) {
  if (step == 0) fail("a step of 0");
  const bool is_whole = !begin && !end;
  if (size < 0) {
    const bool is_known = begin && end && std::isfinite(*begin) && std::isfinite(*end) && (*begin < 0) == (*end < 0);
    return is_known && step == 1 ? size_of(*end - *begin) : kOpen;
  }
  if (!std::isfinite(step) || std::abs(step) > 1e12) return kOpen;
  if (is_whole) return size_of(std::ceil(static_cast<double>(size) / std::abs(step)));
  const auto all = static_cast<double>(size);
  const double from = begin ? *begin : step > 0 ? 0 : all - 1, to = end ? *end : step > 0 ? all : -all - 1;
  if (!std::isfinite(from) || !std::isfinite(to)) return kOpen;
  const double low = step > 0 ? 0 : -1, high = step > 0 ? all : all - 1;
  const auto at = [&](double index) { return std::clamp(index < 0 ? index + all : index, low, high); };
  return size_of(std::max(0.0, std::ceil((at(to) - at(from)) / step)));
}

/// Ranges of Python's form, one for each axis that they name.
void strided_slice(Node& node) {
  const Shape* x = node.shape(0);
  const Numbers *begin = node.numbers_of(1), *end = node.numbers_of(2), *strides = node.numbers_of(3);
  if (x == nullptr || strides == nullptr) return;
  const std::size_t ranges = strides->size();
  if (ranges > kMostNumbers || (begin != nullptr && begin->size() != ranges) ||
      (end != nullptr && end->size() != ranges))
    fail("ranges of different numbers of axes");
  const auto has = [&](const char* mask, std::size_t i) {
    return (static_cast<std::uint64_t>(node.integer(mask, 0)) >> i & 1U) != 0;
  };
  std::size_t named = 0;  // axes of x that ranges name
  for (std::size_t i = 0; i < ranges; ++i)
    if (!has("new_axis_mask", i) && !has("ellipsis_mask", i)) ++named;
  if (named > x->size()) fail(std::to_string(named) + " ranges for " + std::to_string(x->size()) + " axes");
  Shape y;
  std::size_t axis = 0;
  bool has_ellipsis = false;
  for (std::size_t i = 0; i < ranges; ++i) {
    if (has("ellipsis_mask", i)) {
      has_ellipsis = true;
      for (std::size_t left = x->size() - named; left > 0; --left) y.push_back((*x)[axis++]);
    } else if (has("new_axis_mask", i)) {
      y.push_back(1);
    } else if (has("shrink_axis_mask", i)) {
      ++axis;
    } else {
      const bool is_begin_open = has("begin_mask", i), is_end_open = has("end_mask", i);
      const double from = begin != nullptr ? (*begin)[i] : kUnknownNumber;
      const double to = end != nullptr ? (*end)[i] : kUnknownNumber;
      y.push_back(range((*x)[axis++], is_begin_open ? std::nullopt : std::optional{from},
                        is_end_open ? std::nullopt : std::optional{to}, (*strides)[i]));
    }
  }
  if (!has_ellipsis) y.insert(y.end(), x->begin() + static_cast<std::ptrdiff_t>(axis), x->end());
  node.set(y);
}

void reduced(Node& node) {
  const Shape* x = node.shape(0);
  if (x == nullptr) return;
  const Numbers* axes = node.numbers_of(1);
  const bool keeps = node.integer("keep_dims", node.integer("keepdims", 0)) != 0;
  if (axes == nullptr) {
    if (keeps) node.set(Shape(x->size(), kOpen));
    return;
  }
  std::set<std::size_t> removed;
  for (const double axis : *axes) {
    if (!(std::abs(axis) < 1e6)) return;
    removed.insert(axis_of(static_cast<std::int64_t>(axis), x->size()));
  }
  Shape y;
  for (std::size_t i = 0; i < x->size(); ++i) {
    if (!removed.contains(i))
      y.push_back((*x)[i]);
    else if (keeps)
      y.push_back(1);
  }
  node.set(y);
}

void best(Node& node) {  // ArgMax, ArgMin
  const Shape* x = node.shape(0);
  const auto axis = node.inputs.size() > 1 ? node.number_of(1) : std::optional<std::int64_t>{0};
  if (x == nullptr || !axis || x->empty()) return;
  Shape y = *x;
  y.erase(y.begin() + static_cast<std::ptrdiff_t>(axis_of(*axis, x->size())));
  node.set(y);
}

void top(Node& node) {
  const Shape* x = node.shape(0);
  if (x == nullptr || x->empty()) return;
  Shape y = *x;
  y.back() = node.definition.op == "TopK" ? node.integer("k", kOpen) : node.number_of(1).value_or(kOpen);
  node.set_parts(2);
  node.outputs[0].shape = node.outputs[1].shape = y;
}

void gathered(Node& node) {
  const Shape *x = node.shape(0), *at = node.shape(1);
  if (x == nullptr || at == nullptr || x->empty()) return;
  const auto axis = node.inputs.size() > 2 ? node.number_of(2) : std::optional<std::int64_t>{0};
  if (!axis || node.integer("batch_dims", 0) != 0) return;
  const auto along = static_cast<std::ptrdiff_t>(axis_of(*axis, x->size()));
  Shape y{x->begin(), x->begin() + along};
  y.insert(y.end(), at->begin(), at->end());
  y.insert(y.end(), x->begin() + along + 1, x->end());
  node.set(y);
}

void gathered_at_points(Node& node) {
  const Shape *x = node.shape(0), *at = node.shape(1);
  if (x == nullptr || at == nullptr || at->empty() || at->back() < 0 ||
      at->back() > static_cast<std::int64_t>(x->size()))
    return;
  Shape y{at->begin(), at->end() - 1};
  y.insert(y.end(), x->begin() + static_cast<std::ptrdiff_t>(at->back()), x->end());
  node.set(y);
}

void one_hot(Node& node) {
  const Shape* x = node.shape(0);
  if (x == nullptr) return;
  Shape y = *x;
  const std::int64_t axis = node.integer("axis", -1);
  const std::size_t along = axis == -1 ? y.size() : axis_of(axis, y.size() + 1);
  y.insert(y.begin() + static_cast<std::ptrdiff_t>(along), node.number_of(1).value_or(kOpen));
  node.set(y);
}

void tiled(Node& node) {
  const Shape* x = node.shape(0);
  const Numbers* times_each = node.numbers_of(1);
  if (x == nullptr) return;
  Shape y = *x;
  for (std::size_t i = 0; i < y.size(); ++i)
    y[i] = times_each != nullptr && times_each->size() == y.size() ? times(y[i], size_of((*times_each)[i])) : kOpen;
  node.set(y);
}

/// The shape is the values of an input.
void of_numbers(Node& node, std::size_t input) {
  const Numbers* sizes = node.numbers_of(input);
  if (sizes == nullptr) return;
  Shape y;
  for (const double size : *sizes) y.push_back(size_of(size));
  node.set(y);
}

void of_first_numbers(Node& node) { of_numbers(node, 0); }

void broadcast_to(Node& node) { of_numbers(node, 1); }

void shape_itself(Node& node) {
  if (node.shape(0) == nullptr) return;
  node.set(Shape{static_cast<std::int64_t>(node.shape(0)->size())});
  Numbers sizes;
  for (const std::int64_t size : *node.shape(0)) sizes.push_back(size < 0 ? kUnknownNumber : static_cast<double>(size));
  node.outputs[0].numbers = sizes;
}

void shapes_themselves(Node& node) {
  node.set_parts(node.inputs.size());
  for (std::size_t i = 0; i < std::min(node.inputs.size(), kMostParts); ++i) {
    if (node.shape(i) == nullptr) continue;
    Numbers sizes;
    for (const std::int64_t size : *node.shape(i))
      sizes.push_back(size < 0 ? kUnknownNumber : static_cast<double>(size));
    node.outputs[i] = {.shape = Shape{static_cast<std::int64_t>(sizes.size())}, .numbers = sizes};
  }
}

void rank(Node& node) {
  node.set(Shape{});
  if (node.shape(0) != nullptr) node.outputs[0].numbers = Numbers{static_cast<double>(node.shape(0)->size())};
}

void size(Node& node) {
  node.set(Shape{});
  if (node.shape(0) != nullptr && is_closed(*node.shape(0)))
    node.outputs[0].numbers = Numbers{static_cast<double>(count_of_axes(*node.shape(0)))};
}

void counted(Node& node) {  // Range [start, limit, delta]
  const auto start = node.number_of(0), limit = node.number_of(1), delta = node.number_of(2);
  node.set(Shape{kOpen});
  if (!start || !limit || !delta || *delta == 0) return;
  const double count = std::max(0.0, std::ceil(static_cast<double>(*limit - *start) / static_cast<double>(*delta)));
  node.set(Shape{size_of(count)});
  if (count > static_cast<double>(kMostNumbers)) return;
  Numbers all;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(count); ++i)
    all.push_back(static_cast<double>(*start + i * *delta));
  node.outputs[0].numbers = all;
}

/// Elements of an array, one after another.
void elements(Node& node) {
  if (node.definition.component_shapes.empty() || !node.definition.component_shapes[0]) return;
  Shape y = *node.definition.component_shapes[0];
  y.insert(y.begin(), kOpen);
  node.set(y);
}

/// Components of a queue or an iterator, each of a sample or, of queues that give several, with their number before.
void components(Node& node) {
  node.set_parts(std::max<std::size_t>(1, node.definition.component_shapes.size()));
  for (std::size_t i = 0; i < std::min(node.definition.component_shapes.size(), kMostParts); ++i)
    node.outputs[i].shape = node.definition.component_shapes[i];
}

}  // namespace

std::span<const Rule> axis_rules() {
  static constexpr std::array all{
      Rule{same,
           "Relu Relu6 Elu Selu Tanh Sigmoid Softmax LogSoftmax LeakyRelu Softplus Softsign BiasAdd BiasAddV1 "
           "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 _FusedBatchNormEx BatchNormWithGlobalNormalization "
           "Identity LRN Cast StopGradient PreventGradient CheckNumerics Snapshot Print Neg Exp Expm1 Log Log1p Sqrt "
           "Rsqrt Square Abs Sign Floor Ceil Round Rint Erf Erfc Reciprocal Inv Sin Cos ZerosLike OnesLike ClipByValue "
           "FakeQuantWithMinMaxVars FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVarsPerChannel LogicalNot Cumsum "
           "ReverseV2 PlaceholderWithDefault EnsureShape MatrixBandPart IsNan IsInf IsFinite AdjustContrastv2 "
           "AdjustSaturation AdjustHue RGBToHSV HSVToRGB ReadVariableOp Enter Exit ReverseSequence Merge AddN "
           "AccumulateNV2 Dequantize NextIteration RefIdentity RefEnter RefExit InvertPermutation DeepCopy Roll "
           "Reverse"},
      Rule{second, "Select"},
      Rule{scalar, "L2Loss"},
      Rule{constant, "Const HostConst"},
      Rule{variable, "Variable VariableV2 VarHandleOp AutoReloadVariable Placeholder PlaceholderV2"},
      Rule{all_inputs, "IdentityN"},
      Rule{switched, "Switch RefSwitch"},
      Rule{broadcasting,
           "Add AddV2 Sub Mul RealDiv Div DivNoNan FloorDiv TruncateDiv FloorMod Mod TruncateMod Maximum "
           "Minimum Pow SquaredDifference Equal NotEqual Greater GreaterEqual Less LessEqual LogicalAnd "
           "LogicalOr Xdivy Xlogy MulNoNan SelectV2 Atan2 BitwiseAnd BitwiseOr"},
      Rule{reshaped, "Reshape"},
      Rule{expanded, "ExpandDims"},
      Rule{squeezed, "Squeeze"},
      Rule{permuted, "Transpose ConjugateTranspose"},
      Rule{concatenated, "ConcatV2 Concat"},
      Rule{packed, "Pack Stack"},
      Rule{unpacked, "Unpack Unstack"},
      Rule{split, "Split SplitV"},
      Rule{sliced, "Slice"},
      Rule{strided_slice, "StridedSlice"},
      Rule{reduced, "Mean Sum Max Min Prod All Any EuclideanNorm"},
      Rule{best, "ArgMax ArgMin"},
      Rule{top, "TopK TopKV2"},
      Rule{gathered, "Gather GatherV2 ResourceGather"},
      Rule{gathered_at_points, "GatherNd"},
      Rule{one_hot, "OneHot"},
      Rule{tiled, "Tile"},
      Rule{of_first_numbers,
           "Fill RandomUniform RandomStandardNormal TruncatedNormal RandomUniformInt StatelessRandomUniform "
           "StatelessRandomNormal ParameterizedTruncatedNormal Empty"},
      Rule{broadcast_to, "BroadcastTo"},
      Rule{shape_itself, "Shape"},
      Rule{shapes_themselves, "ShapeN"},
      Rule{rank, "Rank"},
      Rule{size, "Size"},
      Rule{counted, "Range"},
      Rule{elements, "TensorArrayGatherV3"},
      Rule{components,
           "IteratorGetNext IteratorGetNextSync FunctionBufferingResourceGetNext MultiDeviceIteratorGetNextFromShard"}};
  return all;
}

}  // namespace rehearse::tensorflow
