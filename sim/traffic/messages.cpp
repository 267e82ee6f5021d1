#include "sim/traffic/messages.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {

constexpr std::int64_t kLargest = 1LL << 50U;  // a message, in bytes
constexpr int kFirstSenderPort = 20000, kFirstReceiverPort = 50000;
constexpr int kPortsOfLane = 512;  // more than a machine has GPUs
constexpr int kMostLanes = 50;

std::int64_t to_ns(double seconds) { return std::llround(seconds * static_cast<double>(kNanosecondsPerSecond)); }

std::int64_t segments_of(const Message& message) {
  return (message.payload_bytes + message.packet_bytes - 1) / message.packet_bytes;
}

/// Packets that send a part of the message again.
std::int64_t packets_again(const Message& message) {
  const std::int64_t most = std::min<std::int64_t>(message.packet_bytes, message.payload_bytes);
  return most == 0 ? 0 : (message.retransmitted_bytes + most - 1) / most;
}

/// a b / c of numbers whose product may be beyond 2^63.
std::int64_t scaled(std::int64_t a, std::int64_t b, std::int64_t c) {
  return static_cast<std::int64_t>(static_cast<__int128>(a) * b / c);
}

std::int64_t acknowledgements_of(std::int64_t segments) {
  return (segments + kSegmentsPerAcknowledgement - 1) / kSegmentsPerAcknowledgement;
}

std::vector<Message> in_order(std::vector<Message> messages) {
  std::ranges::stable_sort(messages, {}, [](const Message& m) {
    return std::tuple{m.start_s, m.from.machine, m.from.gpu, m.to.machine, m.to.gpu, m.end_s};
  });
  return messages;
}

int packet_of(Bytes message) { return static_cast<int>(std::clamp<std::int64_t>(message.value(), 1, kMss)); }

/// A step's agreements: ceil(log2 workers) messages of each of them, to those 1, 2, 4, ... further.
void add_coordination(const RunRecord& record, std::vector<Message>& messages) {
  const Messaging& messaging = record.messaging;
  if (messaging.coordination == Bytes{}) return;
  const auto steps_of = [&](std::size_t machine) {  // the machine whose steps were recorded for it
    const MachineIndex other = machine < record.recorded_by.size() ? record.recorded_by[machine] : -1;
    return other < 0 ? static_cast<MachineIndex>(machine) : other;
  };
  std::map<MachineIndex, std::set<int>> gpus;
  for (const StepSpan& step : record.recorder.steps) gpus[step.machine].insert(step.gpu);
  std::vector<Endpoint> workers;
  for (std::size_t m = 0; m < record.machines.size(); ++m) {
    const auto known = gpus.find(steps_of(m));
    if (record.machines[m].role != Role::kWorker || known == gpus.end()) continue;
    for (const int gpu : known->second) workers.push_back({static_cast<MachineIndex>(m), gpu});
  }
  for (const StepSpan& step : record.recorder.steps) {
    const double start = step.span.start.value(), end = step.span.end.value(),
                 period = messaging.coordination_period.value();
    const auto agreements = period > 0 ? static_cast<std::int64_t>((end - start) / period) : 1;
    if (agreements == 0) continue;
    for (std::size_t w = 0; w < workers.size(); ++w) {
      if (steps_of(static_cast<std::size_t>(workers[w].machine)) != step.machine || workers[w].gpu != step.gpu)
        continue;
      for (std::size_t further = 1; further < workers.size(); further *= 2) {
        const Endpoint to = workers[(w + further) % workers.size()];
        if (to.machine == workers[w].machine) continue;
        messages.push_back({.from = workers[w],
                            .to = to,
                            .unit = -1,
                            .step = step.step,
                            .start_s = start,
                            .end_s = end,
                            .arrival_s = end,
                            .payload_bytes = agreements * messaging.coordination.value(),
                            .packet_bytes = packet_of(messaging.coordination)});
      }
    }
  }
}

/// What the receiver of a message, or of `count` one after another, sends while they are on their way.
Message request_for(Message message, std::int64_t count, Bytes request) {
  std::swap(message.from, message.to);
  message.arrival_s = message.end_s;
  message.payload_bytes = count * request.value();
  message.retransmitted_bytes = 0;
  message.packet_bytes = packet_of(request);
  return message;
}

}  // namespace

std::vector<Message> messages_of(const RunRecord& record, std::size_t most) {
  std::vector<Message> messages;
  const auto domain_of = [&](Endpoint end) {
    return end.gpu == Endpoint::kHost ? -1 : record.machines[static_cast<std::size_t>(end.machine)].nvlink_domain;
  };
  const auto crosses_network = [&](Endpoint from, Endpoint to) {
    return from.machine != to.machine && (domain_of(from) < 0 || domain_of(from) != domain_of(to));
  };
  for (const MessageSpan& span : record.recorder.messages) {
    if (!crosses_network(span.from, span.to)) continue;
    messages.push_back({.from = span.from,
                        .to = span.to,
                        .unit = span.unit,
                        .step = span.step,
                        .start_s = span.on_wire.start.value(),
                        .end_s = span.on_wire.end.value(),
                        .arrival_s = span.arrival.value(),
                        .payload_bytes = span.size.value(),
                        .retransmitted_bytes = span.retransmitted.value()});
    if (record.messaging.request > Bytes{})
      messages.push_back(request_for(messages.back(), span.messages, record.messaging.request));
  }
  add_coordination(record, messages);
  messages = in_order(std::move(messages));
  if (messages.size() <= most) return messages;
  const double end = messages[most].start_s;
  std::erase_if(messages, [end](const Message& message) { return message.start_s >= end; });
  return messages;
}

std::vector<std::string> machine_names(const RunRecord& record) {
  std::vector<std::string> names;
  for (const Machine& machine : record.machines) names.push_back(machine.name);
  return names;
}

std::string messages_csv(const std::vector<Message>& messages, const std::vector<std::string>& machines) {
  CsvWriter csv{{"from", "from_gpu", "to", "to_gpu", "unit", "step", "start_s", "end_s", "arrival_s", "size_B",
                 "retransmitted_B", "packet_B"}};
  for (const Message& m : messages)
    csv.row({machines[static_cast<std::size_t>(m.from.machine)], m.from.gpu,
             machines[static_cast<std::size_t>(m.to.machine)], m.to.gpu, m.unit, m.step, m.start_s, m.end_s,
             m.arrival_s, m.payload_bytes, m.retransmitted_bytes, m.packet_bytes});
  return csv.text();
}

namespace {

std::vector<Message> messages_in(const CsvTable& table, const std::vector<std::string>& machines) {
  std::map<std::string, MachineIndex, std::less<>> index_of;
  for (std::size_t m = 0; m < machines.size(); ++m) index_of.emplace(machines[m], static_cast<MachineIndex>(m));
  std::vector<Message> messages;
  messages.reserve(table.row_count());
  const bool says_retransmitted = table.has_column("retransmitted_B"), says_packets = table.has_column("packet_B");
  for (const CsvRow& row : table.rows()) {
    const auto endpoint = [&](const char* machine, const char* gpu) {
      const auto known = index_of.find(row.text(machine));
      if (known == index_of.end())
        row.fail(machine, "expected a machine of links.csv; found " + in_quotes(row.text(machine)));
      const std::int64_t index = row.integer(gpu);
      if (index < Endpoint::kHost || index >= kPortsOfLane - 1)
        row.fail(gpu, "expected a GPU from 0 to " + std::to_string(kPortsOfLane - 2) + ", or -1; found " +
                          std::to_string(index));
      return Endpoint{known->second, static_cast<int>(index)};
    };
    const auto time = [&](const char* column, double least) {
      const double value = row.number(column);
      if (!(value >= least && value <= kLatestSecond))
        row.fail(column,
                 "expected a time in seconds, not before what it follows; found " + in_quotes(row.text(column)));
      return value;
    };
    Message message{.from = endpoint("from", "from_gpu"), .to = endpoint("to", "to_gpu")};
    if (message.from.machine == message.to.machine) row.fail("to", "expected another machine than the sender");
    message.start_s = time("start_s", 0);
    message.end_s = time("end_s", message.start_s);
    message.arrival_s = time("arrival_s", message.end_s);
    const auto bytes = [&](const char* column) {
      const std::int64_t value = row.integer(column);
      if (value < 0 || value > kLargest)
        row.fail(column, "expected bytes from 0 to 2^50; found " + in_quotes(row.text(column)));
      return value;
    };
    message.payload_bytes = bytes("size_B");
    if (says_retransmitted) message.retransmitted_bytes = bytes("retransmitted_B");
    if (says_packets) {
      const std::int64_t value = row.integer("packet_B");
      if (value < 1 || value > kMss)
        row.fail("packet_B",
                 "expected bytes from 1 to " + std::to_string(kMss) + "; found " + in_quotes(row.text("packet_B")));
      message.packet_bytes = static_cast<int>(value);
    }
    if (message.payload_bytes == 0 && message.retransmitted_bytes > 0)
      row.fail("retransmitted_B",
               "expected 0 of a message without bytes; found " + in_quotes(row.text("retransmitted_B")));
    message.step = row.integer("step");
    messages.push_back(message);
  }
  return in_order(std::move(messages));
}

}  // namespace

std::vector<Message> load_messages(const std::filesystem::path& file, const std::vector<std::string>& machines) {
  return messages_in(load_csv_file(file), machines);
}

std::vector<Message> parse_messages(std::string text, const std::string& file_name,
                                    const std::vector<std::string>& machines) {
  return messages_in(parse_csv(std::move(text), file_name), machines);
}

Address machine_address(MachineIndex machine) { return Address::v4(0x0a000001U + static_cast<std::uint32_t>(machine)); }

RunConnection::Packets::Packets(const RunConnection& connection, bool are_acknowledgements)
    : connection_{&connection}, are_acknowledgements_{are_acknowledgements} {
  find_next();
}

void RunConnection::Packets::start_message(const Message& message) {
  segments_ = segments_of(message);
  full_segments_ = std::max<std::int64_t>(1, message.payload_bytes / message.packet_bytes);
  again_ = packets_again(message);
  start_ns_ = to_ns(message.start_s);
  duration_ns_ = to_ns(message.end_s) - start_ns_;
  latency_ns_ = std::max<std::int64_t>(1, to_ns(message.arrival_s) - to_ns(message.end_s));
}

/// Of the packets that send segments again, those of segments before this one: a share of all, to the nearest number.
std::int64_t RunConnection::Packets::sent_again_before(std::int64_t segment) const {
  const __int128 twice = static_cast<__int128>(2) * again_ * std::min(segment, full_segments_);
  const std::int64_t halves = 2 * full_segments_;
  return static_cast<std::int64_t>((twice + full_segments_) / halves);
}

/// Goes on to the next packet of this direction.
void RunConnection::Packets::find_next() {
  const std::vector<Message>& messages = connection_->messages_;
  const std::int64_t before = segments_ == 0 ? 0 : time_;
  const auto sendings = [&] { return sent_again_before(segment_ + 1) - sent_again_before(segment_); };
  if (segments_ > 0 && (are_acknowledgements_ || time_of_sending_ == sendings())) {
    ++segment_;
    time_of_sending_ = -1;
  }
  ++time_of_sending_;
  while (message_ < messages.size() && segment_ >= segments_) {
    if (segments_ > 0) sent_ += messages[message_++].payload_bytes;
    segments_ = segment_ = 0;
    while (message_ < messages.size() && messages[message_].payload_bytes == 0) ++message_;
    if (message_ == messages.size()) return;
    start_message(messages[message_]);
  }
  if (are_acknowledgements_) {  // of this segment and the one before, when they were sent for the last time
    segment_ =
        std::min(segment_ / kSegmentsPerAcknowledgement * kSegmentsPerAcknowledgement + kSegmentsPerAcknowledgement - 1,
                 segments_ - 1);
    time_of_sending_ = sendings();
  }
  const std::int64_t packet = segment_ + sent_again_before(segment_) + time_of_sending_;
  time_ = start_ns_ + scaled(duration_ns_, packet + 1, segments_ + again_);
  if (are_acknowledgements_) time_ = std::max(time_ + latency_ns_, before);  // they do not overtake each other
}

Packet RunConnection::Packets::take() {
  const Message& message = connection_->messages_[message_];
  const Endpoint from = connection_->from_, to = connection_->to_;
  const auto sender_port =
      static_cast<std::uint16_t>(kFirstSenderPort + connection_->lane_ * kPortsOfLane + from.gpu + 1);
  const auto receiver_port = static_cast<std::uint16_t>(kFirstReceiverPort + to.gpu + 1);
  std::int64_t offset = segment_ * message.packet_bytes,
               size = std::min<std::int64_t>(message.packet_bytes, message.payload_bytes - offset);
  Packet packet{.time_ns = time_,
                .wire_bytes = kSegmentHeaders,
                .from = machine_address(from.machine),
                .to = machine_address(to.machine),
                .from_port = sender_port,
                .to_port = receiver_port,
                .protocol = rehearse::kTcp,
                .is_ip = true,
                .has_payload = true,
                .has_sequence = true,
                .sequence = 1};
  if (are_acknowledgements_) {
    std::swap(packet.from, packet.to);
    std::swap(packet.from_port, packet.to_port);
    acknowledged_ = static_cast<std::uint32_t>(1 + sent_ + offset + size);
  } else {
    if (time_of_sending_ > 0) {  // the end of the segment
      const std::int64_t part = sent_again_before(segment_) + time_of_sending_ - 1;
      const std::int64_t again =
          scaled(message.retransmitted_bytes, part + 1, again_) - scaled(message.retransmitted_bytes, part, again_);
      offset += size - again;
      size = again;
    }
    packet.payload_bytes = size;
    packet.wire_bytes += size;
    packet.sequence = static_cast<std::uint32_t>(1 + sent_ + offset);
  }
  find_next();
  return packet;
}

std::vector<RunConnection> connections_of(const std::vector<Message>& messages) {
  using Ends = std::tuple<MachineIndex, int, MachineIndex, int>;
  std::map<Ends, std::vector<RunConnection>> lanes;
  for (const Message& message : messages) {
    std::vector<RunConnection>& some =
        lanes[{message.from.machine, message.from.gpu, message.to.machine, message.to.gpu}];
    auto free = std::ranges::find_if(some, [&](const RunConnection& c) { return c.is_free_at(message.start_s); });
    if (free == some.end()) {
      if (some.size() == kMostLanes)
        throw NoResultError{"more than " + std::to_string(kMostLanes) +
                            " messages between the same two ends overlap: expected fewer, each has a connection"};
      free = some.emplace(some.end(), message.from, message.to, static_cast<int>(some.size()));
    }
    free->add(message);
  }
  std::vector<RunConnection> connections;
  for (auto& [ends, some] : lanes) std::ranges::move(some, std::back_inserter(connections));
  return connections;
}

void for_each_packet(const std::vector<RunConnection>& connections, const std::function<void(const Packet&)>& take) {
  for (const RunConnection& connection : connections)
    for (RunConnection::Packets packets : {connection.segments(), connection.acknowledgements()})
      while (packets.has_next()) take(packets.take());
}

std::int64_t count_packets(const std::vector<Message>& messages) {
  std::int64_t packets = 0;
  for (const Message& message : messages) {
    const std::int64_t segments = segments_of(message);
    packets += segments + acknowledgements_of(segments) + packets_again(message);
  }
  return packets;
}

std::int64_t first_packet_time(const std::vector<RunConnection>& connections) {
  bool is_known = false;
  std::int64_t first = 0;
  for (const RunConnection& connection : connections) {
    const RunConnection::Packets packets = connection.segments();
    if (!packets.has_next()) continue;
    first = is_known ? std::min(first, packets.next_time()) : packets.next_time();
    is_known = true;
  }
  return first;
}

}  // namespace rehearse
