#include "predictor/study_weights.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

namespace rehearse {

std::vector<double> study_factors(const Dataset& dataset, std::span<const std::size_t> samples,
                                  const std::function<double(const Sample&)>& weight_of) {
  std::map<std::string, double> weights;  // by study
  double rest = 0;                        // of studies that keep their weight, and of samples of none
  for (const std::size_t s : samples) {
    const Sample& sample = dataset.samples[s];
    if (sample.origin == Origin::kSimulated) continue;
    const std::string& study = study_of(dataset, sample);
    if (!study.empty()) weights[study] += weight_of(sample);
    rest += weight_of(sample);
  }
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [study, weight] : weights) order.emplace_back(weight, study);
  std::ranges::sort(order, std::ranges::greater{});
  std::map<std::string, double> factors;
  double limit = kLargestStudy * rest;
  if (static_cast<double>(order.size()) * kLargestStudy >= 1)
    for (const auto& [weight, study] : order) {
      if (weight <= limit) break;
      rest -= weight;
      factors[study] = weight;
      limit = rest / (1 / kLargestStudy - static_cast<double>(factors.size()));
    }
  for (auto& [study, factor] : factors) factor = limit / factor;
  std::vector<double> found;
  for (const std::size_t s : samples) {
    const auto factor = factors.find(study_of(dataset, dataset.samples[s]));
    found.push_back(factor == factors.end() ? 1 : factor->second);
  }
  return found;
}

void limit_studies(Dataset& dataset, std::span<const std::size_t> samples) {
  const std::vector<double> factors = study_factors(dataset, samples, [](const Sample& sample) {
    const auto known = std::ranges::count_if(sample.labels, [](double label) { return !std::isnan(label); });
    return sample.weight * static_cast<double>(known);
  });
  for (std::size_t i = 0; i < samples.size(); ++i) dataset.samples[samples[i]].weight *= factors[i];
}

}  // namespace rehearse
