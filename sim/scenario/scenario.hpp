#pragma once
// A scenario with every name resolved and every default filled in: what simulate() runs.

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "platforms/accelerator.hpp"
#include "platforms/catalog.hpp"
#include "platforms/collective_algorithm.hpp"
#include "platforms/fleet_trace.hpp"
#include "platforms/instance.hpp"
#include "platforms/machine_faults.hpp"
#include "platforms/messaging.hpp"
#include "platforms/prediction_kind.hpp"
#include "platforms/price.hpp"
#include "platforms/profile.hpp"
#include "platforms/region_link.hpp"
#include "platforms/spot_pool.hpp"
#include "platforms/tcp.hpp"
#include "platforms/topology.hpp"
#include "sim/base/json.hpp"
#include "sim/base/json_origins.hpp"
#include "sim/base/named.hpp"
#include "sim/base/units.hpp"
#include "sim/scenario/electricity.hpp"
#include "sim/scenario/input_pipeline.hpp"
#include "sim/scenario/states.hpp"
#include "sim/scenario/strategy.hpp"
#include "workloads/convergence.hpp"
#include "workloads/model_zoo.hpp"
#include "workloads/operator_graph.hpp"

namespace rehearse {

enum class Role { kWorker, kParameterServer };
enum class Market { kOnDemand, kSpot };

/// Time of a step of one worker that exchanges nothing, and the limit of its GPUs' power then, W; 0: the board's own.
struct MeasuredStep {
  Seconds time{};
  double power_limit_w = 0;
};

/// `count` identical machines. A worker drives `gpus_per_worker` of its machine's GPUs: each takes an equal part of the
/// worker's batch, is sent the variables, and sends its gradients, which the host adds up. A colocated group of
/// parameter servers has no machines of its own: server i runs on machine i, modulo their number, of the group that it
/// shares.
struct Group {
  std::string name;
  std::string place;  // "scenario.json: /cluster/groups/1", for messages
  Role role = Role::kWorker;
  Instance instance;
  std::optional<Accelerator> accelerator;  // always there for workers
  Interconnect interconnect;
  int count = 1;
  std::string region;
  Market market = Market::kOnDemand;
  int colocated_with = -1;                   // index of the other group
  Seconds joins_at{};                        // when its workers begin to train
  std::optional<Seconds> leaves_at;          // when they end the step that they are in and leave
  std::optional<SpotPool> pool;              // from which its machines are revoked; none: they stay
  std::string zone;                          // machines of one zone and pool share bulk revocations
  bool is_standby = false;                   // its machines are requested only to replace others
  std::optional<int> replaced_by;            // index of the group that replaces a revoked machine; often its own
  Seconds replacement_delay{};               // from the revocation to the request
  std::optional<bool> requests_at_notice;    // counted from the notice instead; not stated: if recovery uses it
  std::shared_ptr<const FleetTrace> replay;  // what happened to its machines, instead of a pool
  Seconds replay_notice{};
  std::optional<MachineFaults> faults;  // of its machines; none: they do not fail of themselves
  Bytes disk{};                         // of each machine, besides its price
  std::optional<StoragePrice> disk_price;
  /// Machines one after another whose GPUs are on one NVSwitch (Interconnect::nvlink_domain); 1: those of a machine by themselves.
  int machines_per_domain = 1;
  int gpus_per_worker = 1;
  std::optional<double> power_limit_w;       // of each GPU; none: the board's own
  std::optional<MeasuredStep> step_time;     // instead of the profile's
  int batch = 0;                             // samples of one worker in one step
  std::shared_ptr<const Workload> workload;  // of one GPU; null: the scenario's

  int workers_per_machine() const { return role == Role::kWorker ? instance.accelerators / gpus_per_worker : 0; }
  int workers() const { return count * workers_per_machine(); }
  bool is_lost_by_chance() const { return pool || replay || faults; }
  bool is_there_from_the_start() const { return joins_at == Seconds{} && !is_standby; }
};

/// Copies that every machine keeps of its part in its own memory and in that of another one: machines in pairs, one after
/// another. Lost where both are lost before the next copy.
struct MemoryCheckpointing {
  std::int64_t every_steps = 0;  // one of the two rules
  std::optional<Seconds> every;
};

/// Who writes stops training for CheckpointTimes::stall.
struct Checkpointing {
  std::int64_t every_steps = 0;          // one of the three rules: this,
  std::optional<Seconds> every;          // a time from the beginning of one to that of the next,
  bool is_young_daly = false;            // or young_daly_interval() of the cluster's revocations
  bool pauses_all = false;               // the other workers wait for the chief
  bool is_on_disk = false;               // of the chief's machine, and lost with it; else in remote storage
  std::optional<CheckpointStage> stage;  // none: the profile's times
  bool is_by_machines = false;           // each machine writes its part, at the stage's rate; else the chief writes all
  std::optional<BytesPerSecond> storage_rate;  // of all that write at a time; none: no limit
  bool is_asynchronous = false;                // training goes on once states are copied to the hosts
  std::optional<BytesPerSecond> copy_rate;     // of one GPU to its host; none: its PCIe
  std::optional<MemoryCheckpointing> in_memory;
};

/// sqrt(2 C M): C the time of a checkpoint, M the mean time between revocations that cost the work since the last one.
/// Source: Young, Comm. ACM 17(9), 1974; Daly, Future Generation Computer Systems 22(3), 2006, first order.
Seconds young_daly_interval(Seconds checkpoint, Seconds between_failures);

/// What the job does when machines are revoked.
struct Recovery {
  enum class LostWorker {
    kContinue,  // the others do not need it (asynchronous)
    kShrink,    // the others go on without it, once they have noticed
    kWait,      // until as many workers are there as before
    kRestart,   // from the last checkpoint, once as many are there as before
  };
  enum class LostChief {
    kHandOver,  // another worker writes checkpoints
    kRestart,   // none is written until its machine is back; then the job restarts from the last one
  };
  /// What happens when workers join, or leave by themselves.
  enum class Change {
    kAtOnce,  // the others go on; newcomers get the variables meanwhile
    kRendezvous,  // after their step all stop for restart_time, then one broadcasts variables and optimizer state: Horovod Elastic
    kRestart,  // all restart from the last checkpoint: TorchElastic
  };
  LostWorker lost_worker = LostWorker::kContinue;
  Change change = Change::kAtOnce;  // not stated: all-reduces restart if a lost worker makes them, else a rendezvous
  /// It is stated, so that a loss costs what it does, too, after the timeout; else a loss costs what lost_worker says alone.
  bool changes_on_loss = false;
  LostChief lost_chief = LostChief::kHandOver;
  Seconds timeout{30};  // until the others notice that one is lost
  /// From the decision to restart until the first step, besides reading the checkpoint; of a rendezvous until the broadcast.
  Seconds restart_time{20};
  bool uses_notice = false;  // who is given notice ends its step and leaves
  /// With fewer the job waits; not stated: 1, or as many as there were before for kWait and kRestart.
  std::optional<int> minimum_workers;
  std::optional<Seconds> give_up_after;  // the run has no result if it takes longer
};

/// Machines are planned anew once some are given notice or lost, as spotDNN does, section IV: the cheapest that do what is left by
/// the deadline. Candidates are the groups of workers, each with at most `count` machines.
struct Replanning {
  Seconds deadline{};          // of the job, counted from its start
  Seconds takeover{30};        // that plans with newcomers are expected to take longer
  double margin = 0;           // share of the time that is left by which plans are to be early
  Seconds planning_time{0.2};  // from the first notice or loss to the requests
  bool releases = false;       // machines that train may be given back; else each plan keeps them
};

/// A standby server is requested where all workers together do fewer updates than the sum of each alone, as CM-DARE does. The
/// job restarts when it is there.
struct ServerAddition {
  int group = 0;             // of servers, standby
  Seconds warmup{30};        // after each change of who trains, before
  Seconds window{30};        // the window in which updates are counted
  double threshold = 0.067;  // share of the sum that may be missing
};

/// The batch of synchronous workers follows the gradient's noise scale phi, in samples, as Pollux has it: of the whole multiples of
/// batch_per_worker up to `largest` that one is used with which the machines that are there come forward fastest. m samples of a
/// step are worth as much as
///   m (phi + m_0) / (phi + m)
/// of the full cluster's steps, which have m_0: noise is averaged out twice. Source: Qiao et al., Pollux, OSDI 2021, equation 7;
/// McCandlish et al., arXiv:1812.06162.
struct ElasticBatch {
  struct Phase {
    double from = 0;  // share of the job's samples
    double noise_scale = 0;
  };
  int largest = 0;  // samples of a worker's pass; more than it has memory for are not tried
  std::vector<Phase> phases;
};

/// Rules that change the machines of a job under way, or its batch: sim/job/control.hpp.
struct Control {
  std::optional<Replanning> replan;
  std::optional<ServerAddition> add_servers;
  std::optional<ElasticBatch> elastic_batch;

  bool changes_machines() const { return replan || add_servers; }
};

enum class Optimizer { kSgd, kMomentum, kAdam };

/// Their words, the default first.
inline constexpr std::array kOptimizers{Named{"momentum", Optimizer::kMomentum}, Named{"sgd", Optimizer::kSgd},
                                        Named{"adam", Optimizer::kAdam}};
inline constexpr std::array kPrecisions{Named{"fp32", Precision::kFp32}, Named{"tf32", Precision::kTf32},
                                        Named{"fp16", Precision::kFp16}, Named{"bf16", Precision::kBf16}};
/// Of those, in which numbers are stored and sent: tf32 is only multiplied in.
inline constexpr std::array kStoredPrecisions{Named{"fp32", Precision::kFp32}, Named{"fp16", Precision::kFp16},
                                              Named{"bf16", Precision::kBf16}};

/// How an update becomes kernels, in PyTorch's words: one for each elementary operation and variable; the same for many variables at
/// once; or one for all operations of many variables.
enum class OptimizerImplementation { kLoop, kForeach, kFused };
inline constexpr std::array kOptimizerImplementations{Named{"loop", OptimizerImplementation::kLoop},
                                                      Named{"foreach", OptimizerImplementation::kForeach},
                                                      Named{"fused", OptimizerImplementation::kFused}};

/// Values that the optimizer keeps for each trained scalar: 0, 1, 2.
int optimizer_slots(Optimizer optimizer);

inline std::string to_text(Optimizer optimizer) { return name_in(kOptimizers, optimizer); }
inline std::string to_text(Precision precision) { return name_in(kPrecisions, precision); }
/// The precision of a word of kPrecisions; fp32 of others.
Precision precision_named(std::string_view word);

/// Where the training would end if it were run to its end: at a loss, which takes a convergence model, or after so many
/// samples. One of the two. A few steps are simulated, the rest goes on at their speed.
struct TrainingTarget {
  std::optional<double> loss;
  std::optional<double> samples;
};

/// What synchronous workers do in a step of a cluster that is not the full one (work.hpp): by keeping their batch they
/// change the global batch, by the other two they keep it.
enum class SmallerCluster {
  kKeepsBatchPerWorker,  // a step has as many samples as its workers have in their batches
  kLargerShares,         // each worker's batch grows; memory is checked
  kAccumulates,          // each worker adds up the gradients of more batches
};

/// When workers that go on by themselves (asynchronous, stale synchronous or in pairs) begin. Started together they do the
/// same at the same time, share every link, end together, and so stay in phase for ever where nothing tells them apart:
/// servers' links are then idle while all compute. Real workers start when their machines are ready.
enum class Starts {
  kInAStep,     // each at a random date within the first step of the first one, drawn from the seed
  kEvenly,      // each as long after the one before, within the first step
  kInInterval,  // each start_interval after the one before
};

/// Connections that share a link exactly evenly draw asynchronous workers together: one that is ahead has the link
/// for itself, but no gradients for it, and those behind catch up. Then all push at once, while nothing is pulled.
/// TCP's shares are not equal: of two flows on one link the slower had 0.69 (CUBIC) and 0.20 (SACK) of the faster
/// one's rate over minutes, with 16 ms to and fro and another way for one of them (NC State University, throughput
/// ratios). Within a step they were not measured: an assumption between these, as the median ratio of two weights is
/// exp(-0.954 sigma) = 0.39. With 0.5 eight workers and two servers would still be up to 6 % faster with a larger
/// batch.
inline constexpr double kShareVariation = 1;

/// What becomes of a training that needs more of a GPU's memory than there is.
enum class MemoryCheck { kRefuse, kWarn };

struct Training {
  Strategy strategy;
  std::int64_t samples = 0;  // that the job has to train on: its size (work.hpp)
  std::int64_t steps = 0;    // of the full cluster, that these samples take; set_steps() changes both
  SmallerCluster smaller_cluster = SmallerCluster::kKeepsBatchPerWorker;
  MemoryCheck memory_check = MemoryCheck::kRefuse;
  int warmup_steps = 0;  // each worker's first steps, left out of the steady-state figures
  Starts starts = Starts::kInInterval;
  Seconds start_interval{};        // the workers start one after another
  double step_time_variation = 0;  // coefficient of variation of a lognormal factor on each step's compute time
  /// Standard deviation of the logarithm of a connection's weight against others that wait for the same link, drawn from the
  /// seed for each of its worker's steps; 0: all have equal shares. With servers, kShareVariation by default where workers
  /// start at random dates.
  double share_variation = 0;
  std::optional<Checkpointing> checkpoint;
  Recovery recovery;
  std::optional<Control> control;
  std::optional<TrainingTarget> target;
};

struct OutputOptions {
  Seconds sampling_period{0.1};
  Seconds reading_interval{};  // of NICs' counters by the monitor, see resource_profile.hpp; 0: at all times
  Seconds timeline_start{0};
  Seconds timeline_length{2};
};

/// How every step differs from what profile and model say: what-ifs of a diagnosis (sim/plan/slowdown.hpp). Factors of
/// times, 1: as they are.
struct StepChange {
  double gpu = 1;     // of kernels and updates on the GPUs
  double launch = 1;  // of kernels before their work begins
  double host = 1;    // of overheads of steps, of dispatch, and of loading samples
  Seconds delay{};    // of the host, before anything else; besides

  bool operator==(const StepChange&) const = default;
};

struct Scenario {
  std::string name;
  std::string file_name;  // with set_by: for messages
  std::string set_by;     // JsonOrigins::with()
  ModelDescription model;
  int batch = 0;  // per worker, of groups that do not have their own
  Optimizer optimizer = Optimizer::kMomentum;
  std::optional<OptimizerImplementation> optimizer_implementation;  // none: as the profile has it of the framework
  Precision precision = Precision::kFp32;                           // in which kernels compute
  States states;          // as stated, else default_states(); gradients that are sent in fp32 are held so
  std::string framework;  // label of the profile's step times; empty: any
  /// Whether the samples of a step are copied from host memory to the GPU before its first kernel; by default unless
  /// its time is a measured one.
  std::optional<bool> copies_input;
  std::optional<InputPipeline> input;      // of its own; none: samples are always there
  Workload workload;                       // built from the model, batch and precision
  std::optional<Convergence> convergence;  // of this workload
  std::vector<Group> groups;
  CostModel costs;
  Electricity electricity;
  Seconds start_utc{};  // time 0, from 1970-01-01 UTC: for prices and revocations that depend on it
  Fabric fabric;
  std::optional<Seconds> hop_latency;
  double packet_loss = 0;  // share of the packets that leave a machine
  TcpParameters tcp;
  Messaging messaging;            // of all messages between machines
  std::vector<RegionLink> links;  // every pair of regions in use, and each region with itself
  Training training;
  Profile profile;
  PredictionKind prediction_kind;  // by what the profile states, before anything is substituted
  StepChange step_change;
  OutputOptions output;
  std::uint64_t seed = 1;

  std::vector<std::string>
      warnings;          // one line each: what lies outside of what the profile was fitted on, memory nearly full
  SharedJson effective;  // what reruns this scenario without any catalog; of one that was read

  int count(Role role) const;  // workers, or processes of parameter servers
  int worker_machines() const;
  /// GPUs of each set of workers' machines that reach one another without NICs: of an NVLink domain, or of a machine.
  std::vector<int> islands() const;
  /// The first group of workers; there is one.
  const Group& first_workers() const;
  /// Peak speed of the GPU at the precision in which kernels compute.
  FlopsPerSecond peak_of(const Accelerator& gpu) const;
  /// What one GPU of the group computes in a step.
  const Workload& workload_of(const Group& group) const { return group.workload ? *group.workload : workload; }
  /// Whether workers join or leave during the run.
  bool has_changing_membership() const;
  /// Whether machines may be revoked, or fail.
  bool has_revocations() const;
  /// Whether packets between machines may be lost.
  bool loses_packets() const;
  /// Whether the same message takes another time than before: packets are lost, NICs let more pass after a rest, or
  /// messages wait for an answer (CollectiveProtocol::eager_limit).
  bool has_links_with_memory() const;
  /// `error` with file, and what was set besides: "scenario.json: /training: message (with --set /training/steps=5)".
  NoResultError no_result(const RunError& error) const;
};

/// The word for the precision of the products of most of its layers: "fp8", whatever the recipe is, or that of all kernels.
std::string computed_in(const Scenario& scenario);

/// Whether there are enough steps after the warm-up: two, or four of each of several workers that do not wait for each other.
bool has_steady_state(const Scenario& scenario);

/// Peak memory of one GPU of the group; its parts: gpu_memory.hpp.
Bytes gpu_memory_needed(const Scenario& scenario, const Group& group);

/// Bytes of one checkpoint: weights, master weights and the optimizer's slots in their precisions, and variables that are not
/// trained; and the number of tensors.
Bytes checkpoint_bytes(const Scenario& scenario);
std::int64_t checkpoint_tensors(const Scenario& scenario);

/// How long one checkpoint takes to be written, or read: fixed_time + tensors * time_per_tensor + bytes / rate, by the
/// scenario's own values or else by the profile's, for both of its stages. None if neither has any. With parts of m
/// machines each writes 1 / m of tensors and bytes; all together write at most storage_rate.
std::optional<Seconds> checkpoint_time(const Scenario& scenario);

struct CheckpointTimes {
  Seconds stall{};  // training stands still
  Seconds write{};  // from its beginning until the job can go back to it; at least the stall
  Seconds read{};   // by a job that restarts from it
};
/// Synchronous: all three are w = checkpoint_time(). Asynchronous: with c the time to copy what a GPU writes to its host,
///   c = bytes of a GPU / copy_rate:   stall c, write c + w, read w.
std::optional<CheckpointTimes> checkpoint_times(const Scenario& scenario);
/// Of those in memory, of which m machines and g GPUs hold equal parts of `bytes`:
///   stall c = bytes / (g copy_rate),   write c + bytes / (m NIC rate),   read as long: from the other machine of the pair.
CheckpointTimes memory_checkpoint_times(const Scenario& scenario);

/// Mean time until the first revocation or fault that costs work since the last checkpoint, of machines that start together:
///   M = integral over age of the product of their S(age),   S = exp(-age / mean) of machines that fail and of bulk revocations,
/// which are taken to come at any time as often as in the mean. After 60 days losses are as frequent as up to then. Servers count,
/// and workers if the job restarts without one or has only one machine. Infinity if no loss costs work.
Seconds mean_time_to_loss(const Scenario& scenario);
/// The rule's time between checkpoints, if it has one.
std::optional<Seconds> checkpoint_interval(const Scenario& scenario);
/// Time that a cluster of so many workers loses by one checkpoint: the stall c of all, or of the chief alone, c / workers.
/// None without checkpoints; those in memory are not counted.
std::optional<Seconds> checkpoint_loss(const Scenario& scenario, double workers);
/// Updates/s with checkpoints, where there are v `speed` between two of them. With the loss l of checkpoint_loss(), after every C
/// updates or every interval i:
///   C / (C / v + l),   v (1 - l / max(i, l + 1 / v))
double with_checkpoints(const Scenario& scenario, double speed, double workers);
/// Time for so many updates, the last of which no checkpoint follows.
Seconds time_with_checkpoints(const Scenario& scenario, double updates, double speed, double workers);

/// Start-up times of the machines of `group`. None if the profile does not have them.
std::optional<Startup> startup_of(const Scenario& scenario, const Group& group);

/// Machines that a scenario may have.
inline constexpr int kMostMachinesOfScenario = 20'000;

/// The error of a training that needs more memory than GPUs have, behind the place of the group.
inline constexpr std::string_view kMemoryExceeded = "GPU memory exceeded";
/// Of such an error: what is needed by what there is, above 1.
double memory_exceeded_by(std::string_view error);

struct ReadOptions {
  bool seeks_remedies = true;  // that error says what would fit, which takes several times as long as all the rest
};

/// Reads, checks and resolves a scenario. `file_name` is where `json` came from: paths and errors refer to it, but for
/// what `origins` says that others have set. Throws InputError; NoResultError if a GPU's memory is too small.
Scenario read_scenario(const Json& json, const std::string& file_name, const Catalog& catalog,
                       const JsonOrigins& origins = {}, const ReadOptions& options = {});

/// Where `pointer` leads into what a name stands for (/calibration/host/dispatch), puts the object itself in the name's
/// place, so that the pointer can be set. Throws as read_scenario().
void make_inline(Json& scenario, const std::string& pointer, const std::string& file_name, const Catalog& catalog,
                 const JsonOrigins& origins = {});

/// JSON Schema (draft 2020-12) of a scenario file.
std::string scenario_schema();

/// A commented scenario file to start from.
std::string starter_scenario(const std::string& name);

}  // namespace rehearse
