// How long a planned collective takes on links.

#include "sim/collective/collective.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <stdexcept>
#include <utility>

namespace rehearse {

Seconds latency_of(const CollectivePhase& phase, PathIndex edge, const Network& network) {
  return phase.mean_latency.value_or(network.latency(edge)) * phase.hops;
}

Bytes message_size(const CollectivePhase& phase, Bytes payload) {
  const Bytes data{(phase.pieces * payload.value() + phase.parts - 1) / phase.parts};
  return phase.messaging.on_wire(std::max(Bytes{1}, data));
}

namespace {

/// Links that the phase crosses, in order: of large clusters few; each as often as messages cross it.
std::vector<int> crossings_of(const CollectivePhase& phase, const Network& network) {
  std::vector<int> links;
  for (const PathIndex edge : phase.edges) {
    const std::vector<int>& crossed = network.path(edge).links;
    links.insert(links.end(), crossed.begin(), crossed.end());
  }
  std::sort(links.begin(), links.end());
  return links;
}

std::vector<int> once_each(std::vector<int> links) {
  links.erase(std::unique(links.begin(), links.end()), links.end());
  return links;
}

bool never_binds(int link, const Network& network) {
  return network.topology().links()[static_cast<std::size_t>(link)].never_binds;
}

}  // namespace

std::vector<int> binding_links(const CollectivePhase& phase, const Network& network) {
  std::vector<int> links = once_each(crossings_of(phase, network));
  std::erase_if(links, [&](int link) { return never_binds(link, network); });
  return links;
}

namespace {

std::vector<double> capacities_of(const std::vector<int>& links, const Network& network) {
  std::vector<double> capacities;
  for (const int link : links) capacities.push_back(network.rate(link).value());
  return capacities;
}

/// The rates that max-min sharing gives the messages of a phase. `unit`: of data, which takes about a second, so that no date is far
/// from 1.
class PhaseRates {
 public:
  PhaseRates(const CollectivePhase& phase, const Network& network, double unit, const std::vector<int>& watched)
      : network_{network}, unit_{unit} {
    std::vector<int> crossings = crossings_of(phase, network);
    are_apart_ = std::ranges::all_of(phase.times, [](int times) { return times == 1; }) &&
                 std::adjacent_find(crossings.begin(), crossings.end(), [&](int a, int b) {
                   return a == b && !never_binds(a, network);
                 }) == crossings.end();
    links_ = once_each(std::move(crossings));
    const bool is_watched =
        std::ranges::any_of(watched, [&](int link) { return std::ranges::binary_search(links_, link); });
    if (are_apart_ && !is_watched)
      send_apart(phase);
    else
      solve(phase, watched);
  }

  /// See CollectiveSharing.
  bool are_constant(const CollectivePhase& phase) const {
    if (are_apart_) return true;
    constexpr double kRounding = 1e-9;
    std::vector<double> of_link(links_.size());
    for (std::size_t e = 0; e < phase.edges.size(); ++e)
      for (const int link : network_.path(phase.edges[e]).links) {
        if (never_binds(link, network_)) continue;
        double& known = of_link[static_cast<std::size_t>(place_of(link))];
        if (known > 0 && std::abs(known - per_byte[e]) > kRounding * known) return false;
        known = per_byte[e];
      }
    return true;
  }

  std::vector<double> per_byte;
  std::vector<CollectiveSharing::LinkShare> shares;

 private:
  int place_of(int link) const {
    return static_cast<int>(std::lower_bound(links_.begin(), links_.end(), link) - links_.begin());
  }

  /// No two messages meet on a link that could bind them: what solve() finds.
  void send_apart(const CollectivePhase& phase) {
    per_byte.reserve(phase.edges.size());
    for (const PathIndex edge : phase.edges) {
      const Path& path = network_.path(edge);
      double rate = path.per_flow_rate ? path.per_flow_rate->value() : MaxMinFlows::kNever;
      for (const int link : path.links) rate = std::min(rate, network_.rate(link).value());
      per_byte.push_back(unit_ / rate / unit_);
    }
  }

  void solve(const CollectivePhase& phase, const std::vector<int>& watched) {
    flows_ = MaxMinFlows{capacities_of(links_, network_)};
    for (const int link : watched)
      if (std::ranges::binary_search(links_, link)) flows_.watch(place_of(link));
    std::vector<std::size_t> edge_of;  // [flows]
    std::vector<int> places;
    per_byte.resize(phase.edges.size());
    flows_.reserve(phase.edges.size());
    edge_of.reserve(phase.edges.size());
    for (std::size_t e = 0; e < phase.edges.size(); ++e) {
      const Path& path = network_.path(phase.edges[e]);
      places.clear();
      for (const int link : path.links) places.push_back(place_of(link));
      const int times = times_of(phase, e);
      const auto flow = flows_.start(places, unit_ * times,
                                     path.per_flow_rate ? path.per_flow_rate->value() : MaxMinFlows::kNever, times);
      if (edge_of.size() <= flow) edge_of.resize(flow + std::size_t{1});
      edge_of[flow] = e;
    }
    std::vector<MaxMinFlows::FlowIndex> ended;
    for (double now = 0; flows_.live() > 0;) {
      now = next_completion(now);
      ended.clear();
      flows_.pop_completed(now, ended);
      for (const auto flow : ended) per_byte[edge_of[flow]] = now / unit_;
      if (flows_.live() == 0) (void)next_completion(now);
    }
  }

  double next_completion(double now) {
    const double next = flows_.next_completion(now);
    for (const std::uint32_t link : flows_.take_changed()) {
      CollectiveSharing::LinkShare& share = current_[link];
      share.end = now / unit_;
      if (share.rate > 0 && share.end > share.begin) shares.push_back(share);
      share = {links_[link], now / unit_, 0, flows_.used(link)};
    }
    return next;
  }

  const Network& network_;
  double unit_;
  bool are_apart_ = false;  // no two messages share a link that could bind them
  std::vector<int> links_;
  MaxMinFlows flows_{{}};
  std::map<std::uint32_t, CollectiveSharing::LinkShare> current_;  // by watched link
};

}  // namespace

namespace {

/// Edges over the same links, as far as the weight of a flow goes, are one.
void join_equal(CollectivePhase& phase, const Network& network) {
  constexpr auto kMostAtOnce = static_cast<int>(1 / MaxMinFlows::kLeastWeight);
  std::map<std::pair<MachineIndex, std::vector<int>>, std::size_t> places;  // by source and links: of the latest edge
  std::vector<PathIndex> edges;
  for (const PathIndex edge : phase.edges) {
    const auto [place, is_new] =
        places.try_emplace(std::pair{network.source(edge).machine, network.path(edge).links}, edges.size());
    if (!is_new && phase.times[place->second] < kMostAtOnce) {
      ++phase.times[place->second];
      continue;
    }
    place->second = edges.size();
    edges.push_back(edge);
    phase.times.push_back(1);
  }
  phase.edges = std::move(edges);
}

/// Of the edges between machines, or of the others, the slowest.
double slowest_per_byte(const CollectivePhase& phase, const std::vector<double>& per_byte, const Network& network,
                        bool crosses_network) {
  double slowest = 0;
  for (std::size_t e = 0; e < phase.edges.size(); ++e) {
    const PathIndex edge = phase.edges[e];
    if (network.topology().crosses_network(network.source(edge), network.destination(edge)) == crosses_network)
      slowest = std::max(slowest, per_byte[e]);
  }
  return slowest;
}

/// What goes up alone, before anything comes down, shares no link with it.
double fill_per_byte_of(const CollectivePhase& phase, const std::vector<double>& per_byte, const Network& network,
                        double unit) {
  if (phase.edges_up.empty()) return 0;
  CollectivePhase up;
  up.edges = phase.edges_up;
  join_equal(up, network);
  const std::vector<double> alone = PhaseRates{up, network, unit, {}}.per_byte;
  const double way = (phase.steps.nvlink + phase.steps.pcie) * slowest_per_byte(up, alone, network, false) +
                     phase.steps.network * slowest_per_byte(up, alone, network, true);
  return std::max(way - *std::max_element(per_byte.begin(), per_byte.end()), 0.0);
}

}  // namespace

CollectiveSharing::CollectiveSharing(const CollectivePlan& plan, const Network& network,
                                     const std::vector<int>& watched) {
  const Topology& topology = network.topology();
  const double unit = topology.links().empty() ? 1 : topology.largest_rate().value();
  for (const CollectivePhase& phase : plan) {
    if (&phase == plan.data())
      for (std::size_t e = 0; e < phase.edges.size(); ++e) {
        const Bytes passes = topology.burst(network.path(phase.edges[e]));
        burst = e == 0 ? passes : std::min(burst, passes);
      }
    PhaseRates rates{phase, network, unit, watched};
    std::vector<std::pair<double, double>> all;
    for (std::size_t e = 0; e < phase.edges.size(); ++e)
      all.emplace_back(latency_of(phase, phase.edges[e], network).value(), rates.per_byte[e]);
    std::sort(all.begin(), all.end(), std::greater<>{});
    std::vector<std::pair<double, double>> frontier;  // falling latency, rising time per byte
    for (const auto& edge : all)
      if (frontier.empty() || edge.second > frontier.back().second) frontier.push_back(edge);
    slowest.push_back(std::move(frontier));
    shares.push_back(std::move(rates.shares));
    has_constant_rates.push_back(rates.are_constant(phase));
    fill_per_byte.push_back(fill_per_byte_of(phase, rates.per_byte, network, unit));
    per_byte.push_back(std::move(rates.per_byte));
  }
}

CollectiveTimer::CollectiveTimer(const CollectivePlan& plan, const Network& network, const CollectiveProtocol& protocol,
                                 const std::vector<int>& watched)
    : CollectiveTimer{plan, std::make_shared<const CollectiveSharing>(plan, network, watched), protocol} {}

CollectiveTimer::CollectiveTimer(const CollectivePlan& plan, std::shared_ptr<const CollectiveSharing> sharing,
                                 const CollectiveProtocol& protocol)
    : plan_{plan},
      sharing_{std::move(sharing)},
      overlap_{protocol.overlap},
      piece_{protocol.piece},
      fetched_above_{protocol.fetched_above} {
  for (const CollectivePhase& phase : plan) {
    step_.push_back(phase.steps.time(protocol).value());
    fetch_.push_back(protocol.network_step * phase.steps.network);
  }
}

Seconds CollectiveTimer::duration(Bytes payload) const {
  double total = 0;
  for (std::size_t p = 0; p < plan_.size(); ++p)
    total += round(p, payload).value() * static_cast<double>(plan_[p].repeat);
  if (sharing_->burst > Bytes{}) {
    const Bytes size = message_size(plan_[0], payload);
    total += time_of_message(0, size - std::min(size, sharing_->burst)) - time_of_message(0, size);
  }
  return Seconds{total};
}

Seconds CollectiveTimer::round(std::size_t phase, Bytes payload) const {
  return Seconds{time_of_message(phase, message_size(plan_[phase], payload))};
}

double CollectiveTimer::time_of_message(std::size_t phase, Bytes size) const {
  double longest = 0;
  const double hidden = step_[phase] * overlap_;
  for (const auto& [latency, per_byte] : sharing_->slowest[phase])
    longest = std::max(longest, latency + step_[phase] + std::max(as_double(size) * per_byte - hidden, 0.0));
  return longest + besides(phase, size).value();
}

Seconds CollectiveTimer::besides(std::size_t phase, Bytes size) const {
  const Seconds fill{as_double(std::min(piece_, size)) * sharing_->fill_per_byte[phase]};
  return fetched_above_ && size > *fetched_above_ ? fill + fetch_[phase] : fill;
}

Seconds CollectiveTimer::latency(std::size_t phase, PathIndex edge, Seconds transfer, Bytes payload,
                                 const Network& network) const {
  const Seconds step{step_[phase]};
  return latency_of(plan_[phase], edge, network) + (step - std::min(step * overlap_, transfer)) +
         besides(phase, message_size(plan_[phase], payload));
}

void CollectiveTimer::rates(std::size_t phase, Bytes payload, Seconds start,
                            const std::function<void(int link, const RatePulses&)>& on_rate) const {
  const double size = as_double(message_size(plan_[phase], payload));
  for (const CollectiveSharing::LinkShare& share : sharing_->shares[phase])
    on_rate(share.link, {.start = start.value() + size * share.begin,
                         .length = size * (share.end - share.begin),
                         .rate = share.rate,
                         .count = plan_[phase].repeat,
                         .every = round(phase, payload).value()});
}

bool repeats_in_blocks(const CollectivePlan& plan, const Network& network, const MachineFold& fold) {
  using Edge = std::array<int, 4>;
  return std::all_of(plan.begin(), plan.end(), [&](const CollectivePhase& phase) {
    std::vector<Edge> edges, shifted;
    for (const PathIndex edge : phase.edges) {
      const Endpoint from = network.source(edge), to = network.destination(edge);
      edges.push_back({from.machine, from.gpu, to.machine, to.gpu});
      shifted.push_back(
          {fold.shifted(from.machine, fold.block), from.gpu, fold.shifted(to.machine, fold.block), to.gpu});
    }
    std::sort(edges.begin(), edges.end());
    std::sort(shifted.begin(), shifted.end());
    return edges == shifted;
  });
}

void keep_folded(CollectivePlan& plan, const Network& network) {
  for (CollectivePhase& phase : plan) {
    for (std::vector<PathIndex>* edges : {&phase.edges, &phase.edges_up})
      std::erase_if(*edges, [&](PathIndex edge) { return !network.stands(network.source(edge)); });
    if (network.fold().joins_gpus) join_equal(phase, network);
  }
}

}  // namespace rehearse
