#pragma once
// Training of a predictor on the samples of a dataset, with early stopping, and from where it was interrupted.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "predictor/dataset.hpp"
#include "predictor/gnn/predictor.hpp"

namespace rehearse {

/// Which samples of a dataset are used.
struct SampleChoice {
  std::vector<std::string> settings;           // names or groups; empty: all
  std::vector<std::string> left_out_settings;  // likewise
  std::vector<std::string> left_out_families;
  std::optional<std::string> family;  // this one alone
  std::optional<Origin> origin;
  bool needs_step = false;  // only samples that have one (Sample::step)
  double share = 1;         // of the graphs, in the order of the dataset
};

/// Indices of the samples of `split` in the order of the dataset. Throws InputError for names that the dataset lacks.
std::vector<std::size_t> choose_samples(const Dataset& dataset, Split split, const SampleChoice& choice);

struct TrainingPlan {
  int epochs = 60;    // at most
  int patience = 30;  // epochs without a better validation loss
  int batch = 32;
  double learning_rate = 0.003;
  bool decays = true;       // the rate falls with half a cosine to 1 % of it
  bool shuffles = true;     // other batches in each epoch; otherwise in the order of the dataset
  bool drops_rest = false;  // samples that fill no whole batch are left out
  std::uint64_t seed = 42;
};

struct Epoch {
  double train_loss = 0, validation_loss = 0;
};

/// A training so far.
struct TrainingState {
  std::vector<Epoch> epochs;
  int best = -1;  // index of the epoch with the least validation loss
  bool is_over(const TrainingPlan& plan) const;
};

/// Indices of samples.
struct TrainingSamples {
  std::vector<std::size_t> training, validation;
};

/// How many samples an epoch takes. Throws InputError if there is none.
std::size_t samples_of_epoch(const TrainingSamples& samples, const TrainingPlan& plan);

/// What a training tells while it goes on, and asks.
struct TrainingWatch {
  std::function<void(const TrainingState&, bool is_best)> on_epoch = [](const TrainingState&, bool) {};
  std::function<void(double epoch_done)> on_step = [](double) {};  // the share of the epoch that is done
  std::function<bool()> is_stopped = [] { return false; };         // after each step
};

/// Trains `predictor` from `state` on until the plan is over or the watch stops it. An epoch that was not finished leaves
/// the predictor in the middle: go on from what was saved. Throws NoResultError if the loss is no finite number.
void train(Predictor& predictor, const Dataset& dataset, const TrainingSamples& samples, const TrainingPlan& plan,
           TrainingState& state, const TrainingWatch& watch);

}  // namespace rehearse
