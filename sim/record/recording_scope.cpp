#include "sim/record/recording_scope.hpp"

#include <algorithm>

#include "sim/base/errors.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

namespace {

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(separator, begin)) != std::string::npos; begin = end + separator.size())
    parts.push_back(text.substr(begin, end - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

int read_worker(const std::string& text, int count) {
  const bool is_number = !text.empty() && text.size() <= 6 && text.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number || std::stoi(text) >= count)
    throw InputError{"--trace-workers: expected workers from 0 to " + std::to_string(count - 1) + "; found \"" + text +
                     "\""};
  return std::stoi(text);
}

}  // namespace

RecordingScope read_recording_scope(const std::string& window, const std::string& workers, const Site& site) {
  RecordingScope scope;
  if (!window.empty()) {
    scope.ends_with_profile = false;
    const std::vector<std::string> ends = split(window, "..");
    if (ends.size() != 2)
      throw InputError{"--trace-window: expected two times such as 10s..12s; found \"" + window + "\""};
    try {
      scope.window = {parse_seconds(ends[0]), parse_seconds(ends[1])};
    } catch (const QuantityError& error) { throw InputError{std::string{"--trace-window: "} + error.what()}; }
    if (scope.window.end <= scope.window.start)
      throw InputError{"--trace-window: expected an end after the start; found \"" + window + "\""};
  }
  if (workers.empty()) return scope;
  const int count = static_cast<int>(site.workers.size());
  scope.machines.resize(site.machines.size());
  for (const std::string& part : split(workers, ",")) {
    const std::vector<std::string> ends = split(part, "..");
    const int first = read_worker(ends.front(), count), last = read_worker(ends.back(), count);
    if (ends.size() > 2 || last < first)
      throw InputError{"--trace-workers: expected workers such as 0,8..15; found \"" + part + "\""};
    for (int worker = first; worker <= last; ++worker)
      scope.machines[static_cast<std::size_t>(site.workers[static_cast<std::size_t>(worker)].front().machine)] = true;
  }
  return scope;
}

}  // namespace rehearse
