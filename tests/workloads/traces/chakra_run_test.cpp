// Chakra's traces as what is replayed: rules on a few nodes, and recordings that go there and back.

#include "workloads/traces/chakra_run.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/base/errors.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/paths.hpp"
#include "workloads/traces/recorded_job.hpp"

namespace rehearse {

namespace {

/// Nodes with a name and ids that they wait for.
class Nodes {
 public:
  Nodes() { trace_.file_name = "t.et"; }
  Nodes& host(std::uint64_t id, std::vector<std::uint64_t> deps, std::int64_t thread = 1) {
    add(id, std::move(deps)).is_on_cpu = true;
    trace_.nodes.back().thread = thread;
    return *this;
  }
  Nodes& kernel(std::uint64_t id, std::vector<std::uint64_t> deps, std::int64_t stream = 7) {
    add(id, std::move(deps)).stream = stream;
    return *this;
  }
  Nodes& all_reduce(std::uint64_t id, std::vector<std::uint64_t> deps, const std::string& group, int duration_us) {
    ChakraNode& node = add(id, std::move(deps));
    node.type = ChakraType::kCollective;
    node.comm_type = 0;
    node.bytes = 1000;
    node.duration = duration_us * 1000;
    trace_.groups.push_back(group);
    node.group = static_cast<std::int32_t>(trace_.groups.size()) - 1;
    return *this;
  }
  Nodes& calls(std::uint64_t id) {
    trace_.nodes.back().ctrl_deps.push_back(id);
    return *this;
  }
  Nodes& converted() {
    trace_.ctrl_deps_are_calls = true;
    return *this;
  }
  RecordedRun run() const { return recorded_run(trace_); }
  std::string refusal() const {
    return test::error_of([&] { (void)run(); });
  }

 private:
  ChakraNode& add(std::uint64_t id, std::vector<std::uint64_t> deps) {
    trace_.names.push_back("n" + std::to_string(id));
    trace_.nodes.push_back({.id = id,
                            .name = static_cast<std::int32_t>(trace_.names.size()) - 1,
                            .type = ChakraType::kCompute,
                            .data_deps = std::move(deps),
                            .duration = 1000});
    return trace_.nodes.back();
  }
  ChakraTrace trace_;
};

/// "n2: thread n1; n3: launch n2"
std::string waits(const RecordedRun& run) {
  std::string text;
  for (std::size_t i = 0; i < run.operations.size(); ++i) {
    std::string reasons;
    for (const Dependency& dependency : run.waits_of(static_cast<std::int32_t>(i)))
      reasons += ' ' + std::string{kReasonNames[static_cast<std::size_t>(dependency.reason)]} + ' ' +
                 run.names[static_cast<std::size_t>(run.operations[static_cast<std::size_t>(dependency.earlier)].name)];
    text += (text.empty() ? "" : "; ") + run.names[static_cast<std::size_t>(run.operations[i].name)] + ":" + reasons;
  }
  return text;
}

}  // namespace

TEST_CASE("nodes wait for data dependencies, for what their thread does before, and streams keep the order of ids") {
  CHECK(waits(Nodes{}.host(1, {}).host(2, {1}).kernel(3, {2}).kernel(5, {2}, 8).kernel(4, {3}, 8).run()) ==
        "n1:; n2: thread n1; n3: launch n2; n4: event n3; n5: launch n2");
  CHECK(waits(Nodes{}.host(2, {}).host(1, {}).host(3, {}, 9).run()) == "n1:; n2: thread n1; n3:");
  CHECK(waits(Nodes{}.kernel(1, {}).host(2, {1}).run()) == "n1:; n2: sync n1");
}

TEST_CASE("a collective that states no kernel waits for what was launched before it on other streams") {
  Nodes nodes;
  nodes.host(1, {}).kernel(2, {1}).host(3, {1}).kernel(4, {3}).host(5, {3}).all_reduce(6, {5}, "0", 30);
  nodes.host(7, {5}).kernel(8, {7});
  CHECK(waits(nodes.run()) ==
        "n1:; n2: launch n1; n3: thread n1; n4: launch n3; n5: thread n3; n6: event n4 launch n5; n7: thread n5; "
        "n8: launch n7");
  const std::vector<std::string> remarks = nodes.run().remarks;
  CHECK(std::ranges::any_of(remarks, [](const std::string& remark) {
    return remark.starts_with("1 collectives state no kernel for which they wait");
  }));

  Nodes stated;  // for the first kernel: that is what it waits for
  stated.host(1, {}).kernel(2, {1}).host(3, {1}).kernel(4, {3}).host(5, {3}).all_reduce(6, {5, 2}, "0", 30);
  CHECK(waits(stated.run()).find("n6: event n2 launch n5") != std::string::npos);
  CHECK(waits(stated.run()).find("event n4") == std::string::npos);
}

TEST_CASE("collectives times streams are few, or the trace is refused") {
  const auto with = [](std::uint64_t collectives, std::uint64_t streams) {
    Nodes nodes;
    for (std::uint64_t i = 0; i < streams; ++i) nodes.kernel(i, {}, static_cast<std::int64_t>(i));
    for (std::uint64_t i = 0; i < collectives; ++i) nodes.all_reduce(streams + i, {}, "a", 1);
    return nodes;
  };
  CHECK(with(100, 1000).run().dependencies.size() == 100 * 1000);
  CHECK_THROWS_AS((void)with(2000, 1000).run(), NoResultError);
}

TEST_CASE("control dependencies are waited for, unless they are calls") {
  CHECK(waits(Nodes{}.kernel(1, {}).kernel(2, {}).calls(1).run()) == "n1:; n2: stream n1");
  const RecordedRun run = Nodes{}.kernel(1, {}).kernel(2, {}).calls(77).converted().run();
  CHECK(waits(run) == "n1:; n2:");
  CHECK(std::ranges::find(run.remarks,
                          "1 control dependencies are calls of PyTorch's operators: nobody waits for "
                          "them") != run.remarks.end());
}

TEST_CASE("broken references are refused with the node") {
  CHECK(Nodes{}.host(1, {}).host(2, {9}).refusal() == "t.et: node 2 \"n2\": data_deps: node 9 is not in the file");
  CHECK(Nodes{}.host(1, {}).calls(9).refusal() == "t.et: node 1 \"n1\": ctrl_deps: node 9 is not in the file");
  CHECK(Nodes{}.host(1, {}).host(2, {2}).refusal() == "t.et: node 2 \"n2\": data_deps: waits for itself");
  CHECK(Nodes{}.host(1, {}).host(1, {}).refusal() == "t.et: node 1 \"n1\": has the id of \"n1\"");
  CHECK(Nodes{}.host(1, {3}).host(2, {1}).host(3, {2}).host(4, {1}).refusal() ==
        "t.et: nodes wait for each other in a circle: node 1 \"n1\" waits for node 3 \"n3\" waits for node 2 \"n2\"");
}

TEST_CASE("ranks meet in the order of their process groups") {
  // Ranks 0 and 1 in group a, all three in b; rank 2 is not in a.
  const auto rank = [](int number, RecordedRun run) {
    run.rank = number;
    run.world_size = 3;
    return run;
  };
  const RecordedJob job = recorded_job(
      {rank(0, Nodes{}.all_reduce(1, {}, "a", 5).all_reduce(2, {1}, "b", 9).all_reduce(3, {2}, "a", 2).run()),
       rank(1, Nodes{}.all_reduce(1, {}, "a", 4).all_reduce(2, {1}, "b", 8).all_reduce(3, {2}, "a", 7).run()),
       rank(2, Nodes{}.all_reduce(1, {}, "b", 3).run())});
  REQUIRE(job.meetings.size() == 3);
  CHECK(job.meeting_of == std::vector<std::vector<std::int32_t>>{{0, 2, 1}, {0, 2, 1}, {2}});
  CHECK(job.meetings[0].transfer == 4000);
  CHECK(job.meetings[0].members == 2);
  CHECK(job.meetings[1].transfer == 2000);
  CHECK(job.meetings[2].transfer == 3000);
  CHECK(job.meetings[2].members == 3);
  const RecordedJob different =
      recorded_job({rank(0, Nodes{}.all_reduce(1, {}, "a", 5).run()),
                    rank(1, Nodes{}.all_reduce(1, {}, "a", 5).all_reduce(2, {}, "a", 5).run()),
                    rank(2, Nodes{}.all_reduce(1, {}, "b", 5).run())});
  CHECK(different.meetings.empty());
  CHECK(different.remarks.at(0) == "the ranks have different collectives: they last as recorded, waiting included");
}

TEST_CASE("a recording is the same after it was a trace of Chakra") {
  for (const char* file : {"alexnet_a100_1gpu", "dlrm_v100_8gpu/kineto_rank3", "ddp_a100_2gpu_rank0"}) {
    CAPTURE(file);
    const RecordedRun run = recorded_run(
        read_kineto_trace(source_folder() + "/calibration/data/pytorch-kineto-traces/" + file + ".json.gz"));
    const RecordedRun again = recorded_run(parse_chakra_et(chakra_et_bytes(chakra_trace(run)), "t.et"));
    REQUIRE(again.operations.size() == run.operations.size());
    for (std::size_t i = 0; i < run.operations.size(); ++i) {
      RecordedOperation expected = run.operations[i];
      const auto name = [i](const RecordedRun& of) {
        const std::int32_t index = of.operations[i].name;
        return index < 0 ? std::string{} : of.names[static_cast<std::size_t>(index)];
      };
      REQUIRE(name(again) == name(run));
      expected.name = again.operations[i].name;
      REQUIRE(again.operations[i] == expected);
    }
    CHECK(again.dependencies == run.dependencies);
    CHECK(again.collectives == run.collectives);
    CHECK(again.steps == run.steps);
    const auto values = [](const RecordedGradient& gradient) {
      return std::tuple{gradient.after, gradient.recorded, gradient.bytes};
    };
    CHECK(std::ranges::equal(again.gradients, run.gradients, {}, values, values));
    CHECK(again.backward_thread == run.backward_thread);
    CHECK(again.end_of_steps == run.end_of_steps);
    CHECK(again.threads == run.threads);
    CHECK(again.streams == run.streams);
    CHECK(again.launch_latency == run.launch_latency);
    CHECK(again.kernel_gap == run.kernel_gap);
    CHECK(again.queue_depth == run.queue_depth);
    CHECK(again.remarks == run.remarks);
    CHECK(again.gpu == run.gpu);
    CHECK(again.rank == run.rank);
    CHECK(again.world_size == run.world_size);
    CHECK(again.has_dates);
  }
}

TEST_CASE("attributes of a recording leave kernels their names, and are no later than nodes") {
  const auto texts = [](const char* text) { return std::vector<std::string>{text}; };
  ChakraTrace trace{.file_name = "t.et",
                    .names = {"call", "kernel"},
                    .nodes = {{.id = 0, .type = ChakraType::kCompute, .is_on_cpu = true, .start = 0, .duration = 5},
                              {.id = 1, .name = 1, .type = ChakraType::kCompute, .start = 5, .duration = 5}},
                    .own = {own_attribute("content", std::string{"recording"}), own_attribute("threads", texts("1")),
                            own_attribute("streams", texts("7"))}};
  trace.nodes[0].thread = trace.nodes[1].stream = 0;
  for (ChakraNode& node : trace.nodes) node.own = {own_attribute("is_nameless", std::int64_t{1})};
  CHECK(recorded_run(trace).operations[0].name == -1);
  CHECK(recorded_run(trace).operations[1].name == 1);
  trace.nodes[1].own = {own_attribute("end_ns", std::numeric_limits<std::int64_t>::max())};
  CHECK(test::error_of([&] { (void)recorded_run(trace); }) ==
        "t.et: rehearse.end_ns: expected nanoseconds from -2200100000000000000 to 2200100000000000000; found "
        "9223372036854775807");
  trace.nodes[1].own.clear();
  trace.own.push_back(own_attribute("steps", texts("one")));
  trace.own.push_back(
      own_attribute("step_dates_ns", std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::min(), 10}));
  CHECK(test::error_of([&] { (void)recorded_run(trace); }) ==
        "t.et: rehearse.step_dates_ns: expected nanoseconds from -2200100000000000000 to 2200100000000000000; found "
        "-9223372036854775808");
}

}  // namespace rehearse
