#pragma once
// The CSV tables of a run. Columns carry their unit in the name; a field without value is empty.

#include <string>

#include "sim/record/resource_profile.hpp"
#include "sim/record/run_record.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// One row per step, in the order in which they ended. pull_end_s: when the last variable had arrived; compute_end_s:
/// when the last kernel ended; staleness: updates by other workers between this worker's pull and its update.
std::string iterations_csv(const RunRecord& record);

/// One row per machine and sampling period, which starts at time_s.
std::string resources_csv(const RunRecord& record, const ResourceProfile& profile);

/// Four rows per machine, in the order of Driple's labels. peak and threshold are shares for the utilizations, B/s for
/// the NIC. Every row repeats what its means were taken over: covered time, iterations, and whether that meets 60 s and
/// 20 iterations.
std::string bursts_csv(const RunRecord& record, const ResourceProfile& profile);

/// Per machine and direction the bytes of the whole run; the row with an empty peer is the sum over all connections.
/// Rates are means over the run; nic_utilization is relative to the NIC's payload rate. Connections only if the
/// recorder kept activity.
std::string links_csv(const RunRecord& record);

std::string events_csv(const RunRecord& record);

/// Every machine is rented from the start of the run to its last update. usd_per_hour and usd are empty where no price
/// is known.
std::string costs_csv(const Scenario& scenario, const RunRecord& record);

}  // namespace rehearse
