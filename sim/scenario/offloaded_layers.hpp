#pragma once
// Layers whose activations wait in the host's memory for their backward pass.

#include <string>
#include <vector>

#include "platforms/profile.hpp"
#include "sim/base/units.hpp"
#include "workloads/operator_graph.hpp"

namespace rehearse {

/// What a layer keeps for the backward pass (kept_memory.hpp) is copied to the host while the next layer runs, and the one after
/// that waits for it; in the backward pass it comes back while the next layer's runs, once that of the one after has ended. So a GPU
/// has the activations of two layers besides those of what is not offloaded. Source: Megatron-LM, cpu_offloading_num_layers, with
/// Transformer Engine's CpuOffloadHookWithOffloadHandler. Vertices of the graph; -1: none.
struct OffloadedLayer {
  std::string name;
  Bytes bytes{};
  int last_forward = -1, awaited_by = -1;  // the copy to the host begins behind the first; the second waits for it
  int backward_before = -1, first_backward = -1;  // the copy back begins behind the first; the second waits for it
  int gone_after = -1, back_at = -1;  // the GPU keeps it to the end of the first, and again as the second begins
};

/// Of the model's blocks (model_blocks.hpp), in the order of the forward pass, so many by share, rounded up, but for the last one,
/// whose backward pass comes first. None of a model without blocks.
std::vector<OffloadedLayer> offloaded_layers(const Workload& workload, double share, const FrameworkMemory& framework,
                                             int split);

}  // namespace rehearse
