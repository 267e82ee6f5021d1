#pragma once
// Driple's measured jobs: a GraphDef each, of which its builder makes groups of operators, and a table of their resources.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "predictor/driple_dataset.hpp"
#include "predictor/grouping.hpp"
#include "predictor/operator_types.hpp"
#include "workloads/importers/graph_def.hpp"

namespace rehearse {

/// The operators whose device names a GPU, in the order of the file, and an edge for every input that is one of them.
/// The tensor size is the product of the dimensions after the last unknown one, 0 for none. InputError, "where: ...",
/// for an operator type without frequency.
OperatorNetwork gpu_operators(const std::vector<GraphDefNode>& nodes, const TypeFrequencies& frequencies,
                              const std::string& where);

/// The largest connected part of them in kDripleGroups groups. InputError, "where: ...", for an operator type without
/// frequency or fewer operators than groups.
GroupedGraph group_gpu_operators(const std::vector<GraphDefNode>& nodes, const TypeFrequencies& frequencies,
                                 const std::string& where);

/// Labels by job, named GPU_DataSet_Model_SyncAsync_HyperParameter_Job. The table has the columns GPU, Data Set, Model,
/// Sync/Async, Hyper-Parameter, Job Name, Resource ("GPU MEM util", "GPU util", "Network_rx", "Network_tx"), avg Idle
/// time, avg Active time, avg Peak consumption. Jobs without exactly these four rows are left out, as published.
/// InputError for another resource, another column or a number that is none.
std::map<std::string, std::array<float, kDripleLabels>> load_job_labels(const std::filesystem::path& path);

}  // namespace rehearse
