#include "sim/pool/detail/isolated.hpp"

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/errors.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/pool/detail/wall_clock.hpp"

namespace rehearse {

namespace {

constexpr int kAskEveryMilliseconds = 200;  // limits

/// The number of the next job, which children that go on and their parent take in turn.
class SharedCounter {
 public:
  SharedCounter() {
    void* memory = ::mmap(nullptr, sizeof(Number), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      throw InputError{std::string{"cannot share memory with processes: "} + std::strerror(errno)};
    next_ = new (memory) Number{0};
  }
  SharedCounter(const SharedCounter&) = delete;
  SharedCounter& operator=(const SharedCounter&) = delete;
  ~SharedCounter() { ::munmap(next_, sizeof(Number)); }

  /// None if all below `end` are taken.
  std::optional<std::size_t> take(std::size_t end) {
    std::size_t next = next_->load();
    while (next < end)
      if (next_->compare_exchange_weak(next, next + 1)) return next;
    return std::nullopt;
  }

 private:
  using Number = std::atomic<std::size_t>;
  static_assert(Number::is_always_lock_free);
  Number* next_;
};

/// What a child writes into its pipe before each job and behind it; of a result, its text follows.
struct Frame {
  enum Kind : std::uint64_t { kBegin, kResult, kError };
  std::uint64_t kind;
  std::uint64_t value;  // the job that begins, or the size of the text
  double wall_s;        // of the job that has ended
};

struct Child {
  pid_t process = 0;
  int pipe = -1;
  std::optional<std::size_t> job;  // that it runs
  WallClock::time_point start;     // of that job
  std::string output;              // what has come of a frame that is not whole
};

void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(file, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

void write_frame(int file, const Frame& frame, std::string_view text = {}) {
  std::string bytes(sizeof frame, '\0');
  std::memcpy(bytes.data(), &frame, sizeof frame);
  write_all(file, bytes.append(text));
}

using RunJob = std::function<std::string(std::size_t)>;

/// Runs the job in the child and writes what it gave; whether the process can go on.
bool run_in_child(std::size_t index, const RunJob& job, int pipe) {
  const WallClock::time_point begin = WallClock::now();
  const auto send = [&](Frame::Kind kind, std::string_view text) {
    write_frame(pipe, {kind, text.size(), seconds_since(begin)}, text);
  };
  write_frame(pipe, {Frame::kBegin, index, 0});
  try {
    send(Frame::kResult, job(index));
  } catch (const std::bad_alloc&) {
    send(Frame::kError, "out of memory");
    return false;
  } catch (const std::exception& error) { send(Frame::kError, error.what()); }
  return true;
}

/// What a child is for: the job that it begins with, and those below `end` for which it has time.
struct ChildJobs {
  std::size_t first = 0, end = 0;
  double most_s = 0;
  SharedCounter& counter;
  const RunJob& job;
};

/// What the child does; never returns.
[[noreturn]] void run_child(const ChildJobs& jobs, int pipe, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it died before the line above
  std::signal(SIGINT, SIG_IGN);           // Ctrl-C reaches all processes of a terminal: the parent decides
  std::signal(SIGTERM, SIG_DFL);
  const WallClock::time_point start = WallClock::now();
  for (std::optional<std::size_t> next = jobs.first; next;) {
    const bool goes_on = run_in_child(*next, jobs.job, pipe) && seconds_since(start) < jobs.most_s;
    next = goes_on ? jobs.counter.take(jobs.end) : std::nullopt;
  }
  ::_exit(0);  // the parent's destructors are not ours to run
}

/// A child that `run` is called in with its end of a pipe; none if the system gives no more processes or files now:
/// errno says why.
template <class Run>
std::optional<Child> start(std::size_t first, const Run& run) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return std::nullopt;
  std::fflush(nullptr);
  const pid_t process = ::fork();
  if (process < 0) {
    const int error = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    errno = error;
    return std::nullopt;
  }
  if (process == 0) {
    ::close(ends[0]);
    run(ends[1]);
  }
  ::close(ends[1]);
  return Child{process, ends[0], first, WallClock::now(), {}};
}

PooledRun died(const std::string& reason, double wall_s) {
  return {false, "the simulation's process ended early: " + reason, true, wall_s};
}

/// Waits until the child is gone. What became of the job that it had not ended.
std::optional<PooledRun> finish(Child& child) {
  ::close(child.pipe);
  int status = 0;
  while (::waitpid(child.process, &status, 0) < 0 && errno == EINTR) {}
  if (!child.job) return std::nullopt;
  return died(WIFSIGNALED(status) ? std::string{"signal "} + std::to_string(WTERMSIG(status)) : "no result",
              seconds_since(child.start));
}

using Results = std::vector<std::pair<std::size_t, PooledRun>>;

/// Takes the frames that are whole out of what the child has written.
void take_results(Child& child, Results& results) {
  std::string_view rest = child.output;
  for (Frame frame{}; rest.size() >= sizeof frame;) {
    std::memcpy(&frame, rest.data(), sizeof frame);
    if (frame.kind == Frame::kBegin) {
      child.job = frame.value;
      child.start = WallClock::now();
      rest.remove_prefix(sizeof frame);
      continue;
    }
    if (rest.size() - sizeof frame < frame.value) break;
    const std::string_view text = rest.substr(sizeof frame, frame.value);
    results.push_back({*child.job, {frame.kind == Frame::kResult, std::string{text}, false, frame.wall_s}});
    child.job.reset();
    rest.remove_prefix(sizeof frame + frame.value);
  }
  child.output.erase(0, child.output.size() - rest.size());
}

/// The running children; those that are left at the end are killed.
class Children {
 public:
  Children() = default;
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  ~Children() {
    for (Child& child : running_) {
      ::kill(child.process, SIGKILL);
      finish(child);
    }
  }

  std::size_t count() const { return running_.size(); }
  void add(Child child) { running_.push_back(std::move(child)); }

  /// Waits a while for something to happen; gives the jobs that have ended, or run longer than `job_wall_s`.
  Results wait(std::optional<double> job_wall_s) {
    std::vector<pollfd> waiting;
    for (const Child& child : running_) waiting.push_back({child.pipe, POLLIN, 0});
    if (::poll(waiting.data(), waiting.size(), kAskEveryMilliseconds) < 0 && errno != EINTR)
      throw InputError{std::string{"cannot wait for processes: "} + std::strerror(errno)};
    Results ended;
    for (std::size_t i = running_.size(); i-- > 0;) {
      Child& child = running_[i];
      if (job_wall_s && child.job && seconds_since(child.start) > *job_wall_s) {
        ::kill(child.process, SIGKILL);
        end(i, ended);
        ended.back().second.text = "stopped after --max-run-time " + to_text(Seconds{*job_wall_s});
        continue;
      }
      if (waiting[i].revents == 0) continue;
      std::array<char, 65536> buffer;
      const ssize_t size = ::read(child.pipe, buffer.data(), buffer.size());
      if (size > 0) {
        child.output.append(buffer.data(), static_cast<std::size_t>(size));
        take_results(child, ended);
      } else if (size == 0 || errno != EINTR) {
        end(i, ended);
      }
    }
    return ended;
  }

 private:
  void end(std::size_t i, Results& ended) {
    Child child = std::move(running_[i]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    if (std::optional<PooledRun> unfinished = finish(child)) ended.emplace_back(*child.job, std::move(*unfinished));
  }

  std::vector<Child> running_;
};

}  // namespace

bool for_each_isolated(std::size_t count, int parallel, const RunJob& job, const OnRun& on_result,
                       const JobLimits& limits, ProcessReuse reuse) {
  SharedCounter counter;
  Children children;
  auto most = static_cast<std::size_t>(parallel);
  const std::size_t ahead = std::max(reuse.ahead, most);
  const pid_t parent = ::getpid();
  std::optional<std::size_t> next = counter.take(count);
  std::vector<bool> is_handed_over(count);
  std::size_t handed_over = 0;
  const auto hand_over = [&](std::size_t index, PooledRun result) {
    is_handed_over[index] = true;
    ++handed_over;
    on_result(index, std::move(result));
  };
  while (next || children.count() > 0) {
    if (limits.is_stopped && limits.is_stopped()) return false;
    while (next && children.count() < most && (children.count() == 0 || *next < handed_over + ahead)) {
      const ChildJobs jobs{*next, std::min(count, handed_over + reuse.ahead), reuse.most_s, counter, job};
      std::optional<Child> child = start(*next, [&](int pipe) { run_child(jobs, pipe, parent); });
      if (!child && children.count() == 0)
        throw InputError{std::string{"cannot start a process: "} + std::strerror(errno)};
      if (!child) {
        most = children.count();
        break;
      }
      children.add(std::move(*child));
      next = counter.take(count);
    }
    for (auto& [index, result] : children.wait(limits.job_wall_s)) hand_over(index, std::move(result));
    if (!next) next = counter.take(count);
  }
  for (std::size_t i = 0; i < count; ++i)  // of a child that died between taking a job and saying so
    if (!is_handed_over[i]) hand_over(i, died("no result", 0));
  return true;
}

}  // namespace rehearse
