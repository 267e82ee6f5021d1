#include "sim/resources/rate_pulses.hpp"

#include <algorithm>
#include <cmath>

namespace rehearse {

namespace {

/// The last pulse that starts by `date`, the first one if none does.
std::int64_t pulse_at(const RatePulses& pulses, double date) {
  if (pulses.count == 1) return 0;
  const double last = static_cast<double>(pulses.count - 1);
  return static_cast<std::int64_t>(std::clamp(std::floor((date - pulses.start) / pulses.every), 0.0, last));
}

/// What add_to_samples() adds to.
struct Samples {
  double period;
  std::size_t first;
  std::span<double> sums;
  double negligible;
};

void add_one(double start, double length, double rate, const Samples& samples) {
  const auto& [period, first, sums, negligible] = samples;
  const double end = start + length, begin = static_cast<double>(first),
               last = begin + static_cast<double>(sums.size()) - 1;
  if (end <= begin * period || start >= (last + 1) * period) return;
  const auto from = static_cast<std::size_t>(std::max(std::floor(start / period), begin));
  const auto to = static_cast<std::size_t>(std::min(std::floor(end / period), last));
  for (std::size_t i = from; i <= to; ++i) {
    const bool is_whole = start >= static_cast<double>(i) * period && end <= static_cast<double>(i + 1) * period;
    const double share = is_whole ? length
                                  : std::min(end, static_cast<double>(i + 1) * period) -
                                        std::max(start, static_cast<double>(i) * period);
    if (share > negligible * period) sums[i - first] += rate * share;
  }
}

}  // namespace

double RatePulses::until(double date) const {
  if (date <= start) return 0;
  const std::int64_t pulse = pulse_at(*this, date);
  return rate * (length * static_cast<double>(pulse) + std::clamp(date - start_of(pulse), 0.0, length));
}

void append_within(const RatePulses& pulses, double from, double to, std::vector<RatePulses>& parts) {
  if (to <= from || pulses.end() <= from || pulses.start >= to) return;
  if (pulses.start >= from && pulses.end() <= to) return parts.push_back(pulses);
  const std::int64_t first = pulse_at(pulses, from), last = pulse_at(pulses, to);
  const auto append_one = [&](std::int64_t pulse) {
    const double start = std::max(from, pulses.start_of(pulse));
    const double end = std::min(to, pulses.start_of(pulse) + pulses.length);
    if (end > start) parts.push_back({.start = start, .length = end - start, .rate = pulses.rate});
  };
  append_one(first);
  if (const std::int64_t between = last - first - 1; between > 0)
    parts.push_back({.start = pulses.start_of(first + 1),
                     .length = pulses.length,
                     .rate = pulses.rate,
                     .count = between,
                     .every = pulses.every});
  if (last > first) append_one(last);
}

void add_to_samples(const RatePulses& pulses, double period, std::size_t first, std::span<double> sums,
                    double negligible) {
  if (sums.empty() || !(pulses.length > 0)) return;
  const double from = static_cast<double>(first) * period, to = from + static_cast<double>(sums.size()) * period;
  if (pulses.count > 1 && pulses.every < period) {  // several in a sample
    const auto begin = static_cast<std::size_t>(std::max(0.0, std::floor((pulses.start - from) / period)));
    for (std::size_t i = begin; i < sums.size(); ++i) {
      const double start = static_cast<double>(first + i) * period;
      if (start >= pulses.end()) return;
      sums[i] += pulses.until(static_cast<double>(first + i + 1) * period) - pulses.until(start);
    }
    return;
  }
  const std::int64_t last = pulse_at(pulses, to);
  for (std::int64_t pulse = pulse_at(pulses, from); pulse <= last; ++pulse) {
    add_one(pulses.start_of(pulse), pulses.length, pulses.rate, {period, first, sums, negligible});
  }
}

}  // namespace rehearse
