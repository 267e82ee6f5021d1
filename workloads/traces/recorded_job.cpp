#include "workloads/traces/recorded_job.hpp"

#include <algorithm>

#include "sim/base/errors.hpp"

namespace rehearse {

namespace {

const RecordedOperation& kernel_of(const RecordedRun& run, std::size_t collective) {
  return run.operations[static_cast<std::size_t>(run.collectives[collective].operation)];
}

/// Whether the k-th collective of each rank is the same kernel, for all k.
bool meet(const std::vector<RecordedRun>& ranks) {
  const RecordedRun& first = ranks.front();
  return std::ranges::all_of(ranks, [&](const RecordedRun& run) {
    if (run.collectives.size() != first.collectives.size()) return false;
    for (std::size_t k = 0; k < run.collectives.size(); ++k)
      if (run.names[static_cast<std::size_t>(kernel_of(run, k).name)] !=
          first.names[static_cast<std::size_t>(kernel_of(first, k).name)])
        return false;
    return true;
  });
}

}  // namespace

Nanoseconds RecordedJob::recorded_start() const {
  Nanoseconds start = ranks.front().recorded_start() + clock_offset.front();
  for (std::size_t r = 1; r < ranks.size(); ++r) start = std::min(start, ranks[r].recorded_start() + clock_offset[r]);
  return start;
}

RecordedJob recorded_job(std::vector<RecordedRun> ranks) {
  std::ranges::stable_sort(ranks, {}, &RecordedRun::rank);
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    if (ranks[r].rank == ranks[r - 1].rank)
      throw InputError{ranks[r].file_name + ": is of rank " + std::to_string(ranks[r].rank) + ", as is " +
                       ranks[r - 1].file_name};
    if (ranks[r].world_size != ranks[0].world_size)
      throw InputError{ranks[r].file_name + ": is of a job of " + std::to_string(ranks[r].world_size) + " ranks; " +
                       ranks[0].file_name + " of one of " + std::to_string(ranks[0].world_size)};
  }
  RecordedJob job;
  job.clock_offset.resize(ranks.size());
  job.ranks = std::move(ranks);
  const std::size_t collectives = job.ranks[0].collectives.size();
  const bool is_whole = job.ranks.size() == static_cast<std::size_t>(job.ranks[0].world_size);
  if (collectives == 0 || job.ranks[0].world_size == 1) return job;
  if (!is_whole || !meet(job.ranks)) {
    job.remarks.push_back(is_whole ? "the ranks have different collectives: they last as recorded, waiting included"
                                   : "traces of " + std::to_string(job.ranks.size()) + " of " +
                                         std::to_string(job.ranks[0].world_size) +
                                         " ranks: collectives last as recorded, waiting included");
    return job;
  }
  for (std::size_t r = 1; r < job.ranks.size(); ++r) {
    std::vector<Nanoseconds> differences;
    for (std::size_t k = 0; k < collectives; ++k)
      differences.push_back(kernel_of(job.ranks[0], k).recorded_end - kernel_of(job.ranks[r], k).recorded_end);
    std::ranges::sort(differences);
    job.clock_offset[r] = differences[differences.size() / 2];
  }
  for (std::size_t k = 0; k < collectives; ++k) {
    RecordedMeeting meeting{.transfer = kernel_of(job.ranks[0], k).duration};
    for (const RecordedRun& run : job.ranks) meeting.transfer = std::min(meeting.transfer, kernel_of(run, k).duration);
    job.meetings.push_back(meeting);
  }
  return job;
}

}  // namespace rehearse
