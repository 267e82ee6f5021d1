#pragma once
// Graphs of training steps, cluster settings, and what was simulated or measured of each graph in each setting: what
// `generate` writes and training reads.

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/named.hpp"
#include "sim/scenario/scenario.hpp"
#include "workloads/operator_graph.hpp"

namespace rehearse {

/// Names of the columns of Dataset::node_features, in their order (node_features.hpp).
const std::vector<std::string>& node_feature_names();

/// Names of Sample::labels (run_labels.hpp): Driple's twelve (idle and active in seconds, peak as a share, of receive
/// and transmit in bytes per second), then step_time_s, receive_mean_Bps, transmit_mean_Bps.
const std::vector<std::string>& label_names();
inline constexpr std::size_t kBurstLabels = 12;

/// An operator reads what another wrote.
struct GraphEdge {
  std::int32_t from = 0, to = 0;
  bool operator==(const GraphEdge&) const = default;
};

/// The operators of one training step of one worker, at one batch size.
struct DatasetGraph {
  std::string family;           // "resnet", "transformer"
  std::string name;             // of the model, with its sizes
  std::string provenance;       // JSON: what it can be built from again
  std::vector<float> features;  // [nodes, node features]
  std::vector<GraphEdge> edges;

  std::size_t nodes(std::size_t feature_count) const { return features.size() / feature_count; }
};

/// A cluster and a way to train on it.
struct DatasetSetting {
  std::string name;        // "driple/01-v100-ps1-w2 synchronous"
  std::string group;       // settings of one group differ in the synchronization only: "driple/01-v100-ps1-w2"
  std::string provenance;  // JSON: the scenario, but what the graph's provenance says of its workload
};

enum class Split { kTrain, kValidation, kTest };
enum class Origin { kSimulated, kMeasured };

/// A label that is not known.
inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

struct Sample {
  std::int32_t graph = 0, setting = 0;  // indices into the dataset
  Split split = Split::kTrain;          // the same for all samples of a graph and study_of()
  Origin origin = Origin::kSimulated;
  double weight = 1;           // in the loss
  std::vector<double> labels;  // [label names]
  std::vector<float> step;     // numbers_of() the graph's step in the setting (described_step.hpp); empty: not known
};

/// A whole dataset in memory.
struct Dataset {
  std::string provenance = "{}";  // JSON: space, seed, program
  std::vector<std::string> node_features;
  std::vector<std::string> labels;
  std::vector<DatasetSetting> settings;
  std::vector<DatasetGraph> graphs;
  std::vector<Sample> samples;

  std::size_t nodes(const DatasetGraph& graph) const { return graph.nodes(node_features.size()); }
};

/// The study that measured it: its setting's group. Empty for a simulated sample, and for a measured one whose list named
/// no study, so that its group is the setting's own name.
const std::string& study_of(const Dataset& dataset, const Sample& sample);

/// Whether a label is what was simulated or measured, and not NaN. A measured sample's mean rate without the peaks of
/// its series follows from its step time (measured_studies.hpp): something to learn from, but no measurement.
bool is_observed(const Dataset& dataset, const Sample& sample, std::size_t label);

/// The node features and the edges of `workload`. An update reads and writes what the optimizer keeps in these precisions.
std::vector<float> node_features_of(const Workload& workload, Optimizer optimizer, const States& states = {});
std::vector<GraphEdge> edges_of(const Workload& workload);

/// One SQLite file, arrays as little-endian blobs:
///   meta(key TEXT PRIMARY KEY, value TEXT)                        provenance
///   names(kind TEXT, position INTEGER, name TEXT)                 kind: node_feature, label
///   settings(id INTEGER PRIMARY KEY, name, grouped, provenance TEXT)
///   graphs(id INTEGER PRIMARY KEY, family, name, provenance TEXT, nodes INTEGER,
///          features BLOB float32, edges BLOB int32 pairs)
///   samples(id INTEGER PRIMARY KEY, graph, setting INTEGER, split, origin TEXT, weight REAL, labels BLOB float64,
///           step BLOB float32)
/// with identifiers from 0 without gaps. The same content gives the same bytes.
///
/// Writes `path` in one step when finish() is called: until then, and if it never is, what was there stays. Graphs and
/// settings come before the samples that name them. It holds an OutputLock of `path`, and writes `path`.tmp, which the
/// next writer removes if this one is killed. Every failure is an InputError that names the file, or a NoResultError if
/// another process writes it.
class DatasetWriter {
 public:
  /// `head` gives the provenance and the two lists of names; its settings, graphs and samples are not looked at.
  DatasetWriter(const std::filesystem::path& path, const Dataset& head);
  DatasetWriter(DatasetWriter&&) noexcept;
  ~DatasetWriter();
  void add(const DatasetSetting& setting);
  void add(const DatasetGraph& graph);
  void add(const Sample& sample);
  void finish();

 private:
  struct File;
  std::unique_ptr<File> file_;
};

void write_dataset(const std::filesystem::path& path, const Dataset& dataset);

/// Checks everything: names are distinct, indices and edges are in range, features and weights finite, steps such as described_step() takes, the
/// samples of a graph and study in one split. Throws InputError, one line that names the file and the row, or of an earlier
/// version the command that makes the dataset anew.
Dataset load_dataset(const std::filesystem::path& path);

/// The words that files have for them: "train", "validation", "test"; "simulated", "measured".
inline constexpr std::array kSplits{Named{"train", Split::kTrain}, Named{"validation", Split::kValidation},
                                    Named{"test", Split::kTest}};
std::string to_text(Split split);
std::string to_text(Origin origin);

}  // namespace rehearse
