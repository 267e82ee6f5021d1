#include "sim/queue/queue.hpp"

#include <cmath>
#include <numeric>

#include "sim/base/statistics.hpp"

namespace rehearse {

QueueTime to_queue_time(Seconds time) { return std::llround(time.value() * static_cast<double>(kQueueSecond)); }

int QueueSetup::gpus() const {
  return std::accumulate(groups.begin(), groups.end(), 0,
                         [](int sum, const QueueGroup& group) { return sum + group.gpus(); });
}

QueueSummary summarize(const QueueSetup& setup, const QueueRun& run) {
  QueueSummary summary;
  std::vector<double> completions;
  double waits = 0;
  for (std::size_t i = setup.first_measured; i < setup.last_measured; ++i) {
    const JobOutcome& job = run.jobs[i];
    completions.push_back(to_seconds(*job.end - setup.jobs[i].arrival).value());
    waits += to_seconds(*job.start - setup.jobs[i].arrival).value();
  }
  const auto count = static_cast<double>(completions.size());
  summary.mean_completion_s = mean(completions);
  summary.median_completion_s = median(completions);
  summary.p95_completion_s = percentile(completions, 95);
  summary.mean_wait_s = waits / count;
  const QueueTime begin = setup.jobs.front().arrival;
  summary.makespan_s = to_seconds(run.end - begin).value();
  QueueTime gpu_time = 0;
  for (const JobOutcome& job : run.jobs) {
    gpu_time += job.gpu_time;
    summary.preemptions += job.preemptions;
  }
  summary.gpu_hours = hours(gpu_time);
  QueueTime nic_wait = 0;
  for (const JobSpan& span : run.spans) nic_wait += span.waits * span.placement.gpus();
  summary.nic_wait_gpu_hours = hours(nic_wait);
  summary.utilization = summary.gpu_hours * 3600 / (summary.makespan_s * setup.gpus());
  return summary;
}

}  // namespace rehearse
