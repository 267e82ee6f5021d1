#pragma once
// What `simulate -o DIR` writes.

#include <filesystem>

#include "sim/engine/run_record.hpp"
#include "sim/engine/scenario.hpp"
#include "sim/engine/summary.hpp"

namespace rehearse {

/// summary.json, scenario.json (effective), the CSV tables, timeline.json.gz and report.html. The folder must exist;
/// each file is replaced in one step. The recorder must have kept activity. Throws InputError.
void write_run_files(const std::filesystem::path& folder, const Scenario& scenario, const RunRecord& record,
                     const Summary& summary);

}  // namespace rehearse
