// Numbers of small tensors, from which others get their shapes.

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "workloads/importers/detail/tensorflow_node.hpp"

namespace rehearse::tensorflow {

namespace {

using Shape = GraphDefShape;
using Numbers = Node::Numbers;

std::optional<Numbers> joined(const Node& node) {
  const std::size_t end =
      node.definition.op == "Pack" || node.inputs.empty() ? node.inputs.size() : node.inputs.size() - 1;
  Numbers all;
  for (std::size_t i = 0; i < end; ++i) {
    const Numbers* part = node.numbers_of(i);
    const Shape* own = node.shape(i);
    if (own == nullptr || own->size() > (node.definition.op == "Pack" ? 0U : 1U)) return std::nullopt;
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

std::optional<Numbers> folded(const Node& node, const Numbers& x) {
  if (!node.outputs[0].shape || count_of_axes(*node.outputs[0].shape) != 1 || x.empty()) return std::nullopt;
  double y = x[0];
  for (std::size_t i = 1; i < x.size(); ++i)
    y = node.definition.op == "Prod"  ? y * x[i]
        : node.definition.op == "Sum" ? y + x[i]
        : std::isnan(x[i])            ? x[i]
        : node.definition.op == "Max" ? std::max(y, x[i])
                                      : std::min(y, x[i]);
  return Numbers{y};
}

/// Of a tensor of one axis.
std::optional<Numbers> cut(const Node& node, const Numbers& x) {
  const Numbers* begin = node.numbers_of(1);
  if (node.shape(0) == nullptr || node.shape(0)->size() != 1 || begin == nullptr || begin->size() != 1)
    return std::nullopt;
  const auto all = static_cast<double>(x.size());
  if (node.integer("new_axis_mask", 0) != 0 || node.integer("ellipsis_mask", 0) != 0) return std::nullopt;
  const Numbers* strides = node.numbers_of(3);
  const bool is_strided = node.definition.op == "StridedSlice";
  if (is_strided && (strides == nullptr || strides->size() != 1 || (*strides)[0] != 1)) return std::nullopt;
  double first = (*begin)[0];
  if (is_strided && (node.integer("begin_mask", 0) & 1) != 0) first = 0;
  if (first < 0) first += all;
  if (!(first >= 0 && first <= all)) return std::nullopt;
  const bool is_one = is_strided && (node.integer("shrink_axis_mask", 0) & 1) != 0;
  const std::int64_t count = is_one                                                        ? 1
                             : node.outputs[0].shape && node.outputs[0].shape->size() == 1 ? (*node.outputs[0].shape)[0]
                                                                                           : kOpen;
  if (count < 0 || first + static_cast<double>(count) > all) return std::nullopt;
  const auto from = x.begin() + static_cast<std::ptrdiff_t>(first);
  return Numbers{from, from + count};
}

std::optional<Numbers> combined(const Node& node, const Numbers& a, const Numbers& b) {
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
  const auto rule = all.find(node.definition.op);
  if (rule == all.end() || (a.size() != b.size() && a.size() != 1 && b.size() != 1)) return std::nullopt;
  Numbers y;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const double result = rule->second(a.size() == 1 ? a[0] : a[i], b.size() == 1 ? b[0] : b[i]);
    y.push_back(node.definition.op == "Div" && !node.definition.is_floating ? std::trunc(result) : result);
  }
  return y;
}

}  // namespace

std::optional<Node::Numbers> numbers(const Node& node) {
  const std::string& op = node.definition.op;
  const Numbers *a = node.numbers_of(0), *b = node.numbers_of(1);
  if (op == "Pack" || op == "ConcatV2") return joined(node);
  if (op == "Fill" && b != nullptr && b->size() == 1 && node.outputs[0].shape && is_closed(*node.outputs[0].shape)) {
    const std::int64_t count = count_of_axes(*node.outputs[0].shape);
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
    if (!node.definition.is_floating)
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
  if (op == "Prod" || op == "Sum" || op == "Max" || op == "Min") return folded(node, *a);
  if (op == "StridedSlice" || op == "Slice") return cut(node, *a);
  if ((op == "Gather" || op == "GatherV2") && b != nullptr && node.shape(0) != nullptr && node.shape(0)->size() == 1) {
    Numbers y;
    for (const double at : *b) {
      if (!(at >= 0 && at < static_cast<double>(a->size()))) return std::nullopt;
      y.push_back((*a)[static_cast<std::size_t>(at)]);
    }
    return y;
  }
  return b == nullptr ? std::nullopt : combined(node, *a, *b);
}

}  // namespace rehearse::tensorflow
