// rehearse diff: two runs side by side, and what made the difference.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/app/executor.hpp"
#include "sim/app/output/document.hpp"
#include "sim/app/output/traffic_diff_document.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/traffic_diff.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "sim/base/statistics.hpp"
#include "sim/plan/diff.hpp"
#include "sim/plan/sweep.hpp"

namespace rehearse {

namespace {

struct DiffCommand {
  CommonOptions common;
  std::filesystem::path a, b;     // output folders, scenario files or captures
  bool compares_traffic = false;  // of two runs
};

void add_options(Options options, DiffCommand& command) {
  options
      .add_option(
          "RUN_A", command.a,
          "Output folder of simulate or replay, scenario file, or what traffic reads: captures, tables of packets")
      .required();
  options.add_option("RUN_B", command.b, "The same").required();
  options.add_flag("--traffic", command.compares_traffic,
                   "Compare the traffic of two runs, as of captures: pair by pair, bin by bin");
  options.add_flag("--json", command.common.prints_json, "Print diff.json instead of tables");
  add_catalogs(options, command.common);
  add_output(options, command.common, "Write diff.json and diff.html here (default: write nothing)");
  add_parallel(options, command.common);
  add_wall_time(options, command.common);
}

constexpr std::size_t kMostLines = 40;  // of inputs; --json and diff.json have all

std::string value_text(const SharedJson& value) {
  if (!value) return "(not there)";
  return shortened(value->is_number_float() ? display(value->get<double>()) : parameter_text(value.get()), 40);
}

/// Everything below a catalog object that bears another name in B, as one line: /workload/model  resnet32  resnet15.
std::vector<InputDifference> condensed(const std::vector<InputDifference>& inputs) {
  std::vector<InputDifference> lines;
  std::string named;
  for (const InputDifference& input : inputs) {
    if (!named.empty() && input.pointer.starts_with(named)) continue;
    lines.push_back(input);
    named.clear();
    if (!input.pointer.ends_with("/name") || input.pointer == "/name") continue;
    const std::string object = input.pointer.substr(0, input.pointer.size() - 5);
    const bool is_catalog_object = object == "/workload/model" || object.ends_with("/instance");
    if (!is_catalog_object) continue;
    lines.back().pointer = object;
    named = object + "/";
  }
  return lines;
}

void add_inputs(Answer& answer, const RunDiff& diff) {
  if (diff.inputs.empty()) return answer.line("the inputs are the same");
  const std::vector<InputDifference> inputs = condensed(diff.inputs);
  const std::size_t shown = std::min(inputs.size(), kMostLines);
  std::size_t width = 6;
  for (std::size_t i = 0; i < shown; ++i) width = std::max(width, inputs[i].pointer.size());
  const std::string layout = "%-" + std::to_string(width) + "s  %-24s  %s";
  answer.row(layout, {"input", "A", "B"});
  for (std::size_t i = 0; i < shown; ++i)
    answer.row(layout, {shortened(inputs[i].pointer, 200), value_text(inputs[i].a), value_text(inputs[i].b)});
  if (inputs.size() > shown)
    answer.line("... and " + std::to_string(inputs.size() - shown) + " more, which --json prints");
}

void add_results(Answer& answer, const RunDiff& diff) {
  constexpr const char* kLayout = "%-24s  %14s  %14s  %14s  %9s";
  answer.line();
  if (diff.results.empty()) return answer.line("the results are the same");
  answer.row(kLayout, {"result", "A", "B", "change", "relative"});
  for (const ResultDifference& result : diff.results)
    if (result.change)
      answer.row(kLayout, {result.key, value_text(result.a), value_text(result.b), formatted("%+.4g", *result.change),
                           result.relative_change ? signed_percent_text(*result.relative_change) : "-"});
  for (const ResultDifference& result : diff.results)
    if (!result.change) answer.row("%-24s  %s -> %s", {result.key, value_text(result.a), value_text(result.b)});
}

void add_mechanisms(Answer& answer, const RunDiff& diff) {
  if (diff.mechanisms.empty()) return;
  constexpr const char* kLayout = "%-32s  %14s  %9s  %14s  %9s";
  const auto effect_of = [&](const std::string& name, const Speed& effect) {
    answer.row(kLayout,
               {name, formatted("%+.4g", effect.iteration_time_s * 1e3),
                signed_percent_text(effect.iteration_time_s / diff.a.iteration_time_s),
                formatted("%+.4g", effect.steps_per_s), signed_percent_text(effect.steps_per_s / diff.a.steps_per_s)});
  };
  const auto less_a = [&](const Speed& speed) {
    return Speed{speed.iteration_time_s - diff.a.iteration_time_s, speed.steps_per_s - diff.a.steps_per_s};
  };
  answer.text("\nwhat made it: A with one thing at a time as in B\n");
  answer.row(kLayout, {"mechanism", "step, ms", "", "steps/s", ""});
  for (const MechanismEffect& effect : diff.mechanisms)
    if (effect.speed) effect_of(effect.name, less_a(*effect.speed));
  for (const MechanismEffect& effect : diff.mechanisms)
    if (!effect.speed) answer.row("%-32s  %s", {effect.name, "has no result alone: " + effect.error});
  if (diff.interaction) effect_of("together beyond the sum of these", *diff.interaction);
  effect_of("B - A", less_a(diff.b));
}

/// How the inputs lead from the step of A to that of B, then what differs.
Document diff_document(const ComparedRun& a, const ComparedRun& b, const RunDiff& diff) {
  const double ratio = diff.a.steps_per_s > 0 ? diff.b.steps_per_s / diff.a.steps_per_s : 0;
  Document document{.title = "A: " + a.label + ", B: " + b.label,
                    .subtitle = "what differs between two runs",
                    .headlines = {},
                    .sections = {}};
  if (ratio > 0) {
    const bool is_as_fast = std::abs(ratio - 1) < 1e-9;
    document.verdict = is_as_fast ? "B makes as many steps a second as A"
                                  : "B makes " + signed_percent_text(std::abs(ratio - 1)).substr(1) +
                                        (ratio > 1 ? " more" : " fewer") + " steps a second than A";
    if (!is_as_fast && !diff.mechanisms.empty() && diff.mechanisms.front().speed)
      document.verdict += "; what changes it most: " + diff.mechanisms.front().name;
    document.verdict += ".";
    document.headlines = {
        {"step of A", short_time_text(diff.a.iteration_time_s), short_text(diff.a.steps_per_s) + " steps/s"},
        {"step of B", short_time_text(diff.b.iteration_time_s), short_text(diff.b.steps_per_s) + " steps/s"},
        {"speed", signed_percent_text(ratio - 1), "B over A, in steps a second"}};
  }
  // Workers that do not wait for one another make more steps without shorter ones, and steps may be shorter of less work: the one
  // that changes more.
  const auto change = [&](double Speed::*of) { return std::abs(std::log(diff.b.*of / diff.a.*of)); };
  const bool is_of_time = change(&Speed::iteration_time_s) > change(&Speed::steps_per_s) * (1 - 1e-6);
  double Speed::*const of = is_of_time ? &Speed::iteration_time_s : &Speed::steps_per_s;
  const double scale = is_of_time ? 1e3 : 1;
  Waterfall fall{.title = "",
                 .unit = is_of_time ? "ms" : "steps/s",
                 .from_name = "A",
                 .to_name = "B",
                 .from = diff.a.*of * scale,
                 .changes = {}};
  constexpr double kRounding = 1e-9;
  for (const MechanismEffect& effect : diff.mechanisms)
    if (effect.speed && std::abs((*effect.speed).*of / diff.a.*of - 1) > kRounding)
      fall.changes.emplace_back(effect.name, ((*effect.speed).*of - diff.a.*of) * scale);
  if (diff.interaction) fall.changes.emplace_back("together beyond the sum", (*diff.interaction).*of * scale);
  if (diff.interaction && !fall.changes.empty())
    document.overview.push_back(
        {.title = is_of_time ? "What made the difference of a step" : "What made the difference in steps a second",
         .paragraphs = {"A with one thing at a time as in B."},
         .tables = {},
         .figures = {std::move(fall)},
         .is_wide = true});
  Table results{.header = {"result", "A", "B", "change"}, .rows = {}};
  for (const ResultDifference& result : diff.results)
    results.rows.push_back({result.key, value_text(result.a), value_text(result.b),
                            result.relative_change ? signed_percent_text(*result.relative_change) : ""});
  Table inputs{.header = {"input", "A", "B", "part of"}, .rows = {}};
  for (const InputDifference& input : condensed(diff.inputs))
    inputs.rows.push_back({input.pointer, value_text(input.a), value_text(input.b), input.mechanism});
  document.sections = {{.title = "Results that differ", .paragraphs = {}, .tables = {std::move(results)}},
                       {.title = "Inputs that differ", .paragraphs = {}, .tables = {std::move(inputs)}}};
  for (const MechanismEffect& effect : diff.mechanisms)
    if (!effect.speed) document.sections[1].paragraphs.push_back(effect.name + " has no result alone: " + effect.error);
  if (!diff.warnings.empty()) document.sections.push_back({.title = "Warnings", .paragraphs = diff.warnings});
  return document;
}

/// The answer, once -o has it and the page.
Answer with_files(const DiffCommand& command, Answer answer, const Document& page) {
  if (const auto& folder = command.common.output) {
    write_files({{*folder / "diff.json", answer.json}, {*folder / "diff.html", render_html(page)}});
    add_written(answer, command.common, *folder, {"diff.html", "diff.json"});
  }
  return answer;
}

Answer run_on_traffic(const DiffCommand& command) {
  const auto made = make_folder(command.common.output);
  const RunTraffic a = read_traffic(command.a, {}, command.common.budget);
  const RunTraffic b = read_traffic(command.b, {}, command.common.budget);
  BurstOptions options{.link_rate = a.link_rate ? a.link_rate : b.link_rate};  // one threshold for both
  if (!options.link_rate) options.link_rate = traffic_statistics(a, {}).link_rate;
  const TrafficDiff diff = compare_traffic(a, b, options);
  return with_files(command, {.json = to_json_text(to_json(diff)), .parts = {to_text(diff)}},
                    traffic_diff_document(diff, a, b));
}

Answer run(const DiffCommand& command) {
  if (command.compares_traffic || is_measured_traffic(command.a) || is_measured_traffic(command.b))
    return run_on_traffic(command);
  const Catalog catalog = load_catalog(command.common);
  const ComparedRun a = load_compared_run(command.a, catalog);
  const ComparedRun b = load_compared_run(command.b, catalog);
  const auto made = make_folder(command.common.output);
  Progress progress{"simulations", command.common.is_quiet};
  const std::optional<RunDiff> diff =
      compare_runs(a, b, catalog, pool_of(command.common), progress.counter(), command.common.budget.asked());
  if (!diff) command.common.budget.stop();
  print_warnings(diff->warnings, command.common.is_quiet);
  Answer answer{.json = to_json_text(to_json(a, b, *diff)), .parts = {"A  " + a.label + "\nB  " + b.label + "\n\n"}};
  add_inputs(answer, *diff);
  add_results(answer, *diff);
  add_mechanisms(answer, *diff);
  return with_files(command, std::move(answer), diff_document(a, b, *diff));
}

}  // namespace

CommandVerb diff_verb() {
  return make_verb<DiffCommand>(
      "diff",
      "What differs between two runs: inputs, results, and which input made which part of the difference\n\n"
      "Example: rehearse diff results/four-workers results/eight-workers\n"
      "         rehearse diff captures/ results/four-workers",
      add_options, run);
}

}  // namespace rehearse
