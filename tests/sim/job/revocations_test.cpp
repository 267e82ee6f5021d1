// Machines that are taken away: closed forms on an ideal cluster, and random schedules of every strategy.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "sim/job/memoised_session.hpp"
#include "tests/support/from_environment.hpp"
#include "tests/support/random_revocations.hpp"

namespace rehearse::revocations_test {

namespace {

// One tensor of 1.2 MB, 3 ms of compute, NICs of 1 GB/s, 10 us of latency.
constexpr double kCompute = 3e-3, kAlpha = 10e-6, kSize = 1.2e6, kBeta = 1e9;
double ring_step(int ranks) {
  return ranks == 1 ? kCompute : kCompute + 2 * (ranks - 1) * (kAlpha + kSize / ranks / kBeta);
}

constexpr Seconds kLongEnough{60 * 86400.0};

TrainingSpeed ring_speed(const MachineCounts& counts, double) {
  return {.updates_per_s = 1 / ring_step(counts[0]), .samples_per_update = static_cast<double>(counts[0])};
}

Json ring(int machines, int steps) {
  Json scenario =
      test::timed_scenario(machines, {{std::to_string(static_cast<int>(kSize)) + "B"}}, {{"kind", "all_reduce"}});
  scenario["training"]["steps"] = steps;
  return scenario;
}

/// Group `group` on the spot market, with these events after the adds at time 0.
Json replayed(Json scenario, std::size_t group, const Json& events) {
  Json& machines = scenario["cluster"]["groups"][group];
  machines["market"] = "spot";
  Json trace = Json::array();
  for (int i = 0; i < machines.value("count", 1); ++i) trace.push_back({0, "add", "n" + std::to_string(i)});
  for (const Json& event : events) trace.push_back(event);
  machines["spot_pool"] = {{"replay", trace}};
  return scenario;
}

Json run(const Json& scenario, bool is_exact = false) {
  return test::in_child([&] {
    const Scenario resolved = test::resolved(scenario);
    const RunRecord record = simulate(resolved, {.is_exact = is_exact, .on_update = {}});
    const Summary summary = summarize(resolved, record);
    const Interruptions& what = record.interruptions;
    Json rentals = Json::array();
    for (const auto& of_machine : record.rentals) {
      rentals.push_back(Json::array());
      for (const Rental& rental : of_machine)
        rentals.back().push_back({rental.span.start.value(), rental.span.end.value()});
    }
    return Json{{"time", record.end.value()},
                {"updates", record.updates},
                {"lost", what.lost_updates},
                {"restarts", what.restarts},
                {"pauses", what.pauses},
                {"revocations", what.revocations},
                {"stopped", what.stopped.value()},
                {"lost_bytes", record.lost.value()},
                {"cost", summary.cost ? Json(summary.cost->usd) : Json(nullptr)},
                {"rentals", rentals},
                {"steps_per_s", summary.steps_per_s},
                {"steps", record.recorder.steps.size()}};
  });
}

Json spot(const std::string& mean, const std::string& notice = "0s") {
  return {{"source", "test"}, {"lifetime", {{"law", {{"law", "exponential"}, {"mean", mean}}}}}, {"notice", notice}};
}

}  // namespace

TEST_CASE("a pool that revokes nobody changes nothing") {
  for (const Json& plain :
       {ring(4, 50),
        test::with_servers(test::timed_scenario(3, {{"1000000B"}, {"500000B"}},
                                                {{"kind", "parameter_server"}, {"synchronization", "asynchronous"}}),
                           2)}) {
    Json scenario = plain;
    scenario["training"]["steps"] = 60;
    const Json without = run(scenario);
    scenario["cluster"]["groups"][0]["market"] = "spot";
    scenario["cluster"]["groups"][0]["spot_pool"] = spot("1e9s");
    scenario["cluster"]["groups"][0]["spot_pool"]["lifetime"]["law"]["minimum"] = "100000h";
    const Json with = run(scenario);
    CHECK(with["time"] == without["time"]);
    CHECK(with["updates"] == without["updates"]);
  }
}

TEST_CASE("all-reduce goes on without a lost machine after the time-out") {
  // Lost in step 11 of 40; its step is done again by the two that stay, who have 90 of 120 samples left.
  Json scenario = ring(3, 40);
  const double lost_at = 10.5 * ring_step(3);
  scenario["training"]["recovery"] = {{"timeout", "2s"}};
  scenario = replayed(scenario, 0, {{lost_at, "remove", "n2"}});
  for (const bool is_exact : {false, true}) {
    CAPTURE(is_exact);
    const Json result = run(scenario, is_exact);
    CHECK(result.value("time", 0.0) == doctest::Approx(lost_at + 2 + 45 * ring_step(2)).epsilon(1e-9));
    CHECK(result["updates"] == 55);
    CHECK(result["pauses"] == 1);
    CHECK(result["lost"] == 0);
    CHECK(result["stopped"].get<double>() == doctest::Approx(2).epsilon(1e-9));
    CHECK(result["steps_per_s"].get<double>() == doctest::Approx(1 / ring_step(3)).epsilon(1e-9));
  }
}

TEST_CASE("a loss costs what the stated change of membership does, after the time-out; unstated the time-out alone") {
  // Lost in step 11 of 40. Two are left: 90 of 120 samples in 45 steps. A rendezvous sends one of them variables and
  // momentum, 2 x 1.2 MB, again. A restart goes back to the checkpoint of step 8: 24 samples, 96 in 48 steps, and reads it.
  const double lost_at = 10.5 * ring_step(3), broadcast = kAlpha + 2 * kSize / kBeta;
  const double writes = 50e-3 + 2 * kSize / kBeta;
  struct Case {
    const char* change;
    double stopped, steps;
    int restarts, lost;
  };
  for (const Case& c : {Case{nullptr, 2, 45, 0, 0},
                        {"at_once", 2, 45, 0, 0},
                        {"rendezvous", 2 + 7 + broadcast, 45, 0, 0},
                        {"restart", 2 + 7 + writes, 48, 1, 2}})
    for (const bool is_exact : {false, true}) {
      CAPTURE(is_exact);
      Json scenario = ring(3, 40);
      scenario["training"]["recovery"] = {{"timeout", "2s"}, {"restart_time", "7s"}};
      if (c.change != nullptr) scenario["training"]["recovery"]["membership_change"] = c.change;
      scenario["training"]["checkpoint"] = {{"every_steps", 8}, {"fixed_time", "50ms"}, {"rate", "1GBps"}};
      const double date = lost_at + writes;
      const Json result = run(replayed(scenario, 0, {{date, "remove", "n2"}}), is_exact);
      CAPTURE(result.dump());
      CHECK(result["stopped"].get<double>() == doctest::Approx(c.stopped).epsilon(1e-9));
      CHECK(result["restarts"] == c.restarts);
      CHECK(result["pauses"] == 1 - c.restarts);
      CHECK(result["lost"] == c.lost);
      const double later = std::floor((c.restarts == 1 ? 8 + c.steps - 1 : 10 + c.steps - 1) / 8) - 1;  // checkpoints
      CHECK(result.value("time", 0.0) ==
            doctest::Approx(date + c.stopped + c.steps * ring_step(2) + later * writes).epsilon(1e-9));
    }
  // Nobody is there to be sent it: one worker is left.
  Json pair = ring(2, 40);
  pair["training"]["recovery"] = {{"timeout", "2s"}, {"restart_time", "7s"}, {"membership_change", "rendezvous"}};
  const Json alone = run(replayed(pair, 0, {{10.5 * ring_step(2), "remove", "n1"}}));
  CHECK(alone["stopped"].get<double>() == doctest::Approx(9).epsilon(1e-9));
}

TEST_CASE("the speed until a machine is lost is that of all steps until then, those that are skipped included") {
  for (const Json& plain :
       {ring(3, 400),
        test::with_servers(test::timed_scenario(3, {{"1000000B"}, {"500000B"}},
                                                {{"kind", "parameter_server"}, {"synchronization", "synchronous"}}),
                           2)}) {
    Json scenario = plain;
    scenario["training"]["steps"] = 400;
    scenario["training"]["warmup_steps"] = 5;
    scenario = replayed(scenario, 0, {{1.7, "remove", "n2"}});
    const Json by_default = run(scenario), exact = run(scenario, true);
    CHECK(by_default["steps"].get<int>() < exact["steps"].get<int>() / 5);
    for (const char* key : {"time", "steps_per_s"})
      CHECK(by_default[key].get<double>() == doctest::Approx(exact[key].get<double>()).epsilon(1e-9));
    CHECK(by_default["updates"] == exact["updates"]);
  }
}

TEST_CASE("a job that restarts does the steps since its last checkpoint again") {
  // Checkpoints after 10 and 20 steps of 1.001 s each; lost in step 25; back 5 s later; restart time 3 s, and the
  // checkpoint is read in the time of writing one.
  Json scenario = ring(2, 40);
  scenario["training"]["checkpoint"] = {{"every_steps", 10}, {"fixed_time", "1s"}, {"rate", "1GBps"}};
  scenario["training"]["recovery"] = {{"lost_worker", "restart"}, {"restart_time", "3s"}};
  const double step = ring_step(2);
  // Momentum keeps one value more for each parameter: 2.4 MB.
  const double written = 1 + 2 * kSize / kBeta;
  scenario =
      replayed(scenario, 0, {{24.5 * step + 2 * written, "remove", "n1"}, {24.5 * step + 2 * written + 5, "add", "m"}});
  for (const bool is_exact : {false, true}) {
    CAPTURE(is_exact);
    const Json result = run(scenario, is_exact);
    const double at = 24.5 * step + 2 * written;
    // 20 more steps with a checkpoint after 30 and none after 40, when nothing is left.
    CHECK(result.value("time", 0.0) == doctest::Approx(at + 5 + 3 + written + 20 * step + written).epsilon(1e-9));
    CHECK(result["lost"] == 4);
    CHECK(result["restarts"] == 1);
    CHECK(result["updates"] == 40);
    CHECK(result["rentals"][1].size() == 2);
  }
}

TEST_CASE("asynchronous workers go on while one is away") {
  Json scenario = test::with_servers(
      test::timed_scenario(4, {{"1000B"}}, {{"kind", "parameter_server"}, {"synchronization", "asynchronous"}}), 1);
  scenario["training"]["steps"] = 4000;
  const Json plain = run(scenario);
  const double step = plain["time"].get<double>() / 1000;
  // Away from a quarter of the run to half of it: 250 steps of one of four workers are missing.
  const Json away = run(replayed(scenario, 0, {{250 * step, "remove", "n3"}, {500 * step, "add", "m"}}));
  CHECK(away.value("time", 0.0) == doctest::Approx(plain["time"].get<double>() * (1 + 0.25 / 4)).epsilon(2e-3));
  CHECK(away["updates"] == 4000);
  CHECK(away["lost"] == 0);
}

TEST_CASE("without its server the job restarts from the last checkpoint, or from the beginning") {
  Json scenario = test::with_servers(
      test::timed_scenario(2, {{"1000B"}}, {{"kind", "parameter_server"}, {"synchronization", "asynchronous"}}), 1);
  scenario["training"]["steps"] = 2000;
  const double whole = run(scenario)["time"].get<double>();
  const Json lost = run(replayed(scenario, 1, {{whole / 2, "remove", "n0"}, {whole / 2 + 10, "add", "m"}}));
  CHECK(lost.value("time", 0.0) == doctest::Approx(whole / 2 + 10 + 20 + whole).epsilon(1e-3));
  CHECK(lost["restarts"] == 1);
  CHECK(lost["lost"].get<int>() == doctest::Approx(1000).epsilon(0.01));
  scenario["training"]["checkpoint"] = {{"every_steps", 100}, {"fixed_time", "1us"}, {"rate", "1TBps"}};
  CHECK(run(replayed(scenario, 1, {{whole / 2, "remove", "n0"}, {whole / 2 + 10, "add", "m"}}))["lost"].get<int>() <=
        101);
}

TEST_CASE("who uses the notice loses no step and no message") {
  for (const bool is_at_once : {true, false}) {
    Json scenario = ring(3, 40);
    scenario["training"]["recovery"] = {{"uses_notice", true}, {"timeout", "2s"}, {"restart_time", "7s"}};
    if (is_at_once) scenario["training"]["recovery"]["membership_change"] = "at_once";
    scenario = replayed(scenario, 0, {{30 * ring_step(3), "remove", "n2"}});
    scenario["cluster"]["groups"][0]["spot_pool"]["notice"] = "20ms";
    const Json result = run(scenario);
    CHECK(result["pauses"] == (is_at_once ? 0 : 1));
    CHECK(result["lost_bytes"] == 0);
    // It leaves after the step in which the notice comes.
    const double steps = std::ceil((30 * ring_step(3) - 20e-3) / ring_step(3));
    const double others = std::ceil((40 - steps) * 3 / 2);
    const double stopped = is_at_once ? 0 : 7;
    CHECK(result.value("time", 0.0) ==
          doctest::Approx(steps * ring_step(3) + stopped + others * ring_step(2)).epsilon(1e-9));
  }
}

TEST_CASE("a replacement from a standby group can be requested at the notice while the machine trains on") {
  // Notice at 10 s, gone at 14 s; the newcomer needs 5 s from 1 s after the notice: it comes at 16 s. Requested at the
  // revocation it comes at 20 s.
  Json scenario = test::with_servers(
      test::timed_scenario(2, {{"1000B"}}, {{"kind", "parameter_server"}, {"synchronization", "asynchronous"}}), 1);
  scenario["training"]["steps"] = 4000;
  const double whole = run(scenario)["time"].get<double>();
  scenario["training"]["steps"] = static_cast<int>(4000 * 30 / whole);
  Json& groups = scenario["cluster"]["groups"];
  Json standby = groups[0];
  standby["name"] = "standby";
  standby["count"] = 1;
  standby["standby"] = true;
  standby["market"] = "spot";
  standby["spot_pool"] = spot("1e9s");
  standby["spot_pool"]["lifetime"]["law"]["minimum"] = "100000h";
  standby["spot_pool"]["wait"] = {{"law", "lognormal"}, {"median", "5s"}, {"sigma", 1e-6}};
  groups.push_back(standby);
  scenario = replayed(scenario, 0, {{14, "remove", "n1"}});
  Json& workers = scenario["cluster"]["groups"][0];
  workers["spot_pool"]["notice"] = "4s";
  workers["replacement"] = {{"with", "standby"}, {"delay", "1s"}};
  for (const auto& [at, comes_at] : {std::pair{"notice", 16.0}, std::pair{"revocation", 20.0}}) {
    workers["replacement"]["at"] = at;
    const Json result = run(scenario);
    CAPTURE(result.dump());
    REQUIRE(result.contains("time"));
    CHECK(result["lost"] == 0);
    CHECK(result["rentals"][1][0][1] == 14);
    REQUIRE(result["rentals"].back().size() == 1);
    CHECK(result["rentals"].back()[0][0].get<double>() == doctest::Approx(comes_at).epsilon(1e-5));
  }
}

TEST_CASE("when all have left at their notice the job restarts with those that come") {
  Json scenario = ring(2, 40);
  scenario["training"]["recovery"] = {{"uses_notice", true}, {"restart_time", "10ms"}};
  scenario =
      replayed(scenario, 0, {{0.05, "remove", "n0"}, {0.05, "remove", "n1"}, {0.1, "add", "a"}, {0.1, "add", "b"}});
  scenario["cluster"]["groups"][0]["spot_pool"]["notice"] = "20ms";
  CHECK(run(scenario).value("time", 0.0) == doctest::Approx(0.1 + 0.01 + 40 * ring_step(2)).epsilon(1e-9));
  const Trajectory known = run_trajectory(Site{test::resolved(scenario)}, 1, ring_speed, kLongEnough, false);
  CHECK(known.job.end.value() == doctest::Approx(0.1 + 0.01 + 40 * ring_step(2)).epsilon(1e-9));
}

TEST_CASE("a chief's job is handed over, or the job restarts when it is back") {
  Json scenario = test::with_servers(
      test::timed_scenario(2, {{"1000B"}}, {{"kind", "parameter_server"}, {"synchronization", "asynchronous"}}), 1);
  scenario["training"]["steps"] = 4000;
  scenario["training"]["checkpoint"] = {{"every_steps", 100}, {"fixed_time", "1us"}, {"rate", "1TBps"}};
  const double whole = run(scenario)["time"].get<double>();
  const Json events{{whole / 4, "remove", "n0"}, {whole / 2, "add", "m"}};
  CHECK(run(replayed(scenario, 0, events))["lost"] == 0);
  scenario["training"]["recovery"] = {{"lost_chief", "restart"}};
  const Json restarted = run(replayed(scenario, 0, events));
  CHECK(restarted["restarts"] == 1);
  CHECK(restarted["lost"].get<int>() ==
        doctest::Approx(500).epsilon(0.25));  // by one worker, since the last checkpoint
}

TEST_CASE("a job whose machines never come back says so") {
  const auto error_of = [](const Json& scenario) { return run(scenario)["error"].get<std::string>(); };
  CHECK(error_of(replayed(ring(1, 40), 0, {{0.01, "remove", "n0"}}))
            .ends_with(": /cluster/groups: every worker has left after 0 of 40 samples"));
  Json scenario = ring(2, 40);
  scenario["training"]["recovery"] = {{"lost_worker", "wait"}};
  CHECK(error_of(replayed(scenario, 0, {{0.01, "remove", "n0"}}))
            .ends_with(": /cluster/groups: the job waits for machines that never come after 4 of 80 samples"));
}

TEST_CASE("a cost is the billed time by its price") {
  Json scenario = ring(2, 40);
  scenario["cluster"]["groups"][0]["instance"]["usd_per_hour_spot"] = 3600.0;
  scenario["training"]["recovery"] = {{"timeout", "1s"}};
  const Json result = run(replayed(scenario, 0, {{0.05, "remove", "n1"}}));
  CHECK(result["cost"].get<double>() == doctest::Approx(result["time"].get<double>() + 0.05).epsilon(1e-12));
}

TEST_CASE("losses that cost no update do not put off checkpoints") {
  // A machine is lost and comes back every 70 ms; a checkpoint is due every 100 ms.
  Json scenario = ring(2, 400);
  scenario["training"]["checkpoint"] = {{"every", "100ms"}, {"fixed_time", "1us"}, {"rate", "1TBps"}};
  scenario["training"]["recovery"] = {{"timeout", "1ms"}, {"restart_time", "1ms"}};
  Json events = Json::array();
  for (int i = 1; i < 30; ++i) {
    events.push_back({0.07 * i, "remove", i == 1 ? "n1" : "m" + std::to_string(i - 1)});
    events.push_back({0.07 * i + 0.01, "add", "m" + std::to_string(i)});
  }
  scenario = replayed(scenario, 0, events);
  const Trajectory known = run_trajectory(Site{test::resolved(scenario)}, 1, ring_speed, kLongEnough, false);
  const auto expected = static_cast<int>(known.job.end.value() / 0.105);
  CHECK(known.job.interruptions.checkpoints >= expected - 2);
  CHECK(run(scenario).value("restarts", -1) == 0);
}

TEST_CASE("workers that keep parts of the model restart from the last checkpoint when all of them are there again") {
  const auto sharded = [](const char* what) {
    Json scenario = ring(2, 4);
    scenario["training"]["strategy"]["sharding"] = what;
    return scenario;
  };
  Json pipeline = test::timed_scenario(2, {{"4B"}, {"4B"}},
                                       {{"kind", "all_reduce"}, {"pipeline", {{"stages", 2}, {"microbatches", 3}}}});
  for (Json& layer : pipeline["workload"]["model"]["structure"]["layers"]) layer["output"] = "1000B";
  pipeline["training"]["steps"] = 4;
  Json split = ring(2, 4);
  split["workload"]["model"] = test::small_transformer();
  split["training"]["strategy"]["tensor"] = {{"degree", 2}};
  for (Json scenario : {sharded("optimizer"), sharded("gradients"), sharded("parameters"), pipeline, split}) {
    CAPTURE(scenario["training"]["strategy"].dump());
    const double all = run(scenario)["time"].get<double>();
    scenario["training"]["recovery"] = {{"lost_worker", "restart"}, {"restart_time", "1s"}};
    // Nothing is saved: half a run is lost, a machine comes after a whole one, and the job starts anew.
    const Json lost = run(replayed(scenario, 0, {{all / 2, "remove", "n1"}, {all, "add", "n2"}}));
    REQUIRE_MESSAGE(!lost.contains("error"), lost.dump());
    CHECK(lost["time"].get<double>() == doctest::Approx(all + 1 + all).epsilon(1e-9));
    // A step is saved: it need not be done again.
    Json saved = scenario;
    saved["training"]["checkpoint"] = {{"every_steps", 1}, {"fixed_time", "0s"}, {"rate", "1000000TBps"}};
    const Json resumed = run(replayed(saved, 0, {{all * 0.4, "remove", "n1"}, {all, "add", "n2"}}));
    REQUIRE_MESSAGE(!resumed.contains("error"), resumed.dump());
    CHECK(resumed["time"].get<double>() == doctest::Approx(all + 1 + all * 3 / 4).epsilon(1e-6));
    // Who is not there from the start is waited for, too.
    Json late = replayed(scenario, 0, Json::array());
    late["cluster"]["groups"][0]["spot_pool"]["replay"][1][0] = 2;
    CHECK(run(late)["time"].get<double>() == doctest::Approx(2 + 1 + all).epsilon(1e-9));
    const Json never = run(replayed(scenario, 0, {{all / 2, "remove", "n1"}}));
    REQUIRE(never.contains("error"));
    CHECK(never["error"].get<std::string>().find("waits for machines that never come") != std::string::npos);
  }
}

TEST_CASE("disks are paid for while their machines are rented") {
  Json scenario = ring(2, 40);
  scenario["cluster"]["groups"][0]["market"] = "spot";
  scenario["cluster"]["groups"][0]["instance"]["usd_per_hour_spot"] = 3600.0;
  const Json without = run(scenario);
  // 730 h a month: 730 x 3600 USD for each GiB and month are 1 USD for each second.
  scenario["cluster"]["groups"][0]["disk"] = {
      {"size", "3GiB"}, {"storage", {{"usd_per_gib_month", 730.0 * 3600}, {"date", "test"}, {"source", "test"}}}};
  const Json with = run(scenario);
  CHECK(with.value("cost", 0.0) - without["cost"].get<double>() ==
        doctest::Approx(2 * 3 * with["time"].get<double>()).epsilon(1e-9));
}

TEST_CASE("replacements that cannot be are refused") {
  Json scenario = ring(2, 4);
  scenario["cluster"]["groups"][0]["spot_pool"] = spot("1h");
  scenario["cluster"]["groups"][0]["market"] = "spot";
  scenario["cluster"]["groups"][0]["replacement"] = {{"with", "other"}};
  CHECK(test::problem_of(scenario) ==
        "/cluster/groups/0/replacement/with: unknown group of the same role \"other\"; known: \"none\", \"workers\"");
  scenario["cluster"]["groups"][0]["replacement"] = {{"at", "once"}};
  CHECK(test::problem_of(scenario) ==
        "/cluster/groups/0/replacement/at: unknown at \"once\"; known: \"notice\", \"revocation\"");
  scenario = replayed(ring(2, 4), 0, Json::array());
  scenario["cluster"]["groups"][0]["replacement"] = {{"with", "workers"}};
  CHECK(test::problem_of(scenario) ==
        "/cluster/groups/0/replacement/with: unknown group of the same role \"workers\"; known: \"none\"");
}

TEST_CASE("jobs that restart take as long as Daly's formula says") {
  // n machines with lifetimes of mean M fail together at the rate n / M. A segment of length tau + C is repeated, after
  // a restart of length R, until no machine is lost in it:  E = exp(R n / M) (M / n) (exp((tau + C) n / M) - 1).
  Json json = ring(4, 100);
  json["cluster"]["groups"][0]["market"] = "spot";
  json["cluster"]["groups"][0]["spot_pool"] = spot("400s");
  json["training"]["checkpoint"] = {{"every_steps", 10}, {"fixed_time", "2s"}, {"rate", "1000TBps"}};
  json["training"]["recovery"] = {{"lost_worker", "restart"}, {"restart_time", "3s"}};
  const Scenario scenario = test::resolved(json);
  constexpr double kRate = 4 / 400.0, kStep = 1, kSegment = 10 * kStep;
  constexpr int kRuns = 20'000;
  double sum = 0;
  for (int i = 0; i < kRuns; ++i) {
    const Trajectory run = run_trajectory(
        Site{scenario}, static_cast<std::uint64_t>(i),
        [](const MachineCounts&, double) {
          return TrainingSpeed{1 / kStep, 4};
        },
        kLongEnough, false);
    REQUIRE(run.is_finished);
    REQUIRE(run.job.done.updates == 100);
    sum += run.job.end.value();
  }
  // The last segment has no checkpoint. Before the first one there is none to be read; later restarts take R + C.
  const auto segment = [](double length, double restart) {
    return std::exp(restart * kRate) / kRate * (std::exp(length * kRate) - 1);
  };
  const double first = segment(kSegment + 2, 3), middle = segment(kSegment + 2, 5), last = segment(kSegment, 5);
  CHECK(sum / kRuns == doctest::Approx(first + 8 * middle + last).epsilon(0.01));
}

TEST_CASE("a replacement costs the same at known speeds as message by message, to the last digits") {
  // Of four one is lost; its replacement comes while the others train, while they stop, or twice.
  for (const double comes_after : {0.05, 2.0})
    for (const char* change : {"rendezvous", "restart"})
      for (const char* lost_worker : {"shrink", "wait", "restart"}) {
        CAPTURE(comes_after);
        CAPTURE(change);
        CAPTURE(lost_worker);
        Json json = ring(4, 2000);
        const double lost = 1.0001, back = lost + comes_after;
        json = replayed(
            json, 0, {{lost, "remove", "n2"}, {back, "add", "a"}, {back + 3, "remove", "n0"}, {back + 4, "add", "b"}});
        json["training"]["checkpoint"] = {{"every_steps", 100}, {"fixed_time", "50ms"}, {"rate", "1GBps"}};
        json["training"]["recovery"] = {{"lost_worker", lost_worker},
                                        {"membership_change", change},
                                        {"timeout", "120ms"},
                                        {"restart_time", "300ms"},
                                        {"minimum_workers", 2}};
        const Json detail = run(json);
        REQUIRE_MESSAGE(!detail.contains("error"), detail.dump());
        const Scenario scenario = test::resolved(json);
        const Trajectory known = run_trajectory(Site{scenario}, 1, ring_speed, kLongEnough, false);
        CHECK(known.job.end.value() == doctest::Approx(detail["time"].get<double>()).epsilon(1e-6));
        CHECK(known.job.interruptions.stopped.value() ==
              doctest::Approx(detail["stopped"].get<double>()).epsilon(1e-6));
        CHECK(known.job.interruptions.lost_updates == detail["lost"].get<std::int64_t>());
        CHECK(known.job.interruptions.pauses == detail["pauses"].get<int>());
        CHECK(known.job.interruptions.restarts == detail["restarts"].get<int>());
      }
}

TEST_CASE("at known speeds a job goes as it does message by message") {
  for (const char* lost_worker : {"shrink", "restart"}) {
    Json json = ring(4, 3000);
    json["cluster"]["groups"][0]["market"] = "spot";
    json["cluster"]["groups"][0]["spot_pool"] = spot("5s");
    json["training"]["checkpoint"] = {{"every_steps", 100}, {"fixed_time", "50ms"}, {"rate", "1GBps"}};
    json["training"]["recovery"] = {{"lost_worker", lost_worker}, {"timeout", "100ms"}, {"restart_time", "100ms"}};
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      CAPTURE(lost_worker);
      CAPTURE(seed);
      json["seed"] = seed;
      const Json detail = run(json);
      const Scenario scenario = test::resolved(json);
      const Trajectory known = run_trajectory(Site{scenario}, seed, ring_speed, kLongEnough, false);
      CHECK(known.job.end.value() == doctest::Approx(detail.value("time", 0.0)).epsilon(0.01));
      CHECK(known.job.interruptions.revocations == doctest::Approx(detail.value("revocations", 0)).epsilon(0.1));
    }
  }
}

namespace {

/// Whether each lost machine is replaced, so that a job can only be given up.
bool is_supplied_for_ever(const Json& scenario) {
  if (scenario["training"]["recovery"].contains("minimum_workers")) return false;
  for (const Json& group : scenario["cluster"]["groups"])
    if (group.contains("spot_pool") && (group["spot_pool"].contains("replay") || group.contains("replacement")))
      return false;
  return true;
}

/// Batches that differ from group to group, a size in samples that is no whole number of steps, and each way in which a
/// smaller cluster goes on.
void size_job(Json& scenario, std::uint64_t seed) {
  Rng random{seed, "size"};
  const auto pick = [&](int n) { return static_cast<int>(random.below(static_cast<std::uint64_t>(n))); };
  Json& groups = scenario["cluster"]["groups"];
  Json& training = scenario["training"];
  scenario["workload"]["model"]["structure"]["scales_with_batch"] = true;
  const int machines = groups[0]["count"].get<int>();
  if (groups.size() == 1 && machines > 1 && pick(2) == 0) {
    Json other = groups[0];
    other["name"] = "others";
    other["count"] = 1 + pick(machines - 1);
    const int times = 2 + pick(4);
    if (!training["strategy"].contains("pipeline"))  // whose stages share micro-batches
      other["batch_per_worker"] = groups[0].value("batch_per_worker", 1) * times;
    groups[0]["count"] = machines - other["count"].get<int>();
    groups.push_back(other);
  }
  if (pick(2) == 0) {
    training["samples"] = 1 + pick(training["steps"].get<int>() * (machines + 1));
    training.erase("steps");
  }
  const Json& strategy = training["strategy"];
  if (strategy["kind"] == "all_reduce" || strategy.value("synchronization", "") == "synchronous")
    training["smaller_cluster"] = std::vector<std::string>{"keeps_batch_per_worker", "larger_shares",
                                                           "accumulates"}[static_cast<std::size_t>(pick(3))];
}

Json random_job(std::uint64_t seed) {
  Json scenario = test::random_job(seed);
  size_job(scenario, seed);
  // Exact runs share links evenly: what is compared with them does, too.
  if (scenario["training"]["strategy"]["kind"] == "parameter_server" && seed % 2 == 0)
    scenario["training"]["share_variation"] = 0;
  return scenario;
}

}  // namespace

/// REHEARSE_PRINT_SEED=n prints schedule n; REHEARSE_REVOCATIONS=10000 and REHEARSE_FIRST_SEED=1 run more.
TEST_CASE("jobs under random revocations end or say why not, and break no invariant") {
  const std::uint64_t first = test::from_environment("REHEARSE_FIRST_SEED", 1);
  const std::uint64_t count = test::from_environment("REHEARSE_REVOCATIONS", 250);
  std::vector<Json> jobs;
  const auto lengths = run_isolated(count, 2, [first](std::size_t i) {
    const Json plain = random_job(first + i);
    return std::to_string(simulate(test::resolved(plain)).end.value());
  });
  const auto job = [&](std::size_t i) {
    return test::with_random_revocations(random_job(first + i), std::atof(lengths[i].text.c_str()), first + i);
  };
  if (const std::uint64_t seed = test::from_environment("REHEARSE_PRINT_SEED", 0);
      seed >= first && seed < first + count)
    std::printf("%s", to_json_text(job(seed - first)).c_str());
  const std::uint64_t exact = std::min<std::uint64_t>(count, 250);  // slower by far
  const auto results = run_isolated(count + exact, 2, [&](std::size_t k) {
    const Json scenario = job(k < count ? k : k - count);
    const Scenario resolved = test::resolved(scenario);
    const RunRecord record = simulate(resolved, {.is_exact = k >= count, .on_update = {}});
    if (record.samples.done != resolved.training.samples) throw std::logic_error{"samples done = samples asked"};
    if (record.samples.repeated > record.samples.lost) throw std::logic_error{"only what is lost is repeated"};
    std::int64_t recorded = 0;
    for (const StepSpan& step : record.recorder.steps) recorded += step.repeats;
    if (recorded < record.updates) throw std::logic_error{"every step is recorded"};
    for (const auto& of_machine : record.rentals)
      for (std::size_t r = 1; r < of_machine.size(); ++r)
        if (of_machine[r].span.start < of_machine[r - 1].span.end) throw std::logic_error{"one machine in one slot"};
    return Json{record.end.value(), record.samples.lost, record.interruptions.revocations}.dump();
  });
  std::uint64_t finished = 0, differing = 0, compared = 0;
  for (std::size_t i = 0; i < count; ++i) {
    CAPTURE(first + i);
    REQUIRE_MESSAGE(lengths[i].has_succeeded, lengths[i].text);
    for (std::size_t k = i; k < count + exact; k += count) {
      CHECK(!results[k].has_died);
      if (results[k].has_succeeded) continue;
      const std::string& why = results[k].text;
      const bool is_a_reason =
          why.find("not finished after") != std::string::npos ||
          (!is_supplied_for_ever(job(i)) && (why.find("every worker has left") != std::string::npos ||
                                             why.find("the job waits for") != std::string::npos));
      CHECK_MESSAGE(is_a_reason, why);
    }
    finished += results[i].has_succeeded ? 1 : 0;
    if (i >= exact || !results[i].has_succeeded || !results[count + i].has_succeeded) continue;
    if (test::resolved(job(i)).training.share_variation > 0) continue;
    ++compared;
    const double by_default = Json::parse(results[i].text)[0], by_flows = Json::parse(results[count + i].text)[0];
    if (std::abs(by_default - by_flows) > 1e-6 * by_flows) ++differing;
  }
  CHECK(finished > count / 2);
  CHECK(compared > exact / 3);
  CHECK(differing <= compared / 20);
}

}  // namespace rehearse::revocations_test
