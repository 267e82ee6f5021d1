#pragma once
// A node of TensorFlow's graphs on the way to the shapes of its outputs, and the rules by which it gets there.

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/importers/tensorflow_shapes.hpp"

namespace rehearse::tensorflow {

constexpr std::int64_t kOpen = -1;  // the size of an axis that is not known
constexpr std::size_t kMostAxesOfTensor = 8;
constexpr std::size_t kMostNumbers = 64;
constexpr std::size_t kMostParts = 100'000;  // outputs of one operator
constexpr double kUnknownNumber = std::numeric_limits<double>::quiet_NaN();

/// Throws InputError, without a place.
[[noreturn]] void fail(const std::string& message);

bool is_closed(const GraphDefShape& shape);
/// The product of axes; kOpen if one is. Throws InputError beyond kMostScalars, as times() does.
std::int64_t count_of_axes(const GraphDefShape& shape);
/// A number as a size; kOpen if it is none.
std::int64_t size_of(double number);
std::int64_t times(std::int64_t a, std::int64_t b);
/// Axes from the last one on, of which one may be 1. Throws InputError if they do not fit.
GraphDefShape broadcast(const GraphDefShape& a, const GraphDefShape& b);
/// The place of an axis that may be counted from the last one. Throws InputError if there is none.
std::size_t axis_of(std::int64_t axis, std::size_t axes);

/// One node with what is known of its inputs and, so far, of its outputs, of which there is at least one.
struct Node {
  using Numbers = std::vector<double>;

  const GraphDefNode& definition;
  const std::vector<const TensorflowValue*>& inputs;
  std::vector<TensorflowValue> outputs{std::vector<TensorflowValue>(1)};

  // What is known of inputs and attributes; none: nothing.
  const GraphDefShape* shape(std::size_t i) const;
  const Numbers* numbers_of(std::size_t i) const;
  std::optional<std::int64_t> number_of(std::size_t i) const;
  std::int64_t integer(const char* name, std::int64_t fallback) const;
  std::vector<std::int64_t> integers(const char* name) const;
  std::string text(const char* name) const;
  bool is_channels_first() const { return definition.data_format == "NCHW"; }

  /// Of the first output.
  void set(const std::optional<GraphDefShape>& shape) { outputs[0].shape = shape; }
  void set_parts(std::size_t count);
};

/// What follows for the outputs of the operators that are named, between blanks.
struct Rule {
  void (*apply)(Node& node);
  std::string_view operators;
};
/// Of products, convolutions and what moves windows over images.
std::span<const Rule> layer_rules();
/// Of all others.
std::span<const Rule> axis_rules();

/// Those of the first output, whose shape is known, of operators on small tensors.
std::optional<Node::Numbers> numbers(const Node& node);

}  // namespace rehearse::tensorflow
