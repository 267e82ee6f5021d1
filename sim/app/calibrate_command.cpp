// rehearse calibrate: a profile's free values from the measurements of studies.

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "calibration/fit.hpp"
#include "calibration/measured_gpus.hpp"
#include "calibration/study.hpp"
#include "platforms/catalog.hpp"
#include "sim/app/calibrate_command.hpp"
#include "sim/app/executor.hpp"
#include "sim/app/output/fit_document.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/setup.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

void add_options(Options options, CalibrateCommand& command) {
  options.add_option("STUDY", command.studies, "Study files").required();
  options.add_option("-o,--output", command.common.output, "PROFILE", "The fitted profile (default: print it)");
  options.add_count("--steps", command.most_steps, 0, 1000,
                    "Most steps of the fit (default: 20); 0 keeps the profile's values and finds their intervals and "
                    "errors");
  options.add_count("--bootstrap", command.bootstrap, 1, 1'000'000,
                    "Also print 95 % intervals from N resamplings of the rows, and of the cross-validation's folds, "
                    "linearised around the fit (default: none)");
  options.add_option("--report", command.report, "FILE",
                     "Write a page with plots here: measured against simulated, residuals, values (default: none)");
  add_json(options, command.common, "Print the fitted profile, also with -o; what is said of the fit goes to stderr");
  add_quiet(options, command.common);
  add_catalogs(options, command.common);
  add_parallel(options, command.common);
  add_wall_time(options, command.common);
}

Answer answer_of(const std::vector<Study>& studies, const Fit& fit) {
  Answer answer{.json = fit.profile};
  const auto named = [&](const std::string& name, const std::string& text) { answer.row("%-34s %s", {name, text}); };
  answer.line(std::to_string(fit.values.size()) + (fit.values.size() == 1 ? " value" : " values") + " fitted to " +
              std::to_string(fit.rows) + " rows by " + std::to_string(fit.simulations) + " simulations");
  for (const FittedValue& value : fit.values) {
    const auto row = [&](const std::string& pointer, const std::string& number, const std::string& text) {
      answer.row("%-34s %14s   %s", {pointer, number, text});
    };
    row(value.pointer, value.value, "95 %: " + value.interval.low + " to " + value.interval.high);
    if (value.by_rows && value.by_folds)
      row("", "",
          "bootstrap over rows: " + value.by_rows->low + " to " + value.by_rows->high +
              ", over folds: " + value.by_folds->low + " to " + value.by_folds->high);
  }
  for (std::size_t s = 0; s < studies.size(); ++s)
    for (const auto& [statistics, what] :
         {std::pair{&fit.in_sample[s], "seen by the fit"}, std::pair{&fit.predicted[s], "not seen by the fit"}})
      if (statistics->rows > 0)
        named(studies[s].name, formatted("MAPE %.2f %% over %zu rows (%s)", statistics->mape, statistics->rows, what));
  const auto errors = [](const ErrorStatistics& of) {
    return formatted("MAPE %.2f %%, median %.2f %%, p90 %.2f %%, ", of.mape, of.median_ape, of.p90_ape);
  };
  for (const CrossValidation& validation : fit.cross_validated) {
    named(validation.study, errors(validation.all) + "leaving one (" + joined(validation.left_out_by) + ") out");
    for (const auto& [label, statistics] : validation.groups)
      answer.row("    %-30s %s", {label, errors(statistics) + std::to_string(statistics.rows) + " rows"});
  }
  if (fit.uncertainty.residual > 0)
    answer.line(formatted("intervals of 90 %% hold %.1f %% of %zu rows, each by the errors of the others",
                          100 * fit.interval_coverage, fit.interval_rows));
  return answer;
}

Answer run(const CalibrateCommand& command) {
  for (const fs::path& path : command.studies)
    if (const std::string kind = study_kind(load_json_file(path)); kind == "training_logs")
      return calibrate_training_logs(command);
    else if (kind == "lifetimes")
      return calibrate_lifetimes(command);
    else if (kind == "kernels")
      return calibrate_kernels(command);
  const Catalog catalog = load_catalog(command.common);
  std::vector<Study> studies;
  for (const fs::path& path : command.studies)
    for (Study& study : load_studies(path)) studies.push_back(std::move(study));
  for (const Study& study : studies)
    if (study.profile_name != studies.front().profile_name)
      throw InputError{study.file_name + ": its scenario uses profile " + in_quotes(study.profile_name) +
                       ", the first study's uses " + in_quotes(studies.front().profile_name)};
  for (Study& study : studies) leave_out_other_collectives(study, catalog);
  for (const Study& study : studies) say_remarks(study, catalog, command.common);
  const Json base = load_json_file(studies.front().scenario_file);
  const JsonReader profile = catalog.profile(studies.front().profile_name,
                                             JsonReader{base, studies.front().scenario_file}.child("calibration"));
  const auto made = make_folder_of(command.common.output), made_for_report = make_folder_of(command.report);

  std::optional<Progress> stage;
  const Fit fit = fit_profile(studies, profile.value(), profile.file_name(), catalog,
                              {.pool = pool_of(command.common),
                               .most_steps = command.most_steps,
                               .bootstrap_draws = command.bootstrap,
                               .command = command.common.command_line,
                               .on_progress =
                                   [&](const std::string& line) {
                                     if (!command.common.is_quiet) say(line);
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
  Answer answer = answer_of(studies, fit);
  for (const auto& [file, content] : files) add_written(answer, command.common, file);
  answer = of_fit(command.common, std::move(answer));
  for (const std::string& warning : fit.warnings) add_warning(answer, warning);
  return answer;
}

}  // namespace

void say_remarks(const Study& study, const Catalog& catalog, const CommonOptions& common) {
  if (common.is_quiet) return;
  std::vector<std::string> remarks = study.remarks;
  std::ranges::move(other_gpu_remarks(study, catalog), std::back_inserter(remarks));
  print_warnings(remarks);
}

Answer of_fit(const CommonOptions& common, Answer answer) {
  if (common.output && !common.prints_json) return answer;
  std::string about = to_text(answer);
  if (about.ends_with('\n')) about.pop_back();  // which each remark has
  if (!about.empty()) answer.remarks.push_back(std::move(about));
  answer.parts = {answer.json};
  return answer;
}

CommandVerb calibrate_verb() {
  return make_verb<CalibrateCommand>("calibrate",
                                     "Fit the profile's free values to the measurements of studies; print "
                                     "them with intervals, and the errors of cross-validated predictions\n\n"
                                     "Example: rehearse calibrate scenarios/studies/cm-dare-cluster.json "
                                     "scenarios/studies/cm-dare-single-worker.json -o my-profile.json",
                                     add_options, run);
}

}  // namespace rehearse
