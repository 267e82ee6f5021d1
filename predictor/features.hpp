#pragma once
// What our own network is told about a sample: its operators, what each of them would cost in the setting if nothing
// else were there, and the setting.

#include <span>
#include <string>
#include <vector>

#include "predictor/dataset.hpp"

namespace rehearse {

/// Columns of SampleFeatures::costs: seconds that an operator takes alone, before anything learns.
///   kernel, memory  kernel_time() on the setting's GPU: all of it, and its part in which memory is busy
///   host            the larger of kernel and the host's dispatch
///   transfer        an update's variable between the chief and another machine (in a cluster of one machine: over a
///                   GPU's link), once in each direction and step; of all-reduces half of the time that one of the
///                   variable takes beyond its latencies
///   server          an update's variable on a core of a server, for one worker
///   own             transfer for all workers of other machines, if the chief's machine has the variable's server
///   busiest         the same, if the machine whose servers hold the most bytes has it
inline constexpr std::size_t kCosts = 7;

/// Sizes are logarithms: ln(1 + x) of counts and bytes, ln of times and rates.
struct SampleFeatures {
  std::vector<float> nodes;   // [operators, node inputs]
  std::vector<float> costs;   // [operators, kCosts] seconds
  std::vector<float> totals;  // [total inputs] sums over the operators, the first guess, the setting's descriptor
  std::vector<double> guess;  // [labels] sketch_metrics()
  double window_s = 0;        // guess of the time over which the metrics are taken
  /// The value that each label cannot exceed, in its unit: 1 for shares, the rate of the links for rates;
  /// 0: no bound.
  std::vector<double> bounds;  // [labels]
};

/// Whether a total of this name is one of the sketch's labels.
bool is_of_sketch(const std::string& total_name);

/// Turns samples of datasets with given columns into features.
class FeatureReader {
 public:
  /// Throws InputError if `dataset` lacks a column that is needed.
  explicit FeatureReader(const Dataset& dataset);

  std::size_t node_inputs() const;
  std::size_t total_inputs() const { return total_names_.size(); }
  const std::vector<std::string>& total_names() const { return total_names_; }

  /// Throws InputError if a row of a graph can be no operator, or a setting no cluster: a file may hold any numbers.
  void check(const Dataset& dataset) const;
  SampleFeatures read(const Dataset& dataset, const Sample& sample) const;

 private:
  enum class Bound { kNone, kOne, kLink };
  std::vector<std::string> total_names_;
  std::vector<std::size_t> needed_;  // positions in the descriptor
  std::vector<Bound> bounds_;        // [labels]
};

}  // namespace rehearse
