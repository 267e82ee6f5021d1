#pragma once
// Graphs of PyTorch models, as torch_graph.py writes them.

#include "workloads/importers/importer.hpp"

namespace rehearse {

/// An object with "torch_graph".
bool is_torch_graph(const Source& source);

/// A model of family "graph". Throws InputError.
ImportedModel read_torch_graph(const Source& source);

}  // namespace rehearse
