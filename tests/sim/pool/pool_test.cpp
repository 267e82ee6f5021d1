// Simulations side by side: results as they come, failures that disturb no other, an end that leaves nothing running.

#include "sim/pool/pool.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include "sim/pool/detail/isolated.hpp"
#include "tests/support/simulated.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

/// 'R', 'S', .. of /proc; 'X' if there is no such process or it only waits to be reaped.
char process_state(pid_t process) {
  std::ifstream stat{"/proc/" + std::to_string(process) + "/stat"};
  std::string text;
  std::getline(stat, text);
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos || end + 2 >= text.size() || text[end + 2] == 'Z') return 'X';
  return text[end + 2];
}

bool ends_soon(pid_t process) {
  for (int i = 0; i < 500 && process_state(process) != 'X'; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  return process_state(process) == 'X';
}

pid_t wait_for_process_id(const std::filesystem::path& file) {
  for (int i = 0; i < 500; ++i) {
    std::ifstream stream{file};
    if (pid_t process = 0; stream >> process) return process;
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  throw std::runtime_error{"no process id"};
}

std::string write_process_id_and_sleep(const std::filesystem::path& file) {
  write_file(file, std::to_string(::getpid()) + "\n");
  ::sleep(100);
  return "";
}

/// Takes so many milliseconds, and gives the process that it ran in; "fails" throws.
const Verb kWait{"wait of the pool's test",  // NOLINTNEXTLINE(performance-unnecessary-value-param): as a Verb's are
                 [](Scenario, const JsonReader& options) {
                   if (options.has("fails")) throw std::runtime_error{"it fails"};
                   std::this_thread::sleep_for(std::chrono::milliseconds{options.required<int>("ms")});
                   return std::to_string(::getpid());
                 }};

}  // namespace

TEST_CASE("each scenario gives the summary that it gives alone; one that fails gives its error") {
  const std::vector<Json> scenarios{
      test::shipped_scenario({{"/training/steps", "12"}}),
      test::shipped_scenario({{"/workload/batch_per_worker", "60000"}}),
      test::shipped_scenario({{"/training/steps", "12"}, {"/cluster/groups/1/count", "2"}})};
  std::map<std::size_t, PooledRun> runs;
  CHECK(Pool{2}.run(
      scenarios.size(), [&](std::size_t i) { return kSimulate.job(test::resolved(scenarios[i])); },
      [&](std::size_t i, const PooledRun& run) { runs[i] = run; }));
  REQUIRE(runs.size() == 3);
  for (const std::size_t i : {0U, 2U}) {
    const Json alone = test::in_child([&] {
      const Scenario scenario = test::resolved(scenarios[i]);
      return to_json(scenario, summarize(scenario, simulate(scenario)));
    });
    CHECK(Json::parse(runs[i].text) == alone);
    CHECK(runs[i].has_succeeded);
    CHECK(runs[i].wall_s > 0);
  }
  CHECK_FALSE(runs[1].has_succeeded);
  CHECK(runs[1].text.find("GPU memory exceeded") != std::string::npos);
  CHECK_FALSE(runs[1].has_died);
}

TEST_CASE("results are handed over as they come, not at the end") {
  std::vector<std::size_t> order;
  CHECK(for_each_isolated(
      3, 2,
      [](std::size_t job) {
        if (job == 0) std::this_thread::sleep_for(std::chrono::milliseconds{500});
        return std::string{};
      },
      [&](std::size_t job, const PooledRun&) { order.push_back(job); }));
  CHECK(order == std::vector<std::size_t>{1, 2, 0});
}

TEST_CASE("brief jobs run in this process, and once they have taken a while the others in processes of their own") {
  const Scenario scenario = test::resolved(test::shipped_scenario({{"/training/steps", "12"}}));
  const std::vector<Json> options{{{"ms", 0}}, {{"fails", true}}, {{"ms", 20}}, {{"ms", 0}}, {{"fails", true}}};
  std::map<std::size_t, PooledRun> runs;
  const auto text = [&](std::size_t i) { return kWait.job(scenario, options[i]); };
  CHECK(run_brief_here(options.size(), 2, text, [&](std::size_t i, PooledRun run) { runs[i] = std::move(run); }, {}));
  const std::string here = std::to_string(::getpid());
  REQUIRE(runs.size() == options.size());
  CHECK(runs[0].text == here);
  CHECK(runs[3].has_succeeded);
  CHECK(runs[3].text != here);
  for (const std::size_t failed : {1, 4}) {
    CHECK(!runs[failed].has_succeeded);
    CHECK(runs[failed].text == "it fails");
  }
  CHECK(!run_brief_here(1, 1, text, [](std::size_t, const PooledRun&) {},
                        {.is_stopped = [] { return true; }, .job_wall_s = {}}));
}

TEST_CASE("a job that dies is a failed result that says so") {
  std::vector<PooledRun> results(2);
  for_each_isolated(
      2, 1,
      [](std::size_t job) -> std::string {
        if (job == 0) ::raise(SIGKILL);
        return "fine";
      },
      [&](std::size_t job, PooledRun result) { results[job] = std::move(result); });
  CHECK(results[0].has_died);
  CHECK(results[0].text == "the simulation's process ended early: signal 9");
  CHECK(results[1].has_succeeded);
  CHECK_FALSE(results[1].has_died);
}

TEST_CASE(
    "brief jobs follow one another in a process, no further ahead than asked, and one that dies there fails alone") {
  constexpr std::size_t kJobs = 40, kDies = 7, kAhead = 10;
  std::map<std::size_t, PooledRun> results;
  std::size_t handed_over = 0;
  CHECK(for_each_isolated(
      kJobs, 2,
      [&](std::size_t job) -> std::string {
        if (job == kDies) ::raise(SIGKILL);
        if (job == kDies + 1) throw std::runtime_error{"it fails"};
        return std::to_string(::getpid()) + " " + std::to_string(handed_over);
      },
      [&](std::size_t job, PooledRun result) {
        CHECK(results.emplace(job, std::move(result)).second);
        ++handed_over;
      },
      {}, {.most_s = 100, .ahead = kAhead}));
  REQUIRE(results.size() == kJobs);
  std::set<std::string> processes;
  for (const auto& [job, result] : results) {
    CAPTURE(job);
    CHECK(result.has_succeeded == (job != kDies && job != kDies + 1));
    CHECK(result.has_died == (job == kDies));
    if (!result.has_succeeded) continue;
    const std::size_t space = result.text.find(' ');
    processes.insert(result.text.substr(0, space));
    CHECK(job < std::stoul(result.text.substr(space)) + kAhead);
  }
  CHECK(results[kDies + 1].text == "it fails");
  CHECK(processes.size() < kJobs / 2);
  CHECK(processes.size() >= kJobs / kAhead);
}

TEST_CASE("when it is stopped or a callback throws, what runs is killed") {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder / "stopped";
  CHECK_FALSE(for_each_isolated(
      5, 2, [&](std::size_t) { return write_process_id_and_sleep(file); },
      [](std::size_t, const PooledRun&) { FAIL("nothing ends"); },
      {.is_stopped = [&] { return std::filesystem::exists(file); }, .job_wall_s = {}}));
  CHECK(ends_soon(wait_for_process_id(file)));

  const std::filesystem::path other = folder / "threw";
  const auto run = [&] {
    for_each_isolated(
        2, 2,
        [&](std::size_t job) {
          if (job == 0) return write_process_id_and_sleep(other);
          while (!std::filesystem::exists(other)) std::this_thread::sleep_for(std::chrono::milliseconds{5});
          return std::string{};
        },
        [](std::size_t, const PooledRun&) { throw std::runtime_error{"enough"}; });
  };
  CHECK_THROWS_WITH(run(), "enough");
  CHECK(ends_soon(wait_for_process_id(other)));
}

TEST_CASE("a job that runs longer than it may is killed, and the others go on") {
  std::vector<PooledRun> results(3);
  CHECK(for_each_isolated(
      3, 1,
      [](std::size_t job) {
        if (job == 1) ::sleep(100);
        return std::string{"done"};
      },
      [&](std::size_t job, PooledRun result) { results[job] = std::move(result); },
      {.is_stopped = {}, .job_wall_s = 0.5}));
  CHECK(results[0].has_succeeded);
  CHECK_FALSE(results[1].has_succeeded);
  CHECK(results[1].has_died);
  CHECK(results[1].text == "stopped after --max-run-time 500ms");
  CHECK(results[2].has_succeeded);
}

TEST_CASE("simulations do not outlive a parent that is killed") {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder / "child";
  const pid_t parent = ::fork();
  if (parent == 0) {
    for_each_isolated(
        1, 1, [&](std::size_t) { return write_process_id_and_sleep(file); }, [](std::size_t, const PooledRun&) {});
    ::_exit(0);
  }
  const pid_t child = wait_for_process_id(file);
  CHECK(process_state(child) != 'X');
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  CHECK(ends_soon(child));
}

}  // namespace rehearse
