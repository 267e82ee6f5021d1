#include "sim/app/commands.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "calibration/fit.hpp"
#include "calibration/lifetime_study.hpp"
#include "calibration/parameter_spread.hpp"
#include "calibration/study.hpp"
#include "calibration/training_fit.hpp"
#include "calibration/validation.hpp"
#include "platforms/catalog.hpp"
#include "predictor/space.hpp"
#include "sim/app/estimate.hpp"
#include "sim/app/explain.hpp"
#include "sim/app/output/document.hpp"
#include "sim/app/output/fit_document.hpp"
#include "sim/app/output/run_files.hpp"
#include "sim/app/output/validation_document.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/setup.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "sim/base/output_folder.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/engine/compile.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/engine/site.hpp"
#include "sim/engine/summary.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

Scenario load_scenario(const SimulateCommand& command, const Catalog& catalog) {
  JsonOrigins origins;
  Json json = load_scenario_json(command.scenario, command.overrides, origins);
  if (command.seed && json.is_object()) origins.set(json, "/seed", std::to_string(*command.seed), "--seed");
  return read_scenario(json, command.scenario.string(), catalog, origins);
}

void print_warnings(const Scenario& scenario) {
  for (const std::string& warning : scenario.warnings) std::fprintf(stderr, "rehearse: warning: %s\n", warning.c_str());
}

const int kProcessors = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));

/// Whether the speed is one of a steady state, and its interval can have its part by the uncertainty of the profile's
/// values in short time; warns if not.
bool has_time_for_moved_profiles(Scenario& scenario) {
  constexpr Seconds kMostTime{10};  // of one processor
  const std::size_t count = scenario.profile.spread.components.size();
  if (!has_steady_state(scenario) || !has_uncertain_values(scenario)) return false;
  if (interval_duration(scenario, 1) <= kMostTime) return true;
  const Seconds each = expected_duration(shortened(scenario));
  scenario.warnings.push_back("the interval leaves out how uncertain the values of profile " +
                              in_quotes(scenario.profile.name) + " are: that would take " + std::to_string(count) +
                              " simulations of about " + to_text(Seconds{std::ceil(each.value())}));
  return false;
}

/// What a run is at besides updates, of which a large cluster's first one takes long.
std::string within_step(const Scenario& scenario, const RunProgress& run) {
  std::array<char, 96> text{};
  if (!run.is_set_up)
    std::snprintf(text.data(), text.size(), "setting up %d workers", scenario.count(Role::kWorker));
  else
    std::snprintf(text.data(), text.size(), "%.3g million events, simulated %.4g s",
                  static_cast<double>(run.events) / 1e6, run.simulated.value());
  return text.data();
}

void print_samples(const SampleCounts& samples) {
  const auto number = [](std::int64_t count) { return std::to_string(count); };
  std::string text = number(samples.done) + " done";
  if (samples.lost > 0) text += ", " + number(samples.lost) + " lost";
  if (samples.repeated > 0) text += ", " + number(samples.repeated) + " repeated";
  if (samples.dropped > 0) text += ", " + number(samples.dropped) + " dropped";
  std::printf("%-24s %s\n", "samples", text.c_str());
}

void print_summary(const Scenario& scenario, const Summary& summary) {
  const bool is_synchronous = scenario.training.strategy.is_synchronous();
  std::printf("%-24s %s steps/s (%s), %s samples/s\n", "speed", display(summary.steps_per_s).c_str(),
              is_synchronous ? "all workers together" : "sum of all workers", display(summary.samples_per_s).c_str());
  if (summary.interval)
    std::printf("%-24s %.4g to %.4g steps/s (90 %%)\n", "interval", summary.steps_per_s * summary.interval->first,
                summary.steps_per_s * summary.interval->second);
  std::printf("%-24s %.4g s for %lld steps\n", "time", summary.time.value(), static_cast<long long>(summary.steps));
  print_samples(summary.samples);
  std::printf("%-24s %.4g ms per worker, of which %.4g ms wait for network, servers and others\n", "step",
              summary.iteration_time.value() * 1e3, summary.exposed_communication.value() * 1e3);
  if (summary.cost_usd)
    std::printf("%-24s %.4g USD\n", "cost", *summary.cost_usd);
  else
    std::printf("%-24s unknown: an instance has no price\n", "cost");
  if (const auto& target = summary.to_target)
    std::printf("%-24s %.4g s, %.4g updates, %.4g samples%s\n", "to the target", target->time.value(), target->updates,
                target->samples, target->cost_usd ? (", " + display(*target->cost_usd) + " USD").c_str() : "");
  if (const auto& what = summary.interruptions)
    std::printf("%-24s %d revocations, %d replacements, %d restarts, %lld steps lost; the job stood still for %.4g s\n",
                "on the spot market", what->revocations, what->replacements, what->restarts,
                static_cast<long long>(what->lost_updates), what->stopped.value());
  std::printf("%-24s %.0f %%\n", "GPU utilization", summary.gpu_utilization * 100);
  if (!is_synchronous)
    std::printf("%-24s mean %.2f, at most %lld updates\n", "staleness", summary.staleness_mean,
                static_cast<long long>(summary.staleness_max));
  std::printf("%-24s %s\n", "bottleneck", summary.verdict.text.c_str());
}

void print_statistics(const std::string& label, const ErrorStatistics& statistics) {
  std::printf("%-34s %5zu %8.2f %8.2f %8.2f %8.2f %+8.2f", label.c_str(), statistics.rows, statistics.mape,
              statistics.median_ape, statistics.p90_ape, statistics.max_ape, statistics.bias);
  if (statistics.noise_floor) std::printf(" %8.2f", *statistics.noise_floor);
  std::printf("\n");
}

void print_header(const char* first) {
  std::printf("%-34s %5s %8s %8s %8s %8s %8s %8s\n", first, "rows", "MAPE", "median", "p90", "max", "bias", "noise");
}

/// The measured rows side by side with the simulated ones, by the columns that tell them apart.
void print_rows(const Study& study, const Validation& validation) {
  std::vector<std::string> columns = study.curve_by;
  if (!study.curve_x.empty()) columns.push_back(study.curve_x);
  if (columns.empty())
    for (const char* column : {"run", "gpu", "model", "plan"})
      if (study.table->has_column(column)) columns.emplace_back(column);
  for (const std::string& column : columns) std::printf("%-13s ", column.c_str());
  std::printf("%10s %10s %8s\n", "measured", "simulated", "error %");
  for (std::size_t i = 0; i < validation.rows.size(); ++i) {
    const ValidationRow& row = validation.rows[i];
    for (const std::string& column : columns)
      std::printf("%-13s ", std::string{study.rows[i].row.text(column)}.c_str());
    if (row.simulated)
      std::printf("%10.4g %10.4g %+8.1f\n", row.measured, *row.simulated, row.error_pct);
    else
      std::printf("%10.4g %10s %8s  %s\n", row.measured, "-", "-100", row.problem.c_str());
  }
}

/// "3, 7-9".
std::string ranges_text(const std::vector<std::size_t>& lines) {
  std::string text;
  for (std::size_t first = 0, last = 0; first < lines.size(); first = ++last) {
    while (last + 1 < lines.size() && lines[last + 1] == lines[last] + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(lines[first]);
    if (last > first) text += "-" + std::to_string(lines[last]);
  }
  return text;
}

std::string unscored_text(const Study& study, const Validation& validation, const std::string& before) {
  const std::string file = fs::path{study.measurements_file}.filename().string();
  std::string text;
  for (const auto& [reason, lines] : unscored_rows(study, validation))
    text += before + "not scored: " + std::to_string(lines.size()) + (lines.size() == 1 ? " row: " : " rows: ") +
            reason + " (" + file + ", lines " + ranges_text(lines) + ")\n";
  return text;
}

std::string coverage_text(const Study& study, const IntervalCoverage& coverage) {
  if (coverage.rows == 0) return "intervals of 90 %: profile " + in_quotes(study.profile_name) + " states no errors\n";
  return "intervals of 90 % hold " + std::to_string(coverage.inside) + " of " + std::to_string(coverage.rows) +
         " rows, " + display(100 * static_cast<double>(coverage.inside) / static_cast<double>(coverage.rows)) +
         " % (from the errors of profile " + in_quotes(study.profile_name) +
         ", without the uncertainty of its values)\n";
}

void print_validation(const Study& study, const Validation& validation, const StudyQuality& quality,
                      const IntervalCoverage& coverage, std::size_t free_values) {
  print_rows(study, validation);
  std::printf("\n%s: %s, simulated against measured, errors in %%\n", study.name.c_str(), study.metric.c_str());
  print_header("");
  print_statistics("all", validation.all);
  if (validation.predicted.rows > 0 && validation.fitted.rows > 0) {
    print_statistics("seen by the fit", validation.fitted);
    print_statistics("not seen by the fit", validation.predicted);
  }
  if (quality.of == StudyQuality::Of::kCrossValidated) print_statistics("cross-validated by the fit", quality.errors);
  for (const auto& [label, statistics] : validation.groups) print_statistics(label, statistics);
  for (const CurveSaturation& curve : validation.curves)
    if (curve.is_saturated)
      std::printf("saturation of %s: measured %.2f workers, simulated %.2f\n", curve.curve.c_str(),
                  curve.measured_workers, curve.simulated_workers);
  for (const RatioResult& ratio : validation.ratios)
    std::printf("gain by %s: measured %+.1f %%, simulated %+.1f %%\n", ratio.label.c_str(), ratio.measured_gain_pct,
                ratio.simulated_gain_pct);
  for (const SampleComparison& sample : validation.samples)
    std::printf("sample %s: %zu values, mean measured %.4g, simulated %.4g (%+.1f %%), KS distance %.3f\n",
                sample.label.c_str(), sample.values, sample.measured_mean, sample.simulated_mean,
                100 * (sample.simulated_mean / sample.measured_mean - 1), sample.ks_distance);
  std::printf("%s", unscored_text(study, validation, "").c_str());
  std::printf("%s", coverage_text(study, coverage).c_str());
  std::printf("free values in profile \"%s\": %zu\n", study.profile_name.c_str(), free_values);
}

}  // namespace

int run(const SimulateCommand& command) {
  const Catalog catalog = load_catalog(command.common);
  Scenario scenario = load_scenario(command, catalog);
  const RecordingScope scope = read_recording_scope(command.trace_window, command.trace_ranks, Site{scenario});
  if (!command.trace_window.empty()) {
    scenario.output.timeline_start = scope.window.start;
    scenario.output.timeline_length = scope.window.end - scope.window.start;
  }
  const bool moves_profile = has_time_for_moved_profiles(scenario);
  const SimulateOptions options{.keeps_activity = command.common.output.has_value(), .is_exact = command.is_exact};
  if (!command.runs) require_memory(scenario, options);
  const auto made = command.is_dry_run ? std::nullopt : make_folder(command.common.output);
  if (!command.common.is_quiet) print_warnings(scenario);
  const std::string program = command.prints_program ? program_text(scenario) : "";
  if (command.explains) std::fputs(explain(scenario).c_str(), stdout);
  if (command.prints_program) {
    std::fputs(program.c_str(), stdout);
    return kSuccess;
  }
  if (command.is_dry_run) {
    std::fputs(describe_dry_run(scenario, options, moves_profile ? interval_duration(scenario, kProcessors) : Seconds{})
                   .c_str(),
               stdout);
    return kSuccess;
  }
  if (command.runs) return run_many(command, scenario);

  const Budget& budget = command.common.budget;
  double spread_by_profile = 0;
  if (moves_profile) {
    Progress progress{"simulations for the interval", command.common.is_quiet};
    spread_by_profile = speed_spread(
        scenario, kProcessors,
        [&](std::size_t done, std::size_t total) {
          progress.update(static_cast<std::int64_t>(done), static_cast<std::int64_t>(total));
        },
        budget);
  }
  Progress progress{"steps", command.common.is_quiet};
  std::int64_t updates = 0;
  const double messages = expected_messages(scenario);
  const RunRecord record =
      simulate(scenario, {.keeps_activity = command.common.output.has_value(),
                          .scope = scope,
                          .is_exact = command.is_exact,
                          .on_update = [&](std::int64_t count) { updates = count; },
                          .on_progress =
                              [&](const RunProgress& run) {
                                if (budget.is_over())
                                  budget.stop(" after " + std::to_string(updates) + " of " +
                                              std::to_string(scenario.training.steps) + " steps");
                                const double share = messages > 0 ? static_cast<double>(run.messages) / messages : 0;
                                progress.update(updates, scenario.training.steps, within_step(scenario, run),
                                                std::min(share, 1.0));
                              }});
  progress.say("summing up");
  const Summary summary = summarize(scenario, record, spread_by_profile);
  std::vector<std::string> written;
  if (command.common.output) {
    progress.say("writing " + command.common.output->string());
    written = write_run_files(*command.common.output, scenario, record, summary, budget);
  }
  progress.clear();
  if (command.common.prints_json)
    std::fputs(to_json_text(to_json(scenario, summary)).c_str(), stdout);
  else
    print_summary(scenario, summary);
  if (command.common.output) say_written(command.common, *command.common.output, written);
  return kSuccess;
}

namespace {

/// The profile file's value that a study's scenario names or contains; null without.
Json profile_of(const Study& study, const Catalog& catalog) {
  const Json base = load_json_file(study.scenario_file);
  const JsonReader calibration = JsonReader{base, study.scenario_file}.child("calibration");
  return calibration.is_string() ? catalog.profile(study.profile_name, calibration).value() : calibration.value();
}

std::size_t count_free_values(const Json& profile) {
  std::size_t count = profile.value("step_times", Json::array()).size();
  for (const Json& value : profile.value("/fit/values"_json_pointer, Json::array()))
    count += value.at("pointer").get<std::string>().starts_with("/step_times/") ? 0 : 1;
  return count;
}

std::string describe(StudyQuality::Of of) {
  switch (of) {
    case StudyQuality::Of::kCrossValidated:
      return "cross-validated";
    case StudyQuality::Of::kPredicted:
      return "not fitted";
    case StudyQuality::Of::kFitted:
      return "fitted";
  }
  return {};
}

/// A study of which no row can be simulated, because of its metric or scenario, has no errors.
void require_result(const Study& study, const std::vector<Prediction>& predictions) {
  if (std::ranges::any_of(predictions, [](const Prediction& row) { return row.value.has_value(); })) return;
  throw NoResultError{study.file_name + ": no row can be simulated; the first, " + study.measurements_file + ":" +
                      std::to_string(study.rows.front().row.line()) + ": " +
                      (study.rows.front().problem.empty() ? predictions.front().problem : study.rows.front().problem)};
}

constexpr const char* kAccuracyHeader =
    "| study | source | hardware | rows | of them | free values | median | MAPE | p90 | noise | best published on like "
    "data |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";

/// One line of the table over a set of studies: errors in percent. Step times are counted apart from other values.
std::string accuracy_row(const Study& study, const StudyQuality& quality, const Json& profile) {
  const std::size_t step_times = profile.value("step_times", Json::array()).size();
  std::string values = std::to_string(count_free_values(profile) - step_times);
  if (step_times > 0) values += " + " + std::to_string(step_times) + " step times";
  std::string row = "|";
  for (const std::string& cell :
       {study.name, study.about.source, study.about.hardware, std::to_string(quality.errors.rows), describe(quality.of),
        values, display(quality.errors.median_ape), display(quality.errors.mape), display(quality.errors.p90_ape),
        quality.errors.noise_floor ? display(*quality.errors.noise_floor) : std::string{}, study.about.best_published})
    row += " " + cell + " |";
  return row + "\n";
}

}  // namespace

int run(const ValidateCommand& command) {
  const Catalog catalog = load_catalog(command.common);
  const std::vector<Study> studies = load_studies(command.study, command.measurements);
  const auto made = make_folder(command.common.output);
  const bool is_set = studies.size() > 1;
  std::string table = kAccuracyHeader;
  Json summaries = Json::array();
  std::size_t rows = 0, rows_done = 0;
  for (const Study& study : studies) rows += study.rows.size();
  std::optional<FolderInParts> parts;  // a folder for each study, the table
  if (is_set && command.common.output) parts.emplace(*command.common.output);
  std::string notes;
  Progress progress{"measured rows", command.common.is_quiet};
  for (const Study& study : studies) {
    if (is_set) progress.note(", " + study.name);
    const auto predictions = predict(
        study, catalog, command.common.parallel,
        [&](std::size_t done, std::size_t total) {
          const std::size_t of_study = study.rows.size() * done / total;  // equal rows are simulated once
          progress.update(static_cast<std::int64_t>(rows_done + of_study), static_cast<std::int64_t>(rows));
        },
        command.common.budget);
    rows_done += study.rows.size();
    if (!is_set) require_result(study, predictions);
    const Validation validation = validate(study, predictions);
    const Json profile = profile_of(study, catalog);
    const std::size_t free_values = count_free_values(profile);
    const StudyQuality quality = study_quality(study, validation, profile);
    const IntervalCoverage coverage =
        interval_coverage(study, validation, read_profile(JsonReader{profile, study.profile_name}).spread);
    table += accuracy_row(study, quality, profile);
    notes += study.name + ": " + coverage_text(study, coverage) + unscored_text(study, validation, study.name + ": ");
    Json summary = to_json(study, validation);
    summary["free_values"] = free_values;
    summary["quality"] = to_json(quality.errors);
    summary["quality"]["of"] = describe(quality.of);
    if (coverage.rows > 0) summary["interval_coverage"] = {{"inside", coverage.inside}, {"rows", coverage.rows}};
    if (command.common.output) {
      const fs::path folder = is_set ? *command.common.output / study.name : *command.common.output;
      const MadeFolder part{folder};
      OutputFolder files{folder};
      files.write("validation.csv", validation_csv(study, validation));
      files.write("summary.json", to_json_text(summary));
      files.write("report.html", validation_report(study, validation, quality, free_values));
      files.commit();
    }
    if (!command.common.prints_json && !is_set) print_validation(study, validation, quality, coverage, free_values);
    summaries.push_back(std::move(summary));
  }
  if (is_set && command.common.output) write_file(*command.common.output / "accuracy.md", table);
  if (parts) parts->finish();
  progress.clear();
  if (command.common.prints_json)
    std::fputs(to_json_text(is_set ? summaries : summaries[0]).c_str(), stdout);
  else if (is_set)
    std::printf("%s\n%s", table.c_str(), notes.c_str());
  if (command.common.output) say_written(command.common, *command.common.output);
  return kSuccess;
}

int run(const CalibrateCommand& command) {
  for (const fs::path& path : command.studies)
    if (const std::string kind = study_kind(load_json_file(path)); kind == "training_logs")
      return calibrate_training_logs(command);
    else if (kind == "lifetimes")
      return calibrate_lifetimes(command);
  const Catalog catalog = load_catalog(command.common);
  std::vector<Study> studies;
  for (const fs::path& path : command.studies)
    for (Study& study : load_studies(path)) studies.push_back(std::move(study));
  for (const Study& study : studies)
    if (study.profile_name != studies.front().profile_name)
      throw InputError{study.file_name + ": its scenario uses profile " + in_quotes(study.profile_name) +
                       ", the first study's uses " + in_quotes(studies.front().profile_name)};
  const Json base = load_json_file(studies.front().scenario_file);
  const JsonReader profile = catalog.profile(studies.front().profile_name,
                                             JsonReader{base, studies.front().scenario_file}.child("calibration"));
  const auto made = make_folder_of(command.common.output), made_for_report = make_folder_of(command.report);

  std::optional<Progress> stage;
  const Fit fit = fit_profile(studies, profile.value(), profile.file_name(), catalog,
                              {.pool = command.common.parallel,
                               .most_steps = command.most_steps,
                               .bootstrap_draws = command.bootstrap,
                               .command = command.common.command_line,
                               .on_progress =
                                   [&](const std::string& line) {
                                     if (!command.common.is_quiet) std::fprintf(stderr, "%s\n", line.c_str());
                                   },
                               .on_simulated =
                                   [&](const std::string& name, std::size_t done, std::size_t total) {
                                     if (done == 1) stage.emplace(name, command.common.is_quiet);
                                     stage->update(static_cast<std::int64_t>(done), static_cast<std::int64_t>(total));
                                   },
                               .budget = command.common.budget});
  std::vector<std::pair<fs::path, std::string>> files;  // both or none
  if (command.report)
    files.emplace_back(*command.report, fit_report(studies, fit, profile.required<std::string>("name")));
  if (command.common.output) files.emplace_back(*command.common.output, fit.profile);
  write_files(files);
  if (!command.common.output) std::fputs(fit.profile.c_str(), stdout);
  for (const auto& [file, content] : files) say_written(command.common, file);
  std::FILE* out = command.common.output ? stdout : stderr;
  std::fprintf(out, "%zu values fitted to %zu rows by %zu simulations\n", fit.values.size(), fit.rows, fit.simulations);
  for (const FittedValue& value : fit.values) {
    std::fprintf(out, "%-34s %14s   95 %%: %s to %s\n", value.pointer.c_str(), value.value.c_str(),
                 value.interval.low.c_str(), value.interval.high.c_str());
    if (value.by_rows && value.by_folds)
      std::fprintf(out, "%-34s %14s   bootstrap over rows: %s to %s, over folds: %s to %s\n", "", "",
                   value.by_rows->low.c_str(), value.by_rows->high.c_str(), value.by_folds->low.c_str(),
                   value.by_folds->high.c_str());
  }
  for (std::size_t s = 0; s < studies.size(); ++s)
    for (const auto& [statistics, what] :
         {std::pair{&fit.in_sample[s], "seen by the fit"}, std::pair{&fit.predicted[s], "not seen by the fit"}})
      if (statistics->rows > 0)
        std::fprintf(out, "%-34s MAPE %.2f %% over %zu rows (%s)\n", studies[s].name.c_str(), statistics->mape,
                     statistics->rows, what);
  for (const CrossValidation& validation : fit.cross_validated) {
    std::string columns;
    for (const std::string& column : validation.left_out_by) columns += (columns.empty() ? "" : ", ") + column;
    std::fprintf(out, "%-34s MAPE %.2f %%, leaving one (%s) out\n", validation.study.c_str(), validation.all.mape,
                 columns.c_str());
    for (const auto& [label, statistics] : validation.groups)
      std::fprintf(out, "    %-30s MAPE %.2f %%\n", label.c_str(), statistics.mape);
  }
  if (fit.spread.residual > 0)
    std::fprintf(out, "intervals of 90 %% hold %.1f %% of %zu rows, each by the errors of the others\n",
                 100 * fit.interval_coverage, fit.spread_rows);
  for (const std::string& warning : fit.warnings) std::fprintf(stderr, "rehearse: warning: %s\n", warning.c_str());
  return kSuccess;
}

int init(const std::string& given) {
  const std::string name = given.ends_with(".json") ? given.substr(0, given.size() - 5) : given;
  const std::string file = fs::path{name}.filename().string();
  if (file.empty() || file == "." || file == "..")
    throw InputError{"init: expected a file name, without .json; found " + in_quotes(given)};
  const fs::path path = name + ".json";
  if (fs::exists(path)) throw InputError{path.string() + ": exists already; choose another name"};
  write_file(path, starter_scenario(file));
  std::printf("%s\n", printable(path.string()).c_str());
  return kSuccess;
}

}  // namespace rehearse
