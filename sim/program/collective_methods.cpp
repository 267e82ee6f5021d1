#include "sim/program/collective_methods.hpp"

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

Seconds CollectiveMethod::copy_time(Bytes payload) const {
  return protocol.copy ? payload / *protocol.copy / static_cast<double>(ranks) : Seconds{};
}

std::vector<CollectiveMethod> collective_methods(const Site& site, const std::vector<Endpoint>& gpus, Network& network,
                                                 CollectiveKind kind) {
  if (gpus.empty()) return {CollectiveMethod{}};
  const auto* strategy = std::get_if<AllReduceStrategy>(&site.scenario.training.strategy.kind);
  const bool is_all_reduce = kind == CollectiveKind::kAllReduce;
  const CollectiveAlgorithm wanted =
      strategy != nullptr && is_all_reduce ? strategy->algorithm : CollectiveAlgorithm::kRing;
  const bool takes_any = wanted == CollectiveAlgorithm::kFastest;
  const CollectiveParameters& parameters =
      site.scenario.profile.collectives.on(site.group(gpus.front().machine).interconnect.name);
  std::vector<CollectiveMethod> methods;
  for (const auto& [name, protocol] : parameters.protocols) {
    const CollectiveAlgorithm algorithm = protocol.algorithm.value_or(takes_any ? CollectiveAlgorithm::kRing : wanted);
    if (!takes_any && algorithm != wanted) continue;
    CollectivePlan plan = plan_collective(kind, algorithm, gpus, network, protocol.is_in_gpu_order);
    if (plan.empty() && gpus.size() > 1) continue;  // it does not work on these machines
    methods.push_back({protocol, std::move(plan), gpus.size()});
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
}

Seconds FastestCollective::duration(std::size_t method, Bytes payload) const {
  const CollectiveMethod& by = methods_[method];
  if (by.plan.empty()) return {};
  return by.protocol.launch + timers_[method].duration(by.on_wire(payload)) + by.copy_time(payload);
}

std::size_t FastestCollective::choose(Bytes payload) const {
  std::size_t best = 0;
  for (std::size_t m = 1; m < methods_.size(); ++m)
    if (duration(m, payload) < duration(best, payload)) best = m;
  return best;
}

}  // namespace rehearse
