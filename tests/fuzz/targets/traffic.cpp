#include <array>
#include <string>

#include "sim/base/base.hpp"
#include "sim/traffic/capture.hpp"
#include "sim/traffic/frame.hpp"
#include "sim/traffic/messages.hpp"
#include "sim/traffic/packet_json.hpp"
#include "sim/traffic/packet_table.hpp"
#include "sim/traffic/step_log.hpp"
#include "sim/traffic/traffic_statistics.hpp"
#include "tests/fuzz/targets/require.hpp"
#include "tests/fuzz/targets/targets.hpp"

namespace rehearse::fuzz {
namespace {

/// Packets of any source add up, and their statistics can be made.
void require_traffic(PacketSource& source) {
  constexpr std::int64_t kMost = 2000;
  TrafficCounter counter{1'600'000'000'000'000'000, 1'000'000};
  Packet packet;
  std::int64_t bytes = 0, packets = 0;
  while (packets < kMost && source.next(packet)) {
    require(packet.payload_bytes >= 0 && packet.wire_bytes >= 0, "sizes are not negative");
    if (packet.time_ns / kNanosecondsPerSecond / 1000 == 1'600'000) counter.add(packet);  // an interval of 1000 s
    if (packet.time_ns / kNanosecondsPerSecond / 1000 == 1'600'000) bytes += packet.wire_bytes;
    ++packets;
  }
  RunTraffic run{.traffic = counter.finish()};
  require(run.traffic.total.wire_bytes == bytes, "all bytes count");
  std::int64_t sent = run.traffic.other.wire_bytes;
  for (const TrafficHost& host : run.traffic.hosts) sent += host.sent.wire_bytes;
  require(sent == bytes, "what counts was sent by somebody");
  if (packets > 0 && run.traffic.bins.end() < 5000) (void)traffic_statistics(run, {});
}

void run_capture(std::string_view input) {
  for (const LinkHeader header : {LinkHeader::kEthernet, LinkHeader::kCooked, LinkHeader::kCooked2,
                                  LinkHeader::kInfiniband, LinkHeader::kLoopback, LinkHeader::kNone}) {
    Packet packet{.wire_bytes = 1514};
    read_frame(header, {reinterpret_cast<const std::uint8_t*>(input.data()), input.size()}, packet);
    require(packet.payload_bytes >= 0, "a payload is not negative");
  }
  try {
    require_traffic(*open_capture_text(input, "input"));
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_packet_table(std::string_view input) {
  try {
    require_traffic(*open_packet_table_text(input, "input"));
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_packet_json(std::string_view input) {
  try {
    require_traffic(*open_packet_json_text(input, "input"));
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_messages(std::string_view input) {
  constexpr std::int64_t kMostPackets = 100'000;
  try {
    const std::vector<Message> messages = parse_messages(std::string{input}, "input", {"a", "b", "c"});
    if (count_packets(messages) > kMostPackets) return;
    bool is_short = true;  // bins over centuries take long
    std::int64_t packets = -count_packets(messages), payload = 0, again = 0;
    for (const Message& message : messages) {
      payload -= message.payload_bytes + message.retransmitted_bytes;
      again -= message.retransmitted_bytes;
      is_short = is_short && message.arrival_s < 1000;
    }
    TrafficCounter counter{0, 1'000'000'000};
    for_each_packet(connections_of(messages), [&](const Packet& packet) {
      ++packets;
      payload += packet.payload_bytes;
      if (is_short) counter.add(packet);
    });
    require(packets == 0, "packets are as many as was said");
    require(payload == 0, "packets have the messages' bytes");
    if (is_short)
      require(counter.finish().total.retransmitted_bytes + again == 0, "what was sent again is told by its sequence");
  } catch (const InputError& error) { require_one_line(error.what()); } catch (const NoResultError& error) {
    require_one_line(error.what());
  }
}

void run_step_log(std::string_view input) {
  try {
    const StepLog log = parse_step_log(std::string{input}, "input", -7200);
    require(!(log.step_time_s() < 0), "steps take time");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

}  // namespace

std::span<const Target> targets_of_traffic() {
  static constexpr std::array kTargets{Target{"capture", run_capture}, Target{"packet_table", run_packet_table},
                                       Target{"packet_json", run_packet_json}, Target{"messages", run_messages},
                                       Target{"step_log", run_step_log}};
  return kTargets;
}

}  // namespace rehearse::fuzz
