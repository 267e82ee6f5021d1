// rehearse export: a step of a scenario, or what was recorded, as traces of Chakra.

#include <nlohmann/json.hpp>

#include "sim/app/program.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/names.hpp"
#include "sim/training/chakra_program.hpp"
#include "workloads/traces/chakra_run.hpp"
#include "workloads/traces/other_formats.hpp"
#include "workloads/traces/recorded_job.hpp"
#include "workloads/traces/trace_file.hpp"

namespace rehearse {

namespace {

struct ExportCommand {
  CommonOptions common;
  std::vector<std::filesystem::path> inputs;
  std::vector<std::string> overrides;
  std::string name;
};

void add_options(Options options, ExportCommand& command) {
  options.add_option("INPUT", command.inputs, "Scenario file; or traces, as replay reads them, one of each rank")
      .required();
  options
      .add_option("--name", command.name,
                  "Files are called NAME.<rank>.et (default: that of the first input, up to its first dot)")
      .check(is_not_empty)
      .type_name("NAME");
  add_overrides(options, command.overrides);
  add_catalogs(options, command.common);
  add_json(options, command.common);
  add_output(options, command.common, "Write the traces here").required();
  add_wall_time(options, command.common);
}

std::string name_of(const ExportCommand& command) {
  const std::string file = command.inputs.front().filename().string();
  std::string name = command.name.empty() ? file.substr(0, file.find('.')) : command.name;
  if (name.empty() || name.find('/') != std::string::npos)
    throw InputError{"--name: expected the beginning of a file's name; found " + in_quotes(name)};
  return name;
}

/// The process groups by their names in the traces, as simulators want them: {"1": [0, 2]}.
void write_groups(ExportedStep& step, const std::string& name, OutputFolder& files) {
  if (step.process_groups.empty()) return;
  Json groups = Json::object();
  for (std::size_t i = 0; i < step.process_groups.size(); ++i) groups[std::to_string(i + 1)] = step.process_groups[i];
  files.write(name + ".groups.json", to_json_text(groups));
}

std::size_t export_scenario(const ExportCommand& command, const std::string& name, OutputFolder& files) {
  const std::filesystem::path& file = command.inputs.front();
  const Catalog catalog = load_catalog(command.common);
  const Scenario scenario =
      read_scenario(load_checked_scenario(file, command.overrides, catalog), file.string(), catalog);
  require_exportable(scenario);
  print_warnings(scenario.warnings, command.common.is_quiet);
  try {
    ExportedStep step{scenario};
    for (int rank = 0; rank < step.compiler.ranks(); ++rank) {
      command.common.budget.check();
      files.write(name + '.' + std::to_string(rank) + ".et", chakra_et_bytes(chakra_trace(step, rank)));
    }
    write_groups(step, name, files);
    return static_cast<std::size_t>(step.compiler.ranks());
  } catch (const RunError& error) { throw scenario.no_result(error); }
}

std::size_t export_recordings(const ExportCommand& command, const std::string& name, OutputFolder& files) {
  for (const char* option : {"--set", "--catalog"})
    if (command.common.given.contains(option))
      throw InputError{std::string{option} + ": is for scenarios, not for traces"};
  const std::vector<RecordedRun> runs = recorded_job(read_recorded_runs(command.inputs, command.common.budget)).ranks;
  for (const RecordedRun& run : runs) {
    command.common.budget.check();
    files.write(name + '.' + std::to_string(run.rank) + ".et", chakra_et_bytes(chakra_trace(run)));
  }
  return runs.size();
}

Answer run(const ExportCommand& command) {
  const std::string name = name_of(command);
  for (const std::filesystem::path& input : command.inputs) refuse_other_format(input);
  const bool is_scenario =
      command.inputs.size() == 1 && !find_trace_format(command.inputs.front(), command.common.budget);
  const auto made = make_folder(command.common.output);
  OutputFolder files{*command.common.output};
  const std::size_t ranks =
      is_scenario ? export_scenario(command, name, files) : export_recordings(command, name, files);
  files.commit();
  Answer answer{.json = to_json_text({{"ranks", ranks}, {"files", files.names()}})};
  add_written(answer, command.common,
              *command.common.output / (name + ".*.et, of " + std::to_string(ranks) + " ranks"));
  return answer;
}

}  // namespace

CommandVerb export_verb() {
  return make_verb<ExportCommand>("export",
                                  "A step of a scenario, or recorded steps, as traces of Chakra\n\n"
                                  "Examples: rehearse export scenarios/gpt2-xl-pipeline.json -o traces\n"
                                  "          rehearse export rank0.json.gz rank1.json.gz --name job -o traces",
                                  add_options, run);
}

}  // namespace rehearse
