#pragma once
// How long a machine takes from the request until it runs: the provider finds one (provisioning), prepares it
// (staging), and it boots. The framework's own start comes on top.

#include <optional>
#include <string>
#include <vector>

#include "platforms/distribution.hpp"

namespace rehearse {

/// What the times depend on. Market is "on-demand" or "spot", as in a scenario; accelerator is empty without one.
struct StartupCondition {
  std::string market;
  std::string region;
  std::string accelerator;
};

/// Of machines in one condition. The stages are independent of each other.
struct Startup {
  Distribution provisioning, staging, booting;

  Seconds mean() const { return provisioning.mean() + staging.mean() + booting.mean(); }
  /// One draw for each stage, in their order.
  Seconds draw(Rng& rng) const;
  /// Quantile of the sum, `probability` in [0, 1), from 10001 draws of a stream of its own: always the same value.
  Seconds quantile(double probability) const;
};

/// Times of one stage; an empty part of the condition stands for any.
struct StartupTime {
  StartupCondition condition;
  Distribution time;
};

/// A profile's "startup": for each stage a list, of which the first entry that fits a condition counts.
struct StartupParameters {
  std::string source;
  std::vector<StartupTime> provisioning, staging, booting;

  /// None if a stage has no entry for the condition.
  std::optional<Startup> find(const StartupCondition& condition) const;
};

/// Throws InputError.
StartupParameters read_startup(const JsonReader& json);

}  // namespace rehearse
