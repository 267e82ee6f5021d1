#include "predictor/gnn/predictor_file.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "predictor/features.hpp"
#include "predictor/gnn/torch_threads.hpp"
#include "predictor/gnn/training.hpp"
#include "predictor/merge.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/random.hpp"
#include "tests/support/small_predictor.hpp"
#include "tests/support/synthetic_dataset.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

const std::vector<std::string> kNetworks{"learnt", "gcn", "gin", "gat", "gat-textbook", "mpnn"};

std::unique_ptr<Predictor> trained(const PredictorChoice& choice, const Dataset& data, int steps = 3) {
  const std::vector<std::size_t> training = choose_samples(data, Split::kTrain, {});
  std::unique_ptr<Predictor> model = make_predictor(choice, data, training);
  for (int i = 0; i < steps; ++i) model->learn(data, training, 0.01);
  return model;
}

/// Row after row, NaN as -1.
std::vector<double> values_of(const std::vector<PredictedMetrics>& predictions) {
  std::vector<double> values;
  for (const PredictedMetrics& prediction : predictions) {
    for (const LabelPrediction& label : prediction.labels)
      for (const double value : {label.value, label.low, label.high}) values.push_back(std::isnan(value) ? -1 : value);
    values.push_back(prediction.distance);
  }
  return values;
}

std::vector<std::size_t> tests_of(const Dataset& data) { return choose_samples(data, Split::kTest, {}); }

/// "" if `state` is a model, else the one line that says why not.
std::string problem_of(const std::function<void()>& load) {
  try {
    load();
  } catch (const InputError& error) { return error.what(); }
  return "";
}

/// The state_dict of a model's state, by names.
std::vector<std::pair<std::string, std::vector<double>>> weights_of(const TorchValue& state) {
  const TorchValue* published = state.find("published");
  const TorchValue& weights = (published != nullptr ? *published : state).at("state", "state");
  std::vector<std::pair<std::string, std::vector<double>>> values;
  for (const auto& [name, tensor] : weights.dict("state").items)
    values.emplace_back(name.text("name"), tensor.tensor("weights").values());
  return values;
}

}  // namespace

TEST_CASE("a saved model predicts the same") {
  const test::TemporaryFolder folder;
  const Dataset data = test::synthetic_dataset(10);
  for (const std::string& network : kNetworks) {
    CAPTURE(network);
    const std::unique_ptr<Predictor> model = trained(test::small_predictor(network), data);
    const std::filesystem::path file = folder / "model.pt";
    write_torch_file(file, model->state());
    const std::unique_ptr<Predictor> loaded = load_predictor(file);
    const std::vector<double> values = values_of(model->predict(data, tests_of(data)));
    CHECK(values == values_of(loaded->predict(data, tests_of(data))));
    CHECK(loaded->parameters() == model->parameters());
    CHECK(to_torch_file(loaded->state()) == to_torch_file(model->state()));
    for (const double value : values) CHECK(std::isfinite(value));
  }
}

TEST_CASE("what predicts without LibTorch computes the layers that LibTorch has trained") {
  const Dataset data = test::synthetic_dataset(10);
  const std::unique_ptr<Predictor> network = trained(test::small_predictor("learnt"), data, 40);
  const TorchValue state = network->state();
  const MetricsModel model{state, "model"};
  MetricsModel predicting{state, "model"};
  for (const std::size_t s : tests_of(data)) {
    CAPTURE(s);
    // The loss by the formula of MetricsNetwork, which LibTorch computes from its own layers.
    const MetricsInputs in = model.inputs(data, s);
    const MetricsOutputs out = model.outputs(in);
    const std::vector<double>& labels = data.samples[s].labels;
    double loss = 0, known = 0;
    for (std::size_t l = 0; l < labels.size(); ++l) {
      if (std::isnan(labels[l])) continue;
      const bool is_fine = data.labels[l] == "step_time_s" || data.labels[l].ends_with("_mean_Bps");
      const double value = is_fine ? 0.05 * std::sinh(out.value[l]) : out.value[l];
      const double corrected = double{in.bases[l]} + value, logit = out.presence[l];
      const double log = in.is_limited[l] > 0 ? in.limits[l] - std::log1p(std::exp(-corrected)) : corrected;
      const bool is_positive = labels[l] > 0;
      if (is_positive) loss += std::abs(std::log(labels[l]) - log) / out.width[l] + std::log(out.width[l]);
      loss += 0.5 * std::log1p(std::exp(is_positive ? -logit : logit));
      known += 1;
    }
    const std::vector<std::size_t> one{s};
    CHECK(network->loss(data, one) == doctest::Approx(loss / known).epsilon(1e-5));
    CHECK(values_of(network->predict(data, one)) == values_of(predicting.predict(data, one)));
  }
}

TEST_CASE("a model whose numbers mean something else is refused") {
  const Dataset data = test::synthetic_dataset(10);
  const TorchValue state = trained(test::small_predictor("learnt"), data)->state();
  const std::string message =
      "model: it was trained by another version of Rehearse, whose numbers mean something else: train it again";
  TorchDict without, other;
  for (const auto& [key, value] : std::get<TorchDict>(state.value).items) {
    const bool is_meaning = key.text("key") == "fine_correction";
    if (!is_meaning) without.items.emplace_back(key, value);
    other.items.emplace_back(key, is_meaning ? TorchValue{0.02} : value);
  }
  CHECK_THROWS_WITH_AS((MetricsModel{TorchValue{without}, "model"}), message.c_str(), InputError);
  CHECK_THROWS_WITH_AS((MetricsModel{TorchValue{other}, "model"}), message.c_str(), InputError);
}

TEST_CASE("degrees are scaled by their mean over the training graphs' nodes") {
  const Dataset data = test::synthetic_dataset(10);
  double nodes = 0, ends = 0;
  for (const std::size_t g : {0U, 1U, 2U, 5U, 6U, 7U}) {  // for training; too small to be grouped
    nodes += static_cast<double>(data.nodes(data.graphs[g]));
    ends += 2 * static_cast<double>(data.graphs[g].edges.size());
  }
  PredictorChoice choice = test::small_predictor("mpnn");
  choice.published.mpnn_aggregators = {"mean", "moment3"};
  choice.published.mpnn_scalers = {"linear", "attenuation"};
  const std::unique_ptr<Predictor> model = trained(choice, data);
  const PublishedOptions options = published_options(model->state().at("published", "").at("options", ""), "state");
  CHECK(options.average_degree == doctest::Approx(ends / nodes));
  CHECK(options.average_log_degree > 0.5 * std::log(1 + options.average_degree));
  CHECK(options.average_log_degree < std::log(1 + options.average_degree));  // Jensen
  CHECK(options.mpnn_aggregators == choice.published.mpnn_aggregators);
  for (const double value : values_of(model->predict(data, tests_of(data)))) CHECK(std::isfinite(value));
}

TEST_CASE("logarithms of labels are standardised over the training samples, and 0 counts as the smallest above it") {
  Dataset data = test::synthetic_dataset(20);
  for (Sample& sample : data.samples) sample.labels[2] = 0;
  PredictorChoice choice = test::small_predictor("gcn");
  choice.published.labels = LabelScaling::kStandardisedLogs;
  const std::vector<std::size_t> training = choose_samples(data, Split::kTrain, {});
  const std::unique_ptr<Predictor> model = make_predictor(choice, data, training);
  const TorchValue state = model->state();
  const TorchValue& logs = state.at("published", "").at("label_logs", "");
  const auto values = [&](const char* key) { return logs.at(key, "").tensor("").values(); };
  for (const std::size_t l : {3U, 9U}) {  // half of the idle durations are 0, and some are not known
    double smallest = INFINITY;
    for (const std::size_t s : training)
      if (data.samples[s].labels[l] > 0) smallest = std::min(smallest, data.samples[s].labels[l]);
    double sum = 0, squares = 0, count = 0;
    for (const std::size_t s : training) {
      if (std::isnan(data.samples[s].labels[l])) continue;
      const double log = std::log(std::max(data.samples[s].labels[l], smallest));
      sum += log;
      squares += log * log;
      ++count;
    }
    CHECK(values("smallest")[l] == smallest);
    CHECK(values("mean")[l] == doctest::Approx(sum / count));
    CHECK(values("deviation")[l] == doctest::Approx(std::sqrt(squares / count - sum * sum / count / count)));
  }
  for (const std::size_t constant : {2U, 5U}) CHECK(values("deviation")[constant] == 1);  // all 0, all 0.9
  CHECK(values("mean")[5] == doctest::Approx(std::log(0.9)));
  const double first = model->loss(data, training);
  for (int i = 0; i < 200; ++i) model->learn(data, training, 0.01);
  CHECK(model->loss(data, training) < 0.5 * first);
  for (const PredictedMetrics& prediction : model->predict(data, tests_of(data)))
    for (std::size_t l = 0; l < 12; ++l) CHECK(prediction.labels[l].value > 0);
  // Carried over, it has the scales of the new samples.
  const std::vector<std::size_t> few{training[0], training[4]};
  const TorchValue carried = carry_over(model->state(), "model", "fine-tune", choice, data, few)->state();
  const std::vector<double> means = carried.at("published", "").at("label_logs", "").at("mean", "").tensor("").values();
  CHECK(means[4] ==
        doctest::Approx((std::log(data.samples[few[0]].labels[4]) + std::log(data.samples[few[1]].labels[4])) / 2));
}

TEST_CASE("predictions do not depend on what is predicted beside them, shares stay below 1 and rates below the link") {
  const Dataset data = test::synthetic_dataset(10);
  for (const std::string network : {"learnt", "gcn"}) {
    CAPTURE(network);
    const std::unique_ptr<Predictor> model = trained(test::small_predictor(network), data, 10);
    const std::vector<std::size_t> asked = tests_of(data);
    const std::vector<PredictedMetrics> together = model->predict(data, asked);
    REQUIRE(together.size() == asked.size());
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const std::vector<std::size_t> one{asked[i]};
      const PredictedMetrics alone = model->predict(data, one).at(0);
      REQUIRE(alone.labels.size() == data.labels.size());
      for (std::size_t l = 0; l < data.labels.size(); ++l) {
        if (std::isnan(alone.labels[l].value)) continue;
        CHECK(alone.labels[l].value == doctest::Approx(together[i].labels[l].value).epsilon(1e-4));
        if (std::string{network} != "learnt") continue;
        CHECK(alone.labels[l].value >= 0);
        CHECK(alone.labels[l].low <= alone.labels[l].value);
        CHECK(alone.labels[l].high >= alone.labels[l].value);
      }
      if (std::string{network} != "learnt") continue;
      CHECK(together[i].labels[5].value <= 1);
    }
  }
}

TEST_CASE("what has learnt nothing says what the step would show") {
  const Dataset data = test::synthetic_dataset(20);
  const FeatureReader reader{data};
  const std::unique_ptr<Predictor> model = trained(test::small_predictor("learnt"), data, 0);
  for (const std::size_t s : tests_of(data)) {
    const std::vector<std::size_t> one{s};
    const PredictedMetrics prediction = model->predict(data, one).at(0);
    const SampleFeatures features = reader.read(data, data.samples[s]);
    for (std::size_t l = 0; l < data.labels.size(); ++l)
      CHECK(prediction.labels[l].value == doctest::Approx(features.bases[l]).epsilon(1e-4));
  }
}

TEST_CASE("no idle or active time exceeds the window, and what never rests is said to") {
  Dataset data = test::synthetic_dataset(20);
  const FeatureReader reader{data};
  for (Sample& sample : data.samples) {  // labels[3], [6]: the gaps of the GPU and of what is received
    const double bound = reader.read(data, sample).bases[12];
    sample.labels[3] = 0;
    sample.labels[6] = 100 * bound;  // of 20 steps
    sample.labels[12] = bound;
  }
  const std::unique_ptr<Predictor> model = trained(test::small_predictor("learnt"), data, 60);
  for (const std::size_t s : tests_of(data)) {
    const std::vector<std::size_t> one{s};
    const PredictedMetrics prediction = model->predict(data, one).at(0);
    CHECK(prediction.labels[3].value == 0);
    CHECK(prediction.labels[6].value <= 21 * prediction.labels[12].value * (1 + 1e-5));
  }
}

TEST_CASE("intervals hold the share of samples that they say, of those that they were calibrated with") {
  const Dataset data = test::synthetic_dataset(60);
  const std::unique_ptr<Predictor> model = trained(test::small_predictor("learnt"), data, 10);
  const std::vector<std::size_t> asked = tests_of(data);
  const auto covered = [&] {
    double inside = 0;
    const std::vector<PredictedMetrics> predictions = model->predict(data, asked);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const double label = data.samples[asked[i]].labels[12];
      const auto& predicted = predictions[i].labels[12];
      constexpr double kRounding = 1 + 1e-9;  // of samples that are the edge themselves
      inside += predicted.low <= label * kRounding && label <= predicted.high * kRounding ? 1 : 0;
    }
    return inside / static_cast<double>(asked.size());
  };
  model->calibrate(data, asked);
  CHECK(covered() >= 0.9);
  CHECK(covered() < 0.97);
}

TEST_CASE("intervals are wider the farther an input is from what was learned, twice at most") {
  const Dataset data = test::synthetic_dataset(20);
  const std::unique_ptr<Predictor> model = trained(test::small_predictor("learnt"), data, 5);
  const std::vector<std::size_t> one{tests_of(data)[0]};
  const auto asked_with = [&](double latency) {
    Dataset other = data;
    DescribedStep step = described_step(other.samples[one[0]].step, "sample");
    for (std::size_t t = 0; t < step.totals.size(); ++t)
      if (step_totals()[t].name == std::string{"latency_s"}) step.totals[t] = latency;
    other.samples[one[0]].step = numbers_of(step);
    return model->predict(other, one).at(0);
  };
  const PredictedMetrics near = asked_with(1), far = asked_with(1e6);
  REQUIRE(near.distance <= 1.5);
  REQUIRE(far.distance > 2);
  for (const std::size_t l : {1U, 5U, 12U})
    CHECK(far.reaches[l][kShown] / far.widths[l] ==
          doctest::Approx(2 * near.reaches[l][kShown] / near.widths[l] / std::max(1.0, near.distance)).epsilon(1e-6));
}

TEST_CASE("operations of kinds that no training sample has are all of one unknown kind") {
  const Dataset data = test::synthetic_dataset(20);
  const std::unique_ptr<Predictor> model = trained(test::small_predictor("learnt"), data, 20);
  const std::vector<std::size_t> one{tests_of(data)[0]};
  const auto with_kernels_as = [&](std::int32_t kind) {
    Dataset other = data;
    DescribedStep step = described_step(other.samples[one[0]].step, "sample");
    for (StepNode& node : step.nodes) node.kind = kind;
    other.samples[one[0]].step = numbers_of(step);
    return values_of(model->predict(other, one));
  };
  CHECK(with_kernels_as(5) == with_kernels_as(17));
  CHECK(with_kernels_as(5) != with_kernels_as(3));
}

TEST_CASE("a learnt network says nothing of a graph without a step") {
  const Dataset whole = test::synthetic_dataset(5);
  const std::unique_ptr<Predictor> model = trained(test::small_predictor("learnt"), whole, 1);
  CHECK(model->needs_step());
  Dataset data = whole;
  data.samples[0].step.clear();
  CHECK_THROWS_WITH_AS(model->predict(data, std::vector<std::size_t>{0}),
                       doctest::Contains("nothing says what its step is"), InputError);
  SampleChoice choice;
  choice.needs_step = true;
  CHECK(choose_samples(data, Split::kTrain, choice).size() + 1 == choose_samples(data, Split::kTrain, {}).size());
}

TEST_CASE("published networks learn our samples: the twelve burst metrics, and nothing about the others") {
  const Dataset data = test::synthetic_dataset(10);
  const std::vector<std::size_t> training = choose_samples(data, Split::kTrain, {});
  for (const std::string network : {"gcn", "gin", "gat", "mpnn"}) {
    CAPTURE(network);
    const std::unique_ptr<Predictor> model = make_predictor(test::small_predictor(network), data, training);
    const double before = model->loss(data, training);
    CHECK(model->learn(data, training, 0.001) == doctest::Approx(before).epsilon(1e-4));
    for (int i = 0; i < 20; ++i) model->learn(data, training, 0.001);
    CHECK(model->loss(data, training) < before);
    const PredictedMetrics prediction = model->predict(data, tests_of(data)).at(0);
    CHECK(std::isfinite(prediction.labels[11].value));
    CHECK(std::isnan(prediction.labels[12].value));
  }
  CHECK_THROWS_AS(make_predictor(test::small_predictor("transformer"), data, training), InputError);
  CHECK_THROWS_WITH_AS(make_predictor(test::small_predictor("gcn"), data, {}), "the dataset has no samples to train on",
                       InputError);
  CHECK_THROWS_WITH_AS(make_predictor(test::small_predictor("learnt"), data, {}),
                       "the dataset has no samples to train on", InputError);
}

TEST_CASE("published networks take graphs of groups as they take the operators of these groups") {
  const Dataset data = test::synthetic_dataset(10);
  const PredictorChoice choice = test::small_predictor("gcn");
  const std::unique_ptr<Predictor> model = trained(choice, data);
  REQUIRE(model->type_frequencies() != nullptr);
  CHECK(*model->type_frequencies() == choice.frequencies);
  const std::vector<double> whole = values_of(model->predict(data, tests_of(data)));
  const Dataset groups = with_groups(data, choice.frequencies);
  const std::vector<double> grouped = values_of(model->predict(groups, tests_of(groups)));
  REQUIRE(grouped.size() == whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) CHECK(grouped[i] == doctest::Approx(whole[i]).epsilon(1e-4));
  const std::unique_ptr<Predictor> ours = trained(test::small_predictor("learnt"), data, 1);
  CHECK(ours->type_frequencies() == nullptr);
  CHECK(values_of(ours->predict(groups, tests_of(groups))) ==
        values_of(ours->predict(data, tests_of(data))));  // by steps
}

TEST_CASE("transfer trains what it says and leaves the other weights as they are") {
  const Dataset data = test::synthetic_dataset(10);
  const std::vector<std::size_t> training = choose_samples(data, Split::kTrain, {.settings = {"b"}});
  struct Case {
    std::string network, transfer;
    std::vector<std::string> learn;  // starts of names; empty: all
    std::vector<std::string> keep;   // starts of names; empty: all others
  };
  for (const Case& c : std::vector<Case>{{"learnt", "fine-tune", {}, {}},
                                         {"learnt", "readout", {"enter", "value"}, {"embed", "round", "weigh"}},
                                         {"gcn", "fine-tune", {}, {}},
                                         {"gcn", "as-published", {"graph_read_out.mlp"}, {}},
                                         {"gin", "as-intended", {"graph_read_out.mlp", "conv_layers.2"}, {}}}) {
    CAPTURE(c.network);
    CAPTURE(c.transfer);
    const PredictorChoice choice = test::small_predictor(c.network);
    const std::unique_ptr<Predictor> source = trained(choice, data);
    const std::unique_ptr<Predictor> model = carry_over(source->state(), "source", c.transfer, choice, data, training);
    const auto before = weights_of(model->state());
    for (int i = 0; i < 3; ++i) model->learn(data, training, 0.01);
    const auto after = weights_of(model->state());
    REQUIRE(before.size() == after.size());
    std::size_t changed = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
      CAPTURE(before[i].first);
      const auto is_in = [&](const std::vector<std::string>& starts) {
        return std::any_of(starts.begin(), starts.end(),
                           [&](const std::string& start) { return before[i].first.starts_with(start); });
      };
      const bool may = c.learn.empty() || (c.keep.empty() ? is_in(c.learn) : !is_in(c.keep));
      if (!may) CHECK(before[i].second == after[i].second);
      changed += before[i].second != after[i].second;
    }
    CHECK(changed > 0);
    if (!c.learn.empty()) CHECK(model->parameters() < source->parameters());
    // What is carried over starts from what the source has learnt.
    for (const auto& [name, values] : weights_of(source->state()))
      for (const auto& [other, carried] : before)
        if (other == name && other.find("conv_layers.2") == std::string::npos) CHECK(values == carried);
  }
  const std::unique_ptr<Predictor> profile = trained(test::small_predictor("learnt"), data);
  CHECK_THROWS_AS(carry_over(profile->state(), "m", "as-intended", test::small_predictor("learnt"), data, training),
                  InputError);
  const std::unique_ptr<Predictor> gcn = trained(test::small_predictor("gcn"), data);
  CHECK_THROWS_AS(carry_over(gcn->state(), "m", "readout", test::small_predictor("gcn"), data, training), InputError);
}

TEST_CASE("a training carried over and resumed trains the same weights as one that was not interrupted") {
  const Dataset data = test::synthetic_dataset(10);
  const std::vector<std::size_t> training = choose_samples(data, Split::kTrain, {.settings = {"b"}});
  for (const auto& [network, transfer] : std::vector<std::pair<std::string, std::string>>{
           {"learnt", "fine-tune"}, {"learnt", "readout"}, {"gcn", "as-published"}, {"gcn", "as-intended"}}) {
    CAPTURE(network);
    CAPTURE(transfer);
    const PredictorChoice choice = test::small_predictor(network);
    const std::unique_ptr<Predictor> source = trained(choice, data);
    const auto model = carry_over(source->state(), "source", transfer, choice, data, training);
    model->learn(data, training, 0.01);
    const auto resumed = load_predictor(parse_torch_file(to_torch_file(model->state()), "saved"), "saved");
    CHECK(resumed->parameters() == model->parameters());
    model->learn(data, training, 0.01);
    resumed->learn(data, training, 0.01);
    CHECK(to_torch_file(resumed->state()) == to_torch_file(model->state()));
  }
}

TEST_CASE("a dataset with other columns is refused, not read") {
  const Dataset data = test::synthetic_dataset(10);
  for (const std::string network : {"learnt", "gcn"}) {
    CAPTURE(network);
    const std::unique_ptr<Predictor> model = trained(test::small_predictor(network), data);
    const std::vector<std::size_t> asked = tests_of(data), training = choose_samples(data, Split::kTrain, {});
    std::vector<Dataset> others(2, data);
    others[0].labels.resize(3);
    for (Sample& sample : others[0].samples) sample.labels.resize(3);
    others[1].node_features.resize(7);
    for (DatasetGraph& graph : others[1].graphs) graph.features.resize(graph.features.size() / 2);
    const bool is_learnt = network == "learnt";  // which reads no nodes
    for (const Dataset& other : others) {
      if (is_learnt && &other != others.data()) continue;
      CHECK_THROWS_AS(model->predict(other, asked), InputError);
      CHECK_THROWS_AS(model->loss(other, asked), InputError);
      CHECK_THROWS_AS(model->learn(other, asked, 0.01), InputError);
      if (!is_learnt) CHECK_THROWS_AS(make_predictor(test::small_predictor(network), other, training), InputError);
    }
  }
}

TEST_CASE("weights that no training has made are refused") {
  TorchDict state = trained(test::small_predictor("learnt"), test::synthetic_dataset(5))->state().dict("state");
  for (auto& [key, value] : state.items) {
    if (key.text("name") != "state") continue;
    for (auto& [name, weights] : std::get<TorchDict>(value.value).items) {
      if (name.text("name") != "spread.bias") continue;
      const std::vector<std::int64_t> shape = weights.tensor("weights").shape;
      std::vector<float> numbers = weights.tensor("weights").floats();
      numbers.front() = 3e38F;
      weights = TorchTensor::of_floats(shape, numbers);
    }
  }
  CHECK(problem_of([&] { load_predictor(TorchValue{state}, "m.pt"); }) ==
        "m.pt: state: spread.bias: expected numbers from -1e+04 to 1e+04");
}

TEST_CASE("a damaged or foreign file is refused with one line that names it") {
  const test::TemporaryFolder folder;
  const Dataset data = test::synthetic_dataset(5);
  for (const std::string text : {"", "PK", "hello"}) {
    const std::filesystem::path file = folder.write("model.pt", text);
    const std::string problem = problem_of([&] { load_predictor(file); });
    CHECK(problem.starts_with(file.string()));
    CHECK(problem.find('\n') == std::string::npos);
  }
  CHECK(problem_of([&] { load_predictor(folder / "none.pt"); }).find("none.pt") != std::string::npos);
  CHECK(!problem_of([] { load_predictor(TorchDict{{{"network", "other"}}}, "m"); }).empty());
  CHECK(!problem_of([] { load_predictor(TorchValue{3}, "m"); }).empty());

  for (const std::string network : {"learnt", "gcn"}) {
    const TorchDict state = trained(test::small_predictor(network), data)->state().dict("state");
    // Every entry, on both levels, left out, or of another type or size.
    const std::vector<TorchValue> spoilt{TorchValue{},
                                         TorchValue{"text"},
                                         TorchValue{-1},
                                         TorchValue{std::int64_t{1} << 62},
                                         TorchValue{1e300},
                                         TorchDict{},
                                         TorchTensor::of_doubles({2}, std::vector<double>{1, std::nan("")})};
    const auto check = [&](TorchDict changed, const std::string& what) {
      CAPTURE(network);
      CAPTURE(what);
      const std::string problem = problem_of([&] { load_predictor(TorchValue{std::move(changed)}, "m.pt"); });
      CHECK(problem.find('\n') == std::string::npos);
      if (!problem.empty()) CHECK(problem.starts_with("m.pt"));
    };
    for (std::size_t i = 0; i < state.items.size(); ++i) {
      const std::string name = state.items[i].first.text("name");
      TorchDict without = state;
      without.items.erase(without.items.begin() + static_cast<std::ptrdiff_t>(i));
      CHECK(!problem_of([&] { load_predictor(TorchValue{without}, "m.pt"); }).empty());
      for (const TorchValue& value : spoilt) {
        TorchDict changed = state;
        changed.items[i].second = value;
        check(changed, name);
      }
      if (!std::holds_alternative<TorchDict>(state.items[i].second.value)) continue;
      const std::size_t inner = std::get<TorchDict>(state.items[i].second.value).items.size();
      for (std::size_t k = 0; k < inner; ++k)
        for (const TorchValue& value : spoilt) {
          TorchDict changed = state;
          std::get<TorchDict>(changed.items[i].second.value).items[k].second = value;
          check(changed, name + ", entry " + std::to_string(k));
        }
    }
    // Random bytes of the file.
    const std::string bytes = to_torch_file(TorchValue{state});
    Rng random{3, "damage"};
    for (int round = 0; round < 200; ++round) {
      std::string damaged = bytes;
      if (round % 2 == 0) damaged.resize(random.below(damaged.size()));
      for (int k = 0; k < 3 && !damaged.empty(); ++k)
        damaged[random.below(damaged.size())] = static_cast<char>(random.below(256));
      const std::string problem = problem_of([&] { load_predictor(parse_torch_file(damaged, "m.pt"), "m.pt"); });
      CHECK(problem.find('\n') == std::string::npos);
    }
  }
}

}  // namespace rehearse
