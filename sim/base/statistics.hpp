#pragma once
// Statistics of a sample. An empty sample is our own mistake and throws std::invalid_argument.

#include <span>
#include <string>

namespace rehearse {

/// sum x / n.
double mean(std::span<const double> values);

/// sqrt(sum (x - mean)^2 / (n - 1)); 0 for a single value.
double sample_standard_deviation(std::span<const double> values);

/// The middle value, or the mean of the two in the middle.
double median(std::span<const double> values);

/// `percent` in [0, 100]; linear interpolation between order statistics at h = (n - 1) percent / 100, as NumPy does.
/// Source: Hyndman and Fan, The American Statistician 50(4), 1996, definition 7.
double percentile(std::span<const double> values, double percent);

/// A share as "12.3 %".
std::string percent_text(double share);
/// A change as "+12.3 %".
std::string signed_percent_text(double share);

}  // namespace rehearse
