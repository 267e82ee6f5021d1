#pragma once
// How long a spot machine runs until the provider takes it back.

#include <array>
#include <optional>
#include <variant>
#include <vector>

#include "platforms/distribution.hpp"

namespace rehearse {

class JsonReader;
class Rng;

/// No machine runs, no wait and no phase of a pool lasts for less: a second, the unit of recorded dates.
inline constexpr Seconds kShortestPeriod{1};

/// Shares of the machines and how long those live: F(t) = sum_i weight_i F_i(t). What the weights, each in (0, 1],
/// leave to 1 is never revoked.
struct Mixture {
  struct Part {
    double weight = 1;
    Distribution law;
  };
  std::vector<Part> parts;
};

/// Many are revoked early, few in the middle, many shortly before a deadline D:
///   F(t) = early (1 - exp(-t / early_mean)) + late (exp((t - D) / late_rise) - exp(-D / late_rise)) / (1 - exp(-D /
///   late_rise)),  t <= D.
/// early + late <= 1; who remains is never revoked. Source of the shape: Kadupitiya, Jadhao and Sharma, "Modeling the
/// temporally constrained preemptions of transient cloud VMs", HPDC 2020, whose two shares are equal.
struct Bathtub {
  double early = 0;
  Seconds early_mean{};
  double late = 0;
  Seconds late_rise{};
  Seconds deadline{};
};

/// Measured: `cumulative[i]` of all are revoked up to `ages[i]`, linear in between and from (0, 0) on. Ages rise,
/// cumulative does not fall; what the last leaves to 1 is never revoked.
struct Empirical {
  std::vector<Seconds> ages;
  std::vector<double> cumulative;
};

/// A time that may be infinite.
struct TimeLaw {
  std::variant<Distribution, Mixture, Bathtub, Empirical> law;

  /// F(t), the share of times up to `t`.
  double cumulative(Seconds t) const;
  /// The time that belongs to one uniform number in [0, 1): uniform numbers give times of this law. Infinity for never.
  Seconds at(double uniform) const;
};

/// How fast revocations come at each local hour of day: factors of the hazard, mean 1.
struct HourFactors {
  std::array<double, 24> factors{};
  double utc_offset_h = 0;

  /// The age A with  integral of the factors over [start, start + A] = `age`: at twice the hazard one ages twice as
  /// fast. `start_s_utc` counts from any midnight UTC. Whole days leave the age as it is.
  Seconds stretch(Seconds age, double start_s_utc) const;
};

struct Lifetime {
  TimeLaw law;
  /// This share of the machines is lost at an age that is equally likely anywhere in [0, start_within]; the others
  /// follow the law. The hour of day does not matter for these losses.
  double start_share = 0;
  Seconds start_within{};
  /// Whoever is alive at this age is stopped (Google: 24 h).
  std::optional<Seconds> cap;
  std::optional<HourFactors> hours;

  /// Share of machines that are older than `age`, without the effect of the hour of day.
  /// S(t) = (1 - start_share) (1 - F(t)) + start_share max(0, 1 - t / start_within); 0 from the cap on.
  double survival(Seconds age) const;
  struct Age {
    Seconds value{};  // infinity for never
    bool is_lost_at_start = false;
  };
  /// Age by the law or by the share that is lost at the start, without hours and cap. Takes two numbers of `rng`.
  Age draw_age(Rng& rng) const;
  /// Age at revocation of a machine that starts at `start_s_utc`; at least 1 s, infinity if it never is. Takes
  /// two numbers of `rng`.
  Seconds draw(Rng& rng, double start_s_utc) const;
};

/// A distribution as in distribution.hpp;
/// { "law": "mixture", "parts": [{ "weight": 0.4, "time": {...} }, ...] };
/// { "law": "bathtub", "early": 0.3, "early_mean": "1h", "late": 0.2, "late_rise": "2h", "deadline": "24h" };
/// { "law": "empirical", "ages": ["1h", "2h"], "cumulative": [0.2, 0.3] }.  Throws InputError.
TimeLaw read_time_law(const JsonReader& json);

/// { "law": {...}, "start": { "share": 0.47, "within": "1h" }, "cap": "24h",
///   "hours": { "utc_offset_h": -8, "factors": [24 numbers, mean 1] } }, all but "law" optional. Throws InputError.
Lifetime read_lifetime(const JsonReader& json);

}  // namespace rehearse
