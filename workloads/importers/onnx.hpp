#pragma once
// ONNX models.

#include "workloads/importers/importer.hpp"

namespace rehearse {

/// A ModelProto: it begins with the version of its format, and has a graph.
bool is_onnx(const Source& source);

/// A model of family "graph". Weights give their shapes alone; initializers of floating-point numbers with more than one
/// scalar are taken as learned. A batch that is not fixed becomes 13, other axes that are not fixed 128: 13 tells the
/// batch from other sizes and does not stay. Shapes that the file does not state are inferred. Tensors that Constant or
/// ConstantOfShape give are weights at places for them. Throws InputError, also if the layers do not have all parameters
/// that operators before the outputs read, and if the operator set is older than 7.
ImportedModel read_onnx(const Source& source);

}  // namespace rehearse
