#include "sim/record/resource_profile.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

namespace {

constexpr double kMostSamples = 1e7;

Seconds last_activity(const RunRecord& record) {
  Seconds last = std::min(record.end, record.recorder.scope.window.end);
  for (const KernelSpan& kernel : record.recorder.kernels) last = std::max(last, kernel.span.end);
  for (const MessageSpan& message : record.recorder.messages) last = std::max(last, message.on_wire.end);
  for (const LinkRate& rate : record.recorder.rates) last = std::max(last, Seconds{rate.pulses.end()});
  return last;
}

void add_kernels(const RunRecord& record, ResourceProfile& profile) {
  using Gpu = std::pair<MachineIndex, int>;
  std::map<Gpu, std::vector<const KernelSpan*>> by_gpu;
  for (const KernelSpan& kernel : record.recorder.kernels) by_gpu[{kernel.machine, kernel.gpu}].push_back(&kernel);
  for (auto& [gpu, kernels] : by_gpu) {
    const auto m = static_cast<std::size_t>(gpu.first);
    const double share = 1.0 / record.machines[m].workers;  // the machine's series are means over its GPUs
    const auto is_earlier = [](const KernelSpan* a, const KernelSpan* b) { return a->span.start < b->span.start; };
    if (!std::is_sorted(kernels.begin(), kernels.end(), is_earlier))
      std::stable_sort(kernels.begin(), kernels.end(), is_earlier);
    Seconds busy_until{};
    for (const KernelSpan* kernel : kernels) {
      const Span alone{std::max(kernel->span.start, busy_until), kernel->span.end};  // where no earlier kernel runs
      if (alone.end > alone.start)
        spread(profile.series[m].gpu, profile.period, alone, (alone.end - alone.start).value() * share);
      busy_until = std::max(busy_until, kernel->span.end);
      spread(profile.series[m].memory, profile.period, kernel->span, kernel->memory.value() * share);
    }
  }
}

/// [links][pulses]
std::vector<std::vector<const RatePulses*>> rates_by_link(const Recorder& recorder) {
  std::vector<std::vector<const RatePulses*>> by_link(recorder.links.size());
  for (const LinkRate& rate : recorder.rates) by_link[rate.link].push_back(&rate.pulses);
  return by_link;
}

/// What a monitor makes of a link's bytes: sums of periods, of a counter that it reads every `interval` and takes to
/// grow evenly in between. All that crosses the link is in the sums, as the last reading follows its last byte.
void read_counter(const std::vector<const RatePulses*>& link, double period, double interval,
                  std::vector<double>& sums) {
  const double end = period * static_cast<double>(sums.size());
  std::vector<double> counts(static_cast<std::size_t>(std::ceil(end / interval)) + 1);
  const std::span<double> growth = std::span{counts}.subspan(1);  // up to each reading
  for (const RatePulses* pulses : link) add_to_samples(*pulses, interval, 0, growth);
  std::partial_sum(counts.begin(), counts.end(), counts.begin());
  const auto count_at = [&](double date) {
    const double reading = date / interval;
    const std::size_t before = std::min(static_cast<std::size_t>(reading), counts.size() - 2);
    const double share = std::min(reading - static_cast<double>(before), 1.0);
    return counts[before] + (counts[before + 1] - counts[before]) * share;
  };
  double counted = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double until = i + 1 < sums.size() ? count_at(static_cast<double>(i + 1) * period) : counts.back();
    sums[i] = until - std::exchange(counted, until);
  }
}

/// Sampled link by link, so that none of them can be above its rate without notice. Dates are rounded to a share of the
/// run, which is one of a sample the larger the more samples there are.
void add_rates(const RunRecord& record, TrafficOf traffic, Seconds reading_interval, ResourceProfile& profile) {
  const double period = profile.period.value();
  const double rounding = 1e-9 + 1e-15 * static_cast<double>(profile.samples);
  const auto by_link = rates_by_link(record.recorder);
  std::vector<double> sums;
  for (std::size_t l = 0; l < by_link.size(); ++l) {
    const RecordedLink& link = record.recorder.links[l];
    if (link.is_of_gpus != (traffic == TrafficOf::kGpus) || by_link[l].empty()) continue;
    sums.assign(profile.samples, 0);
    for (const RatePulses* pulses : by_link[l]) add_to_samples(*pulses, period, 0, sums);
    const double most = *std::max_element(sums.begin(), sums.end()) / period;
    if (most > link.rate.value() * (1 + rounding) + as_double(link.burst) / period)
      throw std::logic_error{"invariant broken: " + link.name + " carries " + to_text(BytesPerSecond{most}) +
                             " in one sample, more than its " + to_text(link.rate)};
    if (reading_interval > Seconds{}) read_counter(by_link[l], period, reading_interval.value(), sums);
    ResourceSeries& series = profile.series[static_cast<std::size_t>(link.machine)];
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (link.receives) series.receive[i] += sums[i];
      if (link.sends) series.transmit[i] += sums[i];
    }
  }
}

/// Fewest whole steps of any worker within `covered`.
std::int64_t covered_iterations(const RunRecord& record, Span covered) {
  std::map<std::pair<MachineIndex, int>, std::int64_t> steps;
  for (std::size_t m = 0; m < record.machines.size(); ++m)
    for (int gpu = 0; gpu < record.machines[m].workers; ++gpu) steps[{static_cast<MachineIndex>(m), gpu}] = 0;
  for (const StepSpan& step : record.recorder.steps)
    if (step.span.start >= covered.start && step.span.end <= covered.end) ++steps[{step.machine, step.gpu}];
  std::int64_t fewest = -1;
  for (const auto& [gpu, count] : steps)
    if (fewest < 0 || count < fewest) fewest = count;
  return std::max<std::int64_t>(fewest, 0);
}

}  // namespace

void spread(std::vector<double>& sums, Seconds period, Span span, double amount) {
  if (sums.empty()) return;  // a machine that is not recorded
  const std::size_t last_sample = sums.size() - 1;
  const auto sample_at = [&](Seconds time) {
    return std::min(last_sample, static_cast<std::size_t>(std::max(0.0, time / period)));
  };
  const std::size_t first = sample_at(span.start);
  const std::size_t last = sample_at(span.end);
  const double duration = (span.end - span.start).value();
  double left = amount;
  for (std::size_t i = first; i < last; ++i) {
    const double begin = std::max(span.start.value(), static_cast<double>(i) * period.value());
    const double end = static_cast<double>(i + 1) * period.value();
    const double part = std::clamp(amount * (end - begin) / duration, 0.0, left);
    sums[i] += part;
    left -= part;
  }
  sums[last] += left;
}

Bursts find_bursts(std::span<const double> series, Seconds period, double threshold) {
  struct Runs {
    std::int64_t count = 0;
    double samples = 0;
    double peaks = 0;
    void add(std::size_t length, double peak) {
      ++count;
      samples += static_cast<double>(length);
      peaks += peak;
    }
  };
  Runs whole[2], cut[2];  // [is_active]
  for (std::size_t begin = 0; begin < series.size();) {
    const bool is_active = series[begin] > threshold;
    double peak = series[begin];
    std::size_t end = begin + 1;
    for (; end < series.size() && (series[end] > threshold) == is_active; ++end) peak = std::max(peak, series[end]);
    const bool is_cut = begin == 0 || end == series.size();
    (is_cut ? cut : whole)[is_active ? 1 : 0].add(end - begin, peak);
    begin = end;
  }
  const Runs& gaps = whole[0].count > 0 ? whole[0] : cut[0];
  const Runs& bursts = whole[1].count > 0 ? whole[1] : cut[1];
  Bursts result{.threshold = threshold, .gaps = gaps.count, .bursts = bursts.count};
  if (!series.empty())
    result.mean = std::accumulate(series.begin(), series.end(), 0.0) / static_cast<double>(series.size());
  if (gaps.count > 0) result.idle = period * (gaps.samples / static_cast<double>(gaps.count));
  if (bursts.count > 0) {
    result.active = period * (bursts.samples / static_cast<double>(bursts.count));
    result.peak = bursts.peaks / static_cast<double>(bursts.count);
  }
  return result;
}

Bursts find_bursts_of_utilization(std::span<const double> series, Seconds period, const BurstThresholds& thresholds) {
  return find_bursts(series, period, thresholds.utilization);
}

Bursts find_bursts_of_rate(std::span<const double> series, Seconds period, const BurstThresholds& thresholds) {
  const double maximum = series.empty() ? 0 : *std::max_element(series.begin(), series.end());
  return find_bursts(series, period, thresholds.share_of_maximum * maximum);
}

ResourceProfile resource_profile(const RunRecord& record, Seconds period, BurstThresholds thresholds, TrafficOf traffic,
                                 Seconds reading_interval) {
  if (!(period > Seconds{})) throw std::logic_error{"resource_profile: the sampling period must be above 0"};
  const double samples = std::max(1.0, std::ceil(last_activity(record) / period));
  if (samples * static_cast<double>(record.machines.size()) > kMostSamples)
    throw RunError{"/output/sampling_period",
                   "the resource profile would have " + to_text(samples) + " samples of each of " +
                       std::to_string(record.machines.size()) +
                       " machines, more than 10 million in all; expected a longer period than " + to_text(period)};

  ResourceProfile profile{.period = period, .samples = static_cast<std::size_t>(samples), .thresholds = thresholds};
  for (std::size_t m = 0; m < record.machines.size(); ++m) {
    const std::vector<double> zeros(record.recorder.scope.covers(static_cast<MachineIndex>(m)) ? profile.samples : 0);
    profile.series.push_back({static_cast<MachineIndex>(m), zeros, zeros, zeros, zeros});
  }
  add_kernels(record, profile);
  add_rates(record, traffic, reading_interval, profile);
  std::erase_if(profile.series,
                [&](const ResourceSeries& series) { return !record.recorder.scope.covers(series.machine); });
  for (ResourceSeries& series : profile.series)
    for (std::vector<double>* sums : {&series.gpu, &series.memory, &series.receive, &series.transmit})
      for (double& value : *sums) value /= period.value();

  // The whole samples within the window: 1e-9 of a period is rounding.
  const auto bound = [&](double sample) { return static_cast<std::size_t>(std::clamp(sample, 0.0, samples)); };
  const RecordingScope& scope = record.recorder.scope;
  const Seconds from = std::max(record.window.start, scope.window.start);
  const Seconds to = std::min(record.window.end, scope.window.end);
  const std::size_t first = bound(std::ceil(from / period - 1e-9));
  const std::size_t last = std::max(first, bound(std::floor(to / period + 1e-9)));
  profile.covered = {period * static_cast<double>(first), period * static_cast<double>(last)};
  profile.iterations = covered_iterations(record, profile.covered);
  for (const ResourceSeries& series : profile.series) {
    const auto covered = [&](const std::vector<double>& values) {
      return std::span{values}.subspan(first, last - first);
    };
    const auto of_utilization = [&](const std::vector<double>& values) {
      return find_bursts_of_utilization(covered(values), period, thresholds);
    };
    const auto of_rate = [&](const std::vector<double>& values) {
      return find_bursts_of_rate(covered(values), period, thresholds);
    };
    profile.bursts.push_back({series.machine, of_utilization(series.memory), of_utilization(series.gpu),
                              of_rate(series.receive), of_rate(series.transmit)});
  }
  return profile;
}

ResourceProfile resource_profile(const Scenario& scenario, const RunRecord& record, TrafficOf traffic) {
  try {
    return resource_profile(record, scenario.output.sampling_period, {}, traffic, scenario.output.reading_interval);
  } catch (const RunError& error) { throw scenario.no_result(error); }
}

}  // namespace rehearse
