#include "predictor/gnn/published_network.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numeric>

#include "predictor/torch_file.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"
#include "sim/base/random.hpp"
#include "tests/support/temporary_folder.hpp"

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
            options, 1, {.precision = is_double ? Arithmetic::double_precision : Arithmetic::single_precision}};
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
  PublishedNetwork network{{.hidden = 8}, 1, {.precision = Arithmetic::double_precision}};
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
    PublishedNetwork network{{.hidden = 8}, 1, {.precision = Arithmetic::double_precision}};
    set_synthetic_weights(network);
    if (readout_only) {
      PublishedNetwork carried{
          {.hidden = 8, .transfer = Transfer::as_published}, 1, {.precision = Arithmetic::double_precision}};
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
  std::erase_if(batch.edges, [](const auto& edge) { return edge.first == 3 || edge.second == 3; });  // no neighbour
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
    PublishedNetwork fast{options, 5, {.precision = Arithmetic::double_precision}};
    PublishedNetwork plain{options, 5, {.precision = Arithmetic::double_precision, .is_plain = true}};
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
  const test::TemporaryFolder folder;
  Rng random{4, "batch"};
  const GraphBatch batch = random_batch(random, 4, 8, 1);
  for (const std::string& name : kNetworks) {
    CAPTURE(name);
    PublishedNetwork network{{.convolution = parse_convolution(name), .hidden = 8, .dropout = 0.2}, 9};
    network.set_label_maxima(std::vector<double>(12, 2.0));
    network.train(batch);
    network.save(folder / "model.pt");
    PublishedNetwork loaded = PublishedNetwork::load(folder / "model.pt");
    CHECK(loaded.label_maxima() == network.label_maxima());
    CHECK(loaded.predict(batch) == network.predict(batch));
    for (int step = 0; step < 3; ++step) CHECK(loaded.train(batch) == network.train(batch));
    network.save(folder / "a.pt");
    loaded.save(folder / "b.pt");
    CHECK(read_file(folder / "a.pt", kMiB) == read_file(folder / "b.pt", kMiB));
  }
}

TEST_CASE("transfer: what learns, and where a third convolution starts") {
  const test::TemporaryFolder folder;
  Rng random{5, "batch"};
  const GraphBatch batch = random_batch(random, 4, 9);
  for (const std::string& name : kNetworks) {
    CAPTURE(name);
    const Convolution convolution = parse_convolution(name);
    PublishedNetwork source{{.convolution = convolution, .hidden = 8}, 9};
    source.train(batch);
    source.save(folder / "source.pt");
    for (const Transfer transfer : {Transfer::as_published, Transfer::as_intended}) {
      PublishedNetwork carried{{.convolution = convolution, .hidden = 8, .transfer = transfer}, 10};
      for (const std::string& missing : carried.load_weights(folder / "source.pt"))
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
        CHECK((carried.values(parameter) != before[i]) == (is_mlp || (is_third && transfer == Transfer::as_intended)));
      }
    }
  }
}

TEST_CASE("what is kept of a batch is not taken for another, nor after a change of weights") {
  Rng random{15, "batch"};
  const GraphBatch batch = random_batch(random, 3, 9, 1);
  const PublishedOptions options{.hidden = 8, .transfer = Transfer::as_published};
  PublishedNetwork network{options, 1, {.precision = Arithmetic::double_precision}};
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
        {.convolution = parse_convolution(name), .hidden = 8}, 9, {.precision = Arithmetic::double_precision}};
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
  const PublishedNetwork network{{.hidden = 8}, 2, {.precision = Arithmetic::double_precision}};
  const double whole = network.loss(batch);
  batch.label_weights.assign(36, 1.0);
  CHECK(network.loss(batch) == doctest::Approx(whole).epsilon(1e-12));
  batch.label_weights.assign(36, 0.0);
  batch.label_weights[13] = 2.0;
  const double difference = network.predict(batch)[13] - batch.labels[13];
  CHECK(network.loss(batch) == doctest::Approx(2.0 * difference * difference / 36.0).epsilon(1e-12));
}

TEST_CASE("iteration rules") {
  const std::vector<std::pair<const char*, std::int64_t>> at_100{
      {"Nover2", 50}, {"N", 100},     {"Nover3", 33}, {"log2N", 6},  {"2log2N", 13},
      {"3log2N", 19}, {"4log2N", 26}, {"3sqrtN", 30}, {"log10N", 2}, {"7", 7}};
  for (const auto& [rule, count] : at_100) CHECK(iteration_count(rule, 100) == count);
  CHECK(iteration_count("Nover2", 1) == 1);
  CHECK_THROWS_WITH_AS(iteration_count("Nover4", 9), "unknown iteration rule \"Nover4\"; did you mean \"Nover2\"?",
                       InputError);
}

TEST_CASE("options, batches and files that make no network are refused with one line") {
  const test::TemporaryFolder folder;
  const auto refused = [](const PublishedOptions& options, const char* message) {
    CHECK_THROWS_WITH_AS((PublishedNetwork{options, 1}), message, InputError);
  };
  refused({.hidden = 2}, "features: expected 1 to 2; found 3");
  refused({.convolution = Convolution::gat, .hidden = 6}, "hidden: expected a multiple of 4 for gat; found 6");
  refused({.mlp_layers = 0}, "mlp layers: expected 1 to 64; found 0");
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

  const auto file = folder / "x.pt";
  write_torch_file(file, TorchDict{{{"format", 1}}});
  const std::string name = file.string();
  CHECK_THROWS_WITH_AS(PublishedNetwork::load(file),
                       (name + ": expected the model file of a published network").c_str(), InputError);
  CHECK_THROWS_WITH_AS(
      network.load_weights(file),
      (name + ": expected the weights of a network of the kind gcn, such as \"conv_layers.0.W\"").c_str(), InputError);
  PublishedNetwork{{.hidden = 16}, 1}.save(file);
  CHECK_THROWS_WITH_AS(network.load_weights(file),
                       (name + ": conv_layers.0.W: expected the shape 3 x 8; found 3 x 16").c_str(), InputError);
}

}  // namespace rehearse
