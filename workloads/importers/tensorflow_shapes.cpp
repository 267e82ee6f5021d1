#include "workloads/importers/tensorflow_shapes.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "sim/base/errors.hpp"
#include "workloads/importers/detail/tensorflow_node.hpp"
#include "workloads/sizes.hpp"

namespace rehearse {

namespace tensorflow {

using Shape = GraphDefShape;

void fail(const std::string& message) { throw InputError{message}; }

bool is_closed(const Shape& shape) {
  return std::ranges::all_of(shape, [](std::int64_t size) { return size >= 0; });
}

std::int64_t count_of_axes(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    if (size < 0) return kOpen;
    if (size > 0 && count > kMostScalars / size) fail("more than 2^40 scalars");
    count *= size;
  }
  return count;
}

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

const Shape* Node::shape(std::size_t i) const {
  return i < inputs.size() && inputs[i] != nullptr && inputs[i]->shape ? &*inputs[i]->shape : nullptr;
}

const Node::Numbers* Node::numbers_of(std::size_t i) const {
  return i < inputs.size() && inputs[i] != nullptr && inputs[i]->numbers ? &*inputs[i]->numbers : nullptr;
}

std::optional<std::int64_t> Node::number_of(std::size_t i) const {
  const Numbers* all = numbers_of(i);
  if (all == nullptr || all->size() != 1 || !(std::abs((*all)[0]) < 1e12)) return std::nullopt;
  return static_cast<std::int64_t>((*all)[0]);
}

std::int64_t Node::integer(const char* name, std::int64_t fallback) const {
  const auto found = definition.integers.find(name);
  return found == definition.integers.end() || found->second.empty() ? fallback : found->second[0];
}

std::vector<std::int64_t> Node::integers(const char* name) const {
  const auto found = definition.integers.find(name);
  return found == definition.integers.end() ? std::vector<std::int64_t>{} : found->second;
}

std::string Node::text(const char* name) const {
  const auto found = definition.texts.find(name);
  return found == definition.texts.end() || found->second.empty() ? "" : found->second[0];
}

std::size_t axis_of(std::int64_t axis, std::size_t axes) {
  const auto count = static_cast<std::int64_t>(axes);
  if (axis < -count || axis >= count) fail("axis " + std::to_string(axis) + " of " + std::to_string(axes));
  return static_cast<std::size_t>(axis < 0 ? axis + count : axis);
}

void Node::set_parts(std::size_t count) { outputs.resize(std::clamp<std::size_t>(count, 1, kMostParts)); }

}  // namespace tensorflow

namespace {

using namespace tensorflow;

void check(const Shape& shape) {
  if (shape.size() > kMostAxesOfTensor) fail("more than 8 axes");
  for (const std::int64_t size : shape)
    if (size > kMostScalars) fail("an axis of " + std::to_string(size));
  (void)count_of_axes(shape);
}

/// What the file states holds; what it leaves open follows from the inputs.
void complete(Node& node, std::size_t i) {
  const bool is_handle =
      node.definition.op == "VarHandleOp" && node.outputs[0].shape;  // a scalar, of which nobody asks
  if (!node.definition.shapes[i] || is_handle) return;
  if (node.definition.op == "Placeholder" && node.definition.shapes[i]->empty()) return;
  if (i >= node.outputs.size()) node.outputs.resize(i + 1);
  const Shape& stated = *node.definition.shapes[i];
  std::optional<Shape>& known = node.outputs[i].shape;
  if (!known || known->size() != stated.size()) {
    if (!known || is_closed(stated)) known = stated;
    return;
  }
  for (std::size_t axis = 0; axis < stated.size(); ++axis)
    if (stated[axis] >= 0) (*known)[axis] = stated[axis];
}

const std::map<std::string_view, void (*)(Node&)>& rules() {
  static const auto all = [] {
    std::map<std::string_view, void (*)(Node&)> table;
    for (const auto rules : {layer_rules(), axis_rules()})
      for (auto [apply, names] : rules)
        while (!names.empty()) {
          const std::size_t end = std::min(names.find(' '), names.size());
          table.emplace(names.substr(0, end), apply);
          names.remove_prefix(std::min(end + 1, names.size()));
        }
    return table;
  }();
  return all;
}

}  // namespace

std::vector<TensorflowValue> infer_tensorflow(const GraphDefNode& definition,
                                              const std::vector<const TensorflowValue*>& inputs) {
  Node node{.definition = definition, .inputs = inputs};
  if (const auto rule = rules().find(definition.op); rule != rules().end()) rule->second(node);
  if (!node.outputs[0].numbers) node.outputs[0].numbers = numbers(node);
  for (std::size_t i = 0; i < std::min(definition.shapes.size(), kMostParts); ++i) complete(node, i);
  for (const TensorflowValue& output : node.outputs)
    if (output.shape) check(*output.shape);
  return std::move(node.outputs);
}

}  // namespace rehearse
