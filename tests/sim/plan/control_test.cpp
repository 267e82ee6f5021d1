// Rules that change the machines of a job under way: what they cost, and that they change nothing where they have nothing to say.

#include "sim/job/control.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "platforms/fleet.hpp"
#include "sim/base/errors.hpp"
#include "sim/plan/monte_carlo.hpp"
#include "sim/plan/replan.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/simulated.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse::control_test {

namespace {

constexpr Seconds kLongEnough{1e7};

/// Two workers and one server, with a standby one, at 1 USD a second each. Lives end after `mean_lifetime`.
Json with_standby_server(const char* mean_lifetime = "1e9s") {
  Json scenario = test::with_servers(
      test::timed_scenario(2, {{"1000B"}}, {{"kind", "parameter_server"}, {"synchronization", "asynchronous"}}), 1);
  Json& groups = scenario["cluster"]["groups"];
  groups[0].update(
      {{"market", "spot"},
       {"spot_pool",
        {{"source", "test"}, {"lifetime", {{"law", {{"law", "exponential"}, {"mean", mean_lifetime}}}}}}}});
  Json standby = groups[1];
  standby["name"] = "more";
  standby["standby"] = true;
  groups.push_back(standby);
  for (Json& group : groups)
    for (const char* key : {"usd_per_hour_spot", "usd_per_hour_on_demand"}) group["instance"][key] = 3600.0;
  scenario["training"]["steps"] = 1000;
  scenario["training"]["control"] = {{"add_servers", {{"group", "more"}, {"warmup", "10s"}, {"window", "20s"}}}};
  return scenario;
}

/// Each worker does a step a second alone; both together `together`, and with a second server `with_server`.
SpeedOf speeds(double together, double with_server) {
  return [=](const MachineCounts& counts, double) {
    return TrainingSpeed{counts[0] < 2 ? 1.0 * counts[0] : counts[2] > 0 ? with_server : together, 1};
  };
}

double cost_of(const JobResult& job) {
  double usd = 0;
  for (const auto& rentals : job.rentals)
    for (const Rental& rental : rentals) usd += (rental.span.end - rental.span.start).value();
  return usd;
}

std::vector<std::string> kinds_of(const Trajectory& run) {
  std::vector<std::string> kinds;
  for (const EventSpan& event : run.events) kinds.push_back(event.kind);
  return kinds;
}

}  // namespace

TEST_CASE("a server that is added splits the run into two speeds and a restart") {
  Json json = with_standby_server();
  json["training"]["recovery"] = {{"restart_time", "7s"}};
  const Scenario scenario = test::resolved(json);
  const Trajectory run =
      run_trajectory(Site{scenario}, 1, speeds(1, 1.6), kLongEnough, true, {add_servers_rule(scenario)});
  REQUIRE(run.is_finished);
  // 30 s at 1 step/s until the window ends, which 2 - 6.7 % are not; the standby server comes at once.
  CHECK(run.job.end.value() == doctest::Approx(30 + 7 + 970 / 1.6).epsilon(1e-9));
  CHECK(run.job.interruptions.decisions == 1);
  CHECK(run.job.interruptions.pauses == 1);
  CHECK(run.job.interruptions.lost_updates == 0);
  // Each machine for as long as it is there.
  CHECK(cost_of(run.job) == doctest::Approx(4 * run.job.end.value() - 30).epsilon(1e-9));
  const auto decision = std::ranges::find(run.events, "decision", &EventSpan::kind);
  REQUIRE(decision != run.events.end());
  CHECK(decision->span.start == Seconds{30});
  CHECK(decision->detail == "one more server: 1 steps/s of the 2 of all workers alone");
}

TEST_CASE("a checkpoint that is written and read belongs to the restart, and spoils no window") {
  Json json = with_standby_server();
  json["training"]["recovery"] = {{"restart_time", "7s"}};
  json["training"]["checkpoint"] = {{"every", "15s"}, {"fixed_time", "2s"}, {"rate", "1000TBps"}, {"pauses", "all"}};
  const Scenario scenario = test::resolved(json);
  // There is one in each window: nothing is decided.
  const Trajectory never =
      run_trajectory(Site{scenario}, 1, speeds(1, 1.6), kLongEnough, false, {add_servers_rule(scenario)});
  CHECK(never.job.interruptions.decisions == 0);
  json["training"]["checkpoint"]["every"] = "1e5s";
  const Scenario rare = test::resolved(json);
  const Trajectory once = run_trajectory(Site{rare}, 1, speeds(1, 1.6), kLongEnough, false, {add_servers_rule(rare)});
  CHECK(once.job.end.value() == doctest::Approx(30 + 7 + 2 * 2 + 970 / 1.6).epsilon(1e-9));
}

TEST_CASE("a rule that does not fire changes no bit") {
  // At the threshold nothing is missing: 2 (1 - 6.7 %) steps/s.
  Json json = with_standby_server("300s");
  json["training"]["recovery"] = {{"timeout", "1s"}};
  const Scenario scenario = test::resolved(json);
  Scenario fixed = scenario;
  fixed.training.control.reset();
  int revocations = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const Trajectory with =
        run_trajectory(Site{scenario}, seed, speeds(1.9, 1.9), kLongEnough, true, {add_servers_rule(scenario)});
    const Trajectory without = run_trajectory(Site{fixed}, seed, speeds(1.9, 1.9), kLongEnough, true);
    CHECK(with.job.end == without.job.end);
    CHECK(cost_of(with.job) == cost_of(without.job));
    CHECK(kinds_of(with) == kinds_of(without));
    CHECK(with.job.interruptions.decisions == 0);
    revocations += with.job.interruptions.revocations;
  }
  CHECK(revocations > 30);
}

TEST_CASE("a slot that is requested has a machine once, and one that is given back has none") {
  const SpotPool pool{.name = "pool",
                      .lifetime = {.law = {Distribution{Exponential{Seconds{1e9}}}}, .cap = Seconds{100}},
                      .notice = Seconds{10}};
  Fleet fleet{{{.slots = 1, .pool = pool}, {.slots = 2, .is_standby = true, .pool = pool}}, 0, 1};
  CHECK(fleet.next_date() <= Seconds{90});
  CHECK(!fleet.next(Seconds{50}));
  fleet.request(Seconds{50}, 1);
  CHECK(fleet.next_date() == Seconds{50});
  CHECK(fleet.next(Seconds{50}) == FleetEvent{Seconds{50}, 1, FleetEvent::Kind::kRequested});
  CHECK(fleet.next(Seconds{50}) == FleetEvent{Seconds{50}, 1, FleetEvent::Kind::kRunning});
  fleet.release(1);
  // The other one is announced and goes; of the one that was given back nothing is heard.
  CHECK(fleet.next() == FleetEvent{Seconds{90}, 0, FleetEvent::Kind::kNotice});
  fleet.request(Seconds{90}, 0);
  CHECK(fleet.next() == FleetEvent{Seconds{90}, 0, FleetEvent::Kind::kRequested});
  CHECK(fleet.next() == FleetEvent{Seconds{100}, 0, FleetEvent::Kind::kRevoked});
  CHECK(fleet.next() == FleetEvent{Seconds{100}, 0, FleetEvent::Kind::kRunning});
  fleet.release(0);
  CHECK(!fleet.next());
}

namespace {

Json spotdnn() { return load_json_file(source_folder() + "/scenarios/control/spotdnn.json"); }

Scenario read(const Json& json) {
  return read_scenario(json, source_folder() + "/scenarios/control/spotdnn.json", test::shipped_catalog());
}

/// Nobody of a group is lost before this date.
void keep_until(Json& group, const char* date) {
  group["spot_pool"]["lifetime"]["law"] = {{"law", "exponential"}, {"mean", "1e9s"}, {"minimum", date}};
}

}  // namespace

TEST_CASE("a job that loses nobody is that of the fixed plan") {
  Json json = spotdnn();
  for (std::size_t g : {1, 2}) keep_until(json["cluster"]["groups"][g], "1e9s");
  const Scenario scenario = read(json);
  SimulatedMemberships known;
  const MonteCarlo with = run_monte_carlo(scenario, {.runs = 3, .known = &known});
  const MonteCarlo fixed = run_monte_carlo(scenario, {.runs = 3, .fixed_batch = 1, .known = &known});
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(with.runs[i].time_s == fixed.runs[i].time_s);
    CHECK(with.runs[i].cost_usd->total() == fixed.runs[i].cost_usd->total());
  }
  const ControlGain gain = control_gain(fixed, with, Seconds{2600});
  CHECK(gain.decisions == 0);
  CHECK(gain.time_s.mean == 0);
  CHECK(gain.deadline_share->mean == 0);
}

TEST_CASE("the planner's plan is that of provision, for what is left") {
  const Scenario scenario = read(spotdnn());
  const auto rule = replan_rule(scenario, replan_problem(scenario, {}));
  // spotDNN, figure 9: at a loss of 0.9 and 810 s before the deadline the five g3.8xlarge are announced: three p3.2xlarge.
  const ControlView view{
      .now = Seconds{2600 - 810}, .share_done = 0.685, .machines = {1, 0, 3, 0}, .joining = {0, 0, 0, 0}};
  const auto decision = rule->decide(view);
  REQUIRE(decision);
  CHECK(decision->machines == std::vector<int>{1, 0, 3, 3});
  // Nobody is given back, and nobody else is requested, where those that are there are in time.
  const ControlView rich{.now = Seconds{100}, .share_done = 0.5, .machines = {1, 5, 3, 0}, .joining = {0, 0, 0, 0}};
  CHECK(rule->decide(rich)->machines == rich.machines);
  // Who may release machines keeps those alone that it needs.
  Json json = spotdnn();
  json["training"]["control"]["replan"]["releases"] = true;
  const Scenario releasing = read(json);
  const auto other = replan_rule(releasing, replan_problem(releasing, {}))->decide(rich);
  REQUIRE(other);
  int machines = 0;
  for (const int count : other->machines) machines += count;
  CHECK(machines < 9);
  // Too late for all: the fastest.
  const auto late =
      rule->decide({.now = Seconds{2599}, .share_done = 0.1, .machines = {1, 0, 1, 0}, .joining = {0, 0, 0, 0}});
  REQUIRE(late);
  CHECK(late->reason.find("late by") != std::string::npos);
}

TEST_CASE("machines are requested after a notice, and those that are given back cost nothing more") {
  Json json = spotdnn();
  json["training"]["control"]["replan"]["releases"] = true;
  json["training"]["control"]["replan"]["deadline"] = "20000s";
  const Scenario scenario = read(json);
  const MonteCarlo result = run_monte_carlo(scenario, {.runs = 20});
  CHECK(runs_csv(run_monte_carlo(scenario, {.runs = 20, .pool = 2})) == runs_csv(result));
  int decisions = 0, releases = 0;
  for (const RunOutcome& run : result.runs) {
    CHECK(run.is_finished);
    decisions += run.interruptions.decisions;
  }
  CHECK(decisions >= 20);
  for (const EventSpan& event : result.sample.events) {
    if (event.kind != "release") continue;
    ++releases;
    // Its rental has ended there.
    CHECK(std::ranges::any_of(result.sample.job.rentals[static_cast<std::size_t>(event.machine)],
                              [&](const Rental& rental) { return rental.span.end == event.span.start; }));
  }
  CHECK(releases > 0);
}

TEST_CASE("a speed holds until a share of the samples is done") {
  Json json = test::timed_scenario(2, {{"1000B"}}, {{"kind", "all_reduce"}});
  json["training"]["samples"] = 1000;
  json["training"].erase("steps");
  const Scenario scenario = test::resolved(json);
  const auto faster = [](const MachineCounts&, double share_done) {
    return share_done < 0.3 - 1e-9
               ? TrainingSpeed{.updates_per_s = 1, .samples_per_update = 2, .batch = 1, .until = 0.3}
               : TrainingSpeed{.updates_per_s = 2, .samples_per_update = 5, .batch = 4};
  };
  const Trajectory run = run_trajectory(Site{scenario}, 1, faster, kLongEnough, true);
  REQUIRE(run.is_finished);
  CHECK(run.job.end.value() == doctest::Approx(300 / 2.0 + 700 / 10.0).epsilon(1e-9));
  CHECK(run.job.interruptions.decisions == 1);
  REQUIRE(run.events.size() == 1);
  CHECK(run.events[0].detail == "each worker has 4 of its batches");
  CHECK(run.events[0].span.start.value() == doctest::Approx(150).epsilon(1e-9));
}

/// Four workers of 16 samples each.
Json elastic(const Json& noise_scale, int largest) {
  Json json = test::timed_scenario(4, {{"1000B"}}, {{"kind", "all_reduce"}});
  json["workload"] = {
      {"model", "resnet50"}, {"batch_per_worker", 16}, {"precision", "fp32"}, {"optimizer", "momentum"}};
  json["cluster"]["groups"][0]["instance"]["nic"] = "10GBps";
  json["training"].erase("steps");
  json["training"]["samples"] = 64'000;
  json["training"]["control"] = {
      {"elastic_batch", {{"largest_batch_per_worker", largest}, {"noise_scale", noise_scale}}}};
  return json;
}

TEST_CASE(
    "an elastic batch is that of the most progress a second, and samples count as the noise of the gradient says") {
  const std::map<double, double> phases{{0, 5}, {0.4, 10000}, {0.7, 1e9}};  // share: noise scale
  Json noise_scale = Json::array();
  for (const auto& [from, scale] : phases) noise_scale.push_back({from, scale});
  const Json json = elastic(noise_scale, 128);
  std::map<int, double> samples_per_s;  // by the multiple, each simulated alone
  for (const int times : {1, 2, 3, 4, 6, 8}) {
    Json alone = json;
    alone["training"].erase("control");
    alone["training"].erase("samples");
    alone["training"]["steps"] = 50;
    alone["workload"]["batch_per_worker"] = 16 * times;
    const Scenario scenario = test::resolved(alone);
    samples_per_s[times] = summarize(scenario, simulate(scenario)).samples_per_s;
  }
  const auto time_with = [&](auto choose) {
    double time = 0;
    for (auto phase = phases.begin(); phase != phases.end(); ++phase) {
      const double until = std::next(phase) == phases.end() ? 1 : std::next(phase)->first;
      time += (until - phase->first) * 64'000 / choose([&](int times) {
                const double m0 = 64, m = m0 * times;
                return samples_per_s[times] * (phase->second + m0) / (phase->second + m);
              });
    }
    return time;
  };
  int changes = 0, chosen = 1;
  const double best = time_with([&](auto progress) {
    const auto fastest =
        std::ranges::max_element(samples_per_s, {}, [&](const auto& one) { return progress(one.first); });
    changes += std::exchange(chosen, fastest->first) == fastest->first ? 0 : 1;
    return progress(fastest->first);
  });
  REQUIRE(changes > 1);
  const Scenario scenario = test::resolved(json);
  const MonteCarlo with = run_monte_carlo(scenario, {.runs = 3});
  CHECK(with.is_controlled);
  CHECK(with.untried_batches.empty());
  const double a_step = 64 * 8 / samples_per_s[8];  // the last one, and those under way when a phase begins
  for (const RunOutcome& run : with.runs) {
    CHECK(run.time_s >= best * (1 - 1e-6));
    CHECK(run.time_s <= best + 3 * a_step);
    CHECK(run.interruptions.decisions == changes);
  }
  const MonteCarlo fixed = run_monte_carlo(scenario, {.runs = 3, .fixed_batch = 1});
  CHECK(fixed.runs[0].time_s == doctest::Approx(64'000 / samples_per_s[1]).epsilon(1e-3));
  CHECK(fixed.runs[0].interruptions.decisions == 0);
  const auto gain = gain_over_batches(scenario, {.runs = 3}, with);
  REQUIRE(gain);
  double best_fixed = std::numeric_limits<double>::infinity();
  for (const int times : {2, 3, 4, 6, 8}) {
    const double time = time_with([&](auto progress) { return progress(times); });
    best_fixed = std::min(best_fixed, time);
  }
  CHECK(gain->gain.fixed_time_s.mean >= best_fixed * (1 - 1e-6));
  CHECK(gain->gain.fixed_time_s.mean <= best_fixed + 3 * a_step);
  CHECK(gain->gain.time_s.mean <= a_step);
}

TEST_CASE("batches that do not fit are not tried, and said so; noise that is the least keeps the scenario's batch") {
  const MonteCarlo large = run_monte_carlo(test::resolved(elastic(1e12, 65536)), {.runs = 2});
  CHECK(large.untried_batches.find("times the scenario's are not tried: ") != std::string::npos);
  CHECK(large.untried_batches.find("memory") != std::string::npos);
  CHECK(large.runs[0].is_finished);
  const MonteCarlo small = run_monte_carlo(test::resolved(elastic(1e-6, 128)), {.runs = 2});
  CHECK(small.runs[0].interruptions.decisions == 0);
}

TEST_CASE("a gain is the mean of differences of runs of one seed") {
  MonteCarlo fixed, with;
  for (const double time : {10.0, 20.0, 30.0}) {
    fixed.runs.push_back({.is_finished = true, .time_s = time, .cost_usd = CostSplit{.workers = 1}});
    with.runs.push_back({.is_finished = true, .time_s = time - 1, .cost_usd = CostSplit{.workers = 1 + time}});
  }
  const ControlGain gain = control_gain(fixed, with, Seconds{19});
  CHECK(gain.fixed_time_s.mean == 20);
  CHECK(gain.time_s.mean == -1);
  CHECK(gain.time_s.low == -1);
  CHECK(gain.cost_usd->mean == 20);
  CHECK(gain.cost_usd->high == doctest::Approx(20 + 1.96 * 10 / std::sqrt(3)));
  CHECK(gain.deadline_share->mean == doctest::Approx(1.0 / 3));
}

TEST_CASE("rules that say nothing or something wrong are refused") {
  const auto problem = [](const Json& control) {
    Json json = with_standby_server();
    json["training"]["control"] = control;
    return test::problem_of(json);
  };
  CHECK(problem(Json::object()) ==
        "/training/control: expected \"replan\", \"add_servers\" or \"elastic_batch\"; found none of them");
  CHECK(problem({{"add_servers", {{"group", "servers"}}}}) ==
        "/training/control/add_servers/group: unknown group of standby servers \"servers\"; known: \"more\"");
  CHECK(problem({{"add_servers", {{"group", "more"}, {"threshold", 1}}}})
            .starts_with("/training/control/add_servers/threshold: expected a share above 0, below 1"));
  CHECK(problem({{"replan", {{"deadline", "0s"}}}}).starts_with("/training/control/replan/deadline: expected a time"));
  CHECK(problem({{"replan", {{"deadline", "9s"}, {"margin", 1}}}})
            .starts_with("/training/control/replan/margin: expected a share"));
  const auto noise_problem = [](const Json& noise_scale) { return test::problem_of(elastic(noise_scale, 128)); };
  CHECK(noise_problem({{0, 5}, {0.5, 7}}).empty());
  for (const Json& wrong : {Json(0), Json("1"), Json::array(), Json{{0.1, 5}}, Json{{0, 5}, {0, 6}},
                            Json{{0, 5}, {1, 6}}, Json{{0, 5}, {0.5, -1}}, Json{{0, 5}, {0.5}}})
    CHECK(noise_problem(wrong).starts_with("/training/control/elastic_batch/noise_scale: expected "));
  CHECK(test::problem_of(elastic(5, 8))
            .starts_with("/training/control/elastic_batch/largest_batch_per_worker: expected the 16"));
  const Scenario scenario = test::resolved(with_standby_server());
  CHECK(test::error_of([&] { (void)simulate(scenario); }).find("/training/control: expected many runs") !=
        std::string::npos);
}

}  // namespace rehearse::control_test
