#include "sim/base/json.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "sim/base/repeated_keys.hpp"

namespace rehearse {
namespace {

constexpr std::size_t kMaxDocument = 64 * kMiB;
constexpr std::size_t kMaxDepth = 200;
constexpr std::size_t kMaxMembers = 100'000;  // of an object; what reads it may look at each for each of a study's rows
constexpr std::size_t kMaxElements = 1'000'000;  // of a list, which is copied with what it is part of

/// "[json.exception.parse_error.101] parse error at line 1, column 5: message; last read: '...'" -> "message; last
/// read: '...'"
std::string without_place(std::string_view message) {
  if (const auto name_end = message.find("] "); name_end != std::string_view::npos) message.remove_prefix(name_end + 2);
  if (message.starts_with("parse error")) {
    if (const auto place_end = message.find(": "); place_end != std::string_view::npos)
      message.remove_prefix(place_end + 2);
  }
  constexpr std::size_t kLongestMessage = 200;
  return shortened(message, kLongestMessage);
}

/// Builds the value and checks what nlohmann_json lets pass: depth and duplicate keys. Keys of a large object are compared through
/// a hash set, since looking them up in the ordered object would take quadratic time.
class Builder : public nlohmann::json_sax<Json> {
 public:
  /// `name_of`: how keys that repeat are called; null refuses them.
  Builder(std::string_view text, const std::string& file_name, RepeatedKey name_of)
      : text_{text}, file_name_{file_name}, name_of_{name_of} {}

  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override {
    expect_plain(value);
    return add(std::move(value));
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    expect_plain(name);
    Level& level = levels_.back();
    if (members_of(level).size() == kMaxMembers)
      throw InputError{file_name_ + ": " + shortened(pointer(), 200) + ": expected at most " +
                       std::to_string(kMaxMembers) + " keys in an object; found more"};
    level.key = is_new(level, name) ? name : take_repeated(level, name);
    return true;
  }

  bool parse_error(std::size_t characters_read, const std::string&, const nlohmann::detail::exception& error) override {
    const std::string_view before = text_.substr(0, characters_read > 0 ? characters_read - 1 : 0);
    const auto line = 1 + std::ranges::count(before, '\n');
    const auto line_begin = before.rfind('\n') + 1;  // npos + 1 = 0
    throw InputError{file_name_ + ":" + std::to_string(line) + ":" + std::to_string(before.size() - line_begin + 1) +
                     ": " + without_place(error.what())};
  }

 private:
  struct Level {
    Json* value;
    std::string key;                       // of an object: the one being read
    std::unordered_set<std::string> keys;  // of an object that has many: all so far
  };

  static std::vector<Json::object_t::value_type>& members_of(const Level& level) {
    return level.value->get_ref<Json::object_t&>();
  }

  static bool is_new(Level& level, const std::string& key) {
    constexpr std::size_t kMany = 16;
    const auto& members = members_of(level);
    if (members.size() < kMany) return std::ranges::none_of(members, [&](const auto& its) { return its.first == key; });
    if (level.keys.empty())
      for (const auto& [name, value] : members) level.keys.insert(name);
    return level.keys.insert(key).second;
  }

  /// The name of a key that the object has already.
  std::string take_repeated(Level& level, const std::string& key) {
    std::string name = name_of_ != nullptr ? name_of_(key) : "";
    if (name == key) name += '#' + std::to_string(members_of(level).size());  // as of no other one
    if (name.empty() || !is_new(level, name))
      throw InputError{file_name_ + ": " + shortened(pointer(), 200) + ": expected distinct keys; found " +
                       in_quotes(key) + " twice"};
    return name;
  }

  Json* append(Json&& value) {
    if (levels_.empty()) return &(root_ = std::move(value));
    Level& level = levels_.back();
    if (level.value->is_array()) {
      std::vector<Json>& elements = level.value->get_ref<Json::array_t&>();
      if (elements.size() == kMaxElements)
        throw InputError{file_name_ + ": " + shortened(pointer(), 200) + ": expected at most " +
                         std::to_string(kMaxElements) + " elements in a list; found more"};
      return &elements.emplace_back(std::move(value));
    }
    return &members_of(level).emplace_back(level.key, std::move(value)).second;
  }

  bool add(Json value) {
    append(std::move(value));
    return true;
  }

  bool open(Json value) {
    if (levels_.size() == kMaxDepth) {
      throw InputError{file_name_ + ": expected at most " + std::to_string(kMaxDepth) + " nested levels; found more"};
    }
    Json* place = append(std::move(value));
    levels_.push_back({place, {}, {}});
    return true;
  }

  bool close() {
    levels_.pop_back();
    return true;
  }

  /// Names go to terminals, tables and pages: none may look like another one there, or command a terminal.
  void expect_plain(const std::string& text) const {
    if (find_deceptive_character(text))
      throw InputError{file_name_ + ": " + shortened(pointer(), 200) +
                       ": expected text without control characters and invisible ones; found " + in_quotes(text)};
  }

  std::string pointer() const {
    std::string result;
    for (std::size_t i = 0; i + 1 < levels_.size(); ++i) {
      const Level& level = levels_[i];
      result =
          extend_json_pointer(result, level.value->is_array() ? std::to_string(level.value->size() - 1) : level.key);
    }
    return result.empty() ? "/" : result;
  }

  std::string_view text_;
  const std::string& file_name_;
  RepeatedKey name_of_;
  Json root_;
  std::vector<Level> levels_;
};

Json parse(std::string_view text, const std::string& file_name, bool allows_comments, RepeatedKey name_of = nullptr) {
  if (text.size() > kMaxDocument) throw InputError{file_name + ": expected at most 64MiB of JSON"};
  if (const std::string_view what = emptiness(text); !what.empty())
    throw InputError{file_name + ":1:1: expected JSON; found " + std::string{what}};
  Builder builder{text, file_name, name_of};
  constexpr bool kWholeText = true;
  Json::sax_parse(text.begin(), text.end(), &builder, Json::input_format_t::json, kWholeText, allows_comments);
  return builder.take();
}

/// "a~1b" -> "a/b". A tilde followed by anything but 0 or 1 stands for itself.
std::string unescape(std::string_view token) {
  std::string key;
  for (std::size_t i = 0; i < token.size(); ++i) {
    const std::string_view rest = token.substr(i);
    const bool is_escape = rest.starts_with("~0") || rest.starts_with("~1");
    key += is_escape ? (rest[1] == '0' ? '~' : '/') : rest[0];
    if (is_escape) ++i;
  }
  return key;
}

/// The element of an array that `key` stands for; nullptr if it is no index or beyond the end.
Json* find_element(Json& array, const std::string& key) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  const bool is_index = error == std::errc{} && end == key.data() + key.size() && (key == "0" || key[0] != '0');
  return is_index && index < array.size() ? &array[index] : nullptr;
}

Json* find_child(Json& parent, const std::string& key) {
  if (parent.is_array()) return find_element(parent, key);
  if (!parent.is_object()) return nullptr;
  const auto found = parent.find(key);
  return found == parent.end() ? nullptr : &*found;
}

[[noreturn]] void fail_at_missing(std::string_view pointer, const std::string& deepest, const Json& parent,
                                  const std::string& key) {
  const std::string place = deepest.empty() ? "the top level" : shortened(deepest, 200);
  const std::string where = shortened(pointer, 200) + ": ";
  if (parent.is_array()) {
    throw InputError{where + place + " is an array of " + std::to_string(parent.size()) + ", which has no element " +
                     in_quotes(key)};
  }
  throw InputError{where + place + " is neither an object nor an array, so it has no " + in_quotes(key)};
}

}  // namespace

std::string read_json_text(const std::filesystem::path& path) { return read_file(path, kMaxDocument); }

Json load_json_file(const std::filesystem::path& path) { return parse_json(read_json_text(path), path.string()); }

Json parse_json(std::string_view text, const std::string& file_name) {
  constexpr bool kAllowsComments = true;
  return parse(text, file_name, kAllowsComments);
}

Json parse_json_with_repeated_keys(std::string_view text, const std::string& file_name, RepeatedKey name_of) {
  constexpr bool kAllowsComments = true;
  return parse(text, file_name, kAllowsComments, name_of);
}

SharedJson share(Json value) { return std::make_shared<const Json>(std::move(value)); }

Json or_null(const std::optional<double>& number) { return number ? Json(*number) : Json(nullptr); }

std::string to_json_text(const Json& value) {
  constexpr int kIndentation = 2;
  return value.dump(kIndentation, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::vector<std::string> split_json_pointer(std::string_view pointer) {
  if (pointer.empty()) return {};
  if (pointer[0] != '/') {
    throw InputError{shortened(pointer) + ": expected a JSON pointer, such as /cluster/groups/1/count"};
  }
  std::vector<std::string> keys;
  while (!pointer.empty()) {
    pointer.remove_prefix(1);
    const auto end = std::min(pointer.find('/'), pointer.size());
    keys.push_back(unescape(pointer.substr(0, end)));
    pointer.remove_prefix(end);
  }
  return keys;
}

const Json* json_pointer_find(const Json& value, std::string_view pointer) {
  if (!pointer.empty() && pointer[0] != '/') return nullptr;
  const Json* found = &value;
  for (const std::string& key : split_json_pointer(pointer)) {
    found = find_child(const_cast<Json&>(*found), key);  // only looks
    if (!found) return nullptr;
  }
  return found;
}

void set_json_pointer(Json& value, std::string_view pointer, std::string_view value_text) {
  Json new_value;
  try {
    constexpr bool kAllowsComments = false;
    new_value = parse(value_text, std::string{pointer}, kAllowsComments);
  } catch (const InputError&) {
    if (find_invalid_utf8(value_text))
      throw InputError{shortened(pointer) + ": expected UTF-8; found " + in_quotes(value_text)};
    if (find_deceptive_character(value_text))
      throw InputError{shortened(pointer) + ": expected text without control characters and invisible ones; found " +
                       in_quotes(value_text)};
    new_value = std::string{value_text};
  }
  put_at_pointer(value, pointer, std::move(new_value));
}

void put_at_pointer(Json& value, std::string_view pointer, Json put) {
  Json* place = &value;
  std::string deepest;
  const std::vector<std::string> keys = split_json_pointer(pointer);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    Json* next = find_child(*place, keys[i]);
    if (!next && place->is_object()) next = &((*place)[keys[i]] = Json::object());
    if (!next) fail_at_missing(pointer, deepest, *place, keys[i]);
    place = next;
    deepest = extend_json_pointer(deepest, keys[i]);
  }
  *place = std::move(put);
}

std::string extend_json_pointer(std::string_view pointer, std::string_view key) {
  std::string result = std::string{pointer} + "/";
  for (const char c : key) {
    if (c == '~')
      result += "~0";
    else if (c == '/')
      result += "~1";
    else
      result += c;
  }
  return result;
}

}  // namespace rehearse
