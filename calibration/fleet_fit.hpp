#pragma once
// From a recorded fleet to a spot pool: how long machines lived, how many went at once, how long it took until there
// were others.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "calibration/fleet_record.hpp"
#include "calibration/lifetime_fit.hpp"
#include "platforms/fleet_trace.hpp"
#include "platforms/spot_pool.hpp"

namespace rehearse {

/// A simulated fleet of `slots` machines of the pool, each replaced at once, as a trace of this length.
FleetTrace simulate_fleet(const SpotPool& pool, int slots, Seconds duration, bool has_names, std::uint64_t seed);

/// max over k of |share of losses of size <= k in one - in the other|.
double loss_size_distance(const std::vector<FleetLoss>& a, const std::vector<FleetLoss>& b);

/// How like the recorded fleet the simulated ones are.
struct FleetComparison {
  double life_distance = 0;  // of the Kaplan-Meier curves of up-times, at the looks
  double mean_size = 0, simulated_mean_size = 0;
  double loss_size_distance = 0;  // 0 for a fleet of one
  int losses = 0;
  SurvivalCurve observed, simulated;
};
FleetComparison compare(const FleetRecord& record, const SpotPool& pool, bool has_names, int fleets, std::uint64_t seed,
                        const std::function<void()>& on_step = {});

/// Whether losses come in spells of churn. Dates are counted in time with machines; each look that finds a loss is one
/// date. Both laws by maximum likelihood: a renewal process with Weibull intervals (two values), and a Markov-modulated
/// Poisson process of two states (four values), whose likelihood is  pi prod_i [exp((Q - L) dt_i) L] exp((Q - L) dt) 1
/// with the states' rates of change Q, of losses L, and stationary shares pi.
/// Source: Ryden, "Parameter estimation for Markov modulated Poisson processes", Stochastic Models 10(4), 1994.
struct ChurnEvidence {
  Churn churn;
  Seconds calm_interval{};  // mean, between losses
  double renewal_aic = 0, churn_aic = 0;
};
ChurnEvidence churn_evidence(const FleetRecord& record);

struct FleetFit {
  SpotPool pool;  // without name and source
  std::string life_law, wait_law;
  int life_values = 0, wait_values = 0;
};

/// Lifetimes and, in fleets of more than one machine, bulk revocations by maximum likelihood: losses of k of n machines
/// come as a Poisson process with rate  (1 / interval) P(k | n) + [k = 1] n / mean life,  P(k | n) = E binomial(k; n,
/// share). In a fleet of one the law of the up-times is chosen as in fit_lifetime. Waits are chosen the same way, and
/// then stretched by the factor at which the mean size of 200 simulated fleets is the recorded one.
///
/// A fleet of more machines than one is first fitted without churn. With churn it is fitted again where up-times are
/// further than 0.10 from those of 100 simulated fleets and churn_evidence prefers churn by more than 4 of AIC (whose
/// difference of 4 to 7 leaves the other law "considerably less support": Burnham and Anderson, Model Selection, 2002).
/// Six values then: interval of bulk revocations in calm, two of their shares, factor, two mean times; none for single
/// revocations. The time until there is another has one (exponential).
///
/// A fleet with fewer losses than the values of bulk revocations, or none of whose machines came back, is fitted as one
/// machine is: lifetimes alone, and the law says so. `on_step` is called again and again; what it throws ends the fit.
FleetFit fit_fleet(const FleetRecord& record, bool has_names, const std::function<void()>& on_step = {});

}  // namespace rehearse
