#include "sim/base/json_origins.hpp"

#include "sim/base/names.hpp"

namespace rehearse {

void JsonOrigins::set(Json& value, std::string_view pointer, std::string_view value_text, const std::string& place) {
  try {
    set_json_pointer(value, pointer, value_text);
  } catch (const InputError& error) {
    const std::string message = error.what(), own = shortened(pointer, 200) + ": ";
    throw InputError{place + ": " + (message.starts_with(own) ? message.substr(own.size()) : message)};
  }
  add(pointer, place);
  by_pointer_.find(pointer)->second.value = shortened(value_text, 40);
}

void JsonOrigins::add(std::string_view pointer, std::string place) {
  const std::string below = std::string{pointer} + "/";
  std::erase_if(by_pointer_, [&](const auto& entry) { return entry.first.starts_with(below); });
  by_pointer_.insert_or_assign(std::string{pointer}, Origin{std::move(place), {}});
}

std::optional<std::string> JsonOrigins::place_of(std::string_view pointer) const {
  for (std::string_view above = pointer;;) {
    if (const auto found = by_pointer_.find(above); found != by_pointer_.end())
      return found->second.place + shortened(pointer.substr(above.size()), 400);
    const std::size_t slash = above.rfind('/');
    if (slash == std::string_view::npos) return std::nullopt;
    above = above.substr(0, slash);
  }
}

std::optional<std::string> JsonOrigins::place_of_or_below(std::string_view pointer) const {
  if (auto place = place_of(pointer)) return place;
  const std::string below = std::string{pointer} + "/";
  const auto found = by_pointer_.lower_bound(below);
  if (found == by_pointer_.end() || !found->first.starts_with(below)) return std::nullopt;
  return found->second.place;
}

std::string JsonOrigins::with() const {
  if (!with_.empty()) return " (with " + with_ + ")";
  constexpr std::size_t kMostListed = 3;
  std::string text;
  std::size_t listed = 0, all = 0;
  for (const auto& [pointer, origin] : by_pointer_) {
    if (origin.value.empty()) continue;
    if (++all > kMostListed) continue;
    text += (listed++ == 0 ? " (with " : ", ") + origin.place + "=" + origin.value;
  }
  if (all == 0) return {};
  return text + (all > listed ? " and " + std::to_string(all - listed) + " more)" : ")");
}

}  // namespace rehearse
