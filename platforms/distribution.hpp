#pragma once
// Distributions of times: how long something takes that varies from one time to the next.

#include <array>
#include <variant>

#include "sim/base/units.hpp"

namespace rehearse {

class JsonReader;
class Rng;

/// F(t) = 1 - exp(-t / mean)
struct Exponential {
  Seconds mean{};
};
/// F(t) = Phi(ln(t / median) / sigma)
struct Lognormal {
  Seconds median{};
  double sigma = 0;
};
/// F(t) = 1 - exp(-(t / scale)^shape)
struct Weibull {
  Seconds scale{};
  double shape = 1;
};

/// The words of files for the alternatives of Distribution::law.
inline constexpr std::array kTimeLaws{"exponential", "lognormal", "weibull"};

/// `minimum` + a time of this law.
struct Distribution {
  std::variant<Exponential, Lognormal, Weibull> law;
  Seconds minimum{};

  Seconds mean() const;
  /// F(t), the share of times up to `t`.
  double cumulative(Seconds t) const;
  /// The time with F(t) = `probability`, which is in [0, 1); `minimum` for 0.
  Seconds quantile(double probability) const;
  /// quantile(u) of one uniform draw: other parameters with the same stream give the times that correspond.
  Seconds draw(Rng& rng) const;
};

/// Standard normal: Phi(x), and the x with Phi(x) = `probability` in (0, 1), to 1e-12.
/// Source of the first guess: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.23; refined by Halley's
/// method.
double normal_cumulative(double x);
double normal_quantile(double probability);

/// { "law": "lognormal", "median": "40s", "sigma": 0.1, "minimum": "0s" }, { "law": "exponential", "mean": "1h" },
/// { "law": "weibull", "scale": "8h", "shape": 0.7 }; "minimum" is optional. Throws InputError.
Distribution read_distribution(const JsonReader& json);

}  // namespace rehearse
