#include "predictor/gnn/published_weights.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "predictor/gnn/predictor_file.hpp"
#include "predictor/gnn/published_network.hpp"
#include "sim/base/json.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/synthetic_dataset.hpp"

namespace rehearse {

namespace {

const std::string kFixtures = source_folder() + "/tests/predictor/data/driple/";

/// The state_dict of a model of the fixtures, with their weights: w_k = float32(0.2 sin(0.7 k + 0.3)).
TorchDict state_dict_of(const Json& model) {
  TorchDict weights{.items = {}, .is_ordered = true};
  int k = 0;
  for (const Json& parameter : model["parameters"]) {
    const auto shape = parameter["shape"].get<std::vector<std::int64_t>>();
    std::size_t size = 1;
    for (const std::int64_t length : shape) size *= static_cast<std::size_t>(length);
    std::vector<float> values(size);
    for (float& value : values) value = static_cast<float>(0.2 * std::sin(0.7 * k++ + 0.3));
    weights.items.emplace_back(parameter["name"].get<std::string>(), TorchTensor::of_floats(shape, values));
  }
  return weights;
}

TorchDict state_dict_of(const PublishedOptions& options) {
  const TorchValue state = PublishedNetwork{options, 1}.state();
  return state.at("state", "state").dict("state");
}

TorchTensor zeros(std::vector<std::int64_t> shape, std::size_t size) {
  return TorchTensor::of_floats(std::move(shape), std::vector<float>(size));
}

}  // namespace

TEST_CASE("weights alone tell the network, which gives the published outputs") {
  for (const int hidden : {8, 64}) {
    const Json fixture = load_json_file(kFixtures + "synthetic_weights_hidden" + std::to_string(hidden) + ".json");
    for (const auto& [name, model] : fixture["models"].items()) {
      CAPTURE(hidden);
      CAPTURE(name);
      // As a file has them.
      const TorchValue weights = parse_torch_file(to_torch_file(state_dict_of(model)), "pre-train.pkl");
      const PublishedOptions options = options_of_weights(weights, "pre-train.pkl");
      CHECK(to_text(options.convolution) == name);
      CHECK(options.hidden == hidden);
      CHECK(options.features == 3);
      CHECK(options.outputs == 12);
      CHECK(options.mlp_layers == 3);
      CHECK(options.iterations == "Nover2");
      const TorchValue state = predictor_of_weights(weights, "pre-train.pkl", {})->state();
      const PublishedNetwork network = PublishedNetwork::from_state(state.at("published", "state"), "state");
      CHECK(network.label_maxima() == std::vector<double>(12, 1.0));
      for (const Json& graph : fixture["graphs"]) {
        GraphBatch batch;
        for (const Json& node : graph["features"])
          for (const Json& feature : node) batch.node_features.push_back(feature);
        for (const Json& edge : graph["undirected_edges"]) batch.edges.emplace_back(edge[0], edge[1]);
        batch.offsets.push_back(graph["num_nodes"]);
        const auto expected = model["outputs"][graph["name"].get<std::string>()]["float64"].get<std::vector<double>>();
        const std::vector<double> outputs = network.predict(batch);
        REQUIRE(outputs.size() == expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i)
          CHECK(outputs[i] == doctest::Approx(expected[i]).epsilon(1e-9));
      }
    }
  }
}

TEST_CASE("numbers of layers are read from weights, and a third convolution is left out") {
  const PublishedOptions gin{.convolution = Convolution::kGin, .hidden = 16, .mlp_layers = 2, .gin_mlp_layers = 4};
  CHECK(options_of_weights(state_dict_of(gin), "w").gin_mlp_layers == 4);
  CHECK(options_of_weights(state_dict_of(gin), "w").mlp_layers == 2);
  const PublishedOptions mpnn{
      .convolution = Convolution::kMpnn, .hidden = 16, .mpnn_pre_layers = 2, .mpnn_post_layers = 3};
  CHECK(options_of_weights(state_dict_of(mpnn), "w").mpnn_pre_layers == 2);
  CHECK(options_of_weights(state_dict_of(mpnn), "w").mpnn_post_layers == 3);
  const TorchDict three = state_dict_of(PublishedOptions{.hidden = 8, .transfer = Transfer::kAsPublished});
  CHECK(options_of_weights(three, "w").transfer == Transfer::kNone);
  CHECK(has_third_convolution(three));
  CHECK_FALSE(has_third_convolution(state_dict_of(gin)));
}

TEST_CASE("what is no state_dict of these networks is refused by its name") {
  const auto problem = [](const TorchValue& weights) {
    return test::error_of([&] { (void)options_of_weights(weights, "w.pkl"); });
  };
  const std::string expected =
      "w.pkl: expected a state_dict of gcn, gin, gat or mpnn, with a first convolution such "
      "as \"conv_layers.0.W\"";
  CHECK(problem(TorchTuple{}) == expected);
  CHECK(problem(TorchDict{{{"format", 1}}}) == expected);
  const TorchDict sound = state_dict_of(PublishedOptions{.hidden = 8});
  TorchDict weights = sound;
  std::erase_if(weights.items, [](const auto& item) { return item.first.text("") == "conv_layers.1.b"; });
  CHECK(problem(weights) == "w.pkl: expected the key \"conv_layers.1.b\"");
  weights = sound;
  weights.items.emplace_back("batch_norm.weight", zeros({8}, 8));
  CHECK(problem(weights) == "w.pkl: \"batch_norm.weight\" is no weight of gcn");
  weights = sound;
  weights.items[0].second = zeros({8}, 8);
  CHECK(problem(weights) == "w.pkl: conv_layers.0.W: expected a matrix");
  weights.items[0].second = zeros({9, 1}, 9);
  CHECK(problem(weights) == "w.pkl: features: expected 1 to 8; found 9");
  CHECK(
      problem(state_dict_of({.convolution = Convolution::kMpnn, .hidden = 8, .mpnn_aggregators = {"sum", "max"}})) ==
      "w.pkl: expected an mpnn that adds up its messages: weights do not tell which aggregators and scalers there are");
  CHECK(test::error_of([&] {
          (void)predictor_of_weights(state_dict_of(PublishedOptions{.features = 2, .hidden = 8}), "w.pkl", {});
        }) == "w.pkl: expected a network of 3 features and 12 outputs; found 2 and 12");
}

}  // namespace rehearse
