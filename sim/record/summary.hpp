#pragma once
// The headline numbers of a run, as summary.json holds them.

#include <optional>
#include <string>
#include <vector>

#include "sim/base/json.hpp"
#include "sim/record/cost.hpp"
#include "sim/record/energy.hpp"
#include "sim/record/run_record.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// How busy one machine was in the steady state; shares of the window.
struct MachineSummary {
  std::string name;
  int group = 0;  // index among the scenario's
  Role role = Role::kWorker;
  int workers = 0;
  int servers = 0;             // processes
  std::string accelerator;     // workers
  double steps_per_s = 0;      // sum over the machine's workers
  double samples_per_s = 0;    // the same
  double gpu_utilization = 0;  // workers: at least one kernel runs
  double memory_busy = 0;      // workers: device memory is read or written
  double cpu_utilization = 0;  // servers: of the threads that serve messages, one on each core where not told
  double nic_send_utilization = 0;
  double nic_receive_utilization = 0;
  int variables = 0;        // servers
  Bytes parameter_bytes{};  // servers: trainable
};

/// The whole training up to its target: of a run that reaches it, where machines come and go or checkpoints are written, what
/// the run itself took; else at the steady state's speed, with checkpoints.
struct Forecast {
  double updates = 0;  // whole ones if they are synchronous; at least 1
  double samples = 0;
  Seconds time{};
  std::optional<Cost> cost;          // of machines that stay to the end, billed once for all of the time
  std::optional<double> energy_kwh;  // at the mean power of the run, what the site adds included
  std::string remark;                // what it does not count; empty if it counts all
};

/// A part of the mean step of a worker.
struct StepPart {
  /// "worker_gpu", "kernel_launch", "worker_update", "host_update", "update_dispatch", "worker_host", "host_copies", "input_load", "input_copy", "server_cpu", "server_nic", "worker_nic", "link" (of
  /// the fabric or between GPUs), "connection" (between regions), "network" (any), "latency", "pcie", "slowest_worker",
  /// "checkpoint", "stopped"
  std::string part;
  std::string what, remedy;  // in words
  Seconds time{};
  double share = 0;
};

/// What limits a run (verdict.hpp).
struct Verdict {
  std::string text;             // the parts of a tenth of the step and more, and what would remove them
  std::string resource;         // of a StepPart: the shared resource that is saturated, else the largest part
  double share = 0;             // its utilization, else the largest part of the step
  std::vector<StepPart> parts;  // they add up to the iteration time; largest first
};

struct Summary {
  Seconds time{};  // until the last update
  std::int64_t steps = 0;
  SampleCounts samples;
  /// Steady state: sum over workers of (steps - 1) / (time from first to last end of a step) within the window;
  /// synchronous: the mean over workers. Workers that join or leave count for the part of the window in which they are
  /// there, or, synchronous, not at all if others are there throughout. With backup workers:
  ///   (updates - 1) / (time from the first to the last of them), and samples of a mean update times that.
  /// The steady state ends with the first loss: what that destroys has been done in it. If it is the whole run, what revocations
  /// lost does not count.
  double steps_per_s = 0;
  /// What speeds are multiplied by for the ends of their interval of 90 %; times are divided by it.
  std::optional<std::pair<double, double>> interval;
  double samples_per_s = 0;
  Seconds iteration_time{};  // mean time from one of a worker's own steps to its next one, pauses included
  std::optional<Cost> cost;  // machines x time x price; none if a price is unknown
  std::optional<RunEnergy> energy;
  double gpu_utilization = 0;  // mean over workers
  /// Mean part of a step in which the worker waits for network, servers and other workers: StepParts::exposed().
  Seconds exposed_communication{};
  /// Part of it in which it waits for slower workers: StepParts::others.
  Seconds wait_for_slowest{};
  double staleness_mean = 0;
  std::int64_t staleness_max = 0;
  Verdict verdict;
  std::string fingerprint;
  Span window;
  std::vector<MachineSummary> machines;
  std::optional<Forecast> to_target;           // if the training has one
  std::optional<Interruptions> interruptions;  // if machines may be revoked, or the job has stopped
  std::optional<TimeUse> time_use;             // the same, or if checkpoints are written
  std::optional<LossCounts> losses;            // if packets may be lost: in the whole run
  std::vector<std::string> warnings;           // that only the run shows, besides the scenario's
};

/// Updates until the scenario's target at the speeds of the summary, not rounded.
double forecast_updates(const Scenario& scenario, const Summary& summary);

/// Part of the window in which a machine took part. The window may end after the last update, with a checkpoint.
double share_of_window(const RunRecord& record, std::size_t machine);
/// "goodput" and, by cause, "lost_time": shares of the time, which add up to 1; null if there is none.
void add_time_use(const TimeUse& use, Json& json);
/// "93 %: 4 % checkpoints, 2 % restarts are lost".
std::string goodput_text(const TimeUse& use);

/// Sum of the times in which the machine is paid for.
Seconds rented_time(const RunRecord& record, std::size_t machine);

/// Throws NoResultError if the target cannot be reached. `uncertainty_by_parameters`: standard deviation of the logarithm
/// of the speed that follows from that of the profile's values.
Summary summarize(const Scenario& scenario, const RunRecord& record, double uncertainty_by_parameters = 0);

/// Version 1 of summary.json.
Json to_json(const Scenario& scenario, const Summary& summary);

}  // namespace rehearse
