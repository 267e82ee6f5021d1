#include "predictor/driple/graph_def.hpp"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <set>

#include "predictor/driple/graph_def.pb.h"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"

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

std::vector<std::int64_t> first_shape(const graph_def::Node& node) {
  const graph_def::Shape* shape = nullptr;
  if (const auto found = node.attr().find("_output_shapes"); found != node.attr().end()) {
    if (found->second.list().shape_size() > 0) shape = &found->second.list().shape(0);
  } else if (const auto own = node.attr().find("shape"); own != node.attr().end() && own->second.has_shape()) {
    shape = &own->second.shape();
  }
  std::vector<std::int64_t> dimensions;
  if (shape != nullptr && !shape->unknown_rank())
    for (const auto& dimension : shape->dim()) dimensions.push_back(dimension.size());
  return dimensions;
}

}  // namespace

std::vector<GraphDefNode> load_graph_def(const std::filesystem::path& path) {
  const bool is_text = path.extension() == ".pbtxt" || path.extension() == ".txt";
  return parse_graph_def(read_file(path, kLargestFile), is_text, path.string());
}

std::vector<GraphDefNode> parse_graph_def(std::string_view content, bool is_text, const std::string& file_name) {
  graph_def::Graph graph;
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
    nodes.push_back({.name = node.name(),
                     .op = node.op(),
                     .device = node.device(),
                     .inputs = {node.input().begin(), node.input().end()},
                     .shape = first_shape(node)});
  }
  return nodes;
}

}  // namespace rehearse
