#pragma once
// A model cut into the parts that the stages of a pipeline have: who runs each operator, and what passes between them.

#include <stdexcept>
#include <string>
#include <vector>

#include "sim/scenario/gradient_units.hpp"
#include "sim/scenario/kernel_time.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/states.hpp"

namespace rehearse {

/// The layers of a model, by its blocks (model_blocks.hpp), or measured ones; none of others.
struct ModelLayers {
  std::vector<std::size_t> begins;  // [layers] forward operators
  std::size_t end = 0;              // of the last one
};
/// A layer begins with the first operator that reads a variable of its block. The last one ends before the first operator behind
/// its variables that reads another one, or is a loss.
ModelLayers list_layers(const Workload& workload);

/// Without chunks a stage has one part of the model, with them those of Pipeline::part_of(). "Parts" are those of all copies.
struct PipelineStages {
  std::vector<int> of_operator;                     // [operators] part of the first copy; -1: of the update
  std::vector<std::vector<int>> of_variable;        // [variables] in order: each stage that uses it holds it
  std::vector<std::vector<int>> parts_of_variable;  // [variables] in order: that use it
  std::vector<Bytes> variables;                     // [stages] trainable ones
  std::vector<HeldParameters> parameters;           // [stages]
  std::vector<double> updated;                      // [stages] of the whole model's update
  /// [parts - 1] of a micro-batch to the next part, by each worker, and as many of gradients back.
  std::vector<Bytes> passed;
  int copies = 1;               // of the model, Pipeline::copies()
  bool gathers_passed = false;  // those that receive it gather it from their parts, Pipeline::scatters
  std::vector<int> of_part;     // [parts] the stage that has it
  std::vector<Bytes> kept;  // [parts] of a micro-batch for its backward pass, by what first keeps it; without logits

  int stages() const { return static_cast<int>(variables.size()); }
  int parts() const { return static_cast<int>(kept.size()); }
  int stage_of(int part) const { return of_part[static_cast<std::size_t>(part)]; }
  /// With which the operator runs on that stage; -1: with none.
  int part_on(int stage, std::size_t of) const {
    for (int part = of_operator[of]; part >= 0 && part < parts(); part += parts() / copies)
      if (stage_of(part) == stage) return part;
    return -1;
  }
  /// Whether it has the samples: those of a step, divided among the copies.
  bool has_samples(int stage) const { return stage == 0 || (copies > 1 && stage + 1 == stages()); }
};

/// A model that cannot be cut as the pipeline says.
struct UncutModel : std::invalid_argument {
  UncutModel(std::string of, const std::string& what) : std::invalid_argument{what}, key{std::move(of)} {}
  std::string key;  // of the pipeline, that asks for it
};

/// Parts are consecutive operators, each with its backward pass; what passes are the outputs of all layers before that any layer
/// after reads: stages pass on what later ones need.
///
/// By time the longest part, by its kernels on GPUs of the first group of workers, is as short as can be; of such cuts, in order,
/// that which leaves a part nearest to its share of what is left. The model is cut where fewer values pass than on both sides,
/// such as between the blocks of a transformer, or anywhere between layers if there are too few such places.
///
/// By layers each part has whole ones: blocks of the model (model_blocks.hpp), or measured layers. With L of them, and one more
/// for what comes before and after each if that is counted (Megatron-LM's account_for_embedding_in_pipeline_split and
/// account_for_loss_in_pipeline_split), n parts have L / n, those that have what is counted one less; or as many as are listed. What comes before the
/// first layer goes with the first part, what comes after the last one with the last part.
/// Throws UncutModel.
PipelineStages cut_into_stages(const Scenario& scenario);

/// Layers of the model that a cut by layers counts, with those that are counted before and after them; 0: the model has none.
int layers_to_cut(const Workload& workload, const LayerCut& cut);

/// What a stage does of `whole`: its kernels, its part of the update by the bytes of variables; the samples go to the
/// first one. Each stage that holds a variable completes what it adds to its gradient itself.
ComputePlan plan_stage(const ComputePlan& whole, const PipelineStages& stages, int stage, const Workload& workload);

/// Units of the variables that a stage holds, of one chunk after the other: gradients of a chunk are ready together. Of a variable
/// that several of its chunks use they are ready with those of the first.
GradientUnits plan_stage_units(const Scenario& scenario, const PipelineStages& stages, int stage);

}  // namespace rehearse
