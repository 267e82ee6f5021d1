#include "sim/resources/queue_network.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace rehearse {

namespace {

constexpr FlowId kOwn = FlowId{1} << 63U;  // flows of this network, not of the other one
constexpr double kPartsThatWait = 2;       // Linux: tcp_small_queue_check()
const double kShareOfMessage = std::sqrt(0.5);
constexpr double kRounding = 1e-6;  // bytes

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

QueueNetwork::QueueNetwork(const Topology& topology, Clock& clock, Network& others, const TcpParameters& tcp)
    : Network{topology},
      clock_{clock},
      others_{others},
      turn_{as_double(tcp.turn)},
      segment_{as_double(tcp.segment)},
      least_part_{as_double(tcp.segment) * std::ceil(tcp.initial_window / 2.0)},
      nics_(topology.links().size()),
      ports_(topology.links().size()),
      is_watched_(topology.links().size(), false) {
  for (std::size_t link = 0; link < topology.links().size(); ++link)
    nics_[link].rate = ports_[link].rate = topology.links()[link].rate.value();
}

QueueNetwork::Connection& QueueNetwork::connection(PathIndex index) {
  if (at(index) >= connections_.size()) connections_.resize(at(index) + 1);
  Connection& connection = connections_[at(index)];
  if (connection.nic >= 0) return connection;
  const std::vector<int>& links = path(index).links;
  const auto first_of = [&links](const std::vector<int>& ports) {
    return *std::find_first_of(links.begin(), links.end(), ports.begin(), ports.end());
  };
  connection.nic = first_of(topology().nic_ports(source(index).machine).out);
  connection.port = first_of(topology().nic_ports(destination(index).machine).in);
  return connection;
}

FlowId QueueNetwork::start(PathIndex index, Bytes size, std::optional<BytesPerSecond> most, double weight,
                           std::function<void()> on_sent) {
  const Path& way = path(index);
  if (way.kind != PathKind::kNetwork)
    return others_.start_flow(others_.path(source(index), destination(index)), size, std::move(on_sent), most, weight);
  const FlowId id = kOwn | ++started_;
  const double bytes = as_double(size);
  const double part = std::min(turn_ / kPartsThatWait, std::max(least_part_, kShareOfMessage * bytes));
  Message message{.path = index,
                  .left = bytes,
                  .missing = bytes,
                  .part = std::max(1.0, std::floor(part / segment_)) * segment_,
                  .started = now_s(),
                  .size = bytes,
                  .on_sent = std::move(on_sent)};
  for (const auto& limit : {way.per_flow_rate, most})
    if (limit) message.spacing = std::max(message.spacing, 1 / limit->value());
  messages_.emplace(id, std::move(message));
  connection(index).messages.push_back(id);
  enter_parts(index);
  return id;
}

void QueueNetwork::enter_parts(PathIndex index) {
  Connection& connection = this->connection(index);
  ++connection.version;
  Nic& nic = nics_[at(connection.nic)];
  while (!connection.messages.empty()) {
    Message& message = messages_.at(connection.messages.front());
    if (!may_enter(index, message)) break;
    const double bytes = std::min(message.part, message.left);
    message.left -= bytes;
    connection.queued += bytes;
    nic.waiting.push_back({connection.messages.front(), index, bytes});
    if (message.left <= 0) connection.messages.pop_front();
  }
  if (!nic.is_busy && !nic.waiting.empty()) send_first(connection.nic);
}

bool QueueNetwork::may_enter(PathIndex index, const Message& message) {
  const Connection& connection = this->connection(index);
  const double earliest = message.started + message.spacing * (message.size - message.left);
  if (now_s() < earliest) {
    try_again_at(earliest, index);
    return false;
  }
  const Nic& nic = nics_[at(connection.nic)];
  const bool is_sent = nic.is_busy && nic.waiting.front().path == index;
  const double left = is_sent ? nic.left - nic.rate * (now_s() - nic.since) : 0;
  const double queued = connection.queued - (is_sent ? nic.waiting.front().bytes - left : 0);
  const double too_many = queued - kPartsThatWait * std::min(message.part, message.left);
  if (too_many < -kRounding) return true;
  // Packet by packet leaves; what of it waits behind others is looked at when those have left.
  if (is_sent && left > too_many + segment_) try_again_at(now_s() + (too_many + segment_) / nic.rate, index);
  return false;
}

void QueueNetwork::try_again_at(double date, PathIndex index) {
  clock_.schedule(Seconds{date}, [this, index, version = connection(index).version] {
    if (connection(index).version == version) enter_parts(index);
  });
}

void QueueNetwork::send_first(int link) {
  Nic& nic = nics_[at(link)];
  const Part& part = nic.waiting.front();
  const PathIndex index = part.path;
  nic.is_busy = true;
  nic.left = part.bytes;
  nic.since = now_s();
  report(link, nic.rate);
  change_port(connection(index).port, nic.rate);
  await_end_of_first(link);
  enter_parts(index);
}

void QueueNetwork::await_end_of_first(int link) {
  Nic& nic = nics_[at(link)];
  clock_.schedule_in(Seconds{nic.left / nic.rate}, [this, link, version = ++nic.version] {
    if (nics_[at(link)].version == version) end_first(link);
  });
}

void QueueNetwork::end_first(int link) {
  Nic& nic = nics_[at(link)];
  const Part part = nic.waiting.front();
  nic.waiting.pop_front();
  nic.is_busy = false;
  ++nic.version;
  Connection& connection = this->connection(part.path);
  connection.queued = std::max(0.0, connection.queued - part.bytes);
  change_port(connection.port, -nic.rate);
  const Port& port = ports_[at(connection.port)];
  clock_.schedule_in(Seconds{port.backlog / port.rate}, [this, part] { deliver(part); });
  if (!nic.waiting.empty())
    send_first(link);
  else
    report(link, 0);
  enter_parts(part.path);
}

void QueueNetwork::deliver(const Part& part) {
  const auto found = messages_.find(part.message);
  if (found == messages_.end()) return;  // cancelled
  Message& message = found->second;
  message.missing -= part.bytes;
  if (message.missing > kRounding) return;
  const double earliest = message.started + message.spacing * message.size;
  if (now_s() < earliest) {
    message.missing = 0;
    clock_.schedule(Seconds{earliest}, [this, id = part.message] { deliver({.message = id}); });
    return;
  }
  const std::function<void()> on_sent = std::move(message.on_sent);
  messages_.erase(found);
  on_sent();
}

void QueueNetwork::change_port(int link, double inflow_by) {
  Port& port = ports_[at(link)];
  port.backlog = std::max(0.0, port.backlog + (port.inflow - port.rate) * (now_s() - port.since));
  if (port.backlog < kRounding) port.backlog = 0;
  port.since = now_s();
  port.inflow += inflow_by;
  if (port.inflow < kRounding) port.inflow = 0;
  ++port.version;
  report(link, port.backlog > 0 ? port.rate : std::min(port.inflow, port.rate));
  if (port.backlog == 0 || port.inflow >= port.rate) return;
  clock_.schedule_in(Seconds{port.backlog / (port.rate - port.inflow)}, [this, link, version = port.version] {
    Port& empty = ports_[at(link)];
    if (empty.version != version) return;
    empty.backlog = 0;
    empty.since = now_s();
    change_port(link, 0);
  });
}

void QueueNetwork::report(int link, double rate) {
  if (is_watched_[at(link)]) on_rate_(link, now(), rate);
}

void QueueNetwork::watch(const std::vector<int>& links, OnRate on_rate) {
  on_rate_ = on_rate;
  std::vector<int> inside;
  for (const int link : links) {
    const int machine = topology().links()[at(link)].machine;
    const std::vector<int> nics = machine < 0 ? std::vector<int>{} : topology().nic_links(machine);
    if (std::find(nics.begin(), nics.end(), link) == nics.end())
      inside.push_back(link);
    else
      is_watched_[at(link)] = true;
  }
  others_.watch(inside, std::move(on_rate));
}

void QueueNetwork::cancel(FlowId id) {
  if ((id & kOwn) == 0) return others_.cancel(id);
  const auto found = messages_.find(id);
  if (found == messages_.end()) return;
  const PathIndex index = found->second.path;
  messages_.erase(found);
  Connection& connection = this->connection(index);
  std::erase(connection.messages, id);
  Nic& nic = nics_[at(connection.nic)];
  const bool is_sent = nic.is_busy && nic.waiting.front().message == id;
  const auto drop_from = [&](auto first) {
    for (auto part = first; part != nic.waiting.end(); ++part)
      if (part->message == id) connection.queued = std::max(0.0, connection.queued - part->bytes);
    nic.waiting.erase(std::remove_if(first, nic.waiting.end(), [id](const Part& part) { return part.message == id; }),
                      nic.waiting.end());
  };
  drop_from(nic.waiting.begin() + (is_sent ? 1 : 0));
  if (is_sent) end_first(connection.nic);  // what of it has left is lost
}

}  // namespace rehearse
