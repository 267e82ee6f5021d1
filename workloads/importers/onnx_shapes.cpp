#include "workloads/importers/onnx_shapes.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "sim/base/errors.hpp"
#include "workloads/importers/einsum.hpp"
#include "workloads/sizes.hpp"

namespace rehearse {

namespace {

using Integers = std::vector<std::int64_t>;

constexpr std::size_t kMostAxesOfOnnx = 8;
constexpr std::size_t kMostIntegers = 64;
constexpr std::int64_t kMostOfOnnxWindow = 1 << 20;

/// One node with what is known of its inputs.
class Inference {
 public:
  Inference(const OnnxNode& node, OnnxValues& values) : node_{node}, values_{values} {}

  void run() {
    infer_integers();
    if (node_.outputs.empty()) return;
    if (node_.type == "Split") return split();
    if (node_.type == "LSTM" || node_.type == "GRU" || node_.type == "RNN") return recurrent();
    const auto shape = first_output();
    if (shape) set(0, *shape);
  }

 private:
  const OnnxShape* shape(std::size_t i) const {
    if (i >= node_.inputs.size()) return nullptr;
    const auto found = values_.shapes.find(node_.inputs[i]);
    return found == values_.shapes.end() ? nullptr : &found->second;
  }
  const Integers* integers(std::size_t i) const {
    if (i >= node_.inputs.size()) return nullptr;
    const auto found = values_.integers.find(node_.inputs[i]);
    return found == values_.integers.end() ? nullptr : &found->second;
  }
  /// An attribute, or the input that took its place.
  std::optional<Integers> list(const char* attribute, std::size_t input) const {
    if (const auto found = node_.integers.find(attribute); found != node_.integers.end()) return found->second;
    if (const Integers* values = integers(input)) return *values;
    return std::nullopt;
  }
  std::int64_t integer(const char* attribute, std::int64_t fallback) const {
    const auto found = node_.integers.find(attribute);
    return found == node_.integers.end() || found->second.empty() ? fallback : found->second[0];
  }
  std::string text(const char* attribute) const {
    const auto found = node_.texts.find(attribute);
    return found == node_.texts.end() ? "" : found->second;
  }
  [[noreturn]] static void fail(const std::string& message) { throw InputError{message}; }
  static std::size_t axis_of(std::int64_t axis, std::size_t axes) {
    const auto count = static_cast<std::int64_t>(axes);
    if (axis < -count || axis >= count) fail("axis " + std::to_string(axis) + " of " + std::to_string(axes));
    return static_cast<std::size_t>(axis < 0 ? axis + count : axis);
  }
  static std::int64_t count_of_axes(OnnxShape::const_iterator begin, OnnxShape::const_iterator end) {
    std::int64_t count = 1;
    for (auto size = begin; size != end; ++size) {
      if (*size > 0 && count > kMostScalars / *size) fail("more than 2^40 scalars");
      count *= *size;
    }
    return count;
  }
  static std::int64_t all_of(const OnnxShape& shape) { return count_of_axes(shape.begin(), shape.end()); }

  void set(std::size_t i, const OnnxShape& shape) {
    if (i >= node_.outputs.size() || node_.outputs[i].empty()) return;
    if (shape.size() > kMostAxesOfOnnx) fail("more than 8 axes");
    for (const std::int64_t size : shape)
      if (size < 0 || size > kMostScalars) fail("an axis of " + std::to_string(size));
    (void)all_of(shape);
    values_.shapes.try_emplace(node_.outputs[i], shape);
  }

  static OnnxShape broadcast(const OnnxShape& a, const OnnxShape& b) {
    OnnxShape all(std::max(a.size(), b.size()), 1);
    for (const OnnxShape* each : {&a, &b})
      for (std::size_t i = 1; i <= each->size(); ++i) {
        std::int64_t& size = all[all.size() - i];
        const std::int64_t own = (*each)[each->size() - i];
        if (size != own && size != 1 && own != 1)
          fail("axes of " + std::to_string(size) + " and " + std::to_string(own) + " do not fit");
        if (size == 1) size = own;
      }
    return all;
  }

  /// One of the integers of an attribute of windows. Sums and products of a few of them are far below 2^63.
  std::int64_t of_window(const char* attribute, std::size_t i, std::int64_t fallback) const {
    const auto found = node_.integers.find(attribute);
    if (found == node_.integers.end() || i >= found->second.size()) return fallback;
    const std::int64_t value = found->second[i];
    if (value < -kMostOfOnnxWindow || value > kMostOfOnnxWindow)
      fail(std::string{attribute} + " of " + std::to_string(value));
    return value;
  }

  /// Windows of convolution and pooling; `kernel` has their sizes.
  OnnxShape slide(const OnnxShape& x, const Integers& kernel, std::int64_t channels) const {
    const std::size_t spatial = kernel.size();
    if (x.size() != spatial + 2)
      fail("a kernel of " + std::to_string(spatial) + " axes for " + std::to_string(x.size()));
    const std::string automatic = text("auto_pad");
    OnnxShape y{x[0], channels};
    for (std::size_t i = 0; i < spatial; ++i) {
      const std::int64_t stride = of_window("strides", i, 1), dilation = of_window("dilations", i, 1);
      const std::int64_t pads = of_window("pads", i, 0) + of_window("pads", i + spatial, 0);
      for (const std::int64_t size : {stride, dilation, kernel[i]})
        if (size < 1 || size > kMostOfOnnxWindow) fail("a window of " + std::to_string(size));
      if (pads < 0 || pads > kMostOfOnnxWindow) fail("a padding of " + std::to_string(pads));
      const std::int64_t extent = dilation * (kernel[i] - 1) + 1, in = x[i + 2];
      if (automatic.starts_with("SAME")) {
        y.push_back((in + stride - 1) / stride);
        continue;
      }
      const std::int64_t room = in + pads - extent;
      if (room < 0) fail("a kernel larger than its padded input");
      const bool is_up = integer("ceil_mode", 0) != 0;
      y.push_back((is_up ? (room + stride - 1) / stride : room / stride) + 1);
    }
    return y;
  }

  OnnxShape transposed(const OnnxShape& x, const OnnxShape& weights) const {
    OnnxShape y{x[0], weights[1] * std::max<std::int64_t>(1, of_window("group", 0, 1))};
    const auto stated = node_.integers.find("output_shape");
    const std::size_t spatial = x.size() - 2;
    for (std::size_t i = 0; i < spatial; ++i) {
      const std::int64_t stride = of_window("strides", i, 1), dilation = of_window("dilations", i, 1);
      const std::int64_t kernel = weights[i + 2];
      for (const std::int64_t size : {stride, dilation, kernel, x[i + 2]})
        if (size < 1 || size > kMostOfOnnxWindow) fail("a window of " + std::to_string(size));
      const std::int64_t more = of_window("output_padding", i, 0);
      const std::int64_t pads = of_window("pads", i, 0) + of_window("pads", i + spatial, 0);
      if (stated != node_.integers.end() && stated->second.size() >= spatial)
        y.push_back(stated->second[stated->second.size() - spatial + i]);
      else if (text("auto_pad").starts_with("SAME"))
        y.push_back(x[i + 2] * stride);
      else
        y.push_back(stride * (x[i + 2] - 1) + more + dilation * (kernel - 1) + 1 - pads);
    }
    return y;
  }

  std::optional<OnnxShape> matrix_product() const {
    const OnnxShape *a = shape(0), *b = shape(1);
    if (a == nullptr || b == nullptr || a->empty() || b->empty()) return std::nullopt;
    if (b->size() == 1 || a->size() == 1) return std::nullopt;  // of vectors
    const OnnxShape batches = broadcast({a->begin(), a->end() - 2}, {b->begin(), b->end() - 2});
    if (a->back() != (*b)[b->size() - 2])
      fail("sums over " + std::to_string(a->back()) + " and " + std::to_string((*b)[b->size() - 2]) + " terms");
    OnnxShape y = batches;
    y.push_back((*a)[a->size() - 2]);
    y.push_back(b->back());
    return y;
  }

  std::optional<OnnxShape> reshaped() const {
    const OnnxShape* x = shape(0);
    const Integers* to = integers(1);
    if (x == nullptr || to == nullptr) return std::nullopt;
    OnnxShape y = *to;
    std::int64_t known = 1;
    std::optional<std::size_t> open;
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (y[i] == 0 && i < x->size()) y[i] = (*x)[i];
      if (y[i] == -1) {
        if (open) fail("two axes of -1");
        open = i;
      } else if (y[i] < 1 || known > kMostScalars / y[i]) {
        fail("an axis of " + std::to_string(y[i]));
      } else {
        known *= y[i];
      }
    }
    const std::int64_t all = all_of(*x);
    if (open) {
      if (all % known != 0)
        fail("makes axes of " + std::to_string(known) + " from " + std::to_string(all) + " scalars");
      y[*open] = all / known;
    } else if (known != all) {
      fail("makes " + std::to_string(known) + " scalars of " + std::to_string(all));
    }
    return y;
  }

  OnnxShape with_axes(const OnnxShape& x, const Integers& axes) const {  // Unsqueeze
    const std::size_t all = x.size() + axes.size();
    if (all > kMostAxesOfOnnx) fail("more than 8 axes");
    std::set<std::size_t> added;
    for (const std::int64_t axis : axes) added.insert(axis_of(axis, all));
    if (added.size() != axes.size()) fail("an axis twice");
    OnnxShape y;
    std::size_t next = 0;
    for (std::size_t i = 0; i < all; ++i) y.push_back(added.contains(i) ? 1 : x[next++]);
    return y;
  }

  /// Without axes, or with 1 in their place.
  static OnnxShape without_axes(const OnnxShape& x, const std::optional<Integers>& axes, bool keeps, bool of_one) {
    std::set<std::size_t> removed;
    if (axes && !axes->empty())
      for (const std::int64_t axis : *axes) removed.insert(axis_of(axis, x.size()));
    else
      for (std::size_t i = 0; i < x.size(); ++i)
        if (!of_one || x[i] == 1) removed.insert(i);
    OnnxShape y;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!removed.contains(i))
        y.push_back(x[i]);
      else if (keeps)
        y.push_back(1);
    }
    return y;
  }

  std::optional<OnnxShape> sliced() const {
    const OnnxShape* x = shape(0);
    const auto starts = list("starts", 1), ends = list("ends", 2);
    if (x == nullptr || !starts || !ends || starts->size() != ends->size()) return std::nullopt;
    auto axes = list("axes", 3);
    if (node_.inputs.size() > 3 && !node_.inputs[3].empty() && !axes) return std::nullopt;
    const Integers* steps = integers(4);
    OnnxShape y = *x;
    for (std::size_t i = 0; i < starts->size(); ++i) {
      if (axes && i >= axes->size()) fail("more ranges than axes");
      const std::size_t axis = axis_of(axes ? (*axes)[i] : static_cast<std::int64_t>(i), x->size());
      const std::int64_t size = (*x)[axis], step = steps != nullptr && i < steps->size() ? (*steps)[i] : 1;
      const auto clamped = [&](std::int64_t at) {
        return std::clamp<std::int64_t>(at < 0 ? std::max(at, -size) + size : at, 0, size);
      };
      if (step == 0) fail("a step of 0");
      if (step < 0) {
        y[axis] = size;  // all of it, reversed, in most cases
        continue;
      }
      const std::int64_t room = clamped((*ends)[i]) - clamped((*starts)[i]);
      y[axis] = room <= 0 ? 0 : (room - 1) / step + 1;
    }
    return y;
  }

  std::optional<OnnxShape> concatenated() const {
    OnnxShape y;
    std::size_t axis = 0;
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
      const OnnxShape* x = shape(i);
      if (x == nullptr) return std::nullopt;
      if (i == 0) {
        y = *x;
        axis = axis_of(integer("axis", 0), y.size());
      } else if (x->size() != y.size()) {
        fail("tensors of different axes");
      } else {
        y[axis] += (*x)[axis];
      }
    }
    return y;
  }

  std::optional<OnnxShape> resized() const {
    const OnnxShape* x = shape(0);
    if (x == nullptr) return std::nullopt;
    if (const Integers* sizes = integers(3); sizes != nullptr && sizes->size() == x->size()) return *sizes;
    for (std::size_t i = 1; i < node_.inputs.size(); ++i) {
      const auto scales = values_.numbers.find(node_.inputs[i]);
      if (scales == values_.numbers.end() || scales->second.size() != x->size()) continue;
      OnnxShape y;
      for (std::size_t axis = 0; axis < x->size(); ++axis) {
        const double size = static_cast<double>((*x)[axis]) * scales->second[axis];
        if (!(size >= 1 && size <= 1e9)) fail("a scale that gives no size");
        y.push_back(static_cast<std::int64_t>(size));
      }
      return y;
    }
    return std::nullopt;
  }

  std::optional<OnnxShape> padded() const {
    const OnnxShape* x = shape(0);
    const auto pads = list("pads", 1);
    if (x == nullptr || !pads || pads->size() != 2 * x->size()) return std::nullopt;
    OnnxShape y = *x;
    for (std::size_t i = 0; i < y.size(); ++i) {
      for (const std::int64_t pad : {(*pads)[i], (*pads)[i + y.size()]})
        if (pad < -kMostScalars || pad > kMostScalars) fail("a padding that is too large");
      y[i] += (*pads)[i] + (*pads)[i + y.size()];
    }
    return y;
  }

  /// Y, Y_h and, of LSTM, Y_c. Layout 0 has [positions, batch, features], layout 1 the batch first.
  void recurrent() {
    const OnnxShape *x = shape(0), *states = shape(2);  // weights of states: [directions, gates x hidden, hidden]
    if (x == nullptr || x->size() != 3) return;
    const std::int64_t directions = text("direction") == "bidirectional" ? 2 : 1;
    const std::int64_t hidden = integer("hidden_size", states != nullptr && states->size() == 3 ? states->back() : 1);
    const bool has_batch_first = integer("layout", 0) != 0;
    const std::int64_t batch = (*x)[has_batch_first ? 0 : 1], positions = (*x)[has_batch_first ? 1 : 0];
    set(0, has_batch_first ? OnnxShape{batch, positions, directions, hidden}
                           : OnnxShape{positions, directions, batch, hidden});
    for (const std::size_t last : {1, 2})
      set(last, has_batch_first ? OnnxShape{batch, directions, hidden} : OnnxShape{directions, batch, hidden});
  }

  std::optional<OnnxShape> permuted() const {
    const OnnxShape* x = shape(0);
    if (x == nullptr) return std::nullopt;
    OnnxShape y{x->rbegin(), x->rend()};
    if (const auto order = node_.integers.find("perm"); order != node_.integers.end()) {
      if (order->second.size() != x->size()) fail("an order of other axes");
      for (std::size_t i = 0; i < y.size(); ++i) y[i] = (*x)[axis_of(order->second[i], x->size())];
    }
    return y;
  }

  std::optional<OnnxShape> gathered() const {
    const OnnxShape *x = shape(0), *at = shape(1);
    if (x == nullptr || at == nullptr || x->empty()) return std::nullopt;
    const std::size_t axis = axis_of(integer("axis", 0), x->size());
    OnnxShape y{x->begin(), x->begin() + static_cast<std::ptrdiff_t>(axis)};
    y.insert(y.end(), at->begin(), at->end());
    y.insert(y.end(), x->begin() + static_cast<std::ptrdiff_t>(axis) + 1, x->end());
    return y;
  }

  std::optional<OnnxShape> of_windows() const {
    const OnnxShape *x = shape(0), *weights = shape(1);
    if (x == nullptr || x->size() < 3) return std::nullopt;
    if (node_.type.starts_with("Global")) {
      OnnxShape y(x->size(), 1);
      y[0] = (*x)[0];
      y[1] = (*x)[1];
      return y;
    }
    if (node_.type.starts_with("Conv")) {
      if (weights == nullptr || weights->size() != x->size()) return std::nullopt;
      return node_.type == "Conv" ? slide(*x, {weights->begin() + 2, weights->end()}, (*weights)[0])
                                  : transposed(*x, *weights);
    }
    const auto kernel = node_.integers.find("kernel_shape");
    return kernel == node_.integers.end() ? std::nullopt : std::optional{slide(*x, kernel->second, (*x)[1])};
  }

  std::optional<OnnxShape> of_matrices() const {
    if (node_.type == "MatMul") return matrix_product();
    const OnnxShape *a = shape(0), *b = shape(1);
    if (a == nullptr || b == nullptr || a->size() != 2 || b->size() != 2) return std::nullopt;
    return OnnxShape{(*a)[integer("transA", 0) != 0 ? 1 : 0], (*b)[integer("transB", 0) != 0 ? 0 : 1]};
  }

  std::optional<OnnxShape> first_output() const {
    static const std::map<std::string, std::optional<OnnxShape> (Inference::*)() const> by_type{
        {"Conv", &Inference::of_windows},
        {"ConvTranspose", &Inference::of_windows},
        {"MaxPool", &Inference::of_windows},
        {"AveragePool", &Inference::of_windows},
        {"LpPool", &Inference::of_windows},
        {"GlobalAveragePool", &Inference::of_windows},
        {"GlobalMaxPool", &Inference::of_windows},
        {"MatMul", &Inference::of_matrices},
        {"Gemm", &Inference::of_matrices},
        {"Reshape", &Inference::reshaped},
        {"Slice", &Inference::sliced},
        {"Concat", &Inference::concatenated},
        {"Resize", &Inference::resized},
        {"Upsample", &Inference::resized},
        {"Pad", &Inference::padded},
        {"Transpose", &Inference::permuted},
        {"Gather", &Inference::gathered}};
    if (const auto rule = by_type.find(node_.type); rule != by_type.end()) return (this->*rule->second)();
    const OnnxShape* x = shape(0);
    const std::string& type = node_.type;
    if (type == "Constant" || type == "ConstantOfShape" || type == "Range") {
      const Integers* sizes = integers(0);
      return type == "ConstantOfShape" && sizes != nullptr ? std::optional{*sizes} : std::nullopt;
    }
    if (x == nullptr) return std::nullopt;
    if (type == "Shape") return OnnxShape{static_cast<std::int64_t>(x->size())};
    if (type == "Flatten") {
      const std::int64_t axis = integer("axis", 1);
      const auto at =
          x->begin() +
          (axis == static_cast<std::int64_t>(x->size()) ? axis : static_cast<std::int64_t>(axis_of(axis, x->size())));
      return OnnxShape{count_of_axes(x->begin(), at), count_of_axes(at, x->end())};
    }
    if (type == "Einsum") return shape(1) != nullptr ? einsum_shape(text("equation"), *x, *shape(1)) : std::nullopt;
    const auto axes = list("axes", 1);
    if (type == "Unsqueeze") return axes ? std::optional{with_axes(*x, *axes)} : std::nullopt;
    if (type == "Squeeze") return without_axes(*x, axes, false, true);
    if (type.starts_with("Reduce")) return without_axes(*x, axes, integer("keepdims", 1) != 0, false);
    if (type == "Expand") return integers(1) != nullptr ? std::optional{broadcast(*x, *integers(1))} : std::nullopt;
    if (type == "DepthToSpace" || type == "SpaceToDepth" || type == "Tile" || type == "TopK" || type == "ArgMax" ||
        type == "NonMaxSuppression" || type == "GatherND" || type == "GatherElements" || type == "OneHot" ||
        type == "Loop" || type == "If" || type == "Scan")
      return std::nullopt;
    return of_all_inputs();
  }

  /// Element-wise operators, also those with parameters of other shapes, such as normalisations.
  std::optional<OnnxShape> of_all_inputs() const {
    static const std::set<std::string> broadcasting{"Add",   "Sub",     "Mul",  "Div",   "Pow", "Sum",
                                                    "Mean",  "Max",     "Min",  "Where", "Mod", "PRelu",
                                                    "Equal", "Greater", "Less", "And",   "Or"};
    const OnnxShape* x = shape(0);
    if (!broadcasting.contains(node_.type)) return *x;
    OnnxShape y = *x;
    for (std::size_t i = 1; i < node_.inputs.size(); ++i) {
      if (shape(i) == nullptr) return std::nullopt;
      y = broadcast(y, *shape(i));
    }
    return y;
  }

  void split() {
    const OnnxShape* x = shape(0);
    if (x == nullptr) return;
    const std::size_t axis = axis_of(integer("axis", 0), x->size());
    const auto sizes = list("split", 1);
    const auto parts = static_cast<std::int64_t>(node_.outputs.size());
    for (std::size_t i = 0; i < node_.outputs.size(); ++i) {
      OnnxShape y = *x;
      const std::int64_t even = (y[axis] + parts - 1) / parts;
      y[axis] =
          sizes && i < sizes->size() ? (*sizes)[i] : std::min(even, y[axis] - even * static_cast<std::int64_t>(i));
      set(i, y);
    }
  }

  void infer_integers() {
    if (node_.outputs.empty()) return;
    std::optional<Integers> result;
    const std::string& type = node_.type;
    if (type == "Shape" && shape(0) != nullptr) {
      result = *shape(0);
    } else if (type == "Concat") {
      result = Integers{};
      for (std::size_t i = 0; i < node_.inputs.size() && result; ++i) {
        if (integers(i) == nullptr || integers(i)->size() + result->size() > kMostIntegers)
          result.reset();
        else
          result->insert(result->end(), integers(i)->begin(), integers(i)->end());
      }
    } else if (integers(0) != nullptr) {
      result = of_integers(*integers(0));
    }
    if (result) values_.integers.try_emplace(node_.outputs[0], *result);
  }

  std::optional<Integers> of_integers(const Integers& x) const {
    const std::string& type = node_.type;
    if (type == "Cast" || type == "Identity" || type == "Unsqueeze" || type == "Squeeze" || type == "Reshape") return x;
    if (type == "ConstantOfShape") {
      if (x.size() != 1 || x[0] < 0 || x[0] > static_cast<std::int64_t>(kMostIntegers)) return std::nullopt;
      return Integers(static_cast<std::size_t>(x[0]), integer("value", 0));
    }
    const Integers* other = integers(1);
    if (type == "Where") {
      const Integers* third = integers(2);
      if (other == nullptr || third == nullptr || other->size() != x.size() || third->size() != x.size())
        return std::nullopt;
      Integers y;
      for (std::size_t i = 0; i < x.size(); ++i) y.push_back(x[i] != 0 ? (*other)[i] : (*third)[i]);
      return y;
    }
    if (type == "Gather" && other != nullptr) {
      Integers y;
      for (const std::int64_t at : *other) y.push_back(x[axis_of(at, x.size())]);
      return y;
    }
    if (type == "Slice") {
      const auto starts = list("starts", 1), ends = list("ends", 2);
      if (!starts || !ends || starts->size() != 1 || ends->size() != 1) return std::nullopt;
      const auto size = static_cast<std::int64_t>(x.size());
      const auto clamped = [&](std::int64_t at) {
        return std::clamp<std::int64_t>(at < 0 ? std::max(at, -size) + size : at, 0, size);
      };
      const std::int64_t begin = clamped((*starts)[0]), end = std::max(begin, clamped((*ends)[0]));
      return Integers{x.begin() + begin, x.begin() + end};
    }
    if (other == nullptr || (other->size() != x.size() && other->size() != 1)) return std::nullopt;
    Integers y;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::int64_t a = x[i], b = other->size() == 1 ? (*other)[0] : (*other)[i];
      if (std::min(a, b) < -kMostScalars || std::max(a, b) > kMostScalars) return std::nullopt;
      if (type == "Add")
        y.push_back(a + b);
      else if (type == "Sub")
        y.push_back(a - b);
      else if (type == "Mul" && (a == 0 || std::abs(b) <= kMostScalars / std::abs(a)))
        y.push_back(a * b);
      else if (type == "Equal")
        y.push_back(a == b ? 1 : 0);
      else if (type == "Div" && b != 0)
        y.push_back(a / b);
      else
        return std::nullopt;
    }
    return y;
  }

  const OnnxNode& node_;
  OnnxValues& values_;
};

}  // namespace

void infer(const OnnxNode& node, OnnxValues& values) { Inference{node, values}.run(); }

}  // namespace rehearse
