// The captures of a run.

#include <algorithm>
#include <fstream>
#include <map>
#include <queue>
#include <stdexcept>

#include "sim/base/errors.hpp"
#include "sim/traffic/messages.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kWrittenAtOnce = std::size_t{1} << 20U;
constexpr std::uint32_t kNanosecondMagic = 0xa1b23c4d, kLinkEthernet = 1, kSnapLength = 262144;

/// A capture as it is written: pcap with nanoseconds, little-endian.
/// Source: draft-ietf-opsawg-pcap; RFC 791, 9293, 7323.
class CaptureFile {
 public:
  explicit CaptureFile(const std::filesystem::path& path) : path_{path}, file_{path, std::ios::binary} {
    check();
    little(kNanosecondMagic, 4);
    little(2, 2);
    little(4, 2);
    little(0, 8);
    little(kSnapLength, 4);
    little(kLinkEthernet, 4);
  }

  void write(const Packet& packet, std::uint32_t acknowledged) {
    little(static_cast<std::uint64_t>(packet.time_ns / kNanosecondsPerSecond), 4);
    little(static_cast<std::uint64_t>(packet.time_ns % kNanosecondsPerSecond), 4);
    little(kSegmentHeaders, 4);
    little(static_cast<std::uint64_t>(packet.wire_bytes), 4);
    const std::size_t frame = text_.size();
    write_mac(packet.to);
    write_mac(packet.from);
    big(0x0800, 2);
    write_ip(packet);
    write_tcp(packet, acknowledged);
    if (text_.size() - frame != static_cast<std::size_t>(kSegmentHeaders))
      throw std::logic_error{"a segment's headers have another size"};
    if (text_.size() >= kWrittenAtOnce) flush();
  }

  void close() {
    flush();
    file_.close();
    check();
  }

 private:
  void check() const {
    if (!file_) throw InputError{path_.string() + ": cannot write"};
  }
  void flush() {
    file_.write(text_.data(), static_cast<std::streamsize>(text_.size()));
    text_.clear();
    check();
  }
  void little(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i, value >>= 8U) text_ += static_cast<char>(value & 0xffU);
  }
  void big(std::uint64_t value, unsigned bytes) {
    for (unsigned i = bytes; i-- > 0;) text_ += static_cast<char>(value >> (8 * i) & 0xffU);
  }
  /// A locally administered address that has the machine's in it.
  void write_mac(const Address& machine) {
    big(0x0200, 2);
    text_.append(reinterpret_cast<const char*>(&machine.bytes[12]), 4);
  }
  /// The one's complement sum of 16-bit words from `begin` on (RFC 1071).
  std::uint32_t sum_from(std::size_t begin) const {
    std::uint32_t sum = 0;
    for (std::size_t i = begin; i + 1 < text_.size(); i += 2)
      sum += static_cast<std::uint32_t>(static_cast<std::uint8_t>(text_[i])) << 8U |
             static_cast<std::uint8_t>(text_[i + 1]);
    return sum;
  }
  void put_checksum(std::size_t at, std::uint32_t sum) {
    while (sum >> 16U != 0) sum = (sum & 0xffffU) + (sum >> 16U);
    const std::uint32_t checksum = ~sum & 0xffffU;
    text_[at] = static_cast<char>(checksum >> 8U);
    text_[at + 1] = static_cast<char>(checksum & 0xffU);
  }
  void write_ip(const Packet& packet) {
    const std::size_t begin = text_.size();
    big(0x4500, 2);
    big(static_cast<std::uint64_t>(packet.wire_bytes - kEthernetHeader), 2);
    big(0x00004000, 4);  // not to be fragmented
    big(0x4006, 2);      // time to live, TCP
    big(0, 2);
    for (const Address* address : {&packet.from, &packet.to})
      text_.append(reinterpret_cast<const char*>(&address->bytes[12]), 4);
    put_checksum(begin + 10, sum_from(begin));
  }
  /// The payload is zeros, which add nothing to the checksum.
  void write_tcp(const Packet& packet, std::uint32_t acknowledged) {
    const std::size_t addresses = text_.size() - 8, begin = text_.size();
    big(packet.from_port, 2);
    big(packet.to_port, 2);
    big(packet.sequence, 4);
    big(acknowledged, 4);
    big(0x8000U | (packet.payload_bytes > 0 ? 0x18U : 0x10U), 2);  // 32 bytes; PSH and ACK, or ACK
    big(0xffff, 2);                                                // window
    big(0, 4);
    big(0x0101080a, 4);  // two times nothing, time stamps
    big(static_cast<std::uint64_t>(packet.time_ns / 1'000'000) + 1, 4);
    big(0, 4);
    put_checksum(begin + 16,
                 sum_from(addresses) + kTcp + static_cast<std::uint32_t>(kTcpHeader + packet.payload_bytes));
  }

  std::filesystem::path path_;
  std::ofstream file_;
  std::string text_;
};

}  // namespace

std::vector<MachineCapture> captures_of(const std::vector<RunConnection>& connections) {
  std::map<MachineIndex, MachineCapture> leaving;
  const auto add = [&](MachineIndex machine, const RunConnection::Packets& stream) {
    if (!stream.has_next()) return;
    MachineCapture& capture = leaving[machine];
    capture.machine = machine;
    capture.streams.push_back(stream);
  };
  for (const RunConnection& connection : connections) {
    add(connection.from().machine, connection.segments());
    add(connection.to().machine, connection.acknowledgements());
  }
  std::vector<MachineCapture> captures;
  for (auto& [machine, capture] : leaving) captures.push_back(std::move(capture));
  return captures;
}

void write_capture(const std::filesystem::path& path, MachineCapture capture) {
  CaptureFile file{path};
  using Next = std::pair<std::int64_t, std::size_t>;  // time and stream
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  std::vector<RunConnection::Packets>& streams = capture.streams;
  for (std::size_t s = 0; s < streams.size(); ++s)
    if (streams[s].has_next()) next.emplace(streams[s].next_time(), s);
  while (!next.empty()) {
    const std::size_t index = next.top().second;
    RunConnection::Packets& stream = streams[index];
    next.pop();
    const Packet packet = stream.take();
    file.write(packet, stream.acknowledged());
    if (stream.has_next()) next.emplace(stream.next_time(), index);
  }
  file.close();
}

std::string capture_name(const std::string& machine) {
  std::string name = machine;
  std::ranges::replace(name, '/', '_');
  return name + ".pcap";
}

}  // namespace rehearse
