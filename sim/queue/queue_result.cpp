#include "sim/queue/queue_result.hpp"

#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/base/csv.hpp"
#include "sim/base/json.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

std::string to_text(const QueueRun& run) {
  Json jobs = Json::array(), spans = Json::array(), load = Json::array();
  for (const JobOutcome& job : run.jobs)
    jobs.push_back({job.start.value_or(-1), job.end.value_or(-1), job.steps, job.gpu_time, job.preemptions});
  for (const JobSpan& span : run.spans) {
    Json parts = Json::array();
    for (const GpuPlacement::Part& part : span.placement.parts) {
      parts.push_back(part.machine);
      parts.push_back(part.gpus);
    }
    spans.push_back(
        {span.job, span.placement.group, std::move(parts), span.start, span.end, span.restart, span.waits, span.steps});
  }
  for (const ClusterLoad& at : run.load) load.push_back({at.time, at.busy, at.waiting});
  return Json{{"policy", run.policy},
              {"jobs", std::move(jobs)},
              {"spans", std::move(spans)},
              {"load", std::move(load)},
              {"busy_of_group", run.busy_of_group},
              {"end", run.end},
              {"decisions", run.decisions},
              {"shared_gpu_time", run.shared_gpu_time},
              {"unknown_gpu_time", run.unknown_gpu_time}}
      .dump();
}

QueueRun read_queue_run(std::string_view text) try {
  const Json json = Json::parse(text);
  QueueRun run{.policy = json.at("policy").get<std::string>()};
  for (const Json& job : json.at("jobs")) {
    JobOutcome outcome{.steps = job.at(2).get<std::int64_t>(),
                       .gpu_time = job.at(3).get<QueueTime>(),
                       .preemptions = job.at(4).get<int>()};
    if (const auto start = job.at(0).get<QueueTime>(); start >= 0) outcome.start = start;
    if (const auto end = job.at(1).get<QueueTime>(); end >= 0) outcome.end = end;
    run.jobs.push_back(outcome);
  }
  for (const Json& entry : json.at("spans")) {
    JobSpan span{.job = entry.at(0).get<std::size_t>(),
                 .placement = {.group = entry.at(1).get<std::size_t>(), .parts = {}},
                 .start = entry.at(3).get<QueueTime>(),
                 .end = entry.at(4).get<QueueTime>(),
                 .restart = entry.at(5).get<QueueTime>(),
                 .waits = entry.at(6).get<QueueTime>(),
                 .steps = entry.at(7).get<std::int64_t>()};
    const Json& parts = entry.at(2);
    for (std::size_t i = 0; i + 1 < parts.size(); i += 2)
      span.placement.parts.push_back({parts.at(i).get<int>(), parts.at(i + 1).get<int>()});
    run.spans.push_back(std::move(span));
  }
  for (const Json& at : json.at("load"))
    run.load.push_back({at.at(0).get<QueueTime>(), at.at(1).get<int>(), at.at(2).get<std::size_t>()});
  run.busy_of_group = json.at("busy_of_group").get<std::vector<QueueTime>>();
  run.end = json.at("end").get<QueueTime>();
  run.decisions = json.at("decisions").get<std::int64_t>();
  run.shared_gpu_time = json.at("shared_gpu_time").get<QueueTime>();
  run.unknown_gpu_time = json.at("unknown_gpu_time").get<QueueTime>();
  return run;
} catch (const Json::exception&) { throw InputError{"expected a kept run of a queue"}; }

namespace {

/// With what the site adds.
Json energy_json(const Electricity& electricity, const std::optional<QueueEnergy>& energy) {
  if (!energy) return nullptr;
  const double kwh = electricity.kwh(energy->cluster);
  const double of_jobs = std::accumulate(energy->of_job.begin(), energy->of_job.end(), 0.0);
  return {{"kwh", kwh},
          {"jobs_kwh", electricity.kwh(of_jobs)},
          {"idle_kwh", electricity.kwh(energy->idle)},
          {"usd", or_null(electricity.usd(kwh))},
          {"co2_kg", or_null(electricity.co2_kg(kwh))}};
}

}  // namespace

Json to_json(const QueueSetup& setup, const QueueRun& run) {
  const QueueSummary summary = summarize(setup, run);
  Json busy = Json::object();
  for (std::size_t g = 0; g < setup.groups.size(); ++g) busy[setup.groups[g].name] = hours(run.busy_of_group[g]);
  return {{"policy", run.policy},
          {"mean_completion_time_s", summary.mean_completion_s},
          {"median_completion_time_s", summary.median_completion_s},
          {"p95_completion_time_s", summary.p95_completion_s},
          {"mean_wait_s", summary.mean_wait_s},
          {"makespan_s", summary.makespan_s},
          {"gpu_utilization", summary.utilization},
          {"gpu_hours", summary.gpu_hours},
          {"busy_gpu_hours", std::move(busy)},
          {"preemptions", summary.preemptions},
          {"decisions", run.decisions},
          {"shared_link_gpu_hours", hours(run.shared_gpu_time)},
          {"nic_wait_gpu_hours", summary.nic_wait_gpu_hours},
          {"energy", energy_json(setup.electricity, run.energy)}};
}

std::string queue_jobs_csv(const QueueSetup& setup, const std::vector<QueueRun>& runs) {
  CsvWriter csv{{"policy", "job", "type", "gpus", "arrival_s", "start_s", "end_s", "wait_s", "completion_time_s",
                 "gpu_hours", "steps", "samples", "preemptions", "energy_kwh"}};
  for (const QueueRun& run : runs)
    for (std::size_t i = 0; i < setup.jobs.size(); ++i) {
      const QueuedJob& job = setup.jobs[i];
      const JobKind& kind = setup.kinds[job.kind];
      const JobOutcome& outcome = run.jobs[i];
      const bool has_steps = !kind.type.empty() || !kind.scenario.empty();
      const auto whole = [](bool is_known, std::int64_t value) { return is_known ? std::to_string(value) : ""; };
      csv.row({run.policy, job.name, kind.type.empty() ? kind.scenario : kind.type, kind.gpus,
               to_seconds(job.arrival).value(), to_seconds(*outcome.start).value(), to_seconds(*outcome.end).value(),
               to_seconds(*outcome.start - job.arrival).value(), to_seconds(*outcome.end - job.arrival).value(),
               hours(outcome.gpu_time), whole(has_steps, outcome.steps),
               whole(has_steps && job.samples_per_step > 0, outcome.steps * job.samples_per_step), outcome.preemptions,
               run.energy ? to_text(setup.electricity.kwh(run.energy->of_job[i])) : ""});
    }
  return csv.text();
}

std::string queue_spans_csv(const QueueSetup& setup, const std::vector<QueueRun>& runs) {
  CsvWriter csv{{"policy", "job", "group", "machines", "start_s", "end_s", "restart_s", "gpus", "steps", "nic_wait_s"}};
  for (const QueueRun& run : runs)
    for (const JobSpan& span : run.spans) {
      const JobKind& kind = setup.kinds[setup.jobs[span.job].kind];
      std::string machines;
      for (const GpuPlacement::Part& part : span.placement.parts)
        machines += (machines.empty() ? "" : " ") + std::to_string(part.machine) + ":" + std::to_string(part.gpus);
      csv.row({run.policy, setup.jobs[span.job].name, setup.groups[span.placement.group].name, machines,
               to_seconds(span.start).value(), to_seconds(span.end).value(), to_seconds(span.restart).value(),
               span.placement.gpus(), kind.type.empty() && kind.scenario.empty() ? "" : std::to_string(span.steps),
               to_seconds(span.waits).value()});
    }
  return csv.text();
}

std::string queue_load_csv(const QueueSetup& setup, const std::vector<QueueRun>& runs) {
  CsvWriter csv{{"policy", "time_s", "busy_gpus", "free_gpus", "waiting_jobs"}};
  for (const QueueRun& run : runs)
    for (const ClusterLoad& at : run.load)
      csv.row({run.policy, to_seconds(at.time).value(), at.busy, setup.gpus() - at.busy, at.waiting});
  return csv.text();
}

}  // namespace rehearse
