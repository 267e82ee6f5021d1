#include "sim/program/communicator.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace rehearse {

Communicator::Communicator(Cluster& cluster, OwnedClock clock, std::vector<Endpoint> gpus, CollectiveEvents events)
    : cluster_{cluster}, clock_{clock}, gpus_{std::move(gpus)}, events_{events}, run_{cluster, clock} {}

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
  const bool asks = this->asks(on_wire_);
  CollectiveRun::Task task{.method = &method,
                           .timer = &kind_->collective.timer(method_),
                           .on_wire = on_wire_,
                           .size_of = {},
                           .unit = unit,
                           .step = step,
                           .launch = method.protocol.launch - hidden,
                           .asks = asks,
                           .joins_rounds = events_ == CollectiveEvents::kRounds && payload_.is_equal() && !asks};
  if (!payload_.is_equal())
    task.size_of = [this](const CollectivePhase& phase, std::size_t edge) {
      return message_size(phase, this->method().on_wire(payload_.of_ranks[rank_of(phase.edges[edge], payload_.of)]));
    };
  run_.start(std::move(task), [this, copy = method.copy_time(payload)] { end(copy); });
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
  run_.settle();
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
      const Seconds latency = timer.latency(p, phase.edges[e], once, on_wire_, cluster_.network) * repeat;
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

void Communicator::end(Seconds copy) {
  if (copy == Seconds{} || plan().empty())
    std::exchange(on_done_, {})();
  else
    clock_.schedule_in(copy, [this] { std::exchange(on_done_, {})(); });
}

bool Communicator::asks(Bytes on_wire) const {
  return method().asks(on_wire) && !cluster_.network.fold() && !cluster_.site.scenario.loses_packets();
}

}  // namespace rehearse
