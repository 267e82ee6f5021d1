#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/queue/job_trace.hpp"
#include "sim/queue/queue_file.hpp"
#include "sim/queue/queue_result.hpp"
#include "tests/fuzz/targets/require.hpp"
#include "tests/fuzz/targets/targets.hpp"
#include "tests/support/paths.hpp"

namespace rehearse::fuzz {
namespace {

void run_queue_file(std::string_view input) {
  static const std::string root = source_folder();
  static const Catalog catalog{{{.platforms = root + "/platforms/catalog",
                                 .models = root + "/workloads/models",
                                 .profiles = root + "/calibration/profiles"}}};
  try {
    const QueueSetup setup = read_queue(parse_json(input, "input"), "input", catalog).setup;
    require(!setup.jobs.empty() && !setup.groups.empty() && !setup.policies.empty(),
            "a queue has jobs, groups and policies");
    for (std::size_t i = 1; i < setup.jobs.size(); ++i)
      require(setup.jobs[i - 1].arrival <= setup.jobs[i].arrival, "jobs are in the order of their arrival");
    for (const QueuedJob& job : setup.jobs)
      require(job.steps >= 1 && job.arrival >= 0 && job.kind < setup.kinds.size(), "a job has steps and a kind");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// Any bytes in every form, and as a kept run.
void run_job_trace(std::string_view input) {
  for (const std::string& form : job_trace_forms()) try {
      const JobTrace trace = read_job_trace(form, std::string{input}, "input");
      for (const TracedJob& job : trace.jobs) {
        require(job.gpus >= 1, "a job has GPUs");
        require(job.arrival >= Seconds{} && job.arrival <= kLongest, "arrivals have limits");
        require(!job.duration || (*job.duration > Seconds{} && *job.duration <= kLongest), "durations have limits");
        require(!job.steps || *job.steps >= 1, "a job has steps");
      }
    } catch (const InputError& error) { require_one_line(error.what()); }
  try {
    (void)read_queue_run(input);
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_speed_table(std::string_view input) {
  try {
    const SpeedTable table{parse_csv(std::string{input}, "input")};
    require(!table.types().empty(), "a table has a type");
    for (const std::string& type : table.types()) require(table.steps(type).value_or(1) >= 1, "a job has steps");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

}  // namespace

std::span<const Target> targets_of_queue() {
  static constexpr std::array kTargets{Target{"queue", run_queue_file}, Target{"job_trace", run_job_trace},
                                       Target{"speed_table", run_speed_table}};
  return kTargets;
}

}  // namespace rehearse::fuzz
