#pragma once
// Who has set the values of a JSON file's value that the file does not hold: an option, a study's column, a sweep's
// grid. Mistakes there name the place that the user can change, instead of the file that says something else.

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "sim/base/json.hpp"

namespace rehearse {

/// Places of one value that may be set. Each is looked for among its siblings, and remembered for each run.
inline constexpr std::size_t kMostPlacesSet = 1000;

/// InputError, at `place`, if `count` is more.
void expect_few_places(std::size_t count, const std::string& place);

class JsonOrigins {
 public:
  JsonOrigins() = default;
  /// `with`: what with() says instead of naming each place, such as "row rows.csv:3 of study.json".
  explicit JsonOrigins(std::string with) : with_{std::move(with)} {}

  /// Sets what lies at `pointer` as set_json_pointer() does, or takes it away if the text is null, and remembers that `place` ("--set /training/steps",
  /// "sweep.json: /grid/~1seed/0") asked for it. InputError, at `place`, if it cannot be set, or kMostPlacesSet are already.
  void set(Json& value, std::string_view pointer, std::string_view value_text, const std::string& place);
  /// Remembers the place of what lies at `pointer` already.
  void add(std::string_view pointer, std::string place);

  /// Where the value at `pointer` was set, with the rest of the pointer below that place; none if the file holds it.
  std::optional<std::string> place_of(std::string_view pointer) const;

  /// The same, or else who set something below `pointer`.
  std::optional<std::string> place_of_or_below(std::string_view pointer) const;

  /// " (with --set /training/steps=5)", for mistakes elsewhere that what was set may have caused; empty if nothing was.
  std::string with() const;

 private:
  struct Origin {
    std::string place, value;
  };
  std::map<std::string, Origin, std::less<>> by_pointer_;
  std::string with_;
};

}  // namespace rehearse
