// Chakra's traces, as messages and as JSON: what is read, written, and refused.

#include "workloads/traces/chakra.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"
#include "workloads/traces/trace_file.hpp"

namespace rehearse {

namespace {

std::string shipped(const std::string& name) {
  return source_folder() + "/calibration/data/pytorch-kineto-traces/chakra/" + name;
}

ChakraTrace two_nodes() {
  ChakraTrace trace{.file_name = "t.et", .names = {"forward", "ncclAllReduce"}, .groups = {"1"}};
  trace.nodes.push_back({.id = 3,
                         .name = 0,
                         .type = ChakraType::kCompute,
                         .is_on_cpu = true,
                         .start = 5'000,
                         .duration = 7'000,
                         .thread = 2});
  trace.nodes.push_back(
      {.id = 9,
       .name = 1,
       .type = ChakraType::kCollective,
       .data_deps = {3},
       .ctrl_deps = {3},
       .start = 12'345,
       .duration = 0,
       .stream = 20,
       .comm_type = 0,
       .bytes = 4096,
       .group = 0,
       .own = {own_attribute("step", std::int64_t{4}), own_attribute("time_s", 0.1),
               own_attribute("text", std::string{"a"}), own_attribute("list", std::vector<std::int64_t>{-1, 2}),
               own_attribute("names", std::vector<std::string>{"x", ""}),
               own_attribute("nobody", std::vector<std::string>{}),
               own_attribute("nothing", std::vector<std::int64_t>{})}});
  return trace;
}

/// A message behind its length, which is below 128.
std::string message(const std::string& body) { return static_cast<char>(body.size()) + body; }

const std::string kMetadata = message(std::string("\x0a\x05") + "0.0.4");

std::string et_refusal(const std::string& bytes) {
  return test::error_of([&] { (void)parse_chakra_et(bytes, "t.et"); });
}
std::string json_refusal(const std::string& text) {
  return test::error_of([&] { (void)parse_chakra_json(text, "t.json"); });
}
std::string node_refusal(const std::string& node) { return json_refusal(R"({"workload_graph": [)" + node + "]}"); }

}  // namespace

TEST_CASE("what is written as messages is read back, times to the nanosecond") {
  const ChakraTrace written = two_nodes();
  const std::string bytes = chakra_et_bytes(written);
  const ChakraTrace read = parse_chakra_et(bytes, "t.et");
  CHECK(read.names == written.names);
  CHECK(read.groups == written.groups);
  REQUIRE(read.nodes.size() == 2);
  CHECK(read.nodes[0] == written.nodes[0]);
  CHECK(read.nodes[1] == written.nodes[1]);
  CHECK(!read.ctrl_deps_are_calls);
}

TEST_CASE("the published trace is the same as messages and as JSON") {
  const ChakraTrace messages = read_chakra_et(shipped("chakra.0.et.gz"));
  const ChakraTrace json = read_chakra_json(shipped("chakra.0.json.gz"));
  CHECK(messages.ctrl_deps_are_calls);
  REQUIRE(messages.nodes.size() == 3664);
  REQUIRE(json.nodes.size() == 3664);
  Nanoseconds time = 0;
  for (std::size_t i = 0; i < messages.nodes.size(); ++i) {
    const ChakraNode &a = messages.nodes[i], &b = json.nodes[i];
    const bool is_same = a.id == b.id && a.type == b.type && a.is_on_cpu == b.is_on_cpu && a.duration == b.duration &&
                         a.data_deps == b.data_deps;
    REQUIRE(is_same);
    if (a.duration != kNotRecorded) time += a.duration;
  }
  CHECK(time == 381'795'000);
  std::int64_t collectives = 0;
  for (const ChakraNode& node : messages.nodes) {
    if (node.comm_type < 0) continue;
    if (collectives++ == 0) CHECK(node.bytes == 212'480);  // of 53120 floats
    CHECK(node.stream == 14);
  }
  CHECK(collectives == 7);
  CHECK(read_chakra_json(shipped("small_chakra.0.json.gz")).world_size == 8);
}

TEST_CASE("node types and fields of later versions are kept or passed over") {
  // Node 1: id 1, type 9, field 11 of some bytes, and an attribute of an unknown type (field 40).
  const std::string node = std::string("\x08\x01\x18\x09\x5a\x02xy\x52\x07\x0a\x01q\xc2\x02\x01z", 17);
  const ChakraTrace trace = parse_chakra_et(kMetadata + message(node), "t.et");
  REQUIRE(trace.nodes.size() == 1);
  CHECK(trace.nodes[0].type == ChakraType::kBatch);
  CHECK(trace.nodes[0].duration == kNotRecorded);
}

TEST_CASE("broken messages are refused with their place") {
  CHECK(et_refusal("") == "t.et: is empty");
  CHECK(et_refusal(kMetadata) == "t.et: has no nodes");
  const std::string node = message(std::string("\x08\x05\x12\x01n", 5));
  CHECK(et_refusal(kMetadata + node + "\x09\x08") ==
        "t.et: byte 14, after 1 nodes: expected a message of Chakra behind its length");
  CHECK(et_refusal(kMetadata + "\xff\xff\xff\xff\x0f") ==
        "t.et: byte 8, after 0 nodes: expected a message of Chakra behind its length");
  // duration_micros: -5 as 64 bits
  const std::string negative("\x08\x05\x12\x01n\x38\xfb\xff\xff\xff\xff\xff\xff\xff\xff\x01", 16);
  CHECK(et_refusal(kMetadata + message(negative)) ==
        "t.et: node 5 \"n\": duration_micros: expected microseconds from 0 to 100000000000; found -5");
  CHECK(et_refusal(kMetadata + message(std::string("\x08\x05\x12\x01\xff", 5))) ==
        "t.et: node 5 \"\\xff\": name: expected UTF-8; found other bytes");
  const test::TemporaryFolder folder;
  const std::string packed = gzip(chakra_et_bytes(two_nodes()));
  write_file(folder / "cut.et", packed.substr(0, packed.size() - 9));
  CHECK(test::error_of([&] { (void)read_chakra_et(folder / "cut.et"); }).find("cut short") != std::string::npos);
}

TEST_CASE("JSON that is no trace is refused with the node") {
  CHECK(json_refusal("[").find("t.json: byte 2, in or after node 0: no JSON: ") == 0);
  CHECK(json_refusal("{}") == "t.json: expected a trace of Chakra: an object with the list workload_graph of nodes");
  CHECK(node_refusal(R"({"Name": "a"})") ==
        "t.json: node 1 of the list: Id: expected a whole number from 0; found nothing");
  CHECK(node_refusal(R"({"Id": 7, "Name": "a", "runtime": -3})") ==
        "t.json: node 7 \"a\": runtime: expected a whole number from 0; found -3");
  CHECK(node_refusal(R"({"Id": 7, "Name": "a", "runtime": 1e30})") ==
        "t.json: node 7 \"a\": runtime: expected microseconds from 0 to 100000000000; found 1e30");
  CHECK(node_refusal(R"({"Id": 7, "data_deps": ["b"]})") ==
        "t.json: node 7: data_deps: expected a number; found \"b\"");
  CHECK(node_refusal(R"({"Id": 7.5})") == "t.json: node 1 of the list: Id: expected a whole number; found 7.5");
  CHECK(json_refusal(R"({"ngpus": 0})") == "t.json: /ngpus: expected 1 to 1000000; found 0");
  CHECK(json_refusal(std::string(100, '[')) == "t.json: more than 64 nested levels");
  const ChakraTrace half =
      parse_chakra_json(R"({"workload_graph": [{"Id": 1, "Name": "a", "is_cpu_op": 1, "runtime": 0.25}]})", "t.json");
  CHECK(half.nodes[0].duration == 250);
  CHECK(half.nodes[0].is_on_cpu);
}

TEST_CASE("the format of a file is told by what is in it") {
  const test::TemporaryFolder folder;
  const auto format = [&](const std::string& contents) {
    write_file(folder / "trace", contents);
    return find_trace_format(folder / "trace");
  };
  CHECK(format(R"({"schemaVersion": 1, "traceEvents": []})") == TraceFormat::kKineto);
  CHECK(format("[]") == TraceFormat::kKineto);
  for (const auto& [nothing, what] : {std::pair{"", "an empty file"}, std::pair{" \n ", "a file of white space alone"}})
    CHECK_THROWS_WITH_AS((void)format(nothing),
                         ((folder / "trace").string() + ": expected a trace; found " + what).c_str(), InputError);
  CHECK(!format("nothing"));
  CHECK(!format(R"({"workload": {}, "cluster": {}})"));
  CHECK(format(R"({"a": {"nodes": []}, "workload_graph": []})") == TraceFormat::kChakraJson);
  CHECK(format(R"({"schema": "1.0.3", "nodes": []})") == TraceFormat::kPytorchEt);
  CHECK(format(kMetadata) == TraceFormat::kChakraEt);
  CHECK(format(gzip(chakra_et_bytes(two_nodes()))) == TraceFormat::kChakraEt);
  CHECK(format(message("") + message(std::string("\x08\x05", 2))) == TraceFormat::kChakraEt);
  // Metadata of 123 bytes begin with a brace.
  CHECK(format(message("\x0a\x79" + std::string(121, 'v'))) == TraceFormat::kChakraEt);
}

}  // namespace rehearse
