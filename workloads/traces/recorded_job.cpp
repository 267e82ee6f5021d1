#include "workloads/traces/recorded_job.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "sim/base/errors.hpp"

namespace rehearse {

namespace {

const RecordedOperation& kernel_of(const RecordedRun& run, std::size_t collective) {
  return run.operations[static_cast<std::size_t>(run.collectives[collective].operation)];
}

/// The collectives of a group of ranks, in their order on each.
struct Group {
  std::map<std::size_t, std::vector<std::size_t>> collectives;  // by rank
};

/// By name; "" is that of all ranks. A message whose other end is not recorded is met by its rank alone.
std::map<std::string, Group> groups_of(const std::vector<RecordedRun>& ranks) {
  std::map<std::string, Group> groups;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    for (std::size_t k = 0; k < ranks[r].collectives.size(); ++k) {
      const auto& [operation, bytes, work, group, size] = ranks[r].collectives[k];
      const std::string name = group >= 0 ? ranks[r].groups[static_cast<std::size_t>(group)]
                               : work == CollectiveWork::kMessage
                                   ? "message " + std::to_string(k) + " of rank " + std::to_string(ranks[r].rank)
                                   : "";
      groups[name].collectives[r].push_back(k);
    }
  return groups;
}

bool are_alike(const RecordedRun& a, std::size_t of_a, const RecordedRun& b, std::size_t of_b) {
  const CollectiveWork work = a.collectives[of_a].work;
  if (work != CollectiveWork::kOther && work == b.collectives[of_b].work) return true;
  return a.names[static_cast<std::size_t>(kernel_of(a, of_a).name)] ==
         b.names[static_cast<std::size_t>(kernel_of(b, of_b).name)];
}

/// Whether the k-th collective of each rank of a group is the same, for all k.
bool meet(const std::vector<RecordedRun>& ranks, const Group& group) {
  const auto& [first, of_first] = *group.collectives.begin();
  for (const auto& [rank, collectives] : group.collectives) {
    if (collectives.size() != of_first.size()) return false;
    for (std::size_t k = 0; k < collectives.size(); ++k)
      if (!are_alike(ranks[first], of_first[k], ranks[rank], collectives[k])) return false;
  }
  return true;
}

bool all_meet(const std::vector<RecordedRun>& ranks, const std::map<std::string, Group>& groups) {
  for (const auto& [name, group] : groups)
    if ((name.empty() && group.collectives.size() < ranks.size()) || !meet(ranks, group)) return false;
  return true;
}

void add_meetings(RecordedJob& job, const std::map<std::string, Group>& groups) {
  for (const RecordedRun& run : job.ranks) job.meeting_of.emplace_back(run.collectives.size());
  for (const auto& [name, group] : groups) {
    const std::size_t first = job.meetings.size();
    for (const auto& [rank, collectives] : group.collectives) {
      for (std::size_t k = 0; k < collectives.size(); ++k) {
        const Nanoseconds duration = kernel_of(job.ranks[rank], collectives[k]).duration;
        if (job.meetings.size() <= first + k) job.meetings.push_back({.transfer = duration});
        RecordedMeeting& meeting = job.meetings[first + k];
        meeting.transfer = std::min(meeting.transfer, duration);
        ++meeting.members;
        job.meeting_of[rank][collectives[k]] = static_cast<std::int32_t>(first + k);
      }
    }
  }
}

/// By how much the ends of what both ranks came to are later on the first, in the middle; none if that is nothing.
std::optional<Nanoseconds> clock_difference(const RecordedJob& job, std::size_t a, std::size_t b) {
  std::unordered_map<std::int32_t, Nanoseconds> ends;
  for (std::size_t k = 0; k < job.meeting_of[a].size(); ++k)
    ends.emplace(job.meeting_of[a][k], kernel_of(job.ranks[a], k).recorded_end);
  std::vector<Nanoseconds> differences;
  for (std::size_t k = 0; k < job.meeting_of[b].size(); ++k)
    if (const auto end = ends.find(job.meeting_of[b][k]); end != ends.end())
      differences.push_back(end->second - kernel_of(job.ranks[b], k).recorded_end);
  if (differences.empty()) return {};
  std::ranges::sort(differences);
  return differences[differences.size() / 2];
}

/// From the first rank to those that it met, and so on; those that met none of them keep their clock.
void set_clocks(RecordedJob& job) {
  std::vector<bool> is_set(job.ranks.size());
  std::vector<std::size_t> reached{0};
  is_set[0] = true;
  for (std::size_t next = 0; next < reached.size(); ++next) {
    const std::size_t from = reached[next];
    for (std::size_t rank = 1; rank < job.ranks.size(); ++rank) {
      if (is_set[rank]) continue;
      const std::optional<Nanoseconds> difference = clock_difference(job, from, rank);
      if (!difference) continue;
      job.clock_offset[rank] = job.clock_offset[from] + *difference;
      is_set[rank] = true;
      reached.push_back(rank);
    }
  }
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
  const std::map<std::string, Group> groups = groups_of(job.ranks);
  const bool is_whole = job.ranks.size() == static_cast<std::size_t>(job.ranks[0].world_size);
  if (groups.empty() || job.ranks[0].world_size == 1) return job;
  if (!is_whole || !all_meet(job.ranks, groups)) {
    job.remarks.push_back(is_whole ? "the ranks have different collectives: they last as recorded, waiting included"
                                   : "traces of " + std::to_string(job.ranks.size()) + " of " +
                                         std::to_string(job.ranks[0].world_size) +
                                         " ranks: collectives last as recorded, waiting included");
    return job;
  }
  add_meetings(job, groups);
  set_clocks(job);
  return job;
}

}  // namespace rehearse
