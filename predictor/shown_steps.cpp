#include "predictor/shown_steps.hpp"

#include <algorithm>
#include <cmath>

#include "predictor/run_labels.hpp"
#include "sim/record/resource_profile.hpp"

namespace rehearse {

namespace {

constexpr double kMostSteps = 20, kMostSamples = 20000;

/// The same work with what follows at once put together: less to spread.
std::vector<ShownWork> joined(std::vector<ShownWork> works, double gap) {
  std::sort(works.begin(), works.end(), [](const ShownWork& a, const ShownWork& b) { return a.start < b.start; });
  std::vector<ShownWork> all;
  for (const ShownWork& work : works) {
    const double length = work.end - work.start;
    if (!all.empty() && length > 0) {
      ShownWork& last = all.back();
      const double rate = last.amount / std::max(1e-15, last.end - last.start), own = work.amount / length;
      if (std::abs(work.start - last.end) <= gap && std::abs(rate - own) <= 0.02 * std::max(rate, own)) {
        last.end = work.end;
        last.amount += work.amount;
        continue;
      }
    }
    all.push_back(work);
  }
  return all;
}

/// Means over the samples of the steps from `first` seconds on, which are the first samples' beginning.
std::vector<double> series_of(const std::vector<ShownWork>& works, double period, double sample, double first,
                              std::size_t samples) {
  std::vector<double> series(samples);
  const double end = sample * static_cast<double>(samples);
  for (const ShownWork& work : joined(works, 1e-3 * sample))
    for (double begin = first; begin < end; begin += period) {
      const double start = begin + work.start, stop = begin + work.end;
      if (stop <= 0 || start >= end) continue;
      const double from = std::max(start, 0.0), to = std::min(stop, end);
      const double amount = stop > start ? work.amount * (to - from) / (stop - start) : work.amount;
      spread(series, Seconds{sample}, {Seconds{from}, Seconds{std::max(from, to)}}, amount);
    }
  for (double& value : series) value /= sample;
  return series;
}

}  // namespace

std::vector<double> shown_labels(const ShownSteps& steps, const Scenario& scenario) {
  const Training& training = scenario.training;
  const double sharing = training.strategy.is_synchronous() ? 1 : std::max(1, scenario.count(Role::kWorker));
  const double recorded = static_cast<double>(training.steps - training.warmup_steps) / sharing;
  const double period = std::max(steps.period, 1e-9), sample = scenario.output.sampling_period.value();
  const double count = std::clamp(recorded, 1.0, kMostSteps);
  const double samples = std::floor(std::min(kMostSamples, count * period / sample));
  // The first sample that lies within the window begins as far behind the beginning of a step as this.
  const double before = training.warmup_steps * period;
  const double first = before - std::ceil(before / sample - 1e-9) * sample;  // of a step's beginning: at most 0
  const auto shown = [&](const std::vector<ShownWork>& works) {
    return series_of(works, period, sample, first, static_cast<std::size_t>(std::max(1.0, samples)));
  };
  const auto labels_of = [](const Bursts& of) { return BurstLabels{of.idle.value(), of.active.value(), of.peak}; };
  const BurstThresholds thresholds;
  const auto use = [&](const std::vector<ShownWork>& works) {
    return labels_of(find_bursts_of_utilization(shown(works), Seconds{sample}, thresholds));
  };
  const auto rate = [&](const std::vector<ShownWork>& works) {
    return labels_of(find_bursts_of_rate(shown(works), Seconds{sample}, thresholds));
  };
  const auto mean = [&](const std::vector<ShownWork>& works) {
    double sum = 0;
    for (const ShownWork& work : works) sum += work.amount;
    return sum / period;
  };
  std::vector<double> labels = values_of({.memory = use(steps.memory),
                                          .gpu = use(steps.gpu),
                                          .receive = rate(steps.received),
                                          .transmit = rate(steps.transmitted),
                                          .step_time_s = period,
                                          .receive_mean_bytes_per_s = mean(steps.received),
                                          .transmit_mean_bytes_per_s = mean(steps.transmitted)});
  return labels;
}

}  // namespace rehearse
