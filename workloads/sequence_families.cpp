#include "workloads/sequence_families.hpp"

#include <algorithm>
#include <map>
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
    add_relative_positions(name);
    for (int layer = 0; layer < net_.layers; ++layer) {
      const std::string prefix = name + numbered("/layer", layer);
      x = net_.has_parallel_sublayers ? parallel_sublayers(prefix, x)
                                      : feed_forward(prefix + "/feed_forward", self_attention(prefix, x));
    }
    return net_.normalises_first ? norm(name + "/norm", x) : x;
  }

  Tensor decoder(const std::string& name, Tensor x, const Tensor& memory) {
    add_relative_positions(name);
    for (int layer = 0; layer < net_.decoder_layers; ++layer) {
      const std::string prefix = name + numbered("/layer", layer);
      x = self_attention(prefix, x);
      x = sublayer(prefix + "/cross_attention", x,
                   [&](const std::string& at, const Tensor& from) { return attention(at, from, memory); });
      x = feed_forward(prefix + "/feed_forward", x);
    }
    return net_.normalises_first ? norm(name + "/norm", x) : x;
  }

  Tensor norm(const std::string& name, const Tensor& x) {
    return net_.has_rms_norms ? graph_.rms_norm(name, x) : graph_.layer_norm(name, x);
  }
  Tensor dropout(const std::string& name, const Tensor& x) { return net_.has_dropout ? graph_.dropout(name, x) : x; }

 private:
  template <class Body>
  Tensor sublayer(const std::string& name, const Tensor& x, Body body) {
    Tensor y = body(name, net_.normalises_first ? norm(name + "/norm", x) : x);
    y = graph_.add(name + "/sum", std::vector{x, dropout(name + "/dropout", y)});
    return net_.normalises_first ? y : norm(name + "/norm", y);
  }

  Tensor self_attention(const std::string& prefix, const Tensor& x) {
    return sublayer(prefix + "/attention", x,
                    [&](const std::string& at, const Tensor& from) { return attention(at, from, from); });
  }

  Tensor feed_forward(const std::string& name, const Tensor& x) {
    return sublayer(name, x, [&](const std::string& at, const Tensor& from) { return feed_forward_body(at, from); });
  }

  Tensor feed_forward_body(const std::string& at, const Tensor& from) {
    return net_.experts > 0 ? mixture(at, from) : perceptron(at, from);
  }

  Tensor mixture(const std::string& at, const Tensor& from) {
    const Tensor weights = graph_.activation(at + "/softmax", graph_.linear(at + "/router", from, net_.experts, false));
    const std::int64_t rows = (from.height * net_.experts_per_token + net_.experts - 1) / net_.experts;
    std::vector<Tensor> factors{weights};
    for (int expert = 0; expert < net_.experts; ++expert) {
      const std::string name = at + numbered("/expert", expert);
      const Tensor share = graph_.view(name, from, rows, net_.width);
      factors.push_back(perceptron(name, graph_.combine(name + "/tokens", std::vector{share, weights}, {}, share)));
    }
    return graph_.multiply(at + "/mixed", factors, {}, from);
  }

  Tensor perceptron(const std::string& at, const Tensor& from) {
    const bool has_biases = net_.has_feed_forward_biases;
    Tensor inner = graph_.linear(at + "/inner", from, net_.feed_forward, has_biases);
    if (net_.has_gates) {
      const Tensor gates =
          graph_.activation(at + "/activation", graph_.linear(at + "/gates", from, net_.feed_forward, has_biases));
      inner = graph_.multiply(at + "/gated", std::vector{inner, gates}, {}, inner);
    } else {
      inner = graph_.activation(at + "/activation", inner, true);
    }
    return graph_.linear(at + "/outer", inner, net_.width, has_biases);
  }

  Tensor parallel_sublayers(const std::string& prefix, const Tensor& x) {
    const std::string attends = prefix + "/attention", feeds = prefix + "/feed_forward";
    const Tensor from = norm(attends + "/norm", x);
    const Tensor attended = dropout(attends + "/dropout", attention(attends, from, from));
    const Tensor fed = dropout(feeds + "/dropout", feed_forward_body(feeds, norm(feeds + "/norm", x)));
    return graph_.add(prefix + "/sum", std::vector{x, attended, fed});
  }

  void add_relative_positions(const std::string& name) {
    if (net_.relative_positions > 0)
      relative_positions_ = {graph_.table(name + "/relative_positions", net_.relative_positions, net_.heads)};
  }

  Tensor rotated(const std::string& name, const Tensor& x) {
    return net_.has_rotary_positions ? graph_.combine(name, std::vector{x}, {}, x) : x;
  }

  /// Of [positions, heads x features], over the features.
  Tensor norm_of_heads(const std::string& name, Tensor x) {
    const std::int64_t positions = x.height, width = x.channels;
    x.height *= width / net_.head_features;
    x.channels = net_.head_features;
    Tensor y = norm(name, x);
    y.height = positions;
    y.channels = width;
    return y;
  }

  Tensor attention(const std::string& name, const Tensor& from, const Tensor& to) {
    const std::int64_t heads = net_.heads, width = heads * net_.head_features,
                       kv_width = std::int64_t{net_.kv_heads} * net_.head_features;
    const bool has_biases = net_.has_attention_biases, is_own = from.id == to.id;
    Tensor queries, keys, values;
    if (net_.has_joint_projection && is_own) {
      const Tensor joint = graph_.linear(name + "/projection", from, width + 2 * kv_width, has_biases);
      queries = graph_.view(name, joint, from.height, width);
      keys = values = graph_.view(name, joint, from.height, kv_width);
    } else {
      queries = graph_.linear(name + "/queries", from, width, has_biases);
      keys = graph_.linear(name + "/keys", to, kv_width, has_biases);
      values = graph_.linear(name + "/values", to, kv_width, has_biases);
    }
    if (net_.has_query_key_norms) {
      queries = norm_of_heads(name + "/norm_of_queries", queries);
      keys = norm_of_heads(name + "/norm_of_keys", keys);
    }
    queries = rotated(name + "/rotated_queries", queries);
    keys = rotated(name + "/rotated_keys", keys);
    if (net_.has_fused_attention) {
      const Tensor context = graph_.fused_attention(name + "/context", queries, keys, values,
                                                    {.heads = heads,
                                                     .key_heads = net_.kv_heads,
                                                     .queries = from.height,
                                                     .keys = to.height,
                                                     .head_features = net_.head_features,
                                                     .is_causal = is_own && net_.is_causal});
      return graph_.linear(name + "/output", context, net_.width, net_.has_output_bias);
    }
    const auto rows = static_cast<double>(from.height), columns = static_cast<double>(to.height);
    const double features = net_.head_features, products = net_.heads;
    Tensor scores = graph_.product(name + "/scores", queries, keys, {rows, columns, features, products},
                                   {from.height, to.height, heads});
    scores = graph_.combine(name + "/mask", std::vector{scores}, is_own ? relative_positions_ : std::vector<Table>{},
                            scores);
    scores = dropout(name + "/weights", graph_.activation(name + "/softmax", scores));
    const Tensor context =
        graph_.product(name + "/context", scores, values, {rows, features, columns, products}, {from.height, 1, width});
    return graph_.linear(name + "/output", context, net_.width, net_.has_output_bias);
  }

  GraphBuilder& graph_;
  const Transformer& net_;
  std::vector<Table> relative_positions_;  // of the stack that is built: none or one
};

Tensor embed(GraphBuilder& graph, Stack& stack, const Transformer& net, const std::string& name, const Table& words) {
  Tensor x = graph.lookup(name + "/words", graph.identifiers(net.sequence_length), words);
  std::vector<Table> added;
  if (net.positions > 0) added.push_back(graph.table(name + "/positions", net.positions, net.width));
  if (net.token_types > 0) added.push_back(graph.table(name + "/token_types", net.token_types, net.width));
  const bool has_sum = !added.empty() || (!net.has_rotary_positions && net.relative_positions == 0);
  if (has_sum) x = graph.combine(name + "/sum", std::vector{x}, added, x);
  if (net.normalises_embeddings) x = stack.norm(name + "/norm", x);
  return stack.dropout(name + "/dropout", x);
}

Tensor multilayer_perceptron(GraphBuilder& graph, const std::string& name, Tensor x, const std::vector<int>& features) {
  for (std::size_t i = 0; i < features.size(); ++i) {
    const std::string layer = name + "/layer" + std::to_string(i + 1);
    x = graph.activation(layer + "/relu", graph.dense(layer, x, features[i]));
  }
  return x;
}

}  // namespace

namespace {

void read_head(const JsonReader& json, Transformer& net) {
  using Head = Transformer::Head;
  static const std::map<std::string, Head> heads{{"language_model", Head::kLanguageModel},
                                                 {"masked_language_model", Head::kMaskedLanguageModel},
                                                 {"pooler", Head::kPooler},
                                                 {"bert_pretraining", Head::kBertPretraining},
                                                 {"hidden_states", Head::kHiddenStates},
                                                 {"token_classes", Head::kTokenClasses},
                                                 {"sequence_classes", Head::kSequenceClasses}};
  const auto head = heads.find(json.required<std::string>("head"));
  json.expect(head != heads.end(), "head",
              "\"language_model\", \"masked_language_model\", \"pooler\", \"bert_pretraining\", "
              "\"hidden_states\", \"token_classes\" or \"sequence_classes\"");
  net.head = head->second;
  net.is_causal = json.optional<bool>("causal", net.head == Head::kLanguageModel && net.decoder_layers == 0);
  if (net.head == Head::kTokenClasses || net.head == Head::kSequenceClasses) {
    net.classes = read_size(json, "classes");
    net.has_class_biases = json.optional<bool>("class_biases", true);
  }
  if (net.head == Head::kBertPretraining) {
    net.predictions = read_size(json, "predictions");
    json.expect(net.predictions <= net.sequence_length, "predictions", "at most \"sequence_length\"");
  }
  net.is_tied = json.optional<bool>("tied_embedding", true);
  json.expect(net.is_tied || net.head == Head::kLanguageModel || net.head == Head::kMaskedLanguageModel ||
                  net.head == Head::kBertPretraining,
              "tied_embedding", "false with logits over the vocabulary alone");
}

void read_attention(const JsonReader& json, Transformer& net) {
  net.heads = read_size(json, "heads");
  if (!json.has("head_features")) json.expect(net.width % net.heads == 0, "heads", "a divisor of \"width\"");
  net.head_features = json.has("head_features") ? read_size(json, "head_features") : net.width / net.heads;
  net.kv_heads = json.has("kv_heads") ? read_size(json, "kv_heads") : net.heads;
  json.expect(net.heads % net.kv_heads == 0, "kv_heads", "a divisor of \"heads\"");
  net.has_attention_biases = json.optional<bool>("attention_biases", true);
  net.has_output_bias = json.optional<bool>("attention_output_bias", net.has_attention_biases);
  net.has_joint_projection = json.optional<bool>("joint_projection", false);
  net.has_rotary_positions = json.optional<bool>("rotary_positions", false);
  net.relative_positions = read_optional_size(json, "relative_positions");
  net.has_query_key_norms = json.optional<bool>("query_key_norms", false);
  net.has_fused_attention = json.optional<bool>("fused_attention", false);
  json.expect(!net.has_fused_attention || net.relative_positions == 0, "fused_attention",
              "false with \"relative_positions\", which are added to the scores");
}

}  // namespace

namespace {

void read_experts(const JsonReader& json, Transformer& net) {
  constexpr std::int64_t kMostExperts = 16'384;  // of all layers
  net.experts = read_optional_size(json, "experts");
  json.expect(std::int64_t{net.experts} * (net.layers + net.decoder_layers) <= kMostExperts, "experts",
              "at most 16384 in all layers together");
  net.experts_per_token =
      net.experts > 0 ? read_size(json, "experts_per_token") : read_optional_size(json, "experts_per_token");
  json.expect(net.experts_per_token <= net.experts, "experts_per_token", "at most \"experts\"");
}

}  // namespace

Transformer read_transformer(const JsonReader& json) {
  Transformer net{.layers = read_layers(json, "layers", 1),
                  .decoder_layers = read_layers(json, "decoder_layers", 0),
                  .width = read_size(json, "width"),
                  .feed_forward = read_size(json, "feed_forward"),
                  .vocabulary = read_size(json, "vocabulary"),
                  .positions = read_optional_size(json, "positions"),
                  .token_types = read_optional_size(json, "token_types"),
                  .sequence_length = read_size(json, "sequence_length"),
                  .normalises_embeddings = json.optional<bool>("normalises_embeddings", false),
                  .has_rms_norms = json.optional<bool>("rms_norm", false),
                  .has_feed_forward_biases = json.optional<bool>("feed_forward_biases", true),
                  .has_gates = json.optional<bool>("gated_feed_forward", false),
                  .has_parallel_sublayers = json.optional<bool>("parallel_sublayers", false),
                  .has_dropout = json.optional<bool>("dropout", true)};
  read_attention(json, net);
  read_experts(json, net);
  json.expect(net.positions == 0 || net.sequence_length <= net.positions, "sequence_length", "at most \"positions\"");
  const auto normalisation = json.required<std::string>("normalisation");
  json.expect(normalisation == "pre" || normalisation == "post", "normalisation", "\"pre\" or \"post\"");
  net.normalises_first = normalisation == "pre";
  json.expect(!net.has_parallel_sublayers || (net.normalises_first && net.decoder_layers == 0), "parallel_sublayers",
              "true with \"pre\" normalisation and without decoder layers alone");
  read_head(json, net);
  return net;
}

std::vector<Tensor> build(GraphBuilder& graph, const Transformer& net) {
  Stack stack{graph, net};
  const Table words = graph.table("embedding", net.vocabulary, net.width);
  Tensor x = stack.encoder("encoder", embed(graph, stack, net, "encoder/embedding", words));
  if (net.decoder_layers > 0) x = stack.decoder("decoder", embed(graph, stack, net, "decoder/embedding", words), x);
  if (net.head == Transformer::Head::kLanguageModel)
    return {net.is_tied ? graph.score("logits", x, words, false) : graph.linear("logits", x, net.vocabulary, false)};
  const auto masked_logits = [&](const Tensor& at) {
    Tensor masked = graph.linear("masked/transform", at, net.width);
    masked = stack.norm("masked/norm", graph.activation("masked/activation", masked, true));
    return net.is_tied ? graph.score("masked/logits", masked, words, true)
                       : graph.linear("masked/logits", masked, net.vocabulary);
  };
  if (net.head == Transformer::Head::kMaskedLanguageModel) return {masked_logits(x)};
  if (net.head == Transformer::Head::kHiddenStates) return {x};
  if (net.head == Transformer::Head::kTokenClasses)
    return {graph.linear("classes", x, net.classes, net.has_class_biases)};

  Tensor pooled = graph.linear("pooler", graph.view("pooler", x, 1, net.width), net.width);
  pooled = graph.activation("pooler/tanh", pooled);
  if (net.head == Transformer::Head::kPooler) return {pooled};
  if (net.head == Transformer::Head::kSequenceClasses)
    return {graph.linear("classes", pooled, net.classes, net.has_class_biases)};
  const Tensor logits = masked_logits(graph.view("masked", x, net.predictions, net.width));
  return {logits, graph.linear("next_sentence", pooled, 2)};
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
