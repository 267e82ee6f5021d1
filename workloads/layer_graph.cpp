#include "workloads/layer_graph.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string_view>

#include "sim/base/names.hpp"
#include "workloads/sizes.hpp"
#include "workloads/window.hpp"

namespace rehearse {

namespace {

using Tensor = GraphBuilder::Tensor;
using Table = GraphBuilder::Table;
using LayerKind = GraphLayer::Kind;
using Shape = std::vector<std::int64_t>;

constexpr std::size_t kMostLayers = 100'000;
constexpr std::size_t kMostAxes = 8;

/// What a kind has in a file besides a name, inputs and a shape.
struct KindRow {
  std::string_view name;
  LayerKind kind;
  std::size_t least_inputs, most_inputs;
  bool needs_shape = false;
};

constexpr std::size_t kAny = kMostLayers;

constexpr std::array kKinds{
    KindRow{"input", LayerKind::kInput, 0, 0, true},
    KindRow{"identifiers", LayerKind::kIdentifiers, 0, 0, true},
    KindRow{"parameter", LayerKind::kParameter, 0, 0, true},
    KindRow{"convolution", LayerKind::kConvolution, 1, 1},
    KindRow{"transposed_convolution", LayerKind::kTransposedConvolution, 1, 1},
    KindRow{"linear", LayerKind::kLinear, 1, 1},
    KindRow{"product", LayerKind::kProduct, 2, 2, true},
    KindRow{"attention", LayerKind::kAttention, 3, 4},
    KindRow{"batch_norm", LayerKind::kBatchNorm, 1, 1},
    KindRow{"group_norm", LayerKind::kGroupNorm, 1, 1},
    KindRow{"layer_norm", LayerKind::kLayerNorm, 1, 1},
    KindRow{"rms_norm", LayerKind::kRmsNorm, 1, 1},
    KindRow{"activation", LayerKind::kActivation, 1, 1},
    KindRow{"dropout", LayerKind::kDropout, 1, 1},
    KindRow{"max_pool", LayerKind::kMaxPool, 1, 1},
    KindRow{"average_pool", LayerKind::kAveragePool, 1, 1},
    KindRow{"global_average_pool", LayerKind::kGlobalAveragePool, 1, 1},
    KindRow{"add", LayerKind::kAdd, 1, kAny},
    KindRow{"multiply", LayerKind::kMultiply, 1, kAny},
    KindRow{"elementwise", LayerKind::kElementwise, 1, kAny},
    KindRow{"concatenate", LayerKind::kConcatenate, 1, kAny},
    KindRow{"embedding", LayerKind::kEmbedding, 1, 1},
    KindRow{"reshape", LayerKind::kReshape, 1, 1, true},
    KindRow{"copy", LayerKind::kCopy, 1, 1, true},
    KindRow{"part", LayerKind::kPart, 1, 1, true},
    KindRow{"lstm", LayerKind::kLstm, 1, 1},
    KindRow{"gru", LayerKind::kGru, 1, 1},
    KindRow{"rnn", LayerKind::kRnn, 1, 1},
};

const KindRow& row_of(LayerKind kind) { return *std::ranges::find(kKinds, kind, &KindRow::kind); }

bool is_convolution(LayerKind kind) {
  return kind == LayerKind::kConvolution || kind == LayerKind::kTransposedConvolution;
}
bool is_recurrent(LayerKind kind) {
  return kind == LayerKind::kLstm || kind == LayerKind::kGru || kind == LayerKind::kRnn;
}
std::int64_t gates_of(LayerKind kind) { return kind == LayerKind::kLstm ? 4 : kind == LayerKind::kGru ? 3 : 1; }
bool is_pool(LayerKind kind) { return kind == LayerKind::kMaxPool || kind == LayerKind::kAveragePool; }
bool is_norm(LayerKind kind) {
  return kind == LayerKind::kBatchNorm || kind == LayerKind::kGroupNorm || kind == LayerKind::kLayerNorm ||
         kind == LayerKind::kRmsNorm;
}

std::int64_t count_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>{});
}

Shape read_shape(const JsonReader& json) {
  auto shape = json.required<Shape>("shape");
  json.expect(!shape.empty() && shape.size() <= kMostAxes, "shape", "1 to 8 integers");
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    json.expect(size >= 1 && size <= kMostScalars / count, "shape", "integers above 0, of at most 2^40 scalars");
    count *= size;
  }
  return shape;
}

std::int64_t read_large_size(const JsonReader& json, std::string_view key) {
  const auto size = json.required<std::int64_t>(key);
  json.expect(size >= 1 && size <= std::int64_t{1} << 36, key, "an integer from 1 to 2^36");
  return size;
}

GraphLayer read_graph_layer(const JsonReader& json) {
  const auto kind = json.required<std::string>("layer");
  const auto row = std::ranges::find(kKinds, kind, &KindRow::name);
  if (row == kKinds.end()) {
    std::vector<std::string> known;
    for (const KindRow& each : kKinds) known.emplace_back(each.name);
    json.fail("layer", unknown_name_message("layer", kind, known));
  }
  GraphLayer layer{.name = json.required<std::string>("name"), .kind = row->kind, .inputs = {}};
  if (row->most_inputs > 0) layer.inputs = json.required<std::vector<std::string>>("inputs");
  if (layer.inputs.size() < row->least_inputs || layer.inputs.size() > row->most_inputs)
    json.fail("inputs", "expected " + std::to_string(row->least_inputs) +
                            (row->most_inputs == kAny                ? " or more"
                             : row->most_inputs == row->least_inputs ? ""
                                                                     : " or " + std::to_string(row->most_inputs)) +
                            "; found " + std::to_string(layer.inputs.size()));
  if (row->needs_shape || json.has("shape")) layer.shape = read_shape(json);
  if (is_convolution(layer.kind)) {
    layer.features = read_size(json, "channels");
    layer.window = read_window(json, 1);
    layer.groups = read_size(json, "groups", 1);
  }
  if (is_pool(layer.kind)) layer.window = read_window(json, 0);
  if (layer.kind == LayerKind::kLinear || layer.kind == LayerKind::kEmbedding)
    layer.features = read_size(json, "features");
  if (layer.kind == LayerKind::kEmbedding) layer.rows = read_large_size(json, "rows");
  if (is_recurrent(layer.kind)) layer.features = read_size(json, "hidden");
  if (layer.kind == LayerKind::kProduct) layer.reduction = read_large_size(json, "reduction");
  if (layer.kind == LayerKind::kConcatenate && json.has("axis")) {
    layer.axis = json.required<int>("axis");
    json.expect(layer.axis >= 0 && layer.axis < static_cast<std::int64_t>(kMostAxes), "axis", "an integer from 0 to 7");
  }
  if (layer.kind == LayerKind::kLinear || is_convolution(layer.kind) || is_recurrent(layer.kind) ||
      (is_norm(layer.kind) && layer.kind != LayerKind::kRmsNorm))
    layer.has_bias = json.optional<bool>("bias", true);
  if (is_norm(layer.kind)) layer.has_scale = json.optional<bool>("scale", true);
  layer.shares = json.optional<std::string>("shares", "");
  json.reject_unknown_keys();
  return layer;
}

}  // namespace

LayerGraph read_layer_graph(const JsonReader& json) {
  LayerGraph net;
  const std::vector<JsonReader> layers = json.children("layers");
  json.expect(!layers.empty() && layers.size() <= kMostLayers, "layers", "1 to 100000 layers");
  std::set<std::string, std::less<>> names;
  for (const JsonReader& each : layers) {
    GraphLayer layer = read_graph_layer(each);
    for (const std::string& input : layer.inputs)
      if (!names.contains(input)) each.fail("inputs", "no layer " + in_quotes(input) + " before this one");
    if (!layer.shares.empty() && !names.contains(layer.shares))
      each.fail("shares", "no layer " + in_quotes(layer.shares) + " before this one");
    if (!names.insert(layer.name).second) each.fail("name", "two layers have the name " + in_quotes(layer.name));
    net.layers.push_back(std::move(layer));
  }
  if (json.has("outputs")) {
    net.outputs = json.required<std::vector<std::string>>("outputs");
    json.expect(!net.outputs.empty(), "outputs", "at least one layer");
    for (const std::string& output : net.outputs)
      if (!names.contains(output)) json.fail("outputs", "no layer " + in_quotes(output));
  }
  return net;
}

Json layer_graph_json(const LayerGraph& net) {
  Json layers = Json::array();
  for (const GraphLayer& layer : net.layers) {
    Json json{{"name", layer.name}, {"layer", row_of(layer.kind).name}};
    if (row_of(layer.kind).most_inputs > 0) json["inputs"] = layer.inputs;
    if (!layer.shape.empty()) json["shape"] = layer.shape;
    if (is_convolution(layer.kind)) json["channels"] = layer.features;
    if (is_convolution(layer.kind) || is_pool(layer.kind)) {
      json["kernel"] = {layer.window.height, layer.window.width};
      json["stride"] = layer.window.stride;
      if (layer.window.padding) json["padding"] = *layer.window.padding;
    }
    if (is_convolution(layer.kind) && layer.groups > 1) json["groups"] = layer.groups;
    if (layer.kind == LayerKind::kEmbedding) json["rows"] = layer.rows;
    if (layer.kind == LayerKind::kLinear || layer.kind == LayerKind::kEmbedding) json["features"] = layer.features;
    if (is_recurrent(layer.kind)) json["hidden"] = layer.features;
    if (layer.kind == LayerKind::kProduct) json["reduction"] = layer.reduction;
    if (layer.kind == LayerKind::kConcatenate && layer.axis >= 0) json["axis"] = layer.axis;
    const bool may_have_bias = layer.kind == LayerKind::kLinear || is_convolution(layer.kind) ||
                               is_recurrent(layer.kind) || (is_norm(layer.kind) && layer.kind != LayerKind::kRmsNorm);
    if (may_have_bias && !layer.has_bias) json["bias"] = false;
    if (is_norm(layer.kind) && !layer.has_scale) json["scale"] = false;
    if (!layer.shares.empty()) json["shares"] = layer.shares;
    layers.push_back(std::move(json));
  }
  Json structure{{"family", "graph"}, {"layers", std::move(layers)}};
  if (!net.outputs.empty()) structure["outputs"] = net.outputs;
  return structure;
}

namespace {

/// What a layer gives: a tensor of each sample, or a learned one of all.
struct Value {
  Shape shape;
  Tensor tensor{};
  std::optional<Table> table{};
};

/// Builds the layers of one graph.
class LayerGraphBuilder {
 public:
  LayerGraphBuilder(GraphBuilder& graph, const LayerGraph& net) : graph_{graph}, net_{net} {}

  std::vector<Tensor> build() {
    std::vector<std::string> outputs = net_.outputs;
    std::set<std::string_view> read;
    for (const GraphLayer& layer : net_.layers) read.insert(layer.inputs.begin(), layer.inputs.end());
    if (outputs.empty())
      for (const GraphLayer& layer : net_.layers)
        if (!read.contains(layer.name)) outputs.push_back(layer.name);
    std::set<std::string_view> needed{outputs.begin(), outputs.end()};
    for (auto layer = net_.layers.rbegin(); layer != net_.layers.rend(); ++layer) {
      if (!needed.contains(layer->name)) continue;
      needed.insert(layer->inputs.begin(), layer->inputs.end());
      if (!layer->shares.empty()) needed.insert(layer->shares);
    }
    for (const GraphLayer& layer : net_.layers)
      if (needed.contains(layer.name)) values_[layer.name] = value_of(layer);
    std::vector<Tensor> ends;
    for (const std::string& output : outputs) ends.push_back(tensor_of(output, output));
    return ends;
  }

 private:
  [[noreturn]] void fail(const GraphLayer& layer, const std::string& message) const {
    graph_.fail("layer " + in_quotes(layer.name) + " " + message);
  }
  const Value& input(const GraphLayer& layer, std::size_t i = 0) const { return values_.at(layer.inputs[i]); }

  Tensor tensor_of(const std::string& name, const std::string& reader) const {
    const Value& value = values_.at(name);
    if (value.table) graph_.fail("layer " + in_quotes(reader) + " reads a parameter where a tensor of samples belongs");
    return value.tensor;
  }

  // Axes of images, channels first or last.
  bool is_channels_first() const { return graph_.layout() == Layout::kNchw; }
  std::size_t channel_axis(const Shape& shape) const {
    return is_channels_first() && shape.size() > 1 ? 0 : shape.size() - 1;
  }
  /// The positions and channels of an image.
  Tensor image(const GraphLayer& layer) const {
    Tensor x = tensor_of(layer.inputs[0], layer.name);
    const Shape& shape = input(layer).shape;
    if (shape.size() > 3) fail(layer, "reads " + std::to_string(shape.size()) + " axes; images have three");
    const std::size_t channels = channel_axis(shape);
    Shape positions = shape;
    positions.erase(positions.begin() + static_cast<std::ptrdiff_t>(channels));
    positions.resize(2, 1);
    x.height = positions[0];
    x.width = positions[1];
    x.channels = shape[channels];
    return x;
  }
  Shape image_shape(const Tensor& x, std::size_t axes) const {
    Shape positions{x.height, x.width};
    positions.resize(std::max<std::size_t>(axes, 1) - 1);
    positions.insert(is_channels_first() ? positions.begin() : positions.end(), x.channels);
    return positions;
  }
  /// Rows of the last axis.
  static Tensor rows_of(Tensor x, const Shape& shape) {
    x.channels = shape.back();
    x.height = count_of(shape) / shape.back();
    x.width = 1;
    return x;
  }
  static Tensor tensor_like(const Shape& shape) { return rows_of({}, shape); }

  /// What the inputs give together, axes counted from the last.
  Shape broadcast(const GraphLayer& layer) const {
    Shape all;
    for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
      const Shape& shape = input(layer, i).shape;
      if (shape.size() > all.size()) all.insert(all.begin(), shape.size() - all.size(), 1);
      for (std::size_t axis = 1; axis <= shape.size(); ++axis) {
        std::int64_t& size = all[all.size() - axis];
        const std::int64_t own = shape[shape.size() - axis];
        if (size != own && size != 1 && own != 1)
          fail(layer, "reads axes of " + std::to_string(size) + " and " + std::to_string(own));
        size = std::max(size, own);
      }
    }
    return all;
  }

  Value elementwise(const GraphLayer& layer) {
    std::vector<Tensor> tensors;
    std::vector<Table> tables;
    for (const std::string& name : layer.inputs) {
      const Value& value = values_.at(name);
      if (value.table)
        tables.push_back(*value.table);
      else
        tensors.push_back(rows_of(value.tensor, value.shape));
    }
    Shape shape = !layer.shape.empty() ? layer.shape : broadcast(layer);
    if (tensors.empty()) fail(layer, "reads parameters alone");
    const Tensor y = tensor_like(shape);
    return {shape, layer.kind == LayerKind::kMultiply ? graph_.multiply(layer.name, tensors, tables, y)
                                                      : graph_.combine(layer.name, tensors, tables, y)};
  }

  Value concatenation(const GraphLayer& layer) {
    if (!layer.shape.empty()) return elementwise(layer);
    Shape shape = input(layer).shape;
    const std::size_t axis = layer.axis >= 0 ? static_cast<std::size_t>(layer.axis) : channel_axis(shape);
    if (axis >= shape.size()) fail(layer, "concatenates along an axis that its inputs do not have");
    for (std::size_t i = 1; i < layer.inputs.size(); ++i) {
      Shape other = input(layer, i).shape;
      if (other.size() != shape.size()) fail(layer, "concatenates tensors of different axes");
      shape[axis] += other[axis];
      other[axis] = shape[axis];
      if (other != shape) fail(layer, "concatenates tensors of different shapes");
    }
    GraphLayer stated = layer;
    stated.shape = shape;
    return elementwise(stated);
  }

  Value convolution(const GraphLayer& layer) {
    const Tensor x = image(layer);
    GraphBuilder::Window window = layer.window;
    if (!layer.shape.empty()) {
      Shape positions = layer.shape;
      const std::size_t channels = channel_axis(positions);
      if (positions.size() > 3 || positions[channels] != (is_pool(layer.kind) ? x.channels : layer.features))
        fail(layer, "has a shape that is not of its channels");
      positions.erase(positions.begin() + static_cast<std::ptrdiff_t>(channels));
      positions.resize(2, 1);
      window.output = {{positions[0], positions[1]}};
    }
    const Tensor y =
        layer.kind == LayerKind::kMaxPool       ? graph_.max_pool(layer.name, x, window)
        : layer.kind == LayerKind::kAveragePool ? graph_.average_pool(layer.name, x, window)
        : layer.kind == LayerKind::kTransposedConvolution
            ? graph_.transposed_convolution(layer.name, x, layer.features, window, layer.groups, layer.has_bias)
            : graph_.convolution(layer.name, x, layer.features, window, layer.groups, layer.has_bias);
    return {image_shape(y, input(layer).shape.size()), y};
  }

  Value linear(const GraphLayer& layer) {
    Shape shape = input(layer).shape;
    const Tensor x = rows_of(tensor_of(layer.inputs[0], layer.name), shape);
    shape.back() = layer.features;
    const auto table = tables_.find(layer.shares);
    if (table == tables_.end()) return {shape, graph_.linear(layer.name, x, layer.features, layer.has_bias)};
    if (table->second.rows != layer.features) fail(layer, "shares a table of another number of rows");
    return {shape, graph_.score(layer.name, x, table->second, layer.has_bias)};
  }

  Value product(const GraphLayer& layer) {
    const Shape& shape = layer.shape;
    const auto number = [](std::int64_t size) { return static_cast<double>(size); };  // products may be beyond 2^63
    const auto scalars = [&](const Value& value) { return number(count_of(value.shape)); };
    const std::int64_t columns = shape.back(), all = count_of(shape);
    const Value &a = input(layer, 0), &b = input(layer, 1);
    if (b.table) {  // x W: a linear layer
      Tensor x = tensor_of(layer.inputs[0], layer.name);
      if (scalars(a) != number(all / columns) * number(layer.reduction) ||
          scalars(b) != number(columns) * number(layer.reduction))
        fail(layer, "has a shape or reduction that its inputs do not have");
      x = rows_of(x, {all / columns, layer.reduction});
      return {shape, graph_.score(layer.name, x, {b.table->variable, columns, layer.reduction}, false)};
    }
    const std::int64_t rows = shape.size() > 1 ? shape[shape.size() - 2] : 1, products = all / columns / rows;
    if (scalars(a) != number(products * rows) * number(layer.reduction) &&
        scalars(a) != number(rows) * number(layer.reduction))
      fail(layer, "has a shape or reduction that its first input does not have");
    return {shape, graph_.product(layer.name, rows_of(tensor_of(layer.inputs[0], layer.name), a.shape),
                                  rows_of(tensor_of(layer.inputs[1], layer.name), b.shape),
                                  {number(rows), number(columns), number(layer.reduction), number(products)},
                                  tensor_like(shape))};
  }

  Value attention(const GraphLayer& layer) {
    const Shape &q = input(layer, 0).shape, &k = input(layer, 1).shape, &v = input(layer, 2).shape;
    if (q.size() != 3 || k.size() != 3 || v.size() != 3 || q[2] != k[2] || k[1] != v[1] || q[0] % k[0] != 0 ||
        k[0] != v[0])
      fail(layer, "expected queries, keys and values [heads, positions, features] that fit");
    const auto tensor = [&](std::size_t i) {
      return rows_of(tensor_of(layer.inputs[i], layer.name), input(layer, i).shape);
    };
    const auto number = [](std::int64_t size) { return static_cast<double>(size); };
    const Shape weights{q[0], q[1], k[1]}, shape{q[0], q[1], v[2]};
    Tensor scores = graph_.product(layer.name + "/scores", tensor(0), tensor(1),
                                   {number(q[1]), number(k[1]), number(q[2]), number(q[0])}, tensor_like(weights));
    if (layer.inputs.size() == 4)
      scores = graph_.combine(layer.name + "/mask", std::vector{scores, tensor(3)}, {}, scores);
    scores = graph_.activation(layer.name + "/softmax", scores);
    return {shape, graph_.product(layer.name + "/context", scores, tensor(2),
                                  {number(q[1]), number(v[2]), number(k[1]), number(q[0])}, tensor_like(shape))};
  }

  Value norm(const GraphLayer& layer) {
    const Shape& shape = input(layer).shape;
    Tensor x = rows_of(tensor_of(layer.inputs[0], layer.name), shape);
    if (layer.kind == LayerKind::kBatchNorm || layer.kind == LayerKind::kGroupNorm) {
      x.channels = shape[channel_axis(shape)];
      x.height = count_of(shape) / x.channels;
    }
    return {shape, graph_.normalisation(
                       layer.name,
                       layer.kind == LayerKind::kBatchNorm ? OperatorKind::kBatchNorm : OperatorKind::kLayerNorm, x,
                       {.has_scale = layer.has_scale,
                        .has_bias = layer.has_bias && layer.has_scale && layer.kind != LayerKind::kRmsNorm})};
  }

  Value embedding(const GraphLayer& layer) {
    Shape shape = input(layer).shape;
    const auto shared = tables_.find(layer.shares);
    const Table table = shared != tables_.end() ? shared->second : graph_.table(layer.name, layer.rows, layer.features);
    tables_.emplace(layer.name, table);
    Tensor identifiers = tensor_of(layer.inputs[0], layer.name);
    identifiers.height = count_of(shape);
    identifiers.width = identifiers.channels = 1;
    shape.push_back(table.features);
    return {shape, graph_.lookup(layer.name, identifiers, table)};
  }

  Value rearranged(const GraphLayer& layer) {
    const Value& x = input(layer);
    const std::int64_t before = count_of(x.shape), after = count_of(layer.shape);
    if (layer.kind == LayerKind::kPart ? after > before : after != before)
      fail(layer, "makes " + std::to_string(after) + " scalars of " + std::to_string(before));
    if (x.table) return {layer.shape, {}, x.table};
    if (layer.kind == LayerKind::kCopy) return elementwise(layer);
    return {layer.shape, rows_of(x.tensor, layer.shape)};
  }

  Value value_of(const GraphLayer& layer) {
    if (!layer.shares.empty() && !tables_.contains(layer.shares)) graph_.share_variables(layer.name, layer.shares);
    switch (layer.kind) {
      case LayerKind::kInput: {
        const Tensor x = tensor_like(layer.shape);
        return {layer.shape, graph_.input(x.height, x.width, x.channels)};
      }
      case LayerKind::kIdentifiers:
        return {layer.shape, graph_.identifiers(count_of(layer.shape))};
      case LayerKind::kParameter:
        return {
            layer.shape, {}, graph_.table(layer.name, count_of(layer.shape) / layer.shape.back(), layer.shape.back())};
      case LayerKind::kConvolution:
      case LayerKind::kTransposedConvolution:
      case LayerKind::kMaxPool:
      case LayerKind::kAveragePool:
        return convolution(layer);
      case LayerKind::kLinear:
        return linear(layer);
      case LayerKind::kProduct:
        return product(layer);
      case LayerKind::kAttention:
        return attention(layer);
      case LayerKind::kBatchNorm:
      case LayerKind::kGroupNorm:
      case LayerKind::kLayerNorm:
      case LayerKind::kRmsNorm:
        return norm(layer);
      case LayerKind::kActivation:
      case LayerKind::kDropout: {
        const Shape& shape = input(layer).shape;
        const Tensor x = rows_of(tensor_of(layer.inputs[0], layer.name), shape);
        const bool is_dropout = layer.kind == LayerKind::kDropout;
        return {shape, is_dropout ? graph_.dropout(layer.name, x) : graph_.activation(layer.name, x)};
      }
      case LayerKind::kGlobalAveragePool: {
        const Tensor y = graph_.global_average_pool(layer.name, image(layer));
        return {image_shape(y, input(layer).shape.size()), y};
      }
      case LayerKind::kAdd:
      case LayerKind::kMultiply:
      case LayerKind::kElementwise:
        return elementwise(layer);
      case LayerKind::kConcatenate:
        return concatenation(layer);
      case LayerKind::kEmbedding:
        return embedding(layer);
      case LayerKind::kReshape:
      case LayerKind::kCopy:
      case LayerKind::kPart:
        return rearranged(layer);
      case LayerKind::kLstm:
      case LayerKind::kGru:
      case LayerKind::kRnn:
        break;
    }
    const Shape& shape = input(layer).shape;
    const Tensor x = rows_of(tensor_of(layer.inputs[0], layer.name), shape);
    return {{x.height, layer.features},
            graph_.recurrent(layer.name, x, layer.features,
                             {.gates = gates_of(layer.kind), .is_split = true, .has_bias = layer.has_bias})};
  }

  GraphBuilder& graph_;
  const LayerGraph& net_;
  std::map<std::string, Value, std::less<>> values_;
  std::map<std::string, Table, std::less<>> tables_;  // of embeddings
};

}  // namespace

std::vector<Tensor> build(GraphBuilder& graph, const LayerGraph& net) { return LayerGraphBuilder{graph, net}.build(); }

}  // namespace rehearse
