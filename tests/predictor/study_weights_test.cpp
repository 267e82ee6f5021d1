// No study of measured samples counts for more than a quarter.

#include "predictor/study_weights.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

namespace rehearse::study_weights_test {

namespace {

/// `rows` samples of each study, one label each, and a setting of each.
Dataset dataset_of(const std::vector<std::size_t>& rows) {
  Dataset data;
  data.labels = {"step_time_s", "receive_mean_Bps"};
  for (std::size_t study = 0; study < rows.size(); ++study) {
    const std::string name(1, static_cast<char>('a' + study));
    data.settings.push_back({.name = name + ": cluster", .group = name});
    for (std::size_t i = 0; i < rows[study]; ++i)
      data.samples.push_back(
          {.setting = static_cast<std::int32_t>(study), .origin = Origin::kMeasured, .labels = {1, std::nan("")}});
  }
  return data;
}

std::vector<std::size_t> all_of(const Dataset& data) {
  std::vector<std::size_t> all(data.samples.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

/// Weight of each study, [settings].
std::vector<double> weights_of(const Dataset& data) {
  std::vector<double> weights(data.settings.size());
  for (const Sample& sample : data.samples)
    for (const double label : sample.labels)
      if (!std::isnan(label)) weights[static_cast<std::size_t>(sample.setting)] += sample.weight;
  return weights;
}

std::vector<double> limited(Dataset data) {
  limit_studies(data, all_of(data));
  return weights_of(data);
}

}  // namespace

TEST_CASE("a study with more than a quarter of the weight has a quarter, and the others keep theirs") {
  const std::vector<double> weights = limited(dataset_of({90, 10, 10, 10}));  // 10 + 10 + 10 = 3 quarters
  CHECK(weights[0] == doctest::Approx(10));
  CHECK(weights[1] == 10);
  // 40 of 90 is above a quarter; with 50 / 3 for it, 20 of 200 / 3 is, too
  const std::vector<double> two = limited(dataset_of({40, 20, 5, 5, 5, 5, 5, 5}));
  CHECK(two[0] == doctest::Approx(15));  // both have a quarter of 60: 15 + 15 + 30
  CHECK(two[1] == doctest::Approx(15));
  CHECK(two[2] == 5);
}

TEST_CASE("of fewer than four studies none is limited, nor are studies that all have less than a quarter") {
  CHECK(limited(dataset_of({90, 10, 10})) == std::vector<double>{90, 10, 10});
  CHECK(limited(dataset_of({3, 3, 3, 3, 3})) == std::vector<double>{3, 3, 3, 3, 3});
}

TEST_CASE("every known label of a sample counts, and simulated samples have no study") {
  Dataset data = dataset_of({10, 10, 10, 10, 10});
  for (Sample& sample : data.samples)
    if (sample.setting == 0) sample.labels = {1, 1};  // 20 of 60, where a quarter is 40 / 3
  CHECK(limited(data)[0] == doctest::Approx(40.0 / 3));
  for (Sample& sample : data.samples)
    if (sample.setting == 0) sample.origin = Origin::kSimulated;
  CHECK(limited(data)[0] == 20);
}

TEST_CASE("samples of which no study is named keep their weight") {
  Dataset data = dataset_of({90, 10, 10, 10, 30});
  data.settings[4].group = data.settings[4].name;
  CHECK(limited(data)[4] == 30);
  CHECK(limited(data)[0] == doctest::Approx(20));  // a quarter of 20 + 10 + 10 + 10 + 30
}

}  // namespace rehearse::study_weights_test
