#include "sim/scenario/work.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/scenario/rank_grid.hpp"
#include "workloads/expert_loads.hpp"

namespace rehearse {

std::int64_t number_of(const WorkerCounts& workers) {
  return std::accumulate(workers.begin(), workers.end(), std::int64_t{});
}

namespace {

constexpr std::int64_t kMostBatch = 65536;     // of a larger share, as of any worker
constexpr std::int64_t kMostPasses = 100'000;  // of a step

std::int64_t sum_of_steps(const Scenario& scenario, const WorkerCounts& workers) {
  std::int64_t sum = 0;
  for (std::size_t g = 0; g < workers.size(); ++g)
    if (workers[g] > 0) sum += workers[g] * samples_per_step(scenario, scenario.groups[g]);
  return sum / workers_per_model(scenario);
}

bool keeps_global_batch(const Scenario& scenario) {
  return scenario.training.smaller_cluster != SmallerCluster::kKeepsBatchPerWorker;
}

/// a b / c, rounded up.
std::int64_t scaled(std::int64_t a, std::int64_t b, std::int64_t c) {
  const double exact = static_cast<double>(a) * static_cast<double>(b) / static_cast<double>(c);
  return static_cast<std::int64_t>(std::ceil(exact * (1 - 1e-12)));
}

int share_of_gpu(const Group& group, std::int64_t batch) {
  return static_cast<int>((batch + group.gpus_per_worker - 1) / group.gpus_per_worker);
}

/// The group with `batch` samples for each GPU.
Group with_batch_of_gpu(const Scenario& scenario, const Group& group, int batch) {
  Group other = group;
  other.batch = batch * group.gpus_per_worker;
  other.workload = std::make_shared<const Workload>(
      build_workload(scenario.model, batch, scenario.precision, "larger share of " + scenario.model.name));
  return other;
}

}  // namespace

WorkerCounts full_cluster(const Scenario& scenario) {
  WorkerCounts workers, all;
  for (const Group& group : scenario.groups) {
    all.push_back(group.workers());
    workers.push_back(group.is_there_from_the_start() ? group.workers() : 0);
  }
  return number_of(workers) > 0 ? workers : all;
}

RankGrid rank_grid(const Scenario& scenario) {
  std::vector<RankGrid::Degree> axes = scenario.training.strategy.kind->model_axes();
  const int likes = scenario.count(Role::kWorker) / workers_per_model(scenario);
  const CollectiveRules* rules = scenario.training.strategy.kind->collectives();
  const int of_samples = scenario.model.context.degree();  // which share states, too
  const int sharing = rules != nullptr && rules->shard_group > 0 ? rules->shard_group / of_samples : likes;
  axes.push_back({Axis::kData, sharing});
  axes.push_back({Axis::kReplica, likes / sharing});
  const std::vector<Axis> order = scenario.training.strategy.kind->rank_order();
  std::ranges::stable_sort(
      axes, {}, [&](const RankGrid::Degree& degree) { return std::ranges::find(order, degree.axis) - order.begin(); });
  return RankGrid{axes};
}

RankGrid expert_grid(const Scenario& scenario) {
  const ExpertSplit& split = scenario.model.expert_split;
  const int stages = rank_grid(scenario).degree(Axis::kPipeline), degree = std::max(split.degree, 1);
  const int likes = scenario.count(Role::kWorker) / (stages * split.tensor * degree);
  const bool is_by_stages = scenario.training.strategy.kind->rank_order().back() == Axis::kPipeline;
  std::vector<RankGrid::Degree> axes{{Axis::kTensor, split.tensor},
                                     {Axis::kExperts, degree / split.machines},
                                     {Axis::kExpertMachines, split.machines},
                                     {Axis::kData, likes}};
  axes.insert(is_by_stages ? axes.end() : axes.begin() + 1, {Axis::kPipeline, stages});
  return RankGrid{axes};
}

int workers_per_model(const Scenario& scenario) { return scenario.training.strategy.kind->workers_per_model(); }

std::int64_t samples_of_pass(const Scenario& scenario, int workers_per_model) {
  std::int64_t samples = 0;
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker) samples += std::int64_t{group.batch} * group.workers();
  return samples / workers_per_model;
}

bool has_whole_grid(const Scenario& scenario) {
  const int workers = scenario.count(Role::kWorker), of_model = workers_per_model(scenario);
  const CollectiveRules* rules = scenario.training.strategy.kind->collectives();
  return workers % of_model == 0 && (rules == nullptr || rules->shard_group == 0 ||
                                     workers / of_model * scenario.model.context.degree() % rules->shard_group == 0);
}

int sharing_gpus(const Scenario& scenario) {
  int gpus = 0;
  for (const Group& group : scenario.groups) gpus += group.workers() * group.gpus_per_worker;
  return gpus / workers_per_model(scenario) * scenario.model.context.degree() /
         rank_grid(scenario).degree(Axis::kReplica);
}

int sharing_gpus_of_experts(const Scenario& scenario) {
  return scenario.model.expert_split.degree > 0 ? expert_grid(scenario).degree(Axis::kData) : sharing_gpus(scenario);
}

double update_weight(const Scenario& scenario, const Variable& variable) {
  return variable.parts_of_experts == 0
             ? 1
             : static_cast<double>(sharing_gpus(scenario)) / sharing_gpus_of_experts(scenario);
}

double updated_bytes(const Scenario& scenario, const std::vector<Variable>& variables) {
  double sum = 0;
  for (const Variable& variable : variables)
    if (variable.is_trainable) sum += as_double(variable.bytes) * update_weight(scenario, variable);
  return sum;
}

Group with_expert_gpu(const Scenario& scenario, const Group& group, int gpu) {
  Group own = group;
  ModelDescription model = scenario.model;
  model.expert_split.gpu = gpu;
  own.workload = std::make_shared<const Workload>(build_workload(
      model, scenario.workload_of(group).batch, scenario.precision, "experts of worker " + std::to_string(gpu + 1)));
  return own;
}

double mean_fullest_load(const Scenario& scenario) {
  const auto& net = std::get<Transformer>(scenario.model.structure);
  double sum = 0;
  int layers = 0;
  for (int layer = 0; layer < net.layers; ++layer) {
    if (!net.experts.are_in(layer)) continue;
    ++layers;
    sum += std::ranges::max(
        ExpertLoads{scenario.model.expert_split, {net.experts.count, net.experts.per_token, layer}}.of_gpus);
  }
  return sum / layers;
}

void rebuild_workloads(Scenario& scenario, const std::string& place) {
  const auto build = [&](int batch) { return build_workload(scenario.model, batch, scenario.precision, place); };
  for (Group& group : scenario.groups)
    if (group.workload) group.workload = std::make_shared<const Workload>(build(group.workload->batch));
  scenario.workload = build(scenario.workload.batch);
}

bool has_regular_steps(const Scenario& scenario) {
  const Training& training = scenario.training;
  return training.step_time_variation == 0 && !training.checkpoint && !training.strategy.exchange.cycle_time &&
         !scenario.has_links_with_memory();
}

int backup_workers(const Scenario& scenario) { return scenario.training.strategy.server_rules().backup_workers; }

std::int64_t samples_per_step(const Scenario& scenario, const Group& group) {
  return std::int64_t{group.batch} * scenario.training.strategy.exchange.accumulation_steps;
}

int passes_of_part(const Scenario& scenario, int microbatches) {
  const Pipeline* pipeline = scenario.training.strategy.kind->pipeline();
  return pipeline == nullptr ? microbatches : microbatches / pipeline->copies();
}

int passes_of_part(const Scenario& scenario) {
  return passes_of_part(scenario, scenario.training.strategy.exchange.accumulation_steps);
}

double samples_per_update(const Scenario& scenario, const WorkerCounts& workers) {
  const std::int64_t number = number_of(workers);
  if (number == 0) return 0;
  const auto sum = static_cast<double>(sum_of_steps(scenario, workers)), n = static_cast<double>(number);
  if (!scenario.training.strategy.is_synchronous()) return sum / n;
  if (keeps_global_batch(scenario) && workers != full_cluster(scenario)) return samples_per_update(scenario);
  return std::round(sum * static_cast<double>(needed_workers(number, backup_workers(scenario))) / n);
}

double samples_per_update(const Scenario& scenario) { return samples_per_update(scenario, full_cluster(scenario)); }

bool has_unequal_batches(const Scenario& scenario) {
  const int batch = scenario.first_workers().batch;
  return std::any_of(scenario.groups.begin(), scenario.groups.end(),
                     [batch](const Group& group) { return group.role == Role::kWorker && group.batch != batch; });
}

std::int64_t target_samples(const Scenario& scenario) {
  const auto& target = scenario.training.target;
  const std::int64_t all = scenario.training.samples;
  if (!target || !target->samples || *target->samples >= static_cast<double>(all)) return all;
  return static_cast<std::int64_t>(std::ceil(*target->samples));
}

void set_steps(Scenario& scenario, std::int64_t steps) {
  constexpr double kMost = 9e18;  // more than a scenario may have
  scenario.training.steps = steps;
  const double samples = static_cast<double>(steps) * samples_per_update(scenario);
  scenario.training.samples = static_cast<std::int64_t>(std::min(std::ceil(samples * (1 - 1e-15)), kMost));
}

void set_samples(Scenario& scenario, std::int64_t samples) {
  scenario.training.samples = samples;
  const double steps = static_cast<double>(samples) / samples_per_update(scenario);
  scenario.training.steps = static_cast<std::int64_t>(std::ceil(steps * (1 - 1e-15)));
}

std::vector<StepShare> step_shares(const Scenario& scenario, const WorkerCounts& workers) {
  const int passes = scenario.training.strategy.exchange.accumulation_steps;
  std::vector<StepShare> shares;
  for (const Group& group : scenario.groups) shares.push_back({group.batch, passes});
  const WorkerCounts full = full_cluster(scenario);
  if (!keeps_global_batch(scenario) || workers == full || number_of(workers) == 0) return shares;
  const std::int64_t all = sum_of_steps(scenario, full), own = sum_of_steps(scenario, workers);
  for (std::size_t g = 0; g < shares.size(); ++g) {
    if (workers[g] == 0) continue;
    if (scenario.training.smaller_cluster == SmallerCluster::kAccumulates) {
      const std::int64_t more = scaled(passes, all, own);
      if (more > kMostPasses)
        throw scenario.no_result(RunError{"/training/smaller_cluster",
                                          "with " + std::to_string(number_of(workers)) + " workers each of group " +
                                              in_quotes(scenario.groups[g].name) + " adds up " + std::to_string(more) +
                                              " batches in a step, more than " + std::to_string(kMostPasses)});
      shares[g].passes = static_cast<int>(more);
      continue;
    }
    const Group& group = scenario.groups[g];
    const std::int64_t batch = scaled(group.batch, all, own);
    if (batch > kMostBatch)
      throw scenario.no_result(
          RunError{"/training/smaller_cluster", "GPU memory exceeded: with " + std::to_string(number_of(workers)) +
                                                    " workers the share of each of group " + in_quotes(group.name) +
                                                    " is " + std::to_string(batch) + " samples"});
    shares[g].batch = share_of_gpu(group, batch) * group.gpus_per_worker;
  }
  return shares;
}

std::vector<std::int64_t> split_samples(std::int64_t samples, const std::vector<std::int64_t>& weights) {
  double all = 0, so_far = 0;
  for (const std::int64_t weight : weights) all += static_cast<double>(weight);
  std::vector<std::int64_t> parts;
  std::int64_t given = 0;
  for (const std::int64_t weight : weights) {
    so_far += static_cast<double>(weight);
    const auto until =
        so_far == all ? samples
                      : static_cast<std::int64_t>(std::floor(static_cast<double>(samples) * (so_far / all) + 1e-6));
    parts.push_back(until - given);
    given = until;
  }
  return parts;
}

Group with_batch(const Scenario& scenario, const Group& group, int batch, std::int64_t workers) {
  Group other = with_batch_of_gpu(scenario, group, batch / group.gpus_per_worker);
  const Bytes needed = gpu_memory_needed(scenario, other);
  if (needed > group.accelerator->memory)
    throw scenario.no_result(RunError{
        "/training/smaller_cluster",
        "GPU memory exceeded: with " + std::to_string(workers) + " workers the share of each of group " +
            in_quotes(group.name) + " is " + std::to_string(batch) + " samples, which need " + gibibytes(needed) +
            " on " + with_article(group.accelerator->name) + ", which has " + gibibytes(group.accelerator->memory)});
  return other;
}

bool may_leave_full_cluster(const Scenario& scenario) {
  return scenario.has_changing_membership() || scenario.has_revocations();
}

std::int64_t fewest_workers_for_shares(const Scenario& scenario) {
  const std::int64_t all = number_of(full_cluster(scenario));
  std::int64_t fewest = 1;
  for (const Group& group : scenario.groups) {
    if (group.role != Role::kWorker) continue;
    const int own = group.batch / group.gpus_per_worker;
    const auto fits = [&](std::int64_t batch) {
      return gpu_memory_needed(scenario, with_batch_of_gpu(scenario, group, static_cast<int>(batch))) <=
             group.accelerator->memory;
    };
    std::int64_t low = own, high = std::min(kMostBatch, own * all) + 1;  // low fits, high is too much
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (fits(middle) ? low : high) = middle;
    }
    fewest = std::max(fewest, scaled(own, all, low));
  }
  return fewest;
}

std::string gibibytes(Bytes bytes) {
  const auto hundredths = std::llround(gib(bytes) * 100);
  const std::string rest = std::to_string(hundredths % 100);
  return std::to_string(hundredths / 100) + (rest.size() == 1 ? ".0" : ".") + rest + " GiB";
}

}  // namespace rehearse
