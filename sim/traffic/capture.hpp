#pragma once
// Captures of packets: pcap and pcapng, through libpcap.

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "sim/traffic/packet.hpp"

namespace rehearse {

/// Whether the first bytes of a file are those of pcap or pcapng.
bool is_capture(std::string_view start);

/// The packets of a capture with times in micro- or nanoseconds, packed or not (unpacked_file.hpp). A file that ends within a packet has those before it,
/// and a warning. Throws InputError of what libpcap refuses, such as interfaces of several kinds in one file.
std::unique_ptr<PacketSource> open_capture(const std::filesystem::path& file);

/// The same of a text that holds a capture; errors name `file_name`.
std::unique_ptr<PacketSource> open_capture_text(std::string_view text, const std::string& file_name);

}  // namespace rehearse
