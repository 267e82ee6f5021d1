#pragma once
// Why a run is as fast as it was measured to be, and what would make it faster: each explanation and each remedy is
// simulated.

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "platforms/catalog.hpp"
#include "sim/base/json.hpp"
#include "sim/plan/remedies.hpp"
#include "sim/pool/pool.hpp"

namespace rehearse {

/// CM-DARE flags a bottleneck at the parameter servers where the measured speed lies further below the sum of the
/// workers' own speeds. Source: Li, Walls, Guo, ICDCS 2020.
inline constexpr double kFlaggedShortfall = 0.067;

/// What was measured: one of the three.
struct Measured {
  enum class Unit {
    kStepsPerSecond,    // of all workers together, or of each where they wait for one another
    kSamplesPerSecond,  // of all workers together
    kStepTime,          // seconds from one of a worker's steps to its next one
  };
  Unit unit = Unit::kStepsPerSecond;
  double value = 0;

  /// Measured speed over simulated speed.
  double ratio_to(const ClusterSpeed& simulated) const;
};

/// What a measured speed of `ratio` times the simulated one is: "33.0 % slower than simulated" of 0.67.
std::string against_simulated(double ratio);

/// Something that is not in the scenario and would, alone, explain the measured speed.
struct Explanation {
  std::string mechanism;  // Mechanism::name, or "precision": the run computes in fp32, the scenario in 16 bits
  std::string text;       // with the strength that it takes
  /// The mechanism's factor; none if even its largest one leaves the simulation faster than what was measured.
  std::optional<double> strength;
  double speed = 0;  // of the measured speed, simulated with that strength, or with the largest one
};

enum class Finding {
  kSlower,       // than the simulation explains
  kExplained,    // in the interval, and within kFlaggedShortfall of the simulated speed
  kUndecided,    // in the interval alone: slower or faster by more than that
  kFaster,       // than the interval holds
  kImplausible,  // faster by more than kImplausiblyFaster beyond the interval
};

/// A speed so many times above the interval of 90 % is rather of another run than a fault of the profile.
inline constexpr double kImplausiblyFaster = 2;

struct Diagnosis {
  double measured = 0;  // steps/s
  double measured_samples_per_s = 0;
  ClusterSpeed simulated;
  std::optional<std::pair<double, double>> interval;  // steps/s, 90 %
  /// The speed in steps/s of the workers alone: their sum, or the slowest where they wait for each other. None where a machine alone
  /// does not hold the model.
  std::optional<double> by_addition;
  bool is_flagged = false;  // measured < (1 - kFlaggedShortfall) by_addition
  Finding finding = Finding::kExplained;
  std::string verdict;  // one sentence
  /// Explanations if the measured speed is below the simulated one by more than kFlaggedShortfall, the most plausible first: another
  /// precision that gives the measured speed; the one whose strength is the least in units of what is usual
  /// (Mechanism::usual); then those that cannot explain it.
  std::vector<Explanation> explanations;
  /// Remedies that gain 1 % or more, the largest gain first; then those without result.
  std::vector<Remedy> remedies;
};

/// A scenario, with the name of its file, and what was measured of it.
struct DiagnosisCase {
  Json scenario;
  std::string file_name;
  Measured measured;
  bool knows_computation = false;  // steps take what they were measured to take: GPUs explain nothing
};

/// Whether the scenario's model trains on one of its GPUs, nothing exchanged: what that takes can be measured, then.
bool can_run_on_one_gpu(const Scenario& scenario, const Catalog& catalog);

/// Simulates the scenario, each worker alone, each remedy, and what may slow the run. None if
/// `is_stopped` ended it. Throws InputError; NoResultError if the scenario itself gives no result.
std::optional<Diagnosis> diagnose(const DiagnosisCase& diagnosis_case, const Catalog& catalog, const Pool& pool,
                                  const std::function<void(std::size_t done, std::size_t total)>& on_done = {},
                                  const std::function<bool()>& is_stopped = {});

/// Version 1 of diagnosis.json.
Json to_json(const Diagnosis& diagnosis);

}  // namespace rehearse
