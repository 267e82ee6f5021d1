#include "workloads/image_families.hpp"

#include "workloads/sizes.hpp"

namespace rehearse {

using Tensor = GraphBuilder::Tensor;
using Window = GraphBuilder::Window;

namespace {

Window square(std::int64_t kernel, std::int64_t stride = 1) { return {kernel, kernel, stride, std::nullopt}; }

std::string block_name(std::size_t stage, int block) {
  return "stage" + std::to_string(stage + 1) + "/block" + std::to_string(block + 1);
}

Tensor convolution_bn(GraphBuilder& graph, const std::string& name, const Tensor& x, std::int64_t channels,
                      const Window& window, std::int64_t groups = 1) {
  return graph.batch_norm(name + "/bn", graph.convolution(name, x, channels, window, groups, false));
}

}  // namespace

Tensor convolution_unit(GraphBuilder& graph, const std::string& name, const Tensor& x, std::int64_t channels,
                        const Window& window, std::int64_t groups) {
  return graph.activation(name + "/relu", convolution_bn(graph, name, x, channels, window, groups));
}

ResNet read_resnet(const JsonReader& json) {
  ResNet net{.blocks_per_stage = read_sizes(json, "blocks_per_stage"), .widths = {}};
  net.widths = read_sizes_of_stages(json, "widths", net.blocks_per_stage.size());
  const auto block = json.required<std::string>("block");
  json.expect(block == "basic" || block == "bottleneck", "block", "\"basic\" or \"bottleneck\"");
  net.is_bottleneck = block == "bottleneck";
  const auto stem = json.optional<std::string>("stem", "imagenet");
  json.expect(stem == "imagenet" || stem == "small", "stem", "\"imagenet\" or \"small\"");
  net.has_small_stem = stem == "small";
  const auto skip = json.optional<std::string>("skip", "projection");
  json.expect(skip == "projection" || skip == "padding", "skip", "\"projection\" or \"padding\"");
  net.pads_skips = skip == "padding";
  net.strides_in_3x3 = json.optional<bool>("strides_in_3x3", true);
  net.stem_channels = read_size(json, "stem_channels", 64);
  net.has_biases = json.optional<bool>("biases", false);
  return net;
}

Tensor build(GraphBuilder& graph, const ResNet& net, const Tensor& images, int classes) {
  const auto linear = [&](const std::string& name, const Tensor& input, std::int64_t channels, const Window& window) {
    return graph.batch_norm(name + "/bn", graph.convolution(name, input, channels, window, 1, net.has_biases));
  };
  const auto unit = [&](const std::string& name, const Tensor& input, std::int64_t channels, const Window& window) {
    return graph.activation(name + "/relu", linear(name, input, channels, window));
  };
  Tensor x = unit("stem", images, net.stem_channels, net.has_small_stem ? square(3) : square(7, 2));
  if (!net.has_small_stem) x = graph.max_pool("stem/pool", x, square(3, 2));
  for (std::size_t stage = 0; stage < net.widths.size(); ++stage) {
    const std::int64_t width = net.widths[stage], outputs = net.is_bottleneck ? 4 * width : width;
    for (int block = 0; block < net.blocks_per_stage[stage]; ++block) {
      const std::string name = block_name(stage, block);
      const int stride = block == 0 && stage > 0 ? 2 : 1;
      Tensor branch = x;
      if (net.is_bottleneck) {
        branch = unit(name + "/conv1", branch, width, square(1, net.strides_in_3x3 ? 1 : stride));
        branch = unit(name + "/conv2", branch, width, square(3, net.strides_in_3x3 ? stride : 1));
        branch = linear(name + "/conv3", branch, outputs, square(1));
      } else {
        branch = unit(name + "/conv1", branch, width, square(3, stride));
        branch = linear(name + "/conv2", branch, outputs, square(3));
      }
      Tensor skip = x;
      if (stride != 1 || x.channels != outputs) {
        if (net.pads_skips && x.channels <= outputs)
          skip = graph.subsample_and_pad(name + "/skip", x, outputs, stride);
        else
          skip = linear(name + "/projection", x, outputs, square(1, stride));
      }
      x = graph.activation(name + "/relu", graph.add(name + "/sum", std::vector{branch, skip}));
    }
  }
  return graph.dense("logits", graph.global_average_pool("pool", x), classes);
}

DenseNet read_densenet(const JsonReader& json) {
  return {.layers_per_block = read_sizes(json, "layers_per_block"),
          .growth = read_size(json, "growth", 32),
          .stem_channels = read_size(json, "stem_channels", 64)};
}

Tensor build(GraphBuilder& graph, const DenseNet& net, const Tensor& images, int classes) {
  const auto active = [&](const std::string& name, const Tensor& x) {
    return graph.activation(name + "/relu", graph.batch_norm(name + "/bn", x));
  };
  Tensor x = convolution_unit(graph, "stem", images, net.stem_channels, square(7, 2));
  x = graph.max_pool("stem/pool", x, square(3, 2));
  for (std::size_t block = 0; block < net.layers_per_block.size(); ++block) {
    for (int layer = 0; layer < net.layers_per_block[block]; ++layer) {
      const std::string name = "block" + std::to_string(block + 1) + "/layer" + std::to_string(layer + 1);
      Tensor branch =
          convolution_unit(graph, name + "/conv1", active(name, x), 4 * std::int64_t{net.growth}, square(1));
      branch = graph.convolution(name + "/conv2", branch, net.growth, square(3), 1, false);
      x = graph.concatenate(name + "/concat", std::vector{x, branch});
    }
    if (block + 1 == net.layers_per_block.size()) break;
    const std::string name = "transition" + std::to_string(block + 1);
    x = graph.convolution(name, active(name, x), std::max<std::int64_t>(1, x.channels / 2), square(1), 1, false);
    x = graph.average_pool(name + "/pool", x, square(2, 2));
  }
  return graph.dense("logits", graph.global_average_pool("pool", active("last", x)), classes);
}

MobileNetV2 read_mobilenet_v2(const JsonReader& json) {
  MobileNetV2 net{.blocks_per_stage = read_sizes(json, "blocks_per_stage"),
                  .widths = {},
                  .expansions = {},
                  .strides = {},
                  .stem_channels = read_size(json, "stem_channels", 32),
                  .head_channels = read_size(json, "head_channels", 1280)};
  net.widths = read_sizes_of_stages(json, "widths", net.blocks_per_stage.size());
  net.expansions = read_sizes_of_stages(json, "expansions", net.blocks_per_stage.size());
  net.strides = read_sizes_of_stages(json, "strides", net.blocks_per_stage.size());
  return net;
}

Tensor build(GraphBuilder& graph, const MobileNetV2& net, const Tensor& images, int classes) {
  Tensor x = convolution_unit(graph, "stem", images, net.stem_channels, square(3, 2));
  for (std::size_t stage = 0; stage < net.widths.size(); ++stage) {
    for (int block = 0; block < net.blocks_per_stage[stage]; ++block) {
      const std::string name = block_name(stage, block);
      const int stride = block == 0 ? net.strides[stage] : 1;
      Tensor branch = x;
      if (net.expansions[stage] > 1)
        branch = convolution_unit(graph, name + "/expand", x, x.channels * net.expansions[stage], square(1));
      branch =
          convolution_unit(graph, name + "/depthwise", branch, branch.channels, square(3, stride), branch.channels);
      branch = convolution_bn(graph, name + "/project", branch, net.widths[stage], square(1));
      x = stride == 1 && x.channels == branch.channels ? graph.add(name + "/sum", std::vector{x, branch}) : branch;
    }
  }
  x = convolution_unit(graph, "head", x, net.head_channels, square(1));
  return graph.dense("logits", graph.global_average_pool("pool", x), classes);
}

YoloV3 read_yolo_v3(const JsonReader& json) {
  YoloV3 net{.blocks_per_stage = read_sizes(json, "blocks_per_stage"),
             .stem_channels = read_size(json, "stem_channels", 32)};
  json.expect(net.blocks_per_stage.size() >= 3 && net.blocks_per_stage.size() <= 10, "blocks_per_stage",
              "3 to 10 stages");
  json.expect(net.stem_channels <= 4096, "stem_channels", "at most 4096");
  return net;
}

std::vector<Tensor> build(GraphBuilder& graph, const YoloV3& net, const Tensor& images, int classes) {
  constexpr int kAnchors = 3, kBox = 5;  // four sides and whether there is an object
  std::vector<Tensor> stages;
  Tensor x = convolution_unit(graph, "stem", images, net.stem_channels, square(3));
  for (std::size_t stage = 0; stage < net.blocks_per_stage.size(); ++stage) {
    x = convolution_unit(graph, "stage" + std::to_string(stage + 1) + "/down", x, 2 * x.channels, square(3, 2));
    for (int block = 0; block < net.blocks_per_stage[stage]; ++block) {
      const std::string name = block_name(stage, block);
      const Tensor narrow = convolution_unit(graph, name + "/conv1", x, x.channels / 2, square(1));
      const Tensor branch = convolution_unit(graph, name + "/conv2", narrow, x.channels, square(3));
      x = graph.add(name + "/sum", std::vector{x, branch});
    }
    stages.push_back(x);
  }
  std::vector<Tensor> detections;
  for (std::size_t scale = 0; scale < 3; ++scale) {
    const std::string name = "scale" + std::to_string(scale + 1);
    const Tensor& stage = stages[stages.size() - 1 - scale];
    const std::int64_t width = stage.channels / 2;
    if (scale > 0) {
      x = convolution_unit(graph, name + "/narrow", x, x.channels / 2, square(1));
      const Tensor larger{.height = stage.height, .width = stage.width, .channels = x.channels};
      x = graph.combine(name + "/upsample", std::vector{x}, {}, larger);
      x = graph.concatenate(name + "/concat", std::vector{x, stage});
    }
    for (int i = 0; i < 5; ++i)
      x = convolution_unit(graph, name + "/conv" + std::to_string(i + 1), x, i % 2 == 0 ? width : 2 * width,
                           square(i % 2 == 0 ? 1 : 3));
    const Tensor wide = convolution_unit(graph, name + "/conv6", x, 2 * width, square(3));
    detections.push_back(
        graph.convolution(name + "/detect", wide, std::int64_t{kAnchors} * (kBox + classes), 1, 1, true));
  }
  return detections;
}

}  // namespace rehearse
