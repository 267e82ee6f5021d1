// Programs as traces of Chakra: what is written says the same, and ranks agree on what they exchange.

#include "sim/training/chakra_program.hpp"

#include <doctest/doctest.h>

#include <map>
#include <sstream>
#include <tuple>

#include "sim/base/overloaded.hpp"
#include "tests/support/chakra_program.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/random_scenario.hpp"
#include "tests/support/timed_cluster.hpp"
#include "workloads/traces/chakra_run.hpp"
#include "workloads/traces/recorded_job.hpp"

namespace rehearse {

namespace {

bool is_pairwise(const Scenario& scenario) { return scenario.training.strategy.kind->exchanges_models(); }

template <class... Fields>
std::string written(const Fields&... fields) {
  std::ostringstream text;
  [[maybe_unused]] const auto add = [&](const auto& field) {
    if constexpr (requires { field.value(); })
      text << field.value() << ' ';
    else
      text << static_cast<int>(field) << ' ';
  };
  text << std::hexfloat;
  (add(fields), ...);
  return text.str();
}

/// All fields that a trace states.
std::string values(const Node& node) {
  const Signal signal = node.signal.value_or(Signal{CounterScope::kWorker, -1});
  return std::to_string(node.operation.index()) + ": " +
         written(signal.scope, signal.counter, node.needs, node.first_after, node.last_after) +
         std::visit(
             Overloaded{
                 [](const Delay& o) { return written(o.is_event, o.time); },
                 [](const Copy& o) { return written(o.direction, o.label, o.priority, o.bytes); },
                 [](const Compute& o) { return written(o.stream, o.label, o.host, o.time, o.memory); },
                 [](const Send& o) { return written(o.connection, o.label, o.priority, o.is_collected, o.bytes); },
                 [](const Notify& o) { return written(o.connection, o.is_event); },
                 [](const ReadVariable& o) { return written(o.server, o.label, o.time); },
                 [](const ApplyGradient& o) {
                   return written(o.server, o.label, o.parts, o.counter, o.is_event, o.time, o.update);
                 },
                 [](const AddGradient& o) { return written(o.label, o.parts, o.time); },
                 [](const Fetch& o) { return written(o.label, o.bytes); },
                 [](const Collective& o) { return written(o.kind, o.group, o.label, o.priority, o.bytes); },
                 [](const Gate& o) { return written(o.scope, o.counter, o.lag, o.each); },
                 [](const StepsGate& o) { return written(o.lag); },
                 [](const OneOf<BeginKernels, Chain, Update, Fence, NextStep> auto&) { return written(); }},
             node.operation);
}

void check_equal(const Program& a, const Program& b) {
  CHECK(std::ranges::equal(a.nodes, b.nodes, {}, values, values));
  CHECK(a.after == b.after);
  CHECK(a.first == b.first);
  CHECK(a.labels == b.labels);
  CHECK(a.counters == b.counters);
  CHECK(a.common_counters == b.common_counters);
  CHECK(a.has_variables == b.has_variables);
  CHECK(a.awaits_samples == b.awaits_samples);
  CHECK(a.copies_samples == b.copies_samples);
  REQUIRE(a.streams.size() == b.streams.size());
  for (std::size_t s = 0; s < a.streams.size(); ++s) {
    REQUIRE(a.streams[s].size() == b.streams[s].size());
    for (std::size_t i = 0; i < a.streams[s].size(); ++i) {
      const Stretch &x = a.streams[s][i], &y = b.streams[s][i];
      CHECK(std::tuple{x.begin, x.end, x.repeat} == std::tuple{y.begin, y.end, y.repeat});
    }
  }
}

/// All ranks, after they were written and read, with what was checked of each.
std::vector<ChakraTrace> exported(ExportedStep& programs) {
  std::vector<ChakraTrace> traces;
  for (int rank = 0; rank < programs.compiler.ranks(); ++rank) {
    const std::string written = chakra_et_bytes(chakra_trace(programs, rank));
    traces.push_back(parse_chakra_et(written, "t.et"));
    const bool is_same = chakra_et_bytes(traces.back()) == written;
    REQUIRE(is_same);
    if (rank < programs.compiler.workers()) check_equal(test::read_program(traces.back()), programs.program(rank));
  }
  return traces;
}

/// What is sent comes; collectives are those of all ranks of their group.
void check_exchange(const std::vector<ChakraTrace>& traces) {
  using Message = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  std::map<Message, int> sent, received;
  for (const ChakraTrace& trace : traces)
    for (const ChakraNode& node : trace.nodes) {
      const Message message{node.source, node.destination, node.tag, node.bytes};
      if (node.type == ChakraType::kSend) ++sent[message];
      if (node.type == ChakraType::kReceive) ++received[message];
    }
  CHECK(sent == received);
}

RecordedJob job_of(const std::vector<ChakraTrace>& traces) {
  std::vector<RecordedRun> runs;
  for (const ChakraTrace& trace : traces) runs.push_back(recorded_run(trace));
  return recorded_job(std::move(runs));
}

}  // namespace

TEST_CASE("programs of the shipped scenarios are the same after they were traces of Chakra") {
  int scenarios = 0;
  for (const char* file : {"cm-dare-heterogeneous", "gpt2-xl-pipeline", "mxnet-ps", "pollux", "spotdnn"}) {
    CAPTURE(file);
    const std::string path = source_folder() + "/scenarios/" + file + ".json";
    const Scenario scenario = read_scenario(load_json_file(path), path, test::shipped_catalog());
    ExportedStep programs{scenario};
    const std::vector<ChakraTrace> traces = exported(programs);
    CHECK(static_cast<int>(traces.size()) == programs.compiler.ranks());
    check_exchange(traces);
    const RecordedJob job = job_of(traces);
    CHECK_MESSAGE(job.remarks.empty(), job.remarks.front());
    ++scenarios;
  }
  CHECK(scenarios == 5);
}

TEST_CASE("programs of random scenarios are the same after they were traces of Chakra") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    const Scenario scenario = test::resolved(test::ScenarioGenerator{seed}.generate());
    if (is_pairwise(scenario)) {
      CHECK_THROWS_AS(require_exportable(scenario), InputError);
      continue;
    }
    ExportedStep programs{scenario};
    if (programs.compiler.ranks() > 24) continue;
    const std::vector<ChakraTrace> traces = exported(programs);
    check_exchange(traces);
    const RecordedJob job = job_of(traces);
    CHECK_MESSAGE(job.remarks.empty(), job.remarks.front());
  }
}

TEST_CASE("of a collective a trace states what each rank puts in: all of a reduce-scatter, its part of an all-gather") {
  // Two layers of 4 MB and 2 MB, sharded over four workers (ZeRO 3): gathered in the forward pass and in the backward
  // pass, but for what is there still.
  const Scenario scenario =
      test::resolved(test::timed_scenario(4, {{"4MB"}, {"2MB"}}, {{"kind", "all_reduce"}, {"sharding", "parameters"}}));
  ExportedStep programs{scenario};
  std::map<std::pair<CollectiveWork, std::int64_t>, int> counts;
  for (const ChakraNode& node : chakra_trace(programs, 1).nodes)
    if (node.type == ChakraType::kCollective) ++counts[{static_cast<CollectiveWork>(node.comm_type), node.bytes}];
  CHECK(counts[{CollectiveWork::kReduceScatter, 4'000'000}] == 1);
  CHECK(counts[{CollectiveWork::kReduceScatter, 2'000'000}] == 1);
  CHECK(counts[{CollectiveWork::kAllGather, 1'000'000}] >= 1);
  CHECK(counts[{CollectiveWork::kAllGather, 500'000}] >= 1);
  CHECK(counts.size() == 4);
}

TEST_CASE("a pipeline's stages are ranks that send each other activations and gradients") {
  Json json = test::timed_scenario(4, {{"4MB"}, {"4MB"}},
                                   {{"kind", "all_reduce"}, {"pipeline", {{"stages", 2}, {"microbatches", 2}}}});
  for (Json& layer : json["workload"]["model"]["structure"]["layers"]) layer["output"] = "1MB";
  const Scenario scenario = test::resolved(json);
  ExportedStep programs{scenario};
  CHECK(programs.process_groups == std::vector<std::vector<int>>{{0, 2}, {1, 3}});
  const ChakraTrace first = chakra_trace(programs, 2);
  std::string text;
  for (const ChakraNode& node : first.nodes) {
    const std::string& name = first.names[static_cast<std::size_t>(node.name)];
    if (node.type == ChakraType::kSend || node.type == ChakraType::kReceive)
      text += name + " from " + std::to_string(node.source) + " to " + std::to_string(node.destination) + "; ";
    if (node.type == ChakraType::kCollective)
      text += name + " in " + first.groups[static_cast<std::size_t>(node.group)] + "; ";
  }
  CHECK(
      text ==
      "send activations after stage 1 from 2 to 3; send activations after stage 1 from 2 to 3; all-reduce layer0 in 1; "
      "receive gradients after stage 1 from 3 to 2; receive gradients after stage 1 from 3 to 2; ");
}

}  // namespace rehearse
