#include "predictor/baselines.hpp"

#include "predictor/features.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/base/errors.hpp"
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

TEST_CASE("mean is that of the setting's training samples, of all where the setting has none") {
  const Dataset data = test::synthetic_dataset();
  std::vector<std::size_t> train = samples_of(data, Split::kTrain);
  const std::vector<std::size_t> asked{samples_of(data, Split::kTest).front()};
  const std::int32_t setting = data.samples[asked[0]].setting;
  const auto mean_of = [&](bool of_setting) {
    double sum = 0, count = 0;
    for (const std::size_t s : train)
      if (!of_setting || data.samples[s].setting == setting) sum += data.samples[s].labels[1], ++count;
    return sum / count;
  };
  CHECK(Baselines(data, train, asked).predict(Baseline::kMean)[0][1] == doctest::Approx(mean_of(true)).epsilon(1e-12));
  CHECK(mean_of(true) != doctest::Approx(mean_of(false)));
  std::erase_if(train, [&](std::size_t s) { return data.samples[s].setting == setting; });
  CHECK(Baselines(data, train, asked).predict(Baseline::kMean)[0][1] == doctest::Approx(mean_of(false)).epsilon(1e-12));
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

TEST_CASE("what is not given the sketch predicts the same whatever the sketch would say") {
  Dataset data = test::synthetic_dataset();
  const std::vector<std::size_t> train = samples_of(data, Split::kTrain), asked = samples_of(data, Split::kTest);
  const FeatureReader reader{data};
  std::size_t of_sketch = 0;
  for (const std::string& name : reader.total_names()) of_sketch += is_of_sketch(name) ? 1 : 0;
  CHECK(of_sketch == label_names().size());
  Baselines baselines{data, train, asked};
  CHECK(baselines.predict(Baseline::kLinear) != baselines.predict(Baseline::kLinearWithSketch));
  CHECK(names_in(kBaselines) == std::vector<std::string>{"mean", "linear", "neighbours", "linear+sketch", "sketch"});
}

TEST_CASE("labels that no training sample knows are not predicted; without training samples there is no prediction") {
  Dataset data = test::synthetic_dataset();
  for (Sample& sample : data.samples) sample.labels[4] = std::nan("");
  const std::vector<std::size_t> train = samples_of(data, Split::kTrain), asked = samples_of(data, Split::kTest);
  for (const Baseline baseline :
       {Baseline::kMean, Baseline::kLinear, Baseline::kNeighbours, Baseline::kLinearWithSketch}) {
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
