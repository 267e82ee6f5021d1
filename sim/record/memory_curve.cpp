#include "sim/record/memory_curve.hpp"

#include <algorithm>

namespace rehearse {

namespace {

/// Of operators without a kernel: what they take goes to the next one with a kernel, what they give back to the one before.
void move_to_kernels(const Workload& workload, const PassOperators& operators, KeptChanges& changes) {
  const auto has_kernel = [&](int v) { return !workload.graph[static_cast<std::size_t>(v)]->exchange; };
  const auto move = [&](const std::vector<int>& vertices, std::size_t i) {
    KeptBytes& taken = changes.taken[static_cast<std::size_t>(vertices[i])];
    KeptBytes& given_back = changes.given_back[static_cast<std::size_t>(vertices[i])];
    for (std::size_t next = i + 1; next < vertices.size(); ++next)
      if (has_kernel(vertices[next])) {
        changes.taken[static_cast<std::size_t>(vertices[next])] += std::exchange(taken, {});
        break;
      }
    for (std::size_t before = i; before-- > 0;)
      if (has_kernel(vertices[before])) {
        changes.given_back[static_cast<std::size_t>(vertices[before])] += std::exchange(given_back, {});
        break;
      }
  };
  for (const auto& of_chunk : operators)
    for (const std::vector<int>& vertices : of_chunk)
      for (std::size_t i = 0; i < vertices.size(); ++i)
        if (!has_kernel(vertices[i])) move(vertices, i);
}

}  // namespace

MemoryCurves::MemoryCurves(const Scenario& scenario, const RunRecord& record) : scenario_{scenario}, record_{record} {
  const RankGrid grid = rank_grid(scenario);
  for (const KernelSpan& kernel : record.recorder.kernels) kernels_[{kernel.machine, kernel.gpu}].push_back(&kernel);
  for (auto& [gpu, kernels] : kernels_)
    std::stable_sort(kernels.begin(), kernels.end(),
                     [](const KernelSpan* a, const KernelSpan* b) { return a->span.start < b->span.start; });
  std::map<std::pair<MachineIndex, int>, Span> first;
  for (const StepSpan& step : record.recorder.steps)
    if (step.span.start >= record.recorder.scope.window.start) first.try_emplace({step.machine, step.gpu}, step.span);
  int worker = 0;
  for (std::size_t m = 0; m < record.machines.size(); ++m)
    for (int gpu = 0; gpu < record.machines[m].workers; ++gpu, ++worker) {
      const auto machine = static_cast<MachineIndex>(m);
      const auto step = first.find({machine, gpu});
      if (step == first.end() || !kernels_.contains({machine, gpu})) continue;
      const int stage = worker < grid.workers() ? grid.coordinate(worker, Axis::kPipeline) : 0;
      gpus_.push_back({machine, gpu, stage, step->second});
      const int index = record.machines[m].group;
      if (parts_.contains({index, stage})) continue;
      const Group& group = scenario.groups[static_cast<std::size_t>(index)];
      const WorkerMemory memory{scenario, group};
      Part part{memory.of(stage).constant(), memory.changes(stage)};
      move_to_kernels(scenario.workload_of(group), memory.operators(stage), part.changes);
      parts_.emplace(std::pair{index, stage}, std::move(part));
    }
}

const Group& MemoryCurves::group_of(const Gpu& gpu) const {
  const Machine& machine = record_.machines[static_cast<std::size_t>(gpu.machine)];
  return scenario_.groups[static_cast<std::size_t>(machine.group)];
}

const MemoryCurves::Part& MemoryCurves::part_of(const Gpu& gpu) const {
  return parts_.at({record_.machines[static_cast<std::size_t>(gpu.machine)].group, gpu.stage});
}

std::vector<HeldMemory> MemoryCurves::of(const Gpu& gpu) const {
  const Part& part = part_of(gpu);
  std::vector<HeldMemory> curve;
  const std::vector<const KernelSpan*>& kernels = kernels_.at({gpu.machine, gpu.gpu});
  auto next =
      std::ranges::lower_bound(kernels, gpu.first_step.start, {}, [](const KernelSpan* k) { return k->span.start; });
  for (const Span& there : record_.presence[static_cast<std::size_t>(gpu.machine)]) {
    curve.push_back({there.start, part.constant});
    KeptBytes kept;
    for (; next != kernels.end() && (*next)->span.start < there.end; ++next) {
      const auto vertex = static_cast<std::size_t>((*next)->vertex);
      for (const auto& [date, is_taken] : {std::pair{(*next)->span.start, true}, std::pair{(*next)->span.end, false}}) {
        const KeptBytes& change = is_taken ? part.changes.taken[vertex] : part.changes.given_back[vertex];
        if (change == KeptBytes{}) continue;
        if (is_taken)
          kept += change;
        else
          kept -= change;
        curve.push_back({date, part.constant + kept.total()});
      }
    }
    curve.push_back({there.end, Bytes{}});
  }
  return curve;
}

void add_gpu_memory(const MemoryCurves& curves, ResourceProfile& profile) {
  for (ResourceSeries& series : profile.series) series.gpu_memory.assign(profile.samples, 0);
  for (const MemoryCurves::Gpu& gpu : curves.gpus()) {
    const auto series = std::ranges::find(profile.series, gpu.machine, &ResourceSeries::machine);
    if (series == profile.series.end()) continue;
    const std::vector<HeldMemory> curve = curves.of(gpu);
    const auto sample_at = [&](Seconds date) {
      return std::min(profile.samples - 1, static_cast<std::size_t>(std::max(0.0, date / profile.period)));
    };
    for (std::size_t i = 0; i < curve.size(); ++i) {
      const std::size_t last = i + 1 < curve.size() ? sample_at(curve[i + 1].from) : profile.samples - 1;
      for (std::size_t s = sample_at(curve[i].from); s <= last; ++s)
        series->gpu_memory[s] = std::max(series->gpu_memory[s], as_double(curve[i].bytes));
    }
  }
}

}  // namespace rehearse
