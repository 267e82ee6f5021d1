#pragma once
// What a run's record says about single workers, for timelines and traces.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sim/record/run_record.hpp"

namespace rehearse {

/// A worker, by its first GPU.
using WorkerPlace = std::pair<MachineIndex, int>;

/// Steps by worker, which are in order of time.
class StepsOfWorkers {
 public:
  explicit StepsOfWorkers(const std::vector<StepSpan>& steps);
  /// The step of the worker at a date, from 0; -1: none is recorded.
  std::int64_t at(WorkerPlace worker, Seconds date) const;
  const std::vector<StepSpan>& of(WorkerPlace worker) const;

 private:
  std::map<WorkerPlace, std::vector<StepSpan>> steps_;
};

/// A worker's part in a collective as a library's stream would run it: it begins to wait for others once the one before
/// has ended.
struct StreamedCollective {
  CollectiveSpan collective;
  Span span;  // on the stream
};

/// Collectives of each worker, by stream: those of several groups that overlap are on several.
std::map<WorkerPlace, std::vector<std::vector<StreamedCollective>>> collectives_on_streams(
    const std::vector<CollectiveSpan>& collectives);

/// Waits of each worker, in order of time, without overlaps.
std::map<WorkerPlace, std::vector<WaitSpan>> waits_in_order(const std::vector<WaitSpan>& waits);

}  // namespace rehearse
