#pragma once
// Several jobs on one cluster: what a queue is given, and what came of it. Start here to read sim/queue/; run_queue.hpp
// runs it, policy.hpp says who runs when, queue_file.hpp reads it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/scenario/electricity.hpp"

namespace rehearse {

/// Times of a queue are whole microseconds, so that sums of GPU time are exact.
using QueueTime = std::int64_t;
inline constexpr QueueTime kQueueSecond = 1'000'000;

// As large as files may have them.
inline constexpr int kMostQueueGpus = 1'000'000;
inline constexpr std::int64_t kMostQueueSteps = 1'000'000'000'000'000;
inline constexpr std::int64_t kMostQueuedJobs = 10'000'000;

/// The nearest microsecond; `time` is at most kLongest.
QueueTime to_queue_time(Seconds time);
constexpr Seconds to_seconds(QueueTime time) { return Seconds{static_cast<double>(time) / kQueueSecond}; }
constexpr double hours(QueueTime time) { return static_cast<double>(time) / kQueueSecond / 3600; }

/// What one of a group's machines draws from the wall, W: platforms/node_power.hpp, which is linear in what its GPUs draw.
struct MachinePower {
  double rest = 0;      // with all GPUs at rest
  double gpu_rest = 0;  // of a GPU
  double by_gpu_w = 0;  // for each W of a GPU
  double busy_gpu = 0;  // of the host for each GPU that trains

  /// What a GPU that draws so many W adds to its machine at rest.
  double above_rest(double gpu_w) const { return std::max(0.0, (gpu_w - gpu_rest) * by_gpu_w) + busy_gpu; }
};

/// Alike machines. A job's GPUs are all of one group.
struct QueueGroup {
  std::string name;
  std::string gpu;       // as the table of speeds calls it
  std::string instance;  // a name in the catalogs; empty: jobs whose speed is simulated cannot run here
  int machines = 1, gpus_per_machine = 1;
  int nics = 1;  // of a machine: jobs on it whose GPUs are no more than that have NICs of their own
  std::optional<MachinePower> power{};  // none: not known
  int gpus() const { return machines * gpus_per_machine; }
};

/// Jobs of one kind are equally fast on equal GPUs.
struct JobKind {
  std::string type;      // as the table of speeds calls it; empty: of stated duration
  std::string scenario;  // the file whose speed is simulated; empty: none
  int gpus = 1;
  std::optional<double> gpu_power_w{};  // of a GPU while it trains, where it is stated
  int max_gpus = 0;  // above 0: elastic, policies that resize jobs give it 1 to so many GPUs instead of `gpus`
  /// Of an elastic job with a scenario: the gradient noise scale over the batch of `gpus` GPUs.
  double noise_in_batches = 0;
  bool operator==(const JobKind&) const = default;

  /// Training done by a step of so many GPUs of an elastic job with a scenario, over that of one of `gpus`: each of them
  /// has the same batch, and a sample of a batch B is worth 1 / (noise scale + B) (McCandlish et al., 2018). 1 of other
  /// jobs.
  double worth_of_step(int of_gpus) const {
    if (noise_in_batches <= 0) return 1;
    const double batch = static_cast<double>(of_gpus) / gpus;
    return batch * (noise_in_batches + 1) / (noise_in_batches + batch);
  }
};

struct QueuedJob {
  std::string name;
  std::size_t kind = 0;
  QueueTime arrival = 0;
  /// Steps of all its GPUs together; of a job of stated duration the microseconds that it takes. Of an elastic job a
  /// step is the same training on any number of GPUs: that of `gpus` for a scenario, as the table of speeds for a type.
  std::int64_t steps = 0;
  std::int64_t samples_per_step = 0;  // 0: not known
  double weight = 1;                  // of its share, in the policies that share
};

enum class Placing {
  kPacked,    // on as few machines as can be, the fullest that has room first
  kMostFree,  // on the machine with most free GPUs first, as Pollux's simulator places
};

/// What a file of kind "queue" says.
struct QueueSetup {
  std::string name, file;
  std::vector<QueueGroup> groups;
  std::vector<JobKind> kinds;
  std::vector<QueuedJob> jobs;  // by arrival
  std::vector<std::string> policies;
  /// Who runs is decided at multiples of it; 0: whenever a job comes or ends. Not stated: as the policy does, round_of().
  std::optional<QueueTime> round;
  QueueTime restart = 0;                         // in which a job that starts, or moves, does not train
  QueueTime reallocation = 1920 * kQueueSecond;  // the least time between two shares of a policy that shares
  QueueTime service_threshold =
      std::int64_t{16} * 3600 * kQueueSecond;  // GPU time after which Tiresias puts a job into its second queue
  Placing placing = Placing::kPacked;
  /// Part of its speed that a job on several machines loses while it shares NICs with another such job. Not stated: jobs
  /// whose exchange is simulated share them by shared_links.hpp, others lose nothing.
  std::optional<double> interference;
  std::uint64_t seed = 1;
  /// Means are taken over jobs from first_measured to before last_measured, in the order of their arrival.
  std::size_t first_measured = 0, last_measured = 0;
  std::string speeds;  // file of the table of speeds; empty: none
  Electricity electricity;
  std::vector<std::string> warnings;

  int gpus() const;
};

/// GPUs of one group.
struct GpuPlacement {
  struct Part {
    int machine = 0, gpus = 0;
    bool operator==(const Part&) const = default;
  };
  std::size_t group = 0;
  std::vector<Part> parts;  // machines in ascending order
  int gpus() const {
    int sum = 0;
    for (const Part& part : parts) sum += part.gpus;
    return sum;
  }
  bool operator==(const GpuPlacement&) const = default;
};

/// A job on one placement, from when it got it until it lost it.
struct JobSpan {
  std::size_t job = 0;
  GpuPlacement placement;
  QueueTime start = 0, end = 0, restart = 0;  // restart: the part of it in which the job did not train
  QueueTime waits = 0;                        // by which sharing NICs prolongs the span: the time alone is less by that
  std::int64_t steps = 0;
};

struct JobOutcome {
  std::optional<QueueTime> start, end;
  std::int64_t steps = 0;
  QueueTime gpu_time = 0;  // GPUs times time, with restarts
  int preemptions = 0;     // how often it lost its GPUs before it was done, or moved
};

/// Load of the cluster from a time on.
struct ClusterLoad {
  QueueTime time = 0;
  int busy = 0;             // GPUs
  std::size_t waiting = 0;  // jobs that have come and do not run
};

/// From the first arrival to the last end, J from the wall: queue_energy.hpp.
struct QueueEnergy {
  std::vector<double> of_job;  // [jobs]
  double idle = 0;             // of GPUs that no job has
  double cluster = 0;          // of all machines
};

struct QueueRun {
  std::string policy;
  std::vector<JobOutcome> jobs;
  std::vector<JobSpan> spans;  // by start
  std::vector<ClusterLoad> load;
  std::vector<QueueTime> busy_of_group;  // GPU time
  QueueTime end = 0;                     // of the last job
  std::int64_t decisions = 0;
  /// GPU time in which jobs on several machines shared NICs, and that of those about whose exchange nothing is known.
  QueueTime shared_gpu_time = 0, unknown_gpu_time = 0;
  std::optional<QueueEnergy> energy{};  // of energy_of(); none: not known
};

/// What is asked of a run.
struct QueueSummary {
  double mean_completion_s = 0, median_completion_s = 0, p95_completion_s = 0;  // from arrival to end
  double mean_wait_s = 0;                                                       // from arrival to the first start
  double makespan_s = 0;   // from the first arrival to the last end
  double utilization = 0;  // GPU time of jobs over all until the last end
  double gpu_hours = 0;
  double nic_wait_gpu_hours = 0;  // of those, JobSpan::waits
  int preemptions = 0;
};

/// Means over the measured jobs of `setup`; GPU time over all.
QueueSummary summarize(const QueueSetup& setup, const QueueRun& run);

}  // namespace rehearse
