#include "predictor/gnn/published_network.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"
#include "sim/base/random.hpp"

namespace rehearse {
namespace {

const std::string kData = REHEARSE_SOURCE_DIR "/tests/predictor/data/driple/";
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
            options, 1, {.precision = is_double ? Precision::double_precision : Precision::single_precision}};
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
          // In float32 the published program itself differs by up to 2.4e-4 from its float64 where large terms cancel.
          double largest = 0.0;
          for (const double value : expected) largest = std::max(largest, std::abs(value));
          for (std::size_t i = 0; i < expected.size(); ++i) {
            CHECK(std::abs(outputs[i] - expected[i]) < 1e-5 * largest);
            CHECK(std::abs(outputs[i] - expected[i]) < 1e-4 * std::abs(expected[i]));
          }
        }
      }
    }
  }
}

TEST_CASE("every intermediate value of a graph of 6 nodes is the published one") {
  const Json fixture = load_json_file(kData + "gcn_trace_tiny6.json");
  PublishedNetwork network{{.hidden = 8}, 1, {.precision = Precision::double_precision}};
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
    PublishedNetwork network{{.hidden = 8}, 1, {.precision = Precision::double_precision}};
    set_synthetic_weights(network);
    if (readout_only) {
      PublishedNetwork carried{
          {.hidden = 8, .transfer = Transfer::as_published}, 1, {.precision = Precision::double_precision}};
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

TEST_CASE("the fast operations and LibTorch's own agree in loss, gradients and outputs") {
  Rng random{3, "batch"};
  GraphBatch batch = random_batch(random, 3, 9, 2);  // 9, 11 and 13 nodes
  batch.edges.erase(batch.edges.begin() + 4);        // perhaps a node without neighbour
  std::vector<PublishedOptions> cases;
  for (const std::string& name : kNetworks)
    cases.push_back({.convolution = parse_convolution(name), .hidden = 8, .dropout = 0.1});
  cases.push_back({.convolution = Convolution::mpnn,
                   .hidden = 8,
                   .mpnn_aggregators = {"sum", "mean", "max", "min", "std", "var"},
                   .mpnn_scalers = {"identity", "amplification", "attenuation", "linear"},
                   .mpnn_self_loop = true});
  for (const PublishedOptions& options : cases) {
    CAPTURE(to_text(options.convolution));
    PublishedNetwork fast{options, 5, {.precision = Precision::double_precision}};
    PublishedNetwork plain{options, 5, {.precision = Precision::double_precision, .is_plain = true}};
    set_synthetic_weights(fast);
    set_synthetic_weights(plain);
    const auto norms = fast.gradient_norms(batch), plain_norms = plain.gradient_norms(batch);
    REQUIRE(norms.size() == fast.parameters().size());
    for (std::size_t i = 0; i < norms.size(); ++i) {
      CAPTURE(norms[i].first);
      CHECK(norms[i].second == doctest::Approx(plain_norms[i].second).epsilon(1e-9));
    }
    for (int step = 0; step < 3; ++step) CHECK(fast.train(batch) == doctest::Approx(plain.train(batch)).epsilon(1e-9));
    CHECK(largest_relative_error(fast.predict(batch), plain.predict(batch)) < 1e-6);
  }
}

}  // namespace rehearse
