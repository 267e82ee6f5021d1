#pragma once
// A part of all-reduces: workers that hold each layer together, each with a part of its products (TensorSplit in
// workloads/graph_builder.hpp), and in which order workers stand along the axes of parallelism.

#include <optional>
#include <string>
#include <vector>

#include "sim/scenario/scenario.hpp"

namespace rehearse {

StrategyKeys tensor_keys();

/// The split of the layers, into which the scenario's workloads are built anew. Throws InputError at the key, with the nearest
/// degree that would do, if the model cannot be split so. `spreads_experts`: the strategy says how experts of mixtures are split.
TensorSplit read_tensor(const JsonReader& json, Scenario& scenario, bool spreads_experts, Json& effective);

/// Splits over more of the workers of a machine that would do, with sequence parallelism where none is split yet.
std::vector<TensorSplit> more_split(const Scenario& scenario);

/// Axes, the fastest first. By default frameworks' order if layers are split (tensor, data, pipeline: Megatron-LM, DeepSpeed,
/// nanotron and torchtitan), else that of consecutive stages (tensor, pipeline, data).
std::vector<Axis> read_rank_order(const JsonReader& json, bool is_split, Json& effective);

/// "tensor parallel over 8 workers with sequence parts".
std::string title_of(const TensorSplit& split);

/// Of tensor and context parallelism: "each layer's 8 workers send one another 1.2 GB in 64 collectives of a micro-batch; ".
std::string split_text(const Scenario& scenario);

}  // namespace rehearse
