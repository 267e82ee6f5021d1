#include "sim/scenario/offloaded_layers.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "sim/scenario/kept_memory.hpp"
#include "workloads/model_blocks.hpp"

namespace rehearse {

namespace {

std::size_t place_of(int index) { return static_cast<std::size_t>(index); }

/// Operators that follow one another and are of the same block, or of none.
struct Segment {
  int block = -1;
  std::vector<int> forward, backward;  // in the order in which they run
};

/// An operator is of the block whose variables it reads, or of that of the one before.
std::vector<Segment> segments_of(const OperatorGraph& graph, const ModelBlocks& blocks) {
  std::vector<Segment> segments(1);
  std::vector<std::size_t> of(graph.size());
  std::size_t latest = 0;  // of the backward pass
  for (std::size_t v = 0; v < graph.size(); ++v) {
    const Operator& op = graph[v];
    if (op.phase == Phase::kUpdate) continue;
    if (op.is_of_forward_pass()) {
      if (!op.reads_variables.empty())
        if (const int block = blocks.of_variable[place_of(op.reads_variables.front())]; block != segments.back().block)
          segments.push_back({.block = block, .forward = {}, .backward = {}});
      of[v] = segments.size() - 1;
      segments.back().forward.push_back(static_cast<int>(v));
    } else {
      if (op.backward_of >= 0) latest = of[place_of(op.backward_of)];
      segments[latest].backward.push_back(static_cast<int>(v));
    }
  }
  return segments;
}

int first_of(const std::vector<int>& vertices) { return vertices.empty() ? -1 : vertices.front(); }
int last_of(const std::vector<int>& vertices) { return vertices.empty() ? -1 : vertices.back(); }

}  // namespace

std::vector<OffloadedLayer> offloaded_layers(const Workload& workload, double share, const FrameworkMemory& framework,
                                             int split) {
  const ModelBlocks blocks = model_blocks(workload);
  const std::vector<Segment> segments = segments_of(workload.graph, blocks);
  const auto count = std::ranges::count_if(segments, [](const Segment& segment) { return segment.block >= 0; });
  const auto most = std::min<std::ptrdiff_t>(count - 1, std::llround(std::ceil(share * static_cast<double>(count))));
  const std::vector<Bytes> kept = kept_activations(workload, framework, split);
  std::vector<OffloadedLayer> layers;
  for (std::size_t s = 0; s + 1 < segments.size() && std::ssize(layers) < most; ++s) {
    const Segment &own = segments[s], &next = segments[s + 1];
    if (own.block < 0) continue;
    const bool has_other = s + 2 < segments.size();
    const int before = has_other ? last_of(segments[s + 2].backward) : -1;
    const int at_next = first_of(next.backward);
    layers.push_back({.name = blocks.names[place_of(own.block)],
                      .last_forward = last_of(own.forward),
                      .awaited_by = has_other ? first_of(segments[s + 2].forward) : -1,
                      .backward_before = before >= 0 ? before : last_of(segments.back().forward),
                      .first_backward = first_of(own.backward),
                      .gone_after = last_of(next.forward),
                      .back_at = at_next >= 0 ? at_next : first_of(own.backward)});
    for (const int v : own.forward) layers.back().bytes += kept[place_of(v)];
  }
  std::erase_if(layers, [](const OffloadedLayer& layer) { return layer.bytes == Bytes{} || layer.first_backward < 0; });
  return layers;
}

}  // namespace rehearse
