#pragma once
// Spot machines of one kind in one place: how long they live, how they are taken back, and when there are new ones.

#include <optional>
#include <string>

#include "platforms/churn.hpp"
#include "platforms/lifetime.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

/// Revocations that hit several machines of a zone at once. Each hits a share of the machines, drawn anew each time
/// from F(x) = 1 - (1 - x^share_a)^share_b on [0, 1] (Kumaraswamy, J. Hydrology 46, 1980: a beta distribution whose
/// quantiles have a closed form), and every machine that runs independently with that probability.
struct BulkRevocations {
  Distribution interval;  // between two of them
  double share_a = 1, share_b = 1;
  /// For how long the zone then has no machine for any request; none: it goes on giving machines.
  std::optional<TimeLaw> outage;

  double draw_share(Rng& rng) const;
  /// b B(1 + 1/a, b), with the beta function B.
  double mean_share() const;
  /// That one hits any of so many machines: the mean of 1 - (1 - share)^machines.
  double hits_any_of(int machines) const;
};

struct SpotPool {
  std::string name;
  std::string source;
  Lifetime lifetime;                    // of each machine by itself
  Seconds notice{};                     // the provider announces a revocation this long before
  std::optional<BulkRevocations> bulk;  // of the whole zone, on top
  std::optional<Churn> churn;   // of the whole zone; none: always calm. Who is lost at the start is not concerned
  std::optional<TimeLaw> wait;  // from a request until the provider has a machine; none: it has one
};

/// { "source": "...", "lifetime": {...}, "notice": "30s",
///   "bulk": { "interval": {...}, "share": { "a": 1.8, "b": 96 }, "outage": {...} },
///   "churn": { "factor": 20, "calm_mean": "6h", "churn_mean": "90min" }, "wait": {...} },
/// where "notice", "bulk", "outage", "churn" and "wait" are optional, "interval" is a distribution, "outage" and "wait"
/// are laws as read_time_law takes them. A pool has either "churn" or "hours" of its lifetime. Throws InputError.
SpotPool read_spot_pool(std::string name, const JsonReader& json);

/// What read_spot_pool reads, with values to four digits.
Json to_json(const SpotPool& pool);

}  // namespace rehearse
