#pragma once
// A model of a recorded step: what a worker computes, in the recorded times, for any cluster and strategy.

#include <optional>
#include <string>
#include <vector>

#include "sim/job/replay.hpp"
#include "workloads/operator_graph.hpp"
#include "workloads/timed_layers.hpp"

namespace rehearse {

struct RecordedModelRequest {
  int batch = 0;  // samples of a worker and step: no trace says how many there were
  bool scales_with_batch = false;
  /// Whose trainable variables the recorded gradients are, in the order in which it creates them; for traces without
  /// shapes.
  std::optional<Workload> variables;
  RecordedChange change{};  // what if: of the work that was recorded
  std::string gpu{};        // of the catalog, on which kernels then run; empty: not known
};

struct RecordedModel {
  TimedLayers layers;  // one for each gradient, in the order of the forward pass
  std::string step;    // that was taken
  Seconds measured{};  // of that step, waits for collectives included
  Seconds compute{};   // of that step, were collectives to take no time; what the layers' times add up to
  std::vector<std::string> remarks;
};

/// Takes the step of the first rank whose time without collectives is the median, as recorded, and what is asked makes
/// of it. Its layers are what the backward pass
/// adds from one gradient to the next, by the dates at which the GPU has completed them:
///   backward_i = date(gradient_i) - date(gradient_i-1)
/// The forward pass, from the end of the step before to the first work that the backward pass launches, is divided among
/// them as the backward pass is. Work after the last gradient is the optimizer's; what the host does then until the step
/// ends counts with the forward pass, before which it comes. Where neither shapes nor
/// `variables` tell the sizes of gradients, those that an all-reduce of known payload exchanges together are one layer.
/// Throws InputError if there is no such step, or nothing tells the sizes.
RecordedModel recorded_model(const RecordedJob& job, const RecordedModelRequest& request);

}  // namespace rehearse
