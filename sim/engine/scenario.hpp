#pragma once
// A scenario with every name resolved and every default filled in: what simulate() runs.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "platforms/accelerator.hpp"
#include "platforms/catalog.hpp"
#include "platforms/instance.hpp"
#include "platforms/profile.hpp"
#include "platforms/region_link.hpp"
#include "sim/base/json.hpp"
#include "sim/base/units.hpp"
#include "workloads/model_zoo.hpp"
#include "workloads/operator_graph.hpp"

namespace rehearse {

enum class Role { kWorker, kParameterServer };
enum class Market { kOnDemand, kSpot };

/// `count` identical machines.
struct Group {
  std::string name;
  Role role = Role::kWorker;
  Instance instance;
  std::optional<Accelerator> accelerator;  // always there for workers
  int count = 1;
  std::string region;
  Market market = Market::kOnDemand;
};

enum class Synchronization { kAsynchronous };
enum class Placement { kRoundRobin, kGreedyByBytes };

/// How the training is distributed.
struct Strategy {
  Synchronization synchronization = Synchronization::kAsynchronous;
  Placement placement = Placement::kRoundRobin;
};

/// The chief stops training while it writes: pause = fixed_time + checkpoint bytes / rate.
struct Checkpointing {
  std::int64_t every_steps = 0;
  Seconds fixed_time{};
  BytesPerSecond rate{};
};

enum class Optimizer { kSgd, kMomentum, kAdam };

/// Values that the optimizer keeps for each trained scalar: 0, 1, 2.
int optimizer_slots(Optimizer optimizer);

struct Training {
  Strategy strategy;
  std::int64_t steps = 0;          // updates of all workers together
  int warmup_steps = 0;            // each worker's first steps, left out of the steady-state figures
  Seconds start_interval{};        // the workers start one after another
  double step_time_variation = 0;  // coefficient of variation of a lognormal factor on each step's compute time
  std::optional<Checkpointing> checkpoint;
};

struct OutputOptions {
  Seconds sampling_period{0.1};
  Seconds timeline_start{0};
  Seconds timeline_length{2};
};

struct Scenario {
  std::string name;
  ModelDescription model;
  int batch = 0;  // per worker
  Optimizer optimizer = Optimizer::kMomentum;
  Precision precision = Precision::kFp32;
  Workload workload;  // built from the four above
  std::vector<Group> groups;
  std::vector<RegionLink> links;  // every pair of regions in use, and each region with itself
  Training training;
  Profile profile;
  OutputOptions output;
  std::uint64_t seed = 1;

  std::vector<std::string>
      warnings;           // one line each: what lies outside of what the profile was fitted on, memory nearly full
  std::string effective;  // JSON text that reruns this scenario without any catalog

  int count(Role role) const;
};

/// Peak memory of one worker's GPU: driver context, parameters, gradients, activations kept for the backward pass,
/// input.
Bytes gpu_memory_needed(const Scenario& scenario, const Accelerator& accelerator);

/// Bytes of one checkpoint: every variable and the optimizer's slots.
Bytes checkpoint_bytes(const Scenario& scenario);

/// Reads, checks and resolves a scenario. `file_name` is where `json` came from: paths and errors refer to it.
/// Throws InputError; NoResultError if a GPU's memory is too small.
Scenario read_scenario(const Json& json, const std::string& file_name, const Catalog& catalog);

/// JSON Schema (draft 2020-12) of a scenario file.
std::string_view scenario_schema();

/// A commented scenario file to start from.
std::string starter_scenario(const std::string& name);

}  // namespace rehearse
