// rehearse-predictor: the verbs that need LibTorch. `rehearse train` and so on start it, so that no other verb loads
// it.

#include <CLI/CLI.hpp>
#include <cstdio>

#include "sim/app/option_names.hpp"
#include "sim/app/predictor_inputs.hpp"
#include "sim/app/program.hpp"
#include "sim/app/setup.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/parse_quantity.hpp"

namespace {

using namespace rehearse;

void add_output(CLI::App& verb, CommonOptions& common, const std::string& what, bool is_required) {
  auto* option = verb.add_option("-o,--output", common.output, what)->type_name("DIR");
  if (is_required) option->required();
  verb.add_flag("--quiet", common.is_quiet, "No progress on stderr");
}

void add_choice(CLI::App& verb, SampleChoice& choice, std::string& origin) {
  verb.add_option("--setting", choice.settings, "Only samples of this setting, or group of settings; repeatable")
      ->allow_extra_args(false)
      ->type_name("NAME");
  verb.add_option("--leave-out-setting", choice.left_out_settings,
                  "No samples of this setting, or group of settings; repeatable")
      ->allow_extra_args(false)
      ->type_name("NAME");
  verb.add_option("--leave-out-family", choice.left_out_families, "No samples of this family; repeatable")
      ->allow_extra_args(false)
      ->type_name("NAME");
  verb.add_option("--family", choice.family, "Only samples of this family")->type_name("NAME");
  verb.add_option("--origin", origin, "Only samples that are simulated, or measured (default: both)")
      ->check(is_one_of({"simulated", "measured", "both"}))
      ->type_name("WORD");
}

void add_catalog(CLI::App& verb, CommonOptions& common) {
  verb.add_option("--catalog", common.catalogs, "Folder with the user's own catalogs; repeatable")
      ->allow_extra_args(false)
      ->type_name("DIR");
}

void add_wall_time(CLI::App& verb, std::string& text) {
  verb.add_option("--max-wall-time", text, kWallTimeHelp)->type_name("T");
}

void add_overrides(CLI::App& verb, std::vector<std::string>& overrides) {
  verb.add_option("--set", overrides, "Override a scenario field: /json/pointer=value; repeatable")
      ->allow_extra_args(false)
      ->type_name("POINTER=VALUE");
}

void set_origin(SampleChoice& choice, const std::string& origin) {
  if (origin == "simulated") choice.origin = Origin::kSimulated;
  if (origin == "measured") choice.origin = Origin::kMeasured;
}

int run_command_line(int argc, char** argv) {
  CLI::App app{"Graph neural networks that predict the resource profiles of training jobs."};
  app.set_version_flag("--version", [] { return version_text(); });
  app.require_subcommand(1);
  app.name("rehearse");

  TrainCommand train;
  std::string train_origin;
  bool has_constant_rate = false, has_fixed_batches = false;
  auto* train_verb = app.add_subcommand(
      "train",
      "Train a network on a dataset; the same command goes on where it stopped\n\n"
      "Example: rehearse train dataset.db -o model --epochs 60\n"
      "Example: rehearse train other.db -o other --transfer-from model --transfer fine-tune --share 0.125");
  train_verb->add_option("DATASET", train.dataset, "Written by rehearse generate")->required();
  train_verb
      ->add_option("--network", train.network,
                   "profile: our own, one for all settings; gcn, gin, gat, mpnn: as published by Driple; gat-textbook")
      ->check(is_one_of({"profile", "gcn", "gin", "gat", "gat-textbook", "mpnn"}))
      ->capture_default_str()
      ->type_name("NAME");
  add_choice(*train_verb, train.choice, train_origin);
  train_verb->add_option("--share", train.choice.share, "Share of the graphs to train and validate with")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  train_verb
      ->add_option("--simulated-weight", train.simulated_weight, "Weight of simulated samples beside measured ones")
      ->check(is_not_negative)
      ->type_name("X");
  train_verb->add_option("--epochs", train.plan.epochs, "At most")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  train_verb->add_option("--patience", train.plan.patience, "Epochs without a better validation loss")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  train_verb->add_option("--batch-size", train.plan.batch, "Samples per step")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  train_verb
      ->add_option("--lr", train.plan.learning_rate,
                   "Learning rate (default: 0.003; 0.0003 of profile with --transfer-from)")
      ->check(is_positive);
  train_verb->add_flag("--constant-lr", has_constant_rate,
                       "Keep the learning rate, as published (default: half a cosine down to 1 %)");
  train_verb->add_flag(
      "--fixed-batches", has_fixed_batches,
      "As published: the same batches in each epoch, in the order of the dataset; samples that fill no "
      "whole batch are left out");
  train_verb->add_option("--weight-decay", train.weight_decay, "Of the published networks (default: 1e-6)")
      ->check(is_not_negative)
      ->type_name("X");
  train_verb->add_option("--hidden", train.hidden, "Features of a node (default: 32 of profile, else 64)")
      ->check(CLI::Range(4, 1024))
      ->type_name("N");
  train_verb->add_option("--mlp-layers", train.published.mlp_layers, "Of the published networks")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  train_verb
      ->add_option("--iterations", train.published.iterations,
                   "Convolutions of the published networks in a graph of N nodes: Nover2, N, Nover3, log2N to 4log2N, "
                   "3sqrtN, log10N, or a number")
      ->capture_default_str()
      ->type_name("RULE");
  train_verb->add_option("--dropout", train.published.dropout, "Of the published networks")
      ->check(CLI::Range(0.0, 0.99))
      ->capture_default_str();
  train_verb->add_option("--gin-mlp-layers", train.published.gin_mlp_layers, "Of a convolution of gin")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  train_verb
      ->add_option(
          "--aggregation", train.published.mpnn_aggregators,
          "Of the messages of mpnn, several with commas: sum, mean, max, min, std, var, normalised_mean, softmax, "
          "softmin, moment3, moment4, moment5, identity")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAMES")
      ->default_str("sum");
  train_verb
      ->add_option("--scalers", train.published.mpnn_scalers,
                   "Of each aggregation of mpnn, several with commas: identity, amplification, attenuation, linear, "
                   "inverse_linear")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAMES")
      ->default_str("identity");
  train_verb->add_option("--pretrans-layers", train.published.mpnn_pre_layers, "Of the messages of mpnn")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  train_verb->add_option("--posttrans-layers", train.published.mpnn_post_layers, "After the aggregation of mpnn")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  train_verb->add_flag("--self-loop", train.published.mpnn_self_loop, "A node of mpnn is a neighbour of itself");
  train_verb->add_option("--transfer-from", train.transfer_from, "Start from this model")->type_name("DIR");
  train_verb
      ->add_option(
          "--transfer", train.transfer,
          "What of it learns: fine-tune (all), readout (of profile), as-published or as-intended (of the others)")
      ->check(is_one_of({"fine-tune", "readout", "as-published", "as-intended"}))
      ->capture_default_str()
      ->type_name("WORD");
  train_verb->add_option("--seed", train.plan.seed, "Of the first weights and the batches")
      ->check(is_seed)
      ->capture_default_str();
  add_output(*train_verb, train.common, "Folder of the model: model.pt, checkpoint.pt, curves.csv, report.html", true);

  ImportCommand import;
  auto* import_verb = app.add_subcommand(
      "import",
      "Measured jobs become a dataset to train on and to compare with; datasets are put together\n\n"
      "A list of measured jobs (rehearse schema measurements) names scenarios, graphs and what was recorded. Graphs of "
      "a model that an earlier SOURCE has stay in its split\n\n"
      "Example: rehearse import simulated.db measured.json -o mixed.db");
  import_verb->add_option("SOURCE", import.sources, "List of measured jobs, or dataset; several become one")
      ->required();
  import_verb->add_flag(
      "--grouped", import.is_grouped,
      "Graphs of groups of operators, GraphDefs as Driple groups them: for gcn, gin, gat, mpnn alone");
  add_catalog(*import_verb, import.common);
  import_verb->add_option("-o,--output", import.common.output, "Dataset file to write")
      ->required()
      ->type_name("DATASET");
  import_verb->add_flag("--quiet", import.common.is_quiet, "No warnings on stderr");

  CompareCommand compare;
  std::string compare_origin;
  std::string step_time;
  auto* compare_verb = app.add_subcommand(
      "compare",
      "Predictions beside the labels of a dataset: errors per metric, family and setting, of models and of baselines. "
      "With a scenario instead: predicted beside simulated, and beside measured\n\n"
      "Example: rehearse compare model dataset.db -o comparison\n"
      "Example: rehearse compare model scenario.json --measured series.csv --step-time 120ms -o comparison");
  compare_verb
      ->add_option("MODEL", compare.models, "Written by rehearse train; several, then the dataset or the scenario")
      ->required();
  auto* measured =
      compare_verb
          ->add_option("--measured", compare.measured,
                       "With a scenario: recorded on its first worker machine, a CSV at a fixed period with time_s and "
                       "any of gpu_utilization, memory_utilization (0 to 1), receive_Bps, transmit_Bps. Its period is "
                       "that of the simulation and the prediction too")
          ->type_name("CSV");
  auto* measured_step =
      compare_verb->add_option("--step-time", step_time, "With a scenario: measured time of a step, such as 120ms")
          ->type_name("T");
  add_overrides(*compare_verb, compare.overrides);
  add_catalog(*compare_verb, compare.common);
  add_choice(*compare_verb, compare.choice, compare_origin);
  compare_verb->add_flag("--no-baselines", compare.skips_baselines, "Models alone: quicker with a large dataset");
  compare_verb->add_option("--split", compare.split, "train, validation or test")
      ->check(is_one_of({"train", "validation", "test"}))
      ->capture_default_str();
  compare_verb->add_flag("--json", compare.common.prints_json, "Print comparison.json instead of text");
  add_output(*compare_verb, compare.common, "Write comparison.json, predictions.csv and report.html here", false);

  PredictCommand predict;
  auto* predict_verb =
      app.add_subcommand("predict",
                         "Resource profile of a scenario, or of every sample of a dataset, without simulation\n\n"
                         "Example: rehearse predict model scenarios/driple/01-v100-ps1-w2.json\n"
                         "Example: rehearse predict model net.pbtxt --scenario scenarios/driple/01-v100-ps1-w2.json");
  predict_verb->add_option("MODEL", predict.model, "Written by rehearse train")->required();
  predict_verb->add_option("INPUT", predict.input, "Scenario, dataset, or with --scenario model file or GraphDef")
      ->required();
  predict_verb
      ->add_option(
          "--scenario", predict.scenario,
          "Cluster and training of this scenario, for INPUT instead of its model: a model file (rehearse schema "
          "model), or a TensorFlow GraphDef (.pbtxt, .pb)")
      ->type_name("FILE");
  add_overrides(*predict_verb, predict.overrides);
  add_catalog(*predict_verb, predict.common);
  predict_verb->add_flag("--json", predict.common.prints_json, "Print prediction.json instead of text");
  add_output(*predict_verb, predict.common, "Write prediction.json, or predictions.csv of a dataset, here", false);

  std::string max_wall_time;
  for (CLI::App* verb : {import_verb, train_verb, compare_verb, predict_verb}) add_wall_time(*verb, max_wall_time);

  refuse_empty_values(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    throw InputError{describe_parse_error(app, error, argc, argv)};
  }
  std::optional<Seconds> wall_time;
  if (!max_wall_time.empty()) {
    try {
      wall_time = parse_seconds(max_wall_time);
    } catch (const QuantityError& error) { throw InputError{std::string{"--max-wall-time: "} + error.what()}; }
  }
  import.common.budget = train.common.budget = compare.common.budget = predict.common.budget =
      start_budget("rehearse", wall_time);
  for (int i = 1; i < argc; ++i) train.common.command_line += (i > 1 ? " " : "rehearse ") + std::string{argv[i]};
  compare.common.command_line = predict.common.command_line = train.common.command_line;
  if (train_verb->count("--transfer") > 0 && !train.transfer_from)
    throw InputError{"--transfer: expected --transfer-from beside it; see rehearse train --help"};
  // What a network has learnt before is near; large steps would lose it.
  if (train_verb->count("--lr") == 0 && train.transfer_from && train.network == "profile")
    train.plan.learning_rate = 0.0003;
  train.plan.decays = !has_constant_rate;
  train.plan.shuffles = !has_fixed_batches;
  train.plan.drops_rest = has_fixed_batches;
  set_origin(train.choice, train_origin);
  set_origin(compare.choice, compare_origin);
  if (compare_verb->parsed()) {
    if (compare.models.size() < 2)
      throw InputError{"compare: expected a model and a dataset; see rehearse compare --help"};
    compare.input = compare.models.back();
    compare.models.pop_back();
    if (!step_time.empty()) {
      try {
        compare.step_time = parse_seconds(step_time);
      } catch (const QuantityError& error) { throw InputError{std::string{"--step-time: "} + error.what()}; }
    }
    if (!is_dataset(compare.input)) {
      for (const char* option : {"--setting", "--leave-out-setting", "--family", "--leave-out-family", "--origin",
                                 "--split", "--no-baselines"})
        if (compare_verb->count(option) > 0)
          throw InputError{std::string{option} + ": expected a dataset to choose from; found a scenario"};
      return compare_scenario(compare);
    }
    if (measured->count() + measured_step->count() + compare_verb->count("--set") > 0)
      throw InputError{"--measured, --step-time and --set: expected a scenario beside them; found a dataset"};
    return run(compare);
  }
  if (import_verb->parsed()) return run(import);
  if (train_verb->parsed()) return run(train);
  return run(predict);
}

}  // namespace

int main(int argc, char** argv) { return run_program("rehearse", run_command_line, argc, argv); }
