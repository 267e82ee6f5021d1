#pragma once
// Many simulations from one process. SimGrid has one engine and one clock per process, so each simulation runs in a
// forked child.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace rehearse {

/// What a child gave back: its text, or the message of the exception that ended it.
struct IsolatedResult {
  bool has_succeeded = false;
  std::string text;
};

/// Runs job(0) .. job(count - 1), each in a child process, at most `parallel` at a time. Results are in order of the
/// jobs, whatever the order in which they end. A child that dies gives a failed result and disturbs no other.
/// `on_done(finished)` is called in the parent after each job.
std::vector<IsolatedResult> run_isolated(std::size_t count, int parallel,
                                         const std::function<std::string(std::size_t)>& job,
                                         const std::function<void(std::size_t finished)>& on_done = {});

}  // namespace rehearse
