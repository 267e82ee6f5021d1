#pragma once
// Models of TensorFlow, from the forward part of a GraphDef.

#include "workloads/importers/importer.hpp"

namespace rehearse {

/// Text that begins with a node, or a message that does.
bool is_tensorflow_graph(const Source& source);

/// A model of family "graph". Gradients, updates, savers and summaries are left out: they are those of the model. Shapes
/// are those of the attribute _output_shapes; without it, of operators that keep that of their input, and of windows
/// whose strides and padding tell it. Without variables, constants are taken as learned. Throws InputError.
ImportedModel read_tensorflow_graph(const Source& source);

}  // namespace rehearse
