#include "platforms/fleet.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "platforms/fleet_trace.hpp"
#include "sim/base/random.hpp"

namespace rehearse {

namespace {

using Kind = FleetEvent::Kind;

SpotPool pool_of(double mean_s, double notice_s = 0) {
  return {
      .name = "pool", .lifetime = {.law = {Distribution{Exponential{Seconds{mean_s}}}}}, .notice = Seconds{notice_s}};
}

/// Every machine lives exactly so long.
SpotPool pool_of_age(double age_s, double notice_s = 0) {
  SpotPool pool = pool_of(1e9, notice_s);
  pool.lifetime.cap = Seconds{age_s};
  return pool;
}

std::vector<FleetEvent> events_until(Fleet& fleet, double end_s) {
  std::vector<FleetEvent> events;
  while (const auto event = fleet.next()) {
    if (event->at.value() > end_s) break;
    events.push_back(*event);
  }
  return events;
}

/// What must hold whatever happens.
void require_sound(const std::vector<FleetGroup>& groups, Fleet& fleet, const std::vector<FleetEvent>& events) {
  struct Slot {
    std::size_t group = 0;
    bool is_running = false, is_requested = false, is_announced = false;
    Seconds announced_at{};
  };
  std::vector<Slot> slots;
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (int i = 0; i < groups[g].slots; ++i)
      slots.push_back({.group = g, .is_running = fleet.runs_at_start(static_cast<int>(slots.size()))});
  REQUIRE(static_cast<int>(slots.size()) == fleet.slots());
  Seconds last{};
  for (const FleetEvent& event : events) {
    REQUIRE(event.at >= last);
    last = event.at;
    Slot& slot = slots.at(static_cast<std::size_t>(event.slot));
    const FleetGroup& group = groups[slot.group];
    switch (event.kind) {
      case Kind::kRequested:
        REQUIRE(!slot.is_requested);
        REQUIRE((!slot.is_running || (slot.is_announced && group.requests_at_notice)));
        slot.is_requested = true;
        break;
      case Kind::kRunning:
        REQUIRE(!slot.is_running);
        REQUIRE(slot.is_requested);
        slot = {.group = slot.group, .is_running = true};
        break;
      case Kind::kNotice:
        REQUIRE(slot.is_running);
        REQUIRE(!slot.is_announced);
        REQUIRE(group.pool);
        REQUIRE(group.pool->notice > Seconds{});
        slot.is_announced = true;
        slot.announced_at = event.at;
        break;
      case Kind::kRevoked:
        REQUIRE(slot.is_running);
        REQUIRE(group.pool);
        REQUIRE(slot.is_announced == (group.pool->notice > Seconds{}));
        if (slot.is_announced) REQUIRE((event.at - slot.announced_at).value() <= group.pool->notice.value() + 1e-6);
        slot.is_running = slot.is_announced = false;
        break;
      case Kind::kFailed:
      case Kind::kBroken:
        FAIL("no group here has faults");
    }
  }
}

}  // namespace

TEST_CASE("a machine of known life is announced, revoked, requested and running again") {
  Fleet fleet{{{.slots = 1, .pool = pool_of_age(100, 30), .replaced_by = 0, .replacement_delay = Seconds{10}}}, 0, 1};
  const std::vector<FleetEvent> expected{{Seconds{70}, 0, Kind::kNotice},     {Seconds{100}, 0, Kind::kRevoked},
                                         {Seconds{110}, 0, Kind::kRequested}, {Seconds{110}, 0, Kind::kRunning},
                                         {Seconds{180}, 0, Kind::kNotice},    {Seconds{210}, 0, Kind::kRevoked}};
  CHECK(events_until(fleet, 215) == expected);
}

TEST_CASE("a replacement requested at the notice starts when its predecessor is gone, or when it is ready") {
  const Distribution zero{Exponential{Seconds{1e-9}}};
  for (const double boot : {5.0, 50.0}) {
    const Startup startup{zero, zero, {Exponential{Seconds{1e-9}}, Seconds{boot}}};
    Fleet fleet{
        {{.slots = 1, .pool = pool_of_age(100, 30), .startup = startup, .replaced_by = 0, .requests_at_notice = true}},
        0,
        1};
    const auto events = events_until(fleet, 130);
    REQUIRE(events.size() == 4);
    CHECK(events[0].kind == Kind::kNotice);
    CHECK(events[1].kind == Kind::kRequested);
    CHECK(events[1].at == Seconds{70});
    CHECK(events[2].kind == Kind::kRevoked);
    CHECK(events[3].kind == Kind::kRunning);
    CHECK(events[3].at.value() == doctest::Approx(std::max(100.0, 70 + boot)));
  }
}

TEST_CASE("machines of a replay come and go as recorded, and are replaced by those of another group") {
  const FleetTrace trace{
      .events = {
          {Seconds{0}, true, "a"}, {Seconds{0}, true, "b"}, {Seconds{50}, false, "b"}, {Seconds{80}, true, "c"}}};
  for (const bool requests_at_notice : {false, true}) {
    Fleet fleet{{{.slots = 2,
                  .replay = std::make_shared<const FleetReplay>(trace, 2, Seconds{}, Seconds{20}),
                  .replaced_by = 1,
                  .replacement_delay = Seconds{5},
                  .requests_at_notice = requests_at_notice},
                 {.slots = 1, .is_standby = true}},
                0,
                1};
    CHECK(fleet.runs_at_start(0));
    CHECK(fleet.runs_at_start(1));
    CHECK_FALSE(fleet.runs_at_start(2));
    const Seconds asked{requests_at_notice ? 35.0 : 55.0};
    std::vector<FleetEvent> expected{{Seconds{30}, 1, Kind::kNotice},
                                     {Seconds{50}, 1, Kind::kRevoked},
                                     {asked, 2, Kind::kRequested},
                                     {asked, 2, Kind::kRunning},
                                     {Seconds{80}, 1, Kind::kRunning}};
    if (requests_at_notice) std::rotate(expected.begin() + 1, expected.begin() + 2, expected.begin() + 4);
    CHECK(events_until(fleet, 1e6) == expected);
  }
}

TEST_CASE("a notice longer than the life comes when the machine starts") {
  Fleet fleet{{{.slots = 1, .pool = pool_of_age(10, 120)}}, 0, 1};
  const std::vector<FleetEvent> expected{{Seconds{0}, 0, Kind::kNotice}, {Seconds{10}, 0, Kind::kRevoked}};
  CHECK(events_until(fleet, 1e6) == expected);
}

TEST_CASE("without replacement each machine is revoked once, and then nothing happens any more") {
  Fleet fleet{{{.slots = 20, .pool = pool_of(3600)}, {.slots = 3}}, 0, 7};
  const auto events = events_until(fleet, 1e12);
  CHECK(events.size() == 20);
  CHECK_FALSE(fleet.next());
}

TEST_CASE("bulk revocations end with the last machine that they could hit") {
  SpotPool pool = pool_of(1e9);
  pool.bulk = BulkRevocations{.interval = {Exponential{Seconds{600}}}, .share_a = 1, .share_b = 1};
  Fleet fleet{{{.slots = 8, .pool = pool, .zone = "a"}, {.slots = 1}}, 0, 7};
  CHECK(events_until(fleet, 1e15).size() == 8);
  CHECK_FALSE(fleet.next());
}

TEST_CASE("revocations of exponential lives come as often as the mean says") {
  // 50 slots, mean life 1 h, replaced at once: 50 revocations an hour
  Fleet fleet{{{.slots = 50, .pool = pool_of(3600), .replaced_by = 0}}, 0, 3};
  int revoked = 0;
  for (const FleetEvent& event : events_until(fleet, 400 * 3600.0)) revoked += event.kind == Kind::kRevoked;
  CHECK(revoked / 400.0 == doctest::Approx(50).epsilon(0.02));
}

TEST_CASE("machines of one zone and pool go together, those of another zone do not") {
  SpotPool pool = pool_of(1e9);
  pool.bulk = BulkRevocations{.interval = {Exponential{Seconds{3600}}}, .share_a = 50, .share_b = 0.05};  // nearly all
  const FleetGroup a{.slots = 4, .pool = pool, .zone = "a", .replaced_by = 0};
  FleetGroup same = a, other = a;
  same.replaced_by = 1;
  other.zone = "b";
  other.replaced_by = 2;
  Fleet fleet{{a, same, other}, 0, 5};
  std::map<double, std::vector<int>> at;
  for (const FleetEvent& event : events_until(fleet, 100 * 3600.0))
    if (event.kind == Kind::kRevoked) at[event.at.value()].push_back(event.slot);
  REQUIRE(at.size() > 50);
  double hit = 0;
  for (const auto& [date, slots] : at) {
    const bool is_first_zone = slots.front() < 8;
    for (const int slot : slots) CHECK((slot < 8) == is_first_zone);
    hit += static_cast<double>(slots.size()) / (is_first_zone ? 8 : 4) / static_cast<double>(at.size());
  }
  CHECK(hit > 0.95);
}

TEST_CASE("the share of a bulk revocation is that of the machines hit") {
  SpotPool pool = pool_of(1e9);
  pool.bulk = BulkRevocations{.interval = {Exponential{Seconds{3600}}}, .share_a = 2, .share_b = 3};  // mean 16/35
  Fleet fleet{{{.slots = 100, .pool = pool, .replaced_by = 0}}, 0, 5};
  double hours = 4000, lost = 0;
  for (const FleetEvent& event : events_until(fleet, hours * 3600)) lost += event.kind == Kind::kRevoked;
  CHECK(lost / 100 / hours == doctest::Approx(16.0 / 35).epsilon(0.05));
}

TEST_CASE("during an outage the zone gives no machine") {
  SpotPool pool = pool_of(1e9);
  pool.bulk = BulkRevocations{.interval = {Exponential{Seconds{36000}}},
                              .share_a = 1,
                              .share_b = 1,
                              .outage = TimeLaw{Distribution{Exponential{Seconds{1e-6}}, Seconds{1800}}}};
  Fleet fleet{{{.slots = 6, .pool = pool, .replaced_by = 0}}, 0, 9};
  std::map<int, Seconds> gone;
  int back = 0;
  for (const FleetEvent& event : events_until(fleet, 1e6)) {
    if (event.kind == Kind::kRevoked) gone[event.slot] = event.at;
    if (event.kind != Kind::kRunning) continue;
    CHECK((event.at - gone.at(event.slot)).value() >= 1800 - 1e-6);
    ++back;
  }
  CHECK(back > 20);
}

TEST_CASE("waits for capacity delay the start") {
  SpotPool pool = pool_of_age(100);
  pool.wait = TimeLaw{Distribution{Exponential{Seconds{1e-9}}, Seconds{40}}};
  Fleet fleet{{{.slots = 1, .pool = pool, .replaced_by = 0}}, 0, 1};
  const auto events = events_until(fleet, 150);
  REQUIRE(events.size() == 3);
  CHECK(events[2].at.value() == doctest::Approx(140));
}

TEST_CASE("standby machines run only as replacements, within their quota, first come first served") {
  // four machines go at 100 s, the two standby slots take two; nobody is left to make room
  const std::vector<FleetGroup> groups{{.slots = 4, .pool = pool_of_age(100), .replaced_by = 1},
                                       {.slots = 2, .is_standby = true}};
  Fleet fleet{groups, 0, 1};
  const auto events = events_until(fleet, 1e6);
  CHECK(std::count_if(events.begin(), events.end(), [](const FleetEvent& e) { return e.kind == Kind::kRevoked; }) == 4);
  std::vector<int> started;
  for (const FleetEvent& event : events)
    if (event.kind == Kind::kRunning) started.push_back(event.slot);
  CHECK(started == std::vector<int>{4, 5});
}

TEST_CASE("a request that found no room is served when a machine of the quota goes") {
  const std::vector<FleetGroup> groups{{.slots = 2, .pool = pool_of_age(100), .replaced_by = 1},
                                       {.slots = 1, .is_standby = true, .pool = pool_of_age(1000)}};
  Fleet fleet{groups, 0, 1};
  std::vector<double> started;
  for (const FleetEvent& event : events_until(fleet, 1e6))
    if (event.kind == Kind::kRunning) started.push_back(event.at.value());
  CHECK(started == std::vector<double>{100, 1100});
}

TEST_CASE("same seed, same events; another seed, others") {
  const auto run = [](std::uint64_t seed) {
    Fleet fleet{{{.slots = 5, .pool = pool_of(3600, 30), .replaced_by = 0}}, 0, seed};
    return events_until(fleet, 86400);
  };
  CHECK(run(4) == run(4));
  CHECK(run(4) != run(5));
}

TEST_CASE("another slot moves no event of the others") {
  SpotPool pool = pool_of(3600, 30);
  pool.bulk = BulkRevocations{.interval = {Exponential{Seconds{7200}}}, .share_a = 1, .share_b = 2};
  const auto run = [&](int slots) {
    Fleet fleet{{{.slots = slots, .pool = pool, .zone = "z", .replaced_by = 0}}, 0, 8};
    std::vector<FleetEvent> events;
    for (const FleetEvent& event : events_until(fleet, 86400))
      if (event.slot < 5) events.push_back(event);
    return events;
  };
  CHECK(run(5) == run(9));
}

TEST_CASE("churn of factor 1 is none") {
  SpotPool pool = pool_of(3600, 30);
  pool.bulk = BulkRevocations{.interval = {Exponential{Seconds{7200}}}, .share_a = 1, .share_b = 2};
  pool.lifetime.start_share = 0.1;
  pool.lifetime.start_within = Seconds{300};
  pool.lifetime.cap = Seconds{9000};
  const auto run = [&](std::optional<Churn> churn) {
    pool.churn = churn;
    Fleet fleet{{{.slots = 5, .pool = pool, .zone = "z", .replaced_by = 0}}, 0, 8};
    return events_until(fleet, 5 * 86400.0);
  };
  const auto plain = run({}), same = run(Churn{1, Seconds{5000}, Seconds{700}});
  REQUIRE(plain.size() == same.size());
  REQUIRE(plain.size() > 500);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    CHECK(plain[i].slot == same[i].slot);
    CHECK(plain[i].kind == same[i].kind);
    CHECK(plain[i].at.value() == doctest::Approx(same[i].at.value()).epsilon(1e-9));
  }
}

TEST_CASE("in calm and churn a machine lives as long as the Markov chain says") {
  // hazard 1/h calm, 8/h in churn; calm 3 h, churn 1/2 h:  m_calm = (1 + m_churn / 3) / (1 + 1/3),
  // m_churn = (1 + 2 m_calm) / (8 + 2), so m_calm = 31/38 h, m_churn = 1/10 + 2/10 m_calm; it starts in churn with 1/7
  const double calm = 31.0 / 38, churn = 0.1 + 0.2 * calm, mean = (6 * calm + churn) / 7;
  SpotPool pool = pool_of(3600);
  pool.churn = Churn{8, Seconds{10800}, Seconds{1800}};
  constexpr int kFleets = 20'000;
  double sum = 0, again = 0;
  for (std::uint64_t seed = 0; seed < kFleets; ++seed) {
    Fleet fleet{{{.slots = 1, .pool = pool}}, 0, seed};
    const double age = fleet.next()->at.value() / 3600;
    sum += age / kFleets;
    again += age * age / kFleets;
  }
  CHECK(sum == doctest::Approx(mean).epsilon(4 * std::sqrt((again - sum * sum) / kFleets) / mean));
}

TEST_CASE("bulk revocations come as often as the mean factor of churn says, in spells") {
  // every 10 h in calm, of all machines; factor 11 in 1/5 of the time: 3 times as often. 4 h of churn are 4.4 of them.
  SpotPool pool = pool_of(1e9, 120);
  pool.bulk = BulkRevocations{.interval = {Exponential{Seconds{36000}}}, .share_a = 50, .share_b = 0.01};
  pool.churn = Churn{11, Seconds{16 * 3600.0}, Seconds{4 * 3600.0}};
  Fleet fleet{{{.slots = 3, .pool = pool, .zone = "z", .replaced_by = 0}}, 0, 3};
  constexpr double kHours = 40'000;
  std::map<int, int> in_window;  // of 4 h
  int hits = 0;
  for (const FleetEvent& event : events_until(fleet, kHours * 3600)) {
    if (event.kind != Kind::kRevoked || event.slot != 0) continue;
    ++hits;
    ++in_window[static_cast<int>(event.at.value() / 14400)];
  }
  CHECK(hits / kHours == doctest::Approx(3 / 10.0).epsilon(0.05));
  double squares = 0;
  for (const auto& [window, count] : in_window) squares += count * count;
  const double mean = hits / (kHours / 4);
  CHECK((squares / (kHours / 4) - mean * mean) / mean > 2);  // 1 of a Poisson process
}

TEST_CASE("machines of one zone share its churn, other zones have their own") {
  // Only in churn are machines lost, about 100 s after it began: both groups of zone a lose theirs in the same spells.
  SpotPool pool = pool_of(1e6);
  pool.churn = Churn{1e4, Seconds{100 * 3600.0}, Seconds{3600}};
  FleetGroup a{.slots = 2, .pool = pool, .zone = "a", .replaced_by = 0}, same = a, other = a;
  same.replaced_by = 1;
  other.replaced_by = 2;
  other.zone = "b";
  Fleet fleet{{a, same, other}, 0, 5};
  std::array<std::vector<int>, 3> hours;
  for (const FleetEvent& event : events_until(fleet, 3000 * 3600.0))
    if (event.kind == Kind::kRevoked) {
      auto& spells = hours[static_cast<std::size_t>(event.slot / 2)];
      if (const int hour = static_cast<int>(event.at.value() / 3600); spells.empty() || spells.back() != hour)
        spells.push_back(hour);
    }
  const auto common = [&](std::size_t i, std::size_t j) {
    std::vector<int> both;
    std::set_intersection(hours[i].begin(), hours[i].end(), hours[j].begin(), hours[j].end(), std::back_inserter(both));
    return static_cast<double>(both.size()) / static_cast<double>(std::min(hours[i].size(), hours[j].size()));
  };
  REQUIRE(hours[0].size() > 20);
  CHECK(common(0, 1) > 0.75);
  CHECK(common(0, 2) < 0.25);
}

TEST_CASE("more churn, more losses; the notice comes before them all the same") {
  int last = 0;
  for (const double factor : {1.0, 4.0, 16.0, 64.0}) {
    SpotPool pool = pool_of(200 * 3600.0, 120);
    pool.churn = Churn{factor, Seconds{400 * 3600.0}, Seconds{100 * 3600.0}};
    Fleet fleet{{{.slots = 10, .pool = pool, .replaced_by = 0}}, 0, 4};
    int lost = 0;
    std::map<int, Seconds> announced;
    for (const FleetEvent& event : events_until(fleet, 20'000 * 3600.0)) {
      if (event.kind == Kind::kNotice) announced[event.slot] = event.at;
      if (event.kind != Kind::kRevoked) continue;
      ++lost;
      CHECK(event.at - announced.at(event.slot) <= Seconds{120.001});
    }
    CHECK(lost > last);
    last = lost;
  }
}

TEST_CASE("whatever the groups: dates do not fall, slots alternate, quotas hold") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    Rng rng{seed, "random fleets"};
    std::vector<FleetGroup> groups(1 + rng.below(4));
    for (FleetGroup& group : groups) {
      group.slots = static_cast<int>(rng.below(6));
      group.is_standby = rng.below(3) == 0;
      if (rng.below(4) > 0) {
        group.pool = pool_of(std::exp(rng.uniform(0, 10)), rng.below(2) == 0 ? 0 : rng.uniform(0, 300));
        group.pool->name = rng.below(2) == 0 ? "p" : "q";
        if (rng.below(2) == 0)
          group.pool->bulk = BulkRevocations{.interval = {Exponential{Seconds{std::exp(rng.uniform(2, 9))}}},
                                             .share_a = rng.uniform(0.1, 3),
                                             .share_b = rng.uniform(0.1, 3)};
        if (rng.below(2) == 0) group.pool->wait = TimeLaw{Distribution{Exponential{Seconds{rng.uniform(0.1, 500)}}}};
        if (rng.below(3) == 0)
          group.pool->churn =
              Churn{std::exp(rng.uniform(0, 6)), Seconds{rng.uniform(60, 1e5)}, Seconds{rng.uniform(60, 1e4)}};
        if (rng.below(3) == 0) group.pool->lifetime.cap = Seconds{rng.uniform(1, 5000)};
      }
      if (rng.below(4) > 0) group.replaced_by = static_cast<int>(rng.below(groups.size()));
      if (rng.below(2) == 0) group.replacement_delay = Seconds{rng.uniform(0, 400)};
      group.requests_at_notice = rng.below(2) == 0;
      const Distribution stage{Exponential{Seconds{30}}};
      if (rng.below(2) == 0) group.startup = Startup{stage, stage, stage};
    }
    Fleet fleet{groups, rng.uniform(0, 1e5), seed};
    std::vector<FleetEvent> events;
    for (int i = 0; i < 500; ++i) {
      const auto event = fleet.next();
      if (!event) break;
      events.push_back(*event);
    }
    require_sound(groups, fleet, events);
  }
}

}  // namespace rehearse
