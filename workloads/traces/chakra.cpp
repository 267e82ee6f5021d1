#include "workloads/traces/chakra.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cmath>
#include <exception>
#include <limits>
#include <optional>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "workloads/traces/chakra.pb.h"
#include "workloads/traces/detail/chakra_checks.hpp"
#include "workloads/traces/detail/characters.hpp"
#include "workloads/traces/detail/interned.hpp"

namespace rehearse {

namespace {

using Attribute = chakra::Attribute;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

constexpr std::uint32_t kLongestMessage = 64 << 20;

/// A file as protobuf wants it. What reading throws is kept until protobuf has returned.
class UnpackedStream final : public google::protobuf::io::CopyingInputStream {
 public:
  UnpackedStream(const std::filesystem::path& file, const Budget& budget) : file_{file, budget} {}

  int Read(void* buffer, int size) override {
    try {
      return static_cast<int>(file_.read(static_cast<char*>(buffer), static_cast<std::size_t>(size)));
    } catch (...) {
      error_ = std::current_exception();
      return -1;
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  UnpackedFile file_;
  std::exception_ptr error_;
};

/// A number of any of the types that attributes have, if it is whole.
std::optional<std::int64_t> whole_number(const Attribute& attribute) {
  const auto of_double = [](double value) -> std::optional<std::int64_t> {
    if (!(std::abs(value) < 9e18) || value != std::floor(value)) return {};
    return static_cast<std::int64_t>(value);
  };
  const auto of_unsigned = [](std::uint64_t value) -> std::optional<std::int64_t> {
    if (value > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) return {};
    return static_cast<std::int64_t>(value);
  };
  using Field = google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& values = *Attribute::GetReflection();
  const Field* field = values.GetOneofFieldDescriptor(attribute, Attribute::GetDescriptor()->oneof_decl(0));
  if (field == nullptr) return {};
  switch (field->cpp_type()) {
    case Field::CPPTYPE_DOUBLE:
      return of_double(values.GetDouble(attribute, field));
    case Field::CPPTYPE_FLOAT:
      return of_double(static_cast<double>(values.GetFloat(attribute, field)));
    case Field::CPPTYPE_INT32:
      return values.GetInt32(attribute, field);
    case Field::CPPTYPE_INT64:
      return values.GetInt64(attribute, field);
    case Field::CPPTYPE_UINT32:
      return values.GetUInt32(attribute, field);
    case Field::CPPTYPE_UINT64:
      return of_unsigned(values.GetUInt64(attribute, field));
    case Field::CPPTYPE_BOOL:
      return values.GetBool(attribute, field) ? 1 : 0;
    default:
      return {};
  }
}

std::optional<ChakraAttribute> own_attribute_of(const Attribute& attribute) {
  if (!attribute.name().starts_with(kOwnAttribute)) return {};
  ChakraAttribute own{.name = attribute.name(), .value = std::int64_t{0}};
  switch (attribute.value_case()) {
    case Attribute::kInt64Val:
      own.value = std::int64_t{attribute.int64_val()};
      return own;
    case Attribute::kDoubleVal:
      own.value = attribute.double_val();
      return own;
    case Attribute::kStringVal:
      own.value = attribute.string_val();
      return own;
    case Attribute::kInt64List:
      own.value =
          std::vector<std::int64_t>(attribute.int64_list().values().begin(), attribute.int64_list().values().end());
      return own;
    case Attribute::kStringList:
      own.value =
          std::vector<std::string>(attribute.string_list().values().begin(), attribute.string_list().values().end());
      return own;
    default:
      return {};
  }
}

class MessageReader {
 public:
  explicit MessageReader(const std::string& file_name) { trace_.file_name = file_name; }

  /// All messages of the stream; `rethrow` throws what reading has thrown.
  template <class Rethrow>
  ChakraTrace read(google::protobuf::io::ZeroCopyInputStream& stream, const Rethrow& rethrow) {
    chakra::GlobalMetadata metadata;
    if (!next(stream, metadata, rethrow)) throw InputError{trace_.file_name + ": is empty"};
    add(metadata);
    for (chakra::Node node; next(stream, node, rethrow); node.Clear()) add(node);
    if (trace_.nodes.empty()) throw InputError{trace_.file_name + ": has no nodes"};
    return std::move(trace_);
  }

 private:
  /// The next message; false at the end of the stream.
  template <class Message, class Rethrow>
  bool next(google::protobuf::io::ZeroCopyInputStream& stream, Message& message, const Rethrow& rethrow) {
    CodedInputStream in{&stream};
    std::uint32_t size = 0;
    const bool has_size = in.ReadVarint32(&size);
    rethrow();
    if (!has_size && in.CurrentPosition() == 0) return false;
    const bool is_read = has_size && size <= kLongestMessage && read_message(in, size, message);
    rethrow();
    if (!is_read)
      throw InputError{trace_.file_name + ": byte " + std::to_string(bytes_) + ", after " +
                       std::to_string(trace_.nodes.size()) + " nodes: expected a message of Chakra behind its length"};
    bytes_ += in.CurrentPosition();
    return true;
  }

  template <class Message>
  static bool read_message(CodedInputStream& in, std::uint32_t size, Message& message) {
    const CodedInputStream::Limit limit = in.PushLimit(static_cast<int>(size));
    if (!message.ParseFromCodedStream(&in) || in.BytesUntilLimit() != 0) return false;
    in.PopLimit(limit);
    return true;
  }

  void add(const chakra::GlobalMetadata& metadata) {
    for (const Attribute& attribute : metadata.attr()) {
      if (attribute.name() == "schema") trace_.ctrl_deps_are_calls = true;
      if (std::optional<ChakraAttribute> own = own_attribute_of(attribute)) trace_.own.push_back(std::move(*own));
    }
  }

  void add(const chakra::Node& message) {
    ChakraNode node{.id = message.id(), .type = static_cast<ChakraType>(message.type())};
    const NodePlace place{trace_.file_name, node.id, message.name()};
    place.require(!find_invalid_utf8(message.name()), "name", "UTF-8", "other bytes");
    node.name = names_(message.name());
    node.data_deps.assign(message.data_deps().begin(), message.data_deps().end());
    node.ctrl_deps.assign(message.ctrl_deps().begin(), message.ctrl_deps().end());
    if (message.start_time_micros() > 0)
      node.start = place.microseconds("start_time_micros", message.start_time_micros(), kLatestMicroseconds);
    if (message.duration_micros() > 0)
      node.duration = place.microseconds("duration_micros", message.duration_micros(), kLongestMicroseconds);
    std::int64_t thread = -1;
    for (const Attribute& attribute : message.attr()) add(attribute, node, thread, place);
    if (node.is_on_cpu)
      node.thread = thread;
    else if (node.stream < 0)
      node.stream = thread;
    trace_.nodes.push_back(std::move(node));
  }

  void add(const Attribute& attribute, ChakraNode& node, std::int64_t& thread, const NodePlace& place) {
    const std::string& name = attribute.name();
    if (name == "pg_name" || name == "comm_group") {
      const std::optional<std::int64_t> number = whole_number(attribute);
      const std::string group = number ? std::to_string(*number) : attribute.string_val();
      place.require(!find_invalid_utf8(group), name, "UTF-8", "other bytes");
      if (!group.empty()) node.group = groups_(group);
      return;
    }
    if (std::optional<ChakraAttribute> own = own_attribute_of(attribute)) {
      add_own(std::move(*own), node, place);
      return;
    }
    const auto set = [&](std::int64_t& value) {
      const std::optional<std::int64_t> number = whole_number(attribute);
      place.require(number && *number >= 0, name, "a whole number from 0",
                    number ? std::to_string(*number) : "another value");
      value = *number;
    };
    if (name == "is_cpu_op") node.is_on_cpu = whole_number(attribute).value_or(0) != 0;
    if (name == "tid") thread = whole_number(attribute).value_or(-1);
    if (name == "stream") node.stream = whole_number(attribute).value_or(-1);
    if (name == "comm_type") set(node.comm_type);
    if (name == "comm_size" || name == "tensor_size") set(node.bytes);
    if (name == "comm_src") set(node.source);
    if (name == "comm_dst") set(node.destination);
    if (name == "comm_tag") set(node.tag);
  }

  static void add_own(ChakraAttribute own, ChakraNode& node, const NodePlace& place) {
    const auto* time = std::get_if<std::int64_t>(&own.value);
    if (time != nullptr && own.name == "rehearse.start_ns")
      node.start = place.nanoseconds(own.name, *time, -kLatestMicroseconds, kLatestMicroseconds);
    else if (time != nullptr && own.name == "rehearse.duration_ns")
      node.duration = place.nanoseconds(own.name, *time, 0, kLongestMicroseconds);
    else
      node.own.push_back(std::move(own));
  }

  ChakraTrace trace_;
  Interned names_{trace_.names}, groups_{trace_.groups};
  std::int64_t bytes_ = 0;
};

Attribute& add_attribute(chakra::Node& node, std::string_view name) {
  Attribute& attribute = *node.add_attr();
  attribute.set_name(std::string{name});
  return attribute;
}

void write_own(const ChakraAttribute& own, Attribute& attribute) {
  attribute.set_name(own.name);
  if (const auto* whole = std::get_if<std::int64_t>(&own.value)) attribute.set_int64_val(*whole);
  if (const auto* number = std::get_if<double>(&own.value)) attribute.set_double_val(*number);
  if (const auto* text = std::get_if<std::string>(&own.value)) attribute.set_string_val(*text);
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&own.value))
    attribute.mutable_int64_list()->mutable_values()->Add(list->begin(), list->end());
  if (const auto* list = std::get_if<std::vector<std::string>>(&own.value)) {
    chakra::StringList& values = *attribute.mutable_string_list();  // also where it has no text
    for (const std::string& text : *list) values.add_values(text);
  }
}

void write_times(const ChakraNode& node, chakra::Node& message) {
  const auto rounded = [](Nanoseconds time) {
    return static_cast<std::uint64_t>((std::max<Nanoseconds>(time, 0) + 500) / 1000);
  };
  message.set_start_time_micros(rounded(node.start));
  message.set_duration_micros(rounded(node.duration));
  // The schema counts in microseconds, and cannot tell 0 from what is not recorded.
  const auto is_exact = [](std::uint64_t written, Nanoseconds time) {
    return time == kNotRecorded || (written > 0 && static_cast<Nanoseconds>(written) * 1000 == time);
  };
  if (!is_exact(message.start_time_micros(), node.start))
    add_attribute(message, "rehearse.start_ns").set_int64_val(node.start);
  if (!is_exact(message.duration_micros(), node.duration))
    add_attribute(message, "rehearse.duration_ns").set_int64_val(node.duration);
}

void write_node(const ChakraTrace& trace, const ChakraNode& node, chakra::Node& message) {
  message.set_id(node.id);
  message.set_name(trace.names[static_cast<std::size_t>(node.name)]);
  message.set_type(static_cast<std::int32_t>(node.type));
  message.mutable_data_deps()->Add(node.data_deps.begin(), node.data_deps.end());
  message.mutable_ctrl_deps()->Add(node.ctrl_deps.begin(), node.ctrl_deps.end());
  add_attribute(message, "is_cpu_op").set_bool_val(node.is_on_cpu);
  const auto add = [&](std::string_view name, std::int64_t value) {
    if (value >= 0) add_attribute(message, name).set_int64_val(value);
  };
  add("tid", node.thread);
  add("stream", node.stream);
  add("comm_type", node.comm_type);
  add(node.type == ChakraType::kLoad || node.type == ChakraType::kStore ? "tensor_size" : "comm_size", node.bytes);
  add("comm_src", node.source);
  add("comm_dst", node.destination);
  add("comm_tag", node.tag);
  if (node.group >= 0)
    add_attribute(message, "pg_name").set_string_val(trace.groups[static_cast<std::size_t>(node.group)]);
  write_times(node, message);
  for (const ChakraAttribute& own : node.own) write_own(own, *message.add_attr());
}

template <class Message>
void append_message(const Message& message, CodedOutputStream& out) {
  out.WriteVarint32(static_cast<std::uint32_t>(message.ByteSizeLong()));
  message.SerializeWithCachedSizes(&out);
}

}  // namespace

ChakraTrace read_chakra_et(const std::filesystem::path& file, const Budget& budget) {
  UnpackedStream unpacked{file, budget};
  google::protobuf::io::CopyingInputStreamAdaptor stream{&unpacked, 1 << 16};
  return MessageReader{file.string()}.read(stream, [&] { unpacked.rethrow(); });
}

ChakraTrace parse_chakra_et(std::string_view bytes, const std::string& file_name) {
  google::protobuf::io::ArrayInputStream stream{bytes.data(), static_cast<int>(bytes.size())};
  return MessageReader{file_name}.read(stream, [] {});
}

std::string chakra_et_bytes(const ChakraTrace& trace) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream{&bytes};
    CodedOutputStream out{&stream};
    chakra::GlobalMetadata metadata;
    metadata.set_version("0.0.4");
    for (const ChakraAttribute& own : trace.own) write_own(own, *metadata.add_attr());
    append_message(metadata, out);
    chakra::Node message;
    for (const ChakraNode& node : trace.nodes) {
      message.Clear();
      write_node(trace, node, message);
      append_message(message, out);
    }
  }
  return bytes;
}

}  // namespace rehearse
