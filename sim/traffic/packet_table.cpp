#include "sim/traffic/packet_table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "sim/base/unpacked_file.hpp"
#include "sim/traffic/packet_fields.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kLongestLine = std::size_t{64} << 10U;
constexpr std::array<PacketField, 5> kRequired{kFromField, kToField, kFromPortField, kToPortField, kLengthField};
constexpr std::array<std::pair<char, std::string_view>, 5> kSeparators{
    {{'\t', "tabs"}, {',', "commas"}, {';', "semicolons"}, {'|', "bars"}, {' ', "spaces"}}};

/// Fields of a line, which may be in quotes ("-E quote=d"); a quote that nothing closes is a part of its field.
void split_quoted(std::string_view line, char separator, std::vector<std::string_view>& fields) {
  fields.clear();
  for (std::size_t begin = 0; begin <= line.size();) {
    if (begin < line.size() && (line[begin] == '"' || line[begin] == '\'')) {
      const std::size_t close = line.find(line[begin], begin + 1);
      if (close != std::string_view::npos && (close + 1 == line.size() || line[close + 1] == separator)) {
        fields.push_back(line.substr(begin + 1, close - begin - 1));
        begin = close + 2;
        continue;
      }
    }
    const std::size_t end = std::min(line.find(separator, begin), line.size());
    fields.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
}

bool has_column(const std::vector<std::string_view>& columns, PacketField field) {
  return std::ranges::find(columns, kPacketFieldNames[field]) != columns.end();
}

/// What separates the columns of a header; none: it is no header of a table of packets.
const std::pair<char, std::string_view>* separator_of(std::string_view header) {
  std::vector<std::string_view> columns;
  for (const auto& separator : kSeparators) {
    split_quoted(header, separator.first, columns);
    if (has_column(columns, kLengthField) && (has_column(columns, kEpochField) || has_column(columns, kTimeField)))
      return &separator;
  }
  return nullptr;
}

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

/// A time in seconds, such as "1619006585.123456789".
std::optional<std::int64_t> read_epoch(std::string_view text) {
  const std::size_t point = std::min(text.find('.'), text.size());
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + point, seconds);
  if (error != std::errc{} || end != text.data() + point || seconds < 0 || seconds > kLatestSecond) return {};
  TimeText rest{text.substr(point)};
  const std::int64_t fraction = rest.take('.') ? rest.fraction() : 0;
  if (!rest.rest().empty()) return {};
  return seconds * kNanosecondsPerSecond + fraction;
}

class PacketTable : public PacketSource {
 public:
  explicit PacketTable(UnpackedFile input) : input_{std::move(input)}, name_{input_.name()}, buffer_(kReadAtOnce) {
    std::string_view line;
    if (!read_line(line)) throw InputError{name_ + ": expected a table of packets; found nothing"};
    if (const auto* separator = separator_of(line)) separator_ = *separator;
    split_quoted(line, separator_.first, columns_);
    const auto require = [&](bool is_there, const std::string& columns) {
      if (!is_there)
        throw InputError{name_ + ":1: expected a column " + columns + " between " + std::string{separator_.second} +
                         "; found " + in_quotes(line)};
    };
    require(has_column(columns_, kEpochField) || has_column(columns_, kTimeField),
            R"("frame.time_epoch" or "frame.time")");
    for (const PacketField field : kRequired) require(has_column(columns_, field), in_quotes(kPacketFieldNames[field]));
    for (std::size_t f = 0; f < kPacketFields; ++f)
      place_[f] = static_cast<std::size_t>(std::ranges::find(columns_, kPacketFieldNames[f]) - columns_.begin());
    column_count_ = columns_.size();
    columns_.clear();  // views into the line
  }

  bool next(Packet& packet) override {
    std::string_view line;
    do {
      if (!read_line(line)) return false;
    } while (line.empty());
    split_quoted(line, separator_.first, columns_);
    if (columns_.size() != column_count_)
      fail_line("expected " + std::to_string(column_count_) + " fields between " + std::string{separator_.second} +
                "; found " + std::to_string(columns_.size()) +
                (columns_.size() > column_count_ && place_[kTimeField] < column_count_
                     ? "; dates have commas and spaces: write frame.time_epoch, or tshark -E quote=d"
                     : ""));
    for (std::size_t f = 0; f < kPacketFields; ++f)
      texts_[f] = place_[f] < column_count_ ? columns_[place_[f]] : std::string_view{};
    packet = PacketFields{
        texts_, [this](PacketField field, const std::string& message) {
          fail_line("column " + in_quotes(kPacketFieldNames[field]) + ": " + message);
        }}.packet();
    return true;
  }

 private:
  /// The next line, without its end; false after the last one.
  bool read_line(std::string_view& line) {
    ++line_;
    text_.clear();
    while (true) {
      if (at_ == size_) {
        at_ = 0;
        size_ = input_.read(buffer_.data(), buffer_.size());
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

  [[noreturn]] void fail_line(const std::string& message) const {
    throw InputError{name_ + ":" + std::to_string(line_) + ": " + message};
  }

  UnpackedFile input_;
  std::string name_;
  std::vector<char> buffer_;
  std::size_t at_ = 0, size_ = 0;  // in the buffer
  std::string text_;               // of a line across its end
  std::size_t line_ = 0, column_count_ = 0;
  std::pair<char, std::string_view> separator_ = kSeparators[0];
  std::array<std::size_t, kPacketFields> place_{};  // column_count_: there is no such column
  std::vector<std::string_view> columns_;           // of the line
  std::array<std::string_view, kPacketFields> texts_{};
};

}  // namespace

std::int64_t parse_frame_time(std::string_view text) {
  if (const auto time = read_epoch(text)) return *time;
  if (const auto time = read_frame_time(text)) return *time;
  throw std::invalid_argument{
      R"(expected a time with its zone (CET, CEST, UTC or an offset), such as "Apr 21, 2021 14:03:05.123456789 CEST", or seconds, as frame.time_epoch has; found )" +
      in_quotes(text)};
}

bool is_packet_table(std::string_view start) {
  return separator_of(without_return(start.substr(0, start.find('\n')))) != nullptr;
}

std::string lacking_columns(std::string_view start) {
  const std::string_view header = without_return(start.substr(0, start.find('\n')));
  std::vector<std::string_view> columns;
  for (const auto& separator : kSeparators) {
    split_quoted(header, separator.first, columns);
    const auto is_known = [&](std::string_view column) {
      return std::ranges::find(kPacketFieldNames, column) != kPacketFieldNames.end();
    };
    if (std::ranges::count_if(columns, is_known) < 2) continue;
    std::vector<std::string> missing;
    if (!has_column(columns, kEpochField) && !has_column(columns, kTimeField)) missing.emplace_back("frame.time_epoch");
    for (const PacketField field : kRequired)
      if (!has_column(columns, field)) missing.emplace_back(kPacketFieldNames[field]);
    return joined(missing);
  }
  return {};
}

std::unique_ptr<PacketSource> open_packet_table(const std::filesystem::path& file) {
  require_regular_file(file);
  return std::make_unique<PacketTable>(UnpackedFile{file});
}

std::unique_ptr<PacketSource> open_packet_table_text(std::string_view text, const std::string& file_name) {
  return std::make_unique<PacketTable>(UnpackedFile{std::string{text}, file_name});
}

}  // namespace rehearse
