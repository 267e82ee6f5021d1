#include "sim/pool/detail/known_jobs.hpp"

#include <exception>
#include <string>

namespace rehearse {

KnownJobs::KnownJobs(const JobFolder& folder, std::size_t count, const JobOf& job, const OnRun& on_run)
    : results_{folder}, on_run_{on_run} {
  for (std::size_t index = 0; index < count; ++index) {
    std::string text;
    try {
      text = job(index).text();
    } catch (const std::exception& error) {
      on_run_(index, {.has_succeeded = false, .text = error.what()});
      continue;
    }
    const RunKey key = folder.key(text);
    std::vector<std::size_t>& indices = waiting_[key];
    if (indices.empty()) distinct_.emplace_back(key, index);
    indices.push_back(index);
  }
}

void KnownJobs::hand_over(const RunKey& key, const PooledRun& run) {
  const auto found = waiting_.find(key);
  if (found == waiting_.end()) return;
  const std::vector<std::size_t> indices = std::move(found->second);
  waiting_.erase(found);
  for (const std::size_t index : indices) on_run_(index, run);
}

void KnownJobs::take_results(bool tries_again) {
  results_.read_new([&](const RunKey& key, const PooledRun& run) {
    if (!tries_again || !run.has_died) hand_over(key, run);
  });
}

}  // namespace rehearse
