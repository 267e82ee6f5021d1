#include "sim/pool/detail/isolated.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAskEveryMilliseconds = 200;  // limits

struct Child {
  std::size_t job = 0;
  pid_t process = 0;
  int pipe = -1;
  Clock::time_point start;
  std::string output;
};

void write_all(int file, const std::string& text) {
  for (std::size_t written = 0; written < text.size();) {
    const ssize_t count = ::write(file, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    written += static_cast<std::size_t>(count);
  }
}

/// What the child does; never returns.
[[noreturn]] void run_child(std::size_t job_index, const std::function<std::string(std::size_t)>& job, int pipe,
                            pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it died before the line above
  std::signal(SIGINT, SIG_IGN);           // Ctrl-C reaches all processes of a terminal: the parent decides
  std::signal(SIGTERM, SIG_DFL);
  std::string message;
  try {
    message = "+" + job(job_index);
  } catch (const std::bad_alloc&) { message = "-out of memory"; } catch (const std::exception& error) {
    message = std::string{"-"} + error.what();
  }
  write_all(pipe, message);
  ::_exit(0);  // the parent's destructors are not ours to run
}

/// None if the system gives no more processes or files now; errno says why.
std::optional<Child> start(std::size_t job_index, const std::function<std::string(std::size_t)>& job) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return std::nullopt;
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
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
    run_child(job_index, job, ends[1], parent);
  }
  ::close(ends[1]);
  return Child{job_index, process, ends[0], Clock::now(), {}};
}

double age(const Child& child) { return std::chrono::duration<double>(Clock::now() - child.start).count(); }

PooledRun finish(Child& child) {
  ::close(child.pipe);
  int status = 0;
  while (::waitpid(child.process, &status, 0) < 0 && errno == EINTR) {}
  const double wall_s = age(child);
  if (child.output.empty() || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    const std::string reason =
        WIFSIGNALED(status) ? std::string{"signal "} + std::to_string(WTERMSIG(status)) : "no result";
    return {false, "the simulation's process ended early: " + reason, true, wall_s};
  }
  return {child.output[0] == '+', child.output.substr(1), false, wall_s};
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

  /// Waits a while for something to happen; gives the children that have ended, or run longer than `job_wall_s`.
  std::vector<std::pair<std::size_t, PooledRun>> wait(std::optional<double> job_wall_s) {
    std::vector<pollfd> waiting;
    for (const Child& child : running_) waiting.push_back({child.pipe, POLLIN, 0});
    if (::poll(waiting.data(), waiting.size(), kAskEveryMilliseconds) < 0 && errno != EINTR)
      throw InputError{std::string{"cannot wait for processes: "} + std::strerror(errno)};
    std::vector<std::pair<std::size_t, PooledRun>> ended;
    for (std::size_t i = running_.size(); i-- > 0;) {
      if (job_wall_s && age(running_[i]) > *job_wall_s) {
        ::kill(running_[i].process, SIGKILL);
        ended.push_back(take(i));
        ended.back().second.text = "stopped after --max-run-time " + to_text(Seconds{*job_wall_s});
        ended.back().second.has_succeeded = false;
        ended.back().second.has_died = true;
        continue;
      }
      if (waiting[i].revents == 0) continue;
      std::array<char, 65536> buffer;
      const ssize_t size = ::read(running_[i].pipe, buffer.data(), buffer.size());
      if (size > 0) {
        running_[i].output.append(buffer.data(), static_cast<std::size_t>(size));
      } else if (size == 0 || errno != EINTR) {
        ended.push_back(take(i));
      }
    }
    return ended;
  }

 private:
  std::pair<std::size_t, PooledRun> take(std::size_t i) {
    Child child = std::move(running_[i]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    const std::size_t job = child.job;
    return {job, finish(child)};
  }

  std::vector<Child> running_;
};

}  // namespace

bool for_each_isolated(std::size_t count, int parallel, const std::function<std::string(std::size_t)>& job,
                       const OnRun& on_result, const JobLimits& limits) {
  Children children;
  auto most = static_cast<std::size_t>(parallel);
  for (std::size_t next = 0; next < count || children.count() > 0;) {
    if (limits.is_stopped && limits.is_stopped()) return false;
    while (next < count && children.count() < most) {
      std::optional<Child> child = start(next, job);
      if (!child && children.count() == 0)
        throw InputError{std::string{"cannot start a process: "} + std::strerror(errno)};
      if (!child) {
        most = children.count();
        break;
      }
      children.add(std::move(*child));
      ++next;
    }
    for (auto& [index, result] : children.wait(limits.job_wall_s)) on_result(index, std::move(result));
  }
  return true;
}

}  // namespace rehearse
