// Event files of TensorBoard. A record of TFRecord is
//   length (8 bytes) | masked CRC32C of these | data | masked CRC32C of the data (4 bytes), all little endian
// with mask(crc) = (crc rotated right by 15 bits) + 0xa282ead8. The data are a message Event of protobuf:
//   1 wall_time double | 2 step int64 | 5 summary, of which each 1 is a value: 1 tag | 2 simple_value float | 8 tensor
// Source: TensorFlow, tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto, summary.proto, tensor.proto.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include "calibration/detail/logged_steps.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/varint.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kLengthSize = 12, kFooterSize = 4;

/// CRC32C: Castagnoli's polynomial, reflected 0x82f63b78.
std::uint32_t crc32c(std::string_view data) {
  static const auto table_of_bytes = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < table.size(); ++i) {
      table[i] = i;
      for (int bit = 0; bit < 8; ++bit) table[i] = (table[i] >> 1U) ^ ((table[i] & 1U) != 0 ? 0x82f63b78U : 0U);
    }
    return table;
  }();
  std::uint32_t crc = 0xffffffffU;
  for (const char c : data) crc = table_of_bytes[(crc ^ static_cast<unsigned char>(c)) & 0xffU] ^ (crc >> 8U);
  return ~crc;
}

template <class Number>
Number little_endian(std::string_view bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i)
    number |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  if constexpr (sizeof(Number) == sizeof(std::uint64_t))
    return std::bit_cast<Number>(number);
  else
    return std::bit_cast<Number>(static_cast<std::uint32_t>(number));
}

/// A field of a message; fields are taken away from the front.
struct Field {
  std::uint64_t number = 0, wire = 0;
  std::uint64_t varint = 0;
  std::string_view bytes;
};

std::optional<Field> take_field(std::string_view& message) {
  const auto tag = take_varint(message);
  if (!tag) return {};
  Field field{.number = *tag >> 3U, .wire = *tag & 7U};
  std::uint64_t size = 0;
  switch (field.wire) {
    case 0: {
      const auto value = take_varint(message);
      if (!value) return {};
      field.varint = *value;
      return field;
    }
    case 1:
      size = 8;
      break;
    case 2: {
      const auto length = take_varint(message);
      if (!length) return {};
      size = *length;
      break;
    }
    case 5:
      size = 4;
      break;
    default:
      return {};
  }
  if (size > message.size()) return {};
  field.bytes = message.substr(0, size);
  message.remove_prefix(size);
  return field;
}

/// The one number of a message Tensor in float or double.
std::optional<double> tensor_value(std::string_view tensor) {
  constexpr std::uint64_t kFloat = 1, kDouble = 2;
  std::uint64_t type = 0;
  std::string_view content, floats, doubles;
  while (const auto field = take_field(tensor)) {
    if (field->number == 1 && field->wire == 0) type = field->varint;
    if (field->number == 4 && field->wire == 2) content = field->bytes;
    if (field->number == 5 && field->wire != 0) floats = field->bytes;
    if (field->number == 6 && field->wire != 0) doubles = field->bytes;
  }
  if (type == kFloat && content.size() == 4) return little_endian<float>(content);
  if (type == kFloat && floats.size() == 4) return little_endian<float>(floats);
  if (type == kDouble && content.size() == 8) return little_endian<double>(content);
  if (type == kDouble && doubles.size() == 8) return little_endian<double>(doubles);
  return {};
}

struct Scalar {
  std::string_view tag;
  std::optional<double> value;
};

Scalar scalar_of(std::string_view value) {
  Scalar scalar;
  while (const auto field = take_field(value)) {
    if (field->number == 1 && field->wire == 2) scalar.tag = field->bytes;
    if (field->number == 2 && field->wire == 5) scalar.value = little_endian<float>(field->bytes);
    if (field->number == 8 && field->wire == 2) scalar.value = tensor_value(field->bytes);
  }
  return scalar;
}

/// What events of one step say together.
struct EventStep {
  std::size_t record = 0;
  double date = 0;  // the earliest
  std::array<LoggedValue, static_cast<std::size_t>(LogMeaning::kOfStep)> values{};
};

/// DeepSpeed's monitor counts samples instead of steps; Megatron-LM has each metric once more against samples.
bool counts_samples(std::string_view tag) {
  return tag.starts_with("Train/Samples/") || tag.find(" vs samples") != std::string_view::npos;
}

class EventFile {
 public:
  explicit EventFile(const std::string& file_name) : log_{file_name} { log_.framework = "TensorBoard"; }

  LoggedSteps read(std::string_view content) {
    std::size_t number = 0;
    while (!content.empty()) {
      ++number;
      const auto record = take_record(content, number);
      if (!record) {
        log_.notes.push_back(log_.file_name() + ": its last record is cut short and left out");
        break;
      }
      read_event(*record, number);
    }
    std::map<std::int64_t, EventStep>& events = steps_.empty() ? by_samples_ : steps_;
    if (events.empty())
      throw InputError{log_.file_name() + ": expected scalars of a training; found " +
                       (has_scalars_ ? "those of evaluations alone" : "none")};
    for (auto& [step, event] : events) {
      JobLogEntry* added = log_.add(event.record, step, LogSpan::kSinceLast);
      if (added == nullptr) continue;
      added->values = event.values;
      if (steps_.empty()) (*added)[LogMeaning::kSamples] = {static_cast<double>(step), 0};
      (*added)[LogMeaning::kElapsed] = {event.date, 0};
    }
    log_.counts_samples = steps_.empty();
    return std::move(log_);
  }

 private:
  [[noreturn]] void fail(std::size_t number, const std::string& what) const {
    throw InputError{log_.file_name() + ": record " + std::to_string(number) + ": " + what};
  }

  /// None if there is not all of it.
  std::optional<std::string_view> take_record(std::string_view& content, std::size_t number) const {
    if (content.size() < kLengthSize) return {};
    const auto length = little_endian<std::uint64_t>(content.substr(0, 8));
    if (masked_crc32c(content.substr(0, 8)) != little_endian<std::uint32_t>(content.substr(8, 4)))
      fail(number, "expected the checksum of its length; the file is damaged or no event file of TensorBoard");
    content.remove_prefix(kLengthSize);
    if (content.size() < kFooterSize || length > content.size() - kFooterSize) return {};
    const std::string_view data = content.substr(0, length);
    if (masked_crc32c(data) != little_endian<std::uint32_t>(content.substr(length, kFooterSize)))
      fail(number, "expected the checksum of its data; the file is damaged");
    content.remove_prefix(length + kFooterSize);
    return data;
  }

  void read_event(std::string_view event, std::size_t number) {
    double date = 0;
    std::int64_t step = 0;
    std::string_view summary;
    while (!event.empty()) {
      const auto field = take_field(event);
      if (!field) fail(number, "expected an event of TensorBoard");
      if (field->number == 1 && field->wire == 1) date = little_endian<double>(field->bytes);
      if (field->number == 2 && field->wire == 0) step = static_cast<std::int64_t>(field->varint);
      if (field->number == 5 && field->wire == 2) summary = field->bytes;
    }
    constexpr double kLatest = 1e11;
    const bool has_step = step >= 0 && static_cast<double>(step) <= kMostStepNumber;
    if (summary.empty() || !has_step || !(date >= 0 && date <= kLatest)) return;
    while (const auto value = take_field(summary))
      if (value->number == 1 && value->wire == 2) add(scalar_of(value->bytes), number, date, step);
  }

  void add(const Scalar& scalar, std::size_t number, double date, std::int64_t step) {
    if (!scalar.value) return;
    has_scalars_ = true;
    if (is_of_evaluation(scalar.tag)) return;
    auto& steps = counts_samples(scalar.tag) ? by_samples_ : steps_;
    const auto [entry, is_new] = steps.try_emplace(step);
    EventStep& event = entry->second;
    if (is_new) event.record = number;
    if (is_new || date < event.date) event.date = date;
    const LogName* metric = find_metric(scalar.tag);
    if (metric == nullptr || metric->meaning >= LogMeaning::kElapsed) return;
    const double value = *scalar.value * metric->unit;
    constexpr double kFloatResolution = 6e-8;
    if (std::isfinite(value) && value >= 0)
      event.values[static_cast<std::size_t>(metric->meaning)] = {value, kFloatResolution};
  }

  LoggedSteps log_;
  std::map<std::int64_t, EventStep> steps_, by_samples_;
  bool has_scalars_ = false;
};

}  // namespace

std::uint32_t masked_crc32c(std::string_view data) { return std::rotr(crc32c(data), 15) + 0xa282ead8U; }

bool is_event_file(std::string_view start) {
  return start.size() >= kLengthSize && little_endian<std::uint64_t>(start.substr(0, 8)) < (std::uint64_t{1} << 40U) &&
         masked_crc32c(start.substr(0, 8)) == little_endian<std::uint32_t>(start.substr(8, 4));
}

LoggedSteps read_event_file(std::string_view content, const std::string& file_name) {
  return EventFile{file_name}.read(content);
}

}  // namespace rehearse
