#pragma once
// What Slurm is asked and told: the commands sbatch, squeue, sinfo and scontrol, and what they print.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace rehearse {

/// A task of ours in the queue.
struct QueuedTask {
  int number = 0;     // of the folder
  std::string job;    // Slurm's id of the array
  std::string state;  // "running", "pending (Priority)"
};

struct SubmittedTasks {
  std::vector<int> numbers;
  std::string program;
  std::vector<std::string> options;  // of sbatch
  int parallel = 1;
  std::optional<double> job_wall_s;
};

/// The tasks of one folder, which are known by the names of their jobs.
class SlurmQueue {
 public:
  explicit SlurmQueue(std::filesystem::path folder);

  /// None if Slurm does not answer.
  std::optional<std::vector<QueuedTask>> tasks() const;
  /// What was wrong, in one line; empty if they are in the queue.
  std::string submit(const SubmittedTasks& what) const;
  /// ": what the task said last"; empty if it said nothing.
  std::string last_words(int number) const;

 private:
  std::filesystem::path folder_;
  std::string name_;  // of its jobs, before "+" and what is added to an index of the array
};

/// Processors of the largest partition; 1 if Slurm does not tell.
int processors_of_cluster();

/// A line of squeue --format=%i|%j|%T|%r: none if it is not of a job with this name.
std::optional<QueuedTask> read_queue_line(const std::string& line, const std::string& name);

/// Numbers as sbatch's --array takes them: "1-3,7".
std::string array_text(const std::vector<int>& numbers);

}  // namespace rehearse
