#pragma once
// Recorded processes, run again: every date is found from what has to come before.

#include <vector>

#include "sim/record/recorder.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/training/compile_recorded.hpp"

namespace rehearse {

struct ReplayedRank {
  std::vector<Span> operations;  // [recorded operations]
  std::vector<Seconds> steps;    // when each began, and the last one ended; empty if none is marked
};

struct Replay {
  std::vector<ReplayedRank> ranks;
  Seconds end{};  // of the last operation
};

/// When all that the operation waits for by itself has ended: of a collective's kernel, when it begins to wait for others.
Seconds ready_date(const RecordedRun& run, const ReplayedRank& replayed, std::int32_t operation);

/// Dates are from the beginning of the first recording.
Replay replay(const RecordedJob& job, const RecordedChange& change = {});

/// The same on the machines of a scenario: simulated_collectives() take what its network and collective
/// library make of them. Each of its workers is one of the ranks, in their order; a single trace stands for all workers,
/// which then come to collectives together. Host and kernels are as fast as recorded. Throws InputError if the numbers of
/// ranks and workers do not fit, or the strategy is no all-reduce.
Replay replay_on(const Scenario& scenario, const RecordedJob& job, const RecordedChange& change = {});

}  // namespace rehearse
