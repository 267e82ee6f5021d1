#pragma once
// TensorFlow's GraphDef files: training graphs as Driple takes them.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rehearse {

/// Dimensions; -1 is unknown.
using GraphDefShape = std::vector<std::int64_t>;

/// A node of a GraphDef, with the shape of its first output. Without shape inference it is what the file says: the
/// attribute _output_shapes, else shape, else no dimension.
struct GraphDefNode {
  std::string name, op, device;
  std::vector<std::string> inputs;  // "name", "name:1", or "^name" for a control edge
  GraphDefShape shape;
  std::vector<std::optional<GraphDefShape>> shapes{};  // of all outputs that the file tells of; none: unknown rank
  std::vector<std::int64_t> strides{};
  std::string padding{}, data_format{};                      // "SAME", "NHWC"; empty: not said
  bool transposes_first = false, transposes_second = false;  // of a matrix product: transpose_a or adj_x, ...
  int scalar_bytes = 4;                                      // of its type (attribute T or dtype)
};

/// The producer of an input: "a:1" and "^a" come from a.
std::string_view producer_of(std::string_view input);

/// Text (*.pbtxt, *.txt) or binary. InputError, "file: ...", if it cannot be parsed, has no node, two nodes of one
/// name, or more than 1 GiB.
std::vector<GraphDefNode> load_graph_def(const std::filesystem::path& path);
std::vector<GraphDefNode> parse_graph_def(std::string_view content, bool is_text, const std::string& file_name);

}  // namespace rehearse
