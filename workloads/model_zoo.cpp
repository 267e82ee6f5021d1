#include "workloads/model_zoo.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <utility>

#include "sim/base/named.hpp"
#include "sim/base/names.hpp"
#include "workloads/overlapped_exchanges.hpp"
#include "workloads/sizes.hpp"
#include "workloads/window.hpp"

namespace rehearse {

namespace {

constexpr int kMaxDepth = 8;  // of branches and repetitions
constexpr std::size_t kMaxBranches = 1000;
constexpr int kMaxRepetitions = 1000;

template <class Family>
Family read_family(const JsonReader& json, int stem_kernel) {
  Family family{.blocks_per_stage = read_sizes(json, "blocks_per_stage"),
                .widths = read_sizes(json, "widths"),
                .stem_channels = read_size(json, "stem_channels", 16),
                .stem_kernel = read_size(json, "stem_kernel", stem_kernel)};
  json.expect(family.widths.size() == family.blocks_per_stage.size(), "widths",
              "as many integers as \"blocks_per_stage\" has");
  return family;
}

std::vector<LayerDescription> read_layers(const std::vector<JsonReader>& list, int depth);

LayerDescription read_layer(const JsonReader& json, int depth) {
  using Kind = LayerDescription::Kind;
  constexpr std::array kWords{Named{"average_pool", Kind::kAveragePool},
                              Named{"batch_norm", Kind::kBatchNorm},
                              Named{"branches", Kind::kBranches},
                              Named{"convolution", Kind::kConvolution},
                              Named{"convolution_unit", Kind::kConvolutionUnit},
                              Named{"dense", Kind::kDense},
                              Named{"global_average_pool", Kind::kGlobalAveragePool},
                              Named{"max_pool", Kind::kMaxPool},
                              Named{"relu", Kind::kRelu},
                              Named{"repeat", Kind::kRepeat}};
  const auto name = json.required<std::string>("layer");
  const auto found = std::find_if(kWords.begin(), kWords.end(), [&](const auto& kind) { return kind.name == name; });
  if (found == kWords.end()) json.fail("layer", unknown_name_message("layer", name, names_in(kWords)));
  LayerDescription layer{.kind = found->value};
  switch (layer.kind) {
    case Kind::kConvolution:
      layer.has_bias = json.optional<bool>("bias", false);
      [[fallthrough]];
    case Kind::kConvolutionUnit:
      layer.channels = read_size(json, "channels");
      layer.window = read_window(json, 1);
      layer.groups = read_size(json, "groups", 1);
      break;
    case Kind::kDense:
      layer.channels = read_size(json, "features");
      layer.has_bias = json.optional<bool>("bias", true);
      break;
    case Kind::kMaxPool:
    case Kind::kAveragePool:
      layer.window = read_window(json, 0);
      break;
    case Kind::kBranches: {
      if (depth >= kMaxDepth) json.fail("branches are nested more than 8 deep");
      static const std::map<std::string, Branches::Combine> ways{{"add", Branches::Combine::kAdd},
                                                                 {"mix", Branches::Combine::kMix},
                                                                 {"concatenate", Branches::Combine::kConcatenate}};
      const auto way = ways.find(json.optional<std::string>("combine", "add"));
      json.expect(way != ways.end(), "combine", "\"add\", \"mix\" or \"concatenate\"");
      layer.branches.combine = way->second;
      const std::vector<JsonReader> branches = json.children("branches");
      json.expect(branches.size() >= 2 && branches.size() <= kMaxBranches, "branches", "2 to 1000 lists of layers");
      for (const JsonReader& branch : branches)
        layer.branches.branches.push_back(read_layers(branch.elements(), depth + 1));
      break;
    }
    case Kind::kRepeat:
      if (depth >= kMaxDepth) json.fail("repetitions are nested more than 8 deep");
      layer.times = read_size(json, "times");
      json.expect(layer.times <= kMaxRepetitions, "times", "an integer from 1 to 1000");
      layer.repeated = read_layers(json.children("layers"), depth + 1);
      json.expect(!layer.repeated.empty(), "layers", "at least one layer");
      break;
    case Kind::kBatchNorm:
    case Kind::kRelu:
    case Kind::kGlobalAveragePool:
      break;
  }
  json.reject_unknown_keys();
  return layer;
}

std::vector<LayerDescription> read_layers(const std::vector<JsonReader>& list, int depth) {
  std::vector<LayerDescription> layers;
  for (const JsonReader& json : list) layers.push_back(read_layer(json, depth));
  return layers;
}

using Tensor = GraphBuilder::Tensor;

/// A block of a residual network for small images.
struct ResidualBlock {
  std::string name;
  Tensor input;
  int width = 0, stride = 1;  // channels of its output; of its first convolution
  bool is_first = false;      // of its stage
};

/// The stages of such a network, of which `add` adds each block and gives its output.
template <class Net>
Tensor build_stages(const Net& net, Tensor x, const std::function<Tensor(const ResidualBlock&)>& add) {
  for (std::size_t stage = 0; stage < net.widths.size(); ++stage)
    for (int block = 0; block < net.blocks_per_stage[stage]; ++block)
      x = add({.name = "stage" + std::to_string(stage + 1) + "/block" + std::to_string(block + 1),
               .input = x,
               .width = net.widths[stage],
               .stride = block == 0 && stage > 0 ? 2 : 1,
               .is_first = block == 0});
  return x;
}

Tensor build(GraphBuilder& graph, const ResnetV2Basic& net, const Tensor& images, int classes) {
  const Tensor stem = graph.convolution("stem", images, net.stem_channels, net.stem_kernel, 1, false);
  const Tensor x = build_stages(net, graph.batch_norm("stem/bn", stem), [&](const ResidualBlock& block) {
    const auto& [name, input, width, stride, is_first] = block;
    const Tensor active = graph.activation(name + "/relu1", graph.batch_norm(name + "/bn1", input));
    Tensor skip = input;
    if (is_first) {
      skip = graph.convolution(name + "/projection", active, width, 1, stride, false);
      skip = graph.batch_norm(name + "/projection/bn", skip);
    }
    Tensor branch = graph.convolution(name + "/conv1", active, width, 3, stride, false);
    branch = graph.activation(name + "/relu2", graph.batch_norm(name + "/bn2", branch));
    branch = graph.convolution(name + "/conv2", branch, width, 3, 1, false);
    return graph.add(name + "/sum", std::vector{branch, skip});
  });
  return graph.dense("logits", graph.global_average_pool("pool", x), classes);
}

Tensor build(GraphBuilder& graph, const ShakeShake& net, const Tensor& images, int classes) {
  const Tensor stem = graph.convolution("stem", images, net.stem_channels, net.stem_kernel, 1, true);
  const Tensor x = build_stages(net, graph.batch_norm("stem/bn", stem), [&](const ResidualBlock& block) {
    const auto& [name, input, width, stride, is_first] = block;
    std::vector<Tensor> branches;
    for (const char* side : {"/left", "/right"}) {
      const std::string path = name + side;
      Tensor branch = graph.activation(path + "/relu1", input);
      branch = graph.batch_norm(path + "/bn1", graph.convolution(path + "/conv1", branch, width, 3, stride, true));
      branch = graph.activation(path + "/relu2", branch);
      branches.push_back(
          graph.batch_norm(path + "/bn2", graph.convolution(path + "/conv2", branch, width, 3, 1, true)));
    }
    Tensor skip = input;
    if (input.channels != width) {
      const Tensor active = graph.activation(name + "/skip/relu", input);
      const Tensor left = graph.convolution(name + "/skip/conv1", active, width / 2, 1, stride, true);
      const Tensor right = graph.convolution(name + "/skip/conv2", active, width / 2, 1, stride, true);
      skip = graph.batch_norm(name + "/skip/bn", graph.concatenate(name + "/skip/concat", std::vector{left, right}));
    }
    return graph.add(name + "/sum", std::vector{graph.mix(name + "/shake", branches), skip});
  });
  return graph.dense("logits", graph.global_average_pool("pool", graph.activation("last_relu", x)), classes);
}

Tensor build_layers(GraphBuilder& graph, const std::vector<LayerDescription>& layers, Tensor x,
                    const std::string& prefix) {
  using Kind = LayerDescription::Kind;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerDescription& layer = layers[i];
    const std::string name = prefix + std::to_string(i + 1);
    switch (layer.kind) {
      case Kind::kConvolution:
        x = graph.convolution(name + "/conv", x, layer.channels, layer.window, layer.groups, layer.has_bias);
        break;
      case Kind::kConvolutionUnit:
        x = convolution_unit(graph, name + "/conv", x, layer.channels, layer.window, layer.groups);
        break;
      case Kind::kRepeat:
        for (int time = 1; time <= layer.times; ++time)
          x = build_layers(graph, layer.repeated, x, name + "/" + std::to_string(time) + "/");
        break;
      case Kind::kBatchNorm:
        x = graph.batch_norm(name + "/bn", x);
        break;
      case Kind::kRelu:
        x = graph.activation(name + "/relu", x);
        break;
      case Kind::kDense:
        x = graph.dense(name + "/dense", x, layer.channels, layer.has_bias);
        break;
      case Kind::kMaxPool:
        x = graph.max_pool(name + "/max_pool", x, layer.window);
        break;
      case Kind::kAveragePool:
        x = graph.average_pool(name + "/average_pool", x, layer.window);
        break;
      case Kind::kGlobalAveragePool:
        x = graph.global_average_pool(name + "/pool", x);
        break;
      case Kind::kBranches: {
        std::vector<Tensor> ends;
        for (std::size_t b = 0; b < layer.branches.branches.size(); ++b)
          ends.push_back(
              build_layers(graph, layer.branches.branches[b], x, name + "/branch" + std::to_string(b + 1) + "/"));
        switch (layer.branches.combine) {
          case Branches::Combine::kAdd:
            x = graph.add(name + "/sum", ends);
            break;
          case Branches::Combine::kMix:
            x = graph.mix(name + "/mix", ends);
            break;
          case Branches::Combine::kConcatenate:
            x = graph.concatenate(name + "/concat", ends);
            break;
        }
        break;
      }
    }
  }
  return x;
}

Tensor build(GraphBuilder& graph, const LayerList& net, const Tensor& images, int) {
  return build_layers(graph, net.layers, images, "layer");
}

ModelStructure read_shake_shake(const JsonReader& json) {
  auto net = read_family<ShakeShake>(json, 3);
  for (const int width : net.widths)
    json.expect(width % 2 == 0, "widths", "even integers: two halves make a skip connection");
  return net;
}

ModelStructure read_layer_list(const JsonReader& json) {
  LayerList list{read_layers(json.children("layers"), 0)};
  json.expect(!list.layers.empty(), "layers", "at least one layer");
  return list;
}

/// How a family's "structure" is read, and what else its model file holds.
struct Family {
  ModelStructure (*read)(const JsonReader& json);
  bool has_images = false;  // "input" and "layout"
  int classes = 0;          // default of "classes"; 0: it has none
  bool has_layout = has_images;
};

const std::map<std::string, Family>& families() {
  static const std::map<std::string, Family> all{
      {"collective", {[](const JsonReader& json) -> ModelStructure { return read_collective(json); }}},
      {"densenet", {[](const JsonReader& json) -> ModelStructure { return read_densenet(json); }, true, 1000}},
      {"dlrm", {[](const JsonReader& json) -> ModelStructure { return read_dlrm(json); }}},
      {"graph", {[](const JsonReader& json) -> ModelStructure { return read_layer_graph(json); }, false, 0, true}},
      {"gnmt", {[](const JsonReader& json) -> ModelStructure { return read_gnmt(json); }}},
      {"layers", {read_layer_list, true}},
      {"lstm_language_model",
       {[](const JsonReader& json) -> ModelStructure { return read_lstm_language_model(json); }}},
      {"mobilenet_v2", {[](const JsonReader& json) -> ModelStructure { return read_mobilenet_v2(json); }, true, 1000}},
      {"resnet", {[](const JsonReader& json) -> ModelStructure { return read_resnet(json); }, true, 1000}},
      {"resnet_v2_basic",
       {[](const JsonReader& json) -> ModelStructure { return read_family<ResnetV2Basic>(json, 7); }, true, 10}},
      {"shake_shake_2branch", {read_shake_shake, true, 10}},
      {"timed_layers", {[](const JsonReader& json) -> ModelStructure { return read_timed_layers(json); }}},
      {"transformer", {[](const JsonReader& json) -> ModelStructure { return read_transformer(json); }}},
      {"two_towers", {[](const JsonReader& json) -> ModelStructure { return read_two_towers(json); }}},
      {"yolo_v3", {[](const JsonReader& json) -> ModelStructure { return read_yolo_v3(json); }, true, 80}}};
  return all;
}

void read_convergence_of(ModelDescription& model, const JsonReader& json) {
  if (!json.has("missing")) {
    model.convergence = read_convergence(json);
    return;
  }
  model.no_convergence = json.required<std::string>("missing");
  json.expect(!model.no_convergence.empty(), "missing", "why there is none");
  json.reject_unknown_keys();
}

}  // namespace

ModelDescription read_model(std::string name, JsonReader json) {
  json.use_schema([] { return std::string{model_schema()}; });
  json.expect(json.required<int>("format") == 1, "format", "1");
  ModelDescription model{.name = std::move(name),
                         .source = json.required<std::string>("source"),
                         .input = {},
                         .classes = 0,
                         .layout = Layout::kNchw,
                         .structure = {},
                         .convergence = {},
                         .no_convergence = {}};
  (void)json.optional<std::string>("name", "");  // inline models are named this way
  const JsonReader structure = json.child("structure");
  const auto family_name = structure.required<std::string>("family");
  const auto family = families().find(family_name);
  if (family == families().end()) {
    std::vector<std::string> known;
    for (const auto& [name_of, family_of] : families()) known.push_back(name_of);
    structure.fail("family", unknown_name_message("family", family_name, known));
  }
  if (family->second.has_images) {
    model.input = read_sizes(json, "input");
    json.expect(model.input.size() == 3 && *std::max_element(model.input.begin(), model.input.end()) <= 65536, "input",
                "[height, width, channels], each at most 65536");
  }
  if (family->second.has_layout) {
    const auto layout = json.optional<std::string>("layout", "NCHW");
    json.expect(layout == "NCHW" || layout == "NHWC", "layout", "\"NCHW\" or \"NHWC\"");
    model.layout = layout == "NCHW" ? Layout::kNchw : Layout::kNhwc;
  }
  model.structure = family->second.read(structure);
  if (family->second.classes > 0) model.classes = read_size(structure, "classes", family->second.classes);
  structure.reject_unknown_keys();
  if (json.has("convergence")) read_convergence_of(model, json.child("convergence"));
  json.reject_unknown_keys();
  return model;
}

std::string no_convergence_message(const ModelDescription& model) {
  return "expected \"convergence\" in the workload, which rehearse calibrate fits to logs of its training; found none" +
         (model.no_convergence.empty()
              ? ", and model " + in_quotes(model.name) + " has none of its own"
              : ". That of model " + in_quotes(model.name) + " is missing: " + model.no_convergence);
}

namespace {

Workload build_with(const ModelDescription& model, int batch, Precision precision, const std::string& place,
                    const StackOptions& options) {
  GraphBuilder graph{place, model.name, model.layout,
                     batch, precision,  {model.split, model.context, model.expert_split}};
  const std::vector<Tensor> outputs = std::visit(
      [&]<class Structure>(const Structure& structure) -> std::vector<Tensor> {
        if constexpr (requires { build(graph, structure, options); }) {
          return build(graph, structure, options);
        } else if constexpr (requires { build(graph, structure); }) {
          return build(graph, structure);
        } else if constexpr (!std::is_same_v<Structure, TimedLayers>) {
          const Tensor images = graph.input(model.input[0], model.input[1], model.input[2]);
          return {build(graph, structure, images, model.classes)};
        }
        return {};
      },
      model.structure);
  Workload workload = graph.finish(outputs, model.has_fused_loss, model.has_composed_loss);
  if (workload.parameter_bytes() == Bytes{}) throw InputError{place + ": the model has no variable to train"};
  if (model.split.is_asynchronous) return overlap_exchanges(std::move(workload), model.split.degree);
  return workload;
}

}  // namespace

Workload build_workload(const ModelDescription& model, int batch, Precision precision, const std::string& place) {
  if (const auto* timed = std::get_if<TimedLayers>(&model.structure))
    return build_workload(*timed, model.name, batch, precision, place);
  StackOptions options{
      .again = model.again, .adapters = model.adapters, .fp8 = model.fp8, .wide_layers = model.wide_layers};
  if (const auto* net = std::get_if<Transformer>(&model.structure)) {
    const std::vector<AlikeLayers> alike = alike_layers(*net, options, model.expert_split);
    options.alike = alike;
    if (!alike.empty())
      if (auto repeated = repeat_layers(build_with(model, batch, precision, place, options), "encoder/layer", alike))
        return std::move(*repeated);
    options.alike = {};
  }
  return build_with(model, batch, precision, place, options);
}

}  // namespace rehearse
