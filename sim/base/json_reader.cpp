#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "sim/base/json.hpp"
#include "sim/base/json_origins.hpp"
#include "sim/base/json_schema.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/base/quantity_hint.hpp"

namespace rehearse {
namespace {

/// A value for an error message. Objects and arrays are named rather than printed, however large they are.
std::string shown(const Json& value) {
  if (value.is_object()) return value.empty() ? "an empty object" : "an object";
  if (value.is_array()) return value.empty() ? "an empty array" : "an array of " + std::to_string(value.size());
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  return shortened(value.dump());
}

constexpr std::size_t kLongestPointer = 400;

[[noreturn]] void fail_type(const JsonReader& reader, std::string_view expectation) {
  reader.fail("expected " + std::string{expectation} + "; found " + shown(reader.value()));
}

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

template <class T>
constexpr std::string_view expected_integer() {
  if constexpr (std::is_same_v<T, int>) return "a whole number between -2147483648 and 2147483647";
  if constexpr (std::is_same_v<T, std::int64_t>) return "a whole number below 2^63";
  return "a whole number from 0, below 2^64";
}

template <class T>
T read_integer(const JsonReader& reader) {
  const Json& value = reader.value();
  if (value.is_number_unsigned()) {
    if (const auto number = value.get<std::uint64_t>(); std::in_range<T>(number)) return static_cast<T>(number);
  } else if (value.is_number_integer()) {
    if (const auto number = value.get<std::int64_t>(); std::in_range<T>(number)) return static_cast<T>(number);
  } else if (value.is_number_float()) {
    constexpr double kExact = 0x1p53;  // whole numbers up to here are exact in a double
    const auto number = value.get<double>();
    const bool is_whole = std::abs(number) <= kExact && std::trunc(number) == number;
    if (is_whole && std::in_range<T>(static_cast<std::int64_t>(number))) return static_cast<T>(number);
  }
  fail_type(reader, expected_integer<T>());
}

/// "a number"; of a price, which its key says to be one, in which unit, and how it is written.
std::string expected_number(const JsonReader& reader) {
  const std::string_view key = std::string_view{reader.pointer()}.substr(reader.pointer().rfind('/') + 1);
  for (const auto& [name, per] : {std::pair{"hour", "hour"}, std::pair{"gib_month", "GiB and month"}}) {
    if (!key.starts_with("usd_per_" + std::string{name})) continue;
    const std::string hint = reader.is_string() ? price_hint(name, reader.value().get_ref<const std::string&>()) : "";
    return std::string{"a number of USD per "} + per + (hint.empty() ? "" : ", such as " + hint);
  }
  return "a number";
}

template <class Q>
Q read_quantity(const JsonReader& reader) {
  if (!reader.is_string())
    fail_type(reader, expected_quantity<Q>(reader.is_number() ? reader.value().dump() : std::string{}));
  try {
    return parse_quantity<Q>(reader.value().get_ref<const std::string&>());
  } catch (const QuantityError& error) { reader.fail(error.what()); }
}

}  // namespace

JsonReader::JsonReader(const Json& value, std::string file_name, std::string pointer, const JsonOrigins* origins)
    : value_{&value}, place_{std::make_shared<Place>(Place{std::move(file_name), std::move(pointer), origins})} {}

JsonReader::JsonReader(const Json& value, const Place& parent, std::string pointer)
    : value_{&value},
      place_{std::make_shared<Place>(
          Place{parent.file_name, std::move(pointer), parent.origins, parent.schema, parent.schema_root})} {}

void JsonReader::use_schema(JsonSchema schema) const {
  place_->schema = schema;
  place_->schema_root = place_->pointer;
}

void JsonReader::begin_file(JsonSchema schema, std::string_view kind) const {
  use_schema(schema);
  expect_format();
  if (!kind.empty()) expect(required<std::string>("kind") == kind, "kind", '"' + std::string{kind} + '"');
}

template <class T>
T JsonReader::as() const {
  if constexpr (IsVector<T>::value) {
    if (!is_array()) fail_type(*this, "an array");
    T values;
    values.reserve(value_->size());
    for (const Json& element : *value_)  // a reader at a time: all together are many times larger than the values
      values.push_back(JsonReader{element, *place_, extend_json_pointer(pointer(), std::to_string(values.size()))}
                           .as<typename T::value_type>());
    return values;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!value_->is_boolean()) fail_type(*this, "true or false");
    return value_->get<bool>();
  } else if constexpr (std::is_integral_v<T>) {
    return read_integer<T>(*this);
  } else if constexpr (std::is_same_v<T, double>) {
    if (!value_->is_number()) fail_type(*this, expected_number(*this));
    return value_->get<double>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!value_->is_string()) fail_type(*this, "a string");
    return value_->get<std::string>();
  } else {
    return read_quantity<T>(*this);
  }
}

template bool JsonReader::as() const;
template int JsonReader::as() const;
template std::int64_t JsonReader::as() const;
template std::uint64_t JsonReader::as() const;
template double JsonReader::as() const;
template std::string JsonReader::as() const;
template Seconds JsonReader::as() const;
template Bytes JsonReader::as() const;
template BytesPerSecond JsonReader::as() const;
template Flops JsonReader::as() const;
template FlopsPerSecond JsonReader::as() const;
template std::vector<bool> JsonReader::as() const;
template std::vector<int> JsonReader::as() const;
template std::vector<std::int64_t> JsonReader::as() const;
template std::vector<std::uint64_t> JsonReader::as() const;
template std::vector<double> JsonReader::as() const;
template std::vector<std::string> JsonReader::as() const;
template std::vector<Seconds> JsonReader::as() const;
template std::vector<Bytes> JsonReader::as() const;
template std::vector<BytesPerSecond> JsonReader::as() const;
template std::vector<Flops> JsonReader::as() const;
template std::vector<FlopsPerSecond> JsonReader::as() const;

bool JsonReader::is_object() const { return value_->is_object(); }
bool JsonReader::is_array() const { return value_->is_array(); }
bool JsonReader::is_string() const { return value_->is_string(); }
bool JsonReader::is_number() const { return value_->is_number(); }
bool JsonReader::is_null() const { return value_->is_null(); }

const Json* JsonReader::find(std::string_view key) const {
  if (!is_object()) fail_type(*this, "an object");
  auto& known = place_->known_keys;
  if (std::ranges::find(known, key) == known.end()) known.emplace_back(key);
  const auto found = value_->find(std::string{key});
  return found == value_->end() ? nullptr : &*found;
}

bool JsonReader::has(std::string_view key) const { return find(key) != nullptr; }

JsonReader JsonReader::child(std::string_view key) const {
  const Json* found = find(key);
  if (!found) {
    std::vector<std::string> missing{std::string{key}};
    if (place_->schema != nullptr) {
      const Json schema = parse_json(place_->schema(), "schema");
      const std::string below = pointer().substr(place_->schema_root.size());
      for (const std::string& other : missing_keys(schema, below, *value_))
        if (other != key) missing.push_back(other);
    }
    fail(missing.size() == 1 ? "expected the key " + in_quotes(key) + "; found none"
                             : "expected the keys " + list_in_quotes(missing) + "; found none of them");
  }
  return {*found, *place_, extend_json_pointer(pointer(), key)};
}

std::vector<JsonReader> JsonReader::children(std::string_view key) const { return child(key).elements(); }

std::vector<JsonReader> JsonReader::elements() const {
  if (!is_array()) fail_type(*this, "an array");
  std::vector<JsonReader> readers;
  readers.reserve(value_->size());
  for (const Json& element : *value_) {
    readers.push_back(JsonReader{element, *place_, extend_json_pointer(pointer(), std::to_string(readers.size()))});
  }
  return readers;
}

std::vector<std::pair<std::string, JsonReader>> JsonReader::items() const {
  if (!is_object()) fail_type(*this, "an object");
  place_->all_keys_known = true;
  std::vector<std::pair<std::string, JsonReader>> result;
  result.reserve(value_->size());
  for (const auto& [key, member] : value_->get_ref<const Json::object_t&>()) {
    result.emplace_back(key, JsonReader{member, *place_, extend_json_pointer(pointer(), key)});
  }
  return result;
}

void JsonReader::expect_format() const { expect(required<int>("format") == 1, "format", "1"); }

void JsonReader::expect(bool condition, std::string_view key, std::string_view expectation) const {
  if (condition) return;
  const Json* found = find(key);
  fail(key, "expected " + std::string{expectation} + "; found " + (found ? shown(*found) : "no such key"));
}

void JsonReader::expect(bool condition, std::string_view expectation) const {
  if (!condition) fail_type(*this, expectation);
}

std::string JsonReader::place() const {
  if (place_->origins != nullptr)
    if (const auto set_by = place_->origins->place_of(pointer())) return *set_by;
  return file_name() + (pointer().empty() ? "" : ": " + shortened(pointer(), kLongestPointer));
}

void JsonReader::fail_at(std::string_view pointer, std::string_view message) const {
  const JsonReader at{*value_, *place_, std::string{pointer}};
  const bool is_set = place_->origins != nullptr && place_->origins->place_of(pointer);
  throw InputError{at.place() + ": " + std::string{message} +
                   (place_->origins == nullptr || is_set ? "" : place_->origins->with())};
}

void JsonReader::fail(std::string_view key, std::string_view message) const {
  fail_at(extend_json_pointer(pointer(), key), message);
}

void JsonReader::fail(std::string_view message) const { fail_at(pointer(), message); }

void JsonReader::reject_unknown_keys() const {
  if (!is_object()) fail_type(*this, "an object");
  if (place_->all_keys_known) return;
  for (const auto& [key, member] : value_->get_ref<const Json::object_t&>()) {
    if (std::ranges::find(place_->known_keys, key) == place_->known_keys.end()) {
      const std::string message = unknown_name_message("key", key, place_->known_keys);
      if (place_->origins != nullptr)
        if (const auto place = place_->origins->place_of_or_below(extend_json_pointer(pointer(), key)))
          throw InputError{*place + ": " + message};
      fail(message);
    }
  }
}

std::filesystem::path JsonReader::resolve(const std::filesystem::path& path) const {
  return std::filesystem::path{file_name()}.parent_path() / path;
}

}  // namespace rehearse
