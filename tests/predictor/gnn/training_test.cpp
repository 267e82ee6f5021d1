#include "predictor/gnn/training.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>

#include "predictor/gnn/predictor_file.hpp"
#include "predictor/gnn/torch_threads.hpp"
#include "sim/base/errors.hpp"
#include "tests/support/small_predictor.hpp"
#include "tests/support/synthetic_dataset.hpp"

namespace rehearse {

namespace {

/// Notes what it is shown; its loss of validation is given.
class Recorder : public Predictor {
 public:
  std::vector<std::vector<std::size_t>> batches;
  std::vector<double> rates, validation{1.0};
  std::size_t epoch = 0;

  double learn(const Dataset&, std::span<const std::size_t> samples, double rate) override {
    batches.emplace_back(samples.begin(), samples.end());
    rates.push_back(rate);
    return loss_of_training;
  }
  double loss(const Dataset&, std::span<const std::size_t>) override {
    return validation[std::min(epoch, validation.size() - 1)];
  }
  std::vector<PredictedMetrics> predict(const Dataset&, std::span<const std::size_t>) override { return {}; }
  std::int64_t parameters() const override { return 0; }
  TorchValue state() const override { return {}; }
  double loss_of_training = 1;
};

void train_recorder(
    Recorder& model, const TrainingPlan& plan, TrainingState& state, std::size_t samples = 10,
    const std::function<bool()>& is_stopped = [] { return false; }) {
  std::vector<std::size_t> training;
  for (std::size_t i = 0; i < samples; ++i) training.push_back(i);
  model.epoch = state.epochs.size();
  train(model, {}, {training, {100}}, plan, state,
        {.on_epoch = [&](const TrainingState&, bool) { ++model.epoch; },
         .on_step = [](double) {},
         .is_stopped = is_stopped});
}

}  // namespace

TEST_CASE("samples are chosen by split, setting, group, family and origin; unknown names are refused") {
  Dataset data = test::synthetic_dataset(10);
  data.samples[0].origin = Origin::kMeasured;
  const auto count = [&](const SampleChoice& choice, Split split = Split::kTrain) {
    return choose_samples(data, split, choice).size();
  };
  CHECK(count({}) == 6 * 4);  // graphs 0, 1, 2, 5, 6, 7
  CHECK(count({}, Split::kValidation) == 2 * 4);
  CHECK(count({.settings = {"a synchronous"}}) == 6);
  CHECK(count({.settings = {"a"}}) == 12);
  CHECK(count({.settings = {"a", "b asynchronous"}}) == 18);
  CHECK(count({.left_out_families = {"odd"}}) == 3 * 4);  // 0, 2, 6
  CHECK(count({.family = "odd"}) == 3 * 4);               // 1, 5, 7
  CHECK(count({.left_out_families = {"odd", "even"}}) == 0);
  CHECK(count({.origin = Origin::kMeasured}) == 1);
  CHECK(count({.origin = Origin::kSimulated}) == 23);
  // A share is one of graphs, the first ones, so that a larger share has those of a smaller one.
  CHECK(count({.share = 0.5}) == 3 * 4);
  CHECK(count({.share = 0.4}) == 3 * 4);
  CHECK(count({.share = 0.0}) == 0);
  for (const std::size_t s : choose_samples(data, Split::kTrain, {.share = 0.5})) CHECK(data.samples[s].graph <= 2);
  CHECK_THROWS_WITH_AS(count({.settings = {"c"}}),
                       "--setting: unknown setting \"c\"; known: \"a\", \"a asynchronous\", "
                       "\"a synchronous\", \"b\", \"b asynchronous\", \"b synchronous\"",
                       InputError);
  CHECK_THROWS_AS(count({.left_out_families = {"evn"}}), InputError);
  CHECK_THROWS_AS(count({.family = "evn"}), InputError);
}

TEST_CASE("the order of batches depends on the seed and the epoch alone; each sample comes once in an epoch") {
  const TrainingPlan plan{.epochs = 4, .batch = 4, .seed = 7};
  Recorder whole, first, rest, other;
  TrainingState state, stopped, of_other;
  train_recorder(whole, plan, state);
  REQUIRE(whole.batches.size() == 4 * 3);
  for (std::size_t epoch = 0; epoch < 4; ++epoch) {
    std::multiset<std::size_t> seen;
    for (std::size_t b = 0; b < 3; ++b)
      seen.insert(whole.batches[3 * epoch + b].begin(), whole.batches[3 * epoch + b].end());
    CHECK(seen == std::multiset<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  }
  CHECK(whole.batches[0] != whole.batches[3]);
  TrainingState interrupted;
  train_recorder(first, plan, interrupted, 10, [&] { return first.batches.size() == 5; });  // in epoch 2
  CHECK(interrupted.epochs.size() == 1);
  train_recorder(rest, plan, interrupted);
  CHECK(std::vector(whole.batches.begin() + 3, whole.batches.end()) == rest.batches);
  CHECK(std::vector(whole.rates.begin() + 3, whole.rates.end()) == rest.rates);
  TrainingPlan another = plan;
  another.seed = 8;
  train_recorder(other, another, of_other);
  CHECK(other.batches != whole.batches);
}

TEST_CASE("as published, the order is the dataset's, the rate constant, and the rest that fills no batch left out") {
  const TrainingPlan plan{
      .epochs = 2, .batch = 4, .learning_rate = 0.5, .decays = false, .shuffles = false, .drops_rest = true};
  Recorder model;
  TrainingState state;
  train_recorder(model, plan, state);
  CHECK(model.batches == std::vector<std::vector<std::size_t>>{{0, 1, 2, 3}, {4, 5, 6, 7}, {0, 1, 2, 3}, {4, 5, 6, 7}});
  CHECK(model.rates == std::vector<double>(4, 0.5));
  TrainingState none;
  CHECK_THROWS_WITH_AS(train_recorder(model, plan, none, 3), "expected at least 4 samples to train on; found 3",
                       InputError);
}

TEST_CASE("the rate falls with half a cosine to 1 %") {
  const TrainingPlan plan{.epochs = 4, .batch = 10, .learning_rate = 2};
  Recorder model;
  TrainingState state;
  train_recorder(model, plan, state);
  REQUIRE(model.rates.size() == 4);
  CHECK(model.rates[0] == doctest::Approx(2).epsilon(1e-12));
  CHECK(model.rates[2] == doctest::Approx(2 * (0.01 + 0.99 / 2)).epsilon(1e-12));
  CHECK(model.rates[3] == doctest::Approx(2 * (0.01 + 0.99 * 0.5 * (1 - std::sqrt(0.5)))).epsilon(1e-12));
}

TEST_CASE("training stops when the validation loss has not improved for as long as the patience") {
  const TrainingPlan plan{.epochs = 20, .patience = 3, .batch = 10};
  Recorder model;
  model.validation = {5, 4, 4, 4.5, 3, 3, 3.5, 9, 1};
  TrainingState state;
  train_recorder(model, plan, state);
  CHECK(state.best == 4);  // equal is no improvement
  CHECK(state.epochs.size() == 8);
  CHECK(state.is_over(plan));
  TrainingState whole;
  Recorder patient;
  train_recorder(patient, {.epochs = 6, .patience = 30, .batch = 10}, whole);
  CHECK(whole.epochs.size() == 6);
}

TEST_CASE("a loss that is no number ends the training") {
  Recorder model;
  model.loss_of_training = std::numeric_limits<double>::quiet_NaN();
  TrainingState state;
  CHECK_THROWS_WITH_AS(train_recorder(model, {}, state),
                       "the loss is no finite number in epoch 1: try a lower learning rate", NoResultError);
}

TEST_CASE("a training resumed after any epoch gives the same model, bit for bit") {
  use_torch_threads(1);
  const Dataset data = test::synthetic_dataset(10);
  const std::vector<std::size_t> training = choose_samples(data, Split::kTrain, {});
  const std::vector<std::size_t> validation = choose_samples(data, Split::kValidation, {});
  const TrainingPlan plan{.epochs = 4, .batch = 8, .learning_rate = 0.01};
  for (const std::string network : {"learnt", "gcn", "gat", "mpnn"}) {
    CAPTURE(network);
    const PredictorChoice choice = test::small_predictor(network);
    const auto train_from = [&](Predictor& model, TrainingState& state, std::size_t until) {
      train(model, data, {training, validation}, plan, state,
            {.is_stopped = [&] { return state.epochs.size() == until; }});
    };
    const std::unique_ptr<Predictor> whole = make_predictor(choice, data, training);
    const std::string before = to_torch_file(whole->state());
    TrainingState all;
    train_from(*whole, all, 99);
    CHECK(all.epochs.size() == 4);
    CHECK(all.epochs.back().train_loss < all.epochs.front().train_loss);
    CHECK(to_torch_file(whole->state()) != before);
    for (std::size_t stop = 1; stop < 4; ++stop) {
      CAPTURE(stop);
      TrainingState state;
      std::string saved;
      const std::unique_ptr<Predictor> first = make_predictor(choice, data, training);
      train(*first, data, {training, validation}, plan, state,
            {.on_epoch = [&](const TrainingState&, bool) { saved = to_torch_file(first->state()); },
             .is_stopped = [&] { return state.epochs.size() == stop; }});
      CHECK(state.epochs.size() == stop);
      const std::unique_ptr<Predictor> second = load_predictor(parse_torch_file(saved, "saved"), "saved");
      train_from(*second, state, 99);
      CHECK(state.epochs.back().validation_loss == all.epochs.back().validation_loss);
      CHECK(to_torch_file(second->state()) == to_torch_file(whole->state()));
    }
  }
}

}  // namespace rehearse
