#pragma once
// The numbers that a study can compare with measurements.

#include <optional>
#include <string>

#include "sim/pool/job_text.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// The number that the scenario has under `metric`: a key of summary.json, from a simulation, which can be done once in
/// a process; a number of the NICs of the first worker's machine at the scenario's sampling period, as bursts.csv has
/// them, from a simulation too:
///   nic_{receive,transmit}_mean_Bps, ..._peak_Bps    rate; mean over bursts of the largest sample
///   nic_{receive,transmit}_active_s, ..._idle_s      mean duration of a burst, of a gap
/// or one of these, which need none:
///   collective_time_s        one all-reduce of all gradients (sim/training/collective_time.hpp)
/// or, about the first group of workers:
///   gpu_memory_bytes         that a GPU of the fullest group needs at the most (sim/scenario/gpu_memory.hpp)
///   gpu_memory_allocated_bytes   the same without the driver's context, as frameworks count what they have allocated
///   gpu_memory_allocated_first_stage_bytes   the same of the first stage of a pipeline, as ranks that log their own count it
///   memory_fits              1 if it has so much, else 0: of a scenario whose "memory_check" is "warn"
///   checkpoint_time_s        pause for one checkpoint; its parts checkpoint_write_time_s, checkpoint_upload_time_s
///   startup_time_s           from request to running; its parts startup_{provisioning,staging,booting}_time_s
///   startup_framework_{cold,warm}_time_s   from there to the first step, on a machine where the framework has not, or
///                            has run before
///   transfer_rate_Bps        payload rate of one connection between the first two machines, alone on the network
///   transfer_time_s          a message of the workload's parameters' size there; transfer_timeout_share: of such
///                            messages where packets are lost, those that wait for a timer (calibration/transfer.hpp)
///   kernel_time_s            GPU time of the workload's first kernel
///   kernel_gap_s             GPU time of a kernel besides its work
///   dispatch_time_s          host time of an operator
///   step_overhead_s          host time of a step in which nothing else works
/// Or, of traces that are replayed on the scenario, one of replayed_metric.hpp.
/// Start-up and transfer times are means, or the quantile at `probability`; other metrics have no quantiles. Throws InputError if
/// there is no such number.
double simulated_metric(const Scenario& scenario, const std::string& metric, std::optional<double> probability = {});

/// Throws InputError, with the names that are near or known, unless the scenario has a metric of this name.
void check_metric(const Scenario& scenario, const std::string& metric);

/// The verb that gives simulated_metric() as text. Options: "metric", "probability", "traces" (the path of a trace or a
/// folder of them, for what is replayed), and "steps" instead of the scenario's.
extern const Verb kMeasure;

/// Whether more of `metric` is better: what happens in a second.
bool is_rate(const std::string& metric);

/// Whether `metric` says how fast something is: a time or a rate, not a size or a share.
bool is_speed(const std::string& metric);

/// Whether `metric` is one of those that need no simulation.
bool is_closed_form(const std::string& metric);

/// The part of a profile file's value on which a closed form depends, as text.
std::string profile_used_by(const std::string& metric, const Json& profile);

}  // namespace rehearse
