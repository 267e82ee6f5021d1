#pragma once
// What our own network is told about a sample: the compiled step (described_step.hpp) in relation to how long it is expected to take.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "predictor/dataset.hpp"
#include "predictor/described_step.hpp"

namespace rehearse {

inline constexpr std::size_t kNodeInputs = 10;                  // logarithms of StepNode::costs, place in the step
inline constexpr std::size_t kResourceInputs = 3;               // logarithms of StepLoad
inline constexpr std::size_t kTimelineInputs = 2 * kPartLoads;  // of both timelines

/// From one node to another, by their indices.
using NodeLinks = std::vector<std::pair<std::int32_t, std::int32_t>>;

struct SampleFeatures {
  std::vector<std::int32_t> kinds;     // [nodes]
  std::vector<float> nodes;            // [nodes, kNodeInputs]
  std::vector<std::int32_t> part;      // [nodes] of the step in which it ends
  std::vector<std::int32_t> resource;  // [nodes] that it needs
  std::vector<float> resources;        // [kStepResources, kResourceInputs]
  NodeLinks flow;                      // node -> node that waits for it
  std::vector<float> timeline;         // [kStepParts, kTimelineInputs] shares of a part's length
  std::vector<float> totals;  // [total_names()] logarithms of sums, of what the steps would show, and of the setting
  /// What each label is expected to be, before anything is learnt: what would be shown of steps on resources as busy as they
  /// will be; of what would not be shown the length of a step, or 1. [labels]
  std::vector<double> bases;
  std::vector<double> limits;  // [labels] that a label cannot exceed: 1 of shares; 0: none
  double window_steps = 0;
};

/// What is kept from the network, to see what it was good for.
enum class Ablation {
  kNone,
  kEdges,   // the ends of all edges are shuffled
  kRounds,  // no messages along edges
  kBounds   // nothing of what idle resources would show: times are relative to a second
};

/// Turns samples of datasets with given labels into features.
class FeatureReader {
 public:
  explicit FeatureReader(const Dataset& dataset, Ablation ablation = Ablation::kNone);

  std::size_t total_inputs() const { return names_.size(); }
  const std::vector<std::string>& total_names() const { return names_; }
  /// Whether a total says how much of something a job has that others do without, and is 0 of those.
  bool is_mechanism(std::size_t total) const {
    return total < step_totals().size() && step_totals()[total].is_mechanism;
  }

  /// Throws InputError for a sample without step (Sample::step), or with numbers that are none.
  SampleFeatures read(const Dataset& dataset, const Sample& sample) const;

 private:
  Ablation ablation_;
  std::vector<std::string> labels_, names_;
};

}  // namespace rehearse
