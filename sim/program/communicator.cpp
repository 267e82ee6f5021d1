#include "sim/program/communicator.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace rehearse {

Communicator::Communicator(Cluster& cluster, OwnedClock clock, std::vector<Endpoint> gpus, CollectiveEvents events)
    : cluster_{cluster}, clock_{clock}, gpus_{std::move(gpus)}, events_{events} {}

Communicator::Kind::Kind(std::vector<CollectiveMethod> methods, const Cluster& cluster, bool is_timed)
    : collective{std::move(methods), cluster.network,
                 is_timed ? cluster.recorder.recorded_links() : std::vector<int>{}} {
  for (std::size_t m = 0; m < collective.methods().size(); ++m) {
    unsettled.emplace_back(collective.methods()[m].plan.size());
    for (std::vector<Bytes>& by_rank : unsettled_unequal.emplace_back()) by_rank.resize(collective.methods()[m].ranks);
    latency.push_back(collective.duration(m, Bytes{}));
  }
}

Communicator::Kind& Communicator::of(CollectiveKind kind) {
  const auto known = kinds_.find(kind);
  if (known != kinds_.end()) return known->second;
  std::vector<CollectiveMethod> methods = collective_methods(cluster_.site, gpus_, cluster_.network, kind);
  if (cluster_.network.fold())
    for (CollectiveMethod& method : methods) keep_folded(method.plan, cluster_.network);
  return kinds_.try_emplace(kind, std::move(methods), cluster_, events_ == CollectiveEvents::kAll).first->second;
}

Communicator::~Communicator() {
  if (events_ == CollectiveEvents::kAll && on_done_) cluster_.recorder.cut_rates(clock_.now());
  if (held_.hold != 0) let_go();
  for (const Message& message : under_way_) {
    const PathIndex edge = message.edge;
    if (message.state == Message::kHasLeft)
      cluster_.traffic.lost(cluster_.network.source(edge), cluster_.network.destination(edge), message.size);
    if (message.state != Message::kIsLeaving || message.channel != nullptr) continue;
    cluster_.network.cancel(message.flow);
    cluster_.network.count(edge, Bytes{} - message.size);
  }
}

std::size_t Communicator::rank_of(PathIndex edge, PayloadOf of) const {
  const Endpoint end = of == PayloadOf::kSender ? cluster_.network.source(edge) : cluster_.network.destination(edge);
  return static_cast<std::size_t>(std::ranges::find(gpus_, end) - gpus_.begin());
}

Bytes Communicator::as_equal(const CollectivePlan& plan, const Payload& unequal) const {
  const Topology& topology = cluster_.network.topology();
  std::map<int, std::pair<double, double>> load;  // by link: bytes of these, and of equal payloads of a byte
  for (const CollectivePhase& phase : plan)
    for (std::size_t e = 0; e < phase.edges.size(); ++e)
      for (const int link : cluster_.network.path(phase.edges[e]).links) {
        if (topology.links()[static_cast<std::size_t>(link)].never_binds) continue;
        load[link].first += as_double(unequal.of_ranks[rank_of(phase.edges[e], unequal.of)]) * times_of(phase, e);
        load[link].second += times_of(phase, e);
      }
  double longest = 0, of_equal = 0;
  for (const auto& [link, bytes] : load) {
    const double rate = cluster_.network.rate(link).value();
    longest = std::max(longest, bytes.first / rate);
    of_equal = std::max(of_equal, bytes.second / rate);
  }
  return of_equal > 0 ? Bytes{std::llround(longest / of_equal)} : unequal.of_ranks.front();
}

Bytes Communicator::size_of(const CollectivePhase& phase, std::size_t edge) const {
  if (payload_.is_equal()) return message_size(phase, on_wire_);
  return message_size(phase, method().on_wire(payload_.of_ranks[rank_of(phase.edges[edge], payload_.of)]));
}

void Communicator::start(CollectiveKind kind, int unit, std::int64_t step, Payload ranks, Seconds prepared_since,
                         std::function<void()> on_done) {
  unit_ = unit;
  step_ = step;
  kind_ = &of(kind);
  payload_ = std::move(ranks);
  const Bytes payload =
      payload_.is_equal() ? payload_.each : as_equal(kind_->collective.methods().front().plan, payload_);
  method_ = kind_->collective.choose(payload);
  const CollectiveMethod& method = this->method();
  on_wire_ = method.on_wire(payload);
  on_done_ = std::move(on_done);
  const Seconds prepared = method.protocol.launches_ahead ? clock_.now() - prepared_since : Seconds{};
  const Seconds hidden = std::min(method.protocol.launch, prepared);
  const Seconds start = clock_.now() - hidden, alone = kind_->collective.duration(method_, payload);
  time_alone_ += alone;
  latency_alone_ += std::min(alone, kind_->latency[method_]);
  if (events_ == CollectiveEvents::kAll) {
    if (cluster_.recorder.keeps_activity) record(start + method.protocol.launch);
    clock_.schedule(std::max(clock_.now(), start + alone), [this] {
      count_timed();
      std::exchange(on_done_, {})();
    });
    return;
  }
  phase_ = 0;
  round_ = 0;
  copy_time_ = method.copy_time(payload);
  const Seconds launch = method.protocol.launch - hidden;
  if (asks(on_wire_)) {
    if (!rendezvous_)
      rendezvous_ = std::make_unique<Rendezvous>(
          cluster_, clock_,
          Rng{cluster_.site.scenario.seed, "launches " + std::to_string(cluster_.asking_communicators++)});
    const Rendezvous::Start each{
        unit, step, [this](const CollectivePhase& phase, std::size_t edge) { return size_of(phase, edge); },
        clock_.now(), clock_.now() + launch};
    return rendezvous_->start(method, each, [this] { end(); });
  }
  if (launch == Seconds{} || plan().empty())
    next_round();
  else
    clock_.schedule_in(launch, [this] { next_round(); });
}

void Communicator::count_timed() {
  for (std::size_t p = 0; p < plan().size(); ++p)
    if (payload_.is_equal()) {
      kind_->unsettled[method_][p] += message_size(plan()[p], on_wire_) * plan()[p].repeat;
    } else {
      std::vector<Bytes>& by_rank = kind_->unsettled_unequal[method_][payload_.of == PayloadOf::kSender ? 1 : 0];
      for (std::size_t rank = 0; rank < by_rank.size(); ++rank)
        by_rank[rank] += message_size(plan()[p], method().on_wire(payload_.of_ranks[rank])) * plan()[p].repeat;
    }
}

double Communicator::take_latency_share() {
  const Seconds time = std::exchange(time_alone_, {}), latency = std::exchange(latency_alone_, {});
  return time > Seconds{} ? latency / time : 0;
}

void Communicator::settle() {
  if (held_.hold != 0) let_go();
  for (auto& [name, kind] : kinds_)
    for (std::size_t m = 0; m < kind.unsettled.size(); ++m)
      for (std::size_t p = 0; p < kind.unsettled[m].size(); ++p) {
        const Bytes size = std::exchange(kind.unsettled[m][p], {});
        const std::array unequal = std::exchange(kind.unsettled_unequal[m], {});
        const bool has_unequal = std::ranges::any_of(unequal.front(), [](Bytes bytes) { return bytes > Bytes{}; });
        kind.unsettled_unequal[m].fill(std::vector<Bytes>(unequal.front().size()));
        if (size == Bytes{} && !has_unequal) continue;
        const CollectivePhase& phase = kind.collective.methods()[m].plan[p];
        for (std::size_t e = 0; e < phase.edges.size(); ++e) {
          const PathIndex edge = phase.edges[e];
          const Endpoint from = cluster_.network.source(edge), to = cluster_.network.destination(edge);
          Bytes all = size;
          if (has_unequal)
            all += unequal[0][rank_of(edge, PayloadOf::kReceiver)] + unequal[1][rank_of(edge, PayloadOf::kSender)];
          all = all * times_of(phase, e);
          cluster_.traffic.sent(from, to, all);
          cluster_.traffic.received(from, to, all);
          cluster_.network.count(edge, all);
        }
      }
}

/// Of a message that took `transfer` to leave, after its last byte has left: the way, and the software of those that pass it on.
Seconds Communicator::latency(std::size_t phase, PathIndex edge, Seconds transfer) const {
  const CollectiveProtocol& protocol = method().protocol;
  const CollectivePhase& its = plan()[phase];
  return latency_of(its, edge, cluster_.network) + protocol.step_after(its.steps.time(protocol), transfer) +
         kind_->collective.timer(method_).besides(phase, message_size(its, on_wire_));
}

/// As if the messages of an edge were one, and the rates with which each of them crosses links.
void Communicator::record(Seconds start) {
  const CollectiveTimer& timer = kind_->collective.timer(method_);
  for (std::size_t p = 0; p < plan().size(); ++p) {
    const CollectivePhase& phase = plan()[p];
    const Bytes each = message_size(phase, on_wire_);
    const auto repeat = static_cast<double>(phase.repeat);
    timer.rates(p, on_wire_, start, [this](int link, const RatePulses& rate) {
      cluster_.recorder.add_rate(*cluster_.recorder.find_link(link), rate);
    });
    for (std::size_t e = 0; e < phase.edges.size(); ++e) {
      const Seconds once{timer.seconds_per_byte(p)[e] * as_double(each)}, on_wire = once * repeat;
      const Seconds latency = this->latency(p, phase.edges[e], once) * repeat;
      cluster_.recorder.add(MessageSpan{cluster_.network.source(phase.edges[e]),
                                        cluster_.network.destination(phase.edges[e]),
                                        unit_,
                                        step_,
                                        {start, start + on_wire},
                                        start + on_wire + latency,
                                        each * phase.repeat,
                                        Bytes{},
                                        true,
                                        phase.repeat});
    }
    start += timer.round(p, on_wire_) * repeat;
  }
}

/// Round by round, message by message.
void Communicator::next_round() {
  while (phase_ < plan().size() && round_ == plan()[phase_].repeat) {
    ++phase_;
    round_ = 0;
  }
  if (phase_ == plan().size()) {
    end();
    return;
  }
  if (hold_rounds()) return;
  take_messages();
  for (std::size_t e = 0; e < under_way_.size(); ++e) send(e);
}

void Communicator::take_messages() {
  ++round_;
  const CollectivePhase& phase = plan()[phase_];
  const Bytes equal = message_size(phase, on_wire_);
  messages_left_ = phase.edges.size();
  under_way_.clear();
  for (std::size_t e = 0; e < phase.edges.size(); ++e) {
    const Bytes size = payload_.is_equal() ? equal : size_of(phase, e);
    under_way_.push_back({.edge = phase.edges[e], .size = size * times_of(phase, e)});
  }
}

const std::vector<int>& Communicator::Kind::held_links(std::size_t method, std::size_t phase, const Network& network) {
  const auto [entry, is_new] = held_links_.try_emplace({method, phase});
  std::vector<int>& links = entry->second;
  if (!is_new || !collective.timer(method).has_constant_rates(phase)) return links;
  const CollectivePhase& its = collective.methods()[method].plan[phase];
  links = binding_links(its, network);
  const bool loses = std::ranges::any_of(its.edges, [&](PathIndex edge) { return network.path(edge).packet_loss > 0; });
  const bool has_burst = std::ranges::any_of(
      links, [&](int link) { return network.topology().links()[static_cast<std::size_t>(link)].burst > Bytes{}; });
  if (loses || has_burst) links.clear();
  return links;
}

bool Communicator::hold_rounds() {
  if (events_ != CollectiveEvents::kRounds || !payload_.is_equal()) return false;
  const std::vector<int>& links = kind_->held_links(method_, phase_, cluster_.network);
  if (links.empty()) return false;
  const HoldId hold = cluster_.network.hold(links, [this] { let_go(); });
  if (hold == 0) return false;
  held_ = {.hold = hold,
           .since = clock_.now(),
           .each = kind_->collective.timer(method_).round(phase_, on_wire_),
           .rounds = plan()[phase_].repeat - round_,
           .number = held_.number + 1};
  clock_.schedule_in(held_.each * static_cast<double>(held_.rounds), [this, number = held_.number] {
    if (number == held_.number) end_hold();
  });
  return true;
}

void Communicator::end_hold() {
  cluster_.network.release(std::exchange(held_.hold, 0));
  count_rounds(held_.rounds);
  next_round();
}

void Communicator::count_rounds(std::int64_t rounds) {
  round_ += rounds;
  const CollectivePhase& phase = plan()[phase_];
  for (std::size_t e = 0; e < phase.edges.size(); ++e) {
    const PathIndex edge = phase.edges[e];
    const Bytes all = message_size(phase, on_wire_) * times_of(phase, e) * rounds;
    cluster_.traffic.sent(cluster_.network.source(edge), cluster_.network.destination(edge), all);
    cluster_.traffic.received(cluster_.network.source(edge), cluster_.network.destination(edge), all);
    cluster_.network.count(edge, all);
  }
}

void Communicator::let_go() {
  constexpr double kRounding = 1e-12;
  cluster_.network.release(std::exchange(held_.hold, 0));
  const Seconds since_start = clock_.now() - held_.since;
  const auto ended = static_cast<std::int64_t>(since_start / held_.each * (1 + kRounding));
  if (ended >= held_.rounds) return count_rounds(std::exchange(held_.rounds, 0));  // end_hold() is due
  ++held_.number;
  count_rounds(ended);
  take_messages();
  const Seconds before = std::max(Seconds{}, since_start - held_.each * static_cast<double>(ended));
  for (std::size_t e = 0; e < under_way_.size(); ++e) resume(e, before);
}

void Communicator::resume(std::size_t index, Seconds before) {
  Message& message = under_way_[index];
  const Seconds transfer{kind_->collective.timer(method_).seconds_per_byte(phase_)[index] *
                         as_double(message_size(plan()[phase_], on_wire_))};
  const Seconds start = clock_.now() - before;
  if (before < transfer) {
    message.flow = cluster_.network.resume_flow(
        message.edge, message.size, 1 - before / transfer, [this, index, start] { sent(index, start); },
        times_of(plan()[phase_], index));
    return;
  }
  cluster_.network.count(message.edge, message.size);
  cluster_.traffic.sent(cluster_.network.source(message.edge), cluster_.network.destination(message.edge),
                        message.size);
  message.state = Message::kHasLeft;
  clock_.schedule(std::max(clock_.now(), start + transfer + latency(phase_, message.edge, transfer)),
                  [this, index] { arrive(index); });
}

void Communicator::end() {
  if (copy_time_ == Seconds{} || plan().empty())
    std::exchange(on_done_, {})();
  else
    clock_.schedule_in(copy_time_, [this] { std::exchange(on_done_, {})(); });
}

bool Communicator::asks(Bytes on_wire) const {
  return method().asks(on_wire) && !cluster_.network.fold() && !cluster_.site.scenario.loses_packets();
}

void Communicator::send(std::size_t index) {
  Message& message = under_way_[index];
  const auto on_sent = [this, index, start = clock_.now()] { sent(index, start); };
  message.channel = free_channel(message.edge);
  if (message.channel != nullptr) {
    const CollectivePhase& phase = plan()[phase_];
    const bool is_last = round_ % (phase.repeat / phase.sections) == 0;  // of a section
    message.channel->send(message.size, round_ < phase.repeat, on_sent,
                          method().protocol.receivers_announce && is_last);
  } else
    message.flow =
        cluster_.network.start_flow(message.edge, message.size, on_sent, {}, times_of(plan()[phase_], index));
}

void Communicator::sent(std::size_t index, Seconds start) {
  Message& message = under_way_[index];
  const Seconds now = clock_.now(), latency = this->latency(phase_, message.edge, now - start);
  const Endpoint from = cluster_.network.source(message.edge), to = cluster_.network.destination(message.edge);
  cluster_.traffic.sent(from, to, message.size);
  message.state = Message::kHasLeft;
  cluster_.recorder.add(MessageSpan{from,
                                    to,
                                    unit_,
                                    step_,
                                    {start, now},
                                    now + latency,
                                    message.size,
                                    message.channel != nullptr ? message.channel->retransmitted() : Bytes{},
                                    true});
  clock_.schedule_in(latency, [this, index] { arrive(index); });
}

void Communicator::arrive(std::size_t index) {
  Message& message = under_way_[index];
  cluster_.traffic.received(cluster_.network.source(message.edge), cluster_.network.destination(message.edge),
                            message.size);
  message.state = Message::kHasArrived;
  if (--messages_left_ == 0) next_round();
}

/// None where no packets are lost.
LossyChannel* Communicator::free_channel(PathIndex edge) {
  if (!(cluster_.network.path(edge).packet_loss > 0)) return nullptr;
  auto& channels = channels_[edge];
  const auto found =
      std::find_if(channels.begin(), channels.end(), [](const auto& known) { return !known->is_busy(); });
  if (found != channels.end()) return found->get();
  channels.push_back(lossy_channel(clock_, cluster_, edge));
  return channels.back().get();
}

}  // namespace rehearse
