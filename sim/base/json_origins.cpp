#include "sim/base/json_origins.hpp"

#include <nlohmann/json.hpp>

#include "sim/base/names.hpp"

namespace rehearse {

namespace {

/// Takes the key or element at `pointer` away; elements after it move up. Nothing if it is not there.
void erase(Json& value, std::string_view pointer) {
  const std::vector<std::string> keys = split_json_pointer(pointer);
  if (keys.empty() || json_pointer_find(value, pointer) == nullptr) return;
  Json* parent = &value;
  for (std::size_t i = 0; i + 1 < keys.size(); ++i)
    parent = parent->is_array() ? &parent->at(std::stoul(keys[i])) : &parent->at(keys[i]);
  if (parent->is_array())
    parent->erase(std::stoul(keys.back()));
  else
    parent->erase(keys.back());
}

}  // namespace

void expect_few_places(std::size_t count, const std::string& place) {
  if (count > kMostPlacesSet)
    throw InputError{place + ": expected at most " + std::to_string(kMostPlacesSet) +
                     " places that are set; found more"};
}

void JsonOrigins::set(Json& value, std::string_view pointer, std::string_view value_text, const std::string& place) {
  try {
    if (value_text == "null")
      erase(value, pointer);
    else
      set_json_pointer(value, pointer, value_text);
  } catch (const InputError& error) {
    const std::string message = error.what(), own = shortened(pointer, 200) + ": ";
    throw InputError{place + ": " + (message.starts_with(own) ? message.substr(own.size()) : message)};
  }
  add(pointer, place);
  by_pointer_.find(pointer)->second.value = shortened(value_text, 40);
  expect_few_places(by_pointer_.size(), place);
}

void JsonOrigins::add(std::string_view pointer, std::string place) {
  const std::string below = std::string{pointer} + "/";
  for (auto at = by_pointer_.lower_bound(below); at != by_pointer_.end() && at->first.starts_with(below);)
    at = by_pointer_.erase(at);  // they stand next to each other
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
