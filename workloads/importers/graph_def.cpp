#include "workloads/importers/graph_def.hpp"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>

#include <set>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "workloads/importers/graph_def.pb.h"

namespace rehearse {
namespace {

constexpr std::size_t kLargestFile = std::size_t{1} << 30U;
constexpr int kDeepest = 50;

/// Keeps the first mistake; nothing goes to stderr.
struct FirstError : google::protobuf::io::ErrorCollector {
  void AddError(int line, int column, const std::string& message) override {
    if (first.empty())
      first = std::to_string(line + 1) + ":" + std::to_string(column + 1) + ": " + shortened(message, 200);
  }
  std::string first;
};

std::optional<GraphDefShape> dimensions_of(const graph_def::Shape& shape) {
  if (shape.unknown_rank()) return std::nullopt;
  GraphDefShape dimensions;
  for (const auto& dimension : shape.dim()) dimensions.push_back(dimension.size());
  return dimensions;
}

std::vector<std::optional<GraphDefShape>> shapes_of(const graph_def::Node& node) {
  std::vector<std::optional<GraphDefShape>> shapes;
  if (const auto found = node.attr().find("_output_shapes"); found != node.attr().end())
    for (const graph_def::Shape& shape : found->second.list().shape()) shapes.push_back(dimensions_of(shape));
  else if (const auto own = node.attr().find("shape"); own != node.attr().end() && own->second.has_shape())
    shapes.push_back(dimensions_of(own->second.shape()));
  return shapes;
}

int bytes_of(int type) {
  switch (type % 100) {  // references too
    case graph_def::DT_DOUBLE:
    case graph_def::DT_INT64:
    case graph_def::DT_UINT64:
    case graph_def::DT_COMPLEX64:
      return 8;
    case graph_def::DT_COMPLEX128:
      return 16;
    case graph_def::DT_HALF:
    case graph_def::DT_BFLOAT16:
    case graph_def::DT_INT16:
    case graph_def::DT_UINT16:
      return 2;
    case graph_def::DT_INT8:
    case graph_def::DT_UINT8:
    case graph_def::DT_BOOL:
      return 1;
    default:
      return 4;
  }
}

GraphDefNode node_of(const graph_def::Node& node) {
  GraphDefNode made{.name = node.name(),
                    .op = node.op(),
                    .device = node.device(),
                    .inputs = {node.input().begin(), node.input().end()},
                    .shape = {},
                    .shapes = shapes_of(node)};
  if (!made.shapes.empty()) made.shape = made.shapes[0].value_or(GraphDefShape{});
  for (const auto& [name, attribute] : node.attr()) {
    if (name == "strides") made.strides = {attribute.list().i().begin(), attribute.list().i().end()};
    if (name == "padding") made.padding = attribute.s();
    if (name == "data_format") made.data_format = attribute.s();
    if (name == "transpose_a" || name == "adj_x") made.transposes_first = attribute.b();
    if (name == "transpose_b" || name == "adj_y") made.transposes_second = attribute.b();
    if (name == "T" || name == "dtype") made.scalar_bytes = bytes_of(attribute.type());
  }
  return made;
}

}  // namespace

std::string_view producer_of(std::string_view input) {
  if (const auto colon = input.find(':'); colon != std::string_view::npos) return input.substr(0, colon);
  return input.starts_with('^') ? input.substr(1) : input;
}

std::vector<GraphDefNode> load_graph_def(const std::filesystem::path& path) {
  const bool is_text = path.extension() == ".pbtxt" || path.extension() == ".txt";
  return parse_graph_def(read_file(path, kLargestFile), is_text, path.string());
}

std::vector<GraphDefNode> parse_graph_def(std::string_view content, bool is_text, const std::string& file_name) {
  graph_def::Graph graph;
  const google::protobuf::LogSilencer silencer;  // what is wrong is our message
  google::protobuf::io::ArrayInputStream stream{content.data(), static_cast<int>(content.size())};
  if (is_text) {
    FirstError error;
    google::protobuf::TextFormat::Parser parser;
    parser.RecordErrorsTo(&error);
    parser.AllowUnknownField(true);
    parser.SetRecursionLimit(kDeepest);
    if (!parser.Parse(&stream, &graph)) throw InputError{file_name + ":" + error.first};
  } else if (!graph.ParseFromZeroCopyStream(&stream)) {
    throw InputError{file_name + ": expected a binary GraphDef; files of text end in .pbtxt"};
  }
  if (graph.node_size() == 0) throw InputError{file_name + ": expected a GraphDef; found no node"};
  std::vector<GraphDefNode> nodes;
  std::set<std::string_view> names;
  for (const graph_def::Node& node : graph.node()) {
    if (!names.insert(node.name()).second)
      throw InputError{file_name + ": two nodes have the name " + in_quotes(node.name())};
    nodes.push_back(node_of(node));
  }
  return nodes;
}

}  // namespace rehearse
