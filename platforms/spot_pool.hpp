#pragma once
// Spot machines of one kind in one place: how long they live, how they are taken back, and when there are new ones.

#include <optional>
#include <string>

#include "platforms/lifetime.hpp"

namespace rehearse {

class JsonReader;

/// Revocations that hit several machines of a zone at once. Each hits a share of the machines, drawn anew each time
/// from F(x) = 1 - (1 - x^share_a)^share_b on [0, 1] (Kumaraswamy, J. Hydrology 46, 1980: a beta distribution whose
/// quantiles have a closed form), and every machine that runs independently with that probability.
struct BulkRevocations {
  Distribution interval;  // between two of them
  double share_a = 1, share_b = 1;

  double draw_share(Rng& rng) const;
  /// b B(1 + 1/a, b), with the beta function B.
  double mean_share() const;
};

struct SpotPool {
  std::string name;
  std::string source;
  Lifetime lifetime;                    // of each machine by itself
  Seconds notice{};                     // the provider announces a revocation this long before
  std::optional<BulkRevocations> bulk;  // of the whole zone, on top
  std::optional<TimeLaw> wait;          // from a request until the provider has a machine; none: it has one
};

/// Throws InputError.
SpotPool read_spot_pool(std::string name, const JsonReader& json);

}  // namespace rehearse
