#pragma once
// Synchronous steps that repeat exactly: a few are simulated, the record of a longer run follows from them.

#include <cstdint>
#include <optional>

#include "sim/engine/run_record.hpp"

namespace rehearse {

/// Steps to simulate after the warm-up for extend_steps(): two, which are compared.
inline constexpr std::int64_t kComparedSteps = 2;

/// The record as far as resource_profile() and Summary::iteration_time need it, had the run gone on for `more` steps,
/// each like its last one, P later than the one before. None unless the last two steps did the same at the same times,
/// counted from their beginnings (to 1e-9 of the run's length), which cannot be said of steps that are not synchronous.
std::optional<RunRecord> extend_steps(const RunRecord& record, std::int64_t more);

}  // namespace rehearse
