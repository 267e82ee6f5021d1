#pragma once
// Tables of packets, as tshark writes fields (-T fields -E header=y): one line a packet, whatever the file is called.

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "sim/traffic/packet.hpp"

namespace rehearse {

/// Whether the first line of a file is the header of such a table: its columns are found by name, so they may come in
/// any order, with others between them. Between them are tabs, or else commas, semicolons, bars or spaces; fields may be
/// in quotes.
bool is_packet_table(std::string_view start);

/// Of a table whose header names some of these columns: those that it lacks, "frame.len, tcp.srcport"; empty for others.
std::string lacking_columns(std::string_view start);

/// The packets of a table with the columns frame.time_epoch or frame.time, ip.src, ip.dst, tcp.srcport, tcp.dstport and
/// frame.len, and ipv6.src, ipv6.dst, udp.srcport, udp.dstport if there are any. Addresses and ports are empty where a
/// frame has none. Retransmissions are known where there are tcp.len and tcp.seq_raw or tcp.seq, too. The file may be
/// packed (unpacked_file.hpp). Throws InputError `file:line: column "frame.len": ...`.
/// Source of the columns: the packet tables of doi 10.14459/2021mp1632489.
std::unique_ptr<PacketSource> open_packet_table(const std::filesystem::path& file);

/// The same of a text; errors name `file_name`.
std::unique_ptr<PacketSource> open_packet_table_text(std::string_view text, const std::string& file_name);

}  // namespace rehearse
