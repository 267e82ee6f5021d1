#include "sim/record/summary.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "sim/base/json.hpp"
#include "sim/base/statistics.hpp"
#include "sim/record/efficiency.hpp"
#include "sim/record/step_parts.hpp"
#include "sim/record/verdict.hpp"
#include "sim/scenario/gpu_memory.hpp"
#include "sim/scenario/step_time.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

double share_of_window(const RunRecord& record, std::size_t machine) {
  const Span window = record.window;
  double share = 0;
  for (const Span& presence : record.presence[machine]) {
    const Seconds left = presence.end < record.end ? std::min(presence.end, window.end) : window.end;
    share += std::max(0.0, (left - std::max(presence.start, window.start)) / (window.end - window.start));
  }
  return share;
}

namespace {

/// [machines] sum over the machine's workers of (steps - 1) / (time from first to last end of a step) in the window. Steps of
/// workers that do not wait for one another come unevenly, and the mean of rates from a few is too fast: those take the
/// rate of all such workers that are alike, sum of (steps - 1) / sum of the times.
std::vector<double> machine_rates(const Scenario& scenario, const RunRecord& record) {
  constexpr std::int64_t kFew = 10;
  struct Ends {
    Seconds first{-1}, last{};
    std::int64_t steps = 0;
  };
  std::vector<std::vector<Ends>> ends(record.machines.size());  // [machines][GPUs]
  for (std::size_t m = 0; m < ends.size(); ++m) ends[m].resize(static_cast<std::size_t>(record.machines[m].workers));
  for (const StepSpan& step : record.recorder.steps) {
    if (!ends_in_window(step, record)) continue;
    Ends& of = ends[static_cast<std::size_t>(step.machine)][static_cast<std::size_t>(step.gpu)];
    if (of.steps == 0) of.first = step.span.end;
    of.steps += step.repeats;
    of.last = step.span.end + step.period * static_cast<double>(step.repeats - 1);
  }
  const auto is_of_few = [&](const Ends& of) { return !record.is_synchronous && of.steps < kFew; };
  const auto kind_of = [&](std::size_t m) {
    const Group& group = scenario.groups[static_cast<std::size_t>(record.machines[m].group)];
    return std::tuple{group.accelerator ? group.accelerator->name : "", group.batch, group.region,
                      record.machines[m].nic, record.machines[m].workers};
  };
  std::map<decltype(kind_of(0)), std::pair<double, Seconds>> of_few;  // (steps - 1), and their times
  for (std::size_t m = 0; m < ends.size(); ++m)
    for (const Ends& of : ends[m])
      if (is_of_few(of) && of.steps >= 2) {
        auto& [steps, time] = of_few[kind_of(m)];
        steps += static_cast<double>(of.steps - 1);
        time += of.last - of.first;
      }
  const Seconds length = record.window.end - record.window.start;
  const auto rate = [&](const Ends& of, std::size_t m) {
    if (of.steps == 0) return 0.0;
    if (is_of_few(of))
      if (const auto alike = of_few.find(kind_of(m)); alike != of_few.end())
        return alike->second.first / alike->second.second.value();
    return of.steps >= 2 ? static_cast<double>(of.steps - 1) / (of.last - of.first).value()
                         : static_cast<double>(of.steps) / length.value();
  };
  std::vector<double> rates(record.machines.size());
  for (std::size_t m = 0; m < rates.size(); ++m) {
    if (record.recorded_by[m] >= 0)
      rates[m] = rate(ends[static_cast<std::size_t>(record.recorded_by[m])][0], m) * record.machines[m].workers;
    else
      for (const Ends& of : ends[m]) rates[m] += rate(of, m);
  }
  return rates;
}

/// [machines] mean samples of one pass of a worker in the window's steps; the group's batch where it is kept.
std::vector<double> machine_batches(const Scenario& scenario, const RunRecord& record) {
  std::vector<double> batches;
  const double stages = workers_per_model(scenario);  // that share a batch
  for (const Machine& machine : record.machines)
    batches.push_back(scenario.groups[static_cast<std::size_t>(machine.group)].batch / stages);
  if (scenario.training.smaller_cluster == SmallerCluster::kKeepsBatchPerWorker) return batches;
  std::vector<double> samples(batches.size()), steps(batches.size());
  for (const StepSpan& step : record.recorder.steps) {
    if (!ends_in_window(step, record)) continue;
    const auto m = static_cast<std::size_t>(step.machine);
    samples[m] += static_cast<double>(step.samples * step.repeats);
    steps[m] += static_cast<double>(step.repeats * record.stands_for[m]);
  }
  for (std::size_t m = 0; m < batches.size(); ++m) {
    const auto by = record.recorded_by[m] >= 0 ? static_cast<std::size_t>(record.recorded_by[m]) : m;
    if (steps[by] > 0) batches[m] = samples[by] / steps[by] / scenario.training.strategy.exchange.accumulation_steps;
  }
  return batches;
}

/// Part of what the workers have computed in the steady state that revocations did not destroy, with a roll-back or with an
/// update that they prevented. The first loss ends the steady state, unless that is the whole run.
double kept_share(const RunRecord& record) {
  const SampleCounts& samples = record.samples;
  const bool is_whole_run = record.window.start == Seconds{} && record.window.end >= record.end;
  if (!is_whole_run || record.interruptions.revocations == 0 || samples.computed == 0) return 1;
  return 1 - static_cast<double>(samples.lost) / static_cast<double>(samples.computed);
}

/// Of synchronous workers, some of which may be late: (updates - 1) / (time from the first to the last) in the window.
double updates_per_s(const RunRecord& record) {
  std::map<std::int64_t, Seconds> ends;  // of the first worker that ended an update's step
  const auto note = [&](std::int64_t update, Seconds end) {
    const auto [known, is_new] = ends.try_emplace(update, end);
    if (!is_new) known->second = std::min(known->second, end);
  };
  for (const StepSpan& step : record.recorder.steps) {
    const auto more = step.repeats - 1;
    note(step.global_step, step.span.end);
    note(step.global_step + more, step.span.end + step.period * static_cast<double>(more));
  }
  std::erase_if(ends,
                [&](const auto& end) { return end.second < record.window.start || end.second > record.window.end; });
  if (ends.size() < 2) return static_cast<double>(record.updates) / record.end.value();
  const auto& [first, from] = *ends.begin();
  const auto& [last, to] = *ends.rbegin();
  return static_cast<double>(last - first) / (to - from).value();
}

/// The summary's speeds where the gradients of some workers are dropped, which are its samples_per_s with those.
void count_used_updates(Summary& summary, const RunRecord& record) {
  const double computed = summary.samples_per_s;
  summary.steps_per_s = updates_per_s(record);
  summary.samples_per_s =
      summary.steps_per_s * static_cast<double>(record.samples.done) / static_cast<double>(record.updates);
  for (MachineSummary& machine : summary.machines) machine.samples_per_s *= summary.samples_per_s / computed;
}

/// b_w = sum (b_i / T_i) / sum (1 / T_i): samples over updates.
Forecast steps_to_target(const Scenario& scenario, const Summary& summary) {
  Forecast forecast;
  const double batch = summary.samples_per_s / summary.steps_per_s;  // of one update
  if (scenario.training.target->samples) {
    forecast.samples = *scenario.training.target->samples;
    forecast.updates = forecast.samples / batch;
  } else {
    ConvergenceCluster cluster{.workers = 0, .weighted_batch = batch, .spread = 0};
    std::vector<double> speeds;  // of workers
    for (const MachineSummary& machine : summary.machines) {
      if (machine.samples_per_s <= 0) continue;  // not there in the steady state
      cluster.workers += machine.workers;
      for (int i = 0; i < machine.workers; ++i) speeds.push_back(machine.samples_per_s / machine.workers);
    }
    cluster.spread = speed_spread(speeds);
    try {
      forecast.updates = updates_to_loss(*scenario.convergence, cluster, *scenario.training.target->loss);
    } catch (const NoResultError& error) {
      throw NoResultError{scenario.file_name + ": /training/target/loss: " + error.what()};
    }
    forecast.samples = forecast.updates * batch;
  }
  return forecast;
}

/// Updates/s of the steady state without the checkpoints that were written in it.
double speed_between_checkpoints(const Scenario& scenario, const RunRecord& record, double speed, double workers) {
  const auto loss = checkpoint_loss(scenario, workers);
  if (!loss) return speed;
  const Span window{record.window.start, std::min(record.window.end, record.end)};
  const Seconds stall = checkpoint_times(scenario)->stall;
  const double share = stall > Seconds{} ? *loss / stall : 0;
  Seconds lost{};
  for (const EventSpan& event : record.recorder.events)
    if (event.kind == "checkpoint")
      lost +=
          std::max(Seconds{}, std::min(event.span.end, window.end) - std::max(event.span.start, window.start)) * share;
  return speed / (1 - lost / (window.end - window.start));
}

/// By the run itself, if it comes so far; else as if the steady state went on.
Forecast forecast(const Scenario& scenario, const RunRecord& record, const Summary& summary, double workers) {
  const bool changes = may_leave_full_cluster(scenario);
  if (const auto& reached = record.target; reached && (changes || scenario.training.checkpoint))
    return {.updates = static_cast<double>(reached->done.updates),
            .samples = *scenario.training.target->samples,
            .time = reached->at,
            .cost = cost_until(scenario, record, reached->at, summary.interval),
            .remark = {}};
  Forecast forecast = steps_to_target(scenario, summary);
  // Workers that do not wait for one another are each at another point of a step: what is left over is a mean.
  forecast.updates =
      record.is_synchronous ? std::ceil(forecast.updates * (1 - 1e-12)) : std::max(1.0, forecast.updates);
  const double speed = speed_between_checkpoints(scenario, record, summary.steps_per_s, workers);
  forecast.time = std::max(time_with_checkpoints(scenario, forecast.updates, speed, workers), summary.iteration_time);
  forecast.cost = training_cost(scenario, record.machines, forecast.time, summary.interval);
  if (changes)
    forecast.remark =
        scenario.training.target->samples
            ? "by the steady state alone: machines that come and go after it are not counted, but in a run of as many "
              "\"samples\" in /training"
            : "by the steady state alone: machines that come and go after it are not counted";
  return forecast;
}

/// Means over the steps that end in the window, of which there are `step.steps`.
void set_staleness(Summary& summary, const RunRecord& record, const StepParts& step) {
  double staleness = 0;
  for (const StepSpan& span : record.recorder.steps) {
    const std::int64_t steps = steps_in_window(span, record);
    if (steps == 0) continue;
    staleness +=
        static_cast<double>(span.staleness * steps * record.stands_for[static_cast<std::size_t>(span.machine)]);
    summary.staleness_max = std::max(summary.staleness_max, span.staleness);
  }
  if (step.steps > 0) summary.staleness_mean = staleness / step.steps;
}

/// Null where what GPUs draw is not known, or what a kWh costs.
void add_energy(const Scenario& scenario, const Summary& summary, Json& json) {
  const auto& energy = summary.energy;
  const auto of = [&](double value) { return energy ? Json(value) : Json(nullptr); };
  const RunEnergy known = energy.value_or(RunEnergy{});
  const double kwh = scenario.electricity.kwh(known.node_j);
  json["gpu_power_w"] = of(known.gpu_power_w);
  json["node_power_w"] = of(known.node_power_w);
  json["energy_per_step_j"] = of(summary.steps_per_s > 0 ? known.all_power_w / summary.steps_per_s : 0);
  json["gpu_energy_per_sample_j"] = of(summary.samples_per_s > 0 ? known.all_gpu_power_w / summary.samples_per_s : 0);
  json["gpu_energy_kwh"] = of(Electricity{}.kwh(known.gpu_j));
  json["energy_kwh"] = of(kwh);
  json["usd_energy"] = energy ? or_null(scenario.electricity.usd(kwh)) : Json(nullptr);
  json["co2_kg"] = energy ? or_null(scenario.electricity.co2_kg(kwh)) : Json(nullptr);
}

/// `summary` has a target and energy.
double kwh_to_target(const Scenario& scenario, const RunRecord& record, const Summary& summary) {
  const bool is_of_run = record.target && summary.to_target->time == record.target->at;
  const double watts = is_of_run ? summary.energy->node_j / record.end.value() : summary.energy->all_power_w;
  return scenario.electricity.kwh(watts * summary.to_target->time.value());
}

Json usd(const std::optional<Cost>& cost, double Cost::*part) { return cost ? Json((*cost).*part) : Json(nullptr); }
Json usd_low(const std::optional<Cost>& cost) {
  return cost && cost->interval ? Json(cost->interval->first) : Json(nullptr);
}
Json usd_high(const std::optional<Cost>& cost) {
  return cost && cost->interval ? Json(cost->interval->second) : Json(nullptr);
}

Json to_json(const std::vector<StepPart>& parts) {
  Json json = Json::array();
  for (const StepPart& part : parts)
    json.push_back({{"part", part.part},
                    {"share", part.share},
                    {"time_s", part.time.value()},
                    {"what", part.what},
                    {"remedy", part.remedy}});
  return json;
}

Json to_json(const Interruptions& what) {
  return {{"notices", what.notices},           {"revocations", what.revocations}, {"replacements", what.replacements},
          {"restarts", what.restarts},         {"pauses", what.pauses},           {"lost_steps", what.lost_updates},
          {"stopped_s", what.stopped.value()}, {"checkpoints", what.checkpoints}, {"faults", what.faults}};
}

void add_losses(const LossCounts& what, Json& json) {
  json["retransmitted_B"] = what.retransmitted.value();
  json["fast_retransmits"] = what.fast_retransmits;
  json["tail_loss_probes"] = what.probes;
  json["late_tail_loss_probes"] = what.late_probes;
  json["retransmission_timeouts"] = what.timeouts;
}

Json to_json(const MachineSummary& machine) {
  Json entry{{"name", machine.name}};
  entry["role"] = machine.workers > 0 ? "worker" : "parameter_server";
  if (machine.workers > 0) {
    entry["workers"] = machine.workers;
    entry["accelerator"] = machine.accelerator;
    entry["steps_per_s"] = machine.steps_per_s;
    entry["gpu_utilization"] = machine.gpu_utilization;
    entry["device_memory_busy"] = machine.memory_busy;
  }
  if (machine.servers > 0) {
    entry["servers"] = machine.servers;
    entry["cpu_utilization"] = machine.cpu_utilization;
    entry["variables"] = machine.variables;
    entry["parameter_B"] = machine.parameter_bytes.value();
  }
  entry["nic_send_utilization"] = machine.nic_send_utilization;
  entry["nic_receive_utilization"] = machine.nic_receive_utilization;
  return entry;
}

}  // namespace

void add_time_use(const TimeUse& use, Json& json) {
  const Seconds all = use.total();
  const auto share = [&](Seconds part) { return all > Seconds{} ? Json(part / all) : Json(nullptr); };
  json["goodput"] = share(use.trained);
  json["lost_time"] = Json::object();
  for (const LostTime& lost : kLostTimes) json["lost_time"][lost.key] = share(use.*lost.time);
}

std::string goodput_text(const TimeUse& use) {
  const auto percent = [&](Seconds part) { return percent_text(use.total() > Seconds{} ? part / use.total() : 0); };
  std::string text = percent(use.trained) + " of the time trained steps that last";
  const char* before = "; lost to ";
  for (const LostTime& lost : kLostTimes)
    if (use.*lost.time > Seconds{}) {
      text += before + std::string{lost.text} + " " + percent(use.*lost.time);
      before = ", ";
    }
  return text;
}

double forecast_updates(const Scenario& scenario, const Summary& summary) {
  return steps_to_target(scenario, summary).updates;
}

Seconds rented_time(const RunRecord& record, std::size_t machine) {
  Seconds time{};
  for (const Rental& rental : record.rentals[machine]) time += rental.span.end - rental.span.start;
  return time;
}

Summary summarize(const Scenario& scenario, const RunRecord& record, double uncertainty_by_parameters) {
  Summary summary;
  summary.time = record.end;
  summary.steps = record.updates;
  summary.samples = record.samples;
  summary.window = record.window;
  const Seconds window = record.window.end - record.window.start;
  const std::vector<double> rates = machine_rates(scenario, record);
  const std::vector<double> batches = machine_batches(scenario, record);
  const double kept = kept_share(record);
  double workers = 0;                                          // mean over the window
  double throughout = 0, steps_per_s_of_those_throughout = 0;  // there from its start to its end
  double more_samples_per_s = 0;                               // than with the scenario's batch in every group
  for (std::size_t m = 0; m < record.machines.size(); ++m) {
    const Machine& machine = record.machines[m];
    const MachineUse& use = record.in_window[m];
    MachineSummary entry{.name = machine.name, .group = machine.group, .role = machine.role};
    const double nics = machine.nics * machine.nic.value() * window.value();
    entry.nic_send_utilization = as_double(use.sent) / nics;
    entry.nic_receive_utilization = as_double(use.received) / nics;
    if (machine.workers > 0) {
      const double share = share_of_window(record, m);
      workers += machine.workers * share;
      if (share == 1) {
        throughout += machine.workers;
        steps_per_s_of_those_throughout += rates[m];
      }
      entry.accelerator = scenario.groups[static_cast<std::size_t>(machine.group)].accelerator->name;
      entry.workers = machine.workers;
      entry.steps_per_s = rates[m];
      const double rate = rates[m] / machine.workers;
      entry.gpu_utilization = std::min(1.0, record.gpu_time_per_step[m].value() * rate);
      entry.memory_busy = std::min(1.0, record.memory_time_per_step[m].value() * rate);
      summary.steps_per_s += rates[m] * share;
      const double batch = batches[m];
      entry.samples_per_s = kept * rates[m] * batch * scenario.training.strategy.exchange.accumulation_steps;
      more_samples_per_s += rates[m] * share * (batch - scenario.batch);
      summary.gpu_utilization += entry.gpu_utilization * machine.workers * share;
    }
    if (machine.servers > 0) {
      entry.servers = machine.servers;
      entry.cpu_utilization = std::min(1.0, use.cpu_busy.value() / (machine.threads * window.value()));
      entry.variables = record.placed_variables[m];
      entry.parameter_bytes = record.placed_bytes[m];
    }
    summary.machines.push_back(std::move(entry));
  }
  summary.gpu_utilization /= workers;
  summary.samples_per_s = kept * (summary.steps_per_s * scenario.batch + more_samples_per_s) *
                          scenario.training.strategy.exchange.accumulation_steps;
  if (record.is_synchronous)
    summary.steps_per_s = throughout > 0 ? steps_per_s_of_those_throughout / throughout : summary.steps_per_s / workers;
  summary.steps_per_s *= kept;
  if (record.is_synchronous && backup_workers(scenario) > 0) count_used_updates(summary, record);
  if (const PredictionUncertainty& uncertainty = scenario.profile.uncertainty; uncertainty.residual > 0)
    summary.interval = uncertainty.interval(uncertainty_by_parameters);

  const StepParts step = mean_step(scenario, record);
  summary.iteration_time = step.total();
  summary.exposed_communication = step.exposed();
  summary.wait_for_slowest = step.others;
  set_staleness(summary, record, step);

  summary.energy = energy_of(scenario, record, rates);
  summary.cost = cost_until(scenario, record, Seconds{std::numeric_limits<double>::infinity()}, summary.interval);
  if (const std::string remark = summary.cost ? remark_on_billing(scenario, *summary.cost) : ""; !remark.empty())
    summary.warnings.push_back(remark);
  if (scenario.has_revocations() || record.interruptions.pauses + record.interruptions.restarts > 0)
    summary.interruptions = record.interruptions;
  if (summary.interruptions || scenario.training.checkpoint) summary.time_use = record.time_use;
  if (scenario.loses_packets()) summary.losses = record.losses;
  if (scenario.training.target) summary.to_target = forecast(scenario, record, summary, workers);
  if (summary.to_target && summary.energy) summary.to_target->energy_kwh = kwh_to_target(scenario, record, summary);

  summary.verdict = judge(scenario, summary, step, record.busiest_link);
  std::array<char, 17> hex{};
  std::snprintf(hex.data(), hex.size(), "%016llx", static_cast<unsigned long long>(record.fingerprint));
  summary.fingerprint = hex.data();
  return summary;
}

Json to_json(const Scenario& scenario, const Summary& summary) {
  Json machines = Json::array();
  for (const MachineSummary& machine : summary.machines) machines.push_back(to_json(machine));
  const auto& interval = summary.interval;
  const auto low = [&](double speed) { return interval ? Json(speed * interval->first) : Json(nullptr); };
  const auto high = [&](double speed) { return interval ? Json(speed * interval->second) : Json(nullptr); };
  const auto shortest = [&](double time) { return interval ? Json(time / interval->second) : Json(nullptr); };
  const auto longest = [&](double time) { return interval ? Json(time / interval->first) : Json(nullptr); };
  const Efficiency efficiency = efficiency_of(scenario, summary);
  Json json{{"format", 1},
            {"name", scenario.name},
            {"seed", scenario.seed},
            {"time_s", summary.time.value()},
            {"time_s_low", shortest(summary.time.value())},
            {"time_s_high", longest(summary.time.value())},
            {"steps", summary.steps},
            {"samples", scenario.training.samples},
            {"samples_done", summary.samples.done},
            {"samples_lost", summary.samples.lost},
            {"samples_repeated", summary.samples.repeated},
            {"samples_dropped", summary.samples.dropped},
            {"steps_per_s", summary.steps_per_s},
            {"steps_per_s_low", low(summary.steps_per_s)},
            {"steps_per_s_high", high(summary.steps_per_s)},
            {"samples_per_s", summary.samples_per_s},
            {"samples_per_s_low", low(summary.samples_per_s)},
            {"samples_per_s_high", high(summary.samples_per_s)},
            {"step_source", step_sources(scenario)},
            {"iteration_time_s", summary.iteration_time.value()},
            {"iteration_time_s_low", shortest(summary.iteration_time.value())},
            {"iteration_time_s_high", longest(summary.iteration_time.value())},
            {"cost_usd", usd(summary.cost, &Cost::usd)},
            {"cost_usd_low", usd_low(summary.cost)},
            {"cost_usd_high", usd_high(summary.cost)},
            {"cost_usd_by_the_moment", usd(summary.cost, &Cost::usd_by_the_moment)},
            {"usd_per_million_samples", or_null(efficiency.usd_per_million_samples)},
            {"gpus", efficiency.gpus},
            {"tokens_per_s", or_null(efficiency.tokens_per_s)},
            {"mfu", or_null(efficiency.mfu)},
            {"gpu_utilization", summary.gpu_utilization},
            {"exposed_communication_s", summary.exposed_communication.value()},
            {"staleness_mean", summary.staleness_mean},
            {"staleness_max", summary.staleness_max},
            {"bottleneck", summary.verdict.text},
            {"bottleneck_resource", summary.verdict.resource},
            {"bottleneck_share", summary.verdict.share},
            {"step_parts", to_json(summary.verdict.parts)},
            {"steady_state_from_s", summary.window.start.value()},
            {"steady_state_to_s", summary.window.end.value()},
            {"warnings", scenario.warnings},
            {"machines", std::move(machines)},
            {"fingerprint", summary.fingerprint}};
  for (const std::string& warning : summary.warnings) json["warnings"].push_back(warning);
  add_gpu_memory(scenario, json);
  add_energy(scenario, summary, json);
  if (summary.interruptions) json["interruptions"] = to_json(*summary.interruptions);
  if (summary.time_use) add_time_use(*summary.time_use, json);
  if (summary.losses) add_losses(*summary.losses, json);
  if (const auto& target = summary.to_target) {
    json["training_updates"] = target->updates;
    json["training_samples"] = target->samples;
    json["training_time_s"] = target->time.value();
    json["training_time_s_low"] = shortest(target->time.value());
    json["training_time_s_high"] = longest(target->time.value());
    json["training_cost_usd"] = usd(target->cost, &Cost::usd);
    json["training_cost_usd_low"] = usd_low(target->cost);
    json["training_cost_usd_high"] = usd_high(target->cost);
    const auto kwh = target->energy_kwh;
    json["training_energy_kwh"] = or_null(kwh);
    json["training_usd_energy"] = kwh ? or_null(scenario.electricity.usd(*kwh)) : Json(nullptr);
    json["training_co2_kg"] = kwh ? or_null(scenario.electricity.co2_kg(*kwh)) : Json(nullptr);
    if (!target->remark.empty()) json["warnings"].push_back("time to the target: " + target->remark);
  }
  return json;
}

}  // namespace rehearse
