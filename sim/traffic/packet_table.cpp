#include "sim/traffic/packet_table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "sim/traffic/fields.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kLongestLine = std::size_t{64} << 10U;
constexpr std::size_t kReadAtOnce = std::size_t{256} << 10U;
constexpr std::array<std::string_view, 9> kColumns{"frame.time", "ip.src",  "ip.dst",      "tcp.srcport", "tcp.dstport",
                                                   "frame.len",  "tcp.len", "tcp.seq_raw", "tcp.seq"};
enum TableColumn { kTime, kFrom, kTo, kFromPort, kToPort, kLength, kPayload, kRawSequence, kSequence };
constexpr std::size_t kRequiredColumns = 6;
constexpr std::int64_t kLargestFrame = 1'000'000'000;  // frame, in bytes

std::string_view without_return(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

/// Reads a time's text from its front.
class TimeText {
 public:
  explicit TimeText(std::string_view text) : rest_{text} {}

  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }
  bool take(char wanted) {
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  /// A number of up to `most` digits; -1 without any.
  int number(std::size_t most) {
    int value = 0;
    std::size_t digits = 0;
    for (; digits < most && is_digit(); ++digits, rest_.remove_prefix(1)) value = value * 10 + (rest_.front() - '0');
    return digits == 0 ? -1 : value;
  }
  bool is_digit() const { return !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9'; }
  /// Nanoseconds of a fraction; digits beyond the ninth are dropped.
  std::int64_t fraction() {
    std::int64_t value = 0, unit = kNanosecondsPerSecond;
    for (; is_digit(); rest_.remove_prefix(1)) value += (unit /= 10) * (rest_.front() - '0');
    return value;
  }
  /// From 1 to 12; 0 if the rest does not begin with an English month's first three letters.
  unsigned month() {
    constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
    const std::size_t at = rest_.size() < 3 ? std::string_view::npos : kMonths.find(rest_.substr(0, 3));
    if (at == std::string_view::npos || at % 3 != 0) return 0;
    rest_.remove_prefix(3);
    return static_cast<unsigned>(at / 3 + 1);
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

/// Seconds that a zone's clocks are ahead of UTC's.
std::optional<int> zone_offset(std::string_view zone) {
  if (zone == "UTC" || zone == "GMT" || zone == "Z") return 0;
  if (zone == "CET") return 3600;
  if (zone == "CEST") return 7200;
  if (zone.size() < 5 || (zone.front() != '+' && zone.front() != '-')) return {};
  TimeText text{zone.substr(1)};
  const int hours = text.number(2);
  text.take(':');
  const int minutes = text.number(2);
  if (hours < 0 || hours > 14 || minutes < 0 || minutes > 59 || !text.rest().empty()) return {};
  return (zone.front() == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
}

std::optional<std::int64_t> read_frame_time(std::string_view whole) {
  TimeText text{whole};
  text.skip_spaces();
  int year = 0, day = 0;
  unsigned month = 0;
  if (text.is_digit()) {
    year = text.number(4);
    if (!text.take('-')) return {};
    month = static_cast<unsigned>(std::max(0, text.number(2)));
    if (!text.take('-')) return {};
    day = text.number(2);
    if (!text.take('T') && !text.take(' ')) return {};
  } else {
    month = text.month();
    text.skip_spaces();
    day = text.number(2);
    if (!text.take(',')) return {};
    text.skip_spaces();
    year = text.number(4);
    text.skip_spaces();
  }
  const int hour = text.number(2);
  const int minute = text.take(':') ? text.number(2) : -1;
  const int second = text.take(':') ? text.number(2) : -1;
  const std::int64_t fraction = text.take('.') ? text.fraction() : 0;
  text.skip_spaces();
  const auto offset = zone_offset(text.rest());
  if (year < 1970 || year > 2250 || day < 1 || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 ||
      second > 60 || !offset)
    return {};
  const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{month},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  if (!date.ok()) return {};
  const std::int64_t days = std::chrono::sys_days{date}.time_since_epoch().count();
  const std::int64_t seconds = (days * 24 + hour) * 3600 + (minute * 60 + second - *offset);
  return seconds * kNanosecondsPerSecond + fraction;
}

class PacketTable : public PacketSource {
 public:
  PacketTable(std::unique_ptr<std::istream> input, std::string name)
      : input_{std::move(input)}, name_{std::move(name)}, buffer_(kReadAtOnce) {
    std::string_view line;
    if (!read_line(line)) throw InputError{name_ + ": expected a table of packets; found nothing"};
    const std::vector<std::string_view> columns = fields_of(line, '\t');
    for (std::size_t c = 0; c < kColumns.size(); ++c) {
      const auto found = std::ranges::find(columns, kColumns[c]);
      has_[c] = found != columns.end();
      if (!has_[c] && c < kRequiredColumns)
        throw InputError{name_ + ":1: expected a column " + in_quotes(kColumns[c]) + " between tabs; found " +
                         in_quotes(line)};
      place_[c] = static_cast<std::size_t>(found - columns.begin());
    }
    columns_ = columns.size();
    if (has_[kPayload] && (has_[kRawSequence] || has_[kSequence]))
      sequence_ = has_[kRawSequence] ? kRawSequence : kSequence;
  }

  bool next(Packet& packet) override {
    std::string_view line;
    do {
      if (!read_line(line)) return false;
    } while (line.empty());
    fields_.clear();
    for (std::size_t begin = 0; begin <= line.size();) {
      const std::size_t end = std::min(line.find('\t', begin), line.size());
      fields_.push_back(line.substr(begin, end - begin));
      begin = end + 1;
    }
    if (fields_.size() != columns_)
      fail_line("expected " + std::to_string(columns_) + " fields between tabs; found " +
                std::to_string(fields_.size()));
    packet = Packet{};
    try {
      packet.time_ns = parse_frame_time(field(kTime));
    } catch (const std::invalid_argument& error) { fail(kTime, error.what()); }
    packet.wire_bytes = number(kLength, 1, kLargestFrame);
    if (field(kFrom).empty() || field(kTo).empty()) return true;
    packet.is_ip = true;
    packet.from = address(kFrom);
    packet.to = address(kTo);
    if (field(kFromPort).empty() || field(kToPort).empty()) return true;
    packet.protocol = kTcp;
    packet.from_port = static_cast<std::uint16_t>(number(kFromPort, 0, 65535));
    packet.to_port = static_cast<std::uint16_t>(number(kToPort, 0, 65535));
    if (!sequence_ || field(*sequence_).empty() || field(kPayload).empty()) return true;
    packet.sequence = static_cast<std::uint32_t>(number(*sequence_, 0, std::numeric_limits<std::uint32_t>::max()));
    packet.payload_bytes = number(kPayload, 0, kLargestFrame);  // beyond the frame's if IP fragments were put together
    packet.has_sequence = packet.has_payload = true;
    return true;
  }

 private:
  /// The next line, without its end; false after the last one.
  bool read_line(std::string_view& line) {
    ++line_;
    text_.clear();
    while (true) {
      if (at_ == size_) {
        input_->read(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
        at_ = 0;
        size_ = static_cast<std::size_t>(input_->gcount());
        if (size_ == 0) {
          line = without_return(text_);
          return !text_.empty();
        }
      }
      const std::string_view rest{buffer_.data() + at_, size_ - at_};
      const std::size_t end = rest.find('\n');
      if (text_.size() + std::min(end, rest.size()) > kLongestLine)
        fail_line("expected a line of at most 64 KiB; found a longer one");
      if (end != std::string_view::npos && text_.empty()) {
        line = without_return(rest.substr(0, end));
        at_ += end + 1;
        return true;
      }
      text_ += rest.substr(0, end);
      at_ += std::min(end, rest.size());
      if (end == std::string_view::npos) continue;
      ++at_;
      line = without_return(text_);
      return true;
    }
  }

  std::string_view field(TableColumn column) const { return fields_[place_[column]]; }
  [[noreturn]] void fail_line(const std::string& message) const {
    throw InputError{name_ + ":" + std::to_string(line_) + ": " + message};
  }
  [[noreturn]] void fail(TableColumn column, const std::string& message) const {
    fail_line("column " + in_quotes(kColumns[column]) + ": " + message);
  }
  /// Of a packet within another's tunnel the outer one's value comes first: "80,443".
  std::string_view outer(TableColumn column) const { return field(column).substr(0, field(column).find(',')); }
  std::int64_t number(TableColumn column, std::int64_t least, std::int64_t most) const {
    const std::string_view text = outer(column);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most)
      fail(column, "expected a whole number from " + std::to_string(least) + " to " + std::to_string(most) +
                       "; found " + in_quotes(text));
    return value;
  }
  Address address(TableColumn column) const {
    Address address;
    if (!read_address(outer(column), address))
      fail(column, "expected an address such as 192.168.17.50; found " + in_quotes(field(column)));
    return address;
  }

  std::unique_ptr<std::istream> input_;
  std::string name_;
  std::vector<char> buffer_;
  std::size_t at_ = 0, size_ = 0;  // in the buffer
  std::string text_;               // of a line across its end
  std::size_t line_ = 0, columns_ = 0;
  std::array<std::size_t, kColumns.size()> place_{};
  std::array<bool, kColumns.size()> has_{};
  std::optional<TableColumn> sequence_;  // which column has it, if payload is known as well
  std::vector<std::string_view> fields_;
};

}  // namespace

std::int64_t parse_frame_time(std::string_view text) {
  if (const auto time = read_frame_time(text)) return *time;
  throw std::invalid_argument{
      R"(expected a time with its zone (CET, CEST, UTC or an offset), such as "Apr 21, 2021 14:03:05.123456789 CEST"; found )" +
      in_quotes(text)};
}

bool is_packet_table(std::string_view start) {
  const std::vector<std::string_view> columns = fields_of(without_return(start.substr(0, start.find('\n'))), '\t');
  return std::ranges::find(columns, kColumns[kTime]) != columns.end() &&
         std::ranges::find(columns, kColumns[kLength]) != columns.end();
}

std::unique_ptr<PacketSource> open_packet_table(const std::filesystem::path& file) {
  require_regular_file(file);
  auto input = std::make_unique<std::ifstream>(file, std::ios::binary);
  if (!*input) throw InputError{file.string() + ": cannot read"};
  return std::make_unique<PacketTable>(std::move(input), file.string());
}

std::unique_ptr<PacketSource> open_packet_table_text(std::string_view text, const std::string& file_name) {
  return std::make_unique<PacketTable>(std::make_unique<std::istringstream>(std::string{text}), file_name);
}

}  // namespace rehearse
