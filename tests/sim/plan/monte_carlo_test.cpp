// Many runs of one job: what they have in common with one simulation, closed forms, costs.

#include "sim/plan/monte_carlo.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/errors.hpp"
#include "sim/record/energy.hpp"
#include "tests/support/reversed_executor.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse::monte_carlo_test {

namespace {

// One tensor of 1.2 MB, 3 ms of compute, NICs of 1 GB/s, 10 us of latency.
double ring_step(int ranks) { return ranks == 1 ? 3e-3 : 3e-3 + 2 * (ranks - 1) * (10e-6 + 1.2e6 / ranks / 1e9); }

/// Machines at 1 USD a second.
Json priced(Json scenario) {
  for (Json& group : scenario["cluster"]["groups"])
    for (const char* key : {"usd_per_hour_spot", "usd_per_hour_on_demand"}) group["instance"][key] = 3600.0;
  return scenario;
}

Json ring(int machines, int steps) {
  Json scenario = test::timed_scenario(machines, {{"1200000B"}}, {{"kind", "all_reduce"}});
  scenario["training"]["steps"] = steps;
  return priced(scenario);
}

Json asynchronous(int machines, int steps) {
  Json scenario = test::with_servers(
      test::timed_scenario(machines, {{"1000B"}}, {{"kind", "parameter_server"}, {"synchronization", "asynchronous"}}),
      1);
  scenario["training"]["steps"] = steps;
  return priced(scenario);
}

/// The workers on the spot market, with exponential lifetimes.
Json revocable(Json scenario, const std::string& mean_lifetime) {
  scenario["cluster"]["groups"][0].update(
      {{"market", "spot"},
       {"spot_pool",
        {{"source", "test"}, {"lifetime", {{"law", {{"law", "exponential"}, {"mean", mean_lifetime}}}}}}}});
  return scenario;
}

/// The workers on the spot market, with these events after the adds at time 0.
Json replayed(Json scenario, const Json& events) {
  Json& machines = scenario["cluster"]["groups"][0];
  Json trace = Json::array();
  for (int i = 0; i < machines.value("count", 1); ++i) trace.push_back({0, "add", "n" + std::to_string(i)});
  for (const Json& event : events) trace.push_back(event);
  machines.update({{"market", "spot"}, {"spot_pool", {{"replay", trace}}}});
  return scenario;
}

MonteCarlo runs_of(const Json& scenario, std::size_t runs, int parallel = 2) {
  return run_monte_carlo(test::resolved(scenario), {.runs = runs, .pool = parallel});
}

}  // namespace

TEST_CASE("results depend neither on the number of processes nor on how many runs there are") {
  Json scenario = revocable(ring(4, 20'000), "60s");
  scenario["training"]["recovery"] = {{"timeout", "500ms"}};
  const MonteCarlo result = runs_of(scenario, 12, 1);
  const std::string text = to_json(test::resolved(scenario), result, Seconds{100}).dump();
  CHECK(runs_csv(runs_of(scenario, 12, 2)) == runs_csv(result));
  CHECK(to_json(test::resolved(scenario), runs_of(scenario, 12, 3), Seconds{100}).dump() == text);
  const std::string five = runs_csv(runs_of(scenario, 5));
  CHECK(runs_csv(result).starts_with(five));
  CHECK(result.runs[0].time_s != result.runs[1].time_s);
}

TEST_CASE("of a cluster with hundreds of memberships what lies between them is simulated, too, and changes no run") {
  Json scenario = revocable(ring(300, 1'000'000), "30s");
  scenario["cluster"]["groups"][0]["spot_pool"]["wait"] = {{"law", "exponential"}, {"mean", "30s"}};
  scenario["training"]["recovery"] = {
      {"lost_worker", "shrink"}, {"timeout", "1ms"}, {"restart_time", "1ms"}, {"give_up_after", "40s"}};
  const MonteCarlo few = runs_of(scenario, 2), many = runs_of(scenario, 20);
  CHECK(runs_csv(many).starts_with(runs_csv(few)));
  REQUIRE(many.speeds.size() > 100);
  const auto workers = [](const auto& speed) { return speed.first.front(); };
  CHECK(workers(*many.speeds.rbegin()) - workers(*many.speeds.begin()) + 1 == static_cast<int>(many.speeds.size()));
  for (const auto& [counts, speed] : many.speeds)
    CHECK(speed == doctest::Approx(counts.front() / 300.0 / ring_step(counts.front())).epsilon(1e-4));
}

TEST_CASE("each run can be repeated by its seed, and runs of another seed are others") {
  Json scenario = revocable(ring(4, 20'000), "60s");
  scenario["training"]["recovery"] = {{"timeout", "500ms"}};
  const MonteCarlo result = runs_of(scenario, 12);
  CHECK(result.runs[0].seed == 1);
  for (const RunOutcome& run : result.runs) {
    scenario["seed"] = run.seed;
    CHECK(runs_of(scenario, 1).runs[0].time_s == run.time_s);
  }
  scenario["seed"] = 2;
  std::set<double> times;
  for (const RunOutcome& run : result.runs) times.insert(run.time_s);
  for (const RunOutcome& run : runs_of(scenario, 12).runs) CHECK(!times.contains(run.time_s));
}

TEST_CASE("the seeds of runs of neighbouring seeds are all different") {
  std::set<std::uint64_t> seeds;
  for (std::uint64_t seed = 1'000'000; seed < 1'000'100; ++seed)
    for (std::size_t run = 0; run < 100; ++run) seeds.insert(seed_of_run(seed, run));
  CHECK(seeds.size() == 10'000);
  CHECK(seed_of_run(7, 0) == 7);
}

TEST_CASE("without revocations all runs are alike and take as long as one simulation") {
  const MonteCarlo synchronous = runs_of(ring(4, 5000), 3);
  for (const RunOutcome& run : synchronous.runs) {
    CHECK(run.is_finished);
    CHECK(run.time_s == doctest::Approx(5000 * ring_step(4)).epsilon(1e-9));
    CHECK(run.interruptions.revocations == 0);
  }
  CHECK(synchronous.speeds == std::map<MachineCounts, double>{{{4}, synchronous.speeds.begin()->second}});
  CHECK(synchronous.speeds.begin()->second == doctest::Approx(1 / ring_step(4)).epsilon(1e-9));

  const Json scenario = asynchronous(3, 3000);
  const double time = test::simulated(scenario)["time_s"].get<double>();
  for (const RunOutcome& run : runs_of(scenario, 3).runs) CHECK(run.time_s == doctest::Approx(time).epsilon(0.01));
}

TEST_CASE("memberships that are known are not simulated again") {
  SimulatedMemberships known;
  Json json = revocable(ring(3, 2000), "20s");
  json["cluster"]["groups"][0]["replacement"] = {{"with", "none"}};
  json["training"]["recovery"] = {{"timeout", "1s"}};
  const Scenario scenario = test::resolved(json);
  const MonteCarlo first = run_monte_carlo(scenario, {.runs = 20, .known = &known});
  CHECK(known.size() == first.speeds.size());
  for (auto& [what, text] : known) {  // all of them at half the speed
    Json measured = parse_json(text, "known");
    measured[0] = measured[0].get<double>() / 2;
    text = measured.dump();
  }
  const MonteCarlo slower = run_monte_carlo(scenario, {.runs = 20, .known = &known});
  CHECK(slower.speeds.at({3}) == doctest::Approx(first.speeds.at({3}) / 2).epsilon(1e-12));
  CHECK(slower.speeds.at({2}) == doctest::Approx(first.speeds.at({2}) / 2).epsilon(1e-12));
}

TEST_CASE("the cost is the billed time by the price, and its parts add up to it") {
  // Restart: one of two is lost at 20 s and back at 25 s; nobody trains until the job has restarted.
  Json scenario = ring(2, 10'000);
  scenario["training"]["recovery"] = {{"lost_worker", "restart"}, {"restart_time", "3s"}};
  const RunOutcome run = runs_of(replayed(scenario, Json{{20.0, "remove", "n1"}, {25.0, "add", "m"}}), 1).runs[0];
  REQUIRE(run.is_finished);
  REQUIRE(run.cost_usd);
  CHECK(run.time_s == doctest::Approx(28 + 10'000 * ring_step(2)).epsilon(1e-6));
  CHECK(run.cost_usd->total() == doctest::Approx(2 * run.time_s - 5).epsilon(1e-9));
  CHECK(run.interruptions.stopped.value() == doctest::Approx(8).epsilon(1e-6));
  CHECK(run.cost_usd->idle == doctest::Approx(8 + 3).epsilon(1e-6));  // the survivor, and the newcomer
  CHECK(run.cost_usd->servers == 0);
  CHECK(run.cost_usd->startup == 0);

  // Asynchronous: a server is paid for throughout, a worker while it is there.
  const RunOutcome other =
      runs_of(replayed(asynchronous(3, 30'000), Json{{10.0, "remove", "n2"}, {16.0, "add", "m"}}), 1).runs[0];
  REQUIRE(other.is_finished);
  CHECK(other.cost_usd->servers == doctest::Approx(other.time_s).epsilon(1e-9));
  CHECK(other.cost_usd->workers == doctest::Approx(3 * other.time_s - 6).epsilon(1e-9));
  CHECK(other.cost_usd->idle == 0);
}

TEST_CASE("machines draw what they do in one simulation while they train, and rest while they wait") {
  Json json = ring(4, 20'000);
  json["cluster"]["groups"][0]["instance"]["accelerator"].update(
      {{"power", "200W"}, {"process_nm", 16}, {"memory_kind", "GDDR6"}});
  json["cluster"]["electricity"] = {{"pue", 1.5}, {"gco2_per_kwh", 100}};
  const Scenario alone = test::resolved(json);
  const RunRecord record = simulate(alone);
  const Summary summary = summarize(alone, record);
  REQUIRE(summary.energy);
  const MonteCarlo many = run_monte_carlo(alone, {.runs = 2});
  CHECK(*many.runs[1].energy_j == doctest::Approx(summary.energy->node_j).epsilon(1e-3));
  const Json told = to_json(alone, many, {});
  CHECK(told["energy_kwh"].get<double>() == doctest::Approx(1.5 * *many.runs[0].energy_j / 3.6e6));
  CHECK(told["mean"]["co2_kg"].get<double>() == doctest::Approx(told["mean"]["energy_kwh"].get<double>() / 10));
  // Each run: all that is rented at rest, and what is above rest for as long as somebody trains.
  const Scenario spot = test::resolved(revocable(json, "40s"));
  const MonteCarlo revoked = run_monte_carlo(spot, {.runs = 20});
  double rest = 0;
  for (const Machine& machine : record.machines) rest += rest_power(alone, machine);
  const double training = summary.energy->all_power_w;
  REQUIRE(training > rest);
  for (const RunOutcome& run : revoked.runs) {
    CHECK(*run.energy_j < training * run.time_s);
    CHECK(*run.energy_j > rest * (run.time_s - run.interruptions.stopped.value()) * 0.75);
  }
  const MonteCarlo unknown = run_monte_carlo(test::resolved(ring(4, 1000)), {.runs = 2});
  CHECK_FALSE(unknown.runs[0].energy_j);
  CHECK_FALSE(energy_percentiles(unknown));
}

TEST_CASE("spares are paid for from the start to the end, and what the time was for is said in shares") {
  Json scenario = ring(2, 2000);
  scenario["training"]["checkpoint"] = {{"every_steps", 100}, {"fixed_time", "1s"}, {"rate", "1GBps"}};
  scenario["training"]["recovery"] = {{"lost_worker", "restart"}, {"timeout", "1s"}, {"restart_time", "1s"}};
  const MonteCarlo without = runs_of(scenario, 2);
  scenario["cluster"]["groups"][0]["faults"] = {
      {"machine_mtbf", "1000000h"}, {"repair_share", 1}, {"repair_time", "1h"}, {"spares", 3}};
  const MonteCarlo with = runs_of(scenario, 2);
  // Machines at 1 USD a second, none of which fails; three wait.
  CHECK(with.runs[1].cost_usd->total() == doctest::Approx(without.runs[1].cost_usd->total() * 5 / 2).epsilon(1e-9));
  CHECK(with.runs[1].cost_usd->idle == doctest::Approx(3 * with.runs[1].time_s).epsilon(1e-9));
  const Json json = to_json(test::resolved(scenario), with, {});
  const double trained = 2000 * ring_step(2);
  CHECK(json["goodput"].get<double>() ==
        doctest::Approx(trained / (trained + 19 * (1 + 9.6e6 / 4 / 1e9))).epsilon(0.001));
  CHECK(json["mean"]["faults"] == 0);

  scenario["cluster"]["groups"][0]["faults"]["machine_mtbf"] = "60s";
  scenario["cluster"]["groups"][0]["faults"]["repair_time"] = "10s";
  const Json failing = to_json(test::resolved(scenario), runs_of(scenario, 20), {});
  double sum = failing["goodput"].get<double>();
  for (const auto& [cause, share] : failing["lost_time"].items()) {
    CAPTURE(cause);
    sum += share.get<double>();
    if (cause != "waiting") CHECK(share.get<double>() > 0);
  }
  CHECK(sum == doctest::Approx(1).epsilon(1e-12));
  CHECK(failing["mean"]["faults"].get<double>() > 0);
}

TEST_CASE("the probability of being in time is a share of the runs, and cost percentiles are theirs") {
  const MonteCarlo result = runs_of(revocable(ring(4, 20'000), "100s"), 40);
  std::vector<double> times, costs;
  for (const RunOutcome& run : result.runs) times.push_back(run.time_s), costs.push_back(run.cost_usd->total());
  std::sort(times.begin(), times.end());
  std::sort(costs.begin(), costs.end());
  REQUIRE(times.front() < times.back());
  CHECK(probability_by(result, Seconds{times.front() - 1e-6}) == 0);
  CHECK(probability_by(result, Seconds{times[9]}) ==
        static_cast<double>(std::upper_bound(times.begin(), times.end(), times[9]) - times.begin()) / 40);
  CHECK(probability_by(result, Seconds{times.back()}) == 1);
  CHECK(time_percentiles(result).p50 == doctest::Approx((times[19] + times[20]) / 2).epsilon(1e-12));
  CHECK(cost_percentiles(result)->p50 == doctest::Approx((costs[19] + costs[20]) / 2).epsilon(1e-12));
}

TEST_CASE("runs that are shorter than what a provider bills at least say so, others do not") {
  for (const auto& [provider, steps, is_said] :
       {std::tuple{"aws", 100, true}, {"own", 100, false}, {"aws", 200'000, false}}) {
    Json scenario = revocable(ring(4, steps), "100000s");
    scenario["cluster"]["groups"][0]["instance"]["provider"] = provider;
    CHECK(remark_on_billing(test::resolved(scenario), runs_of(scenario, 3)).has_value() == is_said);
  }
}

TEST_CASE("more revocations take longer") {
  double before = 0;
  for (const char* mean : {"10000s", "300s", "60s"}) {
    const MonteCarlo result = runs_of(revocable(ring(4, 20'000), mean), 60);
    CHECK(time_percentiles(result).p50 >= before);
    before = time_percentiles(result).p50;
  }
  CHECK(before > 1.05 * 20'000 * ring_step(4));
}

TEST_CASE("with a loss as the target a step of fewer workers counts more, as the convergence model says") {
  // loss = 1000 sqrt(n) / (j + 100) + 0.5. To 0.6 four workers take 1000 * 2 / 0.1 - 100 updates; with two, each
  // update counts sqrt(4 / 2) as much.
  Json scenario = asynchronous(4, 1000);
  scenario["workload"]["convergence"] = {{"offset", 100},   {"batch_slope", 0},         {"batch_intercept", 1000},
                                         {"floor", 0.5},    {"weighted_batch", {1, 1}}, {"workers", {1, 4}},
                                         {"source", "test"}};
  const auto speed = [&](int machines) {
    Json some = scenario;
    some["cluster"]["groups"][0]["count"] = machines;
    return test::simulated(some)["steps_per_s"].get<double>();
  };
  scenario["training"]["target"] = {{"loss", 0.6}};
  constexpr double kUpdates = 19'900, kLost = 6;
  const RunOutcome run = runs_of(replayed(scenario, Json{{kLost, "remove", "n2"}, {kLost, "remove", "n3"}}), 1).runs[0];
  REQUIRE(run.is_finished);
  const double left = kUpdates - kLost * speed(4);
  REQUIRE(left > 0);
  CHECK(run.time_s == doctest::Approx(kLost + left / (speed(2) * std::sqrt(2))).epsilon(1e-3));

  scenario["training"]["target"] = {{"loss", std::nextafter(0.5, 1)}};  // 1.8e19 updates
  CHECK_THROWS_WITH_AS((void)runs_of(scenario, 1), doctest::Contains("updates: expected at most 1e18 samples"),
                       NoResultError);

  // A number of samples takes as long as there are samples.
  scenario["training"]["target"] = {{"samples", kUpdates}};
  CHECK(runs_of(replayed(scenario, Json{{kLost, "remove", "n2"}, {kLost, "remove", "n3"}}), 1).runs[0].time_s ==
        doctest::Approx(kLost + left / speed(2)).epsilon(1e-3));
}

TEST_CASE("with fewer machines the rest of the samples is left, as message by message, in each way to go on") {
  // Four samples take 3 ms. Two of four machines are lost at 10 s and noticed 1 s later.
  Json scenario = ring(4, 20'000);
  scenario["workload"]["batch_per_worker"] = 4;
  scenario["workload"]["model"]["structure"].update({{"batch", 4}, {"scales_with_batch", true}});
  scenario["training"]["recovery"] = {{"timeout", "1s"}};
  scenario = replayed(scenario, Json{{10.0, "remove", "n2"}, {10.0, "remove", "n3"}});
  const double left = 20'000 - std::floor(10 / ring_step(4));
  const double exchange = ring_step(2) - 3e-3;
  const std::vector<std::pair<std::string, double>> ways{{"keeps_batch_per_worker", 2 * left * ring_step(2)},
                                                         {"larger_shares", left * (6e-3 + exchange)},
                                                         {"accumulates", left * (6e-3 + exchange)}};
  for (const auto& [way, rest] : ways) {
    CAPTURE(way);
    scenario["training"]["smaller_cluster"] = way;
    const MonteCarlo result = runs_of(scenario, 1);
    REQUIRE(result.runs[0].is_finished);
    CHECK(result.samples == 20'000 * 16);
    CHECK(result.runs[0].samples.done == 20'000 * 16);
    CHECK(result.runs[0].time_s == doctest::Approx(11 + rest).epsilon(1e-6));
    CHECK(result.runs[0].time_s == doctest::Approx(test::simulated(scenario)["time_s"].get<double>()).epsilon(1e-6));
  }
}

TEST_CASE("a run that does not end takes for ever: percentiles that it reaches are null") {
  // Nobody replaces the only machine: the job ends with probability exp(-length / mean), here exp(-1).
  Json scenario = revocable(ring(1, 1000), "3s");
  scenario["cluster"]["groups"][0]["replacement"] = {{"with", "none"}};
  const MonteCarlo result = runs_of(scenario, 2000);
  const auto finished = static_cast<double>(
      std::count_if(result.runs.begin(), result.runs.end(), [](const RunOutcome& run) { return run.is_finished; }));
  CHECK(std::abs(finished / 2000 - std::exp(-1)) < 0.04);  // 3.7 standard deviations
  CHECK(probability_by(result, Seconds{1e9}) == finished / 2000);
  const Json json = to_json(test::resolved(scenario), result, {});
  CHECK(json["finished"] == finished);
  CHECK(json["time_s_p5"].get<double>() == doctest::Approx(3).epsilon(1e-9));
  CHECK(json["time_s"].is_null());
  CHECK(json["time_s_p95"].is_null());
  CHECK_FALSE(json.contains("deadline_probability"));
}

TEST_CASE("a run that is given up costs at least what it has cost, and so do means, which say so") {
  // Two machines at a dollar a second. Without checkpoints work of w seconds takes (exp(w / m) - 1) m with a mean m
  // between losses, and a restart of no time: 30 s of work with m = 10 s take 191 s in the mean.
  Json scenario = revocable(ring(2, static_cast<int>(30 / ring_step(2))), "20s");
  scenario["training"]["recovery"] = {{"lost_worker", "restart"}, {"restart_time", "0s"}, {"timeout", "0s"}};
  const auto given_up_after = [&](const char* limit) {
    scenario["training"]["recovery"]["give_up_after"] = limit;
    return runs_of(scenario, 1500);
  };
  const MonteCarlo whole = given_up_after("100000s"), cut = given_up_after("150s");
  CHECK(unfinished_runs(whole) == 0);
  CHECK_FALSE(remark_on_unfinished(whole));
  const auto json_of = [&](const MonteCarlo& result) { return to_json(test::resolved(scenario), result, {}); };
  CHECK(json_of(whole)["mean"]["time_s"].get<double>() == doctest::Approx((std::exp(3) - 1) * 10).epsilon(0.1));
  CHECK_FALSE(json_of(whole)["means_are_lower_bounds"].get<bool>());
  for (std::size_t i = 0; i < cut.runs.size(); ++i) {
    const RunOutcome &early = cut.runs[i], &late = whole.runs[i];
    CHECK(early.is_finished == (late.time_s <= 150));
    CHECK(early.time_s == std::min(late.time_s, 150.0));
    if (early.is_finished)
      CHECK(early.cost_usd->total() == late.cost_usd->total());
    else
      CHECK(early.cost_usd->total() <= late.cost_usd->total());
  }
  const Json json = json_of(cut);
  const std::size_t unfinished = unfinished_runs(cut);
  REQUIRE(unfinished > 450);
  REQUIRE(unfinished < 750);
  CHECK(json["unfinished"] == unfinished);
  CHECK(json["finished"] == 1500 - unfinished);
  CHECK(json["given_up_after_s"] == 150.0);
  CHECK(json["means_are_lower_bounds"] == true);
  CHECK(json["mean"]["cost_usd"].get<double>() < json_of(whole)["mean"]["cost_usd"].get<double>());
  CHECK(json["time_s"].is_number());
  CHECK(json["time_s_p95"].is_null());  // as the cost, which grows with time
  CHECK(json["cost_usd"].is_number());
  CHECK(json["cost_usd_p95"].is_null());
  CHECK(json["warnings"].back().get<std::string>().starts_with(std::to_string(unfinished) +
                                                               " of 1500 runs had not finished after 0.001736 days"));
  // Less than 30 of the 150 s are not lost again, and restarts take no time.
  const std::string remark = *remark_on_unfinished(cut), before = "nobody trained in 0.0 % of their time, and ";
  REQUIRE(remark.find(before) != std::string::npos);
  const double lost = std::stod(remark.substr(remark.find(before) + before.size()));
  CHECK(lost > 80);
  CHECK(lost < 100);
}

TEST_CASE("runs are given up after 60 days, ten times their work, or the deadline, unless the scenario says when") {
  Json scenario = revocable(ring(2, 1000), "20s");
  constexpr double kDay = 86400;
  const auto limit = [&](std::optional<Seconds> deadline) {
    return run_monte_carlo(test::resolved(scenario), {.runs = 1, .deadline = deadline, .pool = 1})
               .gives_up_after.value() /
           kDay;
  };
  CHECK(limit({}) == 60);
  CHECK(limit(Seconds{50 * kDay}) == 60);
  CHECK(limit(Seconds{90 * kDay}) == 90);
  scenario["training"]["recovery"] = {{"give_up_after", "24h"}};
  CHECK(limit({}) == 1);
  CHECK(limit(Seconds{90 * kDay}) == 1);
  scenario["training"].erase("recovery");
  scenario["training"]["steps"] = 1'000'000;  // of 1.728 s more: 20 days of work
  scenario["workload"]["model"]["structure"]["layers"][0]["forward"] = "1.728s";
  scenario["cluster"]["groups"][0].erase("spot_pool");
  scenario["cluster"]["groups"][0]["market"] = "on-demand";
  CHECK(limit({}) == doctest::Approx(200).epsilon(0.01));
}

TEST_CASE("another executor gives the same runs") {
  const Scenario scenario = test::resolved(revocable(asynchronous(3, 4000), "40s"));
  std::vector<std::string> texts;
  const MonteCarlo own = run_monte_carlo(scenario, {.runs = 7, .pool = 2});
  const MonteCarlo other = run_monte_carlo(scenario, {.runs = 7, .pool = test::reversed_pool(texts)});
  CHECK(runs_csv(other) == runs_csv(own));
  CHECK(to_json_text(to_json(scenario, other, {})) == to_json_text(to_json(scenario, own, {})));
  std::set<std::string> verbs;
  for (const std::string& text : texts) verbs.insert(Json::parse(text)["verb"].get<std::string>());
  CHECK(verbs == std::set<std::string>{"membership", "trajectories"});
}

}  // namespace rehearse::monte_carlo_test
