#include "calibration/asynchronous_speed.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/errors.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

double contention_probability(const Contention& contention, int workers) {
  return std::clamp(contention.slope * std::sqrt(static_cast<double>(workers)) + contention.intercept, 0.0, 1.0);
}

BytesPerSecond shared_bandwidth(const SpotdnnWorkload& workload, const SpotdnnServer& server, int workers) {
  const BytesPerSecond own = workload.required_bandwidth, part = server.bandwidth / static_cast<double>(workers);
  if (own <= part) return own;
  const double p = contention_probability(workload.contention, workers);
  return part * p + own * (1 - p);
}

Seconds predict_step(const SpotdnnWorker& worker, const SpotdnnWorkload& workload, const SpotdnnServer& server,
                     int workers, SpotdnnVariant variant) {
  const Seconds alone = 2.0 * (workload.parameters / workload.required_bandwidth);
  const Seconds shared = 2.0 * (workload.parameters / shared_bandwidth(workload, server, workers));
  const Seconds copies = 2.0 * worker.gpus * (workload.parameters / server.pcie);
  if (variant == SpotdnnVariant::kReleased) return worker.step_alone - alone + copies + shared;
  return worker.step_alone - alone - copies + shared + copies;
}

AsynchronousSpeed predict_speed(const std::vector<SpotdnnWorker>& cluster, const SpotdnnWorkload& workload,
                                const SpotdnnServer& server, SpotdnnVariant variant) {
  AsynchronousSpeed speed;
  for (const SpotdnnWorker& worker : cluster) {
    const Seconds exchange = 2.0 * (workload.parameters / workload.required_bandwidth) +
                             2.0 * worker.gpus * (workload.parameters / server.pcie);
    if (worker.step_alone - exchange <= Seconds{})
      throw InputError{"a step of " + to_text(worker.step_alone) + " is no longer than its exchange of " +
                       to_text(workload.parameters) + " each way, " + to_text(exchange)};
    const Seconds step = predict_step(worker, workload, server, static_cast<int>(cluster.size()), variant);
    speed.updates_per_s += 1 / step.value();
    speed.samples_per_s += worker.batch / step.value();
    speed.steps.push_back(step);
  }
  speed.weighted_batch = speed.samples_per_s / speed.updates_per_s;
  if (variant == SpotdnnVariant::kReleased) speed.weighted_batch = std::round(speed.weighted_batch * 10) / 10;
  return speed;
}

}  // namespace rehearse
