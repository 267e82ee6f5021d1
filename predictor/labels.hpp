#pragma once
// What a dataset says of a cluster, and of a run on it.

#include <string>
#include <vector>

#include "sim/pool/job_text.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// Names of DatasetSetting::descriptor, in this order; values are those of the first group of workers, in SI units:
///   gpu_peak_flops, gpu_memory_bandwidth_Bps, gpu_memory_B, multiprocessors   of one GPU, at the workload's precision
///   peak_efficiency, memory_efficiency, kernel_overhead_s, reduction_half, winograd_gain, dispatch_s, step_overhead_s
///                                                                             of the profile
///   workers, worker_machines, gpus_per_machine, servers, is_colocated, server_cores
///   nic_Bps, server_nic_Bps, pcie_Bps       payload rate of the NICs of a machine; of one with servers; of one GPU
///   latency_s, flow_Bps                     one way between two machines; of one connection at most
///   server_time_per_variable_s, ..._per_byte_s, ..._per_update_s, ..._per_split_update_s
///   server_split_update_threshold_B         above which that is paid
///   is_asynchronous, is_synchronous, is_stale_synchronous, is_all_reduce, is_pairwise_averaging     one of them is 1
///   is_round_robin, is_greedy_by_bytes, is_sharded                                                  with servers
///   sampling_period_s, window_steps         of the profile; steps of each worker after the warm-up
///   all_reduce_latency_s, all_reduce_s_per_byte   of n bytes: latency + n * the second, by the times of nothing and of
///                                                 64 MiB (sim/training/collective_time.hpp); 0 of other strategies
///   bucket_B, cycle_s, overlaps_backward          of the exchange of gradients; 0: there are no buckets, no cycles
///   other_batch_workers, other_batch_ratio  how many have another batch than the first, and theirs over its; 0, 1
///   joining_workers, joins_at_s, leaving_workers, leaves_at_s    how many join and leave, and when; 0, 0
///   all_reduce_sent_ratio   bytes that leave the first machine for each of an all-reduce, by that of 64 MiB; 0 in one machine
///   gradient_bytes_ratio    of what is sent for a gradient over the variable's bytes: 0.5 if it goes in half precision
///   partition_B, first_bucket_B, is_by_priority, overlaps_forward    of the exchange of gradients; 0: not so
///   accumulation_steps      batches whose gradients are added up before they are exchanged
///   staleness_bound, backup_workers    of parameter servers; 0 of others, and of those without bound
///   server_machines, gpus_per_worker         machines that servers are on; GPUs that share the batch of a worker
///   fabric_load_ratio       how much busier than the busiest NIC the busiest link between switches is, if all workers and
///                           servers exchange alike; 1 with one switch, and without servers
///   other_workers, other_worker_machines     of another kind than the first (are_alike() in undescribed.hpp), and what of them differs:
///   other_gpus_per_machine, other_gpu_peak_flops, other_gpu_memory_bandwidth_Bps, other_multiprocessors,
///   other_peak_efficiency, other_kernel_overhead_s, other_dispatch_s, other_step_overhead_s, other_nic_Bps,
///   other_pcie_Bps          as of the first, the number of GPUs their mean; 0: there are none
///   is_described    1 unless undescribed() (undescribed.hpp) names something that changes labels and is none of these
/// Where a step time of the profile holds for the scenario (sim/scenario/step_time.hpp), or kernels take what the profile's
/// formulas say (sim/scenario/kernel_plan.hpp), the GPU's two rates are lower, and the overheads higher, by what stretches
/// the step to it; step_overhead_s includes the update of the workers.
const std::vector<std::string>& descriptor_names();
std::vector<double> descriptor_of(const Scenario& scenario);

/// node_features_of() the workload of one of the first GPUs; input_bytes is 0 if a step does not copy its samples to the GPU.
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

/// The verb that gives simulate_labels() of a scenario, as a JSON array.
extern const Verb kLabels;

}  // namespace rehearse
