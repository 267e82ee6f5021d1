#pragma once
// Zones whose machines are taken back in spells: times of churn between times of calm.

#include <optional>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/base/units.hpp"

namespace rehearse {

class JsonReader;

/// A zone is calm or in churn, in turns, each for an exponential time. In churn every hazard, of the machines' own
/// lives and of bulk revocations, is `factor` times that in calm, so that
///   hazard at t = factor^[churn at t] h(age),   age(t) = integral of factor^[churn] over the machine's life.
/// With exponential laws that is a Markov-modulated Poisson process of two states. At time 0 the zone is in churn with
/// probability share().
/// Source: Fischer and Meier-Hellstern, "The Markov-modulated Poisson process (MMPP) cookbook", Performance Evaluation
/// 18, 1993.
struct Churn {
  double factor = 1;
  Seconds calm_mean{}, churn_mean{};

  /// Share of time in churn:  churn_mean / (calm_mean + churn_mean).
  double share() const { return churn_mean / (calm_mean + churn_mean); }
  /// Mean of hazards over a long time, against those in calm:  1 + (factor - 1) share().
  double mean_factor() const { return 1 + (factor - 1) * share(); }
};

/// Reads { "factor": 20, "calm_mean": "6h", "churn_mean": "90min" }. Throws InputError.
Churn read_churn(const JsonReader& json);

/// One zone's calm and churn: a clock that runs `factor` times as fast in churn.
class ChurnClock {
 public:
  ChurnClock(const Churn& churn, Rng rng);

  bool is_churn(Seconds at);
  /// What a clock that starts at 0 shows at the date `at`: the integral of factor^[churn] over [0, at].
  Seconds aged(Seconds at);
  /// The date `at` with aged(at) = `age`; none if that is later than `horizon`. Takes random numbers up to there alone.
  std::optional<Seconds> date(Seconds age, Seconds horizon);

 private:
  struct Spell {
    Seconds from{}, age{};  // age: aged(from)
    bool is_churn = false;
  };
  double rate(const Spell& spell) const { return spell.is_churn ? churn_.factor : 1; }
  /// Adds spells until the last begins after `at`.
  void extend(Seconds at);
  const Spell& spell_at(Seconds at);

  Churn churn_;
  Rng rng_;
  std::vector<Spell> spells_;
};

}  // namespace rehearse
