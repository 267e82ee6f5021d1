#pragma once
// What a network is given: a few graphs at once, their nodes one after another.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace rehearse {

/// Undirected graphs. Node numbers count through the batch; graph g has the nodes offsets[g] .. offsets[g + 1] - 1.
struct GraphBatch {
  std::vector<double> node_features;                           // [nodes][features]
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;  // within a graph, each once, no self loops
  std::vector<std::uint32_t> offsets{0};                       // [graphs + 1], rising
  std::vector<double> labels;         // [graphs][outputs], in their own units; empty if not known
  std::vector<double> label_weights;  // [graphs][outputs], 0 for a label that is not known; empty: all 1

  std::size_t graph_count() const { return offsets.size() - 1; }
  std::size_t node_count() const { return offsets.back(); }
};

/// InputError, "batch: ...", unless offsets, edges and sizes fit together, with `features` per node and `outputs`
/// labels per graph (or no labels at all), all of them finite, and every graph has a node.
void check_batch(const GraphBatch& batch, std::size_t features, std::size_t outputs);

}  // namespace rehearse
