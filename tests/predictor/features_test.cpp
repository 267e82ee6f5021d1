// What the network is told of a sample is relative to what the step is expected to take.

#include "predictor/features.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "sim/base/errors.hpp"
#include "tests/support/synthetic_dataset.hpp"

namespace rehearse {

TEST_CASE("features have the announced sizes and finite numbers") {
  const Dataset data = test::synthetic_dataset(5);
  for (const Ablation ablation : {Ablation::kNone, Ablation::kEdges, Ablation::kRounds, Ablation::kBounds}) {
    const FeatureReader reader{data, ablation};
    for (const Sample& sample : data.samples) {
      const DescribedStep step = described_step(sample.step, "sample");
      const SampleFeatures features = reader.read(data, sample);
      CHECK(features.kinds.size() == step.nodes.size());
      CHECK(features.nodes.size() == step.nodes.size() * kNodeInputs);
      CHECK(features.flow.size() == step.edges.size());
      CHECK(features.resources.size() == kStepResources * kResourceInputs);
      CHECK(features.timeline.size() == kStepParts * kTimelineInputs);
      CHECK(features.totals.size() == reader.total_inputs());
      CHECK(features.bases.size() == data.labels.size());
      for (const std::vector<float>& values : {features.nodes, features.resources, features.timeline, features.totals})
        for (const float value : values) CHECK(std::isfinite(value));
    }
  }
}

TEST_CASE("a label is expected to be what idle resources would show, shares are limited by 1, and nothing else is") {
  const Dataset data = test::synthetic_dataset(2);
  const FeatureReader reader{data};
  for (const std::size_t s : {0U, 1U}) {
    const DescribedStep step = described_step(data.samples[s].step, "sample");
    const auto& shown = step.shown[static_cast<std::size_t>(Pace::kMean)];
    const SampleFeatures features = reader.read(data, data.samples[s]);
    CHECK(features.bases == shown);
    CHECK(features.limits == std::vector<double>{0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  }
}

TEST_CASE("what would not be shown is expected to take a step, and without bounds everything a second") {
  Dataset data = test::synthetic_dataset(1);
  DescribedStep step = described_step(data.samples[0].step, "sample");
  for (std::vector<double>& shown : step.shown) shown[3] = shown[5] = 0;
  data.samples[0].step = numbers_of(step);
  const SampleFeatures features = FeatureReader{data}.read(data, data.samples[0]);
  CHECK(features.bases[3] == step.shown[0][12]);
  CHECK(features.bases[5] == 0.5);
  const SampleFeatures bare = FeatureReader{data, Ablation::kBounds}.read(data, data.samples[0]);
  CHECK(bare.bases[3] == 1);
  CHECK(bare.bases[12] == 1);
}

TEST_CASE("features do not change if all times of a step do alike, but for what says how long it is") {
  Dataset data = test::synthetic_dataset(1);
  const FeatureReader reader{data};
  const SampleFeatures before = reader.read(data, data.samples[0]);
  DescribedStep step = described_step(data.samples[0].step, "sample");
  for (StepNode& node : step.nodes)
    for (const std::size_t cost : {1U, 2U, 4U, 5U, 6U}) node.costs[cost] *= 2;
  for (StepLoad& load : step.loads)
    for (float& seconds : load.seconds) seconds *= 2;
  for (std::vector<double>& shown : step.shown)
    for (const std::size_t l : {0U, 1U, 3U, 4U, 6U, 7U, 9U, 10U, 12U}) shown[l] *= 2;
  data.samples[0].step = numbers_of(step);
  const SampleFeatures after = reader.read(data, data.samples[0]);
  for (std::size_t i = 0; i < before.nodes.size(); ++i)
    CHECK(after.nodes[i] == doctest::Approx(before.nodes[i]).epsilon(1e-4));
  CHECK(after.bases[12] == doctest::Approx(2 * before.bases[12]));
  CHECK(after.totals.back() == doctest::Approx(before.totals.back() + std::log(2)));
}

TEST_CASE("a sample without step, or with labels of another program, is refused") {
  Dataset data = test::synthetic_dataset(1);
  const FeatureReader reader{data};
  data.samples[0].step.clear();
  CHECK_THROWS_WITH_AS(
      reader.read(data, data.samples[0]),
      "the graph \"graph 0\": nothing says what its step is: only a scenario has one; networks of groups "
      "take graphs alone",
      InputError);
  data.labels[0] = "something";
  CHECK_THROWS_AS(FeatureReader{data}, InputError);
}

}  // namespace rehearse
