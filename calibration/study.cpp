#include "calibration/study.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "calibration/detail/row_formula.hpp"
#include "calibration/job_log.hpp"
#include "calibration/measurements.hpp"
#include "calibration/metric.hpp"
#include "calibration/replayed_metric.hpp"
#include "calibration/trace_measurements.hpp"
#include "platforms/catalog.hpp"
#include "sim/base/files.hpp"
#include "sim/base/named.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/pool/experiment.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

using nlohmann::literals::operator""_json_pointer;

bool StudyRow::fits(const RowFilter& filter) const {
  const auto look_up = [this](const std::string& name) { return value_of(row, name); };
  if (filter.condition &&
      !asked(*filter.condition, row, [&](const Expression& condition) { return condition.holds(look_up); }))
    return false;
  return std::all_of(filter.values.begin(), filter.values.end(), [this](const auto& column) {
    const std::string_view found = row.text(column.first);
    return std::find(column.second.begin(), column.second.end(), found) != column.second.end();
  });
}

std::string to_text(RowUse use) {
  constexpr std::array kUses{Named{"step_time", RowUse::kStepTime}, Named{"fitted", RowUse::kFitted},
                             Named{"predicted", RowUse::kPredicted}};
  return name_in(kUses, use);
}

std::string measurements_hash(const Study& study) {
  std::string content;
  for (const std::filesystem::path& file : measurement_files(study.measurements_file))
    content += read_file(file, 256 * kMiB);
  std::array<char, 17> hash{};
  std::snprintf(hash.data(), hash.size(), "%016llx", static_cast<unsigned long long>(fnv1a(content)));
  return hash.data();
}

bool has_use(const Study& study, RowUse use) {
  return std::any_of(study.rows.begin(), study.rows.end(), [use](const StudyRow& row) { return row.use == use; });
}

std::string study_kind(const Json& file) {
  if (!file.is_object() || !file.contains("kind") || !file["kind"].is_string()) return {};
  return file["kind"].get<std::string>();
}

Json profile_of(const Study& study, const Catalog& catalog) {
  if (study.profile_name == kAutomaticProfile) return Json::object();
  if (study.profile_name.empty()) {
    const auto mapped = std::ranges::find_if(study.rows, [](const StudyRow& row) { return !row.scenario.empty(); });
    return mapped == study.rows.end() ? Json::object()
                                      : parse_json(mapped->scenario, study.scenario_file).at("calibration");
  }
  const Json base = load_json_file(study.scenario_file);
  const JsonReader scenario{base, study.scenario_file};
  return catalog.profile(study.profile_name, scenario.has("calibration") ? scenario.child("calibration") : scenario)
      .value();
}

double gpus_of_workers(const Scenario& scenario) {
  double gpus = 0;
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker && !group.is_standby)
      gpus += static_cast<double>(group.workers()) * group.gpus_per_worker;
  return gpus;
}

std::string log_contradiction(const std::optional<double>& logged_batch, const std::optional<double>& logged_gpus,
                              const Scenario& scenario) {
  const double gpus = gpus_of_workers(scenario);
  const double batch = samples_per_update(scenario);
  const auto differ = [](const std::optional<double>& logged, double simulated) {
    return logged && std::abs(*logged - simulated) > 0.5;
  };
  std::string text;
  if (differ(logged_gpus, gpus)) text = to_text(*logged_gpus) + " GPUs, the scenario has " + to_text(gpus);
  if (differ(logged_batch, batch))
    text +=
        (text.empty() ? "" : "; ") + to_text(*logged_batch) + " samples in a step, the scenario has " + to_text(batch);
  return text.empty() ? text : "the log is of a training with " + text;
}

Scenario read_row(const StudyRow& row, const std::string& file_name, const Catalog& catalog) {
  Json json = parse_json(row.scenario, file_name);
  Scenario scenario = read_scenario(json, file_name, catalog, row.origins);
  if (const std::string text = log_contradiction(row.logged_batch, row.logged_gpus, scenario); !text.empty())
    throw InputError{text};
  if (scenario.training.starts != Starts::kInAStep) return scenario;
  json["training"]["start_interval"] = "even";
  return read_scenario(json, file_name, catalog, row.origins);
}

Study with_calibration(Study study, const Json& calibration) {
  if (calibration.is_string()) study.profile_name = calibration;
  for (StudyRow& row : study.rows) {
    if (row.scenario.empty()) continue;
    Json scenario = parse_json(row.scenario, study.scenario_file);
    scenario["calibration"] = calibration;
    row.scenario = to_json_text(scenario);
  }
  return study;
}

std::set<std::string> profiles_fitted_on(const Study& study, const Catalog& catalog) {
  const std::string measurements = measurements_hash(study);
  const Json nobody;
  const auto file_of = [&](const std::string& name) -> const Json& {
    return catalog.profile(name, JsonReader{nobody, study.file_name}).value();
  };
  std::set<std::string> names;
  std::set<Json> computations;  // and servers, of them
  const auto computation_of = [](const Json& profile) {
    return Json{profile.value("host", Json{}), profile.value("gpu", Json{}), profile.value("servers", Json{})};
  };
  for (const std::string& name : catalog.profile_names())
    for (const Json& fitted : file_of(name).value("/fit/studies"_json_pointer, Json::array()))
      if (fitted.value("measurements_fnv1a", "") == measurements || fitted.value("study", "") == study.name) {
        names.insert(name);
        if (file_of(name).contains("gpu")) computations.insert(computation_of(file_of(name)));
      }
  if (!study.own_profile.empty() && !file_of(study.own_profile).contains("fit")) names.insert(study.own_profile);
  for (const std::string& name : catalog.profile_names())
    if (computations.contains(computation_of(file_of(name)))) names.insert(name);
  return names;
}

namespace {

/// What the scenario says of a prediction, besides its value.
void describe(const Scenario& scenario, const std::string& metric, Prediction& prediction) {
  prediction.profile = scenario.profile.name;
  prediction.kind = to_text(scenario.prediction_kind);
  const PredictionUncertainty& errors = scenario.profile.uncertainty;  // of speeds
  if (errors.residual > 0 && is_speed(metric)) prediction.interval = errors.interval(0);
}

}  // namespace

std::vector<Prediction> predict(const Study& study, const Catalog& catalog, const Pool& pool,
                                const std::function<void(std::size_t, std::size_t)>& on_done, const Budget& budget) {
  // A scenario's text and, of a value of a sample, its probability.
  using Question = std::pair<std::string, std::optional<double>>;
  std::vector<Question> questions;
  for (const StudyRow& row : study.rows) questions.emplace_back(row.scenario, row.probability);
  std::vector<Question> distinct = questions;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::erase_if(distinct, [](const Question& question) { return question.first.empty(); });  // could not be mapped
  const auto scenario_of = [&](std::size_t i) {
    const auto asked_by = std::find(questions.begin(), questions.end(), distinct[i]) - questions.begin();
    return read_row(study.rows[static_cast<std::size_t>(asked_by)], study.scenario_file, catalog);
  };
  const Experiment experiment{distinct.size(), [&](std::size_t i) {
                                Json options{{"metric", study.metric}};
                                if (distinct[i].second) options["probability"] = *distinct[i].second;
                                if (!study.traces.empty()) options["traces"] = study.traces;
                                return kMeasure.job(scenario_of(i), std::move(options));
                              }};
  const auto results = experiment.run(pool, on_done, budget);
  std::vector<Prediction> made(distinct.size());  // but for their values
  std::map<std::size_t, Scenario> logged;         // those of rows of training logs
  for (std::size_t i = 0; i < distinct.size(); ++i)
    if (results[i].has_succeeded) describe(scenario_of(i), study.metric, made[i]);
  std::vector<Prediction> predictions;
  for (const Question& question : questions) {
    if (question.first.empty()) {
      predictions.push_back({});
      continue;
    }
    const auto at =
        static_cast<std::size_t>(std::lower_bound(distinct.begin(), distinct.end(), question) - distinct.begin());
    const PooledRun& result = results[at];
    Prediction prediction = made[at];
    const StudyRow& row = study.rows[predictions.size()];
    if (row.logged_batch || row.logged_gpus) {  // rows of other logs may have the same scenario
      if (!logged.contains(at) && result.has_succeeded) logged.emplace(at, scenario_of(at));
      if (const auto scenario = logged.find(at); scenario != logged.end())
        prediction.problem = log_contradiction(row.logged_batch, row.logged_gpus, scenario->second);
    }
    if (result.has_succeeded && prediction.problem.empty()) {
      double value = 0;
      std::from_chars(result.text.data(), result.text.data() + result.text.size(), value);
      prediction.value = value;
    } else if (!result.has_succeeded) {
      prediction.problem = result.text;
    }
    predictions.push_back(std::move(prediction));
  }
  return predictions;
}

}  // namespace rehearse
