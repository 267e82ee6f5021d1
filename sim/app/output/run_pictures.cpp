#include "sim/app/output/run_pictures.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <ranges>
#include <set>
#include <tuple>
#include <utility>

#include "sim/app/output/recorded_work.hpp"
#include "sim/base/named.hpp"
#include "sim/base/names.hpp"
#include "sim/record/resource_profile.hpp"
#include "sim/scenario/gpu_memory.hpp"
#include "sim/scenario/step_time.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

/// Over the first step that was recorded whole.
Plot memory_of_a_step(const std::vector<ShownGpu>& gpus, const MemoryCurves& memory) {
  Plot plot{.title = "GPU memory over a step", .x_label = "time, s", .y_label = "GiB"};
  for (const auto& [name, gpu] : gpus) {
    Series line{.name = name, .x = {}, .y = {}};
    const Span step = gpu.first_step;
    std::vector<HeldMemory> curve = memory.of(gpu);
    const auto first = std::ranges::upper_bound(curve, step.start, {}, &HeldMemory::from);
    double held = first == curve.begin() ? 0 : gib(std::prev(first)->bytes);
    const auto add = [&](Seconds date, double level) {  // a step up or down
      line.x.insert(line.x.end(), {date.value(), date.value()});
      line.y.insert(line.y.end(), {held, level});
      held = level;
    };
    add(step.start, held);
    for (auto change = first; change != curve.end() && change->from < step.end; ++change)
      add(change->from, gib(change->bytes));
    add(step.end, held);
    plot.series.push_back(std::move(line));
  }
  return plot;
}

/// Work of a lane, of which what is too short to be seen is drawn with what follows it, as what has most of that time.
class LaneWriter {
 public:
  LaneWriter(Lanes& lanes, Span window) : lanes_{lanes}, window_{window} {}

  void begin(const std::string& name) { lanes_.lanes.push_back(name); }
  void add(Span span, const std::string& of_class, const std::string& name) {
    span.start = std::max(span.start, window_.start);
    span.end = std::min(span.end, window_.end);
    if (!(span.end > span.start)) return;
    const Seconds shortest = (window_.end - window_.start) / kMostSeen;
    if (!times_.empty() && (span.start - span_.end > shortest || span_.end - span_.start > shortest)) end();
    if (times_.empty()) span_ = span;
    span_.end = std::max(span_.end, span.end);
    times_[{of_class, name}] += span.end - span.start;
  }
  /// Of the lane, or of what is drawn as one.
  void end() {
    if (times_.empty()) return;
    const auto longest = std::ranges::max_element(times_, {}, [](const auto& entry) { return entry.second.value(); });
    const auto& [of_class, name] = longest->first;
    const auto known = std::ranges::find(lanes_.classes, of_class);
    const auto index = static_cast<std::size_t>(known - lanes_.classes.begin());
    if (known == lanes_.classes.end()) lanes_.classes.push_back(of_class);
    lanes_.work.push_back({lanes_.lanes.size() - 1, index, (span_.start - window_.start).value() * 1e3,
                           (span_.end - window_.start).value() * 1e3,
                           name + (times_.size() > 1 ? " and " + std::to_string(times_.size() - 1) + " more" : "")});
    times_.clear();
  }

 private:
  static constexpr double kMostSeen = 500;  // parts of the window

  Lanes& lanes_;
  Span window_;
  Span span_{};  // what is drawn as one
  std::map<std::pair<std::string, std::string>, Seconds> times_;
};

}  // namespace

const char* class_of(OperatorKind kind) {
  switch (kind) {
    case OperatorKind::kConvolution:
      return "convolutions";
    case OperatorKind::kDense:
      return "dense layers";
    case OperatorKind::kProduct:
      return "attention";
    case OperatorKind::kRecurrent:
      return "recurrent layers";
    case OperatorKind::kEmbedding:
      return "embeddings";
    case OperatorKind::kBatchNorm:
    case OperatorKind::kLayerNorm:
      return "normalization";
    case OperatorKind::kSoftmaxLoss:
      return "loss";
    case OperatorKind::kUpdate:
      return "optimizer";
    case OperatorKind::kActivation:
    case OperatorKind::kElementwise:
    case OperatorKind::kDropout:
    case OperatorKind::kPooling:
      break;
  }
  return "element-wise";
}

OperatorAt operator_of(const Scenario& scenario, const KernelSpan& kernel) {
  return scenario.workload.graph[static_cast<std::size_t>(kernel.vertex)];
}

Bars memory_by_part(const Scenario& scenario, const Group& group) {
  Bars bars{.title = "", .unit = "GiB", .bars = {}};
  constexpr double kSeen = 0.002;
  const GpuMemory memory = gpu_memory(scenario, group);
  for (const auto& [name, part] : kGpuMemoryParts) {
    std::string words{name};
    std::ranges::replace(words, '_', ' ');
    if (const Bytes bytes = memory.*part.bytes; as_double(bytes) > kSeen * as_double(memory.total()))
      bars.bars.push_back({.name = words, .parts = {{words, gib(bytes), part.words}}});
  }
  std::ranges::stable_sort(bars.bars, std::ranges::greater{}, [](const Bars::Bar& bar) { return bar.parts[0].value; });
  return bars;
}

std::vector<ShownGpu> shown_gpus(const Scenario& scenario, const MemoryCurves& memory) {
  std::vector<ShownGpu> shown;
  const bool has_stages = scenario.training.strategy.kind->pipeline() != nullptr;
  for (const MemoryCurves::Gpu& gpu : memory.gpus()) {
    std::string name = has_stages ? "stage " + std::to_string(gpu.stage + 1) : memory.group_of(gpu).name;
    const bool is_there = std::ranges::find(shown, name, &ShownGpu::name) != shown.end();
    if (shown.size() < kMostShownGroups && !is_there) shown.push_back({std::move(name), gpu});
  }
  return shown;
}

Section gpu_memory_of(const Scenario& scenario, const std::vector<ShownGpu>& gpus, const MemoryCurves& curves) {
  std::vector<std::string> paragraphs{
      "What a GPU needs at the most, that of each group which needs the most. Fragmentation of the framework's "
      "allocator is not modelled."};
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker)
      if (const std::string moment = describe_moment(gpu_memory(scenario, group)); !moment.empty())
        paragraphs.push_back("Of " + group.name + " that is " + moment + ".");
  Section section{.title = "GPU memory",
                  .paragraphs = std::move(paragraphs),
                  .tables = {},
                  .figures = {memory_of_a_step(gpus, curves)}};
  for (const Group& group : scenario.groups) {
    if (group.role != Role::kWorker || section.figures.size() == kMostShownGroups) continue;
    Bars bars = memory_by_part(scenario, group);
    bars.title = group.name + " (" + group.accelerator->name + "): " + gibibytes(gpu_memory_needed(scenario, group)) +
                 " of " + gibibytes(group.accelerator->memory);
    section.figures.emplace_back(std::move(bars));
  }
  return section;
}

Span shown_step(const RunRecord& record, const MemoryCurves::Gpu& gpu) {
  const auto has_kernels = [&](Span span) {
    return std::ranges::any_of(record.recorder.kernels, [&](const KernelSpan& kernel) {
      return kernel.machine == gpu.machine && kernel.gpu == gpu.gpu && kernel.span.start >= span.start &&
             kernel.span.end <= span.end;
    });
  };
  for (const StepSpan& step : record.recorder.steps) {
    if (step.machine != gpu.machine || step.gpu != gpu.gpu || step.span.start < record.window.start) continue;
    if (step.span.end <= record.recorder.scope.window.end && has_kernels(step.span)) return step.span;
    break;
  }
  return gpu.first_step;
}

Lanes lanes_of(const Scenario& scenario, const RunRecord& record, const std::vector<ShownGpu>& gpus, Span window) {
  Lanes lanes{.title = "",
              .unit = "ms",
              .length = (window.end - window.start).value() * 1e3,
              .lanes = {},
              .classes = {},
              .work = {}};
  LaneWriter writer{lanes, window};
  const auto unit_name = [&](int unit) {
    return unit < 0 ? std::string{"samples"} : record.unit_names[static_cast<std::size_t>(unit)];
  };
  const auto overlaps = [&](Span span) { return span.end > window.start && span.start < window.end; };
  const auto of_gpu = [&](const auto& records, const MemoryCurves::Gpu& gpu) {
    std::remove_cvref_t<decltype(records)> some;
    std::ranges::copy_if(records, std::back_inserter(some), [&](const auto& one) {
      return one.machine == gpu.machine && one.gpu == gpu.gpu && overlaps(one.span);
    });
    std::ranges::stable_sort(some, {}, [](const auto& one) { return one.span.start; });
    return some;
  };
  for (const auto& [name, gpu] : gpus) {
    writer.begin(name + ", GPU");
    for (const KernelSpan& kernel : of_gpu(record.recorder.kernels, gpu)) {
      const OperatorAt op = operator_of(scenario, kernel);
      writer.add(kernel.span, class_of(op->kind), op.name());
    }
    writer.end();
    for (const auto& [worker, streams] : collectives_on_streams(of_gpu(record.recorder.collectives, gpu)))
      for (std::size_t stream = 0; stream < std::min<std::size_t>(streams.size(), 3); ++stream) {
        writer.begin(name + ", communication" + (stream > 0 ? " " + std::to_string(stream + 1) : ""));
        for (const auto& [collective, span] : streams[stream])
          writer.add(span, std::string{to_text(collective.kind)}, unit_name(collective.unit));
        writer.end();
      }
    if (const auto waits = waits_in_order(of_gpu(record.recorder.waits, gpu)); !waits.empty()) {
      writer.begin(name + ", waits");
      for (const WaitSpan& wait : waits.begin()->second) {
        const std::string what = "waits for " + std::string{kWaitForNames[static_cast<std::size_t>(wait.what)]};
        writer.add(wait.span, what, what);
      }
      writer.end();
    }
  }
  std::set<int> groups;
  for (const ServerSpan& work : record.recorder.server_work) {
    const Machine& machine = record.machines[static_cast<std::size_t>(work.machine)];
    if (!overlaps(work.span) || groups.size() == kMostShownGroups || !groups.insert(machine.group).second) continue;
    writer.begin(machine.name + ", server threads");
    for (const ServerSpan& one : record.recorder.server_work)
      if (one.machine == work.machine && overlaps(one.span))
        writer.add(one.span, one.is_update ? "server: updates" : "server: reads", unit_name(one.unit));
    writer.end();
  }
  return lanes;
}

Plot roofline_of(const Scenario& scenario, const RunRecord& record, const MemoryCurves::Gpu& gpu, Span window) {
  Plot plot{.title = "Kernels below the roofline",
            .x_label = "FLOPs for each byte of device memory",
            .y_label = "TFLOP/s",
            .series = {},
            .is_logarithmic = true};
  const Machine& machine = record.machines[static_cast<std::size_t>(gpu.machine)];
  const Accelerator& accelerator = *scenario.groups[static_cast<std::size_t>(machine.group)].accelerator;
  const double peak = scenario.peak_of(accelerator).value() / 1e12,
               bandwidth = accelerator.memory_bandwidth.value() / 1e12;
  std::set<int> seen;
  std::set<std::tuple<std::string, std::string, std::string>> drawn;  // layers that repeat are one point
  double low = peak / bandwidth, high = low;
  for (const KernelSpan& kernel : record.recorder.kernels) {
    if (kernel.machine != gpu.machine || kernel.gpu != gpu.gpu || kernel.span.start < window.start ||
        kernel.span.end > window.end || !seen.insert(kernel.vertex).second)
      continue;
    const Operator& op = operator_of(scenario, kernel).stored();
    const double bytes = as_double(op.bytes_read + op.bytes_written),
                 seconds = (kernel.span.end - kernel.span.start).value();
    if (!(op.flops.value() > 0 && bytes > 0 && seconds > 0)) continue;
    const double x = op.flops.value() / bytes, y = op.flops.value() / seconds / 1e12;
    const std::string name = class_of(op.kind);
    if (!drawn.insert({name, display(x), display(y)}).second) continue;
    auto series = std::ranges::find(plot.series, name, &Series::name);
    if (series == plot.series.end())
      series = plot.series.insert(series, {.name = name, .x = {}, .y = {}, .is_points = true});
    series->x.push_back(x);
    series->y.push_back(y);
    low = std::min(low, x);
    high = std::max(high, x);
  }
  if (!plot.series.empty())
    plot.series.push_back({.name = accelerator.name + ", at best",
                           .x = {low, peak / bandwidth, std::max(high, peak / bandwidth)},
                           .y = {low * bandwidth, peak, peak}});
  return plot;
}

Section utilization_of(const Scenario& scenario, const RunRecord& record, const Summary& summary) {
  constexpr double kMostWindows = 120;
  Section section{.title = "Utilization"};
  const Seconds recorded = std::min(record.end, record.recorder.scope.window.end);
  const double steps = std::max(1.0, std::ceil(recorded / summary.iteration_time / kMostWindows));
  const Seconds period = summary.iteration_time * steps;
  const auto windows = static_cast<std::size_t>(recorded / period);
  if (windows < 3) return section;
  const ResourceProfile profile = resource_profile(record, period);
  section.paragraphs = {"Means over windows of " + display(steps) + (steps > 1 ? " steps, " : " step, ") +
                        short_time_text(period.value()) + ", and over the machines of a group."};
  const auto plot = [&](const std::string& title, const std::string& unit, double scale,
                        std::vector<double> ResourceSeries::*values, bool is_of_workers) {
    Plot result{.title = title, .x_label = "time, s", .y_label = unit};
    std::map<int, double> machines;  // by group
    std::map<int, Series> lines;
    for (const ResourceSeries& series : profile.series) {
      const Machine& machine = record.machines[static_cast<std::size_t>(series.machine)];
      if (is_of_workers && machine.workers == 0) continue;
      Series& line = lines[machine.group];
      line.name = scenario.groups[static_cast<std::size_t>(machine.group)].name;
      line.y.resize(windows);
      ++machines[machine.group];
      for (std::size_t i = 0; i < std::min(windows, (series.*values).size()); ++i)
        line.y[i] += (series.*values)[i] * scale;
    }
    for (auto& [group, line] : lines) {
      if (result.series.size() == kMostShownGroups) break;
      for (std::size_t i = 0; i < windows; ++i) {
        line.x.push_back(period.value() * (static_cast<double>(i) + 0.5));
        line.y[i] /= machines[group];
      }
      result.series.push_back(std::move(line));
    }
    return result;
  };
  section.figures = {plot("GPUs busy", "%", 100, &ResourceSeries::gpu, true),
                     plot("Device memory busy", "%", 100, &ResourceSeries::memory, true),
                     plot("Received by a machine", "MB/s", 1e-6, &ResourceSeries::receive, false),
                     plot("Sent by a machine", "MB/s", 1e-6, &ResourceSeries::transmit, false)};
  section.tables = {};
  return section;
}

}  // namespace rehearse
