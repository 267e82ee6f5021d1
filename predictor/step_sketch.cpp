#include "predictor/step_sketch.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "sim/engine/resource_profile.hpp"

namespace rehearse {

namespace {

constexpr int kSteps = 3;
constexpr double kMostSamples = 60'000;

/// Something of which `amount` is spread evenly over a time.
struct Spread {
  double start = 0, end = 0, amount = 0;
};

/// What the worker's machine does in one step.
struct StepActivity {
  std::vector<Spread> gpu, memory, receive, transmit;
  double length = 0;
};

/// Messages of one direction: through the worker's link one after another, through each server in turn.
class Lane {
 public:
  Lane(const SketchedCluster& cluster, std::size_t machines, double start)
      : cluster_{cluster}, link_{start}, servers_(machines, start) {}

  /// When `variable`, there from `ready` on, has arrived; adds the worker's traffic, and that of its machine's servers.
  double carry(const SketchedVariable& variable, double ready, std::vector<Spread>& own, std::vector<Spread>& served) {
    double& server = servers_[static_cast<std::size_t>(variable.machine)];
    const double serving = variable.bytes * cluster_.sharers / cluster_.serving_Bps + cluster_.variable_s +
                           variable.bytes * cluster_.byte_s;
    const double began = std::max(server, ready);
    server = began + serving;
    const bool is_local = cluster_.chief_serves && variable.machine == 0;
    if (is_local) {
      served.push_back({began, server, variable.bytes * cluster_.sharers});
      return server;
    }
    link_ = std::max(link_, ready) + variable.bytes / cluster_.link_Bps;
    const double end = std::max(link_, server);
    own.push_back({std::max(began, end - std::max(serving, variable.bytes / cluster_.link_Bps)), end,
                   variable.bytes * cluster_.machine_workers});
    return end;
  }

 private:
  const SketchedCluster& cluster_;
  double link_;
  std::vector<double> servers_;
};

StepActivity sketch_step(const std::vector<SketchedKernel>& kernels, const std::vector<SketchedVariable>& variables,
                         const SketchedCluster& cluster) {
  StepActivity step;
  std::size_t machines = 1;
  for (const SketchedVariable& variable : variables)
    machines = std::max(machines, static_cast<std::size_t>(variable.machine) + 1);
  Lane pull{cluster, machines, 0};
  std::vector<double> arrived;
  for (const SketchedVariable& variable : variables)
    arrived.push_back(pull.carry(variable, 0, step.receive, step.transmit));
  double host = cluster.overhead_s, gpu = 0;
  std::vector<double> ends;
  for (const SketchedKernel& kernel : kernels) {
    host += cluster.dispatch_s;
    double start = std::max(host, gpu);
    for (int v = kernel.first_variable; v < kernel.first_variable + kernel.variables; ++v)
      start = std::max(start, arrived[static_cast<std::size_t>(v)]);
    host = std::max(host, start - kernel.time_s);  // a host that waits for variables has not run ahead
    gpu = start + kernel.time_s;
    step.gpu.push_back({start, gpu, kernel.time_s});
    step.memory.push_back({start, gpu, kernel.memory_s});
    ends.push_back(gpu);
  }
  std::vector<std::pair<double, std::size_t>> gradients;  // when complete
  for (std::size_t v = 0; v < variables.size(); ++v)
    if (variables[v].gradient >= 0) gradients.emplace_back(ends[static_cast<std::size_t>(variables[v].gradient)], v);
  std::sort(gradients.begin(), gradients.end());
  Lane push{cluster, machines, 0};
  step.length = std::max(gpu, host);
  for (const auto& [ready, v] : gradients)
    step.length = std::max(step.length, push.carry(variables[v], ready, step.transmit, step.receive));
  return step;
}

/// Averages over periods of `steps` steps in a row, per second.
std::vector<double> sample(const std::vector<Spread>& activity, double length, double period) {
  std::vector<double> series(static_cast<std::size_t>(std::ceil(kSteps * length / period)) + 1);
  for (int k = 0; k < kSteps; ++k)
    for (const Spread& spread : activity) {
      const double start = spread.start + k * length, end = spread.end + k * length;
      const auto first = static_cast<std::size_t>(start / period);
      const auto last = std::min(series.size() - 1, static_cast<std::size_t>(end / period));
      const double density = end > start ? spread.amount / (end - start) : 0;
      for (std::size_t i = first; i <= last && i < series.size(); ++i) {
        const double from = std::max(start, static_cast<double>(i) * period);
        const double to = std::min(end, static_cast<double>(i + 1) * period);
        if (to > from) series[i] += density * (to - from) / period;
      }
    }
  series.pop_back();  // the last one ends within a period
  return series;
}

void add_bursts(std::vector<double>& labels, const std::vector<double>& series, double period, double threshold) {
  const Bursts bursts = find_bursts(series, Seconds{period}, threshold);
  labels.insert(labels.end(), {bursts.idle.value(), bursts.active.value(), bursts.peak});
}

}  // namespace

std::vector<double> sketch_labels(const std::vector<SketchedKernel>& kernels,
                                  const std::vector<SketchedVariable>& variables, const SketchedCluster& cluster) {
  const StepActivity step = sketch_step(kernels, variables, cluster);
  if (!(step.length > 0) || !std::isfinite(step.length)) return std::vector<double>(15);
  const double period = std::max(cluster.period_s, kSteps * step.length / kMostSamples);
  const BurstThresholds thresholds;
  std::vector<double> labels, means;
  for (const auto* activity : {&step.memory, &step.gpu})
    add_bursts(labels, sample(*activity, step.length, period), period, thresholds.utilization);
  for (const auto* activity : {&step.receive, &step.transmit}) {
    const std::vector<double> series = sample(*activity, step.length, period);
    const double most = series.empty() ? 0 : *std::max_element(series.begin(), series.end());
    add_bursts(labels, series, period, thresholds.share_of_maximum * most);
    double sum = 0;
    for (const Spread& spread : *activity) sum += spread.amount;
    means.push_back(sum / step.length);
  }
  labels.insert(labels.end(), {step.length, means[0], means[1]});
  return labels;
}

}  // namespace rehearse
