#pragma once
// Models of TensorFlow, from the forward part of a graph: a GraphDef, frozen or not, a checkpoint's .meta, a SavedModel.

#include "workloads/importers/importer.hpp"

namespace rehearse {

/// Text or a message that begins with a node, with what precedes the graph in a MetaGraphDef, or with the version of a
/// SavedModel.
bool is_tensorflow_graph(const Source& source);

/// A model of family "graph". Input pipelines, gradients, updates, savers, summaries and further towers are left out;
/// tensorflow_forward.hpp says what is of the model. Shapes follow from the inputs (tensorflow_shapes.hpp), completed by
/// the attribute _output_shapes. A batch that the graph leaves open is 13 (or what the graph's own shapes need), another
/// open axis 128 (or what the cells of a recurrent layer need). Learned are the variables that an optimizer updates or that
/// the collection of trainable ones names, and those at places for weights; without both all but moving averages; in a
/// graph without variables constants of floating-point numbers at places for weights, and others but for those with names
/// that TensorFlow gives ("Const", "x", "y"). Throws InputError, also if the layers do not have all parameters that the
/// operators read.
ImportedModel read_tensorflow_graph(const Source& source);

}  // namespace rehearse
