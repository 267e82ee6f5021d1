#include "workloads/importers/tensorflow_shapes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "sim/base/errors.hpp"
#include "workloads/importers/einsum.hpp"
#include "workloads/sizes.hpp"

namespace rehearse {

namespace {

using Shape = GraphDefShape;
using Numbers = std::vector<double>;

constexpr std::int64_t kOpen = -1;
constexpr std::int64_t kMostOfWindow = 1 << 20;
constexpr std::size_t kMostAxesOfTensor = 8;
constexpr std::size_t kMostNumbers = 64;
constexpr std::size_t kMostParts = 100'000;  // outputs of one operator
const double kUnknownNumber = std::numeric_limits<double>::quiet_NaN();

[[noreturn]] void fail(const std::string& message) { throw InputError{message}; }

bool is_closed(const Shape& shape) {
  return std::ranges::all_of(shape, [](std::int64_t size) { return size >= 0; });
}

/// The product of axes; kOpen if one is.
std::int64_t count_of_axes(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    if (size < 0) return kOpen;
    if (size > 0 && count > kMostScalars / size) fail("more than 2^40 scalars");
    count *= size;
  }
  return count;
}

/// A number as a size; kOpen if it is none.
std::int64_t size_of(double number) {
  return std::isfinite(number) && number >= 0 && number <= static_cast<double>(kMostScalars)
             ? static_cast<std::int64_t>(number)
             : kOpen;
}

std::int64_t times(std::int64_t a, std::int64_t b) {
  if (a < 0 || b < 0) return kOpen;
  if (a > 0 && b > kMostScalars / a) fail("more than 2^40 scalars");
  return a * b;
}

Shape broadcast(const Shape& a, const Shape& b) {
  Shape all(std::max(a.size(), b.size()), 1);
  for (const Shape* each : {&a, &b})
    for (std::size_t i = 1; i <= each->size(); ++i) {
      std::int64_t& size = all[all.size() - i];
      const std::int64_t own = (*each)[each->size() - i];
      if (size > 1 && own > 1 && size != own)
        fail("axes of " + std::to_string(size) + " and " + std::to_string(own) + " do not fit");
      if (size == 1 || (size == kOpen && own != 1)) size = own;
    }
  return all;
}

/// One node with what is known of its inputs.
class TensorFlowShapes {
 public:
  TensorFlowShapes(const GraphDefNode& node, const std::vector<const TensorflowValue*>& inputs)
      : node_{node}, inputs_{inputs} {}

  std::vector<TensorflowValue> run() {
    outputs_.resize(1);
    const auto rule = rules().find(node_.op);
    if (rule != rules().end()) (this->*rule->second)();
    outputs_[0].numbers = outputs_[0].numbers ? outputs_[0].numbers : numbers();
    for (std::size_t i = 0; i < std::min(node_.shapes.size(), kMostParts); ++i) complete(i);
    for (const TensorflowValue& output : outputs_)
      if (output.shape) check(*output.shape);
    return std::move(outputs_);
  }

 private:
  using Rule = void (TensorFlowShapes::*)();

  // What is known of inputs and attributes.
  const Shape* shape(std::size_t i) const {
    return i < inputs_.size() && inputs_[i] != nullptr && inputs_[i]->shape ? &*inputs_[i]->shape : nullptr;
  }
  const Numbers* numbers_of(std::size_t i) const {
    return i < inputs_.size() && inputs_[i] != nullptr && inputs_[i]->numbers ? &*inputs_[i]->numbers : nullptr;
  }
  std::optional<std::int64_t> number_of(std::size_t i) const {
    const Numbers* all = numbers_of(i);
    if (all == nullptr || all->size() != 1 || !(std::abs((*all)[0]) < 1e12)) return std::nullopt;
    return static_cast<std::int64_t>((*all)[0]);
  }
  std::int64_t integer(const char* name, std::int64_t fallback) const {
    const auto found = node_.integers.find(name);
    return found == node_.integers.end() || found->second.empty() ? fallback : found->second[0];
  }
  std::vector<std::int64_t> integers(const char* name) const {
    const auto found = node_.integers.find(name);
    return found == node_.integers.end() ? std::vector<std::int64_t>{} : found->second;
  }
  std::string text(const char* name) const {
    const auto found = node_.texts.find(name);
    return found == node_.texts.end() || found->second.empty() ? "" : found->second[0];
  }
  bool is_channels_first() const { return node_.data_format == "NCHW"; }
  static std::size_t axis_of(std::int64_t axis, std::size_t axes) {
    const auto count = static_cast<std::int64_t>(axes);
    if (axis < -count || axis >= count) fail("axis " + std::to_string(axis) + " of " + std::to_string(axes));
    return static_cast<std::size_t>(axis < 0 ? axis + count : axis);
  }
  static void check(const Shape& shape) {
    if (shape.size() > kMostAxesOfTensor) fail("more than 8 axes");
    for (const std::int64_t size : shape)
      if (size > kMostScalars) fail("an axis of " + std::to_string(size));
    (void)count_of_axes(shape);
  }
  void set(const std::optional<Shape>& shape) { outputs_[0].shape = shape; }
  void set_parts(std::size_t count) { outputs_.resize(std::clamp<std::size_t>(count, 1, kMostParts)); }

  /// What the file states holds; what it leaves open follows from the inputs.
  void complete(std::size_t i) {
    const bool is_handle = node_.op == "VarHandleOp" && outputs_[0].shape;  // a scalar, of which nobody asks
    if (!node_.shapes[i] || is_handle) return;
    if (node_.op == "Placeholder" && node_.shapes[i]->empty()) return;
    if (i >= outputs_.size()) outputs_.resize(i + 1);
    const Shape& stated = *node_.shapes[i];
    std::optional<Shape>& known = outputs_[i].shape;
    if (!known || known->size() != stated.size()) {
      if (!known || is_closed(stated)) known = stated;
      return;
    }
    for (std::size_t axis = 0; axis < stated.size(); ++axis)
      if (stated[axis] >= 0) (*known)[axis] = stated[axis];
  }

  // Rules, each for the operators that rules() names.
  void same() {
    if (shape(0) != nullptr) set(*shape(0));
    if (!inputs_.empty() && inputs_[0] != nullptr) outputs_[0].blocks = inputs_[0]->blocks;
  }
  void scalar() { set(Shape{}); }
  void second() {
    if (shape(1) != nullptr) set(*shape(1));
  }
  void constant() {
    if (!node_.tensor) return;
    set(node_.tensor->shape);
    const bool is_empty = std::ranges::find(node_.tensor->shape, 0) != node_.tensor->shape.end();
    if (is_empty || !node_.tensor->values.empty()) outputs_[0].numbers = node_.tensor->values;
  }
  void variable() {
    if (!node_.component_shapes.empty()) set(node_.component_shapes[0]);
    // A placeholder without a shape has one without an axis. Source: the operator's definition in array_ops.cc.
    if (node_.op == "Placeholder" && outputs_[0].shape && outputs_[0].shape->empty()) set(std::nullopt);
  }
  void all_inputs() {
    set_parts(inputs_.size());
    for (std::size_t i = 0; i < std::min(inputs_.size(), kMostParts); ++i)
      if (inputs_[i] != nullptr) outputs_[i] = *inputs_[i];
  }
  void switched() {
    set_parts(2);
    if (!inputs_.empty() && inputs_[0] != nullptr) outputs_[0] = outputs_[1] = *inputs_[0];
  }
  void broadcasting() {
    if (shape(0) == nullptr) return;
    Shape y = *shape(0);
    for (std::size_t i = 1; i < inputs_.size(); ++i) {
      if (shape(i) == nullptr) return;
      y = broadcast(y, *shape(i));
    }
    set(y);
  }

  void matrix_product() {
    const Shape *a = shape(0), *b = shape(1);
    const bool has_vectors = (a != nullptr && a->size() < 2) || (b != nullptr && b->size() < 2);
    if (has_vectors) fail("a product of less than two axes");
    if (a == nullptr || b == nullptr) return;
    const std::size_t p = a->size(), q = b->size();
    const std::int64_t rows = (*a)[node_.transposes_first ? p - 1 : p - 2];
    const std::int64_t from = (*a)[node_.transposes_first ? p - 2 : p - 1];
    const std::int64_t terms = (*b)[node_.transposes_second ? q - 1 : q - 2];
    if (from >= 0 && terms >= 0 && from != terms)
      fail("sums over " + std::to_string(from) + " and " + std::to_string(terms) + " terms");
    Shape y = broadcast({a->begin(), a->end() - 2}, {b->begin(), b->end() - 2});
    y.push_back(rows);
    y.push_back((*b)[node_.transposes_second ? q - 2 : q - 1]);
    set(y);
  }

  void einsum() {
    if (shape(0) != nullptr && shape(1) != nullptr) set(einsum_shape(text("equation"), *shape(0), *shape(1)));
  }

  /// Positions along one axis after a window of `kernel` moved over `in`.
  std::int64_t slid(std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t dilation,
                    std::size_t axis) const {
    if (in < 0 || kernel < 0) return kOpen;
    for (const std::int64_t size : {kernel, stride, dilation})
      if (size < 1 || size > kMostOfWindow) fail("a window of " + std::to_string(size));
    if (node_.padding == "SAME") return in == 0 ? 0 : (in - 1) / stride + 1;
    std::int64_t pads = 0;
    if (const auto stated = integers("explicit_paddings"); node_.padding == "EXPLICIT" && stated.size() == 8) {
      for (const std::int64_t pad : {stated[2 * axis], stated[2 * axis + 1]})
        if (pad < 0 || pad > kMostOfWindow) fail("a padding of " + std::to_string(pad));
      pads = stated[2 * axis] + stated[2 * axis + 1];
    }
    const std::int64_t room = in + pads - dilation * (kernel - 1) - 1;
    if (room < 0) fail("a kernel larger than its input");
    return room / stride + 1;
  }

  void convolution() {
    const Shape *x = shape(0), *w = shape(1);
    if (x == nullptr || w == nullptr || x->size() != 4 || w->size() != 4) return;
    const std::size_t height = is_channels_first() ? 2 : 1, channel = is_channels_first() ? 1 : 3;
    const auto strides = integers("strides"), dilations = integers("dilations");
    Shape y = *x;
    for (std::size_t i = 0; i < 2; ++i) {
      const std::int64_t stride = strides.size() == 4 ? strides[height + i] : 1;
      std::int64_t dilation = dilations.size() == 4 ? dilations[height + i] : 1;
      if (inputs_[0] != nullptr && i < inputs_[0]->blocks.size()) dilation = inputs_[0]->blocks[i];
      y[height + i] = slid((*x)[height + i], (*w)[i], stride, dilation, height + i);
    }
    y[channel] = node_.op.find("Depthwise") != std::string::npos ? times((*w)[2], (*w)[3]) : (*w)[3];
    set(y);
    if (inputs_[0] != nullptr) outputs_[0].blocks = inputs_[0]->blocks;
  }

  void transposed_convolution() {
    const Numbers* sizes = numbers_of(0);
    if (sizes != nullptr && sizes->size() == 4) {
      Shape y;
      for (const double size : *sizes) y.push_back(size_of(size));
      set(y);
    }
    const Shape *w = shape(1), *x = shape(2);
    if (w == nullptr || x == nullptr || w->size() != 4 || x->size() != 4) return;
    if (!outputs_[0].shape || outputs_[0].shape->size() != 4) outputs_[0].shape = Shape(4, kOpen);
    Shape& y = *outputs_[0].shape;
    if (y[0] < 0) y[0] = (*x)[0];
    y[is_channels_first() ? 1 : 3] = (*w)[2];
    const auto strides = integers("strides");
    const std::size_t height = is_channels_first() ? 2 : 1;
    for (std::size_t axis = height; axis < height + 2; ++axis)
      if (y[axis] < 0 && node_.padding == "SAME" && strides.size() == 4) y[axis] = times((*x)[axis], strides[axis]);
  }

  void pool() {
    const Shape* x = shape(0);
    if (x == nullptr || x->size() != 4) return;
    auto kernel = integers("ksize"), strides = integers("strides");
    const auto from_input = [&](std::vector<std::int64_t>& list, std::size_t i) {
      if (list.empty() && numbers_of(i) != nullptr)
        for (const double number : *numbers_of(i)) list.push_back(size_of(number));
    };
    from_input(kernel, 1);
    from_input(strides, 2);
    if (kernel.size() != 4 || strides.size() != 4) return;
    Shape y = *x;
    for (std::size_t axis = 0; axis < 4; ++axis)
      if (kernel[axis] != 1 || strides[axis] != 1) y[axis] = slid((*x)[axis], kernel[axis], strides[axis], 1, axis);
    set(y);
    if (node_.op == "MaxPoolWithArgmax") {
      set_parts(2);
      outputs_[1].shape = y;
    }
  }

  void padded() {
    const Shape* x = shape(0);
    if (x == nullptr) return;
    Shape y = *x;
    const Numbers* pads = numbers_of(1);
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
    set(y);
  }

  void reshaped() {
    const Shape* x = shape(0);
    const Numbers* to = numbers_of(1);
    if (to == nullptr) {
      if (shape(1) != nullptr && shape(1)->size() == 1 && (*shape(1))[0] >= 0 &&
          (*shape(1))[0] <= static_cast<std::int64_t>(kMostAxesOfTensor))
        set(Shape(static_cast<std::size_t>((*shape(1))[0]), kOpen));
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
    set(y);
  }

  void expanded() {
    const Shape* x = shape(0);
    const auto axis = number_of(1);
    if (x == nullptr || !axis) return;
    Shape y = *x;
    y.insert(y.begin() + static_cast<std::ptrdiff_t>(axis_of(*axis, x->size() + 1)), 1);
    set(y);
  }

  void squeezed() {
    const Shape* x = shape(0);
    if (x == nullptr) return;
    auto axes = integers("squeeze_dims");
    if (axes.empty()) axes = integers("axis");
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
    set(y);
  }

  void permuted() {
    const Shape* x = shape(0);
    const Numbers* order = numbers_of(1);
    if (x == nullptr) return;
    if (order == nullptr) return set(Shape(x->size(), kOpen));
    if (order->size() != x->size()) fail("an order of other axes");
    Shape y;
    const auto whole = [](double axis) { return static_cast<std::int64_t>(std::clamp(axis, -1e6, 1e6)); };
    for (const double axis : *order) y.push_back(std::isfinite(axis) ? (*x)[axis_of(whole(axis), x->size())] : kOpen);
    set(y);
  }

  void concatenated() {
    const bool is_axis_first = node_.op == "Concat";
    if (inputs_.size() < 2) return;
    const auto axis = number_of(is_axis_first ? 0 : inputs_.size() - 1);
    const std::size_t begin = is_axis_first ? 1 : 0, end = is_axis_first ? inputs_.size() : inputs_.size() - 1;
    if (!axis) return;
    std::optional<Shape> y;
    for (std::size_t i = begin; i < end; ++i) {
      const Shape* x = shape(i);
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
    set(y);
  }

  void packed() {
    if (shape(0) == nullptr) return;
    Shape y = *shape(0);
    const std::size_t axis = axis_of(integer("axis", 0), y.size() + 1);
    y.insert(y.begin() + static_cast<std::ptrdiff_t>(axis), static_cast<std::int64_t>(inputs_.size()));
    set(y);
  }

  void unpacked() {
    const Shape* x = shape(0);
    if (x == nullptr || x->empty()) return;
    const std::size_t axis = axis_of(integer("axis", 0), x->size());
    const std::int64_t parts = integer("num", (*x)[axis]);
    Shape y = *x;
    y.erase(y.begin() + static_cast<std::ptrdiff_t>(axis));
    if (parts < 1 || parts > static_cast<std::int64_t>(kMostParts)) fail(std::to_string(parts) + " parts");
    if ((*x)[axis] >= 0 && (*x)[axis] != parts)
      fail("makes " + std::to_string(parts) + " parts of an axis of " + std::to_string((*x)[axis]));
    set_parts(static_cast<std::size_t>(parts));
    const Numbers* all = numbers_of(0);
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      outputs_[i].shape = y;
      if (all != nullptr && y.empty() && i < all->size()) outputs_[i].numbers = Numbers{(*all)[i]};
    }
  }

  void split() {
    const bool has_sizes = node_.op == "SplitV";
    const Shape* x = shape(has_sizes ? 0 : 1);
    const auto axis = number_of(has_sizes ? 2 : 0);
    const Numbers* sizes = has_sizes ? numbers_of(1) : nullptr;
    const std::int64_t parts = integer("num_split", sizes != nullptr ? static_cast<std::int64_t>(sizes->size()) : 1);
    if (parts < 1 || parts > static_cast<std::int64_t>(kMostParts)) fail(std::to_string(parts) + " parts");
    if (x == nullptr || !axis) return;
    const std::size_t along = axis_of(*axis, x->size());
    set_parts(static_cast<std::size_t>(parts));
    std::int64_t stated = 0;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      Shape y = *x;
      y[along] = kOpen;
      if (sizes != nullptr && i < sizes->size()) y[along] = size_of((*sizes)[i]);
      if (y[along] >= 0) stated += y[along];
      if (!has_sizes && (*x)[along] >= 0) {
        if ((*x)[along] % parts != 0) fail(std::to_string((*x)[along]) + " in " + std::to_string(parts) + " parts");
        y[along] = (*x)[along] / parts;
      }
      outputs_[i].shape = y;
    }
    for (TensorflowValue& output : outputs_)  // a size of -1 is what is left
      if (has_sizes && (*output.shape)[along] < 0 && (*x)[along] >= stated)
        (*output.shape)[along] = (*x)[along] - stated;
  }

  void sliced() {
    const Shape* x = shape(0);
    const Numbers *begin = numbers_of(1), *sizes = numbers_of(2);
    if (x == nullptr) return;
    Shape y(x->size(), kOpen);
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (sizes == nullptr || i >= sizes->size()) continue;
      y[i] = size_of((*sizes)[i]);
      if ((*sizes)[i] == -1 && begin != nullptr && i < begin->size() && (*x)[i] >= 0 && size_of((*begin)[i]) >= 0)
        y[i] = std::max<std::int64_t>(0, (*x)[i] - size_of((*begin)[i]));
    }
    set(y);
  }

  /// Ranges of Python's form, one for each axis that they name.
  void strided_slice() {
    const Shape* x = shape(0);
    const Numbers *begin = numbers_of(1), *end = numbers_of(2), *strides = numbers_of(3);
    if (x == nullptr || strides == nullptr) return;
    const std::size_t ranges = strides->size();
    if (ranges > kMostNumbers || (begin != nullptr && begin->size() != ranges) ||
        (end != nullptr && end->size() != ranges))
      fail("ranges of different numbers of axes");
    const auto has = [&](const char* mask, std::size_t i) {
      return (static_cast<std::uint64_t>(integer(mask, 0)) >> i & 1U) != 0;
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
    set(y);
  }

  /// Scalars from `begin` to `end`, of `size` in all; none: the first or last one.
  static std::int64_t range(std::int64_t size, std::optional<double> begin, std::optional<double> end, double step) {
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

  void reduced() {
    const Shape* x = shape(0);
    if (x == nullptr) return;
    const Numbers* axes = numbers_of(1);
    const bool keeps = integer("keep_dims", integer("keepdims", 0)) != 0;
    if (axes == nullptr) {
      if (keeps) set(Shape(x->size(), kOpen));
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
    set(y);
  }

  void best() {  // ArgMax, ArgMin
    const Shape* x = shape(0);
    const auto axis = inputs_.size() > 1 ? number_of(1) : std::optional<std::int64_t>{0};
    if (x == nullptr || !axis || x->empty()) return;
    Shape y = *x;
    y.erase(y.begin() + static_cast<std::ptrdiff_t>(axis_of(*axis, x->size())));
    set(y);
  }

  void top() {
    const Shape* x = shape(0);
    if (x == nullptr || x->empty()) return;
    Shape y = *x;
    y.back() = node_.op == "TopK" ? integer("k", kOpen) : number_of(1).value_or(kOpen);
    set_parts(2);
    outputs_[0].shape = outputs_[1].shape = y;
  }

  void gathered() {
    const Shape *x = shape(0), *at = shape(1);
    if (x == nullptr || at == nullptr || x->empty()) return;
    const auto axis = inputs_.size() > 2 ? number_of(2) : std::optional<std::int64_t>{0};
    if (!axis || integer("batch_dims", 0) != 0) return;
    const auto along = static_cast<std::ptrdiff_t>(axis_of(*axis, x->size()));
    Shape y{x->begin(), x->begin() + along};
    y.insert(y.end(), at->begin(), at->end());
    y.insert(y.end(), x->begin() + along + 1, x->end());
    set(y);
  }

  void gathered_at_points() {
    const Shape *x = shape(0), *at = shape(1);
    if (x == nullptr || at == nullptr || at->empty() || at->back() < 0 ||
        at->back() > static_cast<std::int64_t>(x->size()))
      return;
    Shape y{at->begin(), at->end() - 1};
    y.insert(y.end(), x->begin() + static_cast<std::ptrdiff_t>(at->back()), x->end());
    set(y);
  }

  void one_hot() {
    const Shape* x = shape(0);
    if (x == nullptr) return;
    Shape y = *x;
    const std::int64_t axis = integer("axis", -1);
    const std::size_t along = axis == -1 ? y.size() : axis_of(axis, y.size() + 1);
    y.insert(y.begin() + static_cast<std::ptrdiff_t>(along), number_of(1).value_or(kOpen));
    set(y);
  }

  void tiled() {
    const Shape* x = shape(0);
    const Numbers* times_each = numbers_of(1);
    if (x == nullptr) return;
    Shape y = *x;
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] = times_each != nullptr && times_each->size() == y.size() ? times(y[i], size_of((*times_each)[i])) : kOpen;
    set(y);
  }

  /// The shape is the values of an input.
  void of_numbers(std::size_t input) {
    const Numbers* sizes = numbers_of(input);
    if (sizes == nullptr) return;
    Shape y;
    for (const double size : *sizes) y.push_back(size_of(size));
    set(y);
  }
  void of_first_numbers() { of_numbers(0); }
  void broadcast_to() { of_numbers(1); }

  void resized() {
    const Shape* x = shape(0);
    const Numbers* size = numbers_of(1);
    if (x != nullptr && x->size() != 4) fail("expected images of four axes");
    const bool is_known = size != nullptr && size->size() == 2;
    set(Shape{x != nullptr ? (*x)[0] : kOpen, is_known ? size_of((*size)[0]) : kOpen,
              is_known ? size_of((*size)[1]) : kOpen, x != nullptr ? (*x)[3] : kOpen});
  }

  void cropped() {
    const Shape *x = shape(0), *boxes = shape(1);
    const Numbers* size = numbers_of(3);
    const bool is_known = size != nullptr && size->size() == 2;
    set(Shape{boxes != nullptr && !boxes->empty() ? (*boxes)[0] : kOpen, is_known ? size_of((*size)[0]) : kOpen,
              is_known ? size_of((*size)[1]) : kOpen, x != nullptr && x->size() == 4 ? (*x)[3] : kOpen});
  }

  /// SpaceToBatchND [x, blocks, paddings] pads and BatchToSpaceND [x, blocks, crops] crops; positions stay.
  void moved_to_batch() {
    const Shape* x = shape(0);
    const Numbers *blocks = numbers_of(1), *pads = numbers_of(2);
    if (x == nullptr || blocks == nullptr || x->size() < blocks->size() + 1) return;
    const bool is_back = node_.op == "BatchToSpaceND";
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
      if (!is_back) outputs_[0].blocks.push_back(size_of((*blocks)[i]));
    }
    set(y);
  }

  void moved_to_depth() {
    const Shape* x = shape(0);
    const std::int64_t block = integer("block_size", 0);
    if (x == nullptr || x->size() != 4 || block < 1 || block > 1024) return;
    const std::size_t height = is_channels_first() ? 2 : 1, channel = is_channels_first() ? 1 : 3;
    const bool is_back = node_.op == "DepthToSpace";
    const auto part = [](std::int64_t size, std::int64_t of) { return size < 0 ? kOpen : size / of; };
    Shape y = *x;
    for (const std::size_t axis : {height, height + 1})
      y[axis] = is_back ? times(y[axis], block) : part(y[axis], block);
    y[channel] = is_back ? part(y[channel], block * block) : times(y[channel], block * block);
    set(y);
  }

  void lstm_of_blocks() {  // BlockLSTM [length, x, states, states, w, ...]: i, cs, f, o, ci, co, h
    const Shape *x = shape(1), *w = shape(4);
    if (x == nullptr || w == nullptr || x->size() != 3 || w->size() != 2) return;
    set_parts(7);
    for (TensorflowValue& output : outputs_) output.shape = Shape{(*x)[0], (*x)[1], (*w)[1] < 0 ? kOpen : (*w)[1] / 4};
  }

  void shape_itself() {
    if (shape(0) == nullptr) return;
    set(Shape{static_cast<std::int64_t>(shape(0)->size())});
    Numbers sizes;
    for (const std::int64_t size : *shape(0)) sizes.push_back(size < 0 ? kUnknownNumber : static_cast<double>(size));
    outputs_[0].numbers = sizes;
  }
  void shapes_themselves() {
    set_parts(inputs_.size());
    for (std::size_t i = 0; i < std::min(inputs_.size(), kMostParts); ++i) {
      if (shape(i) == nullptr) continue;
      Numbers sizes;
      for (const std::int64_t size : *shape(i)) sizes.push_back(size < 0 ? kUnknownNumber : static_cast<double>(size));
      outputs_[i] = {.shape = Shape{static_cast<std::int64_t>(sizes.size())}, .numbers = sizes};
    }
  }
  void rank() {
    set(Shape{});
    if (shape(0) != nullptr) outputs_[0].numbers = Numbers{static_cast<double>(shape(0)->size())};
  }
  void size() {
    set(Shape{});
    if (shape(0) != nullptr && is_closed(*shape(0)))
      outputs_[0].numbers = Numbers{static_cast<double>(count_of_axes(*shape(0)))};
  }
  void counted() {  // Range [start, limit, delta]
    const auto start = number_of(0), limit = number_of(1), delta = number_of(2);
    set(Shape{kOpen});
    if (!start || !limit || !delta || *delta == 0) return;
    const double count = std::max(0.0, std::ceil(static_cast<double>(*limit - *start) / static_cast<double>(*delta)));
    set(Shape{size_of(count)});
    if (count > static_cast<double>(kMostNumbers)) return;
    Numbers all;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(count); ++i)
      all.push_back(static_cast<double>(*start + i * *delta));
    outputs_[0].numbers = all;
  }
  void image() { set(Shape{kOpen, kOpen, integer("channels", 0) > 0 ? integer("channels", 0) : kOpen}); }

  /// Elements of an array, one after another.
  void elements() {
    if (node_.component_shapes.empty() || !node_.component_shapes[0]) return;
    Shape y = *node_.component_shapes[0];
    y.insert(y.begin(), kOpen);
    set(y);
  }

  /// Components of a queue or an iterator, each of a sample or, of queues that give several, with their number before.
  void components() {
    set_parts(std::max<std::size_t>(1, node_.component_shapes.size()));
    for (std::size_t i = 0; i < std::min(node_.component_shapes.size(), kMostParts); ++i)
      outputs_[i].shape = node_.component_shapes[i];
  }

  static const std::map<std::string_view, Rule>& rules() {
    static const std::map<std::string_view, Rule> all = [] {
      std::map<std::string_view, Rule> table;
      const auto add = [&](Rule rule, std::string_view names) {
        while (!names.empty()) {
          const std::size_t end = std::min(names.find(' '), names.size());
          table.emplace(names.substr(0, end), rule);
          names.remove_prefix(std::min(end + 1, names.size()));
        }
      };
      add(&TensorFlowShapes::same,
          "Relu Relu6 Elu Selu Tanh Sigmoid Softmax LogSoftmax LeakyRelu Softplus Softsign BiasAdd BiasAddV1 "
          "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 _FusedBatchNormEx BatchNormWithGlobalNormalization "
          "Identity "
          "LRN Cast StopGradient PreventGradient CheckNumerics Snapshot Print Neg Exp Expm1 Log Log1p Sqrt Rsqrt "
          "Square "
          "Abs Sign Floor Ceil Round Rint Erf Erfc Reciprocal Inv Sin Cos ZerosLike OnesLike ClipByValue "
          "FakeQuantWithMinMaxVars FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVarsPerChannel LogicalNot Cumsum "
          "ReverseV2 "
          "PlaceholderWithDefault EnsureShape MatrixBandPart IsNan IsInf IsFinite AdjustContrastv2 AdjustSaturation "
          "AdjustHue RGBToHSV HSVToRGB ReadVariableOp Enter Exit ReverseSequence Merge AddN AccumulateNV2 Dequantize "
          "NextIteration RefIdentity RefEnter RefExit InvertPermutation DeepCopy Roll Reverse");
      add(&TensorFlowShapes::second, "Select");
      add(&TensorFlowShapes::scalar, "L2Loss");
      add(&TensorFlowShapes::constant, "Const HostConst");
      add(&TensorFlowShapes::variable, "Variable VariableV2 VarHandleOp AutoReloadVariable Placeholder PlaceholderV2");
      add(&TensorFlowShapes::all_inputs, "IdentityN");
      add(&TensorFlowShapes::switched, "Switch RefSwitch");
      add(&TensorFlowShapes::broadcasting,
          "Add AddV2 Sub Mul RealDiv Div DivNoNan FloorDiv TruncateDiv FloorMod Mod TruncateMod Maximum Minimum Pow "
          "SquaredDifference Equal NotEqual Greater GreaterEqual Less LessEqual LogicalAnd LogicalOr Xdivy Xlogy "
          "MulNoNan "
          "SelectV2 Atan2 BitwiseAnd BitwiseOr");
      add(&TensorFlowShapes::matrix_product, "MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 _FusedMatMul");
      add(&TensorFlowShapes::einsum, "Einsum XlaEinsum");
      add(&TensorFlowShapes::convolution, "Conv2D DepthwiseConv2dNative _FusedConv2D _FusedDepthwiseConv2dNative");
      add(&TensorFlowShapes::transposed_convolution, "Conv2DBackpropInput");
      add(&TensorFlowShapes::pool, "MaxPool MaxPoolV2 AvgPool MaxPoolWithArgmax");
      add(&TensorFlowShapes::padded, "Pad PadV2 MirrorPad");
      add(&TensorFlowShapes::reshaped, "Reshape");
      add(&TensorFlowShapes::expanded, "ExpandDims");
      add(&TensorFlowShapes::squeezed, "Squeeze");
      add(&TensorFlowShapes::permuted, "Transpose ConjugateTranspose");
      add(&TensorFlowShapes::concatenated, "ConcatV2 Concat");
      add(&TensorFlowShapes::packed, "Pack Stack");
      add(&TensorFlowShapes::unpacked, "Unpack Unstack");
      add(&TensorFlowShapes::split, "Split SplitV");
      add(&TensorFlowShapes::sliced, "Slice");
      add(&TensorFlowShapes::strided_slice, "StridedSlice");
      add(&TensorFlowShapes::reduced, "Mean Sum Max Min Prod All Any EuclideanNorm");
      add(&TensorFlowShapes::best, "ArgMax ArgMin");
      add(&TensorFlowShapes::top, "TopK TopKV2");
      add(&TensorFlowShapes::gathered, "Gather GatherV2 ResourceGather");
      add(&TensorFlowShapes::gathered_at_points, "GatherNd");
      add(&TensorFlowShapes::one_hot, "OneHot");
      add(&TensorFlowShapes::tiled, "Tile");
      add(&TensorFlowShapes::of_first_numbers,
          "Fill RandomUniform RandomStandardNormal TruncatedNormal RandomUniformInt StatelessRandomUniform "
          "StatelessRandomNormal ParameterizedTruncatedNormal Empty");
      add(&TensorFlowShapes::broadcast_to, "BroadcastTo");
      add(&TensorFlowShapes::resized, "ResizeBilinear ResizeNearestNeighbor ResizeBicubic ResizeArea");
      add(&TensorFlowShapes::cropped, "CropAndResize");
      add(&TensorFlowShapes::moved_to_batch, "SpaceToBatchND BatchToSpaceND");
      add(&TensorFlowShapes::moved_to_depth, "SpaceToDepth DepthToSpace");
      add(&TensorFlowShapes::lstm_of_blocks, "BlockLSTM BlockLSTMV2");
      add(&TensorFlowShapes::shape_itself, "Shape");
      add(&TensorFlowShapes::shapes_themselves, "ShapeN");
      add(&TensorFlowShapes::rank, "Rank");
      add(&TensorFlowShapes::size, "Size");
      add(&TensorFlowShapes::counted, "Range");
      add(&TensorFlowShapes::image, "DecodeJpeg DecodePng DecodeBmp DecodeAndCropJpeg");
      add(&TensorFlowShapes::elements, "TensorArrayGatherV3");
      add(&TensorFlowShapes::components,
          "IteratorGetNext IteratorGetNextSync FunctionBufferingResourceGetNext MultiDeviceIteratorGetNextFromShard");
      return table;
    }();
    return all;
  }

  /// Those of the first output, of operators on small tensors.
  std::optional<Numbers> numbers() const {
    const std::string& op = node_.op;
    const Numbers *a = numbers_of(0), *b = numbers_of(1);
    if (op == "Pack" || op == "ConcatV2") return joined();
    if (op == "Fill" && b != nullptr && b->size() == 1 && outputs_[0].shape && is_closed(*outputs_[0].shape)) {
      const std::int64_t count = count_of_axes(*outputs_[0].shape);
      return count <= static_cast<std::int64_t>(kMostNumbers)
                 ? std::optional{Numbers(static_cast<std::size_t>(count), (*b)[0])}
                 : std::nullopt;
    }
    if (a == nullptr) return std::nullopt;
    static const std::set<std::string_view> kept{"Identity", "Reshape", "ExpandDims",     "Squeeze", "StopGradient",
                                                 "Snapshot", "Enter",   "ReadVariableOp", "Merge"};
    if (kept.contains(op)) return *a;
    if (op == "Cast") {
      Numbers y = *a;
      if (!node_.is_floating)
        for (double& number : y) number = std::trunc(number);
      return y;
    }
    if (op == "Floor" || op == "Ceil" || op == "Round" || op == "Neg" || op == "Sqrt") {
      Numbers y = *a;
      for (double& number : y)
        number = op == "Floor"   ? std::floor(number)
                 : op == "Ceil"  ? std::ceil(number)
                 : op == "Round" ? std::nearbyint(number)
                 : op == "Neg"   ? -number
                                 : std::sqrt(number);
      return y;
    }
    if (op == "Prod" || op == "Sum" || op == "Max" || op == "Min") return folded(*a);
    if (op == "StridedSlice" || op == "Slice") return cut(*a);
    if ((op == "Gather" || op == "GatherV2") && b != nullptr && shape(0) != nullptr && shape(0)->size() == 1) {
      Numbers y;
      for (const double at : *b) {
        if (!(at >= 0 && at < static_cast<double>(a->size()))) return std::nullopt;
        y.push_back((*a)[static_cast<std::size_t>(at)]);
      }
      return y;
    }
    return b == nullptr ? std::nullopt : combined(*a, *b);
  }

  std::optional<Numbers> joined() const {
    const std::size_t end = node_.op == "Pack" || inputs_.empty() ? inputs_.size() : inputs_.size() - 1;
    Numbers all;
    for (std::size_t i = 0; i < end; ++i) {
      const Numbers* part = numbers_of(i);
      const Shape* own = shape(i);
      if (own == nullptr || own->size() > (node_.op == "Pack" ? 0U : 1U)) return std::nullopt;
      const std::int64_t count = count_of_axes(*own);
      if (count < 0 || all.size() + static_cast<std::size_t>(std::min<std::int64_t>(count, 1000)) > kMostNumbers)
        return std::nullopt;
      if (part != nullptr)
        all.insert(all.end(), part->begin(), part->end());
      else
        all.resize(all.size() + static_cast<std::size_t>(count), kUnknownNumber);
      if (all.size() > kMostNumbers) return std::nullopt;
    }
    return all;
  }

  std::optional<Numbers> folded(const Numbers& x) const {
    if (!outputs_[0].shape || count_of_axes(*outputs_[0].shape) != 1 || x.empty()) return std::nullopt;
    double y = x[0];
    for (std::size_t i = 1; i < x.size(); ++i)
      y = node_.op == "Prod"  ? y * x[i]
          : node_.op == "Sum" ? y + x[i]
          : std::isnan(x[i])  ? x[i]
          : node_.op == "Max" ? std::max(y, x[i])
                              : std::min(y, x[i]);
    return Numbers{y};
  }

  /// Of a tensor of one axis.
  std::optional<Numbers> cut(const Numbers& x) const {
    const Numbers* begin = numbers_of(1);
    if (shape(0) == nullptr || shape(0)->size() != 1 || begin == nullptr || begin->size() != 1) return std::nullopt;
    const auto all = static_cast<double>(x.size());
    if (integer("new_axis_mask", 0) != 0 || integer("ellipsis_mask", 0) != 0) return std::nullopt;
    const Numbers* strides = numbers_of(3);
    const bool is_strided = node_.op == "StridedSlice";
    if (is_strided && (strides == nullptr || strides->size() != 1 || (*strides)[0] != 1)) return std::nullopt;
    double first = (*begin)[0];
    if (is_strided && (integer("begin_mask", 0) & 1) != 0) first = 0;
    if (first < 0) first += all;
    if (!(first >= 0 && first <= all)) return std::nullopt;
    const bool is_one = is_strided && (integer("shrink_axis_mask", 0) & 1) != 0;
    const std::int64_t count = is_one                                                ? 1
                               : outputs_[0].shape && outputs_[0].shape->size() == 1 ? (*outputs_[0].shape)[0]
                                                                                     : kOpen;
    if (count < 0 || first + static_cast<double>(count) > all) return std::nullopt;
    const auto from = x.begin() + static_cast<std::ptrdiff_t>(first);
    return Numbers{from, from + count};
  }

  std::optional<Numbers> combined(const Numbers& a, const Numbers& b) const {
    static const std::map<std::string_view, double (*)(double, double)> all{
        {"Add", [](double x, double y) { return x + y; }},
        {"AddV2", [](double x, double y) { return x + y; }},
        {"Sub", [](double x, double y) { return x - y; }},
        {"Mul", [](double x, double y) { return x * y; }},
        {"RealDiv", [](double x, double y) { return x / y; }},
        {"Div", [](double x, double y) { return x / y; }},
        {"FloorDiv", [](double x, double y) { return std::floor(x / y); }},
        {"FloorMod", [](double x, double y) { return x - y * std::floor(x / y); }},
        {"Maximum", [](double x, double y) { return std::isnan(y) ? y : std::max(x, y); }},
        {"Minimum", [](double x, double y) { return std::isnan(y) ? y : std::min(x, y); }}};
    const auto rule = all.find(node_.op);
    if (rule == all.end() || (a.size() != b.size() && a.size() != 1 && b.size() != 1)) return std::nullopt;
    Numbers y;
    for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      const double result = rule->second(a.size() == 1 ? a[0] : a[i], b.size() == 1 ? b[0] : b[i]);
      y.push_back(node_.op == "Div" && !node_.is_floating ? std::trunc(result) : result);
    }
    return y;
  }

  const GraphDefNode& node_;
  const std::vector<const TensorflowValue*>& inputs_;
  std::vector<TensorflowValue> outputs_;
};

}  // namespace

std::vector<TensorflowValue> infer_tensorflow(const GraphDefNode& node,
                                              const std::vector<const TensorflowValue*>& inputs) {
  return TensorFlowShapes{node, inputs}.run();
}

}  // namespace rehearse
