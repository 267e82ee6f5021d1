#include "sim/pool/shards.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/pool/detail/known_jobs.hpp"
#include "sim/pool/detail/whole_number.hpp"

namespace rehearse {

namespace {

std::string counted(std::size_t count, std::size_t total) {
  return std::to_string(count) + " of " + std::to_string(total) + " jobs";
}

/// Runs the jobs of the shard that have no result. Returns false once `limits.is_stopped` has said true.
bool run_shard(const JobFolder& folder, Shard shard, const KnownJobs& jobs, int parallel, const JobOf& job,
               const JobLimits& limits) {
  std::vector<std::pair<RunKey, std::size_t>> own;
  const auto count = static_cast<std::size_t>(shard.count);
  for (auto position = static_cast<std::size_t>(shard.number - 1); position < jobs.distinct().size(); position += count)
    if (jobs.waits_for(jobs.distinct()[position].first)) own.push_back(jobs.distinct()[position]);
  if (own.empty()) return true;
  ResultWriter results{folder, "shard-" + std::to_string(shard.number) + "-of-" + std::to_string(shard.count)};
  return run_in_processes(
      own.size(), parallel, [&](std::size_t i) { return job(own[i].second); },
      [&](std::size_t i, const PooledRun& run) { results.append(own[i].first, run); }, limits);
}

}  // namespace

Shard read_shard(const std::string& text) {
  const std::string_view all{text};
  const std::size_t slash = std::min(all.find('/'), all.size());
  const Shard shard{.number = whole_number(all.substr(0, slash)).value_or(0),
                    .count = whole_number(all.substr(std::min(slash + 1, all.size()))).value_or(0)};
  if (shard.number < 1 || shard.count < shard.number)
    throw InputError{"--shard: expected I/N, part I of N, counted from 1; found " + in_quotes(text)};
  return shard;
}

JobExecutor shard_executor(const std::shared_ptr<const JobFolder>& folder, Shard shard) {
  return
      [folder, shard](std::size_t count, int parallel, const JobOf& job, const OnRun& on_run, const JobLimits& limits) {
        KnownJobs jobs{*folder, count, job, on_run};
        jobs.take_results(true);
        if (!run_shard(*folder, shard, jobs, parallel, job, limits)) return false;
        jobs.take_results();
        if (jobs.waiting() > 0)
          throw ShardFinished{"shard " + std::to_string(shard.number) + " of " + std::to_string(shard.count) +
                              " has finished; " + counted(jobs.waiting(), jobs.distinct().size()) +
                              " wait for other shards; when these have finished: rehearse merge " +
                              folder->path().string()};
        return true;
      };
}

JobExecutor merging_executor(const std::shared_ptr<const JobFolder>& folder) {
  return [folder](std::size_t count, int /*parallel*/, const JobOf& job, const OnRun& on_run,
                  const JobLimits& /*limits*/) {
    KnownJobs jobs{*folder, count, job, on_run};
    jobs.take_results();
    if (jobs.waiting() > 0)
      throw InputError{folder->path().string() + ": " + counted(jobs.waiting(), jobs.distinct().size()) +
                       " have no result: run the shards that are missing, with the same command"};
    return true;
  };
}

}  // namespace rehearse
