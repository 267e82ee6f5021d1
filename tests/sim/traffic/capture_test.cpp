// Captures and tables of packets: what is read of them, and what is refused.

#include "sim/traffic/capture.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/traffic/frame.hpp"
#include "sim/traffic/packet_fields.hpp"
#include "sim/traffic/packet_json.hpp"
#include "sim/traffic/packet_table.hpp"
#include "sim/traffic/traffic_input.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

std::string bytes(std::initializer_list<int> values) {
  std::string text;
  for (const int value : values) text += static_cast<char>(value);
  return text;
}

std::string little(std::uint64_t value, int size) {
  std::string text;
  for (; size > 0; --size, value >>= 8U) text += static_cast<char>(value & 0xffU);
  return text;
}

const std::string kMacs(12, 'm');

/// 10.0.0.1:80 > 10.0.0.2:443, sequence 5, 20 bytes of TCP header, `length` of the IP header.
std::string tcp_over_ipv4(int length) {
  return bytes({0x45, 0, length >> 8, length & 255, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2}) +
         bytes({0, 80, 1, 187, 0, 0, 0, 5, 0, 0, 0, 0, 0x50, 0x18, 0, 0, 0, 0, 0, 0});
}

Packet read(LinkHeader header, const std::string& frame, std::int64_t wire_bytes) {
  Packet packet{.wire_bytes = wire_bytes};
  read_frame(header, {reinterpret_cast<const std::uint8_t*>(frame.data()), frame.size()}, packet);
  return packet;
}

std::vector<Packet> all_of(PacketSource& source) {
  std::vector<Packet> packets;
  for (Packet packet; source.next(packet);) packets.push_back(packet);
  return packets;
}

std::string error_of(const auto& action) {
  try {
    action();
  } catch (const InputError& error) { return error.what(); }
  return "no error";
}

std::string capture_of(std::uint32_t magic, const std::string& frame, std::uint32_t wire_bytes) {
  return little(magic, 4) + little(2, 2) + little(4, 2) + little(0, 8) + little(65535, 4) + little(1, 4) +
         little(1619006585, 4) + little(123456, 4) + little(frame.size(), 4) + little(wire_bytes, 4) + frame;
}

const std::string kHeader = "frame.time\tip.src\tip.dst\ttcp.srcport\ttcp.dstport\tframe.interface_name\tframe.len\n";

}  // namespace

TEST_CASE("the payload of a segment is that of the IP header, not of what was captured") {
  const Packet packet = read(LinkHeader::kEthernet, kMacs + bytes({8, 0}) + tcp_over_ipv4(1040), 1054);
  CHECK(to_text(packet.from) == "10.0.0.1");
  CHECK(to_text(packet.to) == "10.0.0.2");
  CHECK(packet.from_port == 80);
  CHECK(packet.to_port == 443);
  CHECK(packet.sequence == 5);
  CHECK(packet.payload_bytes == 1000);
  CHECK(read(LinkHeader::kEthernet, kMacs + bytes({8, 0}) + tcp_over_ipv4(0), 9054).payload_bytes == 9000);
}

TEST_CASE("VLAN tags, cooked headers, plain IP and IPv6 are read") {
  const std::string ip = tcp_over_ipv4(60);
  const Packet plain = read(LinkHeader::kNone, ip, 60);
  CHECK(plain.payload_bytes == 20);
  for (const std::string& tags : {bytes({0x81, 0, 0, 7}), bytes({0x88, 0xa8, 0, 7, 0x81, 0, 0, 9})})
    CHECK(read(LinkHeader::kEthernet, kMacs + tags + bytes({8, 0}) + ip, 78).from_port == 80);
  CHECK(read(LinkHeader::kCooked, std::string(14, 'c') + bytes({8, 0}) + ip, 76).from_port == 80);
  CHECK(read(LinkHeader::kCooked2, bytes({8, 0}) + std::string(18, 'c') + ip, 80).from_port == 80);
  // Hop-by-hop options of 8 bytes stand before TCP; 20 + 8 + 100 bytes follow the IPv6 header.
  const std::string v6 = bytes({0x60, 0, 0, 0, 0, 128, 0, 64}) + std::string(15, '\0') + "\1" + std::string(15, '\0') +
                         "\2" + bytes({6, 0, 0, 0, 0, 0, 0, 0}) + ip.substr(20);
  const Packet packet = read(LinkHeader::kNone, v6, 168);
  CHECK(to_text(packet.to) == "::2");
  CHECK(packet.protocol == kTcp);
  CHECK(packet.payload_bytes == 100);
}

TEST_CASE("what a frame's capture cuts off is not guessed") {
  const std::string frame = kMacs + bytes({8, 0}) + tcp_over_ipv4(1040);
  CHECK_FALSE(read(LinkHeader::kEthernet, frame.substr(0, 20), 1054).is_ip);
  const Packet ports = read(LinkHeader::kEthernet, frame.substr(0, 38), 1054);
  CHECK(ports.from_port == 80);
  CHECK_FALSE(ports.has_sequence);
  CHECK_FALSE(read(LinkHeader::kEthernet, kMacs + bytes({8, 6}) + std::string(28, 'a'), 60).is_ip);
}

TEST_CASE("captures have micro- or nanoseconds, and their frames the length on the wire") {
  const std::string frame = kMacs + bytes({8, 0}) + tcp_over_ipv4(1040);
  const std::string micro = capture_of(0xa1b2c3d4, frame, 1054), nano = capture_of(0xa1b23c4d, frame, 1054);
  CHECK(is_capture(micro));
  CHECK(is_capture(nano));
  const Packet first = all_of(*open_capture_text(micro, "micro")).at(0);
  CHECK(first.time_ns == 1619006585'123456000);
  CHECK(first.wire_bytes == 1054);
  CHECK(all_of(*open_capture_text(nano, "nano")).at(0).time_ns == 1619006585'000123456);
}

TEST_CASE("a capture that was cut has the packets before, and a warning") {
  const std::string whole = capture_of(0xa1b2c3d4, kMacs + bytes({8, 0}) + tcp_over_ipv4(1040), 1054);
  const std::string text = whole + whole.substr(24, 30);
  const auto source = open_capture_text(text, "cut");
  CHECK(all_of(*source).size() == 1);
  CHECK(source->warning().find("cut: after packet 1: truncated dump file") == 0);
}

TEST_CASE("other files, links and dates are refused with one line") {
  CHECK(error_of([] { open_capture_text("nothing of the kind", "x.pcap"); }).find("x.pcap: expected a capture") == 0);
  std::string token_ring = capture_of(0xa1b2c3d4, "", 0);
  token_ring[20] = 6;
  CHECK(error_of([&] { open_capture_text(token_ring, "x"); }) ==
        "x: expected frames of Ethernet, Linux's cooked headers, IP over InfiniBand, BSD's loopback or plain IP; found "
        "Token "
        "ring");
  std::string late = capture_of(0xa1b2c3d4, "frame", 5);
  late[28] = late[29] = late[30] = late[31] = '\x7f';  // microseconds
  CHECK(error_of([&] { all_of(*open_capture_text(late, "x")); }).find("x: packet 1: expected a time") == 0);
}

TEST_CASE("times of packets are numbers, in summer and in winter") {
  // 2021-04-21 14:03:05 in summer is 12:03:05 UTC.
  CHECK(parse_frame_time("Apr 21, 2021 14:03:05.123456789 CEST") == 1619006585'123456789);
  CHECK(parse_frame_time("Apr 21, 2021 13:03:05.123456789 CET") == 1619006585'123456789);
  CHECK(parse_frame_time("Apr  1, 2021 00:00:00 UTC") == 1617235200'000000000);
  CHECK(parse_frame_time("2021-04-21T14:03:05.5+0200") == 1619006585'500000000);
  // As texts these two are in the other order.
  CHECK(parse_frame_time("Apr 30, 2021 23:59:59.9 CEST") < parse_frame_time("May  1, 2021 00:00:00.1 CEST"));
  CHECK(parse_frame_time("Sep 30, 2021 23:59:59 CEST") < parse_frame_time("Oct  1, 2021 00:00:01 CEST"));
  for (const char* text : {"", "Apr 21, 2021 14:03:05", "Apr 31, 2021 14:03:05 UTC", "Apx 21, 2021 14:03:05 UTC",
                           "Apr 21, 2021 25:03:05 UTC", "Apr 21, 2021 14:03:05 EST", "Feb 29, 2021 00:00:00 UTC"})
    CHECK_THROWS_AS(parse_frame_time(text), std::invalid_argument);
}

TEST_CASE("tables are separated by tabs, their columns found by name") {
  const std::string text =
      kHeader +
      "Apr 21, 2021 14:03:05.123456789 CEST\t192.168.17.50\t192.168.17.51\t2222\t45678\teth0\t1514\n"
      "Apr 21, 2021 14:03:05.123456790 CEST\t\t\t\t\teth0\t60\r\n"
      "Apr 21, 2021 14:03:05.2 CEST\t192.168.17.50\t192.168.17.51\t\t\teth0\t98";
  CHECK(is_packet_table(text));
  const std::vector<Packet> packets = all_of(*open_packet_table_text(text, "table"));
  REQUIRE(packets.size() == 3);
  CHECK(packets[0].wire_bytes == 1514);
  CHECK(packets[0].to_port == 45678);
  CHECK(packets[0].protocol == kTcp);
  CHECK_FALSE(packets[0].has_sequence);
  CHECK_FALSE(packets[1].is_ip);
  CHECK(packets[2].is_ip);
  CHECK(packets[2].protocol == 0);
  const std::string other_order =
      "frame.len\ttcp.dstport\ttcp.srcport\tip.dst\tip.src\tframe.time\n"
      "1514\t45678\t2222\t192.168.17.51\t192.168.17.50\tApr 21, 2021 12:03:05.123456789 UTC\n";
  const Packet packet = all_of(*open_packet_table_text(other_order, "table")).at(0);
  CHECK(packet.time_ns == packets[0].time_ns);
  CHECK(packet.from == packets[0].from);
}

TEST_CASE("IP over InfiniBand and BSD's loopback are read, in both orders of bytes") {
  const std::string ip = tcp_over_ipv4(60);
  // Addresses of 20 bytes each, then a type and two bytes of nothing.
  CHECK(read(LinkHeader::kInfiniband, std::string(40, 'i') + bytes({8, 0, 0, 0}) + ip, 104).from_port == 80);
  CHECK_FALSE(read(LinkHeader::kInfiniband, std::string(40, 'i') + bytes({8, 6, 0, 0}) + ip, 104).is_ip);
  CHECK(read(LinkHeader::kLoopback, bytes({2, 0, 0, 0}) + ip, 64).payload_bytes == 20);
  CHECK(read(LinkHeader::kLoopback, bytes({0, 0, 0, 2}) + ip, 64).payload_bytes == 20);
  const std::string v6 = bytes({0x60, 0, 0, 0, 0, 20, 6, 64}) + std::string(32, '\1') + ip.substr(20);
  for (const int family : {10, 24, 28, 30})
    CHECK(read(LinkHeader::kLoopback, bytes({family, 0, 0, 0}) + v6, 64).from_port == 80);
  CHECK_FALSE(read(LinkHeader::kLoopback, bytes({7, 0, 0, 0}) + ip, 64).is_ip);
  CHECK_FALSE(read(LinkHeader::kLoopback, bytes({2, 0}), 64).is_ip);
  for (const auto& [link, header] :
       {std::pair{242, std::string(40, 'i') + bytes({8, 0, 0, 0})}, std::pair{0, bytes({2, 0, 0, 0})},
        std::pair{108, bytes({0, 0, 0, 2})}, std::pair{113, std::string(14, 'c') + bytes({8, 0})},
        std::pair{276, bytes({8, 0}) + std::string(18, 'c')}}) {
    std::string capture = capture_of(0xa1b2c3d4, header + ip, 104);
    capture.replace(20, 4, little(static_cast<std::uint64_t>(link), 4));
    CHECK(all_of(*open_capture_text(capture, "x")).at(0).from_port == 80);
  }
}

TEST_CASE("captures, tables and JSON are the same packed") {
  const std::string capture = capture_of(0xa1b2c3d4, kMacs + bytes({8, 0}) + tcp_over_ipv4(1040), 1054);
  CHECK(all_of(*open_capture_text(gzip(capture), "x.gz")).at(0).payload_bytes == 1000);
  const std::string table =
      "frame.time_epoch\tip.src\tip.dst\ttcp.srcport\ttcp.dstport\tframe.len\n1.5\t1.1.1.1\t2.2.2.2\t1\t2\t66\n";
  CHECK(all_of(*open_packet_table_text(gzip(table), "x.gz")).at(0).wire_bytes == 66);
  const test::TemporaryFolder folder;
  const auto source = open_capture(folder.write("x.pcap.gz", gzip(capture + capture.substr(24, 30))));
  CHECK(all_of(*source).size() == 1);
  CHECK(source->warning().find("after packet 1: truncated") != std::string::npos);
  std::string packets = capture;
  for (int i = 0; i < 1000; ++i) packets += capture.substr(24);
  const std::string cut = gzip(packets);
  CHECK(error_of([&] { all_of(*open_capture_text(cut.substr(0, cut.size() - 20), "x.gz")); }) ==
        "x.gz: the gzip data are damaged or cut short");
}

TEST_CASE("tables have dates or seconds, between tabs, commas and others, in quotes or not") {
  const auto table = [](const std::string& separator, const std::string& quote, const std::string& time) {
    std::string text;
    for (const auto& row : {std::vector<std::string>{"ip.src", "ip.dst", "tcp.srcport", "tcp.dstport", "frame.len"},
                            {"10.0.0.1", "10.0.0.2", "80", "443", "154"}}) {
      const bool is_header = text.empty();
      text += is_header ? (time[0] == 'A' ? "frame.time" : "frame.time_epoch") : quote + time + quote;
      for (const std::string& field : row) text += separator + (is_header ? field : quote + field + quote);
      text += "\n";
    }
    return text;
  };
  for (const char* separator : {"\t", ",", ";", "|", " "})
    for (const char* quote : {"", "\"", "'"})
      for (const char* time : {"1619006585.123456789", "Apr 21, 2021 12:03:05.123456789 UTC"}) {
        const std::string text = table(separator, quote, time);
        CAPTURE(text);
        CHECK(is_packet_table(text));
        const bool is_split = quote[0] == '\0' && time[0] == 'A' && (separator[0] == ',' || separator[0] == ' ');
        if (is_split) {
          CHECK(error_of([&] {
                  all_of(*open_packet_table_text(text, "t"));
                }).ends_with("; dates have commas and spaces: write frame.time_epoch, or tshark -E quote=d"));
          continue;
        }
        const Packet packet = all_of(*open_packet_table_text(text, "t")).at(0);
        CHECK(packet.time_ns == 1619006585'123456789);
        CHECK(packet.to_port == 443);
        CHECK(packet.wire_bytes == 154);
      }
  CHECK_THROWS_AS(parse_frame_time("1619006585.12x"), std::invalid_argument);
  CHECK_THROWS_AS(parse_frame_time("-5.0"), std::invalid_argument);
  CHECK_THROWS_AS(parse_frame_time("99999999999.0"), std::invalid_argument);
  CHECK(parse_frame_time("7") == 7'000'000'000);
}

TEST_CASE("tables may have IPv6 and UDP besides") {
  const std::string header =
      "frame.time_epoch,ip.src,ip.dst,ipv6.src,ipv6.dst,tcp.srcport,tcp.dstport,udp.srcport,udp.dstport,frame.len\n";
  const std::vector<Packet> packets = all_of(
      *open_packet_table_text(header + "1,,,fe80::1,fe80::2,80,443,,,90\n1,10.0.0.1,10.0.0.2,,,,,53,54,60\n", "t"));
  REQUIRE(packets.size() == 2);
  CHECK(to_text(packets[0].from) == "fe80::1");
  CHECK(packets[0].protocol == kTcp);
  CHECK(packets[1].protocol == kUdp);
  CHECK(packets[1].to_port == 54);
}

namespace {

/// A packet as tshark -T json writes it, of these layers.
std::string json_packet(const std::string& layers) {
  return R"({"_index": "packets-2021-04-21", "_type": "doc", "_score": null, "_source": {"layers": {)" + layers + "}}}";
}
const std::string kFrameLayer =
    R"("frame": {"frame.time": "Apr 21, 2021 12:03:05.1 UTC", "frame.time_epoch": "1619006585.123456789", "frame.len": "154"})";
const std::string kIpLayer =
    R"("ip": {"ip.proto": "6", "ip.src": "10.0.0.1", "ip.addr": "10.0.0.1", "ip.dst": "10.0.0.2", "ip.addr": "10.0.0.2"})";
const std::string kTcpLayer =
    R"("tcp": {"tcp.srcport": "80", "tcp.dstport": "443", "tcp.port": "80", "tcp.port": "443", "tcp.len": "100", "tcp.seq": "1", "tcp.seq_raw": "5", "tcp.flags_tree": {"tcp.flags.str": "}{][\""}})";

std::vector<Packet> json_packets(const std::string& list) { return all_of(*open_packet_json_text(list, "t.json")); }

}  // namespace

TEST_CASE("packets of tshark -T json are those of its capture") {
  const std::string list =
      "[\n" + json_packet(kFrameLayer + "," + kIpLayer + "," + kTcpLayer) + ",\n" +
      json_packet(
          kFrameLayer +
          R"(,"ipv6": {"ipv6.src": "fe80::1", "ipv6.dst": "fe80::2"}, "udp": {"udp.srcport": "53", "udp.dstport": "54"})") +
      ",\n" + json_packet(kFrameLayer + R"(,"arp": {"arp.opcode": "1"})") + "\n]\n";
  CHECK(is_packet_json(list));
  CHECK_FALSE(is_packet_json(R"([{"ph": "X"}])"));
  const std::vector<Packet> packets = json_packets(list);
  REQUIRE(packets.size() == 3);
  CHECK(packets[0].time_ns == 1619006585'123456789);
  CHECK(packets[0].wire_bytes == 154);
  CHECK(to_text(packets[0].to) == "10.0.0.2");
  CHECK(packets[0].from_port == 80);
  CHECK(packets[0].payload_bytes == 100);
  CHECK(packets[0].sequence == 5);
  CHECK(to_text(packets[1].from) == "fe80::1");
  CHECK(packets[1].protocol == kUdp);
  CHECK_FALSE(packets[2].is_ip);
  CHECK(json_packets("[]").empty());
}

TEST_CASE("of tunnels and quoted headers the outer packet counts") {
  const std::string inner = R"("ip": {"ip.src": "1.1.1.1", "ip.dst": "2.2.2.2"})";
  const Packet tunnel =
      json_packets("[" + json_packet(kFrameLayer + "," + kIpLayer + "," + inner + "," + kTcpLayer) + "]").at(0);
  CHECK(to_text(tunnel.from) == "10.0.0.1");
  CHECK(tunnel.from_port == 0);
  const Packet unreachable =
      json_packets("[" + json_packet(kFrameLayer + "," + kIpLayer + R"(,"icmp": {)" + inner + "," + kTcpLayer + "}") +
                   "]")
          .at(0);
  CHECK(unreachable.from_port == 0);
}

TEST_CASE("fields that -e names come as lists") {
  const Packet packet =
      json_packets(
          "[" +
          json_packet(
              R"("frame.time_epoch": ["7.5"], "frame.len": ["60"], "ip.src": ["10.0.0.1", "1.1.1.1"], "ip.dst": ["10.0.0.2"], "tcp.srcport": ["80"], "tcp.dstport": ["443"])") +
          "]")
          .at(0);
  CHECK(packet.time_ns == 7'500'000'000);
  CHECK(to_text(packet.from) == "10.0.0.1");
  CHECK(packet.to_port == 443);
}

TEST_CASE("a list of packets that is cut has those before, other mistakes are told with the packet") {
  const std::string packet = json_packet(kFrameLayer + "," + kIpLayer + "," + kTcpLayer);
  const auto source = open_packet_json_text("[" + packet + "," + packet.substr(0, 100), "t.json");
  CHECK(all_of(*source).size() == 1);
  CHECK(source->warning() == "t.json: after packet 1: the list of packets is cut short");
  const auto error_in = [](const std::string& list) { return error_of([&] { (void)json_packets(list); }); };
  CHECK(error_in("{}") == "t.json: expected a list of packets of tshark -T json");
  CHECK(error_in("[{}]") == "t.json: packet 1: expected /_source/layers, as tshark -T json writes");
  CHECK(error_in("[" + json_packet(R"("frame": {"frame.len": "60"})") + "]") ==
        "t.json: packet 1: expected a field \"frame.time_epoch\"; found none");
  CHECK(
      error_in("[" + packet + "," + json_packet(R"("frame": {"frame.time_epoch": "1", "frame.len": "many"})") + "]") ==
      "t.json: packet 2: field \"frame.len\": expected a whole number from 1 to 1000000000; found \"many\"");
  CHECK(error_in("[" + packet + " 5]") == "t.json: packet 2: expected an object");
  CHECK(error_in("[{\"a\": ]}]") == "t.json: packet 1: is no JSON");
}

TEST_CASE("mistakes of tables are told with their line and column") {
  const auto error_in = [](const std::string& row) {
    return error_of([&] { all_of(*open_packet_table_text(kHeader + row, "t.csv")); });
  };
  const std::string time = "Apr 21, 2021 14:03:05 CEST\t";
  CHECK(error_in("yesterday\t\t\t\t\t\t60\n").find("t.csv:2: column \"frame.time\": expected a time with its zone") ==
        0);
  CHECK(error_in(time + "1.2.3\t1.2.3.4\t\t\t\t60\n") ==
        "t.csv:2: column \"ip.src\": expected an address such as 192.168.17.50; found \"1.2.3\"");
  CHECK(error_in(time + "\t\t\t\t\t60.5\n") ==
        "t.csv:2: column \"frame.len\": expected a whole number from 1 to 1000000000; found \"60.5\"");
  CHECK(error_in(time + "60\n") == "t.csv:2: expected 7 fields between tabs; found 2");
  CHECK(error_of([] { open_packet_table_text("a,b\n", "t.csv"); }) ==
        "t.csv:1: expected a column \"frame.time_epoch\" or \"frame.time\" between tabs; found \"a,b\"");
  CHECK(error_of([] { open_packet_table_text("frame.time_epoch,frame.len,ip.src\n", "t.csv"); }) ==
        "t.csv:1: expected a column \"ip.dst\" between commas; found \"frame.time_epoch,frame.len,ip.src\"");
}

TEST_CASE("columns that a table of packets lacks are named") {
  CHECK(lacking_columns("frame.time_epoch,ip.src,ip.dst\n1,2,3\n") == "tcp.srcport, tcp.dstport, frame.len");
  CHECK(lacking_columns("\"ip.src\"\t\"ip.dst\"\t\"tcp.srcport\"\t\"tcp.dstport\"\t\"frame.len\"\r\n") ==
        "frame.time_epoch");
  CHECK(lacking_columns("frame.time;ip.src;ip.dst;udp.srcport;udp.dstport;dns.qry.name\n") ==
        "tcp.srcport, tcp.dstport, frame.len");
  for (const char* other : {"", "a,b,c\n", "frame.len\n", "1775942574.783329000,192.168.1.10,192.168.1.1,6,98\n"})
    CHECK(lacking_columns(other) == "");
  const test::TemporaryFolder folder;
  const std::filesystem::path table = folder.write("t.csv", "frame.time_epoch,ip.src,ip.dst\n1,2,3\n");
  const std::string error = error_of([&] { (void)read_traffic(table, {}, {}); });
  CHECK(error == table.string() +
                     ":1: expected columns tcp.srcport, tcp.dstport, frame.len in a table of packets, too (tshark -T "
                     "fields -E header=y -e ...); found \"frame.time_epoch,ip.src,ip.dst\"");
}

}  // namespace rehearse
