#include "sim/app/executor.hpp"

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "sim/app/setup.hpp"
#include "sim/base/errors.hpp"
#include "sim/pool/job_folder.hpp"
#include "sim/pool/shards.hpp"
#include "sim/pool/slurm.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

/// Of the one command that a process runs.
struct JobSettings {
  std::shared_ptr<const JobFolder> folder;
  std::optional<Shard> shard;
};

JobSettings& settings() {
  static JobSettings only;
  return only;
}

struct PassedOver {
  std::string_view name;
  bool has_value;
};

constexpr std::array kWhere{PassedOver{"--executor", true}, PassedOver{"--slurm-options", true},
                            PassedOver{"--shard", true},    PassedOver{"--resume", false},
                            PassedOver{"--quiet", false},   PassedOver{"--max-wall-time", true},
                            PassedOver{"--jobs", true},     PassedOver{"-j", true}};

/// Without options on which no result depends.
std::vector<std::string> without_where(const std::vector<std::string>& arguments) {
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    bool is_kept = true;
    for (const PassedOver& option : kWhere) {
      if (word == option.name && option.has_value) ++i;
      if (word == option.name || (word.starts_with(option.name) && option.has_value &&
                                  (!option.name.starts_with("--") || word[option.name.size()] == '=')))
        is_kept = false;
    }
    if (is_kept) kept.push_back(word);
  }
  return kept;
}

std::shared_ptr<const JobFolder> open_folder(const CommonOptions& common, const std::string& option) {
  if (!common.output)
    throw InputError{option + ": expected -o OUTPUT, beside which OUTPUT.jobs keeps the jobs; found none"};
  fs::path path = fs::absolute(*common.output);
  if (path.filename().empty()) path = path.parent_path();
  path += ".jobs";
  const bool is_there = fs::exists(path / "about.json");
  if (!is_there && (common.is_resumed || common.executor == "merged"))
    throw InputError{(common.is_resumed ? "--resume: " : "--executor merged: ") + path.string() + " is not there"};
  return std::make_shared<const JobFolder>(
      path, JobOwner{program_identity(), without_where(common.arguments), fs::current_path().string()});
}

}  // namespace

int run_with_jobs(CommonOptions& common, const std::function<int()>& run) {
  const bool is_elsewhere = common.executor != "processes";
  if (!common.shard.empty() && is_elsewhere) throw InputError{"--shard: expected no --executor beside it"};
  if (!common.slurm_options.empty() && common.executor != "slurm")
    throw InputError{"--slurm-options: expected --executor slurm beside it"};
  if (common.is_resumed && common.shard.empty() && !is_elsewhere)
    throw InputError{"--resume: expected --executor slurm or --shard beside it"};
  if (common.shard.empty() && !is_elsewhere) return run();

  JobSettings& jobs = settings();
  fs::path scratch;
  if (!common.shard.empty()) jobs.shard = read_shard(common.shard);
  jobs.folder = open_folder(common, common.shard.empty() ? "--executor " + common.executor : "--shard");
  common.command_line = "rehearse";
  for (const std::string& argument : jobs.folder->owner().arguments) common.command_line += " " + argument;
  if (jobs.shard) {
    scratch = jobs.folder->path() / ("scratch-" + std::to_string(jobs.shard->number));
    fs::create_directories(scratch);
    common.output = scratch / fs::absolute(*common.output).lexically_normal().filename();
  }
  const auto tidy_up = [&] {
    std::error_code ignored;
    if (jobs.shard) fs::remove_all(scratch, ignored);
    if (jobs.folder->is_unused()) jobs.folder->remove();  // of a command that was refused
  };
  int code = kSuccess;
  try {
    code = run();
  } catch (const ShardFinished& finished) { say(finished.what()); } catch (...) {
    tidy_up();
    throw;
  }
  tidy_up();
  if (code == kSuccess && common.executor == "slurm") jobs.folder->remove();
  return code;
}

Pool pool_of(const CommonOptions& common) {
  const JobSettings& jobs = settings();
  if (!jobs.folder) return common.parallel;
  if (jobs.shard) return {common.parallel, shard_executor(jobs.folder, *jobs.shard)};
  if (common.executor == "merged") return {common.parallel, merging_executor(jobs.folder)};
  SlurmOptions options{.sbatch = {}, .program = fs::read_symlink("/proc/self/exe").string(), .say = {}};
  std::istringstream words{common.slurm_options};
  for (std::string word; words >> word;) options.sbatch.push_back(word);
  if (!common.is_quiet) options.say = say;
  return {common.given.contains("--jobs") ? common.parallel : 1, slurm_executor(jobs.folder, std::move(options))};
}

}  // namespace rehearse
