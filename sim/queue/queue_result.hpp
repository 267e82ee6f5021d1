#pragma once
// What came of a queue as texts: to be kept, and as tables.

#include <string>
#include <string_view>
#include <vector>

#include "sim/base/json.hpp"
#include "sim/queue/queue.hpp"

namespace rehearse {

/// All of a run in one line of JSON, and back; throws InputError for another text.
std::string to_text(const QueueRun& run);
QueueRun read_queue_run(std::string_view text);

/// "policy", the values of summarize() and "busy_gpu_hours" by group.
Json to_json(const QueueSetup& setup, const QueueRun& run);

/// A row for each policy and job. steps and samples are empty of a job of stated duration, samples where a step's are not known.
std::string queue_jobs_csv(const QueueSetup& setup, const std::vector<QueueRun>& runs);
/// A row for each time that a job had GPUs.
std::string queue_spans_csv(const QueueSetup& setup, const std::vector<QueueRun>& runs);
/// Busy GPUs and waiting jobs, from a time on.
std::string queue_load_csv(const QueueSetup& setup, const std::vector<QueueRun>& runs);

}  // namespace rehearse
