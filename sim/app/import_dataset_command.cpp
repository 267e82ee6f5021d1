// rehearse import SOURCE... -o DATASET, and rehearse import WEIGHTS -o MODEL

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "predictor/driple/measured_dataset.hpp"
#include "predictor/driple_export.hpp"
#include "predictor/gnn/predictor_file.hpp"
#include "predictor/gnn/published_weights.hpp"
#include "predictor/gnn/torch_threads.hpp"
#include "predictor/merge.hpp"
#include "sim/app/output/document.hpp"
#include "sim/app/predictor_commands.hpp"
#include "sim/app/predictor_inputs.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/about.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/output_folder.hpp"
#include "sim/base/output_lock.hpp"

namespace rehearse {

namespace {

struct ImportCommand {
  CommonOptions common;  // output: the dataset's file; of weights, the model's folder
  std::vector<std::filesystem::path> sources;
  std::optional<std::filesystem::path> scenario;  // of the cluster of data files of Driple
  bool is_grouped = false;
};

void add_options(Options options, ImportCommand& command) {
  options
      .add_option("SOURCE", command.sources,
                  "List of measured jobs, dataset, data file of Driple or folder of those; several become one. Or "
                  "weights of Driple's program")
      .required();
  options.add_flag("--grouped", command.is_grouped,
                   "Graphs of groups of operators, GraphDefs as Driple groups them: for gcn, gin, gat, mpnn alone");
  options.add_option("--scenario", command.scenario, "FILE",
                     "Of data files of Driple: the cluster that they were measured in, whose setting they then are");
  add_catalogs(options, command.common, kOwnCatalogs);
  options.add_option("-o,--output", command.common.output, "Dataset file to write; of weights, folder of the model")
      .required()
      .type_name("DATASET");
  add_json(options, command.common);
  add_quiet(options, command.common, "No warnings on stderr");
  add_wall_time(options, command.common);
}

/// Samples of each origin in each split.
Table table_of(const Dataset& dataset) {
  Table table{.header = {"origin", "train", "validation", "test"}, .rows = {}};
  for (const Origin origin : {Origin::kSimulated, Origin::kMeasured}) {
    std::size_t counts[3] = {0, 0, 0};
    for (const Sample& sample : dataset.samples)
      if (sample.origin == origin) ++counts[static_cast<int>(sample.split)];
    table.rows.push_back(
        {to_text(origin), std::to_string(counts[0]), std::to_string(counts[1]), std::to_string(counts[2])});
  }
  return table;
}

/// A state_dict becomes a folder that predict, compare and train --transfer-from take.
Answer import_weights(const ImportCommand& command, const std::filesystem::path& file, const TorchValue& weights) {
  if (command.sources.size() > 1)
    throw InputError{file.string() + ": weights are imported alone: expected no other SOURCE"};
  if (command.is_grouped) throw InputError{"--grouped: expected datasets or lists of measured jobs"};
  if (command.scenario) throw InputError{"--scenario: expected data files of Driple; found weights, " + file.string()};
  use_torch_threads(1);
  const TypeFrequencies frequencies =
      load_type_frequencies(shipped_files() / "calibration/data/driple/op_type_frequency.csv");
  const std::unique_ptr<Predictor> predictor = predictor_of_weights(weights, file.string(), frequencies);
  const PublishedOptions options = options_of_weights(weights, file.string());
  std::vector<std::string> warnings{
      file.string() +
      ": the largest labels, by which Driple divides, are not in the file: predictions are shares of them, without "
      "unit; train --transfer-from learns with units"};
  if (has_third_convolution(weights))
    warnings.push_back(file.string() + ": the third convolution is left out: as published nothing passes through it");
  const std::filesystem::path folder = *command.common.output;
  const MadeFolder made{folder};
  const OutputLock lock{folder / "model.pt"};
  if (std::filesystem::exists(folder / "checkpoint.pt"))
    throw InputError{folder.string() + ": holds a training: choose another -o"};
  command.common.budget.check();
  write_torch_file(folder / "model.pt", predictor->state());
  print_warnings(warnings, command.common.is_quiet);
  const Json result{{"network", to_text(options.convolution)},
                    {"hidden", options.hidden},
                    {"mlp_layers", options.mlp_layers},
                    {"iterations", options.iterations},
                    {"parameters", predictor->parameters()}};
  return {.json = to_json_text(result),
          .parts = {to_text(options.convolution) + " of " + std::to_string(options.hidden) + " features a node and " +
                    std::to_string(options.mlp_layers) + " readout layers, " + std::to_string(predictor->parameters()) +
                    " parameters\n"}};
}

/// A source, with its setting's name if it is a data file of Driple.
struct DatasetSource {
  std::filesystem::path file;
  std::string name;
  bool is_driple = false;
};

/// The data files of Driple in a folder, in the order of their names, and whether there are others beside them.
std::vector<std::filesystem::path> driple_files_in(const std::filesystem::path& folder, bool& has_others) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator{folder}) {
    const bool is_one = entry.is_regular_file() && is_torch_file(entry.path());
    if (is_one) files.push_back(entry.path());
    has_others = has_others || !is_one;
  }
  if (files.empty())
    throw InputError{folder.string() + ": expected a folder with data files of Driple (.pkl, .dat); found none in it"};
  std::ranges::sort(files);
  return files;
}

/// Folders become the data files in them; settings of data files get distinct names, those of the files, or where they are
/// alike their paths.
std::vector<DatasetSource> sources_of(const ImportCommand& command) {
  std::vector<DatasetSource> sources;
  std::vector<std::string> warnings;
  for (const std::filesystem::path& source : command.sources) {
    if (!std::filesystem::is_directory(source)) {
      sources.push_back({.file = source, .name = source.stem().string(), .is_driple = is_torch_file(source)});
      continue;
    }
    bool has_others = false;
    for (const std::filesystem::path& file : driple_files_in(source, has_others))
      sources.push_back({.file = file, .name = file.stem().string(), .is_driple = true});
    if (has_others) warnings.push_back(source.string() + ": only the data files of Driple in it are read");
  }
  std::map<std::string, std::size_t> uses;
  std::set<std::filesystem::path> known;
  for (const DatasetSource& source : sources)
    if (source.is_driple) {
      ++uses[source.name];
      if (!known.insert(std::filesystem::weakly_canonical(source.file)).second)
        throw InputError{source.file.string() + ": is given twice"};
    }
  for (DatasetSource& source : sources)
    if (uses[source.name] > 1) source.name = (source.file.parent_path() / source.file.stem()).string();
  print_warnings(warnings, command.common.is_quiet);
  return sources;
}

/// A data file of Driple, and what is to be said of it.
Dataset load_driple_source(const ImportCommand& command, const DatasetSource& source,
                           const std::optional<Scenario>& scenario) {
  Dataset dataset = load_driple_file(source.file, source.name, scenario);
  std::vector<std::string> warnings;
  const bool is_measured =
      std::ranges::any_of(dataset.samples, [](const Sample& sample) { return sample.origin == Origin::kMeasured; });
  if (is_measured)
    warnings.push_back(source.file.string() +
                       ": its labels are taken as measured, in its own units: the file names none, so seconds, shares "
                       "and bytes per second are not certain");
  if (const std::size_t repeated = repeated_graphs(dataset); repeated > 0)
    warnings.push_back(source.file.string() + ": " + std::to_string(repeated) +
                       " graphs for validation and tests are also among those for training: errors on them say little "
                       "of other networks");
  print_warnings(warnings, command.common.is_quiet);
  return dataset;
}

Dataset load_source(const ImportCommand& command, const DatasetSource& source, const Catalog& catalog,
                    const std::optional<TypeFrequencies>& frequencies, const std::optional<Scenario>& scenario) {
  if (source.is_driple) return load_driple_source(command, source, scenario);
  if (is_dataset(source.file)) {
    Dataset dataset = load_dataset(source.file);
    return frequencies ? with_groups(std::move(dataset), *frequencies) : dataset;
  }
  MeasuredDataset measured = measured_dataset_of(load_measurement_list(source.file), catalog, frequencies);
  return std::move(measured.dataset);
}

Answer run(const ImportCommand& command) {
  const std::vector<DatasetSource> sources = sources_of(command);
  for (const DatasetSource& source : sources) {
    if (!source.is_driple) continue;
    const TorchValue root = load_torch_file(source.file);
    if (!is_driple_dataset(root)) return import_weights(command, source.file, root);
  }
  const bool has_driple = std::ranges::any_of(sources, &DatasetSource::is_driple);
  const Catalog catalog = load_catalog(command.common);
  std::optional<TypeFrequencies> frequencies;
  if (command.is_grouped)
    frequencies = load_type_frequencies(shipped_files() / "calibration/data/driple/op_type_frequency.csv");
  std::optional<Scenario> scenario;
  if (command.scenario) {
    if (!has_driple) throw InputError{"--scenario: expected data files of Driple, which name no cluster"};
    JsonOrigins origins;
    const Json json = load_scenario_json(*command.scenario, {}, catalog, origins);
    scenario = read_scenario(json, command.scenario->string(), catalog, origins);
  }
  MergedDataset merged;
  for (const DatasetSource& source : sources) {
    Dataset dataset = load_source(command, source, catalog, frequencies, scenario);
    std::vector<std::string> moves = about(source.file.string(), [&] { return merged.add(std::move(dataset)); });
    for (std::string& move : moves) move.insert(0, source.file.string() + ": ");
    print_warnings(moves, command.common.is_quiet);
    command.common.budget.check();
  }
  const Dataset& dataset = merged.dataset();
  const auto made = make_folder_of(command.common.output);
  command.common.budget.check();
  write_dataset(*command.common.output, dataset);
  const Json counts{
      {"samples", dataset.samples.size()}, {"graphs", dataset.graphs.size()}, {"settings", dataset.settings.size()}};
  return {.json = to_json_text(counts),
          .parts = {formatted("%zu samples of %zu graphs in %zu settings\n\n", dataset.samples.size(),
                              dataset.graphs.size(), dataset.settings.size()),
                    table_of(dataset)}};
}

}  // namespace

CommandVerb import_verb() {
  return make_verb<ImportCommand>(
      "import",
      "Measured jobs and data files of Driple become a dataset to train on and to compare with; datasets are put "
      "together; weights of Driple's program become a folder to predict with\n\n"
      "A list of measured jobs (rehearse schema measurements) names scenarios, graphs and what was recorded. Samples "
      "of a model, of one study where they were measured, that an earlier SOURCE has stay in its split, with a warning "
      "where they were in another one\n\n"
      "Example: rehearse import simulated.db measured.json -o mixed.db\n"
      "Example: rehearse import v100.pkl 2080ti.pkl -o measured.db\n"
      "Example: rehearse import pre-train.pkl -o pretrained",
      add_options, run);
}

}  // namespace rehearse
