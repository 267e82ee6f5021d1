#include "predictor/scoring.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "predictor/merge.hpp"
#include "sim/base/statistics.hpp"

namespace rehearse {

namespace {

constexpr double kShareOfMedian = 0.01;

/// 1 % of the median of a label over all samples of each setting: [settings].
std::vector<double> scales_of(const Dataset& dataset, std::size_t label) {
  std::vector<std::vector<double>> values(dataset.settings.size());
  for (const Sample& sample : dataset.samples)
    if (!std::isnan(sample.labels[label]))
      values[static_cast<std::size_t>(sample.setting)].push_back(sample.labels[label]);
  std::vector<double> scales;
  for (const std::vector<double>& of_setting : values)
    scales.push_back(of_setting.empty() ? 0 : kShareOfMedian * median(of_setting));
  return scales;
}

/// 1 - sum of squared errors / sum of squared deviations; 0 where the labels do not vary, beyond rounding.
double determination(std::span<const double> labels, std::span<const double> predictions) {
  const double middle = mean(labels);
  double errors = 0, deviations = 0, squares = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    errors += std::pow(labels[i] - predictions[i], 2);
    deviations += std::pow(labels[i] - middle, 2);
    squares += std::pow(labels[i], 2);
  }
  return deviations > 1e-12 * squares ? 1 - errors / deviations : 0;
}

}  // namespace

Score score(const Dataset& dataset, std::span<const std::size_t> samples,
            std::span<const std::vector<double>> predictions) {
  Score result;
  std::size_t bursts = 0;  // known labels of them; they come first
  for (std::size_t l = 0; l < dataset.labels.size(); ++l) {
    const std::vector<double> scales = scales_of(dataset, l);
    LabelScore of_label{.label = dataset.labels[l]};
    std::vector<double> errors, labels, predicted;
    std::map<std::pair<std::string, std::string>, std::vector<double>> of_models;  // and studies
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const Sample& sample = dataset.samples[samples[i]];
      const double label = sample.labels[l];
      if (!is_observed(dataset, sample, l) || std::isnan(predictions[i][l])) continue;
      const double scale = scales[static_cast<std::size_t>(sample.setting)];
      const double off = std::abs(predictions[i][l] - label);
      if (label < scale || label == 0) ++of_label.on_scale;
      const double unit = std::max(label, scale);
      errors.push_back(unit > 0 ? 100 * off / unit : off > 0 ? 100.0 : 0.0);
      const std::string_view model = model_of(dataset.graphs[static_cast<std::size_t>(sample.graph)].name);
      of_models[{std::string{model}, study_of(dataset, sample)}].push_back(errors.back());
      labels.push_back(label);
      predicted.push_back(predictions[i][l]);
    }
    if (errors.empty()) continue;
    of_label.samples = errors.size();
    of_label.median_ape = median(errors);
    of_label.mape = mean(errors);
    of_label.p90_ape = percentile(errors, 90);
    of_label.r2 = determination(labels, predicted);
    of_label.models = of_models.size();
    for (const auto& [model, of_model] : of_models) {
      of_label.by_model_ape += median(of_model) / static_cast<double>(of_models.size());
      of_label.by_model_mape += mean(of_model) / static_cast<double>(of_models.size());
    }
    if (l < kBurstLabels) ++bursts;
    result.on_scale += of_label.on_scale;
    result.labels.push_back(std::move(of_label));
  }
  const std::size_t counted = bursts > 0 ? bursts : result.labels.size();
  for (std::size_t l = 0; l < counted; ++l) {
    const LabelScore& of_label = result.labels[l];
    result.median_ape += of_label.median_ape / static_cast<double>(counted);
    result.r2 += of_label.r2 / static_cast<double>(counted);
    result.by_model_ape += of_label.by_model_ape / static_cast<double>(counted);
    result.mape += of_label.mape / static_cast<double>(counted);
    result.by_model_mape += of_label.by_model_mape / static_cast<double>(counted);
    result.samples = std::max(result.samples, of_label.samples);
    result.models = std::max(result.models, of_label.models);
    result.worst_median_ape = std::max(result.worst_median_ape, of_label.median_ape);
  }
  return result;
}

}  // namespace rehearse
