#include "sim/engine/collective_time.hpp"

#include <stdexcept>
#include <variant>

#include "sim/base/errors.hpp"
#include "sim/engine/collective.hpp"
#include "sim/engine/gradient_units.hpp"

namespace rehearse {

namespace {

/// Paths, and nothing that moves on them.
class PathsOnly : public Network {
 public:
  using Network::Network;
  void cancel(FlowId) override {}
  void set_capacity(MachineIndex, BytesPerSecond) override { refuse(); }
  Seconds now() const override { return {}; }
  void watch(const std::vector<int>&, OnRate) override { refuse(); }

 private:
  FlowId start(PathIndex, Bytes, std::function<void()>) override { refuse(); }
  [[noreturn]] static void refuse() { throw std::logic_error{"a closed form has no flows"}; }
};

void require_all_reduce(const Scenario& scenario) {
  if (!std::holds_alternative<AllReduceStrategy>(scenario.training.strategy.kind))
    throw InputError{"collective_time_s: expected the strategy \"all_reduce\"; found " +
                     describe_strategy(scenario.training.strategy)};
}

}  // namespace

Seconds collective_time(const Scenario& scenario) {
  require_all_reduce(scenario);
  Bytes payload{};
  for (const GradientUnit& unit : plan_gradient_units(scenario, 0).units) payload += unit.gradient_bytes;
  return collective_time(scenario, payload);
}

Seconds collective_time(const Scenario& scenario, Bytes payload) {
  require_all_reduce(scenario);
  const Site site{scenario};
  PathsOnly network{site.topology};
  std::vector<Endpoint> gpus;
  for (const std::vector<Endpoint>& worker : site.workers) gpus.insert(gpus.end(), worker.begin(), worker.end());
  const FastestCollective collective{collective_methods(site, gpus, network), network};
  return collective.duration(collective.choose(payload), payload);
}

}  // namespace rehearse
