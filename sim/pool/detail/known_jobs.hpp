#pragma once
// The jobs of one call of an executor whose results come from a folder.

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "sim/pool/job_folder.hpp"
#include "sim/pool/pool.hpp"

namespace rehearse {

class KnownJobs {
 public:
  /// Names jobs 0 .. count - 1 by their texts. A job that has none, but an error, is handed over at once.
  KnownJobs(const JobFolder& folder, std::size_t count, const JobOf& job, const OnRun& on_run);

  /// Hands over what the folder has got since the last call. With `tries_again`, what has died is passed over.
  void take_results(bool tries_again = false);
  /// Looks anew at what seemed damaged: a file may have been seen while another machine wrote it.
  void read_damaged_again() { results_.read_damaged_again(); }
  void hand_over(const RunKey& key, const PooledRun& run);

  bool waits_for(const RunKey& key) const { return waiting_.contains(key); }
  std::size_t waiting() const { return waiting_.size(); }
  /// Distinct jobs in their order, each by the index of the first job with its text; also those that wait no more.
  const std::vector<std::pair<RunKey, std::size_t>>& distinct() const { return distinct_; }

 private:
  ResultReader results_;
  OnRun on_run_;
  std::vector<std::pair<RunKey, std::size_t>> distinct_;
  std::map<RunKey, std::vector<std::size_t>> waiting_;  // indices of jobs without a result
};

}  // namespace rehearse
