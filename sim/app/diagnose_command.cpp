// rehearse diagnose: a measured speed against the simulated one, and what would help.

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "sim/app/executor.hpp"
#include "sim/app/program.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/named.hpp"
#include "sim/base/names.hpp"
#include "sim/plan/diagnosis.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

namespace {

struct DiagnoseCommand : ScenarioCommand {
  std::optional<double> measured_steps_per_s, measured_samples_per_s;  // one of the three
  std::string measured_step_time;                                      // as typed
};

void add_options(Options options, DiagnoseCommand& command) {
  add_scenario(options, command);
  options
      .add_option("--measured-speed", command.measured_steps_per_s, "X",
                  "Steps per second: of all workers together, or of each where they wait for one another")
      .check(is_positive);
  options
      .add_option("--measured-samples-per-s", command.measured_samples_per_s, "X",
                  "In place of it: samples per second of all workers together")
      .check(is_positive);
  options.add_option("--measured-step-time", command.measured_step_time, "TIME",
                     "In place of it: time from one step of a worker to its next, such as 350ms");
  add_work_options(options, command.common, "Print diagnosis.json instead of text",
                   "Write diagnosis.json here (default: write nothing)");
}

/// A remedy that makes a sample dearer by more than this buys its gain.
constexpr double kCostsMore = 0.005;
constexpr std::size_t kLongestSetting = 120;

/// What is to be known of a remedy of a kind; nothing of machines that can be rented.
constexpr std::array kNotes{
    Named{" (another training: as many samples may not lead to the same loss)", RemedyKind::kOtherTraining},
    Named{" (at best: their work may slow the workers' hosts, which is not simulated)", RemedyKind::kShared},
    Named{" (a machine that no catalog has)", RemedyKind::kHypothetical}};

void print_remedies(const Diagnosis& diagnosis) {
  if (diagnosis.remedies.empty()) return void(std::printf("\nnone of the remedies that were simulated gains 1 %%\n"));
  std::printf("\n%10s  %9s  %12s  %9s  %s\n", "steps/s", "samples/s", "USD/million", "", "remedy");
  for (const Remedy& remedy : diagnosis.remedies) {
    if (!remedy.result) continue;
    std::printf("%10.4g  %+7.1f %%  ", remedy.result->steps_per_s, *remedy.simulated_gain * 100);
    if (const auto usd = remedy.result->usd_per_million_samples())
      std::printf("%12.4g", *usd);
    else
      std::printf("%12s", "unknown");
    if (remedy.cost_change)
      std::printf("  %+7.1f %%  ", *remedy.cost_change * 100);
    else
      std::printf("  %9s  ", "");
    const bool only_buys = remedy.cost_change && *remedy.cost_change > kCostsMore;
    std::printf("%s%s%s\n", remedy.change.c_str(), name_in(kNotes, remedy.kind).c_str(),
                only_buys ? " (only for more money)" : "");
    for (const std::string& setting : remedy.settings)
      std::printf("%48s--set '%s'\n", "", shortened(setting, kLongestSetting).c_str());
  }
  for (const Remedy& remedy : diagnosis.remedies)
    if (!remedy.result)
      std::printf("cannot be simulated: %s: %s\n", remedy.change.c_str(), shortened(remedy.error, 200).c_str());
}

void print(const Diagnosis& diagnosis) {
  std::printf("%-24s %.4g steps/s, %.4g samples/s\n", "measured", diagnosis.measured, diagnosis.measured_samples_per_s);
  std::printf("%-24s %.4g steps/s, %.4g samples/s", "simulated", diagnosis.simulated.steps_per_s,
              diagnosis.simulated.samples_per_s);
  if (diagnosis.interval)
    std::printf("; %.4g to %.4g steps/s (90 %%)", diagnosis.interval->first, diagnosis.interval->second);
  std::printf("\n%-24s %.4g steps/s\n", "workers' own speeds", diagnosis.by_addition);
  std::printf("%-24s %s\n", "verdict", diagnosis.verdict.c_str());
  for (const Json& part : diagnosis.simulated.step_parts)
    std::printf("%-24s %7.1f %%  %s\n", &part == &diagnosis.simulated.step_parts.front() ? "simulated step" : "",
                part["share"].get<double>() * 100, part["what"].get_ref<const std::string&>().c_str());
  for (const Explanation& explanation : diagnosis.explanations)
    std::printf("%-24s %s%s\n", &explanation == &diagnosis.explanations.front() ? "would explain it" : "",
                explanation.strength ? "" : "not enough: ", explanation.text.c_str());
  if (const auto usd = diagnosis.simulated.usd_per_million_samples())
    std::printf("%-24s %.4g USD for a million samples, %.4g USD/h\n", "cost", *usd, *diagnosis.simulated.usd_per_hour);
  else
    std::printf("%-24s unknown: an instance has no price\n", "cost");
  print_remedies(diagnosis);
}

Measured measured_by(const DiagnoseCommand& command, std::optional<Seconds> step_time) {
  using Unit = Measured::Unit;
  std::vector<Measured> stated;
  if (command.measured_steps_per_s) stated.push_back({Unit::kStepsPerSecond, *command.measured_steps_per_s});
  if (command.measured_samples_per_s) stated.push_back({Unit::kSamplesPerSecond, *command.measured_samples_per_s});
  if (step_time) stated.push_back({Unit::kStepTime, step_time->value()});
  if (stated.size() != 1)
    throw InputError{
        "diagnose: expected one of --measured-speed, --measured-samples-per-s and --measured-step-time; found " +
        (stated.empty() ? std::string{"none"} : std::to_string(stated.size())) + "; see rehearse diagnose --help"};
  return stated.front();
}

int run(const DiagnoseCommand& command) {
  const auto step_time = read_seconds("--measured-step-time", command.measured_step_time);
  const Catalog catalog = load_catalog(command.common);
  const Json scenario = load_checked_scenario(command.scenario, command.overrides, catalog);
  const auto made = make_folder(command.common.output);
  Progress progress{"simulations", command.common.is_quiet};
  std::optional<Diagnosis> diagnosis;
  try {
    diagnosis = diagnose(
        {.scenario = scenario, .file_name = command.scenario.string(), .measured = measured_by(command, step_time)},
        catalog, pool_of(command.common), progress.counter(), command.common.budget.asked());
  } catch (const Interrupted&) {}  // or out of time: the budget says which
  if (!diagnosis) command.common.budget.stop();
  hand_out(command.common, "diagnosis.json", to_json(*diagnosis), [&] { print(*diagnosis); });
  return kSuccess;
}

}  // namespace

CommandVerb diagnose_verb() {
  return make_verb<DiagnoseCommand>(
      "diagnose",
      "Why a run is as fast as it was measured to be: what its steps consist of, what else may slow it, and what would "
      "help, with gain and cost; all of it simulated\n\n"
      "Example: rehearse diagnose scenarios/cm-dare.json --set /workload/model=cm-dare/resnet15 --set "
      "/cluster/groups/1/instance=gce-custom-8-p100 --set /cluster/groups/1/count=8 --measured-speed 104",
      add_options, run);
}

}  // namespace rehearse
