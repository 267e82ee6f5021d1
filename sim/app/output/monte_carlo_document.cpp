#include "sim/app/output/monte_carlo_document.hpp"

#include <algorithm>
#include <cmath>

#include "sim/app/output/run_document.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/statistics.hpp"
#include "sim/job/machine_events.hpp"
#include "sim/scenario/site.hpp"

namespace rehearse {

namespace {

std::string or_never(double value) { return std::isfinite(value) ? display(value) : "never"; }

/// A mean over all runs, of which some may have been given up.
std::string mean_text(double mean, bool is_lower_bound) { return (is_lower_bound ? ">= " : "") + display(mean); }

/// F(x) of the values as a line of steps.
Series distribution(std::string name, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  Series series{.name = std::move(name), .x = {}, .y = {}};
  const auto count = static_cast<double>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    series.x.insert(series.x.end(), 2, values[i]);
    series.y.push_back(static_cast<double>(i) / count);
    series.y.push_back(static_cast<double>(i + 1) / count);
  }
  return series;
}

Section distributions(const MonteCarlo& result, std::optional<Seconds> deadline) {
  Section section{
      .title = "Distributions",
      .paragraphs = {"Share of the runs that were finished by a time, or cost no more. Runs that were given "
                     "up are missing at the top."}};
  std::vector<double> hours, usd;
  for (const RunOutcome& run : result.runs) {
    if (!run.is_finished) continue;
    hours.push_back(run.time_s / 3600);
    if (run.cost_usd) usd.push_back(run.cost_usd->total());
  }
  Plot time{.title = "Finish time", .x_label = "hours", .y_label = "share of runs"};
  time.series.push_back(distribution("runs", hours));
  for (double& y : time.series[0].y) y *= static_cast<double>(hours.size()) / static_cast<double>(result.runs.size());
  if (deadline)
    time.series.push_back({.name = "deadline", .x = {deadline->value() / 3600, deadline->value() / 3600}, .y = {0, 1}});
  section.figures.emplace_back(std::move(time));
  if (!usd.empty()) {
    Plot cost{.title = "Cost", .x_label = "USD", .y_label = "share of runs"};
    cost.series.push_back(distribution("runs", usd));
    for (double& y : cost.series[0].y) y *= static_cast<double>(usd.size()) / static_cast<double>(result.runs.size());
    section.figures.emplace_back(std::move(cost));
    Plot both{.title = "Time and cost of each run", .x_label = "hours", .y_label = "USD"};
    both.series.push_back({.name = "runs", .x = hours, .y = usd, .is_points = true});
    section.figures.emplace_back(std::move(both));
  }
  return section;
}

/// Machines over time, and the moments at which something happened to the job.
std::vector<Section> sample_run(const Scenario& scenario, const MonteCarlo& result) {
  const Site site{scenario};
  Section section{.title = "One run in detail",
                  .paragraphs = {"Run " + std::to_string(result.sample_index) +
                                 ", the median by time: the same as simulate --runs 1 --seed " +
                                 std::to_string(result.runs[result.sample_index].seed) + "."}};
  Plot fleet{.title = "Machines that run, and what happens", .x_label = "hours", .y_label = "machines"};
  Series running{.name = "workers", .x = {0}, .y = {}};
  Series revoked{.name = "revoked or failed", .x = {}, .y = {}, .is_points = true};
  Series stops{.name = "job stops", .x = {}, .y = {}, .is_points = true};
  Series checkpoints{.name = "checkpoint", .x = {}, .y = {}, .is_points = true};
  double count = 0;
  for (std::size_t m = 0; m < site.machines.size(); ++m)
    if (site.machines[m].workers > 0 && !result.sample.job.rentals[m].empty() &&
        result.sample.job.rentals[m].front().span.start == Seconds{})
      ++count;
  running.y.push_back(count);
  Table events{.header = {"event", "machine", "at, h", ""}, .rows = {}};
  for (const EventSpan& event : result.sample.events) {
    const double at = event.span.start.value() / 3600;
    const bool is_worker = event.machine >= 0 && site.machine(event.machine).workers > 0;
    const bool is_lost = event.kind == "revoked" || event.kind == "fault";
    if (is_worker && (event.kind == "running" || event.kind == "release" || is_lost)) {
      running.x.insert(running.x.end(), 2, at);
      running.y.push_back(count);
      running.y.push_back(count += event.kind == "running" ? 1 : -1);
    }
    Series* points = is_lost                      ? &revoked
                     : event.kind == "stop"       ? &stops
                     : event.kind == "checkpoint" ? &checkpoints
                                                  : nullptr;
    if (points != nullptr) {
      points->x.push_back(at);
      points->y.push_back(count);
    }
    if (event.kind != "checkpoint" && event.kind != "request" && events.rows.size() < 200)
      events.rows.push_back(
          {event.kind, event.machine < 0 ? "job" : site.machine(event.machine).name, display(at), event.detail});
  }
  running.x.push_back(result.sample.job.end.value() / 3600);
  running.y.push_back(count);
  fleet.series = {std::move(running), std::move(revoked), std::move(stops), std::move(checkpoints)};
  section.figures.emplace_back(std::move(fleet));
  std::vector<Section> sections{std::move(section)};
  if (!events.rows.empty())
    sections.push_back({.title = "Its events",
                        .paragraphs = {"The first 200; requests and checkpoints are left out."},
                        .tables = {std::move(events)}});
  return sections;
}

Section memberships(const Scenario& scenario, const MonteCarlo& result) {
  Table table{.header = {}, .rows = {}};
  const auto is_counted = [](const Group& group) { return group.role == Role::kWorker || group.is_standby; };
  for (const Group& group : scenario.groups)
    if (is_counted(group)) table.header.push_back(group.name);
  table.header.insert(table.header.end(), {"steps/s of the full cluster", "samples/s"});
  for (const auto& [counts, speed] : result.speeds) {
    std::vector<std::string> row;
    for (std::size_t g = 0; g < counts.size(); ++g)
      if (is_counted(scenario.groups[g])) row.push_back(std::to_string(counts[g]));
    row.push_back(display(speed));
    row.push_back(display(speed * result.samples_per_step));
    table.rows.push_back(std::move(row));
  }
  return {.title = "Speed of each membership",
          .paragraphs = {"Machines of each group that train, and the speed that a simulation of just these, message by "
                         "message, has in its steady state."},
          .tables = {std::move(table)}};
}

}  // namespace

Table monte_carlo_table(const Scenario& scenario, const MonteCarlo& result, std::optional<Seconds> deadline) {
  Table table{.header = {"", "p5", "p50", "p95", "mean"}, .rows = {}};
  const auto count = static_cast<double>(result.runs.size());
  const std::size_t unfinished = unfinished_runs(result);
  const auto mean_of = [&](auto value) {
    double sum = 0;
    for (const RunOutcome& run : result.runs) sum += static_cast<double>(value(run));
    return sum / count;
  };
  const RunPercentiles time = time_percentiles(result);
  const auto hours = [](double seconds) { return or_never(seconds / 3600); };
  table.rows.push_back({"finish time, h", hours(time.p5), hours(time.p50), hours(time.p95),
                        mean_text(mean_of([](const RunOutcome& run) { return run.time_s / 3600; }), unfinished > 0)});
  if (const auto cost = cost_percentiles(result)) {
    table.rows.push_back(
        {"cost, USD", or_never(cost->p5), or_never(cost->p50), or_never(cost->p95),
         mean_text(mean_of([](const RunOutcome& run) { return run.cost_usd->total(); }), unfinished > 0)});
    const auto part = [&](const char* name, double CostSplit::*of) {
      table.rows.push_back(
          {name, "", "", "",
           mean_text(mean_of([of](const RunOutcome& run) { return (*run.cost_usd).*of; }), unfinished > 0)});
    };
    part("  workers, while they train", &CostSplit::workers);
    part("  servers", &CostSplit::servers);
    part("  idle, while the job stands still", &CostSplit::idle);
    part("  start-up of workers", &CostSplit::startup);
  }
  if (const auto energy = energy_percentiles(result)) {
    const auto kwh = [&](double joules) { return or_never(scenario.electricity.kwh(joules)); };
    const double mean_j = mean_of([](const RunOutcome& run) { return *run.energy_j; });
    table.rows.push_back({"energy, kWh", kwh(energy->p5), kwh(energy->p50), kwh(energy->p95),
                          mean_text(scenario.electricity.kwh(mean_j), unfinished > 0)});
    if (const auto co2 = scenario.electricity.co2_kg(scenario.electricity.kwh(mean_j)))
      table.rows.push_back({"CO2, kg", "", "", "", mean_text(*co2, unfinished > 0)});
  }
  const auto mean_row = [&](const char* name, auto value) {
    table.rows.push_back({name, "", "", "", mean_text(mean_of(value), unfinished > 0)});
  };
  const TimeUse use = time_use_of(result);
  const auto share = [&](Seconds part) { return percent_text(use.total() > Seconds{} ? part / use.total() : 0); };
  const RunPercentiles goodput = goodput_percentiles(result);
  table.rows.push_back({"goodput: trained steps that last", percent_text(goodput.p5), percent_text(goodput.p50),
                        percent_text(goodput.p95), share(use.trained)});
  for (const LostTime& lost : kLostTimes)
    if (use.*lost.time > Seconds{})
      table.rows.push_back({std::string{"  lost to "} + lost.text, "", "", "", share(use.*lost.time)});
  if (std::ranges::any_of(result.runs, [](const RunOutcome& run) { return run.interruptions.faults > 0; }))
    mean_row("faults", [](const RunOutcome& run) { return run.interruptions.faults; });
  mean_row("revocations", [](const RunOutcome& run) { return run.interruptions.revocations; });
  mean_row("restarts", [](const RunOutcome& run) { return run.interruptions.restarts; });
  mean_row("steps lost", [](const RunOutcome& run) { return run.interruptions.lost_updates; });
  mean_row("samples lost", [](const RunOutcome& run) { return run.samples.lost; });
  mean_row("samples repeated", [](const RunOutcome& run) { return run.samples.repeated; });
  mean_row("job stood still, s", [](const RunOutcome& run) { return run.interruptions.stopped.value(); });
  mean_row("checkpoints", [](const RunOutcome& run) { return run.interruptions.checkpoints; });
  if (unfinished > 0)
    table.rows.push_back({"given up after " + hours(result.gives_up_after.value()) + " h", "", "", "",
                          percent_text(static_cast<double>(unfinished) / count)});
  if (deadline)
    table.rows.push_back({"finished within " + hours(deadline->value()) + " h", "", "", "",
                          percent_text(probability_by(result, *deadline))});
  return table;
}

Table control_table(const ControlGain& gain, int times) {
  const std::string plan = times == 1 ? "the fixed plan" : std::to_string(times) + " times the batch, fixed";
  Table table{.header = {"against " + plan, "fixed", "with rules", "difference", "95 %"}, .rows = {}};
  const auto add = [&](const char* name, const PairedMean& fixed, const PairedMean& difference, double unit) {
    const auto text = [unit](double value) { return std::isfinite(value) ? display(value / unit) : "unknown"; };
    table.rows.push_back({name, text(fixed.mean), text(fixed.mean + difference.mean), text(difference.mean),
                          text(difference.low) + " to " + text(difference.high)});
  };
  add("mean time, h", gain.fixed_time_s, gain.time_s, 3600);
  if (gain.cost_usd) add("mean cost, USD", *gain.fixed_cost_usd, *gain.cost_usd, 1);
  if (gain.deadline_share) add("finished in time, %", *gain.fixed_deadline_share, *gain.deadline_share, 0.01);
  table.rows.push_back({"decisions of a run", "", display(gain.decisions), "", ""});
  table.rows.push_back({"runs with decisions, %", "", display(gain.decided * 100), "", ""});
  return table;
}

std::string events_csv(const Scenario& scenario, const MonteCarlo& result) {
  const Site site{scenario};
  CsvWriter csv{{"start_s", "end_s", "machine", "event", "detail"}};
  for (const EventSpan& event : result.sample.events)
    csv.row({event.span.start.value(), event.span.end.value(),
             event.machine < 0 ? "job" : site.machine(event.machine).name, event.kind, event.detail});
  return csv.text();
}

std::string monte_carlo_report(const Scenario& scenario, const MonteCarlo& result, std::optional<Seconds> deadline) {
  Document document{.title = scenario.name,
                    .subtitle = std::to_string(result.runs.size()) + " runs of " +
                                count_text(static_cast<double>(result.samples)) + " samples, " +
                                describe_strategy(scenario.training.strategy)};
  const RunPercentiles time = time_percentiles(result);
  const auto finish = [](double seconds) { return std::isfinite(seconds) ? short_time_text(seconds) : "never"; };
  document.headlines = {{"finish time, median", finish(time.p50)},
                        {"finish time, 5 % to 95 %", finish(time.p5) + " to " + finish(time.p95)}};
  if (const auto cost = cost_percentiles(result)) {
    document.headlines.push_back({"cost, median", or_never(cost->p50) + " USD"});
    document.headlines.push_back({"cost, 5 % to 95 %", or_never(cost->p5) + " to " + or_never(cost->p95) + " USD"});
  }
  if (deadline) document.headlines.push_back({"in time", percent_text(probability_by(result, *deadline))});
  document.verdict = std::isfinite(time.p95)
                         ? "Half of the runs end within " + finish(time.p50) + ", nine of ten between " +
                               finish(time.p5) + " and " + finish(time.p95)
                         : std::to_string(unfinished_runs(result)) + " of " + std::to_string(result.runs.size()) +
                               " runs do not end within " + short_time_text(result.gives_up_after.value());
  if (deadline) document.verdict += "; " + percent_text(probability_by(result, *deadline)) + " in time";
  document.verdict += ".";
  document.headlines.push_back({"goodput", percent_text(time_use_of(result).trained / time_use_of(result).total())});
  document.overview.push_back(where_time_goes(time_use_of(result)));
  document.overview.push_back(distributions(result, deadline));
  document.overview.back().is_wide = true;
  document.sections.push_back({.title = "Summary", .tables = {monte_carlo_table(scenario, result, deadline)}});
  for (Section& section : sample_run(scenario, result)) document.sections.push_back(std::move(section));
  document.sections.push_back(memberships(scenario, result));
  std::vector<std::string> warnings = scenario.warnings;
  if (const auto remark = remark_on_speeds(scenario)) warnings.push_back(*remark);
  if (const auto remark = remark_on_unfinished(result)) warnings.push_back(*remark);
  if (const auto remark = remark_on_billing(scenario, result)) warnings.push_back(*remark);
  if (!warnings.empty()) document.sections.push_back({.title = "Warnings", .paragraphs = warnings});
  return render_html(document);
}

}  // namespace rehearse
