#pragma once
// What limits a run, in words: the one place that judges it. Summary, report and diagnosis repeat what it says.

#include <string>
#include <vector>

#include "sim/record/step_parts.hpp"
#include "sim/record/summary.hpp"

namespace rehearse {

/// The parts of `step`, the largest first, without those that take no time; and, in one text, those of a tenth of the
/// step and more, each with what would remove it.
Verdict judge(const Scenario& scenario, const Summary& summary, const StepParts& step, const LinkUse& busiest_link);

}  // namespace rehearse
