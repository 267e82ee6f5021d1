#pragma once
// What predict, compare and import take: files told apart by what is in them, and single jobs as datasets.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "predictor/dataset.hpp"
#include "predictor/operator_types.hpp"
#include "sim/app/verb.hpp"

namespace rehearse {

/// The help of --catalog.
inline constexpr const char* kOwnCatalogs = "Folder with the user's own catalogs; repeatable";

struct PredictCommand {
  CommonOptions common;
  std::filesystem::path predictor, input;
  std::optional<std::filesystem::path> scenario;  // of the cluster, for an input that is none
  std::optional<std::string> study;               // of a scenario, for corrections
  std::vector<std::string> overrides;
};

/// Whether a file is an SQLite database, as our datasets are.
bool is_dataset(const std::filesystem::path& file);
/// Whether a file is one of torch.save, by its beginning.
bool is_torch_file(const std::filesystem::path& file);
/// Whether a file is a GraphDef, by the ending of its name: .pb or .pbtxt.
bool is_graph_def(const std::filesystem::path& file);

/// A dataset of one sample without labels: the scenario's workload in its cluster.
Dataset dataset_of(const Scenario& scenario);

/// A data file of Driple as a dataset of groups, in the setting of `scenario` if that is given, or the one of its note; else
/// in one called `name`, of whose cluster nothing is known.
Dataset load_driple_file(const std::filesystem::path& file, const std::string& name,
                         const std::optional<Scenario>& scenario);

struct PredictionInput {
  Dataset dataset;
  bool is_many = false;                      // a file of several samples, whatever their number
  std::vector<std::vector<double>> outputs;  // [samples] of a published network by another program; empty: not known
};

/// What predict is asked about: a dataset; a data file of Driple; graphs of groups (grouped_graphs.hpp); a scenario; or
/// with command.scenario groups, a model file or a GraphDef in its cluster, as groups of operators if `frequencies` are
/// given, without which a GraphDef is refused. Throws InputError, also for a scenario of which a network
/// knows nothing (changes_by_chance()), if one `is_for_network`.
PredictionInput load_prediction_input(const PredictCommand& command, bool is_for_network,
                                      const std::optional<TypeFrequencies>& frequencies);

}  // namespace rehearse
