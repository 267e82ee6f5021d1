#pragma once
// Studies of kind "lifetimes": recorded lifetimes and fleets of spot machines, fitted and checked, one spot pool each.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "calibration/fleet_fit.hpp"
#include "calibration/lifetime_fit.hpp"
#include "platforms/fleet_trace.hpp"
#include "platforms/spot_pool.hpp"

namespace rehearse {

/// One spot pool to be: either lifetimes of machines or a recorded fleet.
struct LifetimeSeries {
  std::string name, source;
  std::string fitted_on;  // JSON text of a pool's origin (platforms/pool_origin.hpp); empty: not stated
  Seconds notice{};
  std::vector<LifetimeObservation> lives;  // of machines watched one by one
  LifetimeFitOptions options;
  std::optional<Seconds> cap;
  std::optional<std::array<double, 24>> revocations_by_hour;
  double utc_offset_h = 0;
  std::optional<FleetTrace> fleet;
  int slots = 0;         // of the fleet
  Seconds resolution{};  // of the fleet's dates

  double machines() const;     // watched one by one
  double revocations() const;  // of those
};

/// A file { "format": 1, "kind": "lifetimes", "series": [...] }. Each series has "name", "source", "file" (a CSV), and
/// optionally "fitted_on" (as platforms/pool_origin.hpp says, with "{column}" for values of "group_by"), "notice",
/// "cap" and "start_within". "rows" says what the file's rows are:
///   "fleet"          a trace as fleet_trace.hpp reads it, "from" some date on (default 0s); "slots" (default: the most
///                    at one time) and "resolution" (default: the shortest time between two changes)
///   "hourly_counts"  machines revoked at ages between two bounds: columns "from", "to" (times "unit"), "count" and, if
///                    the file has it, "instances", how many were started (default: as many as were revoked)
///   "durations"      one machine each: column "age" and, if any was still running then, "censored" (1, otherwise 0);
///                    or "low" and "high", last seen running and found gone (empty: still running). In seconds, and
///                    known to "bin" (default 1 s)
/// With "group_by", a list of columns, each of their combinations is a series, and {column} in its name is replaced.
/// "where": { column: value } leaves out other rows. "hours": { "file", "group_by", "hour", "count", "utc_offset_h": a
/// number or { value of "utc_offset_by": number } } gives revocations by local hour of day.
struct LifetimeStudy {
  std::string name;
  std::vector<LifetimeSeries> series;
};
/// Reads such a file and the files that it names. Throws InputError.
LifetimeStudy load_lifetime_study(const std::filesystem::path& path);

struct SeriesFit {
  SpotPool pool;        // as it is written, with rounded values
  std::string law;      // in words, of lifetimes and of waits
  int values = 0;       // of the lifetimes and bulk revocations
  int wait_values = 0;  // of the waits or outages
  int hour_values = 0;
  std::string fitted_on;           // of the series
  std::vector<LifetimeFit> tried;  // laws of lives watched one by one, the chosen one first
};
/// The pool of a series. `on_step` is called again and again; what it throws ends the fit.
SeriesFit fit_series(const LifetimeSeries& series, const std::function<void()>& on_step = {});

/// Machines lost up to some age: counted, and 95 % of 1000 simulated fleets.
struct LossBand {
  Seconds age{};
  double counted = 0, low = 0, high = 0;
  bool holds() const { return low <= counted && counted <= high; }
};

/// How good a pool is for a series.
struct SeriesQuality {
  double distance = 0;  // Kolmogorov and Smirnov's, at the hour edges; of a fleet at the looks, from simulated ones
  SurvivalCurve observed, fitted;
  std::vector<LossBand> bands;                // at 1, 6, 12 and 24 h, as far as all machines were watched
  std::optional<FleetComparison> comparison;  // of a fleet
};
SeriesQuality check_series(const LifetimeSeries& series, const SpotPool& pool,
                           const std::function<void()>& on_step = {});

/// One line: what was found, for the pool's "source" and the terminal.
std::string describe(const SeriesFit& fit);
std::string describe(const LifetimeSeries& series, const SeriesQuality& quality);

/// A catalog file with these pools.
Json lifetime_catalog(const std::vector<SeriesFit>& fits);

/// JSON Schema (draft 2020-12) of a study of lifetimes.
std::string lifetime_study_schema();

}  // namespace rehearse
