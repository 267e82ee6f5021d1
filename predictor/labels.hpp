#pragma once
// What a dataset says of a run.

#include <string>
#include <vector>

#include "sim/pool/job_text.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// node_features_of() the workload of one of the first GPUs.
std::vector<float> node_features_of(const Scenario& scenario);

/// Simulates the scenario. Its labels, in the order of label_names(), are those of the chief's machine, the first one
/// with workers. The twelve burst metrics and the mean rates are those of resource_profile(), step_time_s is
/// Summary::iteration_time. In a cluster of one machine, whose NIC carries nothing, received is what the GPUs receive
/// over their links (variables, samples, other GPUs' gradients), transmitted what they send. Throws
/// NoResultError, also if the steps are over before a sample of the series is.
///
/// Synchronous steps are simulated until two cycles of them have done the same, and then extended
/// (sim/record/repeated_steps.hpp).
std::vector<double> simulate_labels(const Scenario& scenario);

/// The verb that gives simulate_labels() of a scenario as `labels`, and numbers_of() its step as `step`.
extern const Verb kLabels;

}  // namespace rehearse
