#pragma once
// Many simulations from one process. SimGrid has one engine and one clock per process, so each simulation runs in a
// forked child. sim/pool/pool.hpp builds on this for whole scenarios.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/budget.hpp"

namespace rehearse {

/// What a child gave back: its text, or the message of the exception that ended it.
struct IsolatedResult {
  bool has_succeeded = false;
  std::string text;
  bool has_died = false;  // the process ended without giving back anything: killed, crashed
  double wall_s = 0;      // from the fork to the end
};

/// What ends jobs from outside. It is looked at several times a second.
struct IsolatedLimits {
  std::function<bool()> is_stopped;  // once it says true, all running children are killed
  std::optional<double> job_wall_s;  // a child that runs longer is killed: a result that has_died
};

/// Runs job(0) .. job(count - 1), each in a child process, at most `parallel` at a time (fewer if the system allows no
/// more), and hands over each result in the parent as soon as its child ends. A child that dies gives a failed result
/// and disturbs no other; children end with the parent, however that ends. `is_stopped` is asked several times a
/// second; once it says true, running children are killed. Returns whether every job has ended. Exceptions of the two
/// callbacks kill the running children and pass through. Throws InputError if the system starts no process at all.
bool for_each_isolated(std::size_t count, int parallel, const std::function<std::string(std::size_t)>& job,
                       const std::function<void(std::size_t index, IsolatedResult result)>& on_result,
                       const IsolatedLimits& limits = {});

/// The same, but returns the results: in order of the jobs, whatever the order in which they end.
/// `on_done(finished)` is called in the parent after each job. Once `budget` is over, running children are killed, and
/// its stop() ends the call.
std::vector<IsolatedResult> run_isolated(std::size_t count, int parallel,
                                         const std::function<std::string(std::size_t)>& job,
                                         const std::function<void(std::size_t finished)>& on_done = {},
                                         const Budget& budget = {});

}  // namespace rehearse
