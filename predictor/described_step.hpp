#pragma once
// A step of a scenario as a predictor is told it: the compiled programs of its workers as a graph of what they cost, what
// each resource is asked for by all of them, and what resources would show that are idle, or as busy as a pace says. Only workers that wait
// for one another share a run of it: how all of them meet is what a simulation says.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// How busy resources are with the work of other workers while the steps of one are run (step_schedule.hpp).
enum class Pace {
  kAlone,   // not at all
  kAtOnce,  // all workers do the same at the same time
  kMean     // as they are in the mean over a step
};
inline constexpr std::size_t kPaces = 3;

/// Equal parts of a step.
inline constexpr std::size_t kStepParts = 48;
/// Kinds of operations: an alternative of Operation, a message to the worker, or a kind of collective.
inline constexpr std::size_t kStepKinds = 24;

/// Operations of one kind in one part of the step, of all workers of a class.
struct StepNode {
  std::int32_t kind = 0, part = 0, resource = 0;  // below kStepKinds, kStepParts, kStepResources
  std::array<float, 8>
      costs{};  // how many, seconds in sum, of the longest, bytes, seconds of waiting, start, end; workers
};

/// What of the step one resource is asked for.
enum class StepResource { kHost, kCopies, kGpu, kReceive, kTransmit, kBusiestLink, kServers, kCollectives };
inline constexpr std::size_t kStepResources = 8;
struct StepLoad {
  std::array<float, 3> seconds{};  // of the chief's team; of all workers; of the longest operation
};

/// Loads of a part of the step: GPU, memory, received, transmitted (of the links' rates), copies, cores of servers,
/// collectives, messages of the chief.
inline constexpr std::size_t kPartLoads = 8;
using StepTimeline = std::array<std::array<float, kPartLoads>, kStepParts>;  // seconds

struct DescribedStep {
  std::vector<StepNode> nodes;
  std::vector<std::array<std::int32_t, 2>> edges;  // from a node to one whose operations wait for its own
  std::array<StepLoad, kStepResources> loads{};
  std::array<StepTimeline, 2> timelines{};  // kAlone; as busy as they will be, kAtOnce or kMean
  /// [paces][label_names()] what the steps would show one after another (find_bursts()).
  std::array<std::vector<double>, kPaces> shown;
  bool waits_for_all = false;  // kAtOnce is how busy resources will be
  std::vector<double> totals;  // [step_totals()]
};

/// What else is told of a step, and of what is around it.
struct StepTotal {
  enum class Unit {
    kSeconds,  // of a step, or beside it
    kAmount,   // bytes, counts
    kPlain
  };
  const char* name;
  Unit unit = Unit::kAmount;
  bool is_mechanism = false;  // 0 of jobs that do without it: where it always was, nothing is known of others
};
std::span<const StepTotal> step_totals();

/// Throws what StepCompiler does, and InputError for a scenario whose machines come and go by chance (changes_by_chance()).
DescribedStep describe_step(const Scenario& scenario);

/// As numbers of a dataset's file, and back; InputError, "place: ...", for others.
std::vector<float> numbers_of(const DescribedStep& step);
DescribedStep described_step(std::span<const float> numbers, const std::string& place);

/// Where the scenario says that its machines come and go by chance, or by rules that ask what chance has done, so that one step says
/// nothing of the next: "/cluster/groups/0/spot_pool"; empty: nowhere.
std::string changes_by_chance(const Scenario& scenario);
/// Throws InputError, "file: pointer: ...", if there is such a place.
void require_regular(const Scenario& scenario, const std::string& file);

}  // namespace rehearse
