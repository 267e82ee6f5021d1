#pragma once
// Many simulations that belong together: cells of a sweep, candidates of a plan, sides of a comparison.

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "sim/pool/pool.hpp"
#include "sim/pool/result_store.hpp"

namespace rehearse {

/// What the simulations of an experiment need.
struct SimulationMeans {
  Pool pool = 1;
  std::function<void(std::size_t done, std::size_t total)> on_done = {};
  JobLimits limits = {};
};

/// Jobs 0 .. count - 1, and what they give.
struct Experiment {
  std::size_t count = 0;
  JobOf job;  // JobOf says when it is called, and what its errors are
  /// Of an experiment with a store: under which key a run is kept, and with which name and parameters.
  std::function<RunKey(std::size_t)> key = {};
  std::function<StoredRun(std::size_t)> row = {};

  /// What all jobs gave, in their order; none if `limits` ended them.
  std::optional<std::vector<PooledRun>> run(const SimulationMeans& means) const;
  /// The same; once the budget is over, its stop() ends the call.
  std::vector<PooledRun> run(const Pool& pool, const std::function<void(std::size_t, std::size_t)>& on_done,
                             const Budget& budget) const;
  /// Runs the jobs that the store has not finished, and keeps each as soon as it is there. Returns false if `limits` ended
  /// them.
  bool run(ResultStore& store, const SimulationMeans& means) const;
};

/// How a job that has run is kept.
StoredRun with_result(StoredRun row, const PooledRun& run);

}  // namespace rehearse
