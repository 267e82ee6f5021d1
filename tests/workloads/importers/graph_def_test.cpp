#include "workloads/importers/graph_def.hpp"

#include <doctest/doctest.h>

#include "sim/base/errors.hpp"

namespace rehearse {
namespace {

// Fields that are not read (versions, library, dtype with its enumeration, tensor) must not disturb.
const std::string kText = R"(
node {
  name: "x" op: "Placeholder" device: "/device:GPU:0"
  attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "shape" value { shape { dim { size: -1 } dim { size: 3 } } } }
}
node {
  name: "y" op: "Relu" input: "x:0" input: "^x"
  attr { key: "_output_shapes" value { list { shape { dim { size: 2 } dim { size: 5 } } shape { unknown_rank: true } } } }
  attr { key: "T" value { type: DT_FLOAT } }
}
versions { producer: 27 }
)";

/// One field of the wire format with a length: number, size, content.
std::string field(int number, const std::string& content) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(content.size())} + content;
}

}  // namespace

TEST_CASE("a GraphDef is read as text") {
  const auto nodes = parse_graph_def(kText, true, "g");
  REQUIRE(nodes.size() == 2);
  CHECK(nodes[0].name == "x");
  CHECK(nodes[0].op == "Placeholder");
  CHECK(nodes[0].device == "/device:GPU:0");
  CHECK(nodes[0].shape == std::vector<std::int64_t>{-1, 3});
  CHECK(nodes[1].inputs == std::vector<std::string>{"x:0", "^x"});
  CHECK(nodes[1].shape == std::vector<std::int64_t>{2, 5});
}

TEST_CASE("a GraphDef is read as binary") {
  const std::string shape = field(2, std::string{"\x08\x07", 2});  // dim { size: 7 }
  const std::string attribute = field(1, "shape") + field(2, field(7, shape));
  const std::string node =
      field(1, "w") + field(2, "VariableV2") + field(3, "a:1") + field(4, "GPU:0") + field(5, attribute);
  const auto nodes = parse_graph_def(field(1, node), false, "g");
  REQUIRE(nodes.size() == 1);
  CHECK(nodes[0].op == "VariableV2");
  CHECK(nodes[0].inputs == std::vector<std::string>{"a:1"});
  CHECK(nodes[0].shape == std::vector<std::int64_t>{7});
}

TEST_CASE("shapes of all outputs and the attributes of convolutions and products are read") {
  const auto nodes = parse_graph_def(R"(node { name: "c" op: "Conv2D"
    attr { key: "strides" value { list { i: 1 i: 2 i: 2 i: 1 } } }
    attr { key: "padding" value { s: "SAME" } } attr { key: "data_format" value { s: "NCHW" } }
    attr { key: "transpose_a" value { b: true } } attr { key: "adj_y" value { b: true } }
    attr { key: "T" value { type: DT_HALF } }
    attr { key: "_output_shapes" value { list { shape { unknown_rank: true } shape { dim { size: 2 } dim { size: -1 } } shape { } } } } }
    node { name: "v" op: "VariableV2" attr { key: "dtype" value { type: DT_DOUBLE_REF } } })",
                                     true, "g");
  CHECK(nodes[0].strides == std::vector<std::int64_t>{1, 2, 2, 1});
  CHECK(nodes[0].padding == "SAME");
  CHECK(nodes[0].data_format == "NCHW");
  CHECK(nodes[0].transposes_first);
  CHECK(nodes[0].transposes_second);
  CHECK(nodes[0].scalar_bytes == 2);
  CHECK(nodes[0].shape.empty());
  CHECK(nodes[0].shapes == std::vector<std::optional<GraphDefShape>>{std::nullopt, {{2, -1}}, GraphDefShape{}});
  CHECK(nodes[1].scalar_bytes == 8);
  CHECK(nodes[1].shapes.empty());
}

TEST_CASE("files that are no GraphDef are refused with one line") {
  const auto refused = [](const std::string& content, bool is_text, const std::string& message) {
    CHECK_THROWS_WITH_AS(parse_graph_def(content, is_text, "g"), message.c_str(), InputError);
  };
  refused("node { name: 3 }", true, "g:1:14: Expected string, got: 3");
  refused("", true, "g: expected a GraphDef; found no node");
  refused("\xff", false, "g: expected a binary GraphDef; files of text end in .pbtxt");
  refused(R"(node { name: "a" } node { name: "a" })", true, "g: two nodes have the name \"a\"");
  std::string nested = "node {";
  for (int i = 0; i < 5000; ++i) nested += " unknown {";
  CHECK_THROWS_AS(parse_graph_def(nested, true, "g"), InputError);
  CHECK_THROWS_AS(load_graph_def("/nonexistent/g.pbtxt"), InputError);
}

}  // namespace rehearse
