// simulate --runs

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/app/commands.hpp"
#include "sim/app/output/monte_carlo_document.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/setup.hpp"
#include "sim/base/files.hpp"
#include "sim/plan/monte_carlo.hpp"

namespace rehearse {

int run_many(const SimulateCommand& command, const Scenario& scenario) {
  if (command.common.output) create_folder(*command.common.output);
  catch_interrupts();
  Progress progress{"memberships", command.common.is_quiet};
  try {
    const MonteCarlo result = run_monte_carlo(
        scenario, {.runs = *command.runs,
                   .parallel = command.common.parallel,
                   .on_progress =
                       [&](std::size_t done, std::size_t total) {
                         progress.update(static_cast<std::int64_t>(done), static_cast<std::int64_t>(total));
                       },
                   .limits = {.is_stopped = is_interrupted,
                              .job_wall_s = command.max_wall_time ? std::optional{command.max_wall_time->value()}
                                                                  : std::nullopt}});
    const std::string json = to_json_text(to_json(scenario, result, command.deadline));
    if (const auto& folder = command.common.output) {
      write_file(*folder / "scenario.json", scenario.effective);
      write_file(*folder / "runs.csv", runs_csv(result));
      write_file(*folder / "report.html", monte_carlo_report(scenario, result, command.deadline));
      write_file(*folder / "summary.json", json);
    }
    std::fputs(command.common.prints_json ? json.c_str() : to_text(monte_carlo_table(result, command.deadline)).c_str(),
               stdout);
    return kSuccess;
  } catch (const MonteCarloStopped&) { throw Interrupted{}; }
}

}  // namespace rehearse
