// rehearse jobs: the part of --executor slurm that runs on a node.

#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/app/setup.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/errors.hpp"
#include "sim/pool/job_folder.hpp"

namespace rehearse {

namespace {

struct JobsCommand {
  CommonOptions common;
  std::filesystem::path folder;
  int task = 0;
  std::string max_run_time;  // as typed
};

void add_options(Options options, JobsCommand& command) {
  options.add_option("FOLDER", command.folder, "Folder of jobs, OUTPUT.jobs").required();
  options.add_count("--task", command.task, 1, 1'000'000'000, "The task to run").required();
  options.add_count("-j,--jobs", command.common.parallel, 1, 1024, "Simulations at a time").shows_default();
  add_json(options, command.common);
  add_max_run_time(options, command.max_run_time);
  add_wall_time(options, command.common);
}

Answer run(const JobsCommand& command) {
  const JobFolder folder{command.folder};
  if (folder.owner().program != program_identity())
    throw InputError{command.folder.string() + ": holds jobs of another build of this program"};
  const auto max_run_time = read_max_run_time(command.max_run_time);
  if (!run_task(folder, command.task, command.common.parallel,
                {.is_stopped = command.common.budget.asked(),
                 .job_wall_s = max_run_time ? std::optional{max_run_time->value()} : std::nullopt}))
    end_early(command.common.budget, "results are kept in " + command.folder.string());
  return {.json = to_json_text({{"folder", command.folder.string()}, {"task", command.task}})};
}

}  // namespace

CommandVerb jobs_verb() {
  return make_verb<JobsCommand>("jobs",
                                "Run a task of a folder of jobs: what --executor slurm starts on a node\n\n"
                                "Example: rehearse jobs results.jobs --task 1",
                                add_options, run);
}

}  // namespace rehearse
