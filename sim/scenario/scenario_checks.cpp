#include "sim/scenario/scenario_checks.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <variant>

#include "sim/base/names.hpp"
#include "sim/scenario/gpu_memory.hpp"
#include "sim/scenario/site.hpp"
#include "sim/scenario/unmodelled.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

/// A fabric may be unable to hold the machines; one switch holds all.
void check_topology(const Scenario& scenario, const JsonReader& root) {
  if (std::holds_alternative<Star>(scenario.fabric)) return;
  try {
    (void)Site{scenario};
  } catch (const std::invalid_argument& error) {
    root.child("cluster").child("network").fail("topology", error.what());
  }
}

std::string remedies_text(const Scenario& scenario, const Group& group) {
  const std::string remedies = what_would_fit(scenario, group);
  return (remedies.empty() ? "none of these alone would fit: a smaller batch, recomputation, sharding, tensor "
                             "parallelism, more machines; not tried: several of them together, pipelines"
                           : "would fit: " + remedies) +
         "; " + std::string{kUnmodelledRemedies};
}

void check_memory(Scenario& scenario, const ReadOptions& options) {
  for (const Group& group : scenario.groups) {
    if (group.role != Role::kWorker) continue;
    const Accelerator& gpu = *group.accelerator;
    const GpuMemory memory = gpu_memory(scenario, group);
    const Bytes needed = memory.total();
    if (needed > gpu.memory) {
      const std::string moment = describe_moment(memory);
      const std::string exceeded = std::string{kMemoryExceeded} + ": group " + in_quotes(group.name) + " needs " +
                                   gibibytes(needed) + " on " + with_article(gpu.name) + ", which has " +
                                   gibibytes(gpu.memory) + ": " + gibibytes(needed - gpu.memory) + " too much (" +
                                   describe_parts(memory) + (moment.empty() ? "" : "; " + moment) + ")" +
                                   (options.seeks_remedies ? "; " + remedies_text(scenario, group) : "");
      if (scenario.training.memory_check == MemoryCheck::kRefuse)
        throw NoResultError{group.place + ": " + exceeded + scenario.set_by};
      scenario.warnings.push_back(exceeded);
      continue;
    }
    if (const UncountedMemory& uncounted = memory.uncounted; needed + uncounted.total() > gpu.memory) {
      const std::string copies = uncounted.bucket_copies == Bytes{}
                                     ? std::string{}
                                     : gibibytes(uncounted.bucket_copies) +
                                           " of gradients again in the buckets of PyTorch's DistributedDataParallel, "
                                           "unless gradient_as_bucket_view, and ";
      scenario.warnings.push_back("GPU memory: group " + in_quotes(group.name) + " needs " + gibibytes(needed) +
                                  " of the " + gibibytes(gpu.memory) + " that " + with_article(gpu.name) +
                                  " has, without what it may not have room for: " + copies + "up to " +
                                  gibibytes(uncounted.nccl_buffers) + " of NCCL's buffers");
    }
    if (as_double(needed) > 0.9 * as_double(gpu.memory))
      scenario.warnings.push_back("GPU memory: group " + in_quotes(group.name) + " needs " + gibibytes(needed) +
                                  " of the " + gibibytes(gpu.memory) + " that " + with_article(gpu.name) +
                                  " has, which is within 10 % of the limit: " + describe_parts(memory));
  }
}

/// Larger shares need a model of other batches, and memory.
void check_shares(Scenario& scenario, const JsonReader& root) {
  if (scenario.training.smaller_cluster != SmallerCluster::kLargerShares || !may_leave_full_cluster(scenario)) return;
  try {
    (void)build_workload(scenario.model, 2 * scenario.batch, scenario.precision, "a batch twice as large");
  } catch (const InputError& error) { root.child("training").fail("smaller_cluster", error.what()); }
  if (const std::int64_t fewest = fewest_workers_for_shares(scenario); fewest > 1)
    scenario.warnings.push_back("larger shares fit the GPUs' memory with " + std::to_string(fewest) +
                                " workers and more: the job has no result if it trains with fewer; "
                                "\"minimum_workers\" in \"recovery\" makes it wait");
}

}  // namespace

double memory_exceeded_by(std::string_view error) {
  const auto number_behind = [&](std::string_view words) {
    const std::size_t found = error.find(words, std::min(error.size(), error.find(kMemoryExceeded)));
    double number = 0;
    if (found != std::string_view::npos)
      std::from_chars(error.data() + found + words.size(), error.data() + error.size(), number);
    return number;
  };
  const double needed = number_behind(" needs "), available = number_behind(", which has ");
  return available > 0 ? std::max(1.0, needed / available) : 1;
}

void check_fits(Scenario& scenario, const JsonReader& root, const ReadOptions& options) {
  scenario.training.strategy.kind->check(scenario, root.child("training").child("strategy"));
  check_topology(scenario, root);
  check_memory(scenario, options);
  check_shares(scenario, root);
}

}  // namespace rehearse
