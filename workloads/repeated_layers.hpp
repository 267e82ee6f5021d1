#pragma once
// Large models repeat their layers: a few of them are built, and the others are copies of one of these.

#include <optional>
#include <span>
#include <string>

#include "workloads/operator_graph.hpp"

namespace rehearse {

/// Layers of a stack, one behind another, that are made of the same.
struct AlikeLayers {
  /// Of so many the first three and the last one are built, the others are copies of the third.
  static constexpr int kFewest = 6;
  static constexpr int kBuiltBefore = 3;

  int first = 0, count = 0;  // layers, from 0 on

  bool are_enough() const { return count >= kFewest; }
  int copies() const { return count - kBuiltBefore - 1; }
  bool are_copies(int layer) const { return layer >= first + kBuiltBefore && layer + 1 < first + count; }
};

/// The workload with the copies that are left out of `built`: operators, edges and variables are those, in that order, of a
/// workload in which all layers are built, but the graph stores each operator of copies once. Names of a layer begin with its
/// `stem` and its number from 1 on, "encoder/layer" and 3; the layers are in their order. Nothing if the third of the alike
/// layers differs from the second by more than its place, or if anything besides its neighbours reads it: then layers are not
/// repetitions of each other, as where a gradient sums up what all of them give.
std::optional<Workload> repeat_layers(const Workload& built, const std::string& stem,
                                      std::span<const AlikeLayers> runs);

}  // namespace rehearse
