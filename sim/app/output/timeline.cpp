#include "sim/app/output/timeline.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

namespace rehearse {

namespace {

/// Whole nanoseconds, so that spans that touch still touch after rounding.
std::int64_t nanoseconds(Seconds time) { return std::llround(time.value() * 1e9); }

std::string microseconds(std::int64_t nanoseconds) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%lld.%03d", static_cast<long long>(nanoseconds / 1000),
                static_cast<int>(nanoseconds % 1000));
  return text.data();
}

struct Slice {
  std::int64_t start = 0, end = 0;
  std::string name;
};

class TimelineWriter {
 public:
  TimelineWriter(const Scenario& scenario, const RunRecord& record, const ResourceProfile& profile)
      : scenario_{scenario},
        record_{record},
        profile_{profile},
        from_{nanoseconds(scenario.output.timeline_start)},
        to_{nanoseconds(std::min(scenario.output.timeline_start + scenario.output.timeline_length, record.end))} {}

  std::string write() {
    text_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
    for (std::size_t m = 0; m < record_.machines.size(); ++m) {
      metadata(static_cast<MachineIndex>(m), 0, "process_name", record_.machines[m].name);
      begin_event("M", "process_sort_index", static_cast<MachineIndex>(m), 0);
      text_ += ",\"args\":{\"sort_index\":" + std::to_string(m) + "}}";
    }
    collect();
    std::map<MachineIndex, int> threads;
    for (auto& [key, slices] : tracks_) {
      const auto& [machine, order, name] = key;
      const int thread = ++threads[machine];
      metadata(machine, thread, "thread_name", name);
      std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) { return a.start < b.start; });
      for (const Slice& slice : slices) {
        begin_event("X", slice.name, machine, thread);
        text_ += ",\"ts\":" + microseconds(slice.start) + ",\"dur\":" + microseconds(slice.end - slice.start) + "}";
      }
      thread_of_[{machine, name}] = thread;
    }
    arrows();
    moments();
    counters();
    return text_ + "\n]}\n";
  }

 private:
  using TrackKey = std::tuple<MachineIndex, int, std::string>;  // machine, order among its tracks, name

  void begin_event(const char* phase, const std::string& name, MachineIndex machine, int thread) {
    text_ += is_first_ ? "\n" : ",\n";
    is_first_ = false;
    text_ += std::string{"{\"ph\":\""} + phase +
             "\",\"name\":" + Json(name).dump(-1, ' ', false, Json::error_handler_t::replace) +
             ",\"pid\":" + std::to_string(machine + 1) + ",\"tid\":" + std::to_string(thread);
  }

  void metadata(MachineIndex machine, int thread, const char* what, const std::string& name) {
    begin_event("M", what, machine, thread);
    text_ += ",\"args\":{\"name\":" + Json(name).dump(-1, ' ', false, Json::error_handler_t::replace) + "}}";
  }

  bool add(const TrackKey& track, Span span, std::string name) {
    const std::int64_t start = std::max(from_, nanoseconds(span.start)), end = std::min(to_, nanoseconds(span.end));
    if (start >= end && !(nanoseconds(span.start) == nanoseconds(span.end) && start == end)) return false;
    tracks_[track].push_back({start, end, std::move(name)});
    return true;
  }

  std::string machine_name(MachineIndex machine) const {
    return record_.machines[static_cast<std::size_t>(machine)].name;
  }
  std::string unit_name(int unit) const {
    return unit < 0 ? "samples" : record_.unit_names[static_cast<std::size_t>(unit)];
  }
  /// Tracks of machines with one GPU need no number.
  std::string track(const char* name, MachineIndex machine, int gpu) const {
    return record_.machines[static_cast<std::size_t>(machine)].workers > 1 ? name + (" " + std::to_string(gpu)) : name;
  }
  std::string endpoint_name(Endpoint endpoint, MachineIndex seen_from) const {
    std::string part = endpoint.gpu == Endpoint::kHost ? "host" : track("GPU", endpoint.machine, endpoint.gpu);
    if (endpoint.machine == seen_from) return part;
    return machine_name(endpoint.machine) + (part == "host" || part == "GPU" ? "" : " " + part);
  }
  std::string send_track(const MessageSpan& message) const {
    return (message.from.gpu > 0 ? "GPU " + std::to_string(message.from.gpu) + ": " : "") + "send to " +
           endpoint_name(message.to, message.from.machine);
  }
  std::string receive_track(const MessageSpan& message) const {
    return (message.to.gpu > 0 ? "GPU " + std::to_string(message.to.gpu) + ": " : "") + "receive from " +
           endpoint_name(message.from, message.to.machine);
  }

  void collect() {
    for (const StepSpan& step : record_.recorder.steps)
      if (record_.recorder.scope.covers(step.machine))
        add({step.machine, 0, track("steps", step.machine, step.gpu)}, step.span,
            "step " + std::to_string(step.step + 1));
    for (const KernelSpan& kernel : record_.recorder.kernels)
      add({kernel.machine, 1, track("GPU", kernel.machine, kernel.gpu)}, kernel.span,
          scenario_.workload.graph[static_cast<std::size_t>(kernel.vertex)].name);
    for (const ServerSpan& work : record_.recorder.server_work)
      add({work.machine, 1, "core " + std::to_string(work.core)}, work.span,
          (work.is_update ? "update " : "read ") + unit_name(work.unit));
    for (const MessageSpan& message : record_.recorder.messages) {
      add({message.from.machine, 2, send_track(message)}, message.on_wire, unit_name(message.unit));
      const Seconds latency = message.arrival - message.on_wire.end;
      add({message.to.machine, 3, receive_track(message)}, {message.on_wire.start + latency, message.arrival},
          unit_name(message.unit));
    }
    for (const EventSpan& event : record_.recorder.events)
      if (event.span.end > event.span.start) add({event.machine, 4, "events"}, event.span, event.kind);
  }

  void arrows() {
    int id = 0;
    for (const MessageSpan& message : record_.recorder.messages) {
      const Seconds latency = message.arrival - message.on_wire.end;
      const std::int64_t start = nanoseconds(message.on_wire.start), end = nanoseconds(message.on_wire.start + latency);
      if (start < from_ || nanoseconds(message.arrival) > to_) continue;
      ++id;
      begin_event("s", "message", message.from.machine, thread_of_[{message.from.machine, send_track(message)}]);
      text_ += ",\"cat\":\"message\",\"id\":" + std::to_string(id) + ",\"ts\":" + microseconds(start) + "}";
      begin_event("f", "message", message.to.machine, thread_of_[{message.to.machine, receive_track(message)}]);
      text_ += ",\"cat\":\"message\",\"bp\":\"e\",\"id\":" + std::to_string(id) + ",\"ts\":" + microseconds(end) + "}";
    }
  }

  /// What the provider does to machines: lines across their tracks; what happens to the job: across all.
  void moments() {
    for (const EventSpan& event : record_.recorder.events) {
      const std::int64_t at = nanoseconds(event.span.start);
      if (event.span.end > event.span.start || at < from_ || at > to_) continue;
      begin_event("i", event.kind, std::max(0, event.machine), 0);
      text_ += ",\"ts\":" + microseconds(at) + ",\"s\":\"" + (event.machine < 0 ? "g" : "p") + "\"}";
    }
  }

  void counters() {
    for (const ResourceSeries& series : profile_.series) {
      const bool is_worker = record_.machines[static_cast<std::size_t>(series.machine)].workers > 0;
      for (std::size_t i = 0; i < series.gpu.size(); ++i) {
        const std::int64_t at = nanoseconds(profile_.period * static_cast<double>(i));
        if (at < from_ || at >= to_) continue;
        const auto counter = [&](const char* name, double value) {
          std::array<char, 64> number{};
          std::snprintf(number.data(), number.size(), "%.6g", value);
          begin_event("C", name, series.machine, 0);
          text_ += ",\"ts\":" + microseconds(at) + ",\"args\":{\"value\":" + number.data() + "}}";
        };
        if (is_worker) counter("GPU utilization, %", series.gpu[i] * 100);
        counter("NIC receive, MB/s", series.receive[i] / 1e6);
        counter("NIC transmit, MB/s", series.transmit[i] / 1e6);
      }
    }
  }

  const Scenario& scenario_;
  const RunRecord& record_;
  const ResourceProfile& profile_;
  std::int64_t from_, to_;
  std::string text_;
  bool is_first_ = true;
  std::map<TrackKey, std::vector<Slice>> tracks_;
  std::map<std::pair<MachineIndex, std::string>, int> thread_of_;
};

}  // namespace

std::string timeline_json(const Scenario& scenario, const RunRecord& record, const ResourceProfile& profile) {
  return TimelineWriter{scenario, record, profile}.write();
}

}  // namespace rehearse
