#include "sim/engine/connection.hpp"

#include <algorithm>
#include <utility>

namespace rehearse {

Connection::Connection(OwnedClock clock, Network& network, Traffic& traffic, Recorder& recorder, PathIndex path,
                       OnArrival on_arrival)
    : clock_{clock.for_new_owner()},
      network_{network},
      traffic_{traffic},
      recorder_{recorder},
      path_{path},
      latency_{network.latency(path)},
      on_arrival_{std::move(on_arrival)} {}

Connection::~Connection() {
  clock_.retire();
  if (!queue_.empty()) {
    network_.cancel(flow_);
    network_.count(path_, Bytes{} - queue_.front().size);
  }
  for (const Message& message : in_flight_)
    traffic_.lost(network_.source(path_), network_.destination(path_), message.size);
}

void Connection::send(Message message) {
  queue_.push_back(message);
  if (queue_.size() == 1) start_next();
}

void Connection::start_next() {
  const auto first = std::min_element(queue_.begin(), queue_.end(),
                                      [](const Message& a, const Message& b) { return a.priority < b.priority; });
  if (first != queue_.begin()) {
    const Message message = *first;
    queue_.erase(first);
    queue_.push_front(message);
  }
  head_started_ = clock_.now();
  flow_ = network_.start_flow(path_, queue_.front().size, [this] { finish_head(); });
}

void Connection::finish_head() {
  const Message message = queue_.front();
  queue_.pop_front();
  const Endpoint from = network_.source(path_), to = network_.destination(path_);
  traffic_.sent(from, to, message.size);
  if (recorder_.covers(from, to))
    recorder_.add(MessageSpan{
        from, to, message.unit, message.step, {head_started_, clock_.now()}, clock_.now() + latency_, message.size});
  in_flight_.push_back(message);
  clock_.schedule_in(latency_, [this] { arrive(); });
  if (!queue_.empty()) start_next();
}

void Connection::arrive() {
  const Message arrived = in_flight_.front();
  in_flight_.pop_front();
  traffic_.received(network_.source(path_), network_.destination(path_), arrived.size);
  on_arrival_(arrived);
}

}  // namespace rehearse
