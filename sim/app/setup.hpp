#pragma once
// What every verb does before its work: catalogs, output folder, Ctrl-C.

#include <filesystem>
#include <string>
#include <vector>

#include "platforms/catalog.hpp"
#include "sim/app/commands.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

/// The budget of a command that starts now. From now on Ctrl-C and SIGTERM only make it be over, as the end of
/// `wall_time` does; what has not asked it a second later is ended all the same, with the same exit code and line, as
/// is everything by another Ctrl-C. That leaves what was written: files come by rename, rows by transactions.
Budget start_budget(const char* program, std::optional<Seconds> wall_time);

/// Ends a command whose budget is over, saying what is `kept`: as a line after Ctrl-C, else in the error.
[[noreturn]] void end_early(const Budget& budget, const std::string& kept);

/// What -o has written, as a line on stderr: "wrote results: report.html, summary.json"; without names, `where` alone.
void say_written(const CommonOptions& common, const std::filesystem::path& where,
                 const std::vector<std::string>& names = {});

/// Limits the memory of this process, and of each one that it starts, to what the system has available now: a run that
/// needs more ends with one line (std::bad_alloc), not by the system's choice of a process to kill.
void limit_memory();

/// Where the shipped files are, found from the program's own place: the build tree or an installation.
std::filesystem::path shipped_files();

/// The shipped catalogs, then the user's.
Catalog load_catalog(const CommonOptions& common);

/// A scenario file with overrides, "/pointer=value". Throws InputError.
Json load_scenario_json(const std::filesystem::path& file, const std::vector<std::string>& overrides);

/// Made before the work starts, so that an unwritable place costs nothing. Throws InputError.
void create_folder(const std::filesystem::path& folder);
void create_folder_of(const std::filesystem::path& file);

/// Version and content of this program: results of another one are not taken for its own.
std::string program_identity();

}  // namespace rehearse
