#pragma once
// Shapes of what ONNX operators give, and the values of small integer tensors, from which others get their shapes.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rehearse {

using OnnxShape = std::vector<std::int64_t>;

/// An operator with its attributes that matter to shapes.
struct OnnxNode {
  std::string name, type;
  std::vector<std::string> inputs, outputs;                     // empty: left out
  std::map<std::string, std::vector<std::int64_t>> integers{};  // attributes of one or several
  std::map<std::string, std::vector<double>> numbers{};
  std::map<std::string, std::string> texts{};
};

/// What is known of the values of a graph.
struct OnnxValues {
  std::map<std::string, OnnxShape> shapes;
  std::map<std::string, std::vector<std::int64_t>> integers;  // of at most 64 scalars
  std::map<std::string, std::vector<double>> numbers;         // the same, such as scales
};

/// Adds what follows for the outputs of `node`; what does not follow is left out. Shapes that are known already stay.
/// Source: the operators' definitions, onnx/docs/Operators.md. Throws InputError, without a place, if sizes do not fit.
void infer(const OnnxNode& node, OnnxValues& values);

}  // namespace rehearse
