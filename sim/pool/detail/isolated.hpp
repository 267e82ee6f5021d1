#pragma once
// The fork layer below run_in_processes(). A simulation that dies disturbs no other in its own process, and SimGrid has
// one engine and one clock in each.

#include <cstddef>
#include <functional>
#include <string>

#include "sim/pool/pool.hpp"

namespace rehearse {

/// When a process that has ended its job begins another one, instead of a new process: jobs of a millisecond cost less
/// than what starts their process.
struct ProcessReuse {
  double most_s = 0;      // no longer after its start
  std::size_t ahead = 0;  // only jobs this far behind the results that had been handed over when it started
};

/// Runs job(0) .. job(count - 1) in child processes, at most `parallel` at a time (fewer if the system allows no more),
/// each in one of its own unless `reuse` says otherwise. Hands over each result in the parent as soon as it is there:
/// the text that the job gave, or the message of the exception that ended it. A child that dies gives a failed result
/// of the job it had and disturbs no other; children end with the parent, however that ends. Returns whether every job
/// has ended. Exceptions of `on_result` kill the running children and pass through. Throws InputError if the system
/// starts no process at all.
bool for_each_isolated(std::size_t count, int parallel, const std::function<std::string(std::size_t)>& job,
                       const OnRun& on_result, const JobLimits& limits = {}, ProcessReuse reuse = {});

}  // namespace rehearse
