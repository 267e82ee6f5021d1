// What jobs and idle machines of a queue draw.

#include "sim/queue/queue_energy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <variant>

#include "sim/base/random.hpp"
#include "sim/queue/run_queue.hpp"

namespace rehearse::queue_energy_test {

namespace {

constexpr MachinePower kMachine{.rest = 400, .gpu_rest = 50, .by_gpu_w = 1.2, .busy_gpu = 10};

class StatedPower : public JobSpeeds {
 public:
  explicit StatedPower(const QueueSetup& setup) : setup_{setup} {}
  double steps_per_s(std::size_t /*kind*/, const GpuPlacement& /*placement*/) override {
    return static_cast<double>(kQueueSecond);
  }
  std::optional<double> gpu_power_w(std::size_t kind, const GpuPlacement& /*placement*/) override {
    return setup_.kinds[kind].gpu_power_w;
  }

 private:
  const QueueSetup& setup_;
};

QueueSetup two_machines() {
  QueueSetup setup{.name = "test", .file = "q.json"};
  setup.groups = {{.name = "a", .gpu = "a", .instance = {}, .machines = 2, .gpus_per_machine = 4, .power = kMachine}};
  return setup;
}

void add_job(QueueSetup& setup, double arrival_s, int gpus, double seconds, std::optional<double> gpu_power_w) {
  setup.kinds.push_back({.type = {}, .scenario = {}, .gpus = gpus, .gpu_power_w = gpu_power_w});
  setup.jobs.push_back({.name = std::to_string(setup.jobs.size()),
                        .kind = setup.kinds.size() - 1,
                        .arrival = to_queue_time(Seconds{arrival_s}),
                        .steps = to_queue_time(Seconds{seconds})});
  setup.last_measured = setup.jobs.size();
}

QueueEnergy energy_under(const QueueSetup& setup, const QueueRun& run) {
  StatedPower power{setup};
  auto energy = energy_of(setup, run, power);
  REQUIRE(std::holds_alternative<QueueEnergy>(energy));
  return std::get<QueueEnergy>(std::move(energy));
}

QueueRun run_under(const QueueSetup& setup, const std::string& policy) {
  StatedPower power{setup};
  return run_queue(setup, policy, power, {});
}

}  // namespace

TEST_CASE("a job has its GPUs' share of its machine, and what they draw above rest while it trains") {
  QueueSetup setup = two_machines();
  setup.restart = 5 * kQueueSecond;
  add_job(setup, 100, 2, 60, 250);
  const QueueEnergy energy = energy_under(setup, run_under(setup, "fifo"));
  const double above_rest = 200 * 1.2 + 10;
  CHECK(energy.of_job[0] == doctest::Approx(2 * (100 * 65 + above_rest * 60)));
  CHECK(energy.idle == doctest::Approx(6 * 100 * 65));
  CHECK(energy.cluster == doctest::Approx(2 * 400 * 65 + 2 * above_rest * 60));
}

TEST_CASE("the energy of all jobs and of idle GPUs is that of the machines, added up from date to date") {
  Rng rng{3, "energy"};
  for (const std::string& policy : policy_names()) {
    CAPTURE(policy);
    QueueSetup setup = two_machines();
    setup.restart = 3 * kQueueSecond;
    for (int i = 0; i < 30; ++i)
      add_job(setup, 10.0 * static_cast<double>(rng.below(300)), 1 << rng.below(4),
              1 + static_cast<double>(rng.below(2000)), 40 + static_cast<double>(rng.below(300)));
    std::ranges::stable_sort(setup.jobs, {}, &QueuedJob::arrival);
    const QueueRun run = run_under(setup, policy);
    const QueueEnergy energy = energy_under(setup, run);
    const double jobs = std::accumulate(energy.of_job.begin(), energy.of_job.end(), 0.0);
    CHECK(jobs + energy.idle == doctest::Approx(energy.cluster).epsilon(1e-12));
    // Both machines, from one date at which a job begins or ceases to train to the next one.
    std::vector<QueueTime> dates{setup.jobs.front().arrival, run.end};
    for (const JobSpan& span : run.spans) dates.insert(dates.end(), {span.start + span.restart, span.end});
    std::ranges::sort(dates);
    double sum = 0;
    for (std::size_t i = 0; i + 1 < dates.size(); ++i) {
      double watts = 2 * kMachine.rest;
      for (const JobSpan& span : run.spans) {
        const JobKind& kind = setup.kinds[setup.jobs[span.job].kind];
        if (span.start + span.restart <= dates[i] && dates[i] < span.end)
          watts += kind.gpus * kMachine.above_rest(*kind.gpu_power_w);
      }
      sum += watts * to_seconds(dates[i + 1] - dates[i]).value();
    }
    CHECK(energy.cluster == doctest::Approx(sum).epsilon(1e-9));
  }
}

TEST_CASE("what a job waits for NICs is spent at rest") {
  QueueSetup setup = two_machines();
  add_job(setup, 0, 2, 60, 250);
  QueueRun run = run_under(setup, "fifo");
  const QueueEnergy before = energy_under(setup, run);
  run.spans[0].waits = 12 * kQueueSecond;
  const QueueEnergy after = energy_under(setup, run);
  CHECK(before.of_job[0] - after.of_job[0] == doctest::Approx(2 * (200 * 1.2 + 10) * 12));
  CHECK(after.of_job[0] + after.idle == doctest::Approx(after.cluster));
}

TEST_CASE("energy that nobody knows is told") {
  QueueSetup setup = two_machines();
  add_job(setup, 0, 1, 10, {});
  StatedPower power{setup};
  const QueueRun run = run_under(setup, "fifo");
  CHECK(std::get<std::string>(energy_of(setup, run, power)) == "what a GPU of job \"0\" draws");
  setup.groups[0].power.reset();
  CHECK(std::get<std::string>(energy_of(setup, run, power)) == "what machines of group \"a\" draw");
}

}  // namespace rehearse::queue_energy_test
