#pragma once
// Many simulations, each a job that can be stated as a text. Start here to read sim/pool/; job_text.hpp says what such a
// text is, result_store.hpp is a file that keeps what jobs gave.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/budget.hpp"
#include "sim/pool/job_text.hpp"

namespace rehearse {

/// What one job of many gave.
struct PooledRun {
  bool has_succeeded = false;
  std::string text;       // the result, or else why there is none
  bool has_died = false;  // its process was killed, crashed or took too long: another attempt may succeed
  double wall_s = 0;

  /// The result of a verb whose results are JSON. Throws InputError if it is none.
  Json json() const;
  /// The error, after the name of the scenario's file unless it begins with that.
  std::string error_in(const std::string& file_name) const {
    return text.starts_with(file_name) ? text : file_name + ": " + text;
  }
};

/// What ends jobs from outside. It is looked at several times a second.
struct JobLimits {
  std::function<bool()> is_stopped;  // once it says true, all running jobs are killed
  std::optional<double> job_wall_s;  // a job that runs longer is killed: a result that has_died
};

using JobOf = std::function<PoolJob(std::size_t index)>;
using OnRun = std::function<void(std::size_t index, PooledRun run)>;

/// Where jobs run: does what PoolJob::run() does with job(0) .. job(count - 1), at most `parallel` at a time, elsewhere.
/// `job` has no side effects; it is called, in order and perhaps in another process, no earlier than Pool::ahead() allows,
/// and what it throws is the error of that job. Each result is handed over in this process as soon as it is there; a
/// job that fails disturbs no other. Returns whether every job has ended: false after `is_stopped` has said true, which
/// kills those under way, as exceptions of `on_run` do.
using JobExecutor =
    std::function<bool(std::size_t count, int parallel, const JobOf& job, const OnRun& on_run, const JobLimits&)>;

/// Runs jobs in processes of this machine, which are forked, so that they inherit what this one has loaded. Brief jobs
/// run one after another in a process: verbs may run more than once in it.
bool run_in_processes(std::size_t count, int parallel, const JobOf& job, const OnRun& on_run, const JobLimits& limits);

/// Runs jobs one after another in this process until they have taken 10 ms together, and the others in processes.
/// Nothing but what they throw may go wrong in them.
bool run_brief_here(std::size_t count, int parallel, const JobOf& job, const OnRun& on_run, const JobLimits& limits);

/// Who simulates more than once does it here. Results depend neither on how many run at a time nor on the executor.
class Pool {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): so many at a time is all that most callers say
  Pool(int parallel) : Pool{parallel, run_in_processes, kAheadOfEach * static_cast<std::size_t>(parallel)} {}
  /// An executor that may ask for all texts before the first result.
  Pool(int parallel, JobExecutor executor) : Pool{parallel, std::move(executor), kAllAhead} {}

  int parallel() const { return parallel_; }

  static constexpr std::size_t kAllAhead = 1'000'000'000;
  /// How many texts are asked for, at most, whose jobs have not ended.
  std::size_t ahead() const { return ahead_; }

  /// See JobExecutor.
  bool run(std::size_t count, const JobOf& job, const OnRun& on_run, const JobLimits& limits = {}) const {
    return executor_(count, parallel_, job, on_run, limits);
  }

 private:
  Pool(int parallel, JobExecutor executor, std::size_t ahead)
      : parallel_{parallel}, executor_{std::move(executor)}, ahead_{ahead} {}

  static constexpr std::size_t kAheadOfEach = 64;  // of the processes: one that has begun knows these jobs

  int parallel_;
  JobExecutor executor_;
  std::size_t ahead_;
};

/// Simulates the scenario: its summary.json, in one line.
std::string summary_text(const Scenario& scenario);

/// summary_text(). Options: "steps" instead of the scenario's,
/// "has_revocations": false so that machines stay.
extern const Verb kSimulate;

}  // namespace rehearse
