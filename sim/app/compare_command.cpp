// rehearse compare MODEL... DATASET

#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "predictor/baselines/baselines.hpp"
#include "predictor/choices.hpp"
#include "predictor/engine_labels.hpp"
#include "predictor/gnn/torch_threads.hpp"
#include "predictor/scoring.hpp"
#include "sim/app/any_predictor.hpp"
#include "sim/app/output/document.hpp"
#include "sim/app/predictor_inputs.hpp"
#include "sim/app/program.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/about.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"
#include "sim/base/names.hpp"
#include "sim/base/output_folder.hpp"

namespace rehearse {

namespace {

void add_options(Options options, CompareCommand& command) {
  options
      .add_option("MODEL", command.predictors, "Written by rehearse train; several, then the dataset or the scenario")
      .required();
  options.add_option("--measured", command.measured, "CSV",
                     "With a scenario: recorded on its first worker machine, a CSV at a fixed period with time_s and "
                     "any of gpu_utilization, memory_utilization (0 to 1), receive_Bps, transmit_Bps. Its period is "
                     "that of the simulation and the prediction too");
  options.add_option("--step-time", command.step_time, "T", "With a scenario: measured time of a step, such as 120ms");
  options.add_option("--study", command.study, "NAME",
                     "With a scenario, of the corrected engine: the study that its cluster is from");
  add_overrides(options, command.overrides);
  add_catalogs(options, command.common, kOwnCatalogs);
  add_choice(options, command.choice, command.origin);
  options.add_flag("--unseen", command.is_unseen,
                   "The models were not trained on the settings of --setting: baselines do not learn from them either");
  options.add_option("--share", command.choice.share, "Share of the graphs that baselines learn from")
      .range(0.0, 1.0)
      .shows_default();
  options.add_flag("--no-baselines", command.skips_baselines, "Models alone: quicker with a large dataset");
  options.add_option("--split", command.split, "train, validation or test")
      .check(is_one_of({"train", "validation", "test"}))
      .shows_default();
  options.add_flag("--json", command.common.prints_json, "Print comparison.json instead of text");
  add_output(options, command.common, "Write comparison.json, predictions.csv and report.html here");
  add_wall_time(options, command.common);
}

using Values = std::vector<std::vector<double>>;  // [samples][labels]

/// One way to predict.
struct Contender {
  std::string name;
  Values values;
  Score score;
  std::vector<PredictedMetrics> predictions;           // of predictors
  std::map<std::string, Score> by_family, by_setting;  // of predictors
  std::map<std::string, Score> by_study;               // of measured samples
};

/// The samples of one origin, and everyone's scores on them.
struct Part {
  Origin origin{};
  std::vector<std::size_t> samples;
  std::vector<Contender> contenders;  // the predictors first
  std::size_t predictor_count = 0;
  std::string note;  // on the engine
  /// By what is free: of measured samples, with a regret for each contender.
  std::vector<std::pair<std::string, std::vector<MeasuredChoice>>> choices;
  std::span<const Contender> predictors() const { return {contenders.data(), predictor_count}; }
};

Score score_of(const Dataset& dataset, const std::vector<std::size_t>& samples, const Values& values,
               const std::function<bool(const Sample&)>& counts) {
  std::vector<std::size_t> chosen;
  Values of_chosen;
  for (std::size_t i = 0; i < samples.size(); ++i)
    if (counts(dataset.samples[samples[i]])) {
      chosen.push_back(samples[i]);
      of_chosen.push_back(values[i]);
    }
  return score(dataset, chosen, of_chosen);
}

/// Score of each part of the samples, by name.
std::map<std::string, Score> scores_by(const Dataset& dataset, const std::vector<std::size_t>& samples,
                                       const Values& values, const std::function<std::string(const Sample&)>& part_of) {
  std::map<std::string, Score> scores;
  for (const std::size_t s : samples) scores[part_of(dataset.samples[s])];
  for (auto& part : scores)
    part.second =
        score_of(dataset, samples, values, [&](const Sample& sample) { return part_of(sample) == part.first; });
  return scores;
}

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

void append(CsvWriter& csv, const Dataset& dataset, const std::vector<std::size_t>& samples,
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

/// Predicted against labelled, a plot for each metric.
std::vector<Figure> scatter_of(const Dataset& dataset, const Part& part, const Values& values) {
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

Split split_of(const std::string& text) {
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest})
    if (to_text(split) == text) return split;
  throw InputError{"--split: expected train, validation or test; found " + text};
}

Contender contender_of(const std::string& name, AnyPredictor& predictor, const Dataset& dataset,
                       const std::vector<std::size_t>& samples, EngineOnDemand& engine) {
  Contender contender{.name = name, .predictions = predictor.predict(dataset, samples, engine)};
  for (const PredictedMetrics& prediction : contender.predictions) {
    std::vector<double>& values = contender.values.emplace_back();
    for (const LabelPrediction& label : prediction.labels) values.push_back(label.value);
  }
  return contender;
}

/// Of what the predictors may have been trained on. All but the median need operators.
void add_baselines(std::vector<Contender>& contenders, const CompareCommand& command, const Dataset& dataset,
                   const std::vector<std::size_t>& samples) {
  SampleChoice seen = command.choice;
  seen.family.reset();
  if (command.choice.family) seen.left_out_families.push_back(*command.choice.family);
  if (command.is_unseen) {
    seen.left_out_settings.insert(seen.left_out_settings.end(), seen.settings.begin(), seen.settings.end());
    seen.settings.clear();
  }
  const std::vector<std::size_t> train = choose_samples(dataset, Split::kTrain, seen);
  const bool has_operators = dataset.node_features == node_feature_names();
  if (train.empty() || command.skips_baselines) return;
  Baselines baselines{dataset, train, samples};
  for (const auto& [name, baseline] : kBaselines)
    if (has_operators || baseline == Baseline::kMedian)
      contenders.push_back({.name = name, .values = baselines.predict(baseline)});
}

constexpr const char* kEngine = "simulated";

/// The simulator's row: of simulated samples its errors would be none by construction.
void add_engine(Part& part, const EngineLabels& found, const std::vector<std::size_t>& places) {
  if (found.without_scenario > 0)
    part.note += std::to_string(found.without_scenario) + " jobs have no scenario to simulate. ";
  if (found.without_result > 0)
    part.note += std::to_string(found.without_result) + " jobs could not be simulated: " + found.last_failure;
  Contender engine{.name = kEngine};
  for (const std::size_t place : places) engine.values.push_back(found.labels[place]);
  part.contenders.push_back(std::move(engine));
}

/// Choices of the least measured time per training sample.
void add_choices(Part& part, const Dataset& dataset, const EngineLabels& found,
                 const std::vector<std::size_t>& places) {
  for (std::size_t free = 0; free < kFreeToChoose.size(); ++free) {
    std::vector<Alternative> alternatives;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Sample& sample = dataset.samples[part.samples[i]];
      const double step_samples = found.samples_per_step[places[i]];
      if (!is_observed(dataset, sample, kBurstLabels) || !(step_samples > 0)) continue;
      Alternative& alternative = alternatives.emplace_back();
      alternative.part = dataset.settings[static_cast<std::size_t>(sample.setting)].group;
      alternative.question = found.questions[places[i]][free];
      alternative.name = std::to_string(sample.graph) + " " + std::to_string(sample.setting);
      alternative.measured = sample.labels[kBurstLabels] / step_samples;
      for (const Contender& contender : part.contenders)
        alternative.predicted.push_back(contender.values[i][kBurstLabels] / step_samples);
    }
    part.choices.emplace_back(kFreeToChoose[free], measured_choices(alternatives));
  }
}

/// By what is free, study ("all": of all) and contender.
void for_each_regret(
    const Part& part,
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

Table choices_table(const Part& part) {
  Table table{
      .header = {"free to choose", "study", "predictor", "choices", "mean regret, %", "largest, %", "by chance, %"},
      .rows = {}};
  for_each_regret(part, [&](const auto& free, const auto& study, const auto& name, const RegretScore& score) {
    table.rows.push_back({free, study, name, std::to_string(score.questions), display(100 * score.mean),
                          display(100 * score.largest), display(100 * score.by_chance)});
  });
  return table;
}

Json choices_json(const Part& part) {
  Json json = Json::object();
  for_each_regret(part, [&](const auto& free, const auto& study, const auto& name, const RegretScore& score) {
    json[free][study][name] = {{"choices", score.questions},
                               {"mean_regret", score.mean},
                               {"largest_regret", score.largest},
                               {"regret_by_chance", score.by_chance}};
  });
  return json;
}

/// A line for each choice and contender that knows its alternatives.
std::string choices_csv(const Part& part) {
  CsvWriter csv{{"free", "study", "question", "alternatives", "predictor", "regret", "regret_by_chance"}};
  for (const auto& [free, choices] : part.choices)
    for (const MeasuredChoice& choice : choices)
      for (std::size_t c = 0; c < part.contenders.size(); ++c)
        if (!std::isnan(choice.regrets[c]))
          csv.row({free, choice.part, choice.question, std::to_string(choice.alternatives), part.contenders[c].name,
                   choice.regrets[c], choice.by_chance});
  return csv.text();
}

Part part_of(Origin origin, const Dataset& dataset, const std::vector<std::size_t>& all,
             std::span<const Contender> everyone, std::size_t predictors, EngineOnDemand& engine) {
  std::vector<std::size_t> places;  // in `all`
  Part part{.origin = origin, .predictor_count = predictors};
  for (const Contender& contender : everyone) part.contenders.push_back({.name = contender.name});
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (dataset.samples[all[i]].origin != origin) continue;
    part.samples.push_back(all[i]);
    places.push_back(i);
    for (std::size_t c = 0; c < everyone.size(); ++c) {
      part.contenders[c].values.push_back(everyone[c].values[i]);
      if (c < predictors) part.contenders[c].predictions.push_back(everyone[c].predictions[i]);
    }
  }
  if (part.samples.empty()) return part;
  if (origin == Origin::kMeasured) {
    add_engine(part, engine.get(), places);
    if (dataset.labels == label_names()) add_choices(part, dataset, engine.get(), places);
  }
  const auto study_of = [&](const Sample& sample) {
    return dataset.settings[static_cast<std::size_t>(sample.setting)].group;
  };
  for (Contender& contender : part.contenders) {
    contender.score = score(dataset, part.samples, contender.values);
    if (origin == Origin::kMeasured) contender.by_study = scores_by(dataset, part.samples, contender.values, study_of);
  }
  for (std::size_t m = 0; m < predictors; ++m) {
    Contender& contender = part.contenders[m];
    contender.by_family = scores_by(dataset, part.samples, contender.values, [&](const Sample& sample) {
      return dataset.graphs[static_cast<std::size_t>(sample.graph)].family;
    });
    contender.by_setting = scores_by(dataset, part.samples, contender.values, [&](const Sample& sample) {
      return dataset.settings[static_cast<std::size_t>(sample.setting)].name;
    });
  }
  return part;
}

/// Of the labels of some samples, the share that is in intervals of each of kCoverages; labels and predictions above 0,
/// with an interval.
struct Coverage {
  std::size_t labels = 0;
  std::array<double, kCoverages.size()> inside{};
};

Coverage coverage_of(const Dataset& dataset, const Part& part, const Contender& contender,
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

/// Overall, and of the settings the least and the most.
Table coverage_table(const Dataset& dataset, const Part& part) {
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

/// Per label and job what was simulated, what each predictor says, and what was measured, with the errors of the latter.
Table side_by_side(const Dataset& dataset, const Part& part, std::size_t most_rows) {
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

constexpr std::size_t kMostPrinted = 40, kMostReported = 2000;  // rows

Json to_json(const Contender& contender) {
  Json json = to_json(contender.score);
  for (const auto& [name, of_part] : contender.by_family) json["by_family"][name] = to_json(of_part);
  for (const auto& [name, of_part] : contender.by_setting) json["by_setting"][name] = to_json(of_part);
  for (const auto& [name, of_part] : contender.by_study) json["by_study"][name] = to_json(of_part);
  return json;
}

/// What its errors are errors of.
std::string meaning_of(const Part& part) {
  return std::to_string(part.samples.size()) + " " + to_text(part.origin) + " samples: " +
         (part.origin == Origin::kSimulated ? "what the engine simulated, which neither networks nor baselines see"
                                            : "labels that were measured, none that follow from others" +
                                                  (part.note.empty() ? std::string{} : ". " + part.note));
}

Document document_of(const CompareCommand& command, const Dataset& dataset, std::span<const Part> parts) {
  Document document{
      .title = "Predicted against labels", .subtitle = command.common.command_line, .headlines = {}, .sections = {}};
  for (const Part& part : parts) {
    const std::string origin = to_text(part.origin);
    const Score& first = part.contenders.front().score;
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

void print(const Dataset& dataset, const Part& part, const std::string& split) {
  std::printf("Split %s, %s\n\n%s\n", split.c_str(), meaning_of(part).c_str(),
              to_text(summary_of(part.contenders)).c_str());
  if (part.origin == Origin::kMeasured) std::printf("%s\n", to_text(studies_of(part.contenders)).c_str());
  if (const Table choices = choices_table(part); !choices.rows.empty()) std::printf("%s\n", to_text(choices).c_str());
  for (const Contender& contender : part.predictors())
    std::printf("%s\n%s\n", contender.name.c_str(), to_text(table_of(contender.score)).c_str());
  std::printf("%s\n", to_text(table_of(part.predictors(), &Contender::by_family, "family")).c_str());
  std::printf("%s\n", to_text(coverage_table(dataset, part)).c_str());
  const Table jobs = side_by_side(dataset, part, kMostPrinted);
  std::printf("%s%s\n", to_text(jobs).c_str(), jobs.rows.size() == kMostPrinted ? "... all with -o: jobs-*.csv\n" : "");
}

}  // namespace

std::vector<std::string> names_of_predictors(const std::vector<std::filesystem::path>& predictors,
                                             const std::vector<std::string>& taken) {
  std::vector<std::string> names, paths;
  for (const std::filesystem::path& predictor : predictors) {
    const std::filesystem::path path = (predictor / "").lexically_normal().parent_path();  // without a slash at the end
    paths.push_back(path.string());
    names.push_back(path.filename().string());
  }
  std::map<std::string, int> uses;
  for (const std::string& name : names) ++uses[name];
  for (const std::string& name : taken) ++uses[name];
  for (std::size_t m = 0; m < predictors.size(); ++m)
    if (uses[names[m]] > 1) names[m] = paths[m];
  std::set<std::string> known{taken.begin(), taken.end()};
  for (const std::string& name : names)
    if (!known.insert(name).second)
      throw InputError{"compare: expected predictors in different folders; found " + in_quotes(name) + " twice"};
  return names;
}

namespace {

int compare_dataset(const CompareCommand& command) {
  use_torch_threads(1);
  keep_freed_memory();
  const Dataset dataset = load_dataset(command.input);
  SampleChoice choice = command.choice;
  choice.takes_undescribed = true;
  choice.share = 1;
  const std::vector<std::size_t> samples = choose_samples(dataset, split_of(command.split), choice);
  if (samples.empty()) throw InputError{command.input.string() + ": has no sample of that kind to compare with"};
  const auto made = make_folder(command.common.output);

  std::vector<Contender> contenders;
  std::vector<std::string> taken{kEngine};
  for (const auto& [name, baseline] : kBaselines) taken.emplace_back(name);
  const std::vector<std::string> names = names_of_predictors(command.predictors, taken);
  std::vector<std::string> warnings;
  EngineOnDemand engine{dataset, samples, command.common};
  for (std::size_t m = 0; m < names.size(); ++m) {
    AnyPredictor predictor{command.predictors[m]};
    require_units(predictor, command.predictors[m]);
    contenders.push_back(
        about(command.input.string(), [&] { return contender_of(names[m], predictor, dataset, samples, engine); }));
    add_cautions(names[m], contenders.back().predictions, warnings);
  }
  print_warnings(warnings, command.common.is_quiet);
  about(command.input.string(), [&] { add_baselines(contenders, command, dataset, samples); });
  std::vector<Part> parts;
  for (const Origin origin : {Origin::kSimulated, Origin::kMeasured}) {
    Part part = part_of(origin, dataset, samples, contenders, names.size(), engine);
    if (!part.samples.empty()) parts.push_back(std::move(part));
  }

  Json json{{"format", 1}, {"samples", samples.size()}, {"origins", Json::object()}};
  for (const Part& part : parts) {
    Json& of_part = json["origins"][to_text(part.origin)] = {{"samples", part.samples.size()}};
    for (const Contender& contender : part.contenders) of_part["predictors"][contender.name] = to_json(contender);
    if (const Json choices = choices_json(part); !choices.empty()) of_part["choices"] = choices;
    for (const Contender& contender : part.predictors())
      of_part["predictors"][contender.name]["coverage"] =
          to_json(coverage_of(dataset, part, contender, [](const Sample&) { return true; }));
  }
  const std::string text = to_json_text(json);
  if (command.common.output) {
    CsvWriter csv{{"predictor", "graph", "family", "setting", "origin", "metric", "label", "predicted", "low", "high",
                   "distance"}};
    for (const Part& part : parts)
      for (const Contender& contender : part.predictors()) append(csv, dataset, part.samples, contender);
    OutputFolder files{*command.common.output};
    files.write("comparison.json", text);
    files.write("predictions.csv", csv.text());
    for (const Part& part : parts) {
      if (part.origin == Origin::kMeasured) files.write("choices.csv", choices_csv(part));
      const Table jobs = side_by_side(dataset, part, std::numeric_limits<std::size_t>::max());
      CsvWriter table{jobs.header};
      for (const std::vector<std::string>& row : jobs.rows) table.row(std::vector<CsvField>{row.begin(), row.end()});
      files.write("jobs-" + to_text(part.origin) + ".csv", table.text());
    }
    files.write("report.html", render_html(document_of(command, dataset, parts)));
    files.commit();
    say_written(command.common, *command.common.output, files.names());
  }
  if (command.common.prints_json)
    std::fputs(text.c_str(), stdout);
  else
    for (const Part& part : parts) print(dataset, part, command.split);
  return kSuccess;
}

/// The last of what was typed as predictors is the dataset or the scenario.
int run(const CompareCommand& typed) {
  CompareCommand command = typed;
  set_origin(command.choice, command.origin);
  if (command.predictors.size() < 2)
    throw InputError{"compare: expected a predictor and a dataset; see rehearse compare --help"};
  command.input = command.predictors.back();
  command.predictors.pop_back();
  const auto step_time = read_seconds("--step-time", command.step_time);
  const auto is_given = [&](const char* option) { return command.common.given.contains(option); };
  if (!is_dataset(command.input)) {
    for (const char* option : {"--setting", "--leave-out-setting", "--family", "--leave-out-family", "--origin",
                               "--split", "--no-baselines", "--unseen", "--share"})
      if (is_given(option))
        throw InputError{std::string{option} + ": expected a dataset to choose from; found a scenario"};
    return compare_scenario(command, step_time);
  }
  if (is_given("--measured") || is_given("--step-time") || is_given("--set"))
    throw InputError{"--measured, --step-time and --set: expected a scenario beside them; found a dataset"};
  return compare_dataset(command);
}

}  // namespace

CommandVerb compare_verb() {
  return make_verb<CompareCommand>(
      "compare",
      "Predictions beside the labels of a dataset: errors per metric, family and setting, of models and of baselines, "
      "as means over samples and over models, where measured those of each study. "
      "With a scenario instead: predicted beside simulated, and beside measured\n\n"
      "Example: rehearse compare model dataset.db -o comparison\n"
      "Example: rehearse compare model scenario.json --measured series.csv --step-time 120ms -o comparison",
      add_options, run);
}

}  // namespace rehearse
