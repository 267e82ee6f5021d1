// simulate --runs

#include <nlohmann/json.hpp>
#include <string>

#include "sim/app/executor.hpp"
#include "sim/app/output/monte_carlo_document.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/simulate_command.hpp"
#include "sim/base/output_folder.hpp"
#include "sim/plan/monte_carlo.hpp"

namespace rehearse {

namespace {

std::optional<Seconds> deadline_of(const std::optional<Seconds>& stated, const Scenario& scenario) {
  const auto& control = scenario.training.control;
  return stated || !control || !control->replan ? stated : control->replan->deadline;
}

}  // namespace

Answer run_many(const SimulateCommand& command, const std::optional<Seconds>& stated, const Scenario& scenario) {
  const std::optional<Seconds> deadline = deadline_of(stated, scenario);
  Progress progress{"memberships", command.common.is_quiet};
  try {
    SimulatedMemberships known;
    MonteCarloOptions options{.runs = *command.runs,
                              .deadline = deadline,
                              .pool = pool_of(command.common),
                              .known = &known,
                              .on_progress = progress.counter(),
                              .limits = {.is_stopped = command.common.budget.asked(), .job_wall_s = {}}};
    const MonteCarlo result = run_monte_carlo(scenario, options);
    std::optional<ControlGain> gain;
    std::optional<BatchGain> by_batch;
    if (result.is_controlled) {
      options.fixed_batch = 1;
      gain = control_gain(run_monte_carlo(scenario, options), result, deadline);
      by_batch = gain_over_batches(scenario, options, result);
    }
    Json summary = to_json(scenario, result, deadline);
    if (gain) summary["control"] = to_json(*gain);
    if (by_batch) {
      summary["control"]["best_fixed_batch"] = to_json(by_batch->gain);
      summary["control"]["best_fixed_batch"]["times"] = by_batch->times;
    }
    Answer answer{.json = to_json_text(summary)};
    answer.table(monte_carlo_table(scenario, result, deadline));
    if (gain) answer.table(control_table(*gain, 1));
    if (by_batch) answer.table(control_table(by_batch->gain, by_batch->times));
    const auto untried = result.untried_batches.empty() ? std::nullopt : std::optional{result.untried_batches};
    for (const auto& remark :
         {untried, remark_on_speeds(scenario), remark_on_unfinished(result), remark_on_billing(scenario, result)})
      if (remark && !command.common.is_quiet) add_warning(answer, *remark);
    if (const auto& folder = command.common.output) {
      OutputFolder files{*folder};
      files.write("scenario.json", to_json_text(*scenario.effective));
      files.write("runs.csv", runs_csv(result));
      if (gain) files.write("events.csv", events_csv(scenario, result));
      files.write("report.html", monte_carlo_report(scenario, result, deadline));
      files.write("summary.json", answer.json);
      files.commit();
      add_written(answer, command.common, *folder, files.names());
    }
    return answer;
  } catch (const MonteCarloStopped&) { command.common.budget.stop(); }
}

}  // namespace rehearse
