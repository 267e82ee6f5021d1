#pragma once
// TensorFlow's GraphDef files: training graphs as Driple takes them, and what else files hold that have a graph.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rehearse {

/// Dimensions; -1 is unknown.
using GraphDefShape = std::vector<std::int64_t>;

/// A constant. Values are there of at most 64 scalars.
struct GraphDefTensor {
  GraphDefShape shape;
  std::vector<double> values;
  bool is_floating = false;
};

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
  bool is_floating = true;                                   // what it gives, unless its operator alone says otherwise
  std::map<std::string, std::vector<std::int64_t>> integers{};   // attributes of integers and truth values
  std::map<std::string, std::vector<std::string>> texts{};       // and of texts, but for those that begin with _
  std::vector<std::optional<GraphDefShape>> component_shapes{};  // of a queue, an iterator, or what a variable keeps
  std::optional<GraphDefTensor> tensor{};                        // of a constant
  std::string function{};                                        // that an attribute names
};

/// A graph, and what a checkpoint's .meta or a SavedModel says besides.
struct GraphDefFile {
  std::vector<GraphDefNode> nodes;
  std::optional<std::set<std::string>> trainable{};  // names of variables; none: not collected
  std::vector<std::string> outputs{};                // tensors of the first signature that has some
  std::size_t calls = 0;                             // of functions, whose nodes stand in their place
};

/// The producer of an input: "a:1" and "^a" come from a.
std::string_view producer_of(std::string_view input);

/// Text (*.pbtxt, *.txt) or binary. InputError, "file: ...", if it cannot be parsed, has no node, two nodes of one
/// name, or more than 1 GiB.
std::vector<GraphDefNode> load_graph_def(const std::filesystem::path& path);
std::vector<GraphDefNode> parse_graph_def(std::string_view content, bool is_text, const std::string& file_name);

enum class GraphDefForm { kGraph, kMetaGraph, kSavedModel };
/// The same, of a graph alone, with what was collected of it, or of the first one in a SavedModel. Calls of functions of
/// the library become their nodes.
GraphDefFile parse_graph_def_file(std::string_view content, bool is_text, GraphDefForm form,
                                  const std::string& file_name);

}  // namespace rehearse
