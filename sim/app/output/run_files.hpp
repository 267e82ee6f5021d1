#pragma once
// What `simulate -o DIR` writes.

#include <filesystem>
#include <string>
#include <vector>

#include "sim/app/output/run_document.hpp"
#include "sim/base/budget.hpp"

namespace rehearse {

enum class TimelineFormat { kChrome, kKineto };

/// summary.json, scenario.json (effective), the CSV tables, the messages between machines, report.html, and
/// timeline.json.gz or, of format kKineto, kineto/rank-0.json.gz and so on. The folder must exist; they take the place of
/// an earlier run's as a whole (output_folder.hpp). Throws InputError; once `budget` is over, its stop() ends the call and
/// nothing has changed. Returns the names.
std::vector<std::string> write_run_files(const std::filesystem::path& folder, const FinishedRun& run,
                                         TimelineFormat timeline_format, const Budget& budget);

}  // namespace rehearse
