#pragma once
// A study: which measured rows, how each becomes a scenario, and what is predicted. Start here to read calibration/.

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "platforms/catalog.hpp"
#include "sim/base/budget.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/expression.hpp"
#include "sim/base/json.hpp"
#include "sim/pool/pool.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// A formula over the columns of a row, and where it is written.
struct RowFormula {
  Expression expression;
  std::string place;
};

/// Which rows: those of which each of these columns has one of its values, and for which the condition over columns holds.
struct RowFilter {
  std::map<std::string, std::vector<std::string>> values{};
  std::optional<RowFormula> condition{};
};

/// What a row is for.
enum class RowUse {
  kStepTime,   // gives a step time to the profile: an input, not a test
  kFitted,     // seen by the fit
  kPredicted,  // not seen
};

/// A measured row and the scenario that repeats it.
struct StudyRow {
  CsvRow row;
  std::string scenario{};  // JSON text; empty if the row cannot be mapped
  JsonOrigins origins{};   // what the study has set in it
  std::string problem{};   // why it cannot
  RowUse use = RowUse::kPredicted;
  double measured = 0;
  std::optional<double> noise{};        // standard deviation, in the unit of `measured`
  std::optional<double> trials{};       // of which `measured` is the share with an outcome
  std::optional<double> probability{};  // of a sample's value: `measured` is to be compared with this quantile

  /// Of a training log: samples of a step and GPUs of the job that it was written by, which the scenario must have.
  std::optional<double> logged_batch{}, logged_gpus{};

  bool fits(const RowFilter& filter) const;
};

/// Two sets of rows whose mean values are compared as a ratio, measured and simulated.
struct StudyRatio {
  std::string label;
  RowFilter numerator, denominator;
};

/// A value of the profile that a fit may change: a number, or a time or rate with its unit.
struct FreeValue {
  std::string pointer;   // into the profile
  std::string min, max;  // in the value's unit, "1us"; empty: as far as the profile's reader allows
  /// What the value is expected to be without measurements, in its unit, or a pointer to another value; empty: nothing.
  std::string prior;
  double prior_factor = 2;  // by which it may well be more or less
  std::string place;        // "study.json: /fit/free/3", for messages
};

/// What taking the row that simulates best costs, over the choices of a study (Study::choice_by).
struct ChoiceStatistics {
  std::size_t choices = 0;
  /// Over the choices: by how much the row taken is worse than the best one, as measured, in percent of the best one's time.
  double median_regret_pct = 0, mean_regret_pct = 0;
  std::optional<double> rank_correlation{};  // mean over the choices of that of measured and simulated values
};

/// Errors of another tool on rows of the study, in percent, as calibration/data/peers has them; absent: not stated.
struct PeerErrors {
  std::string peer;
  std::size_t rows = 0;  // that it answered
  double mape = 0;
  std::optional<double> median, p90;
  std::optional<ChoiceStatistics> choices{};
};

/// What the table over all studies says.
struct StudyAbout {
  std::string source, hardware, best_published;  // the last: error that others state on like data, and where
};

/// Rows that a study leaves out.
struct ExcludedRows {
  std::string reason;
  std::vector<std::size_t> lines;  // of the measurements' file
};

struct Study {
  std::string name;  // the file's name without folder and ending; of one of several targets followed by its metric
  std::string file_name;
  std::string scenario_file;
  std::string measurements_file;
  std::string profile_name;               // of the base scenario
  std::string own_profile{};              // the same, whatever with_calibration() makes of it; empty: it names none
  std::shared_ptr<const CsvTable> table;  // rows refer to it
  std::vector<std::string> remarks;       // what is to be said of the measurements, a line each
  std::string gpu_column;                 // with the names that drivers give GPUs; empty: none
  bool is_of_collectives = false;         // Measurements::is_of_collectives
  std::vector<StudyRow> rows;             // after exclusions
  std::vector<ExcludedRows> excluded;
  std::string target_column;
  std::string metric;  // metric.hpp
  std::string traces;  // a trace or a folder of them, that are replayed for it; empty: none
  /// The columns of "sample_of": rows that agree in them and in their use are a sample of one distribution. The i-th
  /// smallest of its n values is compared with the simulated distribution's quantile at (i - 1/2) / n. Empty: each row
  /// is a value by itself.
  std::vector<std::string> sample_of;
  std::optional<double> quantile;  // of the simulated distribution, that rows are compared with; none: its mean
  std::vector<std::string> group_by;
  std::string curve_x;  // column; empty if the study has no curves
  std::vector<std::string> curve_by;
  std::vector<StudyRatio> ratios;
  /// Rows that agree in these columns do the same work in other ways, of which a user would take the best. Empty: no choices.
  std::vector<std::string> choice_by;
  StudyAbout about;
  std::vector<PeerErrors> peers;
  std::vector<FreeValue> free;
  /// Rows whose computation only step times tell, such as those of another sequence length than the model's, and why.
  std::vector<std::pair<RowFilter, std::string>> only_by_step_times;
  /// Label of the framework that a predicted computation runs in, instead of the one that finds the step times; empty: that one.
  std::string predicted_framework;
  std::vector<std::string> cross_validate;  // columns whose combinations are left out in turn
  /// Columns whose combinations are left out in turn for the errors that the interval is made of: what a new row may share
  /// with none of those fitted, such as the session in which rows were measured. Empty: those of cross_validate.
  std::vector<std::string> interval_by;
  bool leaves_out_of_all_studies = true;  // otherwise other studies keep their rows of the same combination
};

/// Studies of a set whose errors are told in one line.
struct Headline {
  std::string of;                    // what they measure
  std::vector<std::string> studies;  // their names
};

struct StudySet {
  std::vector<Study> studies;
  std::vector<Headline> headlines;
};

std::string to_text(RowUse use);  // "step_time", "fitted", "predicted"
/// FNV-1a of the measurements' file, in hexadecimal.
std::string measurements_hash(const Study& study);
bool has_use(const Study& study, RowUse use);

/// JSON Schemas (draft 2020-12) of a study, and of a set of them.
std::string study_schema();
std::string study_set_schema();

/// The "kind" of a study file: "lifetimes" (lifetime_study.hpp), "training_logs" (training_fit.hpp); empty for the
/// studies of this header.
std::string study_kind(const Json& file);

/// Reads a study, or each study of a set, with its measurements and base scenario; one with a list of targets becomes a
/// study of each. `measurements` replaces the file of
/// measurements by another of the same format. Throws InputError.
StudySet load_study_set(const std::filesystem::path& path,
                        const std::optional<std::filesystem::path>& measurements = {});
std::vector<Study> load_studies(const std::filesystem::path& path,
                                const std::optional<std::filesystem::path>& measurements = {});

/// The profile file's value that the study's scenario names or contains; an empty object if every row has one of its own
/// ("auto").
Json profile_of(const Study& study, const Catalog& catalog);

/// The study with another profile in every row's scenario: a name, "auto" or the profile itself.
Study with_calibration(Study study, const Json& calibration);

/// Profiles that were fitted on rows of the study: by the study that "fit" names, its measurements, or the same values; and its
/// own, if that does not say what it was fitted on.
std::set<std::string> profiles_fitted_on(const Study& study, const Catalog& catalog);

struct Prediction {
  std::optional<double> value;
  std::string problem;    // why there is none
  std::string profile{};  // by which it was made
  std::string kind{};     // to_text(PredictionKind)
  /// What a predicted speed is multiplied by for the ends of its interval of 90 %, without what the uncertainty of the
  /// profile's values adds; none if the profile states no errors.
  std::optional<std::pair<double, double>> interval{};
};

/// The scenario of a row, without noise: workers for whose starts it has no time begin evenly spread over a step. Throws
/// InputError, also if it has another batch or other GPUs than the log that the row was measured by.
Scenario read_row(const StudyRow& row, const std::string& file_name, const Catalog& catalog);

/// GPUs of the workers that a training begins with.
double gpus_of_workers(const Scenario& scenario);

/// What a log of a training says otherwise than the scenario, of samples of a step (of a worker, if it is asynchronous) and
/// GPUs: "the log is of a training with 16 GPUs, the scenario has 8"; empty if nothing.
std::string log_contradiction(const std::optional<double>& batch, const std::optional<double>& gpus,
                              const Scenario& scenario);

/// Simulates the scenario of each row at its probability, equal ones once, empty ones not at all.
/// `on_done(finished, total)` is called after each. Once `budget` is over, its stop() ends the call.
std::vector<Prediction> predict(const Study& study, const Catalog& catalog, const Pool& pool,
                                const std::function<void(std::size_t, std::size_t)>& on_done = {},
                                const Budget& budget = {});

}  // namespace rehearse
