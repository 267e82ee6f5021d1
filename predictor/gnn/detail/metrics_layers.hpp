#pragma once
// The layers of MetricsNetwork, whose formula is in predictor/metrics_model.hpp, and what they read of several graphs at once.

#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "predictor/detail/metrics_forward.hpp"

namespace rehearse::detail {

using torch::Tensor;

/// Several graphs as one: the nodes of all of them, one graph after the other.
struct GraphInputs {
  Tensor kinds, nodes, resources;  // [nodes], [nodes, its inputs], [graphs * resources, its inputs]
  Tensor flow;                     // [edges, 2] of nodes
  Tensor part, resource;           // [nodes] parts of the timelines, and resources
  Tensor timeline;                 // [graphs * parts, loads]
  Tensor totals;                   // [graphs, total inputs]
  Tensor bases, limits;  // [graphs, labels] ln, of what is limited ln(base / (limit - base)); limits 0 where none
  Tensor is_limited;     // [graphs, labels]
};

/// What each sample has of its own, and by what its entries are shifted in a batch: what comes before.
enum class Counts { kNothing, kNodes, kResources, kParts };
struct GraphTensor {
  Tensor GraphInputs::*tensor;
  Counts from = Counts::kNothing, to = Counts::kNothing;  // of its columns
};
inline constexpr std::array kGraphTensors{GraphTensor{&GraphInputs::kinds},
                                          GraphTensor{&GraphInputs::nodes},
                                          GraphTensor{&GraphInputs::resources},
                                          GraphTensor{&GraphInputs::flow, Counts::kNodes, Counts::kNodes},
                                          GraphTensor{&GraphInputs::part, Counts::kParts},
                                          GraphTensor{&GraphInputs::resource, Counts::kResources},
                                          GraphTensor{&GraphInputs::timeline},
                                          GraphTensor{&GraphInputs::totals},
                                          GraphTensor{&GraphInputs::bases},
                                          GraphTensor{&GraphInputs::limits},
                                          GraphTensor{&GraphInputs::is_limited}};

struct MetricsLayers : torch::nn::Module {
  MetricsLayers(const MetricsNetworkOptions& options, std::int64_t total_inputs, std::int64_t labels);

  struct Output {
    Tensor value, width, presence;  // [graphs, labels]
  };
  Output forward(const GraphInputs& in);

  struct Round {
    torch::nn::Linear own_node{nullptr}, own_resource{nullptr}, flow{nullptr}, awaited{nullptr}, uses{nullptr},
        serves{nullptr};
  };
  static constexpr std::array<std::pair<const char*, torch::nn::Linear Round::*>, 6> kRoundLayers{
      {{"own_node", &Round::own_node},
       {"own_resource", &Round::own_resource},
       {"flow", &Round::flow},
       {"awaited", &Round::awaited},
       {"uses", &Round::uses},
       {"serves", &Round::serves}}};
  torch::nn::Embedding kind{nullptr};
  torch::nn::Linear of_node{nullptr}, of_resource{nullptr};
  std::vector<Round> rounds;
  torch::nn::Linear about{nullptr}, shift{nullptr};
  torch::nn::Linear enter{nullptr};
  std::vector<torch::nn::Linear> along;
  torch::nn::Linear first{nullptr}, middle{nullptr}, last{nullptr}, value{nullptr}, width{nullptr}, presence{nullptr};
};

}  // namespace rehearse::detail
