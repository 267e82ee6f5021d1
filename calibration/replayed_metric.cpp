#include "calibration/replayed_metric.hpp"

#include "calibration/trace_measurements.hpp"
#include "sim/base/errors.hpp"
#include "sim/job/replay.hpp"

namespace rehearse {

namespace {

constexpr const char* kStep = "replayed_step_s";
constexpr const char* kAfterFirstCollective = "replayed_after_first_collective_s";

}  // namespace

bool is_replayed(const std::string& metric) { return metric == kStep || metric == kAfterFirstCollective; }

double replayed_metric(const Scenario& scenario, const std::string& metric, const std::filesystem::path& traces) {
  const RecordedJob job = load_recorded_job(traces);
  const Replay replayed = replay_on(scenario, job);
  const RecordedRun& run = job.ranks.front();
  const ReplayedRank& dates = replayed.ranks.front();
  Seconds sum{};
  int steps = 0;
  for (std::size_t s = 0; s < run.steps.size(); ++s) {
    Seconds begin = dates.steps[s];
    if (metric == kAfterFirstCollective) {
      const std::int32_t first = first_collective(run, run.steps[s]);
      if (first < 0) continue;
      begin = dates.operations[static_cast<std::size_t>(first)].end;
    }
    sum += dates.steps[s + 1] - begin;
    ++steps;
  }
  if (steps == 0)
    throw InputError{run.file_name + ": has no step" + (metric == kStep ? "" : " with a collective") + ", of which " +
                     metric + " is the time"};
  return sum.value() / steps;
}

}  // namespace rehearse
