#include "sim/program/collective_methods.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
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

namespace {

bool gathers_by_trees(const Scenario& scenario) {
  const CollectiveRules* rules = scenario.training.strategy.kind->collectives();
  return rules != nullptr && rules->gathers_by_trees;
}

/// The methods among some GPUs, of which those of one plan follow one another.
class MethodList {
 public:
  MethodList(const Site& site, const std::vector<Endpoint>& gpus, Network& network, CollectiveKind kind)
      : gpus_{gpus},
        network_{network},
        messaging_{site.scenario.messaging},
        kind_{kind},
        by_trees_{gathers_by_trees(site.scenario)},
        group_{site.group(gpus.front().machine)},
        is_in_order_{group_.instance.is_in_order || site.scenario.islands().size() == 1} {
    const Interconnect& inside = group_.interconnect;
    parameters_ = &site.scenario.profile.collectives.on(inside.name, inside.generation);
    has_own_ = std::any_of(parameters_->protocols.begin(), parameters_->protocols.end(), [this](const auto& entry) {
      return entry.second.operation == kind_ && is_possible(entry.second);
    });
  }

  /// Those of the profile's protocols that are for the algorithm, or without any the algorithm at no cost but the links'; which
  /// the tuner chooses between. False: it does not work among these GPUs.
  bool add(CollectiveAlgorithm algorithm) {
    const std::size_t before = methods_.size();
    bool has_protocol = false;
    for (const auto& [name, protocol] : parameters_->protocols)
      if (is_for_kind(protocol) && protocol.algorithm.value_or(algorithm) == algorithm)
        has_protocol = add(algorithm, protocol) || has_protocol;
    if (!has_protocol) has_protocol = add(algorithm, std::nullopt);
    for (std::size_t m = before; m < methods_.size(); ++m) methods_[m].choice = choices_;
    ++choices_;
    return has_protocol;
  }

  /// All protocols of the profile; which the tuner chooses between. Trees are between machines. One that states no algorithm was
  /// measured as a ring, and costs a tree as much: libraries have both.
  void add_library() {
    const bool spans = std::any_of(gpus_.begin(), gpus_.end(), [this](const Endpoint gpu) {
      return network_.topology().crosses_network(gpus_.front(), gpu);
    });
    for (const auto& [name, protocol] : parameters_->protocols) {
      if (!is_for_kind(protocol)) continue;
      const CollectiveAlgorithm algorithm = protocol.algorithm.value_or(CollectiveAlgorithm::kRing);
      if (spans || algorithm != CollectiveAlgorithm::kTree) add(algorithm, protocol);
      if (!protocol.algorithm && spans && kind_ == CollectiveKind::kAllReduce)
        add(CollectiveAlgorithm::kTree, protocol);
    }
    if (methods_.empty()) add(CollectiveAlgorithm::kRing, std::nullopt);
  }

  std::vector<CollectiveMethod> take() { return std::move(methods_); }

 private:
  /// Among these machines: a library chooses once for all collectives of its process, those within a machine included.
  bool is_possible(const CollectiveProtocol& protocol) const { return is_in_order_ || !protocol.needs_order; }

  bool is_for_kind(const CollectiveProtocol& protocol) const {
    if (!is_possible(protocol)) return false;
    return has_own_ ? protocol.operation == kind_ : !protocol.operation.has_value();
  }

  /// Without a protocol nothing costs but the links.
  bool add(CollectiveAlgorithm algorithm, const std::optional<CollectiveProtocol>& protocol) {
    const bool is_in_gpu_order = protocol && protocol->is_in_gpu_order;
    const auto [plan, is_new] = plans_.try_emplace({algorithm, is_in_gpu_order});
    if (is_new) {
      plan->second = {plans_.size() - 1,
                      plan_collective(kind_, algorithm, gpus_, network_, is_in_gpu_order, by_trees_)};
      add_messaging(plan->second.second);
    }
    const auto& [number, phases] = plan->second;
    if (phases.empty() && gpus_.size() > 1) return false;
    methods_.push_back({protocol.value_or(CollectiveProtocol{}), phases, gpus_.size(), number});
    if (is_in_order_) methods_.back().protocol.fetched_above.reset();
    if (protocol) add_times(methods_.back().protocol, *parameters_, kind_, group_);
    if (auto& tuner = methods_.back().protocol.tuner) tuner->network_step += group_.instance.plugin_latency;
    return true;
  }

  void add_messaging(CollectivePlan& plan) const {
    for (CollectivePhase& phase : plan)
      if (std::any_of(phase.edges.begin(), phase.edges.end(), [&](PathIndex edge) {
            return network_.topology().crosses_network(network_.source(edge), network_.destination(edge));
          }))
        phase.messaging = messaging_;
  }

  const std::vector<Endpoint>& gpus_;
  Network& network_;
  const Messaging& messaging_;
  CollectiveKind kind_;
  bool by_trees_;
  const Group& group_;
  bool is_in_order_;
  const CollectiveParameters* parameters_ = nullptr;
  bool has_own_ = false;
  std::size_t choices_ = 0;
  std::vector<CollectiveMethod> methods_;
  std::map<std::pair<CollectiveAlgorithm, bool>, std::pair<std::size_t, CollectivePlan>> plans_;  // with their numbers
};

/// Every one that works on these machines.
void add_all(MethodList& methods, std::size_t gpus) {
  for (const auto& [word, algorithm] : collective_algorithms()) {
    if (is_choice(algorithm) || gpus > all_reduce_algorithm(algorithm).most_ranks) continue;
    try {
      (void)methods.add(algorithm);
    } catch (const std::invalid_argument&) { continue; }  // unequal machines
  }
}

}  // namespace

std::vector<CollectiveMethod> collective_methods(const Site& site, const std::vector<Endpoint>& gpus, Network& network,
                                                 CollectiveKind kind) {
  if (gpus.empty()) return {CollectiveMethod{}};
  const CollectiveRules* rules = site.scenario.training.strategy.kind->collectives();
  const CollectiveAlgorithm wanted =
      rules != nullptr && kind == CollectiveKind::kAllReduce ? rules->algorithm : CollectiveAlgorithm::kRing;
  MethodList methods{site, gpus, network, kind};
  if (wanted == CollectiveAlgorithm::kLibrary)
    methods.add_library();
  else if (wanted == CollectiveAlgorithm::kFastest)
    add_all(methods, gpus.size());
  else if (!methods.add(wanted))
    throw InputError{site.scenario.file_name + ": /training/strategy/algorithm: a " +
                     all_reduce_algorithm(wanted).title + " does not work among " + std::to_string(gpus.size()) +
                     " GPUs of these machines"};
  return methods.take();
}

FastestCollective::FastestCollective(std::vector<CollectiveMethod> methods, const Network& network,
                                     const std::vector<int>& watched)
    : methods_{std::move(methods)} {
  std::map<std::size_t, std::shared_ptr<const CollectiveSharing>> sharing;  // by plan
  for (const CollectiveMethod& method : methods_) {
    std::shared_ptr<const CollectiveSharing>& known = sharing[method.plan_number];
    if (!known) known = std::make_shared<const CollectiveSharing>(method.plan, network, watched);
    timers_.emplace_back(method.plan, known, method.protocol);
  }
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
  for (const CollectiveMethod& method : expected_)
    expected_timers_.emplace_back(method.plan, sharing[method.plan_number], method.protocol);
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
  Seconds least = kNever;
  for (std::size_t first = 0; first < methods_.size();) {
    const auto [chosen, takes] = choose_among(first, payload);
    if (takes < least) {
      best = chosen;
      least = takes;
    }
    const std::size_t choice = methods_[first].choice;
    while (first < methods_.size() && methods_[first].choice == choice) ++first;
  }
  return best;
}

std::pair<std::size_t, Seconds> FastestCollective::choose_among(std::size_t first, Bytes payload) const {
  std::size_t best = first;
  std::pair<Seconds, Seconds> least;
  for (std::size_t m = first; m < methods_.size() && methods_[m].choice == methods_[first].choice; ++m) {
    const Seconds takes = duration(m, payload);
    const Seconds expected = expected_.empty() ? takes : duration_by(expected_[m], expected_timers_[m], payload);
    if (m > first && std::pair{expected, takes} >= least) continue;
    best = m;
    least = {expected, takes};
  }
  return {best, least.second};
}

}  // namespace rehearse
