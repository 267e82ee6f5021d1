#pragma once
// Rates over time as step functions, and what falls into sampling periods. Raw doubles, as all of it is arithmetic.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rehearse {

/// A constant `rate` from `start` on for `length`, `count` times, from one start to the next `every`. A step function
/// is a sum of such pulses. Times in seconds, the rate in anything per second.
struct RatePulses {
  double start = 0;
  double length = 0;
  double rate = 0;
  std::int64_t count = 1;
  double every = 0;  // >= length, of several

  double start_of(std::int64_t pulse) const { return start + every * static_cast<double>(pulse); }
  double end() const { return start_of(count - 1) + length; }
  /// Integral of the rate up to a date.
  double until(double date) const;
};

/// Appends the part of `pulses` that lies within [from, to).
void append_within(const RatePulses& pulses, double from, double to, std::vector<RatePulses>& parts);

/// Adds to sums[i] the integral over [first + i, first + i + 1) periods; what lies outside of all of them is left out,
/// as is a share of a period that is at most `negligible`.
void add_to_samples(const RatePulses& pulses, double period, std::size_t first, std::span<double> sums,
                    double negligible = 0);

}  // namespace rehearse
