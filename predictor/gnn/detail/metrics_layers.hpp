#pragma once
// The layers of MetricsNetwork, whose formula is in its header, and what they read of several graphs at once.

#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "predictor/features.hpp"
#include "predictor/gnn/metrics_network.hpp"

namespace rehearse::detail {

using torch::Tensor;

/// Several graphs as one: the nodes of all of them, one graph after the other.
struct GraphInputs {
  Tensor kinds, operators, variables, servers, machines;  // [nodes of a kind, its inputs]; kinds [operators]
  Tensor flow, reads, writes, placed, hosted;             // [edges, 2] of nodes
  Tensor part, needed, ready;                             // [operators], [variables] parts of the timelines
  Tensor timeline;                                        // [graphs * parts, loads]
  Tensor totals;                                          // [graphs, total inputs]
  Tensor deviations;                                      // [graphs, total inputs] as Parts::deviations()
  Tensor server_of, machine_of;                           // [servers], [machines] graph
  Tensor chief;                                           // [graphs] machine
  Tensor bases, limits;                                   // [graphs, labels] ln; limits 0 where none
  Tensor is_limited;                                      // [graphs, labels]
  Tensor window;                                          // [graphs] ln of steps
};

/// What each sample has of its own, and by what its entries are shifted in a batch: nodes of which kind come before.
enum class Counts { kNothing, kOperators, kVariables, kServers, kMachines, kParts };
struct GraphTensor {
  Tensor GraphInputs::*tensor;
  Counts from = Counts::kNothing, to = Counts::kNothing;  // of its columns
};
inline constexpr std::array kGraphTensors{GraphTensor{&GraphInputs::kinds},
                                          GraphTensor{&GraphInputs::operators},
                                          GraphTensor{&GraphInputs::variables},
                                          GraphTensor{&GraphInputs::servers},
                                          GraphTensor{&GraphInputs::machines},
                                          GraphTensor{&GraphInputs::flow, Counts::kOperators, Counts::kOperators},
                                          GraphTensor{&GraphInputs::reads, Counts::kVariables, Counts::kOperators},
                                          GraphTensor{&GraphInputs::writes, Counts::kOperators, Counts::kVariables},
                                          GraphTensor{&GraphInputs::placed, Counts::kVariables, Counts::kServers},
                                          GraphTensor{&GraphInputs::hosted, Counts::kServers, Counts::kMachines},
                                          GraphTensor{&GraphInputs::part, Counts::kParts},
                                          GraphTensor{&GraphInputs::needed, Counts::kParts},
                                          GraphTensor{&GraphInputs::ready, Counts::kParts},
                                          GraphTensor{&GraphInputs::timeline},
                                          GraphTensor{&GraphInputs::totals},
                                          GraphTensor{&GraphInputs::deviations},
                                          GraphTensor{&GraphInputs::chief, Counts::kMachines},
                                          GraphTensor{&GraphInputs::bases},
                                          GraphTensor{&GraphInputs::limits},
                                          GraphTensor{&GraphInputs::is_limited},
                                          GraphTensor{&GraphInputs::window}};

struct MetricsLayers : torch::nn::Module {
  MetricsLayers(const MetricsNetworkOptions& options, std::int64_t total_inputs, std::int64_t labels);

  struct Output {
    Tensor value, width, presence;  // [graphs, labels]
  };
  Output forward(const GraphInputs& in);

  struct Round {
    torch::nn::Linear own_operator{nullptr}, own_variable{nullptr}, own_server{nullptr}, own_machine{nullptr};
    torch::nn::Linear flow{nullptr}, reads{nullptr}, writes{nullptr}, placed{nullptr}, holds{nullptr}, hosted{nullptr},
        hosts{nullptr};
  };
  static constexpr std::array<std::pair<const char*, torch::nn::Linear Round::*>, 11> kRoundLayers{
      {{"own_operator", &Round::own_operator},
       {"own_variable", &Round::own_variable},
       {"own_server", &Round::own_server},
       {"own_machine", &Round::own_machine},
       {"flow", &Round::flow},
       {"reads", &Round::reads},
       {"writes", &Round::writes},
       {"placed", &Round::placed},
       {"holds", &Round::holds},
       {"hosted", &Round::hosted},
       {"hosts", &Round::hosts}}};
  torch::nn::Embedding kind{nullptr};
  torch::nn::Linear of_operator{nullptr}, of_variable{nullptr}, of_server{nullptr}, of_machine{nullptr};
  std::vector<Round> rounds;
  torch::nn::Linear about{nullptr}, shift{nullptr};
  torch::nn::Linear enter{nullptr};
  std::vector<torch::nn::Linear> along;
  torch::nn::Linear first{nullptr}, middle{nullptr}, last{nullptr}, value{nullptr}, width{nullptr}, presence{nullptr};
};

}  // namespace rehearse::detail
