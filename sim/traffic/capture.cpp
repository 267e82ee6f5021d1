#include "sim/traffic/capture.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/loaded_library.hpp"
#include "sim/base/unpacked_file.hpp"
#include "sim/traffic/pcap_capture.hpp"

namespace rehearse {

namespace {

std::unique_ptr<PacketSource> open_pcap(std::FILE* file, std::unique_ptr<PackedCapture> packed,
                                        const std::string& name) {
  static auto* const open = reinterpret_cast<OpenPcap*>(function_of_library("rehearse-pcap.so", "rehearse_open_pcap"));
  return std::unique_ptr<PacketSource>{open(file, std::move(packed), name)};
}

}  // namespace

bool is_capture(std::string_view start) {
  const auto begins_with = [&](std::string_view magic) { return start.substr(0, 4) == magic; };
  return begins_with("\xd4\xc3\xb2\xa1") || begins_with("\xa1\xb2\xc3\xd4") || begins_with("\x4d\x3c\xb2\xa1") ||
         begins_with("\xa1\xb2\x3c\x4d") || begins_with("\x34\xcd\xb2\xa1") || begins_with("\xa1\xb2\xcd\x34") ||
         begins_with("\x0a\x0d\x0d\x0a");
}

namespace {

std::unique_ptr<PacketSource> open_packed(UnpackedFile unpacked, const std::string& file_name) {
  constexpr std::size_t kBuffer = std::size_t{1} << 16U;
  auto packed = std::make_unique<PackedCapture>(PackedCapture{.file = std::move(unpacked), .error = {}});
  std::FILE* opened = packed->open();
  if (opened == nullptr) throw InputError{file_name + ": cannot read: " + std::strerror(errno)};
  (void)std::setvbuf(opened, nullptr, _IOFBF, kBuffer);
  return open_pcap(opened, std::move(packed), file_name);
}

}  // namespace

std::unique_ptr<PacketSource> open_capture(const std::filesystem::path& file) {
  require_regular_file(file);
  if (!is_capture(read_file_start(file, 4))) return open_packed(UnpackedFile{file}, file.string());
  std::FILE* opened = std::fopen(file.c_str(), "rb");
  if (opened == nullptr) throw InputError{file.string() + ": cannot read: " + std::strerror(errno)};
  return open_pcap(opened, nullptr, file.string());
}

std::unique_ptr<PacketSource> open_capture_text(std::string_view text, const std::string& file_name) {
  if (text.empty()) throw InputError{file_name + ": expected a capture, pcap or pcapng; found nothing"};
  return open_packed(UnpackedFile{std::string{text}, file_name}, file_name);
}

}  // namespace rehearse
