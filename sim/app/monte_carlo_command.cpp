// simulate --runs

#include <cstdio>
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

int run_many(const SimulateCommand& command, const std::optional<Seconds>& deadline, const Scenario& scenario) {
  Progress progress{"memberships", command.common.is_quiet};
  try {
    const MonteCarlo result =
        run_monte_carlo(scenario, {.runs = *command.runs,
                                   .deadline = deadline,
                                   .pool = pool_of(command.common),
                                   .on_progress = progress.counter(),
                                   .limits = {.is_stopped = command.common.budget.asked(), .job_wall_s = {}}});
    const std::string json = to_json_text(to_json(scenario, result, deadline));
    std::vector<std::string> written;
    if (const auto& folder = command.common.output) {
      OutputFolder files{*folder};
      files.write("scenario.json", scenario.effective);
      files.write("runs.csv", runs_csv(result));
      files.write("report.html", monte_carlo_report(scenario, result, deadline));
      files.write("summary.json", json);
      files.commit();
      written = files.names();
    }
    std::fputs(command.common.prints_json ? json.c_str() : to_text(monte_carlo_table(result, deadline)).c_str(),
               stdout);
    if (const auto remark = remark_on_unfinished(result); remark && !command.common.is_quiet) print_warning(*remark);
    if (command.common.output) say_written(command.common, *command.common.output, written);
    return kSuccess;
  } catch (const MonteCarloStopped&) { command.common.budget.stop(); }
}

}  // namespace rehearse
