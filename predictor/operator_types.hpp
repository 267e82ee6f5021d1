#pragma once
// Our operators under TensorFlow's names, for networks that know operators by how frequent their type is.

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "predictor/dataset.hpp"
#include "predictor/grouping.hpp"

namespace rehearse {

/// Relative frequency of each operator type of TensorFlow, from a CSV file with the columns op_type and
/// relative_frequency (calibration/data/driple/op_type_frequency.csv).
using TypeFrequencies = std::map<std::string, double, std::less<>>;
TypeFrequencies load_type_frequencies(const std::filesystem::path& path);

/// The TensorFlow 1 operator that does most of the work of a kernel of this kind and phase, "Conv2DBackpropFilter".
std::string_view tensorflow_type(OperatorKind kind, Phase phase);

/// The operators of a graph for the grouping of Driple: the product of the output shape as tensor size, the relative
/// frequency of the operator's TensorFlow type, 0 where `frequencies` lacks it. Throws InputError for a node that is no
/// operator: a dataset's file may hold any numbers.
OperatorNetwork operator_network(const DatasetGraph& graph, const TypeFrequencies& frequencies);

}  // namespace rehearse
