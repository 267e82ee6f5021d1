// Slurm, as far as it needs none: what its commands print, and how jobs are shared out. The rest runs against a real one
// in slurm/slurm_test.py.

#include "sim/pool/slurm.hpp"

#include <doctest/doctest.h>

#include "sim/pool/detail/slurm_commands.hpp"

namespace rehearse {

TEST_CASE("tasks of the queue are known by the names of their jobs") {
  const auto task = read_queue_line("12_7|rehearse-ab+1000|RUNNING|None", "rehearse-ab");
  REQUIRE(task);
  CHECK(task->number == 1007);
  CHECK(task->job == "12");
  CHECK(task->state == "running");
  CHECK(read_queue_line("12_7|rehearse-ab+0|PENDING|Priority", "rehearse-ab")->state == "pending (Priority)");
  CHECK(task->id == "12_7");
  CHECK_FALSE(read_queue_line("12_7|rehearse-ab+0|PENDING|JobHeldUser", "rehearse-ab")->is_stuck);
  CHECK(read_queue_line("12_7|rehearse-ab+0|PENDING|launch failed requeued held", "rehearse-ab")->is_stuck);
  CHECK(read_queue_line("12_7|rehearse-ab+0|PENDING|launch_failed_requeued_held", "rehearse-ab")->is_stuck);
  for (const char* line : {"", "12_7", "12|rehearse-ab+0|RUNNING|None", "12_7|other|RUNNING|None",
                           "12_[7-9]|rehearse-ab+0|PENDING|None", "12_7|rehearse-ab+x|RUNNING|None"})
    CHECK_FALSE(read_queue_line(line, "rehearse-ab"));
}

TEST_CASE("nodes out of service are told in one line") {
  CHECK(read_nodes("") == "");
  CHECK(read_nodes("a|idle|none\nb|mixed|none\n") == "");
  CHECK(read_nodes("a|drained|Duplicate jobid\na|drained|Duplicate jobid\n") == "node a is drained: Duplicate jobid");
  CHECK(read_nodes("a|down*|none\nb|draining$|bad disk\n") == "2 nodes are out of service, such as a, which is down");
}

TEST_CASE("arrays are written as ranges") {
  CHECK(array_text({1}) == "1");
  CHECK(array_text({1, 2, 3, 7, 9, 10}) == "1-3,7,9-10");
}

TEST_CASE("a task has a minute of work or more, and processors get as many tasks each") {
  CHECK(jobs_of_task(1000, 0.2, 2) == 500);    // 100 s each
  CHECK(jobs_of_task(1000, 0.2, 1) == 334);    // three of 67 s
  CHECK(jobs_of_task(1000, 0.2, 100) == 300);  // a minute each, though most processors get none
  CHECK(jobs_of_task(10, 600, 4) == 1);
  CHECK(jobs_of_task(10, 0, 4) == 10);
  for (const int processors : {1, 3, 64})
    for (const std::size_t count : {1U, 100U, 100000U}) {
      const std::size_t size = jobs_of_task(count, 0.5, processors);
      CHECK((size >= 120 || size >= count || size * static_cast<std::size_t>(processors) >= count));
      CHECK(size >= 1);
    }
}

}  // namespace rehearse
