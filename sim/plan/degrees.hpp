#pragma once
// The plans by which given machines may train a model together: degrees of parallelism, micro-batch, recomputation, sharding.

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/json.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// One plan, in the words of a scenario's keys. Degrees of 1 and "none" are the plainest training: all-reduces of whole models.
struct Degrees {
  int tensor = 1;  // workers that hold each layer together
  bool has_sequence_parts = false;
  int context = 1;  // workers that share the positions of a sample
  int experts = 0;  // workers with other experts each; 0: the model has none
  int stages = 1;
  std::string schedule = "none";  // of the pipeline; "none" with one stage
  int chunks = 1;                 // of each stage
  bool merges_passes = false;     // a forward and a backward pass run while the other exchanges
  bool has_stages_first =
      false;  // consecutive workers are stages, so that what stages pass on stays on a machine; else data-parallel
  int microbatch = 1;  // samples of a worker in a pass
  std::string recompute = "none", sharding = "none";
  std::string algorithm;  // of all-reduces
  int accumulated = 0;    // batches that are added up in a step, of strategies without degrees; 0: of one with

  auto operator<=>(const Degrees&) const = default;
};

/// Whether gradients of weights are put off.
inline bool splits_backward(const Degrees& degrees) {
  return degrees.schedule == "zb1p" || degrees.schedule == "zbv" || degrees.schedule == "dualpipev";
}

/// What a space of plans is about: a training on given machines.
struct DegreeSpace {
  std::int64_t global_batch = 0;  // samples of a step, the same of all plans
  std::vector<Degrees> plans;     // in a fixed order
};

/// GPUs that reach one another without NICs, the fewest of any machine or NVLink domain.
int smallest_island(const Scenario& scenario);

/// All plans of the scenario's machines and model with steps of `global_batch` samples: those whose micro-batches are a whole number.
///   tensor       divisors of the GPUs that NVLink joins, so that a layer stays on a machine, and of the heads and inner features;
///                positions in parts or not
///   stages       divisors of the rest, at most one for each layer; as 1F1B, with 2, 4 or 8 chunks, and with a split backward pass,
///                folded or not; where experts exchange tokens also with merged passes, of chunks and as DualPipe
///   rank order   where there are stages on several machines: consecutive workers have samples of their own, or are stages; the scenario's
///                where it states one
///   context      powers of two that leave a worker 4,096 positions or more, of sequences of 16,384 or more
///   experts      of grouped mixtures: powers of two that divide the experts and the workers of a stage
///   microbatch   of transformers 1, 2, 4, 8 or 16 samples; of others 1, 2, 4, ... 32 of them in a step
///   recompute    of transformers none, every second product, all
///   sharding     none, optimizer, gradients, parameters (ZeRO 1 to 3) where several workers have the same variables
///   algorithm    the scenario's; of models that are on one GPU each, without sharding, also rings, trees and hierarchies
/// What does not go together (sim/scenario/refusals.hpp) is left out as far as it is known without a catalog; reading a scenario
/// finds the rest. `scenario` has none of these degrees.
/// `algorithm` and `rank_order` are the scenario's words; the latter is empty where it states none.
DegreeSpace degree_space(const Scenario& scenario, std::int64_t global_batch, const std::string& algorithm,
                         const std::string& rank_order = {});
/// The plans of a scenario whose strategy has none of these degrees, which is kept as it is: they differ in the batch of a worker alone, of which
/// 1, 2, 4, ... 32 are added up in a step.
DegreeSpace batch_space(const Scenario& scenario, std::int64_t global_batch);

/// Whether the strategy of the scenario (JSON) has steps of a stated number of samples, which several workers may share in other ways than
/// by data alone.
bool has_degrees(const Json& scenario);

/// Makes the scenario (JSON) train so, with steps of `global_batch` samples. Other keys of its strategy stay.
void set_degrees(Json& scenario, const Degrees& degrees, std::int64_t global_batch);
/// Takes all degrees out of it, and how many batches a step has.
void clear_degrees(Json& scenario);

/// "tensor 8 (sequence parallel), 4 stages of 2 chunks, data 16 with a sharded optimizer, micro-batches of 2, all recomputed", of so
/// many GPUs.
std::string to_text(const Degrees& degrees, int gpus);

/// Workers that have the same variables, and whose samples differ or whose positions do: data and context parallel ones.
inline int sharing_workers(const Degrees& degrees, int gpus) { return gpus / (degrees.tensor * degrees.stages); }
/// Micro-batches of a step; 0 if they are no whole number.
std::int64_t microbatches(const Degrees& degrees, int gpus, std::int64_t global_batch);

}  // namespace rehearse
