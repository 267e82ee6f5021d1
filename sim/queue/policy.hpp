#pragma once
// Who runs when. A policy is a class in policies.cpp and a row of its table.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/queue/queue.hpp"

namespace rehearse {

/// How fast jobs are.
class JobSpeeds {
 public:
  JobSpeeds() = default;
  JobSpeeds(const JobSpeeds&) = delete;
  JobSpeeds& operator=(const JobSpeeds&) = delete;
  virtual ~JobSpeeds() = default;
  /// Steps per second of a job of this kind, alone on its machines; 0: it cannot run there.
  virtual double steps_per_s(std::size_t kind, const GpuPlacement& placement) = 0;
  /// Share of the time in which the NICs of each part of the placement send or receive then, at their whole rate; none:
  /// not known.
  virtual std::optional<std::vector<double>> nic_use(std::size_t /*kind*/, const GpuPlacement& /*placement*/) {
    return {};
  }
  /// Seconds of a step if its NICs have 1 / `slowdown` of their rate. Asked only of jobs whose nic_use() is known.
  virtual double step_s(std::size_t kind, const GpuPlacement& placement, double /*slowdown*/) {
    return 1 / steps_per_s(kind, placement);
  }
  /// W of each of its GPUs then, in the mean; none: not known.
  virtual std::optional<double> gpu_power_w(std::size_t /*kind*/, const GpuPlacement& /*placement*/) { return {}; }
};

/// A job that has come and is not done.
struct ActiveJob {
  std::size_t job = 0;
  std::int64_t steps_left = 0;
  QueueTime gpu_time = 0;                // that it has had
  std::vector<QueueTime> time_on_group;  // that it has had GPUs of each group
  bool is_running = false;
  std::size_t group = 0;  // of what it runs on
  int gpus = 0;           // that it has
  int preemptions = 0;    // as JobOutcome::preemptions
};

/// What a policy sees.
struct QueueView {
  const QueueSetup& setup;
  QueueTime now = 0;
  std::span<const ActiveJob> active;               // by arrival
  const std::vector<std::vector<double>>& speeds;  // [kinds][groups]: steps per second packed; 0: cannot run there
  bool has_changed = false;                        // since the last decision jobs have come or ended
  /// The same of other numbers of GPUs.
  std::function<double(std::size_t kind, std::size_t group, int gpus)> speed_of_size;
};

/// Job `active` of the view has GPUs of `group` from now on: so many, or as many as it states (0).
struct Choice {
  std::size_t active = 0, group = 0;
  int gpus = 0;
};

class QueuePolicy {
 public:
  QueuePolicy() = default;
  QueuePolicy(const QueuePolicy&) = delete;
  QueuePolicy& operator=(const QueuePolicy&) = delete;
  virtual ~QueuePolicy() = default;
  /// All jobs that run from now on, no group beyond its GPUs; who is not among them waits. Jobs that start are placed in
  /// this order.
  virtual std::vector<Choice> choose(const QueueView& view) = 0;
};

std::vector<std::string> policy_names();
/// What --help and the README say of it.
std::string policy_text(const std::string& name);
/// A policy at its start; `name` is one of policy_names().
std::unique_ptr<QueuePolicy> make_policy(const std::string& name, const QueueSetup& setup);
/// Whether it gives jobs shares of the time of GPUs, or elastic jobs other numbers of GPUs.
bool shares_time(const std::string& policy);
bool resizes_jobs(const std::string& policy);
/// The round of the setup, else of the policy: 6 min of one that shares time, 1 min of one that resizes jobs, 0 of others.
QueueTime round_of(const std::string& name, const QueueSetup& setup);

}  // namespace rehearse
