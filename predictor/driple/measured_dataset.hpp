#pragma once
// Measured jobs as a dataset, which networks train on like on a simulated one.

#include <optional>
#include <string>
#include <vector>

#include "platforms/catalog.hpp"
#include "predictor/dataset.hpp"
#include "predictor/measurement_list.hpp"
#include "predictor/operator_types.hpp"
#include "workloads/importers/graph_def.hpp"

namespace rehearse {

struct MeasuredDataset {
  Dataset dataset;
};

/// A sample for each run and each job of the list, all of origin measured; a job that has no labels (see
/// load_job_labels()) or no graph is left out. Graphs are named as `generate` names them ("resnet50 batch 32"), or as
/// the file of the GraphDef; the split is that of split_of_model(), for jobs by data set, model and hyper-parameter.
/// The sampling period of a setting is that of the series. With `frequencies` graphs are in groups, a GraphDef as in
/// group_gpu_operators(). Throws InputError.
MeasuredDataset measured_dataset_of(const MeasurementList& list, const Catalog& catalog,
                                    const std::optional<TypeFrequencies>& frequencies);

/// The operators of a GraphDef in groups. Throws InputError, also without `frequencies`: who takes no groups cannot use the file.
DatasetGraph load_graph_def_graph(const std::filesystem::path& file, const std::optional<TypeFrequencies>& frequencies);

}  // namespace rehearse
