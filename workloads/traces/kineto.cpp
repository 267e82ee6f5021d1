#include "workloads/traces/kineto.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "workloads/traces/detail/characters.hpp"
#include "workloads/traces/detail/chrome_events.hpp"
#include "workloads/traces/detail/event_store.hpp"
#include "workloads/traces/detail/interned.hpp"
#include "workloads/traces/detail/json_places.hpp"
#include "workloads/traces/kernel_class.hpp"

namespace rehearse {

namespace {

constexpr double kLongest = 1e11;  // microseconds: 28 h
constexpr std::int64_t kLargest = std::int64_t{1} << 62;
constexpr std::size_t kMostUnread = 10;

std::optional<KinetoEvent::Kind> kind_of(const std::string& category, const std::string& name) {
  using Kind = KinetoEvent::Kind;
  static const std::unordered_map<std::string, Kind> kinds{
      {"cpu_op", Kind::kOperator},
      {"operator", Kind::kOperator},
      {"user_annotation", Kind::kAnnotation},
      {"cuda_runtime", Kind::kCall},
      {"runtime", Kind::kCall},
      {"cuda_driver", Kind::kCall},
      {"hip_runtime", Kind::kCall},
      {"xpu_runtime", Kind::kCall},
      {"xpu_driver", Kind::kCall},
      {"musa_runtime", Kind::kCall},
      {"musa_driver", Kind::kCall},
      {"privateuse1_runtime", Kind::kCall},
      {"privateuse1_driver", Kind::kCall},
      {"cuda_sync", Kind::kSync},
      {"kernel", Kind::kKernel},
      {"gpu_memcpy", Kind::kCopy},
      {"memcpy", Kind::kCopy},
      {"gpu_memset", Kind::kSet},
      {"memset", Kind::kSet},
  };
  if (name.starts_with("ProfilerStep#") && category != "gpu_user_annotation") return Kind::kAnnotation;
  const auto found = kinds.find(lower_case(category));
  return found == kinds.end() ? std::nullopt : std::optional{found->second};
}

/// Bytes of an element of a tensor, by the names that PyTorch and NCCL have for its type; 0: none of them.
std::int64_t element_size(const std::string& type) {
  static const std::unordered_map<std::string, std::int64_t> sizes{
      {"float", 4},       {"Float", 4}, {"int", 4},           {"Int", 4},  {"double", 8},        {"Double", 8},
      {"long int", 8},    {"Long", 8},  {"c10::Half", 2},     {"Half", 2}, {"c10::BFloat16", 2}, {"BFloat16", 2},
      {"signed char", 1}, {"Char", 1},  {"unsigned char", 1}, {"Byte", 1}, {"bool", 1},          {"Bool", 1},
  };
  const auto found = sizes.find(type);
  return found == sizes.end() ? 0 : found->second;
}

/// Of what a kernel of NCCL states besides its name, which is the same for messages and all-to-alls.
CollectiveWork stated_work(const std::string& collective) {
  return collective == "send" || collective == "recv" ? CollectiveWork::kMessage : collective_work(collective);
}

/// Keys of which something is kept.
enum class Key : std::uint8_t {
  kOther,
  kPhase,
  kCategory,
  kName,
  kProcess,
  kThread,
  kStart,
  kDuration,
  kArguments,
  kType,
  kCorrelation,
  kBytes,
  kDevice,
  kWarps,
  kStream,
  kOnStream,
  kWaitsFor,
  kElements,
  kCollective,
  kRanks,
  kRank,
  kWorldSize,
  kDistributed,
  kEvents,
  kDevices,
  kShapes,
  kTypes,
  kNodes
};
const std::unordered_map<std::string_view, Key> kKeys{{"ph", Key::kPhase},
                                                      {"cat", Key::kCategory},
                                                      {"name", Key::kName},
                                                      {"pid", Key::kProcess},
                                                      {"tid", Key::kThread},
                                                      {"ts", Key::kStart},
                                                      {"dur", Key::kDuration},
                                                      {"args", Key::kArguments},
                                                      {"dtype", Key::kType},
                                                      {"correlation", Key::kCorrelation},
                                                      {"bytes", Key::kBytes},
                                                      {"device", Key::kDevice},
                                                      {"warps per SM", Key::kWarps},
                                                      {"stream", Key::kStream},
                                                      {"wait_on_stream", Key::kOnStream},
                                                      {"wait_on_cuda_event_record_corr_id", Key::kWaitsFor},
                                                      {"In msg nelems", Key::kElements},
                                                      {"Collective name", Key::kCollective},
                                                      {"Group size", Key::kRanks},
                                                      {"rank", Key::kRank},
                                                      {"world_size", Key::kWorldSize},
                                                      {"distributedInfo", Key::kDistributed},
                                                      {"traceEvents", Key::kEvents},
                                                      {"deviceProperties", Key::kDevices},
                                                      {"Input Dims", Key::kShapes},
                                                      {"nodes", Key::kNodes},
                                                      {"workload_graph", Key::kNodes},
                                                      {"Input type", Key::kTypes}};

enum class EventPlace : std::uint8_t {
  kRoot,
  kEvents,
  kEvent,
  kArguments,
  kShapes,
  kShape,
  kTypes,
  kDevices,
  kDevice,
  kDistributed,
  kOther
};

/// What the parser calls, value by value.
class KinetoHandler : public JsonPlaces<EventPlace> {
  using Place = EventPlace;

 public:
  KinetoHandler(KinetoTrace& trace, EventStore& events) : JsonPlaces{trace.file_name}, trace_{trace}, events_{events} {}

  bool boolean(bool) { return true; }
  bool number_integer(std::int64_t value) { return number(static_cast<double>(value), value); }
  bool number_unsigned(std::uint64_t value) {
    return number(static_cast<double>(value),
                  value > std::uint64_t{kLargest} ? kLargest : static_cast<std::int64_t>(value));
  }
  bool number_float(double value, const std::string& text) {
    if (place() == Place::kEvent && (key_ == Key::kStart || key_ == Key::kDuration))
      return set_time(
          value, [&] { return decimal_nanoseconds(text, value); }, text);
    return number(value, static_cast<std::int64_t>(std::clamp(value, -9e18, 9e18)));
  }
  bool string(std::string& value) {
    if (value.size() > kLongestName) value.resize(kLongestName);
    switch (place()) {
      case Place::kEvent:
        if (key_ == Key::kPhase) event_.phase = value;
        if (key_ == Key::kCategory) event_.category = value;
        if (key_ == Key::kName) event_.name = value;
        if (key_ == Key::kProcess) event_.process = value;
        if (key_ == Key::kThread) event_.thread = value;
        if (key_ == Key::kStart || key_ == Key::kDuration) fail_event("a number of microseconds", '"' + value + '"');
        break;
      case Place::kArguments:
        if (key_ == Key::kType) event_.element = element_size(value);
        if (key_ == Key::kCollective) event_.work = stated_work(value);
        break;
      case Place::kTypes:
        if (event_.element == 0) event_.element = element_size(value);
        break;
      case Place::kDevice:
        if (key_ == Key::kName && trace_.gpu.empty()) trace_.gpu = value;
        break;
      default:
        break;
    }
    return true;
  }
  bool key(std::string& name) {
    const auto found = kKeys.find(name);
    key_ = found == kKeys.end() ? Key::kOther : found->second;
    return true;
  }
  bool start_object(std::size_t) {
    if (depth() == 0) return enter(Place::kRoot);
    switch (place()) {
      case Place::kRoot:
        return enter(key_ == Key::kDistributed ? Place::kDistributed : Place::kOther);
      case Place::kEvents:
        event_ = {};
        return enter(Place::kEvent);
      case Place::kEvent:
        return enter(key_ == Key::kArguments ? Place::kArguments : Place::kOther);
      case Place::kDevices:
        return enter(Place::kDevice);
      default:
        return enter(Place::kOther);
    }
  }
  bool end_object() {
    if (place() == Place::kEvent) end_event();
    return leave();
  }
  bool start_array(std::size_t) {
    if (depth() == 0) return enter(Place::kEvents);  // a list of events is a trace, too
    switch (place()) {
      case Place::kRoot:
        has_events_ = has_events_ || key_ == Key::kEvents;
        has_nodes_ = has_nodes_ || key_ == Key::kNodes;
        return enter(key_ == Key::kEvents ? Place::kEvents : key_ == Key::kDevices ? Place::kDevices : Place::kOther);
      case Place::kArguments:
        return enter(key_ == Key::kShapes ? Place::kShapes : key_ == Key::kTypes ? Place::kTypes : Place::kOther);
      case Place::kShapes:
        ++event_.shapes;
        if (event_.shapes == 1) event_.elements = 1;
        return enter(event_.shapes == 1 ? Place::kShape : Place::kOther);
      default:
        return enter(Place::kOther);
    }
  }
  bool end_array() {
    has_events_ = has_events_ || depth() == 1;
    return leave();
  }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::json::exception& error) {
    refuse_syntax(byte, "event " + std::to_string(count_), error);
  }

  /// Annotations of steps, as they came.
  const std::vector<KinetoEvent>& marks() const { return marks_; }
  bool has_events() const { return has_events_; }
  bool has_nodes() const { return has_nodes_; }

 private:
  struct RawEvent {
    std::string phase, category, name, process, thread;
    std::optional<Nanoseconds> start, duration;
    std::int64_t correlation = -1, bytes = -1, device = 0, stream = -1, waits_for = -1, on_stream = -1;
    std::int64_t elements = -1, element = 0, shapes = 0, ranks = 0;
    CollectiveWork work = CollectiveWork::kOther;
    float warps = -1;
  };

  bool number(double value, std::int64_t whole) {
    switch (place()) {
      case Place::kEvent:
        if (key_ == Key::kStart || key_ == Key::kDuration)
          return set_time(
              value, [&] { return whole * 1000; }, std::to_string(whole));
        if (key_ == Key::kProcess) event_.process = std::to_string(whole);
        if (key_ == Key::kThread) event_.thread = std::to_string(whole);
        break;
      case Place::kArguments:
        if (key_ == Key::kCorrelation) event_.correlation = whole;
        if (key_ == Key::kBytes) event_.bytes = whole;
        if (key_ == Key::kDevice) event_.device = whole;
        if (key_ == Key::kWarps && value >= 0) event_.warps = static_cast<float>(std::min(value, 1e9));
        if (key_ == Key::kStream) event_.stream = whole;
        if (key_ == Key::kOnStream) event_.on_stream = whole;
        if (key_ == Key::kWaitsFor) event_.waits_for = whole;
        if (key_ == Key::kElements) event_.elements = whole;
        if (key_ == Key::kRanks) event_.ranks = std::clamp<std::int64_t>(whole, 0, kMostRanks);
        break;
      case Place::kShape:
        if (whole < 0 || (whole > 0 && event_.elements > kLargest / whole)) event_.elements = 0;
        event_.elements *= whole;
        break;
      case Place::kDistributed:
        if (key_ == Key::kRank || key_ == Key::kWorldSize) {
          if (whole < 0 || whole > kMostRanks)
            throw InputError{trace_.file_name + ": /distributedInfo/" + (key_ == Key::kRank ? "rank" : "world_size") +
                             ": expected 0 to 1000000; found " + std::to_string(whole)};
          (key_ == Key::kRank ? trace_.rank : trace_.world_size) = static_cast<int>(whole);
          trace_.has_rank = true;
        }
        break;
      default:
        break;
    }
    return true;
  }

  /// `value` in microseconds; `exact` gives nanoseconds, if that is in range.
  template <class Exact>
  bool set_time(double value, const Exact& exact, const std::string& found) {
    if (key_ == Key::kStart) {
      if (!(std::abs(value) < kLatestDate)) fail_event("microseconds below 2.2e15", found);
      event_.start = exact();
    } else {
      if (!(value >= 0 && value < kLongest)) fail_event("0 microseconds or more, below 1e11", found);
      event_.duration = exact();
    }
    return true;
  }

  [[noreturn]] void fail_event(const std::string& expected, const std::string& found) const {
    throw InputError{trace_.file_name + ": event " + std::to_string(count_ + 1) +
                     (event_.name.empty() ? "" : ' ' + in_quotes(event_.name, 80)) + ": " +
                     (key_ == Key::kStart ? "ts" : "dur") + ": expected " + expected + "; found " +
                     shortened(found, 80)};
  }

  void end_event() {
    ++count_;
    if (event_.phase != "X") return;
    const std::optional<KinetoEvent::Kind> kind = kind_of(event_.category, event_.name);
    if (!kind) {
      note_unread();
      return;
    }
    if (!event_.start || !event_.duration) {
      ++trace_.without_duration;
      return;
    }
    KinetoEvent event{.start = *event_.start,
                      .duration = *event_.duration,
                      .correlation = event_.correlation,
                      .bytes = event_.bytes,
                      .waits_for = event_.waits_for,
                      .warps = event_.warps,
                      .ranks = static_cast<std::int32_t>(event_.ranks),
                      .kind = *kind,
                      .work = event_.work};
    if (event_.elements > 0 && event_.element > 0 && event_.elements < kLargest / event_.element && event_.bytes < 0)
      event.bytes = event_.elements * event_.element;
    event.name = names_(event_.name);
    trace_.has_gpu_work = trace_.has_gpu_work || event.is_on_gpu();
    const auto on_device = [&](std::int64_t stream) {
      return streams_(std::to_string(event_.device) + '/' + std::to_string(stream));
    };
    if (event.is_on_gpu() || *kind == KinetoEvent::Kind::kSync) {
      event.lane = event_.stream >= 0 ? on_device(event_.stream) : streams_(event_.process + '/' + event_.thread);
      if (event_.on_stream >= 0) event.on_stream = on_device(event_.on_stream);
    } else {
      event.lane = threads_(event_.process + '/' + event_.thread);
    }
    events_.add(event);
    if (*kind == KinetoEvent::Kind::kAnnotation && event_.name.starts_with("ProfilerStep#")) marks_.push_back(event);
  }

  void note_unread() {
    std::vector<std::string>& unread = trace_.unread;
    const auto place = std::ranges::lower_bound(unread, event_.category);
    if (unread.size() < kMostUnread && (place == unread.end() || *place != event_.category))
      unread.insert(place, event_.category);
  }

  KinetoTrace& trace_;
  EventStore& events_;
  std::vector<KinetoEvent> marks_;
  Interned names_{trace_.names}, threads_{trace_.threads}, streams_{trace_.streams};
  Key key_ = Key::kOther;
  RawEvent event_;
  std::int64_t count_ = 0;
  bool has_events_ = false, has_nodes_ = false;
};

/// Which steps of those with these marks are read; nothing: the whole recording.
std::optional<StepRange> choose_steps(const std::vector<KinetoEvent>& marks, std::size_t events,
                                      const KinetoOptions& options, const std::string& file_name) {
  if (options.steps) {
    if (options.steps->first < 1 || options.steps->first > options.steps->last || options.steps->last > marks.size())
      throw InputError{file_name + ": --steps: has " + std::to_string(marks.size()) + " marked steps; found " +
                       std::to_string(options.steps->first) + "-" + std::to_string(options.steps->last)};
    return options.steps;
  }
  if (events <= options.most_events || marks.size() <= 2) return {};
  std::vector<std::size_t> by_duration(marks.size());
  std::iota(by_duration.begin(), by_duration.end(), std::size_t{0});
  std::ranges::stable_sort(by_duration, {}, [&](std::size_t i) { return marks[i].duration; });
  const std::size_t count = std::clamp<std::size_t>(options.most_events / 4 * marks.size() / events, 2, marks.size());
  const std::size_t middle = by_duration[by_duration.size() / 2];
  const std::size_t first = std::min(middle - std::min(middle, count / 2), marks.size() - count);
  return StepRange{first + 1, first + count};
}

/// Keeps what happens in some steps: what threads do in their time, and on GPUs what that or nobody has launched.
class StepFilter {
 public:
  StepFilter(Nanoseconds from, Nanoseconds until) : from_{from}, until_{until} {}

  /// Asked by date.
  bool operator()(const KinetoEvent& event) {
    const bool is_within = event.start >= from_ && event.start < until_;
    if (event.kind == KinetoEvent::Kind::kCall && is_within && event.correlation >= 0) calls_.insert(event.correlation);
    return is_within || (event.is_on_gpu() && calls_.contains(event.correlation));
  }

 private:
  Nanoseconds from_, until_;
  std::unordered_set<std::int64_t> calls_;  // correlations
};

void take_events(KinetoTrace& trace, EventStore& events, std::vector<KinetoEvent> marks, const KinetoOptions& options) {
  std::ranges::stable_sort(marks, {}, &KinetoEvent::start);
  std::erase_if(marks, [&](const KinetoEvent& mark) { return mark.lane != marks.front().lane; });
  const std::optional<StepRange> steps = choose_steps(marks, events.size(), options, trace.file_name);
  trace.steps = steps;
  if (!steps) {
    trace.events = events.take([](const KinetoEvent&) { return true; });
    return;
  }
  const KinetoEvent& first = marks[steps->first - 1];
  const KinetoEvent& last = marks[steps->last - 1];
  const Nanoseconds until = steps->last < marks.size() ? marks[steps->last].start : last.end();
  trace.events = events.take(StepFilter{first.start, until});
  const auto name = [&](const KinetoEvent& mark) {
    return in_quotes(trace.names[static_cast<std::size_t>(mark.name)]);
  };
  trace.remarks.push_back("of " + std::to_string(marks.size()) + " steps " +
                          (steps->first == steps->last ? name(first) + " alone was read"
                                                       : name(first) + " to " + name(last) + " were read") +
                          (options.steps ? "" : ", for the size of the trace: --steps takes others"));
}

template <class Iterator>
KinetoTrace parse(Iterator begin, Iterator end, const std::string& file_name, const KinetoOptions& options) {
  KinetoTrace trace;
  trace.file_name = file_name;
  EventStore events{std::max<std::size_t>(options.most_events / 4, 1)};
  KinetoHandler handler{trace, events};
  nlohmann::json::sax_parse(begin, end, &handler);
  if (!handler.has_events() && handler.has_nodes())
    throw InputError{
        file_name +
        ": is an execution trace, which has no durations: give the profiler's trace of the same run besides it"};
  if (!handler.has_events())
    throw InputError{file_name + ": expected a trace of PyTorch's profiler: an object with the list traceEvents"};
  take_events(trace, events, handler.marks(), options);
  return trace;
}

}  // namespace

KinetoTrace read_kineto_trace(const std::filesystem::path& file, const Budget& budget, const KinetoOptions& options) {
  Characters characters{file, budget};
  return parse(CharacterIterator{&characters}, CharacterIterator{}, file.string(), options);
}

KinetoTrace parse_kineto_trace(std::string_view text, const std::string& file_name, const KinetoOptions& options) {
  return parse(text.begin(), text.end(), file_name, options);
}

}  // namespace rehearse
