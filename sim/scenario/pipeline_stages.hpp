#pragma once
// A model cut into the stages of a pipeline: who runs each operator, and what passes between them.

#include <vector>

#include "sim/scenario/gradient_units.hpp"
#include "sim/scenario/kernel_time.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

struct PipelineStages {
  std::vector<int> of_operator;               // [operators] -1: of the update
  std::vector<std::vector<int>> of_variable;  // [variables] in order: each stage that uses it holds it
  std::vector<Bytes> variables;               // [stages] trainable ones
  std::vector<std::int64_t> parameters;       // [stages] scalars of those
  std::vector<Bytes> passed;  // [stages - 1] of a micro-batch to the next stage, and as many of gradients back
  std::vector<Bytes> kept;    // [stages] of a micro-batch for its backward pass, by what first keeps it; without logits
  std::vector<Bytes> kept_again;  // [stages] by the largest part that is computed again (Operator::kept_again)
};

/// Stages are consecutive operators, each with its backward pass. The longest of them, by its kernels on GPUs of the
/// first group of workers, is as short as can be; of such cuts, in order, that which leaves a stage nearest to its
/// share of what is left. The model is cut where fewer values pass than on both sides, such as between the blocks of a
/// transformer, or anywhere between layers if there are too few such places. What passes are the outputs of all layers
/// before that any layer after reads: stages pass on what later ones need. Throws std::invalid_argument if it cannot be
/// cut into so many.
PipelineStages cut_into_stages(const Scenario& scenario);

/// What a stage does of `whole`: its kernels, its part of the update by the bytes of variables; the samples go to the
/// first one.
ComputePlan plan_stage(const ComputePlan& whole, const PipelineStages& stages, int stage, const Workload& workload);

/// Units of the variables that a stage holds.
GradientUnits plan_stage_units(const Scenario& scenario, const PipelineStages& stages, int stage);

/// Micro-batches whose activations a stage keeps at a time.
int microbatches_in_flight(const Pipeline& pipeline, int microbatches, int stage);

}  // namespace rehearse
