#include "sim/program/rendezvous.hpp"

#include <algorithm>
#include <utility>

namespace rehearse {

Rendezvous::Rendezvous(Cluster& cluster, OwnedClock clock, Rng rng) : cluster_{cluster}, clock_{clock}, rng_{rng} {}

Rendezvous::~Rendezvous() {
  for (const auto& [number, message] : under_way_) {
    if (message.has_left) {
      const Network& network = cluster_.network;
      cluster_.traffic.lost(network.source(message.path), network.destination(message.path), message.size);
      continue;
    }
    cluster_.network.cancel(message.flow);
    cluster_.network.count(message.path, Bytes{} - message.size);
  }
}

void Rendezvous::start(const CollectiveMethod& method, const Start& start, std::function<void()> on_done) {
  if (method_ != &method) {
    method_ = &method;
    plan_edges();
  }
  start_ = start;
  on_done_ = std::move(on_done);
  for (Edge& edge : edges_) edge.asked = edge.awaited = edge.answered = 0;
  std::fill(ranks_.begin(), ranks_.end(), Rank{});
  ranks_left_ = ranks_.size();
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    clock_.schedule(Seconds{rng_.uniform(start.earliest.value(), start.latest.value())}, [this, rank] { go_on(rank); });
}

void Rendezvous::plan_edges() {
  edges_.clear();
  Network& network = cluster_.network;
  std::map<std::pair<MachineIndex, int>, std::size_t> numbers;
  const auto rank_of = [&numbers](const Endpoint& endpoint) {
    return numbers.try_emplace({endpoint.machine, endpoint.gpu}, numbers.size()).first->second;
  };
  const CollectivePlan& plan = method_->plan;
  for (std::size_t phase = 0; phase < plan.size(); ++phase)
    for (std::size_t number = 0; number < plan[phase].edges.size(); ++number) {
      const PathIndex path = plan[phase].edges[number];
      const Endpoint from = network.source(path), to = network.destination(path);
      const PathIndex back = network.path(path).kind == PathKind::kNetwork ? network.path(to, from) : -1;
      const std::size_t sender = rank_of(from), receiver = rank_of(to);
      edges_.push_back({.path = path, .back = back, .phase = phase, .number = number, .from = sender, .to = receiver});
    }
  ranks_.resize(numbers.size());
  outgoing_.assign(plan.size(), std::vector<std::vector<std::size_t>>(numbers.size()));
  incoming_ = outgoing_;
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    outgoing_[edges_[e].phase][edges_[e].from].push_back(e);
    incoming_[edges_[e].phase][edges_[e].to].push_back(e);
  }
}

/// Begins the rank's next round.
void Rendezvous::go_on(std::size_t number) {
  Rank& rank = ranks_[number];
  const CollectivePlan& plan = method_->plan;
  const auto takes_part = [&] {
    return !outgoing_[rank.phase][number].empty() || !incoming_[rank.phase][number].empty();
  };
  while (rank.phase < plan.size() && (rank.round == plan[rank.phase].repeat || !takes_part())) {
    ++rank.phase;
    rank.round = 0;
  }
  if (rank.phase == plan.size()) {
    if (--ranks_left_ == 0) std::exchange(on_done_, {})();
    return;
  }
  ++rank.round;
  const std::vector<std::size_t>&out = outgoing_[rank.phase][number], &in = incoming_[rank.phase][number];
  rank.left = out.size() + in.size();
  for (const std::size_t e : out) {
    const auto asked = [this, e] {
      ++edges_[e].asked;
      answer(e);
    };
    if (edges_[e].back < 0)
      asked();
    else
      send(edges_[e].path, kRequest, cluster_.network.latency(edges_[e].path), {}, asked);
  }
  for (const std::size_t e : in) {
    ++edges_[e].awaited;
    answer(e);
  }
}

void Rendezvous::end_message(std::size_t rank) {
  if (--ranks_[rank].left == 0) go_on(rank);
}

/// If there is a request, and its receiver awaits it.
void Rendezvous::answer(std::size_t index) {
  Edge& edge = edges_[index];
  if (edge.answered == std::min(edge.asked, edge.awaited)) return;
  ++edge.answered;
  if (edge.back < 0)
    send_data(index);
  else
    send(edge.back, kAnswer, cluster_.network.latency(edge.back), {}, [this, index] { send_data(index); });
}

void Rendezvous::send_data(std::size_t index) {
  const Edge& edge = edges_[index];
  const CollectivePhase& phase = method_->plan[edge.phase];
  const Seconds latency = cluster_.network.latency(edge.path) * phase.hops + phase.steps.time(method_->protocol);
  send(
      edge.path, start_.size_of(phase, edge.number), latency, [this, from = edge.from] { end_message(from); },
      [this, to = edge.to] { end_message(to); });
}

void Rendezvous::send(PathIndex path, Bytes size, Seconds latency, std::function<void()> on_left,
                      std::function<void()> on_arrival) {
  const std::uint64_t number = sent_++;
  under_way_[number] = {.path = path, .size = size};
  const auto left = [this, number, latency, begun = clock_.now(), on_left = std::move(on_left),
                     on_arrival = std::move(on_arrival)] {
    UnderWay& sent = under_way_.at(number);
    sent.has_left = true;
    const Endpoint from = cluster_.network.source(sent.path), to = cluster_.network.destination(sent.path);
    const Seconds now = clock_.now();
    cluster_.traffic.sent(from, to, sent.size);
    cluster_.recorder.add(
        MessageSpan{from, to, start_.unit, start_.step, {begun, now}, now + latency, sent.size, Bytes{}, true});
    clock_.schedule_in(latency, [this, number, on_arrival] {
      const auto arrived = under_way_.find(number);
      const UnderWay& it = arrived->second;
      cluster_.traffic.received(cluster_.network.source(it.path), cluster_.network.destination(it.path), it.size);
      under_way_.erase(arrived);
      on_arrival();
    });
    if (on_left) on_left();
  };
  const FlowId flow = cluster_.network.start_flow(path, size, left);
  if (const auto found = under_way_.find(number); found != under_way_.end()) found->second.flow = flow;
}

}  // namespace rehearse
