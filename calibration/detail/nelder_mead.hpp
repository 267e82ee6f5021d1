#pragma once
// Minimum of a function of few values without derivatives.
// Source: Nelder and Mead, Computer Journal 7(4), 1965; coefficients 1, 2, 1/2, 1/2.

#include <functional>
#include <vector>

namespace rehearse {

struct Minimum {
  std::vector<double> at;
  double value = 0;
};

/// From `start`, with a first simplex of `step` along each axis. Ends when the simplex's values differ by less than
/// `tolerance`, or after `most` evaluations. Values that are not finite count as worse than any other.
Minimum nelder_mead(const std::function<double(const std::vector<double>&)>& function, const std::vector<double>& start,
                    double step, double tolerance, int most);

}  // namespace rehearse
