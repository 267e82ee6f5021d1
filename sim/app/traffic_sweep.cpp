#include "sim/app/traffic_sweep.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/app/output/document.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/job/simulate.hpp"
#include "sim/plan/sweep.hpp"
#include "sim/pool/experiment.hpp"
#include "sim/record/summary.hpp"
#include "sim/traffic/messages.hpp"
#include "sim/traffic/packet_json.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kCountedSteps = 20;

/// When the steps of the first worker ended, at most kCountedSteps.
StepLog first_steps(const RunRecord& record) {
  StepLog log;
  const std::vector<StepSpan>& steps = record.recorder.steps;
  for (const StepSpan& step : steps) {
    if (step.machine != steps.front().machine || step.gpu != steps.front().gpu) continue;
    if (step.repeats > 1) break;  // it stands for others, whose messages were not recorded
    log.steps.push_back({.time_ns = std::llround(step.span.end.value() * 1e9)});
  }
  std::ranges::stable_sort(log.steps, {}, &LoggedStep::time_ns);
  if (log.steps.size() > kCountedSteps) log.steps.resize(kCountedSteps);
  return log;
}

Json to_json(const TrafficOfRun& row) {
  const TrafficFigures& figures = row.figures;
  const auto optional = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
  return {{"packets", row.packets},
          {"wire_bytes", row.wire_bytes},
          {"retransmitted_bytes", row.retransmitted_bytes},
          {"flows", row.flows},
          {"pairs", row.pairs},
          {"duration_s", row.duration_s},
          {"training_s", row.training_s},
          {"step_time_s", row.step_time_s},
          {"period_s", optional(row.period_s)},
          {"data_per_step", optional(row.data_per_step)},
          {"mean_gbps", optional(row.mean_gbps)},
          {"hosts", figures.hosts},
          {"matrix", figures.matrix},
          {"pair", figures.pair},
          {"bin_s", figures.bin_s},
          {"gbps", figures.gbps},
          {"flow_sizes", figures.flow_sizes}};
}

/// What to_json() above has written.
void take(const Json& json, TrafficOfRun& row) {
  const auto get = [&](const char* key, auto& value) { json.at(key).get_to(value); };
  const auto get_optional = [&](const char* key, std::optional<double>& value) {
    if (!json.at(key).is_null()) value = json.at(key).get<double>();
  };
  get("packets", row.packets);
  get("wire_bytes", row.wire_bytes);
  get("retransmitted_bytes", row.retransmitted_bytes);
  get("flows", row.flows);
  get("pairs", row.pairs);
  get("duration_s", row.duration_s);
  get("training_s", row.training_s);
  get("step_time_s", row.step_time_s);
  get_optional("period_s", row.period_s);
  get_optional("data_per_step", row.data_per_step);
  get_optional("mean_gbps", row.mean_gbps);
  get("hosts", row.figures.hosts);
  get("matrix", row.figures.matrix);
  get("pair", row.figures.pair);
  get("bin_s", row.figures.bin_s);
  get("gbps", row.figures.gbps);
  get("flow_sizes", row.figures.flow_sizes);
}

/// A scenario's traffic, as JSON. Options: "bin_s".
// NOLINTNEXTLINE(performance-unnecessary-value-param): verbs may change their scenario
const Verb kTraffic{"traffic", [](Scenario scenario, const JsonReader& options) {
                      const TrafficOptions traffic{.bin = Seconds{options.required<double>("bin_s")}};
                      options.reject_unknown_keys();
                      const RunRecord record = simulate(scenario, {.keeps_activity = true});
                      StepLog log = first_steps(record);
                      std::vector<Message> messages = messages_of(record);
                      if (!log.steps.empty()) {
                        const double end = static_cast<double>(log.steps.back().time_ns) * 1e-9;
                        std::erase_if(messages, [&](const Message& message) { return message.start_s >= end; });
                      }
                      RunTraffic run = traffic_of_messages(messages, machine_names(record), traffic, Budget{});
                      run.log = std::move(log);
                      TrafficOfRun row;
                      describe_by_traffic(row, run, traffic_statistics(run, {}));
                      row.training_s = summarize(scenario, record).time.value();
                      return to_json(row).dump();
                    }};

}  // namespace

bool is_sweep(const std::filesystem::path& input) {
  constexpr std::size_t kStart = 4096;
  if (input.extension() != ".json" || !std::filesystem::is_regular_file(input)) return false;
  const std::string start = read_file_start(input, kStart);
  const bool is_for_elasticsearch = start.starts_with("{\"index\"") && start.find("\"layers\"") != std::string::npos;
  return !is_packet_json(start) && !is_for_elasticsearch;
}

std::vector<TrafficOfRun> traffic_of_sweeps(const std::vector<std::filesystem::path>& files, const Catalog& catalog,
                                            const TrafficSweepOptions& options, const Budget& budget) {
  std::vector<TrafficOfRun> runs;
  std::vector<std::string> jobs;
  std::set<std::string> known;
  for (const std::filesystem::path& file : files) {
    Sweep sweep{load_sweep_request(file), catalog, ""};
    sweep.check([&](std::size_t, const Scenario* scenario) {
      budget.check();
      if (scenario == nullptr || !known.insert(to_json_text(*scenario->effective)).second) return;
      TrafficOfRun row;
      describe_by_scenario(row, *scenario);
      row.name = scenario->name + ", " + scenario->model.name;
      if (row.loss_percent > 0) row.name += ", " + display(row.loss_percent) + " % lost";
      runs.push_back(std::move(row));
      jobs.push_back(kTraffic.job(*scenario, Json{{"bin_s", options.traffic.bin.value()}}).text());
    });
  }
  const Experiment experiment{jobs.size(), [&](std::size_t index) { return jobs[index]; }};
  const std::vector<PooledRun> results = experiment.run(options.pool, options.on_done, budget);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].has_succeeded) throw NoResultError{runs[i].name + ": " + results[i].text};
    take(results[i].json(), runs[i]);
  }
  return runs;
}

}  // namespace rehearse
