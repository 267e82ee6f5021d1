#pragma once
// What simulate does with --runs is in a file of its own.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/app/verb.hpp"

namespace rehearse {

struct Scenario;

struct SimulateCommand : ScenarioCommand {
  std::optional<std::uint64_t> seed;
  bool is_dry_run = false;
  bool is_exact = false;
  bool explains = false;
  bool prints_program = false;
  std::optional<std::size_t> runs;            // Monte Carlo
  std::string deadline;                       // of them, as typed
  std::string trace_window;                   // "10s..12s"
  std::optional<std::filesystem::path> pcap;  // folder of captures
  std::string trace_workers;                  // "0,8..15"
  std::string trace_format = "chrome";
  std::string remedies = "auto";  // or "all", "none"
};

/// Runs the job command.runs times, and says how likely it is finished by `deadline`.
Answer run_many(const SimulateCommand& command, const std::optional<Seconds>& deadline, const Scenario& scenario);

}  // namespace rehearse
