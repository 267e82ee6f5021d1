#pragma once
// Transformers of all kinds by their sizes and traits: decoders, encoders, both, of words, images and sound.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/base/json.hpp"
#include "workloads/graph_builder.hpp"
#include "workloads/repeated_layers.hpp"

namespace rehearse {

/// Stacks of attention and feed-forward layers. Each sublayer is followed by dropout and added to its input, and
/// normalised where Norm says. Attention: queries, keys and values, scores, mask, softmax,
/// dropout, sum of the values, output projection, one kernel each, or all from scores to sum in one; computed positions are turned into queries and keys
/// by a kernel each. Sources: Vaswani et al., Attention Is All You Need, NeurIPS 2017; Devlin et al., BERT, NAACL 2019;
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
    kSequenceClasses,      // kPooler and a dense layer to `classes`
    kFirstClasses          // a dense layer to `classes` on the first position, or on each class token
  };
  /// Where a sublayer normalises: its input, the sum with its input, its input and its output (Ding et al., CogView,
  /// NeurIPS 2021), or its output alone (OLMo 2, arXiv 2501.00656). All but the second normalise the stack's output.
  enum class Norm { kPre, kPost, kSandwich, kReordered };
  /// The encoder reads patches of an image, behind learned class tokens. Source: Dosovitskiy et al., ICLR 2021.
  struct Images {
    int size = 0, channels = 3, patch = 0;  // of a square
    int class_tokens = 1;
    bool has_bias = true;  // of the layer that turns a patch into a position
  };
  /// The encoder reads bins at twice its positions, through two convolutions. Source: Radford et al., Whisper, ICML 2023.
  struct Spectrogram {
    int bins = 0;
  };
  /// The encoder reads samples through convolutions, and a convolution gives the positions. Source: Baevski et al.,
  /// wav2vec 2.0, NeurIPS 2020.
  struct Waveform {
    int samples = 0;
    std::vector<int> widths, kernels, strides;  // of each convolution
    bool has_biases = false;
    bool normalises_all = false;  // after each convolution; or after the first alone
    bool normalises_features = true;
    bool has_mask = true;                          // a learned vector that stands for what is masked
    int position_kernel = 0, position_groups = 0;  // its weights have a length for each element of the kernel
  };
  /// Mixtures of experts instead of the feed-forward parts of some layers: a router weighs them at each position, tokens are taken
  /// to be spread evenly, unless ExpertSplit says otherwise. One by one each expert's matrices have its share of a sample's
  /// positions as rows, rounded up; grouped, a product of all experts is one operator, and tokens are put in the order of their
  /// experts before and back behind these, each as often as it has experts.
  /// Sources: Shazeer et al., ICLR 2017; Dai et al., DeepSeekMoE, arXiv 2401.06066; Gale et al., MegaBlocks, MLSys 2023.
  struct Experts {
    int count = 0, per_token = 0;  // of a layer, and how many of them a token passes; 0: there are none
    int feed_forward = 0;          // inner features of each
    bool has_biases = false;
    int shared_feed_forward = 0;   // inner features of a dense part beside them that all tokens pass; 0: there is none
    bool has_shared_gate = false;  // a sigmoid of a product for each token, which that part's output is multiplied with
    int dense_layers = 0;          // the first ones, without experts
    int period = 1;                // of the others every n-th has experts, counted from the first layer of all
    bool has_router_bias = false;  // added to each expert's score, trained or set by its load
    bool is_grouped = false;
    /// The tokens' weights are multiplied with the inner values, within the kernel of the gates, instead of with the outputs,
    /// which then are not kept. Source: Megatron-LM, core/transformer/moe/experts.py.
    bool weighs_inner = false;

    bool are_in(int layer) const { return count > 0 && layer >= dense_layers && (layer + 1) % period == 0; }
  };
  /// Multi-head latent attention: queries, and keys with values, are made of normalised latents; each key consists of plain
  /// features and of rotary ones, which are one for all heads. Source: DeepSeek-V2, arXiv 2405.04434, section 2.1.
  struct LatentAttention {
    int query_latent = 0;  // 0: queries are made of the input
    int key_value_latent = 0;
    int rotary_features = 0, plain_features = 0;  // of each head's queries and keys
    int value_features = 0;                       // of each head's values
  };
  int layers = 0;          // of self-attention
  int decoder_layers = 0;  // a second stack that attends to the first; 0: there is only one
  int width = 0;
  int heads = 0;
  int feed_forward = 0;  // of layers without experts
  Experts experts{};
  std::optional<LatentAttention> latent_attention{};
  int vocabulary = 0;         // 0: nothing reads words
  int embedding_width = 0;    // of a word
  bool projects_sum = false;  // a narrower embedding is made as wide as the model with its positions, with a bias
  int positions = 0;          // rows of the learned position table; 0: computed positions
  int token_types = 0;        // rows of the token type table; 0: none
  int sequence_length = 0;
  int decoder_positions = 0, decoder_sequence_length = 0;
  std::optional<Images> images{};
  std::optional<Spectrogram> spectrogram{};
  std::optional<Waveform> waveform{};
  int predictions = 0;
  int classes = 0;            // that kTokenClasses, kSequenceClasses and kFirstClasses tell apart
  int classified_tokens = 1;  // with kFirstClasses: class tokens, each with a layer of its own
  bool has_class_biases = true;
  bool has_class_layer = false;  // a dense layer with activation before the classes of every position
  int kv_heads = 0;              // of keys and values, each read by as many heads of queries
  int head_features = 0;         // of each head's queries and keys
  int relative_positions = 0;    // rows of a table for each stack that is added to the scores; 0: none
  /// Rows of a table of relative positions that keys and queries are computed from, too, which contents are multiplied
  /// with: a product more for each of both. The table is normalised. 0: none. Source: He et al., DeBERTa, ICLR 2021, and
  /// DeBERTaV3, ICLR 2023, whose projections of contents and positions are the same.
  int disentangled_positions = 0;
  Norm norm = Norm::kPost;
  bool normalises_embeddings = false;
  bool has_rms_norms = false;
  GraphBuilder::NormVariables norm_variables{};
  bool has_attention_biases = true;   // of queries, keys and values
  bool has_key_biases = true;         // of keys, where queries and values have them
  bool has_output_bias = true;        // of the attention's output
  bool has_joint_projection = false;  // queries, keys and values of self-attention are one variable
  bool copies_values = false;         // out of what the joint projection gives, which is then not kept as a whole
  bool has_feed_forward_biases = true;
  bool has_gates = false;        // the feed-forward layer's inner values are multiplied by activated others
  bool has_joint_gates = false;  // .. which come from one product, with one variable
  bool has_fused_gates = false;  // .. by one kernel, which keeps nothing but what it reads
  bool has_relu = false;         // instead of GELU or SiLU there: its gradient reads its output alone
  bool has_rotary_positions = false;
  bool has_alibi = false;                 // a computed bias by distance, added to the scores
  bool has_query_key_norms = false;       // queries and keys of each head are normalised, by one scale for all heads
  bool has_query_key_norm_scales = true;  // .. or by none
  bool has_query_key_scales = false;      // .. by a scale for each feature of all heads
  bool has_attention_sinks = false;       // a learned score for each head beside those of the keys, without a value
  bool has_fused_attention = false;       // one kernel from queries, keys and values to their sum, as FlashAttention
  bool has_parallel_sublayers = false;    // attention and feed-forward layer read the same
  bool has_shared_norm = false;           // .. behind one normalisation
  bool has_shared_layers = false;         // all layers have the variables of the first
  bool has_dropout = true;
  bool is_tied = true;  // logits and embedding share their weights
  bool has_logits_bias = false;
  Head head = Head::kLanguageModel;

  /// Whether a position sees none after it; unless stated, in a language model of one stack. Only a fused kernel leaves
  /// out what is masked.
  bool is_causal = false;
};

/// Two encoders whose outputs are projected to the same features, without biases, and compared by their products with a
/// learned scale. Source: Radford et al., CLIP, ICML 2021.
struct TwoTowers {
  Transformer text, image;
  int projection = 0;
};

/// Rows of the table of words: rounded up, so that each GPU has a multiple of TensorSplit::vocabulary_multiple of them.
std::int64_t padded_vocabulary(std::int64_t words, const TensorSplit& split);
/// What one of the GPUs has that compute the layers together: its heads, inner features, words and positions. The degrees divide
/// them. Its experts are as many as the router knows, of which it has ExpertSplit::degree times fewer.
Transformer part_of(const Transformer& net, const TensorSplit& split, const ContextSplit& context = {},
                    const ExpertSplit& experts = {});

/// How its layers are built.
struct StackOptions {
  Recomputation again{};
  LowRankAdapters adapters{};
  Fp8 fp8 = Fp8::kNone;                  // of products
  int wide_layers = 0;                   // the last ones, whose products stay in 16 bits
  std::span<const AlikeLayers> alike{};  // of the first stack, whose copies are left out
};
/// Of the first stack: all that are made of the same and enough for repeat_layers(). None where each has loads of experts of its own.
std::vector<AlikeLayers> alike_layers(const Transformer& net, const StackOptions& options, const ExpertSplit& split);

// Readers of a model file's "structure", and the graph from the inputs to what the losses are computed on.
Transformer read_transformer(const JsonReader& json);
TwoTowers read_two_towers(const JsonReader& json);
std::vector<GraphBuilder::Tensor> build(GraphBuilder& graph, const Transformer& net, const StackOptions& options);
std::vector<GraphBuilder::Tensor> build(GraphBuilder& graph, const TwoTowers& net);

}  // namespace rehearse
