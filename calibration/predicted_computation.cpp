#include "calibration/predicted_computation.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "platforms/catalog.hpp"

namespace rehearse {

using nlohmann::literals::operator""_json_pointer;

namespace {

/// Durations stand in its layers' place, of which a step time gives the length: no kernels follow from them.
bool is_timed(const Json& scenario, const Study& study, const Catalog& catalog) {
  const Json* model = json_pointer_find(scenario, "/workload/model");
  if (model == nullptr) return false;
  if (model->is_string() && std::ranges::count(catalog.model_names(), model->get<std::string>()) > 0)
    model = &catalog.model(model->get<std::string>(), JsonReader{scenario, study.scenario_file}).value();
  const Json* family = json_pointer_find(*model, "/structure/family");
  return family != nullptr && *family == "timed_layers";
}

}  // namespace

Json with_computation_by_kernels(Json profile, const Catalog& catalog, const std::string& file_name) {
  const Json asked = Json::object();
  const Json& kernels = catalog.profile("kernels", JsonReader{asked, file_name}).value();
  for (const char* computation : {"host", "gpu", "step_times", "fit"}) profile.erase(computation);
  for (const char* computation : {"kernels", "frameworks"})
    if (kernels.contains(computation)) profile[computation] = kernels[computation];
  profile["name"] = profile["name"].get<std::string>() + ", computation by kernels";
  return profile;
}

Study without_step_times(const Study& study, const Catalog& catalog) {
  Study predicted = study;
  for (StudyRow& row : predicted.rows) {
    for (const auto& [where, reason] : study.only_by_step_times)
      if (row.fits(where)) {
        row.scenario.clear();
        row.problem = reason;
      }
    if (row.scenario.empty()) continue;
    Json scenario = parse_json(row.scenario, study.scenario_file);
    if (is_timed(scenario, study, catalog)) {
      row.scenario.clear();
      row.problem = "the model has durations instead of layers, so that only step times tell of its computation";
      continue;
    }
    if (!study.predicted_framework.empty()) scenario["workload"]["framework"] = study.predicted_framework;
    if (!scenario["workload"].contains("copies_input")) scenario["workload"]["copies_input"] = false;
    row.scenario = to_json_text(scenario);
  }
  return predicted;
}

Study without_unmapped_rows(Study study) {
  for (const StudyRow& row : study.rows) {
    if (!row.scenario.empty()) continue;
    auto known = std::ranges::find(study.excluded, row.problem, &ExcludedRows::reason);
    if (known == study.excluded.end()) known = study.excluded.insert(known, {.reason = row.problem, .lines = {}});
    known->lines.push_back(row.row.line());
  }
  std::erase_if(study.rows, [](const StudyRow& row) { return row.scenario.empty(); });
  return study;
}

Study without_own_profiles(Study study, const Catalog& catalog) {
  if (profile_of(study, catalog).contains("step_times"))
    study = without_unmapped_rows(without_step_times(study, catalog));
  return with_calibration(std::move(study), kAutomaticProfile);
}

Study with_predicted_computation(const Study& study, const Catalog& catalog) {
  Json own = profile_of(study, catalog);
  own["name"] = study.profile_name;
  return with_calibration(without_step_times(study, catalog),
                          with_computation_by_kernels(std::move(own), catalog, study.file_name));
}

Study with_predicted_exchange(const Study& study, const Catalog& catalog) {
  Json profile = profile_of(study, catalog);
  for (const char* exchange : {"network", "servers", "collectives"}) profile.erase(exchange);
  if (profile.contains("/fit/seen/exchanges"_json_pointer)) profile["fit"]["seen"]["exchanges"] = Json::array();
  profile.erase("prediction");
  if (profile.contains("/fit/spread"_json_pointer)) profile["fit"]["spread"]["components"] = Json::array();
  profile["name"] = study.profile_name + ", exchange from elsewhere";
  Study predicted = with_calibration(study, profile);
  predicted.profile_name = kAutomaticProfile;
  return predicted;
}

std::size_t PredictedComputation::rows_without() const {
  std::size_t rows = 0;
  for (const ExcludedRows& some : without) rows += some.lines.size();
  return rows;
}

PredictedComputation score_predicted_computation(const Study& study, StudyQuality::Of quality,
                                                 const std::vector<Prediction>& predictions) {
  PredictedComputation predicted;
  const Validation validation = validate(study, predictions);
  std::vector<ValidationRow> rows;
  std::vector<std::optional<double>> noise;
  for (std::size_t i = 0; i < study.rows.size(); ++i) {
    const ValidationRow& row = validation.rows[i];
    predicted.values.push_back(row.simulated);
    if (!is_scored(study.rows[i], quality)) continue;
    if (row.simulated) {
      rows.push_back(row);
      noise.push_back(study.rows[i].noise);
      continue;
    }
    const auto known = std::ranges::find(predicted.without, row.problem, &ExcludedRows::reason);
    (known == predicted.without.end() ? predicted.without.emplace_back(ExcludedRows{row.problem, {}}) : *known)
        .lines.push_back(study.rows[i].row.line());
  }
  predicted.errors = error_statistics(rows, noise);
  return predicted;
}

bool interpolates(std::size_t step_times, std::size_t rows) { return 3 * step_times > rows; }

Json to_json(const PredictedComputation& predicted) {
  Json json = to_json(predicted.errors), without = Json::object();
  for (const auto& [reason, lines] : predicted.without) without[reason] = lines;
  json["without"] = std::move(without);
  return json;
}

}  // namespace rehearse
