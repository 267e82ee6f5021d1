#include "sim/traffic/pcap_capture.hpp"

#include <pcap/pcap.h>

#include <array>
#include <optional>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/traffic/frame.hpp"

namespace rehearse {

namespace {

std::optional<LinkHeader> link_header(int type) {
  switch (type) {
    case DLT_EN10MB:
      return LinkHeader::kEthernet;
    case DLT_LINUX_SLL:
      return LinkHeader::kCooked;
    case DLT_LINUX_SLL2:
      return LinkHeader::kCooked2;
    case DLT_IPOIB:
      return LinkHeader::kInfiniband;
    case DLT_NULL:
    case DLT_LOOP:
      return LinkHeader::kLoopback;
    case DLT_RAW:
    case DLT_IPV4:
    case DLT_IPV6:
      return LinkHeader::kNone;
    default:
      return {};
  }
}

class Capture : public PacketSource {
 public:
  /// `packed`: what `file` reads from, unless that is a file of its own.
  Capture(std::FILE* file, std::unique_ptr<PackedCapture> packed, std::string name)
      : name_{std::move(name)}, packed_{std::move(packed)} {
    std::array<char, PCAP_ERRBUF_SIZE> error{};
    pcap_ = pcap_fopen_offline_with_tstamp_precision(file, PCAP_TSTAMP_PRECISION_NANO, error.data());
    if (pcap_ == nullptr) {
      std::fclose(file);
      rethrow();
      throw InputError{name_ + ": expected a capture, pcap or pcapng; " + printable(error.data())};
    }
    const int type = pcap_datalink(pcap_);
    if (const auto known = link_header(type)) {
      header_ = *known;
      return;
    }
    const char* description = pcap_datalink_val_to_description(type);
    const std::string found = description != nullptr ? description : "type " + std::to_string(type);
    pcap_close(pcap_);
    throw InputError{name_ +
                     ": expected frames of Ethernet, Linux's cooked headers, IP over InfiniBand, BSD's loopback or "
                     "plain IP; found " +
                     found};
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  Capture(Capture&&) = delete;
  Capture& operator=(Capture&&) = delete;
  ~Capture() override { pcap_close(pcap_); }

  bool next(Packet& packet) override {
    pcap_pkthdr* header = nullptr;
    const std::uint8_t* bytes = nullptr;
    const int result = pcap_next_ex(pcap_, &header, &bytes);
    if (result == PCAP_ERROR_BREAK) {
      rethrow();
      return false;
    }
    if (result != 1) {
      rethrow();
      return end_with(pcap_geterr(pcap_));
    }
    ++packets_;
    const std::int64_t seconds = header->ts.tv_sec, fraction = header->ts.tv_usec;  // nanoseconds, in spite of the name
    if (seconds < 0 || seconds > kLatestSecond || fraction < 0 || fraction >= kNanosecondsPerSecond)
      throw InputError{name_ + ": packet " + std::to_string(packets_) + ": expected a time from 1970 to 2255; found " +
                       std::to_string(seconds) + " s, " + std::to_string(fraction) + " ns"};
    packet = Packet{};
    packet.time_ns = seconds * kNanosecondsPerSecond + fraction;
    packet.wire_bytes = header->len;
    read_frame(header_, {bytes, header->caplen}, packet);
    return true;
  }
  std::string warning() const override { return warning_; }

 private:
  /// A file that was cut while a packet was written holds those before it: tcpdump leaves such files when it is killed.
  bool end_with(const std::string& error) {
    const std::string text = name_ + ": after packet " + std::to_string(packets_) + ": " + printable(error);
    if (error.find("truncated") == std::string::npos) throw InputError{text};
    warning_ = text;
    return false;
  }

  /// What the reading of a packed file has met.
  void rethrow() const {
    if (packed_ && packed_->error) std::rethrow_exception(packed_->error);
  }

  std::string name_, warning_;
  std::unique_ptr<PackedCapture> packed_;
  pcap_t* pcap_ = nullptr;
  LinkHeader header_ = LinkHeader::kEthernet;
  std::int64_t packets_ = 0;
};

}  // namespace

}  // namespace rehearse

/// What open_capture() looks up in this library.
extern "C" rehearse::PacketSource* rehearse_open_pcap(std::FILE* file, std::unique_ptr<rehearse::PackedCapture> packed,
                                                      const std::string& name) {
  return new rehearse::Capture{file, std::move(packed), name};
}
