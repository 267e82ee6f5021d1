#pragma once
// What GPUs held over a recorded run.

#include <map>
#include <utility>
#include <vector>

#include "sim/record/resource_profile.hpp"
#include "sim/record/run_record.hpp"
#include "sim/scenario/gpu_memory.hpp"

namespace rehearse {

/// What a GPU holds from a date on.
struct HeldMemory {
  Seconds from{};
  Bytes bytes{};
};

/// Of the workers whose steps were recorded: what is there all the time (GpuMemory::constant()), and over the recorded kernels
/// what each operator takes and gives back (kept_memory.hpp), as its kernel begins and ends; of an exchange between GPUs, which has
/// no kernel, the kernel behind it, and the one before. Nothing while the machine is away.
class MemoryCurves {
 public:
  MemoryCurves(const Scenario& scenario, const RunRecord& record);

  /// A worker's GPU.
  struct Gpu {
    MachineIndex machine = 0;
    int gpu = 0;
    int stage = 0;      // of a pipeline
    Span first_step{};  // that was recorded whole
  };
  const std::vector<Gpu>& gpus() const { return gpus_; }

  const Group& group_of(const Gpu& gpu) const;
  /// Changes in the order of dates, from its first step on.
  std::vector<HeldMemory> of(const Gpu& gpu) const;

 private:
  /// What workers of a group with the same part of the model have in common.
  struct Part {
    Bytes constant{};
    KeptChanges changes;
  };
  const Part& part_of(const Gpu& gpu) const;

  const Scenario& scenario_;
  const RunRecord& record_;
  std::vector<Gpu> gpus_;
  std::map<std::pair<MachineIndex, int>, std::vector<const KernelSpan*>> kernels_;
  std::map<std::pair<int, int>, Part> parts_;  // by group and stage
};

/// ResourceSeries::gpu_memory: in each period the most that any of the machine's GPUs holds.
void add_gpu_memory(const MemoryCurves& curves, ResourceProfile& profile);

}  // namespace rehearse
