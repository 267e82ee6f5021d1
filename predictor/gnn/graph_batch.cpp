#include "predictor/gnn/graph_batch.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "sim/base/errors.hpp"

namespace rehearse {
namespace {

void require(bool condition, const std::string& message) {
  if (!condition) throw InputError{"batch: " + message};
}

void require_size(const char* what, const std::vector<double>& values, std::size_t expected) {
  require(values.size() == expected, std::string{"expected "} + std::to_string(expected) + " " + what + "; found " +
                                         std::to_string(values.size()));
  require(std::ranges::all_of(values, [](double value) { return std::isfinite(value); }),
          std::string{"expected finite "} + what);
}

}  // namespace

void check_batch(const GraphBatch& batch, std::size_t features, std::size_t outputs) {
  require(batch.offsets.size() >= 2 && batch.offsets.front() == 0, "expected at least one graph, and offsets from 0");
  for (std::size_t i = 1; i < batch.offsets.size(); ++i)
    require(batch.offsets[i - 1] < batch.offsets[i], "graph " + std::to_string(i - 1) + " has no node");
  require_size("node features", batch.node_features, batch.node_count() * features);
  for (const auto& [from, to] : batch.edges) {
    require(from < batch.node_count() && to < batch.node_count(), "an edge leads to no node");
    const auto graph_of = [&](std::uint32_t node) {
      return std::upper_bound(batch.offsets.begin(), batch.offsets.end(), node) - batch.offsets.begin();
    };
    require(graph_of(from) == graph_of(to), "an edge leads from one graph to another");
    require(from != to, "an edge leads from a node to itself");
  }
  if (!batch.labels.empty()) require_size("labels", batch.labels, batch.graph_count() * outputs);
  if (!batch.label_weights.empty()) {
    require_size("label weights", batch.label_weights, batch.graph_count() * outputs);
    require(std::ranges::all_of(batch.label_weights, [](double weight) { return weight >= 0.0; }),
            "a label weight is negative");
  }
}

}  // namespace rehearse
