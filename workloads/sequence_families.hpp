#pragma once
// Families of networks for sequences and tables of identifiers, by their sizes.

#include <cstdint>
#include <vector>

#include "sim/base/json.hpp"
#include "workloads/graph_builder.hpp"

namespace rehearse {

/// Word-level language model: embedding, LSTM layers with dropout between them, dense layer to the vocabulary. Source:
/// Zaremba et al., Recurrent Neural Network Regularization, arXiv 1409.2329.
struct LstmLanguageModel {
  int vocabulary = 0, embedding = 0, hidden = 0, layers = 0;
  int sequence_length = 0;
};

/// Translation with LSTM layers and residual sums from the third on: the first layer of the encoder is bidirectional,
/// the first of the decoder asks additive attention, whose result all later layers read. Source and target share an
/// embedding. Source: Wu et al., Google's Neural Machine Translation System, arXiv 1609.08144.
struct Gnmt {
  int vocabulary = 0, hidden = 0, encoder_layers = 0, decoder_layers = 0;
  int sequence_length = 0;
};

/// Recommendation: sparse embedding tables, a network for the dense features, products of all pairs, a network on top.
/// The tables are replicated, as data parallelism does it. Source: Naumov et al., Deep Learning Recommendation Model,
/// arXiv 1906.00091.
struct Dlrm {
  int dense_features = 0;
  std::vector<std::int64_t> tables;  // rows of each
  int embedding = 0;
  std::vector<int> bottom, top;  // hidden layers; the bottom ends in one of `embedding`, the top in one of 1
};

// Readers of a model file's "structure", and the graph from the identifiers to what the losses are computed on.
LstmLanguageModel read_lstm_language_model(const JsonReader& json);
Gnmt read_gnmt(const JsonReader& json);
Dlrm read_dlrm(const JsonReader& json);
std::vector<GraphBuilder::Tensor> build(GraphBuilder& graph, const LstmLanguageModel& net);
std::vector<GraphBuilder::Tensor> build(GraphBuilder& graph, const Gnmt& net);
std::vector<GraphBuilder::Tensor> build(GraphBuilder& graph, const Dlrm& net);

}  // namespace rehearse
