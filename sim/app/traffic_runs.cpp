#include "sim/app/traffic_runs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>
#include <type_traits>

#include "platforms/catalog.hpp"
#include "sim/app/output/traffic_document.hpp"
#include "sim/app/output/traffic_figures.hpp"
#include "sim/app/output/traffic_tables.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/named.hpp"
#include "sim/base/names.hpp"
#include "sim/scenario/site.hpp"
#include "sim/traffic/messages.hpp"
#include "sim/traffic/run_name.hpp"

namespace rehearse {

namespace {

const std::vector<std::string>& factors() {
  static const std::vector<std::string> names{"framework", "batch", "topology"};
  return names;
}

void describe_by_name(TrafficOfRun& row) {
  const auto name = parse_run_name(row.name);
  if (!name) return;
  row.framework = name->framework_backend();
  row.model = name->model;
  row.optimizer = name->optimizer;
  row.topology = name->topology;
  row.batch_named = name->batch;
  row.batch_per_worker = name->batch_per_worker();
  row.loss_percent = name->loss_percent;
  if (const auto model = find_studied_model(name->model)) {
    row.catalogue_bytes = model->catalogue_bytes;
    row.trained_bytes = model->trained_bytes;
  }
}

constexpr double kStudiedLength = 0.25, kStudiedBin = 0.01;  // seconds of the rates that are drawn

TrafficFigures figures_of(const RunTraffic& run, const TrafficStatistics& statistics, double data_per_step) {
  const ObservedTraffic& traffic = run.traffic;
  TrafficFigures figures;
  if (traffic.pairs.empty() || !(data_per_step > 0)) return figures;
  const double steps = static_cast<double>(traffic.total.wire_bytes) / data_per_step;
  const HeatMap matrix = traffic_matrix(traffic);
  figures.hosts = matrix.rows;
  figures.matrix = matrix.values;
  for (std::vector<double>& row : figures.matrix)
    for (double& gigabytes : row) gigabytes *= 1e9 / steps;
  for (const TrafficFlow& flow : traffic.flows)
    figures.flow_sizes.push_back(static_cast<double>(flow.counts.wire_bytes) / steps);
  figures.pair = label_of(traffic, traffic.pairs.front());
  const auto factor = std::max<std::int64_t>(1, std::llround(kStudiedBin / statistics.bin_s));
  figures.bin_s = statistics.bin_s * static_cast<double>(factor);
  const double length = std::max(kStudiedLength, 3 * statistics.step_time_s);
  const std::int64_t end = traffic.bins.end(),
                     bins = std::min<std::int64_t>(end, std::llround(length / statistics.bin_s));
  const std::int64_t first = (end - bins) / 2;
  figures.gbps = rate_line(traffic, traffic.pairs.front().bins, "", {first, first + bins, factor}).y;
  return figures;
}

std::string why_not_in_regression(const TrafficOfRun& row) {
  if (!row.data_per_step) return "data per step is not known";
  if (!row.trained_bytes) return "the size of its model is not known";
  if (row.loss_percent > 0) return "packets were dropped";
  if (!row.is_simulated && row.optimizer != "adam") return "another optimizer than Adam";
  return {};
}

template <auto member>
Json member_of(const TrafficOfRun& run) {
  if constexpr (std::is_same_v<std::decay_t<decltype(run.*member)>, std::optional<double>>)
    return run.*member ? Json(*(run.*member)) : Json();
  else
    return Json(run.*member);
}

/// What files say of a run.
constexpr std::array kRunColumns{Named{"name", &member_of<&TrafficOfRun::name>},
                                 Named{"is_simulated", &member_of<&TrafficOfRun::is_simulated>},
                                 Named{"framework", &member_of<&TrafficOfRun::framework>},
                                 Named{"model", &member_of<&TrafficOfRun::model>},
                                 Named{"optimizer", &member_of<&TrafficOfRun::optimizer>},
                                 Named{"topology", &member_of<&TrafficOfRun::topology>},
                                 Named{"batch_named", &member_of<&TrafficOfRun::batch_named>},
                                 Named{"batch_per_worker", &member_of<&TrafficOfRun::batch_per_worker>},
                                 Named{"loss_percent", &member_of<&TrafficOfRun::loss_percent>},
                                 Named{"model_catalogue_B", &member_of<&TrafficOfRun::catalogue_bytes>},
                                 Named{"model_trained_B", &member_of<&TrafficOfRun::trained_bytes>},
                                 Named{"packets", &member_of<&TrafficOfRun::packets>},
                                 Named{"size_B", &member_of<&TrafficOfRun::wire_bytes>},
                                 Named{"retransmitted_B", &member_of<&TrafficOfRun::retransmitted_bytes>},
                                 Named{"flows", &member_of<&TrafficOfRun::flows>},
                                 Named{"pairs", &member_of<&TrafficOfRun::pairs>},
                                 Named{"duration_s", &member_of<&TrafficOfRun::duration_s>},
                                 Named{"training_s", &member_of<&TrafficOfRun::training_s>},
                                 Named{"step_time_s", &member_of<&TrafficOfRun::step_time_s>},
                                 Named{"period_s", &member_of<&TrafficOfRun::period_s>},
                                 Named{"data_per_step_B", &member_of<&TrafficOfRun::data_per_step>},
                                 Named{"mean_Gbps", &member_of<&TrafficOfRun::mean_gbps>},
                                 Named{"not_in_regression", &member_of<&TrafficOfRun::not_in_regression>}};
std::string cell(const std::optional<double>& value, double scale) { return value ? display(*value * scale) : "-"; }

Table runs_table(const std::vector<TrafficOfRun>& runs) {
  Table table{.header = {"run", "data per step, MB", "step, ms", "period, ms", "Gbit/s", "GB", "flows", "pairs",
                         "training, s", "batch of a worker"},
              .rows = {}};
  for (const TrafficOfRun& run : runs)
    table.rows.push_back(
        {printable(run.name), cell(run.data_per_step, 1e-6), run.step_time_s > 0 ? display(run.step_time_s * 1e3) : "-",
         cell(run.period_s, 1e3), cell(run.mean_gbps, 1), display(static_cast<double>(run.wire_bytes) / 1e9),
         std::to_string(run.flows), std::to_string(run.pairs), run.training_s > 0 ? display(run.training_s) : "-",
         run.batch_per_worker > 0 ? std::to_string(run.batch_per_worker) : "-"});
  return table;
}

Table terms_table(const Regression& fit) {
  Table table{.header = {"term", "MB", "from", "to"}, .rows = {}};
  for (const RegressionTerm& term : fit.terms)
    table.rows.push_back({term.name + (term.name == "model size" ? ", per MB" : ""), display(term.value),
                          display(term.low), display(term.high)});
  return table;
}

std::string fit_text(const TrafficRegression& regression) {
  std::string text = "Data per step, model size " + regression.size + ": " + std::to_string(regression.fit.rows) +
                     " runs, R^2 " + display(regression.fit.r_squared) + ", residual " +
                     display(regression.fit.residual) + " MB; intervals of 95 %";
  for (const std::string& name : regression.fit.dropped) text += "; " + name + " is told by the others";
  return text;
}

/// The slowest of runs that differ in packet loss alone tells what loss costs: times over the smallest.
Table loss_table(const std::vector<TrafficOfRun>& runs) {
  std::vector<const TrafficOfRun*> some;
  for (const TrafficOfRun& run : runs)
    if (run.training_s > 0 && !run.framework.empty()) some.push_back(&run);
  const auto job = [](const TrafficOfRun* run) {
    return std::tuple{run->framework, run->model, run->optimizer, run->batch_named, run->topology};
  };
  std::ranges::sort(some, {}, [&](const TrafficOfRun* run) { return std::pair{job(run), run->loss_percent}; });
  Table table{.header = {"framework", "model", "batch", "loss, %", "training, s", "of the fastest"}, .rows = {}};
  for (auto begin = some.begin(); begin != some.end();) {
    const auto end = std::find_if(begin, some.end(), [&](const TrafficOfRun* run) { return job(run) != job(*begin); });
    double least = (*begin)->training_s;
    for (auto it = begin; it != end; ++it) least = std::min(least, (*it)->training_s);
    const bool has_loss = (*std::prev(end))->loss_percent > 0;
    for (; begin != end; ++begin) {
      const TrafficOfRun& run = **begin;
      if (has_loss)
        table.rows.push_back({run.framework, run.model, std::to_string(run.batch_named), display(run.loss_percent),
                              display(run.training_s), display(run.training_s / least)});
    }
  }
  return table;
}

}  // namespace

std::string TrafficOfRun::setting() const {
  return framework.empty() ? name : framework + ", " + std::to_string(batch_named) + ", " + topology;
}

std::string rdma_warning(const Scenario& scenario) {
  if (!exchanges_by_rdma(scenario)) return {};
  return "machines of " + in_quotes(scenario.name) + " exchange by RDMA: packets, headers and acknowledgements are " +
         "counted as TCP would send them, " + std::to_string(kSegmentHeaders) + " bytes of headers to at most " +
         std::to_string(kMss) + " of payload; payload and times are those of the run";
}

void describe_by_scenario(TrafficOfRun& row, const Scenario& scenario) {
  row.is_simulated = true;
  row.framework = describe_strategy(scenario.training.strategy);
  row.topology = "simulated";
  row.batch_named = row.batch_per_worker = scenario.batch;
  if (const auto setting = parse_setting_name(scenario.name)) {
    row.framework = setting->framework_backend();
    row.topology = setting->topology;
    row.batch_named = setting->batch;
  }
  row.model = scenario.model.name;
  row.optimizer = to_text(scenario.optimizer);
  row.loss_percent = 100 * scenario.packet_loss;
  row.catalogue_bytes = row.trained_bytes = as_double(scenario.workload.parameter_bytes());
  if (const auto model = find_studied_model(row.model)) row.catalogue_bytes = model->catalogue_bytes;
  row.warning = rdma_warning(scenario);
}

void describe_by_traffic(TrafficOfRun& row, const RunTraffic& run, const TrafficStatistics& statistics) {
  const ObservedTraffic& traffic = run.traffic;
  row.packets = traffic.total.packets;
  row.wire_bytes = traffic.total.wire_bytes;
  row.retransmitted_bytes = traffic.total.retransmitted_bytes;
  row.flows = traffic.flows.size();
  row.pairs = traffic.pairs.size();
  row.duration_s = statistics.duration_s;
  row.training_s = statistics.training_s;
  row.step_time_s = statistics.step_time_s;
  if (statistics.all.period) row.period_s = statistics.all.period->seconds;
  row.data_per_step = statistics.data_per_step ? statistics.data_per_step : statistics.data_per_period;
  row.mean_gbps = statistics.all.mean_rate * 8 / 1e9;
  row.figures = figures_of(run, statistics, row.data_per_step.value_or(0));
}

Scenario scenario_of_run(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "scenario.json";
  return read_scenario(load_json_file(file), file.string(), Catalog{{}});
}

TrafficOfRun traffic_of_run(const std::filesystem::path& input, const RunTraffic& run,
                            const TrafficStatistics& statistics) {
  TrafficOfRun row{.name = run.name};
  describe_by_traffic(row, run, statistics);
  if (run.is_simulated)
    describe_by_scenario(row, scenario_of_run(input));
  else
    describe_by_name(row);
  return row;
}

TrafficRegressions regress_traffic(std::vector<TrafficOfRun>& runs) {
  TrafficRegressions result;
  for (TrafficOfRun& run : runs) run.not_in_regression = why_not_in_regression(run);
  const auto fit = [&](const std::string& size, std::optional<double> TrafficOfRun::*bytes) {
    std::vector<RegressionRow> rows;
    for (const TrafficOfRun& run : runs)
      if (run.not_in_regression.empty())
        rows.push_back({.name = run.name,
                        .response = *run.data_per_step / 1e6,
                        .size = *(run.*bytes) / 1e6,
                        .levels = {run.framework, std::to_string(run.batch_named), run.topology}});
    try {
      result.fits.push_back({size, regress(rows, factors())});
    } catch (const NoResultError& error) { result.problems.push_back("model size " + size + ": " + error.what()); }
  };
  fit("as listed in the catalogue", &TrafficOfRun::catalogue_bytes);
  fit("as trained", &TrafficOfRun::trained_bytes);
  return result;
}

std::string runs_csv(const std::vector<TrafficOfRun>& runs) {
  CsvWriter csv{names_in(kRunColumns)};
  for (const TrafficOfRun& run : runs) {
    std::vector<CsvField> fields;
    for (const auto& column : kRunColumns) {
      const Json value = column.value(run);
      fields.emplace_back(value.is_null()      ? ""
                          : value.is_boolean() ? std::to_string(value.get<bool>() ? 1 : 0)
                          : value.is_string()  ? value.get<std::string>()
                                               : value.dump());
    }
    csv.row(fields);
  }
  return csv.text();
}

std::string regression_csv(const TrafficRegressions& regressions) {
  CsvWriter csv{{"model_size", "term", "value", "low", "high", "runs", "r_squared", "residual_MB"}};
  for (const TrafficRegression& regression : regressions.fits)
    for (const RegressionTerm& term : regression.fit.terms)
      csv.row({regression.size, term.name, term.value, term.low, term.high, regression.fit.rows,
               regression.fit.r_squared, regression.fit.residual});
  return csv.text();
}

std::string runs_text(const std::vector<TrafficOfRun>& runs, const TrafficRegressions& regressions) {
  constexpr std::size_t kMostRows = 40;
  Table table = runs_table(runs);
  if (table.rows.size() > kMostRows) table.rows.resize(kMostRows);
  std::string text = to_text(table);
  if (runs.size() > kMostRows)
    text += "... and " + std::to_string(runs.size() - kMostRows) + " more, which runs.csv of -o and --json have\n";
  if (const Table loss = loss_table(runs); !loss.rows.empty()) text += "\n" + to_text(loss);
  for (const TrafficRegression& regression : regressions.fits)
    text += "\n" + fit_text(regression) + "\n" + to_text(terms_table(regression.fit));
  for (const std::string& problem : regressions.problems) text += "\nno regression, " + problem + "\n";
  return text;
}

Document runs_document(const std::vector<TrafficOfRun>& runs, const TrafficRegressions& regressions) {
  Document document{.title = "Traffic of " + std::to_string(runs.size()) + " runs",
                    .subtitle = "data per step, and what it follows from",
                    .sections = figures_of_runs(runs),
                    .verdict = regressions.fits.empty() ? "Too few runs to tell what the data of a step follow from."
                                                        : "Data per step: " + fit_text(regressions.fits.front()) + "."};
  document.sections.push_back({.title = "Runs", .tables = {runs_table(runs)}});
  if (Table loss = loss_table(runs); !loss.rows.empty())
    document.sections.push_back({.title = "Packet loss", .tables = {std::move(loss)}});
  Section section{.title = "Regression"};
  for (const TrafficRegression& regression : regressions.fits) {
    section.paragraphs.push_back(fit_text(regression) + ".");
    section.tables.push_back(terms_table(regression.fit));
  }
  for (const std::string& problem : regressions.problems) section.paragraphs.push_back(problem);
  Series points{.name = "runs", .x = {}, .y = {}, .is_points = true};
  for (const TrafficOfRun& run : runs)
    if (run.trained_bytes && run.data_per_step) {
      points.x.push_back(*run.trained_bytes / 1e6);
      points.y.push_back(*run.data_per_step / 1e6);
    }
  section.figures.emplace_back(Plot{.title = "Data per step over the model's size",
                                    .x_label = "MB of parameters, as trained",
                                    .y_label = "MB per step",
                                    .series = {std::move(points)}});
  document.sections.push_back(std::move(section));
  return document;
}

Json to_json(const std::vector<TrafficOfRun>& runs, const TrafficRegressions& regressions) {
  Json json{{"format", 1}, {"runs", Json::array()}, {"regressions", Json::array()}};
  for (const TrafficOfRun& run : runs) {
    Json& entry = json["runs"].emplace_back(Json::object());
    for (const auto& column : kRunColumns) entry[column.name] = column.value(run);
  }
  for (const TrafficRegression& regression : regressions.fits) {
    Json fit{{"model_size", regression.size},         {"runs", regression.fit.rows},
             {"r_squared", regression.fit.r_squared}, {"residual_MB", regression.fit.residual},
             {"dropped", regression.fit.dropped},     {"terms", Json::array()}};
    for (const RegressionTerm& term : regression.fit.terms)
      fit["terms"].push_back(
          Json{{"name", term.name}, {"value_MB", term.value}, {"low_MB", term.low}, {"high_MB", term.high}});
    json["regressions"].push_back(std::move(fit));
  }
  json["problems"] = regressions.problems;
  return json;
}

}  // namespace rehearse
