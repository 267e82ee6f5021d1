#include "sim/app/any_predictor.hpp"

#include <cmath>
#include <map>

#include "sim/app/progress.hpp"
#include "sim/app/setup.hpp"
#include "sim/base/errors.hpp"

namespace rehearse {

const EngineLabels& EngineOnDemand::get() {
  if (!found_) {
    Progress progress{"simulated", common_.is_quiet};
    std::optional<ResultStore> kept;
    if (!finished_.empty()) kept.emplace(ResultStore::open(finished_));
    const auto on_progress = [&](std::size_t done, std::size_t total) {
      progress.update(static_cast<std::int64_t>(done), static_cast<std::int64_t>(total));
      if (!common_.budget.is_over()) return;
      progress.clear();
      if (!kept) common_.budget.stop();
      end_early(common_.budget,
                "the same command goes on after " + std::to_string(done) + " of " + std::to_string(total) + " samples");
    };
    found_ = engine_labels(dataset_, samples_, load_catalog(common_), on_progress, kept ? &*kept : nullptr,
                           program_identity());
  }
  return *found_;
}

AnyPredictor::AnyPredictor(const std::filesystem::path& folder) {
  const std::string file = (folder / "model.pt").string();
  const TorchValue state = load_torch_file(file);
  if (state.at("network", file).text(file) == "corrected")
    corrected_.emplace(state, file);
  else
    network_ = load_network(state, file);
}

std::vector<PredictedMetrics> AnyPredictor::predict(const Dataset& dataset, std::span<const std::size_t> samples,
                                                    EngineOnDemand& engine) {
  std::vector<PredictedMetrics> predictions;
  if (corrected_) {
    for (std::size_t i = 0; i < samples.size(); ++i)
      predictions.push_back(corrected_->correct(engine.get().labels[i], engine.get().traits[i]));
    return predictions;
  }
  const LabelPrediction unknown{std::nan(""), std::nan(""), std::nan("")};
  std::vector<std::size_t> told, places;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    predictions.push_back({.labels = std::vector<LabelPrediction>(dataset.labels.size(), unknown)});
    const Sample& sample = dataset.samples[samples[i]];
    if (network_->needs_step() && sample.step.empty()) continue;
    told.push_back(samples[i]);
    places.push_back(i);
  }
  std::vector<PredictedMetrics> found = network_->predict(dataset, told);
  for (std::size_t i = 0; i < told.size(); ++i) predictions[places[i]] = std::move(found[i]);
  return predictions;
}

void require_units(AnyPredictor& predictor, const std::filesystem::path& folder) {
  if (predictor.network() != nullptr && !predictor.network()->has_units())
    throw InputError{folder.string() +
                     ": predicts shares of the largest labels that it was taught, which its file does not have: train "
                     "--transfer-from teaches it labels with units, to compare with"};
}

void add_cautions(const std::string& predictor, std::span<const PredictedMetrics> predictions,
                  std::vector<std::string>& warnings) {
  std::map<std::string, std::size_t> cautions;
  for (const PredictedMetrics& prediction : predictions)
    if (!prediction.caution.empty()) ++cautions[prediction.caution];
  for (const auto& [caution, count] : cautions)
    warnings.push_back(predictor + ": " + std::to_string(count) + (count == 1 ? " prediction" : " predictions") +
                       " may not hold: " + caution);
}

}  // namespace rehearse
