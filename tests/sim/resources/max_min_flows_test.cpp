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
  double cap = kEndless;
};

/// Max-min fair rates by filling all flows from nothing, link by link: slow and plain.
std::map<MaxMinFlows::FlowIndex, double> filled(const std::vector<double>& capacities,
                                                const std::map<MaxMinFlows::FlowIndex, KnownFlow>& flows) {
  std::map<MaxMinFlows::FlowIndex, double> rates;
  std::vector<double> left = capacities;
  while (rates.size() < flows.size()) {
    double lowest = kEndless;
    for (std::size_t l = 0; l < left.size(); ++l) {
      int count = 0;
      for (const auto& [id, flow] : flows)
        if (!rates.contains(id)) count += static_cast<int>(std::count(flow.links.begin(), flow.links.end(), l));
      if (count > 0) lowest = std::min(lowest, left[l] / count);
    }
    for (const auto& [id, flow] : flows)
      if (!rates.contains(id)) lowest = std::min(lowest, flow.cap);
    std::map<MaxMinFlows::FlowIndex, double> frozen;
    for (const auto& [id, flow] : flows) {
      if (rates.contains(id)) continue;
      bool is_limited = flow.cap <= lowest * (1 + 1e-12);
      for (const int l : flow.links) {
        int count = 0;
        for (const auto& [other, known] : flows)
          if (!rates.contains(other)) count += static_cast<int>(std::count(known.links.begin(), known.links.end(), l));
        is_limited = is_limited || left[static_cast<std::size_t>(l)] / count <= lowest * (1 + 1e-12);
      }
      if (is_limited) frozen[id] = lowest;
    }
    for (const auto& [id, rate] : frozen) {
      rates[id] = rate;
      for (const int l : flows.at(id).links) left[static_cast<std::size_t>(l)] -= rate;
    }
  }
  return rates;
}

}  // namespace

TEST_CASE("flows that start and end at random have the rates that filling everything anew gives") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    Rng random{seed, "flows"};
    std::vector<double> capacities;
    const int links = 3 + static_cast<int>(random.below(12));
    for (int l = 0; l < links; ++l) capacities.push_back(1 + static_cast<double>(random.below(5)));
    MaxMinFlows flows{capacities};
    std::map<MaxMinFlows::FlowIndex, KnownFlow> known;
    double now = 0;
    for (int step = 0; step < 150; ++step) {
      const auto action = random.below(10);
      if (action < 6 || known.empty()) {
        KnownFlow flow;
        for (int l = 0; l < links; ++l)
          if (random.below(4) == 0) flow.links.push_back(l);
        if (flow.links.empty()) flow.links.push_back(0);
        if (flow.links.size() > MaxMinFlows::kMaxLinks) flow.links.resize(MaxMinFlows::kMaxLinks);
        if (random.below(5) == 0) flow.cap = 0.1 + random.uniform();
        known[flows.start(flow.links, 1 + 10 * random.uniform(), flow.cap)] = flow;
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
        for (const auto flow : ended) known.erase(flow);
      }
      (void)flows.next_completion(now);
      CHECK(flows.live() == known.size());
      for (const auto& [id, rate] : filled(capacities, known))
        CHECK(flows.rate(id) == doctest::Approx(rate).epsilon(1e-9));
    }
  }
}

TEST_CASE("every byte is carried: the integral of a flow's rate until it ends is its size") {
  Rng random{7, "bytes"};
  MaxMinFlows flows{{3, 2, 5, 1}};
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
