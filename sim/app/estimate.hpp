#pragma once
// What a simulation takes, before it is run: for `simulate --dry-run` and `sweep --dry-run`.

#include <string>

#include "sim/job/simulate.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// What is counted in the compiled step.
struct ExpectedRun {
  /// Of the whole run, copies between a host and its own GPUs left out; exact but for backup workers, the first step of variables
  /// that are pushed back, and a cycle time, by which gradients may share a message.
  double messages = 0;
  /// Real time of simulate(), and with activity kept that of writing the output too. Within a factor of 3 of what was measured for
  /// estimate.cpp, on a machine like that one.
  Seconds duration{};
};
ExpectedRun expected_run(const Scenario& scenario, const SimulateOptions& options = {});

/// Memory that simulate() takes at least: what it records of each step of each worker. Kernels and messages, of which it
/// keeps a limited number, are left out.
Bytes expected_memory(const Scenario& scenario, const SimulateOptions& options = {});

/// Kernels and messages that are recorded of all machines, until there is enough for a resource profile.
double expected_records(const Scenario& scenario);

/// What to know before a run of a large cluster of which each worker is simulated, as links between machines tell them apart: how
/// long it takes at least, and what would let workers run for one another. Empty below 20 s.
std::string warning_of_long_run(const Scenario& scenario, const SimulateOptions& options = {});

/// Throws NoResultError if expected_memory() is more than this machine has, or than a process may have.
void require_memory(const Scenario& scenario, const SimulateOptions& options = {});

/// Real time of speed_uncertainty() (parameter_uncertainty.hpp) with `parallel` simulations at a time.
Seconds interval_duration(const Scenario& scenario, int parallel);

}  // namespace rehearse
