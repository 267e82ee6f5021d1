#include "sim/app/output/run_files.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/app/output/document.hpp"
#include "sim/app/output/kineto_trace.hpp"
#include "sim/app/output/tables.hpp"
#include "sim/app/output/timeline.hpp"
#include "sim/base/files.hpp"
#include "sim/base/output_folder.hpp"
#include "sim/record/memory_curve.hpp"
#include "sim/record/resource_profile.hpp"
#include "sim/scenario/gpu_memory.hpp"
#include "sim/scenario/work.hpp"
#include "sim/traffic/messages.hpp"

namespace rehearse {

namespace {

/// Less than can be told of a run is said to be so.
std::string percent(double share) {
  constexpr double kLeast = 1e-4;
  return share > 0 && share < kLeast ? "< 0.01 %" : display(share * 100) + " %";
}

constexpr std::size_t kMostMachines = 8;  // in a plot

Section bottleneck(const Scenario& scenario, const Summary& summary) {
  Section section{.title = "Bottleneck", .paragraphs = {summary.verdict.text + "."}};
  Table parts{.header = {"part of a step", "ms", "share", "what would remove it"}, .rows = {}};
  for (const StepPart& part : summary.verdict.parts)
    parts.rows.push_back({part.what, display(part.time.value() * 1e3), percent(part.share), part.remedy});
  section.tables.push_back(std::move(parts));
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
  }
  return section;
}

Section machines_of(const Summary& summary, bool has_servers) {
  Table machines{.header = {"machine", "steps/s", "GPU busy", "device memory busy", "NIC send", "NIC receive"},
                 .rows = {}};
  if (has_servers) machines.header.insert(machines.header.end(), {"CPU", "variables", "parameters"});
  for (const MachineSummary& machine : summary.machines) {
    const bool is_worker = machine.workers > 0, is_server = machine.servers > 0;
    std::vector<std::string> row{
        machine.name + (is_worker ? " (" + (machine.workers > 1 ? std::to_string(machine.workers) + " " : "") +
                                        machine.accelerator + ")"
                                  : ""),
        is_worker ? display(machine.steps_per_s) : "",
        is_worker ? percent(machine.gpu_utilization) : "",
        is_worker ? percent(machine.memory_busy) : "",
        percent(machine.nic_send_utilization),
        percent(machine.nic_receive_utilization)};
    if (has_servers)
      row.insert(row.end(),
                 {is_server ? percent(machine.cpu_utilization) : "", is_server ? std::to_string(machine.variables) : "",
                  is_server ? display(as_double(machine.parameter_bytes) / 1e6) + " MB" : ""});
    machines.rows.push_back(std::move(row));
  }
  return {.title = "Machines",
          .paragraphs = {"Utilization in the steady state, from " + display(summary.window.start.value()) + " s to " +
                         display(summary.window.end.value()) + " s; steps/s is the sum over the GPUs of a machine."},
          .tables = {std::move(machines)}};
}

/// Over the first step that was recorded whole, of a GPU of each stage; without a pipeline of one of each group.
Plot memory_of_a_step(const Scenario& scenario, const MemoryCurves& memory) {
  Plot plot{.title = "GPU memory over a step", .x_label = "time, s", .y_label = "GiB"};
  std::set<std::string> shown;
  for (const MemoryCurves::Gpu& gpu : memory.gpus()) {
    const bool has_stages = scenario.training.strategy.kind->pipeline() != nullptr;
    const std::string name = has_stages ? "stage " + std::to_string(gpu.stage + 1) : memory.group_of(gpu).name;
    if (plot.series.size() == kMostMachines || !shown.insert(name).second) continue;
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

/// Bytes by part of each group's GPU that holds the most.
Section gpu_memory_of(const Scenario& scenario, const MemoryCurves& curves) {
  const auto text = [](Bytes bytes) { return bytes > Bytes{} ? gibibytes(bytes) : std::string{"0"}; };
  Table parts{.header = {"part"}, .rows = {}};
  std::vector<std::pair<const Group*, GpuMemory>> groups;
  for (const Group& group : scenario.groups) {
    if (group.role != Role::kWorker || groups.size() == kMostMachines) continue;
    groups.emplace_back(&group, gpu_memory(scenario, group));
    parts.header.push_back(group.name + " (" + group.accelerator->name + ")");
  }
  const auto row = [&](const std::string& what, const auto& bytes_of) {
    parts.rows.push_back({what});
    for (const auto& [group, memory] : groups) parts.rows.back().push_back(text(bytes_of(*group, memory)));
  };
  for (const auto& [name, part] : kGpuMemoryParts)
    row(part.words, [&, bytes = part.bytes](const Group&, const GpuMemory& memory) { return memory.*bytes; });
  row("all of it", [](const Group&, const GpuMemory& memory) { return memory.total(); });
  std::vector<std::string> paragraphs{
      "What a GPU needs at the most, that of each group which needs the most. Fragmentation of the framework's "
      "allocator is not modelled."};
  for (const auto& [group, memory] : groups)
    if (const std::string moment = describe_moment(memory); !moment.empty())
      paragraphs.push_back((groups.size() > 1 ? "Of " + group->name + " that is " : "That is ") + moment + ".");
  row("there is", [](const Group& group, const GpuMemory&) { return group.accelerator->memory; });
  return {.title = "GPU memory",
          .paragraphs = std::move(paragraphs),
          .tables = {std::move(parts)},
          .plots = {memory_of_a_step(scenario, curves)}};
}

Section activity_of(const RunRecord& record, const ResourceProfile& profile) {
  Section activity{.title = "Activity",
                   .paragraphs = {"Averages over " + display(profile.period.value() * 1e3) +
                                  " ms, first 10 s, at most 8 machines."}};
  // Whole periods: the last one would show the end of the run as a drop.
  const auto samples = static_cast<std::size_t>(
      std::max(1.0, std::min({Seconds{10}, record.end, record.recorder.scope.window.end}) / profile.period));
  const auto plot = [&](const std::string& title, const std::string& unit, double scale,
                        std::vector<double> ResourceSeries::*values, bool workers_only) {
    Plot result{.title = title, .x_label = "time, s", .y_label = unit};
    for (const ResourceSeries& series : profile.series) {
      const Machine& machine = record.machines[static_cast<std::size_t>(series.machine)];
      if ((workers_only && machine.workers == 0) || result.series.size() == kMostMachines) continue;
      Series line{.name = machine.name, .x = {}, .y = {}};
      for (std::size_t i = 0; i < std::min(samples, (series.*values).size()); ++i) {
        line.x.push_back(profile.period.value() * static_cast<double>(i));
        line.y.push_back((series.*values)[i] * scale);
      }
      result.series.push_back(std::move(line));
    }
    return result;
  };
  activity.plots = {plot("GPU utilization", "%", 100, &ResourceSeries::gpu, true),
                    plot("device memory busy", "%", 100, &ResourceSeries::memory, true),
                    plot("NIC receive", "MB/s", 1e-6, &ResourceSeries::receive, false),
                    plot("NIC transmit", "MB/s", 1e-6, &ResourceSeries::transmit, false)};
  return activity;
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
    if (durations.series.size() == kMostMachines) break;
    series.name = record.machines[static_cast<std::size_t>(machine)].name;
    durations.series.push_back(std::move(series));
  }
  steps.plots = {std::move(durations)};
  if (!is_synchronous) {
    Plot histogram{.title = "Staleness, all workers", .x_label = "updates by others during a step", .y_label = "steps"};
    histogram.series.push_back({.name = "steps", .x = {}, .y = {}, .is_points = true});
    for (const auto& [value, count] : staleness) {
      histogram.series[0].x.push_back(static_cast<double>(value));
      histogram.series[0].y.push_back(count);
    }
    steps.plots.push_back(std::move(histogram));
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
  return events;
}

Document make_document(const Scenario& scenario, const RunRecord& record, const Summary& summary,
                       const ResourceProfile& profile, const MemoryCurves& memory) {
  const bool is_synchronous = scenario.training.strategy.is_synchronous();
  Document document{
      .title = scenario.name,
      .subtitle = scenario.model.name + ", batch " + std::to_string(scenario.batch) + " per worker, " +
                  describe_strategy(scenario.training.strategy) + ", seed " + std::to_string(scenario.seed) +
                  ", profile " + scenario.profile.name + ", run " + summary.fingerprint,
      .headlines = {{is_synchronous ? "speed" : "speed, all workers", display(summary.steps_per_s) + " steps/s"},
                    {"samples", display(summary.samples_per_s) + " /s"},
                    {"time for " + std::to_string(summary.steps) + " steps", time_text(summary.time.value())},
                    {"samples done", std::to_string(summary.samples.done)},
                    {"step of one worker", display(summary.iteration_time.value() * 1e3) + " ms"},
                    {"of it waiting", display(summary.exposed_communication.value() * 1e3) + " ms"},
                    {"GPU utilization", percent(summary.gpu_utilization)},
                    is_synchronous
                        ? std::pair{"waiting for the slowest", display(summary.wait_for_slowest.value() * 1e3) + " ms"}
                        : std::pair{"staleness, mean", display(summary.staleness_mean) + " updates"},
                    {"cost", summary.cost_usd ? display(*summary.cost_usd) + " USD" : "no price given"}},
      .sections = {bottleneck(scenario, summary)}};
  if (const SampleCounts& samples = summary.samples; samples.lost > 0 || samples.dropped > 0)
    document.sections.push_back(
        {.title = "Samples",
         .paragraphs = {std::to_string(samples.done) + " are done. " + std::to_string(samples.lost) +
                        " were computed and lost with a machine or in a roll-back, of which " +
                        std::to_string(samples.repeated) + " were done again; " + std::to_string(samples.dropped) +
                        " came too late to be used."}});
  if (!scenario.warnings.empty()) document.sections.push_back({.title = "Warnings", .paragraphs = scenario.warnings});
  document.sections.push_back(machines_of(summary, scenario.count(Role::kParameterServer) > 0));
  document.sections.push_back(gpu_memory_of(scenario, memory));
  document.sections.push_back(activity_of(record, profile));
  document.sections.push_back(steps_of(record, is_synchronous));
  if (Table events = events_of(record); !events.rows.empty())
    document.sections.push_back({.title = "Events",
                                 .paragraphs = {"The first 200 after the beginning; events.csv has all."},
                                 .tables = {std::move(events)}});
  return document;
}

}  // namespace

std::vector<std::string> write_run_files(const std::filesystem::path& folder, const Scenario& scenario,
                                         const RunRecord& record, const Summary& summary,
                                         TimelineFormat timeline_format, const Budget& budget) {
  ResourceProfile profile = resource_profile(scenario, record);
  const MemoryCurves memory{scenario, record};
  add_gpu_memory(memory, profile);
  OutputFolder files{folder};
  const auto write = [&](const std::string& name, const auto& make) {
    budget.check();
    files.write(name, make());
  };
  write("scenario.json", [&] { return scenario.effective; });
  write("iterations.csv", [&] { return iterations_csv(record); });
  write("resources.csv", [&] { return resources_csv(record, profile); });
  write("bursts.csv", [&] { return bursts_csv(record, profile); });
  write("links.csv", [&] { return links_csv(record); });
  write("events.csv", [&] { return events_csv(record); });
  write("costs.csv", [&] { return costs_csv(scenario, record); });
  write("messages.csv.gz", [&] { return gzip(messages_csv(messages_of(record), machine_names(record))); });
  if (timeline_format == TimelineFormat::kKineto) {
    const KinetoTraces traces{scenario, record};
    for (const int rank : traces.ranks())
      write("kineto/rank-" + std::to_string(rank) + ".json.gz", [&] { return gzip(traces.text(rank)); });
  } else {
    write("timeline.json.gz", [&] { return gzip(timeline_json(scenario, record, profile)); });
  }
  write("report.html", [&] { return render_html(make_document(scenario, record, summary, profile, memory)); });
  write("summary.json", [&] { return to_json_text(to_json(scenario, summary)); });
  budget.check();
  files.commit();
  return files.names();
}

}  // namespace rehearse
