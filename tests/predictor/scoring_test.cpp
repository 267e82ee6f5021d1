#include "predictor/scoring.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "predictor/dataset.hpp"

namespace rehearse {

namespace {

const double kNan = std::nan("");

/// Samples of one label, given as (setting, label) in order.
Dataset labelled(const std::vector<std::pair<int, double>>& labels) {
  Dataset data;
  data.labels = {"gpu_active_s"};
  data.settings.resize(3);
  data.graphs.resize(1);
  for (const auto& [setting, label] : labels) data.samples.push_back({.setting = setting, .labels = {label}});
  return data;
}

Score score_of(const Dataset& data, const std::vector<double>& predictions) {
  std::vector<std::size_t> samples;
  std::vector<std::vector<double>> rows;
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    samples.push_back(i);
    rows.push_back({predictions[i]});
  }
  return score(data, samples, rows);
}

}  // namespace

TEST_CASE("errors are percentages of the label, R2 is 1 - errors / deviations") {
  // errors 10 %, 50 %, 0 %, 25 %; labels' mean 5, deviations 9 + 1 + 1 + 9 = 20, squared errors 0.04 + 4 + 0 + 4
  const Score score = score_of(labelled({{0, 2}, {0, 4}, {0, 6}, {0, 8}}), {2.2, 6, 6, 6});
  REQUIRE(score.labels.size() == 1);
  const LabelScore& label = score.labels[0];
  CHECK(label.label == "gpu_active_s");
  CHECK(label.samples == 4);
  CHECK(label.on_scale == 0);
  CHECK(label.median_ape == doctest::Approx(17.5).epsilon(1e-12));
  CHECK(label.mape == doctest::Approx(21.25).epsilon(1e-12));
  CHECK(label.p90_ape == doctest::Approx(25 + 0.7 * 25).epsilon(1e-12));  // at 2.7 of 0, 10, 25, 50
  CHECK(label.r2 == doctest::Approx(1 - 8.04 / 20).epsilon(1e-12));
  CHECK(score.median_ape == doctest::Approx(17.5).epsilon(1e-12));
  CHECK(score.worst_median_ape == doctest::Approx(17.5).epsilon(1e-12));
  CHECK(score.r2 == label.r2);
}

TEST_CASE("a label below 1 % of its setting's median is scored by its absolute error on that scale, and counted") {
  // setting 0: median of 0, 0.5, 100, 200, 300 is 100, the scale 1; setting 1 has a scale of 0.01
  const Dataset data = labelled({{0, 0}, {0, 0.5}, {0, 100}, {0, 200}, {0, 300}, {1, 0.5}, {1, 1}, {1, 1}});
  const auto error_of = [&](std::size_t sample, double prediction) {
    const std::vector<std::size_t> samples{sample};
    const std::vector<std::vector<double>> rows{{prediction}};
    return score(data, samples, rows).labels.at(0);
  };
  CHECK(error_of(0, 0.25).median_ape == doctest::Approx(25).epsilon(1e-12));
  CHECK(error_of(0, 0.25).on_scale == 1);
  CHECK(error_of(1, 0.75).median_ape == doctest::Approx(25).epsilon(1e-12));
  CHECK(error_of(1, 0.75).on_scale == 1);
  CHECK(error_of(5, 0.75).median_ape == doctest::Approx(50).epsilon(1e-12));
  CHECK(error_of(5, 0.75).on_scale == 0);
}

TEST_CASE("where the median is zero an error is 0 % or 100 %") {
  const Dataset data = labelled({{2, 0}, {2, 0}, {2, 0}});
  const Score score = score_of(data, {0, 1e-9, 7});
  CHECK(score.labels[0].median_ape == 100);
  CHECK(score.labels[0].mape == doctest::Approx(200.0 / 3).epsilon(1e-12));
  CHECK(score.labels[0].on_scale == 3);
  CHECK(score.labels[0].r2 == 0);
}

TEST_CASE("labels that differ by rounding alone have no R2") {
  const Score score = score_of(labelled({{0, 1}, {0, 1 + 1e-15}, {0, 1}}), {0.9, 1, 1.1});
  CHECK(score.labels[0].r2 == 0);
}

TEST_CASE("labels that are not known count nothing, and a label that none knows is not listed") {
  Dataset data = labelled({{0, kNan}, {0, 10}, {0, kNan}});
  data.labels.emplace_back("gpu_idle_s");
  for (Sample& sample : data.samples) sample.labels.push_back(kNan);
  const std::vector<std::size_t> samples{0, 1, 2};
  const std::vector<std::vector<double>> rows{{5, 5}, {5, 5}, {5, 5}};
  const Score score = rehearse::score(data, samples, rows);
  REQUIRE(score.labels.size() == 1);
  CHECK(score.labels[0].samples == 1);
  CHECK(score.labels[0].median_ape == 50);
  CHECK(rehearse::score(data, {}, {}).labels.empty());
}

TEST_CASE("the means are those of the twelve burst metrics, not of step time and mean rates") {
  Dataset data;
  data.labels = label_names();
  data.settings.resize(1);
  data.graphs.resize(1);
  data.samples.push_back({.labels = std::vector<double>(15, 10.0)});
  std::vector<double> predictions(15, 10.0);
  predictions[3] = 11;   // 10 % of one of twelve
  predictions[12] = 20;  // step time
  const std::vector<std::size_t> samples{0};
  const std::vector<std::vector<double>> rows{predictions};
  const Score score = rehearse::score(data, samples, rows);
  CHECK(score.labels.size() == 15);
  CHECK(score.labels[12].median_ape == doctest::Approx(100));
  CHECK(score.median_ape == doctest::Approx(10.0 / 12).epsilon(1e-12));
  CHECK(score.worst_median_ape == doctest::Approx(10).epsilon(1e-12));
  std::fill(data.samples[0].labels.begin(), data.samples[0].labels.begin() + 12, std::nan(""));
  CHECK(rehearse::score(data, samples, rows).worst_median_ape == doctest::Approx(100));  // nothing else is known
}

TEST_CASE("models count alike beside the pooled median, and predictions that are missing do not count") {
  Dataset data = labelled({{0, 10}, {0, 10}, {0, 10}, {0, 10}, {0, 10}});
  data.graphs = {{.name = "a batch 1"}, {.name = "a batch 2"}, {.name = "b batch 1"}};
  for (std::size_t i = 0; i < 5; ++i) data.samples[i].graph = std::vector{0, 1, 0, 2, 2}[i];
  const Score found = score_of(data, {11, 11, 11, 15, kNan});  // a: 10 %, b: 50 %
  CHECK(found.samples == 4);
  CHECK(found.models == 2);
  CHECK(found.median_ape == doctest::Approx(10));
  CHECK(found.by_model_ape == doctest::Approx(30));
}

TEST_CASE("of measured samples a model of one study is a model, and means of models stand beside the plain mean") {
  Dataset data = labelled({{0, 10}, {0, 10}, {0, 10}, {1, 10}, {2, 10}});
  data.settings = {{.name = "s: 1", .group = "s"}, {.name = "t: 1", .group = "t"}, {.name = "u", .group = "u"}};
  data.graphs = {{.name = "a batch 1"}};
  const std::vector<double> predictions{11, 11, 14, 16, 20};  // 10, 10, 40; 60; 100 %
  CHECK(score_of(data, predictions).models == 1);
  for (Sample& sample : data.samples) sample.origin = Origin::kMeasured;
  const Score found = score_of(data, predictions);
  CHECK(found.models == 3);
  CHECK(found.mape == doctest::Approx(44));
  CHECK(found.by_model_mape == doctest::Approx((20 + 60 + 100) / 3.0));
  CHECK(found.by_model_ape == doctest::Approx((10 + 60 + 100) / 3.0));
  CHECK(found.labels[0].by_model_mape == doctest::Approx(60));
}

TEST_CASE("a mean rate that follows from a measured step time is no measurement") {
  Dataset data = labelled({});
  data.labels = {"receive_peak_Bps", "step_time_s", "receive_mean_Bps"};
  data.samples = {{.origin = Origin::kMeasured, .labels = {kNan, 2, 100}},
                  {.origin = Origin::kMeasured, .labels = {300, 2, 100}},
                  {.origin = Origin::kSimulated, .labels = {kNan, 2, 100}}};
  CHECK(!is_observed(data, data.samples[0], 2));
  CHECK(is_observed(data, data.samples[0], 1));
  CHECK(is_observed(data, data.samples[1], 2));
  CHECK(is_observed(data, data.samples[2], 2));
  const std::vector<std::vector<double>> predictions{{1, 2, 50}};
  const Score found = score(data, std::vector<std::size_t>{0}, predictions);
  REQUIRE(found.labels.size() == 1);
  CHECK(found.labels[0].label == "step_time_s");
}

}  // namespace rehearse
