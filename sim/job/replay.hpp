#pragma once
// Recorded processes, run again: every date is found from what has to come before.

#include <vector>

#include "sim/record/recorder.hpp"
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

/// Dates are from the beginning of the first recording.
Replay replay(const RecordedJob& job, const RecordedChange& change = {});

}  // namespace rehearse
