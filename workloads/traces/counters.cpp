#include "workloads/traces/counters.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "workloads/traces/detail/characters.hpp"
#include "workloads/traces/detail/chrome_events.hpp"
#include "workloads/traces/detail/json_places.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMostSamples = 40'000'000;  // of all counters, 16 bytes each
constexpr std::size_t kMostCounters = 100'000;

enum class CounterPlace : std::uint8_t { kRoot, kEvents, kEvent, kArguments, kOther };

/// What the parser calls, value by value.
class CounterHandler : public JsonPlaces<CounterPlace> {
  using Place = CounterPlace;

 public:
  explicit CounterHandler(const std::string& file_name) : JsonPlaces{file_name}, file_name_{file_name} {}

  bool boolean(bool) { return true; }
  bool number_integer(std::int64_t value) {
    return number(
        static_cast<double>(value), [&] { return value * 1000; }, std::to_string(value));
  }
  bool number_unsigned(std::uint64_t value) {
    return number(
        static_cast<double>(value), [&] { return static_cast<std::int64_t>(value) * 1000; }, std::to_string(value));
  }
  bool number_float(double value, const std::string& text) {
    return number(
        value, [&] { return decimal_nanoseconds(text, value); }, text);
  }
  bool string(std::string& value) {
    if (place() != Place::kEvent) return true;
    if (value.size() > kLongestName) value.resize(kLongestName);
    if (key_ == "ph") event_.phase = value;
    if (key_ == "name") event_.name = value;
    if (key_ == "pid") event_.process = value;
    return true;
  }
  bool key(std::string& name) {
    key_ = name.substr(0, kLongestName);
    return true;
  }
  bool start_object(std::size_t) {
    if (depth() == 0) return enter(Place::kRoot);
    if (place() == Place::kEvents) {
      event_ = {};
      return enter(Place::kEvent);
    }
    return enter(place() == Place::kEvent && key_ == "args" ? Place::kArguments : Place::kOther);
  }
  bool end_object() {
    if (place() == Place::kEvent && event_.phase == "C") end_event();
    return leave();
  }
  bool start_array(std::size_t) {
    const bool is_list = depth() == 0 || (place() == Place::kRoot && key_ == "traceEvents");
    has_events_ = has_events_ || is_list;
    return enter(is_list ? Place::kEvents : Place::kOther);
  }
  bool end_array() { return leave(); }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::json::exception& error) {
    refuse_syntax(byte, "counter " + std::to_string(count_), error);
  }

  bool has_events() const { return has_events_; }
  std::vector<TraceCounter> take() {
    for (TraceCounter& counter : counters_) std::ranges::stable_sort(counter.samples, {}, &CounterSample::date);
    return std::move(counters_);
  }

 private:
  struct RawEvent {
    std::string phase, name, process;
    std::optional<Nanoseconds> date;
    std::string bad_date;  // as found
    std::vector<std::pair<std::string, double>> numbers;
  };

  template <class Exact>
  bool number(double value, const Exact& exact, const std::string& found) {
    if (place() == Place::kArguments) event_.numbers.emplace_back(key_, value);
    if (place() != Place::kEvent) return true;
    if (key_ == "pid") event_.process = found.substr(0, kLongestName);
    if (key_ == "ts") {
      if (std::abs(value) < kLatestDate)
        event_.date = exact();
      else
        event_.bad_date = found;
    }
    return true;
  }

  void end_event() {
    ++count_;
    if (!event_.date)
      throw InputError{file_name_ + ": counter " + std::to_string(count_) + " " + in_quotes(event_.name, 80) +
                       ": ts: expected microseconds below 2.2e15; found " +
                       (event_.bad_date.empty() ? "none" : shortened(event_.bad_date, 80))};
    for (const auto& [name, value] : event_.numbers) {
      if (++samples_ > kMostSamples) throw InputError{file_name_ + ": more than 40 million values of counters"};
      const auto [found, is_new] = numbers_.try_emplace({event_.process, event_.name, name}, counters_.size());
      if (is_new && counters_.size() == kMostCounters) throw InputError{file_name_ + ": more than 100000 counters"};
      if (is_new) counters_.push_back({event_.process, event_.name, name, {}});
      counters_[found->second].samples.push_back({*event_.date, value});
    }
  }

  const std::string& file_name_;
  std::vector<TraceCounter> counters_;
  std::map<std::tuple<std::string, std::string, std::string>, std::size_t> numbers_;  // of counters
  RawEvent event_;
  std::string key_;
  std::size_t count_ = 0, samples_ = 0;
  bool has_events_ = false;
};

template <class Iterator>
std::vector<TraceCounter> parse(Iterator begin, Iterator end, const std::string& file_name) {
  CounterHandler handler{file_name};
  nlohmann::json::sax_parse(begin, end, &handler);
  if (!handler.has_events())
    throw InputError{file_name + ": expected a trace in Chrome's format: an object with the list traceEvents"};
  return handler.take();
}

}  // namespace

std::vector<TraceCounter> read_trace_counters(const std::filesystem::path& file, const Budget& budget) {
  Characters characters{file, budget};
  return parse(CharacterIterator{&characters}, CharacterIterator{}, file.string());
}

std::vector<TraceCounter> parse_trace_counters(std::string_view text, const std::string& file_name) {
  return parse(text.begin(), text.end(), file_name);
}

}  // namespace rehearse
