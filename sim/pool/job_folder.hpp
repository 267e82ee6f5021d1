#pragma once
// Jobs of one command in a folder that several machines see: texts of jobs that wait, and what jobs gave. What runs
// them may die at any time, run twice or fill the disk: a result is there as a whole or not at all, and is found by the
// text of its job, so that no order and no number matters.
//
//   about.json        {"format": 1, "program": identity of the program, "arguments": [...], "directory": where it ran}
//   tasks/NNNNNN      texts of jobs, a zero byte after each: the work of one task of a batch system
//   results/NAME      results, appended one by one; each writer has a file of its own
//   logs/             what tasks said

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/pool/pool.hpp"
#include "sim/pool/result_store.hpp"

namespace rehearse {

/// The command that a folder's jobs belong to.
struct JobOwner {
  std::string program;                 // identity: results of another program are not taken for its own
  std::vector<std::string> arguments;  // without the program's name
  std::string directory;               // where it was started
};

class JobFolder {
 public:
  /// Makes the folder, or opens the one that `owner` made before. InputError if it cannot be made, or is another
  /// command's or another program's.
  JobFolder(std::filesystem::path path, const JobOwner& owner);
  /// Opens the folder that is there. InputError if it is no folder of jobs.
  explicit JobFolder(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  const JobOwner& owner() const { return owner_; }
  /// Names a job by its text, for this program.
  RunKey key(std::string_view text) const { return run_key(text, owner_.program); }

  /// The numbers of all tasks, from 1 on, in order.
  std::vector<int> tasks() const;
  std::vector<std::string> task(int number) const;
  void add_task(int number, const std::vector<std::string>& texts) const;

  /// Whether it has neither a task nor a result.
  bool is_unused() const {
    return std::filesystem::is_empty(path_ / "tasks") && std::filesystem::is_empty(path_ / "results");
  }
  /// Removes it with all that is in it.
  void remove() const { std::filesystem::remove_all(path_); }

 private:
  std::filesystem::path path_;
  JobOwner owner_;
};

/// Reads a folder's results as they come.
class ResultReader {
 public:
  explicit ResultReader(const JobFolder& folder) : folder_{folder.path() / "results"} {}

  /// Hands over each result that has been appended since the last call. What is cut short waits for its end; what is
  /// damaged ends its file.
  void read_new(const std::function<void(const RunKey&, PooledRun)>& on_result);
  /// Lets the next call look at damaged files once more.
  void read_damaged_again() { damaged_.clear(); }

 private:
  std::filesystem::path folder_;
  std::map<std::filesystem::path, std::uint64_t> read_;  // bytes of each file
  std::set<std::filesystem::path> damaged_;              // after these bytes
};

/// A file of results of a folder.
class ResultWriter {
 public:
  /// Makes results/NAME.HOST-PROCESS-N, new; InputError if it cannot.
  ResultWriter(const JobFolder& folder, const std::string& name);
  ResultWriter(const ResultWriter&) = delete;
  ResultWriter& operator=(const ResultWriter&) = delete;
  ~ResultWriter();

  /// InputError if it could not be written whole.
  void append(const RunKey& key, const PooledRun& run);

 private:
  std::filesystem::path path_;
  int file_ = -1;
};

/// Runs the jobs of a task that have no result in the folder yet, or died, on this machine, and appends what they give.
/// Returns false once `limits.is_stopped` has said true.
bool run_task(const JobFolder& folder, int number, int parallel, const JobLimits& limits);

}  // namespace rehearse
