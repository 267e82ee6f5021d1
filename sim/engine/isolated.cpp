#include "sim/engine/isolated.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>

#include "sim/base/errors.hpp"

namespace rehearse {

namespace {

struct Child {
  std::size_t job = 0;
  pid_t process = 0;
  int pipe = -1;
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

Child start(std::size_t job_index, const std::function<std::string(std::size_t)>& job) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw InputError{std::string{"cannot create a pipe: "} + std::strerror(errno)};
  std::fflush(nullptr);
  const pid_t process = ::fork();
  if (process < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    throw InputError{std::string{"cannot start a process: "} + std::strerror(errno)};
  }
  if (process == 0) {
    ::close(ends[0]);
    std::string message;
    try {
      message = "+" + job(job_index);
    } catch (const std::exception& error) { message = std::string{"-"} + error.what(); }
    write_all(ends[1], message);
    ::_exit(0);  // the parent's destructors are not ours to run
  }
  ::close(ends[1]);
  return {job_index, process, ends[0], {}};
}

IsolatedResult finish(Child& child) {
  ::close(child.pipe);
  int status = 0;
  while (::waitpid(child.process, &status, 0) < 0 && errno == EINTR) {}
  if (child.output.empty() || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    const std::string reason =
        WIFSIGNALED(status) ? std::string{"signal "} + std::to_string(WTERMSIG(status)) : "no result";
    return {false, "the simulation's process ended early: " + reason};
  }
  return {child.output[0] == '+', child.output.substr(1)};
}

}  // namespace

std::vector<IsolatedResult> run_isolated(std::size_t count, int parallel,
                                         const std::function<std::string(std::size_t)>& job,
                                         const std::function<void(std::size_t)>& on_done) {
  std::vector<IsolatedResult> results(count);
  std::vector<Child> children;
  std::size_t next = 0, finished = 0;
  try {
    while (finished < count) {
      while (next < count && children.size() < static_cast<std::size_t>(parallel))
        children.push_back(start(next++, job));
      std::vector<pollfd> waiting;
      for (const Child& child : children) waiting.push_back({child.pipe, POLLIN, 0});
      if (::poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR)
        throw InputError{std::string{"cannot wait for processes: "} + std::strerror(errno)};
      for (std::size_t i = children.size(); i-- > 0;) {
        if (waiting[i].revents == 0) continue;
        std::array<char, 65536> buffer{};
        const ssize_t size = ::read(children[i].pipe, buffer.data(), buffer.size());
        if (size > 0) {
          children[i].output.append(buffer.data(), static_cast<std::size_t>(size));
        } else if (size == 0 || errno != EINTR) {
          Child child = std::move(children[i]);
          children.erase(children.begin() + static_cast<std::ptrdiff_t>(i));
          results[child.job] = finish(child);
          ++finished;
          if (on_done) on_done(finished);
        }
      }
    }
  } catch (...) {
    for (Child& child : children) {
      ::kill(child.process, SIGKILL);
      finish(child);
    }
    throw;
  }
  return results;
}

}  // namespace rehearse
