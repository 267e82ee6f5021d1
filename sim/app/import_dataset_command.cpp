// rehearse import SOURCE... -o DATASET, and rehearse import WEIGHTS -o MODEL

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "predictor/driple/measured_dataset.hpp"
#include "predictor/gnn/predictor_file.hpp"
#include "predictor/gnn/published_weights.hpp"
#include "predictor/gnn/torch_threads.hpp"
#include "predictor/merge.hpp"
#include "sim/app/output/document.hpp"
#include "sim/app/predictor_inputs.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/about.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/output_folder.hpp"
#include "sim/base/output_lock.hpp"
#include "workloads/importers/importer.hpp"

namespace rehearse {

namespace {

struct ImportCommand {
  CommonOptions common;  // output: the dataset's file; of weights, the model's folder
  std::vector<std::filesystem::path> sources;
  bool is_grouped = false;
};

void add_options(Options options, ImportCommand& command) {
  options
      .add_option("SOURCE", command.sources,
                  "List of measured jobs, or dataset; several become one. Or weights of Driple's program")
      .required();
  options.add_flag("--grouped", command.is_grouped,
                   "Graphs of groups of operators, GraphDefs as Driple groups them: for gcn, gin, gat, mpnn alone");
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

bool is_torch_file(const std::filesystem::path& file) {
  const FormatReader* reader = find_format(Source{file});
  return reader != nullptr && reader->format == SourceFormat::kTorchFile;
}

/// A state_dict becomes a folder that predict, compare and train --transfer-from take.
int import_weights(const ImportCommand& command) {
  const std::filesystem::path& file = *std::ranges::find_if(command.sources, is_torch_file);
  if (command.sources.size() > 1)
    throw InputError{file.string() + ": weights are imported alone: expected no other SOURCE"};
  if (command.is_grouped) throw InputError{"--grouped: expected datasets or lists of measured jobs"};
  use_torch_threads(1);
  const TorchValue weights = load_torch_file(file);
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
  show(command.common, result, [&] {
    std::printf("%s of %d features a node and %d readout layers, %lld parameters\n",
                to_text(options.convolution).c_str(), options.hidden, options.mlp_layers,
                static_cast<long long>(predictor->parameters()));
  });
  return kSuccess;
}

int run(const ImportCommand& command) {
  if (std::ranges::any_of(command.sources, is_torch_file)) return import_weights(command);
  const Catalog catalog = load_catalog(command.common);
  std::optional<TypeFrequencies> frequencies;
  if (command.is_grouped)
    frequencies = load_type_frequencies(shipped_files() / "calibration/data/driple/op_type_frequency.csv");
  MergedDataset merged;
  for (const std::filesystem::path& source : command.sources) {
    Dataset dataset;
    if (is_dataset(source)) {
      dataset = load_dataset(source);
      if (frequencies) dataset = with_groups(std::move(dataset), *frequencies);
    } else {
      MeasuredDataset measured = measured_dataset_of(load_measurement_list(source), catalog, frequencies);
      print_warnings(measured.warnings, command.common.is_quiet);
      dataset = std::move(measured.dataset);
    }
    std::vector<std::string> moves = about(source.string(), [&] { return merged.add(std::move(dataset)); });
    for (std::string& move : moves) move.insert(0, source.string() + ": ");
    print_warnings(moves, command.common.is_quiet);
  }
  const Dataset& dataset = merged.dataset();
  const auto made = make_folder_of(command.common.output);
  command.common.budget.check();
  write_dataset(*command.common.output, dataset);
  const Json counts{
      {"samples", dataset.samples.size()}, {"graphs", dataset.graphs.size()}, {"settings", dataset.settings.size()}};
  show(command.common, counts, [&] {
    std::printf("%zu samples of %zu graphs in %zu settings\n\n%s", dataset.samples.size(), dataset.graphs.size(),
                dataset.settings.size(), to_text(table_of(dataset)).c_str());
  });
  return kSuccess;
}

}  // namespace

CommandVerb import_verb() {
  return make_verb<ImportCommand>(
      "import",
      "Measured jobs become a dataset to train on and to compare with; datasets are put together; weights of Driple's "
      "program become a folder to predict with\n\n"
      "A list of measured jobs (rehearse schema measurements) names scenarios, graphs and what was recorded. Samples "
      "of a model, of one study where they were measured, that an earlier SOURCE has stay in its split, with a warning "
      "where they were in another one\n\n"
      "Example: rehearse import simulated.db measured.json -o mixed.db\n"
      "Example: rehearse import pre-train.pkl -o pretrained",
      add_options, run);
}

}  // namespace rehearse
