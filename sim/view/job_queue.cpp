#include "sim/view/job_queue.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::seconds kPatience{2};  // between SIGTERM and SIGKILL

/// A pipe whose ends are closed when they are no longer needed.
class Pipe : private Pinned {
 public:
  Pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0)
      throw InputError{std::string{"cannot start a command: "} + std::strerror(errno)};
  }
  ~Pipe() {
    close(0);
    close(1);
  }
  int operator[](std::size_t end) const { return ends_[end]; }
  void close(std::size_t end) {
    if (ends_[end] >= 0) ::close(ends_[end]);
    ends_[end] = -1;
  }
  /// What is there; nothing if there is none, or the writers have gone.
  std::string take() {
    std::array<char, 4096> bytes{};
    const ssize_t count = ends_[0] < 0 ? 0 : ::read(ends_[0], bytes.data(), bytes.size());
    if (count == 0) close(0);
    return {bytes.data(), count > 0 ? static_cast<std::size_t>(count) : 0};
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

/// In the child: nothing but system calls, as other threads of the parent may have held any lock.
[[noreturn]] void become(const char* program, char* const* argv, const char* folder, pid_t parent, int out, int err) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);  // which has ended already
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (::chdir(folder) == 0 && ::dup2(nothing, 0) >= 0 && ::dup2(out, 1) >= 0 && ::dup2(err, 2) >= 0) {
    ::close_range(3, ~0U, 0);  // connections of the parent, which would stay open as long as this runs
    ::execv(program, argv);
  }
  ::_exit(127);
}

}  // namespace

CommandEnd run_command(const Command& command, const std::function<bool()>& is_stopped,
                       const std::function<void(const std::string& line)>& on_line) {
  std::vector<std::string> words{command.program.string()};
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  Pipe out, err;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) become(argv.front(), argv.data(), command.folder.c_str(), parent, out[1], err[1]);
  if (child < 0) throw InputError{std::string{"cannot start a command: "} + std::strerror(errno)};
  ::setpgid(child, child);  // whoever of the two comes first
  out.close(1);
  err.close(1);
  for (const int end : {out[0], err[0]}) ::fcntl(end, F_SETFL, O_NONBLOCK);

  CommandEnd end;
  std::string line;
  const auto take = [&] {
    for (Pipe* pipe : {&out, &err})
      for (std::string text = pipe->take(); !text.empty(); text = pipe->take()) {
        end.said.append(text, 0, kMostSaid - std::min(kMostSaid, end.said.size()));
        if (pipe == &out || !on_line) continue;
        for (const char c : text) {
          if (c != '\n' && line.size() < kMostSaid) line += c;
          if (c == '\n') on_line(std::exchange(line, {}));
        }
      }
  };
  std::optional<std::chrono::steady_clock::time_point> asked;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    std::array<pollfd, 2> ends{{{out[0], POLLIN, 0}, {err[0], POLLIN, 0}}};  // what is closed, -1, is passed over
    ::poll(ends.data(), ends.size(), 50);
    take();
    if (!is_stopped()) continue;
    const auto now = std::chrono::steady_clock::now();
    if (!asked) ::kill(-child, SIGTERM);
    if (!asked) asked = now;
    if (now - *asked > kPatience) ::kill(-child, SIGKILL);
  }
  take();
  if (asked) ::kill(-child, SIGKILL);  // what it had started and did not end
  end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return end;
}

JobQueue::JobQueue(fs::path program, fs::path folder, int parallel)
    : program_{std::move(program)}, folder_{std::move(folder)} {
  for (int i = 0; i < parallel; ++i) workers_.emplace_back([this] { work(); });
}

std::optional<int> JobQueue::add(Job job) {
  const std::lock_guard lock{mutex_};
  const auto waiting =
      std::ranges::count_if(entries_, [](const auto& entry) { return entry->state == State::kWaiting; });
  if (is_stopped_ || static_cast<std::size_t>(waiting) >= kMostWaiting) return {};
  auto entry = std::make_shared<Entry>();
  entry->number = ++last_number_;
  entry->job = std::move(job);
  entries_.push_back(std::move(entry));
  auto ended = std::ranges::count_if(entries_, [](const auto& one) { return has_ended(*one); });
  std::erase_if(entries_,
                [&](const auto& one) { return has_ended(*one) && ended-- > static_cast<std::ptrdiff_t>(kMostKept); });
  changed_.notify_one();
  return last_number_;
}

bool JobQueue::cancel(int number) {
  const std::lock_guard lock{mutex_};
  const auto found = std::ranges::find_if(entries_, [&](const auto& entry) { return entry->number == number; });
  if (found == entries_.end() || has_ended(**found)) return false;
  Entry& entry = **found;
  entry.is_cancelled = true;
  if (entry.state == State::kWaiting) end(entry, State::kCancelled);
  return true;
}

Json JobQueue::states() const {
  constexpr std::array kNames{"waiting", "running", "done", "failed", "cancelled"};
  const std::lock_guard lock{mutex_};
  Json list = Json::array();
  const auto now = std::chrono::steady_clock::now();
  for (auto it = entries_.rbegin(); it != entries_.rend(); ++it) {
    const Entry& entry = **it;
    std::chrono::duration<double> taken{};
    if (entry.state != State::kWaiting) taken = (has_ended(entry) ? entry.end : now) - entry.begin;
    list.push_back({{"id", entry.number},
                    {"title", entry.job.title},
                    {"state", kNames.at(static_cast<std::size_t>(entry.state))},
                    {"line", entry.line},
                    {"result", entry.job.result},
                    {"seconds", taken.count()},
                    {"exit_code", entry.exit_code}});
  }
  return list;
}

std::optional<std::pair<int, std::string>> JobQueue::find_active(
    const std::function<bool(const Job&)>& is_like_this) const {
  const std::lock_guard lock{mutex_};
  const auto found =
      std::ranges::find_if(entries_, [&](const auto& entry) { return !has_ended(*entry) && is_like_this(entry->job); });
  if (found == entries_.end()) return {};
  return std::pair{(*found)->number, (*found)->job.result};
}

void JobQueue::stop() {
  is_stopped_ = true;
  changed_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void JobQueue::work() {
  std::unique_lock lock{mutex_};
  const auto is_waiting = [](const auto& entry) { return entry->state == State::kWaiting; };
  while (true) {
    changed_.wait(lock, [&] { return is_stopped_ || std::ranges::any_of(entries_, is_waiting); });
    const auto next = std::ranges::find_if(entries_, is_waiting);
    if (next == entries_.end()) return;
    const std::shared_ptr<Entry> entry = *next;  // which the list may forget
    entry->state = State::kRunning;
    entry->begin = std::chrono::steady_clock::now();
    lock.unlock();
    run(*entry);
    lock.lock();
  }
}

void JobQueue::end(Entry& entry, State state) const {
  std::error_code error;
  if (state != State::kDone && !fs::exists(folder_ / entry.job.result, error))
    for (const fs::path& input : entry.job.inputs) fs::remove(input, error);
  entry.end = std::chrono::steady_clock::now();
  if (entry.state == State::kWaiting) entry.begin = entry.end;
  entry.state = state;
}

void JobQueue::run(Entry& entry) {
  CommandEnd ended{.said = {}, .exit_code = 130};
  std::string problem;
  const auto is_over = [&] { return is_stopped_ || entry.is_cancelled; };
  if (!is_over()) try {
      ended = run_command({program_, entry.job.arguments, folder_}, is_over, [&](const std::string& line) {
        const std::lock_guard lock{mutex_};
        entry.line = shortened(line, 500);
      });
    } catch (const InputError& error) {
      ended.exit_code = 2;
      problem = error.what();
    }
  const std::lock_guard lock{mutex_};
  if (!problem.empty()) entry.line = shortened(problem, 500);
  entry.exit_code = ended.exit_code;
  end(entry, ended.exit_code == 0 ? State::kDone : is_over() ? State::kCancelled : State::kFailed);
}

}  // namespace rehearse
