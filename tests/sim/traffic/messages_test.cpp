// Messages as packets, and captures of several machines.

#include "sim/traffic/messages.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/traffic/traffic_input.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

Message message(int from, int to, double start_s, double end_s, std::int64_t size) {
  return {.from = {from, 0},
          .to = {to, 0},
          .start_s = start_s,
          .end_s = end_s,
          .arrival_s = end_s + 50e-6,
          .payload_bytes = size};
}

ObservedTraffic traffic_of(const std::vector<RunConnection>& connections) {
  TrafficCounter counter{first_packet_time(connections), 1'000'000};
  for_each_packet(connections, [&](const Packet& packet) { counter.add(packet); });
  return counter.finish();
}

/// Two rounds of a ring of three machines, and two messages at once between two of them.
std::vector<Message> ring() {
  std::vector<Message> messages;
  for (int round = 0; round < 2; ++round)
    for (int m = 0; m < 3; ++m) messages.push_back(message(m, (m + 1) % 3, 1 + round, 1.5 + round, 100'000 + m));
  messages.push_back(message(0, 1, 2.25, 2.75, 4321));
  return messages;
}

/// The ring, with losses: of a part of a segment, of several, of more than there are, of a short message.
std::vector<Message> lossy_ring() {
  std::vector<Message> messages = ring();
  messages[0].retransmitted_bytes = 500;
  messages[1].retransmitted_bytes = 10'136;  // seven segments
  messages[2].retransmitted_bytes = 300'000;
  messages.push_back(message(2, 0, 2.25, 2.75, 100));
  messages.back().retransmitted_bytes = 350;
  return messages;
}

/// As tshark writes fields; dates are in the first ten seconds of 1970.
std::string table_of(const std::vector<RunConnection>& connections) {
  std::string table = "frame.time\tip.src\tip.dst\ttcp.srcport\ttcp.dstport\tframe.len\ttcp.seq\ttcp.len\n";
  std::vector<Packet> packets;
  for_each_packet(connections, [&](const Packet& packet) { packets.push_back(packet); });
  std::ranges::stable_sort(packets, {}, &Packet::time_ns);
  for (const Packet& packet : packets) {
    std::string digits = std::to_string(packet.time_ns);
    digits.insert(digits.size() - 9, ".");
    table += "1970-01-01T00:00:0" + digits + "Z\t" + to_text(packet.from) + "\t" + to_text(packet.to) + "\t" +
             std::to_string(packet.from_port) + "\t" + std::to_string(packet.to_port) + "\t" +
             std::to_string(packet.wire_bytes) + "\t" + std::to_string(packet.sequence) + "\t" +
             std::to_string(packet.payload_bytes) + "\n";
  }
  return table;
}

}  // namespace

TEST_CASE("a message is full segments and a rest, each second one acknowledged, from its start to its end") {
  const std::vector<RunConnection> connections = connections_of({message(0, 1, 1, 2, 3 * 1448 + 100)});
  std::vector<Packet> sent, acknowledged;
  for_each_packet(connections,
                  [&](const Packet& packet) { (packet.payload_bytes > 0 ? sent : acknowledged).push_back(packet); });
  REQUIRE(sent.size() == 4);
  CHECK(sent[0].time_ns == 1'250'000'000);
  CHECK(sent[3].time_ns == 2'000'000'000);
  CHECK(sent[0].wire_bytes == 1514);
  CHECK(sent[3].wire_bytes == 166);
  CHECK(sent[3].sequence == 1 + 3 * 1448);
  REQUIRE(acknowledged.size() == 2);
  CHECK(acknowledged[0].time_ns == 1'500'050'000);
  CHECK(acknowledged[1].time_ns == 2'000'050'000);
  CHECK(acknowledged[0].wire_bytes == 66);
  CHECK(acknowledged[0].from == sent[0].to);
  CHECK(count_packets({message(0, 1, 1, 2, 3 * 1448 + 100)}) == 6);
}

TEST_CASE("what is sent again follows its segment, takes its share of time, and is acknowledged once") {
  Message lossy = message(0, 1, 1, 2, 3 * 1448 + 100);
  lossy.retransmitted_bytes = 2'896;
  std::vector<Packet> sent, acknowledged;
  for_each_packet(connections_of({lossy}),
                  [&](const Packet& packet) { (packet.payload_bytes > 0 ? sent : acknowledged).push_back(packet); });
  REQUIRE(sent.size() == 6);
  const std::uint32_t sequences[] = {1, 1, 1449, 2897, 2897, 4345};
  for (std::size_t i = 0; i < sent.size(); ++i) {
    CHECK(sent[i].sequence == sequences[i]);
    CHECK(sent[i].time_ns == 1'000'000'000 + static_cast<std::int64_t>(i + 1) * 1'000'000'000 / 6);
  }
  REQUIRE(acknowledged.size() == 2);
  CHECK(acknowledged[0].time_ns == 1'500'050'000);  // the second segment is the third packet
  CHECK(count_packets({lossy}) == 8);
  const TrafficCounts counts = traffic_of(connections_of({lossy})).total;
  CHECK(counts.retransmitted_bytes == 2'896);
  CHECK(counts.retransmitted_packets == 2);
  // Of half a segment the second half is sent again: what follows it goes on behind.
  Message half = message(0, 1, 1, 2, 2'896);
  half.retransmitted_bytes = 724;
  std::vector<std::uint32_t> starts;
  for_each_packet(connections_of({half}), [&](const Packet& packet) {
    if (packet.payload_bytes > 0) starts.push_back(packet.sequence);
  });
  CHECK(starts == std::vector<std::uint32_t>{1, 1 + 724, 1 + 1448});
}

TEST_CASE("retransmissions are the same of messages, captures and tables of packets, pair by pair") {
  const test::TemporaryFolder folder;
  const std::vector<std::string> names{"a", "b", "c"};
  const std::vector<RunConnection> connections =
      connections_of(parse_messages(messages_csv(lossy_ring(), names), "messages.csv", names));
  const ObservedTraffic made = traffic_of(connections);
  REQUIRE(made.pairs.size() == 6);
  CHECK(made.pairs[0].counts.retransmitted_bytes == 500);      // a to b
  CHECK(made.pairs[1].counts.retransmitted_bytes == 0);        // acknowledgements of what c sends to a
  CHECK(made.pairs[3].counts.retransmitted_bytes == 10'136);   // b to c
  CHECK(made.pairs[4].counts.retransmitted_bytes == 300'350);  // c to a
  std::filesystem::create_directory(folder / "captures");
  for (const MachineCapture& capture : captures_of(connections))
    write_capture(folder / "captures" / capture_name(names[static_cast<std::size_t>(capture.machine)]), capture);
  folder.write("table.csv", table_of(connections));
  for (const std::filesystem::path& input : {folder / "captures", folder / "table.csv"}) {
    const ObservedTraffic read = read_traffic(input, {}, Budget{}).traffic;
    CHECK(read.has_sequences);
    CHECK(read.total == made.total);
    CHECK(read.pairs == made.pairs);
    CHECK(read.flows == made.flows);
  }
}

TEST_CASE("messages at once between two ends have a connection each, others share one") {
  CHECK(connections_of({message(0, 1, 0, 1, 10), message(0, 1, 1, 2, 10)}).size() == 1);
  CHECK(connections_of({message(0, 1, 0, 1, 10), message(0, 1, 0.5, 2, 10)}).size() == 2);
  CHECK(traffic_of(connections_of(ring())).total.retransmitted_bytes == 0);
}

TEST_CASE("the captures of a run have its traffic: byte by byte, flow by flow, bin by bin") {
  const test::TemporaryFolder folder;
  const std::vector<RunConnection> connections = connections_of(ring());
  const std::vector<std::string> names{"a", "b", "c"};
  for (const MachineCapture& capture : captures_of(connections))
    write_capture(folder.path / capture_name(names[static_cast<std::size_t>(capture.machine)]), capture);
  const RunTraffic read = read_traffic(folder.path, {}, Budget{});
  const ObservedTraffic made = traffic_of(connections);
  CHECK(read.traffic.origin_ns == made.origin_ns);
  CHECK(read.traffic.end_ns == made.end_ns);
  CHECK(read.traffic.total == made.total);
  CHECK(read.traffic.pairs == made.pairs);
  CHECK(read.traffic.flows == made.flows);
  CHECK(read.traffic.bins == made.bins);
  CHECK(made.total.payload_bytes == 2 * 300'003 + 4321);
  REQUIRE(read.traffic.hosts.size() == 3);
  CHECK(read.traffic.hosts[1].name == "b");
}

TEST_CASE("a folder's captures may have a packet twice, where it left and where it arrived") {
  const test::TemporaryFolder folder;
  const std::vector<RunConnection> connections = connections_of(ring());
  // Each machine's capture has what leaves it and what reaches it.
  for (MachineIndex machine = 0; machine < 3; ++machine) {
    MachineCapture both{.machine = machine, .streams = {}};
    for (const RunConnection& connection : connections)
      if (connection.from().machine == machine || connection.to().machine == machine) {
        both.streams.push_back(connection.segments());
        both.streams.push_back(connection.acknowledgements());
      }
    write_capture(folder.path / capture_name("m" + std::to_string(machine)), both);
  }
  const RunTraffic read = read_traffic(folder.path, {}, Budget{});
  CHECK(read.traffic.total == traffic_of(connections).total);
  CHECK(read.traffic.hosts[2].name == "m2");
  const RunTraffic alone = read_traffic(folder / "m0.pcap", {}, Budget{});
  CHECK(alone.traffic.total.packets < read.traffic.total.packets);
}

TEST_CASE("a run's folder has captures, or tables of the same packets, a log, and other files") {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "parsed-files");
  const std::string table =
      "frame.time\tip.src\tip.dst\ttcp.srcport\ttcp.dstport\tframe.interface_name\tframe.len\n"
      "May  1, 2021 00:00:00.25 CEST\t192.168.17.50\t192.168.17.51\t1\t2\teth0\t1514\n"
      "Apr 30, 2021 23:59:59.75 CEST\t192.168.17.50\t192.168.17.51\t1\t2\teth0\t66\n";
  folder.write("parsed-files/worker-0-tcpdump.csv", table);
  folder.write("id_rsa", "not ours\n");
  folder.write("train_history.log",
               "Type,ID,Timestamp,Loss,Accuracy\nBatch,0,1619819999.8,2,0.1\nBatch,1,1619820000.3,2,0.2\n");
  const RunTraffic run = read_traffic(folder.path, {}, Budget{});
  CHECK(run.traffic.total.wire_bytes == 1580);
  // The flow arrived in April and departed in May, in whatever order its packets stand.
  CHECK(run.traffic.flows[0].departure_ns - run.traffic.flows[0].arrival_ns == 500'000'000);
  CHECK(run.log.steps.size() == 2);
  CHECK((run.log.steps[0].time_ns + 500) / 1000 == 1619819999'800000);  // a double's digits
  const std::vector<RunConnection> connections = connections_of(ring());
  write_capture(folder / "worker-0-tcpdump.pcap", captures_of(connections).front());
  const RunTraffic captured = read_traffic(folder.path, {}, Budget{});
  CHECK(captured.files.size() == 1);
  CHECK(captured.files[0].ends_with("worker-0-tcpdump.pcap"));
}

namespace {

/// Workers whose step takes 10 ms, in which the first sends the second `messages` messages of 1000 B in all.
RunRecord recorded(const Messaging& messaging, std::int64_t messages, int workers = 3) {
  RunRecord record;
  record.messaging = messaging;
  record.machines.resize(static_cast<std::size_t>(workers));
  const Span step{Seconds{}, Seconds{0.01}};
  record.recorder.messages.push_back({.from = {0, 0},
                                      .to = {1, 0},
                                      .on_wire = step,
                                      .arrival = Seconds{0.011},
                                      .size = Bytes{1000},
                                      .messages = messages});
  for (int worker = 0; worker < workers; ++worker) record.recorder.steps.push_back({.machine = worker, .span = step});
  return record;
}

std::int64_t payload_from(const std::vector<Message>& messages, int machine) {
  std::int64_t sum = 0;
  for (const Message& message : messages)
    if (message.from.machine == machine) sum += message.payload_bytes;
  return sum;
}

}  // namespace

TEST_CASE("a message's receiver sends a request for it, or for each of those that one stands for") {
  CHECK(messages_of(recorded({}, 6)).size() == 1);
  const std::vector<Message> messages = messages_of(recorded({.request = Bytes{260}}, 6));
  REQUIRE(messages.size() == 2);
  CHECK(payload_from(messages, 0) == 1000);
  CHECK(payload_from(messages, 1) == 6 * 260);
  CHECK(messages[1].packet_bytes == 260);
  // A packet of 1000 B and six of 260 B with their headers, and acknowledgements of one and of three.
  const ObservedTraffic traffic = traffic_of(connections_of(messages));
  CHECK(traffic.total.packets == 1 + 6 + 1 + 3);
  CHECK(traffic.total.wire_bytes == 1000 + 6 * 260 + (1 + 6 + 1 + 3) * kSegmentHeaders);
  CHECK(count_packets(messages) == traffic.total.packets);
}

TEST_CASE("every worker sends ceil(log2 w) messages to agree, once a step or once a period of it") {
  const Messaging once{.coordination = Bytes{54}};
  Messaging often = once;
  often.coordination_period = Seconds{1e-3};
  for (const int worker : {0, 1, 2}) {
    const std::int64_t data = worker == 0 ? 1000 : 0;
    CHECK(payload_from(messages_of(recorded(once, 1)), worker) == data + 2 * 54);
    CHECK(payload_from(messages_of(recorded(often, 1)), worker) == data + 2 * 10 * 54);
  }
  for (const auto& [workers, rounds] : {std::pair{2, 1}, std::pair{4, 2}, std::pair{5, 3}, std::pair{8, 3}})
    CHECK(payload_from(messages_of(recorded(once, 1, workers)), workers - 1) == rounds * 54);
  RunRecord longer = recorded(often, 1);
  for (StepSpan& step : longer.recorder.steps) step.span.end = Seconds{0.05};
  CHECK(payload_from(messages_of(longer), 2) == 2 * 50 * 54);
  // Ten packets to each of two, and an acknowledgement of every second.
  const std::vector<Message> from_last = [&] {
    std::vector<Message> messages = messages_of(recorded(often, 1));
    std::erase_if(messages, [](const Message& message) { return message.from.machine != 2; });
    return messages;
  }();
  CHECK(traffic_of(connections_of(from_last)).total.packets == 2 * (10 + 5));
}

TEST_CASE("bytes of all machines that nobody can count are refused") {
  const test::TemporaryFolder folder;
  folder.write("messages.csv.gz", gzip(messages_csv(ring(), {"a", "b", "c"})));
  const auto refusal = [&](const char* bytes) -> std::string {
    std::string csv = "machine,peer,direction,size_B,mean_rate_Bps,nic_utilization\n";
    for (const char* machine : {"a", "b", "c"}) csv += std::string{machine} + ",,transmit," + bytes + ",1,0.1\n";
    folder.write("links.csv", csv);
    folder.write("iterations.csv", "machine,gpu,step,end_s,repeats\na,0,0,1.5,1\n");
    try {
      (void)read_traffic(folder.path, {}, Budget{});
    } catch (const InputError& error) { return error.what(); }
    return "read";
  };
  CHECK(refusal("3000000000000000000") == "read");
  CHECK(refusal("4000000000000000000")
            .ends_with("links.csv:4: column \"size_B\": expected less than 2^63 bytes of all machines"));
}

TEST_CASE("tables of messages are read as they were written, and mistakes told by line") {
  const std::vector<std::string> names{"a", "b", "c"};
  const std::string csv = messages_csv(ring(), names);
  const std::vector<Message> read = parse_messages(csv, "messages.csv", names);
  CHECK(messages_csv(read, names).size() == csv.size());
  CHECK(traffic_of(connections_of(read)).flows == traffic_of(connections_of(ring())).flows);
  const auto error_of = [&](const std::string& row) -> std::string {
    try {
      parse_messages("from,from_gpu,to,to_gpu,unit,step,start_s,end_s,arrival_s,size_B\n" + row, "m", names);
    } catch (const InputError& error) { return error.what(); }
    return "no error";
  };
  CHECK(error_of("a,0,d,0,0,0,1,2,3,10\n") == "m:2: column \"to\": expected a machine of links.csv; found \"d\"");
  CHECK(error_of("a,0,b,0,0,0,2,1,3,10\n").find("m:2: column \"end_s\": expected a time in seconds") == 0);
  CHECK(error_of("a,0,b,0,0,0,1,2,3,-1\n").find("m:2: column \"size_B\": expected bytes") == 0);
  const auto error_of_lossy = [&](const std::string& row) -> std::string {
    try {
      parse_messages("from,from_gpu,to,to_gpu,unit,step,start_s,end_s,arrival_s,size_B,retransmitted_B\n" + row, "m",
                     names);
    } catch (const InputError& error) { return error.what(); }
    return "no error";
  };
  std::vector<Message> small = ring();
  for (Message& message : small) message.packet_bytes = 54;
  CHECK(traffic_of(connections_of(parse_messages(messages_csv(small, names), "m", names))).flows ==
        traffic_of(connections_of(small)).flows);
  CHECK(error_of_lossy("a,0,b,0,0,0,1,2,3,10,30\n") == "no error");
  for (const char* packet : {"0", "1449"}) {
    const std::string table =
        "from,from_gpu,to,to_gpu,unit,step,start_s,end_s,arrival_s,size_B,packet_B\na,0,b,0,0,0,1,2,3,10,";
    CHECK_THROWS_WITH_AS((void)parse_messages(table + packet + "\n", "m", names),
                         doctest::Contains("m:2: column \"packet_B\": expected bytes from 1 to 1448"), InputError);
  }
  CHECK(error_of_lossy("a,0,b,0,0,0,1,2,3,10,-1\n").find("m:2: column \"retransmitted_B\": expected bytes") == 0);
  CHECK(error_of_lossy("a,0,b,0,0,0,1,2,3,0,1\n") ==
        "m:2: column \"retransmitted_B\": expected 0 of a message without bytes; found \"1\"");
}

}  // namespace rehearse
