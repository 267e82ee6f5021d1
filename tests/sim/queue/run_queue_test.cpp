// Queues against queueing theory, optimal schedules and hand-made examples.

#include "sim/queue/run_queue.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "sim/base/random.hpp"
#include "sim/queue/queue_result.hpp"

namespace rehearse {

namespace {

/// Jobs whose step is a microsecond, or speeds by kind and number of machines.
class StatedSpeeds : public JobSpeeds {
 public:
  double steps_per_s(std::size_t kind, const GpuPlacement& placement) override {
    const auto found = speeds.find({kind, placement.group});
    return found == speeds.end() ? static_cast<double>(kQueueSecond) : found->second;
  }
  std::map<std::pair<std::size_t, std::size_t>, double> speeds;  // steps per second by kind and group
};

/// Jobs of a step of a second, `sends` of it over the NICs of all of its machines, that computes meanwhile or before.
class SendingJobs : public StatedSpeeds {
 public:
  explicit SendingJobs(double sends) : sends_{sends} {}
  double steps_per_s(std::size_t /*kind*/, const GpuPlacement& /*placement*/) override { return 1; }
  std::optional<std::vector<double>> nic_use(std::size_t kind, const GpuPlacement& placement) override {
    if (kind == unknown_kind) return {};
    return std::vector<double>(placement.parts.size(), sends_);
  }
  double step_s(std::size_t /*kind*/, const GpuPlacement& /*placement*/, double slowdown) override {
    return 1 - sends_ + sends_ * slowdown;
  }
  std::size_t unknown_kind = 99;

 private:
  double sends_;
};

QueueSetup setup_of(std::vector<QueueGroup> groups) {
  QueueSetup setup{.name = "test", .file = "q.json", .groups = std::move(groups)};
  return setup;
}

QueueGroup group_of(int machines, int gpus, const std::string& name = "g") {
  return {.name = name, .gpu = name, .instance = {}, .machines = machines, .gpus_per_machine = gpus};
}

void add_job(QueueSetup& setup, double arrival_s, int gpus, double seconds) {
  const auto kind = std::ranges::find(setup.kinds, gpus, &JobKind::gpus);
  const auto index = static_cast<std::size_t>(kind - setup.kinds.begin());
  if (kind == setup.kinds.end()) setup.kinds.push_back({.type = {}, .scenario = {}, .gpus = gpus});
  setup.jobs.push_back({.name = std::to_string(setup.jobs.size()),
                        .kind = index,
                        .arrival = to_queue_time(Seconds{arrival_s}),
                        .steps = to_queue_time(Seconds{seconds})});
  setup.last_measured = setup.jobs.size();
}

QueueRun run(const QueueSetup& setup, const std::string& policy) {
  StatedSpeeds speeds;
  return run_queue(setup, policy, speeds, {});
}

double end_s(const QueueRun& run, std::size_t job) { return to_seconds(*run.jobs[job].end).value(); }

/// Poisson arrivals at rate `load`, one GPU, services by `next`.
template <class Next>
QueueSetup single_server(int jobs, double load, Next next) {
  QueueSetup setup = setup_of({group_of(1, 1)});
  Rng arrivals{1, "arrivals"};
  double time = 0;
  for (int i = 0; i < jobs; ++i) {
    time += arrivals.exponential(1 / load);
    add_job(setup, time, 1, std::max(1e-6, next()));
  }
  return setup;
}

QueueSetup random_setup(std::uint64_t seed, int jobs) {
  Rng rng{seed, "queue"};
  QueueSetup setup = setup_of({group_of(3, 4, "a"), group_of(2, 8, "b")});
  setup.restart = to_queue_time(Seconds{static_cast<double>(rng.below(30))});
  if (rng.below(2) == 0) setup.interference = 0.3;
  setup.placing = rng.below(2) == 0 ? Placing::kPacked : Placing::kMostFree;
  double time = 0;
  for (int i = 0; i < jobs; ++i) {
    time += rng.exponential(200);
    add_job(setup, time, 1 << rng.below(4), 60 + rng.exponential(2000));
  }
  return setup;
}

}  // namespace

TEST_CASE("a single GPU with exponential services is an M/M/1 queue: mean time 1 / (mu - lambda)") {
  Rng services{2, "services"};
  const QueueSetup setup = single_server(100'000, 0.5, [&] { return services.exponential(1); });
  // lambda = 0.5, mu = 1: 2 s
  CHECK(summarize(setup, run(setup, "fifo")).mean_completion_s == doctest::Approx(2).epsilon(0.03));
}

TEST_CASE("with equal services it is an M/D/1 queue: mean wait rho / (2 mu (1 - rho))") {
  const QueueSetup setup = single_server(100'000, 0.8, [] { return 1.0; });
  // rho = 0.8: 2 s
  CHECK(summarize(setup, run(setup, "fifo")).mean_wait_s == doctest::Approx(2).epsilon(0.05));
}

TEST_CASE("first in first out on one GPU follows Lindley's recursion to the microsecond") {
  Rng services{5, "services"};
  const QueueSetup setup = single_server(2000, 0.9, [&] { return services.exponential(1); });
  const QueueRun result = run(setup, "fifo");
  QueueTime end = 0;
  for (std::size_t i = 0; i < setup.jobs.size(); ++i) {
    end = std::max(end, setup.jobs[i].arrival) + setup.jobs[i].steps;
    CHECK(*result.jobs[i].end == end);
  }
}

TEST_CASE("first in first out without fragmentation is work conserving: while jobs wait, no GPU is free") {
  QueueSetup setup = setup_of({group_of(4, 2)});
  Rng rng{9, "jobs"};
  for (int i = 0; i < 500; ++i) add_job(setup, i * 0.9, 1, rng.exponential(8));
  const QueueRun result = run(setup, "fifo");
  for (const ClusterLoad& load : result.load)
    if (load.waiting > 0) CHECK(load.busy == setup.gpus());
  CHECK(std::ranges::any_of(result.load, [](const ClusterLoad& load) { return load.waiting > 0; }));
}

TEST_CASE("shortest remaining time first has the least sum of completion times on one GPU: all schedules are tried") {
  Rng rng{4, "small"};
  for (int round = 0; round < 30; ++round) {
    QueueSetup setup = setup_of({group_of(1, 1)});
    std::vector<int> release, work;
    for (int i = 0; i < 4; ++i) release.push_back(static_cast<int>(rng.below(5)));
    std::ranges::sort(release);
    for (const int at : release) {
      work.push_back(1 + static_cast<int>(rng.below(5)));
      add_job(setup, at, 1, work.back());
    }
    // best[state]: least sum of completion times from a second on with what is left
    std::map<std::pair<int, std::vector<int>>, int> best;
    const auto solve = [&](const auto& self, int time, const std::vector<int>& left) -> int {
      if (std::ranges::all_of(left, [](int work_left) { return work_left == 0; })) return 0;
      if (const auto found = best.find({time, left}); found != best.end()) return found->second;
      int least = 1'000'000;
      bool runs = false;
      for (std::size_t i = 0; i < left.size(); ++i) {
        if (left[i] == 0 || release[i] > time) continue;
        runs = true;
        std::vector<int> next = left;
        --next[i];
        least = std::min(least, (next[i] == 0 ? time + 1 : 0) + self(self, time + 1, next));
      }
      if (!runs) least = self(self, time + 1, left);
      return best[{time, left}] = least;
    };
    const QueueRun result = run(setup, "srtf");
    double sum = 0;
    for (std::size_t i = 0; i < 4; ++i) sum += end_s(result, i);
    CHECK(sum == doctest::Approx(solve(solve, 0, work)).epsilon(1e-12));
  }
}

TEST_CASE("a gang waits for all of its GPUs, and first in first out lets nobody pass it") {
  QueueSetup setup = setup_of({group_of(2, 2)});
  add_job(setup, 0, 2, 10);
  add_job(setup, 1, 4, 5);  // until 10 s
  add_job(setup, 2, 1, 1);  // behind it
  const QueueRun fifo = run(setup, "fifo");
  CHECK(end_s(fifo, 1) == 15);
  CHECK(end_s(fifo, 2) == 16);
  CHECK(end_s(run(setup, "srtf"), 2) == 3);  // passes it
}

TEST_CASE("who is preempted keeps its whole steps, and pays the restart again") {
  QueueSetup setup = setup_of({group_of(1, 1)});
  setup.restart = 2 * kQueueSecond;
  setup.kinds = {{.type = "slow", .scenario = {}, .gpus = 1}};
  // 10 steps of 3 s; after 12 s, of which 2 s are the restart, 3 steps are done and a third of the next is lost
  setup.jobs = {{.name = "long", .kind = 0, .arrival = 0, .steps = 10},
                {.name = "short", .kind = 0, .arrival = 12 * kQueueSecond, .steps = 1}};
  setup.last_measured = 2;
  StatedSpeeds speeds;
  speeds.speeds[{0, 0}] = 1.0 / 3;
  const QueueRun result = run_queue(setup, "srtf", speeds, {});
  CHECK(end_s(result, 1) == doctest::Approx(12 + 2 + 3).epsilon(1e-6));
  CHECK(end_s(result, 0) == doctest::Approx(17 + 2 + 7 * 3).epsilon(1e-6));
  CHECK(result.jobs[0].preemptions == 1);
  CHECK(result.jobs[0].steps == 10);
  CHECK(result.spans[0].steps == 3);
}

TEST_CASE("jobs on several machines that share one are slowed down while they do") {
  QueueSetup setup = setup_of({group_of(3, 2)});
  setup.interference = 0.5;
  add_job(setup, 0, 3, 10);  // machines 0 and 1
  add_job(setup, 0, 3, 10);  // machines 1 and 2
  add_job(setup, 0, 3, 4);   // afterwards, on machines of which nobody has GPUs
  const QueueRun result = run(setup, "fifo");
  CHECK(end_s(result, 0) == doctest::Approx(20));
  CHECK(end_s(result, 1) == doctest::Approx(20));
  CHECK(end_s(result, 2) == doctest::Approx(24));
  CHECK(hours(result.shared_gpu_time) == doctest::Approx(6 * 20.0 / 3600));
}

TEST_CASE("jobs whose exchange is known take turns at the NICs that they share, while they do") {
  QueueSetup setup = setup_of({group_of(3, 2)});
  setup.kinds = {{.gpus = 3}, {.gpus = 3}};
  const auto add = [&](std::size_t kind, std::int64_t steps) {
    setup.jobs.push_back({.name = std::to_string(setup.jobs.size()), .kind = kind, .arrival = 0, .steps = steps});
    setup.last_measured = setup.jobs.size();
  };
  add(0, 100);  // machines 0 and 1
  add(0, 200);  // machines 1 and 2
  SendingJobs half{0.5};
  const QueueRun shared = run_queue(setup, "fifo", half, {});
  CHECK(end_s(shared, 0) == doctest::Approx(125));  // 0.5 + 0.5 * 1.5, by mean value analysis
  CHECK(end_s(shared, 1) == doctest::Approx(225));  // alone after that
  CHECK(to_seconds(shared.spans[0].waits).value() == doctest::Approx(25));
  CHECK(to_seconds(shared.spans[1].waits).value() == doctest::Approx(25));
  CHECK(hours(shared.shared_gpu_time) == doctest::Approx(6 * 125.0 / 3600));
  CHECK(shared.unknown_gpu_time == 0);

  // An exchange that nobody knows is neither prolonged nor in another's way, and is told.
  setup.jobs[1].kind = 1;
  half.unknown_kind = 1;
  const QueueRun unknown = run_queue(setup, "fifo", half, {});
  CHECK(end_s(unknown, 0) == doctest::Approx(100));
  CHECK(end_s(unknown, 1) == doctest::Approx(200));
  CHECK(hours(unknown.unknown_gpu_time) == doctest::Approx(3 * 100.0 / 3600));

  // With a NIC for each GPU there is nothing to share; what a file states goes before all.
  half.unknown_kind = 99;
  setup.groups[0].nics = 2;
  const QueueRun apart = run_queue(setup, "fifo", half, {});
  CHECK(end_s(apart, 1) == doctest::Approx(200));
  CHECK(apart.shared_gpu_time == 0);
  setup.groups[0].nics = 1;
  setup.interference = 0;
  const QueueRun stated = run_queue(setup, "fifo", half, {});
  CHECK(end_s(stated, 1) == doctest::Approx(200));
  CHECK(hours(stated.shared_gpu_time) == doctest::Approx(6 * 100.0 / 3600));
}

TEST_CASE("Tiresias puts a job behind the others once it has had its GPU time") {
  QueueSetup setup = setup_of({group_of(1, 2)});
  setup.round = 10 * kQueueSecond;
  setup.service_threshold = 100 * kQueueSecond;
  add_job(setup, 0, 2, 100);  // 100 GPU s after 50 s
  add_job(setup, 1, 2, 20);
  const QueueRun result = run(setup, "tiresias");
  CHECK(end_s(result, 1) == 70);
  CHECK(end_s(result, 0) == 120);
}

TEST_CASE("rounds decide at their multiples alone") {
  QueueSetup setup = setup_of({group_of(1, 1)});
  setup.round = 60 * kQueueSecond;
  add_job(setup, 1, 1, 10);
  add_job(setup, 2, 1, 10);
  const QueueRun result = run(setup, "fifo");
  CHECK(end_s(result, 0) == 70);
  CHECK(end_s(result, 1) == 130);
}

TEST_CASE("a policy that knows speeds gives fast GPUs to who gains from them; one that does not, to both") {
  QueueSetup setup = setup_of({group_of(1, 1, "fast"), group_of(1, 1, "slow")});
  setup.kinds = {{.type = "gains", .scenario = {}, .gpus = 1}, {.type = "does not", .scenario = {}, .gpus = 1}};
  setup.jobs = {{.name = "a", .kind = 0, .arrival = 0, .steps = 40'000},
                {.name = "b", .kind = 1, .arrival = 0, .steps = 40'000}};
  setup.last_measured = 2;
  StatedSpeeds speeds;
  speeds.speeds = {{{0, 0}, 10.0}, {{0, 1}, 1.0}, {{1, 0}, 5.0}, {{1, 1}, 5.0}};
  // a needs 4000 s of the fast GPU; b 8000 s of any
  const QueueRun knows = run_queue(setup, "gavel_las", speeds, {});
  const QueueRun ignores = run_queue(setup, "las", speeds, {});
  CHECK(summarize(setup, knows).mean_completion_s < 0.95 * summarize(setup, ignores).mean_completion_s);
  CHECK(end_s(knows, 1) == doctest::Approx(8000));
}

TEST_CASE("any queue under any policy: no machine beyond its GPUs, all steps done, GPU time as the cluster's") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const QueueSetup setup = random_setup(seed, 60);
    for (const std::string& policy : policy_names()) {
      CAPTURE(policy);
      const QueueRun result = run(setup, policy);
      std::map<std::pair<std::size_t, int>, std::vector<std::pair<QueueTime, int>>> changes;
      std::vector<std::int64_t> steps(setup.jobs.size());
      QueueTime of_spans = 0;
      for (const JobSpan& span : result.spans) {
        int gpus = 0;
        for (const GpuPlacement::Part& part : span.placement.parts) {
          changes[{span.placement.group, part.machine}].push_back({span.start, part.gpus});
          changes[{span.placement.group, part.machine}].push_back({span.end, -part.gpus});
          gpus += part.gpus;
        }
        CHECK(gpus == setup.kinds[setup.jobs[span.job].kind].gpus);
        CHECK(span.start >= setup.jobs[span.job].arrival);
        steps[span.job] += span.steps;
        of_spans += (span.end - span.start) * gpus;
      }
      for (auto& [machine, list] : changes) {
        std::ranges::sort(list);  // those that end come first
        int used = 0;
        for (const auto& [time, gpus] : list) {
          used += gpus;
          CHECK(used <= setup.groups[machine.first].gpus_per_machine);
        }
      }
      QueueTime of_cluster = 0;
      for (std::size_t i = 0; i + 1 < result.load.size(); ++i)
        of_cluster += result.load[i].busy * (result.load[i + 1].time - result.load[i].time);
      CHECK(of_cluster == of_spans);
      CHECK(std::accumulate(result.busy_of_group.begin(), result.busy_of_group.end(), QueueTime{0}) == of_spans);
      for (std::size_t i = 0; i < setup.jobs.size(); ++i) CHECK(steps[i] == setup.jobs[i].steps);
      CHECK(to_text(read_queue_run(to_text(result))) == to_text(result));
      CHECK(to_text(run(setup, policy)) == to_text(result));
    }
  }
}

TEST_CASE("packed placing takes the fullest machine with room, else as few machines as can be") {
  using Parts = std::vector<GpuPlacement::Part>;
  CHECK(place_job({4, 2, 3}, 2, Placing::kPacked) == Parts{{1, 2}});
  CHECK(place_job({4, 2, 3}, 3, Placing::kPacked) == Parts{{2, 3}});
  CHECK(place_job({4, 2, 3}, 6, Placing::kPacked) == Parts{{0, 4}, {1, 2}});
  CHECK(place_job({4, 2, 3}, 1, Placing::kMostFree) == Parts{{0, 1}});
  CHECK(place_job({4, 2, 3}, 5, Placing::kMostFree) == Parts{{0, 4}, {2, 1}});
}

}  // namespace rehearse
