#pragma once
// A program that was written as a trace of Chakra, read back.

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/program/program.hpp"
#include "workloads/traces/chakra.hpp"

namespace rehearse::test {

/// An operation, and what it signals, from the values that the node has.
inline Node read_operation(const ChakraNode& node) {
  const auto whole = [&](std::string_view key, int otherwise = 0) {
    const auto* stated = own_value<std::int64_t>(node.own, key);
    return stated == nullptr ? otherwise : static_cast<int>(*stated);
  };
  const auto time = [&](std::string_view key) {
    const auto* stated = own_value<double>(node.own, key);
    return Seconds{stated == nullptr ? 0 : *stated};
  };
  const auto* size = own_value<std::int64_t>(node.own, "bytes");
  const Bytes bytes{size == nullptr ? 0 : *size};
  const int resource = whole("resource"), label = whole("label"), priority = whole("priority"), lag = whole("lag");
  const int parts = whole("parts", 1), scope = whole("scope"), signals = whole("signals", -1);
  const bool is_event = whole("is_event") != 0;
  const auto counter_scope = [](int number) { return static_cast<CounterScope>(number); };
  const auto operation = [&]() -> Operation {
    switch (whole("kind", -1)) {
      case 0:
        return Delay{is_event, time("time_s")};
      case 1:
        return Copy{static_cast<CopyDirection>(resource), label, priority, bytes};
      case 2:
        return BeginKernels{};
      case 3:
        CHECK(time("critical_s") == time("host_s") + time("time_s"));
        return Compute{resource,        whole("is_dispatched_ahead") != 0, label, time("host_s"), time("time_s"),
                       time("memory_s")};
      case 4:
        return Send{resource, label, priority, whole("is_collected") != 0, bytes};
      case 5:
        return Notify{resource, is_event};
      case 6:
        if (whole("work") == 0) return ReadVariable{resource, label, time("time_s")};
        if (whole("work") == 2) return AddGradient{label, parts, time("time_s")};
        return ApplyGradient{resource, label, parts, signals, false, is_event, time("time_s"), time("host_s")};
      case 7:
        return Fetch{label, bytes};
      case 8:
        return Collective{static_cast<CollectiveKind>(whole("collective")), resource, label, priority, bytes};
      case 9:
        if (scope == 3) return StepsGate{lag};
        return Gate{counter_scope(scope), resource, lag, whole("each", 1)};
      case 10:
        return Update{};
      case 11:
        return Fence{};
      default:
        CHECK(whole("kind") == 12);
        return NextStep{};
    }
  }();
  Node read{.operation = operation};
  if (std::holds_alternative<ApplyGradient>(operation))
    CHECK((signals < 0 || counter_scope(whole("signal_scope")) == CounterScope::kAll));
  else if (signals >= 0)
    read.signal = Signal{counter_scope(whole("signal_scope")), signals};
  return read;
}

/// The program of a worker's trace, by its data dependencies. Those of a kernel may be those of its dispatch.
inline Program read_program(const ChakraTrace& trace) {
  ProgramBuilder builder;
  using Edge = std::pair<std::int64_t, OperationIndex>;  // place among what waits for the same, and what waits
  std::vector<std::vector<Edge>> after;
  const auto nodes_with = [&](auto visit) {
    for (const ChakraNode& node : trace.nodes)
      if (own_value<std::int64_t>(node.own, "kind") != nullptr) visit(node);
  };
  nodes_with([&](const ChakraNode& node) {
    CHECK(node.id == at(builder.next()));
    const Node read = read_operation(node);
    builder.add(read.operation, read.signal);
    after.emplace_back();
  });
  nodes_with([&](const ChakraNode& node) {
    const auto* places = own_value<std::vector<std::int64_t>>(node.own, "places");
    if (places == nullptr) return;
    const std::vector<std::uint64_t>* needs = &node.data_deps;
    if (needs->size() == 1 && needs->front() >= after.size())
      needs = &std::ranges::find(trace.nodes, needs->front(), &ChakraNode::id)->data_deps;
    REQUIRE(needs->size() == places->size());
    for (std::size_t i = 0; i < needs->size(); ++i)
      after[(*needs)[i]].emplace_back((*places)[i], static_cast<OperationIndex>(node.id));
  });
  for (std::size_t earlier = 0; earlier < after.size(); ++earlier) {
    std::ranges::sort(after[earlier]);
    for (const auto& [place, later] : after[earlier]) builder.order(static_cast<OperationIndex>(earlier), later);
  }
  Program program = builder.finish();
  const auto* stretches = own_value<std::vector<std::int64_t>>(trace.own, "stretches");
  REQUIRE(stretches != nullptr);
  for (std::size_t i = 0; i + 4 <= stretches->size(); i += 4) {
    const auto stream = static_cast<std::size_t>((*stretches)[i]);
    if (program.streams.size() <= stream) program.streams.resize(stream + 1);
    program.streams[stream].push_back({static_cast<OperationIndex>((*stretches)[i + 1]),
                                       static_cast<OperationIndex>((*stretches)[i + 2]), (*stretches)[i + 3]});
  }
  const auto whole = [&](std::string_view key) { return static_cast<int>(*own_value<std::int64_t>(trace.own, key)); };
  program.counters = whole("counters");
  program.common_counters = whole("common_counters");
  program.has_variables = whole("has_variables");
  program.awaits_samples = whole("awaits_samples");
  program.copies_samples = whole("copies_samples");
  program.labels = *own_value<std::vector<std::string>>(trace.own, "labels");
  return program;
}

}  // namespace rehearse::test
