#include "sim/traffic/packet_json.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "sim/base/unpacked_file.hpp"
#include "sim/traffic/packet_fields.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kLongestPacket = std::size_t{16} << 20U;  // of text
constexpr std::size_t kLongestField = 200;

/// Fields of one packet: those at /_source/layers/LAYER/FIELD or, of `-e`, the first at /_source/layers/FIELD. Of several
/// layers of a kind the first counts, which is the outer one; ports count up to the second layer of IP.
class FieldHandler {
 public:
  std::array<std::string, kPacketFields> texts;
  bool has_layers = false;
  std::string error;

  // What is no text is no field, but numbers, which other programs make of them.
  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(std::int64_t value) { return take(std::to_string(value)); }
  bool number_unsigned(std::uint64_t value) { return take(std::to_string(value)); }
  bool number_float(double, const std::string& text) { return take(text); }
  bool string(std::string& value) { return take(value); }
  bool binary(std::vector<std::uint8_t>&) { return true; }
  bool start_object(std::size_t) { return enter(); }
  bool start_array(std::size_t) { return enter(); }
  bool end_object() { return leave(); }
  bool end_array() { return leave(); }
  bool key(std::string& name) {
    if (depth_ == 1) is_source_ = name == "_source";
    if (depth_ == 2) is_layers_ = is_source_ && name == "layers";
    if (depth_ == 3) {
      has_layers = has_layers || is_layers_;
      is_field_ = false;
      if (is_layers_ && (name == "ip" || name == "ipv6")) ++ip_layers_;
    }
    if (depth_ == 3 || depth_ == 4) set_field(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& what) {
    error = what.what();
    return false;
  }

 private:
  bool enter() {
    ++depth_;
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }
  void set_field(const std::string& name) {
    const auto found = std::ranges::find(kPacketFieldNames, name);
    field_ = static_cast<std::size_t>(found - kPacketFieldNames.begin());
    is_field_ = is_layers_ && field_ < kPacketFields;
    field_depth_ = depth_;
    const bool is_transport = name.starts_with("tcp.") || name.starts_with("udp.");
    if (depth_ == 4 && is_transport && ip_layers_ > 1) is_field_ = false;
  }
  bool take(const std::string& value) {
    const bool is_here = depth_ == field_depth_ || (field_depth_ == 3 && depth_ == 4);  // the latter in a list of -e
    if (is_field_ && is_here && texts[field_].empty()) texts[field_] = value.substr(0, kLongestField);
    return true;
  }

  int depth_ = 0, field_depth_ = 0, ip_layers_ = 0;
  bool is_source_ = false, is_layers_ = false, is_field_ = false;
  std::size_t field_ = kPacketFields;
};

class PacketJson : public PacketSource {
 public:
  explicit PacketJson(UnpackedFile input) : input_{std::move(input)}, buffer_(kReadAtOnce) {
    if (next_significant() != '[') throw InputError{input_.name() + ": expected a list of packets of tshark -T json"};
  }

  bool next(Packet& packet) override {
    if (is_over_) return false;
    ++packets_;
    if (!read_element()) return false;
    FieldHandler handler;
    nlohmann::json::sax_parse(text_, &handler);
    if (!handler.error.empty()) fail("is no JSON");
    if (!handler.has_layers) fail("expected /_source/layers, as tshark -T json writes");
    std::array<std::string_view, kPacketFields> texts;
    std::ranges::copy(handler.texts, texts.begin());
    if (texts[kEpochField].empty() && texts[kTimeField].empty())
      fail("expected a field \"frame.time_epoch\"; found none");
    if (texts[kLengthField].empty()) fail("expected a field \"frame.len\"; found none");
    packet = PacketFields{
        texts, [this](PacketField field, const std::string& message) {
          fail("field " + in_quotes(kPacketFieldNames[field]) + ": " + message);
        }}.packet();
    return true;
  }
  std::string warning() const override { return warning_; }

 private:
  /// The next byte; -1 at the end.
  int next_byte() {
    if (at_ == size_) {
      at_ = 0;
      size_ = input_.read(buffer_.data(), buffer_.size());
      if (size_ == 0) return -1;
    }
    return static_cast<unsigned char>(buffer_[at_++]);
  }
  int next_significant() {
    int byte = next_byte();
    while (byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t' || byte == 0xef || byte == 0xbb || byte == 0xbf)
      byte = next_byte();
    return byte;
  }

  /// The text of the next element; false after the last one, or if the file ends within it.
  bool read_element() {
    int byte = next_significant();
    if (byte == ',' && packets_ > 1) byte = next_significant();
    if (byte == ']') is_over_ = true;
    if (is_over_) return false;
    if (byte == -1) return end_early();
    if (byte != '{') fail("expected an object");
    text_ = "{";
    bool is_in_string = false, is_escaped = false;
    for (int depth = 1; depth > 0;) {
      byte = next_byte();
      if (byte == -1) return end_early();
      if (text_.size() == kLongestPacket) fail("expected at most 16 MiB of text; found more");
      text_ += static_cast<char>(byte);
      if (is_in_string) {
        if (!is_escaped && byte == '"') is_in_string = false;
        is_escaped = !is_escaped && byte == '\\';
      } else if (byte == '"') {
        is_in_string = true;
      } else if (byte == '{' || byte == '[') {
        ++depth;
      } else if (byte == '}' || byte == ']') {
        --depth;
      }
    }
    return true;
  }
  bool end_early() {
    is_over_ = true;
    warning_ = input_.name() + ": after packet " + std::to_string(packets_ - 1) + ": the list of packets is cut short";
    return false;
  }
  [[noreturn]] void fail(const std::string& message) const {
    throw InputError{input_.name() + ": packet " + std::to_string(packets_) + ": " + message};
  }

  UnpackedFile input_;
  std::vector<char> buffer_;
  std::size_t at_ = 0, size_ = 0;
  std::string text_, warning_;
  std::int64_t packets_ = 0;
  bool is_over_ = false;
};

}  // namespace

bool is_packet_json(std::string_view start) {
  const std::size_t first = start.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  return first != std::string_view::npos && start[first] == '[' &&
         start.find("\"_source\"") != std::string_view::npos && start.find("\"layers\"") != std::string_view::npos;
}

std::unique_ptr<PacketSource> open_packet_json(const std::filesystem::path& file) {
  require_regular_file(file);
  return std::make_unique<PacketJson>(UnpackedFile{file});
}

std::unique_ptr<PacketSource> open_packet_json_text(std::string_view text, const std::string& file_name) {
  return std::make_unique<PacketJson>(UnpackedFile{std::string{text}, file_name});
}

}  // namespace rehearse
