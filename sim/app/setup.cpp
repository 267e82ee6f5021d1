#include "sim/app/setup.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "sim/pool/result_store.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

std::atomic<std::time_t> interrupted_at{0};  // seconds since the system started; 0: not interrupted

/// A second request ends the program at once, between two results. Those within a second are one: timeout(1)
/// sends its signal to the process and to its group.
void interrupt(int) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  std::time_t first = 0;
  if (!interrupted_at.compare_exchange_strong(first, now.tv_sec + 1) && now.tv_sec > first) ::_exit(kInterrupted);
}

}  // namespace

void catch_interrupts() {
  std::signal(SIGINT, interrupt);
  std::signal(SIGTERM, interrupt);
}

bool is_interrupted() { return interrupted_at != 0; }

fs::path shipped_files() {
  const fs::path program = fs::read_symlink("/proc/self/exe");  // the file itself, also behind a symbolic link
  std::error_code error;
  const auto holds_catalogs = [&](const fs::path& folder) {
    return fs::is_directory(folder / "platforms/catalog", error) && fs::is_directory(folder / "workloads/models", error) &&
           fs::is_directory(folder / "calibration/profiles", error);
  };
  constexpr int kMostLevels = 4;  // build/presets/release/rehearse
  fs::path folder = program.parent_path();
  for (int level = 0; level < kMostLevels; ++level, folder = folder.parent_path())
    for (const fs::path& place : {folder, folder / "share/rehearse"})
      if (holds_catalogs(place)) return place;
  throw InputError{program.string() + ": expected the catalogs beside this program, in ../share/rehearse of its folder " +
                   "or in the source tree around it; found none"};
}

Catalog load_catalog(const CommonOptions& common) {
  const fs::path root = shipped_files();
  std::vector<CatalogFolders> folders{
      {root / "platforms" / "catalog", root / "workloads" / "models", root / "calibration" / "profiles"}};
  for (const fs::path& own : common.catalogs) folders.push_back({own, own / "models", own / "profiles"});
  return Catalog{std::move(folders)};
}

Json load_scenario_json(const fs::path& file, const std::vector<std::string>& overrides, JsonOrigins& origins) {
  Json json = load_json_file(file);
  for (const std::string& text : overrides) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || text.empty() || text.front() != '/')
      throw InputError{"--set: expected /json/pointer=value; found " + in_quotes(text)};
    const std::string pointer = text.substr(0, equals);
    origins.set(json, pointer, text.substr(equals + 1), "--set " + shortened(pointer, 200));
  }
  return json;
}

void create_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw InputError{folder.string() + ": cannot create this folder: " + error.message()};
  if (::access(folder.c_str(), W_OK) != 0) throw InputError{folder.string() + ": cannot write into this folder"};
}

void create_folder_of(const fs::path& file) { create_folder(fs::absolute(file).parent_path()); }

std::string version_text() {
  return "rehearse " REHEARSE_VERSION "\ncatalogs: " + printable(fs::canonical(shipped_files()).string());
}

std::string program_identity() {
  // Not the version alone: a build from changed sources has the same one, and would take over stale results.
  return "rehearse " REHEARSE_VERSION " " + run_key(read_file("/proc/self/exe", 512 * kMiB), "").text();
}

}  // namespace rehearse
