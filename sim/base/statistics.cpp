#include "sim/base/statistics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

namespace rehearse {
namespace {

void require_values(std::span<const double> values, const char* what) {
  if (values.empty()) throw std::invalid_argument{std::string{what} + " of an empty sample"};
}

}  // namespace

double mean(std::span<const double> values) {
  require_values(values, "mean");
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double sample_standard_deviation(std::span<const double> values) {
  require_values(values, "standard deviation");
  if (values.size() == 1) return 0;
  const double center = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - center) * (value - center);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double median(std::span<const double> values) { return percentile(values, 50); }

double percentile(std::span<const double> values, double percent) {
  require_values(values, "percentile");
  if (!(percent >= 0 && percent <= 100)) throw std::invalid_argument{"percentile outside 0 to 100"};
  std::vector<double> sorted{values.begin(), values.end()};
  std::ranges::sort(sorted);
  const double position = static_cast<double>(sorted.size() - 1) * percent / 100;
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double fraction = position - static_cast<double>(below);
  return sorted[below] + fraction * (sorted[above] - sorted[below]);
}

std::string percent_text(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", share * 100);
  return text.data();
}

std::string signed_percent_text(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%+.1f %%", share * 100);
  return text.data();
}

}  // namespace rehearse
