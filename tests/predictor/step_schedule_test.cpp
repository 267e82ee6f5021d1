// Steps of a few workers by themselves, laid out by the engine's own executor: links and cores that others use are slower.

#include "predictor/step_schedule.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/resources/paths_only.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

/// The chief's team of a scenario.
class Bench {
 public:
  explicit Bench(const Json& json)
      : scenario_{test::resolved(json)},
        site_{scenario_},
        idle_{site_.topology},
        compiler_{site_},
        step_{compiler_.step()} {
    team.workers = compiler_.strategy().team(0);
  }

  StepSchedule run(int steps = 2) { return schedule_steps(compiler_, step_, team, steps, idle_); }
  const Operation& operation(const Scheduled& one) {
    return compiler_.program(step_.of(team.workers[at(one.worker)])).operation(one.operation);
  }
  /// Mean of the operations of a kind.
  template <class Kind>
  double mean_length(const StepSchedule& schedule) {
    double sum = 0, count = 0;
    for (const Scheduled& one : schedule.operations) {
      if (!std::holds_alternative<Kind>(operation(one))) continue;
      sum += one.end - one.start;
      ++count;
    }
    return sum / count;
  }
  const Site& site() const { return site_; }
  bool has_threads() const { return scenario_.profile.servers.threads.has_value(); }

  ScheduledTeam team;

 private:
  Scenario scenario_;
  Site site_;
  PathsOnly idle_;
  StepCompiler compiler_;
  ClusterStep step_;
};

}  // namespace

TEST_CASE("operations of a connection, a stream and a direction of copies take their turns") {
  Bench bench{test::shipped_scenario()};
  const StepSchedule schedule = bench.run();
  REQUIRE(schedule.ends.size() == 1);
  REQUIRE(schedule.ends[0].size() == 2);
  std::map<std::tuple<std::size_t, int>, double> starts;
  for (const Scheduled& one : schedule.operations) {
    CHECK(one.ready <= one.start + 1e-12);
    CHECK(one.start <= one.end);
    const Operation& operation = bench.operation(one);
    int line = 0;
    if (const auto* send = std::get_if<Send>(&operation))
      line = send->connection;
    else if (!is_kernels(operation))
      continue;
    double& last = starts[{std::get_if<Send>(&operation) != nullptr ? 0U : 1U, line}];
    CHECK(last <= one.start + 1e-12);
    last = one.start;
  }
  CHECK(starts.size() > 1);
}

TEST_CASE("links that others use as much as this worker make its messages take twice as long, and nothing else") {
  Bench bench{test::shipped_scenario()};
  const StepSchedule alone = bench.run();
  for (int link = 0; link < static_cast<int>(bench.site().topology.links().size()); ++link)
    bench.team.slowdowns.links[link] = 2;
  const StepSchedule slowed = bench.run();
  CHECK(bench.mean_length<Send>(slowed) == doctest::Approx(2 * bench.mean_length<Send>(alone)).epsilon(0.05));
  CHECK(bench.mean_length<Compute>(slowed) == doctest::Approx(bench.mean_length<Compute>(alone)).epsilon(0.01));
  CHECK(slowed.ends[0].back() > alone.ends[0].back());
}

TEST_CASE("of cores that others keep busy a share is left, at least one at a part of its time") {
  Bench bench{test::shipped_scenario()};
  const double alone = bench.mean_length<ApplyGradient>(bench.run());
  const auto machines = static_cast<int>(bench.site().machines.size());
  const int pools = machines + static_cast<int>(bench.has_threads() ? bench.site().servers.size() : 0);
  for (int pool = 0; pool < pools; ++pool) {
    const MachineIndex machine = pool < machines ? pool : bench.site().servers[at(pool - machines)];
    bench.team.slowdowns.pools[pool] = 4.0 * std::max(1, bench.site().machine(machine).cores);  // a quarter of a core
  }
  CHECK(bench.mean_length<ApplyGradient>(bench.run()) >= 4 * alone * (1 - 1e-9));
}

TEST_CASE("stages of a pipeline end their steps together; workers of an all-reduce are by themselves") {
  Json json = load_json_file(source_folder() + "/scenarios/tum/tensorflow-ring.json");
  const StepSchedule ring = Bench{json}.run(3);
  REQUIRE(ring.ends.size() == 1);
  CHECK(ring.ends[0].size() == 3);
  CHECK(ring.ends[0][2] - ring.ends[0][1] == doctest::Approx(ring.ends[0][1] - ring.ends[0][0]).epsilon(1e-6));
  json["workload"]["model"] = "gpt2";
  json["workload"]["batch_per_worker"] = 4;
  json["training"]["strategy"]["pipeline"] = {{"stages", 2}, {"microbatches", 4}};
  Bench stages{json};
  const StepSchedule schedule = stages.run();
  REQUIRE(schedule.ends.size() == 2);
  for (const std::vector<double>& ends : schedule.ends) CHECK(ends.size() == 2);
}

}  // namespace rehearse
