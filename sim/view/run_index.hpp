#pragma once
// What lies in the folder that is served: results, and scenarios from which more can be made.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>

#include "sim/base/json.hpp"
#include "sim/base/pinned.hpp"
#include "sim/view/served_folder.hpp"

namespace rehearse {

/// The list of all results and scenarios. May be asked by several threads at once.
class RunIndex : private Pinned {
 public:
  explicit RunIndex(const ServedFolder& folder) : folder_{folder} {}

  /// {"version": changes with the content, "is_cut": whether there is more than is listed, "runs": [...], "scenarios": [...]}, each sorted
  /// by path.
  ///   run       {"path": its folder, "kind": "simulate", "name", "changed_s": Unix time, "page": file or "", "files": [names],
  ///              "scenario": file that can be edited, or "", "samples_per_s", "time_s", "cost_usd": numbers or null, "says": text}
  ///   scenario  {"path": file, "kind": "scenario" or "sweep", "name", "changed_s"}
  /// Looks at the folder once a second at most, for a tenth of the time; reads what has changed.
  std::string text();

 private:
  /// What a JSON file says of itself.
  struct Read {
    std::filesystem::file_time_type changed;
    std::uintmax_t size = 0;
    std::string entry;  // JSON; empty: neither a result nor a scenario
    bool is_run = false;
    std::uint64_t seen = 0;  // the last scan that met it
  };

  void scan();
  void scan_folder(const std::string& relative, int depth);
  const Read& read(const std::filesystem::path& file);

  const ServedFolder& folder_;
  std::mutex mutex_;
  std::map<std::filesystem::path, Read> read_;
  std::string text_;
  std::chrono::steady_clock::time_point next_scan_;
  std::uint64_t scans_ = 0;
  // Of the scan that is going on.
  std::string runs_, scenarios_;
  std::size_t entries_ = 0;
};

}  // namespace rehearse
