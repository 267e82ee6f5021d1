#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "predictor/space.hpp"
#include "sim/base/base.hpp"
#include "sim/base/output_folder.hpp"
#include "sim/plan/provision_request.hpp"
#include "sim/plan/remaining_time.hpp"
#include "sim/plan/sweep_request.hpp"
#include "sim/pool/job_folder.hpp"
#include "sim/pool/result_store.hpp"
#include "sim/scenario/scenario.hpp"
#include "tests/fuzz/targets/require.hpp"
#include "tests/fuzz/targets/targets.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse::fuzz {
namespace {

void run_scenario(std::string_view input) {
  static const std::string root = source_folder();
  static const Catalog catalog{
      {{root + "/platforms/catalog", root + "/workloads/models", root + "/calibration/profiles"}}};
  std::string effective;
  try {
    effective = to_json_text(*read_scenario(parse_json(input, "input"), "input", catalog).effective);
  } catch (const InputError& error) { return require_one_line(error.what()); } catch (const NoResultError& error) {
    return require_one_line(error.what());
  }
  const Json json = parse_json(effective, "effective");  // its text is read again, as by who runs it elsewhere
  require(to_json_text(*read_scenario(json, "effective", catalog).effective) == effective,
          "an effective scenario is its own effective scenario");
}

/// Options of a sweep, and a sweep file.
void run_sweep(std::string_view input) {
  try {
    for (const std::string& value : read_sweep_values(input)) (void)parse_json(value, "value");
  } catch (const InputError& error) { require_one_line(error.what()); }
  try {
    const SweepAxis axis = read_list_options({std::string{input}}, Json::object());
    require(!axis.choices.at(0).empty(), "a choice sets something");
  } catch (const InputError& error) { require_one_line(error.what()); }
  try {
    const SweepRequest request = read_sweep_request(parse_json(input, "input"), "input");
    require(count_combinations(request) >= 1 && count_combinations(request) <= kMaxCombinations,
            "the number of combinations has a limit");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// Options of provision, and a provision file.
void run_provision(std::string_view input) {
  try {
    const auto [name, machines] = read_machine_number("--quota", input);
    require(!name.empty() && machines >= 0 && machines <= kMostQuota, "a number of machines has limits");
  } catch (const InputError& error) { require_one_line(error.what()); }
  try {
    const ProvisionRequest request = read_provision_request(parse_json(input, "input"), "input");
    for (const ProvisionCandidate& candidate : request.candidates) {
      require(candidate.existing >= 0 && candidate.existing <= candidate.quota, "what exists is within the quota");
      require(candidate.group->is_object(), "a candidate's group is an object");
    }
    require(request.confidence >= 0 && request.confidence <= 1, "a probability is from 0 to 1");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// Past revocations, as `remaining --history` takes them.
void run_remaining_history(std::string_view input) {
  const test::TemporaryFolder folder;
  try {
    const std::vector<RemainingCase> cases = load_remaining_cases(folder.write("history.csv", std::string{input}));
    for (const RemainingCase& one : cases)
      require(one.steps_left > 0 && one.measured > Seconds{}, "something is left, and takes some time");
    const RemainingFit fit = fit_remaining_time(cases, 3, 4);
    require(fit.speed_factor > 0 && fit.until_replaced >= Seconds{}, "fitted values are positive");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// A space file beside the shipped ones, and some draws from it.
void run_space(std::string_view input) {
  try {
    const Space space = read_space(parse_json(input, "input"), source_folder() + "/scenarios/spaces/input.json");
    require(!space.settings.empty() && space.settings_per_graph >= 1, "a space has settings");
    for (std::uint64_t i = 0; i < 5; ++i) {
      const DrawnWorkload drawn = draw_workload(space, 1, i);
      require(drawn.batch >= 1 && drawn.batch <= 65536, "a batch has limits");
    }
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// What an earlier run's list of files says may be anything: outside of the folder nothing changes, and inside the run
/// that is written is whole.
void run_output_folder(std::string_view input) {
  const test::TemporaryFolder folder;
  const std::filesystem::path results = folder.path / "results";
  std::filesystem::create_directories(results / "mine");
  folder.write("precious.txt", "mine");
  folder.write("results/.rehearse-files", std::string{input});
  try {
    OutputFolder output{results};
    output.write("summary.json", "new");
    output.write("parts/one.csv", "new");
    output.commit();
    require_complete(results);
    require(read_file(results / "summary.json", kMiB) == "new" && read_file(results / "parts/one.csv", kMiB) == "new",
            "a run's files are there");
  } catch (const InputError& error) { require_one_line(error.what()); }
  require(read_file(folder / "precious.txt", kMiB) == "mine" && folder.entry_count() == 2,
          "outside of the folder nothing changes");
}

/// The results of a sweep.
void run_result_store(std::string_view input) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder.write("results.sqlite", std::string{input});
  const RunKey known = run_key("scenario", "program"), other = run_key("other", "program");
  try {
    (void)ResultStore::open_to_read(file).find(known);
    require(read_file(file, 64 * kMiB) == input, "who only reads changes nothing");
    ResultStore store = ResultStore::open(file);
    (void)store.find(known);
    store.put(other, {.name = "a", .parameters = "{}", .summary = "{}", .error = {}, .wall_s = 1});
    const auto found = store.find(other);
    require(found && found->summary == "{}" && found->name == "a", "what was put is found");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// A folder of jobs: what it is of, in the first line, and the rest as the texts of a task and as results.
void run_job_folder(std::string_view input) {
  const test::TemporaryFolder folder;
  const std::size_t end = std::min(input.find('\n'), input.size());
  const std::string rest{input.substr(std::min(end + 1, input.size()))};
  for (const char* name : {"tasks", "results", "logs"}) std::filesystem::create_directory(folder / name);
  folder.write("about.json", std::string{input.substr(0, end)});
  folder.write("tasks/000001", rest);
  folder.write("results/1", rest);
  try {
    const JobFolder jobs{folder.path};
    require(jobs.tasks() == std::vector<int>{1}, "there is one task");
    for (const std::string& text : jobs.task(1)) require(text.find('\0') == std::string::npos, "a text ends at a zero");
    ResultReader reader{jobs};
    const auto count = [&] {
      int results = 0;
      reader.read_new([&](const RunKey& key, const PooledRun& run) {
        require(key.text().size() == 32 && run.text.size() < rest.size(), "a result is in the file");
        ++results;
      });
      return results;
    };
    (void)count();
    require(count() == 0, "a result is handed over once");
    reader.read_damaged_again();
    require(count() == 0, "a result is handed over once");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

}  // namespace

std::span<const Target> targets_of_scenarios() {
  static constexpr std::array kTargets{Target{"space", run_space},
                                       Target{"scenario", run_scenario},
                                       Target{"provision", run_provision},
                                       Target{"sweep", run_sweep},
                                       Target{"remaining_history", run_remaining_history},
                                       Target{"output_folder", run_output_folder},
                                       Target{"job_folder", run_job_folder},
                                       Target{"result_store", run_result_store}};
  return kTargets;
}

}  // namespace rehearse::fuzz
