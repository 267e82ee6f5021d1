#include "workloads/sequence_families.hpp"

#include <string>

#include "workloads/sizes.hpp"

namespace rehearse {

using Tensor = GraphBuilder::Tensor;
using Table = GraphBuilder::Table;

namespace {

constexpr std::int64_t kMaxRows = std::int64_t{1} << 36;  // of a table

Tensor multilayer_perceptron(GraphBuilder& graph, const std::string& name, Tensor x, const std::vector<int>& features) {
  for (std::size_t i = 0; i < features.size(); ++i) {
    const std::string layer = name + "/layer" + std::to_string(i + 1);
    x = graph.activation(layer + "/relu", graph.dense(layer, x, features[i]));
  }
  return x;
}

}  // namespace

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
