#include "workloads/sequence_families.hpp"

#include <algorithm>
#include <string>

#include "workloads/sizes.hpp"

namespace rehearse {

using Tensor = GraphBuilder::Tensor;
using Table = GraphBuilder::Table;

namespace {

constexpr int kMaxLayers = 1000;
constexpr std::int64_t kMaxRows = std::int64_t{1} << 36;  // of a table

int read_layers(const JsonReader& json, std::string_view key, int least) {
  const int layers = least > 0 ? json.required<int>(key) : json.optional<int>(key, 0);
  json.expect(layers >= least && layers <= kMaxLayers, key,
              "an integer from " + std::to_string(least) + " to " + std::to_string(kMaxLayers));
  return layers;
}

/// 0 without the key.
int read_optional_size(const JsonReader& json, std::string_view key) {
  return json.has(key) ? read_size(json, key) : 0;
}

std::string numbered(const char* name, int i) { return name + std::to_string(i + 1); }

/// The layers of one transformer.
class Stack {
 public:
  Stack(GraphBuilder& graph, const Transformer& net) : graph_{graph}, net_{net} {}

  Tensor encoder(const std::string& name, Tensor x) {
    for (int layer = 0; layer < net_.layers; ++layer) {
      const std::string prefix = name + numbered("/layer", layer);
      x = sublayer(prefix + "/attention", x,
                   [&](const std::string& at, const Tensor& from) { return attention(at, from, from); });
      x = feed_forward(prefix + "/feed_forward", x);
    }
    return net_.normalises_first ? graph_.layer_norm(name + "/norm", x) : x;
  }

  Tensor decoder(const std::string& name, Tensor x, const Tensor& memory) {
    for (int layer = 0; layer < net_.decoder_layers; ++layer) {
      const std::string prefix = name + numbered("/layer", layer);
      x = sublayer(prefix + "/attention", x,
                   [&](const std::string& at, const Tensor& from) { return attention(at, from, from); });
      x = sublayer(prefix + "/cross_attention", x,
                   [&](const std::string& at, const Tensor& from) { return attention(at, from, memory); });
      x = feed_forward(prefix + "/feed_forward", x);
    }
    return net_.normalises_first ? graph_.layer_norm(name + "/norm", x) : x;
  }

 private:
  template <class Body>
  Tensor sublayer(const std::string& name, const Tensor& x, Body body) {
    Tensor y = body(name, net_.normalises_first ? graph_.layer_norm(name + "/norm", x) : x);
    y = graph_.add(name + "/sum", std::vector{x, graph_.dropout(name + "/dropout", y)});
    return net_.normalises_first ? y : graph_.layer_norm(name + "/norm", y);
  }

  Tensor feed_forward(const std::string& name, const Tensor& x) {
    return sublayer(name, x, [&](const std::string& at, const Tensor& from) {
      const Tensor inner = graph_.activation(at + "/activation", graph_.linear(at + "/inner", from, net_.feed_forward));
      return graph_.linear(at + "/outer", inner, net_.width);
    });
  }

  Tensor attention(const std::string& name, const Tensor& from, const Tensor& to) {
    const std::int64_t width = net_.width, heads = net_.heads;
    const bool has_biases = net_.has_attention_biases;
    Tensor queries, keys, values;
    if (net_.has_joint_projection && from.id == to.id) {
      const Tensor joint = graph_.linear(name + "/projection", from, 3 * width, has_biases);
      queries = keys = values = graph_.view(name, joint, from.height, width);
    } else {
      queries = graph_.linear(name + "/queries", from, width, has_biases);
      keys = graph_.linear(name + "/keys", to, width, has_biases);
      values = graph_.linear(name + "/values", to, width, has_biases);
    }
    const auto rows = static_cast<double>(from.height), columns = static_cast<double>(to.height);
    const double features = static_cast<double>(width) / static_cast<double>(heads), products = net_.heads;
    Tensor scores = graph_.product(name + "/scores", queries, keys, {rows, columns, features, products},
                                   {from.height, to.height, heads});
    scores = graph_.combine(name + "/mask", std::vector{scores}, {}, scores);
    scores = graph_.dropout(name + "/weights", graph_.activation(name + "/softmax", scores));
    const Tensor context =
        graph_.product(name + "/context", scores, values, {rows, features, columns, products}, {from.height, 1, width});
    return graph_.linear(name + "/output", context, width, has_biases);
  }

  GraphBuilder& graph_;
  const Transformer& net_;
};

Tensor embed(GraphBuilder& graph, const Transformer& net, const std::string& name, const Table& words) {
  Tensor x = graph.lookup(name + "/words", graph.identifiers(net.sequence_length), words);
  std::vector<Table> added;
  if (net.positions > 0) added.push_back(graph.table(name + "/positions", net.positions, net.width));
  if (net.token_types > 0) added.push_back(graph.table(name + "/token_types", net.token_types, net.width));
  x = graph.combine(name + "/sum", std::vector{x}, added, x);
  if (net.normalises_embeddings) x = graph.layer_norm(name + "/norm", x);
  return graph.dropout(name + "/dropout", x);
}

Tensor multilayer_perceptron(GraphBuilder& graph, const std::string& name, Tensor x, const std::vector<int>& features) {
  for (std::size_t i = 0; i < features.size(); ++i) {
    const std::string layer = name + "/layer" + std::to_string(i + 1);
    x = graph.activation(layer + "/relu", graph.dense(layer, x, features[i]));
  }
  return x;
}

}  // namespace

Transformer read_transformer(const JsonReader& json) {
  Transformer net{.layers = read_layers(json, "layers", 1),
                  .decoder_layers = read_layers(json, "decoder_layers", 0),
                  .width = read_size(json, "width"),
                  .heads = read_size(json, "heads"),
                  .feed_forward = read_size(json, "feed_forward"),
                  .vocabulary = read_size(json, "vocabulary"),
                  .positions = read_optional_size(json, "positions"),
                  .token_types = read_optional_size(json, "token_types"),
                  .sequence_length = read_size(json, "sequence_length"),
                  .normalises_embeddings = json.optional<bool>("normalises_embeddings", false),
                  .has_attention_biases = json.optional<bool>("attention_biases", true),
                  .has_joint_projection = json.optional<bool>("joint_projection", false)};
  json.expect(net.width % net.heads == 0, "heads", "a divisor of \"width\"");
  json.expect(net.positions == 0 || net.sequence_length <= net.positions, "sequence_length", "at most \"positions\"");
  const auto normalisation = json.required<std::string>("normalisation");
  json.expect(normalisation == "pre" || normalisation == "post", "normalisation", "\"pre\" or \"post\"");
  net.normalises_first = normalisation == "pre";
  const auto head = json.required<std::string>("head");
  json.expect(head == "language_model" || head == "pooler" || head == "bert_pretraining", "head",
              "\"language_model\", \"pooler\" or \"bert_pretraining\"");
  net.head = head == "language_model" ? Transformer::Head::kLanguageModel
             : head == "pooler"       ? Transformer::Head::kPooler
                                      : Transformer::Head::kBertPretraining;
  if (net.head == Transformer::Head::kBertPretraining) {
    net.predictions = read_size(json, "predictions");
    json.expect(net.predictions <= net.sequence_length, "predictions", "at most \"sequence_length\"");
  }
  return net;
}

std::vector<Tensor> build(GraphBuilder& graph, const Transformer& net) {
  Stack stack{graph, net};
  const Table words = graph.table("embedding", net.vocabulary, net.width);
  Tensor x = stack.encoder("encoder", embed(graph, net, "encoder/embedding", words));
  if (net.decoder_layers > 0) x = stack.decoder("decoder", embed(graph, net, "decoder/embedding", words), x);
  if (net.head == Transformer::Head::kLanguageModel) return {graph.score("logits", x, words, false)};

  Tensor pooled = graph.linear("pooler", graph.view("pooler", x, 1, net.width), net.width);
  pooled = graph.activation("pooler/tanh", pooled);
  if (net.head == Transformer::Head::kPooler) return {pooled};
  Tensor masked = graph.linear("masked/transform", graph.view("masked", x, net.predictions, net.width), net.width);
  masked = graph.layer_norm("masked/norm", graph.activation("masked/activation", masked));
  return {graph.score("masked/logits", masked, words, true), graph.linear("next_sentence", pooled, 2)};
}

LstmLanguageModel read_lstm_language_model(const JsonReader& json) {
  return {.vocabulary = read_size(json, "vocabulary"),
          .embedding = read_size(json, "embedding"),
          .hidden = read_size(json, "hidden"),
          .layers = read_layers(json, "layers", 1),
          .sequence_length = read_size(json, "sequence_length")};
}

std::vector<Tensor> build(GraphBuilder& graph, const LstmLanguageModel& net) {
  const Table words = graph.table("embedding", net.vocabulary, net.embedding, true);
  Tensor x = graph.lookup("words", graph.identifiers(net.sequence_length), words);
  x = graph.dropout("words/dropout", x);
  for (int layer = 0; layer < net.layers; ++layer) {
    const std::string name = numbered("lstm", layer);
    x = graph.dropout(name + "/dropout", graph.lstm(name, x, net.hidden, false));
  }
  return {graph.linear("logits", x, net.vocabulary)};
}

Gnmt read_gnmt(const JsonReader& json) {
  return {.vocabulary = read_size(json, "vocabulary"),
          .hidden = read_size(json, "hidden"),
          .encoder_layers = read_layers(json, "encoder_layers", 2),
          .decoder_layers = read_layers(json, "decoder_layers", 2),
          .sequence_length = read_size(json, "sequence_length")};
}

std::vector<Tensor> build(GraphBuilder& graph, const Gnmt& net) {
  const std::int64_t hidden = net.hidden, length = net.sequence_length;
  const Table words = graph.table("embedding", net.vocabulary, hidden);
  const auto lstm = [&](const std::string& name, const Tensor& x) {
    return graph.lstm(name, graph.dropout(name + "/dropout", x), hidden, true);
  };

  Tensor x = graph.lookup("encoder/words", graph.identifiers(length), words);
  const Tensor forward = lstm("encoder/layer1/forward", x), backward = lstm("encoder/layer1/backward", x);
  x = lstm("encoder/layer2", graph.concatenate("encoder/layer1", std::vector{forward, backward}));
  for (int layer = 2; layer < net.encoder_layers; ++layer) {
    const std::string name = numbered("encoder/layer", layer);
    x = graph.add(name + "/sum", std::vector{lstm(name, x), x});
  }
  const Tensor memory = x;

  x = lstm("decoder/layer1", graph.lookup("decoder/words", graph.identifiers(length), words));
  const Tensor queries = graph.linear("attention/queries", x, hidden, false);
  const Tensor keys = graph.linear("attention/keys", memory, hidden, false);
  const std::vector<Table> tables{graph.table("attention/weights", hidden, 1), graph.table("attention/bias", hidden, 1),
                                  graph.table("attention/scale", 1, 1)};
  const Tensor scores = graph.activation(
      "attention/softmax", graph.combine("attention/scores", std::vector{queries, keys}, tables, {length, length, 1}));
  const auto positions = static_cast<double>(length), features = static_cast<double>(hidden);
  const Tensor context =
      graph.product("attention/context", scores, memory, {positions, features, positions, 1}, {length, 1, hidden});
  for (int layer = 1; layer < net.decoder_layers; ++layer) {
    const std::string name = numbered("decoder/layer", layer);
    const Tensor y = lstm(name, graph.concatenate(name + "/concat", std::vector{x, context}));
    x = layer == 1 ? y : graph.add(name + "/sum", std::vector{y, x});
  }
  return {graph.linear("logits", x, net.vocabulary)};
}

Dlrm read_dlrm(const JsonReader& json) {
  Dlrm net{.dense_features = read_size(json, "dense_features"),
           .tables = json.required<std::vector<std::int64_t>>("tables"),
           .embedding = read_size(json, "embedding"),
           .bottom = read_sizes(json, "bottom"),
           .top = read_sizes(json, "top")};
  json.expect(!net.tables.empty() && net.tables.size() <= 10'000, "tables", "1 to 10000 integers");
  for (const std::int64_t rows : net.tables)
    json.expect(rows >= 1 && rows <= kMaxRows, "tables", "integers from 1 to 2^36");
  return net;
}

std::vector<Tensor> build(GraphBuilder& graph, const Dlrm& net) {
  Tensor dense = graph.input(1, 1, net.dense_features);
  dense = multilayer_perceptron(graph, "bottom", dense, net.bottom);
  dense = graph.activation("bottom/relu", graph.dense("bottom/features", dense, net.embedding));
  std::vector<Tensor> features{dense};
  for (std::size_t i = 0; i < net.tables.size(); ++i) {
    const std::string name = "table" + std::to_string(i + 1);
    const Table table = graph.table(name, net.tables[i], net.embedding, true);
    features.push_back(graph.lookup(name + "/lookup", graph.identifiers(1), table));
  }
  const auto count = static_cast<std::int64_t>(features.size());
  const Tensor all = graph.concatenate("features", features);
  const auto pairs = static_cast<double>(count);
  const Tensor products =
      graph.product("interaction", all, all, {pairs, pairs, static_cast<double>(net.embedding), 1}, {count, count, 1});
  const Tensor triangle =
      graph.combine("interaction/triangle", std::vector{products}, {}, {1, 1, count * (count - 1) / 2});
  Tensor x = graph.concatenate("top/input", std::vector{dense, triangle});
  x = multilayer_perceptron(graph, "top", x, net.top);
  return {graph.dense("top/logit", x, 1)};
}

}  // namespace rehearse
