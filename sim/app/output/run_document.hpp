#pragma once
// The report of one run.

#include <optional>
#include <string>
#include <vector>

#include "sim/app/output/document.hpp"
#include "sim/plan/remedies.hpp"
#include "sim/record/memory_curve.hpp"
#include "sim/record/run_record.hpp"
#include "sim/record/summary.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// Remedies of a run, simulated; or why they are not.
struct ReportedRemedies {
  std::optional<std::vector<Remedy>> simulated;
  std::string why_not;  // without a full stop
};

struct FinishedRun {
  const Scenario& scenario;
  const RunRecord& record;  // its recorder has kept activity
  const Summary& summary;
  const ReportedRemedies& remedies;
};

/// First what the run says at a glance: verdict, speed with its interval, the parts of a step, what would help, the
/// cluster, memory. Then one step as lanes, utilization, kernels, accuracy, tables.
Document run_document(const FinishedRun& run, const MemoryCurves& memory);

/// What a job's time was for: goodput, and what is lost by cause.
Section where_time_goes(const TimeUse& use);

/// What a part of the step (StepPart::part) is called where there is little room: "exposed communication".
std::string short_part(const std::string& part);

}  // namespace rehearse
