#pragma once
// What differs between two runs: inputs, results, and which of the inputs made which part of the difference.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "platforms/catalog.hpp"
#include "sim/base/json.hpp"
#include "sim/pool/pool.hpp"

namespace rehearse {

/// One side of a comparison.
struct ComparedRun {
  std::string label;                    // the path that the user gave
  SharedJson scenario;                  // effective; of a replay what was asked, what_if.json
  SharedJson summary;                   // as an output folder holds it; null for a scenario file
  std::vector<std::string> warnings{};  // of the scenario
  bool is_replay = false;
};

/// `path` is an output folder of `simulate` (scenario.json and summary.json) or of `replay` (what_if.json and
/// summary.json), or a scenario file. Throws InputError;
/// NoResultError for a scenario that cannot run.
ComparedRun load_compared_run(const std::filesystem::path& path, const Catalog& catalog);

/// A place of the effective scenarios with different values; null where one side has nothing.
struct InputDifference {
  std::string pointer;
  SharedJson a, b;
  std::string mechanism;  // "number of workers", ...; empty for names and output options, which change no result
};

/// A plain value of the summaries that differs; null where one side has nothing.
struct ResultDifference {
  std::string key;
  SharedJson a, b;
  std::optional<double> change;           // b - a, of numbers
  std::optional<double> relative_change;  // (b - a) / a, if a is not 0
};

struct Speed {
  double iteration_time_s = 0, steps_per_s = 0;
};

/// Run A with one mechanism's inputs as in B.
struct MechanismEffect {
  std::string name;
  std::vector<std::string> places;  // what is taken over from B: JSON pointers, with everything below
  std::optional<Speed> speed;
  std::string error;  // why there is none
};

struct RunDiff {
  std::vector<InputDifference> inputs;      // in order of the scenario
  std::vector<ResultDifference> results;    // speed, time and cost; then the largest relative change first; then texts
  std::vector<MechanismEffect> mechanisms;  // largest effect on the iteration time first
  Speed a, b;                               // simulated by this program
  /// What the single effects do not add up to: (b - a) - sum over mechanisms of (its speed - a). None if a mechanism
  /// cannot be applied alone.
  std::optional<Speed> interaction;
  std::vector<std::string> warnings;  // an output folder that another version has written
};

/// Simulates A, B, and A with each mechanism of B, in the pool. None if `is_stopped` ended it. Replays are compared as
/// they were written. Throws NoResultError if A or B gives no result, InputError if one of them alone is a replay.
std::optional<RunDiff> compare_runs(const ComparedRun& a, const ComparedRun& b, const Catalog& catalog,
                                    const Pool& pool,
                                    const std::function<void(std::size_t done, std::size_t total)>& on_done = {},
                                    const std::function<bool()>& is_stopped = {});

/// Version 1 of diff.json.
Json to_json(const ComparedRun& a, const ComparedRun& b, const RunDiff& diff);

}  // namespace rehearse
