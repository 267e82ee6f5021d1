#pragma once
// What a page and a timeline show of a queue.

#include <string>
#include <vector>

#include "sim/app/output/document.hpp"
#include "sim/queue/queue.hpp"

namespace rehearse {

/// A row for each policy.
Table queue_table(const QueueSetup& setup, const std::vector<QueueRun>& runs);

Document queue_document(const QueueSetup& setup, const std::vector<QueueRun>& runs);

/// Chrome trace: a process for each machine of each policy, a thread for each of its GPUs, and busy GPUs and waiting jobs as counters.
std::string queue_timeline(const QueueSetup& setup, const std::vector<QueueRun>& runs);

}  // namespace rehearse
