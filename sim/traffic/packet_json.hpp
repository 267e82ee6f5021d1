#pragma once
// Packets as tshark writes them in JSON: -T json, with all fields or those of -e.

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "sim/traffic/packet.hpp"

namespace rehearse {

/// Whether a file that begins so is such a list of packets.
bool is_packet_json(std::string_view start);

/// The packets of such a list, one after another; the file may be packed (unpacked_file.hpp). The fields are those of a
/// packet table (packet_table.hpp). Within a tunnel the outer addresses count, and no ports of the inner packet. A file that
/// ends within a packet has those before it, and a warning. Throws InputError `file: packet 7: field "frame.len": ...`.
std::unique_ptr<PacketSource> open_packet_json(const std::filesystem::path& file);

/// The same of a text; errors name `file_name`.
std::unique_ptr<PacketSource> open_packet_json_text(std::string_view text, const std::string& file_name);

}  // namespace rehearse
