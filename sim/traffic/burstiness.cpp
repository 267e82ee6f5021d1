#include "sim/traffic/burstiness.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <numeric>
#include <unsupported/Eigen/FFT>
#include <utility>

#include "sim/base/statistics.hpp"

namespace rehearse {

namespace {

constexpr double kLeastCorrelation = 0.3;
constexpr double kNearHighest = 0.9;

std::vector<double> without_mean(std::span<const double> series, std::size_t size) {
  std::vector<double> values(size);
  const double average = series.empty() ? 0 : mean(series);
  std::ranges::transform(series, values.begin(), [average](double value) { return value - average; });
  return values;
}

/// sum_t a(t) b(t + k) for k from 0 on, and from the end for negative k; both sizes are the same power of two, at least
/// twice what is not padding.
std::vector<double> products(std::vector<double>& a, std::vector<double>& b) {
  Eigen::FFT<double> fft;
  std::vector<std::complex<double>> of_a, of_b;
  fft.fwd(of_a, a);
  fft.fwd(of_b, b);
  for (std::size_t i = 0; i < of_a.size(); ++i) of_a[i] = std::conj(of_a[i]) * of_b[i];
  std::vector<double> sums;
  fft.inv(sums, of_a);
  return sums;
}

std::size_t padded(std::size_t size) { return std::bit_ceil(2 * std::max<std::size_t>(size, 1)); }

double sum_of_squares(std::span<const double> values) {
  return std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
}

}  // namespace

std::vector<double> series_of(const BinnedBytes& bins, std::int64_t end) {
  std::vector<double> series(static_cast<std::size_t>(std::max<std::int64_t>(0, end)));
  for (std::size_t i = 0; i < series.size(); ++i)
    series[i] = static_cast<double>(bins.at(static_cast<std::int64_t>(i)));
  return series;
}

std::vector<double> coarser(std::span<const double> series, std::size_t factor) {
  std::vector<double> sums((series.size() + factor - 1) / factor);
  for (std::size_t i = 0; i < series.size(); ++i) sums[i / factor] += series[i];
  return sums;
}

std::vector<Burst> find_bursts(std::span<const double> series, double bin_s, double threshold_rate,
                               double shortest_gap_s) {
  std::vector<Burst> bursts;
  const double threshold = threshold_rate * bin_s;
  double in_gap = 0;  // bytes since the last burst: they are its own if it goes on
  for (std::size_t i = 0; i < series.size(); ++i) {
    if (series[i] <= threshold) {
      in_gap += series[i];
      continue;
    }
    const double start = static_cast<double>(i) * bin_s;
    if (bursts.empty() || start - bursts.back().end_s >= shortest_gap_s * (1 - 1e-9)) {
      bursts.push_back({.start_s = start});
      in_gap = 0;
    }
    Burst& burst = bursts.back();
    burst.end_s = static_cast<double>(i + 1) * bin_s;
    burst.bytes += std::exchange(in_gap, 0) + series[i];
    burst.peak_rate = std::max(burst.peak_rate, series[i] / bin_s);
  }
  return bursts;
}

BurstSummary summarize(std::span<const Burst> bursts) {
  BurstSummary summary{.bursts = bursts.size()};
  if (bursts.empty()) return summary;
  for (const Burst& burst : bursts) {
    summary.duration_s += burst.end_s - burst.start_s;
    summary.bytes += burst.bytes;
    summary.peak_rate += burst.peak_rate;
  }
  const auto count = static_cast<double>(bursts.size());
  const double span = bursts.back().end_s - bursts.front().start_s;
  summary.duty_cycle = summary.duration_s / span;
  if (bursts.size() > 1) summary.gap_s = (span - summary.duration_s) / (count - 1);
  summary.duration_s /= count;
  summary.bytes /= count;
  summary.peak_rate /= count;
  return summary;
}

std::vector<double> autocorrelation(std::span<const double> series) {
  std::vector<double> values = without_mean(series, padded(series.size()));
  const double variance = sum_of_squares(values);
  if (!(variance > 0)) return {};
  std::vector<double> same = values;
  std::vector<double> sums = products(values, same);
  sums.resize(series.size() / 2);
  for (double& sum : sums) sum /= variance;
  return sums;
}

std::optional<Period> find_period(std::span<const double> series, double bin_s) {
  const std::vector<double> r = autocorrelation(series);
  std::size_t begin = 0;
  while (begin < r.size() && r[begin] >= 0) ++begin;
  std::vector<std::size_t> peaks;
  for (std::size_t k = std::max<std::size_t>(begin, 1); k + 1 < r.size(); ++k)
    if (r[k] > kLeastCorrelation && r[k] > r[k - 1] && r[k] >= r[k + 1]) peaks.push_back(k);
  if (peaks.empty()) return {};
  double highest = 0;
  for (const std::size_t peak : peaks) highest = std::max(highest, r[peak]);
  const std::size_t peak = *std::ranges::find_if(peaks, [&](std::size_t k) { return r[k] >= kNearHighest * highest; });
  const double left = r[peak - 1], right = r[peak + 1], curvature = left - 2 * r[peak] + right;
  const double offset = curvature < 0 ? 0.5 * (left - right) / curvature : 0;
  return Period{.seconds = (static_cast<double>(peak) + offset) * bin_s, .correlation = r[peak]};
}

double envelope(std::span<const double> series, std::size_t bins) {
  double sum = 0, highest = 0;
  for (std::size_t i = 0; i < series.size(); ++i) {
    sum += series[i];  // bytes are whole numbers: below 2^53 no digit is lost
    if (i >= bins) sum -= series[i - bins];
    highest = std::max(highest, sum);
  }
  return highest;
}

double backlog(std::span<const double> series, double bin_s, double rate) {
  double queue = 0, highest = 0;
  for (const double bytes : series) {
    queue = std::max(0.0, queue + bytes - rate * bin_s);
    highest = std::max(highest, queue);
  }
  return highest;
}

MeanOfWindows mean_of_windows(std::span<const double> values) {
  if (values.empty()) return {};
  return {.windows = values.size(),
          .mean = mean(values),
          .half_width = 1.96 * sample_standard_deviation(values) / std::sqrt(static_cast<double>(values.size()))};
}

CrossCorrelation cross_correlation(std::span<const double> a, std::span<const double> b) {
  const std::size_t size = std::max(a.size(), b.size());
  std::vector<double> first(size), second(size);
  std::ranges::copy(a, first.begin());
  std::ranges::copy(b, second.begin());
  std::vector<double> x = without_mean(first, padded(size)), y = without_mean(second, padded(size));
  const double scale = std::sqrt(sum_of_squares(x) * sum_of_squares(y));
  if (!(scale > 0)) return {};
  const std::vector<double> sums = products(x, y);
  CrossCorrelation result{.at_zero = sums[0] / scale, .highest = sums[0] / scale};
  const std::size_t lags = std::min(kMostLags, std::max<std::size_t>(size / 2, 1) - 1);
  for (std::size_t k = lags; k > 0; --k) result.by_lag.push_back(sums[sums.size() - k] / scale);
  for (std::size_t k = 0; k <= lags; ++k) result.by_lag.push_back(sums[k] / scale);
  for (std::size_t k = 1; k < size / 2; ++k)
    for (const bool is_later : {true, false}) {
      const double value = sums[is_later ? k : sums.size() - k] / scale;
      if (value <= result.highest + 1e-12) continue;
      result.highest = value;
      result.lag = is_later ? static_cast<std::int64_t>(k) : -static_cast<std::int64_t>(k);
    }
  return result;
}

}  // namespace rehearse
