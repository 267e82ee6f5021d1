#include "sim/training/collective_time.hpp"

#include <functional>
#include <optional>
#include <variant>
#include <vector>

#include "sim/base/errors.hpp"
#include "sim/base/statistics.hpp"
#include "sim/program/collective_methods.hpp"
#include "sim/program/communicator.hpp"
#include "sim/resources/paths_only.hpp"
#include "sim/resources/plain_loop.hpp"
#include "sim/resources/queue_network.hpp"
#include "sim/scenario/gradient_units.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kCollectives = 101;  // of which the median is taken
constexpr Seconds kRest{1};                // between two, for token buckets

/// The all-reduce among all GPUs of the workers. Throws InputError if the strategy is another.
class AllReduceOfWorkers {
 public:
  explicit AllReduceOfWorkers(const Scenario& scenario)
      : site_{scenario}, network_{site_.topology}, collective_{methods(scenario), network_} {}

  Seconds duration(Bytes payload) const {
    const std::size_t chosen = collective_.choose(payload);
    const CollectiveMethod& method = collective_.methods()[chosen];
    if (method.asks(method.on_wire(payload)) && !site_.scenario.loses_packets()) return median(payload);
    return collective_.duration(chosen, payload);
  }
  Bytes leaving_first_machine(Bytes payload) const {
    const CollectiveMethod& method = collective_.methods()[collective_.choose(payload)];
    const int machine = site_.workers.front().front().machine;
    Bytes sum{};
    for (const CollectivePhase& phase : method.plan)
      for (const PathIndex edge : phase.edges)
        if (network_.source(edge).machine == machine &&
            site_.topology.crosses_network(network_.source(edge), network_.destination(edge)))
          sum += message_size(phase, method.on_wire(payload)) * phase.repeat;
    return sum;
  }

 private:
  /// Of many, one after another, each when all links have been idle.
  Seconds median(Bytes payload) const {
    const Scenario& scenario = site_.scenario;
    PlainLoop loop{site_.topology};
    std::optional<QueueNetwork> queues;
    if (scenario.tcp.turn > Bytes{}) queues.emplace(site_.topology, loop.clock(), loop.network(), scenario.tcp);
    Recorder recorder;
    Cluster cluster{site_, loop.clock(), queues ? *queues : loop.network(), recorder};
    Communicator communicator{cluster, OwnedClock{loop.clock()}, gpus(), CollectiveEvents::kMessages};
    std::vector<double> times;
    std::function<void()> start = [&] {
      const Seconds begun = loop.clock().now();
      communicator.start(kind_of(scenario), 0, 0, payload, begun, [&, begun] {
        times.push_back((loop.clock().now() - begun).value());
        if (times.size() < kCollectives) loop.clock().schedule_in(kRest, start);
      });
    };
    start();
    loop.run();
    return Seconds{percentile(times, 50)};
  }

  std::vector<Endpoint> gpus() const {
    std::vector<Endpoint> gpus;
    for (const std::vector<Endpoint>& worker : site_.workers) gpus.insert(gpus.end(), worker.begin(), worker.end());
    return gpus;
  }

  static CollectiveKind kind_of(const Scenario& scenario) {
    const auto* timed = std::get_if<TimedLayers>(&scenario.model.structure);
    return timed == nullptr ? CollectiveKind::kAllReduce : timed->operation;
  }

  std::vector<CollectiveMethod> methods(const Scenario& scenario) {
    if (scenario.training.strategy.kind->collectives() == nullptr)
      throw InputError{"collective_time_s: expected the strategy \"all_reduce\"; found " +
                       describe_strategy(scenario.training.strategy)};
    return collective_methods(site_, gpus(), network_, kind_of(scenario));
  }

  Site site_;
  PathsOnly network_;
  FastestCollective collective_;
};

}  // namespace

Seconds collective_time(const Scenario& scenario) {
  const AllReduceOfWorkers all_reduce{scenario};
  Bytes payload{};
  for (const GradientUnit& unit : plan_gradient_units(scenario, 0).units) payload += unit.gradient_bytes;
  return all_reduce.duration(payload);
}

Seconds collective_time(const Scenario& scenario, Bytes payload) {
  return AllReduceOfWorkers{scenario}.duration(payload);
}

Seconds broadcast_time(const Site& site, const std::vector<Endpoint>& gpus, Bytes payload) {
  PathsOnly network{site.topology};
  const FastestCollective collective{collective_methods(site, gpus, network, CollectiveKind::kBroadcast), network};
  return collective.duration(collective.choose(payload), payload);
}

Bytes bytes_leaving_first_machine(const Scenario& scenario) {
  const AllReduceOfWorkers all_reduce{scenario};
  Bytes sum{};
  for (const GradientUnit& unit : plan_gradient_units(scenario, 0).units)
    sum += all_reduce.leaving_first_machine(unit.gradient_bytes);
  return sum;
}

Bytes bytes_leaving_first_machine(const Scenario& scenario, Bytes payload) {
  return AllReduceOfWorkers{scenario}.leaving_first_machine(payload);
}

}  // namespace rehearse
