// rehearse compare MODEL... DATASET

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
#include "sim/app/output/compare_document.hpp"
#include "sim/app/predictor_commands.hpp"
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

Score score_of(const Dataset& dataset, const std::vector<std::size_t>& samples, const PredictedValues& values,
               const std::function<bool(const Sample&)>& counts) {
  std::vector<std::size_t> chosen;
  PredictedValues of_chosen;
  for (std::size_t i = 0; i < samples.size(); ++i)
    if (counts(dataset.samples[samples[i]])) {
      chosen.push_back(samples[i]);
      of_chosen.push_back(values[i]);
    }
  return score(dataset, chosen, of_chosen);
}

/// Score of each part of the samples, by name.
std::map<std::string, Score> scores_by(const Dataset& dataset, const std::vector<std::size_t>& samples,
                                       const PredictedValues& values,
                                       const std::function<std::string(const Sample&)>& part_of) {
  std::map<std::string, Score> scores;
  for (const std::size_t s : samples) scores[part_of(dataset.samples[s])];
  for (auto& part : scores)
    part.second =
        score_of(dataset, samples, values, [&](const Sample& sample) { return part_of(sample) == part.first; });
  return scores;
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

/// The simulator's row: of simulated samples its errors would be none by construction.
void add_engine(ComparedPart& part, const EngineLabels& found, const std::vector<std::size_t>& places) {
  if (found.without_scenario > 0)
    part.note += std::to_string(found.without_scenario) + " jobs have no scenario to simulate. ";
  if (found.without_result > 0)
    part.note += std::to_string(found.without_result) + " jobs could not be simulated: " + found.last_failure;
  Contender engine{.name = kEngine};
  for (const std::size_t place : places) engine.values.push_back(found.labels[place]);
  part.contenders.push_back(std::move(engine));
}

/// Choices of the least measured time per training sample.
void add_choices(ComparedPart& part, const Dataset& dataset, const EngineLabels& found,
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

ComparedPart part_of(Origin origin, const Dataset& dataset, const std::vector<std::size_t>& all,
                     std::span<const Contender> everyone, std::size_t predictors, EngineOnDemand& engine) {
  std::vector<std::size_t> places;  // in `all`
  ComparedPart part{.origin = origin, .predictor_count = predictors};
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

Answer compare_dataset(const CompareCommand& command) {
  use_torch_threads(1);
  keep_freed_memory();
  const Dataset dataset = load_dataset(command.input);
  SampleChoice choice = command.choice;
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
  std::vector<ComparedPart> parts;
  for (const Origin origin : {Origin::kSimulated, Origin::kMeasured}) {
    ComparedPart part = part_of(origin, dataset, samples, contenders, names.size(), engine);
    if (!part.samples.empty()) parts.push_back(std::move(part));
  }

  Json json{{"format", 1}, {"samples", samples.size()}, {"origins", Json::object()}};
  for (const ComparedPart& part : parts) {
    Json& of_part = json["origins"][to_text(part.origin)] = {{"samples", part.samples.size()}};
    for (const Contender& contender : part.contenders) of_part["predictors"][contender.name] = to_json(contender);
    if (const Json choices = choices_json(part); !choices.empty()) of_part["choices"] = choices;
    for (const Contender& contender : part.predictors())
      of_part["predictors"][contender.name]["coverage"] =
          to_json(coverage_of(dataset, part, contender, [](const Sample&) { return true; }));
  }
  Answer answer{.json = to_json_text(json)};
  for (const ComparedPart& part : parts) add_comparison(answer, dataset, part, command.split);
  if (command.common.output) {
    CsvWriter csv{{"predictor", "graph", "family", "setting", "origin", "metric", "label", "predicted", "low", "high",
                   "distance"}};
    for (const ComparedPart& part : parts)
      for (const Contender& contender : part.predictors()) append_predictions(csv, dataset, part.samples, contender);
    OutputFolder files{*command.common.output};
    files.write("comparison.json", answer.json);
    files.write("predictions.csv", csv.text());
    for (const ComparedPart& part : parts) {
      if (part.origin == Origin::kMeasured) files.write("choices.csv", choices_csv(part));
      const Table jobs = side_by_side(dataset, part, std::numeric_limits<std::size_t>::max());
      CsvWriter table{jobs.header};
      for (const std::vector<std::string>& row : jobs.rows) table.row(std::vector<CsvField>{row.begin(), row.end()});
      files.write("jobs-" + to_text(part.origin) + ".csv", table.text());
    }
    files.write("report.html", render_html(compare_document(command.common.command_line, dataset, parts)));
    files.commit();
    say_written(command.common, *command.common.output, files.names());
  }
  return answer;
}

/// The last of what was typed as predictors is the dataset or the scenario.
Answer run(const CompareCommand& typed) {
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
