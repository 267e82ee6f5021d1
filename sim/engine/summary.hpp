#pragma once
// The headline numbers of a run, as summary.json holds them.

#include <optional>
#include <string>
#include <vector>

#include "sim/base/json.hpp"
#include "sim/engine/run_record.hpp"
#include "sim/engine/scenario.hpp"

namespace rehearse {

/// How busy one machine was in the steady state; shares of the window.
struct MachineSummary {
  std::string name;
  Role role = Role::kWorker;
  int workers = 0;
  int servers = 0;                // processes
  std::string accelerator;        // workers
  double steps_per_s = 0;         // sum over the machine's workers
  double samples_per_s = 0;       // the same
  double gpu_utilization = 0;     // workers: at least one kernel runs
  double memory_utilization = 0;  // workers: device memory is read or written
  double cpu_utilization = 0;     // servers: of all cores
  double nic_send_utilization = 0;
  double nic_receive_utilization = 0;
  int variables = 0;        // servers
  Bytes parameter_bytes{};  // servers: trainable
};

/// The whole training up to its target, at the steady state's speed.
struct Forecast {
  double updates = 0;
  double samples = 0;
  Seconds time{};
  std::optional<double> cost_usd;  // of machines that stay to the end, billed once for all of the time
};

struct Summary {
  Seconds time{};  // until the last update
  std::int64_t steps = 0;
  SampleCounts samples;
  /// Steady state: sum over workers of (steps - 1) / (time from first to last end of a step) within the window;
  /// synchronous: the mean over workers. Workers that join or leave count for the part of the window in which they are
  /// there, or, synchronous, not at all if others are there throughout.
  double steps_per_s = 0;
  /// What speeds are multiplied by for the ends of their interval of 90 %; times and costs are divided by it.
  std::optional<std::pair<double, double>> interval;
  double samples_per_s = 0;
  Seconds iteration_time{};        // mean time between one worker's own steps
  std::optional<double> cost_usd;  // machines x time x price; none if a price is unknown
  double gpu_utilization = 0;      // mean over workers
  /// Mean part of a step in which the worker is neither computing nor dispatching: it waits for network and servers.
  Seconds exposed_communication{};
  /// Synchronous: mean time between the end of a worker's compute and that of the slowest one that counts, in a step.
  Seconds wait_for_slowest{};
  double staleness_mean = 0;
  std::int64_t staleness_max = 0;
  std::string bottleneck;  // in words, with the number behind it
  /// "server_cpu", "server_nic", "worker_nic", "link" (of the fabric or between GPUs), "connection" (between regions),
  /// "slowest_worker", "communication", "worker_gpu", "worker_host"
  std::string bottleneck_resource;
  double bottleneck_share = 0;  // utilization, or share of the step
  std::string fingerprint;
  Span window;
  std::vector<MachineSummary> machines;
  std::optional<Forecast> to_target;           // if the training has one
  std::optional<Interruptions> interruptions;  // if machines may be revoked
};

/// Updates until the scenario's target at the speeds of the summary.
double forecast_updates(const Scenario& scenario, const Summary& summary);

/// Of the times in which a machine is rented, by the prices and the billing rule of the scenario; none if its price is
/// unknown.
std::optional<double> cost_of(const Scenario& scenario, const Machine& machine, const std::vector<Rental>& rentals);
/// In which the machine is paid for.
Seconds rented_time(const RunRecord& record, std::size_t machine);

/// Throws NoResultError if the target cannot be reached. `spread_by_parameters`: standard deviation of the logarithm
/// of the speed that follows from that of the profile's values.
Summary summarize(const Scenario& scenario, const RunRecord& record, double spread_by_parameters = 0);

/// Version 1 of summary.json.
Json to_json(const Scenario& scenario, const Summary& summary);

}  // namespace rehearse
