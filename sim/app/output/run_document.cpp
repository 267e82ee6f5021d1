#include "sim/app/output/run_document.hpp"

#include <algorithm>
#include <array>
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

constexpr std::size_t kMostGroups = 8;  // of machines, in a figure

/// What a part of the step (StepPart::part) is called where there is little room.
constexpr std::array kShortParts{Named{"worker_gpu", "kernels"},
                                 Named{"kernel_launch", "kernel launch"},
                                 Named{"worker_update", "optimizer"},
                                 Named{"update_dispatch", "optimizer dispatch"},
                                 Named{"worker_host", "host"},
                                 Named{"host_copies", "host copies"},
                                 Named{"input_copy", "input"},
                                 Named{"server_cpu", "parameter servers"},
                                 Named{"server_nic", "exposed communication"},
                                 Named{"worker_nic", "exposed communication"},
                                 Named{"link", "exposed communication"},
                                 Named{"connection", "exposed communication"},
                                 Named{"network", "exposed communication"},
                                 Named{"latency", "latency"},
                                 Named{"pcie", "PCIe copies"},
                                 Named{"bubble", "pipeline bubble"},
                                 Named{"slowest_worker", "waiting for the slowest"},
                                 Named{"checkpoint", "checkpoints"},
                                 Named{"stopped", "standing still"}};

/// Kernels by what they compute.
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

const Operator& operator_of(const Scenario& scenario, const KernelSpan& kernel) {
  return scenario.workload.graph[static_cast<std::size_t>(kernel.vertex)];
}

/// Shares of the recorded kernels' time, the largest first.
std::vector<std::pair<std::string, double>> kernel_classes(const Scenario& scenario, const RunRecord& record) {
  std::map<std::string, double> seconds;
  double all = 0;
  for (const KernelSpan& kernel : record.recorder.kernels) {
    const double time = (kernel.span.end - kernel.span.start).value();
    seconds[class_of(operator_of(scenario, kernel).kind)] += time;
    all += time;
  }
  std::vector<std::pair<std::string, double>> shares(seconds.begin(), seconds.end());
  for (auto& [name, share] : shares) share /= all;
  std::ranges::stable_sort(shares, std::ranges::greater{}, &std::pair<std::string, double>::second);
  return shares;
}

std::string range_text(const std::string& low, const std::string& high) { return low + " to " + high; }

/// The mean step of a worker: kernels by class, then what else it consists of, the largest first. What is too short to be
/// seen is one part.
Bars step_of(const Scenario& scenario, const RunRecord& record, const Summary& summary) {
  constexpr double kSeen = 0.004;  // of the step
  Bars bars{.title = "", .unit = "ms", .bars = {{.name = "step", .parts = {}}}};
  std::vector<Bars::Part>& parts = bars.bars[0].parts;
  Bars::Part rest{.name = "rest", .value = 0, .note = ""};
  const auto add = [&](const Bars::Part& part) {
    if (part.value >= kSeen * summary.iteration_time.value() * 1e3) return void(parts.push_back(part));
    rest.value += part.value;
    rest.note += (rest.note.empty() ? "" : ", ") + part.name;
  };
  for (const StepPart& part : summary.verdict.parts) {
    const double ms = part.time.value() * 1e3;
    const auto classes =
        part.part == "worker_gpu" ? kernel_classes(scenario, record) : std::vector<std::pair<std::string, double>>{};
    for (const auto& [name, share] : classes) add({name, ms * share, part.what, "kernels"});
    if (classes.empty()) add({short_part(part.part), ms, part.what});
  }
  if (rest.value > 0) parts.push_back(rest);
  return bars;
}

Table remedies_of(const Summary& summary) {
  Table table{.header = {"of a step", "share", "what would remove it"}, .rows = {}};
  constexpr std::size_t kMost = 4;
  constexpr double kNamed = 0.005;
  for (const StepPart& part : summary.verdict.parts)
    if (table.rows.size() < kMost && (part.share >= kNamed || table.rows.empty()))
      table.rows.push_back({short_part(part.part), share_text(part.share), part.remedy});
  return table;
}

struct FabricWords {
  const char* operator()(const Star&) const { return "one switch"; }
  const char* operator()(const FatTree&) const { return "fat tree"; }
  const char* operator()(const Dragonfly&) const { return "dragonfly"; }
  const char* operator()(const Torus&) const { return "torus"; }
  const char* operator()(const Rail&) const { return "rails and a spine"; }
};

std::string rate_text(BytesPerSecond rate) { return display(rate.value() * 8 / 1e9) + " Gbit/s"; }

ClusterPicture cluster_of(const Scenario& scenario, const RunRecord& record, const Summary& summary) {
  ClusterPicture picture{.title = "", .networks = {}, .groups = {}};
  std::map<std::string, std::size_t> network_of;
  for (std::size_t g = 0; g < scenario.groups.size() && picture.groups.size() < kMostGroups; ++g) {
    const Group& group = scenario.groups[g];
    ClusterPicture::Machines machines{.name = group.instance.name, .note = group.name, .count = 0};
    for (std::size_t m = 0; m < record.machines.size(); ++m) {
      const Machine& machine = record.machines[m];
      if (machine.group != static_cast<int>(g)) continue;
      const MachineSummary& use = summary.machines[m];
      ++machines.count;
      machines.gpus = machine.gpus;
      machines.gpu_busy += use.gpu_utilization;
      machines.cpu_busy += use.cpu_utilization;
      machines.load = std::max({machines.load, use.nic_send_utilization, use.nic_receive_utilization});
      machines.link = (machine.nics > 1 ? std::to_string(machine.nics) + " x " : "") + rate_text(machine.nic);
    }
    if (machines.count == 0) continue;  // colocated
    machines.gpu_busy /= machines.count;
    machines.cpu_busy /= machines.count;
    if (group.accelerator && machines.gpus > 0) machines.gpu = group.accelerator->name;
    const auto [network, is_new] = network_of.try_emplace(group.region, picture.networks.size());
    if (is_new)
      picture.networks.push_back(
          {(group.region.empty() ? "" : group.region + ", ") + std::string{std::visit(FabricWords{}, scenario.fabric)},
           ""});
    machines.network = network->second;
    picture.groups.push_back(std::move(machines));
  }
  if (const LinkUse& link = record.busiest_link; !link.name.empty() && !picture.networks.empty())
    picture.networks[0].note = "busiest link: " + link.name + ", " + share_text(link.utilization);
  return picture;
}

/// What the group's GPU that holds the most holds, part by part.
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

std::string verdict_of(const Summary& summary) {
  constexpr double kNamed = 0.05;
  std::string text =
      short_text(summary.samples_per_s) + " samples/s; a step takes " + short_time_text(summary.iteration_time.value());
  const std::vector<StepPart>& parts = summary.verdict.parts;
  for (std::size_t i = 0; i < parts.size() && (i == 0 || (i < 3 && parts[i].share >= kNamed)); ++i)
    text += (i == 0 ? ": " : ", ") + std::to_string(std::lround(parts[i].share * 100)) + " % " +
            (parts[i].part == "worker_gpu" ? "kernels on the GPUs" : short_part(parts[i].part));
  return text + ".";
}

std::vector<KeyNumber> headlines_of(const Scenario& scenario, const Summary& summary) {
  const auto range = [&](double value, bool is_speed, const auto& text) {
    if (!summary.interval) return std::string{};
    const auto& [low, high] = *summary.interval;
    return is_speed ? range_text(text(value * low), text(value * high))
                    : range_text(text(value / high), text(value / low));
  };
  const auto usd = [](double value) { return short_text(value) + " USD"; };
  const double step = summary.iteration_time.value();
  std::vector<KeyNumber> headlines{
      {"speed", short_text(summary.samples_per_s) + " samples/s", range(summary.samples_per_s, true, short_text)},
      {"step", short_time_text(step), range(step, false, short_time_text)},
      {"GPUs busy", share_text(summary.gpu_utilization), "in the steady state"},
      {"waiting in a step", short_time_text(summary.exposed_communication.value()),
       scenario.training.strategy.is_synchronous()
           ? short_time_text(summary.wait_for_slowest.value()) + " for the slowest"
           : "staleness " + display(summary.staleness_mean) + ", at most " + std::to_string(summary.staleness_max)}};
  if (const auto& target = summary.to_target) {
    headlines.push_back({"time to the target", short_time_text(target->time.value()),
                         range(target->time.value(), false, short_time_text)});
    headlines.push_back({"cost to the target", target->cost_usd ? usd(*target->cost_usd) : "no price",
                         target->cost_usd ? range(*target->cost_usd, false, short_text) : ""});
  } else {
    headlines.push_back({"time for " + count_text(static_cast<double>(summary.steps)) + " steps",
                         short_time_text(summary.time.value()), range(summary.time.value(), false, short_time_text)});
    headlines.push_back({"cost", summary.cost_usd ? usd(*summary.cost_usd) : "no price",
                         summary.cost_usd ? range(*summary.cost_usd, false, short_text) : ""});
  }
  if (const auto& energy = summary.energy) {
    const std::optional<double> target = summary.to_target ? summary.to_target->energy_kwh : std::nullopt;
    const double kwh = target.value_or(energy->kwh(scenario.electricity));
    const auto co2 = co2_of_energy(scenario, kwh);
    headlines.push_back({target ? "energy to the target" : "energy", short_text(kwh) + " kWh",
                         "a GPU " + short_text(energy->gpu_power_w) + " W, its machine " +
                             short_text(energy->node_power_w) + " W" +
                             (co2 ? ", " + short_text(*co2) + " kg CO2" : "")});
  }
  const Group& fullest = fullest_group(scenario);
  headlines.push_back({"memory of a GPU", gibibytes(gpu_memory_needed(scenario, fullest)),
                       "of " + gibibytes(fullest.accelerator->memory)});
  return headlines;
}

Section parts_of(const Summary& summary) {
  Table parts{.header = {"part of a step", "ms", "share", "what would remove it"}, .rows = {}};
  for (const StepPart& part : summary.verdict.parts)
    parts.rows.push_back({part.what, display(part.time.value() * 1e3), share_text(part.share), part.remedy});
  return {
      .title = "What limits it",
      .paragraphs = {summary.verdict.text + ".",
                     "What would remove a part is advice, not simulated: rehearse diagnose simulates remedies, with "
                     "their gain and cost."},
      .tables = {std::move(parts)}};
}

Section accuracy_of(const Scenario& scenario, const Summary& summary) {
  Section section{.title = "How far to trust it"};
  if (summary.interval) {
    const auto& [low, high] = *summary.interval;
    const std::optional<StatedPrediction>& kind = scenario.profile.prediction;
    const std::string errors =
        kind ? "that predictions of this kind had (" + kind->kind + ") on rows that no profile was fitted to"
        : scenario.profile.fitted_models.empty()
            ? "that the warnings state of what profile " + scenario.profile.name +
                  ", which has no record of a fit, computes or takes from others"
            : "of profile " + scenario.profile.name +
                  " on measurements that its fit had not seen and from the uncertainty of its values";
    section.paragraphs.push_back("Interval of 90 %, from the errors " + errors + ": " +
                                 display(summary.steps_per_s * low) + " to " + display(summary.steps_per_s * high) +
                                 " steps/s.");
  } else
    section.paragraphs.push_back("Profile " + scenario.profile.name + " states no errors: there is no interval.");
  Table profile{.header = {"profile", scenario.profile.name}, .rows = {}};
  const auto row = [&](const char* what, const std::string& text) {
    if (!text.empty()) profile.rows.push_back({what, text});
  };
  row("times of steps are", step_sources(scenario));
  row("GPUs of its fit", joined(scenario.profile.fitted_accelerators));
  row("models of its fit", joined(scenario.profile.fitted_models));
  if (scenario.profile.fitted_batch_max > 0)
    row("batches of its fit", range_text(std::to_string(scenario.profile.fitted_batch_min),
                                         std::to_string(scenario.profile.fitted_batch_max)));
  if (scenario.profile.fitted_workers_max > 0)
    row("workers of its fit, at most", std::to_string(scenario.profile.fitted_workers_max));
  section.tables.push_back(std::move(profile));
  for (const std::string& warning : scenario.warnings) section.paragraphs.push_back("Warning: " + warning + ".");
  return section;
}

/// Machines that do the same are one row.
Section machines_of(const Summary& summary, bool has_servers) {
  Table machines{.header = {"machines", "steps/s", "GPU busy", "device memory busy", "NIC send", "NIC receive"},
                 .rows = {}};
  if (has_servers) machines.header.insert(machines.header.end(), {"CPU", "variables", "parameters"});
  int alike = 1;
  std::string first;
  for (const MachineSummary& machine : summary.machines) {
    const bool is_worker = machine.workers > 0, is_server = machine.servers > 0;
    const std::string what = is_worker ? " (" + (machine.workers > 1 ? std::to_string(machine.workers) + " " : "") +
                                             machine.accelerator + ")"
                                       : "";
    std::vector<std::string> row{"",
                                 is_worker ? display(machine.steps_per_s) : "",
                                 is_worker ? share_text(machine.gpu_utilization) : "",
                                 is_worker ? share_text(machine.memory_busy) : "",
                                 share_text(machine.nic_send_utilization),
                                 share_text(machine.nic_receive_utilization)};
    if (has_servers)
      row.insert(row.end(), {is_server ? share_text(machine.cpu_utilization) : "",
                             is_server ? std::to_string(machine.variables) : "",
                             is_server ? display(as_double(machine.parameter_bytes) / 1e6) + " MB" : ""});
    const bool is_as_before =
        !machines.rows.empty() &&
        std::equal(machines.rows.back().begin() + 1, machines.rows.back().end(), row.begin() + 1, row.end());
    if (is_as_before) {
      machines.rows.back()[0] = first + " to " + machine.name + what + ", " + std::to_string(++alike) + " alike";
    } else {
      first = machine.name;
      alike = 1;
      row[0] = machine.name + what;
      machines.rows.push_back(std::move(row));
    }
  }
  machines.csv = "links.csv";
  return {.title = "Machines",
          .paragraphs = {"Utilization in the steady state, from " + display(summary.window.start.value()) + " s to " +
                         display(summary.window.end.value()) + " s; steps/s is the sum over the GPUs of a machine."},
          .tables = {std::move(machines)}};
}

/// A GPU for each part that workers have: of each stage; without a pipeline of each group.
struct ShownGpu {
  std::string name;
  MemoryCurves::Gpu gpu;
};

std::vector<ShownGpu> shown_gpus(const Scenario& scenario, const MemoryCurves& memory) {
  std::vector<ShownGpu> shown;
  const bool has_stages = scenario.training.strategy.kind->pipeline() != nullptr;
  for (const MemoryCurves::Gpu& gpu : memory.gpus()) {
    std::string name = has_stages ? "stage " + std::to_string(gpu.stage + 1) : memory.group_of(gpu).name;
    const bool is_there = std::ranges::find(shown, name, &ShownGpu::name) != shown.end();
    if (shown.size() < kMostGroups && !is_there) shown.push_back({std::move(name), gpu});
  }
  return shown;
}

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
    if (group.role != Role::kWorker || section.figures.size() == kMostGroups) continue;
    Bars bars = memory_by_part(scenario, group);
    bars.title = group.name + " (" + group.accelerator->name + "): " + gibibytes(gpu_memory_needed(scenario, group)) +
                 " of " + gibibytes(group.accelerator->memory);
    section.figures.emplace_back(std::move(bars));
  }
  return section;
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

/// The first step of the GPU in the steady state of which kernels are recorded, or else its first one.
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
      const Operator& op = operator_of(scenario, kernel);
      writer.add(kernel.span, class_of(op.kind), op.name);
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
    if (!overlaps(work.span) || groups.size() == kMostGroups || !groups.insert(machine.group).second) continue;
    writer.begin(machine.name + ", server threads");
    for (const ServerSpan& one : record.recorder.server_work)
      if (one.machine == work.machine && overlaps(one.span))
        writer.add(one.span, one.is_update ? "server: updates" : "server: reads", unit_name(one.unit));
    writer.end();
  }
  return lanes;
}

/// Each kernel of a step once: FLOPs a second over FLOPs for each byte, below what the GPU can do.
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
    const Operator& op = operator_of(scenario, kernel);
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

/// Means over whole steps: windows that cut steps would show their phases as noise.
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
      if (result.series.size() == kMostGroups) break;
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

Section steps_of(const RunRecord& record, bool is_synchronous) {
  Section steps{.title = "Steps",
                .paragraphs = {"First GPU of each machine, at most 8 machines. Of steps that only "
                               "repeat the one before, the first is drawn."}};
  Plot durations{.title = "Duration of each step", .x_label = "time, s", .y_label = "ms"};
  std::map<MachineIndex, Series> by_machine;
  std::map<std::int64_t, double> staleness;
  for (const StepSpan& step : record.recorder.steps) {
    ++staleness[step.staleness];
    if (step.gpu != 0) continue;
    Series& series = by_machine[step.machine];
    series.x.push_back(step.span.end.value());
    series.y.push_back((step.span.end - step.span.start).value() * 1e3);
  }
  for (auto& [machine, series] : by_machine) {
    if (durations.series.size() == kMostGroups) break;
    series.name = record.machines[static_cast<std::size_t>(machine)].name;
    durations.series.push_back(std::move(series));
  }
  steps.figures = {std::move(durations)};
  if (!is_synchronous) {
    Plot histogram{.title = "Staleness, all workers", .x_label = "updates by others during a step", .y_label = "steps"};
    histogram.series.push_back({.name = "steps", .x = {}, .y = {}, .is_points = true});
    for (const auto& [value, count] : staleness) {
      histogram.series[0].x.push_back(static_cast<double>(value));
      histogram.series[0].y.push_back(count);
    }
    steps.figures.emplace_back(std::move(histogram));
  }
  return steps;
}

Table events_of(const RunRecord& record) {
  Table events{.header = {"event", "machine", "at, s", "for, s", ""}, .rows = {}};
  for (const EventSpan& event : record.recorder.events) {
    if (events.rows.size() == 200) break;
    if (event.kind == "start" && event.span.start == Seconds{}) continue;
    events.rows.push_back(
        {event.kind, event.machine < 0 ? "job" : record.machines[static_cast<std::size_t>(event.machine)].name,
         display(event.span.start.value()), display((event.span.end - event.span.start).value()), event.detail});
  }
  events.csv = "events.csv";
  return events;
}

}  // namespace

Section where_time_goes(const TimeUse& use) {
  Bars bars{.title = "", .unit = "%", .bars = {{.name = "time", .parts = {}}}};
  const auto add = [&](const char* name, Seconds part) {
    if (part > Seconds{}) bars.bars[0].parts.push_back({.name = name, .value = 100 * (part / use.total()), .note = ""});
  };
  add("steps that last", use.trained);
  for (const LostTime& lost : kLostTimes) add(lost.text, use.*lost.time);
  Section section{.title = "Where the time goes",
                  .paragraphs = {"Goodput is the share of the time in which steps were trained that last; the rest is "
                                 "lost, by cause."}};
  section.figures.emplace_back(std::move(bars));
  return section;
}

std::string short_part(const std::string& part) {
  for (const auto& [name, words] : kShortParts)
    if (part == name) return words;
  return part;
}

Document run_document(const Scenario& scenario, const RunRecord& record, const Summary& summary,
                      const MemoryCurves& memory) {
  const bool is_synchronous = scenario.training.strategy.is_synchronous();
  const Group& fullest = fullest_group(scenario);
  Document document{.title = scenario.name,
                    .subtitle = scenario.model.name + ", batch " + std::to_string(scenario.batch) + " per worker, " +
                                describe_strategy(scenario.training.strategy) + ", seed " +
                                std::to_string(scenario.seed) + ", profile " + scenario.profile.name + ", run " +
                                summary.fingerprint,
                    .headlines = headlines_of(scenario, summary),
                    .sections = {},
                    .verdict = verdict_of(summary),
                    .overview = {{.title = "Where a step goes, " + short_time_text(summary.iteration_time.value()),
                                  .paragraphs = {},
                                  .tables = {},
                                  .figures = {step_of(scenario, record, summary)},
                                  .is_wide = true},
                                 {.title = "What would help", .paragraphs = {}, .tables = {remedies_of(summary)}},
                                 {.title = "The cluster and its load",
                                  .paragraphs = {},
                                  .tables = {},
                                  .figures = {cluster_of(scenario, record, summary)}},
                                 {.title = "Memory of a GPU: " + gibibytes(gpu_memory_needed(scenario, fullest)) +
                                           " of " + gibibytes(fullest.accelerator->memory),
                                  .paragraphs = {},
                                  .tables = {},
                                  .figures = {memory_by_part(scenario, fullest)}}}};
  document.sections.push_back(parts_of(summary));
  if (summary.time_use) document.sections.push_back(where_time_goes(*summary.time_use));
  const std::vector<ShownGpu> gpus = shown_gpus(scenario, memory);
  if (!gpus.empty()) {
    const Span step = shown_step(record, gpus[0].gpu);
    document.sections.push_back({.title = "One step",
                                 .paragraphs = {"From " + display(step.start.value()) +
                                                " s of the run on; what is too short to be seen is drawn "
                                                "together. The timeline beside this page has all of it."},
                                 .tables = {},
                                 .figures = {lanes_of(scenario, record, gpus, step)}});
    if (Plot roofline = roofline_of(scenario, record, gpus[0].gpu, step); !roofline.series.empty())
      document.sections.push_back(
          {.title = "Kernels",
           .paragraphs = {"Of " + gpus[0].name +
                          ". Below the slope a kernel waits for device "
                          "memory, below the level for arithmetic. Convolutions that "
                          "Winograd's method computes with fewer multiplications may lie above."},
           .tables = {},
           .figures = {std::move(roofline)}});
  }
  if (Section utilization = utilization_of(scenario, record, summary); !utilization.figures.empty())
    document.sections.push_back(std::move(utilization));
  document.sections.push_back(accuracy_of(scenario, summary));
  document.sections.push_back(machines_of(summary, scenario.count(Role::kParameterServer) > 0));
  document.sections.push_back(gpu_memory_of(scenario, gpus, memory));
  document.sections.push_back(steps_of(record, is_synchronous));
  if (const SampleCounts& samples = summary.samples; samples.lost > 0 || samples.dropped > 0)
    document.sections.push_back(
        {.title = "Samples",
         .paragraphs = {std::to_string(samples.done) + " are done. " + std::to_string(samples.lost) +
                        " were computed and lost with a machine or in a roll-back, of which " +
                        std::to_string(samples.repeated) + " were done again; " + std::to_string(samples.dropped) +
                        " came too late to be used."}});
  if (Table events = events_of(record); !events.rows.empty())
    document.sections.push_back(
        {.title = "Events", .paragraphs = {"The first 200 after the beginning."}, .tables = {std::move(events)}});
  return document;
}

}  // namespace rehearse
