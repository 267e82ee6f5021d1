#pragma once
// The verbs of the command line: each takes what the user typed and returns the exit code.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/budget.hpp"
#include "sim/base/units.hpp"

namespace rehearse {

struct Scenario;

inline constexpr int kSuccess = 0;
inline constexpr int kBadInput = 2;
inline constexpr int kNoResult = 3;
inline constexpr int kInterrupted = 130;

/// What several verbs share.
struct CommonOptions {
  std::vector<std::filesystem::path> catalogs;  // the user's own, over the shipped ones
  std::optional<std::filesystem::path> output;  // -o
  int parallel = 1;                             // -j
  bool is_quiet = false;
  bool prints_json = false;
  std::string command_line;  // provenance
  Budget budget;             // of the whole command
};

struct SimulateCommand {
  CommonOptions common;
  std::filesystem::path scenario;
  std::vector<std::string> overrides;  // "/pointer=value"
  std::optional<std::uint64_t> seed;
  bool is_dry_run = false;
  bool is_exact = false;
  bool explains = false;
  bool prints_program = false;
  std::optional<std::size_t> runs;  // Monte Carlo
  std::optional<Seconds> deadline;  // of them
  std::string trace_window;         // "10s..12s"
  std::string trace_ranks;          // "0,8..15"
};

struct ValidateCommand {
  CommonOptions common;
  std::filesystem::path study;
  std::optional<std::filesystem::path> measurements;
};

struct CalibrateCommand {
  CommonOptions common;
  std::vector<std::filesystem::path> studies;
  int most_steps = 20;
  int bootstrap = 0;                            // draws
  std::optional<std::filesystem::path> report;  // HTML
};

struct SweepCommand {
  CommonOptions common;
  std::filesystem::path file;            // scenario or sweep file
  std::vector<std::string> grids;        // "/pointer=a,b,1..8"
  std::vector<std::string> lists;        // "/pointer=a;/other=b"
  std::vector<std::string> overrides;    // "/pointer=value"
  std::vector<std::string> constraints;  // expressions
  std::optional<int> seeds;
  std::optional<Seconds> max_run_time;  // of each simulation
  std::string where;                    // expression; empty: every row
  std::optional<int> top;
  std::string by = "steps_per_s";  // expression
  bool is_dry_run = false;
};

struct ProvisionCommand {
  CommonOptions common;
  std::filesystem::path file;  // scenario or provision file
  Seconds deadline{};
  double target_loss = 0;
  std::vector<std::string> overrides;   // "/pointer=value"
  std::vector<std::string> candidates;  // names; empty: all
  std::vector<std::string> quotas;      // "name=machines"
  std::vector<std::string> existing;    // the same
  std::optional<double> current_loss, updates_done;
  std::optional<Seconds> takeover;
  std::optional<double> confidence;
  std::optional<std::string> price;
  std::string planner = "ours";
  int plans = 6;
  int runs = 200;                       // of each plan whose machines may be revoked
  std::optional<Seconds> max_run_time;  // of each simulation
};

struct DiffCommand {
  CommonOptions common;
  std::filesystem::path a, b;  // output folders or scenario files
};

struct RemainingCommand {
  CommonOptions common;
  std::filesystem::path scenario;
  std::vector<std::string> overrides;
  std::int64_t step = 0;
  std::string group;
  int lost = 1;
  std::optional<Seconds> replaced_after;
  bool is_warm = false;
  std::optional<double> measured_speed;
  std::optional<std::filesystem::path> history;
};

struct DiagnoseCommand {
  CommonOptions common;
  std::filesystem::path scenario;
  std::vector<std::string> overrides;
  std::optional<double> measured_steps_per_s, measured_samples_per_s;  // one of the three
  std::optional<Seconds> measured_step_time;
};

struct GenerateCommand {
  CommonOptions common;         // its output is a file here, a folder for Driple's format
  std::filesystem::path space;  // or study
  std::int64_t count = 0;       // samples of a space
  std::uint64_t seed = 1;
  std::vector<std::string> settings;  // of the space, or clusters; empty: all
  std::string format = "rehearse";    // or "driple"
  bool is_dry_run = false;
};

int run(const SimulateCommand& command);
/// With command.runs.
int run_many(const SimulateCommand& command, const Scenario& scenario);
int run(const ValidateCommand& command);
int run(const CalibrateCommand& command);
int calibrate_training_logs(const CalibrateCommand& command);  // one study, of kind "training_logs"
int calibrate_lifetimes(const CalibrateCommand& command);      // one study, of kind "lifetimes"
int run(const SweepCommand& command);
int run(const ProvisionCommand& command);
int run(const DiffCommand& command);
int run(const RemainingCommand& command);
int run(const DiagnoseCommand& command);
int run(const GenerateCommand& command);
int list(const CommonOptions& common, const std::string& kind);
int print_schema(const std::string& kind);
int init(const std::string& name);

}  // namespace rehearse
