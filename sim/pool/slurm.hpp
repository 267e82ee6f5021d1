#pragma once
// Jobs by Slurm: tasks of an array job, each of which runs its share of the jobs and keeps what they give in a folder
// that all machines see (job_folder.hpp). The folder and Slurm's queue are all that is known of what goes on: whoever
// asks them later, in another process, knows as much.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/pool/job_folder.hpp"
#include "sim/pool/pool.hpp"

namespace rehearse {

struct SlurmOptions {
  std::vector<std::string> sbatch;              // options of sbatch, such as "--partition=short"
  std::string program;                          // this one, where nodes find it, too
  std::function<void(const std::string&)> say;  // a line for the user, such as what waits in the queue
  double pause_s = 1;                           // before a task that ended twice is submitted again; doubled each time
};

/// Measures the first jobs on this machine, at most 10 s of them, and shares out the others among tasks of a minute and
/// more; a job of more than that is a task of its own. A task that has left the queue without its results, or that
/// Slurm holds back after it could not start it, is submitted again; after five times in a row without any of them its
/// jobs count as dead. `parallel` jobs run at a time in a task, on as many processors. Jobs whose results are in the
/// folder do not run again, those in the queue are waited for, as is a Slurm that does not answer. When it is stopped,
/// the tasks stay in the queue. Throws InputError if there is no Slurm, or it refuses the first tasks several times.
/// Source: the manual pages sbatch, squeue, scancel, sinfo and scontrol of Slurm 22.05.
JobExecutor slurm_executor(std::shared_ptr<const JobFolder> folder, SlurmOptions options);

/// Seconds of work of a task.
inline constexpr double kTaskSeconds = 60;

/// How many jobs of `job_s` seconds a task gets when `count` of them are left for `processors`: a minute's, or so many
/// more that processors get the same number of tasks, if the last one ends no later by that.
std::size_t jobs_of_task(std::size_t count, double job_s, int processors);

}  // namespace rehearse
