#pragma once
// Builds the operator graph of a training step layer by layer: shapes are inferred, forward kernels appended as layers
// are added, and finish() derives backward and update kernels.
//
// Conventions. FLOPs: 2 per multiply-add of convolutions, dense layers, products and recurrent layers; element-wise kernels have
// none, they are bound by memory. Device memory: every input is read once and every output written once, except that batch
// normalisation reads its input twice. Activations kept for the backward pass: the inputs of convolutions, dense layers, products,
// normalisations and max pooling, the outputs of activation functions, of GELU and SiLU the inputs, too, the masks of dropouts,
// and of max pooling the places of what was largest (8 bytes each, as PyTorch's); each tensor once, and besides
// Workload::input_bytes and Workload::logits_bytes. No gradient is computed that no variable needs, such as that of the input
// images. The gradient of a variable used more than once is ready with its last part. Products in 8 bits (Fp8) read casts, of
// which each layer makes its own: of its input and weights, and of its output's gradient.

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "workloads/fp8.hpp"
#include "workloads/operator_graph.hpp"

namespace rehearse {

/// In which kernels compute: fp32 without matrix units, tf32 on them (19 bits of numbers that are stored in 4 bytes, NVIDIA
/// from Ampere on), fp16 and bf16 on them with sums in fp32.
enum class Precision { kFp32, kTf32, kFp16, kBf16 };

/// Bytes of one scalar as it is stored: 4 or 2.
int bytes_per_scalar(Precision precision);
inline bool is_half(Precision precision) { return bytes_per_scalar(precision) == 2; }

/// How many GPUs hold each layer together, of which the graph is that of one. Each has columns of the first and rows of the
/// second of two products that follow one another, and the heads, or inner features, between them. With sequence parallelism
/// each has also only its part of the positions between such pairs. Source: Shoeybi et al., Megatron-LM, arXiv 1909.08053;
/// Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, arXiv 2205.05198, section 4.
struct TensorSplit {
  int degree = 1;
  bool has_sequence_parts = false;
  bool is_asynchronous = false;   // exchanges run beside products (overlap_exchanges()); with sequence parts
  int vocabulary_multiple = 128;  // of each GPU's rows of a table of words; the table is padded to them

  bool operator==(const TensorSplit&) const = default;
};

/// How GPUs that have the same samples share their positions, of which each has an equal part in all layers (context parallelism).
/// In attention, which reads all of them, `heads` consecutive GPUs exchange positions for heads and back, and so many groups of
/// these as there are `positions` read one another's keys and values. Sources: Jacobs et al., DeepSpeed-Ulysses, arXiv 2309.14509;
/// Liu et al., Ring Attention, arXiv 2310.01889; The Llama 3 Herd of Models, arXiv 2407.21783, section 3.3.2.
struct ContextSplit {
  enum class Method : std::uint8_t {
    kRing,  // keys and values go round, a part at a time, beside the attention to the part before
    kAllGather,  // of all keys and values, before attention; again in the backward pass, behind which gradients are scattered
  };
  int heads = 1, positions = 1;
  Method method = Method::kRing;
  /// Of a causal model each GPU has the i-th part from the beginning and the i-th from the end, so that all have as much to do. Else
  /// consecutive positions, and all take as long as who has the last ones.
  bool is_balanced = true;

  int degree() const { return heads * positions; }
  bool operator==(const ContextSplit&) const = default;
};

/// The experts of one layer.
struct ExpertsOfLayer {
  int experts = 0;
  int per_token = 0;  // that each token chooses
  int layer = 0;
};

/// How GPUs share the experts of a mixture, of which each has as many (expert parallelism). Tokens go to the GPUs that have their
/// experts, and back. Sources: Lepikhin et al., GShard, arXiv 2006.16668; Megatron-LM, core/transformer/moe.
struct ExpertSplit {
  int degree = 0;  // GPUs with other experts each; 0: all have those that they have of all other variables
  int tensor = 1;  // GPUs that hold each expert together, as the layers around it
  /// Machines that these are on, as many on each, if a token goes once to each machine that has experts of it, to the GPU of the
  /// sender's number, which forwards it; 1: it goes to each of its experts by itself. Source: DeepSeek-AI, DeepEP; DeepSeek-V3,
  /// arXiv 2412.19437, section 3.2.2.
  int machines = 1;
  int machines_per_token = 0;  // at most, as routers limit it; 0: as many as there are
  /// Tokens of the fullest GPU by the mean; all take as long as it does.
  double imbalance = 1;
  /// Exponent of the loads of experts (expert_loads.hpp), each GPU having those of its own.
  double zipf = 0;
  /// The GPU whose graph this is; -1: one that is the fullest in each mixture, at least as full as any.
  int gpu = -1;
  /// Places of an expert by the tokens that it has if all have as many; what is above is dropped, and each has so many rows if
  /// `pads`. None: all are computed.
  std::optional<double> capacity{};
  bool pads = false;

  /// Rows of the fullest GPU's products by the mean of tokens.
  double load() const { return !capacity ? imbalance : pads ? *capacity : std::min(imbalance, *capacity); }
  /// Whether GPUs have other loads than one another.
  bool has_own_loads() const { return zipf > 0 && degree > 1 && !pads; }
  bool operator==(const ExpertSplit&) const = default;
};

/// All of them, of one GPU.
struct Splits {
  TensorSplit tensor;
  ContextSplit context;
  ExpertSplit experts;
};

/// What of each layer of a transformer is computed again in the backward pass, instead of being kept: the whole layer, or some
/// of its parts. Of these only what they read is kept. Sources: Chen et al., arXiv 1604.06174; Korthikanti et al., section 5;
/// Megatron-LM's --recompute-granularity and --recompute-modules; torchtitan's selective_ac_option = "op" (PyTorch's
/// create_selective_checkpoint_contexts()).
struct Recomputation {
  bool layers = false;
  /// All of a layer but attention in one kernel, sums over GPUs that hold the layer together, and its products with weights but
  /// for every second one (keys, output, gates of Llama).
  bool every_second_product = false;
  bool core_attention = false;  // scores, softmax and their sum of the values
  bool feed_forward = false;    // all of it
  bool activations = false;     // of the feed-forward layer
  bool norms = false;

  bool operator==(const Recomputation&) const = default;
};

/// Low-rank adapters: beside some products with weights [k, n], which are frozen as all else is, the product with A [k, rank] and
/// then B [rank, n], the only ones that are trained, whose result is added. Source: Hu et al., LoRA, arXiv 2106.09685.
struct LowRankAdapters {
  int rank = 0;              // 0: none, and nothing is frozen
  bool attention = true;     // beside its projections and its output
  bool feed_forward = true;  // beside all of its products

  bool operator==(const LowRankAdapters&) const = default;
};

class GraphBuilder {
 public:
  /// A value that flows between layers: [batch, height, width, channels]; height = width = 1 after pooling. Of
  /// sequences the height is the position and the width 1.
  struct Tensor {
    std::int64_t height = 1, width = 1, channels = 1;
    int producer = -1;            // vertex; -1: the input
    int id = -1;                  // of the value, to find its gradient
    bool needs_gradient = false;  // a variable lies before it
    bool is_of_batch = false;     // there is one for the whole batch, not one for each sample
    bool is_shard = false;        // of its channels each GPU of a TensorSplit has others
  };

  /// How the kernel of a convolution or pooling moves over its input. Without `padding` it is "same": ceil(input /
  /// stride) outputs, and the kernel may be larger than the input, but not so large that its rim never meets it: kernel
  /// <= 2 max(height, width) + 1. With it, on every side: floor((input + 2 padding - kernel) / stride) + 1 outputs; 0
  /// is what frameworks call "valid".
  struct Window {
    std::int64_t height = 1, width = 1;
    std::int64_t stride = 1;
    std::optional<std::int64_t> padding;
    /// Height and width of the output, where stride and padding do not say all, such as of dilated kernels.
    std::optional<std::array<std::int64_t, 2>> output{};
  };

  /// The variables of a normalisation, one scalar of each for a channel.
  struct NormVariables {
    bool has_scale = true, has_bias = true;
  };

  /// How a recurrent layer goes from one position to the next.
  struct RecurrentCell {
    std::int64_t gates = 4;  // vectors of the state's size that its products give: LSTM 4, GRU 3, a plain one 1
    bool is_split = false;   // weights for input and state are two variables, and so are their biases
    bool has_bias = true;
  };

  /// A matrix of one row for each identifier, looked up, and perhaps used again to score the rows.
  struct Table {
    int variable = 0;
    std::int64_t rows = 0, features = 0;
  };

  /// `batch` from 1 to 65536. Throws InputError, starting with `place`, when a layer cannot be built: tensors of more
  /// than 2^40 scalars, more than 400000 operators, shapes that do not fit.
  GraphBuilder(std::string place, std::string name, Layout layout, int batch, Precision precision,
               const Splits& splits = {});

  Tensor input(std::int64_t height, std::int64_t width, std::int64_t channels);
  /// Integer identifiers of 8 bytes.
  Tensor identifiers(std::int64_t positions);
  /// `groups` divides the channels of input and output. With one input channel per group (a depthwise convolution)
  /// kernels are bound by memory: no library lowers them to matrix products.
  Tensor convolution(const std::string& name, const Tensor& x, std::int64_t channels, const Window& window,
                     std::int64_t groups, bool has_bias);
  /// The reverse, as the gradient of a convolution: height x width outputs for each input, of `stride` times the
  /// positions unless `window` states its output.
  Tensor transposed_convolution(const std::string& name, const Tensor& x, std::int64_t channels, const Window& window,
                                std::int64_t groups, bool has_bias);
  /// Square kernel, padding "same", one group.
  Tensor convolution(const std::string& name, const Tensor& x, std::int64_t channels, std::int64_t kernel,
                     std::int64_t stride, bool has_bias);
  /// Four variables: gamma and beta, and the moving mean and variance, which are not trainable.
  Tensor batch_norm(const std::string& name, const Tensor& x);
  /// Over the channels; variables gamma and beta.
  Tensor layer_norm(const std::string& name, const Tensor& x);
  /// By the root mean square of the channels; variable gamma. Source: Zhang and Sennrich, NeurIPS 2019.
  Tensor rms_norm(const std::string& name, const Tensor& x);
  /// Any of them: kBatchNorm, or kLayerNorm, which also stands for those over groups of channels.
  Tensor normalisation(const std::string& name, OperatorKind kind, const Tensor& x, NormVariables variables);
  /// ReLU, GELU, SiLU, tanh, softmax and the like: one kernel, whose output is kept, of GELU and SiLU the input; GELU is
  /// composite.
  Tensor activation(const std::string& name, const Tensor& x, bool is_composite = false) {
    return activation(name, x, is_composite, is_composite);
  }
  Tensor activation(const std::string& name, const Tensor& x, bool is_composite, bool keeps_input);
  Tensor dropout(const std::string& name, const Tensor& x);
  Tensor add(const std::string& name, std::span<const Tensor> terms);
  /// The same, whose terms have the gradient of the sum without a kernel, as in PyTorch.
  Tensor add_in_place(const std::string& name, std::span<const Tensor> terms);
  /// Element-wise product of inputs and tables, whose factors are kept.
  Tensor multiply(const std::string& name, std::span<const Tensor> factors, std::span<const Table> tables,
                  const Tensor& output);
  /// Weighted sum with random weights, as shake-shake regularisation does.
  Tensor mix(const std::string& name, std::span<const Tensor> terms);
  Tensor concatenate(const std::string& name, std::span<const Tensor> parts);
  Tensor max_pool(const std::string& name, const Tensor& x, const Window& window);
  Tensor average_pool(const std::string& name, const Tensor& x, const Window& window);
  /// Every `stride`-th position, and channels of zeros up to `channels`.
  Tensor subsample_and_pad(const std::string& name, const Tensor& x, std::int64_t channels, std::int64_t stride);
  Tensor global_average_pool(const std::string& name, const Tensor& x);
  /// Flattens its input.
  Tensor dense(const std::string& name, const Tensor& x, std::int64_t features, bool has_bias = true);
  /// The same dense layer at every position.
  Tensor linear(const std::string& name, const Tensor& x, std::int64_t features, bool has_bias = true);
  /// Dense layers of so many experts, each with an equal share of the positions, in one kernel. One variable [experts,
  /// channels, features], and perhaps one of biases.
  Tensor grouped_linear(const std::string& name, const Tensor& x, std::int64_t experts, std::int64_t features,
                        bool has_bias);
  /// A copy of `positions` of x in the order that `indices` tells, each as often as they name it; as much is read as is
  /// written. Backward the gradients of all copies are added up.
  Tensor gather(const std::string& name, const Tensor& x, const Tensor& indices, std::int64_t positions);

  /// A variable [rows, features]. The gradient of a sparse one holds only the rows that were looked up; parameter
  /// servers exchange those alone, all-reduce the whole.
  Table table(const std::string& name, std::int64_t rows, std::int64_t features, bool is_sparse = false);
  /// The rows of `identifiers`.
  Tensor lookup(const std::string& name, const Tensor& identifiers, const Table& table);
  /// All rows of a table, once for the whole batch, as a kernel of their own.
  Tensor rows(const std::string& name, const Table& table);
  /// x times the transposed table, plus a bias for each row: logits whose weights are tied to the table.
  Tensor score(const std::string& name, const Tensor& x, const Table& table, bool has_bias);
  /// Part of a tensor, without a kernel: some of its positions or channels. Their gradients are put together by one.
  Tensor view(const std::string& name, const Tensor& x, std::int64_t positions, std::int64_t channels);
  /// Products of two values for each sample (and attention head), in one kernel. `shape.products` counts them per
  /// sample.
  Tensor product(const std::string& name, const Tensor& a, const Tensor& b, MatrixShape shape, const Tensor& output);
  /// softmax(Q K^T) V in one kernel, with mask and dropout. Kept for the backward pass: its inputs, its output and two
  /// numbers of each query; the backward pass computes the scores again, five products instead of four. Source: Dao et al.,
  /// FlashAttention, arXiv:2205.14135, algorithms 1 and 4. `shape.batch` counts per sample. `tables`: what the scores have besides.
  Tensor fused_attention(const std::string& name, const Tensor& queries, const Tensor& keys, const Tensor& values,
                         AttentionShape shape, std::span<const Table> tables = {});
  /// Element-wise kernel of inputs and tables that are read as they are, such as the sum with a row for each position.
  Tensor combine(const std::string& name, std::span<const Tensor> inputs, std::span<const Table> tables,
                 const Tensor& output);
  /// A recurrent layer, as libraries run it: one product for the input of all positions; then for each position a
  /// recurrent product and an element-wise kernel for gates and cell. Variables, with G gates: weights [features +
  /// hidden, G hidden] and a bias [G hidden]; or, split, weights for input and state apart and two biases. Sources:
  /// Hochreiter and Schmidhuber, Neural Computation 9(8), 1997; Cho et al., arXiv 1406.1078.
  Tensor recurrent(const std::string& name, const Tensor& x, std::int64_t hidden, const RecurrentCell& cell);
  /// Long short-term memory.
  Tensor lstm(const std::string& name, const Tensor& x, std::int64_t hidden, bool is_split) {
    return recurrent(name, x, hidden, {.is_split = is_split});
  }

  /// Layers that are added until end_part() are computed again in the backward pass, if `is_again`. Parts within them are
  /// nothing of their own. What later layers read of them is kept for these, unless the part `drops_output`: then it is
  /// computed again before the first of these in the backward pass.
  void begin_part(bool is_again, bool drops_output = false);
  void end_part();
  /// Within a part that is computed again, layers that are added while this is true are not: what they give is kept. Of such a
  /// part, only that is kept and only that is computed again which the backward pass depends on.
  void keep_results(bool keeps) { keeps_results_ = keeps; }

  /// Variables that are added while this is true are frozen: no kernel computes their gradients, and nothing is kept for them.
  void freeze(bool is_frozen) { is_frozen_ = is_frozen; }

  /// Dense layers that are added while this is not kNone multiply in 8 or 4 bits, if kFp8Multiple divides their features.
  void cast(Fp8 recipe) { fp8_ = recipe; }

  /// Variables that are added while this is true are whole on all GPUs, also between begin_split() and end_split(), where each GPU
  /// has a part of their gradient.
  void keep_whole(bool is_whole) { is_whole_ = is_whole; }

  const TensorSplit& split() const { return split_; }
  const ContextSplit& context() const { return context_; }
  const ExpertSplit& expert_split() const { return experts_; }
  /// Tokens in the order of their experts to the GPUs that have these, and back: as many of them.
  /// `experts`, of all GPUs, of which a token goes to `per_token`.
  /// What is added next has sizes that the host has to wait for.
  void await_loads() { awaits_loads_ = true; }
  Tensor to_experts(const std::string& name, const Tensor& tokens, std::int64_t rows, const ExpertsOfLayer& mixture);
  Tensor from_experts(const std::string& name, const Tensor& outputs, std::int64_t rows, const ExpertsOfLayer& mixture);
  /// Variables that are added until end_experts() are of experts.
  void begin_experts() { has_experts_ = experts_.degree > 0; }
  void end_experts() { has_experts_ = false; }
  /// What this GPU has of some heads at all positions of its group, for all heads at its own positions. `channels`: of them, before
  /// they are divided, more than there are if a head is copied to several GPUs.
  Tensor to_heads(const std::string& name, const Tensor& x, std::int64_t channels);
  /// The reverse, behind attention.
  Tensor to_positions(const std::string& name, const Tensor& x);
  /// fused_attention() to the keys and values of all positions, of which each GPU has its part, and queries of its own: of `shape`,
  /// which counts those of this GPU.
  Tensor context_attention(const std::string& name, const Tensor& queries, const Tensor& keys, const Tensor& values,
                           AttentionShape shape, std::span<const Table> tables = {});
  /// Before products of which each GPU has columns. Forward nothing is sent, and backward the gradient is added up; with
  /// sequence parts positions are gathered (and again for the gradients of the products' weights), and backward the gradient
  /// is added up and each keeps its part. Variables that are added until end_split() are shards. What is gathered may be a cast by
  /// `recipe`, which all layers that read it share and of which each GPU keeps its part.
  Tensor begin_split(const std::string& name, const Tensor& x, Fp8 recipe = Fp8::kNone);
  /// Behind products of which each GPU has rows: the reverse.
  Tensor end_split(const std::string& name, const Tensor& x);
  /// A table of which each GPU has so many of the rows, or columns.
  Table shard_of_table(const std::string& name, std::int64_t rows, std::int64_t features);

  /// The layer `name`, which comes next, has no variables of its own but uses those of the layer `of`, which must have
  /// the same shapes.
  void share_variables(const std::string& name, const std::string& of) { shared_[name] = of; }
  Layout layout() const { return workload_.layout; }
  /// Throws InputError, starting with the place of the model.
  [[noreturn]] void fail(const std::string& message) const;

  /// Adds a loss on each of `outputs`, the backward pass in reverse order, and one update per trainable variable. A fused loss
  /// makes no copy of 16-bit outputs in fp32 (Workload::logits_bytes).
  /// A composed loss has kernels of its own for the copy, its logarithms and their gradients.
  Workload finish(std::span<const Tensor> outputs, bool has_fused_loss = false, bool has_composed_loss = false);

 private:
  static constexpr std::int64_t kBytesPerIdentifier = 8;  // of a word
  static constexpr std::int64_t kBytesPerIndex = 8;       // of a place in an image

  /// A forward layer and what its backward pass needs.
  struct Layer {
    enum class Type {
      kMatrix,
      kProduct,
      kRecurrent,
      kLookup,
      kNormalisation,
      kElementwise,
      kBeginSplit,
      kEndSplit,
      kExchange,
      kRingAttention
    } type = Type::kElementwise;
    std::string name;
    OperatorKind kind = OperatorKind::kElementwise;
    std::vector<Tensor> inputs;
    Tensor output;
    int forward = 0;             // vertex
    std::vector<int> variables;  // weights (and biases), or gamma and beta
    Flops flops{};
    MatrixShape data_gradient, weight_gradient;  // of a product: of its first and second factor
    bool is_3x3_stride_1 = false;
    std::optional<ConvolutionShape> convolution;
    std::optional<AttentionShape> attention;
    RecurrentCell cell{};
    std::optional<TensorExchange> exchange{}, beside{};  // forward, at the same time
    std::int64_t experts =
        0;  // of a matrix layer: of equal shares of the positions, each with a matrix; 0: one for all
    bool is_composite = false;
    bool has_bias = false;
    bool rereads_inputs = false;   // in its backward pass
    bool is_transposed = false;    // of a convolution
    bool passes_gradient = false;  // as it is, to all inputs
    Fp8 fp8 = Fp8::kNone;          // of a matrix layer
    int cast = -1;                 // vertex of its input's cast, if that is kept
  };

  /// What a kernel adds to the gradient of a value.
  struct GradientPart {
    int vertex = 0;
    Bytes bytes{};
  };

  struct Value {
    Bytes bytes{};
    std::int64_t positions = 0;
    Bytes kept{};        // of them, counted in activation_bytes
    Bytes kept_again{};  // within its part, counted in recomputed_bytes
    int part = -1;       // that it is of
    std::vector<GradientPart> gradient;
    int source = -1;    // the value that this one, behind begin_split(), is all of, and which is kept instead
    int kept_by = -1;   // vertex of that
    int gathered = -1;  // vertex that gathers it again in the backward pass
    std::optional<SplitGroup> gathered_among{};  // if it is gathered
    Fp8 gathered_cast = Fp8::kNone;              // .. as a cast
    bool keeps_cast = false;                     // of which this GPU's part is kept
    Fp8 read_by_cast = Fp8::kNone;               // of its gradient, by the layer that gives it
    bool has_gathered_gradient = false;          // .. which is gathered as a cast
  };

  /// Layers that are computed again, and their operators.
  struct Part {
    bool drops_output = false;
    std::size_t first_layer = 0, behind_layer = 0, first_operator = 0, behind_operator = 0;
    Bytes kept_again{};
    std::map<int, int> again{};    // its vertices, once they have been added again
    std::set<int> kept_results{};  // vertices that are not
  };

  /// A kernel that is added when what others wait for has been sent, behind casts of what it reads.
  struct Deferred {
    std::vector<Operator> casts;
    Operator op;
    std::vector<int> reads;
  };

  int variable(const std::string& name, std::vector<std::int64_t> shape, bool is_trainable);
  /// Those of the variables that are trained.
  std::vector<int> trained(const std::vector<int>& variables) const;
  Bytes bytes_of(const Tensor& x) const;
  std::int64_t elements(const Tensor& x) const;
  std::int64_t samples_of(const Tensor& x) const { return x.is_of_batch ? 1 : workload_.batch; }
  int append(Operator op, std::span<const int> reads);
  /// Of the tensor, which all have behind it, or before a reduce-scatter.
  int append_exchange(const std::string& name, Phase phase, CollectiveKind kind, const Tensor& whole,
                      std::span<const int> reads, SplitGroup among = SplitGroup::kTensor);
  int append_exchange(const std::string& name, Phase phase, const TensorExchange& exchange, std::span<const int> reads);
  /// A layer that gives `y` by an exchange of x, and in the backward pass by the reverse.
  Tensor exchange(const std::string& name, const Tensor& x, Tensor y, CollectiveKind kind, SplitGroup among) {
    return exchange(name, x, y, {kind, std::max(bytes_of(x), bytes_of(y)), among});
  }
  Tensor exchange(const std::string& name, const Tensor& x, Tensor y, const TensorExchange& exchange,
                  std::optional<TensorExchange> beside = {});
  /// Both of the layer's exchanges, of which readers of the first one wait for the other, too.
  int append_exchanges(const std::string& name, Phase phase, const TensorExchange& exchange,
                       const std::optional<TensorExchange>& beside, std::span<const int> reads);
  /// Tokens to experts or their outputs back, of which the GPU that has the experts may state the payload.
  Tensor exchange_tokens(const std::string& name, const Tensor& tokens, std::int64_t rows,
                         const ExpertsOfLayer& mixture, PayloadOf of);
  /// x at the positions of all, of which each GPU keeps its own.
  Tensor gather_positions(const std::string& name, const Tensor& x);
  Tensor ring_attention(const std::string& name, const Tensor& queries, const Tensor& keys, const Tensor& values,
                        const AttentionShape& shape);
  /// softmax(Q K^T) V of so many positions of each: a kernel, or one of several.
  void set_attention(Operator& op, const AttentionShape& shape) const;
  /// Of its output for the backward pass: all of it, and two numbers of each query.
  void keep_attention(const Tensor& y, const AttentionShape& shape);
  /// Its backward pass, of which `backward` has bytes and names.
  void set_attention_gradient(Operator& backward, const Operator& forward, const Tensor& output) const;
  /// What a GPU computes of the keys and values of the one so many steps before it in the ring.
  AttentionShape ring_block(AttentionShape shape, int step) const;
  /// What a step of the ring sends: keys and values, and perhaps as much again.
  TensorExchange passed_on(const Layer& layer, int tensors) const;
  /// Throws InputError if the tensor is too large to count.
  void check_size(const std::string& layer, const Tensor& x) const;
  /// The output of a window; throws InputError if it does not fit.
  Tensor slide(const std::string& layer, const Tensor& x, const Window& window, std::int64_t channels) const;
  Value& value_of(const Tensor& x) { return values_[static_cast<std::size_t>(x.id)]; }
  /// Makes `x` a value of its own, whose gradient can be asked for.
  void register_value(Tensor& x);
  Tensor elementwise(const std::string& name, OperatorKind kind, std::vector<Tensor> inputs, Tensor output,
                     std::vector<int> variables = {});
  /// What sums run over in the products that read a cast.
  struct CastWays {
    bool over_channels = false, over_positions = false;
  };
  /// A kernel that casts x for products.
  int append_cast(const std::string& name, Phase phase, Fp8 recipe, const Tensor& x, int read, CastWays ways);
  Operator cast_of(const std::string& name, Phase phase, Fp8 recipe, const Tensor& x, CastWays ways) const;
  /// The same of weights [.., channels, features] for forward products, whose sums run over the channels, and for gradients of data.
  int append_weight_cast(const std::string& name, Phase phase, Fp8 recipe, int variable, bool forward, bool backward);
  Bytes weight_cast_bytes(Fp8 recipe, const Variable& weights, bool is_forward) const;
  /// A transposed copy of a cast, where units want one.
  Operator transposed_of(const std::string& name, const Tensor& x) const;
  /// The layer's input and weights in 8 bits, and what is kept of them. Returns the vertices that its product reads.
  std::vector<int> cast_factors(Layer& layer, Operator& product);
  Fp8 recipe_for(const Tensor& x, std::int64_t features) const;
  /// Bytes of a cast with sums over the channels, or over the positions.
  Bytes cast_over_channels(Fp8 recipe, const Tensor& x) const;
  Bytes cast_over_positions(Fp8 recipe, const Tensor& x) const;
  /// A convolution from `x` to `y`, transposed or not.
  Tensor convolve(const std::string& name, const Tensor& x, const Tensor& y, const Window& window, std::int64_t groups,
                  Layer layer);
  /// `layer.variables`: the weights; the bias is added here.
  Tensor matrix_layer(Layer layer, std::int64_t kernel_area, std::int64_t groups = 1);
  const Variable& variable_at(int index) const;
  /// Keeps bytes for the backward pass of the layer of `vertex`, which may be the next one.
  void keep(Bytes bytes, std::size_t vertex);
  void keep_for_backward(const Tensor& x, std::size_t vertex);
  void append_backward(const Layer& layer);
  void append(Deferred kernel);
  void append_backward_of_elementwise(const Layer& layer, int gradient);
  void append_backward_of_matrix(const Layer& layer, int gradient);
  /// Of what the gradient of the weights reads in another layout than it is there.
  std::vector<Operator> casts_for_weight_gradient(const Layer& layer);
  void append_backward_of_split(const Layer& layer, int gradient);
  void append_backward_of_exchange(const Layer& layer, int gradient);
  void append_backward_of_ring_attention(const Layer& layer, int gradient);
  /// The vertex where the backward pass of the layer finds what it has read.
  int reread(const std::string& layer, const Tensor& x);
  void append_backward_of_product(const Layer& layer, int gradient);
  void append_backward_of_recurrent(const Layer& layer, int gradient);
  /// Where the backward pass finds what the vertex gives: of a part that is computed again the operators are added before.
  int source_of(int vertex);
  /// Adds values that are computed again to again_for_weights_, each for the first product that reads it.
  void count_again_for_weights();
  std::vector<int> reads_of(std::size_t vertex) const;
  /// All of the part, or where it has kept results the vertex that is wanted and what it depends on, as far as it is not there.
  std::set<int> to_run_again(const Part& part, int wanted) const;
  void append_again(Part& part, int wanted);
  /// `vertex` holds (a part of) the gradient of `value`.
  void give(const Tensor& value, int vertex);
  /// The vertex that holds the gradient of a value, adding up the contributions of several consumers first.
  int gradient_of(const Tensor& value);
  /// A variable is complete with the last kernel that produces a part of its gradient.
  void keep_last_gradients();
  std::vector<std::int64_t> shape_of(const Tensor& x) const;

  std::string place_;
  TensorSplit split_;
  ContextSplit context_;
  ExpertSplit experts_;
  Workload workload_;
  std::int64_t scalar_bytes_;
  std::vector<Layer> layers_;
  std::map<std::string, std::string> shared_;  // layers and those whose variables they use
  std::vector<Value> values_;                  // by Tensor::id
  std::vector<Bytes> kept_;                    // [vertices]
  std::map<int, int> beside_;                  // by exchange: another one that its readers wait for
  int backward_of_ = -1;                       // vertex of the layer whose backward pass is appended
  bool is_frozen_ = false;
  bool keeps_results_ = false;
  bool is_split_ = false;  // between begin_split() and end_split()
  bool is_whole_ = false;  // what is added there
  bool has_experts_ = false;
  bool awaits_loads_ = false;  // what is added next
  Fp8 fp8_ = Fp8::kNone;
  std::vector<Deferred> deferred_;
  std::vector<Part> parts_;
  std::map<int, Bytes>
      again_for_weights_;  // by forward product: of kept_again of parts, what its weight's gradient reads
  int open_parts_ = 0;     // begun and not ended
  int part_depth_ = 0;     // of those the one that is computed again; 0: none is
  std::size_t layer_ = 0;  // whose backward pass is appended
  bool is_backward_ = false;
};

}  // namespace rehearse
