#pragma once
// JSON files. load_json_file() gives the value, JsonReader reads it key by key:
//
//   Link read_link(JsonReader json) {
//     Link link{
//         .bandwidth = json.required<BytesPerSecond>("bandwidth"),
//         .latency = json.optional<Seconds>("latency", 0.0_s),
//     };
//     json.expect(link.bandwidth > BytesPerSecond{0}, "bandwidth", "a rate above 0Bps");
//     json.reject_unknown_keys();
//     return link;
//   }
//
// Every mistake is an InputError, "links.json: /links/3/bandwidth: expected ...; found 25".
// Whoever holds a Json by value includes <nlohmann/json.hpp>, in a .cpp file.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/errors.hpp"
#include "sim/base/units.hpp"

namespace rehearse {

/// Objects keep the order in which their keys were inserted.
using Json = nlohmann::ordered_json;

/// The value of a file, or of a text: at most 64 MiB and 200 nested levels, UTF-8, no duplicate keys, no number beyond
/// a double, no control characters but tab and line feed in texts, nor any that reverse the direction of writing or are
/// invisible; // and /* */ comments are allowed. Syntax errors are InputErrors "file:line:column: message".
Json load_json_file(const std::filesystem::path& path);
Json parse_json(std::string_view text, const std::string& file_name);
/// What load_json_file() parses.
std::string read_json_text(const std::filesystem::path& path);

/// A value that many hold.
using SharedJson = std::shared_ptr<const Json>;
SharedJson share(Json value);
/// The number, or null.
Json or_null(const std::optional<double>& number);

/// Two spaces of indentation, doubles as the shortest text that reads back the same, newline at the end.
std::string to_json_text(const Json& value);

/// The value at `pointer` ("/cluster/groups/1/count", RFC 6901; "" is the whole); nullptr if there is none.
const Json* json_pointer_find(const Json& value, std::string_view pointer);

/// Sets the place at `pointer` to `value_text`, read as JSON if it is JSON, otherwise as a string: 4 is a number,
/// 25GBps a string. Objects that are missing on the way are made; InputError, which names the deepest part that exists,
/// if that is an array without such an element or no object. Whoever reads the result refuses keys that have no
/// meaning.
void set_json_pointer(Json& value, std::string_view pointer, std::string_view value_text);
/// The same of a value that is none of a text.
void put_at_pointer(Json& value, std::string_view pointer, Json put);

/// The keys of a pointer, unescaped. InputError if it is neither empty nor begins with a slash.
std::vector<std::string> split_json_pointer(std::string_view pointer);

/// `pointer` extended by one `key`, with ~ and / escaped.
std::string extend_json_pointer(std::string_view pointer, std::string_view key);

class JsonOrigins;  // json_origins.hpp

/// JSON Schema (draft 2020-12) of a kind of object.
using JsonSchema = std::string (*)();

/// One value of a JSON file, with its place for error messages. Cheap to copy; copies share what has been asked for, so
/// that reject_unknown_keys() knows the keys that helper functions have read. Refers to the Json and the origins, which
/// must outlive it.
class JsonReader {
 public:
  /// `origins`: which places somebody else than the file has set; mistakes there are told of them. May be null.
  JsonReader(const Json& value, std::string file_name, std::string pointer = "", const JsonOrigins* origins = nullptr);

  /// From now on a missing key of this value, or below, is told with all others that `schema` requires.
  void use_schema(JsonSchema schema) const;

  /// Of a file: uses its schema; its "format" must be 1, and its "kind" be `kind` unless that is empty.
  void begin_file(JsonSchema schema, std::string_view kind = {}) const;

  // T: bool, int, std::int64_t, std::uint64_t, double, std::string, Seconds, Bytes, BytesPerSecond, Flops,
  // FlopsPerSecond, or a std::vector of these. 4.0 is an integer, 1.5 is not; doubles are finite. Another type is an
  // InputError, and so is a required() key that is not there; without it optional() is `fallback`, maybe() nothing.
  template <class T>
  T required(std::string_view key) const {
    return child(key).as<T>();
  }
  template <class T>
  T optional(std::string_view key, T fallback) const {
    return has(key) ? child(key).as<T>() : std::move(fallback);
  }
  template <class T>
  std::optional<T> maybe(std::string_view key) const {
    return has(key) ? std::optional<T>{child(key).as<T>()} : std::nullopt;
  }

  /// Whether `key` is there; null counts.
  bool has(std::string_view key) const;
  /// The value of `key`, which must be there.
  JsonReader child(std::string_view key) const;
  /// The elements of the array at `key`, which must be there.
  std::vector<JsonReader> children(std::string_view key) const;
  /// The elements of this value, which must be an array.
  std::vector<JsonReader> elements() const;
  /// All keys of this object and their values, for maps from names to objects. Marks all of them as known.
  std::vector<std::pair<std::string, JsonReader>> items() const;

  /// This value itself; InputError if it is no T.
  template <class T>
  T as() const;
  bool is_object() const;
  bool is_array() const;
  bool is_string() const;
  bool is_number() const;
  bool is_null() const;
  const Json& value() const { return *value_; }

  /// Reads "format", which must be 1.
  void expect_format() const;
  /// Throws InputError unless `condition`: "file: /pointer/key: expected <expectation>; found <value of key>".
  void expect(bool condition, std::string_view key, std::string_view expectation) const;
  /// The same about this value itself.
  void expect(bool condition, std::string_view expectation) const;
  /// "file: /pointer", or who else has set this place.
  std::string place() const;
  /// Throws InputError "file: /pointer/key: message".
  [[noreturn]] void fail(std::string_view key, std::string_view message) const;
  /// Throws InputError "file: /pointer: message".
  [[noreturn]] void fail(std::string_view message) const;
  /// Throws InputError if the object has a key that nobody has asked for: called when all have been.
  void reject_unknown_keys() const;

  const std::string& file_name() const { return place_->file_name; }
  const std::string& pointer() const { return place_->pointer; }
  /// `path` relative to the folder of this file, as paths in files are.
  std::filesystem::path resolve(const std::filesystem::path& path) const;

 private:
  struct Place {
    std::string file_name;
    std::string pointer;
    const JsonOrigins* origins = nullptr;
    JsonSchema schema = nullptr;
    std::string schema_root{};  // pointer to what the schema describes
    std::vector<std::string> known_keys{};
    bool all_keys_known = false;
  };
  JsonReader(const Json& value, const Place& parent, std::string pointer);
  const Json* find(std::string_view key) const;
  [[noreturn]] void fail_at(std::string_view pointer, std::string_view message) const;

  const Json* value_;
  std::shared_ptr<Place> place_;
};

}  // namespace rehearse
