#pragma once
// Any function in a process of its own, for tests that simulate more than once.

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sim/pool/detail/isolated.hpp"

namespace rehearse {

/// What job(0) .. job(count - 1) gave, each in a child process, at most `parallel` at a time.
inline std::vector<PooledRun> run_isolated(std::size_t count, int parallel,
                                           const std::function<std::string(std::size_t)>& job) {
  std::vector<PooledRun> runs(count);
  for_each_isolated(count, parallel, job, [&](std::size_t index, PooledRun run) { runs[index] = std::move(run); });
  return runs;
}

}  // namespace rehearse
