#include "sim/scenario/place_names.hpp"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {

/// Keys that a scenario may lack.
constexpr const char* kOptionalKeys[] = {"calibration", "output", "seed"};

/// "training.steps" as /training/steps.
std::string pointer_of_keys(std::string_view keys) {
  std::string pointer = "/";
  for (const char c : keys)
    pointer += c == '.'   ? std::string{"/"}
               : c == '/' ? std::string{"~1"}
               : c == '~' ? std::string{"~0"}
                          : std::string{c};
  return pointer;
}

/// Whether the place is the name, or lies in what has it; what is behind it then.
std::optional<std::string_view> behind(std::string_view place, std::string_view name) {
  if (!place.starts_with(name)) return {};
  const std::string_view rest = place.substr(name.size());
  return rest.empty() || rest.starts_with('.') ? std::optional{rest} : std::nullopt;
}

}  // namespace

std::string pointer_of_place(std::string_view place, const Json& file, const std::string& option) {
  if (place.starts_with('/')) return std::string{place};
  std::vector<std::string> groups, keys, found;
  std::size_t longest = 0;  // name of a group that the place begins with
  if (const Json* all = json_pointer_find(file, "/cluster/groups"); all != nullptr && all->is_array())
    for (std::size_t i = 0; i < all->size(); ++i) {
      if (!(*all)[i].is_object() || !(*all)[i].value("name", Json{}).is_string()) continue;
      groups.push_back((*all)[i]["name"].get<std::string>());
      const auto rest = behind(place, groups.back());
      if (!rest || rest->empty() || groups.back().size() < longest) continue;
      longest = groups.back().size();
      found = {"/cluster/groups/" + std::to_string(i) + pointer_of_keys(rest->substr(1))};
    }
  if (file.is_object())
    for (const auto& [key, unused] : file.items()) keys.push_back(key);
  if (file.is_object() && file.contains("cluster"))
    keys.insert(keys.end(), std::begin(kOptionalKeys), std::end(kOptionalKeys));
  const std::string_view first = place.substr(0, place.find('.'));
  if (std::ranges::find(keys, first) != keys.end()) found.push_back(pointer_of_keys(place));
  if (found.size() == 1) return found.front();
  if (found.size() > 1)
    throw InputError{option + ": " + in_quotes(place) + " is " + found[0] + " or " + found[1] +
                     ": expected one of these"};
  const std::string example = groups.empty() ? "training.steps" : groups.front() + ".count";
  for (const std::string& key : keys)
    if (std::ranges::find(groups, key) == groups.end()) groups.push_back(key);
  throw InputError{
      option +
      ": expected a JSON pointer, such as /training/steps, or the name of a group or part and its keys, such as " +
      example + ": " + unknown_name_message("name", first, groups)};
}

std::string with_pointer(std::string_view text, const Json& file, const std::string& option) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0)
    throw InputError{option + ": expected /json/pointer=value, or GROUP.KEY=value; found " + in_quotes(text)};
  return pointer_of_place(text.substr(0, equals), file, option) + std::string{text.substr(equals)};
}

}  // namespace rehearse
