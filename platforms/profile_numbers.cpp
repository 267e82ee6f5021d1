// Numbers of a profile by their pointers into its file.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "platforms/profile_parts.hpp"
#include "sim/base/overloaded.hpp"

namespace rehearse {

namespace {

class Finder {
 public:
  explicit Finder(std::span<const std::string> path) : path_{path} {}

  const NumberPlace& found() const { return found_; }

  template <class T>
  void object(const std::string& key, T& value, bool = false) {
    if (path_.size() > 1 && path_.front() == key) found_ = in(value, path_.subspan(1));
  }
  template <class T>
  void object(const std::string& key, std::optional<T>& value) {
    if (value) object(key, *value);
  }
  template <class T>
  void objects(const std::string& key, OrderedMap<T>& values) {
    if (path_.size() < 3 || path_.front() != key) return;
    if (T* value = values.find(path_[1])) found_ = in(*value, path_.subspan(2));
  }
  template <class T>
  void list(const std::string& key, std::vector<T>& values) {
    std::size_t index = 0;
    if (path_.size() < 3 || path_.front() != key) return;
    const std::string& number = path_[1];
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
    if (error == std::errc{} && end == number.data() + number.size() && index < values.size())
      found_ = in(values[index], path_.subspan(2));
  }
  void numbers(const std::string& key, std::map<std::string, double>& values, const Bounds& bounds, bool = false,
               bool = false) {
    if (path_.size() != 2 || path_.front() != key) return;
    if (const auto value = values.find(path_[1]); value != values.end()) found_ = {&value->second, bounds};
  }
  template <class T>
  void same(T& value) {
    if (const NumberPlace number = path_.size() == 1 ? number_in(value, path_.front()) : NumberPlace{};
        number.is_found())
      found_ = number;
    visit_parts(*this, value);
  }
  bool enters(const char*, bool) { return true; }

  template <class T>
  static NumberPlace in(T& value, std::span<const std::string> path) {
    Finder finder{path};
    finder.same(value);
    return finder.found();
  }

 private:
  std::span<const std::string> path_;
  NumberPlace found_;
};

/// None: nothing is found there.
std::optional<double> number_at(const NumberPlace& found) {
  return std::visit(Overloaded{[](std::monostate) { return std::optional<double>{}; },
                               [](const auto* number) { return detail::number_of(*number); }},
                    found.place);
}

}  // namespace

NumberPlace find_number(Profile& profile, std::string_view pointer) {
  if (!pointer.starts_with('/')) return {};
  const std::vector<std::string> path = split_json_pointer(pointer);
  Finder finder{path};
  visit_sections(finder, profile);
  visit_more_sections(finder, profile);
  NumberPlace found = finder.found();
  if (path.size() == 4 && path[0] == "servers" && path[1] == "by_framework")
    if (const auto of_framework = profile.servers_of_frameworks.find(path[2]);
        of_framework != profile.servers_of_frameworks.end() &&
        std::ranges::count(of_framework->second.keys, path[3]) > 0)
      found = number_in(of_framework->second.servers, path[3]);
  return number_at(found).value_or(0) > 0 ? found : NumberPlace{};
}

bool move_value(Profile& profile, std::string_view pointer, double change) {
  const NumberPlace found = find_number(profile, pointer);
  const auto before = number_at(found);
  if (!before) return true;
  std::array<char, 40> rounded{};
  std::snprintf(rounded.data(), rounded.size(), "%.8g", std::exp(std::log(*before) + change));
  const double moved = std::strtod(rounded.data(), nullptr);
  if (found.bounds.text != nullptr && !(moved >= found.bounds.least && moved <= found.bounds.most)) return false;
  return std::visit(Overloaded{[](std::monostate) { return true; },
                               [&](int* number) {
                                 *number = static_cast<int>(moved);
                                 return *number == moved;
                               },
                               [&](auto* number) {
                                 *number = std::remove_reference_t<decltype(*number)>{moved};
                                 return true;
                               }},
                    found.place);
}

}  // namespace rehearse
