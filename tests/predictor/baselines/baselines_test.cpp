#include "predictor/baselines/baselines.hpp"

#include "predictor/features.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "predictor/baselines/boosted_trees.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/statistics.hpp"
#include "tests/support/synthetic_dataset.hpp"

namespace rehearse {

namespace {

std::vector<std::size_t> samples_of(const Dataset& data, Split split) {
  std::vector<std::size_t> samples;
  for (std::size_t i = 0; i < data.samples.size(); ++i)
    if (data.samples[i].split == split) samples.push_back(i);
  return samples;
}

}  // namespace

TEST_CASE("median is that of the setting's training samples, of all where the setting has none") {
  const Dataset data = test::synthetic_dataset();
  std::vector<std::size_t> train = samples_of(data, Split::kTrain);
  const std::vector<std::size_t> asked{samples_of(data, Split::kTest).front()};
  const std::int32_t setting = data.samples[asked[0]].setting;
  const auto median_of = [&](bool of_setting) {
    std::vector<double> labels;
    for (const std::size_t s : train)
      if (!of_setting || data.samples[s].setting == setting) labels.push_back(data.samples[s].labels[1]);
    return median(labels);
  };
  CHECK(Baselines(data, train, asked).predict(Baseline::kMedian)[0][1] ==
        doctest::Approx(median_of(true)).epsilon(1e-12));
  CHECK(median_of(true) != doctest::Approx(median_of(false)));
  std::erase_if(train, [&](std::size_t s) { return data.samples[s].setting == setting; });
  CHECK(Baselines(data, train, asked).predict(Baseline::kMedian)[0][1] ==
        doctest::Approx(median_of(false)).epsilon(1e-12));
}

TEST_CASE("linear recovers a product of powers of sizes") {
  const Dataset data = test::synthetic_dataset(60);
  const std::vector<std::size_t> train = samples_of(data, Split::kTrain), asked = samples_of(data, Split::kTest);
  const auto predictions = Baselines(data, train, asked).predict(Baseline::kLinear);
  REQUIRE(predictions.size() == asked.size());
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const double label = data.samples[asked[i]].labels[1];  // proportional to FLOPs and 1 / peak
    CHECK(predictions[i][1] == doctest::Approx(label).epsilon(0.05));
    CHECK(predictions[i][5] == doctest::Approx(0.9).epsilon(1e-6));  // a constant
    for (const double value : predictions[i]) CHECK(value >= 0);
  }
}

TEST_CASE("neighbours are samples of the same setting; five equal ones give their label") {
  Dataset data = test::synthetic_dataset();
  const Sample asked = data.samples.back();
  std::vector<std::size_t> train = samples_of(data, Split::kTrain);
  for (int i = 0; i < 5; ++i) {
    Sample twin = asked;
    twin.split = Split::kTrain;
    twin.labels[1] = 10 + i;
    train.push_back(data.samples.size());
    data.samples.push_back(twin);
  }
  Sample elsewhere = asked;
  elsewhere.setting = 0;
  elsewhere.labels[1] = 1e9;
  train.push_back(data.samples.size());
  data.samples.push_back(elsewhere);
  const std::vector<std::size_t> samples{20 * 4 - 1};
  CHECK(Baselines(data, train, samples).predict(Baseline::kNeighbours)[0][1] == doctest::Approx(12).epsilon(1e-12));
}

TEST_CASE("closed form is what the step would show") {
  const Dataset data = test::synthetic_dataset();
  const std::vector<std::size_t> train = samples_of(data, Split::kTrain), asked = samples_of(data, Split::kTest);
  const auto predictions = Baselines(data, train, asked).predict(Baseline::kClosedForm);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    CHECK(predictions[i][12] ==
          doctest::Approx(described_step(data.samples[asked[i]].step, "sample").shown[2][12]).epsilon(1e-9));
    CHECK(predictions[i] == FeatureReader{data}.read(data, data.samples[asked[i]]).bases);
  }
}

TEST_CASE("trees learn steps that no line follows, the same each time") {
  std::vector<std::vector<double>> rows, asked;
  std::vector<double> targets;
  for (int i = 0; i < 200; ++i) {
    rows.push_back({i / 200.0, (i * 37 % 200) / 200.0});
    targets.push_back((rows.back()[0] > 0.5 ? 1.0 : 0.0) + (rows.back()[1] > 0.5 ? 0.0 : 2.0));
  }
  asked = {{0.8, 0.8}, {0.2, 0.8}, {0.8, 0.2}};
  const std::vector<double> found = boosted_trees(rows, targets, asked);
  CHECK(found[0] == doctest::Approx(1).epsilon(0.1));
  CHECK(std::abs(found[1]) < 0.3);
  CHECK(found[2] == doctest::Approx(3).epsilon(0.1));
  CHECK(boosted_trees(rows, targets, asked) == found);
}

TEST_CASE("labels that no training sample knows are not predicted; without training samples there is no prediction") {
  Dataset data = test::synthetic_dataset();
  for (Sample& sample : data.samples) sample.labels[4] = std::nan("");
  const std::vector<std::size_t> train = samples_of(data, Split::kTrain), asked = samples_of(data, Split::kTest);
  for (const Baseline baseline : {Baseline::kMedian, Baseline::kLinear, Baseline::kNeighbours, Baseline::kTrees}) {
    CAPTURE(name_in(kBaselines, baseline));
    const auto predictions = Baselines(data, train, asked).predict(baseline);
    for (const std::vector<double>& row : predictions) {
      REQUIRE(row.size() == data.labels.size());
      CHECK(std::isnan(row[4]));
      CHECK(std::isfinite(row[1]));
    }
    CHECK(Baselines(data, train, {}).predict(baseline).empty());
    CHECK_THROWS_WITH_AS(Baselines(data, {}, asked).predict(baseline), "the dataset has no samples to train on",
                         InputError);
  }
}

}  // namespace rehearse
