#include "sim/scenario/scenario_warnings.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>
#include <variant>

#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/base/utc_time.hpp"
#include "sim/scenario/idle_keys.hpp"
#include "sim/scenario/kernel_plan.hpp"
#include "sim/scenario/peak_speed.hpp"
#include "sim/scenario/server_range.hpp"
#include "sim/scenario/step_time.hpp"
#include "sim/scenario/work.hpp"
#include "workloads/model_blocks.hpp"

namespace rehearse {

namespace {

/// Those of standby groups come only for others.
int workers_without_standby(const Scenario& scenario) {
  int sum = 0;
  for (const Group& group : scenario.groups)
    if (!group.is_standby) sum += group.workers();
  return sum;
}

void warn_about_spot(Scenario& scenario) {
  for (const Group& group : scenario.groups)
    if (group.market == Market::kSpot && group.colocated_with < 0 && !group.pool && !group.replay)
      scenario.warnings.push_back("group " + in_quotes(group.name) +
                                  " is on the spot market without a \"spot_pool\": its price applies, but none of "
                                  "its machines is revoked");
}

void warn_about_pools(Scenario& scenario, const PoolOrigins& pool_origins, bool has_start) {
  for (const auto& [g, origin] : pool_origins) {
    const Group& group = scenario.groups[g];
    const std::string difference = describe_difference(
        origin, group.accelerator ? group.accelerator->name : "", group.zone,
        has_start ? std::optional{utc_text(scenario.start_utc.value()).substr(0, 10)} : std::nullopt);
    if (!difference.empty())
      scenario.warnings.push_back("spot pool " + in_quotes(group.pool->name) + " of group " + in_quotes(group.name) +
                                  " was fitted elsewhere: used for " + difference +
                                  "; Kolmogorov-Smirnov distances between lifetimes of zones are 0.1 to 0.7");
  }
}

void warn_about_steady_state(Scenario& scenario) {
  if (has_steady_state(scenario)) return;
  const Training& training = scenario.training;
  scenario.warnings.push_back(std::to_string(training.steps) + " steps are too few for a steady state of " +
                              std::to_string(scenario.count(Role::kWorker)) + " workers with " +
                              std::to_string(training.warmup_steps) +
                              " warm-up steps each: speeds are means over the whole run");
}

/// A step is of fewer samples than the workers compute.
void warn_about_backup_workers(Scenario& scenario) {
  const int late = backup_workers(scenario);
  if (late == 0) return;
  const std::int64_t workers = number_of(full_cluster(scenario));
  const std::int64_t needed = needed_workers(workers, late);
  const auto samples = std::to_string(std::llround(samples_per_update(scenario)));
  const std::int64_t batch = samples_per_step(scenario, scenario.first_workers());
  scenario.warnings.push_back(
      "backup workers: of " + std::to_string(workers) + " workers the gradients of " + std::to_string(needed) +
      " make a step, which has " +
      (has_unequal_batches(scenario) ? "" : std::to_string(needed) + " x " + std::to_string(batch) + " = ") + samples +
      " samples; those of the others are dropped and count nowhere: compare by samples/s, not by steps/s");
}

/// Times of layers do not change with the GPU.
void warn_about_measured_gpu(Scenario& scenario) {
  const auto* timed = std::get_if<TimedLayers>(&scenario.model.structure);
  if (timed == nullptr || timed->gpu.empty()) return;
  std::set<std::string> named;
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker && group.accelerator && group.accelerator->name != timed->gpu &&
        named.insert(group.accelerator->name).second)
      scenario.warnings.push_back("the times of model " + in_quotes(scenario.model.name) + " are those of GPU " +
                                  shortened(timed->gpu) + ": they count as they are on " + group.accelerator->name);
}

void warn_about_range(Scenario& scenario) {
  const Profile& profile = scenario.profile;
  if (profile.fitted_models.empty() || profile.kernels) return;  // kernels are for what has not been fitted
  const auto warn = [&](const std::string& what) {
    scenario.warnings.push_back("outside of what profile " + in_quotes(profile.name) + " was fitted on: " + what);
  };
  const auto contains = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const bool is_modelled = !scenario.workload.is_whole_step;  // otherwise nothing of GPUs and hosts is the profile's
  std::set<std::string> named;
  for (const Group& group : scenario.groups)
    if (is_modelled && group.accelerator && !contains(profile.fitted_accelerators, group.accelerator->name) &&
        named.insert(group.accelerator->name).second)
      warn("GPU " + group.accelerator->name + " (fitted: " + joined(profile.fitted_accelerators) + ")");
  if (is_modelled && !contains(profile.fitted_models, scenario.model.name))
    warn("model " + in_quotes(scenario.model.name));
  std::set<int> batches;
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker) batches.insert(group.batch);
  for (const int batch : batches)
    if (is_modelled && (batch < profile.fitted_batch_min || batch > profile.fitted_batch_max))
      warn("batch " + std::to_string(batch) + " (fitted: " + std::to_string(profile.fitted_batch_min) + " to " +
           std::to_string(profile.fitted_batch_max) + ")");
  if (const int workers = workers_without_standby(scenario); workers > profile.fitted_workers_max)
    warn(std::to_string(workers) + " workers (fitted: up to " + std::to_string(profile.fitted_workers_max) + ")");
  if (scenario.count(Role::kParameterServer) > profile.fitted_servers_max)
    warn(std::to_string(scenario.count(Role::kParameterServer)) + " parameter servers (fitted: up to " +
         std::to_string(profile.fitted_servers_max) + ")");
}

void widen_beyond_servers(Scenario& scenario) {
  const std::vector<Substitute> beyond = beyond_fitted_servers(scenario);
  scenario.profile.uncertainty.widen(beyond);
  for (const Substitute& each : beyond) scenario.warnings.push_back(each.text);
}

/// Frameworks differ in what they compute in TF32 by default, and so in what fp32 means.
void warn_about_tf32(Scenario& scenario) {
  if (scenario.precision != Precision::kFp32 || !scenario.profile.kernels || scenario.workload.is_whole_step) return;
  const bool uses_tf32 = scenario.profile.framework(scenario.framework).uses_tf32;
  std::set<std::string> named;
  for (const Group& group : scenario.groups) {
    if (group.role != Role::kWorker || !(group.accelerator->peak_tf32 > FlopsPerSecond{}) ||
        !named.insert(group.accelerator->name).second)
      continue;
    scenario.warnings.push_back(
        uses_tf32 ? "framework " + in_quotes(scenario.framework) + " multiplies fp32 in TF32 on " +
                        group.accelerator->name + ", as profile " + in_quotes(scenario.profile.name) + " says"
                  : "precision fp32 multiplies without matrix units on " + group.accelerator->name +
                        ": TensorFlow by default multiplies in TF32 there, and PyTorch convolutions, which is "
                        "\"precision\": \"tf32\"");
  }
}

/// Of no framework, or of a PyTorch of which the profile has no more than of PyTorch of any version: "PyTorch Lightning", "torch 2.4".
bool may_be_pytorch_2(const Scenario& scenario) {
  const std::string& label = scenario.framework;
  if (label.empty()) return true;
  if (label.find("torch") == std::string::npos && label.find("Torch") == std::string::npos) return false;
  const std::string name = framework_name(scenario.profile.frameworks, label);
  return name == "PyTorch" || name == "otherwise";
}

/// What profiles have of frameworks in common is of recipes of 2017 to 2022, most of which updated variables one by one, as PyTorch
/// did before version 2. Nobody who names no framework, or PyTorch alone, has said that theirs does.
void warn_about_updates(Scenario& scenario) {
  if (!may_be_pytorch_2(scenario) || scenario.optimizer_implementation || !why_no_update_kernels(scenario).empty() ||
      std::ranges::all_of(scenario.groups, [](const Group& group) {
        return group.role != Role::kWorker || group.accelerator->architecture == kernels::kProcessorArchitecture;
      }))
    return;
  const auto dispatch = [&](std::optional<OptimizerImplementation> implementation) {
    return update_kernels(scenario.optimizer, scenario.profile.framework(scenario.framework), implementation).dispatch;
  };
  const Seconds each = dispatch({});
  if (each < dispatch(OptimizerImplementation::kForeach) * 2) return;
  const int variables = scenario.workload.trainable_tensors();
  scenario.warnings.push_back(
      "the optimizer is taken to update " + std::to_string(variables) + " variables one by one, " + to_text(each) +
      " of the host for each, as recipes of 2017 to 2022 did; PyTorch updates many at once since "
      "version 2: \"optimizer_implementation\": \"foreach\" in the workload says so");
}

/// The unit of what is sharded is a block where there are blocks.
void warn_about_units(Scenario& scenario) {
  if (scenario.training.strategy.exchange.by_blocks && model_blocks(scenario.workload).names.empty())
    scenario.warnings.push_back("model " + in_quotes(scenario.model.name) +
                                " has no blocks that repeat by the names of its variables: what is sharded goes in "
                                "units of 25 MiB; \"bucket_size\" in the strategy states another size");
}

/// Links between machines that the catalog does not describe: what crosses them goes over NICs here.
void warn_about_links(Scenario& scenario) {
  std::set<std::string> named;
  for (const Group& group : scenario.groups)
    if (const std::string& left_out = group.interconnect.leaves_out;
        group.role == Role::kWorker && scenario.count(Role::kWorker) > group.workers_per_machine() &&
        !left_out.empty() && named.insert(left_out).second)
      scenario.warnings.push_back("interconnect " + in_quotes(group.interconnect.name) + " leaves out " + left_out +
                                  ": what goes between machines takes their NICs");
}

/// Sockets do not always use fast NICs.
void warn_about_transport(Scenario& scenario) {
  const Instance& instance = scenario.first_workers().instance;
  if (scenario.prediction_kind.place == ExchangePlace::kCluster &&
      scenario.prediction_kind.exchange > ExchangeFrom::kFitted && !instance.transport &&
      instance.all_nics() > kOneSocketRate)
    scenario.warnings.push_back(
        "instance " + in_quotes(instance.name) + " does not say whether its NICs of " + to_text(instance.all_nics()) +
        " carry RDMA, which is simulated, or TCP, which may use a fifth of them: \"transport\"");
}

/// A server uses the NIC of the number of the GPU at the other end.
void warn_about_nics_of_servers(Scenario& scenario) {
  int gpus = 0;
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker) gpus = std::max(gpus, group.instance.accelerators);
  for (const Group& group : scenario.groups)
    if (group.role == Role::kParameterServer && group.colocated_with < 0 && group.instance.nics > gpus)
      scenario.warnings.push_back("of the " + std::to_string(group.instance.nics) + " NICs of a server of group " +
                                  in_quotes(group.name) + " " + std::to_string(gpus) +
                                  " are used, since GPU i of a worker's machine exchanges with NIC i; where they are "
                                  "bonded, state one of the sum of their rates");
}

/// What of TCP is stated and counts only where packets are lost.
void warn_about_tcp(Scenario& scenario) {
  const TcpParameters& tcp = scenario.tcp;
  const TcpParameters usual;
  const auto counts = [](const TcpParameters& of) {
    return std::tuple{of.segment,        of.minimum_timeout, of.timer_granularity, of.duplicate_acks,
                      of.initial_window, of.recovery,        of.congestion,        of.connections};
  };
  if (!scenario.loses_packets() && counts(tcp) != counts(usual))
    scenario.warnings.emplace_back(
        "what /cluster/network/tcp states changes nothing, since no packets are lost (\"packet_loss\"): windows that "
        "grow, and limits of a connection that several share, are not modelled otherwise");
}

/// Of groups of workers in one cluster.
void warn_about_step_sources(Scenario& scenario) {
  std::set<std::string> sources;
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker && group.colocated_with < 0) sources.insert(to_text(step_source(scenario, group)));
  if (std::string warning = source_warning(sources, 1, 1); !warning.empty())
    scenario.warnings.push_back("groups of workers: " + std::move(warning));
}

/// A stated step is of one GPU that has the whole model.
void warn_about_stated_steps(Scenario& scenario) {
  for (const Group& group : scenario.groups) {
    if (!group.step_time) continue;
    const std::string what = "\"step_time\" of group " + in_quotes(group.name);
    const ModelDescription& model = scenario.model;
    const Pipeline* pipeline = scenario.training.strategy.kind->pipeline();
    const bool is_shared = model.split.degree > 1 || model.context.degree() > 1 || model.expert_split.degree > 1 ||
                           (pipeline != nullptr && pipeline->stages > 1);
    if (is_shared)
      scenario.warnings.push_back(what +
                                  " is taken for that of one GPU that has the whole model and a batch by itself, which "
                                  "several GPUs have together here");
    const double speed = group.batch / group.step_time->time.value();
    if (const double peak = peak_samples_per_s(scenario, group) * group.gpus_per_worker; speed > peak)
      scenario.warnings.push_back(what + ", " + to_text(group.step_time->time) + ", is shorter than " +
                                  to_text(Seconds{group.batch / peak}) + " of arithmetic at the GPU's peak in " +
                                  computed_in(scenario) +
                                  ": no step of this model, batch and precision takes so little");
  }
}

/// b_w is a mean of the groups' batches.
void warn_about_convergence(Scenario& scenario) {
  if (!scenario.training.target || !scenario.training.target->loss) return;
  const Convergence& model = *scenario.convergence;
  const auto warn = [&](const std::string& what) {
    scenario.warnings.push_back("outside of what the convergence model was fitted on: " + what);
  };
  std::set<int> named;
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker &&
        (group.batch < model.weighted_batch.first || group.batch > model.weighted_batch.second) &&
        named.insert(group.batch).second)
      warn("batch " + std::to_string(group.batch) + " (fitted: " + to_text(model.weighted_batch.first) + " to " +
           to_text(model.weighted_batch.second) + ")");
  const int workers = workers_without_standby(scenario);
  if (workers < model.workers.first || workers > model.workers.second)
    warn(std::to_string(workers) + " workers (fitted: " + std::to_string(model.workers.first) + " to " +
         std::to_string(model.workers.second) + ")");
}

}  // namespace

void warn_about(Scenario& scenario, const PoolOrigins& pool_origins, const JsonReader& root) {
  warn_about_spot(scenario);
  warn_about_pools(scenario, pool_origins, root.child("cluster").has("start"));
  warn_about_steady_state(scenario);
  warn_about_backup_workers(scenario);
  warn_about_measured_gpu(scenario);
  warn_about_range(scenario);
  widen_beyond_servers(scenario);
  warn_about_tf32(scenario);
  warn_about_updates(scenario);
  warn_about_units(scenario);
  for (std::string& warning : scenario.training.strategy.kind->warnings(scenario))
    scenario.warnings.push_back(std::move(warning));
  warn_about_nics_of_servers(scenario);
  warn_about_tcp(scenario);
  warn_about_links(scenario);
  warn_about_transport(scenario);
  warn_about_convergence(scenario);
  warn_about_step_sources(scenario);
  warn_about_stated_steps(scenario);
  for (std::string& sentence : idle_keys(root, scenario)) scenario.warnings.push_back(std::move(sentence));
  for (std::string& sentence : exceeded_host_memory(scenario)) scenario.warnings.push_back(std::move(sentence));
}

}  // namespace rehearse
