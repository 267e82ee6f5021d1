#pragma once
// What is sent in one piece: a gradient, several of them fused, or part of one.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/scenario/scenario.hpp"

namespace rehearse {

struct GradientUnit {
  std::string name;
  std::vector<int> variables;  // indices into Workload::variables
  int frozen = 0;              // of them have no gradients
  Bytes gradient_bytes{};      // sent by a worker: moving averages included, at the exchange's precision
  Bytes value_bytes{};   // sent to a worker: variables as its kernels read them, or as it stores what it keeps whole
  Bytes stored_bytes{};  // the same, with the rows of sparse tables that are not sent
  int first_use = 0;     // in the order in which the forward pass needs them: a lower one has priority
  int server = 0;        // that holds it
  /// Of what is sharded by blocks: the variables outside of blocks, which stay gathered from the first use in the forward
  /// pass to the last one in the backward pass, as in PyTorch FSDP (Zhao et al., VLDB 2023, section 4).
  bool is_root = false;
  bool is_of_experts = false;  // that are spread over GPUs, and which fewer of them have in common
};

struct GradientUnits {
  std::vector<GradientUnit> units;
  std::vector<std::vector<int>> of_variable;      // [variables] units that hold a part of it
  std::shared_ptr<const GradientUnits> gathered;  // in which values are gathered after the update; null: in these
};

/// Where buckets of gradients, of so many bytes in the order in which they become ready, close: behind the gradient with
/// which a bucket reaches `limit`, the first one `first_limit`; and behind the last one. With 0 each is one of its own.
std::vector<std::size_t> bucket_ends(std::span<const double> bytes, double first_limit, double limit);

/// One unit per variable, in creation order; or, as the scenario's exchange says:
/// - buckets: variables in the order in which their gradients become ready; a bucket closes (bucket_ends()) when its
///   bytes, before any conversion to fp16, reach bucket_size (the first one: first_bucket_size), as in PyTorch's
///   DistributedDataParallel (Li et al., VLDB 2020, section 3.2.3). With a cycle time, fusion happens during the run
///   instead.
/// - blocks (GradientExchange::by_blocks): the variables of a block of the model (model_blocks.hpp) are a unit, and those outside
///   of blocks are one, the root; in the order in which blocks are ready. A model without blocks has buckets of 25 MiB.
/// Experts that are spread over GPUs are in units of their own, as fewer workers add up their gradients.
/// - pieces: units above partition_size are cut into equal ones (Peng et al., ByteScheduler, SOSP 2019); sharded
///   placement cuts every variable into one per server.
/// Frozen variables are in units where parameters are sharded, which are gathered.
/// With CollectiveRules::gather_bucket_size what is gathered after the update is in buckets of its own, of the values' bytes.
/// `servers` = 0 for strategies without: then moving averages are not exchanged, and sparse tables whole.
GradientUnits plan_gradient_units(const Scenario& scenario, int servers);

/// "4.31 MB in 12 units, the largest of 2.36 MB": of those that have any.
std::string units_text(const std::vector<GradientUnit>& units, Bytes GradientUnit::*size);

/// Buckets of PyTorch's DistributedDataParallel, its default: bucket_cap_mb=25, and a first one of 1 MiB.
inline constexpr Bytes kUsualBucket{std::int64_t{25} << 20}, kUsualFirstBucket{std::int64_t{1} << 20};

/// Precision of gradients as they are sent: as stated, or as they are held.
Precision sent_gradients(const Scenario& scenario);
/// Units of some of the variables, `chosen` [variables], for strategies without servers.
GradientUnits plan_gradient_units(const Scenario& scenario, const std::vector<bool>& chosen);

}  // namespace rehearse
