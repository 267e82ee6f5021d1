#pragma once
// Families of convolutional networks for ImageNet-sized images, by their sizes. All convolutions are without bias and
// followed by a batch normalisation.

#include <string>
#include <vector>

#include "sim/base/json.hpp"
#include "workloads/graph_builder.hpp"

namespace rehearse {

/// Residual network with the ReLU after the sum. Stem: convolution 7x7, stride 2, and max pool 3x3, stride 2 (or a
/// 3x3 convolution for small images). Blocks: two 3x3 convolutions, or 1x1, 3x3 and 1x1 with four times the width. The
/// first block of a stage halves the image, except in the first stage. Where shapes differ the skip is a 1x1
/// convolution, or subsampling and channels of zeros.
/// Source: He et al., Deep Residual Learning for Image Recognition, CVPR 2016.
struct ResNet {
  std::vector<int> blocks_per_stage;
  std::vector<int> widths;  // one per stage
  bool is_bottleneck = false;
  bool has_small_stem = false;
  bool pads_skips = false;
  bool strides_in_3x3 = true;  // v1.5; false: in the first 1x1 convolution of a bottleneck, as in the paper
  int stem_channels = 64;
  bool has_biases = false;  // of convolutions, although batch normalisation follows, as Keras builds it
};

/// Densely connected network: each layer BN, ReLU, convolution 1x1 to 4 `growth`, BN, ReLU, convolution 3x3 to
/// `growth`, concatenated to its input; between the blocks BN, ReLU, convolution 1x1 to half the channels and average
/// pooling. Source: Huang et al., Densely Connected Convolutional Networks, CVPR 2017 (DenseNet-BC).
struct DenseNet {
  std::vector<int> layers_per_block;
  int growth = 32;
  int stem_channels = 64;
};

/// Inverted residuals: convolution 1x1 to `expansion` times the channels (none for 1), depthwise 3x3, convolution 1x1
/// without ReLU, and a skip where the shape stays. Source: Sandler et al., MobileNetV2, CVPR 2018, table 2.
struct MobileNetV2 {
  std::vector<int> blocks_per_stage;
  std::vector<int> widths, expansions, strides;  // one per stage
  int stem_channels = 32;
  int head_channels = 1280;
};

/// Object detector on Darknet-53: 3x3 convolutions, the first of each stage with stride 2, and residual blocks 1x1 to
/// half the channels and 3x3; from the last three stages, coarse to fine, five convolutions 1x1 and 3x3 in turn, a
/// 3x3 one and the detections by 1x1; what a finer one starts with is its stage and the coarser one's fifth
/// convolution, 1x1 to half the channels and twice as large. The stage at which the image was halved last has
/// `stem_channels` * 2^stages channels. `classes` and five more values for each of three anchors.
/// Source: Redmon and Farhadi, YOLOv3: An Incremental Improvement, arXiv 1804.02767, table 1; cfg/yolov3.cfg of
/// github.com/pjreddie/darknet.
struct YoloV3 {
  std::vector<int> blocks_per_stage;  // three or more
  int stem_channels = 32;
};

// Readers of a model file's "structure", and the graph from the images to the logits.
ResNet read_resnet(const JsonReader& json);
DenseNet read_densenet(const JsonReader& json);
MobileNetV2 read_mobilenet_v2(const JsonReader& json);
YoloV3 read_yolo_v3(const JsonReader& json);
GraphBuilder::Tensor build(GraphBuilder& graph, const ResNet& net, const GraphBuilder::Tensor& images, int classes);
GraphBuilder::Tensor build(GraphBuilder& graph, const DenseNet& net, const GraphBuilder::Tensor& images, int classes);
GraphBuilder::Tensor build(GraphBuilder& graph, const MobileNetV2& net, const GraphBuilder::Tensor& images,
                           int classes);
/// Detections from coarse to fine.
std::vector<GraphBuilder::Tensor> build(GraphBuilder& graph, const YoloV3& net, const GraphBuilder::Tensor& images,
                                        int classes);

/// Convolution without bias, batch normalisation and ReLU.
GraphBuilder::Tensor convolution_unit(GraphBuilder& graph, const std::string& name, const GraphBuilder::Tensor& x,
                                      std::int64_t channels, const GraphBuilder::Window& window,
                                      std::int64_t groups = 1);

}  // namespace rehearse
