// Corrections of the engine: what measured jobs share with the one that is asked for, and nothing else.

#include "predictor/corrected/residuals.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <variant>
#include <vector>

#include <cmath>

#include "predictor/corrected/corrected.hpp"
#include "predictor/labels.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/random.hpp"
#include "sim/base/statistics.hpp"

namespace rehearse {

namespace {

JobTraits job(const std::string& study, const std::string& gpu, const std::string& model, double workers = 4) {
  return {.study = study,
          .gpu = gpu,
          .model = model,
          .strategy = "ring",
          .workers = workers,
          .machines = workers,
          .batch = 32};
}

constexpr ResidualModel::Variances kVariances{0.01, 0.01, 0.01, 0.01, 0.01, 0.001};

/// A study in which the engine is off by `off` of each GPU, and by chance.
std::vector<Residual> measured(const std::string& study, const std::map<std::string, double>& off, int rows,
                               double chance) {
  Rng random{7, study};
  std::vector<Residual> residuals;
  for (int i = 0; i < rows; ++i)
    for (const auto& [gpu, value] : off)
      residuals.push_back(
          {job(study, gpu, "model " + std::to_string(i % 3), 1 << (i % 4)), value + chance * (random.uniform() - 0.5)});
  return residuals;
}

/// Measured step times of `study`, `factor` times what the engine says.
void add_rows(Dataset& data, EngineLabels& engine, const std::string& study, int rows, double factor) {
  const auto setting = static_cast<std::int32_t>(data.settings.size());
  data.settings.push_back({.name = study, .group = study, .provenance = "{}"});
  for (int i = 0; i < rows; ++i) {
    Sample sample{.graph = 0, .setting = setting, .origin = Origin::kMeasured};
    sample.labels.assign(data.labels.size(), kUnknown);
    std::vector<double> simulated(data.labels.size(), 2.0);
    sample.labels[kBurstLabels] = 2.0 * factor * (1 + 0.01 * (i % 3));
    data.samples.push_back(sample);
    engine.labels.push_back(simulated);
    engine.traits.push_back(job(study, "V100", "model " + std::to_string(i % 4), 1 << (i % 3)));
    engine.samples_per_step.push_back(32);
    engine.questions.push_back({"model", "model", "model"});
  }
}

/// Studies with rows, and how much longer each takes than the engine says.
struct MeasuredJobs {
  Dataset data;
  EngineLabels engine;
  std::vector<std::size_t> samples;  // all
};
struct Rows {
  const char* study;
  int count;
  double factor;
};
MeasuredJobs measured_jobs(const std::vector<Rows>& studies) {
  MeasuredJobs jobs;
  jobs.data.labels = label_names();
  jobs.data.graphs.push_back({.family = "f", .name = "g", .provenance = "{}", .features = {}, .edges = {}});
  for (const Rows& rows : studies) add_rows(jobs.data, jobs.engine, rows.study, rows.count, rows.factor);
  for (std::size_t i = 0; i < jobs.data.samples.size(); ++i) jobs.samples.push_back(i);
  return jobs;
}

}  // namespace

TEST_CASE("a job that shares nothing with the measured ones keeps what the engine says") {
  const ResidualModel model{measured("a", {{"V100", 0.3}}, 20, 0.02), kVariances};
  CHECK(model.estimate(job("b", "V100", "model 0")).mean == 0);
  CHECK(model.estimate(job("", "T4", "model 0")).mean == 0);
  CHECK(model.estimate(job("a", "V100", "model 0")).mean == doctest::Approx(0.3).epsilon(0.1));
  CHECK(ResidualModel{{}, kVariances}.estimate(job("a", "V100", "model 0")).mean == 0);
}

TEST_CASE("the more that was measured of a job, the surer the correction") {
  double last = 1;
  for (const int rows : {0, 1, 4, 16}) {
    const ResidualModel model{measured("a", {{"V100", 0.3}}, rows, 0), kVariances};
    const double deviation = model.estimate(job("a", "V100", "model 0")).deviation;
    CHECK(deviation < last);
    CHECK(deviation >= std::sqrt(kVariances.back()) * (1 - 1e-9));
    last = deviation;
  }
}

TEST_CASE("leaving a job out by formula is leaving it out") {
  const std::vector<Residual> residuals = measured("a", {{"V100", 0.2}, {"T4", -0.1}}, 4, 0.1);
  const ResidualModel all{residuals, kVariances};
  const std::vector<double> scores = all.left_out_scores();
  for (std::size_t i = 0; i < residuals.size(); ++i) {
    std::vector<Residual> rest = residuals;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    const ResidualModel others{rest, kVariances};
    const ResidualEstimate estimate = others.estimate(residuals[i].job);
    CHECK(all.left_out_mean(i) == doctest::Approx(estimate.mean / others.trust_in("a")).epsilon(1e-6));
    CHECK(scores[i] ==
          doctest::Approx(std::abs(all.trust_in("a") * all.left_out_mean(i) - residuals[i].value) / estimate.deviation)
              .epsilon(1e-6));
  }
}

TEST_CASE("of a model that was not measured others are believed as far as they foretold each other's rows") {
  const std::vector<Residual> residuals = measured("a", {{"V100", 0.2}, {"T4", -0.1}}, 8, 0.1);
  const ResidualModel all{residuals, kVariances};
  double products = 0, squares = 0, values = 0;
  for (const Residual& residual : residuals) {
    std::vector<Residual> rest;
    std::copy_if(residuals.begin(), residuals.end(), std::back_inserter(rest),
                 [&](const Residual& other) { return other.job.model != residual.job.model; });
    const ResidualModel others{rest, kVariances};
    const double mean = others.estimate(residual.job).mean / others.trust_in_new_models("a");
    products += mean * residual.value;
    squares += mean * mean;
    values += residual.value * residual.value;
  }
  CHECK(all.trust_in_new_models("a") == doctest::Approx(products / (squares + 2 * values / 3)).epsilon(1e-6));

  std::vector<Residual> by_model;  // steady in each model, but each is off in its own way
  const std::array off{0.3, -0.3, 0.25, -0.25};
  for (int i = 0; i < 40; ++i)
    by_model.push_back({job("b", "V100", "model " + std::to_string(i % 4), 1 << (i % 3)), off[i % 4]});
  const ResidualModel each{by_model, kVariances};
  CHECK(each.trust_in("b") > 0.9);
  CHECK(each.trust_in_new_models("b") == 0);
  CHECK(each.estimate(job("b", "V100", "model 0")).mean == doctest::Approx(0.3).epsilon(0.1));
  CHECK(each.estimate(job("b", "V100", "another")).mean == 0);
  CHECK(ResidualModel{{by_model[0], by_model[4]}, kVariances}.estimate(job("b", "V100", "another")).mean == 0);
}

TEST_CASE("a study whose rows do not foretell one another keeps the engine") {
  std::vector<Residual> residuals = measured("steady", {{"V100", 0.2}}, 20, 0.01);
  for (int i = 0; i < 24; ++i)  // the engine is right on average
    residuals.push_back({job("by chance", "T4", "model " + std::to_string(i % 3)), i / 3 % 2 == 0 ? 0.1 : -0.1});
  const ResidualModel model{residuals, kVariances};
  CHECK(model.trust_in("steady") > 0.9);
  CHECK(model.trust_in("by chance") < 0.1);
  CHECK(std::abs(model.estimate(job("by chance", "T4", "model 0")).mean) < 0.005);
}

TEST_CASE("the likelihood finds where the errors are: in GPUs, in studies, or in nothing but noise") {
  std::vector<Residual> residuals;
  for (const char* study : {"a", "b", "c", "d", "e", "f"}) {
    Rng random{11, study};
    const auto more =
        measured(study, {{"V100", 0.6 * random.uniform() - 0.3}, {"T4", 0.6 * random.uniform() - 0.3}}, 12, 0.02);
    residuals.insert(residuals.end(), more.begin(), more.end());
  }
  const ResidualModel by_gpu{residuals};
  CHECK(by_gpu.variances()[1] > 0.005);
  CHECK(by_gpu.variances().back() < 1e-3);
  for (Residual& residual : residuals) residual.value = 0;
  const ResidualModel none{residuals};
  for (const double variance : none.variances()) CHECK(variance < 1e-4);
}

TEST_CASE("the corrected engine of a dataset: its file, its mean rates, and studies left out") {
  const auto [data, engine, samples] = measured_jobs({{"a", 60, 1.25}, {"b", 70, 0.8}, {"c", 10, 1}});
  const CorrectedEngine corrected{data, samples, engine};
  CHECK(corrected.counts() == std::vector<std::pair<std::string, std::size_t>>{{"step_time_s", 140}});
  const PredictedMetrics known = corrected.correct(engine.labels[0], engine.traits[0]);
  CHECK(known.labels[kBurstLabels].value == doctest::Approx(2.5).epsilon(0.03));
  CHECK(known.labels[kBurstLabels].low < 2.5);
  CHECK(known.labels[kBurstLabels].high > 2.5);
  CHECK(known.labels[kBurstLabels + 1].value == doctest::Approx(2 / 1.25).epsilon(0.03));
  CHECK(known.labels[0].value == 2.0);  // of which nothing was measured
  CHECK(corrected.correct(engine.labels[0], job("z", "A100", "m")).labels[kBurstLabels].value == 2.0);

  const CorrectedEngine read{corrected.state(), "model"};
  CHECK(read.correct(engine.labels[0], engine.traits[0]).labels[kBurstLabels].value ==
        doctest::Approx(known.labels[kBurstLabels].value).epsilon(1e-12));

  const std::vector<StudyCurve> curves = left_out_studies(data, samples, engine, 60, 1);
  REQUIRE(curves.size() == 2);                // the third is too small
  CHECK(curves[0].points[0].questions == 0);  // a graph in a setting is one alternative
  CHECK(curves[0].points[0].corrected == doctest::Approx(curves[0].points[0].engine).epsilon(0.02));
  CHECK(curves[0].points.back().added == 30);
  CHECK(curves[0].points.back().corrected < 0.5 * curves[0].points.back().engine);
  CHECK(curves[0].points.back().ratio_high < 0.6);

  CHECK_THROWS_AS((CorrectedEngine{data, std::vector<std::size_t>{0, 1, 2}, engine}), InputError);
}

TEST_CASE("conformal quantiles hold the share of scores that they say") {
  std::vector<double> scores;
  for (int i = 1; i <= 99; ++i) scores.push_back(i);
  const auto quantiles = conformal_quantiles(scores);
  CHECK(quantiles[0] == 50);
  CHECK(quantiles[2] == 90);
  CHECK(quantiles[3] == 95);
  CHECK(conformal_quantiles({3.0})[2] == 3.0);
}

TEST_CASE("a file of corrections that this program cannot have written is refused") {
  const auto [data, engine, samples] = measured_jobs({{"a", 30, 1.2}});
  const TorchValue sound = CorrectedEngine{data, samples, engine}.state();
  const auto item = [](TorchValue& dict, std::string_view key) -> TorchValue& {
    for (auto& [name, value] : std::get<TorchDict>(dict.value).items)
      if (name.text("key") == key) return value;
    throw InputError{"no such key"};
  };
  const auto refusal = [&](auto change) -> std::string {
    TorchValue state = sound;
    change(state);
    try {
      const CorrectedEngine read{state, "model.pt"};
    } catch (const InputError& error) { return error.what(); }
    return "";
  };
  CHECK(refusal([](TorchValue&) {}).empty());
  CHECK(refusal([&](TorchValue& state) { std::get<TorchList>(item(state, "labels").value).items.pop_back(); }) ==
        "model.pt: its labels are not those of this program");
  const auto set = [&](const char* key, double value) {
    return [=](TorchValue& state) {
      TorchValue& numbers = item(item(item(state, "residuals"), "step_time_s"), key);
      std::vector<double> values = numbers.tensor("numbers").values();
      values[0] = value;
      numbers = TorchTensor::of_doubles(numbers.tensor("numbers").shape, values);
    };
  };
  CHECK(refusal(set("variances", 1e-7)) == "model.pt: expected variances of 1e-6 to 0.3");
  CHECK(refusal(set("variances", 1)) == "model.pt: expected variances of 1e-6 to 0.3");
  CHECK(refusal(set("quantiles", -1)) == "model.pt: expected quantiles of at least 0");
}

}  // namespace rehearse
