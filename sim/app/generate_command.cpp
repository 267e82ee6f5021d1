// rehearse generate: random workloads on the clusters of a space, simulated, as a dataset for training; or the measured
// rows of studies.

#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "calibration/predicted_computation.hpp"
#include "predictor/driple_export.hpp"
#include "predictor/generate.hpp"
#include "predictor/measured_studies.hpp"
#include "sim/app/executor.hpp"
#include "sim/app/output/dataset_document.hpp"
#include "sim/app/program.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/output_folder.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

struct GenerateCommand {
  CommonOptions common;         // its output is a file here, a folder for Driple's format
  std::filesystem::path space;  // or study
  std::int64_t count = 0;       // samples of a space
  std::uint64_t seed = 1;
  std::vector<std::string> settings;    // of the space, or clusters; empty: all
  std::string format = "rehearse";      // or "driple"
  bool withholds_own_profiles = false;  // of studies
  bool is_dry_run = false;
};

void add_options(Options options, GenerateCommand& command) {
  options.add_option("SPACE", command.space, "Space file (rehearse schema space), or a study or set of studies")
      .required();
  options.add_count("--count", command.count, 1, 100'000'000,
                    "Samples of a space: graphs times the settings that each is simulated in");
  options.add_repeatable("--setting", command.settings, "NAME",
                         "Only this setting of the space, or this cluster; repeatable");
  options.add_option("--seed", command.seed, "N", "Seed of every random stream (default: 1)").check(is_seed);
  options
      .add_option("--format", command.format, "NAME",
                  "rehearse: a dataset file; driple: DATASET is a folder with this file, dataset.db, and one for each "
                  "setting, SETTING.dat, that Driple's program reads: graphs of 100 groups in batches of 32, the "
                  "splits of dataset.db without their incomplete last batch")
      .check(is_one_of({"rehearse", "driple"}))
      .shows_default();
  options.add_flag("--without-own-profiles", command.withholds_own_profiles,
                   "Of studies: without the profiles that were fitted on their rows, and their step times");
  options.add_flag("--dry-run", command.is_dry_run, "Draw the graphs; print how many, and their size");
  options.add_flag("--json", command.common.prints_json, "Print a summary as JSON instead of tables");
  add_catalogs(options, command.common);
  options.add_option("-o,--output", command.common.output, "DATASET",
                     "Dataset file to write, or folder with --format driple");
  add_quiet(options, command.common);
  add_parallel(options, command.common);
  add_wall_time(options, command.common);
}

Answer answer_of(const Generated& generated, const Json& json) {
  const Redrawn& redrawn = generated.redrawn;
  const auto number = [](std::int64_t count) { return std::to_string(count); };
  Answer answer{.json = to_json_text(json)};
  answer.line(std::to_string(generated.samples.size()) + " samples of " + number(generated.graphs) + " graphs in " +
              std::to_string(generated.settings.size()) + " settings; half of the graphs have " +
              display(generated.median_operators) + " operators or more");
  answer.line("drawn again: " + number(redrawn.duplicates) + " duplicates, " + number(redrawn.exceeding_memory) +
              " too large for a GPU, " + number(redrawn.other_sizes) + " with another number of operators, " +
              number(redrawn.unbuildable) + " that cannot be built");
  if (!redrawn.last_reason.empty()) answer.line("the last that cannot be built: " + redrawn.last_reason);
  if (generated.without_result > 0)
    answer.line(number(generated.without_result) + " samples without result, the last one: " + generated.last_failure);
  return answer;
}

/// The name of a setting as that of a file: everything but letters, digits, '.', '_' and '-' becomes '-'.
std::string file_name_of(std::string setting) {
  for (char& c : setting)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_' && c != '-') c = '-';
  return setting + ".dat";
}

/// Of samples that are not simulated yet: some of them may be left out later.
void check_driple_batches(const Generated& planned, std::int64_t count) {
  std::map<std::pair<std::int32_t, Split>, std::size_t> sizes;
  for (const Sample& sample : planned.samples) ++sizes[{sample.setting, sample.split}];
  for (std::size_t s = 0; s < planned.settings.size(); ++s)
    for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest})
      if (const std::size_t size = sizes[{static_cast<std::int32_t>(s), split}]; size < kDripleBatch)
        throw InputError{"--format driple: of " + std::to_string(count) + " samples, setting " +
                         planned.settings[s].name + " gets " + std::to_string(size) + " for " + to_text(split) +
                         ", less than a batch of " + std::to_string(kDripleBatch) + ": give a larger --count"};
}

void write_driple_files(const fs::path& dataset_file, const fs::path& folder, const CommonOptions& common) {
  const Dataset dataset = load_dataset(dataset_file);
  const TypeFrequencies frequencies =
      load_type_frequencies(shipped_files() / "calibration/data/driple/op_type_frequency.csv");
  std::vector<GroupedGraph> grouped;
  for (const DatasetGraph& graph : dataset.graphs) grouped.push_back(group_graph(graph, frequencies));
  std::set<std::string> names;
  OutputFolder files{folder};
  for (std::size_t s = 0; s < dataset.settings.size(); ++s) {
    common.budget.check();
    const std::string name = file_name_of(dataset.settings[s].name);
    const fs::path file = folder / name;
    if (!names.insert(name).second) throw InputError{file.string() + ": two settings have this file name"};
    std::size_t left_out = 0;
    const DripleDataset driple = driple_dataset_of(dataset, static_cast<std::int32_t>(s), grouped, left_out);
    const std::string counts = std::to_string(driple.train.size()) + " samples for training, " +
                               std::to_string(driple.val.size()) + " for validation, " +
                               std::to_string(driple.test.size()) + " for tests; " + std::to_string(left_out) +
                               " left out (under 100 operators, or a metric is not known)";
    try {
      files.write(name, to_driple_file(driple));
    } catch (const InputError& error) {
      throw InputError{file.string() + ": " + error.what() + " (" + counts +
                       "): give a larger --count, or larger graphs to the space"};
    }
    if (!common.is_quiet) say(file.string() + ": " + counts);
  }
  files.commit();
}

bool is_study(const fs::path& file) {
  const Json json = load_json_file(file);
  return json.is_object() && (json.contains("studies") || json.contains("measurements"));
}

Json to_json(const MeasuredStudies& measured) {
  Json studies = Json::array();
  for (const auto& [study, reason, rows] : measured.counts)
    studies.push_back({{"study", study}, {"rows", rows}, {"left_out_because", reason.empty() ? Json{} : Json(reason)}});
  return {{"format", 1},
          {"samples", measured.dataset.samples.size()},
          {"graphs", measured.dataset.graphs.size()},
          {"settings", measured.dataset.settings.size()},
          {"studies", std::move(studies)}};
}

Answer run_studies(const GenerateCommand& command) {
  if (command.count > 0 || command.format != "rehearse" || !command.settings.empty())
    throw InputError{"generate: a study's samples are its measured rows: no --count, --setting or other --format"};
  Progress progress{"measured rows", command.common.is_quiet};
  Catalog catalog = load_catalog(command.common);
  std::vector<Study> studies = load_studies(command.space);
  if (command.withholds_own_profiles)
    for (Study& study : studies) study = without_own_profiles(std::move(study), catalog);
  const auto catalog_of = [&](const Study& study) -> const Catalog& {
    if (command.withholds_own_profiles) {
      catalog = load_catalog(command.common);
      catalog.withhold_profiles(profiles_fitted_on(study, catalog));
    }
    return catalog;
  };
  MeasuredStudies measured = read_measured_studies(studies, catalog_of, progress.counter(), command.common.budget);
  progress.clear();
  if (command.withholds_own_profiles) {
    Json provenance = parse_json(measured.dataset.provenance, "provenance");
    provenance["options"] = "--without-own-profiles";
    measured.dataset.provenance = provenance.dump();
  }
  if (!command.is_dry_run) {
    const auto made = make_folder_of(command.common.output);
    write_dataset(*command.common.output, measured.dataset);
    say_written(command.common, *command.common.output);
  }
  Answer answer{.json = to_json_text(to_json(measured))};
  answer.line(formatted("%zu measured samples of %zu graphs in %zu settings\n", measured.dataset.samples.size(),
                        measured.dataset.graphs.size(), measured.dataset.settings.size()));
  Table table{.header = {"study", "rows", "left out because"}, .rows = {}};
  for (const auto& [study, reason, rows] : measured.counts) table.rows.push_back({study, std::to_string(rows), reason});
  answer.table(std::move(table));
  return answer;
}

Answer run(const GenerateCommand& command) {
  if (!command.common.output && !command.is_dry_run)
    throw InputError{"generate: expected -o DATASET, or --dry-run; see rehearse generate --help"};
  if (is_study(command.space)) return run_studies(command);
  if (command.withholds_own_profiles)
    throw InputError{"--without-own-profiles: expected a study, or a set of studies; found a space"};
  if (command.count == 0)
    throw InputError{"generate: expected --count, the samples of a space; see rehearse generate --help"};
  const bool is_driple = command.format == "driple";
  Space space = load_space(command.space);
  if (!command.settings.empty()) keep_settings(space, command.settings);
  const Catalog catalog = load_catalog(command.common);
  Progress progress{command.is_dry_run ? "samples drawn" : "samples", command.common.is_quiet};
  const GenerateRequest request{
      .seed = command.seed,
      .count = command.count,
      .pool = pool_of(command.common),
      .output = is_driple ? command.common.output.value_or(fs::path{}) / "dataset.db"
                          : command.common.output.value_or(fs::path{}),
      .program = program_identity(),
      .is_stopped = command.common.budget.asked(),
      .on_progress = [&](std::int64_t done, std::int64_t total) { progress.update(done, total); }};
  if (command.is_dry_run) {
    const Generated planned = plan_dataset(space, catalog, request);
    if (!planned.is_complete) command.common.budget.stop();
    return answer_of(planned, to_json(space, request, planned));
  }
  if (!is_driple && fs::is_directory(request.output))
    throw InputError{request.output.string() + ": expected a file for the dataset; found a folder"};
  if (is_driple) {
    const Generated planned = plan_dataset(space, catalog,
                                           {.seed = command.seed,
                                            .count = command.count,
                                            .output = {},
                                            .program = {},
                                            .is_stopped = command.common.budget.asked(),
                                            .on_progress = {}});
    if (!planned.is_complete) command.common.budget.stop();
    check_driple_batches(planned, command.count);
  }
  const auto made = make_folder_of(request.output);
  std::optional<FolderInParts> parts;  // dataset.db, its report, a file for each setting
  if (is_driple) parts.emplace(*command.common.output);
  const Generated generated = generate_dataset(space, catalog, request);
  if (!generated.is_complete) {
    progress.clear();
    end_early(command.common.budget,
              "what is finished is kept in " + request.output.string() + ".part; the same command goes on there");
  }
  if (generated.kept > 0 && !command.common.is_quiet)
    say(std::to_string(generated.kept) + " of " + std::to_string(command.count) + " samples had finished before");
  write_file(request.output.string() + ".report.html", render_html(dataset_document(space, request, generated)));
  if (is_driple && !generated.samples.empty())
    write_driple_files(request.output, *command.common.output, command.common);
  if (parts) parts->finish();
  Answer answer = answer_of(generated, to_json(space, request, generated));
  answer.table(label_table(generated));
  add_written(answer, command.common, request.output);
  add_written(answer, command.common, request.output.string() + ".report.html");
  answer.exit_code = generated.samples.empty() ? kNoResult : kSuccess;
  return answer;
}

}  // namespace

CommandVerb generate_verb() {
  return make_verb<GenerateCommand>(
      "generate",
      "Random workloads on the clusters of a space file, simulated: graphs with the 12 burst metrics of Driple, step "
      "time and mean rates, to train a predictor on; or the measured rows of studies, with step times and what follows "
      "from them\n\n"
      "The same bytes for the same seed, whatever -j. What is finished is kept in DATASET.part, where the same command "
      "goes on, also with another --count. Label distributions are drawn in DATASET.report.html\n\n"
      "Example: rehearse generate scenarios/spaces/small.json --count 200 -o results/small.dataset\n"
      "         rehearse generate scenarios/studies/measured.json -o results/measured.dataset",
      add_options, run);
}

}  // namespace rehearse
