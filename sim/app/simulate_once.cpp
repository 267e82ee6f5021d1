#include "sim/app/simulate_once.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "calibration/parameter_uncertainty.hpp"
#include "sim/app/estimate.hpp"
#include "sim/app/output/document.hpp"
#include "sim/app/setup.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/base/statistics.hpp"
#include "sim/pool/pool.hpp"
#include "sim/program/reductions.hpp"
#include "sim/training/compile.hpp"

namespace rehearse {

namespace {

/// What a run is at besides updates, of which a large cluster's first one takes long.
std::string within_step(const Scenario& scenario, const RunProgress& run) {
  if (!run.is_set_up) return formatted("setting up %d workers", scenario.count(Role::kWorker));
  return formatted("%.3g million events, simulated %.4g s", static_cast<double>(run.events) / 1e6,
                   run.simulated.value());
}

}  // namespace

Scenario read_scenario_with(Json json, const std::filesystem::path& file, const std::vector<std::string>& overrides,
                            std::optional<std::uint64_t> seed, const Catalog& catalog) {
  JsonOrigins origins;
  override_scenario(json, file, overrides, catalog, origins);
  if (seed && json.is_object()) origins.set(json, "/seed", std::to_string(*seed), "--seed");
  return read_scenario(json, file.string(), catalog, origins);
}

int processors() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

bool has_time_for_moved_profiles(Scenario& scenario) {
  constexpr Seconds kMostTime{10};  // of one processor
  const std::size_t count = scenario.profile.uncertainty.components.size();
  if (!has_steady_state(scenario) || !has_uncertain_values(scenario)) return false;
  if (interval_duration(scenario, 1) <= kMostTime) return true;
  const Seconds each = expected_run(shortened(scenario)).duration;
  scenario.warnings.push_back("the interval leaves out how uncertain the values of profile " +
                              in_quotes(scenario.profile.name) + " are: that would take " + std::to_string(count) +
                              " simulations of about " + to_text(Seconds{std::ceil(each.value())}));
  return false;
}

double uncertainty_by_profile(const Scenario& scenario, bool is_quiet, const Budget& budget) {
  Progress progress{"simulations for the interval", is_quiet};
  return speed_uncertainty(scenario, {processors(), run_brief_here}, progress.counter(), budget);
}

namespace {

constexpr double kLongRun = 1800;  // s

/// One run of the engine.
RunRecord run_once(const Scenario& scenario, SimulateOptions options, Progress& progress, const Budget& budget) {
  std::int64_t updates = 0;
  std::optional<double> messages;  // of the run, once they are asked for; 0: they do not say how far it is
  options.on_update = [&](std::int64_t count) { updates = count; };
  options.on_progress = [&](const RunProgress& run) {
    if (budget.is_over())
      budget.stop(" after " + std::to_string(updates) + " of " + std::to_string(scenario.training.steps) + " steps");
    if (!progress.is_due()) return;
    if (!messages)
      messages = plan_reductions(scenario, options.is_exact, options.keeps_activity).start_each_message()
                     ? expected_run(scenario).messages
                     : 0;
    const double share = *messages > 0 ? static_cast<double>(run.messages) / *messages : 0;
    if (share > 0 && progress.elapsed().count() * (1 / share - 1) > kLongRun)
      progress.note("; --runs 1 simulates a few steps of each set of machines instead");
    progress.update(updates, scenario.training.steps, within_step(scenario, run), std::min(share, 1.0));
  };
  return simulate(scenario, options);
}

/// Of two runs of one scenario; empty if they agree but for rounding.
std::string difference_of(const Summary& summary, const Summary& recorded) {
  constexpr double kRounding = 1e-6;  // asynchronous workers meet in another order where dates are equal but for it
  const double off =
      std::max(std::abs(recorded.steps_per_s / summary.steps_per_s - 1), std::abs(recorded.time / summary.time - 1));
  if (!(off > kRounding)) return {};
  return "what is recorded for tables and timeline differs by " + percent_text(off) +
         " from the numbers of summary.json: messages of equal dates were served in another order";
}

}  // namespace

Simulated simulate_once(const Scenario& scenario, SimulateOptions options, double uncertainty, Progress& progress,
                        const Budget& budget) {
  const bool records_apart = options.keeps_activity && recording_changes_events(scenario, options.is_exact);
  SimulateOptions brief = options;
  if (records_apart) brief.keeps_activity = brief.records_gpu_links = false;
  RunRecord record = run_once(scenario, brief, progress, budget);
  progress.say("summing up");
  Summary summary = summarize(scenario, record, uncertainty);
  if (!records_apart) return {std::move(record), std::move(summary), {}};
  record = {};                    // before the other takes its memory
  options.is_on_simgrid = false;  // which runs once in a process; events and dates are the same without it
  progress.say("recording");
  record = run_once(scenario, options, progress, budget);
  std::string warning = difference_of(summary, summarize(scenario, record, uncertainty));
  return {std::move(record), std::move(summary), std::move(warning)};
}

}  // namespace rehearse
