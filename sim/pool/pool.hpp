#pragma once
// Many scenarios, one process each, and a file that keeps what they gave. Start here to read sim/pool/;
// result_store.hpp is the file.

#include <cstddef>
#include <functional>
#include <string>

#include "sim/engine/isolated.hpp"
#include "sim/engine/scenario.hpp"

namespace rehearse {

/// What one simulation of many gave.
struct PooledRun {
  std::string summary;    // JSON text of summary.json; empty without result
  std::string error;      // why there is no result; empty with one
  bool has_died = false;  // its process was killed, crashed or took too long: another attempt may succeed
  double wall_s = 0;

  /// The error, after the name of the scenario's file unless it begins with that.
  std::string error_in(const std::string& file_name) const {
    return error.starts_with(file_name) ? error : file_name + ": " + error;
  }
};

/// Simulates scenario(0) .. scenario(count - 1), at most `parallel` at a time, and hands over each result in this
/// process as soon as it is there. `scenario` is called in the child, which inherits what this process has loaded: a
/// run costs a fork, not a start of the program. A run that fails gives its error and disturbs no other. Returns
/// whether every run has ended; false after `is_stopped` has said true, which kills those under way.
bool simulate_each(std::size_t count, int parallel, const std::function<Scenario(std::size_t)>& scenario,
                   const std::function<void(std::size_t index, const PooledRun& run)>& on_run,
                   const IsolatedLimits& limits = {});

}  // namespace rehearse
