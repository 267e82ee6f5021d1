#pragma once
// What our own network is told about a sample: one graph of its operators, variables, servers and machines, each with what it costs if
// nothing else were there, and lower bounds of a step in closed form. Nothing here simulates.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "predictor/dataset.hpp"

namespace rehearse {

/// Seconds that no step can be shorter than. A resource that all of a step needs takes the sum of what is asked of it.
struct StepBounds {
  double compute = 0;  // of a GPU and its host: from the first dispatch to the end of the last kernel, and the overhead
  double link = 0;     // of the NIC, either direction, that carries most; in one machine of the GPUs' own links
  double core = 0;     // of the cores of the machine whose servers have most to do
  /// Of what must follow one another in a step of a worker: variables that come, the kernels from the first that reads one
  /// of them, gradients that go once a kernel has completed them (Chains in features.cpp).
  double chain = 0;
  double at_once = 0;  // no bound: the same if all workers do the same at the same time, and share links and servers
  double all() const { return std::max({compute, link, core, chain}); }
};

/// Columns of SampleFeatures. Times are relative to StepBounds::all(), and logarithms.
inline constexpr std::size_t kOperatorInputs = 6;   // time, time in memory, place in the step (3), waits for the host
inline constexpr std::size_t kVariableInputs = 6;   // bytes, transfer, server's work, split update, is not read, pieces
inline constexpr std::size_t kServerInputs = 4;     // work, bytes sent to all workers, is on the chief's machine, cores
inline constexpr std::size_t kMachineInputs = 7;    // received, sent, GPUs, workers, servers, is the chief's, compute
inline constexpr std::size_t kTimelineBins = 48;    // equal parts of the compute bound
inline constexpr std::size_t kTimelineInputs = 13;  // loads of a part: see timeline_of() in features.cpp
/// A machine beyond those, or a server, is one with the others.
inline constexpr int kMostMachineNodes = 64, kMostServerNodes = 64;

/// From one kind of node to another, by their indices.
using NodeLinks = std::vector<std::pair<std::int32_t, std::int32_t>>;

struct SampleFeatures {
  std::vector<std::int32_t> kinds;          // [operators] FeatureReader::kinds() of them: kind and phase of a kernel
  std::vector<float> operators;             // [operators, kOperatorInputs] kernels, in dispatch order
  std::vector<float> variables;             // [variables, kVariableInputs]
  std::vector<float> servers;               // [servers, kServerInputs] none of all-reduces
  std::vector<float> machines;              // [machines, kMachineInputs] the chief's first
  NodeLinks flow;                           // operator -> operator that reads what it wrote
  NodeLinks reads;                          // variable -> operator
  NodeLinks writes;                         // operator -> variable whose gradient it completes
  NodeLinks placed;                         // variable -> server
  NodeLinks hosted;                         // server -> machine
  std::vector<std::int32_t> part;           // [operators] of the timeline in which it ends
  std::vector<std::int32_t> needed, ready;  // [variables] parts in which it is first read, and its gradient complete
  std::vector<float> timeline;              // [kTimelineBins, kTimelineInputs]
  std::vector<float> totals;                // [total inputs] logarithms of sums and bounds, and of the setting
  StepBounds bounds;
  /// What each label is divided by: StepBounds::all() of times; of mean rates the bytes of a step over it. [labels]
  std::vector<double> bases;
  /// The value that a label cannot exceed, in its unit: 1 for shares, the rate of the links for peaks; 0: none. [labels]
  std::vector<double> limits;
  double window_steps = 0;
};

/// What is kept from the network, to see what it was good for.
enum class Ablation {
  kNone,
  kEdges,   // the ends of all edges are shuffled
  kRounds,  // no messages along edges
  kBounds   // times are relative to a second, and no total holds a bound
};

/// Turns samples of datasets with given columns into features.
class FeatureReader {
 public:
  /// Throws InputError if `dataset` lacks a column that is needed.
  explicit FeatureReader(const Dataset& dataset, Ablation ablation = Ablation::kNone);

  static std::size_t kinds();
  std::size_t total_inputs() const { return total_names().size(); }
  static const std::vector<std::string>& total_names();
  /// Whether a total says how much of something a job has that others do without, and is 0 of those.
  static bool is_mechanism(std::size_t total);

  /// Throws InputError if a row of a graph can be no operator, or a setting no cluster: a file may hold any numbers.
  void check(const Dataset& dataset) const;
  SampleFeatures read(const Dataset& dataset, const Sample& sample) const;

 private:
  Ablation ablation_;
  std::vector<std::size_t> needed_;  // positions in the descriptor
  std::vector<std::string> labels_;  // names
};

}  // namespace rehearse
