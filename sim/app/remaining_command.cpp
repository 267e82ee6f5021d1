// rehearse remaining: how long a training still takes after a revocation.

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/app/executor.hpp"
#include "sim/app/output/document.hpp"
#include "sim/app/program.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/verb.hpp"
#include "sim/plan/remaining_time.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

namespace {

struct RemainingCommand : ScenarioCommand {
  std::int64_t step = 0;
  std::string group;
  int lost = 1;
  std::string replaced_after;  // as typed
  bool is_warm = false;
  std::optional<double> measured_speed;
  std::optional<std::filesystem::path> history;
};

void add_options(Options options, RemainingCommand& command) {
  add_scenario(options, command);
  options.add_option("--step", command.step, "N", "Steps done when the machines were lost")
      .required()
      .check(is_not_negative);
  options.add_option("--group", command.group, "NAME", "Group of workers that lost them (default: the first)");
  options.add_count("--lost", command.lost, 1, 20000, "Machines lost, the last ones of the group (default: 1)");
  options.add_option("--replaced-after", command.replaced_after, "T",
                     "Time until the replacements work, such as 90s (default: the profile's start-up of machine and "
                     "framework)");
  options.add_flag("--warm", command.is_warm, "The replacements have run the framework before");
  options
      .add_option("--measured-speed", command.measured_speed, "X",
                  "Speed before the loss, steps/s (default: the simulated one)")
      .check(is_positive);
  options.add_option("--history", command.history, "CSV",
                     "Past revocations of this cluster, to fit speed and time until replaced: a CSV with "
                     "revocation_step, total_steps, measured_remaining_s");
  add_work_options(options, command.common, "Print remaining.json instead of text",
                   "Write remaining.json and remaining.html here (default: write nothing)");
}

Answer answer_of(const RemainingPrediction& prediction, int lost) {
  Answer answer{.json = to_json_text(to_json(prediction))};
  answer.named("speed", formatted("%.4g steps/s, %.4g without %d machine%s of group ", prediction.full,
                                  prediction.degraded, lost, lost == 1 ? "" : "s") +
                            prediction.group + (prediction.fit ? ", fitted to the history" : ""));
  std::string replaced = formatted("works after %.4g s", prediction.until_replaced.value());
  if (prediction.machine)
    replaced +=
        formatted(" (machine %.4g s, framework %.4g s)", prediction.machine->value(), prediction.framework->value());
  if (const auto& interval = prediction.replaced_interval)
    replaced += formatted(", %.4g to %.4g s (90 %%)", interval->first.value(), interval->second.value());
  answer.named("replacement", replaced);
  if (prediction.lost_steps > 0 || prediction.stopped > Seconds{})
    answer.named("recovery", std::to_string(prediction.lost_steps) + " steps are done again, " +
                                 time_text(prediction.stopped.value()) + " in which nobody trains");
  answer.named("remaining time",
               time_text(prediction.remaining.value()) + " for " + std::to_string(prediction.steps_left) + " steps" +
                   (prediction.interval ? formatted(", %.5g to %.5g s", prediction.interval->first.value(),
                                                    prediction.interval->second.value())
                                        : ""));
  answer.named("CM-DARE's controller", formatted("%.5g s, with %.4g steps/s by adding up workers",
                                                 prediction.controller.value(), prediction.by_addition));
  return answer;
}

/// "21.6 s to 27.3 s"; empty if it is not known.
std::string interval_text(const std::optional<std::pair<Seconds, Seconds>>& interval) {
  if (!interval) return {};
  return short_time_text(interval->first.value()) + " to " + short_time_text(interval->second.value());
}

Document remaining_document(const RemainingPrediction& prediction, const std::string& name, int lost,
                            const std::vector<std::string>& warnings) {
  const auto steps = static_cast<double>(prediction.steps_left);
  const std::string machines = std::to_string(lost) + (lost == 1 ? " machine" : " machines");
  Document document{
      .title = name,
      .subtitle =
          "how long the training still takes after " + machines + " of group " + prediction.group + " were lost",
      .headlines = {{"time left", short_time_text(prediction.remaining.value()), interval_text(prediction.interval)},
                    {"steps left", count_text(steps), count_text(prediction.samples_left) + " samples"},
                    {"speed", short_text(prediction.full) + " steps/s",
                     short_text(prediction.degraded) + " steps/s without what was lost"},
                    {"replaced after", short_time_text(prediction.until_replaced.value()),
                     interval_text(prediction.replaced_interval)}},
      .sections = {},
      .verdict = "The training takes another " + short_time_text(prediction.remaining.value()) + " for " +
                 count_text(steps) + " steps" +
                 (prediction.remaining < prediction.until_replaced ? "; it ends before a replacement works." : ".")};
  const bool is_of_hours = prediction.remaining > Seconds{7200};
  Bars bars{.title = "", .unit = is_of_hours ? "h" : "s", .bars = {}};
  const auto add = [&](const std::string& what, double seconds) {
    const double value = is_of_hours ? seconds / 3600 : seconds;
    if (std::isfinite(value)) bars.bars.push_back({.name = what, .parts = {{.name = what, .value = value}}});
  };
  add("had nothing been lost", steps / prediction.full);
  add("as predicted", prediction.remaining.value());
  if (prediction.degraded > 0) add("without a replacement", steps / prediction.degraded);
  add("CM-DARE's controller", prediction.controller.value());
  document.overview.push_back(
      {.title = "Time left", .paragraphs = {}, .tables = {}, .figures = {std::move(bars)}, .is_wide = true});
  Table parts{.header = {"what", "value"}, .rows = {}};
  const auto time = [&](const char* what, Seconds value) { parts.rows.push_back({what, time_text(value.value())}); };
  if (prediction.machine) time("a machine starts in", *prediction.machine);
  if (prediction.framework) time("its framework starts in", *prediction.framework);
  parts.rows.push_back({"steps that are done again", std::to_string(prediction.lost_steps)});
  time("time in which nobody trains", prediction.stopped);
  parts.rows.push_back({"speed by adding up workers", display(prediction.by_addition) + " steps/s"});
  if (prediction.fit)
    parts.rows.push_back(
        {"speed fitted to the history", display(prediction.fit->speed_factor) + " times the simulated"});
  document.sections.push_back({.title = "What it is made of", .paragraphs = {}, .tables = {std::move(parts)}});
  if (!warnings.empty()) document.sections.push_back({.title = "Warnings", .paragraphs = warnings});
  return document;
}

Answer run(const RemainingCommand& command) {
  const auto replaced_after = read_seconds("--replaced-after", command.replaced_after);
  const Catalog catalog = load_catalog(command.common);
  const Json scenario = load_checked_scenario(command, catalog);
  const auto made = make_folder(command.common.output);
  const Scenario whole = read_scenario(scenario, command.file_name(), catalog);
  if (!command.model.empty() && !command.common.is_quiet) warn_of_assumptions(whole, command.overrides);
  print_warnings(whole.warnings, command.common.is_quiet);
  if (const auto& checkpoint = whole.training.checkpoint; checkpoint && checkpoint->in_memory && command.lost > 1)
    print_warning("of the last " + std::to_string(command.lost) +
                  " machines two are a pair: what both have in their memory is taken for lost");
  RemainingRequest request{.step = command.step,
                           .group = command.group,
                           .lost = command.lost,
                           .until_replaced = replaced_after,
                           .is_warm = command.is_warm,
                           .measured_speed = command.measured_speed,
                           .history = {}};
  if (command.history) request.history = load_remaining_cases(*command.history);
  const auto prediction = predict_remaining(scenario, command.file_name(), catalog, request, pool_of(command.common),
                                            command.common.budget.asked());
  if (!prediction) command.common.budget.stop();
  return hand_out(command.common, "remaining.json", answer_of(*prediction, command.lost), [&] {
    return render_html(remaining_document(*prediction, whole.name, command.lost, whole.warnings));
  });
}

}  // namespace

CommandVerb remaining_verb() {
  return make_verb<RemainingCommand>(
      "remaining",
      "How long a training still takes after workers were revoked, until a replacement works and from then on\n\n"
      "Example: rehearse remaining scenarios/cm-dare.json --set /training/steps=64000 --step 32096 --lost 1",
      add_options, run);
}

}  // namespace rehearse
