// `rehearse validate` and `rehearse calibrate` on a study of kind "kernels": times of kernels on GPUs that the fit has
// not seen, and the values of a profile.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "calibration/baselines.hpp"
#include "calibration/kernel_study.hpp"
#include "platforms/profile.hpp"
#include "sim/app/calibrate_command.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/validate_command.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/output_folder.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

constexpr double kLongEnough = 20e-6;  // s: of shorter kernels a good part is launch

/// Errors of one way to predict over the rows that a filter takes; of no row where nothing was predicted that way.
template <class Filter>
ErrorStatistics errors(const KernelStudy& study, const std::vector<double>& predicted, Filter is_taken) {
  std::vector<ValidationRow> rows;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    if (!is_taken(study.rows[i])) continue;
    const double measured = study.rows[i].measured;
    rows.push_back({.measured = measured,
                    .simulated = predicted[i],
                    .error_pct = 100 * (predicted[i] / measured - 1),
                    .problem = {}});
  }
  return error_statistics(rows, std::vector<std::optional<double>>(rows.size()));
}

struct Line {
  std::string label;
  ErrorStatistics model, with_host, roofline, nearest;
  std::string table;  // that it is a part of, which its label does not say; empty: of all tables

  /// Unlike the label, a name that no other line has.
  std::string key() const { return table.empty() ? label : table + ", " + label; }
};

/// Names of the groups of a table's rows, by column and in the order of the rows.
std::vector<std::string> groups_of(const KernelStudy& study, std::size_t table) {
  std::vector<std::string> names;
  std::size_t columns = 0;
  for (const KernelRow& row : study.rows)
    if (row.table == table) columns = row.groups.size();
  for (std::size_t column = 0; column < columns; ++column)
    for (const KernelRow& row : study.rows)
      if (row.table == table && std::ranges::find(names, row.groups[column]) == names.end())
        names.push_back(row.groups[column]);
  return names;
}

/// All rows, those above 20 us, and both for each GPU and table; groups of tables.
std::vector<Line> lines_of(const KernelStudy& study, const KernelPredictions& predictions) {
  std::vector<Line> lines;
  const auto add = [&](const std::string& label, auto is_taken, const std::string& table = {}) {
    Line line{.label = label,
              .model = errors(study, predictions.model, is_taken),
              .with_host = errors(study, predictions.with_host, is_taken),
              .roofline = errors(study, predictions.roofline, is_taken),
              .nearest = errors(study, predictions.nearest, is_taken),
              .table = table};
    if (line.model.rows > 0) lines.push_back(std::move(line));
  };
  const bool has_short =
      std::ranges::any_of(study.rows, [](const KernelRow& row) { return row.measured <= kLongEnough; });
  const auto add_both = [&](const std::string& label, auto is_taken) {
    add(label, is_taken);
    if (!has_short) return;
    add(label + ", above 20 us", [&](const KernelRow& row) { return is_taken(row) && row.measured > kLongEnough; });
  };
  add_both("all", [](const KernelRow&) { return true; });
  const std::size_t gpus = study.gpus.size() > 1 ? study.gpus.size() : 0;  // one is all there is
  for (std::size_t gpu = 0; gpu < gpus; ++gpu)
    add_both(study.gpus[gpu].name, [gpu](const KernelRow& row) { return row.gpu == gpu; });
  for (std::size_t table = 0; table < study.tables.size(); ++table) {
    if (study.tables.size() > 1) {
      add(study.tables[table], [table](const KernelRow& row) { return row.table == table; });
      for (std::size_t gpu = 0; gpu < gpus; ++gpu)
        add(
            study.gpus[gpu].name, [=](const KernelRow& row) { return row.table == table && row.gpu == gpu; },
            study.tables[table]);
    }
    for (const std::string& group : groups_of(study, table))
      add(
          group,
          [&group, table](const KernelRow& row) {
            return row.table == table && std::ranges::find(row.groups, group) != row.groups.end();
          },
          study.tables[table]);
  }
  return lines;
}

std::string csv_of(const KernelStudy& study, const KernelPredictions& predictions) {
  const auto at = [](const std::vector<double>& times, std::size_t row) { return times.empty() ? NAN : times[row]; };
  CsvWriter csv{
      {"table", "line", "gpu", "measured_s", "predicted_s", "error_pct", "with_host_s", "roofline_s", "nearest_s"}};
  for (std::size_t i = 0; i < study.rows.size(); ++i) {
    const KernelRow& row = study.rows[i];
    csv.row({study.tables[row.table], static_cast<unsigned long>(row.line), study.gpus[row.gpu].name, row.measured,
             predictions.model[i], 100 * (predictions.model[i] / row.measured - 1), at(predictions.with_host, i),
             predictions.roofline[i], at(predictions.nearest, i)});
  }
  return csv.text();
}

/// Power with the measured time, and what the board's limit says instead.
struct PowerLine {
  std::string label;
  ErrorStatistics model, limit;
};

std::vector<PowerLine> power_lines_of(const KernelStudy& study) {
  std::vector<PowerLine> lines;
  const std::vector<double> predicted = predict_power(study);
  for (const auto& [label, least] :
       {std::pair{"power", 0.0}, {"power, above 20 us", 20e-6}, {"power, above 100 us", 100e-6}}) {
    std::vector<ValidationRow> by_model, by_limit;
    for (std::size_t i = 0; i < study.rows.size(); ++i) {
      const KernelRow& row = study.rows[i];
      if (!row.power || row.measured < least) continue;
      const auto add = [&](std::vector<ValidationRow>& to, double watts) {
        to.push_back(
            {.measured = *row.power, .simulated = watts, .error_pct = 100 * (watts / *row.power - 1), .problem = {}});
      };
      add(by_model, predicted[i]);
      add(by_limit, study.accelerators[row.gpu].power_w);
    }
    if (by_model.empty()) continue;
    const std::vector<std::optional<double>> none(by_model.size());
    lines.push_back({label, error_statistics(by_model, none), error_statistics(by_limit, none)});
  }
  return lines;
}

Json summary_of(const KernelStudy& study, const std::vector<Line>& lines, const std::vector<PowerLine>& powers) {
  Json groups = Json::object();
  for (const Line& line : lines) {
    Json& group = groups[line.key()] = {{"kernel_model", to_json(line.model)}, {"roofline", to_json(line.roofline)}};
    if (study.model) continue;
    group["kernel_model_with_host"] = to_json(line.with_host);
    group["nearest_row"] = to_json(line.nearest);
  }
  Json summary{{"study", study.name}, {"metric", "kernel_time_s"}};
  if (study.model)
    summary["profile"] = study.profile;
  else
    summary["left_out"] = study.folds;
  summary["errors"] = std::move(groups);
  for (const PowerLine& line : powers)
    summary["power_errors"][line.label] = {{"board_power", to_json(line.model)}, {"limit", to_json(line.limit)}};
  return summary;
}

/// Which GPUs are left out together: "A100; V100, V100 of 32 GB".
std::string folds_text(const KernelStudy& study) {
  std::map<std::string, std::string> members;
  for (std::size_t i = 0; i < study.gpus.size(); ++i) {
    std::string& names = members[study.folds[i]];
    names += (names.empty() ? "" : ", ") + study.gpus[i].name;
  }
  std::string text;
  for (const auto& [fold, names] : members) text += (text.empty() ? "" : "; ") + names;
  return text;
}

Answer answer_of(const KernelStudy& study, const std::vector<Line>& lines, const std::vector<PowerLine>& powers) {
  constexpr const char* kLayout = "%-46s %6s %15s %8s %8s %15s %15s %15s";
  Answer answer;
  answer.line(study.name + ": kernel_time_s, errors in %, median / p90 of their absolute values");
  answer.line(study.model ? "predicted by profile " + study.profile + " as it is"
                          : "each GPU predicted by a fit without it (left out together: " + folds_text(study) + ")");
  const bool has_hosts =
      !study.model && std::ranges::any_of(study.harnesses, [](const std::string& name) { return !name.empty(); });
  answer.row(kLayout, {"", "rows", "kernel model", "max", "bias", "roofline", study.model ? "" : "nearest row",
                       has_hosts ? "launch known" : ""});
  const auto both = [](const ErrorStatistics& errors) {
    return formatted("%6.1f / %6.1f", errors.median_ape, errors.p90_ape);
  };
  const auto row = [&](const std::string& label, const ErrorStatistics& model, double error) {
    return std::vector<std::string>{label, std::to_string(model.rows), both(model), formatted("%.1f", error),
                                    formatted("%+.1f", model.bias)};
  };
  for (const Line& line : lines) {
    std::vector<std::string> cells = row((line.table.empty() ? "" : "  ") + line.label, line.model, line.model.max_ape);
    cells.push_back(both(line.roofline));
    if (!study.model) cells.push_back(both(line.nearest));
    if (has_hosts) cells.push_back(both(line.with_host));
    answer.row(kLayout, std::move(cells));
  }
  if (!powers.empty())
    answer.row("with the measured time                          rows %15s %8s %8s %15s",
               {"board power", "MAPE", "bias", "board's limit"});
  for (const PowerLine& line : powers) {
    std::vector<std::string> cells = row(line.label, line.model, line.model.mape);
    cells.push_back(both(line.limit));
    answer.row(kLayout, std::move(cells));
  }
  if (has_hosts)
    answer.line("launch known: one number more of each GPU's host, the shortest time of its rows of a class");
  return answer;
}

/// The profile that a fit is going to replace, whose sections besides kernels, such as "frameworks", stay: no study of
/// kernels tells of them. Empty if there is none. Throws InputError if the file is another one.
Json profile_before(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return Json::object();
  Json json = load_json_file(file);
  (void)read_profile(JsonReader{json, file.string()});
  return json;
}

}  // namespace

Answer validate_kernels(const ValidateCommand& command) {
  if (command.measurements)
    throw InputError{command.study.string() + ": a study of kernels names its tables; --measurements is for others"};
  for (const std::string& name : command.baselines)
    if (name != name_in(kStudyBaselines, StudyBaseline::kRoofline) &&
        name != name_in(kStudyBaselines, StudyBaseline::kNearestRow))
      throw InputError{command.study.string() + ": --baseline " + name +
                       ": a study of kernels has roofline and nearest-row, and always prints both"};
  if (command.calibration || command.computation != "measured" || command.exchange != "fitted" ||
      command.withholds_own_profiles)
    throw InputError{
        command.study.string() +
        ": a study of kernels is predicted by fits of its own; --calibration, --computation, --exchange and "
        "--without-own-profiles are for others"};
  const Catalog catalog = load_catalog(command.common);
  const KernelStudy study = load_kernel_study(command.study, catalog);
  if (!study.model && std::set<std::string>{study.folds.begin(), study.folds.end()}.size() < 2)
    throw NoResultError{study.file_name + ": has nothing to fit where one GPU or architecture is left out"};
  const auto made = make_folder(command.common.output);
  Progress progress{"fits", command.common.is_quiet};
  const auto on_fold = [&](std::size_t done, std::size_t total) {
    progress.update(static_cast<std::int64_t>(done), static_cast<std::int64_t>(total));
  };
  const KernelPredictions predictions =
      study.model ? predict_by_profile(study) : cross_validate(study, {}, on_fold, command.common.budget);
  const std::vector<Line> lines = lines_of(study, predictions);
  const std::vector<PowerLine> powers = power_lines_of(study);
  Answer answer = answer_of(study, lines, powers);
  answer.json = to_json_text(summary_of(study, lines, powers));
  if (command.common.output) {
    OutputFolder files{*command.common.output};
    files.write("validation.csv", csv_of(study, predictions));
    files.write("summary.json", answer.json);
    files.commit();
    add_written(answer, command.common, *command.common.output);
  }
  return answer;
}

Answer calibrate_kernels(const CalibrateCommand& command) {
  if (command.report || command.bootstrap)
    throw InputError{std::string{"calibrate: "} + (command.report ? "--report" : "--bootstrap") +
                     " does not go with a study of kernels"};
  const Catalog catalog = load_catalog(command.common);
  const Json before = command.common.output ? profile_before(*command.common.output) : Json::object();
  const auto made = make_folder_of(command.common.output);
  Json profile;
  for (const fs::path& file : command.studies) {
    const KernelStudy study = load_kernel_study(file, catalog);
    if (study.model) throw InputError{study.file_name + ": /leave_out: nothing is fitted to its rows"};
    Json of_study = kernel_profile(study, command.common.command_line, command.common.budget);
    if (profile.is_null())
      profile = std::move(of_study);
    else
      for (const auto& [name, values] : of_study["kernels"].items()) {
        if (profile["kernels"].contains(name))
          throw InputError{study.file_name + ": kernels of class \"" + name + "\" are in a study before it, too"};
        profile["kernels"][name] = values;
      }
  }
  for (const auto& [section, values] : before.items())
    if (!profile.contains(section)) profile[section] = values;
  Answer answer{.json = to_json_text(profile)};
  if (command.common.output) {
    write_file(*command.common.output, answer.json);
    add_written(answer, command.common, *command.common.output);
  }
  return of_fit(command.common, std::move(answer));
}

}  // namespace rehearse
