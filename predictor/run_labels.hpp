#pragma once
// What a dataset says of a run: the labels of a sample, each with its name and its place.

#include <array>
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

struct RunLabel {
  const char* name;
  double (*value)(const RunLabels&);
};

/// The labels of Sample::labels, in their order.
inline constexpr std::array kRunLabels{
    RunLabel{"memory_idle_s", [](const RunLabels& l) { return l.memory.idle_s; }},
    RunLabel{"memory_active_s", [](const RunLabels& l) { return l.memory.active_s; }},
    RunLabel{"memory_peak", [](const RunLabels& l) { return l.memory.peak; }},
    RunLabel{"gpu_idle_s", [](const RunLabels& l) { return l.gpu.idle_s; }},
    RunLabel{"gpu_active_s", [](const RunLabels& l) { return l.gpu.active_s; }},
    RunLabel{"gpu_peak", [](const RunLabels& l) { return l.gpu.peak; }},
    RunLabel{"receive_idle_s", [](const RunLabels& l) { return l.receive.idle_s; }},
    RunLabel{"receive_active_s", [](const RunLabels& l) { return l.receive.active_s; }},
    RunLabel{"receive_peak_Bps", [](const RunLabels& l) { return l.receive.peak; }},
    RunLabel{"transmit_idle_s", [](const RunLabels& l) { return l.transmit.idle_s; }},
    RunLabel{"transmit_active_s", [](const RunLabels& l) { return l.transmit.active_s; }},
    RunLabel{"transmit_peak_Bps", [](const RunLabels& l) { return l.transmit.peak; }},
    RunLabel{"step_time_s", [](const RunLabels& l) { return l.step_time_s; }},
    RunLabel{"receive_mean_Bps", [](const RunLabels& l) { return l.receive_mean_bytes_per_s; }},
    RunLabel{"transmit_mean_Bps", [](const RunLabels& l) { return l.transmit_mean_bytes_per_s; }}};

inline std::vector<double> values_of(const RunLabels& labels) {
  std::vector<double> values;
  for (const RunLabel& label : kRunLabels) values.push_back(label.value(labels));
  return values;
}

}  // namespace rehearse
