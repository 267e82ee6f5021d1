#pragma once
// The report of one run.

#include <string>

#include "sim/app/output/document.hpp"
#include "sim/record/memory_curve.hpp"
#include "sim/record/run_record.hpp"
#include "sim/record/summary.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// First what the run says at a glance: verdict, speed with its interval, the parts of a step, what would remove them, the cluster,
/// memory. Then one step as lanes, utilization, kernels, accuracy, tables. The recorder must have kept activity.
Document run_document(const Scenario& scenario, const RunRecord& record, const Summary& summary,
                      const MemoryCurves& memory);

/// What a job's time was for: goodput, and what is lost by cause.
Section where_time_goes(const TimeUse& use);

/// What a part of the step (StepPart::part) is called where there is little room: "exposed communication".
std::string short_part(const std::string& part);

}  // namespace rehearse
