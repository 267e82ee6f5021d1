#pragma once
// Synchronous steps that repeat exactly: a few are simulated, the record of a longer run follows from them.

#include <cstdint>
#include <optional>

#include "sim/record/run_record.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// Whether steps of the scenario that have repeated once go on to do so: they are synchronous, and nothing happens
/// after so many steps (checkpoints), at a date (joins, revocations, cycles of fusion) or at random (variation, lost packets).
bool may_repeat(const Scenario& scenario);

/// The record as far as resource_profile() and Summary::iteration_time need it, had the run gone on for `more` steps
/// that do what its last `cycle` steps did, again and again, the cycle's length later each time. None unless the cycle
/// before was the same, counted from its beginning (to 1e-9 of the run's length). `more` is a multiple of `cycle`; the
/// scenario must be one that may_repeat(). Workers that end a step at the same date are released in an order that
/// rotates, so that a cycle has as many steps as there are workers, unless they end one after another.
std::optional<RunRecord> extend_steps(const RunRecord& record, std::int64_t more, std::int64_t cycle);

}  // namespace rehearse
