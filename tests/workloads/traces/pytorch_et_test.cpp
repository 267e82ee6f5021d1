// PyTorch's execution traces: what is read of both versions, and events of the profiler that get their tensors from there.

#include "workloads/traces/pytorch_et.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/files.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"
#include "workloads/traces/trace_file.hpp"

namespace rehearse {

namespace {

const char* const kOld = R"json({"schema": "1.0.1", "nodes": [
  {"name": "root", "id": 1, "parent": 1, "rf_id": 0, "tid": 1, "inputs": [], "input_shapes": [], "input_types": []},
  {"name": "aten::mm", "id": 5, "parent": 1, "rf_id": 2, "tid": 1,
   "inputs": [[7, 8, 0, 6, 4, "cuda:0"], true, [[9, 9, 0, 8, 2, "cuda:0"], [3, 3, 0, 1, 8, "cpu"]]],
   "input_shapes": [[2, 3], [], [[8], []]],
   "input_types": ["Tensor(float)", "Bool", "GenericList[Tensor(c10::Half),Tensor(long int)]"],
   "outputs": [[1, 1, 0, 4, 4, "cuda:0"]], "output_shapes": [[2, 2]], "output_types": ["Tensor(float)"]}]})json";

const char* const kNew = R"json({"schema": "1.1.0-chakra.0.0.4", "nodes": [
  {"id": 1, "name": "root", "ctrl_deps": 1, "inputs": {"values": [], "shapes": [], "types": []}, "attrs": []},
  {"id": 3, "name": "## process_group:init ##", "ctrl_deps": 1, "attrs": [],
   "inputs": {"values": ["[{\"pg_name\": \"0\", \"ranks\": [0, 1], \"group_size\": 2}]"], "shapes": [[]], "types": ["String"]}},
  {"id": 4, "name": "record_param_comms", "ctrl_deps": 1,
   "inputs": {"values": [[[4, 4, 0, 100, 4, "cuda:0"]], 47, ["0", "default_pg"], 0, "broadcast", [], []],
              "shapes": [[[100]], [], [[], []], [], [], [], []], "types": ["GenericList[Tensor(float)]"]},
   "outputs": {"values": [], "shapes": [], "types": []},
   "attrs": [{"name": "rf_id", "type": "uint64", "value": 9}, {"name": "tid", "type": "uint64", "value": 2}]}]})json";

std::string node_error(const std::string& nodes) {
  return test::error_of([&] { (void)parse_pytorch_trace(R"({"nodes": [)" + nodes + "]}", "t.json"); });
}

std::string shipped_trace(const std::string& name) {
  return source_folder() + "/calibration/data/pytorch-kineto-traces/" + name + ".json.gz";
}

std::vector<std::int64_t> payloads_of(const RecordedRun& run) {
  std::vector<std::int64_t> bytes;
  for (const RecordedCollective& collective : run.collectives) bytes.push_back(collective.bytes);
  return bytes;
}

/// The profiler's trace without what tensors its operators had.
std::string without_shapes(const std::string& name) {
  auto trace = nlohmann::json::parse(gunzip(read_file(shipped_trace(name), kMiB), 64 * kMiB, name));
  for (auto& event : trace["traceEvents"])
    if (event.contains("args")) {
      event["args"].erase("Input Dims");
      event["args"].erase("Input type");
    }
  return trace.dump();
}

}  // namespace

TEST_CASE("operators of an old version have their tensors, one by one") {
  const PytorchTrace trace = parse_pytorch_trace(kOld, "t.json");
  CHECK(trace.schema == "1.0.1");
  REQUIRE(trace.operators.size() == 2);
  CHECK(!trace.operators[0].is_leaf);
  const PytorchOperator& product = trace.operators[1];
  CHECK(product.is_leaf);
  CHECK(product.order == 2);
  REQUIRE(product.inputs.size() == 3);
  CHECK(product.inputs[0].shape == std::vector<std::int64_t>{2, 3});
  CHECK(product.inputs[0].bytes() == 24);
  CHECK(product.inputs[1].bytes() == 16);
  CHECK(trace.types[static_cast<std::size_t>(product.inputs[1].type)] == "c10::Half");
  CHECK(product.inputs[2].bytes() == 8);
  CHECK(trace.types[static_cast<std::size_t>(product.inputs[2].type)] == "long int");
  REQUIRE(product.outputs.size() == 1);
  CHECK(product.outputs[0].bytes() == 16);
}

TEST_CASE("operators of a new version say their process group, and what is done in it") {
  const PytorchTrace trace = parse_pytorch_trace(kNew, "t.json");
  REQUIRE(trace.groups.size() == 1);
  CHECK(trace.groups[0].ranks == std::vector<std::int64_t>{0, 1});
  CHECK(trace.groups[0].size == 2);
  const PytorchOperator& collective = trace.operators.at(2);
  CHECK(collective.group == 0);
  CHECK(trace.names[static_cast<std::size_t>(collective.collective)] == "broadcast");
  CHECK(collective.thread == 2);
  CHECK(collective.inputs.at(0).bytes() == 400);
}

TEST_CASE("an execution trace that is none is refused with its node") {
  CHECK(node_error("") == "t.json: expected an execution trace of PyTorch: an object with the list nodes");
  CHECK(node_error("{").find("t.json: in or after node 0 of the list: no JSON: ") == 0);
  CHECK(node_error(R"({"name": "a"})") == "t.json: node 1 of the list: id: expected a whole number from 0");
  CHECK(node_error(R"({"id": 2, "name": "a"})") ==
        "t.json: node 2 \"a\": parent: expected the id of a node; found nothing");
  CHECK(node_error(R"({"id": 2, "name": "a", "parent": 7})") ==
        "t.json: node 2 \"a\": parent: node 7 is not in the file");
  CHECK(node_error(R"({"id": 2, "name": "a", "parent": 2}, {"id": 2, "name": "b", "parent": 2})") ==
        "t.json: node 2 \"b\": an earlier node has this id");
  CHECK(node_error(R"({"id": 2, "name": "a", "parent": 3}, {"id": 3, "name": "b", "parent": 2})") ==
        "t.json: node 2 \"a\": parent: calls itself, by others that it calls");
  CHECK(node_error(
            R"({"id": 2, "name": "a", "parent": 2, "inputs": [[1, 1, 0, 9, 4, "cpu"]], "input_shapes": [[9, -1]]})") ==
        "t.json: node 2 \"a\": shape: expected at most 2^50 elements; found [9,-1]");
  CHECK(test::error_of([&] { (void)parse_pytorch_trace(std::string(100, '['), "t.json"); }) ==
        "t.json: more than 64 nested levels");
}

TEST_CASE("events without shapes get them from the execution trace of the same run") {
  const test::TemporaryFolder folder;
  for (const int rank : {0, 3}) {
    const std::string name = "dlrm_v100_8gpu/kineto_rank" + std::to_string(rank);
    const std::string tensors = shipped_trace("dlrm_v100_8gpu/et_rank" + std::to_string(rank));
    const std::string stripped = without_shapes(name);
    write_file(folder / "stripped.json", stripped);
    const std::vector<std::int64_t> stated = payloads_of(recorded_run(read_kineto_trace(shipped_trace(name))));
    CHECK(std::ranges::find(stated, -1) == stated.end());
    const std::vector<std::int64_t> missing = payloads_of(recorded_run(parse_kineto_trace(stripped, "t.json")));
    CHECK(std::ranges::count(missing, -1) == std::ssize(missing));
    const std::array<std::filesystem::path, 2> both{folder / "stripped.json", std::filesystem::path{tensors}};
    const std::vector<RecordedRun> runs = read_recorded_runs(both);
    REQUIRE(runs.size() == 1);
    CHECK(payloads_of(runs[0]) == stated);
  }
}

TEST_CASE("an execution trace alone cannot be replayed, nor one of another run") {
  const std::string tensors = shipped_trace("dlrm_v100_8gpu/et_rank0");
  const std::array<std::filesystem::path, 1> alone{tensors};
  CHECK(test::error_of([&] { (void)read_recorded_runs(alone); }) ==
        tensors +
            ": is an execution trace, which has no durations: give the profiler's trace of the same run besides it");
  const std::array<std::filesystem::path, 2> other{shipped_trace("alexnet_a100_1gpu"), tensors};
  CHECK(test::error_of([&] { (void)read_recorded_runs(other); }).find(": it is of another run") != std::string::npos);
}

}  // namespace rehearse
