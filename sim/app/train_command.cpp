// rehearse train DATASET -o MODEL

#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "predictor/corrected/corrected.hpp"
#include "predictor/gnn/predictor_file.hpp"
#include "predictor/gnn/published_options.hpp"
#include "predictor/gnn/torch_threads.hpp"
#include "predictor/gnn/training.hpp"
#include "predictor/operator_types.hpp"
#include "predictor/study_weights.hpp"
#include "predictor/taught_settings.hpp"
#include "sim/app/any_predictor.hpp"
#include "sim/app/output/document.hpp"
#include "sim/app/predictor_commands.hpp"
#include "sim/app/predictor_inputs.hpp"
#include "sim/app/program.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/about.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json.hpp"
#include "sim/base/output_folder.hpp"
#include "sim/base/output_lock.hpp"
#include "sim/base/random.hpp"
#include "sim/base/statistics.hpp"

namespace rehearse {

namespace {

namespace fs = std::filesystem;

struct TrainCommand {
  CommonOptions common;  // output: the predictor's folder
  std::filesystem::path dataset;
  std::string network = "learnt";
  TrainingPlan plan;
  SampleChoice choice;
  std::string origin;                   // of the choice, as typed
  std::optional<double> learning_rate;  // of the plan, as typed
  bool has_constant_rate = false, has_fixed_batches = false;
  std::string budget;
  std::string labels = "maxima";
  std::optional<double> mlp_gain;
  PublishedOptions published;
  std::string ablation = "none";
  bool uses_test = false;  // of corrected
  std::optional<int> hidden;
  std::optional<double> weight_decay;
  std::optional<double> simulated_weight;
  std::optional<std::filesystem::path> transfer_from;
  std::string transfer = "fine-tune";
};

void add_options_of_published(Options options, PublishedOptions& published) {
  options.add_option("--mlp-layers", published.mlp_layers, "Of the published networks").range(1, 16).shows_default();
  options
      .add_option("--iterations", published.iterations, "RULE",
                  "Convolutions of the published networks in a graph of N nodes: Nover2, N, Nover3, log2N to 4log2N, "
                  "3sqrtN, log10N, or a number")
      .shows_default();
  options.add_option("--dropout", published.dropout, "Of the published networks").range(0.0, 0.99).shows_default();
  options.add_option("--gin-mlp-layers", published.gin_mlp_layers, "Of a convolution of gin")
      .range(1, 16)
      .shows_default();
  options
      .add_option(
          "--aggregation", published.mpnn_aggregators, "NAMES",
          "Of the messages of mpnn, several with commas: sum, mean, max, min, std, var, normalised_mean, softmax, "
          "softmin, moment3, moment4, moment5, identity")
      .delimiter(',')
      .repeatable()
      .shows_default("sum");
  options
      .add_option("--scalers", published.mpnn_scalers, "NAMES",
                  "Of each aggregation of mpnn, several with commas: identity, amplification, attenuation, linear, "
                  "inverse_linear")
      .delimiter(',')
      .repeatable()
      .shows_default("identity");
  options.add_option("--pretrans-layers", published.mpnn_pre_layers, "Of the messages of mpnn")
      .range(1, 16)
      .shows_default();
  options.add_option("--posttrans-layers", published.mpnn_post_layers, "After the aggregation of mpnn")
      .range(1, 16)
      .shows_default();
  options.add_flag("--self-loop", published.mpnn_self_loop, "A node of mpnn is a neighbour of itself");
}

void add_options(Options options, TrainCommand& command) {
  options.add_option("DATASET", command.dataset, "Written by rehearse generate or rehearse import").required();
  options
      .add_option("--network", command.network, "NAME",
                  "learnt: our own, one for all settings; corrected: the engine, times what measured jobs say of its "
                  "errors; gcn, gin, gat, mpnn: as published by Driple; gat-textbook")
      .check(is_one_of({"learnt", "corrected", "gcn", "gin", "gat", "gat-textbook", "mpnn"}))
      .shows_default();
  add_choice(options, command.choice, command.origin);
  options.add_option("--share", command.choice.share, "Share of the graphs to train and validate with")
      .range(0.0, 1.0)
      .shows_default();
  options
      .add_option("--simulated-weight", command.simulated_weight, "X",
                  "Weight of simulated samples beside measured ones")
      .check(is_not_negative);
  options.add_option("--epochs", command.plan.epochs, "At most").range(1, 1'000'000).shows_default();
  options.add_option("--patience", command.plan.patience, "Epochs without a better validation loss")
      .range(1, 1'000'000)
      .shows_default();
  options.add_option("--batch-size", command.plan.batch, "Samples per step").range(1, 4096).shows_default();
  options
      .add_option("--lr", command.learning_rate,
                  "Learning rate (default: 0.003; 0.0003 of learnt with --transfer-from)")
      .check(is_positive);
  options.add_flag("--constant-lr", command.has_constant_rate,
                   "Keep the learning rate, as published (default: half a cosine down to 1 %)");
  options.add_flag("--fixed-batches", command.has_fixed_batches,
                   "As published: the same batches in each epoch, in the order of the dataset; samples that fill no "
                   "whole batch are left out");
  options.add_option("--weight-decay", command.weight_decay, "X", "Of the published networks (default: 1e-6)")
      .check(is_not_negative);
  options
      .add_option("--budget", command.budget, "WORD",
                  "published: trains as Driple does, that is --epochs 100000 --patience 1000 --batch-size 32 "
                  "--fixed-batches --constant-lr --lr 0.003 --weight-decay 1e-6")
      .check(is_one_of({"published"}));
  options
      .add_option("--labels", command.labels, "WORD",
                  "What the published networks learn: maxima (labels divided by the largest, as published), or "
                  "standardised-logs (logarithms of mean 0 and deviation 1; the last layer is then linear)")
      .check(is_one_of({"maxima", "standardised-logs"}))
      .shows_default();
  options
      .add_option("--mlp-gain", command.mlp_gain, "X",
                  "Xavier gain with which the readout MLP of the published networks starts (default, as published: "
                  "1 / inputs of the layer)")
      .check(is_positive);
  options
      .add_option("--ablation", command.ablation, "WORD",
                  "What learnt is kept from, to see what it is good for: edges (their ends are shuffled), rounds (no "
                  "messages along them), bounds (no lower bounds of a step)")
      .check(is_one_of({"none", "edges", "rounds", "bounds"}))
      .shows_default();
  options.add_flag("--all", command.uses_test,
                   "Of corrected: learn from the test split, too, for use; compare then says nothing of its accuracy");
  options.add_count("--hidden", command.hidden, 4, 1024, "Features of a node (default: 16 of learnt, else 64)");
  add_options_of_published(options, command.published);
  options.add_option("--transfer-from", command.transfer_from, "DIR", "Start from this model");
  options
      .add_option(
          "--transfer", command.transfer, "WORD",
          "What of it learns: fine-tune (all), readout (of learnt), as-published or as-intended (of the others)")
      .check(is_one_of({"fine-tune", "readout", "as-published", "as-intended"}))
      .shows_default();
  options.add_option("--seed", command.plan.seed, "Of the first weights and the batches")
      .check(is_seed)
      .shows_default();
  add_json(options, command.common);
  add_output(options, command.common, "Folder of the model: model.pt, checkpoint.pt, curves.csv, report.html")
      .required();
  add_wall_time(options, command.common);
}

std::string hash_of(const fs::path& file) { return std::to_string(fnv1a(read_file(file, std::size_t{8} << 30U))); }

/// What a training depends on besides the program: a checkpoint of another one is not taken up.
std::string identity_of(const TrainCommand& command, const std::string& dataset_hash) {
  Json identity{{"dataset", dataset_hash},
                {"network", command.network},
                {"epochs", command.plan.epochs},
                {"patience", command.plan.patience},
                {"batch", command.plan.batch},
                {"learning_rate", command.plan.learning_rate},
                {"decays", command.plan.decays},
                {"shuffles", command.plan.shuffles},
                {"seed", command.plan.seed},
                {"settings", command.choice.settings},
                {"left_out_settings", command.choice.left_out_settings},
                {"left_out_families", command.choice.left_out_families},
                {"share", command.choice.share},
                {"origin", command.choice.origin ? to_text(*command.choice.origin) : "both"},
                {"mlp_layers", command.published.mlp_layers},
                {"iterations", command.published.iterations},
                {"dropout", command.published.dropout},
                {"gin_mlp_layers", command.published.gin_mlp_layers},
                {"aggregation", command.published.mpnn_aggregators},
                {"scalers", command.published.mpnn_scalers},
                {"pretrans_layers", command.published.mpnn_pre_layers},
                {"posttrans_layers", command.published.mpnn_post_layers},
                {"self_loop", command.published.mpnn_self_loop}};
  if (command.ablation != "none") identity["ablation"] = command.ablation;
  if (command.hidden) identity["hidden"] = *command.hidden;
  if (command.weight_decay) identity["weight_decay"] = *command.weight_decay;
  if (command.simulated_weight) identity["simulated_weight"] = *command.simulated_weight;
  if (command.published.labels != LabelScaling::kMaxima) identity["labels"] = command.labels;
  if (command.mlp_gain) identity["mlp_gain"] = *command.mlp_gain;
  if (command.choice.family) identity["family"] = *command.choice.family;
  if (command.transfer_from) identity["transfer"] = {hash_of(*command.transfer_from / "model.pt"), command.transfer};
  return identity.dump();
}

TorchValue to_value(const TrainingState& state, const std::string& identity, const Predictor& predictor) {
  std::vector<double> losses;
  for (const Epoch& epoch : state.epochs) losses.insert(losses.end(), {epoch.train_loss, epoch.validation_loss});
  return TorchDict{{{"format", 1},
                    {"training", identity},
                    {"losses", TorchTensor::of_doubles({static_cast<std::int64_t>(state.epochs.size()), 2}, losses)},
                    {"best", state.best},
                    {"model", predictor.state()}}};
}

TrainingState state_of(const TorchValue& file, const std::string& where) {
  TrainingState state;
  const std::vector<double> losses = file.at("losses", where).tensor(where + ": losses").values();
  for (std::size_t i = 0; i + 1 < losses.size(); i += 2) state.epochs.push_back({losses[i], losses[i + 1]});
  state.best = static_cast<int>(file.at("best", where).integer(where + ": best"));
  if (state.best < 0 || state.best >= static_cast<int>(state.epochs.size()))
    throw InputError{where + ": best: expected one of the epochs"};
  return state;
}

std::string curves_of(const TrainingState& state) {
  std::string csv = "epoch,train_loss,validation_loss\n";
  for (std::size_t i = 0; i < state.epochs.size(); ++i)
    csv += std::to_string(i + 1) + "," + Json(state.epochs[i].train_loss).dump() + "," +
           Json(state.epochs[i].validation_loss).dump() + "\n";
  return csv;
}

void write_report(const fs::path& folder, const TrainCommand& command, const TrainingState& state,
                  std::int64_t parameters) {
  Series train{.name = "training"}, validation{.name = "validation"};
  for (std::size_t i = 0; i < state.epochs.size(); ++i) {
    train.x.push_back(static_cast<double>(i + 1));
    validation.x.push_back(static_cast<double>(i + 1));
    train.y.push_back(state.epochs[i].train_loss);
    validation.y.push_back(state.epochs[i].validation_loss);
  }
  const Document document{
      .title = "Training of a " + command.network + " network",
      .subtitle = command.common.command_line,
      .headlines = {{"epochs", std::to_string(state.epochs.size())},
                    {"best epoch", std::to_string(state.best + 1)},
                    {"validation loss", display(state.epochs[static_cast<std::size_t>(state.best)].validation_loss)},
                    {"parameters that learn", std::to_string(parameters)}},
      .sections = {{.title = "Losses",
                    .paragraphs = {},
                    .tables = {},
                    .figures = {Plot{
                        .title = "Loss", .x_label = "epoch", .y_label = "loss", .series = {train, validation}}}}},
      .verdict = state.best + 1 == state.epochs.size()
                     ? "The loss of what it has not seen still falls in the last epoch: more may be better."
                     : "The loss of what it has not seen was lowest in epoch " + std::to_string(state.best + 1) +
                           " of " + std::to_string(state.epochs.size()) + ", whose network is kept."};
  OutputFolder files{folder};
  files.write("curves.csv", curves_of(state));
  files.write("report.html", render_html(document));
  files.commit();
}

Answer answer_of(const TrainingState& state, const TrainingSamples& samples, std::int64_t parameters) {
  const Epoch& kept = state.epochs[static_cast<std::size_t>(state.best)];
  const Json result{{"training_samples", samples.training.size()},
                    {"validation_samples", samples.validation.size()},
                    {"parameters", parameters},
                    {"epochs", state.epochs.size()},
                    {"best_epoch", state.best + 1},
                    {"training_loss", kept.train_loss},
                    {"validation_loss", samples.validation.empty() ? Json{} : Json(kept.validation_loss)}};
  Answer answer{.json = to_json_text(result)};
  answer.named("samples",
               formatted("%zu for training, %zu for validation", samples.training.size(), samples.validation.size()));
  answer.named("parameters", std::to_string(parameters) + " that learn");
  answer.named("epochs", formatted("%zu, the best is %d", state.epochs.size(), state.best + 1));
  answer.named("loss", samples.validation.empty()
                           ? formatted("%.6g, none of validation", kept.train_loss)
                           : formatted("%.6g, validation %.6g", kept.train_loss, kept.validation_loss));
  return answer;
}

/// Of each study how errors fall with rows of it.
Json to_json(const std::vector<StudyCurve>& curves) {
  Json json = Json::array();
  for (const StudyCurve& curve : curves)
    for (const StudyCurve::Point& point : curve.points)
      json.push_back({{"study", curve.study},
                      {"rows", curve.rows},
                      {"models", curve.models},
                      {"rows_added", point.added},
                      {"simulated_ape", point.engine},
                      {"corrected_ape", point.corrected},
                      {"ratio_5_to_95", {point.ratio_low, point.ratio_high}},
                      {"covered_by_90", point.covered},
                      {"questions", point.questions},
                      {"regret_by_chance", point.regret_by_chance},
                      {"simulated_regret", point.regret_engine},
                      {"corrected_regret", point.regret_corrected}});
  return json;
}

Table table_of(const std::vector<StudyCurve>& curves) {
  Table table{.header = {"study left out", "rows", "rows added", "simulated, %", "corrected, %", "ratio", "5 to 95 %",
                         "in interval of 90 %", "choices", "regret by chance, %", "simulated, %", "corrected, %"},
              .rows = {}};
  for (const StudyCurve& curve : curves)
    for (const StudyCurve::Point& point : curve.points)
      table.rows.push_back({curve.study, std::to_string(curve.rows), std::to_string(point.added), display(point.engine),
                            display(point.corrected), display(point.corrected / point.engine),
                            display(point.ratio_low) + " to " + display(point.ratio_high),
                            display(100 * point.covered) + " %", display(point.questions),
                            display(100 * point.regret_by_chance), display(100 * point.regret_engine),
                            display(100 * point.regret_corrected)});
  std::map<std::size_t, std::vector<const StudyCurve::Point*>> by_added;
  for (const StudyCurve& curve : curves)
    for (const StudyCurve::Point& point : curve.points) by_added[point.added].push_back(&point);
  for (const auto& [added, points] : by_added) {
    std::vector<double> simulated, corrected, ratios;
    for (const StudyCurve::Point* point : points) {
      simulated.push_back(point->engine);
      corrected.push_back(point->corrected);
      ratios.push_back(point->corrected / point->engine);
    }
    table.rows.push_back({"mean of " + std::to_string(points.size()) + " studies", "", std::to_string(added),
                          display(mean(simulated)), display(mean(corrected)), display(mean(ratios)), "", "", "", "", "",
                          ""});
  }
  return table;
}

constexpr std::size_t kLeastStudy = 60;  // rows of a study that is left out

Answer train_corrected(const TrainCommand& command) {
  keep_freed_memory();
  const fs::path folder = *command.common.output;
  const Dataset dataset = load_dataset(command.dataset);
  SampleChoice choice = command.choice;
  choice.origin = Origin::kMeasured;
  std::vector<std::size_t> samples;
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    if (split == Split::kTest && !command.uses_test) continue;
    const std::vector<std::size_t> more = choose_samples(dataset, split, choice);
    samples.insert(samples.end(), more.begin(), more.end());
  }
  if (samples.empty()) throw InputError{command.dataset.string() + ": has no measured sample to learn from"};
  const MadeFolder made{folder};
  const OutputLock lock{folder / "model.pt"};
  const fs::path simulated = folder / "simulated.db";  // until the model is there
  EngineOnDemand engine{dataset, samples, command.common, simulated};
  const auto corrected = about(command.dataset.string(), [&] {
    return CorrectedEngine{dataset, samples, engine.get()};
  });
  const std::vector<StudyCurve> curves =
      left_out_studies(dataset, samples, engine.get(), kLeastStudy, command.plan.seed);
  Json counts = Json::object();
  for (const auto& [label, count] : corrected.counts()) counts[label] = count;
  Answer answer{.json = to_json_text(Json{{"residuals", counts}, {"left_out_studies", to_json(curves)}})};
  for (const auto& [label, count] : corrected.counts()) answer.named(label, std::to_string(count) + " measured");
  answer.line();
  answer.table(table_of(curves));
  write_torch_file(folder / "model.pt", corrected.state());
  OutputFolder files{folder};
  files.write("left_out.json", answer.json);
  files.write("report.html", render_html({.title = "The engine, corrected by measured jobs",
                                          .subtitle = command.common.command_line,
                                          .headlines = {},
                                          .sections = {{.title = "Studies left out, and some of their rows added",
                                                        .paragraphs = {},
                                                        .tables = {table_of(curves)}}}}));
  files.commit();
  fs::remove(simulated);
  say_written(command.common, folder, {"model.pt", "left_out.json", "report.html"});
  return answer;
}

PredictorChoice choice_of(const TrainCommand& command) {
  PredictorChoice choice{.network = command.network, .published = command.published, .seed = command.plan.seed};
  choice.metrics.seed = command.plan.seed;
  if (command.ablation == "edges") choice.metrics.ablation = Ablation::kEdges;
  if (command.ablation == "bounds") choice.metrics.ablation = Ablation::kBounds;
  if (command.ablation == "rounds") {
    choice.metrics.ablation = Ablation::kRounds;
    choice.metrics.message_rounds = 0;
  }
  if (command.hidden) choice.metrics.hidden = choice.published.hidden = *command.hidden;
  if (command.weight_decay) choice.adam.weight_decay = *command.weight_decay;
  if (command.network != "learnt")
    choice.frequencies = load_type_frequencies(shipped_files() / "calibration/data/driple/op_type_frequency.csv");
  return choice;
}

/// Published networks see nothing of a cluster.
void warn_of_several_settings(const TrainCommand& command, const Dataset& dataset,
                              const std::vector<std::size_t>& training) {
  const std::size_t settings = taught_settings(dataset, training).count;
  if (command.network != "learnt" && settings > 1)
    print_warnings(std::array{command.network + " sees nothing of a cluster, and learns a mean of " +
                              std::to_string(settings) + " settings: choose one by --setting"},
                   command.common.is_quiet);
}

Answer train_network(const TrainCommand& command) {
  use_torch_threads(1);
  keep_freed_memory();
  if (const std::string advice = linear_algebra_warning(); !advice.empty() && !command.common.is_quiet)
    print_warning(advice);
  const fs::path folder = *command.common.output;
  Dataset dataset = load_dataset(command.dataset);
  if (command.simulated_weight)
    for (Sample& sample : dataset.samples)
      if (sample.origin == Origin::kSimulated) sample.weight *= *command.simulated_weight;
  SampleChoice chosen = command.choice;
  chosen.needs_step = command.network == "learnt" && !command.transfer_from;
  const TrainingSamples samples{choose_samples(dataset, Split::kTrain, chosen),
                                choose_samples(dataset, Split::kValidation, chosen)};
  limit_studies(dataset, samples.training);
  limit_studies(dataset, samples.validation);
  const PredictorChoice choice = choice_of(command);
  about(command.dataset.string(), [&] {
    if (command.network != "learnt" && dataset.node_features == node_feature_names())  // else they are grouped
      for (const DatasetGraph& graph : dataset.graphs) (void)operator_network(graph, choice.frequencies);
    return samples_of_epoch(samples, command.plan);
  });
  const MadeFolder made{folder};
  const OutputLock lock{folder / "model.pt"};
  const fs::path checkpoint = folder / "checkpoint.pt", best = folder / "model.pt";
  const std::string identity = identity_of(command, hash_of(command.dataset));
  TrainingState state;
  std::unique_ptr<Predictor> predictor;
  if (fs::exists(checkpoint)) {
    const TorchValue file = load_torch_file(checkpoint);
    if (file.at("training", checkpoint.string()).text(checkpoint.string()) != identity)
      throw InputError{folder.string() + ": holds another training, of other data or options: choose another -o"};
    state = state_of(file, checkpoint.string());
    predictor = load_predictor(file.at("model", checkpoint.string()), checkpoint.string());
  } else if (command.transfer_from) {
    predictor =
        carry_over(load_torch_file(*command.transfer_from / "model.pt"), (*command.transfer_from / "model.pt").string(),
                   command.transfer, choice, dataset, samples.training);
  } else {
    predictor = about(command.dataset.string(), [&] { return make_predictor(choice, dataset, samples.training); });
  }

  warn_of_several_settings(command, dataset, samples.training);
  const FolderInParts parts{folder};  // model.pt is the best so far, the report comes at the end
  Progress progress{"samples", command.common.is_quiet};
  const auto resumed = static_cast<double>(state.epochs.size());
  const auto count = static_cast<double>(samples.training.size());
  train(*predictor, dataset, samples, command.plan, state,
        {.on_epoch =
             [&](const TrainingState& now, bool is_best) {
               if (is_best) {
                 predictor->calibrate(dataset, samples.validation);
                 write_torch_file(best, predictor->state());
               }
               write_torch_file(checkpoint, to_value(now, identity, *predictor));
               write_file(folder / "curves.csv", curves_of(now));
               progress.note(", epoch " + std::to_string(now.epochs.size()) + ", loss " +
                             display(now.epochs.back().train_loss) + ", validation " +
                             display(now.epochs.back().validation_loss));
             },
         .on_step =
             [&](double part) {
               const double done = static_cast<double>(state.epochs.size()) - resumed + part;
               progress.update(static_cast<std::int64_t>(done * count),
                               static_cast<std::int64_t>((command.plan.epochs - resumed) * count));
             },
         .is_stopped = command.common.budget.asked()});
  if (!state.is_over(command.plan)) {
    progress.clear();
    end_early(command.common.budget,
              "the same command goes on in " + folder.string() + " after epoch " + std::to_string(state.epochs.size()));
  }
  write_report(folder, command, state, predictor->parameters());
  parts.finish();
  say_written(command.common, folder, {"model.pt", "curves.csv", "report.html"});
  return answer_of(state, samples, predictor->parameters());
}

/// As Driple's README and program train. Throws InputError for an option that says otherwise.
void take_published_budget(TrainCommand& command) {
  const auto refuse = [](const std::string& expected) {
    throw InputError{"--budget published: expected " + expected + " beside it; see rehearse train --help"};
  };
  if (command.network == "learnt" || command.network == "corrected")
    refuse("--network gcn, gin, gat, gat-textbook or mpnn");
  const auto take = [&](const std::string& option, auto& value, auto published, const char* text) {
    if (command.common.given.contains(option) && value != published) refuse(option + " " + text + " or none");
    value = published;
  };
  take("--epochs", command.plan.epochs, 100'000, "100000");
  take("--patience", command.plan.patience, 1000, "1000");
  take("--batch-size", command.plan.batch, 32, "32");
  take("--lr", command.learning_rate, 0.003, "0.003");
  take("--weight-decay", command.weight_decay, 1e-6, "1e-6");
  command.has_constant_rate = command.has_fixed_batches = true;
}

/// What was typed becomes plan and choice.
Answer run(const TrainCommand& typed) {
  TrainCommand command = typed;
  if (command.common.given.contains("--transfer") && !command.transfer_from)
    throw InputError{"--transfer: expected --transfer-from beside it; see rehearse train --help"};
  for (const char* option : {"--labels", "--mlp-gain"})
    if (command.common.given.contains(option) &&
        (command.network == "learnt" || command.network == "corrected" || command.transfer_from))
      throw InputError{std::string{option} +
                       ": of a published network that starts anew: expected --network gcn, gin, gat, gat-textbook or "
                       "mpnn, and no --transfer-from"};
  if (!command.budget.empty()) take_published_budget(command);
  command.published.labels = parse_label_scaling(command.labels);
  command.published.mlp_gain = command.mlp_gain.value_or(0.0);
  // What a network has learnt before is near; large steps would lose it.
  if (command.transfer_from && command.network == "learnt") command.plan.learning_rate = 0.0003;
  if (command.learning_rate) command.plan.learning_rate = *command.learning_rate;
  command.plan.decays = !command.has_constant_rate;
  command.plan.shuffles = !command.has_fixed_batches;
  command.plan.drops_rest = command.has_fixed_batches;
  set_origin(command.choice, command.origin);
  if (command.uses_test && command.network != "corrected")
    throw InputError{"--all: expected --network corrected beside it; networks are told their test split by compare"};
  if (command.network == "corrected") return train_corrected(command);
  return train_network(command);
}

}  // namespace

CommandVerb train_verb() {
  return make_verb<TrainCommand>(
      "train",
      "Train a network on a dataset; the same command goes on where it stopped. A study has at most a quarter of the "
      "weight of measured samples, if there are four or more\n\n"
      "Example: rehearse train dataset.db -o model --epochs 60\n"
      "Example: rehearse train other.db -o other --transfer-from model --transfer fine-tune --share 0.125",
      add_options, run);
}

}  // namespace rehearse
