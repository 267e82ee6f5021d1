#pragma once
// What a dataset says of a run: the labels of a sample, each with its name and its place.

#include <string>
#include <utility>
#include <vector>

#include "predictor/dataset.hpp"

namespace rehearse {

/// Synchronous workers of which two cycles of steps tell the others; of more the first two hardly ever do the same.
inline constexpr int kLongestCycle = 4;

/// Driple's three metrics of a resource: mean lengths of its gaps and of its bursts, mean of their largest samples.
struct BurstLabels {
  double idle_s = kUnknown, active_s = kUnknown;
  double peak = kUnknown;  // a share; of receive and transmit, bytes per second
};

/// Labels of one run; what is not known is NaN.
struct RunLabels {
  BurstLabels memory, gpu, receive, transmit;
  double step_time_s = kUnknown;
  double receive_mean_bytes_per_s = kUnknown, transmit_mean_bytes_per_s = kUnknown;
};

/// The labels of Sample::labels, each with its name, in their order.
inline std::vector<std::pair<std::string, double>> named_labels(const RunLabels& labels) {
  std::vector<std::pair<std::string, double>> named;
  const auto add = [&](const std::string& resource, const BurstLabels& bursts, const std::string& unit_of_peak) {
    named.emplace_back(resource + "_idle_s", bursts.idle_s);
    named.emplace_back(resource + "_active_s", bursts.active_s);
    named.emplace_back(resource + "_peak" + unit_of_peak, bursts.peak);
  };
  add("memory", labels.memory, "");
  add("gpu", labels.gpu, "");
  add("receive", labels.receive, "_Bps");
  add("transmit", labels.transmit, "_Bps");
  named.emplace_back("step_time_s", labels.step_time_s);
  named.emplace_back("receive_mean_Bps", labels.receive_mean_bytes_per_s);
  named.emplace_back("transmit_mean_Bps", labels.transmit_mean_bytes_per_s);
  return named;
}

inline std::vector<double> values_of(const RunLabels& labels) {
  std::vector<double> values;
  for (const auto& [name, value] : named_labels(labels)) values.push_back(value);
  return values;
}

}  // namespace rehearse
