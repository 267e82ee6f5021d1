#pragma once
// What happened during a run, for timelines, tables and profiles. Nothing is kept unless asked for.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/collective_kind.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/units.hpp"
#include "sim/resources/network.hpp"
#include "sim/resources/rate_pulses.hpp"

namespace rehearse {

struct Span {  // simulated dates
  Seconds start{};
  Seconds end{};
};

/// A kernel on a worker's GPU. The host dispatched it until `queued` before its start, in `dispatch`.
struct KernelSpan {
  MachineIndex machine = 0;
  int gpu = 0;
  int vertex = 0;
  Span span;
  Seconds memory{};  // time within the span in which device memory was busy
  Seconds queued{}, dispatch{};
};

/// A worker's part in a collective, from its coming to the end. All take part from `began` on; before, the worker waits
/// for others, or for a collective under way.
struct CollectiveSpan {
  MachineIndex machine = 0;
  int gpu = 0;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int unit = 0;           // the first of those that it fuses
  std::int64_t step = 0;  // of the training
  std::int64_t ranks = 0;
  Span span;
  Seconds began{};
  Bytes size{};  // payload, of a gathering all of it
};

/// What a worker waits for. A peer: another worker that has not come so far, or another stage's kernels.
enum class WaitFor : std::uint8_t { kPeer, kServer, kNetwork, kLatency, kCopies };
inline constexpr std::array<std::string_view, 5> kWaitForNames{"peer", "server", "network", "latency", "copies"};

/// A worker has nothing to compute until what it waits for has come. Of a wait for several things, one after the other
/// with the right lengths; their order is that of WaitFor.
struct WaitSpan {
  MachineIndex machine = 0;
  int gpu = 0;
  WaitFor what = WaitFor::kPeer;
  std::int64_t step = 0;  // of the training
  Span span;
};

/// A message, from the moment it occupies the first link to its arrival.
struct MessageSpan {
  Endpoint from, to;
  int unit = 0;           // of gradients or variables, see gradient_units.hpp
  std::int64_t step = 0;  // of the worker
  Span on_wire;           // bytes flow
  Seconds arrival{};
  Bytes size{};
  Bytes retransmitted{};  // besides, within on_wire
  bool is_of_collective = false;
  std::int64_t messages = 1;  // that the span stands for, one after another
};

/// A link over which a machine's NICs, or its GPUs, receive or send.
struct RecordedLink {
  MachineIndex machine = 0;
  bool is_of_gpus = false;
  bool receives = false, sends = false;  // both: from one GPU to another
  std::string name;
  BytesPerSecond rate{};
  Bytes burst{};  // besides, once in any time
};

/// Bytes per second that cross a recorded link. Its rate at a date is the sum of all of its pulses.
struct LinkRate {
  std::size_t link = 0;  // index into Recorder::links
  RatePulses pulses;
};

/// A unit handled by a core of a parameter server.
struct ServerSpan {
  MachineIndex machine = 0;
  int core = 0;
  int unit = 0;
  bool is_update = false;  // false: reading variables for a pull
  Span span;
};

/// Where the time of a step went; what is left of it besides the optimizer's update is the host's.
struct StepTimes {
  Seconds held{};     // by the synchronization, before it began
  Seconds load{};     // until the samples were in the host's memory
  Seconds input{};    // copy of the samples to the GPU
  Seconds kernels{};  // on the GPU
  Seconds stalled{};  // part of the waits below in which kernels waited for variables; the others came after them
  /// Waits for what was the last to come: by what it had to wait for itself.
  Seconds server{};   // cores of a parameter server
  Seconds network{};  // links, others' bytes on them included
  Seconds latency{};  // of messages and of the software that passes them on
  Seconds copies{};   // variables and gradients between host and GPUs
  Seconds bubble{};   // kernels of other stages of a pipeline
  Seconds pause{};    // for a checkpoint, after the step
};

/// One step of one worker, from the end of the one before: it may have to wait for others first.
struct StepSpan {
  MachineIndex machine = 0;
  int gpu = 0;
  std::int64_t step = 0;         // of this worker, from 0
  std::int64_t repeats = 1;      // it stands for so many steps, one after the other; the others are not recorded
  Seconds period{};              // from the end of one of them to that of the next
  std::int64_t global_step = 0;  // of the cluster, from 1, after its update
  std::int64_t samples = 0;      // computed in it, by all workers for which this one stands
  Span span;
  Seconds last_pull{};         // when the last variable had arrived
  Seconds compute_end{};       // when the last kernel ended
  std::int64_t staleness = 0;  // updates by other workers between this worker's pull and its update
  StepTimes times;
};

/// Something that happens to a machine: "start", "join", "leave", "checkpoint"; by the provider: "request", "running",
/// "notice", "revoked"; or to the job: "stop", "resume", "restart".
struct EventSpan {
  MachineIndex machine = 0;  // -1: the job
  std::string kind;
  Span span;
  std::string detail;
};

/// What to keep of a run's activity.
struct RecordingScope {
  Span window{Seconds{0}, Seconds{1e18}};
  /// The window ends by itself once it holds enough of the steady state for a resource profile: 60 s and 20 steps of
  /// every worker.
  bool ends_with_profile = true;
  std::vector<bool> machines;  // empty: all

  bool covers(MachineIndex machine) const { return machines.empty() || machines[static_cast<std::size_t>(machine)]; }
  bool overlaps(Span span) const { return span.end >= window.start && span.start <= window.end; }
};

struct Recorder {
  bool keeps_activity = false;              // kernels, messages, server work: needed for profiles and timelines
  RecordingScope scope;                     // of activity
  std::size_t most_activity = 100'000'000;  // kernels, messages and server work: about 10 GB

  std::vector<StepSpan> steps;
  std::vector<EventSpan> events;
  std::vector<KernelSpan> kernels;
  std::vector<MessageSpan> messages;
  std::vector<RecordedLink> links;  // whose rates are recorded
  std::vector<LinkRate> rates;
  std::vector<ServerSpan> server_work;
  std::vector<CollectiveSpan> collectives;
  std::vector<WaitSpan> waits;

  bool is_recording(Seconds now) const {
    return keeps_activity && now >= scope.window.start && now <= scope.window.end;
  }
  /// From now on records the rates over the machines' NICs, and over the links of their GPUs if asked to.
  void watch(Network& network, bool records_gpu_links);
  /// The index of a topology's link among `links`.
  std::optional<std::size_t> find_link(int link) const;
  /// Links of the topology whose rates are recorded.
  std::vector<int> recorded_links() const;
  /// Flows cross the link at `rate` from now on; within the scope's window that is kept.
  void change_rate(std::size_t link, Seconds now, double rate);
  /// Adds a rate to those of flows.
  void add_rate(std::size_t link, const RatePulses& pulses);
  /// What would have crossed links from now on does not: those of a machine, or all.
  void cut_rates(Seconds now, std::optional<MachineIndex> machine = {});

  /// The machine is gone: kernels that would have run afterwards do not.
  void cut(MachineIndex machine, Seconds now) {
    cut_rates(now, machine);
    std::erase_if(kernels, [&](const KernelSpan& k) { return k.machine == machine && k.span.start >= now; });
    for (KernelSpan& kernel : kernels)
      if (kernel.machine == machine) kernel.span.end = std::min(kernel.span.end, now);
  }
  void add(const KernelSpan& kernel) {
    if (keeps_activity && scope.covers(kernel.machine) && scope.overlaps(kernel.span)) keep(kernels, kernel);
  }
  /// Whether messages between the two are wanted at all: of most it need not be known what they are.
  bool covers(Endpoint from, Endpoint to) const {
    return keeps_activity && (scope.covers(from.machine) || scope.covers(to.machine));
  }
  void add(const MessageSpan& message) {
    if (covers(message.from, message.to) && scope.overlaps({message.on_wire.start, message.arrival}))
      keep(messages, message);
  }
  void add(const ServerSpan& work) {
    if (keeps_activity && scope.covers(work.machine) && scope.overlaps(work.span)) keep(server_work, work);
  }
  void add(const CollectiveSpan& collective) {
    if (keeps_activity && scope.covers(collective.machine) && scope.overlaps(collective.span))
      keep(collectives, collective);
  }
  void add(const WaitSpan& wait) {
    if (keeps_activity && wait.span.end > wait.span.start && scope.covers(wait.machine) && scope.overlaps(wait.span))
      keep(waits, wait);
  }

 private:
  template <class Record>
  void keep(std::vector<Record>& records, const Record& record) {
    if (kept_++ >= most_activity)
      throw RunError{"/training/steps", "the run has more than " + std::to_string(most_activity) +
                                            " kernels, messages and server operations to record: choose fewer steps, "
                                            "a --trace-window or --trace-workers, or no -o"};
    records.push_back(record);
  }

  /// Rate of the flows over a link, and since when.
  struct CurrentRate {
    double since = 0, rate = 0;
  };

  std::size_t kept_ = 0;              // of all kinds
  std::vector<int> index_of_;         // [links of the topology], -1: not recorded
  std::vector<CurrentRate> current_;  // [links]
};

}  // namespace rehearse
