#include "sim/resources/max_min_flows.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "sim/base/random.hpp"

using namespace rehearse;

namespace {

constexpr double kEndless = MaxMinFlows::kNever;

struct KnownFlow {
  std::vector<int> links;
  double cap = kEndless, weight = 1;
};

/// Max-min fair rates by filling all flows from nothing, link by link: slow and plain.
std::map<MaxMinFlows::FlowIndex, double> filled(const std::vector<double>& capacities,
                                                const std::map<MaxMinFlows::FlowIndex, KnownFlow>& flows) {
  std::map<MaxMinFlows::FlowIndex, double> rates;
  std::vector<double> left = capacities;
  const auto weight_over = [&](int link) {
    double weight = 0;
    for (const auto& [id, flow] : flows)
      if (!rates.contains(id) && std::ranges::count(flow.links, link) > 0) weight += flow.weight;
    return weight;
  };
  while (rates.size() < flows.size()) {
    double lowest = kEndless;
    for (std::size_t l = 0; l < left.size(); ++l) {
      const double weight = weight_over(static_cast<int>(l));
      if (weight > 0) lowest = std::min(lowest, left[l] / weight);
    }
    for (const auto& [id, flow] : flows)
      if (!rates.contains(id)) lowest = std::min(lowest, flow.cap / flow.weight);
    std::map<MaxMinFlows::FlowIndex, double> frozen;
    for (const auto& [id, flow] : flows) {
      if (rates.contains(id)) continue;
      bool is_limited = flow.cap / flow.weight <= lowest * (1 + 1e-12);
      for (const int l : flow.links)
        is_limited = is_limited || left[static_cast<std::size_t>(l)] / weight_over(l) <= lowest * (1 + 1e-12);
      if (is_limited) frozen[id] = lowest * flow.weight;
    }
    for (const auto& [id, rate] : frozen) {
      rates[id] = rate;
      for (const int l : flows.at(id).links) left[static_cast<std::size_t>(l)] -= rate;
    }
  }
  return rates;
}

}  // namespace

TEST_CASE("flows that start and end at random have the rates that filling everything anew gives, in crowds or not") {
  std::size_t crowds = 0, taken_over = 0;
  std::vector<std::uint64_t> seeds{618, 712, 727, 736,
                                   776, 935, 1118};  // flows change places on a link, and their sum is the same
  for (std::uint64_t seed = 1; seed <= 80; ++seed) seeds.push_back(seed);
  for (const std::uint64_t seed : seeds) {
    CAPTURE(seed);
    Rng random{seed, "flows"};
    std::vector<double> capacities;
    const int links = 3 + static_cast<int>(random.below(30));
    for (int l = 0; l < links; ++l) capacities.push_back(1 + static_cast<double>(random.below(5)));
    const bool has_crowds = seed % 2 == 0;
    MaxMinFlows flows{capacities, {.flows = has_crowds ? std::size_t{2} : std::size_t{1000}, .solves = 0}};
    for (int l = 0; l < links; l += 2) flows.watch(l);
    std::map<MaxMinFlows::FlowIndex, KnownFlow> known;
    std::map<int, double> seen;  // of watched links
    // Few links of a flow leave most of them with a bottleneck that no other link of theirs is.
    const std::uint64_t spread = has_crowds ? 2 + random.below(12) : 4;
    double now = 0;
    for (int step = 0; step < 200; ++step) {
      const auto action = random.below(10);
      if (action < 6 || known.empty()) {
        KnownFlow flow;
        for (int l = 0; l < links; ++l)
          if (random.below(spread) == 0) flow.links.push_back(l);
        if (flow.links.empty()) flow.links.push_back(0);
        if (flow.links.size() > MaxMinFlows::kMaxLinks) flow.links.resize(MaxMinFlows::kMaxLinks);
        if (random.below(5) == 0) flow.cap = 0.1 + random.uniform();
        if (random.below(4) == 0) flow.weight = static_cast<double>(1 + random.below(4)) / 2;
        known[flows.start(flow.links, 1 + 10 * random.uniform(), flow.cap, flow.weight)] = flow;
      } else if (action < 7) {
        const auto chosen = std::next(known.begin(), static_cast<std::ptrdiff_t>(random.below(known.size())));
        flows.cancel(chosen->first);
        known.erase(chosen);
      } else if (action < 8) {
        const auto link = random.below(static_cast<std::uint64_t>(links));
        capacities[link] = 1 + static_cast<double>(random.below(5));
        flows.set_capacity(static_cast<int>(link), capacities[link]);
      } else {
        now = flows.next_completion(now);
        std::vector<MaxMinFlows::FlowIndex> ended;
        flows.pop_completed(now, ended);
        REQUIRE(!ended.empty());
        std::map<MaxMinFlows::FlowIndex, KnownFlow> over;
        for (const auto flow : ended) over.insert(known.extract(flow));
        for (auto& [place, flow] : over) {  // some are followed by others over the same links, which differ or not
          if (random.below(2) == 0) continue;
          if (random.below(4) == 0) flow.weight = 1.5;
          const auto next = flows.start(flow.links, 1 + 10 * random.uniform(), flow.cap, flow.weight, place);
          taken_over += next == place ? 1 : 0;
          known[next] = flow;
        }
      }
      (void)flows.next_completion(now);
      CHECK(flows.live() == known.size());
      crowds += flows.crowds();
      std::vector<double> used(capacities.size());
      for (const auto& [id, rate] : filled(capacities, known)) {
        CHECK(flows.rate(id) == doctest::Approx(rate).epsilon(1e-9));
        for (const int l : known.at(id).links) used[static_cast<std::size_t>(l)] += rate;
      }
      for (const std::uint32_t l : flows.take_changed()) seen[static_cast<int>(l)] = flows.used(l);
      for (int l = 0; l < links; ++l) {
        const auto link = static_cast<std::size_t>(l);
        CHECK(flows.used(static_cast<std::uint32_t>(l)) == doctest::Approx(used[link]).epsilon(1e-9).scale(1));
        if (l % 2 == 0) CHECK(seen[l] == doctest::Approx(used[link]).epsilon(1e-9).scale(1));
      }
    }
  }
  CHECK(crowds > 1000);
  CHECK(taken_over > 1000);
}

TEST_CASE("a flow that follows another one at once has its rate, and ends when its own bytes are carried") {
  MaxMinFlows flows{{4, 3, 4}};
  std::vector<MaxMinFlows::FlowIndex> ended;
  const auto first = flows.start(std::vector{0, 1}, 6, kEndless), other = flows.start(std::vector{1, 2}, 60, kEndless);
  CHECK(flows.next_completion(0) == 4);  // both have 1.5
  flows.pop_completed(4, ended);
  REQUIRE(ended == std::vector{first});
  CHECK(flows.live() == 1);
  CHECK(flows.is_idle(0));
  const auto second = flows.start(std::vector{0, 1}, 3, kEndless, 1, first);
  CHECK(second == first);
  CHECK_FALSE(flows.is_idle(0));
  CHECK(flows.next_completion(4) == 6);
  CHECK(flows.rate(other) == 1.5);
  flows.pop_completed(6, ended);
  CHECK(flows.next_completion(6) == 6 + (60 - 9) / 3.0);               // nobody follows
  CHECK(flows.start(std::vector{2}, 3, kEndless, 1, first) == first);  // its place is free, for any flow
  (void)flows.next_completion(6);
  CHECK(flows.used(0) == 0);
  CHECK(flows.used(2) == 4);
}

TEST_CASE("every byte is carried: the integral of a flow's rate until it ends is its size") {
  for (const std::size_t least : {std::size_t{1000}, std::size_t{2}}) {
    CAPTURE(least);
    Rng random{7, "bytes"};
    MaxMinFlows flows{{3, 2, 5, 1}, {.flows = least, .solves = 0}};
    std::map<MaxMinFlows::FlowIndex, double> left;
    double now = 0;
    int started = 0;
    while (started < 200 || !left.empty()) {
      if (started < 200) {
        const double bytes = 0.5 + random.uniform();
        left[flows.start(std::vector<int>{static_cast<int>(random.below(2)), 2 + static_cast<int>(random.below(2))},
                         bytes, kEndless)] = bytes;
        ++started;
      }
      const double next = flows.next_completion(now);
      const double until = started < 200 ? std::min(next, now + 0.1) : next;
      for (auto& [id, bytes] : left) bytes -= flows.rate(id) * (until - now);
      now = until;
      std::vector<MaxMinFlows::FlowIndex> ended;
      flows.pop_completed(now, ended);
      for (const auto id : ended) {
        CHECK(left.at(id) == doctest::Approx(0).epsilon(1e-9).scale(1));
        left.erase(id);
      }
    }
  }
}

TEST_CASE("flows that end together are handed back in the order in which they started") {
  MaxMinFlows flows{{1, 1, 1}};
  const auto a = flows.start(std::vector<int>{2}, 1, kEndless);
  const auto b = flows.start(std::vector<int>{0}, 1, kEndless);
  const auto c = flows.start(std::vector<int>{1}, 1, kEndless);
  CHECK(flows.next_completion(0) == 1.0);
  std::vector<MaxMinFlows::FlowIndex> ended;
  flows.pop_completed(1, ended);
  CHECK(ended == std::vector<MaxMinFlows::FlowIndex>{a, b, c});
}

TEST_CASE(
    "a crowd at one link goes on while its flows end one after another and others come, and ends with the link's "
    "capacity") {
  constexpr int kFlows = 100;
  std::vector<double> capacities(kFlows + 1, 10);
  capacities[0] = 1;
  MaxMinFlows flows{capacities, {.flows = 16, .solves = 0}};
  for (int f = 1; f <= kFlows; ++f) flows.start(std::vector<int>{0, f}, f, kEndless);
  double now = 0;
  std::vector<MaxMinFlows::FlowIndex> ended;
  // With the shortest first each byte of all that are left takes as long as there are flows.
  for (int f = 1; f <= kFlows; ++f) {
    now = flows.next_completion(now);
    CHECK(flows.crowds() == 1);
    double expected = 0;
    for (int g = 1; g <= f; ++g) expected += kFlows - g + 1;
    CHECK(now == doctest::Approx(expected).epsilon(1e-12));
    ended.clear();
    flows.pop_completed(now, ended);
    CHECK(ended.size() == 1);
  }
  CHECK(flows.next_completion(now) == MaxMinFlows::kNever);
  CHECK(flows.crowds() == 0);
  // Once another link is as narrow, the flow over it waits there, and the others have what it leaves.
  std::vector<MaxMinFlows::FlowIndex> all;
  for (int f = 1; f <= 40; ++f) all.push_back(flows.start(std::vector<int>{0, f}, 1, kEndless));
  (void)flows.next_completion(now);
  CHECK(flows.crowds() == 1);
  flows.set_capacity(1, 0.001);
  (void)flows.next_completion(now);
  CHECK(flows.rate(all[0]) == doctest::Approx(0.001).epsilon(1e-12));
  CHECK(flows.rate(all[1]) == doctest::Approx(0.999 / 39).epsilon(1e-12));
}
