#pragma once
// What a monitor would show of a step that is repeated.

#include <vector>

#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// Work of a resource, spread evenly over its time: seconds of a GPU, bytes.
struct ShownWork {
  double start = 0, end = 0;  // seconds from the beginning of the step
  double amount = 0;
};

struct ShownSteps {
  double period = 0;  // seconds from the beginning of a step to that of the next
  std::vector<ShownWork> gpu, memory, received, transmitted;
};

/// The labels (label_names()) of the steps one after another, as many as the scenario records, sampled at its period
/// (find_bursts()).
std::vector<double> shown_labels(const ShownSteps& steps, const Scenario& scenario);

}  // namespace rehearse
