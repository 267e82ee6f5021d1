// rehearse diagnose: a measured speed against the simulated one, and what would help.

#include <cstdio>
#include <nlohmann/json.hpp>

#include "sim/app/commands.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/setup.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "sim/plan/diagnosis.hpp"

namespace rehearse {

namespace {

const char* note_of(RemedyKind kind) {
  switch (kind) {
    case RemedyKind::kRented:
      return "";
    case RemedyKind::kShared:
      return " (at best: their work may slow the workers' hosts, which is not simulated)";
    case RemedyKind::kHypothetical:
      return " (a machine that no catalog has)";
  }
  return "";
}

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
    std::printf("%s%s\n", remedy.change.c_str(), note_of(remedy.kind));
    for (const std::string& setting : remedy.settings) std::printf("%48s--set '%s'\n", "", setting.c_str());
  }
  for (const Remedy& remedy : diagnosis.remedies)
    if (!remedy.result)
      std::printf("cannot be simulated: %s: %s\n", remedy.change.c_str(), shortened(remedy.error, 200).c_str());
}

void print(const Diagnosis& diagnosis) {
  std::printf("%-24s %.4g steps/s\n", "measured", diagnosis.measured);
  std::printf("%-24s %.4g steps/s", "simulated", diagnosis.simulated.steps_per_s);
  if (diagnosis.interval) std::printf(", %.4g to %.4g (90 %%)", diagnosis.interval->first, diagnosis.interval->second);
  std::printf("\n%-24s %.4g steps/s\n", "workers' own speeds", diagnosis.by_addition);
  std::printf("%-24s %s\n", "verdict", diagnosis.verdict.c_str());
  std::printf("%-24s %s\n", "at its limit", diagnosis.simulated.bottleneck.c_str());
  if (const auto usd = diagnosis.simulated.usd_per_million_samples())
    std::printf("%-24s %.4g USD for a million samples, %.4g USD/h\n", "cost", *usd, *diagnosis.simulated.usd_per_hour);
  else
    std::printf("%-24s unknown: an instance has no price\n", "cost");
  print_remedies(diagnosis);
}

}  // namespace

int run(const DiagnoseCommand& command) {
  const Catalog catalog = load_catalog(command.common);
  const Json scenario = load_scenario_json(command.scenario, command.overrides);
  if (command.common.output) create_folder(*command.common.output);
  Progress progress{"simulations", command.common.is_quiet};
  std::optional<Diagnosis> diagnosis;
  try {
    diagnosis = diagnose(
        scenario, command.scenario.string(), catalog, command.measured_speed, command.common.parallel,
        [&](std::size_t done, std::size_t total) {
          progress.update(static_cast<std::int64_t>(done), static_cast<std::int64_t>(total));
        },
        command.common.budget.asked());
  } catch (const Interrupted&) {}  // or out of time: the budget says which
  if (!diagnosis) command.common.budget.stop();
  const std::string json = to_json_text(to_json(*diagnosis));
  if (command.common.output) write_file(*command.common.output / "diagnosis.json", json);
  if (command.common.prints_json)
    std::fputs(json.c_str(), stdout);
  else
    print(*diagnosis);
  if (command.common.output) say_written(command.common, *command.common.output, {"diagnosis.json"});
  return kSuccess;
}

}  // namespace rehearse
