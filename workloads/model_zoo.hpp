#pragma once
// Models by description: a model file names a family and its sizes, or lists its layers; build_workload() makes the
// graph.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/base/json.hpp"
#include "workloads/convergence.hpp"
#include "workloads/graph_builder.hpp"
#include "workloads/image_families.hpp"
#include "workloads/layer_graph.hpp"
#include "workloads/operator_graph.hpp"
#include "workloads/sequence_families.hpp"
#include "workloads/timed_layers.hpp"
#include "workloads/transformer.hpp"

namespace rehearse {

/// Pre-activation residual network of basic blocks for small images. A stage halves the image, except the first.
/// Stem convolution without bias, batch normalisation; block: BN, ReLU, conv 3x3, BN, ReLU, conv 3x3, sum; the first
/// block of a stage has a 1x1 projection with batch normalisation; global average pool; dense. Source: He et al.,
/// Identity Mappings, ECCV 2016.
struct ResnetV2Basic {
  std::vector<int> blocks_per_stage;
  std::vector<int> widths;  // one per stage
  int stem_channels = 16;
  int stem_kernel = 7;
};

/// Shake-shake network with two residual branches per block, each ReLU, conv 3x3, BN, ReLU, conv 3x3, BN, all with
/// bias, mixed with random weights. Where the width changes the skip is two 1x1 convolutions of half the width and a
/// batch normalisation. Source: Gastaldi, Shake-Shake regularization, arXiv 1705.07485.
struct ShakeShake {
  std::vector<int> blocks_per_stage;
  std::vector<int> widths;
  int stem_channels = 16;
  int stem_kernel = 3;
};

struct LayerDescription;

/// Branches that start from the same tensor; an empty branch passes it on.
struct Branches {
  enum class Combine { kAdd, kMix, kConcatenate } combine = Combine::kAdd;
  std::vector<std::vector<LayerDescription>> branches;
};

/// One layer of a "layers" model. Sizes that a kind does not use are ignored.
struct LayerDescription {
  enum class Kind {
    kConvolution,
    kConvolutionUnit,  // convolution without bias, batch normalisation, ReLU
    kBatchNorm,
    kRelu,
    kDense,
    kMaxPool,
    kAveragePool,
    kGlobalAveragePool,
    kBranches,
    kRepeat,
  };
  Kind kind = Kind::kRelu;
  int channels = 0;
  GraphBuilder::Window window;
  int groups = 1;
  bool has_bias = false;
  Branches branches;
  int times = 1;  // that `repeated` is there
  std::vector<LayerDescription> repeated;
};

/// A list of layers, for models that belong to no family.
struct LayerList {
  std::vector<LayerDescription> layers;
};

using ModelStructure = std::variant<ResnetV2Basic, ShakeShake, ResNet, DenseNet, MobileNetV2, YoloV3, LayerList,
                                    Transformer, TwoTowers, LstmLanguageModel, Gnmt, Dlrm, LayerGraph, TimedLayers>;

struct ModelDescription {
  std::string name;
  std::string source;
  std::vector<int> input;  // [height, width, channels] of an image; other families have none
  int classes = 0;         // features of the dense layer that ends an image family's network
  Layout layout = Layout::kNchw;
  ModelStructure structure;
  std::optional<Convergence> convergence;  // that its publication states; a scenario's own goes before it
  TensorSplit split{};                     // of which the graph is one GPU's part
  ContextSplit context{};                  // the same
  ExpertSplit expert_split{};              // the same
  Recomputation again{};                   // of a transformer's layers
  LowRankAdapters adapters{};              // of a transformer
  Fp8 fp8 = Fp8::kNone;                    // of the products of a transformer's layers
  int wide_layers = 0;                     // the last ones, whose products stay in 16 bits
  bool has_fused_loss = false;             // no copy of 16-bit logits in fp32
  bool has_composed_loss = false;          // kernels of PyTorch's cross_entropy(), each with an output in fp32
  std::string no_convergence;              // why there is none although losses were published; empty: none were
};

/// GPUs that compute the model's layers together, with the same samples.
inline int workers_of_layer(const ModelDescription& model) { return model.split.degree * model.context.degree(); }

/// Reads a model file's object. Throws InputError.
ModelDescription read_model(std::string name, JsonReader json);

/// That a workload of the model needs coefficients of its own for a loss, and what is known about the model's.
std::string no_convergence_message(const ModelDescription& model);

/// Throws InputError, starting with `place` (where the model was named), for sizes out of range.
Workload build_workload(const ModelDescription& model, int batch, Precision precision, const std::string& place);

/// JSON Schema (draft 2020-12) of a model file.
std::string_view model_schema();

}  // namespace rehearse
