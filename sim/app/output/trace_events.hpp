#pragma once
// Events of Chrome's trace format as text, for timeline.json.gz and the traces of ranks.
// Source of the format: Trace Event Format, Google, 2016.

#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "sim/base/units.hpp"

namespace rehearse {

/// Whole nanoseconds, so that slices that touch still touch after rounding.
std::int64_t whole_nanoseconds(Seconds time);

/// What an event says besides its name, in the order in which it was added.
class TraceArguments {
 public:
  template <std::integral Number>
  TraceArguments& add(std::string_view key, Number value) {
    return add_text(key, std::to_string(value));
  }
  /// Without decimals where the value is whole.
  TraceArguments& add(std::string_view key, double value);
  TraceArguments& add(std::string_view key, std::string_view value);
  /// "{"bytes":12}"
  std::string text() const { return '{' + members_ + '}'; }
  bool is_empty() const { return members_.empty(); }

 private:
  TraceArguments& add_text(std::string_view key, std::string_view value);
  std::string members_;
};

/// The list traceEvents.
class TraceEvents {
 public:
  /// `write` is given the text in parts, in their order; none: text() has all of it.
  explicit TraceEvents(std::function<void(std::string_view)> write = {}) : write_{std::move(write)} {}

  struct Place {
    std::int64_t process = 0, thread = 0;
  };

  /// Something that lasts, of a category ("cat"). Dates are in nanoseconds.
  void slice(std::string_view name, std::string_view category, Place place, std::int64_t start, std::int64_t end,
             const TraceArguments& arguments = {});
  /// "process_name", "thread_name" and their like, whose argument is `key`.
  void metadata(std::string_view what, Place place, const TraceArguments& arguments);
  /// One end of an arrow, whose first one `begins`.
  void arrow(std::string_view category, Place place, std::int64_t when, int id, bool begins);
  /// A line across the tracks of a process, or of all.
  void moment(std::string_view name, std::string_view category, Place place, std::int64_t when, bool is_of_all);
  void counter(std::string_view name, Place place, std::int64_t when, double value);
  /// What has not been written.
  const std::string& text() const { return text_; }

 private:
  void begin(std::string_view phase, std::string_view name, std::string_view category, Place place);
  void date(std::string_view key, std::int64_t nanoseconds);

  std::function<void(std::string_view)> write_;
  bool is_first_ = true;
  std::string text_;
};

}  // namespace rehearse
