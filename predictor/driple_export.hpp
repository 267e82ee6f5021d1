#pragma once
// Our datasets as data set files of Driple, one for each setting, for its own program to train on, and back.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "predictor/dataset.hpp"
#include "predictor/driple_dataset.hpp"
#include "predictor/grouping.hpp"
#include "predictor/operator_types.hpp"

namespace rehearse {

inline constexpr std::size_t kDripleGroups = 100;

/// The largest connected part of a graph in kDripleGroups groups, or one group per operator where it has fewer.
GroupedGraph group_graph(const DatasetGraph& graph, const TypeFrequencies& frequencies);

/// Node features of a dataset whose graphs are groups already, as only the published networks take them: tensor_size,
/// operators, type_frequency, each the sum over a group. Edges join groups in either direction.
const std::vector<std::string>& group_feature_names();

/// A grouped graph as one of such a dataset, and back.
DatasetGraph to_dataset_graph(const GroupedGraph& grouped);
GroupedGraph to_grouped_graph(const DatasetGraph& graph);

/// The samples of one setting in the splits of `dataset`, with the twelve burst metrics in their own units. Left out
/// and counted in `left_out`: graphs of fewer than kDripleGroups operators, and samples one of whose metrics is not
/// known. `grouped` [dataset.graphs.size()] is of group_graph(). The note says what the file has no place for: name, group
/// and scenario of the setting, origin of the samples, family and name of each graph.
DripleDataset driple_dataset_of(const Dataset& dataset, std::int32_t setting, std::span<const GroupedGraph> grouped,
                                std::size_t& left_out);

/// What a file of Driple does not say of itself.
struct DripleSource {
  std::string file_name;
  std::string name;  // of its setting and its graphs, if it has no note
};

/// A dataset of groups (group_feature_names()) with the graphs and labels of a file in the splits that it has. Without a
/// note the samples are measured, and each graph is one of its own, "NAME train 12". InputError, "file: ...", for a note
/// that is none of ours.
Dataset dataset_of(const DripleDataset& driple, const DripleSource& source);

/// How many graphs for validation and tests are also among those for training: Driple splits jobs, not models.
std::size_t repeated_graphs(const Dataset& dataset);

}  // namespace rehearse
