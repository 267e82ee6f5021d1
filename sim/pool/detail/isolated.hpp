#pragma once
// The fork layer below run_in_processes(). SimGrid has one engine and one clock per process, so each simulation runs in
// a forked child.

#include <cstddef>
#include <functional>
#include <string>

#include "sim/pool/pool.hpp"

namespace rehearse {

/// Runs job(0) .. job(count - 1), each in a child process, at most `parallel` at a time (fewer if the system allows no
/// more), and hands over each result in the parent as soon as its child ends: the text that the job gave, or the
/// message of the exception that ended it. A child that dies gives a failed result and disturbs no other; children end
/// with the parent, however that ends. Returns whether every job has ended. Exceptions of `on_result` kill the running
/// children and pass through. Throws InputError if the system starts no process at all.
bool for_each_isolated(std::size_t count, int parallel, const std::function<std::string(std::size_t)>& job,
                       const OnRun& on_result, const JobLimits& limits = {});

}  // namespace rehearse
