#include "calibration/detail/fit_record.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "sim/base/parse_quantity.hpp"
#include "sim/base/statistics.hpp"
#include "sim/scenario/server_range.hpp"
#include "sim/scenario/training_facts.hpp"

namespace rehearse {

namespace {

double rounded(double value) { return std::round(value * 1e4) / 1e4; }

/// "2..9, 11": lines of a CSV file.
std::string ranges_text(const std::vector<std::size_t>& lines) {
  std::string text;
  for (std::size_t i = 0; i < lines.size();) {
    std::size_t last = i;
    while (last + 1 < lines.size() && lines[last + 1] == lines[last] + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(lines[i]);
    if (last > i) text += ".." + std::to_string(lines[last]);
    i = last + 1;
  }
  return text;
}

/// Signed relative errors of predictions at some percentiles.
Json error_quantiles(const std::vector<ValidationRow>& rows) {
  std::vector<double> errors;
  for (const ValidationRow& row : rows) errors.push_back(row.error_pct / 100);
  Json quantiles = Json::object();
  for (const int percent : {5, 10, 50, 90, 95})
    quantiles["p" + std::to_string(percent)] = rounded(percentile(errors, percent));
  return quantiles;
}

}  // namespace

Json seen_in(const std::vector<const Scenario*>& scenarios) {
  std::set<std::string> accelerators, models, frameworks;
  std::map<std::tuple<std::string, std::string, double, std::string>, SeenExchange> exchanges;
  int batch_min = 1 << 30, batch_max = 0, workers = 0, servers = 0;
  Bytes traffic{};
  for (const Scenario* one : scenarios) {
    const Scenario& scenario = *one;
    const TrainingFacts facts = facts_of(scenario);
    if (!facts.framework.empty()) frameworks.insert(facts.framework);
    if (facts.workers > 1 || facts.servers > 0) {
      const auto place = exchanges
                             .try_emplace({facts.strategy, facts.links, facts.nic.value(), facts.collective},
                                          SeenExchange{.payload_min = facts.payload})
                             .first;
      SeenExchange& exchange = place->second;
      exchange.workers_max = std::max(exchange.workers_max, facts.workers);
      exchange.payload_min = std::min(exchange.payload_min, facts.payload);
      exchange.payload_max = std::max(exchange.payload_max, facts.payload);
    }
    for (const Group& group : scenario.groups)
      if (group.accelerator) accelerators.insert(group.accelerator->name);
    models.insert(scenario.model.name);
    batch_min = std::min(batch_min, scenario.batch);
    batch_max = std::max(batch_max, scenario.batch);
    workers = std::max(workers, scenario.count(Role::kWorker));
    servers = std::max(servers, scenario.count(Role::kParameterServer));
    if (facts.nic > BytesPerSecond{}) traffic = std::max(traffic, server_traffic(scenario));
  }
  Json seen{{"accelerators", accelerators}, {"models", models},          {"batch_min", batch_min},
            {"batch_max", batch_max},       {"workers_max", workers},    {"servers_max", servers},
            {"frameworks", frameworks},     {"exchanges", Json::array()}};
  for (const auto& [place, all] : exchanges) {
    const auto& [strategy, links, nic, collective] = place;
    Json& exchange = seen["exchanges"].emplace_back(Json{{"strategy", strategy}});
    if (!links.empty()) exchange["links"] = links;
    if (nic > 0) exchange["nic"] = to_text(BytesPerSecond{nic});
    exchange["workers_max"] = all.workers_max;
    if (collective.empty()) continue;
    exchange["collective"] = {{"operation", collective},
                              {"payload_min", to_text(all.payload_min)},
                              {"payload_max", to_text(all.payload_max)}};
  }
  if (traffic > Bytes{}) seen["server_traffic_max"] = to_text(traffic);
  return seen;
}

namespace {

Json study_record(std::size_t s, const Fit& fit, const FittedRows& fitted) {
  const std::filesystem::path data{fitted.studies[s].measurements_file};
  std::vector<std::size_t> lines;
  const std::vector<RowSimulator::Row>& rows = fitted.simulator.rows();
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].study == s && fitted.counts[static_cast<Eigen::Index>(i)] > 0)
      lines.push_back(fitted.studies[s].rows[rows[i].row].row.line());
  return Json{{"study", fitted.studies[s].name},
              {"measurements", data.filename().string()},
              {"measurements_fnv1a", measurements_hash(fitted.studies[s])},
              {"rows", fit.in_sample[s].rows},
              {"fitted_lines", ranges_text(lines)},
              {"mape", rounded(fit.in_sample[s].mape)}};
}

void add_to(Json& record, const CrossValidation& validation) {
  record["left_out_by"] = validation.left_out_by;
  record["cross_validated"] = to_json(validation.all);
  for (const auto& [label, statistics] : validation.groups)
    record["cross_validated_mape_by_group"][label] = rounded(statistics.mape);
  record["cross_validated_error_quantiles"] = error_quantiles(validation.rows);
}

}  // namespace

Json fit_record(const Fit& fit, const FittedRows& fitted) {
  Json record;
  record["command"] = fitted.command;
  record["rows"] = fit.rows;
  record["free_values"] = fitted.free_values;
  Json& studies = record["studies"] = Json::array();
  for (std::size_t s = 0; s < fitted.studies.size(); ++s) {
    studies.push_back(study_record(s, fit, fitted));
    for (const CrossValidation& validation : fit.cross_validated)
      if (validation.study == fitted.studies[s].name) add_to(studies.back(), validation);
    for (const CrossValidation& validation : fit.left_out_for_interval)
      if (validation.study == fitted.studies[s].name)
        studies.back()["interval_left_out_by"] = Json{{"columns", validation.left_out_by},
                                                      {"mape", rounded(validation.all.mape)},
                                                      {"error_quantiles", error_quantiles(validation.rows)}};
  }
  if (fit.uncertainty.residual > 0) {
    Json components = Json::array();
    for (const auto& component : fit.uncertainty.components) {
      components.push_back(Json::object());
      for (const auto& [pointer, change] : component) components.back()[pointer] = rounded(change);
    }
    record["spread"] = Json{{"residual", rounded(fit.uncertainty.residual)},
                            {"low", rounded(fit.uncertainty.low)},
                            {"high", rounded(fit.uncertainty.high)},
                            {"components", std::move(components)}};
    record["interval_coverage"] = rounded(fit.interval_coverage);
    record["interval_rows"] = fit.interval_rows;
  }
  Json& values = record["values"] = Json::array();
  for (const FittedValue& value : fit.values)
    values.push_back(Json{{"pointer", value.pointer},
                          {"value", value.value},
                          {"low_95", value.interval.low},
                          {"high_95", value.interval.high}});
  std::vector<const Scenario*> scenarios;
  for (std::size_t i = 0; i < fitted.simulator.rows().size(); ++i) scenarios.push_back(&fitted.simulator.scenario(i));
  record["seen"] = seen_in(scenarios);
  return record;
}

}  // namespace rehearse
