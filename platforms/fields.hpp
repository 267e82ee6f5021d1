#pragma once
// Tables of the keys of files' objects: whoever reads, writes, inherits or moves values goes by them. Only .cpp files that
// include <nlohmann/json.hpp> may write. A struct T with a table has an overload of fields_of(const T*).

#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "platforms/collective_algorithm.hpp"
#include "platforms/profile.hpp"
#include "sim/base/collective_kind.hpp"
#include "sim/base/json.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

/// What a number may be, in s, B, B/s or as it is, and how an error says it; nullptr: anything.
struct Bounds {
  double least = 0, most = 0;
  const char* text = nullptr;
};
inline constexpr double kAboveZero = std::numeric_limits<double>::denorm_min();
inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();
inline constexpr Bounds kShare{kAboveZero, 1, "a share above 0, at most 1"};
inline constexpr Bounds kRate{kAboveZero, kNoLimit, "a rate above 0Bps"};

template <class T, class... Types>
using MemberOf = std::variant<Types T::*..., std::optional<Types> T::*...>;

template <class T>
struct Field {
  const char* key;
  MemberOf<T, bool, int, std::size_t, double, std::string, Seconds, Bytes, BytesPerSecond, std::vector<std::string>,
           CollectiveAlgorithm, CollectiveKind>
      member;
  bool is_required = false;
  Bounds bounds{};
};
inline constexpr bool kRequired = true, kOptional = false;

namespace detail {

template <class Value>
struct Plain {
  using Type = Value;
};
template <class Value>
struct Plain<std::optional<Value>> {
  using Type = Value;
};
template <class Value>
inline constexpr bool kIsOptional = !std::is_same_v<typename Plain<Value>::Type, Value>;

template <class Value>
Value read_value(const JsonReader& json, std::string_view key) {
  if constexpr (std::is_same_v<Value, CollectiveAlgorithm>)
    return read_collective_algorithm(json, key, false);
  else if constexpr (std::is_same_v<Value, CollectiveKind>)
    return read_collective_kind(json, key);
  else
    return json.required<Value>(key);
}

/// Of a number in its unit.
template <class Value>
std::optional<double> number_of(const Value& value) {
  if constexpr (std::is_same_v<Value, double> || std::is_same_v<Value, int> || std::is_same_v<Value, std::size_t>)
    return static_cast<double>(value);
  else if constexpr (std::is_same_v<Value, Seconds> || std::is_same_v<Value, Bytes> ||
                     std::is_same_v<Value, BytesPerSecond>)
    return static_cast<double>(value.value());
  else
    return std::nullopt;
}

/// As a file has it: quantities with their units, whole numbers without a point.
template <class Value, class JsonValue>
void write_value(JsonValue& json, const Value& value) {
  if constexpr (std::is_same_v<Value, CollectiveAlgorithm>)
    json = collective_algorithms().at(static_cast<std::size_t>(value)).first;
  else if constexpr (std::is_same_v<Value, CollectiveKind>)
    json = std::string{kCollectiveKindWords.at(static_cast<std::size_t>(value))};
  else if constexpr (std::is_same_v<Value, Seconds> || std::is_same_v<Value, Bytes> ||
                     std::is_same_v<Value, BytesPerSecond>)
    json = to_text(value);
  else if constexpr (std::is_same_v<Value, double>) {
    constexpr double kWhole = 1e15;
    if (value == std::trunc(value) && std::abs(value) < kWhole)
      json = static_cast<std::int64_t>(value);
    else
      json = value;
  } else {
    json = value;
  }
}

/// Calls use(field, its member, its bit) for each field, of which an object that consists of parts has none.
template <class T, class Use>
void for_each_field(const T*, const Use& use) {
  if constexpr (requires { fields_of(static_cast<const T*>(nullptr)); }) {
    static constexpr auto kTable = fields_of(static_cast<const T*>(nullptr));
    StatedKeys bit = 1;
    for (const auto& field : kTable) {
      std::visit([&](auto member) { use(field, member, bit); }, field.member);
      bit <<= 1U;
    }
  }
}

template <class T, class Member>
bool states(const T& value, Member member, StatedKeys bit) {
  if constexpr (kIsOptional<std::remove_cvref_t<decltype(value.*member)>>)
    return (value.*member).has_value();
  else if constexpr (requires { value.stated; })
    return (value.stated & bit) != 0;
  else
    return false;
}

}  // namespace detail

/// Reads the keys of the table that are there; throws InputError if one that is required is not, or beyond its bounds.
template <class T>
void read_fields(const JsonReader& json, T& value) {
  detail::for_each_field(&value, [&](const Field<T>& field, auto member, [[maybe_unused]] StatedKeys bit) {
    if (!field.is_required && !json.has(field.key)) return;
    using Value = typename detail::Plain<std::remove_cvref_t<decltype(value.*member)>>::Type;
    const Value read = detail::read_value<Value>(json, field.key);
    if (field.bounds.text != nullptr)
      if (const auto number = detail::number_of(read))
        json.expect(*number >= field.bounds.least && *number <= field.bounds.most, field.key, field.bounds.text);
    value.*member = read;
    if constexpr (requires { value.stated; }) value.stated |= bit;
  });
}

/// Writes what is required, stated, or otherwise than by default.
template <class T, class JsonValue>
void write_fields(JsonValue& json, const T& value) {
  [[maybe_unused]] static const T by_default{};
  detail::for_each_field(&value, [&](const Field<T>& field, auto member, StatedKeys bit) {
    const auto& held = value.*member;
    if constexpr (detail::kIsOptional<std::remove_cvref_t<decltype(held)>>) {
      if (held) detail::write_value(json[field.key], *held);
    } else if (field.is_required || detail::states(value, member, bit) || !(held == by_default.*member)) {
      detail::write_value(json[field.key], held);
    }
  });
}

/// Whether any key is stated, or otherwise than by default.
template <class T>
bool has_fields(const T& value) {
  [[maybe_unused]] static const T by_default{};
  bool is_any = false;
  detail::for_each_field(&value, [&](const Field<T>&, auto member, StatedKeys bit) {
    is_any = is_any || detail::states(value, member, bit) || !(value.*member == by_default.*member);
  });
  return is_any;
}

/// `from` with what `own` states itself.
template <class T>
T inherited(const T& own, T from) {
  detail::for_each_field(&own, [&](const Field<T>&, auto member, StatedKeys bit) {
    if (!detail::states(own, member, bit)) return;
    from.*member = own.*member;
    from.stated |= bit;
  });
  return from;
}

/// Marks the key as stated.
template <class T>
void mark_stated(T& value, std::string_view key) {
  detail::for_each_field(&value, [&](const Field<T>& field, auto, StatedKeys bit) {
    if (key == field.key) value.stated |= bit;
  });
}

/// States `to` for the key, whose place in `value` is `member`.
template <class T, class Member>
void state(T& value, std::string_view key, Member& member, const std::type_identity_t<Member>& to) {
  member = to;
  mark_stated(value, key);
}

/// Whether the file states the key.
template <class T>
bool states(const T& value, std::string_view key) {
  bool is_stated = false;
  detail::for_each_field(&value, [&](const Field<T>& field, auto member, StatedKeys bit) {
    if (key == field.key) is_stated = detail::states(value, member, bit);
  });
  return is_stated;
}

/// The number of the key, in its unit; none if it is not stated.
template <class T>
std::optional<double> stated_number(const T& value, std::string_view key) {
  std::optional<double> number;
  detail::for_each_field(&value, [&](const Field<T>& field, auto member, StatedKeys bit) {
    if (key != field.key || !detail::states(value, member, bit)) return;
    if constexpr (detail::kIsOptional<std::remove_cvref_t<decltype(value.*member)>>)
      number = detail::number_of(*(value.*member));
    else
      number = detail::number_of(value.*member);
  });
  return number;
}

/// States the key as `from` does.
template <class T>
void copy_field(T& to, const T& from, std::string_view key) {
  detail::for_each_field(&to, [&](const Field<T>& field, auto member, StatedKeys bit) {
    if (key != field.key) return;
    to.*member = from.*member;
    to.stated |= bit;
  });
}

/// Leaves the key out.
template <class T>
void drop_field(T& value, std::string_view key) {
  [[maybe_unused]] static const T by_default{};
  detail::for_each_field(&value, [&](const Field<T>& field, auto member, StatedKeys bit) {
    if (key != field.key) return;
    value.*member = by_default.*member;
    value.stated &= ~bit;
  });
}

/// A number of a value, to be moved.
struct NumberPlace {
  std::variant<std::monostate, double*, int*, Seconds*, BytesPerSecond*> place;
  Bounds bounds{};

  bool is_found() const { return place.index() != 0; }
};

/// The number, time or rate of the key, if it is stated; else nothing is found.
template <class T>
NumberPlace number_in(T& value, std::string_view key) {
  [[maybe_unused]] static const T by_default{};
  NumberPlace found;
  detail::for_each_field(&value, [&](const Field<T>& field, auto member, StatedKeys bit) {
    auto& held = value.*member;
    const bool is_there = field.is_required || detail::states(value, member, bit) || !(held == by_default.*member);
    if (key != field.key || !is_there) return;
    auto* place = [&] {
      if constexpr (detail::kIsOptional<std::remove_cvref_t<decltype(held)>>)
        return &*held;
      else
        return &held;
    }();
    if constexpr (std::is_constructible_v<decltype(found.place), decltype(place)>) found = {place, field.bounds};
  });
  return found;
}

}  // namespace rehearse
