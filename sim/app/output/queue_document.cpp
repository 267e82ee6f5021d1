#include "sim/app/output/queue_document.hpp"

#include <algorithm>
#include <map>

#include "sim/app/output/trace_events.hpp"

namespace rehearse {

namespace {

std::vector<QueueSummary> summaries_of(const QueueSetup& setup, const std::vector<QueueRun>& runs) {
  std::vector<QueueSummary> summaries;
  for (const QueueRun& run : runs) summaries.push_back(summarize(setup, run));
  return summaries;
}

double in_hours(QueueTime time) { return to_seconds(time).value() / 3600; }

/// The share of jobs that are done within a time, by policy.
Plot completions_of(const QueueSetup& setup, const std::vector<QueueRun>& runs) {
  Plot plot{.title = "Completion time", .x_label = "hours from arrival", .y_label = "share of jobs", .series = {}};
  for (const QueueRun& run : runs) {
    std::vector<double> times;
    for (std::size_t i = setup.first_measured; i < setup.last_measured; ++i)
      times.push_back(in_hours(*run.jobs[i].end - setup.jobs[i].arrival));
    std::ranges::sort(times);
    Series series{.name = run.policy, .x = {0}, .y = {0}};
    for (std::size_t i = 0; i < times.size(); ++i) {
      series.x.push_back(times[i]);
      series.y.push_back(static_cast<double>(i + 1) / static_cast<double>(times.size()));
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

Plot load_of(const std::vector<QueueRun>& runs, const std::string& title, const auto& value_of) {
  Plot plot{.title = title, .x_label = "hours", .y_label = title, .series = {}};
  for (const QueueRun& run : runs) {
    Series series{.name = run.policy, .x = {}, .y = {}};
    for (const ClusterLoad& at : run.load) {
      if (!series.y.empty()) {  // steps
        series.x.push_back(in_hours(at.time));
        series.y.push_back(series.y.back());
      }
      series.x.push_back(in_hours(at.time));
      series.y.push_back(value_of(at));
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

/// Which GPU of its machine each part of a span has: the lowest that are free.
class GpuSlots {
 public:
  explicit GpuSlots(const QueueSetup& setup) {
    for (const QueueGroup& group : setup.groups)
      free_at_.emplace_back(static_cast<std::size_t>(group.machines),
                            std::vector<QueueTime>(static_cast<std::size_t>(group.gpus_per_machine)));
  }
  std::vector<std::size_t> take(std::size_t group, const GpuPlacement::Part& part, QueueTime start, QueueTime end) {
    std::vector<std::size_t> slots;
    std::vector<QueueTime>& free_at = free_at_[group][static_cast<std::size_t>(part.machine)];
    for (std::size_t gpu = 0; gpu < free_at.size() && slots.size() < static_cast<std::size_t>(part.gpus); ++gpu)
      if (free_at[gpu] <= start) {
        free_at[gpu] = end;
        slots.push_back(gpu);
      }
    return slots;
  }

 private:
  std::vector<std::vector<std::vector<QueueTime>>> free_at_;  // [groups][machines][GPUs]
};

std::string machine_name(const QueueSetup& setup, std::size_t group, int machine) {
  return setup.groups[group].name + "-" + std::to_string(machine);
}

/// The GPUs of the first machines under a policy, coloured by the GPUs of the jobs.
Lanes lanes_of(const QueueSetup& setup, const QueueRun& run) {
  constexpr std::size_t kMostLanes = 64, kMostWork = 4000;
  Lanes lanes{.title = "GPUs under " + run.policy, .unit = "h", .length = in_hours(run.end)};
  std::map<std::pair<std::size_t, int>, std::size_t> first_lane;  // of a machine
  for (std::size_t g = 0; g < setup.groups.size(); ++g)
    for (int m = 0; m < setup.groups[g].machines; ++m) {
      if (lanes.lanes.size() + static_cast<std::size_t>(setup.groups[g].gpus_per_machine) > kMostLanes) break;
      first_lane[{g, m}] = lanes.lanes.size();
      for (int gpu = 0; gpu < setup.groups[g].gpus_per_machine; ++gpu)
        lanes.lanes.push_back(machine_name(setup, g, m) + ":" + std::to_string(gpu));
    }
  std::map<int, std::size_t> classes;
  for (const JobSpan& span : run.spans) classes.emplace(span.placement.gpus(), 0);
  for (auto& [gpus, index] : classes) {
    index = lanes.classes.size();
    lanes.classes.push_back(std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs"));
  }
  GpuSlots slots{setup};
  for (const JobSpan& span : run.spans)
    for (const GpuPlacement::Part& part : span.placement.parts)
      for (const std::size_t gpu : slots.take(span.placement.group, part, span.start, span.end)) {
        const auto lane = first_lane.find({span.placement.group, part.machine});
        if (lane == first_lane.end() || lanes.work.size() == kMostWork) continue;
        lanes.work.push_back({.lane = lane->second + gpu,
                              .of_class = classes[span.placement.gpus()],
                              .start = in_hours(span.start),
                              .end = in_hours(span.end),
                              .name = setup.jobs[span.job].name});
      }
  return lanes;
}

}  // namespace

Table queue_table(const QueueSetup& setup, const std::vector<QueueRun>& runs) {
  Table table{.header = {"policy", "mean completion", "median", "95 %", "mean wait", "all done after", "GPUs busy",
                         "preemptions"},
              .rows = {}};
  const bool has_energy = !runs.empty() && runs.front().energy;
  if (has_energy) table.header.insert(table.header.end(), {"energy, kWh", "of it idle"});
  const std::vector<QueueSummary> summaries = summaries_of(setup, runs);
  const bool has_waits =
      std::ranges::any_of(summaries, [](const QueueSummary& summary) { return summary.nic_wait_gpu_hours > 0; });
  if (has_waits) table.header.emplace_back("waits for NICs");
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const QueueRun& run = runs[i];
    const QueueSummary& summary = summaries[i];
    table.rows.push_back({run.policy, column_time_text(summary.mean_completion_s),
                          column_time_text(summary.median_completion_s), column_time_text(summary.p95_completion_s),
                          column_time_text(summary.mean_wait_s), column_time_text(summary.makespan_s),
                          share_text(summary.utilization), std::to_string(summary.preemptions)});
    if (has_energy)
      table.rows.back().insert(table.rows.back().end(), {display(setup.electricity.kwh(run.energy->cluster)),
                                                         share_text(run.energy->idle / run.energy->cluster)});
    if (has_waits) table.rows.back().push_back(share_text(summary.nic_wait_gpu_hours / summary.gpu_hours));
  }
  return table;
}

Document queue_document(const QueueSetup& setup, const std::vector<QueueRun>& runs) {
  const std::vector<QueueSummary> summaries = summaries_of(setup, runs);
  const auto best = static_cast<std::size_t>(std::ranges::min_element(summaries, {}, &QueueSummary::mean_completion_s) -
                                             summaries.begin());
  const auto worst = static_cast<std::size_t>(
      std::ranges::max_element(summaries, {}, &QueueSummary::mean_completion_s) - summaries.begin());
  Document document{
      .title = setup.name.empty() ? "Queue of jobs" : setup.name,
      .subtitle = count_text(static_cast<double>(setup.jobs.size())) + " jobs on " + count_text(setup.gpus()) + " GPUs",
      .headlines = {},
      .sections = {}};
  document.verdict = "Under " + runs[best].policy + " a job is done after " +
                     column_time_text(summaries[best].mean_completion_s) + " in the mean, of which it waits " +
                     column_time_text(summaries[best].mean_wait_s) + " for its first GPUs";
  if (runs.size() > 1)
    document.verdict +=
        "; under " + runs[worst].policy + " after " + column_time_text(summaries[worst].mean_completion_s);
  document.verdict += ".";
  document.headlines = {
      {"mean completion time", column_time_text(summaries[best].mean_completion_s), runs[best].policy},
      {"95 % are done after", column_time_text(summaries[best].p95_completion_s), runs[best].policy},
      {"all are done after", column_time_text(summaries[best].makespan_s), runs[best].policy},
      {"GPUs busy", share_text(summaries[best].utilization), runs[best].policy}};
  if (const auto& energy = runs[best].energy)
    document.headlines.push_back(
        {"energy of all machines", display(setup.electricity.kwh(energy->cluster)) + " kWh", runs[best].policy});
  Bars bars{.title = "", .unit = "h", .bars = {}};
  for (std::size_t i = 0; i < runs.size(); ++i)
    bars.bars.push_back(
        {runs[i].policy,
         {{.name = "wait for the first GPUs", .value = summaries[i].mean_wait_s / 3600},
          {.name = "from then on", .value = (summaries[i].mean_completion_s - summaries[i].mean_wait_s) / 3600}}});
  document.overview.push_back(
      {.title = "Mean completion time", .paragraphs = {}, .tables = {}, .figures = {std::move(bars)}});
  document.overview.push_back(
      {.title = "Jobs done", .paragraphs = {}, .tables = {}, .figures = {completions_of(setup, runs)}});
  document.sections.push_back(
      {.title = "Policies", .paragraphs = setup.warnings, .tables = {queue_table(setup, runs)}, .figures = {}});
  Section cluster{.title = "Cluster over time", .paragraphs = {}, .tables = {}, .figures = {}};
  cluster.figures.emplace_back(
      load_of(runs, "busy GPUs", [](const ClusterLoad& at) { return static_cast<double>(at.busy); }));
  cluster.figures.emplace_back(
      load_of(runs, "waiting jobs", [](const ClusterLoad& at) { return static_cast<double>(at.waiting); }));
  cluster.figures.emplace_back(lanes_of(setup, runs[best]));
  document.sections.push_back(std::move(cluster));
  Table jobs{.header = {"policy", "job", "GPUs", "arrival, h", "wait", "completion time", "GPU hours", "preemptions"},
             .rows = {},
             .csv = "jobs.csv"};
  constexpr std::size_t kMostRows = 500;
  for (std::size_t i = 0; i < std::min(kMostRows, setup.jobs.size()); ++i) {
    const JobOutcome& job = runs[best].jobs[i];
    jobs.rows.push_back({runs[best].policy, setup.jobs[i].name, std::to_string(setup.kinds[setup.jobs[i].kind].gpus),
                         display(in_hours(setup.jobs[i].arrival)),
                         column_time_text(to_seconds(*job.start - setup.jobs[i].arrival).value()),
                         column_time_text(to_seconds(*job.end - setup.jobs[i].arrival).value()),
                         display(hours(job.gpu_time)), std::to_string(job.preemptions)});
  }
  document.sections.push_back({.title = "Jobs", .paragraphs = {}, .tables = {std::move(jobs)}, .figures = {}});
  return document;
}

std::string queue_timeline(const QueueSetup& setup, const std::vector<QueueRun>& runs) {
  constexpr std::int64_t kNanoseconds = 1'000'000'000 / kQueueSecond;
  TraceEvents events;
  std::int64_t process = 0;
  for (const QueueRun& run : runs) {
    const std::int64_t cluster = ++process;
    events.metadata("process_name", {cluster, 0}, TraceArguments{}.add("name", run.policy + ": cluster"));
    for (const ClusterLoad& at : run.load) {
      events.counter("busy GPUs", {cluster, 0}, at.time * kNanoseconds, at.busy);
      events.counter("waiting jobs", {cluster, 0}, at.time * kNanoseconds, static_cast<double>(at.waiting));
    }
    std::map<std::pair<std::size_t, int>, std::int64_t> processes;
    GpuSlots slots{setup};
    for (const JobSpan& span : run.spans)
      for (const GpuPlacement::Part& part : span.placement.parts) {
        const auto [found, is_new] = processes.try_emplace({span.placement.group, part.machine}, process + 1);
        if (is_new) {
          ++process;
          events.metadata("process_name", {process, 0},
                          TraceArguments{}.add(
                              "name", run.policy + ": " + machine_name(setup, span.placement.group, part.machine)));
        }
        for (const std::size_t gpu : slots.take(span.placement.group, part, span.start, span.end)) {
          const QueuedJob& job = setup.jobs[span.job];
          events.slice(
              job.name, "job", {found->second, static_cast<std::int64_t>(gpu) + 1}, span.start * kNanoseconds,
              span.end * kNanoseconds,
              TraceArguments{}.add("gpus", span.placement.gpus()).add("restart_s", to_seconds(span.restart).value()));
        }
      }
  }
  return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[" + events.text() + "\n]}\n";
}

}  // namespace rehearse
