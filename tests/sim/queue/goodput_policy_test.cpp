// Pollux's policy on jobs whose best sizes are known.

#include "sim/queue/goodput_policy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "sim/base/random.hpp"
#include "sim/queue/run_queue.hpp"

namespace rehearse::goodput_policy_test {

namespace {

/// Speed by kind and number of GPUs.
class SpeedsBySize : public JobSpeeds {
 public:
  explicit SpeedsBySize(std::function<double(std::size_t, int)> speed) : speed_{std::move(speed)} {}
  double steps_per_s(std::size_t kind, const GpuPlacement& placement) override {
    return speed_(kind, placement.gpus());
  }

 private:
  std::function<double(std::size_t, int)> speed_;
};

QueueSetup cluster_of(int machines, int gpus) {
  QueueSetup setup{.name = "test", .file = "q.json"};
  setup.groups = {{.name = "g", .gpu = "g", .instance = {}, .machines = machines, .gpus_per_machine = gpus}};
  return setup;
}

void add_job(QueueSetup& setup, std::size_t kind, double arrival_s, std::int64_t steps) {
  setup.jobs.push_back({.name = std::to_string(setup.jobs.size()),
                        .kind = kind,
                        .arrival = to_queue_time(Seconds{arrival_s}),
                        .steps = steps});
  setup.last_measured = setup.jobs.size();
}

/// The sizes that the policy chooses for jobs that have run on `had` GPUs for an hour.
std::vector<int> sizes(const QueueSetup& setup, const std::vector<int>& had,
                       const std::function<double(std::size_t, int)>& speed) {
  std::vector<ActiveJob> active;
  for (std::size_t i = 0; i < had.size(); ++i)
    active.push_back({.job = i,
                      .steps_left = 1,
                      .gpu_time = 0,
                      .time_on_group = {0},
                      .is_running = had[i] > 0,
                      .group = 0,
                      .gpus = had[i]});
  const std::vector<std::vector<double>> packed(setup.kinds.size(), {1});
  const auto policy = make_goodput_policy(setup);
  const std::vector<Choice> choices =
      policy->choose({setup, 3600 * kQueueSecond, active, packed, true,
                      [&](std::size_t kind, std::size_t /*group*/, int gpus) { return speed(kind, gpus); }});
  std::vector<int> chosen(had.size());
  for (const Choice& choice : choices) chosen[choice.active] = choice.gpus;
  return chosen;
}

}  // namespace

TEST_CASE("equal jobs that scale perfectly share the GPUs equally, and one that does not scale leaves them") {
  QueueSetup setup = cluster_of(4, 4);
  setup.kinds = {{.gpus = 4, .max_gpus = 16}, {.gpus = 4, .max_gpus = 16}};
  for (const std::size_t kind : {0U, 0U, 0U, 0U}) add_job(setup, kind, 0, 1);
  CHECK(sizes(setup, {4, 4, 4, 4}, [](std::size_t, int gpus) { return gpus; }) == std::vector<int>{4, 4, 4, 4});
  CHECK(sizes(setup, {8, 4, 2, 2}, [](std::size_t, int gpus) { return gpus; }) == std::vector<int>{4, 4, 4, 4});

  setup.jobs[3].kind = 1;  // runs on one GPU as fast as on many
  const std::vector<int> found =
      sizes(setup, {4, 4, 4, 4}, [](std::size_t kind, int gpus) { return kind == 0 ? gpus : 1; });
  CHECK(found[3] == 1);
  CHECK(std::accumulate(found.begin(), found.end(), 0) == 16);
}

TEST_CASE("a job tries at most twice as many GPUs as it has had, one at first, and never more than it may have") {
  QueueSetup setup = cluster_of(8, 4);
  setup.kinds = {{.gpus = 4, .max_gpus = 6}};
  add_job(setup, 0, 0, 1);
  const auto linear = [](std::size_t, int gpus) { return gpus; };
  CHECK(sizes(setup, {0}, linear) == std::vector<int>{1});
  CHECK(sizes(setup, {1}, linear) == std::vector<int>{2});
  CHECK(sizes(setup, {2}, linear) == std::vector<int>{4});
  CHECK(sizes(setup, {4}, linear) == std::vector<int>{6});
  // One that does not fit on less than four begins with these.
  const auto from_4 = [](std::size_t, int gpus) { return gpus < 4 ? 0 : gpus; };
  CHECK(sizes(setup, {0}, from_4) == std::vector<int>{4});
  CHECK(sizes(setup, {4}, from_4) == std::vector<int>{6});
  // Sizes without a speed are passed over.
  CHECK(sizes(setup, {4}, [](std::size_t, int gpus) { return gpus == 6 ? 0 : gpus; }) == std::vector<int>{5});
}

TEST_CASE("a restart must be worth it: a job keeps its GPUs for a gain smaller than the penalty") {
  QueueSetup setup = cluster_of(2, 4);
  setup.restart = 360 * kQueueSecond;  // of an age of an hour: penalty 0.91
  setup.kinds = {{.gpus = 4, .max_gpus = 8}};
  add_job(setup, 0, 0, 1);
  const auto speed_of = [](double at_8) {
    return [at_8](std::size_t, int gpus) { return gpus == 4 ? 1 : gpus == 8 ? at_8 : 0; };
  };
  CHECK(sizes(setup, {4}, speed_of(1.08)) == std::vector<int>{4});
  CHECK(sizes(setup, {4}, speed_of(1.12)) == std::vector<int>{8});
}

TEST_CASE("a job that comes when it is decided starts at once") {
  QueueSetup setup = cluster_of(2, 4);
  setup.restart = 30 * kQueueSecond;
  setup.kinds = {{.gpus = 4, .max_gpus = 8}};
  add_job(setup, 0, 3600, 1);  // which is when sizes() decides
  CHECK(sizes(setup, {0}, [](std::size_t, int gpus) { return gpus; }) == std::vector<int>{1});
}

TEST_CASE("a job that is not elastic runs on its GPUs or not at all") {
  QueueSetup setup = cluster_of(2, 4);
  setup.kinds = {{.gpus = 6}, {.gpus = 4, .max_gpus = 8}};
  add_job(setup, 0, 0, 1);
  add_job(setup, 1, 0, 1);
  CHECK(sizes(setup, {0, 8}, [](std::size_t, int gpus) { return gpus; }) == std::vector<int>{6, 2});
}

TEST_CASE("no other sizes of two jobs have a larger harmonic mean: all are tried") {
  Rng rng{5, "goodput"};
  for (int trial = 0; trial < 200; ++trial) {
    QueueSetup setup = cluster_of(2, 4);
    setup.kinds = {{.gpus = 1, .max_gpus = 8}, {.gpus = 1, .max_gpus = 8}};
    add_job(setup, 0, 0, 1);
    add_job(setup, 1, 0, 1);
    const std::vector<double> exponents{rng.uniform(), rng.uniform()};
    const auto speed = [&](std::size_t kind, int gpus) { return std::pow(gpus, exponents[kind]); };
    const auto lost = [&](std::size_t kind, int gpus) {
      return 1 / ((gpus == 0 ? 0 : speed(kind, gpus) / speed(kind, 4)) + 0.004);
    };
    const std::vector<int> found = sizes(setup, {4, 4}, speed);
    double least = 1e9;
    for (int first = 0; first <= 8; ++first)
      for (int second = 0; first + second <= 8; ++second) least = std::min(least, lost(0, first) + lost(1, second));
    CHECK(lost(0, found[0]) + lost(1, found[1]) == doctest::Approx(least).epsilon(1e-6));
  }
}

TEST_CASE("a queue of random elastic jobs: steps, GPU time and machines add up, and nobody waits for ever") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng{seed, "elastic"};
    QueueSetup setup = cluster_of(3, 4);
    setup.restart = 20 * kQueueSecond;
    setup.kinds = {{.gpus = 4, .max_gpus = 12}, {.gpus = 2, .max_gpus = 3}, {.gpus = 5}};
    double time = 0;
    for (int i = 0; i < 25; ++i) {
      time += rng.exponential(100);
      add_job(setup, rng.below(3), time, 1 + static_cast<std::int64_t>(rng.below(2000)));
    }
    SpeedsBySize speeds{
        [](std::size_t kind, int gpus) { return std::pow(gpus, 0.9 - 0.3 * static_cast<double>(kind)); }};
    const QueueRun run = run_queue(setup, "pollux", speeds, {});  // conservation is checked inside
    QueueTime gpu_time = 0;
    for (const JobSpan& span : run.spans) {
      const JobKind& kind = setup.kinds[setup.jobs[span.job].kind];
      CHECK(span.placement.gpus() >= 1);
      CHECK(span.placement.gpus() <= std::max(kind.gpus, kind.max_gpus));
      if (kind.max_gpus == 0) CHECK(span.placement.gpus() == kind.gpus);
      gpu_time += (span.end - span.start) * span.placement.gpus();
    }
    CHECK(gpu_time == std::accumulate(run.busy_of_group.begin(), run.busy_of_group.end(), QueueTime{0}));
    for (const JobOutcome& job : run.jobs) CHECK(job.end.has_value());
    CHECK(run_queue(setup, "pollux", speeds, {}).end == run.end);
  }
}

}  // namespace rehearse::goodput_policy_test
