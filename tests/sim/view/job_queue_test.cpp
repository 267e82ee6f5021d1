#include "sim/view/job_queue.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

CommandEnd shell(const std::string& script, const fs::path& folder, bool is_stopped = false,
                 const std::function<void(const std::string&)>& on_line = {}) {
  return run_command(
      {"/bin/sh", {"-c", script}, folder}, [=] { return is_stopped; }, on_line);
}

Json ended(const JobQueue& queue) {
  const auto is_open = [](const Json& states) {
    for (const Json& job : states)
      if (job["state"] == "waiting" || job["state"] == "running") return true;
    return false;
  };
  Json states = queue.states();
  for (int i = 0; i < 600 && is_open(states); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    states = queue.states();
  }
  REQUIRE_FALSE(is_open(states));
  return states;
}

JobQueue::Job script(const std::string& text, const std::string& result, std::vector<fs::path> inputs = {}) {
  return {.title = text, .arguments = {"-c", text}, .result = result, .inputs = std::move(inputs)};
}

}  // namespace

TEST_CASE("a command gives what it says and how it ends") {
  const test::TemporaryFolder folder;
  std::vector<std::string> lines;
  const CommandEnd end = shell("pwd; echo one >&2; echo two >&2; exit 7", folder.path, false,
                               [&](const std::string& line) { lines.push_back(line); });
  CHECK(end.exit_code == 7);
  CHECK(end.said.find(fs::canonical(folder.path).string() + "\n") != std::string::npos);
  CHECK(lines == std::vector<std::string>{"one", "two"});
  CHECK(shell("kill -9 $$", folder.path).exit_code == 128 + 9);
  CHECK(shell("head -c 1000000 /dev/zero", folder.path).said.size() == kMostSaid);
  const int ours = ::dup(0);
  CHECK(shell("ls /proc/self/fd | wc -l", folder.path).said == "4\n");  // the last is ls's own
  ::close(ours);
  CHECK(run_command({folder / "none", {}, folder.path}, [] { return false; }).exit_code == 127);
}

TEST_CASE("a command that is stopped ends with what it has started, even if it does not want to") {
  const test::TemporaryFolder folder;
  CHECK(shell("sleep 60 & wait", folder.path, true).exit_code == 128 + 15);
  const auto begin = std::chrono::steady_clock::now();
  CHECK(shell("trap '' TERM; (trap '' TERM; sleep 60) & while :; do sleep 60; done", folder.path, true).exit_code ==
        128 + 9);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds{30});
}

TEST_CASE("jobs run in order, so many at a time; what was made for them stays with a result only") {
  const test::TemporaryFolder folder;
  const fs::path good = folder.write("good.json", ""), bad = folder.write("bad.json", "");
  JobQueue queue{"/bin/sh", folder.path, 1};
  CHECK(queue.add(script("mkdir good; echo >> order; echo running >&2", "good", {good})) == 1);
  CHECK(queue.add(script("test -d good && exit 3", "bad", {bad})) == 2);
  const Json states = ended(queue);
  CHECK(states[1]["state"] == "done");
  CHECK(states[1]["line"] == "running");
  CHECK(states[0]["state"] == "failed");
  CHECK(states[0]["exit_code"] == 3);
  CHECK(fs::exists(good));
  CHECK_FALSE(fs::exists(bad));
}

TEST_CASE("jobs are cancelled while they wait and while they run, and too many are refused") {
  const test::TemporaryFolder folder;
  JobQueue queue{"/bin/sh", folder.path, 1};
  const auto first = queue.add(script("sleep 60", "first"));
  for (int i = 0; i < 600 && queue.states()[0]["state"] == "waiting"; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  for (std::size_t i = 0; i < JobQueue::kMostWaiting; ++i) CHECK(queue.add(script("true", "w" + std::to_string(i))));
  CHECK_FALSE(queue.add(script("true", "too many")));
  CHECK(queue.find_active([](const JobQueue::Job& job) { return job.result == "w3"; })->first == 5);
  CHECK(queue.cancel(2));
  CHECK_FALSE(queue.cancel(2));
  CHECK_FALSE(queue.cancel(1000));
  CHECK(queue.cancel(*first));
  const Json states = ended(queue);
  CHECK(states.back()["state"] == "cancelled");
  CHECK(states[states.size() - 2]["state"] == "cancelled");
  CHECK(states[0]["state"] == "done");
  for (std::size_t i = 0; i < JobQueue::kMostWaiting; ++i) CHECK(queue.add(script("true", "x")));
  (void)ended(queue);
  CHECK(queue.add(script("true", "x")));
  CHECK(queue.states().size() == JobQueue::kMostKept + 1);  // of 103
}

TEST_CASE("a queue that is stopped ends its jobs and begins no other") {
  const test::TemporaryFolder folder;
  JobQueue queue{"/bin/sh", folder.path, 2};
  for (const char* name : {"a", "b", "c"}) queue.add(script("sleep 60; touch late", name));
  queue.stop();
  for (const Json& job : queue.states()) CHECK(job["state"] == "cancelled");
  CHECK_FALSE(queue.add(script("true", "d")));
  CHECK_FALSE(fs::exists(folder / "late"));
}

}  // namespace rehearse
