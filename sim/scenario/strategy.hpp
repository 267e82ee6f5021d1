#pragma once
// How a training is distributed. Each strategy is one object, in a file of its own (sim/training/strategies): its keys, schema
// and refusals, what a worker keeps of the model, its words, and the program of a step. The rest of the program asks the object.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platforms/accelerator.hpp"
#include "platforms/collective_algorithm.hpp"
#include "sim/base/json.hpp"
#include "sim/base/pinned.hpp"
#include "sim/base/units.hpp"
#include "sim/scenario/rank_grid.hpp"
#include "workloads/graph_builder.hpp"

namespace rehearse {

struct ComputePlan;
struct Group;
struct Refusal;
struct Scenario;
struct Site;
struct Strategy;
class StrategyCompiler;
struct StrategyEntry;

/// Who waits for whom at parameter servers. All three are one rule: a worker may start its step k when all but
/// `backup_workers` of the workers have completed step k - 1 - `staleness_bound`.
enum class Synchronization { kAsynchronous, kSynchronous, kStaleSynchronous };
enum class Placement { kRoundRobin, kGreedyByBytes, kSharded };  // of variables on servers: placement.hpp
/// Where the gradients of a machine's GPUs are added up before they go to the servers as one.
enum class Aggregation { kNone, kHost, kGpu };
/// Where variables live, and so what passes between a worker and them on the same machine: a message between processes;
/// nothing but the copy over PCIe, in the workers' own process; or copies between GPUs alone, each variable on another
/// one, which also updates it.
enum class VariableHome { kServerProcess, kWorkerProcess, kGpus };

/// What parameter servers do.
struct ServerRules {
  Synchronization synchronization = Synchronization::kAsynchronous;
  std::optional<std::int64_t> staleness_bound;  // none: unbounded; 0: synchronous
  int backup_workers = 0;                       // synchronous: gradients of this many slowest workers are dropped
  /// Synchronous: a worker receives each variable as soon as the gradients of all workers for it are applied, instead
  /// of asking for all of them after the whole step.
  bool pushes_back_each_variable = false;
  Placement placement = Placement::kRoundRobin;
  Aggregation aggregation = Aggregation::kNone;  // synchronous; variables, too, then come once for each machine
  VariableHome variables = VariableHome::kServerProcess;  // others: of servers that share machines with workers
};

/// What each of the data-parallel workers keeps only its part of: master weights and the optimizer's slots (and then
/// updates only its part of the variables), besides the gradients, besides the variables. Stages 1 to 3 of ZeRO.
/// Source: Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, SC 2020.
enum class Sharding { kNone, kOptimizer, kGradients, kParameters };

/// In which order a stage of a pipeline takes the micro-batches of a step: pipeline_schedule.hpp.
enum class PipelineSchedule {
  kGpipe,
  kOneForwardOneBackward,
  kInterleaved,
  kZeroBubble,
  kZeroBubble2,
  kZeroBubbleV,
  kDualPipeV,
  kDualPipe
};

/// Whether kernels of a stage go on while its messages are on their way, or not before those have arrived.
enum class PipelineMessages { kOverlapped, kBlocking };

/// How whole layers are cut into parts, unless they are listed.
enum class LayerRule {
  kCount,  // as many in each
  kTime,   // so that the longest part is as short as can be
  /// A part takes layers until their weights, and those of the parts before it, exceed its share of all, but for tables of
  /// embeddings: nanotron, build_model() in src/nanotron/models/base.py. What computes the words' scores counts as a layer; where it
  /// has more than a part's share, it has the last part for itself, and the others share the layers: what the first stage keeps, and
  /// steps of many stages, are so in calibration/data/nanotron-ultrascale.
  kWeights,
};

/// Whole layers as they are cut into parts.
struct LayerCut {
  LayerRule rule = LayerRule::kCount;
  bool counts_embedding = false;  // what comes before the first layer, as one more layer
  bool counts_loss = false;       // what comes after the last one, likewise
  std::vector<int>
      per_part{};  // [parts] in the order of the model, with what is counted as one; empty: as many in each
};

/// Workers along Axis::kPipeline hold the model together, each of them one of `stages`. The model is cut into stages x chunks
/// parts (pipeline_stages.hpp): part j stages + r is chunk j of stage r. A micro-batch is a batch of a worker, and a step has
/// accumulation_steps. DualPipe has the model twice, and one half of the micro-batches takes the parts of each copy: the second one
/// lies the other way round, and its parts are numbered behind those of the first.
struct Pipeline {
  int stages = 1;
  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;
  int chunks = 1;  // parts of the model that a stage has: more than one if interleaved, 2 if folded
  int microbatch_group =
      0;  // interleaved: micro-batches that a chunk takes before the next one does; 0: as many as stages
  bool merges_passes = false;  // interleaved: a forward pass runs in turns with a backward one, PipelineSlot::is_merged
  PipelineMessages messages = PipelineMessages::kOverlapped;
  /// Of workers that hold each layer together and have the same activations each sends its part, and the receivers gather it among
  /// themselves. Source: Narayanan et al., SC 2021, section 4.1; DeepSpeed's PipelineEngine partitions alike.
  bool scatters = false;
  /// A stage goes on to its next step once it has updated its own part, instead of when all have: the norm of all gradients passes
  /// from stage to stage, and whether it calls for another update is found in the step after.
  bool validates_afterwards = false;
  std::optional<LayerCut> layers{};  // none: cut by time

  int parts() const { return stages * chunks; }  // of the model
  int copies() const { return schedule == PipelineSchedule::kDualPipe ? 2 : 1; }
  int parts_of_copies() const { return parts() * copies(); }
  int parts_of_stage() const { return chunks * copies(); }
  /// Whether the second half of the parts goes back over the stages, from the last one to the first.
  bool is_folded() const {
    return schedule == PipelineSchedule::kZeroBubbleV || schedule == PipelineSchedule::kDualPipeV || copies() > 1;
  }
  /// Whether what that part gives is read by the next one.
  bool is_read_after(int part) const { return part >= 0 && (part + 1) % parts() != 0; }
  /// Chunk j of stage r of p is part j p + r, or (j + 1) p - 1 - r where parts are folded and j is odd.
  int part_of(int stage, int chunk) const {
    return chunk * stages + (is_folded() && chunk % 2 == 1 ? stages - 1 - stage : stage);
  }
  int chunk_of(int part) const { return part / stages; }
  int stage_of(int part) const {
    return is_folded() && chunk_of(part) % 2 == 1 ? stages - 1 - part % stages : part % stages;
  }
  int group() const { return microbatch_group > 0 ? microbatch_group : stages; }
};

/// How workers exchange by collectives.
struct CollectiveRules {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kRing;  // of all-reduces
  Sharding sharding = Sharding::kNone;
  int prefetched_units = 1;  // with sharded variables: units that are gathered ahead of the one that kernels use
  int shard_group =
      0;  // data-parallel workers that share what is sharded, as many others do among themselves; 0: all of them
  /// Of values that are gathered after the update; 0: each variable by itself; none: as their gradients are added up.
  std::optional<Bytes> gather_bucket_size;
  bool has_gradient_norm =
      false;                  // the update waits for the norm of all gradients, of which workers have different parts
  bool reduces_once = false;  // sharded gradients are kept whole until the last of the accumulated batches
  /// With a sharded optimizer: each worker gets the sums of its part of the gradients alone, not of all.
  bool scatters_gradients = true;
  bool only_reduces = true;  // it has no collectives but all-reduces
  bool gathers_by_trees =
      false;  // and scatters sums so, among GPUs that stand alone on their machines (plan_collective())
};

/// Which states of the parameters each of the GPUs that hold the same ones (sharing_gpus()) keeps only its part of.
struct DividedStates {
  bool optimizer = false, gradients = false, weights = false;

  bool operator==(const DividedStates&) const = default;
};

/// What is kept in host memory instead of the GPUs'. Of the optimizer: gradients come down as they have been added up, the host updates its share when
/// all are there, and new values go back. Source: Ren et al., ZeRO-Offload, USENIX ATC 2021; the share is that of ZeRO-Offload++,
/// and of Megatron-LM's optimizer-offload-fraction.
struct Offload {
  double optimizer = 0;    // share of master weights and moments, of each parameter, from 0 to 1
  double activations = 0;  // share of the layers whose activations wait there: offloaded_layers.hpp
  std::optional<BytesPerSecond> host_memory_bandwidth{};  // of a machine, which its GPUs share; none: by its vCPUs

  bool operator==(const Offload&) const = default;
};

enum class Order { kFifo, kPriority };  // of messages that wait for the same connection or collective group
enum class Overlap {
  kNone,      // communication starts when the backward pass has ended
  kBackward,  // as soon as gradients are ready; the next step starts when all are done
  kForward,   // besides, the next forward pass starts with the layers whose variables have arrived
};

/// How gradients become messages, whatever the strategy.
struct GradientExchange {
  /// Gradients are fused in the order in which they become ready, until this size; none: each by itself, or by blocks.
  std::optional<Bytes> bucket_size;
  bool by_blocks = false;                  // of the model; by default for what is sharded
  std::optional<Bytes> first_bucket_size;  // of the first bucket
  std::optional<Seconds> cycle_time;       // gradients ready by the end of a cycle are fused, up to bucket_size
  std::optional<Bytes> partition_size;     // larger tensors are cut into pieces
  Order order = Order::kFifo;              // priority: the variables that the forward pass needs first go first
  Overlap overlap = Overlap::kBackward;
  std::optional<Precision> gradient_precision;  // in which gradients are sent; not stated: as they are held
  std::int64_t global_batch = 0;  // samples of a step, if they are stated; accumulation_steps follow from them
  int accumulation_steps = 1;     // batches whose gradients are added up before they are exchanged
};

/// What kind of change a remedy is.
enum class RemedyKind {
  kRented,         // other settings, more machines, other machines of the catalog
  kOtherTraining,  // what is trained differs: as many samples may not lead to the same loss
  kShared,         // servers on the workers' machines: an upper bound, since their hosts' work is not slowed by it
  kHypothetical,   // a machine that no catalog has, at an unknown price
};

/// What might make a job faster: settings of its scenario, "/pointer=value" as --set takes them.
struct StrategyRemedy {
  std::string change;  // in words
  std::vector<std::string> settings;
  RemedyKind kind = RemedyKind::kRented;
};

struct SmallerStrategy;

/// A strategy. What is not overridden is that of workers that go through the steps together, each with the whole model, and
/// exchange by collectives.
class StrategyKind : private Pinned {
 public:
  virtual ~StrategyKind() = default;

  // Its name

  /// "ring all-reduce", "synchronous parameter servers".
  virtual std::string title() const = 0;

  // Who waits for whom, and who exchanges what with whom

  /// Whether one step of training is a step of all workers together.
  virtual bool is_synchronous() const { return true; }
  /// Whether workers do the same steps side by side and exchange by collectives, so that the others stop for newcomers, to
  /// send them the variables. If not, each goes on by itself, and waits where its program does.
  virtual bool is_in_lockstep() const { return true; }
  /// Whether workers fetch the whole models of partners, drawn at random, and no gradients.
  virtual bool exchanges_models() const { return false; }
  /// Whether GPUs of a machine send to one another.
  virtual bool sends_between_gpus() const { return true; }
  /// Whether workers update the variables; if not, servers do.
  virtual bool updates_on_workers() const { return true; }
  /// What servers do; null: there are none.
  virtual const ServerRules* servers() const { return nullptr; }
  /// How workers exchange by collectives; null: they do not.
  virtual const CollectiveRules* collectives() const;

  // What a worker has of the model

  /// How many workers hold the model together along which axes, the fastest first (rank_grid.hpp); none: each has all of it.
  virtual std::vector<RankGrid::Degree> model_axes() const { return {}; }
  /// Axes along which consecutive workers stand, the fastest first.
  virtual std::vector<Axis> rank_order() const {
    return {Axis::kTensor, Axis::kHeads, Axis::kPositions, Axis::kPipeline, Axis::kData, Axis::kReplica};
  }
  /// The product of these degrees. A step of so many workers has the samples of one.
  int workers_per_model() const { return RankGrid{model_axes()}.workers(); }
  /// Whether workers keep different parts of what is trained, so that all of them are needed.
  virtual bool divides_model() const { return workers_per_model() > 1; }
  virtual DividedStates divided_states() const { return {}; }
  /// What hosts keep of it.
  virtual Offload offload() const { return {}; }
  /// Into how many parts, of which a worker has one, a variable of the model is cut.
  virtual int parts_of(const Scenario& scenario, std::size_t variable) const;
  /// Leaves of what one GPU would compute in a step with the whole model what a worker does.
  virtual void divide(ComputePlan& plan, const Scenario& scenario) const;
  /// The stages by which workers hold the model together; null: they do not so.
  virtual const Pipeline* pipeline() const { return nullptr; }
  /// Strategies by which a GPU holds less, the least change first.
  virtual std::vector<SmallerStrategy> smaller(const Scenario& scenario) const;

  // What goes in one piece, and how much of it

  /// What is sent in one piece, where the scenario does not say it: each gradient.
  virtual void choose_units(GradientExchange& exchange) const;
  /// The key of the strategy that states how many batches a step of a worker has.
  virtual std::string accumulation_key() const { return "accumulation_steps"; }

  // Checks and words

  /// Throws InputError at a key of the strategy, which `json` reads, if the scenario, whose profile is known, cannot be run.
  virtual void check(const Scenario& scenario, const JsonReader& json) const;
  /// What a user should know before the run, one line each.
  virtual std::vector<std::string> warnings(const Scenario& scenario) const;
  /// "in each step all workers add up 4.31 MB in 12 units, ...": what is exchanged, for `explain`.
  virtual std::string explain(const Scenario& scenario) const;
  /// [part of a step: verdict.hpp] What would shorten it, where that is not the same with every strategy.
  virtual std::map<std::string, std::string> verdict_remedies() const;
  /// What might make the job faster; `effective` is the text of the scenario.
  virtual std::vector<StrategyRemedy> remedies(const Scenario& scenario, const Json& effective) const;

  // A step

  /// What each worker does in it, and with whom: sim/training/strategy_compiler.hpp. The site outlives it.
  virtual std::unique_ptr<StrategyCompiler> compiler(const Site& site) const = 0;
};

/// Of a scenario that nobody has read (sim/training/strategies): asynchronous parameter servers.
std::shared_ptr<const StrategyKind> default_strategy();

/// How the training is distributed.
struct Strategy {
  std::string word = "parameter_server";                          // "kind" in scenarios: StrategyEntry
  std::shared_ptr<const StrategyKind> kind = default_strategy();  // never null
  GradientExchange exchange;

  bool is_synchronous() const { return kind->is_synchronous(); }
  /// Whether workers that go through the steps together begin one before all have ended the one before.
  bool overlaps_steps() const {
    return exchange.overlap == Overlap::kForward || (kind->pipeline() && kind->pipeline()->validates_afterwards);
  }
  /// What servers do; where there are none, what they would do by default.
  const ServerRules& server_rules() const;
};

/// One by which a GPU holds less.
struct SmallerStrategy {
  std::string change;  // in words
  Strategy strategy;
  std::optional<TensorSplit> split{};    // of the model's layers, if it changes
  std::optional<ExpertSplit> experts{};  // the same
  bool is_on_host = false;               // it moves states there
};

inline std::string describe_strategy(const Strategy& strategy) { return strategy.kind->title(); }

/// Keys of a strategy, or of a part of it such as sharding: what they are, and what they do not go with.
struct StrategyKeys {
  /// JSON Schema: { "properties": { "stages": { ... } }, "allOf": [...] }, of which either may be missing.
  std::function<std::string()> schema;
  /// In the order in which they are checked.
  std::vector<Refusal> (*refusals)() = nullptr;
};

/// How scenarios ask for a strategy.
struct StrategyEntry {
  std::string word;  // "kind"
  /// Reads its keys; `effective` is what reruns the scenario, into which it puts defaults. The cluster is known.
  std::shared_ptr<const StrategyKind> (*read)(const JsonReader& json, Scenario& scenario, Json& effective);
  std::vector<StrategyKeys> parts;
  std::vector<std::string> keys{};  // of all parts, by their schema: strategies() has them
};

/// Those of Rehearse (sim/training/strategies/strategies.cpp).
std::vector<StrategyEntry> shipped_strategies();

/// From now on scenarios may have the entry's word as "kind", and its keys, beside those of the exchange of gradients. To be
/// called before any other thread runs. Throws std::invalid_argument if there is the word, or a key of another meaning.
void register_strategy(const StrategyEntry& entry);

/// Those that are shipped, and those that are registered.
const std::vector<StrategyEntry>& strategies();
/// Of that word. Throws std::out_of_range if there is none.
const StrategyEntry& strategy_entry(const std::string& word);

/// Schema of the keys of all strategies, as StrategyKeys::schema, and "kind".
Json strategy_schema();

}  // namespace rehearse
