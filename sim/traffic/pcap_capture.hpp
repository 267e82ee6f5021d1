#pragma once
// What knows libpcap. It is a library of its own that capture.cpp loads: libpcap brings buses and ciphers with it, which take
// half of the program's start.

#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include "sim/base/unpacked_file.hpp"
#include "sim/traffic/packet.hpp"

namespace rehearse {

/// What libpcap reads of a packed file; an error of it is thrown once libpcap has returned.
struct PackedCapture {
  UnpackedFile file;
  std::exception_ptr error;

  static ssize_t read(void* self, char* bytes, std::size_t size) {
    auto* packed = static_cast<PackedCapture*>(self);
    try {
      return static_cast<ssize_t>(packed->file.read(bytes, size));
    } catch (...) {
      packed->error = std::current_exception();
      return -1;
    }
  }
  std::FILE* open() {
    return fopencookie(this, "rb", {.read = read, .write = nullptr, .seek = nullptr, .close = nullptr});
  }
};

/// rehearse_open_pcap() of that library. `packed` is what the file reads from, unless that is a file of its own; `name` is of errors.
/// Throws InputError of what libpcap refuses.
using OpenPcap = PacketSource*(std::FILE* file, std::unique_ptr<PackedCapture> packed, const std::string& name);

}  // namespace rehearse
