#include "sim/engine/connection.hpp"

#include <utility>

namespace rehearse {

Connection::Connection(Clock& clock, Network& network, Recorder& recorder, MachineIndex from, MachineIndex to,
                       OnArrival on_arrival)
    : clock_{clock},
      network_{network},
      recorder_{recorder},
      from_{from},
      to_{to},
      latency_{network.latency(from, to)},
      on_arrival_{std::move(on_arrival)} {}

void Connection::send(Message message) {
  queue_.push_back(message);
  if (queue_.size() == 1) start_next();
}

void Connection::start_next() {
  head_started_ = clock_.now();
  network_.start_flow(from_, to_, queue_.front().size, [this] { finish_head(); });
}

void Connection::finish_head() {
  const Message message = queue_.front();
  queue_.pop_front();
  sent_ += message.size;
  if (recorder_.keeps_activity)
    recorder_.messages.push_back({from_,
                                  to_,
                                  message.variable,
                                  message.step,
                                  {head_started_, clock_.now()},
                                  clock_.now() + latency_,
                                  message.size});
  in_flight_.push_back(message);
  clock_.schedule_in(latency_, [this] {
    const Message arrived = in_flight_.front();
    in_flight_.pop_front();
    received_ += arrived.size;
    on_arrival_(arrived);
  });
  if (!queue_.empty()) start_next();
}

}  // namespace rehearse
