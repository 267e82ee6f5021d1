#pragma once
// What Slurm is asked and told: the commands sbatch, squeue, scancel, sinfo and scontrol, and what they print. A command
// that does not end is killed after a minute, so that no question to Slurm is waited for in vain.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace rehearse {

/// A task of ours in the queue.
struct QueuedTask {
  int number = 0;         // of the folder
  std::string job;        // Slurm's id of the array
  std::string id;         // Slurm's id of the task, "12_7"
  std::string state;      // "running", "pending (Priority)"
  bool is_stuck = false;  // Slurm could not start it, or was told to start it again, and holds it back for ever
};

struct SubmittedTasks {
  std::vector<int> numbers;
  std::string program;
  std::vector<std::string> options;  // of sbatch
  int parallel = 1;
  std::optional<double> job_wall_s;
};

struct QueueAnswer {
  bool is_known = false;          // whether Slurm answered
  std::vector<QueuedTask> tasks;  // of the folder
  std::string error;              // what it said instead, in one line
};

struct Submission {
  std::vector<int> numbers;       // of tasks that are in the queue now
  std::vector<std::string> jobs;  // Slurm's ids of their arrays
  std::string error;              // why the others are not, in one line; empty if all are
};

/// The tasks of one folder, which are known by the names of their jobs.
class SlurmQueue {
 public:
  explicit SlurmQueue(std::filesystem::path folder);

  /// InputError if this machine has no squeue.
  QueueAnswer tasks() const;
  Submission submit(const SubmittedTasks& what) const;
  /// Takes the tasks with these ids out of the queue, as far as Slurm answers.
  void cancel(const std::vector<std::string>& ids) const;
  /// ": what the task said last"; empty if it said nothing.
  std::string last_words(int number) const;

 private:
  std::filesystem::path folder_;
  std::string name_;  // of its jobs, before "+" and what is added to an index of the array
};

/// Processors of the largest partition; 1 if Slurm does not tell.
int processors_of_cluster();

/// What is wrong with nodes that run nothing: "node a is drained: Duplicate jobid"; empty if Slurm knows of none.
std::string nodes_out_of_service();

/// The same of what sinfo --Node --format=%N|%T|%E prints.
std::string read_nodes(const std::string& text);

/// A line of squeue --format=%i|%j|%T|%r: none if it is not of a job with this name.
std::optional<QueuedTask> read_queue_line(const std::string& line, const std::string& name);

/// Numbers as sbatch's --array takes them: "1-3,7".
std::string array_text(const std::vector<int>& numbers);

}  // namespace rehearse
