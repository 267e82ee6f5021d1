#include "sim/app/output/kineto_trace.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <ranges>
#include <string_view>
#include <utility>

#include "sim/app/output/recorded_work.hpp"
#include "sim/app/output/trace_events.hpp"
#include "sim/record/step_parts.hpp"

namespace rehearse {

namespace {

using Nanoseconds = std::int64_t;

constexpr int kComputeStream = 7, kCopyStream = 14, kCollectiveStreams = 20, kMessageStreams = 40;
constexpr int kFirstHostProcess = 1000, kHostThread = 1, kWaitThread = 2;
constexpr Nanoseconds kLongestCall = 5'000;  // that launches
constexpr Nanoseconds kNoticeable = 1'000;   // a shorter silence of the host is no wait

/// What tells the kind of a kernel in its name, before its precision: as libraries' names do, see workloads/traces/kernel_class.hpp.
std::string kernel_name(const Operator& op) {
  const bool is_forward = op.phase == Phase::kForward;
  const std::string pass = is_forward ? "_forward" : "_backward";
  if (op.attention) return "flash_attention" + pass;
  switch (op.kind) {
    case OperatorKind::kConvolution:
      return is_forward                            ? "convolution_fprop"
             : op.phase == Phase::kBackwardWeights ? "convolution_wgrad"
                                                   : "convolution_dgrad";
    case OperatorKind::kDense:
    case OperatorKind::kProduct:
    case OperatorKind::kRecurrent:
      return "gemm" + pass;
    case OperatorKind::kEmbedding:
      return "embedding" + pass;
    case OperatorKind::kBatchNorm:
      return "batch_norm" + pass;
    case OperatorKind::kLayerNorm:
      return "layer_norm" + pass;
    case OperatorKind::kActivation:
      return "elementwise_activation" + pass;
    case OperatorKind::kElementwise:
      return "elementwise" + pass;
    case OperatorKind::kDropout:
      return "elementwise_dropout" + pass;
    case OperatorKind::kPooling:
      return "pool" + pass;
    case OperatorKind::kSoftmaxLoss:
      return "softmax_loss" + pass;
    case OperatorKind::kUpdate:
      break;
  }
  return "multi_tensor_apply_update";
}

constexpr std::array<const char*, 6> kNcclNames{"AllReduce", "ReduceScatter", "AllGather",
                                                "AllToAll",  "Broadcast",     "SendRecv"};
constexpr std::array<const char*, 6> kTorchNames{"allreduce",  "reduce_scatter", "allgather",
                                                 "all_to_all", "broadcast",      "send_recv"};

/// What a rank puts in.
Bytes put_in(const CollectiveSpan& collective) {
  if (collective.kind != CollectiveKind::kAllGather || collective.ranks <= 0) return collective.size;
  return Bytes{collective.size.value() / collective.ranks};
}

/// Work on a stream, and its launch.
struct GpuWork {
  int stream = kComputeStream;
  Nanoseconds start = 0, end = 0;
  std::string name;
  const char* category = "kernel";
  TraceArguments arguments;
  Nanoseconds dispatch_start = 0, dispatched = 0;  // by the host
  std::size_t turn = kLast;                        // of what is dispatched together: the kernel that it comes after
  std::string operation;                           // the host's, empty: none
  bool waits_for_compute = false;                  // for what was launched before on the stream of kernels
  bool is_of_operator = false;                     // that it was dispatched for

  static constexpr std::size_t kLast = std::numeric_limits<std::size_t>::max();
};

}  // namespace

struct KinetoTraces::Activity {
  const Scenario& scenario;
  const RunRecord& record;
  std::vector<WorkerPlace> workers;  // [ranks]
  std::vector<int> ranks;            // recorded
  StepsOfWorkers steps;
  std::map<WorkerPlace, std::vector<KernelSpan>> kernels;
  std::map<WorkerPlace, std::vector<std::vector<StreamedCollective>>> collectives;
  std::map<WorkerPlace, std::vector<MessageSpan>> messages;  // that it sends or receives, but those of collectives
  std::map<WorkerPlace, std::vector<WaitSpan>> waits;

  Activity(const Scenario& scenario_, const RunRecord& record_)
      : scenario{scenario_},
        record{record_},
        steps{record.recorder.steps},
        collectives{collectives_on_streams(record.recorder.collectives)},
        waits{waits_in_order(record.recorder.waits)} {
    for (std::size_t m = 0; m < record.machines.size(); ++m)
      for (int worker = 0; worker < record.machines[m].workers; ++worker) {
        if (record.recorder.scope.covers(static_cast<MachineIndex>(m)))
          ranks.push_back(static_cast<int>(workers.size()));
        workers.emplace_back(static_cast<MachineIndex>(m), worker);
      }
    for (const KernelSpan& kernel : record.recorder.kernels) kernels[{kernel.machine, kernel.gpu}].push_back(kernel);
    for (const MessageSpan& message : record.recorder.messages) {
      if (message.is_of_collective || message.unit < 0 || message.from.machine == message.to.machine) continue;
      for (const Endpoint end : {message.from, message.to})
        if (const int gpu = std::max(end.gpu, 0); gpu < record.machines[static_cast<std::size_t>(end.machine)].workers)
          messages[{end.machine, gpu}].push_back(message);
    }
  }

  OperatorAt operator_of(const KernelSpan& kernel) const {
    const auto group = static_cast<std::size_t>(record.machines[static_cast<std::size_t>(kernel.machine)].group);
    const bool has_own = group < scenario.groups.size() && scenario.groups[group].workload != nullptr;
    const Workload& workload = has_own ? *scenario.groups[group].workload : scenario.workload;
    return workload.graph[static_cast<std::size_t>(kernel.vertex)];
  }

  std::string unit_name(int unit) const { return record.unit_names[static_cast<std::size_t>(unit)]; }
};

namespace {

/// The trace of one rank.
class RankTrace {
 public:
  template <class Activity>
  RankTrace(const Activity& activity, int rank)
      : rank_{rank},
        worker_{activity.workers[static_cast<std::size_t>(rank)]},
        host_{kFirstHostProcess + rank, kHostThread} {
    choose_steps(activity);
    add_kernels(activity);
    add_collectives(activity);
    add_messages(activity);
    if (const auto waits = activity.waits.find(worker_); waits != activity.waits.end()) waits_ = waits->second;
    add_updates(activity);
    add_samples(activity);
    std::ranges::stable_sort(work_, {}, [](const GpuWork& work) { return std::pair{work.dispatched, work.turn}; });
  }

  std::string text(const std::string& gpu, std::size_t ranks) {
    write_names(gpu);
    for (const StepSpan& step : steps_)
      add(host_, "ProfilerStep#" + std::to_string(step.step + 1), "user_annotation", whole_nanoseconds(step.span.start),
          whole_nanoseconds(step.span.end),
          TraceArguments{}.add("update", step.global_step).add("samples", step.samples));
    write_host();
    for (const WaitSpan& wait : waits_)
      if (whole_nanoseconds(wait.span.start) >= from_ && whole_nanoseconds(wait.span.end) <= to_)
        add({host_.process, kWaitThread},
            "waits for " + std::string{kWaitForNames[static_cast<std::size_t>(wait.what)]}, "wait",
            whole_nanoseconds(wait.span.start), whole_nanoseconds(wait.span.end),
            TraceArguments{}.add("step", wait.step));
    std::ranges::stable_sort(slices_, [](const Slice& a, const Slice& b) {
      return a.start < b.start || (a.start == b.start && a.end > b.end);
    });
    for (const Slice& slice : slices_)
      events_.slice(slice.name, slice.category, slice.place, slice.start, slice.end, slice.arguments);
    const TraceArguments device = TraceArguments{}.add("id", worker_.second).add("name", gpu);
    const TraceArguments info =
        TraceArguments{}.add("backend", std::string_view{"nccl"}).add("rank", rank_).add("world_size", ranks);
    return "{\"schemaVersion\":1,\"deviceProperties\":[" + device.text() + "],\"distributedInfo\":" + info.text() +
           ",\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":0,\"traceEvents\":[" + events_.text() + "\n]}\n";
  }

 private:
  struct Slice {
    TraceEvents::Place place;
    std::string name;
    std::string_view category;
    Nanoseconds start, end;
    TraceArguments arguments;
  };

  void add(TraceEvents::Place place, std::string name, std::string_view category, Nanoseconds start, Nanoseconds end,
           TraceArguments arguments = {}) {
    slices_.push_back({place, std::move(name), category, start, end, std::move(arguments)});
  }

  template <class Activity>
  void choose_steps(const Activity& activity) {
    const auto& output = activity.scenario.output;
    const Seconds end = output.timeline_start + output.timeline_length;
    const Seconds recorded_end = std::min(activity.record.recorder.scope.window.end, activity.record.end);
    const std::vector<StepSpan>& all = activity.steps.of(worker_);
    const Seconds rounding = activity.record.end * 1e-12;
    for (const StepSpan& step : all) {
      if (step.span.start + rounding < std::max(output.timeline_start, activity.record.recorder.scope.window.start))
        continue;
      if (!steps_.empty() && step.span.start >= end) break;
      if (step.span.end <= recorded_end + rounding) steps_.push_back(step);
    }
    from_ = whole_nanoseconds(steps_.empty() ? output.timeline_start : steps_.front().span.start);
    to_ = whole_nanoseconds(steps_.empty() ? std::min(end, activity.record.end) : steps_.back().span.end);
  }

  bool is_within(Span span) const {
    return whole_nanoseconds(span.start) >= from_ && whole_nanoseconds(span.end) <= to_;
  }

  template <class Activity>
  void add_kernels(const Activity& activity) {
    const auto kernels = activity.kernels.find(worker_);
    if (kernels == activity.kernels.end()) return;
    for (const KernelSpan& kernel : kernels->second) {
      if (!is_within(kernel.span)) continue;
      const OperatorAt op = activity.operator_of(kernel);
      const Seconds dispatched = kernel.span.start - kernel.queued;
      work_.push_back({.start = whole_nanoseconds(kernel.span.start),
                       .end = whole_nanoseconds(kernel.span.end),
                       .name = kernel_name(op.stored()) + '_' +
                               (op->factor_bits > 0 ? "fp" + std::to_string(op->factor_bits)
                                                    : to_text(activity.scenario.precision)),
                       .arguments = std::move(TraceArguments{}
                                                  .add("operator", op.name())
                                                  .add("FLOPs", op->flops.value())
                                                  .add("bytes", (op->bytes_read + op->bytes_written).value())
                                                  .add("step", activity.steps.at(worker_, kernel.span.start))),
                       .dispatch_start = whole_nanoseconds(dispatched - kernel.dispatch),
                       .dispatched = whole_nanoseconds(dispatched),
                       .operation = op.name(),
                       .is_of_operator = true});
    }
    std::ranges::stable_sort(work_, {}, &GpuWork::start);
    kernels_ = work_.size();
    for (std::size_t i = 0; i < kernels_; ++i) work_[i].turn = i;
  }

  /// The host launches what is ready at `ready` just after the kernel that ends then, for which it waits; if none does,
  /// then.
  void set_launch(GpuWork& work, Nanoseconds ready) const {
    auto after = std::upper_bound(work_.begin(), work_.begin() + static_cast<std::ptrdiff_t>(kernels_), ready + 1,
                                  [](Nanoseconds date, const GpuWork& kernel) { return date < kernel.end; });
    work.waits_for_compute = after != work_.begin() && (--after)->end >= ready - 1;
    work.dispatched = work.waits_for_compute ? after->dispatched : ready;
    work.dispatch_start = work.dispatched;
    if (work.waits_for_compute) work.turn = after->turn;
  }

  template <class Activity>
  void add_collectives(const Activity& activity) {
    const auto streams = activity.collectives.find(worker_);
    if (streams == activity.collectives.end()) return;
    for (std::size_t stream = 0; stream < streams->second.size(); ++stream)
      for (const auto& [collective, span] : streams->second[stream]) {
        if (!is_within(span)) continue;
        const auto kind = static_cast<std::size_t>(collective.kind);
        const std::int64_t bytes = put_in(collective).value();
        const bool is_floats = bytes % 4 == 0;
        GpuWork work{.stream = kCollectiveStreams + static_cast<int>(stream),
                     .start = whole_nanoseconds(span.start),
                     .end = whole_nanoseconds(span.end),
                     .name = std::string{"ncclKernel_"} + kNcclNames[kind],
                     .arguments = std::move(TraceArguments{}
                                                .add("Collective name", std::string_view{kTorchNames[kind]})
                                                .add("In msg nelems", is_floats ? bytes / 4 : bytes)
                                                .add("dtype", std::string_view{is_floats ? "Float" : "Byte"})
                                                .add("Group size", collective.ranks)
                                                .add("bytes", bytes)
                                                .add("unit", activity.unit_name(collective.unit))
                                                .add("step", collective.step)),
                     .operation = std::string{"nccl:"} + kTorchNames[kind]};
        set_launch(work, whole_nanoseconds(collective.span.start));
        work_.push_back(std::move(work));
      }
  }

  template <class Activity>
  void add_messages(const Activity& activity) {
    const auto messages = activity.messages.find(worker_);
    if (messages == activity.messages.end()) return;
    std::map<std::pair<bool, std::pair<MachineIndex, int>>, int> stream_of;
    std::map<int, Nanoseconds> end_of;
    for (const MessageSpan& message : messages->second) {
      const bool sends = message.from.machine == worker_.first && std::max(message.from.gpu, 0) == worker_.second;
      const Endpoint peer = sends ? message.to : message.from;
      const Seconds latency = message.arrival - message.on_wire.end;
      const Span span = sends ? message.on_wire : Span{message.on_wire.start + latency, message.arrival};
      if (!is_within(span)) continue;
      const int stream =
          stream_of.try_emplace({sends, {peer.machine, peer.gpu}}, kMessageStreams + static_cast<int>(stream_of.size()))
              .first->second;
      GpuWork work{
          .stream = stream,
          .start = std::max(whole_nanoseconds(span.start), end_of[stream]),
          .end = whole_nanoseconds(span.end),
          .name = "ncclKernel_SendRecv",
          .arguments = std::move(TraceArguments{}
                                     .add("Collective name", std::string_view{sends ? "send" : "recv"})
                                     .add("bytes", message.size.value())
                                     .add("peer", activity.record.machines[static_cast<std::size_t>(peer.machine)].name)
                                     .add("unit", activity.unit_name(message.unit))
                                     .add("step", message.step)),
          .operation = sends ? "nccl:send" : "nccl:recv"};
      if (work.end < work.start) continue;
      end_of[stream] = work.end;
      work.dispatched = work.dispatch_start = work.start;
      work_.push_back(std::move(work));
    }
  }

  /// The optimizer, by workers that do it themselves: the end of a step.
  template <class Activity>
  void add_updates(const Activity& activity) {
    if (!updates_itself(activity.scenario)) return;
    for (const StepSpan& step : steps_) {
      const Seconds time = std::clamp(activity.record.update_per_step[static_cast<std::size_t>(worker_.first)],
                                      Seconds{}, step.span.end - std::min(step.compute_end, step.span.end));
      if (time == Seconds{}) continue;
      const Nanoseconds start = whole_nanoseconds(step.span.end - time);
      work_.push_back({.start = start,
                       .end = whole_nanoseconds(step.span.end),
                       .name = "multi_tensor_apply_update",
                       .arguments = std::move(TraceArguments{}.add("step", step.step)),
                       .dispatch_start = start,
                       .dispatched = start,
                       .operation = "Optimizer.step"});
    }
  }

  /// Copied to the GPU before the first kernel.
  template <class Activity>
  void add_samples(const Activity& activity) {
    for (const StepSpan& step : steps_) {
      const Nanoseconds length = whole_nanoseconds(step.times.input);
      if (length <= 0) continue;
      const auto first = std::ranges::find_if(work_, [&](const GpuWork& work) {
        return work.is_of_operator && work.dispatch_start >= whole_nanoseconds(step.span.start);
      });
      const Nanoseconds end = first == work_.end() ? whole_nanoseconds(step.span.end) : first->dispatch_start;
      work_.push_back(
          {.stream = kCopyStream,
           .start = end - length,
           .end = end,
           .name = "Memcpy HtoD (Pinned -> Device)",
           .category = "gpu_memcpy",
           .arguments = std::move(
               TraceArguments{}.add("bytes", activity.scenario.workload.input_bytes.value()).add("step", step.step)),
           .dispatch_start = end - length,
           .dispatched = end - length,
           .operation = "aten::copy_"});
    }
  }

  void write_names(const std::string& gpu) {
    const auto name = [&](const char* what, TraceEvents::Place place, const std::string& text) {
      events_.metadata(what, place, TraceArguments{}.add("name", text));
    };
    name("process_name", {host_.process, 0}, "host of rank " + std::to_string(rank_));
    name("thread_name", host_, "trainer");
    name("thread_name", {host_.process, kWaitThread}, "waits");
    name("process_name", {worker_.second, 0}, gpu + " of rank " + std::to_string(rank_));
    std::map<int, std::string> streams;
    for (const GpuWork& work : work_) streams.try_emplace(work.stream, work.name);
    for (const auto& [stream, first] : streams)
      name("thread_name", {worker_.second, stream},
           "stream " + std::to_string(stream) + (stream < kCollectiveStreams ? "" : " communication"));
  }

  /// What the host does: dispatch, launches one after another, and waits for what ends in a silence.
  void write_host() {
    std::vector<Nanoseconds> ends;
    Nanoseconds call_length = kLongestCall;
    for (const GpuWork& work : work_) {
      ends.push_back(work.end);
      if (work.is_of_operator) call_length = std::min(call_length, (work.dispatched - work.dispatch_start) / 2);
    }
    std::ranges::sort(ends);
    for (const GpuWork& work : work_) {
      if (work.dispatch_start > host_end_ + kNoticeable) wait_within(host_end_, work.dispatch_start, ends);
      host_end_ = std::max(host_end_, work.dispatched);
      write_launch(work, call_length);
    }
    wait_within(host_end_, to_, ends);
  }

  /// The host waits for the latest work that ends in its silence.
  void wait_within(Nanoseconds start, Nanoseconds end, const std::vector<Nanoseconds>& ends) {
    const auto after = std::ranges::upper_bound(ends, end);
    if (after == ends.begin() || *std::prev(after) <= start + kNoticeable) return;
    const Nanoseconds called = std::max(start, latest_call_ + 1);
    latest_call_ = called;
    add(host_, "cudaDeviceSynchronize", "cuda_runtime", called, std::max(called, *std::prev(after)),
        TraceArguments{}.add("correlation", ++correlation_));
  }

  Nanoseconds next_call(Nanoseconds wanted) {
    latest_call_ = std::max(wanted, latest_call_ + 1);
    return latest_call_;
  }

  void write_launch(const GpuWork& work, Nanoseconds call_length) {
    if (work.waits_for_compute) {
      const Nanoseconds recorded = next_call(work.dispatched);
      const std::int64_t record = ++correlation_, wait = ++correlation_;
      add(host_, "cudaEventRecord", "cuda_runtime", recorded, recorded, TraceArguments{}.add("correlation", record));
      const Nanoseconds waits = next_call(recorded);
      add(host_, "cudaStreamWaitEvent", "cuda_runtime", waits, waits, TraceArguments{}.add("correlation", wait));
      add({worker_.second, work.stream}, "Stream Wait Event", "cuda_sync", waits, waits,
          TraceArguments{}
              .add("stream", work.stream)
              .add("correlation", wait)
              .add("device", worker_.second)
              .add("wait_on_stream", kComputeStream)
              .add("wait_on_cuda_event_record_corr_id", record));
    }
    const Nanoseconds called = next_call(work.is_of_operator ? work.dispatched - call_length : work.dispatched);
    const Nanoseconds returned = std::max(called, work.dispatched);
    if (!work.operation.empty()) add(host_, work.operation, "cpu_op", std::min(work.dispatch_start, called), returned);
    const bool is_copy = std::string_view{work.category} == "gpu_memcpy";
    add(host_, is_copy ? "cudaMemcpyAsync" : "cudaLaunchKernel", "cuda_runtime", called, returned,
        TraceArguments{}.add("correlation", ++correlation_));
    TraceArguments arguments = work.arguments;
    arguments.add("device", worker_.second).add("stream", work.stream).add("correlation", correlation_);
    add({worker_.second, work.stream}, work.name, work.category, work.start, work.end, std::move(arguments));
  }

  int rank_;
  WorkerPlace worker_;
  TraceEvents::Place host_;
  std::vector<StepSpan> steps_;
  Nanoseconds from_ = 0, to_ = 0;
  std::vector<GpuWork> work_;
  std::size_t kernels_ = 0;  // the first of the work, by start
  std::vector<WaitSpan> waits_;
  std::vector<Slice> slices_;
  TraceEvents events_;
  Nanoseconds host_end_ = 0, latest_call_ = -1;
  std::int64_t correlation_ = 0;
};

}  // namespace

KinetoTraces::KinetoTraces(const Scenario& scenario, const RunRecord& record)
    : activity_{std::make_unique<Activity>(scenario, record)} {}
KinetoTraces::~KinetoTraces() = default;
KinetoTraces::KinetoTraces(KinetoTraces&&) noexcept = default;

const std::vector<int>& KinetoTraces::ranks() const { return activity_->ranks; }

std::string KinetoTraces::text(int rank) const {
  const WorkerPlace worker = activity_->workers[static_cast<std::size_t>(rank)];
  const auto group = static_cast<std::size_t>(activity_->record.machines[static_cast<std::size_t>(worker.first)].group);
  const auto& groups = activity_->scenario.groups;
  const bool is_known = group < groups.size() && groups[group].accelerator;
  return RankTrace{*activity_, rank}.text(is_known ? groups[group].accelerator->name : "GPU",
                                          activity_->workers.size());
}

}  // namespace rehearse
