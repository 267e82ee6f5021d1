#pragma once
// A program that was written as a trace of Chakra, read back.

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/program/program.hpp"
#include "workloads/traces/chakra.hpp"

namespace rehearse::test {

/// An operation from the values that the node has.
inline Operation read_operation(const ChakraNode& node) {
  Operation operation;
  const auto whole = [&](std::string_view key, auto& value) {
    if (const auto* stated = own_value<std::int64_t>(node.own, key))
      value = static_cast<std::remove_reference_t<decltype(value)>>(*stated);
  };
  const auto time = [&](std::string_view key, Seconds& value) {
    if (const auto* stated = own_value<double>(node.own, key)) value = Seconds{*stated};
  };
  whole("kind", operation.kind);
  whole("collective", operation.collective);
  whole("work", operation.work);
  whole("scope", operation.scope);
  whole("signal_scope", operation.signal_scope);
  whole("is_collected", operation.is_collected);
  whole("is_event", operation.is_event);
  whole("resource", operation.resource);
  whole("label", operation.label);
  whole("priority", operation.priority);
  whole("signals", operation.signals);
  whole("lag", operation.lag);
  whole("each", operation.each);
  whole("parts", operation.parts);
  time("host_s", operation.host);
  time("time_s", operation.time);
  time("critical_s", operation.critical);
  time("first_host_s", operation.first_host);
  time("memory_s", operation.memory);
  if (const auto* bytes = own_value<std::int64_t>(node.own, "bytes")) operation.bytes = Bytes{*bytes};
  return operation;
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
    CHECK(node.id == builder.program().operations.size());
    builder.add(read_operation(node));
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
  program.labels = *own_value<std::vector<std::string>>(trace.own, "labels");
  return program;
}

}  // namespace rehearse::test
