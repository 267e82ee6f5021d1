// rehearse import SOURCE... -o DATASET

#include <cstdio>
#include <nlohmann/json.hpp>

#include "predictor/driple/measured_dataset.hpp"
#include "predictor/merge.hpp"
#include "sim/app/output/document.hpp"
#include "sim/app/predictor_inputs.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/about.hpp"
#include "sim/base/errors.hpp"

namespace rehearse {

namespace {

struct ImportCommand {
  CommonOptions common;  // output: the dataset's file
  std::vector<std::filesystem::path> sources;
  bool is_grouped = false;
};

void add_options(Options options, ImportCommand& command) {
  options.add_option("SOURCE", command.sources, "List of measured jobs, or dataset; several become one").required();
  options.add_flag("--grouped", command.is_grouped,
                   "Graphs of groups of operators, GraphDefs as Driple groups them: for gcn, gin, gat, mpnn alone");
  add_catalogs(options, command.common, kOwnCatalogs);
  options.add_option("-o,--output", command.common.output, "Dataset file to write").required().type_name("DATASET");
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

int run(const ImportCommand& command) {
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
    about(source.string(), [&] { merged.add(std::move(dataset)); });
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
      "Measured jobs become a dataset to train on and to compare with; datasets are put together\n\n"
      "A list of measured jobs (rehearse schema measurements) names scenarios, graphs and what was recorded. Graphs of "
      "a model that an earlier SOURCE has stay in its split\n\n"
      "Example: rehearse import simulated.db measured.json -o mixed.db",
      add_options, run);
}

}  // namespace rehearse
