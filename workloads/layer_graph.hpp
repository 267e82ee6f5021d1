#pragma once
// Models as an explicit graph: named layers that read each other by name. What importers write.
//
// Shapes are those of one sample, as the framework has them but for the batch: images are [channels, height, width] in
// layout NCHW and [height, width, channels] in NHWC; of sequences and vectors the last axis holds the features.

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/json.hpp"
#include "workloads/graph_builder.hpp"

namespace rehearse {

struct GraphLayer {
  enum class Kind {
    kInput,
    kIdentifiers,            // integers that are looked up
    kParameter,              // a learned tensor, the same for all samples
    kConvolution,            // of images, or of sequences [channels, positions]
    kTransposedConvolution,  // every position of the input adds to a window of the output
    kLinear,                 // of the last axis
    kProduct,                // of the last two axes of two tensors, for all other ones
    kAttention,              // of queries, keys and values [heads, positions, features], and perhaps a mask
    kBatchNorm,
    kGroupNorm,  // like it, but over each sample
    kLayerNorm,
    kRmsNorm,
    kActivation,
    kDropout,
    kMaxPool,
    kAveragePool,
    kGlobalAveragePool,
    kAdd,
    kMultiply,
    kElementwise,  // any other kernel that reads its inputs and writes its output once
    kConcatenate,
    kEmbedding,
    kReshape,  // the same values in the same order: no kernel
    kCopy,     // in another order
    kPart,     // some of them, without a kernel
    kLstm,
    kGru,
    kRnn,
  };
  std::string name;
  Kind kind = Kind::kElementwise;
  std::vector<std::string> inputs;
  std::vector<std::int64_t> shape{};  // of the output; empty: it follows from the inputs
  std::int64_t features = 0;          // channels of a convolution; features of linear layers, embeddings, lstm
  std::int64_t rows = 0;              // of an embedding
  std::int64_t reduction = 0;         // of a product: scalars of which each result is the sum of products
  std::int64_t axis = -1;             // of a concatenation; -1: that of the channels
  GraphBuilder::Window window{};
  std::int64_t groups = 1;
  bool has_bias = true;
  bool has_scale = true;  // of a normalisation
  std::string shares{};   // a layer before it, whose variables it uses
};

struct LayerGraph {
  std::vector<GraphLayer> layers;    // inputs before those who read them
  std::vector<std::string> outputs;  // with a loss on each; empty: all that no layer reads
};

/// Reads a "structure"; throws InputError.
LayerGraph read_layer_graph(const JsonReader& json);
/// The "structure" that reads as the same graph.
Json layer_graph_json(const LayerGraph& net);
/// Layers that no output depends on are left out.
std::vector<GraphBuilder::Tensor> build(GraphBuilder& graph, const LayerGraph& net);

}  // namespace rehearse
