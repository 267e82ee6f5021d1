// What was recorded as a trace of Chakra.

#include <algorithm>

#include "workloads/traces/chakra_run.hpp"

namespace rehearse {

namespace {

using WorkKind = RecordedOperation::Kind;

std::vector<ChakraAttribute> file_attributes(const RecordedRun& run) {
  std::vector<ChakraAttribute> own;
  const auto add = [&](std::string_view key, ChakraAttribute::Value value) {
    own.push_back(own_attribute(key, std::move(value)));
  };
  add("content", std::string{"recording"});
  add("launch_latency_ns", run.launch_latency);
  add("kernel_gap_ns", run.kernel_gap);
  add("queue_depth", std::int64_t{run.queue_depth});
  add("rank", std::int64_t{run.rank});
  add("world_size", std::int64_t{run.world_size});
  add("gpu", run.gpu);
  add("threads", run.threads);
  add("streams", run.streams);
  add("remarks", run.remarks);
  std::vector<std::string> steps;
  std::vector<std::int64_t> dates;
  for (const RecordedStep& step : run.steps) {
    steps.push_back(step.name);
    dates.insert(dates.end(), {step.recorded_start, step.recorded_end});
  }
  if (!steps.empty()) {
    add("steps", std::move(steps));
    add("step_dates_ns", std::move(dates));
  }
  std::vector<std::int64_t> gradients;
  for (const RecordedGradient& gradient : run.gradients)
    gradients.insert(gradients.end(), {gradient.after, gradient.recorded, gradient.bytes});
  if (!gradients.empty()) {
    add("gradients", std::move(gradients));
    add("backward_thread", std::int64_t{run.backward_thread});
  }
  return own;
}

void add_collective(const RecordedRun& run, std::int32_t index, ChakraNode& node) {
  const RecordedCollective& collective = run.collectives[static_cast<std::size_t>(index)];
  const auto work = static_cast<std::int64_t>(collective.work);
  const bool has_number = work >= 0 && work < kCollectiveWorks;
  node.type = ChakraType::kCollective;
  node.bytes = collective.bytes;
  node.group = collective.group;
  if (has_number) node.comm_type = work;
  if (!has_number) node.own.push_back(own_attribute("work", work));
  if (collective.ranks > 0) node.own.push_back(own_attribute("ranks", std::int64_t{collective.ranks}));
  node.own.push_back(own_attribute("collective", std::int64_t{index}));
}

}  // namespace

ChakraTrace chakra_trace(const RecordedRun& run) {
  ChakraTrace trace{.file_name = run.file_name, .names = run.names, .groups = run.groups, .own = file_attributes(run)};
  const auto host = std::ranges::find(trace.names, "host work") - trace.names.begin();
  if (host == std::ssize(trace.names)) trace.names.emplace_back("host work");
  for (std::size_t i = 0; i < run.operations.size(); ++i) {
    const RecordedOperation& operation = run.operations[i];
    const bool is_on_gpu = operation.kind == WorkKind::kGpu;
    ChakraNode node{.id = i,
                    .name = operation.name < 0 ? static_cast<std::int32_t>(host) : operation.name,
                    .type = ChakraType::kCompute,
                    .is_on_cpu = !is_on_gpu,
                    .start = run.has_dates ? operation.recorded_start : kNotRecorded,
                    .duration = operation.duration};
    (is_on_gpu ? node.stream : node.thread) = operation.lane;
    const auto add = [&](std::string_view key, std::int64_t value) { node.own.push_back(own_attribute(key, value)); };
    if (operation.name < 0) add("is_nameless", 1);
    if (operation.is_idle) add("is_idle", 1);
    if (run.has_dates && operation.recorded_end != operation.recorded_start + operation.duration)
      add("end_ns", operation.recorded_end);
    if (operation.step >= 0) add("step", operation.step);
    if (static_cast<std::int32_t>(i) == run.end_of_steps) add("ends_steps", 1);
    if (operation.collective >= 0) add_collective(run, operation.collective, node);
    const KernelClass expected = operation.collective >= 0
                                     ? KernelClass::kCollective
                                     : kernel_class(trace.names[static_cast<std::size_t>(node.name)]);
    if (is_on_gpu && operation.kernel != expected) add("kernel_class", static_cast<std::int64_t>(operation.kernel));
    std::vector<std::int64_t> reasons;
    for (const Dependency& dependency : run.waits_of(static_cast<std::int32_t>(i))) {
      node.data_deps.push_back(static_cast<std::uint64_t>(dependency.earlier));
      reasons.push_back(static_cast<std::int64_t>(dependency.reason));
    }
    if (!reasons.empty()) node.own.push_back(own_attribute("reasons", std::move(reasons)));
    trace.nodes.push_back(std::move(node));
  }
  return trace;
}

}  // namespace rehearse
