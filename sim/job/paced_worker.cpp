#include "sim/job/paced_worker.hpp"

namespace rehearse::paced {

void record_times(PacedWorker& paced, Seconds now, const ServerRules* servers, bool runs_ahead) {
  const RunningWorker& running = *paced.running;
  StepSpan& step = paced.worker.step;
  StepTimes& times = step.times;
  step.compute_end = running.compute_end();
  step.last_pull = running.has_variables_at();
  times.kernels = running.kernel_time();
  times.stalled = running.stalled();
  Seconds after = now - step.compute_end;
  if (servers == nullptr) after -= paced.worker.plan->update;
  const Waits& stalls = running.stalls();
  const Waits waits = running.waits_before_end(runs_ahead ? Seconds{} : after);
  times.latency += stalls.latency + waits.latency;
  times.network += stalls.network + waits.network;
  times.server += stalls.server + waits.server;
  times.copies += stalls.copies + waits.copies + waits.other;
  const bool asks = servers != nullptr && !runs_ahead && servers->variables != VariableHome::kGpus;
  (asks ? times.held : times.copies) += stalls.other;  // until the last of the team asked
}

}  // namespace rehearse::paced
