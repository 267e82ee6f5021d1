#include "predictor/gnn/training.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <span>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/random.hpp"

namespace rehearse {

namespace {

void check_name(const std::string& option, const std::set<std::string>& known, const std::string& name,
                const char* what) {
  if (!known.contains(name))
    throw InputError{option + ": " +
                     unknown_name_message(what, name, std::vector<std::string>{known.begin(), known.end()})};
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// A random order of `samples` that depends on the seed and the epoch alone, so that a resumed training sees the same.
std::vector<std::size_t> shuffled(std::vector<std::size_t> samples, std::uint64_t seed, std::size_t epoch) {
  Rng random{seed, "batches of epoch " + std::to_string(epoch)};
  for (std::size_t i = samples.size(); i > 1; --i) std::swap(samples[i - 1], samples[random.below(i)]);
  return samples;
}

double rate_of(const TrainingPlan& plan, double epoch) {
  if (!plan.decays) return plan.learning_rate;
  const double done = std::min(epoch / plan.epochs, 1.0);
  return plan.learning_rate * (0.01 + 0.99 * 0.5 * (1 + std::cos(std::numbers::pi * done)));
}

}  // namespace

std::vector<std::size_t> choose_samples(const Dataset& dataset, Split split, const SampleChoice& choice) {
  std::set<std::string> settings, families;
  for (const DatasetSetting& setting : dataset.settings) settings.insert({setting.name, setting.group});
  for (const DatasetGraph& graph : dataset.graphs) families.insert(graph.family);
  for (const std::string& name : choice.settings) check_name("--setting", settings, name, "setting");
  for (const std::string& name : choice.left_out_settings) check_name("--leave-out-setting", settings, name, "setting");
  for (const std::string& name : choice.left_out_families) check_name("--leave-out-family", families, name, "family");
  if (choice.family) check_name("--family", families, *choice.family, "family");
  std::vector<std::size_t> chosen;
  std::set<std::int32_t> graphs;
  for (std::size_t i = 0; i < dataset.samples.size(); ++i) {
    const Sample& sample = dataset.samples[i];
    const DatasetGraph& graph = dataset.graphs[static_cast<std::size_t>(sample.graph)];
    const DatasetSetting& setting = dataset.settings[static_cast<std::size_t>(sample.setting)];
    if (sample.split != split || contains(choice.left_out_families, graph.family)) continue;
    if (choice.family && graph.family != *choice.family) continue;
    if (choice.origin && sample.origin != *choice.origin) continue;
    if (choice.needs_step && sample.step.empty()) continue;
    const auto is_among = [&](const std::vector<std::string>& names) {
      return contains(names, setting.name) || contains(names, setting.group);
    };
    if ((!choice.settings.empty() && !is_among(choice.settings)) || is_among(choice.left_out_settings)) continue;
    chosen.push_back(i);
    graphs.insert(sample.graph);
  }
  const auto kept = static_cast<std::size_t>(std::ceil(choice.share * static_cast<double>(graphs.size())));
  if (kept < graphs.size()) {
    graphs.erase(std::next(graphs.begin(), static_cast<std::ptrdiff_t>(kept)), graphs.end());
    std::erase_if(chosen, [&](std::size_t i) { return !graphs.contains(dataset.samples[i].graph); });
  }
  return chosen;
}

bool TrainingState::is_over(const TrainingPlan& plan) const {
  const int done = static_cast<int>(epochs.size());
  return done >= plan.epochs || (best >= 0 && done - 1 - best >= plan.patience);
}

std::size_t samples_of_epoch(const TrainingSamples& samples, const TrainingPlan& plan) {
  const auto size = static_cast<std::size_t>(plan.batch);
  const std::size_t used = plan.drops_rest ? samples.training.size() / size * size : samples.training.size();
  if (used == 0)
    throw InputError{"expected at least " +
                     (plan.drops_rest ? std::to_string(plan.batch) + " samples" : std::string{"1 sample"}) +
                     " to train on; found " + std::to_string(samples.training.size())};
  return used;
}

void train(Predictor& predictor, const Dataset& dataset, const TrainingSamples& samples, const TrainingPlan& plan,
           TrainingState& state, const TrainingWatch& watch) {
  const auto& [training, validation] = samples;
  const auto size = static_cast<std::size_t>(plan.batch);
  const std::size_t used = samples_of_epoch(samples, plan);
  while (!state.is_over(plan)) {
    const std::size_t epoch = state.epochs.size();
    const std::vector<std::size_t> order = plan.shuffles ? shuffled(training, plan.seed, epoch) : training;
    double sum = 0;
    for (std::size_t first = 0; first < used; first += size) {
      const std::span batch{order.data() + first, std::min(size, used - first)};
      const double done = static_cast<double>(first) / static_cast<double>(used);
      const double loss = predictor.learn(dataset, batch, rate_of(plan, static_cast<double>(epoch) + done));
      if (!std::isfinite(loss))
        throw NoResultError{"the loss is no finite number in epoch " + std::to_string(epoch + 1) +
                            ": try a lower learning rate"};
      sum += loss * static_cast<double>(batch.size());
      watch.on_step(done);
      if (watch.is_stopped()) return;
    }
    double check = 0;
    for (std::size_t first = 0; first < validation.size(); first += size) {
      const std::span batch{validation.data() + first, std::min(size, validation.size() - first)};
      check += predictor.loss(dataset, batch) * static_cast<double>(batch.size());
      if (watch.is_stopped()) return;
    }
    const double train_loss = sum / static_cast<double>(used);
    state.epochs.push_back(
        {train_loss, validation.empty() ? train_loss : check / static_cast<double>(validation.size())});
    const bool is_best = state.best < 0 || state.epochs.back().validation_loss <
                                               state.epochs[static_cast<std::size_t>(state.best)].validation_loss;
    if (is_best) state.best = static_cast<int>(epoch);
    watch.on_epoch(state, is_best);
  }
}

}  // namespace rehearse
