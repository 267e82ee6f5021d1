#include "workloads/importers/paleo.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "sim/base/names.hpp"
#include "workloads/layer_graph.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMostPaleoLayers = 10'000;
constexpr int kDeepestPaleoBlock = 8;

/// A network, layer by layer: first those that a layer reads.
class PaleoNet {
 public:
  explicit PaleoNet(const JsonReader& root) { add_layers(root.child("layers"), "", {}, 0); }

  LayerGraph net;

 private:
  using Names = std::map<std::string, std::string, std::less<>>;

  /// Of a network, or of a block in it, whose layers without parents read those of the block.
  void add_layers(const JsonReader& layers, const std::string& prefix, const std::vector<std::string>& parents,
                  int depth) {
    if (!layers.is_object()) layers.expect(false, "an object of layers");
    if (depth > kDeepestPaleoBlock) layers.fail("blocks are nested more than 8 deep");
    std::map<std::string, JsonReader, std::less<>> by_name;
    std::vector<std::string> order;
    for (const auto& [name, layer] : layers.items()) {
      by_name.emplace(name, layer);
      order.push_back(name);
    }
    // Depth first over what is read.
    std::set<std::string> begun, done;
    for (const std::string& first : order) {
      std::vector<std::string> stack{first};
      while (!stack.empty()) {
        const std::string name = stack.back();
        if (done.contains(name)) {
          stack.pop_back();
          continue;
        }
        const JsonReader& layer = by_name.at(name);
        const std::size_t before = stack.size();
        begun.insert(name);
        for (const auto& parent : layer.optional<std::vector<std::string>>("parents", {})) {
          if (!by_name.contains(parent) || done.contains(parent)) continue;
          if (begun.contains(parent)) layer.fail("parents", "a cycle of layers goes through " + in_quotes(parent));
          stack.push_back(parent);
        }
        if (stack.size() > before) continue;
        stack.pop_back();
        done.insert(name);
        add_layer(prefix + name, layer, prefix, parents, depth);
      }
    }
  }

  void add_layer(const std::string& name, const JsonReader& layer, const std::string& prefix,
                 const std::vector<std::string>& of_block, int depth) {
    if (net.layers.size() >= kMostPaleoLayers) layer.fail("more than 10000 layers");
    std::vector<std::string> inputs;
    for (const auto& parent : layer.optional<std::vector<std::string>>("parents", {})) {
      const auto found = ends_.find(prefix + parent);
      if (found == ends_.end()) layer.fail("parents", "no layer " + in_quotes(parent));
      inputs.push_back(found->second);
    }
    if (inputs.empty()) inputs = of_block;
    const auto type = layer.required<std::string>("type");
    if (type == "Input") return add_input(name, layer);
    if (inputs.empty()) layer.fail("parents", "expected a layer that this one reads");
    if (type == "Block") {
      add_layers(layer.child("layers"), name + "/", inputs, depth + 1);
      const auto endpoint = layer.required<std::string>("endpoint");
      const auto end = ends_.find(name + "/" + endpoint);
      if (end == ends_.end()) layer.fail("endpoint", "no layer " + in_quotes(endpoint));
      ends_[name] = end->second;
      return;
    }
    add_operator(name, type, layer, inputs);
  }

  void add_input(const std::string& name, const JsonReader& layer) {
    const auto tensor = layer.required<std::vector<std::int64_t>>("tensor");
    const bool is_image =
        tensor.size() == 4 && std::ranges::all_of(tensor, [](std::int64_t size) { return size >= 1 && size <= 65536; });
    layer.expect(is_image, "tensor", "[batch, height, width, channels], each from 1 to 65536");
    write(name,
          {.name = name, .kind = GraphLayer::Kind::kInput, .inputs = {}, .shape = {tensor.begin() + 1, tensor.end()}});
  }

  void add_operator(const std::string& name, const std::string& type, const JsonReader& layer,
                    const std::vector<std::string>& inputs) {
    using Kind = GraphLayer::Kind;
    static const std::map<std::string, Kind, std::less<>> kinds{
        {"AvgPool", Kind::kAveragePool}, {"Concatenate", Kind::kConcatenate}, {"Convolution", Kind::kConvolution},
        {"Dropout", Kind::kDropout},     {"Elementwise", Kind::kAdd},         {"Pooling", Kind::kMaxPool},
        {"Sigmoid", Kind::kActivation}};
    if (type == "Softmax") {  // the loss
      ends_[name] = inputs[0];
      return;
    }
    const auto kind = kinds.find(type);
    if (kind == kinds.end()) {
      std::vector<std::string> known{"Block", "Input", "Softmax"};
      for (const auto& [each, value] : kinds) known.push_back(each);
      layer.fail("type", unknown_name_message("type of layer", type, known));
    }
    GraphLayer made{.name = name, .kind = kind->second, .inputs = inputs};
    const bool joins = made.kind == Kind::kConcatenate || made.kind == Kind::kAdd;
    if (!joins && inputs.size() != 1)
      layer.fail("parents", "expected one layer; found " + std::to_string(inputs.size()));
    if (made.kind == Kind::kConvolution) return add_convolution(std::move(made), layer);
    if (made.kind == Kind::kMaxPool || made.kind == Kind::kAveragePool) {
      const auto size = sizes(layer, "ksize");
      read_window(layer, size[1], size[2], made);
    }
    write(name, std::move(made));
  }

  void add_convolution(GraphLayer made, const JsonReader& layer) {
    using Kind = GraphLayer::Kind;
    const std::string name = made.name;
    const auto filter = sizes(layer, "filter");
    read_window(layer, filter[0], filter[1], made);
    made.features = filter[3];
    const auto has = [&](const char* key) { return layer.has(key) && !layer.child(key).is_null(); };
    const bool is_normalised = has("normalizer_fn");
    made.has_bias = !is_normalised;
    write(name, std::move(made));
    if (is_normalised) write(name, {.name = name + "/norm", .kind = Kind::kBatchNorm, .inputs = {ends_[name]}});
    if (has("activation_fn"))
      write(name, {.name = name + "/activation", .kind = Kind::kActivation, .inputs = {ends_[name]}});
  }

  static std::vector<std::int64_t> sizes(const JsonReader& layer, const char* key) {
    auto list = layer.required<std::vector<std::int64_t>>(key);
    const bool is_right =
        list.size() == 4 && std::ranges::all_of(list, [](std::int64_t size) { return size >= 1 && size <= (1 << 20); });
    layer.expect(is_right, key, "four integers from 1 to 1048576");
    return list;
  }

  static void read_window(const JsonReader& layer, std::int64_t height, std::int64_t width, GraphLayer& made) {
    const auto strides = sizes(layer, "strides");
    const auto padding = layer.required<std::string>("padding");
    layer.expect(padding == "SAME" || padding == "VALID", "padding", "\"SAME\" or \"VALID\"");
    made.window = {.height = height, .width = width, .stride = strides[1]};
    if (padding == "VALID") made.window.padding = 0;
  }

  /// The layer `made`, which is now where `name` ends.
  void write(const std::string& name, GraphLayer made) {
    ends_[name] = made.name;
    net.layers.push_back(std::move(made));
  }

  Names ends_;  // of layers, the last of those that they became
};

}  // namespace

bool is_paleo_net(const Source& source) {
  if (!source.is_json() || !source.json().is_object() || !source.json().contains("layers")) return false;
  const Json& layers = source.json()["layers"];
  return layers.is_object() && !layers.empty() &&
         std::ranges::all_of(layers, [](const Json& layer) { return layer.is_object() && layer.contains("type"); });
}

ImportedModel read_paleo_net(const Source& source) {
  const JsonReader root{source.json(), source.name()};
  ImportedModel imported{.model_file = model_file(source, "Paleo network", layer_graph_json(PaleoNet{root}.net))};
  imported.model_file["layout"] = "NHWC";
  return imported;
}

}  // namespace rehearse
