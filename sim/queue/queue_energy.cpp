#include "sim/queue/queue_energy.hpp"

#include "sim/base/names.hpp"

namespace rehearse {

std::variant<QueueEnergy, std::string> energy_of(const QueueSetup& setup, const QueueRun& run, JobSpeeds& speeds) {
  QueueEnergy energy{.of_job = std::vector<double>(setup.jobs.size())};
  const Seconds length = to_seconds(run.end - setup.jobs.front().arrival);
  std::vector<double> rest_of_gpu;  // [groups] W of a machine at rest for each of its GPUs
  for (std::size_t g = 0; g < setup.groups.size(); ++g) {
    const QueueGroup& group = setup.groups[g];
    if (!group.power) return "what machines of group " + in_quotes(group.name) + " draw";
    rest_of_gpu.push_back(group.power->rest / group.gpus_per_machine);
    const Seconds busy = to_seconds(run.busy_of_group[g]);
    energy.idle += rest_of_gpu[g] * (group.gpus() * length.value() - busy.value());
    energy.cluster += group.power->rest * group.machines * length.value();
  }
  for (const JobSpan& span : run.spans) {
    const QueuedJob& job = setup.jobs[span.job];
    const int gpus = span.placement.gpus();
    const std::size_t g = span.placement.group;
    const auto gpu_w = speeds.gpu_power_w(job.kind, span.placement);
    if (!gpu_w) return "what a GPU of job " + in_quotes(job.name) + " draws";
    const double above_rest = setup.groups[g].power->above_rest(*gpu_w) * gpus;
    const double trains = above_rest * to_seconds(span.end - span.start - span.restart - span.waits).value();
    energy.of_job[span.job] += rest_of_gpu[g] * gpus * to_seconds(span.end - span.start).value() + trains;
    energy.cluster += trains;
  }
  return energy;
}

}  // namespace rehearse
