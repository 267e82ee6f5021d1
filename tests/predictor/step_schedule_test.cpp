// Operations take their turn at what they need: by hand, for small programs.

#include "predictor/step_schedule.hpp"

#include <doctest/doctest.h>

namespace rehearse {

namespace {

/// The worker pulls two variables from a server, computes a kernel that reads both, and ends its step.
Program pulling() {
  ProgramBuilder builder;
  const OperationIndex host = builder.add(Delay{.time = Seconds{1}});
  const OperationIndex first = builder.add(Send{.connection = 0, .label = 0, .bytes = Bytes{100}});
  const OperationIndex second = builder.add(Send{.connection = 0, .label = 1, .bytes = Bytes{300}});
  const OperationIndex begin = builder.add(BeginKernels{});
  const OperationIndex kernel = builder.next();
  builder.add(Compute{.host = Seconds{0.5}, .time = Seconds{2}});
  builder.add_stretch(0, kernel);
  const OperationIndex fence = builder.add(Fence{});
  builder.program().labels = {"a", "b"};
  for (const OperationIndex message : {first, second}) {
    builder.order(host, message);
    builder.order(message, kernel);
  }
  builder.order(host, begin);
  builder.order(begin, kernel);
  builder.order(kernel, fence);
  return builder.finish();
}

/// One worker, whose connection has a link that takes so long for a byte.
PacedTeam team_of(const Program& program, double seconds_per_byte) {
  PacedTeam team;
  team.workers.push_back(
      {.program = &program,
       .connections = {{.links = {{0, seconds_per_byte}}, .latency = 0.25, .seconds_per_byte = 0.01}}});
  return team;
}

}  // namespace

TEST_CASE("messages follow one another on a connection, and the kernel waits for the last") {
  const Program program = pulling();
  // 1 s of the host, 4 s of messages, 0.25 s of latency, 0.5 s of dispatch, 2 s of the kernel.
  const StepSchedule schedule = schedule_steps(team_of(program, 0.01), 2);
  REQUIRE(schedule.ends.size() == 1);
  REQUIRE(schedule.ends[0].size() == 2);
  CHECK(schedule.ends[0][0] == doctest::Approx(7.75));
  CHECK(schedule.ends[0][1] == doctest::Approx(15.5));
}

TEST_CASE("a link that others use as much as this worker takes twice as long") {
  const Program program = pulling();
  CHECK(schedule_steps(team_of(program, 0.02), 1).ends[0][0] == doctest::Approx(11.75));
}

TEST_CASE("workers in lockstep begin a step together, behind the collective that all have come to") {
  ProgramBuilder builder;
  const OperationIndex host = builder.add(Delay{.time = Seconds{1}});
  const OperationIndex added = builder.add(Collective{.bytes = Bytes{8}});
  const OperationIndex fence = builder.add(Fence{});
  builder.program().labels = {"gradients"};
  builder.order(host, added);
  builder.order(added, fence);
  const Program program = builder.finish();
  PacedTeam team;
  for (int worker = 0; worker < 2; ++worker) team.workers.push_back({.program = &program, .groups = {7}});
  team.is_in_lockstep = true;
  int asked = 0;
  team.cost = [&](int group, const Collective&, Bytes bytes) {
    ++asked;
    CHECK(group == 7);
    CHECK(bytes == Bytes{8});
    return CollectiveCost{.seconds = 3, .received = 8, .transmitted = 8};
  };
  const StepSchedule schedule = schedule_steps(team, 2);
  CHECK(asked == 2);
  for (const std::vector<double>& ends : schedule.ends) CHECK(ends == std::vector<double>{4, 8});
  double received = 0;
  for (const Scheduled& one : schedule.operations) received += one.cost.received;
  CHECK(received == 16);
}

}  // namespace rehearse
