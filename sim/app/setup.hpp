#pragma once
// What every verb does before its work: catalogs, output folder, Ctrl-C.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "platforms/catalog.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/json.hpp"
#include "sim/base/json_origins.hpp"
#include "sim/base/output_folder.hpp"

namespace rehearse {

struct Scenario;

/// The budget of a command that starts now. From now on Ctrl-C and SIGTERM only make it be over, as the end of
/// `wall_time` does; what has not asked it a second later is ended all the same, with the same exit code and line, as
/// is everything by another Ctrl-C. That leaves what was written: files come by rename, rows by transactions.
Budget start_budget(const char* program, std::optional<Seconds> wall_time);

/// After a budget is over, for a command that has finished what it was asked for: writing it may take longer than the patience with
/// what does not end. A second Ctrl-C ends it.
void let_finished_work_be_written();

/// Ends a command whose budget is over, saying what is `kept`: as a line after Ctrl-C, else in the error.
[[noreturn]] void end_early(const Budget& budget, const std::string& kept);

/// What -o has written, as a line on stderr: "wrote results: report.html, summary.json"; without names, `where` alone.
void say_written(const CommonOptions& common, const std::filesystem::path& where,
                 const std::vector<std::string>& names = {});
/// The same once the answer is printed.
void add_written(Answer& answer, const CommonOptions& common, const std::filesystem::path& where,
                 const std::vector<std::string>& names = {});

/// Limits the memory of this process, and of each one that it starts, to what the system has available now: a run that
/// needs more ends with one line (std::bad_alloc), not by the system's choice of a process to kill.
void limit_memory();

/// The file that this code was loaded from, also behind a symbolic link: the program, or the extension of Python.
std::filesystem::path own_file();

/// Where the shipped files are, found from the place of own_file() alone: the source tree around its build folder, or
/// share/rehearse of an installation. Throws InputError.
std::filesystem::path shipped_files();

/// What --version prints, with the catalogs that are in use.
std::string version_text();

/// The shipped catalogs, then the user's.
Catalog load_catalog(const CommonOptions& common);
/// The same for one brief run: files of the program's own are parsed when something of them is asked for. Processes that are
/// forked before would each do so.
Catalog load_catalog_as_asked(const CommonOptions& common);

/// Sets fields of a file, "/pointer=value" or "GROUP.KEY=value" (place_names.hpp), or takes them away, "/pointer=null", of which `origins` then
/// knows. Throws InputError.
void override_fields(Json& json, const std::vector<std::string>& overrides, JsonOrigins& origins);

/// Overrides fields of a scenario, "/pointer=value", or takes them away, "/pointer=null", of which `origins` then knows; what names stand for is there inline
/// as far as overrides lead into it. Throws InputError.
void override_scenario(Json& json, const std::filesystem::path& file, const std::vector<std::string>& overrides,
                       const Catalog& catalog, JsonOrigins& origins);

/// A scenario file with overrides.
Json load_scenario_json(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                        const Catalog& catalog, JsonOrigins& origins);

/// The scenario of a model that is trained on so many of these machines, for 100 steps: scenario_of_model(). Throws InputError, which names
/// --model or --instance.
Json scenario_of_machines(const std::string& model, const std::string& instance, int count, const Catalog& catalog);

/// The scenario of a command, without overrides: its file, or its model on its machines. Throws InputError.
Json load_scenario_of(const ScenarioCommand& command, const Catalog& catalog);

/// The same with overrides, read once against the catalog, so that a mistake of one of them names its option.
Json load_checked_scenario(const ScenarioCommand& command, const Catalog& catalog);
Json load_checked_scenario(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                           const Catalog& catalog);

/// A line on stderr for each; those of a list not if `is_quiet`.
void print_warning(const std::string& warning);
/// The same once the answer is printed.
void add_warning(Answer& answer, const std::string& warning);
template <class Warnings>
void print_warnings(const Warnings& warnings, bool is_quiet = false) {
  if (is_quiet) return;
  for (const std::string& warning : warnings) print_warning(warning);
}

/// Says on stderr what scenario_of_model() takes that nobody has stated: precision and optimizer, but for what `overrides` set.
void warn_of_assumptions(const Scenario& scenario, const std::vector<std::string>& overrides);

/// The answer of a verb that has one file, `name`, with what --json prints: writes it to the folder of -o, with a page of the same
/// name beside it if there is one.
Answer hand_out(const CommonOptions& common, const std::string& name, Answer answer,
                const std::function<std::string()>& page = {});

/// The folder that `output` is, or that the file `output` is in; none without `output`. Throws InputError.
[[nodiscard]] std::optional<MadeFolder> make_folder(const std::optional<std::filesystem::path>& output);
[[nodiscard]] std::optional<MadeFolder> make_folder_of(const std::optional<std::filesystem::path>& output);

/// Version and content of this program: results of another one are not taken for its own.
std::string program_identity();

}  // namespace rehearse
