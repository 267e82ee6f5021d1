#pragma once
// Operator graphs of NeuSight with measured times. Source: Lee et al., NeuSight, ASPLOS 2025.

#include "workloads/importers/importer.hpp"

namespace rehearse {

/// A table of operators of torch.fx: name, op, target, inputs, input_shapes, output_shape, dtype, fw_ms, bw_ms, acc_ms.
bool is_neusight_graph(const Source& source);

/// A model of timed layers, one for each operator that gives a tensor, in the order of the table, for the batch of the
/// first input. Parameters are those of matrices, normalisations and tables, as far as shapes tell them. Throws
/// InputError.
ImportedModel read_neusight_graph(const Source& source);

}  // namespace rehearse
