#pragma once
// Tables of packets, as tshark writes fields: tab-separated, one line a packet, whatever the file is called.

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "sim/traffic/packet.hpp"

namespace rehearse {

/// Whether the first line of a file is the header of such a table: its columns are found by name, so they may come in
/// any order, with others between them.
bool is_packet_table(std::string_view start);

/// The packets of a table with the columns frame.time, ip.src, ip.dst, tcp.srcport, tcp.dstport and frame.len.
/// Addresses and ports are empty where a frame has none. Retransmissions are known where there are tcp.len and
/// tcp.seq_raw or tcp.seq, too. Throws InputError `file:line: column "frame.len": ...`.
/// Source of the columns: the packet tables of doi 10.14459/2021mp1632489.
std::unique_ptr<PacketSource> open_packet_table(const std::filesystem::path& file);

/// The same of a text; errors name `file_name`.
std::unique_ptr<PacketSource> open_packet_table_text(std::string_view text, const std::string& file_name);

/// Nanoseconds since 1970 in UTC of "Apr 21, 2021 14:03:05.123456789 CEST" or "2021-04-21T14:03:05.5+0200". The zone is
/// a part of it: CET, CEST, UTC, GMT, Z or an offset. Throws std::invalid_argument: `expected a time such as ...`.
std::int64_t parse_frame_time(std::string_view text);

}  // namespace rehearse
