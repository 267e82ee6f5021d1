#include "sim/app/estimate.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "calibration/parameter_uncertainty.hpp"
#include "sim/app/output/document.hpp"
#include "sim/app/progress.hpp"
#include "sim/base/errors.hpp"
#include "sim/program/reductions.hpp"
#include "sim/scenario/work.hpp"
#include "sim/training/step_size.hpp"

namespace rehearse {

namespace {

// Real seconds of `rehearse simulate`, two cores of an Intel Xeon shared with other work, g++ 12 -O2: runs of
// ResNet-32, batch 32, V100, in which the quantity is large.
constexpr double kStart = 0.03;         // 8 steps of scenarios/cm-dare.json: 0.015 to 0.06
constexpr double kPerMessage = 1.4e-6;  // 8 to 256 workers, 1 to 4 servers, 2000 steps: 1.1e-6 to 1.9e-6
// And for each connection of a worker to a server, as the rates of what shares links with a message change with it: 2
// to 64 workers, 1 to 32 servers on their machines or others, synchronous: 1e-8 to 3e-8.
constexpr double kPerMessageAndConnection = 2.5e-8;
constexpr double kPerCollectiveMessage = 4e-7;  // forward overlap on shared PCIe roots, 8 and 64 GPUs: 2e-7 to 7e-7
constexpr double kPerExactMessage = 3e-6;       // --exact, 8 and 64 workers: 1.3e-6 to 4e-6
constexpr double kPerEdge = 1e-6;               // of a plan that is timed once: clique of 512
constexpr double kPerGradient = 4e-7;           // a unit is ready at a worker: step_time_variation, 64 and 1024 workers
constexpr double kPerKernel = 1e-8;             // 8 workers, one bucket, 1000 steps
constexpr double kWriting = 0.2;                // -o, little of the two below: pairwise averaging, 50 steps
constexpr double kPerRecordedMessage = 2e-6;    // -o, 8 workers, 2 servers, 50 steps
constexpr double kPerRecordedKernel = 3e-7;     // -o, all-reduce of 64 and 1024 workers, 50 steps; its edges included

/// Steps besides warm-up until two are found to be alike, and the last one; with servers until two cycles are, which
/// have about as many steps as there are workers, and one more of them.
constexpr std::int64_t kStepsWithoutSkipped = 4;

/// Workers, or machines of them that exchange with servers as one, times servers.
double server_connections(const Scenario& scenario) {
  const Aggregation aggregation = scenario.training.strategy.server_rules().aggregation;
  double teams = 0;
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker) teams += aggregation == Aggregation::kNone ? group.workers() : group.count;
  return teams * scenario.count(Role::kParameterServer);
}

/// Steps of all workers together; of those that go on by themselves each counts as a part.
double cluster_steps(const Scenario& scenario) {
  const double workers = scenario.training.strategy.is_synchronous() ? 1 : scenario.count(Role::kWorker);
  return static_cast<double>(scenario.training.steps) / workers;
}

/// Steps of the training, workers that stand for all, and the share of messages, that are simulated.
struct SimulatedPart {
  double steps = 0, ranks = 0, messages = 1;
};

SimulatedPart simulated_part(const Scenario& scenario, const SimulateOptions& options) {
  const Reductions reductions = plan_reductions(scenario, options.is_exact, options.keeps_activity);
  const Training& training = scenario.training;
  const bool reduces = training.strategy.kind->is_in_lockstep();
  const std::int64_t found_after = reduces ? kStepsWithoutSkipped : 3 * scenario.count(Role::kWorker) + 1;
  const double workers = scenario.count(Role::kWorker);
  const double folded =  // its machines are of one group
      reductions.fold ? static_cast<double>(reductions.fold.block) / reductions.fold.span : 1;
  const double joined = reductions.joins_gpus ? 1.0 / scenario.first_workers().workers_per_machine() : 1;
  double ranks = workers * folded * joined;
  if (reductions.folds_workers || reductions.folds_machines) {
    ranks = 0;
    for (const Group& group : scenario.groups)
      if (group.role == Role::kWorker) ranks += reductions.folds_workers ? 1 : group.workers_per_machine();
  }
  return {.steps = static_cast<double>(reductions.skips_steady_state && !options.keeps_activity
                                           ? std::min(training.steps, training.warmup_steps + found_after)
                                           : training.steps),
          .ranks = ranks,
          .messages = folded * joined};
}

double all_reduce_seconds(const Scenario& scenario, const StepSize& step, const SimulateOptions& options) {
  const Reductions reductions = plan_reductions(scenario, options.is_exact, options.keeps_activity);
  const auto [steps, ranks, messages] = simulated_part(scenario, options);
  const double share = ranks / scenario.count(Role::kWorker);
  double seconds =
      step.edges * kPerEdge + steps * share * (step.collectives * kPerGradient + step.kernels * kPerKernel);
  if (!reductions.times_collectives || workers_per_model(scenario) > 1)
    seconds += steps * step.messages * messages * (options.is_exact ? kPerExactMessage : kPerCollectiveMessage);
  return seconds;
}

}  // namespace

ExpectedRun expected_run(const Scenario& scenario, const SimulateOptions& options) {
  const bool is_in_lockstep = scenario.training.strategy.kind->is_in_lockstep();
  const double simulated =
      is_in_lockstep ? 1 : simulated_part(scenario, options).steps / static_cast<double>(scenario.training.steps);
  const StepSize step = step_size(scenario);
  const double all_messages = cluster_steps(scenario) * step.messages, messages = all_messages * simulated;
  const double kernels = cluster_steps(scenario) * step.kernels * simulated;
  double seconds = kStart;
  if (is_in_lockstep)
    seconds += all_reduce_seconds(scenario, step, options);
  else
    seconds += messages * ((options.is_exact ? kPerExactMessage : kPerMessage) +
                           kPerMessageAndConnection * server_connections(scenario)) +
               kernels * kPerKernel;
  if (options.keeps_activity)
    seconds += kWriting + kernels * kPerRecordedKernel + (is_in_lockstep ? 0 : messages * kPerRecordedMessage);
  return {.messages = all_messages, .duration = Seconds{seconds}};
}

Bytes expected_memory(const Scenario& scenario, const SimulateOptions& options) {
  double steps = cluster_steps(scenario) * scenario.count(Role::kWorker);
  if (scenario.training.strategy.is_synchronous()) {
    const SimulatedPart part = simulated_part(scenario, options);
    steps = part.steps * part.ranks;
  }
  constexpr double kMost = 1e18;  // B
  return Bytes{static_cast<std::int64_t>(std::min(kMost, steps * static_cast<double>(sizeof(StepSpan))))};
}

double expected_records(const Scenario& scenario) {
  constexpr double kStepsOfProfile = 20;  // RecordingScope::ends_with_profile
  const StepSize step = step_size(scenario);
  const double most = static_cast<double>(scenario.training.warmup_steps) + kStepsOfProfile;
  return std::min(cluster_steps(scenario), most) * (step.messages + step.kernels);
}

std::string warning_of_long_run(const Scenario& scenario, const SimulateOptions& options) {
  constexpr int kFew = 500;     // whose step takes no minute, and no time to be counted in
  constexpr double kLong = 20;  // s
  const int workers = scenario.count(Role::kWorker);
  const Reductions reductions = plan_reductions(scenario, options.is_exact, options.keeps_activity);
  if (options.is_exact || workers < kFew || workers_per_model(scenario) == 1 || reductions.fold ||
      is_nonblocking(scenario.fabric))
    return {};
  const Seconds takes = expected_run(scenario, options).duration;
  if (takes < Seconds{kLong}) return {};
  std::string text = "this run takes about " + duration_text(takes.value()) + ": each of its " +
                     std::to_string(workers) + " workers is simulated, as links between machines tell them apart";
  if (const auto* tree = std::get_if<FatTree>(&scenario.fabric))
    text +=
        "; workers run for one another if the machines of a stage, or of a group that shares states, fill whole leaf "
        "switches, here of " +
        std::to_string(tree->machines_per_leaf);
  return text;
}

void require_memory(const Scenario& scenario, const SimulateOptions& options) {
  double available = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    available = std::min(available, static_cast<double>(limit.rlim_cur));
  const double needed = as_double(expected_memory(scenario, options));
  if (needed <= available) return;
  throw scenario.no_result(
      {"/training/steps",
       formatted("what is recorded of the steps of all workers takes at least %.3g GB of memory, more than the %.3g GB "
                 "that there are: choose fewer steps%s",
                 needed / 1e9, available / 1e9,
                 scenario.has_revocations() ? ", or --runs 1, which records none of them" : "")});
}

Seconds interval_duration(const Scenario& scenario, int parallel) {
  if (!has_uncertain_values(scenario)) return {};
  const auto simulations =
      static_cast<double>(scenario.profile.uncertainty.components.size() +
                          (scenario.profile.prediction ? scenario.profile.prediction->others.size() : 0) + 1);
  return std::ceil(simulations / parallel) * expected_run(shortened(scenario)).duration;
}

}  // namespace rehearse
