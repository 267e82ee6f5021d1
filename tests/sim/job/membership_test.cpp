// Workers that join and leave at stated dates.

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>

#include "sim/base/random.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

using test::timed_scenario;
using test::with_servers;

constexpr double kAlpha = 10e-6, kBeta = 1e9, kCompute = 3e-3, kSize = 24e6;

/// Two machines that stay, and `late` ones that are there between two dates.
Json two_and(int late, const char* joins_at, const char* leaves_at, const Json& strategy, int steps) {
  Json scenario = timed_scenario(2, {{"24000000B"}}, strategy);
  Json group = scenario["cluster"]["groups"][0];
  group.update({{"name", "late"}, {"count", late}});
  if (joins_at != nullptr) group["joins_at"] = joins_at;
  if (leaves_at != nullptr) group["leaves_at"] = leaves_at;
  scenario["cluster"]["groups"].push_back(group);
  scenario["training"]["steps"] = steps;
  scenario["training"]["recovery"] = {{"membership_change", "at_once"}};
  return scenario;
}

double ring_step(int ranks) { return kCompute + 2 * (ranks - 1) * (kAlpha + kSize / ranks / kBeta); }

Json run(const Json& scenario, bool is_exact) {
  return test::in_child([&] {
    const Scenario resolved = test::resolved(scenario);
    const RunRecord record = simulate(resolved, {.is_exact = is_exact, .on_update = {}});
    Json result = to_json(resolved, summarize(resolved, record));
    result["recorded_steps"] = record.recorder.steps.size();
    std::vector<std::int64_t> steps(record.machines.size());
    for (const StepSpan& step : record.recorder.steps) steps[static_cast<std::size_t>(step.machine)] += step.repeats;
    result["steps_of"] = steps;
    result["presence"] = Json::array();
    for (const auto& spans : record.presence)
      result["presence"].push_back(spans.empty() ? Json{} : Json{spans[0].start.value(), spans[0].end.value()});
    return result;
  });
}

/// A number of steps of so many workers that ends no sooner than `date`, from `from` on.
double steps_until(double date, double from, int workers) { return std::ceil((date - from) / ring_step(workers)); }

}  // namespace

TEST_CASE("a rendezvous: the step ends, all stop, one broadcasts variables and momentum, and nothing is done twice") {
  // The step under way at 1 s is the last of two workers. Half a second later a chain of four machines passes on two values of
  // each of the six million parameters. Who leaves at 3 s ends its step; the others stop again and have the model.
  Json scenario = two_and(2, "1s", "3s", {{"kind", "all_reduce"}}, 1000);
  scenario["training"]["recovery"] = {{"restart_time", "500ms"}};
  const double alone = steps_until(1, 0, 2);
  const double begun = alone * ring_step(2) + 0.5 + 3 * kAlpha + 2 * kSize / kBeta;
  const double together = steps_until(3, begun, 4), left = begun + together * ring_step(4);
  const double end = left + 0.5 + (1000 - alone - 2 * together) * ring_step(2);
  for (const bool is_exact : {false, true}) {
    CAPTURE(is_exact);
    const Json result = run(scenario, is_exact);
    REQUIRE_MESSAGE(!result.contains("error"), result.dump());
    CHECK(result["time_s"].get<double>() == doctest::Approx(end).epsilon(1e-9));
    CHECK(result["samples_done"] == 2000);
    CHECK(result["samples_lost"] == 0);
    CHECK(result["samples_repeated"] == 0);
    CHECK(result["presence"][2][0] == 1);
    CHECK(result["presence"][2][1].get<double>() == doctest::Approx(left).epsilon(1e-9));
    CHECK(result["interruptions"]["stopped_s"].get<double>() ==
          doctest::Approx(2 * 0.5 + 3 * kAlpha + 2 * kSize / kBeta).epsilon(1e-9));
  }
}

TEST_CASE("a restart: who joins, or leaves by itself, sends all back to the last checkpoint") {
  // A checkpoint after every ten steps, of 1 s; newcomers at 2.7 s find two, leavers at 9 s what has been written since.
  Json scenario = two_and(1, "2.7s", "9s", {{"kind", "all_reduce"}}, 400);
  scenario["training"]["checkpoint"] = {{"every_steps", 10}, {"fixed_time", "1s"}, {"rate", "1000GBps"}};
  scenario["training"]["recovery"] = {{"lost_worker", "restart"}, {"restart_time", "500ms"}};
  const double write = 1 + 2 * kSize / 1e12, two = ring_step(2), three = ring_step(3);
  const double first = 20 + std::floor((2.7 - 2 * (10 * two + write)) / two);
  REQUIRE(first > 20);
  REQUIRE(first < 30);
  const double again = 2.7 + 0.5 + write;  // from step 20 on
  double at = again, steps = 20;
  while (at + 10 * three + write < 9) {
    at += 10 * three + write;
    steps += 10;
  }
  const double lost = std::min(10.0, std::floor((9 - at) / three));
  // Two go on from there with 800 - 40 - 3 (steps - 20) samples.
  const double rest = std::ceil((800 - 40 - 3 * (steps - 20)) / 2);
  const double written = std::floor((steps + rest - 1) / 10) - steps / 10;
  const double end = 9 + 0.5 + write + rest * two + written * write;
  for (const bool is_exact : {false, true}) {
    CAPTURE(is_exact);
    const Json result = run(scenario, is_exact);
    REQUIRE_MESSAGE(!result.contains("error"), result.dump());
    CHECK(result["time_s"].get<double>() == doctest::Approx(end).epsilon(1e-9));
    CHECK(result["interruptions"]["restarts"] == 2);
    CHECK(result["samples_lost"] == 2 * (first - 20) + 3 * lost);
    CHECK(result["samples_done"] == 800);
  }
}

TEST_CASE("a node that joins without a checkpoint sends all back to the beginning") {
  // pytorch/elastic#97: 300 s and no checkpoint yet; all of it is lost, and the time of a restart.
  Json scenario = timed_scenario(1, {{"346000000B", "375ms", "750.64ms"}}, {{"kind", "all_reduce"}});
  Json late = scenario["cluster"]["groups"][0];
  late.update({{"name", "late"}, {"joins_at", "300s"}});
  scenario["cluster"]["groups"].push_back(late);
  scenario["training"]["steps"] = 800;
  scenario["training"]["checkpoint"] = {{"every_steps", 400}, {"fixed_time", "1s"}, {"rate", "100GBps"}};
  scenario["training"]["recovery"] = {{"lost_worker", "restart"}, {"restart_time", "20s"}};
  const double one = 1.12564, two = one + 2 * (kAlpha + 346e6 / 2 / kBeta);
  for (const char* change : {"restart", "rendezvous"}) {
    CAPTURE(change);
    scenario["training"]["recovery"]["membership_change"] = change;
    const Json result = run(scenario, false);
    REQUIRE_MESSAGE(!result.contains("error"), result.dump());
    const bool restarts = std::string{change} == "restart";
    CHECK(result["samples_lost"] == (restarts ? 266 : 0));
    const double alone = 267, begun = restarts ? 320 : alone * one + 20 + kAlpha + 2 * 346e6 / kBeta;
    const double steps = restarts ? 400 : std::ceil((800 - alone) / 2);
    // No checkpoint is written when all is done, and none before step 400.
    const double end = begun + steps * two + (restarts ? 0 : 1 + 2 * 346e6 / 100e9);
    CHECK(result["time_s"].get<double>() == doctest::Approx(end).epsilon(1e-9));
  }
}

TEST_CASE("servers: who joins pulls the variables while the others go on; a rendezvous of theirs is refused") {
  const Json strategy{{"kind", "parameter_server"}, {"synchronization", "asynchronous"}};
  Json scenario = with_servers(two_and(1, "1s", nullptr, strategy, 400), 1);
  scenario["training"]["recovery"] = {{"restart_time", "20s"}};
  CHECK(!run(scenario, false).contains("interruptions"));
  scenario["training"]["recovery"]["membership_change"] = "rendezvous";
  CHECK(run(scenario, false)["error"].get<std::string>().find(
            "/training/recovery/membership_change: expected \"at_once\" or \"restart\" with this strategy") !=
        std::string::npos);
}

TEST_CASE(
    "all-reduce, at once: newcomers get the model between two steps, leavers end theirs; each membership has its own "
    "step") {
  // The step under way at 1 s is the last of two workers. Then both newcomers get 24 MB through one NIC while the
  // others compute, and compute themselves: the first step of four is longer by the transfer. It ends as it began.
  const double two = ring_step(2), four = ring_step(4), transfer = 2 * kSize / kBeta + kAlpha;
  const double alone = std::ceil(1 / two), joined = alone * two;
  const double together = 1 + std::ceil((3 - joined - transfer - four) / four);
  const double left = joined + transfer + together * four;
  for (const int stated : {1000, 100'000}) {
    CAPTURE(stated);
    // Steps of two workers are stated. Four do two of them at once.
    const double steps = stated - together;
    const double end = left + (steps - alone - together) * two;
    for (const bool is_exact : {false, true}) {
      if (is_exact && stated > 1000) continue;
      CAPTURE(is_exact);
      const Json result = run(two_and(2, "1s", "3s", {{"kind", "all_reduce"}}, stated), is_exact);
      REQUIRE_MESSAGE(!result.contains("error"), result.dump());
      CHECK(result["time_s"].get<double>() == doctest::Approx(end).epsilon(1e-9));
      CHECK(result["presence"][2][1].get<double>() == doctest::Approx(left).epsilon(1e-9));
      CHECK(result["presence"][0][1] == result["time_s"]);
      if (is_exact) {
        CHECK(result["steps_of"] == Json{steps, steps, together, together});
        continue;
      }
      // Folded: machine 0 for both that stay, machine 2 for both that come. Of two: two steps that are alike, and the
      // one in which the others come. Of four: the one with the transfer, two alike, and the last. Of two again: one
      // that ends as that known to be steady, and the last. 3 + 4 + 2 of machine 0 and 4 of machine 2.
      CHECK(result["steps_of"] == Json{steps, 0, together, 0});
      CHECK(result["recorded_steps"] == 13);
    }
  }
}

TEST_CASE("a step takes the time of its membership, whatever came before") {
  const Json summary = run(two_and(2, nullptr, "1s", {{"kind", "all_reduce"}}, 2000), false);
  // Of 2000 steps of four those of the first second are of four. Two workers then do twice as many as are left.
  const double two = ring_step(2), four = ring_step(4), first = std::ceil(1 / four);
  CHECK(summary["time_s"].get<double>() == doctest::Approx(first * four + 2 * (2000 - first) * two).epsilon(1e-9));
  CHECK(summary["steps"] == first + 2 * (2000 - first));
  CHECK(summary["samples_done"] == 8000);
}

TEST_CASE("synchronous servers: the next step counts who is there") {
  // One server, NIC 1 GB/s: w workers pull and push 24 MB each through it, one after the other.
  const Json strategy{{"kind", "parameter_server"}, {"synchronization", "synchronous"}};
  const auto step_of = [&](int workers) {
    Json scenario = with_servers(timed_scenario(workers, {{"24000000B"}}, strategy), 1);
    scenario["training"]["steps"] = 1;
    return run(scenario, true)["time_s"].get<double>();
  };
  const double two = step_of(2), three = step_of(3);
  CHECK(three > 1.3 * two);
  const double alone = std::ceil(1 / two), joined = alone * two;
  const double together = std::ceil((3 - joined) / three), left = joined + together * three;
  const double again = std::ceil((400 - 2 * alone - 3 * together) / 2);  // the last one of one sample or two
  const double end = left + again * two, steps = alone + together + again;
  for (const bool is_exact : {false, true}) {
    const Json result = run(with_servers(two_and(1, "1s", "3s", strategy, 200), 1), is_exact);
    REQUIRE_MESSAGE(!result.contains("error"), result.dump());
    CHECK(result["time_s"].get<double>() == doctest::Approx(end).epsilon(1e-6));
    CHECK(result["steps_of"] == Json{steps, steps, together, 0});
    CHECK(result["samples_done"] == 400);
    CHECK(result["presence"][2][0].get<double>() == 1);
    CHECK(result["presence"][2][1].get<double>() == doctest::Approx(left).epsilon(1e-6));
  }
}

TEST_CASE("asynchronous and stale-synchronous workers and pairs do all the steps, whoever is there") {
  for (const Json& strategy :
       {Json{{"kind", "parameter_server"}, {"synchronization", "asynchronous"}},
        Json{{"kind", "parameter_server"}, {"synchronization", "stale_synchronous"}, {"staleness_bound", 0}},
        Json{{"kind", "parameter_server"}, {"synchronization", "stale_synchronous"}, {"staleness_bound", 3}},
        Json{{"kind", "pairwise_averaging"}}}) {
    CAPTURE(strategy);
    Json scenario = two_and(3, "1s", "2s", strategy, 400);
    if (strategy["kind"] == "parameter_server") scenario = with_servers(scenario, 1);
    const Json result = run(scenario, false);
    REQUIRE_MESSAGE(!result.contains("error"), result.dump());
    std::int64_t sum = 0;
    for (const Json& steps : result["steps_of"]) sum += steps.get<std::int64_t>();
    CHECK(sum == 400);
    for (const int machine : {2, 3, 4}) {
      CHECK(result["steps_of"][static_cast<std::size_t>(machine)].get<int>() > 0);
      CHECK(result["presence"][static_cast<std::size_t>(machine)][0].get<double>() == 1);
      CHECK(result["presence"][static_cast<std::size_t>(machine)][1].get<double>() >= 2);
      CHECK(result["presence"][static_cast<std::size_t>(machine)][1].get<double>() < 2.5);
    }
  }
}

TEST_CASE("who leaves is not paid for, and counts for the time in which it was there") {
  Json scenario = two_and(2, nullptr, "1s", {{"kind", "pairwise_averaging"}}, 2000);
  for (Json& group : scenario["cluster"]["groups"]) group["instance"]["usd_per_hour_on_demand"] = 3600;
  const Json result = run(scenario, false);
  REQUIRE_MESSAGE(!result.contains("error"), result.dump());
  const double end = result["time_s"].get<double>();
  const double left = result["presence"][2][1].get<double>() + result["presence"][3][1].get<double>();
  CHECK(left < 2.2);
  CHECK(result["cost_usd"].get<double>() == doctest::Approx(2 * end + left));
  CHECK(result["steps_per_s"].get<double>() == doctest::Approx(2000 / end).epsilon(0.02));
}

TEST_CASE("when everybody has left there is no result") {
  for (const Json& strategy : {Json{{"kind", "all_reduce"}}, Json{{"kind", "pairwise_averaging"}},
                               Json{{"kind", "parameter_server"}, {"synchronization", "synchronous"}},
                               Json{{"kind", "parameter_server"}, {"synchronization", "asynchronous"}}}) {
    CAPTURE(strategy);
    Json scenario = two_and(1, nullptr, "1s", strategy, 10'000);
    scenario["cluster"]["groups"][0]["leaves_at"] = "2s";
    if (strategy["kind"] == "parameter_server") scenario = with_servers(scenario, 1);
    const Json result = run(scenario, false);
    REQUIRE(result.contains("error"));
    CHECK(result["error"].get<std::string>().find("every worker has left after ") != std::string::npos);
  }
}

TEST_CASE("workers join and leave with forward overlap, pushed variables, backup workers and aggregation") {
  const Json servers{{"kind", "parameter_server"}, {"synchronization", "synchronous"}};
  const auto with = [&](const char* key, const Json& value) {
    Json strategy = servers;
    strategy[key] = value;
    return strategy;
  };
  Json backup_and_pushed = with("backup_workers", 1);
  backup_and_pushed["pushes_back_each_variable"] = true;
  Json backup_and_forward = with("backup_workers", 1);
  backup_and_forward["overlap"] = "forward";
  Json asynchronous = with("overlap", "forward");
  asynchronous["synchronization"] = "asynchronous";
  Json stale = with("overlap", "forward");
  stale["synchronization"] = "stale_synchronous";
  stale["staleness_bound"] = 1;
  for (const Json& strategy : {Json{{"kind", "all_reduce"}, {"overlap", "forward"}}, with("backup_workers", 1),
                               with("pushes_back_each_variable", true), with("aggregation", "host"), backup_and_pushed,
                               with("overlap", "forward"), backup_and_forward, asynchronous, stale}) {
    CAPTURE(strategy.dump());
    Json scenario = two_and(2, "1s", "2s", strategy, 200);
    if (strategy["kind"] == "parameter_server") scenario = with_servers(scenario, 1);
    const Scenario resolved = test::resolved(scenario);
    const RunRecord record = simulate(resolved);
    CHECK(record.samples.done == resolved.training.samples);
    int joined = 0, left = 0;
    for (const EventSpan& event : record.recorder.events) {
      joined += event.kind == "join" ? 1 : 0;
      left += event.kind == "leave" ? 1 : 0;
      if (event.kind == "join") CHECK(event.span.start >= 1.0_s);
      if (event.kind == "leave") CHECK(event.span.start >= 2.0_s);
    }
    const int recorded = strategy["kind"] == "all_reduce" ? 1 : 2;  // one stands for both
    CHECK(joined == recorded);
    CHECK(left == recorded);
  }
}

TEST_CASE("of backup workers those who leave are none that the others wait for") {
  // Steps in which all but the backup workers have come when the last of the others leaves, and that wait for fewer than there
  // were from the start.
  for (const char* overlap : {"none", "backward", "forward"})
    for (const bool pushes : {false, true})
      for (const int gpus : {1, 2})
        for (const int late : {1, 3, 4})
          for (const int backup : {1, 2, 4})
            for (const std::string leaves_at : {"9ms", "25ms", "60ms", "133ms"}) {
              if (backup % gpus != 0 || backup >= (2 + late) * gpus || (pushes && std::string{overlap} == "forward"))
                continue;
              Json strategy{{"kind", "parameter_server"},
                            {"synchronization", "synchronous"},
                            {"overlap", overlap},
                            {"pushes_back_each_variable", pushes},
                            {"aggregation", gpus > 1 ? "host" : "none"},
                            {"backup_workers", backup}};
              CAPTURE(strategy.dump());
              CAPTURE(late);
              CAPTURE(leaves_at);
              Json scenario = two_and(late, nullptr, leaves_at.c_str(), strategy, 4);
              scenario["training"]["start_interval"] = "4ms";
              for (int group : {0, 1}) scenario["cluster"]["groups"][group]["instance"]["accelerators"] = gpus;
              const Json result = run(with_servers(scenario, 2), false);
              REQUIRE_MESSAGE(!result.contains("error"), result.dump());
              CHECK(result["samples_done"].get<double>() > 0);
            }
}

TEST_CASE("synchronous servers and backup workers, whoever comes and goes: no deadlock, and no sample twice") {
  // Workers that come late to a step whose others have left, that come between two steps, that are counted in a step
  // and leave before it begins, and all of whom leave before others come.
  Rng rng{1, "memberships"};
  const auto date = [&](std::size_t from, std::size_t below) { return std::to_string(from + rng.below(below)) + "ms"; };
  for (int number = 0; number < 200; ++number) {
    const std::string overlap = std::array{"none", "backward", "forward"}[rng.below(3)];
    const int late = static_cast<int>(1 + rng.below(5)), third = static_cast<int>(rng.below(3));
    Json strategy{{"kind", "parameter_server"},
                  {"synchronization", "synchronous"},
                  {"overlap", overlap},
                  {"pushes_back_each_variable", rng.below(2) == 0 && overlap != "forward"},
                  {"backup_workers", rng.below(static_cast<std::size_t>(1 + late + third))}};
    Json scenario = two_and(late, rng.below(5) == 0 ? nullptr : date(1, 150).c_str(), date(160, 150).c_str(), strategy,
                            std::array{4, 16, 40}[rng.below(3)]);
    Json& groups = scenario["cluster"]["groups"];
    groups[0]["count"] = 1;
    const bool are_colocated = rng.below(2) == 0;
    if (!are_colocated && rng.below(2) == 0) groups[0]["leaves_at"] = date(10, 150);
    if (third > 0) {
      Json group = groups[1];
      group.update({{"name", "third"}, {"count", third}, {"joins_at", date(100, 100)}, {"leaves_at", date(200, 99)}});
      groups.push_back(group);
    }
    if (are_colocated)
      groups.push_back({{"name", "ps"}, {"role", "parameter_server"}, {"colocated_with", "workers"}, {"count", 1}});
    else
      scenario = with_servers(scenario, 1);
    Json& training = scenario["training"];
    training["step_time_variation"] = std::array{0.0, 0.1, 0.6}[rng.below(3)];
    if (rng.below(2) == 0) training["start_interval"] = date(1, 30);
    if (rng.below(2) == 0)
      training["checkpoint"] = {{"every_steps", 1 + rng.below(4)}, {"fixed_time", date(1, 60)}, {"rate", "1GBps"}};
    scenario["seed"] = number;
    const Json result = run(scenario, number % 2 == 1);
    const std::string error = result.value("error", "");  // of a broken invariant, too
    CHECK_MESSAGE((error.empty() || error.find("every worker has left") != std::string::npos),
                  error << " " << scenario.dump());
  }
}

TEST_CASE("an update is of the workers that share its step, whoever shares the next one") {
  // Two workers, of which one counts, and a third, which comes in their first step and shares the second, of which two
  // count: the second step begins before the first update.
  const Json strategy{
      {"kind", "parameter_server"}, {"synchronization", "synchronous"}, {"overlap", "forward"}, {"backup_workers", 1}};
  Json scenario = two_and(1, "1ms", nullptr, strategy, 5);
  const RunRecord record = simulate(test::resolved(with_servers(scenario, 1)));
  CHECK(record.samples.done == 5);
  CHECK(record.updates == 3);  // 1 + 2 + 2
}

TEST_CASE("who leaves has joined before") {
  CHECK(test::problem_of(two_and(1, "2s", "1s", {{"kind", "all_reduce"}}, 10)) ==
        "/cluster/groups/1/leaves_at: expected a time after \"joins_at\"; found \"1s\"");
}

}  // namespace rehearse
