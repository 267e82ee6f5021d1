// rehearse diagnose: a measured speed against the simulated one, and what would help.

#include <array>
#include <nlohmann/json.hpp>

#include "calibration/job_log.hpp"
#include "calibration/study.hpp"
#include "sim/app/executor.hpp"
#include "sim/app/output/document.hpp"
#include "sim/app/output/remedy_tables.hpp"
#include "sim/app/output/run_document.hpp"
#include "sim/app/program.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/named.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/base/statistics.hpp"
#include "sim/plan/diagnosis.hpp"
#include "sim/plan/measured_sizes.hpp"
#include "sim/scenario/peak_speed.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

struct DiagnoseCommand : ScenarioCommand {
  std::optional<double> measured_steps_per_s, measured_samples_per_s;  // one of the three
  std::string measured_step_time;                                      // as typed
  std::vector<std::string> measured_sizes;                             // as typed
  std::optional<double> one_gpu_samples_per_s;
  std::optional<std::filesystem::path> log;
  std::int64_t skip_steps = JobLogOptions{}.skip_steps;
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
  options.add_option("--log", command.log, "FILE",
                     "In place of it: the log of the training. The console of " + job_log_frameworks() +
                         "; a CSV of metrics such as Lightning's, trainer_state.json, or an event file of TensorBoard");
  options.add_count("--skip-steps", command.skip_steps, 0, 1'000'000'000,
                    "Steps at the beginning of logs that are left out (default: 10)");
  options.add_repeatable(
      "--measured", command.measured_sizes, "GPUS=X|GPUS=LOG|FILE",
      "In place of it, once for each size: samples per second of all workers on so many GPUs, such as 8=6679, or the "
      "log of that training as of --log; or a CSV file with the columns gpus and samples_per_s. Size 1 tells "
      "computation "
      "from scaling");
  options
      .add_option("--one-gpu-samples-per-s", command.one_gpu_samples_per_s, "X",
                  "Beside --measured-samples-per-s or --measured: samples per second of one GPU alone")
      .check(is_positive);
  add_work_options(options, command.common, "Print diagnosis.json instead of text",
                   "Write diagnosis.json and, of one size, diagnosis.html here (default: write nothing)");
}

/// A remedy that makes a sample dearer by more than this buys its gain.
constexpr double kCostsMore = 0.005;
constexpr std::size_t kLongestSetting = 120;

/// "+3.4 %".
std::string change_text(double share) { return formatted("%+.1f %%", share * 100); }

void add_remedies(Answer& answer, const Diagnosis& diagnosis) {
  answer.line();
  if (diagnosis.remedies.empty()) return answer.line("none of the remedies that were simulated gains 1 %");
  const auto row = [&](std::vector<std::string> cells) { answer.row("%10s  %9s  %12s  %9s  %s", std::move(cells)); };
  const auto below = [&](const std::string& text) { row({"", "", "", "", text}); };
  row({"steps/s", "samples/s", "USD/million", "", "remedy"});
  for (const Remedy& remedy : diagnosis.remedies) {
    if (!remedy.result) continue;
    const auto usd = remedy.result->usd_per_million_samples();
    const bool only_buys = remedy.cost_change && *remedy.cost_change > kCostsMore;
    row({formatted("%.4g", remedy.result->steps_per_s), change_text(*remedy.simulated_gain),
         usd ? formatted("%.4g", *usd) : "unknown", remedy.cost_change ? change_text(*remedy.cost_change) : "",
         remedy.change + note_of(remedy.kind) + (only_buys ? " (only for more money)" : "")});
    if (remedy.gain_interval)
      below(formatted("warning: %s; %+.1f to %+.1f %% (90 %%)", remedy.note.c_str(), remedy.gain_interval->first * 100,
                      remedy.gain_interval->second * 100));
    for (const std::string& setting : remedy.settings) below("--set '" + shortened(setting, kLongestSetting) + "'");
  }
  for (const Remedy& remedy : diagnosis.remedies)
    if (!remedy.result) answer.line("cannot be simulated: " + remedy.change + ": " + shortened(remedy.error, 200));
}

void add_diagnosis(Answer& answer, const Diagnosis& diagnosis) {
  const ClusterSpeed& simulated = diagnosis.simulated;
  const auto speed = [](double steps, double samples) {
    return formatted("%.4g steps/s, %.4g samples/s", steps, samples);
  };
  answer.named("measured", speed(diagnosis.measured, diagnosis.measured_samples_per_s));
  answer.named("simulated", speed(simulated.steps_per_s, simulated.samples_per_s) +
                                (diagnosis.interval ? formatted("; %.4g to %.4g steps/s (90 %%)",
                                                                diagnosis.interval->first, diagnosis.interval->second)
                                                    : ""));
  answer.named("workers' own speeds", diagnosis.by_addition ? formatted("%.4g steps/s", *diagnosis.by_addition)
                                                            : "none: the model is on several machines");
  answer.named("verdict", diagnosis.verdict);
  for (const Json& part : simulated.step_parts)
    answer.named(&part == &simulated.step_parts.front() ? "simulated step" : "",
                 formatted("%7.1f %%  ", part["share"].get<double>() * 100) + part["what"].get<std::string>());
  for (const Explanation& explanation : diagnosis.explanations)
    answer.named(&explanation == &diagnosis.explanations.front() ? "would explain it" : "",
                 (explanation.strength ? "" : "not enough: ") + explanation.text);
  const auto usd = simulated.usd_per_million_samples();
  answer.named("cost", usd ? formatted("%.4g USD for a million samples, %.4g USD/h", *usd, *simulated.usd_per_hour)
                           : "unknown: an instance has no price");
  add_remedies(answer, diagnosis);
}

constexpr std::array kFindings{Named{"something else slows it", Finding::kSlower},
                               Named{"the simulation explains it", Finding::kExplained},
                               Named{"the interval holds it, but it may be something else", Finding::kUndecided},
                               Named{"the simulation is too slow", Finding::kFaster},
                               Named{"the measurement is hardly of this scenario", Finding::kImplausible}};

/// What was measured beside the parts of the simulated step, what may explain the gap, and remedies with gain and cost.
Document diagnosis_document(const Json& scenario, const Diagnosis& diagnosis) {
  const ClusterSpeed& simulated = diagnosis.simulated;
  const double measured_step = simulated.iteration_time_s * simulated.steps_per_s / diagnosis.measured;
  Document document{.title = scenario.value("name", std::string{"diagnosis"}),
                    .subtitle = "a measured speed against the simulated one",
                    .headlines = {{"measured", short_text(diagnosis.measured_samples_per_s) + " samples/s",
                                   short_text(diagnosis.measured) + " steps/s"},
                                  {"simulated", short_text(simulated.samples_per_s) + " samples/s",
                                   short_text(simulated.steps_per_s) + " steps/s"}},
                    .sections = {},
                    .verdict = "Measured " + against_simulated(diagnosis.measured / simulated.steps_per_s) + ": " +
                               name_in(kFindings, diagnosis.finding) + "."};
  if (diagnosis.interval)
    document.headlines.back().range +=
        "; " + short_text(diagnosis.interval->first) + " to " + short_text(diagnosis.interval->second);
  document.headlines.push_back(
      {"difference", signed_percent_text(diagnosis.measured / simulated.steps_per_s - 1), "measured over simulated"});
  if (diagnosis.by_addition)
    document.headlines.push_back(
        {"workers alone", short_text(*diagnosis.by_addition) + " steps/s", "each without the others"});
  if (const auto usd = simulated.usd_per_million_samples())
    document.headlines.push_back(
        {"a million samples", short_text(*usd) + " USD", short_text(*simulated.usd_per_hour) + " USD/h"});
  Bars bars{.title = "", .unit = "ms", .bars = {{"simulated", {}}, {"measured", {}}}};
  constexpr double kSeen = 0.002;  // of the step
  for (const Json& part : simulated.step_parts)
    if (part["share"].get<double>() > kSeen)
      bars.bars[0].parts.push_back({short_part(part["part"]), part["time_s"].get<double>() * 1e3, part["what"]});
  bars.bars[1].parts.push_back({"measured", measured_step * 1e3});
  document.overview.push_back({.title = "One step",
                               .paragraphs = {diagnosis.verdict + "."},
                               .tables = {},
                               .figures = {std::move(bars)},
                               .is_wide = true});
  constexpr std::size_t kMostShown = 6;
  if (Table remedies = best_remedies(diagnosis.remedies, kMostShown); !remedies.rows.empty())
    document.overview.push_back(
        {.title = "What would help, simulated", .paragraphs = {}, .tables = {std::move(remedies)}});
  if (!diagnosis.explanations.empty()) {
    Section gap{.title = "What would explain the gap"};
    for (const Explanation& explanation : diagnosis.explanations)
      gap.paragraphs.push_back((explanation.strength ? "" : "Not enough: ") + explanation.text);
    document.overview.push_back(std::move(gap));
  }
  document.sections.push_back(remedies_section(diagnosis.remedies));
  return document;
}

/// Of --log, if it is of a training like the scenario's.
std::optional<Measured> measured_by_log(const DiagnoseCommand& command, const Json& scenario, const Catalog& catalog) {
  if (!command.log) return {};
  const Measurements log =
      load_job_logs(*command.log, {.skip_steps = command.skip_steps, .batch = {}, .gpus = {}, .sequence_length = {}});
  const Scenario read = read_scenario(scenario, command.file_name(), catalog);
  const auto number = [](const CsvRow& row, const char* column) {
    return row.text(column).empty() ? std::nullopt : std::optional{row.number(column)};
  };
  // The last of those with the scenario's batch, if it changed.
  std::string contradiction;
  std::optional<CsvRow> found;
  for (const CsvRow& row : log.table.rows()) {
    const std::string other = log_contradiction(number(row, "batch"), number(row, "gpus"), read);
    if (other.empty()) found = row;
    contradiction = other;
  }
  if (!found) throw InputError{command.log->string() + ": " + contradiction};
  print_warnings(log.remarks, command.common.is_quiet);
  if (const auto seconds = number(*found, "step_time_s")) return Measured{Measured::Unit::kStepTime, *seconds};
  if (const auto samples = number(*found, "samples_per_s"))
    return Measured{Measured::Unit::kSamplesPerSecond, *samples};
  throw InputError{log.missing.at("samples_per_s") + "; or --measured-samples-per-s"};
}

Measured measured_by(const DiagnoseCommand& command, std::optional<Seconds> step_time,
                     const std::optional<Measured>& logged) {
  using Unit = Measured::Unit;
  std::vector<Measured> stated;
  if (command.measured_steps_per_s) stated.push_back({Unit::kStepsPerSecond, *command.measured_steps_per_s});
  if (command.measured_samples_per_s) stated.push_back({Unit::kSamplesPerSecond, *command.measured_samples_per_s});
  if (step_time) stated.push_back({Unit::kStepTime, step_time->value()});
  if (logged) stated.push_back(*logged);
  const std::size_t count = stated.size() + (command.measured_sizes.empty() ? 0 : 1);
  if (count != 1)
    throw InputError{
        "diagnose: expected one of --measured-speed, --measured-samples-per-s, --measured-step-time, --log and "
        "--measured; found " +
        (count == 0 ? std::string{"none"} : std::to_string(count)) + "; see rehearse diagnose --help"};
  return stated.empty() ? Measured{} : stated.front();
}

/// Sizes, if they are what was measured: of a speed beside that of one GPU the scenario's own.
std::vector<MeasuredSize> sizes_of(const DiagnoseCommand& command, const Measured& measured, const Json& scenario,
                                   const Catalog& catalog) {
  std::vector<std::string> texts = command.measured_sizes;
  if (const auto one = command.one_gpu_samples_per_s) {
    texts.push_back("1=" + to_text(*one));
    if (command.measured_sizes.empty()) {
      if (measured.unit != Measured::Unit::kSamplesPerSecond)
        throw InputError{
            "--one-gpu-samples-per-s: expected --measured-samples-per-s or --measured beside it; see rehearse "
            "diagnose --help"};
      int gpus = 0;
      for (const Group& group : read_scenario(scenario, command.file_name(), catalog).groups)
        if (group.role == Role::kWorker && !group.is_standby) gpus += group.workers() * group.gpus_per_worker;
      if (gpus > 1) texts.push_back(std::to_string(gpus) + "=" + to_text(measured.value));
    }
  }
  return texts.empty() ? std::vector<MeasuredSize>{} : read_measured_sizes(texts, command.skip_steps);
}

Answer answer_of(const SizesDiagnosis& diagnosis) {
  Answer answer{.json = to_json_text(to_json(diagnosis))};
  const auto row = [&](std::vector<std::string> cells) {
    answer.row("%10s  %18s  %18s  %18s  %10s  %10s", std::move(cells));
  };
  const auto speed = [](const std::optional<double>& value) {
    return value ? formatted("%.4g samples/s", *value) : "-";
  };
  const auto percent = [](const std::optional<double>& share) {
    return share ? formatted("%.1f %%", *share * 100) : "-";
  };
  row({"GPUs", "measured", "simulated", "by own step", "efficiency", "simulated"});
  for (const SizeRow& size : diagnosis.rows) {
    row({std::to_string(size.measured.gpus), speed(size.measured.samples_per_s), speed(size.simulated),
         speed(size.by_own_step), percent(size.measured_efficiency), percent(size.simulated_efficiency)});
    if (!size.simulated && !size.error.empty())
      answer.row("%10s  %s", {"", "not simulated: " + shortened(size.error, 200)});
  }
  answer.text("\n" + diagnosis.compute_verdict + "\n" + diagnosis.scaling_verdict + "\n");
  if (!diagnosis.largest) return answer;
  const SizeRow& largest = diagnosis.rows.back();
  answer.text("\n" + std::to_string(largest.measured.gpus) + " GPUs" +
              (largest.by_own_step ? ", simulated with the step that one GPU was measured to take" : "") + ":\n");
  add_diagnosis(answer, *diagnosis.largest);
  return answer;
}

/// A speed that no GPU has is of something else.
void refuse_impossible(const Scenario& scenario, const Measured& measured, const std::vector<MeasuredSize>& sizes) {
  const auto refuse = [](const std::string& what) {
    if (!what.empty()) throw InputError{"diagnose: " + what};
  };
  for (const MeasuredSize& size : sizes) refuse(impossible_speed(scenario, size.samples_per_s, size.gpus));
  if (!sizes.empty()) return;
  const double samples = samples_per_update(scenario);
  switch (measured.unit) {
    case Measured::Unit::kSamplesPerSecond:
      return refuse(impossible_speed(scenario, measured.value));
    case Measured::Unit::kStepsPerSecond:
      return refuse(impossible_speed(scenario, measured.value * samples));
    case Measured::Unit::kStepTime:
      if (scenario.training.strategy.is_synchronous()) refuse(impossible_speed(scenario, samples / measured.value));
  }
}

Answer run(const DiagnoseCommand& command) {
  const auto step_time = read_seconds("--measured-step-time", command.measured_step_time);
  const Catalog catalog = load_catalog(command.common);
  const Json scenario = load_checked_scenario(command, catalog);
  const auto made = make_folder(command.common.output);
  Progress progress{"simulations", command.common.is_quiet};
  const Measured measured = measured_by(command, step_time, measured_by_log(command, scenario, catalog));
  const std::vector<MeasuredSize> sizes = sizes_of(command, measured, scenario, catalog);
  const Scenario read = read_scenario(scenario, command.file_name(), catalog);
  refuse_impossible(read, measured, sizes);
  if (!command.model.empty() && !command.common.is_quiet) warn_of_assumptions(read, command.overrides);
  print_warnings(read.warnings, command.common.is_quiet);
  if (!command.common.is_quiet)
    for (const MeasuredSize& size : sizes) print_warnings(size.remarks);
  if (!sizes.empty()) {
    std::optional<SizesDiagnosis> diagnosis;
    try {
      diagnosis = diagnose_sizes({.scenario = scenario, .file_name = command.file_name(), .sizes = sizes}, catalog,
                                 pool_of(command.common), progress.counter(), command.common.budget.asked());
    } catch (const Interrupted&) {}
    if (!diagnosis) command.common.budget.stop();
    return hand_out(command.common, "diagnosis.json", answer_of(*diagnosis));
  }
  std::optional<Diagnosis> diagnosis;
  try {
    diagnosis = diagnose({.scenario = scenario, .file_name = command.file_name(), .measured = measured}, catalog,
                         pool_of(command.common), progress.counter(), command.common.budget.asked());
  } catch (const Interrupted&) {}  // or out of time: the budget says which
  if (!diagnosis) command.common.budget.stop();
  Answer answer{.json = to_json_text(to_json(*diagnosis))};
  add_diagnosis(answer, *diagnosis);
  return hand_out(command.common, "diagnosis.json", std::move(answer),
                  [&] { return render_html(diagnosis_document(scenario, *diagnosis)); });
}

}  // namespace

CommandVerb diagnose_verb() {
  return make_verb<DiagnoseCommand>(
      "diagnose",
      "Why a run is as fast as it was measured to be: what its steps consist of, what else may slow it, and what would "
      "help, with gain and cost; all of it simulated\n\n"
      "Example: rehearse diagnose scenarios/cm-dare.json --set /workload/model=cm-dare/resnet15 --set "
      "/cluster/groups/1/instance=gce-custom-8-p100 --set /cluster/groups/1/count=8 --measured-speed 104\n"
      "         rehearse diagnose --model resnet50 --instance p3.16xlarge --batch 64 --measured-samples-per-s 1200\n"
      "         rehearse diagnose scenarios/dgx.json --measured 1=360 --measured 8=2500 --measured 16=4300\n"
      "         rehearse diagnose scenarios/dgx.json --measured 1=one-gpu.log --measured 8=eight.log",
      add_options, run);
}

}  // namespace rehearse
