#pragma once
// What is drawn of a run's GPUs: memory, one step as lanes, kernels under the roofline, utilization.

#include <string>
#include <vector>

#include "sim/app/output/document.hpp"
#include "sim/record/memory_curve.hpp"
#include "sim/record/run_record.hpp"
#include "sim/record/summary.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

inline constexpr std::size_t kMostShownGroups = 8;  // of machines, in a figure

/// A GPU for each part that workers have: of each stage; without a pipeline of each group.
struct ShownGpu {
  std::string name;
  MemoryCurves::Gpu gpu;
};

/// At most kMostShownGroups.
std::vector<ShownGpu> shown_gpus(const Scenario& scenario, const MemoryCurves& memory);

/// What the group's GPU that holds the most holds, part by part.
Bars memory_by_part(const Scenario& scenario, const Group& group);

/// Memory of each of these GPUs over a step, and what it holds at its peak.
Section gpu_memory_of(const Scenario& scenario, const std::vector<ShownGpu>& gpus, const MemoryCurves& curves);

/// The first step of the GPU in the steady state of which kernels are recorded, or else its first one.
Span shown_step(const RunRecord& record, const MemoryCurves::Gpu& gpu);

/// Kernels, messages and what is waited for, a lane each of every GPU.
Lanes lanes_of(const Scenario& scenario, const RunRecord& record, const std::vector<ShownGpu>& gpus, Span window);

/// Each kernel of a step once: FLOPs a second over FLOPs for each byte, below what the GPU can do.
Plot roofline_of(const Scenario& scenario, const RunRecord& record, const MemoryCurves::Gpu& gpu, Span window);

/// Means over whole steps: windows that cut steps would show their phases as noise.
Section utilization_of(const Scenario& scenario, const RunRecord& record, const Summary& summary);

/// Kernels by what they compute.
const char* class_of(OperatorKind kind);

/// What the kernel computes.
OperatorAt operator_of(const Scenario& scenario, const KernelSpan& kernel);

}  // namespace rehearse
