#include "workloads/transformer.hpp"

#include <string>
#include <utility>

#include "workloads/sizes.hpp"
#include "workloads/transformer_stack.hpp"

namespace rehearse {

using Tensor = GraphBuilder::Tensor;
using Table = GraphBuilder::Table;
using Window = GraphBuilder::Window;
using Norm = Transformer::Norm;

namespace {

/// The normalisation of what is known of each position, and its dropout.
Tensor finish_embedding(TransformerStack& stack, const Transformer& net, const std::string& name, Tensor x) {
  if (net.normalises_embeddings) x = stack.norm(name + "/norm", x);
  return stack.dropout(name + "/dropout", x);
}

Tensor embed_words(GraphBuilder& graph, TransformerStack& stack, const Transformer& net, const std::string& name,
                   const Table& words, bool is_decoder = false) {
  const int length = is_decoder ? net.decoder_sequence_length : net.sequence_length;
  const int positions = is_decoder ? net.decoder_positions : net.positions;
  const bool is_narrow = net.embedding_width != net.width;
  Tensor x = graph.end_split(name + "/words", graph.lookup(name + "/words", graph.identifiers(length), words));
  if (is_narrow && !net.projects_sum) x = graph.linear(name + "/projection", x, net.width, false);
  std::vector<Table> added;
  if (positions > 0) added.push_back(graph.table(name + "/positions", positions, x.channels));
  if (net.token_types > 0) added.push_back(graph.table(name + "/token_types", net.token_types, x.channels));
  const bool has_sum = !added.empty() || (!net.has_rotary_positions && !net.has_alibi && net.relative_positions == 0 &&
                                          net.disentangled_positions == 0);
  if (has_sum) x = graph.combine(name + "/sum", std::vector{x}, added, x);
  x = finish_embedding(stack, net, name, x);
  return is_narrow && net.projects_sum ? graph.linear(name + "/projection", x, net.width) : x;
}

Tensor embed_image(GraphBuilder& graph, TransformerStack& stack, const Transformer& net) {
  const Transformer::Images& images = *net.images;
  const std::string name = stack.name_of("encoder/embedding");
  Tensor x = graph.convolution(name + "/patches", graph.input(images.size, images.size, images.channels), net.width,
                               Window{images.patch, images.patch, images.patch, 0}, 1, images.has_bias);
  x.height = x.height * x.width;
  x.width = 1;
  std::vector<Table> added;
  if (images.class_tokens > 0) added.push_back(graph.table(name + "/class_tokens", images.class_tokens, net.width));
  if (net.positions > 0) added.push_back(graph.table(name + "/positions", net.positions, net.width));
  const Tensor longer{.height = net.sequence_length, .width = 1, .channels = net.width};
  return finish_embedding(stack, net, name, graph.combine(name + "/sum", std::vector{x}, added, longer));
}

Tensor embed_spectrogram(GraphBuilder& graph, TransformerStack& stack, const Transformer& net) {
  const std::string name = stack.name_of("encoder/embedding");
  const std::int64_t frames = std::int64_t{2} * net.sequence_length;
  Tensor x = graph.input(frames, 1, net.spectrogram->bins);
  for (int layer = 0; layer < 2; ++layer) {
    const std::string at = name + numbered("/convolution", layer);
    const Window window{.height = 3, .width = 1, .stride = layer + 1, .padding = std::nullopt};
    x = graph.activation(at + "/activation", graph.convolution(at, x, net.width, window, 1, true), true);
  }
  std::vector<Table> added;
  if (net.positions > 0) added.push_back(graph.table(name + "/positions", net.positions, net.width));
  return finish_embedding(stack, net, name, graph.combine(name + "/sum", std::vector{x}, added, x));
}

Tensor embed_waveform(GraphBuilder& graph, TransformerStack& stack, const Transformer& net) {
  const Transformer::Waveform& wave = *net.waveform;
  const std::string name = stack.name_of("encoder/embedding");
  Tensor x = graph.input(wave.samples, 1, 1);
  for (std::size_t layer = 0; layer < wave.widths.size(); ++layer) {
    const std::string at = name + numbered("/convolution", static_cast<int>(layer));
    const Window window{.height = wave.kernels[layer], .width = 1, .stride = wave.strides[layer], .padding = 0};
    x = graph.convolution(at, x, wave.widths[layer], window, 1, wave.has_biases);
    if (wave.normalises_all || layer == 0) x = graph.layer_norm(at + "/norm", x);
    x = graph.activation(at + "/activation", x, true);
  }
  if (wave.normalises_features) x = graph.layer_norm(name + "/features/norm", x);
  x = stack.dropout(name + "/features/dropout", graph.linear(name + "/features", x, net.width));
  if (wave.has_mask)
    x = graph.combine(name + "/masked", std::vector{x}, std::vector{graph.table(name + "/mask", 1, net.width)}, x);
  const Window window{.height = wave.position_kernel, .width = 1, .stride = 1, .padding = std::nullopt};
  Tensor positions = graph.convolution(name + "/positions", x, net.width, window, wave.position_groups, true);
  const Table lengths = graph.table(name + "/positions/lengths", 1, wave.position_kernel);
  positions = graph.activation(
      name + "/positions/activation",
      graph.combine(name + "/positions/normalised", std::vector{positions}, std::vector{lengths}, positions), true);
  x = graph.add(name + "/sum", std::vector{x, positions});
  return finish_embedding(stack, net, name, x);
}

/// What the encoder's layers read.
Tensor embed(GraphBuilder& graph, TransformerStack& stack, const Transformer& net, const Table& words) {
  if (net.images) return embed_image(graph, stack, net);
  if (net.spectrogram) return embed_spectrogram(graph, stack, net);
  if (net.waveform) return embed_waveform(graph, stack, net);
  return embed_words(graph, stack, net, stack.name_of("encoder/embedding"), words);
}

/// What the last layer gives, as wide as the embedding where each position alone was made wider. `words`: the table of the
/// vocabulary, if there is one.
Tensor build_body(GraphBuilder& graph, TransformerStack& stack, const Transformer& net, Table& words) {
  if (net.vocabulary > 0) words = graph.shard_of_table(stack.name_of("embedding"), net.vocabulary, net.embedding_width);
  Tensor x = stack.encoder(stack.name_of("encoder"), embed(graph, stack, net, words));
  if (net.decoder_layers > 0)
    x = stack.decoder("decoder", embed_words(graph, stack, net, "decoder/embedding", words, true), x);
  if (net.embedding_width != net.width && !net.projects_sum)
    x = graph.linear("output_projection", x, net.embedding_width, false);
  return x;
}

}  // namespace

std::int64_t padded_vocabulary(std::int64_t words, const TensorSplit& split) {
  if (split.degree == 1 || words == 0) return words;
  const std::int64_t multiple = std::int64_t{split.vocabulary_multiple} * split.degree;
  return (words + multiple - 1) / multiple * multiple;
}

Transformer part_of(const Transformer& net, const TensorSplit& split, const ContextSplit& context,
                    const ExpertSplit& experts) {
  Transformer part = net;
  part.sequence_length /= context.degree();
  part.heads /= split.degree;
  part.kv_heads /= split.degree;
  part.feed_forward /= split.degree;
  part.experts.shared_feed_forward /= split.degree;
  part.experts.feed_forward /= part.experts.is_grouped ? experts.tensor : split.degree;
  part.vocabulary = static_cast<int>(padded_vocabulary(net.vocabulary, split) / split.degree);
  return part;
}

std::vector<AlikeLayers> alike_layers(const Transformer& net, const StackOptions& options, const ExpertSplit& split) {
  if (split.has_own_loads()) return {};
  const auto kind = [&](int layer) {
    return std::pair{net.experts.are_in(layer), options.fp8 != Fp8::kNone && layer < net.layers - options.wide_layers};
  };
  std::vector<AlikeLayers> runs;
  for (int layer = 0; layer < net.layers; ++layer)
    if (layer > 0 && kind(layer) == kind(layer - 1))
      ++runs.back().count;
    else
      runs.push_back({layer, 1});
  std::erase_if(runs, [](const AlikeLayers& run) { return !run.are_enough(); });
  return runs;
}

std::vector<Tensor> build(GraphBuilder& graph, const Transformer& whole, const StackOptions& options) {
  using Head = Transformer::Head;
  const Transformer net = part_of(whole, graph.split(), graph.context(), graph.expert_split());
  graph.freeze(options.adapters.rank > 0);
  TransformerStack stack{graph, net, "", options};
  Table words;
  const Tensor x = build_body(graph, stack, net, words);
  const auto logits_of = [&](const std::string& name, const Tensor& at, bool has_bias) {
    const Tensor from = graph.begin_split(name, at);
    Tensor logits =
        net.is_tied ? graph.score(name, from, words, has_bias) : graph.linear(name, from, net.vocabulary, has_bias);
    logits.is_shard = graph.split().degree > 1;
    return logits;
  };
  if (net.head == Head::kLanguageModel) return {logits_of("logits", x, net.has_logits_bias)};
  const auto masked_logits = [&](const Tensor& at) {
    Tensor masked = graph.linear("masked/transform", at, net.embedding_width);
    masked = stack.norm("masked/norm", graph.activation("masked/activation", masked, true));
    return logits_of("masked/logits", masked, true);
  };
  if (net.head == Head::kMaskedLanguageModel) return {masked_logits(x)};
  if (net.head == Head::kHiddenStates) return {x};
  if (net.head == Head::kTokenClasses) {
    const Tensor from = net.has_class_layer ? graph.activation("class_layer/activation",
                                                               graph.linear("class_layer", x, x.channels), true)
                                            : x;
    return {graph.linear("classes", from, net.classes, net.has_class_biases)};
  }
  if (net.head == Head::kFirstClasses) {
    std::vector<Tensor> outputs;
    for (int token = 0; token < net.classified_tokens; ++token)
      outputs.push_back(graph.linear(token == 0 ? "classes" : numbered("classes", token),
                                     graph.view("classes", x, 1, net.width), net.classes, net.has_class_biases));
    return outputs;
  }

  Tensor pooled = graph.linear("pooler", graph.view("pooler", x, 1, net.width), net.width);
  pooled = graph.activation("pooler/tanh", pooled);
  if (net.head == Head::kPooler) return {pooled};
  if (net.head == Head::kSequenceClasses) return {graph.linear("classes", pooled, net.classes, net.has_class_biases)};
  const Tensor logits = masked_logits(graph.view("masked", x, net.predictions, net.width));
  return {logits, graph.linear("next_sentence", pooled, 2)};
}

std::vector<Tensor> build(GraphBuilder& graph, const TwoTowers& net) {
  const auto features = [&](const std::string& name, const Transformer& tower) {
    TransformerStack stack{graph, tower, name + "/"};
    Table words;
    const Tensor x = build_body(graph, stack, tower, words);
    return graph.linear(name + "/projection", graph.view(name + "/pooled", x, 1, tower.width), net.projection, false);
  };
  const Tensor text = features("text", net.text), image = features("image", net.image);
  // Products of all pairs of a batch, whose gradient the temperature takes part in.
  const Tensor scaled =
      graph.combine("scale", std::vector{text, image}, std::vector{graph.table("temperature", 1, 1)}, text);
  return {scaled};
}

}  // namespace rehearse
