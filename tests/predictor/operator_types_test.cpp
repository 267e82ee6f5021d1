#include "predictor/operator_types.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "sim/base/errors.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/synthetic_dataset.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {
const std::string kFrequencies = source_folder() + "/calibration/data/driple/op_type_frequency.csv";
}

TEST_CASE("the shipped frequencies are those of 159 operator types and add up to 1") {
  const TypeFrequencies frequencies = load_type_frequencies(kFrequencies);
  CHECK(frequencies.size() == 159);
  double sum = 0.0;
  for (const auto& [type, frequency] : frequencies) sum += frequency;
  CHECK(sum == doctest::Approx(1.0).epsilon(1e-6));
}

TEST_CASE("every kind of operator in every phase has a type with a known frequency") {
  const TypeFrequencies frequencies = load_type_frequencies(kFrequencies);
  for (int kind = 0; kind <= static_cast<int>(OperatorKind::kUpdate); ++kind)
    for (int phase = 0; phase <= static_cast<int>(Phase::kUpdate); ++phase) {
      const std::string type{tensorflow_type(static_cast<OperatorKind>(kind), static_cast<Phase>(phase))};
      CAPTURE(type);
      CHECK(frequencies.contains(type));
      CHECK(type != "NoOp");
    }
  CHECK(tensorflow_type(OperatorKind::kConvolution, Phase::kBackwardWeights) == "Conv2DBackpropFilter");
}

TEST_CASE("a graph keeps its operators, edges and output sizes under TensorFlow's names") {
  const Dataset data = test::synthetic_dataset(1);
  const TypeFrequencies frequencies{{"Conv2D", 0.5}, {"Relu", 0.25}};
  const OperatorNetwork network = operator_network(data.graphs[0], frequencies);
  REQUIRE(network.operators.size() == data.nodes(data.graphs[0]));
  CHECK(network.edges.size() == data.graphs[0].edges.size());
  CHECK(network.operators[0].tensor_size == static_cast<std::int64_t>(data.graphs[0].features[6]));
  CHECK(network.operators[0].type_frequency == 0.5);
  CHECK(network.operators[1].type_frequency == 0.25);
  CHECK(network.operators[2].type_frequency == 0);  // the table lacks updates
}

TEST_CASE("a node that is no operator is refused, whatever number stands for its kind, phase or size") {
  for (const std::size_t column : {0U, 1U, 6U})
    for (const float value : {-1.0F, 1e30F, std::numeric_limits<float>::quiet_NaN()}) {
      Dataset data = test::synthetic_dataset(1);
      data.graphs[0].features[column] = value;
      CHECK_THROWS_AS(operator_network(data.graphs[0], {}), InputError);
    }
}

TEST_CASE("a table that names a type twice is refused") {
  const test::TemporaryFolder folder;
  CHECK_THROWS_AS(load_type_frequencies(folder.write("t.csv", "op_type,relative_frequency\nAdd,0.5\nAdd,0.25\n")),
                  InputError);
}

}  // namespace rehearse
