// Jobs on shared links against closed forms and a simulation of random jobs that take turns.

#include "sim/queue/shared_links.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sim/base/random.hpp"

namespace rehearse {

namespace {

/// A job that computes, then sends over links, each of them for so long.
LinkUser user_of(double computes_s, const std::vector<LinkUser::Use>& uses) {
  double sends_s = 0;
  for (const LinkUser::Use& use : uses) sends_s = std::max(sends_s, use.alone_s);
  return {.uses = uses, .step_s = [computes_s, sends_s](double slowdown) { return computes_s + sends_s * slowdown; }};
}

/// One that sends while it computes.
LinkUser hidden_user(double computes_s, double sends_s) {
  return {.uses = {{.link = 0, .alone_s = sends_s}},
          .step_s = [computes_s, sends_s](double slowdown) { return std::max(computes_s, sends_s * slowdown); }};
}

/// Mean seconds of a step of each job, whose times are drawn (lognormal, 0.5 in the logarithm), on one link
/// that serves all equally.
std::vector<double> simulated(const std::vector<std::pair<double, double>>& jobs, double length) {
  struct State {
    bool sends = false;
    double left = 0;
    int steps = 0;
  };
  Rng rng{7, "links"};
  const auto draw = [&](double mean) { return mean * std::exp(0.5 * rng.normal() - 0.125); };
  std::vector<State> states;
  for (const auto& [computes, sends] : jobs) states.push_back({.left = draw(computes)});
  double now = 0;
  while (now < length) {
    const auto sending = static_cast<double>(std::ranges::count(states, true, &State::sends));
    double next = std::numeric_limits<double>::infinity();
    for (const State& state : states) next = std::min(next, state.left * (state.sends ? sending : 1));
    for (std::size_t i = 0; i < states.size(); ++i) {
      State& state = states[i];
      state.left -= next / (state.sends ? sending : 1);
      if (state.left > 1e-12) continue;
      state.steps += state.sends ? 1 : 0;
      state.sends = !state.sends;
      state.left = draw(state.sends ? jobs[i].second : jobs[i].first);
    }
    now += next;
  }
  std::vector<double> steps_s;
  for (const State& state : states) steps_s.push_back(now / state.steps);
  return steps_s;
}

}  // namespace

TEST_CASE("jobs that only send share a link equally, and its rate is what they send") {
  for (const std::size_t n : {1U, 2U, 3U, 20U}) {
    std::vector<LinkUser> users;
    for (std::size_t i = 0; i < n; ++i)
      users.push_back(user_of(0, {{.link = 5, .alone_s = 1 + static_cast<double>(i)}}));
    for (const double slowdown : slowdowns_on_links(users)) CHECK(slowdown == doctest::Approx(n).epsilon(1e-6));
  }
}

TEST_CASE("who shares with nobody, or hides all that it sends, loses nothing") {
  const std::vector<LinkUser> apart{user_of(1, {{.link = 0, .alone_s = 1}}), user_of(1, {{.link = 1, .alone_s = 1}}),
                                    user_of(1, {})};
  CHECK(slowdowns_on_links(apart) == std::vector<double>{1, 1, 1});
  const std::vector<LinkUser> hidden{hidden_user(10, 0.1), hidden_user(10, 0.1)};
  const std::vector<double> slowdowns = slowdowns_on_links(hidden);
  CHECK(slowdowns[0] > 1);
  CHECK(hidden[0].step_s(slowdowns[0]) == 10);
  const std::vector<LinkUser> full{hidden_user(1, 1), hidden_user(1, 1)};  // both always send
  CHECK(slowdowns_on_links(full)[0] == doctest::Approx(2).epsilon(1e-6));
}

TEST_CASE("two equal jobs that compute as long as they send take 2.5 for 2, by mean value analysis") {
  const std::vector<LinkUser> users{user_of(1, {{.link = 0, .alone_s = 1}}), user_of(1, {{.link = 0, .alone_s = 1}})};
  for (const double slowdown : slowdowns_on_links(users)) CHECK(slowdown == doctest::Approx(1.5).epsilon(1e-9));
}

TEST_CASE("several links: a job waits for its most contended one") {
  const LinkUser::Use first{.link = 0, .alone_s = 1}, second{.link = 1, .alone_s = 1};
  const std::vector<double> both =
      slowdowns_on_links(std::vector{user_of(1, {first, second}), user_of(1, {first, second})});
  CHECK(both[0] == doctest::Approx(1.5).epsilon(1e-9));
  const std::vector<double> chain = slowdowns_on_links(
      std::vector{user_of(1, {first}), user_of(1, {first, second}), user_of(1, {second}), user_of(1, {second})});
  CHECK(chain[1] == doctest::Approx(std::max(chain[1], chain[0])));
  CHECK(chain[1] >= both[0]);
  CHECK(chain[2] > chain[0]);
}

TEST_CASE("random jobs on one link: simulated steps are as long as the closed form says") {
  Rng rng{3, "jobs"};
  for (int trial = 0; trial < 8; ++trial) {
    std::vector<std::pair<double, double>> jobs;
    std::vector<LinkUser> users;
    for (std::uint64_t i = 0; i < 2 + rng.below(4); ++i) {
      jobs.emplace_back(0.2 + rng.uniform(), 0.1 + rng.uniform());
      users.push_back(user_of(jobs.back().first, {{.link = 0, .alone_s = jobs.back().second}}));
    }
    const std::vector<double> measured = simulated(jobs, 100'000);
    const std::vector<double> slowdowns = slowdowns_on_links(users);
    double sent = 0;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const double step_s = users[i].step_s(slowdowns[i]);
      CHECK(step_s == doctest::Approx(measured[i]).epsilon(0.01));
      sent += jobs[i].second / step_s;
    }
    CHECK(sent <= 1 + 1e-9);
  }
}

TEST_CASE("more to send, or another job, makes no job faster; all lie between 1 and the number of users") {
  Rng rng{11, "jobs"};
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<LinkUser> users;
    const auto add = [&] {
      std::vector<LinkUser::Use> uses;
      for (std::size_t link = 0; link < 3; ++link)
        if (rng.below(2) == 0) uses.push_back({.link = link, .alone_s = std::exp(4 * rng.uniform() - 4)});
      if (rng.below(2) == 0 || uses.empty()) {
        users.push_back(user_of(rng.uniform(), uses));
      } else {
        users.push_back(hidden_user(rng.uniform(), uses.front().alone_s));
      }
    };
    for (int i = 0; i < 4; ++i) add();
    const std::vector<double> before = slowdowns_on_links(users);
    add();
    const std::vector<double> after = slowdowns_on_links(users);
    for (std::size_t i = 0; i < before.size(); ++i) {
      CHECK(after[i] >= before[i] - 1e-6);
      CHECK(after[i] <= 5);
      CHECK(before[i] >= 1);
    }
  }
}

}  // namespace rehearse
