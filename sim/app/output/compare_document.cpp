#include "sim/app/output/compare_document.hpp"

#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "sim/app/any_predictor.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {

Json to_json(const Score& score) {
  Json labels = Json::object();
  for (const LabelScore& label : score.labels)
    labels[label.label] = {{"samples", label.samples},
                           {"on_scale", label.on_scale},
                           {"median_ape", label.median_ape},
                           {"by_model_ape", label.by_model_ape},
                           {"models", label.models},
                           {"mape", label.mape},
                           {"p90_ape", label.p90_ape},
                           {"by_model_mape", label.by_model_mape},
                           {"r2", label.r2}};
  return {{"median_ape", score.median_ape},
          {"by_model_ape", score.by_model_ape},
          {"mape", score.mape},
          {"by_model_mape", score.by_model_mape},
          {"samples", score.samples},
          {"models", score.models},
          {"worst_median_ape", score.worst_median_ape},
          {"r2", score.r2},
          {"on_scale", score.on_scale},
          {"labels", std::move(labels)}};
}

std::vector<std::string> summary_row(const std::string& name, const Score& score) {
  return {name,
          std::to_string(score.samples),
          std::to_string(score.models),
          display(score.median_ape),
          display(score.by_model_ape),
          display(score.mape),
          display(score.by_model_mape),
          display(score.worst_median_ape),
          display(score.r2)};
}

/// "models" are pairs of model and study where samples were measured; they count alike in "mean of models", of the medians of
/// each, and in "MAPE, mean of models", of the means of each.
const std::vector<std::string> kSummaryColumns{
    "predictor",       "samples", "models", "median APE, %", "mean of models, %", "MAPE, %", "MAPE, mean of models, %",
    "worst metric, %", "R2"};

Table summary_of(std::span<const Contender> contenders) {
  Table table{.header = kSummaryColumns, .rows = {}};
  for (const Contender& contender : contenders) table.rows.push_back(summary_row(contender.name, contender.score));
  return table;
}

Table studies_of(std::span<const Contender> contenders) {
  Table table{.header = kSummaryColumns, .rows = {}};
  table.header.insert(table.header.begin(), "study");
  for (const auto& [study, unused] : contenders.front().by_study)
    for (const Contender& contender : contenders) {
      std::vector<std::string> row = summary_row(contender.name, contender.by_study.at(study));
      row.insert(row.begin(), study);
      table.rows.push_back(std::move(row));
    }
  return table;
}

Table table_of(const Score& score) {
  Table table{.header = {"metric", "samples", "below 1 % of the median", "median APE, %", "mean of models, %",
                         "MAPE, %", "MAPE, mean of models, %", "p90, %", "R2"},
              .rows = {}};
  for (const LabelScore& label : score.labels)
    table.rows.push_back({label.label, std::to_string(label.samples), std::to_string(label.on_scale),
                          display(label.median_ape), display(label.by_model_ape), display(label.mape),
                          display(label.by_model_mape), display(label.p90_ape), display(label.r2)});
  return table;
}

/// A row for each part and predictor.
Table table_of(std::span<const Contender> predictors, std::map<std::string, Score> Contender::*parts,
               const std::string& what) {
  Table table{.header = {what, "predictor", "median APE, %", "worst metric, %", "R2"}, .rows = {}};
  for (const auto& [part, unused] : predictors.front().*parts)
    for (const Contender& contender : predictors) {
      const Score& score = (contender.*parts).at(part);
      table.rows.push_back(
          {part, contender.name, display(score.median_ape), display(score.worst_median_ape), display(score.r2)});
    }
  return table;
}

/// Predicted against labelled, a plot for each metric.
std::vector<Figure> scatter_of(const Dataset& dataset, const ComparedPart& part, const PredictedValues& values) {
  std::vector<Figure> plots;
  for (std::size_t l = 0; l < dataset.labels.size(); ++l) {
    Series series{.name = to_text(part.origin), .is_points = true};
    for (std::size_t i = 0; i < part.samples.size(); ++i) {
      const Sample& sample = dataset.samples[part.samples[i]];
      if (!is_observed(dataset, sample, l) || std::isnan(values[i][l])) continue;
      series.x.push_back(sample.labels[l]);
      series.y.push_back(values[i][l]);
    }
    if (!series.x.empty())
      plots.emplace_back(Plot{.title = dataset.labels[l],
                              .x_label = "label",
                              .y_label = "predicted",
                              .series = {std::move(series)},
                              .has_diagonal = true});
  }
  return plots;
}

/// By what is free, study ("all": of all) and contender.
void for_each_regret(
    const ComparedPart& part,
    const std::function<void(const std::string&, const std::string&, const std::string&, const RegretScore&)>& take) {
  for (const auto& [free, choices] : part.choices) {
    std::set<std::string> studies{""};
    for (const MeasuredChoice& choice : choices) studies.insert(choice.part);
    if (choices.empty()) continue;
    for (const std::string& study : studies)
      for (std::size_t c = 0; c < part.contenders.size(); ++c)
        if (const RegretScore score = regret_score(choices, c, study); score.questions > 0)
          take(free, study.empty() ? "all" : study, part.contenders[c].name, score);
  }
}

Table choices_table(const ComparedPart& part) {
  Table table{
      .header = {"free to choose", "study", "predictor", "choices", "mean regret, %", "largest, %", "by chance, %"},
      .rows = {}};
  for_each_regret(part, [&](const auto& free, const auto& study, const auto& name, const RegretScore& score) {
    table.rows.push_back({free, study, name, std::to_string(score.questions), display(100 * score.mean),
                          display(100 * score.largest), display(100 * score.by_chance)});
  });
  return table;
}

/// Overall, and of the settings the least and the most.
Table coverage_table(const Dataset& dataset, const ComparedPart& part) {
  Table table{.header = {"predictor", "labels", "in intervals of 50 %", "80 %", "90 %", "95 %",
                         "90 %, least of a setting", "most"},
              .rows = {}};
  for (const Contender& contender : part.predictors()) {
    const Coverage all = coverage_of(dataset, part, contender, [](const Sample&) { return true; });
    if (all.labels == 0) continue;
    double least = 1, most = 0;
    for (const auto& part_of : contender.by_setting) {
      const std::string& setting = part_of.first;
      const Coverage of = coverage_of(dataset, part, contender, [&](const Sample& sample) {
        return dataset.settings[static_cast<std::size_t>(sample.setting)].name == setting;
      });
      if (of.labels == 0) continue;
      least = std::min(least, of.inside[kShown]);
      most = std::max(most, of.inside[kShown]);
    }
    std::vector<std::string>& row = table.rows.emplace_back();
    row = {contender.name, std::to_string(all.labels)};
    for (const double inside : all.inside) row.push_back(display(100 * inside) + " %");
    row.insert(row.end(), {display(100 * least) + " %", display(100 * most) + " %"});
  }
  return table;
}

constexpr std::size_t kMostPrinted = 40, kMostReported = 2000;  // rows

/// What its errors are errors of.
std::string meaning_of(const ComparedPart& part) {
  return std::to_string(part.samples.size()) + " " + to_text(part.origin) + " samples: " +
         (part.origin == Origin::kSimulated ? "what the engine simulated, which neither networks nor baselines see"
                                            : "labels that were measured, none that follow from others" +
                                                  (part.note.empty() ? std::string{} : ". " + part.note));
}

}  // namespace

void append_predictions(CsvWriter& csv, const Dataset& dataset, const std::vector<std::size_t>& samples,
                        const Contender& contender) {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Sample& sample = dataset.samples[samples[i]];
    const DatasetGraph& graph = dataset.graphs[static_cast<std::size_t>(sample.graph)];
    for (std::size_t l = 0; l < dataset.labels.size(); ++l) {
      const LabelPrediction& prediction = contender.predictions[i].labels[l];
      if (!is_observed(dataset, sample, l) || std::isnan(prediction.value)) continue;
      const double distance = contender.predictions[i].distance;
      csv.row({contender.name, graph.name, graph.family,
               dataset.settings[static_cast<std::size_t>(sample.setting)].name, to_text(sample.origin),
               dataset.labels[l], sample.labels[l], prediction.value, or_empty(prediction.low),
               or_empty(prediction.high), distance > 0 ? CsvField{distance} : CsvField{""}});
    }
  }
}

Json choices_json(const ComparedPart& part) {
  Json json = Json::object();
  for_each_regret(part, [&](const auto& free, const auto& study, const auto& name, const RegretScore& score) {
    json[free][study][name] = {{"choices", score.questions},
                               {"mean_regret", score.mean},
                               {"largest_regret", score.largest},
                               {"regret_by_chance", score.by_chance}};
  });
  return json;
}

std::string choices_csv(const ComparedPart& part) {
  CsvWriter csv{{"free", "study", "question", "alternatives", "predictor", "regret", "regret_by_chance"}};
  for (const auto& [free, choices] : part.choices)
    for (const MeasuredChoice& choice : choices)
      for (std::size_t c = 0; c < part.contenders.size(); ++c)
        if (!std::isnan(choice.regrets[c]))
          csv.row({free, choice.part, choice.question, std::to_string(choice.alternatives), part.contenders[c].name,
                   choice.regrets[c], choice.by_chance});
  return csv.text();
}

Coverage coverage_of(const Dataset& dataset, const ComparedPart& part, const Contender& contender,
                     const std::function<bool(const Sample&)>& counts) {
  Coverage coverage;
  for (std::size_t i = 0; i < part.samples.size(); ++i) {
    const Sample& sample = dataset.samples[part.samples[i]];
    const PredictedMetrics& predicted = contender.predictions[i];
    if (predicted.reaches.empty() || !counts(sample)) continue;
    for (std::size_t l = 0; l < dataset.labels.size(); ++l) {
      if (!is_observed(dataset, sample, l) || !(sample.labels[l] > 0) || !(predicted.labels[l].value > 0)) continue;
      ++coverage.labels;
      const double off = std::abs(std::log(sample.labels[l] / predicted.labels[l].value));
      for (std::size_t c = 0; c < kCoverages.size(); ++c)
        coverage.inside[c] += off <= predicted.reaches[l][c] * (1 + 1e-6) ? 1 : 0;
    }
  }
  for (double& inside : coverage.inside) inside /= static_cast<double>(std::max<std::size_t>(1, coverage.labels));
  return coverage;
}

Json to_json(const Coverage& coverage) {
  Json json{{"labels", coverage.labels}};
  for (std::size_t c = 0; c < kCoverages.size(); ++c)
    json[std::to_string(std::lround(100 * kCoverages[c]))] = coverage.inside[c];
  return json;
}

Table side_by_side(const Dataset& dataset, const ComparedPart& part, std::size_t most_rows) {
  const bool is_measured = part.origin == Origin::kMeasured;
  std::vector<const Contender*> columns;
  for (const Contender& contender : part.contenders)
    if (contender.name == kEngine) columns.push_back(&contender);
  for (const Contender& contender : part.predictors()) columns.push_back(&contender);
  Table table{.header = {"graph", "setting", "metric"}, .rows = {}};
  if (!is_measured) table.header.emplace_back(kEngine);
  for (const Contender* column : columns) table.header.push_back(column->name);
  if (is_measured) table.header.emplace_back("measured");
  for (const Contender* column : columns) table.header.push_back(column->name + ", error %");
  const auto shown = [](double value) { return std::isnan(value) ? std::string{} : display(value); };
  for (std::size_t i = 0; i < part.samples.size(); ++i) {
    const Sample& sample = dataset.samples[part.samples[i]];
    for (std::size_t l = 0; l < dataset.labels.size() && table.rows.size() < most_rows; ++l) {
      if (!is_observed(dataset, sample, l)) continue;
      std::vector<std::string>& row = table.rows.emplace_back();
      row = {dataset.graphs[static_cast<std::size_t>(sample.graph)].name,
             dataset.settings[static_cast<std::size_t>(sample.setting)].name, dataset.labels[l]};
      if (!is_measured) row.push_back(shown(sample.labels[l]));
      for (const Contender* column : columns) row.push_back(shown(column->values[i][l]));
      if (is_measured) row.push_back(shown(sample.labels[l]));
      for (const Contender* column : columns)
        row.push_back(sample.labels[l] > 0 ? shown(100 * (column->values[i][l] / sample.labels[l] - 1)) : "");
    }
  }
  return table;
}

Json to_json(const Contender& contender) {
  Json json = to_json(contender.score);
  for (const auto& [name, of_part] : contender.by_family) json["by_family"][name] = to_json(of_part);
  for (const auto& [name, of_part] : contender.by_setting) json["by_setting"][name] = to_json(of_part);
  for (const auto& [name, of_part] : contender.by_study) json["by_study"][name] = to_json(of_part);
  return json;
}

Document compare_document(const std::string& command_line, const Dataset& dataset,
                          std::span<const ComparedPart> parts) {
  Document document{.title = "Predicted against labels", .subtitle = command_line, .headlines = {}, .sections = {}};
  for (const ComparedPart& part : parts) {
    const std::string origin = to_text(part.origin);
    const Score& first = part.contenders.front().score;
    if (document.verdict.empty())
      document.verdict = "Predictions of " + part.contenders.front().name + " are " + display(first.median_ape) +
                         " % off " + origin + " values in the median of all metrics.";
    document.headlines.push_back({origin + " samples", std::to_string(part.samples.size())});
    document.headlines.push_back({"median APE, " + origin, display(first.median_ape) + " %"});
    document.sections.push_back(
        {.title = "Predictors, " + origin, .paragraphs = {meaning_of(part)}, .tables = {summary_of(part.contenders)}});
    if (part.origin == Origin::kMeasured)
      document.sections.push_back({.title = "Studies", .tables = {studies_of(part.contenders)}});
    if (const Table choices = choices_table(part); !choices.rows.empty())
      document.sections.push_back({.title = "Choices among measured alternatives", .tables = {choices}});
    document.sections.push_back({.title = "Intervals, " + origin, .tables = {coverage_table(dataset, part)}});
    document.sections.push_back(
        {.title = "Side by side, " + origin, .tables = {side_by_side(dataset, part, kMostReported)}});
    for (const Contender& contender : part.predictors())
      document.sections.push_back(
          {.title = "Metrics of " + contender.name + ", " + origin, .tables = {table_of(contender.score)}});
    document.sections.push_back({.title = "Parts, " + origin,
                                 .tables = {table_of(part.predictors(), &Contender::by_family, "family"),
                                            table_of(part.predictors(), &Contender::by_setting, "setting")}});
    for (const Contender& contender : part.predictors())
      document.sections.push_back({.title = "Predictions of " + contender.name + " against " + origin + " labels",
                                   .figures = scatter_of(dataset, part, contender.values)});
  }
  return document;
}

void add_comparison(Answer& answer, const Dataset& dataset, const ComparedPart& part, const std::string& split) {
  const auto add = [&](Table table) {
    answer.table(std::move(table));
    answer.line();
  };
  answer.line("Split " + split + ", " + meaning_of(part) + "\n");
  add(summary_of(part.contenders));
  if (part.origin == Origin::kMeasured) add(studies_of(part.contenders));
  if (Table choices = choices_table(part); !choices.rows.empty()) add(std::move(choices));
  for (const Contender& contender : part.predictors()) {
    answer.line(contender.name);
    add(table_of(contender.score));
  }
  add(table_of(part.predictors(), &Contender::by_family, "family"));
  add(coverage_table(dataset, part));
  Table jobs = side_by_side(dataset, part, kMostPrinted);
  const bool are_more = jobs.rows.size() == kMostPrinted;
  answer.table(std::move(jobs));
  if (are_more) answer.line("... all with -o: jobs-*.csv");
  answer.line();
}

}  // namespace rehearse
