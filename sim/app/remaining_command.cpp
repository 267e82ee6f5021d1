// rehearse remaining: how long a training still takes after a revocation.

#include <cstdio>
#include <nlohmann/json.hpp>

#include "sim/app/commands.hpp"
#include "sim/app/setup.hpp"
#include "sim/base/files.hpp"
#include "sim/engine/scenario.hpp"
#include "sim/plan/remaining_time.hpp"

namespace rehearse {

namespace {

void print(const RemainingPrediction& prediction, int lost) {
  std::printf("%-24s %.4g steps/s, %.4g without %d machine%s of group %s%s\n", "speed", prediction.full,
              prediction.degraded, lost, lost == 1 ? "" : "s", prediction.group.c_str(),
              prediction.fit ? ", fitted to the history" : "");
  std::printf("%-24s works after %.4g s", "replacement", prediction.until_replaced.value());
  if (prediction.machine)
    std::printf(" (machine %.4g s, framework %.4g s)", prediction.machine->value(), prediction.framework->value());
  if (prediction.replaced_interval)
    std::printf(", %.4g to %.4g s (90 %%)", prediction.replaced_interval->first.value(),
                prediction.replaced_interval->second.value());
  std::printf("\n%-24s %.5g s for %lld steps", "remaining time", prediction.remaining.value(),
              static_cast<long long>(prediction.steps_left));
  if (prediction.interval)
    std::printf(", %.5g to %.5g s", prediction.interval->first.value(), prediction.interval->second.value());
  std::printf("\n%-24s %.5g s, with %.4g steps/s by adding up workers\n", "CM-DARE's controller",
              prediction.controller.value(), prediction.by_addition);
}

}  // namespace

int run(const RemainingCommand& command) {
  const Catalog catalog = load_catalog(command.common);
  JsonOrigins origins;
  const Json scenario = load_scenario_json(command.scenario, command.overrides, origins);
  (void)read_scenario(scenario, command.scenario.string(), catalog, origins);  // mistakes of options name them
  const auto made = make_folder(command.common.output);
  RemainingRequest request{.step = command.step,
                           .group = command.group,
                           .lost = command.lost,
                           .until_replaced = command.replaced_after,
                           .is_warm = command.is_warm,
                           .measured_speed = command.measured_speed,
                           .history = {}};
  if (command.history) request.history = load_remaining_cases(*command.history);
  const auto prediction = predict_remaining(scenario, command.scenario.string(), catalog, request,
                                            command.common.parallel, command.common.budget.asked());
  if (!prediction) command.common.budget.stop();
  const std::string json = to_json_text(to_json(*prediction));
  if (command.common.output) write_file(*command.common.output / "remaining.json", json);
  if (command.common.prints_json)
    std::fputs(json.c_str(), stdout);
  else
    print(*prediction, command.lost);
  if (command.common.output) say_written(command.common, *command.common.output, {"remaining.json"});
  return kSuccess;
}

}  // namespace rehearse
