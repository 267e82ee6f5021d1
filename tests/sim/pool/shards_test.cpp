// Shards: every job runs in one of them, and all together give what one process gives.

#include "sim/pool/shards.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/errors.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

/// Jobs that end at once, with an error that tells them apart; the last two are the same.
std::string job(std::size_t index) { return "job " + std::to_string(std::min<std::size_t>(index, 6)) + "\n"; }

using Results = std::map<std::size_t, std::string>;

Results run(const JobExecutor& executor) {
  Results results;
  executor(8, 2, job, [&](std::size_t index, const PooledRun& run) { results[index] = run.text; }, {});
  return results;
}

}  // namespace

TEST_CASE("shards together give what one process gives, in any order") {
  const test::TemporaryFolder place;
  const auto folder = std::make_shared<const JobFolder>(place.path / "jobs", JobOwner{.program = "p"});
  const Results expected = run(run_in_processes);
  CHECK(expected.size() == 8);
  CHECK_THROWS_AS(run(merging_executor(folder)), InputError);
  CHECK_THROWS_WITH_AS(run(shard_executor(folder, {3, 3})), doctest::Contains("shard 3 of 3 has finished; 5 of 7 jobs"),
                       ShardFinished);
  CHECK_THROWS_AS(run(shard_executor(folder, {1, 3})), ShardFinished);
  CHECK_THROWS_AS(run(shard_executor(folder, {1, 3})), ShardFinished);  // once more: nothing to do
  CHECK_THROWS_WITH_AS(run(merging_executor(folder)), doctest::Contains("2 of 7 jobs have no result"), InputError);
  CHECK(run(shard_executor(folder, {2, 3})) == expected);
  CHECK(run(merging_executor(folder)) == expected);
}

TEST_CASE("a shard is I/N") {
  CHECK(read_shard("3/10").number == 3);
  CHECK(read_shard("3/10").count == 10);
  for (const char* text : {"", "3", "/", "3/", "/3", "0/3", "4/3", "1/3x", " 1/3", "-1/3", "1/99999999999"})
    CHECK_THROWS_WITH_AS(read_shard(text), doctest::Contains("--shard: expected I/N"), InputError);
}

}  // namespace rehearse
