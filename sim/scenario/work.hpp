#pragma once
// How much a job has to do, in samples, and what a step of some of its workers does of it.

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// The keys of a scenario's "training" that state the size of the job; a scenario has one of them.
inline constexpr std::array<const char*, 4> kJobSizes{"steps", "steps_per_worker", "samples", "epochs"};

/// [groups] workers that take part.
using WorkerCounts = std::vector<std::int64_t>;
std::int64_t number_of(const WorkerCounts& workers);

/// Workers of the groups that are there from the start: the steps that a scenario states are steps of theirs.
WorkerCounts full_cluster(const Scenario& scenario);

/// Workers that hold the model together, such as the stages of a pipeline.
int workers_per_model(const Scenario& scenario);

/// Samples of one batch of all workers, of which so many hold the model together and share theirs.
std::int64_t samples_of_pass(const Scenario& scenario, int workers_per_model);

/// Whether the workers are whole models, and their likes whole groups that share states: rank_grid() takes it for granted, and
/// scenarios are read so; a copy with other workers, or another strategy, need not be so.
bool has_whole_grid(const Scenario& scenario);

/// GPUs that have the same variables, and of which each keeps a part with sharding: all, those of a stage, or a group of these.
int sharing_gpus(const Scenario& scenario);
/// The same of experts that are spread over GPUs.
int sharing_gpus_of_experts(const Scenario& scenario);
/// What a GPU updates of the variable where the optimizer is sharded, by its share of the variables that all of them have.
double update_weight(const Scenario& scenario, const Variable& variable);
/// Bytes of those that are trained, each with its weight.
double updated_bytes(const Scenario& scenario, const std::vector<Variable>& variables);

/// The group with the workload of this one of the GPUs that have other loads of experts each (ExpertSplit::gpu).
Group with_expert_gpu(const Scenario& scenario, const Group& group, int gpu);

/// Of GPUs that have other loads of experts each, the fullest one's tokens by the mean, in the mean of the layers with experts.
double mean_fullest_load(const Scenario& scenario);

/// Builds all workloads anew, once their model has changed. Throws InputError, which begins with `place`.
void rebuild_workloads(Scenario& scenario, const std::string& place);

/// Whether nothing tells one step from another but what the cluster is like when it begins: no noise, no checkpoints, no
/// cycles of the clock, no links that remember.
bool has_regular_steps(const Scenario& scenario);

/// Workers whose gradients may be dropped in a synchronous step.
int backup_workers(const Scenario& scenario);

/// Workers for which a step waits if so many are there, of whom some may be late: at least for one.
constexpr std::int64_t needed_workers(std::int64_t present, std::int64_t late) {
  return std::max<std::int64_t>(1, present - late);
}

/// Samples of one step of a worker of the group, or of a pipeline of them: its batch, accumulation_steps times.
std::int64_t samples_per_step(const Scenario& scenario, const Group& group);

/// Samples that one update of these workers counts. Synchronous: b_i samples of each worker i, or of each pipeline, of
/// which u of n are used, the needed_workers(),
///   sum b_i u / n,   or that of the full cluster if smaller_cluster keeps it;
/// otherwise the mean of b_i.
double samples_per_update(const Scenario& scenario, const WorkerCounts& workers);
/// The same of the full cluster.
double samples_per_update(const Scenario& scenario);

/// Samples of the target, if it states them and the job has so many; else of the job.
std::int64_t target_samples(const Scenario& scenario);

/// The job is so many updates of the full cluster, or so many samples.
void set_steps(Scenario& scenario, std::int64_t steps);
void set_samples(Scenario& scenario, std::int64_t samples);

/// Whether groups of workers have different batches: then the mean of an asynchronous update depends on their speeds.
bool has_unequal_batches(const Scenario& scenario);

/// What one worker does in a step.
struct StepShare {
  int batch = 0;   // of one pass, of all its GPUs together
  int passes = 1;  // forward and backward, before gradients are exchanged
};

/// [groups] steps of these workers. With G the samples of the full cluster's step and S those that these workers
/// have in one of their own, "larger_shares" gives each a batch of G / S times its own, "accumulates" G / S times its
/// passes, both rounded up.
std::vector<StepShare> step_shares(const Scenario& scenario, const WorkerCounts& workers);

/// `samples` among workers in proportion to their weights, to the sample.
std::vector<std::int64_t> split_samples(std::int64_t samples, const std::vector<std::int64_t>& weights);

/// The group with another batch, where its workers are some of `workers` in all. Throws NoResultError if that is too
/// much for a GPU's memory.
Group with_batch(const Scenario& scenario, const Group& group, int batch, std::int64_t workers);

/// Whether a membership other than the full cluster's may come to train.
bool may_leave_full_cluster(const Scenario& scenario);

/// The fewest workers of which each has memory for its larger share, groups in proportion; 1 if one is enough.
std::int64_t fewest_workers_for_shares(const Scenario& scenario);

/// Passes through each part of the model that a worker holds, in a step of so many micro-batches: all of them, or its share where
/// there are several copies of the model.
int passes_of_part(const Scenario& scenario, int microbatches);
int passes_of_part(const Scenario& scenario);

inline double gib(Bytes bytes) { return as_double(bytes) / (1024.0 * 1024 * 1024); }
/// "3.05 GiB".
std::string gibibytes(Bytes bytes);

}  // namespace rehearse
