#include "sim/pool/slurm.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/pool/detail/known_jobs.hpp"
#include "sim/pool/detail/slurm_commands.hpp"

namespace rehearse {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kPilotSeconds = 10;                     // of the first jobs, to know how long jobs take
constexpr std::size_t kPilotJobs = 64;                   // at most
constexpr double kPilotWorkSeconds = 2;                  // after which enough is known
constexpr int kMostAttempts = 5;                         // without a result
constexpr int kLookTwice = 2;                            // a task that is out of the queue may have results under way
constexpr double kShortestWait = 0.1, kLongestWait = 5;  // s between two looks

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Task {
  std::set<RunKey> missing;
  int attempts = 0;  // since its last result
  int absent = 0;    // looks at the queue without it
};

class SlurmRun {
 public:
  SlurmRun(const JobFolder& folder, const SlurmOptions& options, int parallel, const TextOf& text,
           const JobLimits& limits)
      : folder_{folder}, options_{options}, queue_{folder.path()}, parallel_{parallel}, text_{text}, limits_{limits} {}

  /// Returns false once it is to stop.
  bool run(KnownJobs& jobs) {
    jobs.take_results(true);
    take_up_tasks(jobs);
    if (!measure(jobs)) return false;
    add_tasks(jobs);
    const auto start = Clock::now();
    while (true) {
      look_at_queue();
      jobs.take_results();
      note_results(jobs);
      if (jobs.waiting() == 0) return true;
      submit_absent(jobs);
      const double wait = std::clamp(seconds_since(start) / 50, kShortestWait, kLongestWait);
      for (const auto end = Clock::now() + std::chrono::duration<double>{wait}; Clock::now() < end;) {
        if (limits_.is_stopped && limits_.is_stopped()) return leave();
        std::this_thread::sleep_for(std::chrono::milliseconds{50});
      }
    }
  }

 private:
  /// Tasks that an earlier process has written.
  void take_up_tasks(const KnownJobs& jobs) {
    for (const int number : folder_.tasks()) {
      last_task_ = number;
      Task task;
      for (const std::string& text : folder_.task(number))
        if (const RunKey key = folder_.key(text); jobs.waits_for(key) && in_task_.insert(key).second)
          task.missing.insert(key);
      if (!task.missing.empty()) tasks_.emplace(number, std::move(task));
    }
  }

  /// Runs the first jobs here, one after the other; returns false once it is to stop.
  bool measure(KnownJobs& jobs) {
    std::vector<std::pair<RunKey, std::size_t>> left = left_over(jobs);
    if (left.empty()) return true;
    std::optional<ResultWriter> results;
    const auto start = Clock::now();
    for (std::size_t i = 0; i < std::min(left.size(), kPilotJobs) && seconds_since(start) < kPilotWorkSeconds; ++i) {
      std::optional<PooledRun> run;
      JobLimits limits = limits_;
      limits.job_wall_s = std::min(limits_.job_wall_s.value_or(kPilotSeconds), kPilotSeconds);
      if (!run_in_processes(
              1, 1, [&](std::size_t) { return text_(left[i].second); },
              [&](std::size_t, PooledRun result) { run = std::move(result); }, limits))
        return false;
      job_s_ = std::max(job_s_, 0.0) + (run->wall_s - std::max(job_s_, 0.0)) / static_cast<double>(i + 1);
      if (run->has_died) break;  // most often of its length; a node tries it again
      if (!results) results.emplace(folder_, "first");
      results->append(left[i].first, *run);
    }
    jobs.take_results(true);
    return true;
  }

  /// Jobs that are in no task.
  std::vector<std::pair<RunKey, std::size_t>> left_over(const KnownJobs& jobs) const {
    std::vector<std::pair<RunKey, std::size_t>> left;
    for (const auto& job : jobs.distinct())
      if (jobs.waits_for(job.first) && !in_task_.contains(job.first)) left.push_back(job);
    return left;
  }

  void add_tasks(const KnownJobs& jobs) {
    const std::vector<std::pair<RunKey, std::size_t>> left = left_over(jobs);
    if (left.empty()) return;
    const std::size_t size = jobs_of_task(left.size(), job_s_ / parallel_, processors_of_cluster() / parallel_);
    for (std::size_t start = 0; start < left.size(); start += size) {
      Task task;
      std::vector<std::string> texts;
      for (std::size_t i = start; i < std::min(start + size, left.size()); ++i) {
        task.missing.insert(left[i].first);
        texts.push_back(text_(left[i].second));
      }
      folder_.add_task(++last_task_, texts);
      tasks_.emplace(last_task_, std::move(task));
    }
  }

  void look_at_queue() {
    const std::optional<std::vector<QueuedTask>> queued = queue_.tasks();
    if (!queued && jobs_in_queue_.empty() && was_submitted_.empty())
      throw InputError{"--executor slurm: squeue does not answer: is this a machine from which jobs are submitted?"};
    is_queue_known_ = queued.has_value();
    if (!queued) return tell("Slurm does not answer; waiting for it");
    std::map<std::string, int> states;
    jobs_in_queue_.clear();
    for (auto& [number, task] : tasks_) ++task.absent;
    for (const QueuedTask& one : *queued) {
      jobs_in_queue_.insert(one.job);
      if (const auto task = tasks_.find(one.number); task != tasks_.end()) {
        task->second.absent = 0;
        ++states[one.state];
      }
    }
    std::string line = "Slurm:";
    for (const auto& [state, count] : states)
      line += (line.ends_with(':') ? " " : ", ") + std::to_string(count) + " tasks " + state;
    if (!states.empty()) tell(line);
  }

  void note_results(const KnownJobs& jobs) {
    for (auto task = tasks_.begin(); task != tasks_.end();) {
      const std::size_t before = task->second.missing.size();
      std::erase_if(task->second.missing, [&](const RunKey& key) { return !jobs.waits_for(key); });
      if (task->second.missing.size() < before) task->second.attempts = 0;
      task = task->second.missing.empty() ? tasks_.erase(task) : std::next(task);
    }
  }

  /// Submits tasks that have results to give and are not in the queue.
  void submit_absent(KnownJobs& jobs) {
    if (!is_queue_known_) return;
    std::vector<int> numbers;
    for (auto& [number, task] : tasks_) {
      const bool is_new = task.attempts == 0 && !was_submitted_.contains(number);
      if (task.absent == 0 || (!is_new && task.absent < kLookTwice)) continue;
      if (task.attempts == kMostAttempts) {
        const std::string why = "the Slurm task ended " + std::to_string(kMostAttempts) + " times without its result" +
                                queue_.last_words(number);
        for (const RunKey& key : std::set{task.missing})
          jobs.hand_over(key, {.has_succeeded = false, .text = why, .has_died = true});
        continue;
      }
      numbers.push_back(number);
    }
    if (numbers.empty()) return;
    SubmittedTasks what{.numbers = numbers,
                        .program = options_.program,
                        .options = options_.sbatch,
                        .parallel = parallel_,
                        .job_wall_s = limits_.job_wall_s};
    if (const std::string error = queue_.submit(what); !error.empty()) {
      if (was_submitted_.empty() && jobs_in_queue_.empty()) throw InputError{"--executor slurm: " + error};
      return tell("Slurm refuses: " + error);  // its controller may be away
    }
    for (const int number : numbers) {
      was_submitted_.insert(number);
      ++tasks_.at(number).attempts;
      tasks_.at(number).absent = 0;
    }
  }

  bool leave() const {
    if (!options_.say || jobs_in_queue_.empty()) return false;
    std::string jobs;
    for (const std::string& job : jobs_in_queue_) jobs += " " + job;
    options_.say(
        "Slurm goes on without this process; the same command with --resume takes up what it gives; to cancel: "
        "scancel" +
        jobs);
    return false;
  }

  void tell(const std::string& line) {
    if (line == told_ || !options_.say) return;
    told_ = line;
    options_.say(line);
  }

  const JobFolder& folder_;
  const SlurmOptions& options_;
  SlurmQueue queue_;
  int parallel_;
  const TextOf& text_;
  const JobLimits& limits_;
  std::map<int, Task> tasks_;  // with results to come, by number
  std::set<RunKey> in_task_;
  std::set<int> was_submitted_;
  std::set<std::string> jobs_in_queue_;
  bool is_queue_known_ = false;
  int last_task_ = 0;
  double job_s_ = -1;  // mean of those measured
  std::string told_;
};

}  // namespace

std::size_t jobs_of_task(std::size_t count, double job_s, int processors) {
  if (!(job_s > 0)) return std::max<std::size_t>(count, 1);
  const auto lanes = static_cast<std::size_t>(std::max(processors, 1));
  const auto ratio = [](std::size_t a, std::size_t b) { return (a + b - 1) / b; };
  const auto minute = static_cast<std::size_t>(std::clamp(std::ceil(kTaskSeconds / job_s), 1.0, 1e9));
  const std::size_t rounds = count / (minute * lanes);
  if (rounds == 0) return minute;
  const auto longest = [&](std::size_t size) { return ratio(ratio(count, size), lanes) * size; };  // of a processor
  const std::size_t even = ratio(count, lanes * rounds);
  return longest(even) <= longest(minute) ? even : minute;
}

JobExecutor slurm_executor(std::shared_ptr<const JobFolder> folder, SlurmOptions options) {
  return [folder = std::move(folder), options = std::move(options)](std::size_t count, int parallel, const TextOf& text,
                                                                    const OnRun& on_run, const JobLimits& limits) {
    KnownJobs jobs{*folder, count, text, on_run};
    return SlurmRun{*folder, options, parallel, text, limits}.run(jobs);
  };
}

}  // namespace rehearse
