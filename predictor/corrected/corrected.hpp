#pragma once
// The engine, times what measured jobs say of its errors.

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "predictor/corrected/residuals.hpp"
#include "predictor/dataset.hpp"
#include "predictor/engine_labels.hpp"
#include "predictor/predicted_metrics.hpp"
#include "predictor/torch_file.hpp"

namespace rehearse {

/// For each label of which enough was measured, corrected = simulated * exp(mean residual) (residuals.hpp). A mean rate
/// is a step's bytes over its time: without residuals of its own it is divided by the correction of the step time.
/// Where nothing of its study was measured it is the engine, with the interval that its errors have elsewhere.
class CorrectedEngine {
 public:
  static constexpr std::size_t kLeastResiduals = 20;  // of a label

  /// From the measured ones of `samples`, of which the engine says `engine`. Throws InputError if no label has enough.
  CorrectedEngine(const Dataset& dataset, std::span<const std::size_t> samples, const EngineLabels& engine);
  /// From state(). Throws InputError, "where: ...".
  CorrectedEngine(const TorchValue& state, const std::string& where);
  TorchValue state() const;

  PredictedMetrics correct(const std::vector<double>& simulated, const JobTraits& job) const;
  /// By label, those that have residuals.
  std::vector<std::pair<std::string, std::size_t>> counts() const;

 private:
  struct OfLabel {
    ResidualModel model;
    std::array<double, kCoverages.size()> quantiles{};
  };
  std::vector<std::string> labels_;
  std::map<std::size_t, OfLabel> of_;  // by label
};

/// How the errors of one study fall with rows of it: engine and corrected engine on rows of which neither was told.
struct StudyCurve {
  std::string study;
  std::size_t rows = 0, models = 0;
  struct Point {
    std::size_t added = 0;                 // rows of the study, chosen by chance
    double engine = 0, corrected = 0;      // mean over models of the mean APE, in percent
    double ratio_low = 0, ratio_high = 0;  // 90 % of corrected / engine, of paired bootstrap over rows
    double covered = 0;                    // share of rows in the interval of 90 %
    /// Choices (choices.hpp) among rows that were not added, of as many samples in a step.
    double questions = 0;
    double regret_by_chance = 0, regret_engine = 0, regret_corrected = 0;  // means over them
  };
  std::vector<Point> points;
};

/// Of the step time, each study of `least` rows or more left out: variances and all are found from the others; then 0, 10
/// and 30 rows of its own are added, at most half of them. Mean of three choices; the same for the same seed.
std::vector<StudyCurve> left_out_studies(const Dataset& dataset, std::span<const std::size_t> samples,
                                         const EngineLabels& engine, std::size_t least, std::uint64_t seed);

}  // namespace rehearse
