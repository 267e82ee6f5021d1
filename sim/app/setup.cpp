#include "sim/app/setup.hpp"

#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/plan/goal_machines.hpp"
#include "sim/plan/provision_request.hpp"
#include "sim/pool/result_store.hpp"
#include "sim/scenario/place_names.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

std::atomic<std::time_t> interrupted_at{0};  // seconds since the system started; 0: not interrupted

constexpr int kUsualSteps = 100;   // of a scenario that nobody has written
constexpr Seconds kPatience{0.8};  // with what does not ask its budget
std::string out_of_time_line;      // for end_now(), which must not allocate

void ring_after(double seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(std::min(seconds, 1e9));
  timer.it_value.tv_usec =
      static_cast<suseconds_t>((std::min(seconds, 1e9) - std::floor(std::min(seconds, 1e9))) * 1e6);
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

[[noreturn]] void end_process(int exit_code) {
  remove_unfinished_output();
  ::_exit(exit_code);
}

/// A second request ends the program at once, between two results. Those within a second are one: timeout(1)
/// sends its signal to the process and to its group.
void interrupt(int) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  std::time_t first = 0;
  if (interrupted_at.compare_exchange_strong(first, now.tv_sec + 1)) return ring_after(kPatience.value());
  if (now.tv_sec > first) end_process(kInterrupted);
}

/// The alarm: nobody has asked the budget for too long.
void end_now(int) {
  if (interrupted_at != 0) {
    constexpr std::string_view kLine = "rehearse: interrupted\n";
    (void)!::write(STDERR_FILENO, kLine.data(), kLine.size());
    end_process(kInterrupted);
  }
  (void)!::write(STDERR_FILENO, out_of_time_line.data(), out_of_time_line.size());
  end_process(kNoResult);
}

/// The number in a file that holds one; none if there is another text, such as "max", or no file.
std::optional<rlim_t> number_in(const char* file) {
  std::ifstream text{file};
  rlim_t number = 0;
  return text >> number ? std::optional{number} : std::nullopt;
}

/// Bytes that the system, and the container that this may run in, have available; 0 if unknown.
rlim_t available_memory() {
  const auto most = number_in("/sys/fs/cgroup/memory.max"), used = number_in("/sys/fs/cgroup/memory.current");
  std::ifstream lines{"/proc/meminfo"};
  for (std::string key, unit; lines >> key;) {
    rlim_t kibibytes = 0;
    lines >> kibibytes;
    std::getline(lines, unit);
    if (key != "MemAvailable:") continue;
    const rlim_t available = kibibytes * 1024;
    return most && used && *most > *used ? std::min(available, *most - *used) : available;
  }
  return 0;
}

}  // namespace

Budget start_budget(const char* program, std::optional<Seconds> wall_time) {
  const auto start = std::chrono::steady_clock::now();
  out_of_time_line = (::isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "") + std::string{program} +
                     ": stopped by --max-wall-time" + (wall_time ? " " + to_text(*wall_time) : std::string{}) + "\n";
  std::signal(SIGINT, interrupt);
  std::signal(SIGTERM, interrupt);
  std::signal(SIGALRM, end_now);
  if (wall_time) ring_after(wall_time->value() + kPatience.value());
  return Budget{wall_time, [] { return interrupted_at != 0; }, start};
}

void let_finished_work_be_written() { ring_after(0); }  // which takes the alarm back

void end_early(const Budget& budget, const std::string& kept) {
  if (budget.is_interrupted()) say("rehearse: interrupted: " + kept);
  budget.stop(": " + kept);
}

void say_written(const CommonOptions& common, const fs::path& where, const std::vector<std::string>& names) {
  Answer written;
  add_written(written, common, where, names);
  (void)print(written);
}

void add_written(Answer& answer, const CommonOptions& common, const fs::path& where,
                 const std::vector<std::string>& names) {
  if (common.is_quiet) return;
  answer.remarks.push_back("wrote " + shortened(where.string(), 4096) + (names.empty() ? "" : ": ") + joined(names));
}

void limit_memory() {
#if !defined(__SANITIZE_ADDRESS__)  // its shadow memory counts as used
  rlimit limit{};
  const rlim_t available = available_memory();
  if (available == 0 || ::getrlimit(RLIMIT_DATA, &limit) != 0) return;
  limit.rlim_cur = std::min(limit.rlim_cur, available);
  ::setrlimit(RLIMIT_DATA, &limit);
#endif
}

fs::path own_file() {
  // A library that was loaded knows its name as a path, a program knows what it was called by.
  Dl_info info{};
  const bool is_known = ::dladdr(reinterpret_cast<const void*>(&own_file), &info) != 0 && info.dli_fname != nullptr;
  const std::string name = is_known ? info.dli_fname : "";
  return name.ends_with(".so") ? fs::canonical(name) : fs::read_symlink("/proc/self/exe");
}

fs::path shipped_files() {
  const fs::path program = own_file();
  std::error_code error;
  const auto holds_catalogs = [&](const fs::path& folder) {
    return fs::is_directory(folder / "platforms/catalog", error) &&
           fs::is_directory(folder / "workloads/models", error) &&
           fs::is_directory(folder / "calibration/profiles", error);
  };
  constexpr int kMostLevels = 4;  // build/presets/release/rehearse
  fs::path folder = program.parent_path();
  for (int level = 0; level < kMostLevels; ++level, folder = folder.parent_path())
    for (const fs::path& place : {folder, folder / "share/rehearse"})
      if (holds_catalogs(place)) return place;
  throw InputError{program.string() +
                   ": expected the catalogs beside this program, in ../share/rehearse of its folder " +
                   "or in the source tree around it; found none"};
}

namespace {

Catalog catalog_of(const CommonOptions& common, bool parses_as_asked) {
  const fs::path root = shipped_files();
  std::vector<CatalogFolders> folders{{root / "platforms" / "catalog", root / "workloads" / "models",
                                       root / "calibration" / "profiles", parses_as_asked}};
  for (const fs::path& own : common.catalogs) folders.push_back({own, own / "models", own / "profiles"});
  return Catalog{std::move(folders)};
}

}  // namespace

Catalog load_catalog(const CommonOptions& common) { return catalog_of(common, false); }
Catalog load_catalog_as_asked(const CommonOptions& common) { return catalog_of(common, true); }

namespace {

/// A scenario's name says what it was written for; where overrides make it another workload or cluster, what they
/// change is added: reports bear the name.
void name_changes(Json& json, const std::vector<std::string>& overrides) {
  constexpr std::size_t kLongest = 200;
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string()) return;
  std::string changes;
  for (const std::string& text : overrides) {
    if (text.starts_with("/name=")) return;
    for (const char* part : {"/workload", "/cluster", "/training/strategy", "/calibration"})
      if (text.starts_with(part)) changes += (changes.empty() ? "" : ", ") + text.substr(1);
  }
  if (!changes.empty()) json["name"] = json["name"].get<std::string>() + ", with " + shortened(changes, kLongest);
}

std::vector<std::string> with_pointers(const std::vector<std::string>& overrides, const Json& json) {
  std::vector<std::string> texts;
  for (const std::string& typed : overrides) texts.push_back(with_pointer(typed, json, "--set"));
  return texts;
}

/// Of overrides that have pointers.
void set_fields(Json& json, const std::vector<std::string>& overrides, JsonOrigins& origins,
                const std::function<void(const std::string& pointer)>& before) {
  for (const std::string& text : overrides) {
    const std::size_t equals = text.find('=');
    const std::string pointer = text.substr(0, equals);
    if (before) before(pointer);
    const std::string value = text.substr(equals + 1), place = "--set " + shortened(pointer, 200);
    if (value == "null" && json_pointer_find(json, pointer) == nullptr)
      throw InputError{place + ": expected a key that is there, as null takes it away; found none"};
    origins.set(json, pointer, value, place);
  }
}

}  // namespace

void override_fields(Json& json, const std::vector<std::string>& overrides, JsonOrigins& origins) {
  set_fields(json, with_pointers(overrides, json), origins, {});
}

void override_scenario(Json& json, const fs::path& file, const std::vector<std::string>& overrides,
                       const Catalog& catalog, JsonOrigins& origins) {
  const std::vector<std::string> texts = with_pointers(overrides, json);
  set_fields(json, texts, origins,
             [&](const std::string& pointer) { make_inline(json, pointer, file.string(), catalog, origins); });
  name_changes(json, texts);
}

Json load_scenario_json(const fs::path& file, const std::vector<std::string>& overrides, const Catalog& catalog,
                        JsonOrigins& origins) {
  Json json = load_json_file(file);
  override_scenario(json, file, overrides, catalog, origins);
  return json;
}

Json scenario_of_machines(const std::string& model, const std::string& instance, int count, const Catalog& catalog) {
  if (instance.empty())
    throw InputError{"--model: expected --instance beside it, the machines (rehearse list instances)"};
  const MachineChoice machines =
      machine_choices(catalog, {.instances = {instance}, .numbers = {{instance, {count}}}}).front();
  Json scenario = scenario_of_model(model, machines, catalog);
  scenario["training"]["steps"] = kUsualSteps;
  return scenario;
}

Json load_scenario_of(const ScenarioCommand& command, const Catalog& catalog) {
  if (command.model.empty()) {
    if (!command.instance.empty() || command.batch)
      throw InputError{std::string{command.batch ? "--batch" : "--instance"} + ": expected --model beside it"};
    if (command.scenario.empty()) throw InputError{"expected a scenario, or --model, --instance and --batch"};
    return load_json_file(command.scenario);
  }
  if (!command.scenario.empty())
    throw InputError{"--model: expected no scenario beside it: --set /workload/model=" + command.model +
                     " changes that of " + command.scenario.string()};
  if (!command.batch && !command.instance.empty())
    throw InputError{"--model: expected --batch beside it, the samples of each GPU in a step"};
  const bool has_number = command.instance.find('=') != std::string::npos;
  const auto [name, count] =
      has_number ? read_machine_number("--instance", command.instance) : std::pair{command.instance, 1};
  if (count == 0) throw InputError{"--instance: expected 1 machine or more; found " + in_quotes(command.instance)};
  Json scenario = scenario_of_machines(command.model, name, count, catalog);
  scenario["workload"]["batch_per_worker"] = *command.batch;
  return scenario;
}

Json load_checked_scenario(const ScenarioCommand& command, const Catalog& catalog) {
  JsonOrigins origins;
  Json json = load_scenario_of(command, catalog);
  override_scenario(json, command.file_name(), command.overrides, catalog, origins);
  (void)read_scenario(json, command.file_name(), catalog, origins);
  return json;
}

Json load_checked_scenario(const fs::path& file, const std::vector<std::string>& overrides, const Catalog& catalog) {
  JsonOrigins origins;
  Json json = load_scenario_json(file, overrides, catalog, origins);
  (void)read_scenario(json, file.string(), catalog, origins);
  return json;
}

void print_warning(const std::string& warning) { say("rehearse: warning: " + warning); }

void add_warning(Answer& answer, const std::string& warning) {
  answer.remarks.push_back("rehearse: warning: " + warning);
}

void warn_of_assumptions(const Scenario& scenario, const std::vector<std::string>& overrides) {
  const auto is_set = [&](const std::string& key) {
    return std::ranges::any_of(overrides, [&](const std::string& text) {
      const std::string place = text.substr(0, text.find('='));
      return place.ends_with("/" + key) || place.ends_with("." + key);
    });
  };
  std::string taken, options;
  const auto add = [&](const char* key, const std::string& words) {
    if (is_set(key)) return;
    taken += ' ' + words;
    options += (options.empty() ? "" : " and ") + ("--set /workload/" + std::string{key}) + "=..";
  };
  add("precision", "in " + to_text(scenario.precision));
  add("optimizer", "with " + to_text(scenario.optimizer));
  if (!taken.empty())
    print_warning("the model is taken to be trained" + taken + ": " + options +
                  (options.find(" and ") < options.size() ? " say" : " says") + " otherwise");
}

Answer hand_out(const CommonOptions& common, const std::string& name, Answer answer,
                const std::function<std::string()>& page) {
  if (!common.output) return answer;
  std::vector<std::string> names{name};
  std::vector<std::pair<fs::path, std::string>> files{{*common.output / name, answer.json}};
  if (page) {
    names.push_back(fs::path{name}.replace_extension("html").string());
    files.emplace_back(*common.output / names.back(), page());
  }
  write_files(files);
  add_written(answer, common, *common.output, names);
  return answer;
}

std::optional<MadeFolder> make_folder(const std::optional<fs::path>& output) {
  return output ? std::optional<MadeFolder>{*output} : std::nullopt;
}

std::optional<MadeFolder> make_folder_of(const std::optional<fs::path>& output) {
  if (!output) return {};
  std::error_code error;
  if (fs::is_directory(*output, error))
    throw InputError{shortened(output->string(), 4096) + ": cannot write: it is a folder; expected the name of a file"};
  return make_folder(fs::absolute(*output).parent_path());
}

std::string version_text() {
  return "rehearse " REHEARSE_VERSION "\ncatalogs: " + printable(fs::canonical(shipped_files()).string());
}

std::string program_identity() {
  // Not the version alone: a build from changed sources has the same one, and would take over stale results.
  return "rehearse " REHEARSE_VERSION " " + run_key(read_file(own_file().string(), 512 * kMiB), "").text();
}

}  // namespace rehearse
