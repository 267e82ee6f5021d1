#pragma once
// What every verb does before its work: catalogs, output folder, Ctrl-C.

#include <filesystem>
#include <string>
#include <vector>

#include "platforms/catalog.hpp"
#include "sim/app/commands.hpp"
#include "sim/base/json.hpp"
#include "sim/base/json_origins.hpp"

namespace rehearse {

/// From now on Ctrl-C and SIGTERM only set is_interrupted(), which is to be asked every now and then; another one a
/// second or two later ends the program at once.
void catch_interrupts();
bool is_interrupted();

/// Where the shipped files are, found from the program's own place alone: the source tree around its build folder, or
/// share/rehearse of an installation. Throws InputError.
std::filesystem::path shipped_files();

/// What --version prints: also which catalogs are in use.
std::string version_text();

/// The shipped catalogs, then the user's.
Catalog load_catalog(const CommonOptions& common);

/// A scenario file with overrides, "/pointer=value", which `origins` then knows. Throws InputError.
Json load_scenario_json(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                        JsonOrigins& origins);

/// Made before the work starts, so that an unwritable place costs nothing. Throws InputError.
void create_folder(const std::filesystem::path& folder);
void create_folder_of(const std::filesystem::path& file);

/// Version and content of this program: results of another one are not taken for its own.
std::string program_identity();

}  // namespace rehearse
