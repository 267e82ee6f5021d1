#pragma once
// Our datasets as data set files of Driple, one for each setting, for its own program to train on.

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
/// known. `grouped` [dataset.graphs.size()] is of group_graph().
DripleDataset driple_dataset_of(const Dataset& dataset, std::int32_t setting, std::span<const GroupedGraph> grouped,
                                std::size_t& left_out);

}  // namespace rehearse
