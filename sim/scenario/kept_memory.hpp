#pragma once
// What a GPU keeps for the backward pass, over the kernels of a step.

#include <array>
#include <cstddef>
#include <vector>

#include "platforms/profile.hpp"
#include "sim/base/units.hpp"
#include "sim/scenario/offloaded_layers.hpp"
#include "sim/scenario/pipeline_schedule.hpp"
#include "workloads/operator_graph.hpp"

namespace rehearse {

struct KeptBytes {
  Bytes activations{};  // what is computed again included
  Bytes logits{};       // Workload::logits_bytes

  Bytes total() const { return activations + logits; }
  KeptBytes& operator+=(const KeptBytes& more) {
    activations += more.activations;
    logits += more.logits;
    return *this;
  }
  KeptBytes& operator-=(const KeptBytes& less) {
    activations -= less.activations;
    logits -= less.logits;
    return *this;
  }
  bool operator==(const KeptBytes&) const = default;
};

/// [chunks][phases] operators of the passes of a GPU's parts of a model, in the order in which they run.
using PassOperators = std::vector<std::array<std::vector<int>, kPassPhases>>;
/// Those of a worker that has all of it, and does not split its backward pass.
PassOperators pass_operators(const OperatorGraph& graph);
/// [vertices] operators of the backward pass that are passes of their own where it is split: products that give gradients of
/// weights, and exchanges that nothing else reads.
std::vector<bool> are_of_weights(const OperatorGraph& graph);

/// [vertices] of a workload's graph: what each operator needs for the first time as it begins, and what is of no use any more
/// when it has ended. Of the two passes of a chunk all that is taken is given back:
///   activations        from the forward operator that keeps them to the last one of its backward pass
///   what is computed   from the first operator of its part that runs again to the last one of the part's backward pass;
///     again            where that is split, to the last one before gradients of weights, and what one reads to that
///   logits             from the first loss to the last operator that reads a loss, before gradients of weights where these are
///                      split off; without their gradient where it is written over them
struct KeptChanges {
  std::vector<KeptBytes> taken, given_back;
};
/// With activations as `framework` keeps them, with what it has gathered among `split` GPUs and the temporaries of weights'
/// gradients. What is `offloaded` is given back, and taken again, as OffloadedLayer says.
KeptChanges kept_changes(const Workload& workload, const PassOperators& operators,
                         const FrameworkMemory& framework = {}, int split = 1,
                         const std::vector<OffloadedLayer>& offloaded = {});

/// [vertices] activations that the operator keeps, as `framework` does.
std::vector<Bytes> kept_activations(const Workload& workload, const FrameworkMemory& framework, int split);

/// FrameworkMemory::gradient_buffers of these operators:
///   sum over shapes of weights of rows x columns x bytes_of_parameter
/// Weights of one shape share a buffer, those of experts among them.
Bytes gradient_buffers(const Workload& workload, const PassOperators& operators, double bytes_of_parameter);

/// When a stage keeps the most.
struct FullestMoment {
  KeptBytes kept;
  std::size_t slot = 0;  // of its list
  int vertex = -1;       // that begins then; -1: nothing is kept
};
/// Walks the slots of a stage, each the operators of its chunk and phase: the first of the moments with the most.
FullestMoment fullest_moment(const KeptChanges& changes, const std::vector<PipelineSlot>& slots,
                             const PassOperators& operators);

}  // namespace rehearse
