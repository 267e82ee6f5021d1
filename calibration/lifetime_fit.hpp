#pragma once
// From observed lifetimes, exact or between two ages or still running, to a law with few values.
//
//   likelihood   product over the machines of S(low) - S(high), or S(low) for one that was still running at `low`
//                (see LifetimeFitOptions::looked_at_every for machines that a periodic probe saw)
//   choice       the least AIC = 2 values - 2 ln likelihood among the laws whose distance from Kaplan and Meier's curve
//                is at most a bound
//
// Source: Kaplan and Meier, J. Amer. Statist. Assoc. 53, 1958; Akaike, IEEE Trans. Automat. Control 19(6), 1974.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "platforms/lifetime.hpp"

namespace rehearse {

/// `count` machines that were seen running at age `low`, and gone at age `high`; infinity: still running at the end.
struct LifetimeObservation {
  Seconds low{}, high{};
  double count = 1;
};

/// Share of machines still running after each age at which one is gone; rises in age, falls in survival.
struct SurvivalCurve {
  std::vector<Seconds> ages;
  std::vector<double> survival;

  double at(Seconds age) const;  // right-continuous: whoever is gone at `age` does not count
};

/// S(t) = prod over ages a <= t of (1 - gone(a) / at risk(a)); a revocation counts at `high`, a machine that was still
/// running leaves the risk after `low`. Checked on a worked example in lifetime_fit_test.cpp.
SurvivalCurve kaplan_meier(const std::vector<LifetimeObservation>& observations);

/// max over `edges` of |S_fit - S_observed|.
double survival_distance(const Lifetime& lifetime, const SurvivalCurve& observed, const std::vector<Seconds>& edges);

struct LifetimeFit {
  std::string law;  // in words
  int values = 0;   // free ones
  Lifetime lifetime;
  double log_likelihood = 0;
  double aic = 0;
  double distance = 0;  // survival_distance at the edges
};

struct LifetimeFitOptions {
  std::vector<Seconds> edges;           // where the fit is compared; rising
  double most_distance = 0.10;          // for the choice
  std::optional<Seconds> start_within;  // try a share that is lost within this age at the start
  std::optional<Seconds> deadline;      // try bathtubs that end here
  int most_values = 5;
  Seconds minimum{};         // no time is shorter
  bool always_ends = false;  // no share lasts for ever
  /// The machines were looked at this often (ages are multiples of it), and those that no look found are not among
  /// them. A machine found at k looks then counts with P(K = k | K >= 1), where  P(K >= k) = mean of S over [(k - 1) r,
  /// k r].
  std::optional<Seconds> looked_at_every;
  /// Called again and again while a fit is under way; what it throws ends the fit.
  std::function<void()> on_step;
};

/// All laws that were tried, the chosen one first, the others by AIC. If none is within the distance, those that are
/// nearest are fitted again for the least distance, and the nearest is chosen. Deterministic. `observations` must not
/// be empty. If none was revoked: the exponential law of the greatest mean, 1e9 s. No law has more values than machines
/// were revoked; where that leaves laws out, the name of the chosen one says so.
std::vector<LifetimeFit> fit_lifetime(const std::vector<LifetimeObservation>& observations,
                                      const LifetimeFitOptions& options);

/// Revocations counted by local hour of day, as factors of the hazard: exp(sum_k a_k cos(k x) + b_k sin(k x)),
/// x = 2 pi (hour + 1/2) / 24, scaled to mean 1; 0, 1 or 2 waves by the likelihood of Poisson counts, with AIC divided
/// by the counts' overdispersion (revocations come in groups).  Source: Burnham and Anderson, Model Selection, 2002.
struct HourFit {
  std::array<double, 24> factors{};
  int values = 0;
};
HourFit fit_hours(const std::array<double, 24>& counts);

}  // namespace rehearse
