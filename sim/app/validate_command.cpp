// rehearse validate: the measured rows of studies beside the simulated ones.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "calibration/baselines.hpp"
#include "calibration/job_log.hpp"
#include "calibration/measured_gpus.hpp"
#include "calibration/metric.hpp"
#include "calibration/predicted_computation.hpp"
#include "calibration/study.hpp"
#include "calibration/validation.hpp"
#include "platforms/catalog.hpp"
#include "sim/app/calibrate_command.hpp"
#include "sim/app/executor.hpp"
#include "sim/app/output/accuracy_document.hpp"
#include "sim/app/output/baseline_document.hpp"
#include "sim/app/output/document.hpp"
#include "sim/app/output/validation_document.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/validate_command.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "sim/base/output_folder.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

std::string known_baselines() {
  std::string text;
  for (const std::string& name : names_in(kStudyBaselines)) text += (text.empty() ? "" : ", ") + name;
  return text;
}

void add_options(Options options, ValidateCommand& command) {
  options.add_option("STUDY", command.study, "Study file, or a set of studies").required();
  options.add_option(
      "--measurements", command.measurements, "FILE",
      "Another file instead of the study's, in its format: a CSV with the same columns, a listing of "
      "nccl-tests, iperf3 --json, traces of PyTorch's profiler, the log of a training (" +
          job_log_frameworks() +
          ", metrics in a CSV, trainer_state.json, event files of TensorBoard), or of nvidia-smi or dcgmi "
          "dmon: scenarios/studies/own");
  options.add_flag("--baselines", command.has_all_baselines,
                   "Predict the rows by what a user would try instead, too, from those that the study's fit knows");
  options
      .add_repeatable("--baseline", command.baselines, "NAME",
                      "One of them alone: " + known_baselines() + "; repeatable")
      .check([](const std::string& name) {
        const std::vector<std::string> known = names_in(kStudyBaselines);
        return std::ranges::find(known, name) == known.end() ? unknown_name_message("baseline", name, known)
                                                             : std::string{};
      });
  options
      .add_option(
          "--computation", command.computation, "WORD",
          "\"measured\": step times of the profile where it has them; \"predicted\": besides, the same rows with "
          "kernels from data sheets (profile kernels) instead, for profiles with step times")
      .check([](const std::string& word) {
        const std::vector<std::string> known{"measured", "predicted"};
        return std::ranges::find(known, word) == known.end() ? unknown_name_message("computation", word, known)
                                                             : std::string{};
      })
      .shows_default();
  options
      .add_option(
          "--exchange", command.exchange, "WORD",
          "\"fitted\": NICs, servers and collectives of the profile; \"predicted\": of others, as for a user who "
          "has measured steps alone")
      .check([](const std::string& word) {
        const std::vector<std::string> known{"fitted", "predicted"};
        return std::ranges::find(known, word) == known.end() ? unknown_name_message("exchange", word, known)
                                                             : std::string{};
      })
      .shows_default();
  options.add_option(
      "--calibration", command.calibration, "PROFILE",
      "Predict all rows by this profile instead of the study's own; \"auto\": by the one that each is given");
  options.add_flag("--without-own-profiles", command.withholds_own_profiles,
                   "Without the profiles that were fitted on rows of the study: what a user of another cluster gets");
  options.add_flag("--json", command.common.prints_json, "Print summary.json instead of text");
  add_catalogs(options, command.common);
  add_output(options, command.common,
             "Write validation.csv, summary.json and report.html here (default: write nothing)");
  add_parallel(options, command.common);
  add_wall_time(options, command.common);
}

constexpr const char* kStatistics = "%-34s %5s %8s %8s %8s %8s %8s %8s";

void add_statistics(Answer& answer, const std::string& label, const ErrorStatistics& statistics) {
  std::vector<std::string> cells{label, std::to_string(statistics.rows)};
  for (const double percent : {statistics.mape, statistics.median_ape, statistics.p90_ape, statistics.max_ape})
    cells.push_back(formatted("%.2f", percent));
  cells.push_back(formatted("%+.2f", statistics.bias));
  if (statistics.noise_floor) cells.push_back(formatted("%.2f", *statistics.noise_floor));
  answer.row(kStatistics, std::move(cells));
}

/// The measured rows side by side with the simulated ones, by the columns that tell them apart.
void add_rows(Answer& answer, const Study& study, const Validation& validation) {
  std::vector<std::string> columns = study.curve_by;
  if (!study.curve_x.empty()) columns.push_back(study.curve_x);
  if (columns.empty())
    for (const char* column : {"run", "gpu", "model", "plan"})
      if (study.table->has_column(column)) columns.emplace_back(column);
  std::string layout;
  for (std::size_t i = 0; i < columns.size(); ++i) layout += "%-13s ";
  layout += "%10s %10s %8s  %s";
  const auto row = [&](std::vector<std::string> cells, std::vector<std::string> values) {
    std::ranges::move(values, std::back_inserter(cells));
    answer.row(layout, std::move(cells));
  };
  row(columns, {"measured", "simulated", "error %"});
  for (std::size_t i = 0; i < validation.rows.size(); ++i) {
    const ValidationRow& of = validation.rows[i];
    std::vector<std::string> cells;
    for (const std::string& column : columns) cells.emplace_back(study.rows[i].row.text(column));
    const std::string measured = formatted("%.4g", of.measured);
    if (of.simulated)
      row(std::move(cells), {measured, formatted("%.4g", *of.simulated), formatted("%+.1f", of.error_pct)});
    else
      row(std::move(cells), {measured, "-", "-100", of.problem});
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

std::string coverage_text(const Study& study, const Validation& validation, const RowCount& coverage) {
  if (const RowCount& bounds = validation.within_bounds; bounds.rows > 0)
    return "bounds of 95 % of the counts hold " + std::to_string(bounds.inside) + " of " + std::to_string(bounds.rows) +
           " simulated shares; errors are in percentage points\n";
  if (coverage.rows == 0) return "intervals of 90 %: profile " + in_quotes(study.profile_name) + " states no errors\n";
  return "intervals of 90 % hold " + std::to_string(coverage.inside) + " of " + std::to_string(coverage.rows) +
         " rows, " + display(100 * static_cast<double>(coverage.inside) / static_cast<double>(coverage.rows)) +
         " %, without the uncertainty of the profile's values\n";
}

/// What taking what simulates best costs, and what it costs with other tools.
std::string choices_text(const Study& study, const Validation& validation, const std::string& before) {
  std::string text;
  const auto add = [&](const std::string& by, const std::optional<ChoiceStatistics>& choices) {
    if (!choices) return;
    text += before + "choosing by " + by + ": " + std::to_string(choices->choices) + " choices, regret median " +
            display(choices->median_regret_pct) + " %, mean " + display(choices->mean_regret_pct) + " %";
    if (choices->rank_correlation) text += ", rank correlation " + display(*choices->rank_correlation);
    text += "\n";
  };
  add("simulation", choice_statistics(validation));
  for (const PeerErrors& peer : study.peers) add(peer.peer, peer.choices);
  return text;
}

void add_validation(Answer& answer, const Study& study, const Validation& validation, const StudyQuality& quality,
                    const RowCount& coverage, const std::string& fitted_values) {
  add_rows(answer, study, validation);
  answer.text("\n" + study.name + ": " + study.metric + ", simulated against measured, errors in %\n");
  answer.row(kStatistics, {"", "rows", "MAPE", "median", "p90", "max", "bias", "noise"});
  add_statistics(answer, "all", validation.all);
  if (validation.predicted.rows > 0 && validation.fitted.rows > 0) {
    add_statistics(answer, "seen by the fit", validation.fitted);
    add_statistics(answer, "not seen by the fit", validation.predicted);
  }
  if (quality.of == StudyQuality::Of::kCrossValidated)
    add_statistics(answer, "cross-validated by the fit", quality.errors);
  for (const PeerErrors& peer : study.peers) {
    const auto text = [](const std::optional<double>& value) { return value ? display(*value) : std::string{"-"}; };
    answer.row(kStatistics,
               {peer.peer, std::to_string(peer.rows), formatted("%.2f", peer.mape), text(peer.median), text(peer.p90)});
  }
  for (const auto& [label, statistics] : validation.groups) add_statistics(answer, label, statistics);
  for (const CurveSaturation& curve : validation.curves)
    if (curve.is_saturated)
      answer.line(
          "saturation of " + curve.curve +
          formatted(": measured %.2f workers, simulated %.2f", curve.measured_workers, curve.simulated_workers));
  for (const RatioResult& ratio : validation.ratios)
    answer.line(
        "gain by " + ratio.label +
        formatted(": measured %+.1f %%, simulated %+.1f %%", ratio.measured_gain_pct, ratio.simulated_gain_pct));
  for (const SampleComparison& sample : validation.samples)
    answer.line("sample " + sample.label + ": " + std::to_string(sample.values) +
                formatted(" values, mean measured %.4g, simulated %.4g (%+.1f %%), KS distance %.3f",
                          sample.measured_mean, sample.simulated_mean,
                          100 * (sample.simulated_mean / sample.measured_mean - 1), sample.ks_distance));
  for (const ChoiceResult& choice : validation.choices)
    answer.line("choice of " + choice.label + ": " + std::to_string(choice.rows) +
                formatted(" rows, regret %.1f %%", choice.regret_pct));
  answer.text(choices_text(study, validation, "") + unscored_text(study, validation, "") +
              coverage_text(study, validation, coverage));
  answer.line("free values in profile \"" + study.profile_name + "\": " + fitted_values);
}

/// Whether the row fails since something is named that does not exist, or has a value that it cannot have.
bool is_bad_input(const Study& study, const StudyRow& row, const Catalog& catalog) {
  if (!row.problem.empty()) return true;
  try {
    check_metric(read_row(row, study.file_name, catalog), study.metric);
    return false;
  } catch (const InputError&) { return true; } catch (const NoResultError&) {
    return false;
  }
}

/// A study of which no row can be simulated, because of its metric or scenario, has no errors. Throws InputError if the
/// first row is bad input, else NoResultError.
void require_result(const Study& study, const std::vector<Prediction>& predictions, const Catalog& catalog) {
  if (std::ranges::any_of(predictions, [](const Prediction& row) { return row.value.has_value(); })) return;
  const StudyRow& first = study.rows.front();
  const std::string message = study.file_name + ": no row can be simulated; the first, " + study.measurements_file +
                              ":" + std::to_string(first.row.line()) + ": " +
                              (first.problem.empty() ? predictions.front().problem : first.problem);
  if (is_bad_input(study, first, catalog)) throw InputError{message};
  throw NoResultError{message};
}

std::string interpolation_text(const StudyAccuracy& accuracy) {
  return "interpolates: " + std::to_string(accuracy.step_times) + " measured step times for " +
         std::to_string(accuracy.quality.errors.rows) + " rows\n";
}

std::string computation_text(const Study& study, const PredictedComputation& computation, const std::string& before) {
  const ErrorStatistics& errors = computation.errors;
  std::string text;
  if (errors.rows > 0)
    text = before + "computation predicted, exchange by profile " + in_quotes(study.profile_name) + ": " +
           std::to_string(errors.rows) + " rows, MAPE " + display(errors.mape) + ", median " +
           display(errors.median_ape) + ", p90 " + display(errors.p90_ape) + ", bias " + display(errors.bias) + "\n";
  const std::string file = fs::path{study.measurements_file}.filename().string();
  for (const auto& [reason, lines] : computation.without)
    text += before + "computation not predicted: " + std::to_string(lines.size()) +
            (lines.size() == 1 ? " row: " : " rows: ") + reason + " (" + file + ", lines " + ranges_text(lines) + ")\n";
  return text;
}

/// What is asked of each study.
struct Asked {
  std::vector<StudyBaseline> baselines;
  bool predicts_computation = false;
};

Asked read_asked(const ValidateCommand& command) {
  Asked asked;
  for (const auto& [name, baseline] : kStudyBaselines)
    if (command.has_all_baselines || std::ranges::find(command.baselines, name) != command.baselines.end())
      asked.baselines.push_back(baseline);
  asked.predicts_computation = command.computation == "predicted";
  return asked;
}

/// A study whose rows have been predicted.
struct ValidatedStudy {
  const Study& study;
  Validation validation;
  StudyAccuracy accuracy;
  RowCount coverage;
  std::optional<BaselineComparison> baselines;
  std::optional<PredictedComputation> computation;

  std::vector<SampledRow> sample() const;
  Json summary() const;
  std::string notes() const;
  void write(const fs::path& folder) const;
  Answer answer() const;
};

std::vector<SampledRow> ValidatedStudy::sample() const {
  std::vector<SampledRow> sample;
  for (const std::size_t i : sampled_rows(study))
    sample.push_back({.study = study.name,
                      .line = study.rows[i].row.line(),
                      .simulated = validation.rows[i].simulated,
                      .computation_predicted = computation ? computation->values[i] : std::nullopt});
  return sample;
}

Json ValidatedStudy::summary() const {
  Json summary = to_json(study, validation);
  const std::optional<std::size_t> fitted_values = accuracy.fitted_values();
  summary["free_values"] = fitted_values ? Json(*fitted_values) : Json(nullptr);
  summary["quality"] = to_json(accuracy.quality.errors);
  summary["quality"]["of"] = to_text(accuracy.quality.of);
  if (coverage.rows > 0) summary["interval_coverage"] = {{"inside", coverage.inside}, {"rows", coverage.rows}};
  if (baselines) summary["baselines"] = to_json(*baselines);
  if (computation) summary["computation_predicted"] = to_json(*computation);
  for (const PeerErrors& peer : study.peers) {
    Json errors{{"peer", peer.peer}, {"rows", peer.rows}, {"mape", peer.mape}};
    if (peer.median) errors["median_ape"] = *peer.median;
    if (peer.p90) errors["p90_ape"] = *peer.p90;
    if (peer.choices) errors["choices"] = to_json(*peer.choices);
    summary["peers"].push_back(std::move(errors));
  }
  std::vector<std::string> remarks = study.remarks;
  if (const auto remark = remark_on_scale(study, validation.rows)) remarks.push_back(*remark);
  if (!remarks.empty()) summary["notes"] = remarks;
  summary["interpolates"] = accuracy.interpolates();
  return summary;
}

std::string ValidatedStudy::notes() const {
  std::string notes = study.name + ": " + coverage_text(study, validation, coverage) +
                      unscored_text(study, validation, study.name + ": ");
  for (const PeerErrors& peer : study.peers)
    notes += study.name + ": " + peer.peer + ": " + std::to_string(peer.rows) + " rows, MAPE " + display(peer.mape) +
             (peer.median ? ", median " + display(*peer.median) : "") +
             (peer.p90 ? ", p90 " + display(*peer.p90) : "") + "\n";
  notes += choices_text(study, validation, study.name + ": ");
  if (baselines) notes += best_baseline_line(study.name, *baselines, accuracy.quality.errors);
  if (accuracy.interpolates()) notes += study.name + ": " + interpolation_text(accuracy);
  if (computation) notes += computation_text(study, *computation, study.name + ": ");
  return notes;
}

void ValidatedStudy::write(const fs::path& folder) const {
  std::vector<PredictedColumn> others;
  if (baselines)
    for (const BaselineResult& result : baselines->results)
      others.push_back({.name = name_in(kStudyBaselines, result.baseline), .values = result.values});
  if (computation) others.push_back({.name = "computation_predicted", .values = computation->values});
  const MadeFolder part{folder};
  OutputFolder files{folder};
  files.write("validation.csv", validation_csv(study, validation, others));
  files.write("summary.json", to_json_text(summary()));
  files.write("report.html", validation_report(study, validation, accuracy.quality, accuracy.fitted_values_text()));
  files.commit();
}

Answer ValidatedStudy::answer() const {
  Answer answer{.json = to_json_text(summary())};
  add_validation(answer, study, validation, accuracy.quality, coverage, accuracy.fitted_values_text());
  if (accuracy.interpolates()) answer.text(interpolation_text(accuracy));
  if (baselines) answer.text(baseline_text(*baselines, accuracy.quality.errors));
  if (computation) answer.text(computation_text(study, *computation, ""));
  return answer;
}

void predict_computation(ValidatedStudy& validated, const Catalog& catalog, const CommonOptions& common) {
  const Study study = with_predicted_computation(validated.study, catalog);
  const std::vector<Prediction> predictions = predict(study, catalog, pool_of(common), {}, common.budget);
  validated.computation = score_predicted_computation(study, validated.accuracy.quality.of, predictions);
  validated.accuracy.computation = {.errors = validated.computation->errors,
                                    .rows_without = validated.computation->rows_without()};
}

void compare_with_baselines(ValidatedStudy& validated, const Json& profile, const Catalog& catalog,
                            const std::vector<StudyBaseline>& baselines, const Budget& budget) {
  validated.baselines =
      compare_baselines(validated.study, validated.accuracy.quality.of, profile, catalog, baselines, budget);
  validated.accuracy.best_baseline.emplace();
  if (const BaselineResult* best = validated.baselines->best())
    validated.accuracy.best_baseline = {.name = name_in(kStudyBaselines, best->baseline), .errors = best->errors};
}

ValidatedStudy validate_study(const Study& study, const std::vector<Prediction>& predictions, const Catalog& catalog,
                              const Asked& asked, const CommonOptions& common) {
  const Json profile = profile_of(study, catalog);
  ValidatedStudy validated{.study = study,
                           .validation = validate(study, predictions),
                           .accuracy = {},
                           .coverage = {},
                           .baselines = {},
                           .computation = {}};
  validated.accuracy = study_accuracy(study, validated.validation, profile);
  validated.coverage = interval_coverage(study, validated.validation);
  if (!asked.baselines.empty()) compare_with_baselines(validated, profile, catalog, asked.baselines, common.budget);
  if (asked.predicts_computation && validated.accuracy.step_times > 0) predict_computation(validated, catalog, common);
  return validated;
}

/// By the profile that is asked for. Who has none of the study's own has no step times of its workloads either.
Study as_asked(Study study, const ValidateCommand& command, const Catalog& catalog) {
  if (command.exchange == "predicted") return with_predicted_exchange(study, catalog);
  if (command.withholds_own_profiles) study = without_own_profiles(std::move(study), catalog);
  if (command.calibration) study = with_calibration(study, *command.calibration);
  if (study.rows.empty())
    throw NoResultError{study.file_name + ": no row can be predicted without step times of the study's own"};
  return study;
}

void check_calibration(const ValidateCommand& command, const Catalog& catalog) {
  if (!command.calibration || *command.calibration == kAutomaticProfile) return;
  const Json nobody;
  (void)catalog.profile(*command.calibration, JsonReader{nobody, "--calibration"});
}

Answer run(const ValidateCommand& command) {
  const Asked asked = read_asked(command);
  if (study_kind(load_json_file(command.study)) == "kernels") return validate_kernels(command);
  Catalog catalog = load_catalog(command.common);
  check_calibration(command, catalog);
  auto [studies, headlines] = load_study_set(command.study, command.measurements);
  for (Study& study : studies) leave_out_other_collectives(study, catalog);
  for (const Study& study : studies) say_remarks(study, catalog, command.common);
  for (Study& study : studies) study = as_asked(std::move(study), command, catalog);
  const auto made = make_folder(command.common.output);
  const bool is_set = studies.size() > 1;
  std::vector<StudyAccuracy> accuracies;
  std::vector<SampledRow> sample;
  Json summaries = Json::array();
  std::size_t rows = 0, rows_done = 0;
  for (const Study& study : studies) rows += study.rows.size();
  std::optional<FolderInParts> parts;  // a folder for each study, the table
  if (is_set && command.common.output) parts.emplace(*command.common.output);
  Answer answer;
  std::string notes;
  std::vector<std::string> unlikely;
  Progress progress{"measured rows", command.common.is_quiet};
  for (const Study& study : studies) {
    if (is_set) progress.note(", " + study.name);
    if (command.withholds_own_profiles || command.exchange == "predicted") {
      catalog = load_catalog(command.common);
      catalog.withhold_profiles(profiles_fitted_on(study, catalog));
    }
    const auto predictions = predict(
        study, catalog, pool_of(command.common),
        [&](std::size_t done, std::size_t total) {
          const std::size_t of_study = study.rows.size() * done / total;  // equal rows are simulated once
          progress.update(static_cast<std::int64_t>(rows_done + of_study), static_cast<std::int64_t>(rows));
        },
        command.common.budget);
    rows_done += study.rows.size();
    if (!is_set) require_result(study, predictions, catalog);
    const ValidatedStudy validated = validate_study(study, predictions, catalog, asked, command.common);
    notes += validated.notes();
    if (const auto remark = remark_on_scale(study, validated.validation.rows)) unlikely.push_back(*remark);
    if (command.common.output) validated.write(is_set ? *command.common.output / study.name : *command.common.output);
    if (is_set)
      summaries.push_back(validated.summary());
    else
      answer = validated.answer();
    accuracies.push_back(validated.accuracy);
    std::ranges::copy(validated.sample(), std::back_inserter(sample));
  }
  const std::string tables = accuracy_tables(accuracies), lines = headline_table(headlines, accuracies);
  if (is_set && command.common.output) {
    write_file(*command.common.output / "accuracy.md", tables);
    write_file(*command.common.output / "sample.csv", sampled_rows_csv(sample));
    if (!lines.empty()) write_file(*command.common.output / "headlines.md", lines);
  }
  if (parts) parts->finish();
  progress.clear();
  print_warnings(unlikely, command.common.is_quiet);
  if (is_set)
    answer = {.json = to_json_text(summaries), .parts = {tables + "\n", lines + (lines.empty() ? "" : "\n") + notes}};
  if (command.common.output) add_written(answer, command.common, *command.common.output);
  return answer;
}

}  // namespace

CommandVerb validate_verb() {
  return make_verb<ValidateCommand>("validate",
                                    "Simulate every measured row of a study; print the errors\n\n"
                                    "Example: rehearse validate scenarios/studies/cm-dare-cluster.json -o results\n"
                                    "Example: rehearse validate scenarios/studies/cm-dare-cluster.json --baselines",
                                    add_options, run);
}

}  // namespace rehearse
