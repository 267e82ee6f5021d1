#pragma once
// TensorFlow's GraphDef files: training graphs as Driple takes them.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace rehearse {

/// A node of a GraphDef, with the shape of its first output: a dimension of -1 is unknown. Without shape inference it
/// is what the file says: the attribute _output_shapes, else shape, else no dimension.
struct GraphDefNode {
  std::string name, op, device;
  std::vector<std::string> inputs;  // "name", "name:1", or "^name" for a control edge
  std::vector<std::int64_t> shape;
};

/// Text (*.pbtxt, *.txt) or binary. InputError, "file: ...", if it cannot be parsed, has no node, two nodes of one
/// name, or more than 1 GiB.
std::vector<GraphDefNode> load_graph_def(const std::filesystem::path& path);
std::vector<GraphDefNode> parse_graph_def(std::string_view content, bool is_text, const std::string& file_name);

}  // namespace rehearse
