#pragma once
// Configurations of HuggingFace's transformers: config.json beside a model's weights.

#include "workloads/importers/importer.hpp"

namespace rehearse {

/// An object with a "model_type".
bool is_huggingface_config(const Source& source);

/// A model of family "transformer", for GPT-2, GPT-NeoX, OPT, BERT, RoBERTa, Llama, Mistral, Mixtral, Qwen2, Gemma, Phi-3 and T5.
/// Sequences are as long as the model takes, at most 4096. A key that is not there has the value that transformers gives
/// it, where that is the same for all models of the family. Throws InputError, also for other mixtures of experts.
ImportedModel read_huggingface_config(const Source& source);

}  // namespace rehearse
