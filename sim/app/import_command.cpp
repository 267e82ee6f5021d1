// rehearse import FILE... -o OUT: a model of another tool becomes a model file. Datasets and lists of measured jobs are
// left to the verb of the same name of rehearse-predictor.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <variant>

#include "calibration/gpu_log.hpp"
#include "calibration/job_log.hpp"
#include "sim/app/output/document.hpp"
#include "sim/app/predictor_program.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/trace_inputs.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "workloads/importers/importer.hpp"
#include "workloads/model_zoo.hpp"

namespace rehearse {

namespace {

struct ImportCommand {
  CommonOptions common;  // output: the file
  std::vector<std::filesystem::path> sources;
  TraceImport trace;
  std::optional<std::filesystem::path> scenario;  // of data files of Driple
  bool is_grouped = false;
  bool is_dry_run = false;
};

void add_options(Options options, ImportCommand& command) {
  options
      .add_option(
          "FILE", command.sources,
          "Model of another tool, or traces of the ranks of a job. Or datasets, lists of measured jobs, data "
          "files of Driple (.pkl, .dat) or folders of these; several become one dataset. Or weights of Driple's "
          "program, such as its pre-train.pkl")
      .required();
  add_trace_import(options, command.trace);
  options.add_flag("--grouped", command.is_grouped,
                   "Of a dataset: graphs of groups of operators, GraphDefs as Driple groups them: for gcn, gin, gat, "
                   "mpnn alone");
  options.add_option("--scenario", command.scenario, "FILE",
                     "Of data files of Driple: the cluster that they were measured in, whose setting they then are");
  options.add_flag("--dry-run", command.is_dry_run, "Say what each FILE is, and write nothing");
  add_catalogs(options, command.common, "Folder with the user's own catalogs; repeatable");
  options
      .add_option("-o,--output", command.common.output,
                  "Model file or dataset to write; of weights, folder of the model to predict with")
      .required()
      .type_name("OUT");
  add_json(options, command.common);
  add_quiet(options, command.common, "No warnings on stderr");
  add_wall_time(options, command.common);
}

/// As the other program's verb takes it.
std::vector<std::string> command_line_of(const ImportCommand& command) {
  std::vector<std::string> arguments{"rehearse", "import"};
  for (const std::filesystem::path& source : command.sources) arguments.push_back(source.string());
  if (command.is_grouped) arguments.emplace_back("--grouped");
  if (command.scenario) arguments.insert(arguments.end(), {"--scenario", command.scenario->string()});
  for (const std::filesystem::path& catalog : command.common.catalogs)
    arguments.insert(arguments.end(), {"--catalog", catalog.string()});
  arguments.insert(arguments.end(), {"-o", command.common.output->string()});
  if (command.common.prints_json) arguments.emplace_back("--json");
  if (command.common.is_quiet) arguments.emplace_back("--quiet");
  if (!command.common.max_wall_time.empty())
    arguments.insert(arguments.end(), {"--max-wall-time", command.common.max_wall_time});
  return arguments;
}

/// What a file of measurements is that no importer knows, and who reads it; empty for others.
std::string measurements_text(const Source& source) {
  if (const std::string tool = gpu_log_kind(source.start()); !tool.empty())
    return "output of " + tool + ", which studies of the format \"gpu-log\" read";
  if (const std::string framework = job_log_kind(source.start()); !framework.empty())
    return "training log of " + framework + ", which diagnose --log and studies of the format \"training-log\" read";
  return {};
}

Answer formats_of(const std::vector<std::filesystem::path>& sources) {
  Json formats = Json::array();
  for (const std::filesystem::path& source : sources) {
    if (std::filesystem::is_directory(source)) {
      formats.push_back(
          {{"file", source.string()}, {"format", "folder of data files of Driple, which rehearse-predictor reads"}});
      continue;
    }
    const Source file{source};
    const FormatReader* reader = find_format(file);
    std::string found = reader == nullptr ? std::string{file.emptiness()} : what_it_is(*reader);
    if (found.empty()) found = measurements_text(file);
    if (found.empty()) found = "unknown content";
    formats.push_back({{"file", source.string()}, {"format", found}});
  }
  Answer answer{.json = to_json_text(formats)};
  for (const Json& entry : formats)
    answer.line(entry["file"].get<std::string>() + ": " + entry["format"].get<std::string>());
  return answer;
}

std::string in_units(double value, const char* unit) {
  static constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  std::size_t prefix = 0;
  for (; value >= 999.95 && prefix + 1 < std::size(kPrefixes); ++prefix) value /= 1000;
  return display(value) + " " + kPrefixes[prefix] + unit;
}

std::string with_commas(std::int64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

void add_summary(Answer& answer, const Workload& workload) {
  const auto count = [&](auto is_counted) {
    return std::count_if(workload.graph.begin(), workload.graph.end(), is_counted);
  };
  const auto forward = count([](const OperatorAt op) { return op->is_of_forward_pass(); });
  Seconds forward_time{}, backward_time{};
  for (const OperatorAt op : workload.graph)
    if (op->measured_time) (op->is_of_forward_pass() ? forward_time : backward_time) += *op->measured_time;
  const auto named = [&](const char* name, const std::string& text) { answer.row("%-12s %s", {name, text}); };
  named("operators",
        std::to_string(forward) + " forward, " + std::to_string(workload.graph.size()) + " in a training step");
  named("parameters",
        with_commas(workload.parameters()) + " in " + std::to_string(workload.trainable_tensors()) + " tensors");
  if (workload.forward_flops() > Flops{})
    named("work", in_units(workload.forward_flops().value(), "FLOP") + " forward, " +
                      in_units(workload.training_flops().value(), "FLOP") + " in a training step, per sample");
  if (forward_time + backward_time > Seconds{})
    named("measured", formatted("%.3f ms forward, %.3f ms backward, of a batch of %d", forward_time.value() * 1e3,
                                backward_time.value() * 1e3, workload.batch));
  if (workload.activation_bytes > Bytes{})
    named("activations", in_units(as_double(workload.activation_bytes), "B") + ", of a batch of " +
                             std::to_string(workload.batch) + " in fp32");
}

/// A model, or traces of one job.
ImportedModel import_one(const ImportCommand& command, const std::vector<const FormatReader*>& readers) {
  const auto is_trace = [](const FormatReader* reader) {
    return reader != nullptr && reader->format == SourceFormat::kTrace;
  };
  if (std::ranges::all_of(readers, is_trace)) return import_traces(command.sources, command.trace, command.common);
  ImportedModel imported = import_model(command.sources[0]);
  if (!imported.stored_type.empty()) imported.remarks.push_back(precision_remark(imported.stored_type));
  if (command.sources.size() > 1)
    throw InputError{command.sources[1].string() + ": one model at a time: expected no file beside " +
                     command.sources[0].string()};
  return imported;
}

Answer run(const ImportCommand& command) {
  if (command.is_dry_run) return formats_of(command.sources);
  std::vector<const FormatReader*> readers;
  for (const std::filesystem::path& file : command.sources) {
    if (std::filesystem::is_directory(file)) start_program(kPredictorProgram, command_line_of(command));
    const Source source{file};
    readers.push_back(find_format(source));
    if (readers.back() != nullptr && readers.back()->recognizes == nullptr) (void)import_model(source);  // says why not
    if (readers.back() == nullptr)
      if (const std::string text = measurements_text(source); !text.empty())
        throw InputError{source.name() + ": expected a model; found the " + text};
    command.common.budget.check();
  }
  const auto is_of_predictor = [](const FormatReader* reader) {
    return reader != nullptr && reader->read_by == kPredictorProgram;
  };
  if (std::ranges::any_of(readers, is_of_predictor)) start_program(kPredictorProgram, command_line_of(command));
  if (command.is_grouped) throw InputError{"--grouped: expected datasets or lists of measured jobs"};
  if (command.scenario) throw InputError{"--scenario: expected data files of Driple, which name no cluster"};
  const std::filesystem::path& file = command.sources[0];
  const ImportedModel imported = import_one(command, readers);
  const JsonReader json{imported.model_file, file.string()};
  const ModelDescription model = read_model(file.stem().string(), json);
  const auto* timed = std::get_if<TimedLayers>(&model.structure);
  const Workload workload = build_workload(model, timed != nullptr ? timed->batch : 1, Precision::kFp32, file.string());
  const auto made = make_folder_of(command.common.output);
  command.common.budget.check();
  write_file(*command.common.output, to_json_text(imported.model_file));
  const Json result{{"format", readers[0]->name},
                    {"model", command.common.output->string()},
                    {"operators", workload.graph.size()},
                    {"parameters", workload.parameters()},
                    {"trainable_tensors", workload.trainable_tensors()},
                    {"training_flops", workload.training_flops().value()},
                    {"notes", imported.remarks}};
  Answer answer{.json = to_json_text(result)};
  answer.line(std::string{readers[0]->name} + "\n");
  add_summary(answer, workload);
  if (!imported.remarks.empty()) answer.line();
  for (const std::string& remark : imported.remarks) answer.line("note: " + remark);
  return answer;
}

}  // namespace

CommandVerb import_verb() {
  std::string known;
  for (const FormatReader& format : source_formats())
    if (format.read != nullptr) known += (known.empty() ? "" : ", ") + std::string{format.name};
  return make_verb<ImportCommand>(
      "import",
      "A model of another tool becomes a model file; measured jobs, datasets and Driple's data files become a dataset, "
      "weights a folder to predict with\n\n"
      "What a file is, its content tells. Models: " +
          known +
          ". rehearse schema model says what a model file holds. A list of measured jobs (rehearse schema "
          "measurements) names "
          "scenarios, graphs and what was recorded; samples of a model, of one study where they were measured, that an "
          "earlier FILE has stay in its split, with a warning where they were in another one\n\n"
          "Examples: rehearse import graph.txt -o vgg16.json\n"
          "          rehearse import trace.json.gz --batch 32 -o step.json\n"
          "          rehearse import simulated.db measured.json -o mixed.db\n"
          "          rehearse import v100.pkl 2080ti.pkl -o driple.db\n"
          "          rehearse import pre-train.pkl -o pretrained",
      add_options, run);
}

}  // namespace rehearse
