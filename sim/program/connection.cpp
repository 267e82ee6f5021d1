#include "sim/program/connection.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace rehearse {

Connection::Connection(OwnedClock clock, Cluster& cluster, PathIndex path, OnArrival on_arrival)
    : clock_{clock.for_new_owner()},
      cluster_{cluster},
      path_{path},
      latency_{cluster.network.latency(path)},
      on_arrival_{std::move(on_arrival)},
      channel_{lossy_channel(clock_, cluster, path)} {
  const Scenario& scenario = cluster.site.scenario;
  if (scenario.training.share_variation == 0) return;
  const auto name = [&](Endpoint end) {  // the same however groups are called, servers before workers or after them
    const Machine& machine = cluster.site.machine(end.machine);
    return (machine.role == Role::kWorker ? "worker " : "server ") + std::to_string(machine.number) + "." +
           std::to_string(end.gpu);
  };
  share_ = Share{.rng = Rng{scenario.seed, "shares from " + name(cluster.network.source(path)) + " to " +
                                               name(cluster.network.destination(path))}};
}

Connection::~Connection() {
  clock_.retire();
  if (!queue_.empty() && channel_ == nullptr) {
    cluster_.network.cancel(flow_);
    cluster_.network.count(path_, Bytes{} - queue_.front().size);
  }
  for (const Message& message : in_flight_)
    cluster_.traffic.lost(cluster_.network.source(path_), cluster_.network.destination(path_), message.size);
}

void Connection::send(Message message) {
  if (cluster_.site.topology.crosses_network(cluster_.network.source(path_), cluster_.network.destination(path_)))
    message.size = cluster_.site.scenario.messaging.on_wire(message.size);
  queue_.push_back(message);
  if (queue_.size() == 1) start_next();
}

void Connection::start_next() {
  const auto first = std::min_element(queue_.begin(), queue_.end(),
                                      [](const Message& a, const Message& b) { return a.priority < b.priority; });
  if (first != queue_.begin()) queue_.move_to_front(first);
  head_started_ = clock_.now();
  if (channel_ != nullptr) return channel_->send(queue_.front().size, queue_.size() > 1, [this] { finish_head(); });
  flow_ = cluster_.network.start_flow(
      path_, queue_.front().size, [this] { finish_head(); }, {}, weight());
}

double Connection::weight() {
  if (!share_) return 1;
  if (std::exchange(share_->step, queue_.front().step) != queue_.front().step)
    share_->weight = std::exp(cluster_.site.scenario.training.share_variation * share_->rng.normal());
  return share_->weight;
}

void Connection::finish_head() {
  const Message message = queue_.front();
  queue_.pop_front();
  const Endpoint from = cluster_.network.source(path_), to = cluster_.network.destination(path_);
  cluster_.traffic.sent(from, to, message.size);
  if (cluster_.recorder.covers(from, to))
    cluster_.recorder.add(MessageSpan{from,
                                      to,
                                      message.unit,
                                      message.step,
                                      {head_started_, clock_.now()},
                                      clock_.now() + latency_,
                                      message.size,
                                      channel_ != nullptr ? channel_->retransmitted() : Bytes{}});
  in_flight_.push_back(message);
  clock_.schedule_in(latency_, [this] { arrive(); });
  if (!queue_.empty()) start_next();
}

void Connection::arrive() {
  const Message arrived = in_flight_.front();
  in_flight_.pop_front();
  cluster_.traffic.received(cluster_.network.source(path_), cluster_.network.destination(path_), arrived.size);
  on_arrival_(arrived);
}

}  // namespace rehearse
