#include "sim/job/simulate.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "sim/base/errors.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/job/training_log.hpp"
#include "sim/program/communicator.hpp"
#include "sim/program/reductions.hpp"
#include "sim/resources/plain_loop.hpp"
#include "sim/resources/queue_network.hpp"
#include "sim/resources/simgrid_backend.hpp"
#include "sim/scenario/site.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kPathsBetweenReports = 256;

/// A model that is a single collective is trained by all-reduces alone.
void check_operation(const Scenario& scenario) {
  const auto* timed = std::get_if<TimedLayers>(&scenario.model.structure);
  if (timed != nullptr && timed->operation != CollectiveKind::kAllReduce)
    throw InputError{
        scenario.file_name +
        ": /workload/model/structure/operation: expected \"all_reduce\", by which gradients are exchanged; "
        "others have a time (\"collective_time_s\" of studies) and no run"};
}

/// Rules are asked in runs at known speeds.
void check_control(const Scenario& scenario) {
  if (scenario.training.control)
    throw InputError{
        scenario.file_name +
        ": /training/control: expected many runs (simulate --runs; --runs 1 is one): a single one, message by "
        "message, asks no rules"};
}

/// What must hold in every run, whatever the scenario. A violation is a bug of ours.
void check_invariants(const RunRecord& record, std::int64_t all_samples) {
  const auto require = [](bool holds, const char* invariant) {
    if (!holds) throw std::logic_error{std::string{"invariant broken: "} + invariant};
  };
  constexpr double kTolerated = 1 + 1e-6;  // sums of many terms
  require(record.sent == record.received + record.lost, "bytes sent = bytes received + bytes lost");
  Bytes sent{}, received{};
  for (std::size_t m = 0; m < record.machines.size(); ++m) {
    const Machine& machine = record.machines[m];
    const MachineUse& use = record.total[m];
    sent += use.sent;
    received += use.received;
    const double each = machine.nic.value() * record.drained.value() * kTolerated + as_double(machine.nic_burst);
    const double capacity = machine.nics * each + 1;
    require(as_double(use.sent) <= capacity && as_double(use.received) <= capacity, "no NIC above its capacity");
    require(use.cpu_busy.value() <= (machine.cores + machine.threads) * record.drained.value() * kTolerated,
            "no core and no thread busy for longer than the run");
  }
  require(sent == record.sent && received == record.received, "bytes of the machines = bytes of the run");
  for (const StepSpan& step : record.recorder.steps)
    require(step.span.end > step.span.start && step.staleness >= 0, "every step takes time");
  const SampleCounts& samples = record.samples;
  require(samples.done == all_samples, "samples done = samples of the job");
  require(samples.computed == samples.done + samples.lost + samples.dropped + samples.unfilled,
          "samples computed = samples done + lost + dropped");
  require(samples.repeated <= samples.lost, "only lost samples are repeated");
}

/// Slower links make dates that a double cannot hold, faster ones bytes that take no time.
void check_rates(const Site& site) {
  const Scenario& scenario = site.scenario;
  const auto require = [&](BytesPerSecond rate, const std::string& place, const std::string& what) {
    if (!(rate >= BytesPerSecond{1} && rate <= BytesPerSecond{1e18}))
      throw InputError{place + ": expected rates from 1Bps to 1e18Bps; found " + to_text(rate) + " of " + what +
                       scenario.set_by};
  };
  const auto place_of = [&](const TopologyLink& link) {
    return link.machine < 0 ? scenario.file_name + ": /cluster/network" : site.group(link.machine).place;
  };
  for (const TopologyLink& link : site.topology.links()) require(link.rate, place_of(link), link.name);
  for (const RegionLink& link : site.topology.region_links())
    if (link.per_flow_rate)
      require(*link.per_flow_rate, link.place, "a connection from " + link.from + " to " + link.to);
}

/// Steps of the full cluster that have as many samples.
std::int64_t full_steps(const Scenario& scenario, const TrainingProgress& progress) {
  const Training& training = scenario.training;
  if (progress.samples >= training.samples) return training.steps;
  return static_cast<std::int64_t>(static_cast<double>(progress.samples) / samples_per_update(scenario));
}

/// Whether a run that has `done` so much has reached the scenario's target.
bool is_at_target(const Scenario& scenario, const TrainingProgress& done) {
  const auto& target = scenario.training.target;
  return target && target->samples && static_cast<double>(done.samples) >= *target->samples;
}

/// Message by message.
class FlowBroadcast final : public ModelBroadcast {
 public:
  FlowBroadcast(Cluster& cluster, const std::vector<Endpoint>& gpus, std::function<void()> on_done)
      : clock_{cluster.clock, cluster.clock.new_owner()},
        communicator_{cluster, clock_, gpus, CollectiveEvents::kMessages} {
    communicator_.start(CollectiveKind::kBroadcast, kNoUnit, 0, checkpoint_bytes(cluster.site.scenario), clock_.now(),
                        std::move(on_done));
  }
  ~FlowBroadcast() override { clock_.retire(); }

 private:
  static constexpr int kNoUnit = -1;  // of gradients
  OwnedClock clock_;
  Communicator communicator_;
};

/// [workers] whose kernels need not be told apart.
std::vector<bool> fused_workers(const Site& site, const SimulateOptions& options) {
  std::vector<bool> fused(site.workers.size(), plan_reductions(site.scenario, options.is_exact, false).fuses_kernels);
  if (options.keeps_activity)
    for (std::size_t w = 0; w < fused.size(); ++w)
      if (std::ranges::any_of(site.workers[w], [&](Endpoint gpu) { return options.scope.covers(gpu.machine); }))
        fused[w] = false;
  return fused;
}

template <class Backend>
RunRecord simulate_on(Backend& backend, const Site& site, const SimulateOptions& options) {
  const Scenario& scenario = site.scenario;
  std::optional<QueueNetwork> queues;
  if (scenario.tcp.turn > Bytes{}) queues.emplace(site.topology, backend.clock(), backend.network(), scenario.tcp);
  Network& network = queues ? *queues : backend.network();
  RunProgress progress;
  if (options.on_progress) {
    const auto report = [&](std::uint64_t events) {
      progress.events = events;
      progress.simulated = backend.clock().now();
      progress.messages = network.started_flows();
      options.on_progress(progress);
    };
    network.on_path([&, report](std::size_t paths) {
      if (paths % kPathsBetweenReports == 0) report(progress.is_set_up ? backend.clock().events() : paths);
    });
    backend.clock().on_progress([&, report] { report(backend.clock().events()); });
  }
  Recorder recorder;
  recorder.keeps_activity = options.keeps_activity;
  recorder.scope = options.scope;
  if (options.keeps_activity) recorder.watch(network, options.records_gpu_links);
  JobState state{site, scenario.seed, backend.clock(), recorder.events};
  Cluster cluster{site, backend.clock(), network, recorder, options.is_exact};
  StepCompiler compiler{site, fused_workers(site, options)};
  Workers workers{state.membership, compiler};
  SteadyWindow window{cluster};
  TrainingLog log{cluster, workers, window, state};
  std::optional<Milestone> at_target;
  const bool is_lockstep = scenario.training.strategy.kind->is_in_lockstep();
  Job job{
      state,
      {.begin_session =
           [&](SessionOwner& owner, TrainingProgress done) {
             return (is_lockstep ? train_in_lockstep : train_at_own_pace)({cluster, workers, window, log, owner}, done);
           },
       .run =
           [&] {
             progress.is_set_up = true;
             backend.run();
           },
       .on_update =
           [&](const TrainingProgress& done) {
             if (!is_at_target(scenario, done))
               at_target.reset();  // a roll-back has undone it
             else if (!at_target)
               at_target = Milestone{job.session().last_update(), done};
             progress.updates = full_steps(scenario, done);
             if (options.on_update) options.on_update(progress.updates);
           },
       .on_loss = [&](MachineIndex machine) { log.lose(machine); },
       .on_stop = [&] { window.close_if_open(); },
       .broadcast =
           [&](MachineIndex source, const MachineSet& receivers, std::function<void()> on_done) {
             return std::make_unique<FlowBroadcast>(cluster, broadcast_gpus(site, source, receivers),
                                                    std::move(on_done));
           }}};
  JobResult result = job.run();
  job.session().settle();
  RunRecord record = log.collect(result.end, result.done.updates);
  record.samples.done = result.samples.done;
  record.samples.lost += result.samples.lost;
  record.samples.repeated = result.samples.repeated;
  job.session().describe(record);
  record.rentals = std::move(result.rentals);
  for (std::size_t m = 0; m < site.machines.size(); ++m) {
    const Group& group = site.group(static_cast<MachineIndex>(m));
    if (group.is_lost_by_chance()) continue;
    record.rentals[m].clear();  // until its workers have left
    for (const Span& there : record.presence[m]) record.rentals[m].push_back({there, false});
  }
  record.interruptions = result.interruptions;
  record.time_use = result.time_use;
  record.stopped = std::move(result.stopped);
  record.target = at_target;
  record.recorder = std::move(recorder);
  record.fingerprint = backend.clock().fingerprint();
  record.events = backend.clock().events();
  check_invariants(record, scenario.training.samples);
  return record;
}

}  // namespace

RunRecord simulate(const Scenario& scenario, const SimulateOptions& options) try {
  check_operation(scenario);
  check_control(scenario);
  const Site site{scenario};
  check_rates(site);
  if (options.is_on_simgrid || options.is_exact) {
    SimgridBackend backend{site.topology, options.is_exact ? FlowSolver::kSimgrid : FlowSolver::kMaxMinFlows};
    return simulate_on(backend, site, options);
  }
  PlainLoop loop{site.topology};
  return simulate_on(loop, site, options);
} catch (const RunError& error) { throw scenario.no_result(error); }

}  // namespace rehearse
