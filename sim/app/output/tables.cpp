#include "sim/app/output/tables.hpp"

#include <map>
#include <optional>
#include <utility>

#include "sim/base/csv.hpp"
#include "sim/record/summary.hpp"

namespace rehearse {

namespace {

const std::string& machine_name(const RunRecord& record, MachineIndex machine) {
  return record.machines[static_cast<std::size_t>(machine)].name;
}

}  // namespace

std::string iterations_csv(const RunRecord& record) {
  CsvWriter csv{{"machine", "gpu", "step", "global_step", "start_s", "end_s", "pull_end_s", "compute_end_s",
                 "staleness", "repeats"}};
  for (const StepSpan& step : record.recorder.steps)
    csv.row({machine_name(record, step.machine), step.gpu, step.step, step.global_step, step.span.start.value(),
             step.span.end.value(), step.last_pull.value(), step.compute_end.value(), step.staleness, step.repeats});
  return csv.text();
}

std::string resources_csv(const RunRecord& record, const ResourceProfile& profile) {
  CsvWriter csv{{"machine", "time_s", "gpu_utilization", "device_memory_busy", "nic_receive_Bps", "nic_transmit_Bps",
                 "gpu_memory_B"}};
  for (const ResourceSeries& series : profile.series)
    for (std::size_t i = 0; i < profile.samples; ++i)
      csv.row({machine_name(record, series.machine), profile.period.value() * static_cast<double>(i), series.gpu[i],
               series.memory[i], series.receive[i], series.transmit[i],
               series.gpu_memory.empty() ? 0.0 : series.gpu_memory[i]});
  return csv.text();
}

std::string bursts_csv(const RunRecord& record, const ResourceProfile& profile) {
  CsvWriter csv{{"machine", "resource", "idle_s", "active_s", "peak", "unit", "threshold", "gaps", "bursts",
                 "sampling_period_s", "covered_start_s", "covered_s", "covered_iterations", "covers_enough"}};
  for (const BurstMetrics& metrics : profile.bursts) {
    const auto row = [&](const char* resource, const char* unit, const Bursts& bursts) {
      csv.row({machine_name(record, metrics.machine), resource, bursts.idle.value(), bursts.active.value(), bursts.peak,
               unit, bursts.threshold, bursts.gaps, bursts.bursts, profile.period.value(),
               profile.covered.start.value(), (profile.covered.end - profile.covered.start).value(), profile.iterations,
               profile.covers_enough() ? 1 : 0});
    };
    row("device_memory_busy", "share", metrics.memory);
    row("gpu_utilization", "share", metrics.gpu);
    row("nic_receive", "Bps", metrics.receive);
    row("nic_transmit", "Bps", metrics.transmit);
  }
  return csv.text();
}

std::string links_csv(const RunRecord& record) {
  CsvWriter csv{{"machine", "direction", "peer", "size_B", "mean_rate_Bps", "nic_utilization"}};
  const auto& sent = record.carried;  // by machine and peer
  std::map<std::pair<MachineIndex, MachineIndex>, Bytes> received;
  for (const auto& [pair, size] : sent) received[{pair.second, pair.first}] = size;
  for (std::size_t m = 0; m < record.machines.size(); ++m) {
    const Machine& machine = record.machines[m];
    const auto row = [&](const char* direction, const std::string& peer, Bytes size) {
      const double rate = record.end > Seconds{} ? as_double(size) / record.end.value() : 0;
      csv.row({machine.name, direction, peer, size.value(), rate,
               machine.nic.value() > 0 ? rate / (machine.nic.value() * machine.nics) : 0});
    };
    const auto rows = [&](const char* direction, Bytes total, const auto& by_pair) {
      row(direction, "", total);
      const auto index = static_cast<MachineIndex>(m);
      for (auto it = by_pair.lower_bound({index, 0}); it != by_pair.end() && it->first.first == index; ++it)
        row(direction, machine_name(record, it->first.second), it->second);
    };
    rows("receive", record.total[m].received, received);
    rows("transmit", record.total[m].sent, sent);
  }
  return csv.text();
}

std::string events_csv(const RunRecord& record) {
  CsvWriter csv{{"time_s", "machine", "kind", "duration_s", "detail"}};
  for (const EventSpan& event : record.recorder.events)
    csv.row({event.span.start.value(), event.machine < 0 ? "job" : machine_name(record, event.machine), event.kind,
             (event.span.end - event.span.start).value(), event.detail});
  return csv.text();
}

std::string costs_csv(const Scenario& scenario, const RunRecord& record) {
  CsvWriter csv{{"group", "market", "machines", "hours", "usd_per_hour", "usd"}};
  for (std::size_t g = 0; g < scenario.groups.size(); ++g) {
    const Group& group = scenario.groups[g];
    if (group.colocated_with >= 0) continue;  // on machines that are paid for already
    double machine_hours = 0, usd = 0;
    bool is_priced = true;
    for (std::size_t m = 0; m < record.machines.size(); ++m) {
      if (record.machines[m].group != static_cast<int>(g)) continue;
      machine_hours += rented_time(record, m).value() / 3600;
      const auto cost = cost_of(scenario, record.machines[m], record.rentals[m]);
      is_priced = is_priced && cost.has_value();
      usd += cost.value_or(0);
    }
    const bool is_spot = group.market == Market::kSpot;
    const auto price = scenario.costs.usd_per_hour(group.instance, is_spot, group.zone, Seconds{}, record.end);
    csv.row({group.name, is_spot ? "spot" : "on-demand", group.count, machine_hours / group.count,
             price ? CsvField{*price} : CsvField{""}, is_priced ? CsvField{usd} : CsvField{""}});
  }
  return csv.text();
}

}  // namespace rehearse
