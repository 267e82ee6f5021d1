#include "workloads/traces/chakra_run.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <unordered_map>
#include <utility>

#include "workloads/traces/detail/chakra_checks.hpp"
#include "workloads/traces/detail/circle.hpp"
#include "workloads/traces/detail/interned.hpp"
#include "workloads/traces/detail/wait_budget.hpp"

namespace rehearse {

namespace {

using OperationIndex = std::int32_t;
using Reason = Dependency::Reason;
using WorkKind = RecordedOperation::Kind;

template <class Index>
std::size_t at(Index index) {
  return static_cast<std::size_t>(index);
}

bool is_communication(const ChakraNode& node) {
  return !node.is_on_cpu &&
         (node.type == ChakraType::kCollective || node.type == ChakraType::kSend || node.type == ChakraType::kReceive);
}

class NodeRunBuilder {
 public:
  explicit NodeRunBuilder(const ChakraTrace& trace)
      : trace_{trace},
        is_own_{is_content(trace, "recording")},
        run_{.file_name = trace.file_name, .names = trace.names, .groups = trace.groups, .has_rank = false} {
    run_.world_size = trace.world_size;
    has_threads_ = has_streams_ = is_content(trace, "program");  // what names none is on none
    read_rank();
  }

  RecordedRun build() {
    find_nodes();
    for (OperationIndex node = 0; at(node) < trace_.nodes.size(); ++node) add_waits(node);
    order_nodes();
    find_dates();
    if (is_own_) read_own();
    for (const OperationIndex node : order_) add(node);
    check_steps();
    add_dependencies();
    remark();
    return std::move(run_);
  }

 private:
  static bool is_content(const ChakraTrace& trace, std::string_view expected) {
    const auto* content = own_value<std::string>(trace.own, "content");
    return content != nullptr && *content == expected;
  }
  std::int64_t whole(std::string_view key, std::int64_t otherwise, std::int64_t most) const {
    const auto* value = own_value<std::int64_t>(trace_.own, key);
    return value == nullptr ? otherwise : std::clamp<std::int64_t>(*value, 0, most);
  }
  void read_rank() {
    run_.has_rank = own_value<std::int64_t>(trace_.own, "rank") != nullptr;
    run_.rank = static_cast<int>(whole("rank", 0, kMostRanks));
    run_.world_size = static_cast<int>(whole("world_size", run_.world_size, kMostRanks));
  }

  const ChakraNode& node_at(OperationIndex node) const { return trace_.nodes[at(node)]; }
  const std::string& name(OperationIndex node) const { return trace_.names[at(node_at(node).name)]; }
  [[noreturn]] void refuse(OperationIndex node, const std::string& what) const {
    throw InputError{trace_.file_name + ": " + node_text(node_at(node).id, name(node)) + ": " + what};
  }

  void find_nodes() {
    for (OperationIndex node = 0; at(node) < trace_.nodes.size(); ++node) {
      const auto [entry, is_new] = place_of_.try_emplace(node_at(node).id, node);
      if (!is_new) refuse(node, "has the id of " + in_quotes(name(entry->second), 80));
    }
  }

  void add_waits(OperationIndex node) {
    const auto add = [&](std::uint64_t id, const std::string& key) {
      const auto earlier = place_of_.find(id);
      if (earlier == place_of_.end()) refuse(node, key + ": node " + std::to_string(id) + " is not in the file");
      if (earlier->second == node) refuse(node, key + ": waits for itself");
      waits_.push_back({earlier->second, node, Reason::kThread});
    };
    const std::size_t first = waits_.size();
    for (const std::uint64_t id : node_at(node).data_deps) add(id, "data_deps");
    if (trace_.ctrl_deps_are_calls)
      calls_ += static_cast<std::int64_t>(node_at(node).ctrl_deps.size());
    else
      for (const std::uint64_t id : node_at(node).ctrl_deps) add(id, "ctrl_deps");
    const auto begin = waits_.begin() + static_cast<std::ptrdiff_t>(first);
    const auto earlier = [](const Dependency& a, const Dependency& b) { return a.earlier == b.earlier; };
    if (is_own_) return;  // two reasons to wait for the same are two dependencies
    std::sort(begin, waits_.end(), [](const Dependency& a, const Dependency& b) { return a.earlier < b.earlier; });
    waits_.erase(std::unique(begin, waits_.end(), earlier), waits_.end());
  }

  /// Each after what it waits for; of those that could come next the one with the lowest id.
  void order_nodes() {
    std::vector<std::vector<OperationIndex>> after(trace_.nodes.size());
    std::vector<int> waits(trace_.nodes.size());
    for (const Dependency& wait : waits_) {
      after[at(wait.earlier)].push_back(wait.later);
      ++waits[at(wait.later)];
    }
    using Next = std::pair<std::uint64_t, OperationIndex>;
    std::priority_queue<Next, std::vector<Next>, std::greater<>> ready;
    for (OperationIndex node = 0; at(node) < waits.size(); ++node)
      if (waits[at(node)] == 0) ready.emplace(node_at(node).id, node);
    while (!ready.empty()) {
      const OperationIndex node = ready.top().second;
      ready.pop();
      order_.push_back(node);
      for (const OperationIndex later : after[at(node)])
        if (--waits[at(later)] == 0) ready.emplace(node_at(later).id, later);
    }
    if (order_.size() == waits.size()) return;
    std::string text;
    for (const OperationIndex node : circle_of(waits_, waits))
      text += (text.empty() ? "" : " waits for ") + node_text(node_at(node).id, name(node));
    throw InputError{trace_.file_name + ": nodes wait for each other in a circle: " + text};
  }

  void find_dates() {
    std::size_t dated = 0, timed = 0;
    for (const ChakraNode& node : trace_.nodes) {
      dated += node.start != kNotRecorded ? 1 : 0;
      timed += node.duration != kNotRecorded ? 1 : 0;
      has_threads_ = has_threads_ || node.thread >= 0;
      has_streams_ = has_streams_ || node.stream >= 0;
    }
    run_.has_dates = dated > 0 && dated >= timed;
    untimed_ = static_cast<std::int64_t>(trace_.nodes.size() - timed);
    if (!run_.has_dates)
      run_.remarks.push_back(dated == 0 ? "no dates are recorded, only durations"
                                        : std::to_string(dated) + " of " + std::to_string(trace_.nodes.size()) +
                                              " nodes have a date: taken as if none had");
  }

  /// A date of the recording's own attributes: as late as that of any node, with the longest duration behind it.
  std::int64_t own_date(std::string_view key, std::int64_t date) const {
    constexpr std::int64_t kMost = (kLatestMicroseconds + kLongestMicroseconds) * 1000;
    if (date < -kMost || date > kMost)
      throw InputError{trace_.file_name + ": rehearse." + std::string{key} + ": expected nanoseconds from " +
                       std::to_string(-kMost) + " to " + std::to_string(kMost) + "; found " + std::to_string(date)};
    return date;
  }

  void read_own() {
    constexpr std::int64_t kLongest = kLongestMicroseconds * 1000, kDeepest = 1'000'000;
    run_.launch_latency = whole("launch_latency_ns", 0, kLongest);
    run_.kernel_gap = whole("kernel_gap_ns", 0, kLongest);
    run_.queue_depth = static_cast<int>(whole("queue_depth", 0, kDeepest));
    if (const auto* gpu = own_value<std::string>(trace_.own, "gpu")) run_.gpu = *gpu;
    const auto texts = [&](std::string_view key, std::vector<std::string>& list) {
      if (const auto* value = own_value<std::vector<std::string>>(trace_.own, key)) list = *value;
    };
    texts("threads", run_.threads);
    texts("streams", run_.streams);
    texts("remarks", run_.remarks);
    read_gradients();
    std::vector<std::string> steps;
    texts("steps", steps);
    const auto* dates = own_value<std::vector<std::int64_t>>(trace_.own, "step_dates_ns");
    if (dates == nullptr || dates->size() != 2 * steps.size()) return;
    for (std::size_t s = 0; s < steps.size(); ++s)
      run_.steps.push_back(
          {steps[s], own_date("step_dates_ns", (*dates)[2 * s]), own_date("step_dates_ns", (*dates)[2 * s + 1])});
  }

  /// Operation, date and bytes of each.
  void read_gradients() {
    const auto* values = own_value<std::vector<std::int64_t>>(trace_.own, "gradients");
    if (values == nullptr) return;
    const auto operations = static_cast<std::int64_t>(trace_.nodes.size());
    for (std::size_t i = 0; i + 3 <= values->size(); i += 3) {
      const std::int64_t after = (*values)[i];
      if (after < 0 || after >= operations)
        throw InputError{trace_.file_name + ": rehearse.gradients: expected operations below " +
                         std::to_string(operations) + "; found " + std::to_string(after)};
      run_.gradients.push_back({static_cast<OperationIndex>(after), (*values)[i + 1], (*values)[i + 2]});
    }
    if (!run_.threads.empty())
      run_.backward_thread = static_cast<std::int32_t>(whole("backward_thread", -1, std::ssize(run_.threads) - 1));
  }

  /// The number of the thread or stream among those of the run, which has all of them.
  std::int32_t own_lane(OperationIndex node, std::int64_t number, std::string_view key,
                        const std::vector<std::string>& lanes) const {
    if (number < 0 || number >= static_cast<std::int64_t>(lanes.size()))
      refuse(node, std::string{key} + ": expected a number below " + std::to_string(lanes.size()) + "; found " +
                       std::to_string(number));
    return static_cast<std::int32_t>(number);
  }

  void set_lane(OperationIndex node, RecordedOperation& operation) {
    const ChakraNode& from = node_at(node);
    const bool is_on_gpu = operation.kind == WorkKind::kGpu;
    if (is_own_) {
      operation.lane = is_on_gpu ? own_lane(node, from.stream, "stream", run_.streams)
                                 : own_lane(node, from.thread, "tid", run_.threads);
      return;
    }
    if (is_on_gpu) {
      const std::string kind = is_communication(from) ? "communication" : "computation";
      operation.lane = streams_(from.stream >= 0 ? std::to_string(from.stream) : kind);
    } else {
      operation.lane = threads_(from.thread >= 0 ? std::to_string(from.thread) : "host");
    }
  }

  KernelClass kernel_class_of(OperationIndex node) {
    if (is_communication(node_at(node))) return KernelClass::kCollective;
    const ChakraType type = node_at(node).type;
    if (type == ChakraType::kLoad || type == ChakraType::kStore) return KernelClass::kCopy;
    const auto [kernel, is_new] = class_of_name_.try_emplace(node_at(node).name);
    if (is_new) kernel->second = kernel_class(name(node));
    return kernel->second;
  }

  void add(OperationIndex node) {
    const ChakraNode& from = node_at(node);
    const bool is_on_gpu = !from.is_on_cpu && from.type != ChakraType::kMetadata && from.type != ChakraType::kInvalid;
    RecordedOperation operation{.kind = is_on_gpu ? WorkKind::kGpu : WorkKind::kHost,
                                .name = from.name,
                                .duration = from.duration == kNotRecorded ? 0 : from.duration};
    if (is_on_gpu) operation.kernel = kernel_class_of(node);
    set_lane(node, operation);
    if (run_.has_dates && from.start != kNotRecorded) {
      operation.recorded_start = from.start;
      operation.recorded_end = from.start + operation.duration;
    }
    if (is_communication(from)) {
      operation.collective = static_cast<std::int32_t>(run_.collectives.size());
      run_.collectives.push_back(collective(node));
    }
    if (is_own_) set_own(node, operation);
    run_.operations.push_back(operation);
  }

  RecordedCollective collective(OperationIndex node) {
    const ChakraNode& from = node_at(node);
    RecordedCollective found{
        .operation = static_cast<OperationIndex>(run_.operations.size()), .bytes = from.bytes, .group = from.group};
    if (from.type == ChakraType::kCollective) {
      const bool is_known = from.comm_type >= 0 && from.comm_type < kCollectiveWorks;
      found.work = is_known ? static_cast<CollectiveWork>(from.comm_type) : collective_work(name(node));
      return found;
    }
    // A message is met by the other of its two ranks alone.
    found.work = CollectiveWork::kMessage;
    const auto text = [](std::int64_t number) { return number < 0 ? std::string{"?"} : std::to_string(number); };
    found.group =
        groups_("message from " + text(from.source) + " to " + text(from.destination) + ", tag " + text(from.tag));
    return found;
  }

  void set_own(OperationIndex node, RecordedOperation& operation) {
    const std::vector<ChakraAttribute>& own = node_at(node).own;
    const auto whole = [&](std::string_view key) { return own_value<std::int64_t>(own, key); };
    if (whole("is_nameless") != nullptr && operation.kind == WorkKind::kHost) operation.name = -1;
    operation.is_idle = whole("is_idle") != nullptr;
    if (const auto* end = whole("end_ns")) operation.recorded_end = own_date("end_ns", *end);
    const auto* step = whole("step");
    if (step != nullptr && *step >= 0 && *step < static_cast<std::int64_t>(run_.steps.size()) &&
        operation.kind == WorkKind::kHost)
      operation.step = static_cast<std::int32_t>(*step);
    if (whole("ends_steps") != nullptr && operation.kind == WorkKind::kHost)
      run_.end_of_steps = static_cast<OperationIndex>(run_.operations.size());
    if (const auto* kernel = whole("kernel_class");
        kernel != nullptr && *kernel >= 0 && *kernel < static_cast<std::int64_t>(kKernelClassNames.size()))
      operation.kernel = static_cast<KernelClass>(*kernel);
    if (operation.collective < 0) return;
    RecordedCollective& collective = run_.collectives.back();
    if (const auto* ranks = whole("ranks"); ranks != nullptr && *ranks > 0 && *ranks <= kMostRanks)
      collective.ranks = static_cast<std::int32_t>(*ranks);
    if (const auto* work = whole("work"))
      collective.work = *work == static_cast<std::int64_t>(CollectiveWork::kMessage) ? CollectiveWork::kMessage
                                                                                     : CollectiveWork::kOther;
  }

  void check_steps() const {
    std::vector<bool> begins(run_.steps.size());
    for (const RecordedOperation& operation : run_.operations)
      if (operation.step >= 0) begins[at(operation.step)] = true;
    if (run_.steps.empty() || (run_.end_of_steps >= 0 && std::ranges::find(begins, false) == begins.end())) return;
    throw InputError{trace_.file_name + ": rehearse.steps: no node begins each of them, or ends the last"};
  }

  static Reason reason(const RecordedOperation& earlier, const RecordedOperation& later) {
    if (later.kind == WorkKind::kHost) return earlier.kind == WorkKind::kHost ? Reason::kThread : Reason::kSync;
    if (earlier.kind == WorkKind::kHost) return Reason::kLaunch;
    return earlier.lane == later.lane ? Reason::kStream : Reason::kEvent;
  }

  void add_dependencies() {
    std::vector<OperationIndex> place(order_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) place[at(order_[i])] = static_cast<OperationIndex>(i);
    std::vector<std::size_t> nth(order_.size());  // dependencies of the node so far
    for (const Dependency& wait : waits_) {
      Dependency dependency{place[at(wait.earlier)], place[at(wait.later)]};
      dependency.reason = reason(run_.operations[at(dependency.earlier)], run_.operations[at(dependency.later)]);
      const std::size_t n = nth[at(wait.later)]++;
      if (const auto* own = own_value<std::vector<std::int64_t>>(node_at(wait.later).own, "reasons");
          own != nullptr && n < own->size() && (*own)[n] >= 0 &&
          (*own)[n] < static_cast<std::int64_t>(kReasonNames.size()))
        dependency.reason = static_cast<Reason>((*own)[n]);
      run_.dependencies.push_back(dependency);
    }
    if (!is_own_) {
      add_threads();
      add_waits_of_collectives();
    }
    std::ranges::sort(run_.dependencies, {}, [](const Dependency& d) {
      return std::tuple{d.later, d.earlier, d.reason};
    });
    if (is_own_) {
      put_collectives_in_order();
      return;
    }
    run_.dependencies.erase(std::unique(run_.dependencies.begin(), run_.dependencies.end()), run_.dependencies.end());
  }

  /// What a thread does comes one after the other.
  void add_threads() {
    std::map<std::int32_t, OperationIndex> latest;
    for (OperationIndex i = 0; at(i) < run_.operations.size(); ++i) {
      const ChakraNode& node = node_at(order_[at(i)]);
      if (run_.operations[at(i)].kind != WorkKind::kHost || (has_threads_ && node.thread < 0) ||
          node.type == ChakraType::kMetadata)
        continue;
      const auto [before, is_first] = latest.try_emplace(run_.operations[at(i)].lane, i);
      if (is_first) continue;
      run_.dependencies.push_back({before->second, i, Reason::kThread});
      before->second = i;
    }
  }

  /// The call that launches each kernel; -1 if none is stated.
  std::vector<OperationIndex> launches() const {
    std::vector<OperationIndex> calls(run_.operations.size(), -1);
    for (const Dependency& wait : run_.dependencies)
      if (wait.reason == Reason::kLaunch) calls[at(wait.later)] = std::max(calls[at(wait.later)], wait.earlier);
    return calls;
  }

  /// A collective that waits for no kernel waits for what was launched before it on each other stream: frameworks make
  /// its stream wait for that of the computation before they launch it (PyTorch's ProcessGroupNCCL, syncStream()). Where
  /// dates are recorded, for what had ended when it began.
  void add_waits_of_collectives() {
    const std::vector<OperationIndex> calls = launches();
    std::vector<bool> is_stated(run_.operations.size());
    for (const Dependency& wait : run_.dependencies)
      if (run_.operations[at(wait.earlier)].kind == WorkKind::kGpu &&
          run_.operations[at(wait.earlier)].lane != run_.operations[at(wait.later)].lane)
        is_stated[at(wait.later)] = true;
    const auto launched = [&](OperationIndex i) { return calls[at(i)] >= 0 ? calls[at(i)] : i; };
    std::map<std::int32_t, std::vector<OperationIndex>> kernels;  // [streams]
    WaitBudget budget{trace_.file_name, run_.operations.size()};
    for (OperationIndex i = 0; at(i) < run_.operations.size(); ++i) {
      const RecordedOperation& operation = run_.operations[at(i)];
      if (operation.kind != WorkKind::kGpu) continue;
      if (operation.collective < 0) {
        kernels[operation.lane].push_back(i);
        continue;
      }
      if (is_stated[at(i)]) continue;
      bool waits = false;
      for (const auto& [stream, list] : kernels) {
        if (stream == operation.lane) continue;
        const auto is_before = [&](OperationIndex k) {
          budget.take_one();
          return launched(k) < launched(i) &&
                 (!run_.has_dates || run_.operations[at(k)].recorded_end <= operation.recorded_start);
        };
        const auto latest = std::find_if(list.rbegin(), list.rend(), is_before);
        if (latest == list.rend()) continue;
        run_.dependencies.push_back({*latest, i, Reason::kEvent});
        waits = true;
      }
      inferred_ += waits ? 1 : 0;
    }
  }

  void put_collectives_in_order() {
    std::vector<std::pair<std::int64_t, RecordedCollective>> numbered;
    for (const RecordedCollective& collective : run_.collectives) {
      const auto* number = own_value<std::int64_t>(node_at(order_[at(collective.operation)]).own, "collective");
      numbered.emplace_back(number == nullptr ? 0 : *number, collective);
    }
    std::ranges::stable_sort(numbered, {}, &std::pair<std::int64_t, RecordedCollective>::first);
    for (std::size_t i = 0; i < numbered.size(); ++i) {
      run_.collectives[i] = numbered[i].second;
      run_.operations[at(numbered[i].second.operation)].collective = static_cast<std::int32_t>(i);
    }
  }

  void remark() {
    if (is_own_) return;
    if (run_.world_size == 0 && !run_.collectives.empty())
      run_.remarks.emplace_back("the number of ranks is not recorded");
    const auto say = [&](std::int64_t count, const std::string& text) {
      if (count > 0) run_.remarks.push_back(std::to_string(count) + ' ' + text);
    };
    if (is_content(trace_, "program")) {
      run_.remarks.emplace_back("a program: its copies, messages and collectives have no duration, and take none");
      return;
    }
    say(untimed_, "of " + std::to_string(trace_.nodes.size()) +
                      " nodes have no duration, or one below a microsecond: they take none");
    say(inferred_,
        "collectives state no kernel for which they wait: taken as for what was launched before them on other streams, "
        "as "
        "PyTorch's ProcessGroupNCCL does; what waits for their results is not recorded");
    say(calls_, "control dependencies are calls of PyTorch's operators: nobody waits for them");
    if (!has_threads_) run_.remarks.emplace_back("no thread is recorded: the host does one thing after the other");
    if (!has_streams_)
      run_.remarks.emplace_back("no stream is recorded: one is taken for computation, one for communication");
  }

  const ChakraTrace& trace_;
  bool is_own_;  // by chakra_trace()
  RecordedRun run_;
  Interned threads_{run_.threads}, streams_{run_.streams}, groups_{run_.groups};
  std::unordered_map<std::uint64_t, OperationIndex> place_of_;  // in ChakraTrace::nodes
  std::unordered_map<std::int32_t, KernelClass> class_of_name_;
  std::vector<Dependency> waits_;      // of nodes
  std::vector<OperationIndex> order_;  // [operations] their node
  std::int64_t calls_ = 0, untimed_ = 0, inferred_ = 0;
  bool has_threads_ = false, has_streams_ = false;
};

}  // namespace

RecordedRun recorded_run(const ChakraTrace& trace) { return NodeRunBuilder{trace}.build(); }

}  // namespace rehearse
