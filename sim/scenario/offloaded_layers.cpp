#include "sim/scenario/offloaded_layers.hpp"

#include <algorithm>
#include <cmath>

#include "sim/scenario/kept_memory.hpp"
#include "sim/scenario/pipeline_stages.hpp"
#include "workloads/model_blocks.hpp"

namespace rehearse {

namespace {

std::size_t place_of(int index) { return static_cast<std::size_t>(index); }

/// Operators of a layer, or of what stands before or behind all of them, in the order in which they run.
struct Segment {
  std::vector<int> forward, backward;
};

/// [layers + 2] what stands before the layers, each of them, what stands behind.
std::vector<Segment> segments_of(const OperatorGraph& graph, const ModelLayers& layers) {
  std::vector<std::size_t> begins = layers.begins;
  begins.push_back(layers.end);
  std::vector<Segment> segments(begins.size() + 1);
  std::vector<std::size_t> of(graph.size());
  std::size_t latest = 0;  // of the backward pass
  for (std::size_t v = 0; v < graph.size(); ++v) {
    const OperatorAt op = graph[v];
    if (op->phase == Phase::kUpdate) continue;
    if (op->is_of_forward_pass()) {
      of[v] = static_cast<std::size_t>(std::ranges::upper_bound(begins, v) - begins.begin());
      segments[of[v]].forward.push_back(static_cast<int>(v));
    } else {
      if (op.backward_of() >= 0) latest = of[place_of(op.backward_of())];
      segments[latest].backward.push_back(static_cast<int>(v));
    }
  }
  return segments;
}

/// Of the layer that begins with the operator.
std::string name_of(const ModelBlocks& blocks, const OperatorAt& begin) {
  const auto block = [&](int variable) { return blocks.of_variable[place_of(variable)]; };
  const std::vector<int> reads = begin.reads_variables();
  const auto own = std::ranges::find_if(reads, [&](int variable) { return block(variable) >= 0; });
  return blocks.names[place_of(block(*own))];
}

int first_of(const std::vector<int>& vertices) { return vertices.empty() ? -1 : vertices.front(); }
int last_of(const std::vector<int>& vertices) { return vertices.empty() ? -1 : vertices.back(); }

}  // namespace

std::vector<OffloadedLayer> offloaded_layers(const Workload& workload, double share, const FrameworkMemory& framework,
                                             int split) {
  const ModelBlocks blocks = model_blocks(workload);
  if (blocks.names.empty()) return {};
  const ModelLayers all = list_layers(workload);
  const std::vector<Segment> segments = segments_of(workload.graph, all);
  const auto count = std::ssize(all.begins);
  const auto most = std::min<std::ptrdiff_t>(count - 1, std::llround(std::ceil(share * static_cast<double>(count))));
  const std::vector<Bytes> kept = kept_activations(workload, framework, split);
  std::vector<OffloadedLayer> layers;
  for (std::size_t s = 1; std::ssize(layers) < most; ++s) {
    const Segment &own = segments[s], &next = segments[s + 1], &other = segments[s + 2];
    const int before = last_of(other.backward);
    const int at_next = first_of(next.backward);
    layers.push_back({.name = name_of(blocks, workload.graph[all.begins[s - 1]]),
                      .last_forward = last_of(own.forward),
                      .awaited_by = first_of(other.forward),
                      .backward_before = before >= 0 ? before : last_of(next.forward),
                      .first_backward = first_of(own.backward),
                      .gone_after = last_of(next.forward),
                      .back_at = at_next >= 0 ? at_next : first_of(own.backward)});
    for (const int v : own.forward) layers.back().bytes += kept[place_of(v)];
  }
  std::erase_if(layers, [](const OffloadedLayer& layer) { return layer.bytes == Bytes{} || layer.first_backward < 0; });
  return layers;
}

}  // namespace rehearse
