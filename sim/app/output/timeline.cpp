#include "sim/app/output/timeline.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/app/output/recorded_work.hpp"
#include "sim/app/output/trace_events.hpp"

namespace rehearse {

namespace {

struct Slice {
  std::int64_t start = 0, end = 0;
  std::string name;
  const char* category = "";
  TraceArguments arguments;
};

class TimelineWriter {
 public:
  TimelineWriter(const Scenario& scenario, const RunRecord& record, const ResourceProfile& profile,
                 const std::function<void(std::string_view)>& write)
      : scenario_{scenario},
        record_{record},
        profile_{profile},
        from_{whole_nanoseconds(scenario.output.timeline_start)},
        to_{whole_nanoseconds(std::min(scenario.output.timeline_start + scenario.output.timeline_length, record.end))},
        steps_{record.recorder.steps},
        write_{write},
        events_{write} {}

  void write() {
    write_("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    for (std::size_t m = 0; m < record_.machines.size(); ++m) {
      const auto process = static_cast<std::int64_t>(m) + 1;
      events_.metadata("process_name", {process, 0}, TraceArguments{}.add("name", record_.machines[m].name));
      events_.metadata("process_sort_index", {process, 0}, TraceArguments{}.add("sort_index", m));
    }
    collect();
    std::map<MachineIndex, int> threads;
    for (auto& [key, slices] : tracks_) {
      const auto& [machine, order, name] = key;
      const TraceEvents::Place place{machine + 1, ++threads[machine]};
      events_.metadata("thread_name", place, TraceArguments{}.add("name", name));
      std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) { return a.start < b.start; });
      for (const Slice& slice : slices)
        events_.slice(slice.name, slice.category, place, slice.start, slice.end, slice.arguments);
      thread_of_[{machine, name}] = static_cast<int>(place.thread);
    }
    arrows();
    moments();
    counters();
    write_(events_.text());
    write_("\n]}\n");
  }

 private:
  using TrackKey = std::tuple<MachineIndex, int, std::string>;  // machine, order among its tracks, name

  void add(const TrackKey& track, Span span, std::string name, const char* category, TraceArguments arguments = {}) {
    const std::int64_t first = whole_nanoseconds(span.start), last = whole_nanoseconds(span.end);
    const std::int64_t start = std::max(from_, first), end = std::min(to_, last);
    if (start >= end && !(first == last && start == end)) return;
    tracks_[track].push_back({start, end, std::move(name), category, std::move(arguments)});
  }

  std::string machine_name(MachineIndex machine) const {
    return record_.machines[static_cast<std::size_t>(machine)].name;
  }
  std::string unit_name(int unit) const {
    return unit < 0 ? "samples" : record_.unit_names[static_cast<std::size_t>(unit)];
  }
  /// Of no unit is what newcomers are sent, and samples that are copied.
  std::string message_name(const MessageSpan& message) const {
    return message.unit < 0 && message.is_of_collective ? "model" : unit_name(message.unit);
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
            "step " + std::to_string(step.step + 1), "step",
            TraceArguments{}
                .add("step", step.step)
                .add("update", step.global_step)
                .add("samples", step.samples)
                .add("staleness", step.staleness));
    for (const KernelSpan& kernel : record_.recorder.kernels) {
      const OperatorAt op = scenario_.workload.graph[static_cast<std::size_t>(kernel.vertex)];
      add({kernel.machine, 1, track("GPU", kernel.machine, kernel.gpu)}, kernel.span, op.name(), "kernel",
          TraceArguments{}
              .add("step", steps_.at({kernel.machine, kernel.gpu}, kernel.span.start))
              .add("FLOPs", op->flops.value())
              .add("bytes", (op->bytes_read + op->bytes_written).value()));
    }
    for (const ServerSpan& work : record_.recorder.server_work)
      add({work.machine, 1, "core " + std::to_string(work.core)}, work.span,
          (work.is_update ? "update " : "read ") + unit_name(work.unit), "server");
    collect_waits();
    for (const MessageSpan& message : record_.recorder.messages) {
      const auto arguments = [&](Endpoint peer, MachineIndex seen_from) {
        TraceArguments said;
        said.add("bytes", message.size.value()).add("peer", endpoint_name(peer, seen_from)).add("step", message.step);
        if (message.retransmitted > Bytes{}) said.add("bytes sent again", message.retransmitted.value());
        return said;
      };
      add({message.from.machine, 3, send_track(message)}, message.on_wire, message_name(message), "send",
          arguments(message.to, message.from.machine));
      const Seconds latency = message.arrival - message.on_wire.end;
      add({message.to.machine, 4, receive_track(message)}, {message.on_wire.start + latency, message.arrival},
          message_name(message), "receive", arguments(message.from, message.to.machine));
    }
    for (const EventSpan& event : record_.recorder.events)
      if (event.span.end > event.span.start) add({event.machine, 5, "events"}, event.span, event.kind, "event");
  }

  /// What workers do together, and what they wait for.
  void collect_waits() {
    for (const auto& [worker, streams] : collectives_on_streams(record_.recorder.collectives))
      for (std::size_t stream = 0; stream < streams.size(); ++stream)
        for (const auto& [collective, span] : streams[stream])
          add({worker.first, 2,
               track("collectives", worker.first, worker.second) +
                   (stream > 0 ? " (" + std::to_string(stream + 1) + ")" : "")},
              span, std::string{to_text(collective.kind)} + ' ' + unit_name(collective.unit), "collective",
              TraceArguments{}
                  .add("bytes", collective.size.value())
                  .add("ranks", collective.ranks)
                  .add("step", collective.step)
                  .add("waits for others, us", (collective.began - span.start).value() * 1e6));
    for (const auto& [worker, waits] : waits_in_order(record_.recorder.waits))
      for (const WaitSpan& wait : waits)
        add({worker.first, 1, track("waits of GPU", worker.first, worker.second)}, wait.span,
            "waits for " + std::string{kWaitForNames[static_cast<std::size_t>(wait.what)]}, "wait",
            TraceArguments{}.add("step", wait.step));
  }

  void arrows() {
    int id = 0;
    for (const MessageSpan& message : record_.recorder.messages) {
      const Seconds latency = message.arrival - message.on_wire.end;
      const std::int64_t start = whole_nanoseconds(message.on_wire.start),
                         end = whole_nanoseconds(message.on_wire.start + latency);
      if (start < from_ || whole_nanoseconds(message.arrival) > to_) continue;
      const auto place = [&](MachineIndex machine, const std::string& track) {
        return TraceEvents::Place{machine + 1, thread_of_[{machine, track}]};
      };
      events_.arrow("message", place(message.from.machine, send_track(message)), start, ++id, true);
      events_.arrow("message", place(message.to.machine, receive_track(message)), end, id, false);
    }
  }

  /// What the provider does to machines: lines across their tracks; what happens to the job: across all.
  void moments() {
    for (const EventSpan& event : record_.recorder.events) {
      const std::int64_t at = whole_nanoseconds(event.span.start);
      if (event.span.end > event.span.start || at < from_ || at > to_) continue;
      events_.moment(event.kind, "event", {std::max(0, event.machine) + 1, 0}, at, event.machine < 0);
    }
  }

  void counters() {
    for (const ResourceSeries& series : profile_.series) {
      const bool is_worker = record_.machines[static_cast<std::size_t>(series.machine)].workers > 0;
      for (std::size_t i = 0; i < series.gpu.size(); ++i) {
        const std::int64_t at = whole_nanoseconds(profile_.period * static_cast<double>(i));
        if (at < from_ || at >= to_) continue;
        const TraceEvents::Place place{series.machine + 1, 0};
        if (is_worker) events_.counter("GPU utilization, %", place, at, series.gpu[i] * 100);
        events_.counter("NIC receive, MB/s", place, at, series.receive[i] / 1e6);
        events_.counter("NIC transmit, MB/s", place, at, series.transmit[i] / 1e6);
      }
    }
  }

  const Scenario& scenario_;
  const RunRecord& record_;
  const ResourceProfile& profile_;
  std::int64_t from_, to_;
  StepsOfWorkers steps_;
  const std::function<void(std::string_view)>& write_;
  TraceEvents events_;
  std::map<TrackKey, std::vector<Slice>> tracks_;
  std::map<std::pair<MachineIndex, std::string>, int> thread_of_;
};

}  // namespace

void write_timeline(const Scenario& scenario, const RunRecord& record, const ResourceProfile& profile,
                    const std::function<void(std::string_view)>& write) {
  TimelineWriter{scenario, record, profile, write}.write();
}

}  // namespace rehearse
