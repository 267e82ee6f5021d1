#include "sim/program/collective_methods.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <variant>

#include "sim/base/errors.hpp"

namespace rehearse {

Bytes CollectiveMethod::on_wire(Bytes payload) const {
  return protocol.efficiency == 1
             ? payload
             : Bytes{static_cast<std::int64_t>(std::ceil(as_double(payload) / protocol.efficiency))};
}

bool CollectiveMethod::asks(Bytes on_wire) const {
  return protocol.eager_limit && std::any_of(plan.begin(), plan.end(), [&](const CollectivePhase& phase) {
           return message_size(phase, on_wire) > *protocol.eager_limit;
         });
}

Seconds CollectiveMethod::copy_time(Bytes payload) const {
  return protocol.copy ? payload / *protocol.copy / static_cast<double>(ranks) : Seconds{};
}

namespace {

/// Share of the steps whose data a GPU keeps besides passing them on.
double kept_share(CollectiveKind kind) {
  if (kind == CollectiveKind::kAllGather) return 1;
  return kind == CollectiveKind::kAllReduce ? 0.5 : 0;
}

/// What depends on the GPU's clock, and on what the GPUs do with the data.
void add_times(CollectiveProtocol& protocol, const CollectiveParameters& parameters, CollectiveKind kind,
               const Group& group) {
  if (group.accelerator) {
    const double dies = group.accelerator->dies > 1 ? parameters.across_dies : 1;
    const Seconds cycle{dies / group.accelerator->clock()};
    const Seconds hop = cycle * parameters.hop_cycles;
    protocol.launch += cycle * parameters.launch_cycles + hop * protocol.launch_hops;
    protocol.nvlink_step += hop * protocol.step_hops;
    protocol.kept_step += hop * protocol.kept_hops;
  }
  protocol.nvlink_step += protocol.kept_step * kept_share(kind);
}

}  // namespace

std::vector<CollectiveMethod> collective_methods(const Site& site, const std::vector<Endpoint>& gpus, Network& network,
                                                 CollectiveKind kind) {
  if (gpus.empty()) return {CollectiveMethod{}};
  const auto* strategy = std::get_if<AllReduceStrategy>(&site.scenario.training.strategy.kind);
  const bool is_all_reduce = kind == CollectiveKind::kAllReduce;
  const CollectiveAlgorithm wanted =
      strategy != nullptr && is_all_reduce ? strategy->algorithm : CollectiveAlgorithm::kRing;
  const bool takes_any = wanted == CollectiveAlgorithm::kFastest;
  const Group& group = site.group(gpus.front().machine);
  const Interconnect& inside = group.interconnect;
  const CollectiveParameters& parameters = site.scenario.profile.collectives.on(inside.name, inside.generation);
  const bool has_own = std::any_of(parameters.protocols.begin(), parameters.protocols.end(),
                                   [kind](const auto& entry) { return entry.second.operation == kind; });
  std::vector<CollectiveMethod> methods;
  for (const auto& [name, protocol] : parameters.protocols) {
    if (has_own ? protocol.operation != kind : protocol.operation.has_value()) continue;
    const CollectiveAlgorithm algorithm = protocol.algorithm.value_or(takes_any ? CollectiveAlgorithm::kRing : wanted);
    if (!takes_any && algorithm != wanted) continue;
    CollectivePlan plan = plan_collective(kind, algorithm, gpus, network, protocol.is_in_gpu_order);
    if (plan.empty() && gpus.size() > 1) continue;  // it does not work on these machines
    methods.push_back({protocol, std::move(plan), gpus.size()});
    add_times(methods.back().protocol, parameters, kind, group);
  }
  if (methods.empty()) {
    const CollectiveAlgorithm algorithm = takes_any ? CollectiveAlgorithm::kRing : wanted;
    CollectivePlan plan = plan_collective(kind, algorithm, gpus, network);
    if (plan.empty() && gpus.size() > 1)
      throw InputError{site.scenario.file_name + ": /training/strategy/algorithm: a " +
                       all_reduce_algorithm(algorithm).title + " does not work among " + std::to_string(gpus.size()) +
                       " GPUs of these machines"};
    methods.push_back({{}, std::move(plan), gpus.size()});
  }
  return methods;
}

FastestCollective::FastestCollective(std::vector<CollectiveMethod> methods, const Network& network,
                                     const std::vector<int>& watched)
    : methods_{std::move(methods)} {
  for (const CollectiveMethod& method : methods_) timers_.emplace_back(method.plan, network, method.protocol, watched);
  if (std::none_of(methods_.begin(), methods_.end(),
                   [](const auto& method) { return method.protocol.tuner.has_value(); }))
    return;
  for (CollectiveMethod expected : methods_) {
    if (const auto tuner = expected.protocol.tuner)
      expected.protocol = {.algorithm = expected.protocol.algorithm,
                           .launch = tuner->launch,
                           .nvlink_step = tuner->nvlink_step,
                           .pcie_step = tuner->pcie_step,
                           .network_step = tuner->network_step,
                           .efficiency = tuner->efficiency};
    expected_.push_back(std::move(expected));
  }
  for (const CollectiveMethod& method : expected_) expected_timers_.emplace_back(method.plan, network, method.protocol);
}

namespace {

Seconds duration_by(const CollectiveMethod& method, const CollectiveTimer& timer, Bytes payload) {
  if (method.plan.empty()) return {};
  return method.protocol.launch + timer.duration(method.on_wire(payload)) + method.copy_time(payload);
}

}  // namespace

Seconds FastestCollective::duration(std::size_t method, Bytes payload) const {
  return duration_by(methods_[method], timers_[method], payload);
}

std::size_t FastestCollective::choose(Bytes payload) const {
  std::size_t best = 0;
  std::pair<Seconds, Seconds> least;
  for (std::size_t m = 0; m < methods_.size(); ++m) {
    const Seconds takes = duration(m, payload);
    const Seconds expected = expected_.empty() ? takes : duration_by(expected_[m], expected_timers_[m], payload);
    if (m > 0 && std::pair{expected, takes} >= least) continue;
    best = m;
    least = {expected, takes};
  }
  return best;
}

}  // namespace rehearse
