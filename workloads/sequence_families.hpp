#pragma once
// Families of networks for sequences and tables of identifiers, by their sizes.

#include <cstdint>
#include <vector>

#include "sim/base/json.hpp"
#include "workloads/graph_builder.hpp"

namespace rehearse {

/// Stacks of attention and feed-forward layers. Each sublayer is followed by dropout and added to its input, and
/// normalised before it (pre) or after the sum (post). Attention: queries, keys and values, scores, mask, softmax,
/// dropout, sum of the values, output projection, one kernel each, or all from scores to sum in one; computed positions are turned into queries and keys
/// by a kernel each. Of a mixture of experts every worker has all: a router weighs them at each position, tokens are taken
/// to be spread evenly, and each expert's matrices have its share of a sample's positions as rows. Sources: Vaswani et al., Attention Is All You Need, NeurIPS 2017; Devlin et al., BERT, NAACL 2019;
/// Radford et al., Language Models are Unsupervised Multitask Learners, 2019; Raffel et al., T5, JMLR 21, 2020; Touvron
/// et al., LLaMA, arXiv 2302.13971; Jiang et al., Mixtral of Experts, arXiv 2401.04088.
struct Transformer {
  enum class Head {
    kLanguageModel,        // logits over the vocabulary at every position
    kMaskedLanguageModel,  // the same behind a dense layer with activation and normalisation, with a bias
    kPooler,               // tanh of a dense layer on the first position
    kBertPretraining,      // kPooler with next-sentence classes, and masked tokens at `predictions` positions
    kHiddenStates,         // what the last layer gives, as it is
    kTokenClasses,         // a dense layer to `classes` at every position
    kSequenceClasses       // kPooler and a dense layer to `classes`
  };
  int layers = 0;          // of self-attention
  int decoder_layers = 0;  // a second stack that attends to the first; 0: there is only one
  int width = 0;
  int heads = 0;
  int feed_forward = 0;
  int experts = 0,
      experts_per_token = 0;  // feed-forward layers of a layer, and how many of them a token passes; 0: one
  int vocabulary = 0;
  int positions = 0;    // rows of the learned position table; 0: computed positions
  int token_types = 0;  // rows of the token type table; 0: none
  int sequence_length = 0;
  int predictions = 0;
  int classes = 0;  // that kTokenClasses and kSequenceClasses tell apart
  bool has_class_biases = true;
  int kv_heads = 0;            // of keys and values, each read by as many heads of queries
  int head_features = 0;       // of each head
  int relative_positions = 0;  // rows of a table for each stack that is added to the scores; 0: none
  bool normalises_first = false;
  bool normalises_embeddings = false;
  bool has_rms_norms = false;
  bool has_attention_biases = true;   // of queries, keys and values
  bool has_output_bias = true;        // of the attention's output
  bool has_joint_projection = false;  // queries, keys and values of self-attention are one variable
  bool has_feed_forward_biases = true;
  bool has_gates = false;  // the feed-forward layer's inner values are multiplied by activated others
  bool has_rotary_positions = false;
  bool has_query_key_norms = false;     // queries and keys of each head are normalised, by one scale for all heads
  bool has_fused_attention = false;     // one kernel from queries, keys and values to their sum, as FlashAttention
  bool has_parallel_sublayers = false;  // attention and feed-forward layer read the same
  bool has_dropout = true;
  bool is_tied = true;  // logits and embedding share their weights
  Head head = Head::kLanguageModel;

  /// Whether a position sees none after it; unless stated, in a language model of one stack. Only a fused kernel leaves
  /// out what is masked.
  bool is_causal = false;
};

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
Transformer read_transformer(const JsonReader& json);
LstmLanguageModel read_lstm_language_model(const JsonReader& json);
Gnmt read_gnmt(const JsonReader& json);
Dlrm read_dlrm(const JsonReader& json);
std::vector<GraphBuilder::Tensor> build(GraphBuilder& graph, const Transformer& net);
std::vector<GraphBuilder::Tensor> build(GraphBuilder& graph, const LstmLanguageModel& net);
std::vector<GraphBuilder::Tensor> build(GraphBuilder& graph, const Gnmt& net);
std::vector<GraphBuilder::Tensor> build(GraphBuilder& graph, const Dlrm& net);

}  // namespace rehearse
