#include "predictor/predicted_metrics.hpp"

#include <algorithm>
#include <cmath>

namespace rehearse {

std::array<double, kCoverages.size()> conformal_quantiles(std::vector<double> scores) {
  std::array<double, kCoverages.size()> quantiles{};
  std::sort(scores.begin(), scores.end());
  for (std::size_t c = 0; c < kCoverages.size() && !scores.empty(); ++c) {
    const auto rank = static_cast<std::size_t>(std::ceil(kCoverages[c] * static_cast<double>(scores.size() + 1)));
    quantiles[c] = scores[std::min(scores.size(), rank) - 1];
  }
  return quantiles;
}

std::array<double, kCoverages.size()> reaches_of(double width, std::span<const double> quantiles) {
  std::array<double, kCoverages.size()> reaches{};
  for (std::size_t c = 0; c < reaches.size(); ++c) reaches[c] = std::min(width * quantiles[c], std::log(1e6));
  return reaches;
}

}  // namespace rehearse
