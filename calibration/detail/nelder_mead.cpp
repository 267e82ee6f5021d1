#include "calibration/detail/nelder_mead.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rehearse {

Minimum nelder_mead(const std::function<double(const std::vector<double>&)>& function, const std::vector<double>& start,
                    double step, double tolerance, int most) {
  const std::size_t n = start.size();
  int evaluations = 0;
  const auto evaluate = [&](std::vector<double> at) {
    ++evaluations;
    const double value = function(at);
    return Minimum{std::move(at), std::isfinite(value) ? value : std::numeric_limits<double>::max()};
  };
  std::vector<Minimum> simplex{evaluate(start)};
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> corner = start;
    corner[i] += step;
    simplex.push_back(evaluate(std::move(corner)));
  }
  const auto better = [](const Minimum& a, const Minimum& b) { return a.value < b.value; };
  while (n > 0 && evaluations < most) {
    std::stable_sort(simplex.begin(), simplex.end(), better);
    if (simplex.back().value - simplex.front().value < tolerance) break;
    std::vector<double> centre(n, 0.0);
    for (std::size_t corner = 0; corner < n; ++corner)
      for (std::size_t i = 0; i < n; ++i) centre[i] += simplex[corner].at[i] / static_cast<double>(n);
    const auto along = [&](double factor) {  // from the centre, away from the worst corner
      std::vector<double> at(n);
      for (std::size_t i = 0; i < n; ++i) at[i] = centre[i] + factor * (centre[i] - simplex[n].at[i]);
      return evaluate(std::move(at));
    };
    Minimum reflected = along(1);
    if (reflected.value < simplex.front().value) {
      Minimum expanded = along(2);
      simplex[n] = expanded.value < reflected.value ? std::move(expanded) : std::move(reflected);
    } else if (reflected.value < simplex[n - 1].value) {
      simplex[n] = std::move(reflected);
    } else {
      Minimum contracted = along(reflected.value < simplex[n].value ? 0.5 : -0.5);
      if (contracted.value < std::min(reflected.value, simplex[n].value)) {
        simplex[n] = std::move(contracted);
      } else {
        for (std::size_t corner = 1; corner <= n; ++corner) {
          std::vector<double> at = simplex[corner].at;
          for (std::size_t i = 0; i < n; ++i) at[i] = (at[i] + simplex[0].at[i]) / 2;
          simplex[corner] = evaluate(std::move(at));
        }
      }
    }
  }
  return *std::min_element(simplex.begin(), simplex.end(), better);
}

}  // namespace rehearse
