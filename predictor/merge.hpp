#pragma once
// Datasets put together: simulated and measured samples in one file.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "predictor/dataset.hpp"
#include "predictor/operator_types.hpp"

namespace rehearse {

/// Several datasets as one:
///   settings   of the same name and scenario are one; of the same name alone, the later gets a name of its own,
///              "name 2", and keeps its group
///   graphs     of the same name, features and edges are one
///   splits     all samples of a model (model_of()) and study (study_of()) that an earlier dataset has go where that has
///              them, so that no model of a study is learnt in one part and tested in another
class MergedDataset {
 public:
  /// Says which samples go to another split than they were in: a line for each two splits. Throws InputError if the names
  /// of features or labels are not those of the datasets before.
  std::vector<std::string> add(Dataset more);
  const Dataset& dataset() const { return whole_; }
  Dataset take() { return std::move(whole_); }

 private:
  std::vector<std::int32_t> add_settings(std::vector<DatasetSetting>& more);
  std::vector<std::int32_t> add_graphs(std::vector<DatasetGraph>& more);

  Dataset whole_;
  std::map<std::string, std::size_t> settings_;                           // by name
  std::multimap<std::string, std::size_t> graphs_;                        // by name
  std::map<std::pair<std::int32_t, std::string>, Split> split_of_graph_;  // by graph and study
  std::map<std::pair<std::string, std::string>, Split> split_of_;         // by model and study
};

/// The model of a graph: its name without " batch 32".
std::string_view model_of(std::string_view graph_name);

/// Splits the samples by the models of their graphs, `models` [graphs], and their studies (study_of()): the pair with the
/// most weight first, each to the split that lacks most of its share of all weight dealt so far, plus what it lacks of that
/// of the study. 60 % are for training, 20 % for validation and 20 % for tests. Samples weigh alike, but those of a large
/// study less (study_weights.hpp), so that it does not fill a split alone. A lone model is for training. A model of several
/// studies may be in several splits: a test is of what a study has not measured yet, not of what nobody has.
void deal_splits(Dataset& dataset, std::span<const std::string> models);

/// The same dataset with its graphs in groups (group_feature_names()), for the published networks.
Dataset with_groups(Dataset dataset, const TypeFrequencies& frequencies);

}  // namespace rehearse
