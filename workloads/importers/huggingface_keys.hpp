#pragma once
// The keys of transformers' configurations that do not change what is built: neither its parameters nor its operators.

#include <string_view>

namespace rehearse {

/// Whether `key` of a configuration of model type `type` is known to change neither a size nor a layer: names, tokens,
/// initial values, activation functions, rotations, generation of text, what is returned.
bool is_without_effect(std::string_view type, std::string_view key);

/// Whether a key that is not known is named like one that changes layers or sizes, such as "num_experts_shared".
bool tells_of_structure(std::string_view key);

}  // namespace rehearse
