#include "sim/engine/simulate.hpp"

#include <stdexcept>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/engine/machines.hpp"
#include "sim/engine/simgrid_backend.hpp"
#include "sim/engine/strategy.hpp"

namespace rehearse {

namespace {

/// What must hold in every run, whatever the scenario. A violation is a bug of ours.
void check_invariants(const RunRecord& record) {
  const auto require = [](bool holds, const char* invariant) {
    if (!holds) throw std::logic_error{std::string{"invariant broken: "} + invariant};
  };
  constexpr double kRounding = 1e-6;
  require(record.sent == record.received, "bytes sent = bytes received");
  Bytes sent{}, received{};
  for (std::size_t m = 0; m < record.machines.size(); ++m) {
    const Machine& machine = record.machines[m];
    const MachineUse& use = record.total[m];
    sent += use.sent;
    received += use.received;
    const double capacity = machine.nics * machine.nic.value() * record.drained.value() * (1 + kRounding) + 1;
    require(as_double(use.sent) <= capacity && as_double(use.received) <= capacity, "no NIC above its capacity");
    require(use.cpu_busy.value() <= machine.cores * record.drained.value() * (1 + kRounding),
            "no core busy for longer than the run");
  }
  require(sent == record.sent && received == record.received, "bytes of the machines = bytes of the run");
  for (const StepSpan& step : record.recorder.steps)
    require(step.span.end > step.span.start && step.staleness >= 0, "every step takes time");
}

/// Slower links make dates that a double cannot hold, faster ones bytes that take no time.
void check_rates(const Topology& topology) {
  const auto require = [](BytesPerSecond rate, const std::string& what) {
    if (!(rate >= BytesPerSecond{1} && rate <= BytesPerSecond{1e18}))
      throw NoResultError{what + " has " + to_text(rate) + ": rates from 1Bps to 1e18Bps can be simulated"};
  };
  for (const TopologyLink& link : topology.links()) require(link.rate, link.name);
  for (const RegionLink& link : topology.region_links())
    if (link.per_flow_rate) require(*link.per_flow_rate, "a connection from " + link.from + " to " + link.to);
}

}  // namespace

RunRecord simulate(const Scenario& scenario, const SimulateOptions& options) {
  const std::vector<Machine> machines = list_machines(scenario);
  const Topology topology = build_topology(scenario, machines);
  check_rates(topology);
  SimgridBackend backend{topology, options.is_exact ? FlowSolver::kSimgrid : FlowSolver::kMaxMinFlows};
  backend.clock().on_progress(options.on_progress);
  Recorder recorder;
  recorder.keeps_activity = options.keeps_activity;
  recorder.scope = options.scope;
  const Cluster cluster{.scenario = scenario,
                        .machines = machines,
                        .clock = backend.clock(),
                        .network = backend.network(),
                        .recorder = recorder,
                        .is_exact = options.is_exact,
                        .on_update = options.on_update,
                        .run = [&backend] { backend.run(); }};
  struct Run {
    const Cluster& cluster;
    RunRecord operator()(const ParameterServerStrategy&) const { return run_parameter_server(cluster); }
    RunRecord operator()(const AllReduceStrategy&) const { return run_all_reduce(cluster); }
    RunRecord operator()(const PairwiseAveragingStrategy&) const { return run_pairwise_averaging(cluster); }
  };
  RunRecord record = std::visit(Run{cluster}, scenario.training.strategy.kind);
  record.recorder = std::move(recorder);
  record.fingerprint = backend.clock().fingerprint();
  record.events = backend.clock().events();
  check_invariants(record);
  return record;
}

}  // namespace rehearse
