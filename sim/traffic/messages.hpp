#pragma once
// Messages of a simulated run, and the packets that they would be on the wire.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "platforms/topology.hpp"
#include "sim/base/units.hpp"
#include "sim/record/run_record.hpp"
#include "sim/traffic/packet.hpp"

namespace rehearse {

/// The headers of a segment, and the most payload behind them in a frame of Ethernet's 1500 bytes.
inline constexpr int kEthernetHeader = 14, kIpv4Header = 20, kTcpHeader = 32;  // TCP's with time stamps
inline constexpr int kSegmentHeaders = kEthernetHeader + kIpv4Header + kTcpHeader;
inline constexpr int kMss = 1448;
inline constexpr int kSegmentsPerAcknowledgement = 2;

/// A message between two machines.
struct Message {
  Endpoint from, to;
  int unit = 0;                   // of gradients or variables
  std::int64_t step = 0;          // of the worker
  double start_s = 0, end_s = 0;  // its first and last byte leave
  double arrival_s = 0;           // of the last one
  std::int64_t payload_bytes = 0;
  std::int64_t retransmitted_bytes = 0;  // of the payload, once more each time
  int packet_bytes = kMss;               // of the payload in each packet but the last
};

/// A run's messages between machines in the order of their start: all that the recorder kept, or those that start before
/// the one that would be too many. With them what RunRecord::messaging sends besides, in packets of its own: for each
/// message, while it is on its way, a request of its receiver; while a step lasts, the messages by which workers agree.
std::vector<Message> messages_of(const RunRecord& record, std::size_t most = 1'000'000);

/// The names of a run's machines, by index.
std::vector<std::string> machine_names(const RunRecord& record);

/// Tables of messages: machines by name, numbered in the order of `machines`. One without a column retransmitted_B is of
/// a run that lost no packets.
std::string messages_csv(const std::vector<Message>& messages, const std::vector<std::string>& machines);
/// Throws InputError.
std::vector<Message> load_messages(const std::filesystem::path& file, const std::vector<std::string>& machines);
std::vector<Message> parse_messages(std::string text, const std::string& file_name,
                                    const std::vector<std::string>& machines);

/// The address of a machine in a run's packets: 10.0.0.1 is machine 0.
Address machine_address(MachineIndex machine);

/// A TCP connection that carries messages one way; acknowledgements come back. Messages between the same two ends that
/// overlap in time have a connection each, told apart by the sender's port.
class RunConnection {
 public:
  RunConnection(Endpoint from, Endpoint to, int lane) : from_{from}, to_{to}, lane_{lane} {}

  void add(const Message& message) { messages_.push_back(message); }
  Endpoint from() const { return from_; }
  Endpoint to() const { return to_; }
  bool is_free_at(double start_s) const { return messages_.empty() || messages_.back().end_s <= start_s; }

  /// The packets of one direction, in the order of their time, as their sender's NIC sees them:
  ///   packet k of n, k from 0, at start + (end - start) (k + 1) / n
  ///   an acknowledgement of every second segment and of a message's last, when the segment has arrived
  /// in nanoseconds, rounded down. What is sent again are parts of one size, as few as can be, of full segments that are
  /// spread evenly over the message: each follows the first sending of its segment, which was lost, at once.
  class Packets {
   public:
    Packets(const RunConnection& connection, bool are_acknowledgements);
    bool has_next() const { return message_ < connection_->messages_.size(); }
    std::int64_t next_time() const { return time_; }
    Packet take();
    /// TCP's acknowledgement number of the packet that was taken last.
    std::uint32_t acknowledged() const { return acknowledged_; }

   private:
    void find_next();
    void start_message(const Message& message);
    std::int64_t sent_again_before(std::int64_t segment) const;
    const RunConnection* connection_;
    bool are_acknowledgements_;
    std::size_t message_ = 0;
    std::int64_t segment_ = 0, segments_ = 0;     // of the message
    std::int64_t time_of_sending_ = -1;           // of the segment: 0, and then those that send it again
    std::int64_t full_segments_ = 0, again_ = 0;  // of the message; again_: packets
    std::int64_t start_ns_ = 0, duration_ns_ = 0, latency_ns_ = 0;
    std::int64_t time_ = 0;
    std::int64_t sent_ = 0;  // payload of the messages before
    std::uint32_t acknowledged_ = 1;
  };
  Packets segments() const { return {*this, false}; }
  Packets acknowledgements() const { return {*this, true}; }

 private:
  Endpoint from_, to_;
  int lane_;
  std::vector<Message> messages_;  // one after the other
};

/// The connections of messages, which are in the order of their start.
std::vector<RunConnection> connections_of(const std::vector<Message>& messages);

/// Calls `take` with every packet of the connections, one connection after the other.
void for_each_packet(const std::vector<RunConnection>& connections, const std::function<void(const Packet&)>& take);

/// Packets that for_each_packet() would give.
std::int64_t count_packets(const std::vector<Message>& messages);

/// The time of the first packet; 0 without any.
std::int64_t first_packet_time(const std::vector<RunConnection>& connections);

/// What leaves a machine: segments and acknowledgements of several connections.
struct MachineCapture {
  MachineIndex machine = 0;
  std::vector<RunConnection::Packets> streams;
};

/// For each machine that sends packets what leaves it: together they have every packet once. The connections must
/// outlive them.
std::vector<MachineCapture> captures_of(const std::vector<RunConnection>& connections);
std::vector<MachineCapture> captures_of(std::vector<RunConnection>&&) = delete;

/// Writes a capture in the order of time, with nanoseconds and the headers alone of each frame, whose length says what
/// there was. Throws InputError if the file cannot be written.
void write_capture(const std::filesystem::path& path, MachineCapture capture);

/// A file name for the machine's capture, "workers-0.pcap".
std::string capture_name(const std::string& machine);

}  // namespace rehearse
