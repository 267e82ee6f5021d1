#pragma once
// How long one all-reduce takes, and what it sends, without simulating a run.

#include <vector>

#include "sim/scenario/scenario.hpp"
#include "sim/scenario/site.hpp"

namespace rehearse {

/// Time of one all-reduce of all the model's gradients, or of the single collective that the model is, as one message,
/// among all GPUs of the workers, while
/// nothing else uses the network. It is what simulate() takes for a step without compute and host time
/// (collective_time_test.cpp), from the same plan and in closed form (collective.hpp); where messages wait for answers
/// (rendezvous.hpp), the median of 101 that are simulated. Throws InputError if the
/// strategy is not all-reduce.
Seconds collective_time(const Scenario& scenario);
/// The same of one message of `payload`.
Seconds collective_time(const Scenario& scenario, Bytes payload);

/// Time of a broadcast of `payload` from the first of these GPUs to the others, while nothing else uses the network.
Seconds broadcast_time(const Site& site, const std::vector<Endpoint>& gpus, Bytes payload);

/// What leaves the first worker's machine over its NICs in a step: its part of the all-reduces of all gradients, each
/// unit by itself. Throws InputError if the strategy is not all-reduce.
Bytes bytes_leaving_first_machine(const Scenario& scenario);
/// The same of one all-reduce of `payload`.
Bytes bytes_leaving_first_machine(const Scenario& scenario, Bytes payload);

}  // namespace rehearse
