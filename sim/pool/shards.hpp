#pragma once
// The jobs of a command in parts, for schedulers that this program does not speak to: each part runs some of the jobs
// and keeps what they give in a folder; once all parts have run, the command takes its results from there.

#include <memory>
#include <stdexcept>
#include <string>

#include "sim/pool/job_folder.hpp"
#include "sim/pool/pool.hpp"

namespace rehearse {

struct Shard {
  int number = 1, count = 1;  // number from 1 to count
};

/// "3/10". Throws InputError that says what was expected.
Shard read_shard(const std::string& text);

/// The end of a command that ran its shard while other shards' jobs have no result yet. what(): how many.
class ShardFinished : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Runs, of the distinct jobs in their order, those with the positions number, number + count, .. on this machine, unless
/// the folder has their results, and goes on if it has those of all others, too; otherwise throws ShardFinished. So a
/// command whose jobs depend on the results of others takes one round of all shards for each such level.
JobExecutor shard_executor(const std::shared_ptr<const JobFolder>& folder, Shard shard);

/// Runs nothing: all results are in the folder. Throws InputError that says how many are not.
JobExecutor merging_executor(const std::shared_ptr<const JobFolder>& folder);

}  // namespace rehearse
