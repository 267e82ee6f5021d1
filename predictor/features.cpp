#include "predictor/features.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/random.hpp"

namespace rehearse {

namespace {

constexpr double kLeastSeconds = 1e-12;  // seconds

float scaled_log(double x) { return static_cast<float>(std::log(std::max(x, 0.0) + 1e-6) / 3 + 2); }

bool is_duration(const std::string& label) { return label.ends_with("_s"); }
bool is_share(const std::string& label) { return label.ends_with("_peak"); }

/// A label as a total: relative to the step, to the rate of the links, or a share as it is.
float shown_as_total(const std::string& label, double shown, double unit, double rate) {
  if (is_share(label)) return static_cast<float>(shown);
  return static_cast<float>(std::log(shown / (is_duration(label) ? unit : rate) + 1e-4));
}

float total_of(const StepTotal& total, double value, double unit) {
  switch (total.unit) {
    case StepTotal::Unit::kSeconds:
      return static_cast<float>(total.is_mechanism && value == 0 ? 0 : std::log(value / unit + 1e-5));
    case StepTotal::Unit::kAmount:
      return static_cast<float>(std::log1p(value));
    case StepTotal::Unit::kPlain:
      break;
  }
  return static_cast<float>(value);
}

/// Gives edges other ends, the same for the same step.
void shuffle(NodeLinks& edges) {
  Rng random{1, "shuffled edges"};
  for (std::size_t i = edges.size(); i > 1; --i) std::swap(edges[i - 1].second, edges[random.below(i)].second);
}

void add_nodes(const DescribedStep& step, double unit, SampleFeatures& features) {
  for (const StepNode& node : step.nodes) {
    features.kinds.push_back(node.kind);
    features.part.push_back(node.part);
    features.resource.push_back(node.resource);
    const double place = (node.part + 0.5) / static_cast<double>(kStepParts), angle = 6.2831853 * place;
    const auto log_of = [&](std::size_t cost) { return scaled_log(node.costs[cost] / unit); };
    features.nodes.insert(features.nodes.end(),
                          {static_cast<float>(std::log1p(node.costs[0])), log_of(1), log_of(2),
                           static_cast<float>(std::log1p(node.costs[3]) / 10), log_of(4), log_of(6),
                           static_cast<float>(std::log1p(node.costs[7])), static_cast<float>(place),
                           static_cast<float>(std::sin(angle)), static_cast<float>(std::cos(angle))});
  }
  for (const StepLoad& load : step.loads)
    for (const float seconds : load.seconds) features.resources.push_back(scaled_log(seconds / unit));
  for (const auto& [from, to] : step.edges) features.flow.emplace_back(from, to);
}

}  // namespace

FeatureReader::FeatureReader(const Dataset& dataset, Ablation ablation) : ablation_{ablation}, labels_{dataset.labels} {
  if (labels_ != label_names()) throw InputError{"the dataset's labels are not those of this program"};
  for (const StepTotal& total : step_totals()) names_.emplace_back(total.name);
  for (const char* pace : {"alone", "at once", "in the mean"})
    for (const std::string& label : labels_) names_.push_back(label + " " + pace);
  for (std::size_t r = 0; r < kStepResources; ++r)
    for (const char* of : {"own load of resource ", "load of resource ", "longest at resource "})
      names_.push_back(of + std::to_string(r));
  for (std::size_t l = 0; l < kBurstLabels; ++l) names_.push_back("shows " + labels_[l]);
  names_.emplace_back("expected step");
}

SampleFeatures FeatureReader::read(const Dataset& dataset, const Sample& sample) const {
  const std::string& name = dataset.graphs[static_cast<std::size_t>(sample.graph)].name;
  if (sample.step.empty())
    throw InputError{"the graph " + in_quotes(name) +
                     ": nothing says what its step is: only a scenario has one; networks of groups take graphs alone"};
  const DescribedStep step = described_step(sample.step, "the graph " + in_quotes(name));
  const bool has_shown = ablation_ != Ablation::kBounds;
  const std::vector<double>& shown = step.shown[static_cast<std::size_t>(Pace::kMean)];
  const auto step_time =
      static_cast<std::size_t>(std::find(labels_.begin(), labels_.end(), "step_time_s") - labels_.begin());
  const double period = std::max(shown[step_time], kLeastSeconds), unit = has_shown ? period : 1;
  SampleFeatures features;
  add_nodes(step, unit, features);
  if (ablation_ == Ablation::kEdges) shuffle(features.flow);
  const auto& timelines = step.timelines;
  const double part = period / static_cast<double>(kStepParts);
  for (std::size_t p = 0; p < kStepParts; ++p)
    for (const StepTimeline& timeline : timelines)
      for (const float seconds : timeline[p])
        features.timeline.push_back(static_cast<float>(std::min(seconds / part, 10.0)));
  const std::span<const StepTotal> totals = step_totals();
  double rate = 1;  // of the links
  for (std::size_t t = 0; t < totals.size(); ++t) {
    features.totals.push_back(total_of(totals[t], step.totals[t], unit));
    if (totals[t].name == std::string_view{"port_B"}) rate = std::max(1.0, step.totals[t] / period);
    if (totals[t].name == std::string_view{"window_steps"}) features.window_steps = step.totals[t];
  }
  for (const std::vector<double>& labels : step.shown)
    for (std::size_t l = 0; l < labels_.size(); ++l)
      features.totals.push_back(has_shown ? shown_as_total(labels_[l], labels[l], unit, rate) : 0.0F);
  features.totals.insert(features.totals.end(), features.resources.begin(), features.resources.end());
  for (std::size_t l = 0; l < kBurstLabels; ++l) features.totals.push_back(has_shown && shown[l] > 0 ? 1.0F : 0.0F);
  features.totals.push_back(has_shown ? static_cast<float>(std::log(period)) : 0.0F);
  for (std::size_t l = 0; l < labels_.size(); ++l) {
    const double other = is_duration(labels_[l]) ? unit : is_share(labels_[l]) ? 0.5 : rate;
    const double expected = has_shown && shown[l] > 0 ? shown[l] : other;
    features.bases.push_back(is_share(labels_[l]) ? std::clamp(expected, 0.002, 0.998) : expected);
    features.limits.push_back(is_share(labels_[l]) ? 1 : 0);
  }
  return features;
}

}  // namespace rehearse
