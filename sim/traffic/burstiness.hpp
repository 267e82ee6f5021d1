#pragma once
// How traffic is spread over time: bursts, iteration period, peaks over time scales. A series is bytes in bins of one
// width, from time 0 on.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/traffic/traffic.hpp"

namespace rehearse {

/// A series from bin 0 to bin `end`, which is not in it; bins before 0 are left out.
std::vector<double> series_of(const BinnedBytes& bins, std::int64_t end);

/// Sums of `factor` bins each; the last may be of fewer.
std::vector<double> coarser(std::span<const double> series, std::size_t factor);

struct Burst {
  double start_s = 0, end_s = 0;
  double bytes = 0;
  double peak_rate = 0;  // of a bin
};

/// The bursts of a series, which is ON while its rate in a bin is above `threshold_rate`; shorter gaps than
/// `shortest_gap_s` belong to the burst around them.
std::vector<Burst> find_bursts(std::span<const double> series, double bin_s, double threshold_rate,
                               double shortest_gap_s);

struct BurstSummary {
  std::size_t bursts = 0;
  double duration_s = 0, gap_s = 0;  // means; of gaps between bursts
  double bytes = 0, peak_rate = 0;   // means
  double duty_cycle = 0;             // time in bursts over the time from the first's start to the last's end
};
BurstSummary summarize(std::span<const Burst> bursts);

struct Period {
  double seconds = 0;
  double correlation = 0;  // of the series with itself, that much later
};

/// Biased autocorrelation of the series less its mean, r(0) = 1, for lags below half of its length:
///   r(k) = sum_t x(t) x(t + k) / sum_t x(t)^2
std::vector<double> autocorrelation(std::span<const double> series);

/// The period of a series: the first local maximum of its autocorrelation, after that first fell below 0, which is above
/// 0.3 and at least 0.9 of the highest such, refined by the parabola through it and its neighbours. None without.
std::optional<Period> find_period(std::span<const double> series, double bin_s);

/// E(n) = max_t sum of bins t to t + n - 1: the burst envelope for a window of n bins.
double envelope(std::span<const double> series, std::size_t bins);

/// max over s < t of A(s, t) - rate (t - s): the largest queue that a server of `rate` would have had.
double backlog(std::span<const double> series, double bin_s, double rate);

/// A mean over windows with half of its interval of 95 %, 1.96 sd / sqrt(windows).
struct MeanOfWindows {
  std::size_t windows = 0;
  double mean = 0, half_width = 0;
};
MeanOfWindows mean_of_windows(std::span<const double> values);

struct CrossCorrelation {
  double at_zero = 0;          // Pearson's coefficient
  double highest = 0;          // over shifts of up to half of the series
  std::int64_t lag = 0;        // bins by which b then comes after a
  std::vector<double> by_lag;  // [2 n + 1] of lags from -n to n, n up to kMostLags
};
inline constexpr std::size_t kMostLags = 1000;
/// Of two series, the shorter padded with zeros. Zero if one does not vary.
CrossCorrelation cross_correlation(std::span<const double> a, std::span<const double> b);

}  // namespace rehearse
