#pragma once
// Processes of one job, each with its trace, and where they meet: collectives.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "workloads/traces/recorded_run.hpp"

namespace rehearse {

/// A collective of several ranks. All start when the last has come; it then takes as long as on the rank that came
/// last: the shortest of the recorded kernels, the others include waiting.
struct RecordedMeeting {
  Nanoseconds transfer = 0;
  int members = 0;  // ranks that meet
};

struct RecordedJob {
  std::vector<RecordedRun> ranks;
  /// None if ranks are missing: their collectives last as recorded.
  std::vector<RecordedMeeting> meetings;
  std::vector<std::vector<std::int32_t>> meeting_of;  // [ranks][collectives]; ranks of a group meet in their order
  std::vector<Nanoseconds> clock_offset;  // [ranks] what is added to dates, so that collectives end together
  std::vector<std::string> remarks;

  /// Of all ranks, by the clock of the first.
  Nanoseconds recorded_start() const;
};

/// Throws InputError if two traces are of the same rank, or of jobs of different sizes.
RecordedJob recorded_job(std::vector<RecordedRun> ranks);

}  // namespace rehearse
