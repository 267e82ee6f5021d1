#pragma once
// Where in a JSON document a parser is that calls a reader value by value.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

/// A base of what nlohmann's sax_parse() calls: it knows the objects and arrays around the value that comes.
/// Place: an enumeration of them; kOther is one whose values do not matter.
template <class Place>
class JsonPlaces {
 public:
  bool null() { return true; }
  bool binary(std::vector<std::uint8_t>&) { return true; }

 protected:
  explicit JsonPlaces(const std::string& file_name) : file_name_{file_name} {}

  /// The innermost one; kOther outside of all.
  Place place() const { return places_.empty() ? Place::kOther : places_.back(); }
  std::size_t depth() const { return places_.size(); }
  bool enter(Place place) {
    if (places_.size() == kDeepest) throw InputError{file_name_ + ": more than 64 nested levels"};
    places_.push_back(place);
    return true;
  }
  bool leave() {
    places_.pop_back();
    return true;
  }

  /// Refuses what is no JSON; `last`: what was read last, such as "node 7".
  [[noreturn]] void refuse_syntax(std::size_t byte, const std::string& last, const std::exception& error) const {
    const std::string_view what = error.what();
    const std::size_t dash = what.find("- ");
    throw InputError{file_name_ + ": byte " + std::to_string(byte) + ", in or after " + last + ": no JSON: " +
                     shortened(what.substr(dash == std::string_view::npos ? 0 : dash + 2), kLongestReason)};
  }

 private:
  static constexpr std::size_t kDeepest = 64, kLongestReason = 200;  // the parser quotes all that it read last

  const std::string& file_name_;
  std::vector<Place> places_;
};

}  // namespace rehearse
