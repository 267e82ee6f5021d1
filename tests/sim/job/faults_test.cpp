// Machines that fail: closed forms of the time that a job takes, what the time is for, checkpoints of every kind.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/job/memoised_session.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse::faults_test {

namespace {

constexpr Seconds kLongEnough{1e9};
constexpr double kStep = 1;  // s

/// All-reduces of tensors so small that a step takes the 3 ms of its kernels; checkpoints of 8 bytes, in no time but fixed_time.
Json job(int machines, int steps, const Json& checkpoint, const Json& recovery) {
  Json scenario = test::timed_scenario(machines, {{"4B"}}, {{"kind", "all_reduce"}});
  scenario["training"]["steps"] = steps;
  if (!checkpoint.is_null()) scenario["training"]["checkpoint"] = checkpoint;
  scenario["training"]["recovery"] = recovery;
  return scenario;
}

Json failing(Json scenario, const Json& faults) {
  scenario["cluster"]["groups"][0]["faults"] = faults;
  return scenario;
}

Json every(int steps, const char* fixed_time) {
  return {{"every_steps", steps}, {"fixed_time", fixed_time}, {"rate", "1000000TBps"}};
}

Json restart(const char* timeout, const char* restart_time) {
  return {{"lost_worker", "restart"}, {"timeout", timeout}, {"restart_time", restart_time}};
}

JobResult run(const Scenario& scenario, std::uint64_t seed) {
  const double workers = scenario.first_workers().workers_per_machine();
  const auto one_step_a_second = [&](const MachineCounts& counts, double) {
    return TrainingSpeed{1 / kStep, workers * counts[0]};
  };
  const Trajectory trajectory = run_trajectory(Site{scenario}, seed, one_step_a_second, kLongEnough, false);
  REQUIRE(trajectory.is_finished);
  return trajectory.job;
}

double goodput(const JobResult& job) { return job.time_use.trained / job.end; }

/// Mean goodput over runs with the same seeds for all.
double mean_goodput(const Json& json, int runs = 200) {
  const Scenario scenario = test::resolved(json);
  double trained = 0, all = 0;
  for (int seed = 1; seed <= runs; ++seed) {
    const JobResult result = run(scenario, static_cast<std::uint64_t>(seed));
    trained += result.time_use.trained.value();
    all += result.end.value();
  }
  return trained / all;
}

}  // namespace

TEST_CASE("without faults goodput is T / (T + C)") {
  // Ten segments of ten steps; the last has no checkpoint.
  const JobResult result = run(test::resolved(job(2, 100, every(10, "2s"), Json::object())), 1);
  CHECK(result.end.value() == test::exactly(100 + 9 * 2));
  CHECK(goodput(result) == test::exactly(100.0 / 118));
  CHECK(result.time_use.checkpoints.value() == test::exactly(18));
}

TEST_CASE("exponential faults: a segment takes exp(lambda R) / lambda (exp(lambda (T + C)) - 1), of Daly") {
  // Source: Daly, Future Generation Computer Systems 22(3), 2006: of the segments of length T + C each is repeated, after a
  // restart of R in which machines fail, too, until none does. Eight GPUs of mean 800 s, and as often something else.
  constexpr double kRate = 2 * 8 / 800.0;
  const Json faults{{"gpu_mtbf", "800s"}, {"machine_mtbf", "200s"}};
  Json json = failing(job(2, 40, every(10, "2s"), restart("0s", "3s")), faults);
  json["cluster"]["groups"][0]["instance"]["accelerators"] = 4;
  const Scenario scenario = test::resolved(json);
  constexpr int kRuns = 4000;
  double sum = 0, squares = 0;
  for (int seed = 0; seed < kRuns; ++seed) {
    const double time = run(scenario, static_cast<std::uint64_t>(seed)).end.value();
    sum += time;
    squares += time * time;
  }
  const auto segment = [](double length, double back) {
    return std::exp(back * kRate) / kRate * (std::exp(length * kRate) - 1);
  };
  // Before the first checkpoint there is none to be read; the last segment has none.
  const double expected = segment(12, 3) + 2 * segment(12, 5) + segment(10, 5);
  const double mean = sum / kRuns;
  const double standard_error = std::sqrt((squares / kRuns - mean * mean) / kRuns);
  CHECK(standard_error < 0.02 * expected);
  CHECK(std::abs(mean - expected) < 3 * standard_error);
}

TEST_CASE("a broken machine without a spare costs its repair, and each fault the time-out and a restart") {
  const Json faults{{"machine_mtbf", "300s"}, {"repair_share", 1}, {"repair_time", "50s"}};
  const Scenario scenario = test::resolved(failing(job(1, 3000, every(1, "0s"), restart("7s", "3s")), faults));
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const JobResult one = run(scenario, seed);
    const TimeUse& use = one.time_use;
    const double count = one.interruptions.faults;
    REQUIRE(count > 0);
    CHECK(use.detection.value() == test::exactly(7 * count));
    CHECK(use.waiting.value() == test::exactly(50 * count));
    CHECK(use.trained.value() == test::exactly(3000));
    CHECK(use.redone.value() < kStep * count);
    CHECK(use.restarting.value() <= 3 * count * (1 + 1e-9));  // some are cut by the next fault
  }
}

TEST_CASE("what the time was for adds up to it, whatever fails and however it is saved") {
  const Json faults{
      {"machine_mtbf", "200s"}, {"shape", 0.7}, {"repair_share", 0.4}, {"repair_time", "100s"}, {"spares", 1}};
  Json machines = every(20, "4s");
  machines["writers"] = "machines";
  Json beside = machines;
  beside["mode"] = "asynchronous";
  Json memory = every(50, "4s");
  memory["in_memory"] = {{"every_steps", 3}};
  for (const Json& checkpoint : {every(20, "4s"), machines, beside, memory})
    for (const char* lost : {"restart", "shrink", "wait"}) {
      CAPTURE(checkpoint.dump());
      CAPTURE(lost);
      Json recovery = restart("5s", "2s");
      recovery["lost_worker"] = lost;
      const Scenario scenario = test::resolved(failing(job(4, 300, checkpoint, recovery), faults));
      for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        const JobResult result = run(scenario, seed);
        CHECK(result.time_use.total().value() == doctest::Approx(result.end.value()).epsilon(1e-12));
        CHECK(result.time_use.trained.value() >= 300 * (1 - 1e-9));  // smaller clusters take more steps
        for (const LostTime& lost_time : kLostTimes) CHECK((result.time_use.*lost_time.time).value() >= 0);
      }
    }
}

TEST_CASE("message by message a job's time is for the same as at known speeds") {
  const Json faults{{"machine_mtbf", "60s"},
                    {"repair_share", 0.5},
                    {"repair_time", "400ms"},
                    {"spares", 1},
                    {"spare_start_time", "50ms"}};
  Json beside = every(100, "40ms");
  beside.update({{"mode", "asynchronous"}, {"writers", "machines"}});
  Json memory = every(400, "40ms");
  memory["in_memory"] = {{"every_steps", 7}};
  for (const Json& checkpoint : {every(100, "40ms"), beside, memory})
    for (const char* lost : {"restart", "shrink"}) {
      CAPTURE(checkpoint.dump());
      CAPTURE(lost);
      Json recovery = restart("100ms", "200ms");
      recovery["lost_worker"] = lost;
      const Json json = failing(job(3, 30'000, checkpoint, recovery), faults);
      const Json simulated = test::in_child([&] {
        const Scenario scenario = test::resolved(json);
        const RunRecord record = simulate(scenario);
        Json use{record.end.value(), record.interruptions.faults, record.time_use.trained.value()};
        for (const LostTime& part : kLostTimes) use.push_back((record.time_use.*part.time).value());
        return use;
      });
      const Scenario scenario = test::resolved(json);
      const auto speed = [&](const MachineCounts& counts, double) {
        const int n = counts[0];
        const double step = n == 1 ? 3e-3 : 3e-3 + 2 * (n - 1) * (test::kAlpha + std::ceil(4.0 / n) / test::kBeta);
        return TrainingSpeed{1 / step, static_cast<double>(n)};
      };
      const Trajectory known = run_trajectory(Site{scenario}, scenario.seed, speed, kLongEnough, false);
      CHECK(known.job.interruptions.faults == simulated[1].get<int>());
      CHECK(simulated[1].get<int>() > 2);
      CHECK(known.job.end.value() == doctest::Approx(simulated[0].get<double>()).epsilon(1e-3));
      CHECK(known.job.time_use.trained.value() == doctest::Approx(simulated[2].get<double>()).epsilon(1e-3));
      for (std::size_t i = 0; i < kLostTimes.size(); ++i) {
        CAPTURE(kLostTimes[i].key);
        CHECK(std::abs((known.job.time_use.*kLostTimes[i].time).value() - simulated[3 + i].get<double>()) <
              0.02 * (known.job.end - known.job.time_use.trained).value());
      }
    }
}

TEST_CASE("more spares never make a job slower in the mean") {
  double before = 0;
  for (const int spares : {0, 1, 2, 4, 8}) {
    const Json faults{{"machine_mtbf", "400s"}, {"repair_share", 1}, {"repair_time", "200s"}, {"spares", spares}};
    const double mean = mean_goodput(failing(job(8, 300, every(20, "1s"), restart("1s", "1s")), faults));
    CAPTURE(spares);
    CHECK(mean >= before);
    before = mean;
  }
  const Json never{{"machine_mtbf", "400s"}};  // machines that only start again: as with spares without end
  CHECK(before ==
        doctest::Approx(mean_goodput(failing(job(8, 300, every(20, "1s"), restart("1s", "1s")), never))).epsilon(0.02));
}

TEST_CASE("a checkpoint beside the training costs the copy alone, and counts once it is written") {
  // 8 bytes of one GPU at 4 B/s: 2 s; then 6 s to storage. Of 100 steps nine checkpoints.
  Json checkpoint = every(10, "6s");
  checkpoint.update({{"mode", "asynchronous"}, {"copy_rate", "4Bps"}});
  const Scenario scenario = test::resolved(job(1, 100, checkpoint, restart("0s", "1s")));
  REQUIRE(checkpoint_bytes(scenario).value() == 8);
  const CheckpointTimes times = *checkpoint_times(scenario);
  CHECK(times.stall == Seconds{2});
  CHECK(times.write == Seconds{8});
  CHECK(times.read == Seconds{6});
  CHECK(run(scenario, 1).end.value() == test::exactly(100 + 9 * 2));

  const Site site{scenario};
  Checkpoints checkpoints{site};
  checkpoints.resume(0, Seconds{0}, true);
  CHECK(checkpoints.is_due(10, Seconds{10}));
  CHECK(checkpoints.begin({10, 10}, Seconds{10}) == Seconds{12});
  CHECK(checkpoints.begin({20, 20}, Seconds{22}) == Seconds{24});
  CHECK(checkpoints.latest(Seconds{29}).first.progress.updates == 10);  // the second is not yet written
  CHECK(checkpoints.latest(Seconds{30}).first.progress.updates == 20);
  CHECK(checkpoints.trained(Seconds{22}) == Seconds{20});
  CHECK(checkpoints.stalled(Seconds{23}) == Seconds{3});
  checkpoints.cut(Seconds{29});  // a fault
  CHECK(checkpoints.latest(Seconds{100}).first.progress.updates == 10);
}

TEST_CASE("checkpoints that take longer than their interval beside the training are written one after another") {
  Json checkpoint = every(2, "7s");
  checkpoint.update({{"mode", "asynchronous"}, {"copy_rate", "8Bps"}});
  const JobResult result = run(test::resolved(job(1, 82, checkpoint, restart("0s", "1s"))), 1);
  // The first after two steps, each of the others a second of copying and seven steps after the one before: (82 - 2) / 7 = 11.4.
  CHECK(result.interruptions.checkpoints == 12);
  CHECK(result.end.value() == test::exactly(82 + 12));
}

TEST_CASE("parts of checkpoints are written at the machines' rates together, or at the storage's") {
  Json scenario = job(4, 10, {{"every_steps", 5}, {"fixed_time", "1s"}, {"rate", "1Bps"}}, Json::object());
  const auto time_of = [&](const Json& more) {
    Json changed = scenario;
    changed["training"]["checkpoint"].update(more);
    return checkpoint_time(test::resolved(changed))->value();
  };
  CHECK(time_of(Json::object()) == 1 + 8);
  CHECK(time_of({{"writers", "machines"}}) == 1 + 2);
  CHECK(time_of({{"writers", "machines"}, {"storage_rate", "2Bps"}}) == 1 + 4);
  CHECK(time_of({{"writers", "machines"}, {"storage_rate", "1kBps"}}) == 1 + 2);
}

TEST_CASE("what machines keep in memory is there until both of a pair are gone") {
  Json checkpoint = every(100, "6s");
  checkpoint["in_memory"] = {{"every_steps", 10}};
  const Scenario scenario = test::resolved(job(4, 1000, checkpoint, restart("0s", "1s")));
  const Site site{scenario};
  Checkpoints checkpoints{site};
  checkpoints.resume(0, Seconds{0}, true);
  (void)checkpoints.begin({100, 400}, Seconds{100});
  (void)checkpoints.begin({110, 440}, Seconds{120});
  CHECK(checkpoints.latest(Seconds{130}).first.progress.updates == 110);
  CHECK(checkpoints.latest(Seconds{130}).second < Seconds{1});  // over the NICs
  checkpoints.lose_copies(1, true);
  CHECK(checkpoints.latest(Seconds{130}).first.progress.updates == 110);
  checkpoints.lose_copies(0, false);
  CHECK(checkpoints.latest(Seconds{130}).first.progress.updates == 100);
  CHECK(checkpoints.latest(Seconds{130}).second == Seconds{6});

  // Both of a pair break before the job goes on: the first at 0.9 to 1.1 h, the second before the first is back after 10 h.
  const Json both{{"machine_mtbf", "1h"}, {"shape", 20}, {"repair_share", 1}, {"repair_time", "10h"}};
  const Json json = failing(job(2, 4500, checkpoint, restart("0s", "1s")), both);
  const JobResult rolled_back = run(test::resolved(json), 1);
  CHECK(rolled_back.interruptions.faults == 2);
  CHECK(rolled_back.time_use.redone > Seconds{10});  // back to storage, by up to a hundred steps
  CHECK(rolled_back.time_use.total().value() == test::exactly(rolled_back.end.value()));

  // Of machines that only fail nothing is lost that was copied: no more than ten steps of each fault, instead of a hundred.
  const Json faults{{"machine_mtbf", "800s"}};
  const Scenario with = test::resolved(failing(job(4, 1000, checkpoint, restart("0s", "1s")), faults));
  const JobResult result = run(with, 3);
  REQUIRE(result.interruptions.restarts > 1);
  CHECK(result.time_use.redone.value() < 10.1 * result.interruptions.restarts);
}

TEST_CASE("a machine's faults come by the law of its mean time between two, and its spares are as many as stated") {
  for (const double shape : {0.5, 1.0, 3.0}) {
    CAPTURE(shape);
    const Json json{{"gpu_mtbf", "8000s"}, {"machine_mtbf", "1000s"}, {"shape", shape}};
    const MachineFaults faults = read_machine_faults(JsonReader{json, "faults.json"}, 8);
    CHECK(faults.between.mean().value() == test::exactly(500));
    CHECK(faults.rate() == test::exactly(1.0 / 500));
  }
  FleetGroup group{.slots = 5};
  group.faults = MachineFaults{.between = {.law = Exponential{Seconds{100}}},
                               .repair_share = 1,
                               .repair = Seconds{50},
                               .spares = 2,
                               .spare_start = Seconds{5}};
  group.noticed_after = Seconds{3};
  Fleet fleet{{group}, 0, 1};
  int running = 5;
  for (int i = 0; i < 3000; ++i) {
    const auto event = fleet.next();
    REQUIRE(event);
    if (event->kind == FleetEvent::Kind::kBroken) --running;
    if (event->kind == FleetEvent::Kind::kRunning) ++running;
    CHECK(running >= 0);
    CHECK(running <= 5);
  }
}

TEST_CASE("the interval of Young and Daly counts machines that fail") {
  Json checkpoint{{"interval", "young_daly"}, {"fixed_time", "2s"}, {"rate", "1000000TBps"}};
  const Json faults{{"machine_mtbf", "100000s"}};
  const Scenario scenario = test::resolved(failing(job(10, 100, checkpoint, restart("0s", "1s")), faults));
  CHECK(mean_time_to_loss(scenario).value() == doctest::Approx(10'000).epsilon(0.001));
  CHECK(checkpoint_interval(scenario)->value() == doctest::Approx(200).epsilon(0.001));

  // However seldom they do: ten machines, one of which fails in 1,000 days, cost work after 100 days.
  const Scenario seldom =
      test::resolved(failing(job(10, 100, checkpoint, restart("0s", "1s")), {{"machine_mtbf", "1000d"}}));
  CHECK(mean_time_to_loss(seldom).value() == doctest::Approx(100 * 86400.0).epsilon(0.001));
  // One machine that is lost has all of the model, whatever the others would do.
  const Json shrinks{{"lost_worker", "shrink"}};
  CHECK(mean_time_to_loss(test::resolved(failing(job(1, 100, checkpoint, shrinks), faults))).value() ==
        doctest::Approx(100'000).epsilon(0.001));
  CHECK(std::isinf(mean_time_to_loss(test::resolved(failing(job(2, 100, checkpoint, shrinks), faults))).value()));
}

TEST_CASE("the interval of Young and Daly counts revocations of a whole zone") {
  const Json pool{{"source", "made up"},
                  {"lifetime", {{"law", {{"law", "exponential"}, {"mean", "999999999s"}}}}},
                  {"notice", "0s"},
                  {"bulk",
                   {{"interval", {{"law", "weibull"}, {"scale", "1h"}, {"shape", 1}}},
                    {"share", {{"a", 1}, {"b", 1}}}}}};  // of n machines one spares all with probability 1 / (n + 1)
  const auto mean_with = [&](int machines) {
    Json scenario =
        job(machines, 100, {{"interval", "young_daly"}, {"fixed_time", "2s"}, {"rate", "1TBps"}}, restart("0s", "1s"));
    scenario["cluster"]["groups"][0]["market"] = "spot";
    scenario["cluster"]["groups"][0]["spot_pool"] = pool;
    return mean_time_to_loss(test::resolved(scenario)).value();
  };
  CHECK(mean_with(1) == doctest::Approx(2 * 3600).epsilon(0.01));
  CHECK(mean_with(4) == doctest::Approx(5.0 / 4 * 3600).epsilon(0.01));
}

TEST_CASE("faults that cannot be are refused with their place") {
  const auto refusal = [](const Json& faults) -> std::string {
    try {
      (void)read_machine_faults(JsonReader{faults, "s.json"}, 8);
      return "";
    } catch (const InputError& error) { return error.what(); }
  };
  CHECK(refusal({{"shape", 1}}).find("expected \"gpu_mtbf\" or \"machine_mtbf\"") != std::string::npos);
  CHECK(refusal({{"gpu_mtbf", "1s"}}).find("/gpu_mtbf: expected a time of at least 1min") != std::string::npos);
  CHECK(refusal({{"gpu_mtbf", "1h"}, {"repair_share", 0.5}}).find("expected \"repair_time\"") != std::string::npos);
  CHECK(refusal({{"gpu_mtbf", "1h"}, {"spares", 1}}).find("/spares: expected 0 without") != std::string::npos);
  CHECK(refusal({{"gpu_mtbf", "1h"}, {"repair_share", 2}}).find("/repair_share: expected 0 to 1") != std::string::npos);
  CHECK(refusal({{"gpu_mtbf", "1h"}, {"shape", 0}}).find("/shape: expected 0.2 to 20") != std::string::npos);
  CHECK(refusal({{"gpu_mtbf", "1h"}, {"spare", 1}}).find("unknown key \"spare\"") != std::string::npos);
}

}  // namespace rehearse::faults_test
