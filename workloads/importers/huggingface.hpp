#pragma once
// Configurations of HuggingFace's transformers: config.json beside a model's weights.

#include "workloads/importers/importer.hpp"

namespace rehearse {

/// An object with a "model_type", "architectures", or the sizes that such files have.
bool is_huggingface_config(const Source& source);

/// A model of family "transformer", or "two_towers" for CLIP, with the head of the class in "architectures", or of the
/// usual class without. Which model types are known, and which are refused by name with a reason, is in the tables of
/// huggingface.cpp. Sequences are as long as the model takes, at most 4096. A size that is not there is that of
/// transformers, and remarked. Throws InputError for other types and classes, for what is not built (attention to an
/// encoder of another file, layers without experts in no order, ..) and for unknown keys whose names tell of structure.
ImportedModel read_huggingface_config(const Source& source);

}  // namespace rehearse
