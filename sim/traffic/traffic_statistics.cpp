#include "sim/traffic/traffic_statistics.hpp"

#include <algorithm>
#include <cmath>

namespace rehearse {

namespace {

constexpr double kNs = 1e-9;
constexpr std::size_t kMostBinsOfPeriod = std::size_t{1} << 17U;  // of a series whose period is sought
constexpr std::int64_t kStudiedBins = 4'000'000;                  // of pairs, or if they are more:
constexpr std::int64_t kStudiedBinsPerPacket = 16;
constexpr double kBitsPerGigabit = 1e9 / 8;  // bytes
constexpr Span kStudiedThroughput{Seconds{200}, Seconds{300}}, kStudiedFine{Seconds{90}, Seconds{120}};

/// Whole seconds of `wanted`, or of the run if it ends before.
Span window_of(Span wanted, double duration_s) {
  return duration_s >= wanted.end.value() ? wanted : Span{Seconds{0}, Seconds{std::floor(duration_s)}};
}

/// Gbit/s in windows of `window_s`, which are whole bins, from the span's start to its end.
std::vector<double> throughput(std::span<const double> series, double bin_s, Span span, double window_s) {
  std::vector<double> values;
  const auto bins = static_cast<std::size_t>(std::llround(window_s / bin_s));
  if (bins == 0 || std::abs(static_cast<double>(bins) * bin_s - window_s) > 1e-9 * window_s) return values;
  const auto first = static_cast<std::size_t>(std::llround(span.start.value() / window_s));
  const auto end = static_cast<std::size_t>(std::llround(span.end.value() / window_s));
  for (std::size_t w = first; w < end && (w + 1) * bins <= series.size(); ++w) {
    double bytes = 0;
    for (std::size_t i = w * bins; i < (w + 1) * bins; ++i) bytes += series[i];
    values.push_back(bytes / window_s / kBitsPerGigabit);
  }
  return values;
}

class Statistics {
 public:
  Statistics(const RunTraffic& run, const BurstOptions& options) : run_{run}, traffic_{run.traffic} {
    result_.bin_s = static_cast<double>(traffic_.bin_ns) * kNs;
    result_.duration_s = static_cast<double>(traffic_.end_ns) * kNs;
    result_.shortest_gap = options.shortest_gap;
    bins_ = traffic_.bins.end();
    choose_link_rate(options);
    result_.threshold = result_.link_rate * options.threshold_share;
    for (std::int64_t scale = 1; scale <= bins_ && scale < (1LL << 40U); scale *= 10)
      for (const int factor : {1, 2, 5})
        if (scale * factor <= bins_) result_.scales_bins.push_back(scale * factor);
    result_.throughput_window = window_of(kStudiedThroughput, result_.duration_s);
    result_.fine_window = window_of(kStudiedFine, result_.duration_s);
  }

  TrafficStatistics make() {
    result_.all = of_series(traffic_.bins, -1);
    for (const TrafficPair& pair : traffic_.pairs) result_.mean_rates.push_back(mean_rate(pair.bins));
    add_pairs();
    add_steps();
    if (traffic_.bin_ns > 0 && !traffic_.has_sequences)
      result_.notes.emplace_back(
          "The packets' payload and sequence numbers are not known: retransmissions are not told.");
    return std::move(result_);
  }

 private:
  void choose_link_rate(const BurstOptions& options) {
    result_.is_link_rate_known = true;
    if (options.link_rate || run_.link_rate) {
      result_.link_rate = options.link_rate ? *options.link_rate : *run_.link_rate;
      return;
    }
    result_.is_link_rate_known = false;
    std::int64_t highest = 0;
    for (const TrafficPair& pair : traffic_.pairs)
      for (const std::int64_t bytes : pair.bins.bytes) highest = std::max(highest, bytes);
    result_.link_rate = BytesPerSecond{static_cast<double>(highest) / result_.bin_s};
  }

  /// A series has as many bins as the whole traffic, however few frames a pair has.
  void add_pairs() {
    const std::int64_t bins = std::max(kStudiedBins, kStudiedBinsPerPacket * traffic_.total.packets);
    const auto studied = static_cast<std::size_t>(std::max<std::int64_t>(1, bins / std::max<std::int64_t>(1, bins_)));
    for (const std::size_t p : largest_pairs(traffic_, studied))
      result_.pairs.push_back(of_series(traffic_.pairs[p].bins, static_cast<int>(p)));
    if (const std::size_t others = traffic_.pairs.size() - result_.pairs.size(); others > 0)
      result_.notes.push_back("Bursts, period and windows are told of the " + std::to_string(result_.pairs.size()) +
                              " pairs with the most bytes; of " + std::to_string(others) +
                              " others only packets, bytes and the mean rate.");
  }

  double mean_rate(const BinnedBytes& bins) const {
    double sum = 0;  // bytes are whole numbers: below 2^53 no digit is lost
    for (std::int64_t i = std::max<std::int64_t>(0, bins.first); i < std::min(bins.end(), bins_); ++i)
      sum += static_cast<double>(bins.at(i));
    const double length = result_.bin_s * static_cast<double>(bins_);
    return length > 0 ? sum / length : 0;
  }

  SeriesStatistics of_series(const BinnedBytes& bins, int pair) const {
    const std::vector<double> series = series_of(bins, bins_);
    SeriesStatistics result{.pair = pair};
    result.bursts = find_bursts(series, result_.bin_s, result_.threshold.value(), result_.shortest_gap.value());
    result.summary = summarize(result.bursts);
    const auto factor = (series.size() + kMostBinsOfPeriod - 1) / kMostBinsOfPeriod;
    if (!series.empty())
      result.period = find_period(coarser(series, factor), result_.bin_s * static_cast<double>(factor));
    result.mean_rate = mean_rate(bins);
    for (const std::int64_t scale : result_.scales_bins) {
      result.envelope_bytes.push_back(envelope(series, static_cast<std::size_t>(scale)));
      const double mean = result.mean_rate * result_.bin_s * static_cast<double>(scale);
      result.peak_to_mean.push_back(mean > 0 ? result.envelope_bytes.back() / mean : 0);
    }
    for (const double share : kBacklogShares)
      result.backlog_bytes.push_back(backlog(series, result_.bin_s, share * result_.link_rate.value()));
    result.gbps = mean_of_windows(throughput(series, result_.bin_s, result_.throughput_window, 1));
    result.fine_gbps = mean_of_windows(throughput(series, result_.bin_s, result_.fine_window, 0.01));
    return result;
  }

  /// Bytes until a date after the first packet; within a bin in proportion to time.
  double cumulative(const std::vector<double>& sums, double time_s) const {
    const double place = time_s / result_.bin_s;
    if (place <= 0) return 0;
    if (place >= static_cast<double>(sums.size() - 1)) return sums.back();
    const auto bin = static_cast<std::size_t>(place);
    return sums[bin] + (sums[bin + 1] - sums[bin]) * (place - static_cast<double>(bin));
  }

  void add_steps() {
    const SeriesStatistics& all = result_.all;
    if (all.period) result_.data_per_period = all.mean_rate * all.period->seconds;
    if (run_.log.steps.empty()) {
      result_.notes.emplace_back("There is no log of the training's steps.");
      return;
    }
    std::vector<double> sums{0};
    for (const double bytes : series_of(traffic_.bins, bins_)) sums.push_back(sums.back() + bytes);
    StepLog covered;
    for (const LoggedStep& step : run_.log.steps) {
      const double time = static_cast<double>(step.time_ns - traffic_.origin_ns) * kNs;
      // Of a run, what was recorded may end before its steps.
      if (run_.is_simulated && (time < 0 || time > result_.duration_s)) continue;
      covered.steps.push_back(step);
      result_.steps.push_back({.time_s = time,
                               .cumulative_bytes = cumulative(sums, time),
                               .loss = step.loss,
                               .accuracy = step.accuracy,
                               .has_metrics = step.has_metrics});
    }
    result_.step_time_s = covered.step_time_s();
    result_.training_s = covered.duration_s();
    if (result_.steps.size() < 2 || !(result_.step_time_s > 0)) return;
    const double first = result_.steps.front().time_s, last = result_.steps.back().time_s;
    if (last <= 0 || first >= result_.duration_s) {
      result_.notes.push_back(
          "The log's steps, from " + std::to_string(first) + " s to " + std::to_string(last) +
          " s after the first packet, are not of the time of the packets: --log-offset moves them.");
      return;
    }
    result_.data_per_step = (result_.steps.back().cumulative_bytes - result_.steps.front().cumulative_bytes) /
                            static_cast<double>(result_.steps.size() - 1);
    const double bins = std::floor(result_.duration_s / result_.step_time_s) + 1;
    result_.data_per_step_resampled = static_cast<double>(traffic_.total.wire_bytes) / bins;
  }

  const RunTraffic& run_;
  const ObservedTraffic& traffic_;
  std::int64_t bins_ = 0;
  TrafficStatistics result_;
};

}  // namespace

const SeriesStatistics* TrafficStatistics::of_pair(std::size_t pair) const {
  const auto found = std::ranges::lower_bound(pairs, static_cast<int>(pair), {}, &SeriesStatistics::pair);
  return found == pairs.end() || found->pair != static_cast<int>(pair) ? nullptr : &*found;
}

TrafficStatistics traffic_statistics(const RunTraffic& run, const BurstOptions& options) {
  Statistics statistics{run, options};
  return statistics.make();
}

}  // namespace rehearse
