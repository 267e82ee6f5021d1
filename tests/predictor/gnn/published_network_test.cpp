#include "predictor/gnn/published_network.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "predictor/torch_file.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"
#include "sim/base/random.hpp"
#include "tests/support/paths.hpp"

namespace rehearse::published_network_test {
namespace {

const std::string kData = source_folder() + "/tests/predictor/data/driple/";
const std::vector<std::string> kAggregators{
    "sum",     "mean",    "max",     "min",     "std",     "var",     "normalised_mean",
    "softmax", "softmin", "moment3", "moment4", "moment5", "identity"};
const std::vector<std::string> kNetworks{"gcn", "gin", "gat", "gat-textbook", "mpnn"};

void append(GraphBatch& batch, const Json& graph) {
  const std::uint32_t first = batch.offsets.back();
  for (const Json& node : graph["features"])
    for (const Json& feature : node) batch.node_features.push_back(feature);
  for (const Json& edge : graph["undirected_edges"])
    batch.edges.emplace_back(first + edge[0].get<std::uint32_t>(), first + edge[1].get<std::uint32_t>());
  batch.offsets.push_back(first + graph["num_nodes"].get<std::uint32_t>());
}

GraphBatch batch_of(const Json& graph) {
  GraphBatch batch;
  append(batch, graph);
  return batch;
}

/// The weights of the fixtures: w_k = float32(0.2 sin(0.7 k + 0.3)), k counting through all parameters.
void set_synthetic_weights(PublishedNetwork& network) {
  int k = 0;
  for (const ParameterInfo& parameter : network.parameters()) {
    std::vector<double> values(static_cast<std::size_t>(
        std::accumulate(parameter.shape.begin(), parameter.shape.end(), std::int64_t{1}, std::multiplies<>{})));
    for (double& value : values) value = static_cast<float>(0.2 * std::sin(0.7 * k++ + 0.3));
    network.set_values(parameter.name, values);
  }
}

/// What is read of a network's file.
TorchValue as_written(const PublishedNetwork& network) { return parse_torch_file(to_torch_file(network.state()), "f"); }

double largest_relative_error(const std::vector<double>& values, const std::vector<double>& expected) {
  REQUIRE(values.size() == expected.size());
  double largest = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i)
    largest = std::max(largest, std::abs(values[i] - expected[i]) / std::max(std::abs(expected[i]), 1e-300));
  return largest;
}

/// Connected random graphs with `nodes` nodes each, and labels.
GraphBatch random_batch(Rng& random, int graphs, std::uint32_t nodes, std::uint32_t node_step = 0) {
  GraphBatch batch;
  for (int g = 0; g < graphs; ++g) {
    const std::uint32_t first = batch.offsets.back(), size = nodes + static_cast<std::uint32_t>(g) * node_step;
    for (std::uint32_t i = 0; i < size; ++i) {
      if (i > 0) batch.edges.emplace_back(first + static_cast<std::uint32_t>(random.below(i)), first + i);
      for (int f = 0; f < 3; ++f) batch.node_features.push_back(random.uniform());
    }
    batch.offsets.push_back(first + size);
    for (int i = 0; i < 12; ++i) batch.labels.push_back(random.uniform());
  }
  return batch;
}

}  // namespace

TEST_CASE("all networks give the published outputs for weights by a formula") {
  for (const char* file : {"synthetic_weights_hidden8.json", "synthetic_weights_hidden64.json"}) {
    const Json fixture = load_json_file(kData + file);
    for (const auto& [name, model] : fixture["models"].items()) {
      for (const bool is_double : {true, false}) {
        const PublishedOptions options{.convolution = parse_convolution(name), .hidden = fixture["hidden"]};
        PublishedNetwork network{
            options, 1, {.precision = is_double ? Arithmetic::kDoublePrecision : Arithmetic::kSinglePrecision}};
        REQUIRE(network.parameters().size() == model["parameters"].size());
        for (std::size_t i = 0; i < network.parameters().size(); ++i) {
          CHECK(network.parameters()[i].name == model["parameters"][i]["name"].get<std::string>());
          CHECK(network.parameters()[i].shape == model["parameters"][i]["shape"].get<std::vector<std::int64_t>>());
        }
        set_synthetic_weights(network);
        for (const Json& graph : fixture["graphs"]) {
          CAPTURE(file);
          CAPTURE(name);
          CAPTURE(is_double);
          CAPTURE(graph["name"].get<std::string>());
          const auto expected =
              model["outputs"][graph["name"].get<std::string>()]["float64"].get<std::vector<double>>();
          const std::vector<double> outputs = network.predict(batch_of(graph));
          if (is_double) {
            CHECK(largest_relative_error(outputs, expected) < 1e-9);
            continue;
          }
          // In float32 the published program itself differs by up to 2.4e-4 from its float64 where large terms cancel,
          // and by how much depends on the processor's kernels.
          double largest = 0.0;
          for (const double value : expected) largest = std::max(largest, std::abs(value));
          for (std::size_t i = 0; i < expected.size(); ++i) CHECK(std::abs(outputs[i] - expected[i]) < 1e-5 * largest);
        }
      }
    }
  }
}

namespace {

const std::vector<std::string> kShapes{"chain", "star", "hubs", "complete", "isolated nodes", "random", "no links"};

/// A graph of `nodes` nodes whose features reach 3 `scale`, as sums of tensor sizes reach 1e6 and more.
GraphBatch shaped_graph(const std::string& shape, std::uint32_t nodes, double scale, Rng& random) {
  GraphBatch batch;
  for (std::uint32_t i = 1; i < nodes; ++i) {
    const auto before = static_cast<std::uint32_t>(random.below(i));
    if (shape == "chain") batch.edges.emplace_back(i - 1, i);
    if (shape == "star") batch.edges.emplace_back(0, i);
    if (shape == "hubs") batch.edges.emplace_back(std::min(i - 1, before % 3), i);
    if (shape == "complete")
      for (std::uint32_t j = 0; j < i; ++j) batch.edges.emplace_back(j, i);
    if (shape == "isolated nodes" && i % 3 != 0 && before % 3 != 0) batch.edges.emplace_back(before, i);
    if (shape == "random") batch.edges.emplace_back(before, i);
  }
  for (std::uint32_t i = 0; i < nodes; ++i)
    for (const double range : {scale, scale / 100, scale / 10'000})
      batch.node_features.push_back(range * random.uniform(0, 3));
  batch.offsets.push_back(nodes);
  return batch;
}

/// The largest difference as a share of the largest value.
double error_of_largest(const std::vector<double>& values, const std::vector<double>& expected) {
  REQUIRE(values.size() == expected.size());
  double largest = 0.0, error = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    error = std::max(error, std::abs(values[i] - expected[i]));
  }
  return error == 0.0 ? 0.0 : error / largest;
}

}  // namespace

TEST_CASE("float32 weights predict within 1e-5 of float64 on graphs of every shape, whatever the features' scale") {
  for (const std::uint64_t seed : {1U, 2U, 3U})
    for (const std::string& name : kNetworks) {
      const PublishedOptions options{.convolution = parse_convolution(name)};
      PublishedNetwork single{options, seed};
      if (seed % 2 == 0) set_synthetic_weights(single);
      PublishedNetwork whole{options, seed, {.precision = Arithmetic::kDoublePrecision}};
      for (const ParameterInfo& parameter : single.parameters())
        whole.set_values(parameter.name, single.values(parameter.name));
      Rng random{seed, "shapes"};
      for (const std::string& shape : kShapes) {
        const std::uint32_t nodes = seed == 1 ? 100 : 1 + static_cast<std::uint32_t>(random.below(50));
        const double scale = std::pow(10.0, 3.0 * static_cast<double>(random.below(4)));  // 1 to 1e9
        CAPTURE(seed);
        CAPTURE(name);
        CAPTURE(shape);
        CAPTURE(nodes);
        CAPTURE(scale);
        const GraphBatch graph = shaped_graph(shape, nodes, scale, random);
        CHECK(error_of_largest(single.predict(graph), whole.predict(graph)) < 1e-5);
      }
    }
}

TEST_CASE("every intermediate value of a graph of 6 nodes is the published one") {
  const Json fixture = load_json_file(kData + "gcn_trace_tiny6.json");
  PublishedNetwork network{{.hidden = 8}, 1, {.precision = Arithmetic::kDoublePrecision}};
  set_synthetic_weights(network);
  const auto trace = network.trace(batch_of(fixture["graph"]));
  std::vector<std::vector<double>> expected;
  const auto flat = [](const Json& rows) {
    std::vector<double> values;
    for (const Json& row : rows)
      for (const Json& value : row) values.push_back(value);
    return values;
  };
  for (const Json& iteration : fixture["iterations"]) {
    expected.push_back(flat(iteration["conv_output"]));
    expected.push_back(flat(iteration["gru_output"]));
  }
  expected.push_back(fixture["set2set_output"]);
  for (const Json& layer : fixture["mlp_layer_outputs"]) expected.push_back(layer);
  REQUIRE(trace.size() == expected.size());
  for (std::size_t i = 0; i < trace.size(); ++i) {
    CAPTURE(trace[i].first);
    REQUIRE(trace[i].second.size() == expected[i].size());
    for (std::size_t k = 0; k < expected[i].size(); ++k)
      CHECK(trace[i].second[k] == doctest::Approx(expected[i][k]).epsilon(1e-9));
  }
}

TEST_CASE("training follows the published losses, with everything learning and with the readout alone") {
  const Json fixture = load_json_file(kData + "gcn_training_steps.json");
  GraphBatch batch;
  for (const Json& graph : fixture["graphs"]) append(batch, graph);
  for (const Json& row : fixture["raw_labels"])
    for (const Json& label : row) batch.labels.push_back(label);
  for (const bool readout_only : {false, true}) {
    PublishedNetwork network{{.hidden = 8}, 1, {.precision = Arithmetic::kDoublePrecision}};
    set_synthetic_weights(network);
    if (readout_only) {
      PublishedNetwork carried{
          {.hidden = 8, .transfer = Transfer::kAsPublished}, 1, {.precision = Arithmetic::kDoublePrecision}};
      for (const ParameterInfo& parameter : network.parameters())
        carried.set_values(parameter.name, network.values(parameter.name));
      network = std::move(carried);
    }
    network.set_label_maxima(fixture["label_max"]);
    if (!readout_only) {
      const auto norms = network.gradient_norms(batch);
      REQUIRE(norms.size() == fixture["gradient_l2_norms_step0"].size());
      for (const auto& [name, norm] : norms) {
        CAPTURE(name);
        CHECK(norm == doctest::Approx(fixture["gradient_l2_norms_step0"][name].get<double>()).epsilon(1e-9));
      }
    }
    const auto before = network.values("gru.gru.weight_ih_l0");
    for (const Json& loss : fixture[readout_only ? "losses_readout_mlp_only" : "losses_full_training"])
      CHECK(network.train(batch) == doctest::Approx(loss.get<double>()).epsilon(1e-9));
    CHECK((network.values("gru.gru.weight_ih_l0") == before) == readout_only);
  }
}

namespace {

/// A star of nodes 0 to 3 around node 0 and a node without neighbours, with the features 1, 2, 3, 5 and 7.
GraphBatch star() { return {.node_features = {1, 2, 3, 5, 7}, .edges = {{0, 1}, {2, 0}, {0, 3}}, .offsets = {0, 5}}; }

/// MPNN of one feature and four towers of one output each, whose mixing lets every tower through.
PublishedNetwork towers(PublishedOptions options) {
  options.convolution = Convolution::kMpnn;
  options.features = 1;
  options.hidden = 4;
  options.iterations = "1";
  PublishedNetwork network{options, 1, {.precision = Arithmetic::kDoublePrecision}};
  network.set_values("conv_layers.0.mixing_network.linear.weight",
                     std::vector<double>{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
  network.set_values("conv_layers.0.mixing_network.linear.bias", std::vector<double>(4));
  return network;
}

void set_layer(PublishedNetwork& network, const std::string& layer, const std::vector<double>& weight, double bias) {
  for (int tower = 0; tower < 4; ++tower) {
    const std::string name = "conv_layers.0.towers." + std::to_string(tower) + "." + layer + ".linear.";
    network.set_values(name + "weight", weight);
    network.set_values(name + "bias", std::vector<double>{bias});
  }
}

/// Of each node, what the first tower gives after the first convolution.
std::vector<double> first_tower(const PublishedNetwork& network, const GraphBatch& batch) {
  const std::vector<double> values = network.trace(batch).front().second;
  std::vector<double> of_nodes;
  for (std::size_t i = 0; i < values.size(); i += 4) of_nodes.push_back(values[i]);
  return of_nodes;
}

}  // namespace

TEST_CASE("aggregators of the messages of a star are those worked out by hand") {
  // m_ij = x_i / 2 + x_j + 1/4: node 0 is sent 2.75, 3.75 and 5.75, nodes 1 to 3 are sent 2.25, 2.75 and 3.75.
  const double e1 = std::exp(1.0), e3 = std::exp(3.0);
  const double mean = 12.25 / 3;
  const auto power = [&](int n) {
    return (std::pow(2.75 - mean, n) + std::pow(3.75 - mean, n) + std::pow(5.75 - mean, n)) / 3;
  };
  const auto root = [&](int n) { return power(n) * std::pow(power(n) + 1e-5, 1.0 / n - 1); };
  CHECK(root(4) == doctest::Approx(std::pow(power(4), 0.25)).epsilon(1e-5));
  CHECK(power(3) == doctest::Approx(0.740741).epsilon(1e-6));  // (-2.370370 - 0.037037 + 4.629630) / 3
  const std::map<std::string, std::vector<double>> expected{
      {"sum", {12.25, 2.25, 2.75, 3.75, 0}},
      {"mean", {mean, 2.25, 2.75, 3.75, 0}},
      {"max", {5.75, 2.25, 2.75, 3.75, 0}},
      {"min", {2.75, 2.25, 2.75, 3.75, 0}},
      {"var", {power(2), 0, 0, 0, 0}},
      {"std", {std::sqrt(power(2) + 1e-5), std::sqrt(1e-5), std::sqrt(1e-5), std::sqrt(1e-5), std::sqrt(1e-5)}},
      {"normalised_mean",
       {12.25 / std::sqrt(3.0), 2.25 / std::sqrt(3.0), 2.75 / std::sqrt(3.0), 3.75 / std::sqrt(3.0), 0}},
      {"softmax", {(2.75 + 3.75 * e1 + 5.75 * e3) / (1 + e1 + e3), 2.25, 2.75, 3.75, 0}},
      {"softmin", {(2.75 * e3 + 3.75 * e3 / e1 + 5.75) / (e3 + e3 / e1 + 1), 2.25, 2.75, 3.75, 0}},
      {"moment3", {root(3), 0, 0, 0, 0}},
      {"moment4", {root(4), 0, 0, 0, 0}},
      {"moment5", {root(5), 0, 0, 0, 0}},
      {"identity", {1.75, 3.25, 4.75, 7.75, 10.75}}};
  CHECK(expected.size() == kAggregators.size());
  for (const auto& [name, values] : expected)
    for (const int layers : {1, 2}) {  // all messages are positive, so ReLU lets them through
      CAPTURE(name);
      CAPTURE(layers);
      PublishedNetwork network = towers({.mpnn_aggregators = {name}, .mpnn_pre_layers = layers});
      set_layer(network, "pretrans.fully_connected.0", {0.5, 1}, 0.25);
      if (layers == 2) set_layer(network, "pretrans.fully_connected.1", {1}, 0);
      set_layer(network, "posttrans.fully_connected.0", {0, 1}, 0);
      const std::vector<double> found = first_tower(network, star());
      REQUIRE(found.size() == values.size());
      for (std::size_t i = 0; i < values.size(); ++i) CHECK(found[i] == doctest::Approx(values[i]).epsilon(1e-9));
    }
}

TEST_CASE("third moments keep the sign of their skew") {
  // With messages -x_j node 0 is sent -2, -3 and -5: the skew of the features, turned round; leaky ReLU leaves 1 %.
  PublishedNetwork network = towers({.mpnn_aggregators = {"moment3"}});
  set_layer(network, "pretrans.fully_connected.0", {0, -1}, 0);
  set_layer(network, "posttrans.fully_connected.0", {0, 1}, 0);
  CHECK(first_tower(network, star())[0] == doctest::Approx(-0.01 * std::cbrt(20.0 / 27)).epsilon(1e-6));
}

TEST_CASE("scalers of a sum are those of the number of neighbours") {
  // Node 0 has 3 neighbours with the features 2, 3 and 5, node 1 one with 1, node 4 none.
  const std::map<std::string, std::pair<double, double>> expected{
      {"identity", {10, 1}},
      {"amplification", {10 * std::log(4.0) / 0.8, std::log(2.0) / 0.8}},
      {"attenuation", {10 * 0.8 / std::log(4.0), 0.8 / std::log(2.0)}},
      {"linear", {10 * 3 / 1.5, 1 / 1.5}},
      {"inverse_linear", {10 * 1.5 / 3, 1.5}}};
  for (const auto& [name, values] : expected) {
    CAPTURE(name);
    PublishedNetwork network = towers({.mpnn_scalers = {name}, .average_degree = 1.5, .average_log_degree = 0.8});
    set_layer(network, "pretrans.fully_connected.0", {0, 1}, 0);
    set_layer(network, "posttrans.fully_connected.0", {0, 1}, 0);
    const std::vector<double> found = first_tower(network, star());
    CHECK(found[0] == doctest::Approx(values.first).epsilon(1e-9));
    CHECK(found[1] == doctest::Approx(values.second).epsilon(1e-9));
    CHECK(found[4] == 0);
  }
}

TEST_CASE("several layers before and after the sum have ReLU between them") {
  // m_ij = 3 relu(x_i - x_j) + 1/2: node 0 is sent 1/2 three times, nodes 1, 2, 3: 3.5, 6.5, 12.5; node 4 nothing.
  // u_i = 2 relu(x_i + sum - 3) + 0.1:  relu(-0.5), relu(2.5), relu(6.5), relu(14.5), relu(4)
  PublishedNetwork network = towers({.mpnn_pre_layers = 2, .mpnn_post_layers = 2});
  set_layer(network, "pretrans.fully_connected.0", {1, -1}, 0);
  set_layer(network, "pretrans.fully_connected.1", {3}, 0.5);
  set_layer(network, "posttrans.fully_connected.0", {1, 1}, -3);
  set_layer(network, "posttrans.fully_connected.1", {2}, 0.1);
  const std::vector<double> found = first_tower(network, star());
  const std::vector<double> expected{0.1, 5.1, 13.1, 29.1, 8.1};
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-9));
}

TEST_CASE("a state_dict has the names and shapes of the published checkpoint") {
  const CsvTable published = load_csv_file(kData + "pretrained_gcn_parameters.csv");
  const PublishedNetwork network{{}, 1};
  REQUIRE(network.parameters().size() == published.row_count());
  std::int64_t total = 0;
  for (std::size_t i = 0; i < published.row_count(); ++i) {
    const ParameterInfo parameter = network.parameters()[i];
    std::string shape;
    for (const std::int64_t length : parameter.shape) shape += (shape.empty() ? "" : "x") + std::to_string(length);
    CHECK(parameter.name == published.row(i).text("name"));
    CHECK(shape == published.row(i).text("shape"));
    total += published.row(i).integer("numel");
  }
  CHECK(total == 92236);
}

TEST_CASE("training goes on from a model file as if it had not stopped") {
  Rng random{4, "batch"};
  const GraphBatch batch = random_batch(random, 4, 8, 1);
  for (const std::string& name : kNetworks) {
    CAPTURE(name);
    PublishedNetwork network{{.convolution = parse_convolution(name), .hidden = 8, .dropout = 0.2}, 9};
    network.set_label_maxima(std::vector<double>(12, 2.0));
    network.train(batch);
    PublishedNetwork loaded = PublishedNetwork::from_state(as_written(network), "f");
    CHECK(loaded.label_maxima() == network.label_maxima());
    CHECK(loaded.predict(batch) == network.predict(batch));
    for (int step = 0; step < 3; ++step) CHECK(loaded.train(batch) == network.train(batch));
    CHECK(to_torch_file(loaded.state()) == to_torch_file(network.state()));
  }
}

TEST_CASE("transfer: what learns, and where a third convolution starts") {
  Rng random{5, "batch"};
  const GraphBatch batch = random_batch(random, 4, 9);
  for (const std::string& name : kNetworks) {
    CAPTURE(name);
    const Convolution convolution = parse_convolution(name);
    PublishedNetwork source{{.convolution = convolution, .hidden = 8}, 9};
    source.train(batch);
    for (const Transfer transfer : {Transfer::kAsPublished, Transfer::kAsIntended}) {
      PublishedNetwork carried{{.convolution = convolution, .hidden = 8, .transfer = transfer}, 10};
      for (const std::string& missing : carried.take_weights(as_written(source), "f"))
        CHECK(missing.starts_with("conv_layers.2."));
      CHECK(carried.predict(batch) ==
            source.predict(batch));  // the third convolution is unused, or equal to the second
      std::vector<std::vector<double>> before;
      for (const ParameterInfo& parameter : carried.parameters()) before.push_back(carried.values(parameter.name));
      for (int step = 0; step < 3; ++step) carried.train(batch);
      for (std::size_t i = 0; i < before.size(); ++i) {
        const std::string parameter = carried.parameters()[i].name;
        CAPTURE(parameter);
        const bool is_third = parameter.starts_with("conv_layers.2."),
                   is_mlp = parameter.starts_with("graph_read_out.mlp.");
        CHECK((carried.values(parameter) != before[i]) == (is_mlp || (is_third && transfer == Transfer::kAsIntended)));
      }
    }
  }
}

TEST_CASE("what is kept of a batch is not taken for another, nor after a change of weights") {
  Rng random{15, "batch"};
  const GraphBatch batch = random_batch(random, 3, 9, 1);
  const PublishedOptions options{.hidden = 8, .transfer = Transfer::kAsPublished};
  PublishedNetwork network{options, 1, {.precision = Arithmetic::kDoublePrecision}};
  const double loss = network.loss(batch);
  GraphBatch other = batch;
  other.node_features[5] += 1.0;
  CHECK(network.loss(other) != loss);
  other = batch;
  other.edges.pop_back();
  CHECK(network.loss(other) != loss);
  CHECK(network.loss(batch) == loss);
  std::vector<double> bias = network.values("conv_layers.1.b");
  bias[0] += 1.0;
  network.set_values("conv_layers.1.b", bias);
  CHECK(network.loss(batch) != loss);
}

TEST_CASE("graphs of a batch do not touch each other, and their nodes have no order") {
  Rng random{6, "batch"};
  const GraphBatch one = random_batch(random, 1, 10), other = random_batch(random, 1, 13);
  GraphBatch both = other;
  for (const double value : one.node_features) both.node_features.push_back(value);
  for (const auto& [from, to] : one.edges) both.edges.emplace_back(from + 13, to + 13);
  both.offsets.push_back(23);
  both.labels.clear();
  GraphBatch reversed = one;
  for (int i = 0; i < 10; ++i)
    for (int f = 0; f < 3; ++f)
      reversed.node_features[static_cast<std::size_t>(3 * i + f)] =
          one.node_features[static_cast<std::size_t>(3 * (9 - i) + f)];
  for (auto& [from, to] : reversed.edges) {
    from = 9 - from;
    to = 9 - to;
  }
  for (const std::string& name : kNetworks) {
    CAPTURE(name);
    PublishedNetwork network{
        {.convolution = parse_convolution(name), .hidden = 8}, 9, {.precision = Arithmetic::kDoublePrecision}};
    set_synthetic_weights(network);
    const std::vector<double> alone = network.predict(one), together = network.predict(both);
    for (std::size_t i = 0; i < 12; ++i) CHECK(together[12 + i] == doctest::Approx(alone[i]).epsilon(1e-12));
    const bool is_equal = largest_relative_error(network.predict(reversed), alone) < 1e-9;
    CHECK(is_equal == (name != "gat"));  // its published pairing depends on the numbers of the nodes
  }
}

TEST_CASE("a loss that falls: every network learns a few graphs") {
  Rng random{8, "batch"};
  const GraphBatch batch = random_batch(random, 4, 8);
  for (const std::string& name : kNetworks) {
    CAPTURE(name);
    PublishedNetwork network{{.convolution = parse_convolution(name), .hidden = 16}, 2};
    const double first = network.loss(batch);
    for (int step = 0; step < 150; ++step) network.train(batch, {.learning_rate = 0.01});
    CHECK(network.loss(batch) < 0.5 * first);
  }
}

TEST_CASE("label weights: 0 leaves a label out") {
  Rng random{12, "batch"};
  GraphBatch batch = random_batch(random, 3, 7);
  const PublishedNetwork network{{.hidden = 8}, 2, {.precision = Arithmetic::kDoublePrecision}};
  const double whole = network.loss(batch);
  batch.label_weights.assign(36, 1.0);
  CHECK(network.loss(batch) == doctest::Approx(whole).epsilon(1e-12));
  batch.label_weights.assign(36, 0.0);
  batch.label_weights[13] = 2.0;
  const double difference = network.predict(batch)[13] - batch.labels[13];
  CHECK(network.loss(batch) == doctest::Approx(2.0 * difference * difference / 36.0).epsilon(1e-12));
}

TEST_CASE("labels may be learnt as standardised logarithms, of which the last layer is linear") {
  Rng random{13, "batch"};
  GraphBatch batch = random_batch(random, 2, 6);
  batch.labels[5] = 0;  // counts as the smallest
  PublishedNetwork network{
      {.hidden = 8, .labels = LabelScaling::kStandardisedLogs}, 2, {.precision = Arithmetic::kDoublePrecision}};
  set_synthetic_weights(network);
  const LabelLogs logs{.smallest = std::vector<double>(12, 0.01),
                       .mean = std::vector<double>(12, -1.5),
                       .deviation = std::vector<double>(12, 0.25)};
  network.set_label_logs(logs);
  const std::vector<double> predicted = network.predict(batch);
  double sum = 0;
  for (std::size_t i = 0; i < 24; ++i) {
    const double output = (std::log(predicted[i]) + 1.5) / 0.25;
    sum += std::pow(output - (std::log(std::max(batch.labels[i], 0.01)) + 1.5) / 0.25, 2);
  }
  CHECK(network.loss(batch) == doctest::Approx(sum / 24).epsilon(1e-9));

  GraphBatch one = batch;  // the first graph alone
  one.offsets = {0, 6};
  one.node_features.resize(18);
  one.labels.clear();
  std::erase_if(one.edges, [](const auto& edge) { return edge.second >= 6; });
  const auto trace = network.trace(one);
  const std::vector<double> hidden = trace[trace.size() - 2].second, last = trace.back().second;
  const std::vector<double> weight = network.values("graph_read_out.mlp.fully_connected.2.linear.weight");
  const std::vector<double> bias = network.values("graph_read_out.mlp.fully_connected.2.linear.bias");
  int below_0 = 0;
  for (std::size_t l = 0; l < 12; ++l) {
    const double expected =
        std::inner_product(hidden.begin(), hidden.end(), weight.begin() + static_cast<std::ptrdiff_t>(8 * l), bias[l]);
    CHECK(last[l] == doctest::Approx(expected).epsilon(1e-9));
    CHECK(predicted[l] == doctest::Approx(std::exp(expected * 0.25 - 1.5)).epsilon(1e-9));
    if (expected < 0) ++below_0;
  }
  CHECK(below_0 > 0);

  const PublishedNetwork loaded =
      PublishedNetwork::from_state(as_written(network), "f", {.precision = Arithmetic::kDoublePrecision});
  CHECK(loaded.predict(batch) == predicted);
  CHECK(loaded.label_logs().smallest == logs.smallest);
  CHECK_THROWS_WITH_AS(network.set_label_logs({}),
                       "expected 12 means, and as many smallest labels and standard deviations above 0", InputError);
  // Weights without bound give numbers all the same.
  network.set_values("graph_read_out.mlp.fully_connected.2.linear.bias", std::vector<double>(12, 1e9));
  for (const double value : network.predict(batch)) CHECK(std::isfinite(value));
}

TEST_CASE("the readout starts with a Xavier gain of 1 / inputs, or the one that is asked for") {
  const auto largest = [](const PublishedNetwork& network, const std::string& layer) {
    double value = 0;
    for (const double weight : network.values(layer + ".linear.weight")) value = std::max(value, std::abs(weight));
    return value;
  };
  const std::string first = "graph_read_out.mlp.fully_connected.0", mixing = "conv_layers.0.mixing_network";
  const PublishedNetwork published{{.convolution = Convolution::kMpnn}, 3},
      one{{.convolution = Convolution::kMpnn, .mlp_gain = 1}, 3};
  const double width = std::sqrt(6.0 / (128 + 64));  // of 8192 weights the largest is near it
  CHECK(largest(published, first) == doctest::Approx(width / 128).epsilon(0.01));
  CHECK(largest(one, first) == doctest::Approx(width).epsilon(0.01));
  CHECK(largest(one, mixing) == largest(published, mixing));  // no part of the readout
  CHECK(PublishedNetwork::from_state(one.state(), "kept").options().mlp_gain == 1);
}

TEST_CASE("a file of before labels and gain could be chosen has the published ones") {
  TorchValue options = to_torch(PublishedOptions{});
  auto& items = std::get<TorchDict>(options.value).items;
  REQUIRE(std::get<std::string>(items.back().first.value) == "mlp_gain");
  items.resize(items.size() - 2);
  const PublishedOptions read = published_options(options, "old");
  CHECK(read.labels == LabelScaling::kMaxima);
  CHECK(read.mlp_gain == 0);
  items.pop_back();
  CHECK_THROWS_WITH_AS(published_options(options, "old"), "old: expected the key \"transfer\"", InputError);
}

TEST_CASE("iteration rules") {
  const std::vector<std::pair<const char*, std::int64_t>> at_100{
      {"Nover2", 50}, {"N", 100},     {"Nover3", 33}, {"log2N", 6},  {"2log2N", 13},
      {"3log2N", 19}, {"4log2N", 26}, {"3sqrtN", 30}, {"log10N", 2}, {"7", 7}};
  for (const auto& [rule, count] : at_100) CHECK(iteration_count(rule, 100) == count);
  CHECK(iteration_count("Nover2", 1) == 1);
  CHECK_THROWS_WITH_AS(iteration_count("Novr2", 9), "unknown iteration rule \"Novr2\"; did you mean \"Nover2\"?",
                       InputError);
}

TEST_CASE("a network whose squared gradients were too large for float32 is kept like any other") {
  PublishedNetwork network{{.hidden = 8}, 1};
  const std::vector<double> features(6, 1.0), labels(12, 1e25);
  const GraphBatch batch{.node_features = features, .edges = {{0, 1}}, .offsets = {0, 2}, .labels = labels};
  network.train(batch);
  PublishedNetwork kept = PublishedNetwork::from_state(network.state(), "kept");
  CHECK(kept.predict(batch) == network.predict(batch));
}

TEST_CASE("options, batches and files that make no network are refused with one line") {
  const auto refused = [](const PublishedOptions& options, const char* message) {
    CHECK_THROWS_WITH_AS((PublishedNetwork{options, 1}), message, InputError);
  };
  refused({.hidden = 2}, "features: expected 1 to 2; found 3");
  refused({.convolution = Convolution::kGat, .hidden = 6}, "hidden: expected a multiple of 4 for gat; found 6");
  refused({.mlp_layers = 0}, "mlp layers: expected 1 to 64; found 0");
  refused({.mlp_gain = -1.0}, "mlp gain: expected a number of at least 0");
  refused({.dropout = 1.0}, "dropout: expected at least 0, less than 1");
  refused({.mpnn_aggregators = {"sun"}}, "unknown aggregator \"sun\"; did you mean \"sum\"?");
  CHECK_THROWS_AS((PublishedNetwork{{}, 1, {.device = "cuda:77"}}), InputError);
  CHECK_THROWS_AS(parse_convolution("gnn"), InputError);
  CHECK_THROWS_AS(parse_transfer("all"), InputError);

  PublishedNetwork network{{.hidden = 8}, 1};
  const auto refused_batch = [&](const GraphBatch& batch, const char* message) {
    CHECK_THROWS_WITH_AS(network.predict(batch), message, InputError);
  };
  refused_batch({}, "batch: expected at least one graph, and offsets from 0");
  refused_batch({.offsets = {0, 0}}, "batch: graph 0 has no node");
  refused_batch({.node_features = {1, 2}, .offsets = {0, 1}}, "batch: expected 3 node features; found 2");
  refused_batch({.node_features = {1, 2, NAN}, .offsets = {0, 1}}, "batch: expected finite node features");
  const std::vector<double> two_nodes(6, 1.0);
  refused_batch({.node_features = two_nodes, .edges = {{0, 2}}, .offsets = {0, 2}}, "batch: an edge leads to no node");
  refused_batch({.node_features = two_nodes, .edges = {{0, 1}}, .offsets = {0, 1, 2}},
                "batch: an edge leads from one graph to another");
  refused_batch({.node_features = two_nodes, .edges = {{1, 1}}, .offsets = {0, 2}},
                "batch: an edge leads from a node to itself");
  CHECK_THROWS_WITH_AS(network.train({.node_features = two_nodes, .offsets = {0, 2}}), "batch: expected labels",
                       InputError);

  const TorchDict other{{{"format", 1}}};
  CHECK_THROWS_WITH_AS(PublishedNetwork::from_state(other, "f"), "f: expected the file of a published network",
                       InputError);
  CHECK_THROWS_WITH_AS(network.take_weights(other, "f"),
                       "f: expected the weights of a network of the kind gcn, such as \"conv_layers.0.W\"", InputError);
  CHECK_THROWS_WITH_AS(network.take_weights(PublishedNetwork{{.hidden = 16}, 1}.state(), "f"),
                       "f: conv_layers.0.W: expected the shape 3 x 8; found 3 x 16", InputError);
}

}  // namespace rehearse::published_network_test
