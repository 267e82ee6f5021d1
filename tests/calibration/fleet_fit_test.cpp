#include "calibration/fleet_fit.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "sim/base/csv.hpp"

namespace rehearse {

namespace {

FleetTrace read(const std::string& text) { return read_fleet_trace(parse_csv(text, "t.csv")); }

SpotPool exponential_pool(double life_s, double wait_s) {
  SpotPool pool;
  pool.lifetime.law = {Distribution{Exponential{Seconds{life_s}}}};
  pool.wait = TimeLaw{Distribution{Exponential{Seconds{wait_s}}, Seconds{60}}};
  return pool;
}

}  // namespace

TEST_CASE("what a probe sees of a trace of nodes") {
  const FleetTrace trace =
      read("time_s,event,node\n0,add,a\n0,add,b\n60,remove,a\n120,add,c\n300,remove,b\n300,remove,c\n600,add,d\n");
  CHECK(resolution_of(trace) == Seconds{60});
  CHECK(most_machines(trace) == 2);
  const FleetRecord record = observe(trace, Seconds{60}, 2);
  REQUIRE(record.losses.size() == 2);
  CHECK(record.losses[0].size == 1);
  CHECK(record.losses[0].before == 2);
  CHECK(record.losses[1].size == 2);
  // a lived 60 s, b 300 s, c 180 s; d came at the end
  REQUIRE(record.lives.size() == 3);
  CHECK(record.lives[0].high == Seconds{60});
  CHECK(record.lives[1].high == Seconds{300});
  CHECK(record.lives[2].high == Seconds{180});
  // 2 for 60 s, 1 for 60 s, 2 for 180 s, none for 300 s
  CHECK(record.mean_size == doctest::Approx((2 * 60 + 60 + 2 * 180) / 600.0));
  CHECK(record.time_with == std::vector<Seconds>{Seconds{300}, Seconds{60}, Seconds{240}});
  // a's place was empty from 60 to 120 s, b's from 300 to 600 s, c's until the end, when it is still
  REQUIRE(record.waits.size() == 3);
  CHECK(record.waits[0].high == Seconds{60});
  CHECK(record.waits[1].high == Seconds{300});
  CHECK(record.gaps == std::vector<Seconds>{Seconds{60}, Seconds{300}});
}

TEST_CASE("dates that differ by less than a billionth of a trace are one look") {
  const FleetTrace trace = read("time_s,event,node\n0,add,a\n1e-300,remove,a\n2e-300,add,b\n600,add,c\n");
  CHECK(resolution_of(trace).value() == doctest::Approx(600e-9));
  CHECK(observe(trace, resolution_of(trace), 2).lives.size() == 1);
}

TEST_CASE("what a probe sees of 100 000 machines takes no time that is quadratic") {
  constexpr int kMachines = 100'000;  // minutes if each is looked for among all
  FleetTrace trace{.events = {}, .end = Seconds{3 * 60}, .has_names = true};
  for (int i = 0; i < kMachines; ++i) trace.events.push_back({Seconds{60}, true, std::to_string(i)});
  for (int i = kMachines / 2; i-- > 0;) trace.events.push_back({Seconds{60}, false, std::to_string(i)});
  for (int i = kMachines; i-- > kMachines / 2 + 1;) trace.events.push_back({Seconds{120}, false, std::to_string(i)});
  const FleetRecord record = observe(trace, Seconds{60}, 2);
  REQUIRE(record.losses.size() == 1);
  CHECK(record.losses[0].before == kMachines / 2);
  CHECK(record.losses[0].size == kMachines / 2 - 1);
  CHECK(record.lives.size() == kMachines / 2);
}

TEST_CASE("who comes and goes between two looks is not seen") {
  const FleetTrace trace = read("time_s,event,node\n0,add,a\n70,add,b\n80,remove,b\n100,remove,a\n600,add,c\n");
  const FleetRecord record = observe(trace, Seconds{60}, 2);
  REQUIRE(record.lives.size() == 1);
  CHECK(record.lives[0].high == Seconds{120});
  CHECK(record.losses.size() == 1);
}

TEST_CASE("a simulated fleet has the mean size of its up- and down-times") {
  // 3000 s up, 60 + 940 s down: 3/4 of 40 machines
  const SpotPool pool = exponential_pool(3000, 940);
  const FleetRecord record = observe(simulate_fleet(pool, 40, Seconds{3e6}, false, 1), Seconds{60}, 40);
  CHECK(record.mean_size == doctest::Approx(30).epsilon(0.01));
}

TEST_CASE("up- and down-times of one machine are found again from its trace") {
  const SpotPool truth = exponential_pool(9000, 3000);
  const FleetTrace trace = simulate_fleet(truth, 1, Seconds{6e6}, true, 4);
  const FleetRecord record = observe(trace, Seconds{60}, 1);
  const FleetFit fit = fit_fleet(record, true);
  const FleetComparison likeness = compare(record, fit.pool, true, 20, 100);
  CHECK(likeness.life_distance < 0.05);
  CHECK(likeness.simulated_mean_size == doctest::Approx(record.mean_size).epsilon(0.03));
  CHECK(fit.pool.lifetime.survival(Seconds{9000}) == doctest::Approx(0.368).epsilon(0.1));
}

TEST_CASE("losses in spells are told from losses at a constant rate") {
  // in churn 15 losses an hour, in calm one in 10 h; calm for 10 h, churn for 2 h
  SpotPool pool = exponential_pool(1e9, 60);
  pool.bulk = BulkRevocations{.interval = {Exponential{Seconds{36000}}}, .share_a = 2, .share_b = 2};
  const auto evidence = [&] {
    return churn_evidence(observe(simulate_fleet(pool, 16, Seconds{2e6}, true, 4), Seconds{60}, 16));
  };
  pool.churn = Churn{150, Seconds{36000}, Seconds{7200}};
  const ChurnEvidence spells = evidence();
  CHECK(spells.churn_aic < spells.renewal_aic - 50);
  CHECK(spells.churn.churn_mean.value() == doctest::Approx(7200).epsilon(0.4));
  CHECK(spells.churn.calm_mean.value() == doctest::Approx(36000).epsilon(0.4));
  CHECK(spells.calm_interval / spells.churn.factor / Seconds{240} == doctest::Approx(1).epsilon(0.3));
  pool.churn.reset();
  pool.bulk->interval = {Exponential{Seconds{3600}}};
  const ChurnEvidence constant = evidence();
  CHECK(constant.churn_aic > constant.renewal_aic - 4);
}

TEST_CASE("a pool is like its own trace, another one is not") {
  SpotPool truth = exponential_pool(1e9, 600);
  truth.bulk = BulkRevocations{.interval = {Exponential{Seconds{3600}}}, .share_a = 0.8, .share_b = 2};
  const FleetRecord record = observe(simulate_fleet(truth, 16, Seconds{2e6}, true, 4), Seconds{60}, 16);
  const FleetComparison same = compare(record, truth, true, 20, 100);
  CHECK(same.life_distance < 0.06);
  CHECK(same.loss_size_distance < 0.06);
  SpotPool single = exponential_pool(9000, 600);
  CHECK(compare(record, single, true, 20, 100).loss_size_distance > 0.3);
}

TEST_CASE("sizes of losses are compared by their cumulative shares") {
  const auto losses = [](std::initializer_list<int> sizes) {
    std::vector<FleetLoss> result;
    for (const int size : sizes) result.push_back({Seconds{}, size, 10});
    return result;
  };
  CHECK(loss_size_distance(losses({1, 2, 4, 4}), losses({4, 2, 4, 1})) == 0);
  CHECK(loss_size_distance(losses({1, 1, 1, 4}), losses({1, 4})) == doctest::Approx(0.25));
  CHECK(loss_size_distance(losses({}), losses({1})) == 1);
}

TEST_CASE("a fleet of few losses, or whose machines never came back, gets the simpler law and says so") {
  const FleetTrace few =
      read("time_s,event,node\n0,add,a\n0,add,b\n0,add,c\n3600,remove,a\n7200,remove,b\n86400,add,d\n");
  const FleetFit fit = fit_fleet(observe(few, Seconds{600}, 3), true);
  CHECK_FALSE(fit.pool.bulk);
  CHECK(fit.life_values <= 2);
  CHECK(fit.life_law.ends_with(" (no bulk revocations: fewer losses than their 4 values)"));
  CHECK(fit.pool.lifetime.survival(Seconds{60}) > 0.5);

  std::string text = "time_s,event,node\n";
  for (int i = 0; i < 6; ++i) text += "0,add,n" + std::to_string(i) + "\n";
  for (int i = 0; i < 6; ++i) text += std::to_string(3600 * (i + 1)) + ",remove,n" + std::to_string(i) + "\n";
  const FleetFit gone = fit_fleet(observe(read(text), Seconds{600}, 6), true);
  CHECK_FALSE(gone.pool.bulk);
}

TEST_CASE("a fit ends with what on_step throws") {
  struct Stop {};
  const FleetTrace trace = simulate_fleet(exponential_pool(3600, 600), 4, Seconds{86400}, true, 1);
  int steps = 0;
  CHECK_THROWS_AS((void)fit_fleet(observe(trace, Seconds{60}, 4), true,
                                  [&] {
                                    if (++steps == 50) throw Stop{};
                                  }),
                  Stop);
  CHECK(steps == 50);
}

}  // namespace rehearse
