#pragma once
// A workload of measured layers: how long each ran, instead of what it computes.

#include <optional>
#include <string>
#include <vector>

#include "sim/base/collective_kind.hpp"
#include "sim/base/json.hpp"
#include "workloads/graph_builder.hpp"
#include "workloads/operator_graph.hpp"

namespace rehearse {

struct TimedLayer {
  std::string name;
  Bytes gradient{};  // at 4 bytes per scalar; 0 for a layer without parameters
  Seconds forward{};
  Seconds backward{};
  Bytes output{};               // at 4 bytes per scalar, of the batch: what the next layer reads; 0: not stated
  std::optional<Bytes> kept{};  // of the batch, for its backward pass; without it, what it reads
};

/// Layers run forward in order, then backward in reverse; a layer's gradient is ready when its backward pass ends.
struct TimedLayers {
  int batch = 0;                   // with which they were measured
  bool scales_with_batch = false;  // another batch takes times in proportion; otherwise it is refused
  std::vector<TimedLayer> layers;
  Seconds optimizer_time{};    // of one update of all variables
  bool is_whole_step = false;  // all that a step of the host and an update take is in these times
  std::string gpu{};           // of the catalog, on which they were measured; empty: not stated
  CollectiveKind operation = CollectiveKind::kAllReduce;  // of a single collective: what is timed
};

TimedLayers read_timed_layers(const JsonReader& json);
/// The "structure" of a model file, which reads as the same layers; times to the nanosecond.
Json timed_layers_json(const TimedLayers& timed);

/// { "bytes": 1048576, "operation": "all_gather" }: nothing but one tensor to exchange, as benchmarks of collectives do; one
/// layer, whose kernels take no time, and neither host nor update. Another operation than an all-reduce has a time of its own and is in no training.
TimedLayers read_collective(const JsonReader& json);

/// One kernel per layer and direction, whose durations override the kernel-time model. Throws InputError, starting with
/// `place`, if `batch` is not the measured one and times do not scale.
Workload build_workload(const TimedLayers& timed, const std::string& name, int batch, Precision precision,
                        const std::string& place);

}  // namespace rehearse
