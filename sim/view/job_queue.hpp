#pragma once
// Commands that `rehearse view` starts: each a process of its own, so that it has the limits, messages and exit codes of the
// command line, and gives the same bytes.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sim/base/json.hpp"
#include "sim/base/pinned.hpp"

namespace rehearse {

/// A command as a process.
struct Command {
  std::filesystem::path program;
  std::vector<std::string> arguments;
  std::filesystem::path folder;  // where it is started
};

/// What it has printed on both streams, without more than `kMostSaid` bytes, and how it ended.
struct CommandEnd {
  std::string said;
  int exit_code = 0;  // 128 and the signal, of one that a signal ended
};
inline constexpr std::size_t kMostSaid = std::size_t{64} << 10U;

/// Runs it until it ends. Once `is_stopped` says true, which is asked every 50 ms, it gets SIGTERM, and what it has
/// started as well; two seconds later SIGKILL. `on_line` gets each line of stderr. InputError if it cannot be started.
/// It ends with this process.
CommandEnd run_command(const Command& command, const std::function<bool()>& is_stopped,
                       const std::function<void(const std::string& line)>& on_line = {});

/// Some commands at a time, the others wait. May be called by several threads at once.
class JobQueue : private Pinned {
 public:
  static constexpr std::size_t kMostWaiting = 50;
  static constexpr std::size_t kMostKept = 100;  // that have ended

  struct Job {
    std::string title;
    std::vector<std::string> arguments;           // of the program
    std::string result;                           // folder that it writes, relative to where it runs
    std::vector<std::filesystem::path> inputs{};  // made for it: removed unless it has a result
  };

  /// `parallel` at a time, each started in `folder`.
  JobQueue(std::filesystem::path program, std::filesystem::path folder, int parallel);
  ~JobQueue() { stop(); }

  /// Its number; nothing, without any effect, if too many wait.
  std::optional<int> add(Job job);
  /// Whether there is such a job that had not ended.
  bool cancel(int number);
  /// [{"id", "title", "state": "waiting", "running", "done", "failed" or "cancelled", "line": the last it said, "result",
  ///   "seconds", "exit_code"}], the latest first.
  Json states() const;
  /// The number and the result of a job like this that has not ended.
  std::optional<std::pair<int, std::string>> find_active(const std::function<bool(const Job&)>& is_like_this) const;

  /// Ends all jobs. No further one begins.
  void stop();

 private:
  enum class State { kWaiting, kRunning, kDone, kFailed, kCancelled };
  struct Entry {
    int number = 0;
    Job job;
    State state = State::kWaiting;
    std::string line;
    int exit_code = 0;
    std::chrono::steady_clock::time_point begin, end;
    std::atomic<bool> is_cancelled = false;
  };

  void work();
  void run(Entry& entry);
  void end(Entry& entry, State state) const;
  static bool has_ended(const Entry& entry) { return entry.state > State::kRunning; }

  std::filesystem::path program_, folder_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> is_stopped_ = false;
  int last_number_ = 0;
  std::deque<std::shared_ptr<Entry>> entries_;  // the oldest first
  std::vector<std::thread> workers_;
};

}  // namespace rehearse
