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
#include "sim/pool/detail/wall_clock.hpp"

namespace rehearse {

namespace {

constexpr double kPilotSeconds = 10;                     // of the first jobs, to know how long jobs take
constexpr std::size_t kPilotJobs = 64;                   // at most
constexpr double kPilotWorkSeconds = 2;                  // after which enough is known
constexpr int kMostAttempts = 5;                         // without a result
constexpr int kMostRefusals = 3;                         // of the first tasks, by a Slurm that answers
constexpr double kLongestSilence = 30;                   // s of a Slurm that has never answered
constexpr double kNodesAgain = 60;                       // s between two looks at nodes while nothing runs
constexpr int kLookTwice = 2;                            // a task that is out of the queue may have results under way
constexpr double kShortestWait = 0.1, kLongestWait = 5;  // s between two looks

struct Task {
  std::set<RunKey> missing;
  int attempts = 0;  // since its last result
  int absent = 0;    // looks at the queue without it
  bool was_submitted = false;
  WallClock::time_point left;  // the first of these looks

  /// Whether it is out of the queue and it is time to submit it.
  bool is_due(double pause_s) const {
    if (!was_submitted) return absent > 0;
    const double pause = attempts < 2 ? 0 : std::ldexp(pause_s, attempts - 2);
    return absent >= kLookTwice && seconds_since(left) >= pause;
  }
};

class SlurmRun {
 public:
  SlurmRun(const JobFolder& folder, const SlurmOptions& options, int parallel, const JobOf& job,
           const JobLimits& limits)
      : folder_{folder}, options_{options}, queue_{folder.path()}, parallel_{parallel}, job_{job}, limits_{limits} {}

  /// Returns false once it is to stop.
  bool run(KnownJobs& jobs) {
    jobs.take_results(true);
    take_up_tasks(jobs);
    if (!measure(jobs)) return false;
    add_tasks(jobs);
    const auto start = WallClock::now();
    while (true) {
      look_at_queue();
      if (std::ranges::any_of(tasks_, [](const auto& one) { return one.second.absent > 0; })) jobs.read_damaged_again();
      jobs.take_results();
      note_results(jobs);
      if (jobs.waiting() == 0) return true;
      submit_absent(jobs);
      const double wait = std::clamp(seconds_since(start) / 50, kShortestWait, kLongestWait);
      for (const auto end = WallClock::now() + std::chrono::duration<double>{wait}; WallClock::now() < end;) {
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
    const auto start = WallClock::now();
    for (std::size_t i = 0; i < std::min(left.size(), kPilotJobs) && seconds_since(start) < kPilotWorkSeconds; ++i) {
      std::optional<PooledRun> run;
      JobLimits limits = limits_;
      limits.job_wall_s = std::min(limits_.job_wall_s.value_or(kPilotSeconds), kPilotSeconds);
      if (!run_in_processes(
              1, 1, [&](std::size_t) { return job_(left[i].second); },
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
        texts.push_back(job_(left[i].second).text());
      }
      folder_.add_task(++last_task_, texts);
      tasks_.emplace(last_task_, std::move(task));
    }
  }

  void look_at_queue() {
    const QueueAnswer queue = queue_.tasks();
    is_queue_known_ = queue.is_known;
    if (!queue.is_known) {
      if (!has_answered_ && seconds_since(start_) > kLongestSilence)
        throw InputError{"--executor slurm: squeue does not answer: " + queue.error +
                         "; is this a machine from which jobs are submitted?"};
      refusals_ = 0;
      return tell("Slurm does not answer; waiting for it: " + queue.error);
    }
    has_answered_ = true;
    jobs_in_queue_.clear();
    for (auto& [number, task] : tasks_)
      if (++task.absent == 1) task.left = WallClock::now();
    std::map<std::string, int> states;
    std::vector<std::string> stuck;
    for (const QueuedTask& one : queue.tasks) {
      jobs_in_queue_.insert(one.job);
      const auto task = tasks_.find(one.number);
      if (task == tasks_.end()) continue;
      ++states[one.state];
      if (one.is_stuck)
        stuck.push_back(one.id);
      else
        task->second.absent = 0;
    }
    tell_states(states);
    if (!stuck.empty()) queue_.cancel(stuck);
  }

  /// Says how many tasks there are of each state and, if none of them runs, which nodes are why.
  void tell_states(const std::map<std::string, int>& states) {
    if (states.empty()) return;
    std::string line = "Slurm:";
    for (const auto& [state, count] : states)
      line += (line.ends_with(':') ? " " : ", ") + std::to_string(count) + " tasks " + state;
    if (states.contains("running")) {
      states_.clear();
      return tell(line);
    }
    if (line != states_ || seconds_since(nodes_looked_at_) > kNodesAgain) {
      nodes_ = nodes_out_of_service();
      nodes_looked_at_ = WallClock::now();
    }
    states_ = line;
    tell(nodes_.empty() ? line : line + "; " + nodes_);
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
    SubmittedTasks what{.numbers = {},
                        .program = options_.program,
                        .options = options_.sbatch,
                        .parallel = parallel_,
                        .job_wall_s = limits_.job_wall_s};
    for (const auto& [number, task] : tasks_) {
      if (!task.is_due(options_.pause_s)) continue;
      if (task.attempts == kMostAttempts)
        give_up(number, jobs);
      else
        what.numbers.push_back(number);
    }
    if (what.numbers.empty()) return;
    const Submission done = queue_.submit(what);
    jobs_in_queue_.insert(done.jobs.begin(), done.jobs.end());
    for (const int number : done.numbers) {
      Task& task = tasks_.at(number);
      has_submitted_ = task.was_submitted = true;
      ++task.attempts;
      task.absent = 0;
    }
    refusals_ = done.error.empty() ? 0 : refusals_ + 1;
    if (done.error.empty()) return;
    if (has_submitted_ || !jobs_in_queue_.empty())
      tell("Slurm refuses tasks, which are submitted again until it takes them: " + done.error);
    else if (refusals_ == kMostRefusals)  // its controller is not just away
      throw InputError{"--executor slurm: " + done.error};
  }

  void give_up(int number, KnownJobs& jobs) const {
    const std::string why = "the Slurm task ended " + std::to_string(kMostAttempts) + " times without its result" +
                            queue_.last_words(number);
    for (const RunKey& key : std::set{tasks_.at(number).missing})
      jobs.hand_over(key, {.has_succeeded = false, .text = why, .has_died = true});
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
  const JobOf& job_;
  const JobLimits& limits_;
  std::map<int, Task> tasks_;  // with results to come, by number
  std::set<RunKey> in_task_;
  std::set<std::string> jobs_in_queue_;
  const WallClock::time_point start_ = WallClock::now();
  bool is_queue_known_ = false;
  bool has_answered_ = false;
  bool has_submitted_ = false;
  int refusals_ = 0;            // in a row, by a Slurm that answers
  std::string states_, nodes_;  // while nothing runs
  WallClock::time_point nodes_looked_at_{};
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
  return [folder = std::move(folder), options = std::move(options)](std::size_t count, int parallel, const JobOf& job,
                                                                    const OnRun& on_run, const JobLimits& limits) {
    KnownJobs jobs{*folder, count, job, on_run};
    return SlurmRun{*folder, options, parallel, job, limits}.run(jobs);
  };
}

}  // namespace rehearse
