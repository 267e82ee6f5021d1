#include "sim/app/output/run_document.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <ranges>
#include <utility>

#include "sim/app/output/recorded_work.hpp"
#include "sim/app/output/remedy_tables.hpp"
#include "sim/app/output/run_pictures.hpp"
#include "sim/base/named.hpp"
#include "sim/base/names.hpp"
#include "sim/record/efficiency.hpp"
#include "sim/record/resource_profile.hpp"
#include "sim/scenario/gpu_memory.hpp"
#include "sim/scenario/step_time.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

/// What a part of the step (StepPart::part) is called where there is little room.
constexpr std::array kShortParts{Named{"worker_gpu", "kernels"},
                                 Named{"kernel_launch", "kernel launch"},
                                 Named{"worker_update", "optimizer"},
                                 Named{"host_update", "optimizer on hosts"},
                                 Named{"update_dispatch", "optimizer dispatch"},
                                 Named{"worker_host", "host"},
                                 Named{"host_copies", "host copies"},
                                 Named{"input_load", "input pipeline"},
                                 Named{"input_copy", "input copy"},
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

/// Shares of the recorded kernels' time, the largest first.
std::vector<std::pair<std::string, double>> kernel_classes(const Scenario& scenario, const RunRecord& record) {
  std::map<std::string, double> seconds;
  double all = 0;
  for (const KernelSpan& kernel : record.recorder.kernels) {
    const double time = (kernel.span.end - kernel.span.start).value();
    seconds[class_of(operator_of(scenario, kernel)->kind)] += time;
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
  constexpr Seconds kLong{10};
  const bool is_long = summary.iteration_time >= kLong;
  const double per_unit = is_long ? 1 : 1e3;
  Bars bars{.title = "", .unit = is_long ? "s" : "ms", .bars = {{.name = "step", .parts = {}}}};
  std::vector<Bars::Part>& parts = bars.bars[0].parts;
  Bars::Part rest{.name = "rest", .value = 0, .note = ""};
  const auto add = [&](const Bars::Part& part) {
    if (part.value >= kSeen * summary.iteration_time.value() * per_unit) return void(parts.push_back(part));
    rest.value += part.value;
    rest.note += (rest.note.empty() ? "" : ", ") + part.name;
  };
  for (const StepPart& part : summary.verdict.parts) {
    const double time = part.time.value() * per_unit;
    const auto classes =
        part.part == "worker_gpu" ? kernel_classes(scenario, record) : std::vector<std::pair<std::string, double>>{};
    for (const auto& [name, share] : classes) add({name, time * share, part.what, "kernels"});
    if (classes.empty()) add({short_part(part.part), time, part.what});
  }
  if (rest.value > 0) parts.push_back(rest);
  return bars;
}

/// For the first screen. What was not simulated is advice by part of the step.
Section remedies_of(const Summary& summary, const ReportedRemedies& remedies) {
  constexpr std::size_t kMost = 4;
  if (remedies.simulated) {
    Section section{.title = "What would help, simulated", .paragraphs = {}, .tables = {}};
    if (Table table = best_remedies(*remedies.simulated, kMost); table.rows.empty())
      section.paragraphs.emplace_back("Nothing that was tried gains 1 %.");
    else
      section.tables.push_back(std::move(table));
    return section;
  }
  Table table{.header = {"of a step", "share", "what would remove it"}, .rows = {}};
  constexpr double kNamed = 0.005;
  for (const StepPart& part : summary.verdict.parts)
    if (table.rows.size() < kMost && (part.share >= kNamed || table.rows.empty()))
      table.rows.push_back(
          {short_part(part.part), share_text(part.share), part.remedy.substr(0, part.remedy.find(';'))});
  return {.title = "What would help",
          .paragraphs = {"Advice: remedies are not simulated, " + remedies.why_not + "."},
          .tables = {std::move(table)}};
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
  for (std::size_t g = 0; g < scenario.groups.size() && picture.groups.size() < kMostShownGroups; ++g) {
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
  const auto usd_range = [](const std::optional<Cost>& cost) {
    if (cost && cost->is_mostly_rounding()) return short_text(cost->usd_by_the_moment) + " by the moment";
    return cost && cost->interval ? range_text(short_text(cost->interval->first), short_text(cost->interval->second))
                                  : std::string{};
  };
  const double step = summary.iteration_time.value();
  const std::optional<double> mfu = efficiency_of(scenario, summary).mfu;
  std::vector<KeyNumber> headlines{
      {"speed", short_text(summary.samples_per_s) + " samples/s", range(summary.samples_per_s, true, short_text)},
      {"step", short_time_text(step), range(step, false, short_time_text)},
      {"GPUs busy", share_text(summary.gpu_utilization), mfu ? "MFU " + share_text(*mfu) : "in the steady state"},
      {"waiting in a step", short_time_text(summary.exposed_communication.value()),
       scenario.training.strategy.is_synchronous()
           ? short_time_text(summary.wait_for_slowest.value()) + " for the slowest"
           : "staleness " + display(summary.staleness_mean) + ", at most " + std::to_string(summary.staleness_max)}};
  if (const auto& target = summary.to_target) {
    headlines.push_back({"time to the target", short_time_text(target->time.value()),
                         range(target->time.value(), false, short_time_text)});
    headlines.push_back(
        {"cost to the target", target->cost ? usd(target->cost->usd) : "no price", usd_range(target->cost)});
  } else {
    headlines.push_back({"time for " + count_text(static_cast<double>(summary.steps)) + " steps",
                         short_time_text(summary.time.value()), range(summary.time.value(), false, short_time_text)});
    headlines.push_back({"cost", summary.cost ? usd(summary.cost->usd) : "no price", usd_range(summary.cost)});
  }
  if (const auto& energy = summary.energy) {
    const std::optional<double> target = summary.to_target ? summary.to_target->energy_kwh : std::nullopt;
    const double kwh = target.value_or(scenario.electricity.kwh(energy->node_j));
    const auto co2 = scenario.electricity.co2_kg(kwh);
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
  return {.title = "What limits it",
          .paragraphs = {summary.verdict.text + ".", "What would remove a part is advice, not simulated."},
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
  for (const auto* warnings : {&scenario.warnings, &summary.warnings})
    for (const std::string& warning : *warnings) section.paragraphs.push_back("Warning: " + warning + ".");
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
    if (durations.series.size() == kMostShownGroups) break;
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

Document run_document(const FinishedRun& run, const MemoryCurves& memory) {
  const auto& [scenario, record, summary, remedies] = run;
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
                                 remedies_of(summary, remedies),
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
  if (remedies.simulated && !remedies.simulated->empty())
    document.sections.push_back(remedies_section(*remedies.simulated));
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
